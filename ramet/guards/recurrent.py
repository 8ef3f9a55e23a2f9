"""The inputs of recurrent weights: the sequence or the previous states.

torch returns the states of the last layer only, so that those of each layer are computed again, one layer at a time.
Departs from what ran where dropout lies between the layers: the states are those without it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ramet.guards.precision import precise


def cell_inputs(cell: nn.RNNCellBase, x: Tensor, state: Any) -> dict[str, Tensor]:
    """The input and the previous state of one step of a cell, [1, width, n] each, by the weight's name."""
    hidden = state[0] if isinstance(state, tuple) else state
    x = precise(x).reshape(-1, cell.input_size)
    hidden = x.new_zeros(x.shape[0], cell.hidden_size) if hidden is None else precise(hidden)
    return {"weight_ih": x.mT.unsqueeze(0), "weight_hh": hidden.reshape(-1, cell.hidden_size).mT.unsqueeze(0)}


def recurrent_inputs(layer: nn.RNNBase, x: Tensor | PackedSequence, state: Any) -> dict[str, Tensor]:
    """The inputs of every weight matrix of an ``nn.RNN``, ``nn.LSTM`` or ``nn.GRU``, of any depth and direction.

    ``x`` is a batch, a single sequence, or packed sequences; ``state`` the initial state as it was given to the layer.
    For each ``weight_ih_l0``, ``weight_hh_l0`` and so on it gives the columns [1, width, n], one a sample and time
    step.
    """
    sequence, lengths = _time_major(layer, x)  # [time, batch, features], [batch]
    time, batch, _ = sequence.shape
    hidden, memory = _initial(layer, state, batch, sequence)
    directions = 2 if layer.bidirectional else 1
    valid = torch.arange(time, device=sequence.device).unsqueeze(1) < lengths.to(sequence.device)  # [time, batch]
    found: dict[str, Tensor] = {}
    for depth in range(layer.num_layers):
        places = slice(depth * directions, (depth + 1) * directions)
        start = hidden[places]  # [directions, batch, hidden]
        first = (start, memory[places]) if memory is not None else start
        states = _run_layer(layer, depth, sequence, lengths, first)  # [time, batch, directions * hidden]
        for direction, own in enumerate(states.chunk(directions, dim=-1)):
            name = f"l{depth}" + ("_reverse" if direction else "")
            previous = _previous(own, start[direction], lengths, backwards=bool(direction))
            found[f"weight_ih_{name}"] = sequence[valid].mT.unsqueeze(0)  # [1, width, n]
            found[f"weight_hh_{name}"] = previous[valid].mT.unsqueeze(0)
            if memory is not None and layer.proj_size:
                begin = memory[places][direction]
                cells = _cell_outputs(layer, name, sequence, previous, begin, valid, backwards=bool(direction))
                found[f"weight_hr_{name}"] = cells[valid].mT.unsqueeze(0)
        sequence = states
    return found


def _time_major(layer: nn.RNNBase, x: Tensor | PackedSequence) -> tuple[Tensor, Tensor]:
    """The sequences as [time, batch, features], and their lengths on the CPU."""
    if isinstance(x, PackedSequence):
        sequence, lengths = pad_packed_sequence(x)
        return precise(sequence), lengths
    sequence = precise(x.unsqueeze(1) if x.dim() == 2 else x.transpose(0, 1) if layer.batch_first else x)
    return sequence, torch.full((sequence.shape[1],), sequence.shape[0])


def _initial(layer: nn.RNNBase, state: Any, batch: int, like: Tensor) -> tuple[Tensor, Tensor | None]:
    """The initial hidden state, [layers * directions, batch, hidden], and an LSTM's initial memory."""
    places = layer.num_layers * (2 if layer.bidirectional else 1)
    hidden_size = layer.proj_size or layer.hidden_size
    is_lstm = isinstance(layer, nn.LSTM)
    if state is None:
        memory = like.new_zeros(places, batch, layer.hidden_size) if is_lstm else None
        return like.new_zeros(places, batch, hidden_size), memory
    hidden = precise(state[0] if is_lstm else state).reshape(places, batch, hidden_size)
    return hidden, precise(state[1]).reshape(places, batch, layer.hidden_size) if is_lstm else None


def _run_layer(layer: nn.RNNBase, depth: int, sequence: Tensor, lengths: Tensor, first: Any) -> Tensor:
    """The states of one layer alone, [time, batch, directions * hidden]."""
    options: dict[str, Any] = {"proj_size": layer.proj_size} if isinstance(layer, nn.LSTM) else {}
    if isinstance(layer, nn.RNN):
        options["nonlinearity"] = layer.nonlinearity
    kind: Any = type(layer)
    alone = kind(
        sequence.shape[-1],
        layer.hidden_size,
        bias=layer.bias,
        bidirectional=layer.bidirectional,
        device="meta",
        dtype=sequence.dtype,
        **options,
    )
    weights = {}
    for name, _ in alone.named_parameters():
        weights[name] = precise(getattr(layer, name.replace("_l0", f"_l{depth}")))
    packed = pack_padded_sequence(sequence, lengths, enforce_sorted=False)
    states, _ = functional_call(alone, weights, (packed, first))
    return pad_packed_sequence(states, total_length=sequence.shape[0])[0]


def _previous(states: Tensor, start: Tensor, lengths: Tensor, *, backwards: bool) -> Tensor:
    """The state before each step, [time, batch, hidden]; the initial one before a sequence's first step."""
    if not backwards:
        return torch.cat([start.unsqueeze(0), states[:-1]])
    shifted = torch.cat([states[1:], start.unsqueeze(0)])
    last = (lengths - 1).to(states.device)
    shifted[last, torch.arange(len(last), device=states.device)] = start
    return shifted


def _cell_outputs(
    layer: nn.RNNBase, name: str, sequence: Tensor, previous: Tensor, start: Tensor, valid: Tensor, *, backwards: bool
) -> Tensor:
    """What an LSTM's projection of its states is multiplied with, o tanh(c), [time, batch, hidden].

    The inputs and the states before each step are known, so that only the memory c has to be followed in time, from
    ``start``, [batch, hidden]; steps that are not ``valid``, [time, batch], leave it as it is.
    """
    weights = [precise(getattr(layer, f"{part}_{name}")) for part in ("weight_ih", "weight_hh")]
    biases = [precise(getattr(layer, f"{part}_{name}")) if layer.bias else None for part in ("bias_ih", "bias_hh")]
    gates = functional.linear(sequence, weights[0], biases[0]) + functional.linear(previous, weights[1], biases[1])
    enter, keep, new, out = gates.chunk(4, dim=-1)
    added = enter.sigmoid() * new.tanh()
    memory, memories = start, [start] * len(sequence)
    for time in reversed(range(len(sequence))) if backwards else range(len(sequence)):
        memory = torch.where(valid[time].unsqueeze(-1), keep[time].sigmoid() * memory + added[time], memory)
        memories[time] = memory
    return out.sigmoid() * torch.stack(memories).tanh()
