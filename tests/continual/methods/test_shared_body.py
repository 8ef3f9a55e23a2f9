"""Parts of a shared body compose: a guard, a rehearsal and former answers in one method, beside a loss by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch.nn.functional import cross_entropy

from ramet.continual.methods.distillation import FormerAnswers, distillation_loss
from ramet.continual.methods.elastic import GuardPart
from ramet.continual.methods.replay import Rehearsal
from ramet.continual.methods.shared_body import Part, SharedBody
from ramet.guards import ElasticConsolidation
from ramet.testing import methods as suite


@dataclass(kw_only=True, eq=False)
class AllParts(SharedBody):
    name: ClassVar[str] = "all-parts"

    def make_parts(self) -> list[Part]:
        rehearsal = Rehearsal(12, self.skeleton.shape_before(0), self.seed, self.device)
        return [GuardPart(ElasticConsolidation(10.0), 20, self.seed), rehearsal, FormerAnswers(0.5, 2.0)]


@pytest.mark.parametrize("check", suite.METHOD_CHECKS, ids=lambda check: check.__name__)
def test_all_parts_together_keep_what_the_seam_promises(check):
    check(AllParts)


def test_the_loss_of_all_parts_by_hand():
    method, stream = suite.started(AllParts, suite.make_skeletons()["linear"]), suite.make_stream()
    suite.learn_next(method, stream)
    guard, rehearsal, answers = method.parts
    data, shared = stream[1].data().train, method.shared
    method._add_head(stream[1].info.num_classes, 1)
    for part in method.parts:
        part.prepare(shared, 1, data)
    shared.body[0].weights.weight.data.mul_(1.1)  # the former answers are no longer what the first head says
    indices = torch.tensor([3, 1, 4])
    torch.manual_seed(0)
    found = method._loss(data, 1)(data.x[indices], data.y[indices], indices)
    torch.manual_seed(0)
    drawn = torch.randint(len(rehearsal._y), (3,))
    own = cross_entropy(shared(data.x[indices], 1), data.y[indices], reduction="sum")
    old = cross_entropy(shared(rehearsal._x[drawn], 0), rehearsal._y[drawn], reduction="sum")
    held = distillation_loss(shared(data.x[indices], 0), answers._answers[0][indices], 2.0)
    # Sums of six terms in another order: a few roundings of float32.
    torch.testing.assert_close(found, (own + old) / 6 + 0.5 * held, rtol=1e-5, atol=1e-6)
    assert set(method.state()) == {"network", "guard", "memory"}
    assert guard.guard.state_dict()


def test_guards_of_several_parts_are_chained():
    counted = []

    class Counting(ElasticConsolidation):
        def after_step(self, path, step_sizes):
            counted.append(self.strength)
            super().after_step(path, step_sizes)

    class TwoGuards(SharedBody):
        name = "two-guards"

        def make_parts(self):
            return [GuardPart(Counting(strength), 20, self.seed) for strength in (1.0, 2.0)]

    method, stream = suite.started(TwoGuards), suite.make_stream()
    suite.learn_next(method, stream)
    assert counted[:4] == [1.0, 2.0, 1.0, 2.0]
