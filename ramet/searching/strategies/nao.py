"""Neural architecture optimisation: climb a predictor of the reward in a continuous embedding, and decode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss, normalize

from ramet.errors import ConfigError
from ramet.searching.strategies.base import Strategy, cloned, mutate
from ramet.seeding import seeded_globally
from ramet.spaces import Arch, Space


class Nao(Strategy):
    """An encoder, a predictor and a decoder, trained together on all that was observed.

    The encoder maps an architecture to an embedding e, the predictor f maps e to a reward, the decoder maps e back to
    the architecture. They minimise t (f(e) - s)^2 + (1 - t) L_dec, s being the reward scaled to [0, 1] and t
    ``trade_off``. New architectures are decoded from e + eta df/de for the best ``num_starts`` observed ones, with a
    step size eta that rises until enough new ones are found.

    The first ``num_seeds`` architectures are random. Then the three are trained again whenever at least
    ``train_every`` new observations have come.

    Departs from the reference: rewards of an architecture that was observed several times are averaged; when climbing
    finds too few new architectures, mutations of the best fill up.

    Args:
        num_seeds: random architectures at the start: 600 for CNN and 1000 for RNN search.
        num_starts: how many of the best observed architectures the steps start from, 100.
        epochs: passes over the observations in a training; the reference takes 1000.
        train_every: new observations after which the model is trained again.
        hidden_size: width of encoder and decoder, 96.
        embedding_size: width of a decision's embedding, 48.
        predictor_layers: hidden layers of 200 units: 3 for CNN and 4 for RNN search.
        dropout: of the predictor, 0.1.
        learning_rate: Adam's, 1e-3.
        trade_off: 0.8.
        weight_decay: 1e-4.
        clip_norm: 5.

    Reference: Luo et al., Neural Architecture Optimization, 2018.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        num_seeds: int = 600,
        num_starts: int = 100,
        epochs: int = 200,
        train_every: int = 100,
        hidden_size: int = 96,
        embedding_size: int = 48,
        predictor_layers: int = 3,
        dropout: float = 0.1,
        learning_rate: float = 1e-3,
        trade_off: float = 0.8,
        weight_decay: float = 1e-4,
        clip_norm: float = 5.0,
    ) -> None:
        super().__init__(space, seed=seed)
        counts = (num_seeds, num_starts, epochs, train_every, hidden_size, embedding_size, predictor_layers)
        if min(counts) < 1 or not 0 < trade_off < 1:
            raise ConfigError(
                f"NAO's counts must be at least 1 and trade_off in (0, 1), but got {(*counts, trade_off)}."
            )
        self.num_seeds, self.num_starts, self.epochs, self.train_every = num_seeds, num_starts, epochs, train_every
        self.trade_off, self.clip_norm = trade_off, clip_norm
        with seeded_globally(seed, "nao"):
            self.model = Autoencoder(space.num_options, embedding_size, hidden_size, predictor_layers, dropout)
        self._optimizer = torch.optim.Adam(
            self.model.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True
        )
        self._rewards: dict[Arch, list[float]] = {}  # sum and count
        self._drawn = 0
        self._num_observed = 0
        self._trained_at = 0
        self._losses: dict[str, float] = {}

    def draw(self, n: int) -> list[Arch]:
        """Random seeds first; then what climbing finds, each architecture new if there are enough."""
        archs: list[Arch] = []
        while len(archs) < n and (self._drawn < self.num_seeds or not self._rewards):
            archs.append(self.sample())
            self._drawn += 1
        if len(archs) < n:
            if self._trained_at == 0 or self._num_observed - self._trained_at >= self.train_every:
                self._train()
            archs += self._climb(n - len(archs))
        return archs

    def learn(self, archs: list[Arch], rewards: list[float]) -> None:
        """Keep the rewards; the model learns when it is next needed."""
        for arch, reward in zip(archs, rewards, strict=True):
            entry = self._rewards.setdefault(arch, [0.0, 0])
            entry[0] += reward
            entry[1] += 1
        self._num_observed += len(archs)

    def derive(self, n: int) -> list[Arch]:
        """The observed architectures of the highest mean reward."""
        return self._ranked()[:n] or super().derive(n)

    def report(self) -> dict[str, float]:
        """The losses of the last training."""
        return dict(self._losses)

    def _ranked(self) -> list[Arch]:
        return sorted(self._rewards, key=lambda arch: -self._rewards[arch][0] / self._rewards[arch][1])

    def _train(self) -> None:
        archs = list(self._rewards)
        choices = torch.tensor(archs)  # [n, decisions]
        means = torch.tensor([total / count for total, count in self._rewards.values()])
        low, high = means.min(), means.max()
        scores = (means - low) / (high - low).clamp_min(1e-12)  # [n], in [0, 1]
        batch = min(100, len(archs))
        self.model.train()
        # The predictor's dropout draws from the global generator, which is seeded for the time of the training.
        with seeded_globally(self.below(2**31), "dropout"):
            for _ in range(self.epochs):
                order = torch.randperm(len(archs), generator=self.generator)
                for rows in torch.split(order, batch):
                    outputs = self.model.encode(choices[rows])
                    predicted = mse_loss(self.model.predict(outputs), scores[rows])
                    decoded = self.model.decoding_loss(outputs, choices[rows])
                    loss = self.trade_off * predicted + (1 - self.trade_off) * decoded
                    self._optimizer.zero_grad()
                    torch.autograd.backward(loss)
                    nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
                    self._optimizer.step()
        self.model.eval()
        self._losses = {"predictor_loss": float(predicted.detach()), "decoder_loss": float(decoded.detach())}
        self._trained_at = self._num_observed

    def _climb(self, n: int) -> list[Arch]:
        """New architectures along the predictor's gradient, those predicted best first."""
        self.model.eval()
        starts = self._ranked()[: self.num_starts]
        found: dict[Arch, None] = {}
        outputs = self.model.encode(torch.tensor(starts)).detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.model.predict(outputs).sum(), outputs)  # [starts, decisions, hidden]
        slope = slope / slope.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None]
        with torch.no_grad():
            for step in range(1, 31):
                moved = self.model.normalise(outputs + 0.1 * step * slope)
                for row in self.model.decode(moved).tolist():
                    if tuple(row) not in self._rewards:
                        found.setdefault(tuple(row))
                if len(found) >= n:
                    break
            archs = list(found)
            if archs:
                predicted = self.model.predict(self.model.encode(torch.tensor(archs)))
                archs = [archs[place] for place in torch.argsort(predicted, descending=True, stable=True).tolist()]
        for attempt in range(20 * n):
            if len(archs) >= n:
                break
            fresh = mutate(self, starts[self.below(min(10, len(starts)))])
            if attempt >= 10 * n or (fresh not in self._rewards and fresh not in archs):  # a small space runs out
                archs.append(fresh)
        return archs[:n]

    def state(self) -> dict[str, Any]:
        """The generator, the model, its optimizer and all that was observed."""
        return {
            "generator": self.generator.get_state(),
            "model": {name: tensor.clone() for name, tensor in self.model.state_dict().items()},
            "optimizer": cloned(self._optimizer.state_dict()),
            "rewards": [[list(arch), total, count] for arch, (total, count) in self._rewards.items()],
            "counts": [self._drawn, self._num_observed, self._trained_at],
            "losses": dict(self._losses),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.generator.set_state(state["generator"])
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(cloned(state["optimizer"]))
        self._rewards = {tuple(arch): [total, count] for arch, total, count in state["rewards"]}
        self._drawn, self._num_observed, self._trained_at = state["counts"]
        self._losses = dict(state["losses"])


class Autoencoder(nn.Module):
    """NAO's model: an LSTM embeds an architecture, an MLP predicts its reward, an LSTM writes it down again.

    The embedding of an architecture is the encoder's normalised output at each decision, [decisions, hidden]; the
    predictor, whose hidden layers have 200 units each, sees its mean, the decoder begins from its mean and attends to
    all of it.
    """

    offsets: Tensor

    def __init__(
        self, num_options: Sequence[int], embedding_size: int, hidden_size: int, predictor_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.num_options = tuple(num_options)
        offsets = torch.tensor([0, *num_options]).cumsum(0)[:-1]
        self.register_buffer("offsets", offsets, persistent=False)  # a decision's options have words of their own
        self.embedding = nn.Embedding(sum(num_options), embedding_size)
        self.encoder = nn.LSTM(embedding_size, hidden_size, batch_first=True)
        layers: list[nn.Module] = []
        for layer in range(predictor_layers):
            layers += [nn.Linear(hidden_size if layer == 0 else 200, 200), nn.ReLU(), nn.Dropout(dropout)]
        self.predictor = nn.Sequential(*layers, nn.Linear(200, 1), nn.Sigmoid())
        self.start = nn.Parameter(torch.zeros(embedding_size))
        self.decoder = nn.LSTM(embedding_size, hidden_size, batch_first=True)
        self.attended = nn.Linear(2 * hidden_size, hidden_size)
        self.heads = nn.ModuleList(nn.Linear(hidden_size, options) for options in num_options)

    def encode(self, choices: Tensor) -> Tensor:
        """The embedding of architectures, [n, decisions] to [n, decisions, hidden]."""
        outputs, _ = self.encoder(self.embedding(choices + self.offsets))
        return self.normalise(outputs)

    def normalise(self, outputs: Tensor) -> Tensor:
        """Unit length at each decision, so that a step in the embedding has a scale."""
        return normalize(outputs, dim=-1)

    def predict(self, outputs: Tensor) -> Tensor:
        """The predicted reward in [0, 1], shape [n]."""
        predicted: Tensor = self.predictor(normalize(outputs.mean(dim=1), dim=-1))[:, 0]
        return predicted

    def decoding_loss(self, outputs: Tensor, choices: Tensor) -> Tensor:
        """The cross-entropy of writing the architectures down again, the mean over decisions."""
        words = self.embedding(choices + self.offsets)[:, :-1]  # what is known when a decision is written
        start = self.start.expand(len(outputs), 1, -1)
        hidden, _ = self.decoder(torch.cat([start, words], dim=1), self._first_state(outputs))
        read = self._attend(outputs, hidden)  # [n, decisions, hidden]
        losses = [cross_entropy(head(read[:, place]), choices[:, place]) for place, head in enumerate(self.heads)]
        return torch.stack(losses).mean()

    def decode(self, outputs: Tensor) -> Tensor:
        """The most probable architecture, decision by decision, shape [n, decisions]."""
        x, state = self.start.expand(len(outputs), 1, -1), self._first_state(outputs)
        choices = []
        for place, head in enumerate(self.heads):
            hidden, state = self.decoder(x, state)
            choices.append(head(self._attend(outputs, hidden)[:, 0]).argmax(dim=1))
            x = self.embedding(choices[-1] + self.offsets[place])[:, None]
        return torch.stack(choices, dim=1)

    def _first_state(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        mean = outputs.mean(dim=1)[None]  # [1, n, hidden]
        return mean, torch.zeros_like(mean)

    def _attend(self, outputs: Tensor, hidden: Tensor) -> Tensor:
        """What the decoder reads at each step of ``hidden``, [n, steps, hidden], from the whole embedding."""
        weights = torch.softmax(hidden @ outputs.transpose(1, 2), dim=2)  # [n, steps, decisions]
        read: Tensor = torch.tanh(self.attended(torch.cat([weights @ outputs, hidden], dim=2)))
        return read
