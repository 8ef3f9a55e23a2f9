"""Random choice: of units to split, or of units to split and new ones; alone, or the best of a few tries.

The Firefly paper's ``RandSearch``: a random neuron is split in a random direction, a few times over, each try is
trained for a while, and the best is kept. With one try it is plain random growth, the weakest baseline there is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.growth.base import Candidate, Edit, Growth, GrowthContext, Proposal
from ramet.growth.methods.candidate_network import CandidateNetwork


class RandomChoice(Growth):
    """Growth by chance: of units to split, or of units to split and new ones.

    Args:
        num_new: brand-new candidates for each group beside the splits; 0 is "split", 5 the paper's "split+new".
        epsilon: the length of a split's step, and the scale of a new unit's outgoing weights.
        num_tries: networks that are tried; the paper has 3. With 1 nothing is trained or compared.
        num_steps: mini-batches that each try is trained for; 100 in B.1.
        new_scale: standard deviation of new incoming weights.
    """

    def __init__(
        self,
        *,
        num_new: int = 0,
        epsilon: float = 0.1,
        num_tries: int = 1,
        num_steps: int = 100,
        new_scale: float = 0.1,
    ) -> None:
        if num_new < 0 or num_tries < 1 or num_steps < 0 or not epsilon > 0:
            raise ConfigError(
                "num_new and num_steps must not be negative, num_tries at least 1 and epsilon positive, but got "
                f"{num_new}, {num_steps}, {num_tries} and {epsilon}."
            )
        self.num_new, self.epsilon, self.num_tries = num_new, epsilon, num_tries
        self.num_steps, self.new_scale = num_steps, new_scale

    def propose(self, context: GrowthContext) -> Proposal:
        """All splits in random directions, and new units; or whole networks, each grown by a random choice of them."""
        over = CandidateNetwork(context, split=True, num_new=self.num_new, new_scale=self.new_scale)
        if self.num_tries == 1:
            return Proposal(over.candidates, notes={"over": over})
        edits = []
        for number in range(self.num_tries):
            scores = torch.rand(len(over.candidates), generator=context.generator("try", number), dtype=torch.float64)
            edits.append(self._edit(over, context.choose(over.candidates, scores)))
        return Proposal([Candidate("morph", "", i) for i in range(self.num_tries)], True, {"edits": edits})

    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """Random, or minus the loss after a short training."""
        if not proposal.exclusive:
            generator = context.generator("scores")
            return torch.rand(len(proposal.candidates), generator=generator, dtype=torch.float64)
        return score_by_training(context, proposal, self.num_steps)

    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """The chosen units, or the chosen network with the weights that it was trained to."""
        if not proposal.exclusive:
            return self._edit(proposal.notes["over"], chosen)
        edit: Edit = proposal.notes["edits"][chosen[0]]
        return edit

    def _edit(self, over: CandidateNetwork, chosen: Sequence[int]) -> Edit:
        return over.edit(chosen, over.step_sizes(self.epsilon))


def score_by_training(context: GrowthContext, proposal: Proposal, num_steps: int) -> Tensor:
    """Train every proposed network for a while; minus its validation loss. The edits keep the trained weights."""
    scores = []
    for edit in proposal.notes["edits"]:
        network = context.grown(edit)
        # The same batches for each, so that they differ by their growth alone.
        context.train(network, num_steps, "trial")
        edit.weights = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
        loss = context.validation_loss(network)
        scores.append(-loss if loss == loss else -torch.inf)
    return torch.tensor(scores, dtype=torch.float64)
