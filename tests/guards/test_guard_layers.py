"""Orthogonal projection on every kind of layer: seen inputs do not notice an update."""

from __future__ import annotations

import pytest
import torch
from guarded_layer import columns_by_key, double, guarded_update, remembered, seeded
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from ramet.guards import NoGuard, OrthogonalProjection
from ramet.guards.closing import closed_form, theorem_bound, tight_bound


def conv(kind, *args, **options):
    return lambda: kind(*args, **options).double()


CONVOLUTIONS = {
    "1d": (conv(nn.Conv1d, 3, 4, 3, stride=2, padding=1), (2, 3, 9)),
    "plain": (conv(nn.Conv2d, 2, 5, 3), (2, 2, 5, 6)),
    "no-bias": (conv(nn.Conv2d, 2, 5, (3, 2), bias=False), (2, 2, 5, 6)),
    "stride": (conv(nn.Conv2d, 2, 4, 3, stride=(2, 1), padding=(1, 2)), (2, 2, 6, 5)),
    "dilation": (conv(nn.Conv2d, 2, 4, 3, dilation=(1, 2), padding=2), (2, 2, 6, 7)),
    "groups": (conv(nn.Conv2d, 4, 6, 3, groups=2, padding=1), (2, 4, 4, 4)),
    "depthwise": (conv(nn.Conv2d, 3, 3, 5, groups=3, padding=2, bias=False), (2, 3, 6, 6)),
    "multiplier": (conv(nn.Conv2d, 3, 6, 3, groups=3, dilation=2, padding=2), (2, 3, 6, 6)),
    "same": (conv(nn.Conv2d, 2, 3, (3, 4), padding="same", dilation=(1, 2)), (2, 2, 5, 8)),
    "valid": (conv(nn.Conv2d, 2, 3, 2, padding="valid"), (2, 2, 5, 5)),
    "reflect": (conv(nn.Conv2d, 2, 3, 3, padding=(1, 2), padding_mode="reflect"), (2, 2, 5, 6)),
    "circular": (conv(nn.Conv2d, 2, 3, 3, padding=(2, 1), padding_mode="circular"), (2, 2, 5, 6)),
    "replicate-same": (conv(nn.Conv2d, 2, 3, 3, padding="same", padding_mode="replicate"), (2, 2, 5, 6)),
    "3d": (conv(nn.Conv3d, 2, 4, (2, 3, 2), stride=(1, 2, 1), dilation=(2, 1, 1), padding=(1, 1, 0)), (2, 2, 5, 6, 4)),
    "unbatched": (conv(nn.Conv2d, 2, 3, 3), (2, 6, 6)),
}
LINEARS = {
    "linear": (lambda: nn.Linear(5, 4).double(), (3, 5)),
    "linear-no-bias": (lambda: nn.Linear(5, 4, bias=False).double(), (3, 5)),
    "linear-sequence": (lambda: nn.Linear(5, 4).double(), (2, 3, 5)),
    "linear-single": (lambda: nn.Linear(5, 4).double(), (5,)),
}


@pytest.mark.parametrize("name", [*CONVOLUTIONS, *LINEARS])
def test_columns_reproduce_the_layer(name):
    """Weight times columns is what the layer computes: so the columns are what it sees, in the weight's own order."""
    make, shape = {**CONVOLUTIONS, **LINEARS}[name]
    layer, x = seeded(make), seeded(double, shape)
    (columns,) = columns_by_key(layer, x).values()
    groups = columns.shape[0]
    weight = layer.weight.detach().reshape(groups, layer.weight.shape[0] // groups, -1)
    if layer.bias is not None:
        weight = torch.cat([weight, layer.bias.detach().reshape(groups, -1, 1)], dim=-1)
    product = (weight @ columns).reshape(layer.weight.shape[0], -1)  # [outputs, samples * positions]
    output = layer(x).detach()
    if isinstance(layer, nn.Linear):
        expected = output.reshape(-1, output.shape[-1]).mT
    else:
        output = output if output.dim() == len(layer.kernel_size) + 2 else output[None]
        expected = output.transpose(0, 1).reshape(output.shape[1], -1)
    torch.testing.assert_close(product, expected)


@pytest.mark.parametrize("lam", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("name", [*CONVOLUTIONS, *LINEARS])
def test_outputs_on_seen_inputs_change_by_at_most_the_bounds(name, lam):
    make, shape = {**CONVOLUTIONS, **LINEARS}[name]
    layer, x = seeded(make), seeded(double, shape)
    guard = remembered(layer, x, regularisation=lam)
    before = layer(x).detach()
    raw, moved = guarded_update(guard, layer)
    change = float((layer(x).detach() - before).norm())
    whole = torch.cat([update.reshape(-1) for update in raw.values()])
    assert change <= float(tight_bound(whole, lam)) + 1e-6
    (columns,) = columns_by_key(layer, x).values()
    if columns.shape[0] == 1 and columns.shape[2] >= columns.shape[1]:
        assert change <= float(theorem_bound(columns[0], whole, lam)) + 1e-6
    if guard.report()["open_share"] > 0.05:  # and what is open still learns
        assert sum(float(update.norm()) for update in moved.values()) > 0.01


@pytest.mark.parametrize("name", ["groups", "same", "3d"])
def test_the_projection_is_the_closed_form_of_the_columns(name):
    make, shape = CONVOLUTIONS[name]
    layer, x = seeded(make), seeded(double, shape)
    guard = remembered(layer, x, regularisation=0.7)
    (columns,) = columns_by_key(layer, x).values()
    for group, matrix in enumerate(guard.state_dict()["matrix/weight+bias"]):
        torch.testing.assert_close(matrix, closed_form(columns[group], 0.7))


@pytest.mark.parametrize("name", [*CONVOLUTIONS, *LINEARS])
def test_mean_inputs_are_the_mean_of_the_columns(name):
    make, shape = {**CONVOLUTIONS, **LINEARS}[name]
    layer, x = seeded(make), seeded(double, shape)
    guard = remembered(layer, x, inputs="mean", regularisation=0.5)
    (columns,) = columns_by_key(layer, x).values()
    (matrices,) = (tensor for name, tensor in guard.state_dict().items() if name.startswith("matrix/"))
    for group, matrix in enumerate(matrices):
        torch.testing.assert_close(matrix, closed_form(columns[group].mean(-1, keepdim=True), 0.5))


def rnn(kind, **options):
    return lambda: kind(3, 6, **options).double()


RECURRENT = {
    "rnn": rnn(nn.RNN),
    "rnn-relu": rnn(nn.RNN, nonlinearity="relu", batch_first=True),
    "lstm": rnn(nn.LSTM, num_layers=2),
    "lstm-both-ways": rnn(nn.LSTM, num_layers=2, bidirectional=True, batch_first=True),
    "lstm-no-bias": rnn(nn.LSTM, bias=False),
    "gru": rnn(nn.GRU, num_layers=2),
    "gru-both-ways": rnn(nn.GRU, bidirectional=True),
}


@pytest.mark.parametrize("state", ["none", "given", "packed", "packed-given"])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_outputs_stay_on_seen_sequences(name, state):
    """With lambda 0 no weight's product on a seen input changes, so by induction over time no state does."""
    layer = seeded(RECURRENT[name])
    x = seeded(double, 2, 2, 3)  # few inputs, so that directions stay open
    given_state = ()
    if "given" in state:
        places = layer.num_layers * (2 if layer.bidirectional else 1)
        hidden = seeded(double, places, 2, 6, seed=5)
        given_state = ((hidden, hidden * 2) if isinstance(layer, nn.LSTM) else hidden,)
    if "packed" in state:
        x = pack_padded_sequence(seeded(double, 3, 2, 3), torch.tensor([1, 3]), enforce_sorted=False, batch_first=False)
    guard = remembered(layer, x, *given_state, regularisation=0.0)
    outputs = [layer(x, *given_state)[0]]
    _, moved = guarded_update(guard, layer)
    outputs.append(layer(x, *given_state)[0])
    before, after = (out.data.detach() for out in outputs)
    torch.testing.assert_close(after, before, rtol=0, atol=1e-7)
    assert moved["weight_hh_l0"].norm() > 0.1  # not because nothing may move
    free = seeded(RECURRENT[name])
    guarded_update(NoGuard(), free)
    assert (free(x, *given_state)[0].data - before).norm() > 0.1


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.LSTMCell, nn.GRUCell])
@pytest.mark.parametrize("given", [True, False])
def test_recurrent_cells(kind, given):
    cell, x, hidden = seeded(kind, 3, 4).double(), seeded(double, 2, 3), seeded(double, 2, 4, seed=3)
    state = ((hidden, hidden) if kind is nn.LSTMCell else hidden) if given else None
    guard = remembered(cell, x, state, regularisation=0.0)

    def output():
        found = cell(x, state)
        return (found[0] if isinstance(found, tuple) else found).detach()

    before = output()
    _, moved = guarded_update(guard, cell)
    torch.testing.assert_close(output(), before, rtol=0, atol=1e-7)
    assert moved["weight_ih"].norm() > 0.1


def test_lstm_with_projected_states():
    layer, x = seeded(nn.LSTM, 3, 6, proj_size=2, num_layers=2).double(), seeded(double, 1, 2, 3)
    guard = remembered(layer, x, regularisation=0.0)
    assert guard.memory_of(layer).unplanned == ()
    before = layer(x)[0].detach()
    _, moved = guarded_update(guard, layer)
    assert moved["weight_hr_l0"].norm() > 0.1
    torch.testing.assert_close(layer(x)[0].detach(), before, rtol=0, atol=1e-7)


@pytest.mark.parametrize("inputs", ["all", "mean"])
def test_embedding_rows_close_by_their_counts(inputs):
    table = seeded(nn.Embedding, 6, 2).double()
    guard = remembered(table, torch.tensor([[1, 1, 1], [4, 1, 4]]), regularisation=1.0, inputs=inputs)
    raw, moved = guarded_update(guard, table)
    shares = moved["weight"] / raw["weight"]
    expected = torch.tensor([1, 1 / 5, 1, 1, 1 / 3, 1], dtype=torch.float64)
    torch.testing.assert_close(shares, expected[:, None].expand(6, 2))
    # The general projection of one-hot columns says the same.
    columns = torch.eye(6, dtype=torch.float64)[[1, 1, 1, 4, 1, 4]].mT
    torch.testing.assert_close(closed_form(columns, 1.0).diagonal(), expected)


def test_tied_weights_are_projected_on_both_sides():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Embedding(5, 4), nn.Linear(4, 5)
            self.decoder.weight = self.encoder.weight

        def forward(self, x):
            return self.decoder(self.encoder(x))

    net, x = seeded(Tied).double(), torch.tensor([0, 2])
    guard = remembered(net, x, regularisation=0.0)
    assert set(guard.open_shares()) == {"encoder.weight", "decoder.weight+bias=encoder.weight"}
    hidden = net.encoder(x).detach()
    logits = net.decoder(hidden).detach()
    _, moved = guarded_update(guard, net)
    torch.testing.assert_close(net.encoder(x).detach(), hidden)
    torch.testing.assert_close(net.decoder(hidden).detach(), logits)
    assert moved["encoder.weight"].norm() > 0.1
    restored = OrthogonalProjection(0.0)
    restored.load_state_dict(guard.state_dict())
    other = seeded(Tied).double()
    restored_moves = guarded_update(restored, other)[1]
    torch.testing.assert_close(restored_moves["decoder.bias"], moved["decoder.bias"])
