"""NAO's model: an LSTM embeds an architecture, an MLP predicts its reward, an LSTM writes it down again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize


class Autoencoder(nn.Module):
    """Encoder, predictor and decoder over sequences of decisions.

    The embedding of an architecture is the encoder's normalised output at each decision, [decisions, hidden]; the
    predictor sees its mean, the decoder begins from its mean and attends to all of it.

    Args:
        num_options: for each decision the number of its options.
        embedding_size: width of a decision's embedding.
        hidden_size: width of both LSTMs.
        predictor_layers: hidden layers of the predictor, of 200 units each.
        dropout: of the predictor.
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
