"""Firefly's scores and steps: over how many mini-batches, splits beside new units, and which step is kept."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from ramet.growth.budget import Budget
from ramet.growth.methods.candidate_network import CandidateNetwork
from ramet.growth.methods.firefly import (
    Firefly,
    affordable_passes,
    integrated_gradients,
    integrated_in_turn,
    weighed_apart,
)
from ramet.testing.growths import choose, make_context
from ramet.training import Recipe


def scene(num_samples=640, epochs=10):
    """Twenty mini-batches an epoch, of data that the network has not learned."""
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    inputs = torch.randn(4, 2).double()
    context = make_context(network, inputs, budget=Budget("neurons", 1e9, 4.0), num_samples=num_samples)
    return replace(context, recipe=Recipe(epochs=epochs))


@pytest.mark.parametrize(
    ("epochs", "share", "passes"), [(10, 0.15, 9), (1, 0.15, 3), (10, 0.0, 3), (10, 0.3, 18), (200, 0.15, 18)]
)
def test_scores_take_their_share_of_the_work_and_no_more(epochs, share, passes):
    """3 units become 9, 12 multiply-adds 36: each of 20 mini-batches an epoch costs three steps of the training."""
    context = scene(epochs=epochs)
    over = CandidateNetwork(context, num_new=3)
    assert affordable_passes(context, over, 3, share) == passes
    assert passes in (3, 18) or 3 * passes <= share * 20 * epochs


def test_each_mini_batch_is_taken_at_one_point_in_turn():
    context = scene()
    over = CandidateNetwork(context, num_new=3)
    epsilon = torch.linspace(-0.1, 0.1, 6, dtype=torch.float64)
    batches = list(context.batches(6, "score"))
    found = integrated_in_turn(context, over, epsilon, iter(batches), 3)
    expected = torch.zeros_like(epsilon)
    for number, (x, y) in enumerate(batches):
        at = (epsilon * [1, 3, 5][number % 3] / 6).requires_grad_()
        (gradient,) = torch.autograd.grad(context.loss(over(x, at), y), at)
        expected += gradient / 6
    assert torch.allclose(found, expected, atol=1e-15)


def test_scores_over_more_mini_batches_come_nearer_to_those_of_the_epoch():
    """At the default share of a training of 40 epochs these are 18 of 20; one alone has the wrong sign in a third."""
    context = scene(epochs=40)
    method = Firefly(num_new=8, num_steps=0, apart=False)
    proposal = method.propose(context)
    over, epsilon = proposal.notes["over"], proposal.notes["epsilon"]
    single = torch.stack(
        [integrated_gradients(context, over, epsilon, [batch], 3) for batch in context.batches(20, "score")]
    )
    whole = single.mean(0)
    method.score(context, proposal)
    signed, new = proposal.notes["signed"], slice(3, None)
    error = (signed - whole)[new].square().mean().sqrt()
    assert error < 0.25 * (single - whole)[:, new].square().mean().sqrt()
    agrees = (signed.sign() == whole.sign())[new].double().mean()
    assert agrees > (single.sign() == whole.sign())[:, new].double().mean()
    # A mini-batch at one point says as much as at all three, for a third of the work.
    dear = single[:18].mean(0)
    assert torch.allclose(signed[new], dear[new], atol=0.1 * float((single - whole).std()))


def test_splits_are_weighed_against_splits():
    """Their gain is of second order in epsilon, that of new units of first: apart, both stand out alike."""
    ratios = {}
    for epsilon in (1e-2, 1e-3):
        for apart in (False, True):
            method = Firefly(num_new=3, epsilon=epsilon, num_steps=0, apart=apart, worth="gain")
            proposal, scores, chosen = choose(method, scene())
            is_split = torch.tensor([candidate.kind == "split" for candidate in proposal.candidates])
            sizes = scores[is_split].square().mean().sqrt(), scores[~is_split].square().mean().sqrt()
            ratios[epsilon, apart] = float(sizes[0] / sizes[1])
            assert proposal.candidates[chosen[0]].kind == ("split" if apart else "new")
        paper = Firefly(num_new=3, epsilon=epsilon, num_steps=0, steps="full", apart=False, worth="gain")
        proposal, _, chosen = choose(paper, scene())
        assert [proposal.candidates[number].kind for number in chosen[:3]] == ["new"] * 3, "before any split"
    assert ratios[1e-3, False] == pytest.approx(ratios[1e-2, False] / 10, rel=0.2) and ratios[1e-2, False] < 0.1
    assert ratios[1e-2, True] == pytest.approx(1) and ratios[1e-3, True] == pytest.approx(1)


def test_scores_without_a_kind_or_without_size_stay():
    proposal = Firefly(num_new=0, layer_width=0, num_steps=0).propose(scene())
    assert torch.equal(weighed_apart(torch.zeros(3), proposal.candidates), torch.zeros(3))
    assert torch.allclose(
        weighed_apart(torch.tensor([3.0, 0.0, 0.0]), proposal.candidates)[0], torch.tensor(3.0).sqrt()
    )


def test_the_trained_step_is_kept_whatever_the_sign_of_a_noisy_score():
    """The same proposal, with every sign wrong: full steps raise the loss, trained ones still lower it."""
    context = scene()
    method = Firefly(num_new=6, split=False, layer_width=0, num_steps=60, learning_rate=0.01)
    proposal, scores, chosen = choose(method, context)
    over, trained = proposal.notes["over"], proposal.notes["epsilon"]
    edit = method.apply(context, proposal, chosen)
    (widening,) = edit.widenings.values()
    best = sorted(range(len(scores)), key=lambda number: -float(scores[number]))[: len(chosen)]
    assert sorted(chosen) == sorted(best)
    expected = over.edit(chosen, trained).widenings["0"].outgoing["2.weight"]
    assert torch.equal(widening.outgoing["2.weight"], expected)
    before = context.validation_loss(context.network)
    proposal.notes["signed"] = -proposal.notes["signed"]
    assert context.validation_loss(context.grown(method.apply(context, proposal, chosen))) < before
    full = Firefly(num_new=6, split=False, layer_width=0, steps="full")
    assert context.validation_loss(context.grown(full.apply(context, proposal, chosen))) > before
