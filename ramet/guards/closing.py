"""The matrix that lets an update through only where no seen input would notice: Eqs. 6 to 8 as functions of tensors.

For inputs X, one a column, the projection is P = I - X (lambda I + X' X)^-1 X' = (I + X X' / lambda)^-1 (Eq. 7). An
update dW P changes the outputs W X by dW P X, and P X is small: that is Theorem 4.1. A direction of the input space in
which nothing was seen stays open (eigenvalue 1 of ``P``); one in which much was seen is closed (eigenvalue near 0).

Weights are ``[outputs, inputs]`` here, as in torch, while the paper's are transposed; so it multiplies by ``P`` from
the left and this code from the right. ``P`` is symmetric. Inputs ``x`` are [..., width, n] everywhere, projections
[..., width, width], and ``regularisation`` is lambda.
"""

from __future__ import annotations

import torch
from torch import Tensor

_WIDE = 128
"""Inputs from which on a matrix is multiplied with a column as a whole."""

_EXACT = torch.float64  # Closing subtracts nearly equal numbers; float32 is enough only for keeping the result.


def closed_form(x: Tensor, regularisation: float) -> Tensor:
    """Eq. 7 as written, by a dense inverse, for lambda above 0: the slow twin of ``close_directions``."""
    x64 = x.to(_EXACT)
    eye_n = torch.eye(x.shape[-1], dtype=_EXACT, device=x.device)
    eye = torch.eye(x.shape[-2], dtype=_EXACT, device=x.device)
    inner = torch.linalg.inv(regularisation * eye_n + x64.mT @ x64)  # [..., n, n]
    projection: Tensor = eye - x64 @ inner @ x64.mT
    return projection.to(x.dtype)


def close_one_by_one(projection: Tensor, x: Tensor, regularisation: float) -> Tensor:
    """Eq. 8 as written, a sample at a time, for lambda above 0: the other slow twin."""
    for column in x.unbind(-1):
        px = (projection @ column.unsqueeze(-1)).squeeze(-1)  # [..., width]
        scale = regularisation + (column * px).sum(-1)
        projection = projection - px.unsqueeze(-1) * px.unsqueeze(-2) / scale[..., None, None]  # Eq. 8
    return projection


def close_directions(projection: Tensor, x: Tensor, regularisation: float) -> Tensor:
    """Close the directions of a block of inputs at once; equal to as many updates of Eq. 8.

    P <- P - P X (lambda I + X' P X)^-1 X' P is the Woodbury identity for n columns. More columns than the width are
    folded into X X' first, for nothing else of them counts; see ``close_gram``.

    Safe for any input: columns that are not finite or zero close nothing, huge ones are scaled so that they do not
    overflow, and a singular block, which lambda 0 and duplicates make, is solved by its pseudo-inverse. With lambda 0,
    a direction seen once is closed entirely. The arithmetic is in float64, the result in the dtype of ``projection``.

    >>> close_directions(torch.eye(2), torch.tensor([[1.0], [0.0]]), regularisation=1.0)
    tensor([[0.5000, 0.0000],
            [0.0000, 1.0000]])
    """
    columns = finite_columns(x).to(_EXACT)
    if columns.shape[-1] > columns.shape[-2]:
        return close_gram(projection, columns @ columns.mT, regularisation)
    p = projection.to(_EXACT)
    # Columns and lambda are divided by the same number, so that the block below has no entry above 1, however large or
    # small the inputs are. Lambda is at least what rounding of the inputs amounts to: noise would close directions.
    scales = torch.hypot(torch.linalg.vector_norm(columns, dim=-2), columns.new_tensor(regularisation**0.5))  # [..., n]
    safe = scales.clamp(min=torch.finfo(_EXACT).tiny)
    columns = columns / safe.unsqueeze(-2)
    noise = (8 * torch.finfo(projection.dtype).eps) ** 2
    # A zero column with lambda 0 has no scale; 1 on the diagonal keeps it from mattering.
    diagonal = torch.where(scales > 0, (regularisation**0.5 / safe).square().clamp(min=noise), 1.0)
    if columns.shape[-1] == 1:
        # What is exact already is the caller's own, and stays.
        p = p.clone() if p is projection else p
        return _close_column(p, columns, diagonal).to(projection.dtype)
    px = p @ columns  # [..., width, n]
    block = columns.mT @ px  # [..., n, n]
    block.diagonal(dim1=-2, dim2=-1).add_(diagonal)
    root = _whitened(block, px.mT)  # [..., n, width]
    closed: Tensor = p - root.mT @ root
    return closed.to(projection.dtype)


def _close_column(p: Tensor, column: Tensor, regularisation: Tensor) -> Tensor:
    """Eq. 8 itself, in place, for one column, [..., width, 1], and lambda, [..., 1].

    Mean inputs are single columns, one a layer and model. Narrow ones go entry by entry: many small matrices in a batch
    are multiplied one after the other, which takes three times as long as all of the rest. A wide one would have all of
    its entries written once more.
    """
    is_wide = p.shape[-1] > _WIDE
    px = p @ column if is_wide else (p * column.mT).sum(-1, keepdim=True)  # [..., width, 1]
    size = (column * px).sum(-2, keepdim=True) + regularisation.unsqueeze(-1)  # [..., 1, 1]
    share = torch.where(size > 0, px / size, 0.0)  # rounding may leave less than nothing of a closed direction
    return p.addcmul_(share, px.mT, value=-1)


def close_gram(projection: Tensor, gram: Tensor, regularisation: float) -> Tensor:
    """``close_directions`` for inputs of which only X X' is known, in float64: P <- (I + P X X' / lambda)^-1 P."""
    p = projection.to(_EXACT)
    # The equation's rounding errors grow with X X' / lambda. Beyond what the result's precision hides, columns of the
    # same X X' are closed instead, at the cost of finding them.
    most = 1e5 if projection.dtype == _EXACT else 1e8
    if regularisation == 0 or bool((gram.diagonal(dim1=-2, dim2=-1).sum(-1) > most * regularisation).any()):
        return close_directions(projection, columns_of(gram), regularisation)
    system = p @ (gram / regularisation)
    system.diagonal(dim1=-2, dim2=-1).add_(1.0)
    solved = torch.linalg.solve(system, p)
    closed: Tensor = (solved + solved.mT) / 2
    return closed.to(projection.dtype)


def _whitened(block: Tensor, values: Tensor) -> Tensor:
    """Y with Y' Y = V' B^-1 V, for a symmetric positive semi-definite block B, [..., n, n], and V, [..., n, width].

    Where B is singular its pseudo-inverse is meant.
    """
    factor, failed = torch.linalg.cholesky_ex(block)
    pivots = factor.diagonal(dim1=-2, dim2=-1)
    # A pivot this small is rounding noise of the largest: its direction is one that is closed already.
    if not bool(failed.any()) and bool((pivots.amin(-1) > 1e-6 * pivots.amax(-1)).all()):
        solved: Tensor = torch.linalg.solve_triangular(factor, values, upper=False)
        return solved
    eigenvalues, vectors = torch.linalg.eigh(block)
    cutoff = eigenvalues.amax(-1, keepdim=True).clamp(min=0) * block.shape[-1] * torch.finfo(block.dtype).eps * 8
    safe = eigenvalues.clamp(min=torch.finfo(block.dtype).tiny).rsqrt()
    whitened: Tensor = torch.where(eigenvalues > cutoff, safe, 0.0).unsqueeze(-1) * (vectors.mT @ values)
    return whitened


def finite_columns(x: Tensor) -> Tensor:
    """The columns, with those that hold an infinity or NaN set to zero: an overflowed input teaches nothing."""
    if bool(torch.isfinite(x.sum())):  # one pass over the values, where asking each of them takes four
        return x
    return torch.where(torch.isfinite(x).all(-2, keepdim=True), x, 0.0)


def gram_of(x: Tensor) -> Tensor:
    """X X' in float64, [..., width, width]: all that a projection needs to know of its inputs."""
    x64 = x.to(_EXACT)
    gram: Tensor = x64 @ x64.mT
    return gram


def columns_of(gram: Tensor) -> Tensor:
    """As many columns as the width that have a given X X', [..., width, width]; rounding noise in it is taken as 0."""
    largest = gram.diagonal(dim1=-2, dim2=-1).amax(-1).clamp(min=torch.finfo(gram.dtype).tiny)[..., None, None]
    values, vectors = torch.linalg.eigh(gram / largest)
    noise = 4 * gram.shape[-1] * torch.finfo(gram.dtype).eps * values.amax(-1, keepdim=True)
    values = torch.where(values > noise, values, 0.0)
    columns: Tensor = vectors * (values.unsqueeze(-2) * largest).sqrt()
    return columns


def reopen_gradually(projection: Tensor, keep: float) -> Tensor:
    """Let every seen input count only ``keep`` times as much as before: the forgetting factor mu, in (0, 1].

    In terms of the inputs, X X' <- mu X X'; in terms of the projection, P <- P (mu I + (1 - mu) P)^-1. Unlike the
    forgetting of recursive least squares it never lets ``P`` exceed the identity.
    """
    p = projection.to(_EXACT)
    eye = torch.eye(p.shape[-1], dtype=_EXACT, device=p.device)
    opened = torch.linalg.solve(keep * eye + (1.0 - keep) * p, p)
    symmetric: Tensor = (opened + opened.mT) / 2
    return symmetric.to(projection.dtype)


def theorem_bound(x: Tensor, update: Tensor, regularisation: float) -> Tensor:
    """Theorem 4.1 (Eq. 9): how far a projected update can move the outputs on inputs that are in the projection.

    |dW P X| <= lambda sqrt(d) |dW| |X| R (1 + lambda R) in Frobenius norms, with R the 2-norm of (X X')^-1. ``update``
    is dW before its projection (the paper's eta G, transposed), [outputs, width]. The bound is infinite when the inputs
    do not span the space; ``tight_bound`` is not.
    """
    smallest = torch.linalg.eigvalsh(gram_of(x))[0].clamp(min=0)
    inverse_norm = 1.0 / smallest
    size = torch.linalg.vector_norm(update.to(_EXACT)) * torch.linalg.vector_norm(x.to(_EXACT))
    bound: Tensor = regularisation * x.shape[-2] ** 0.5 * size * inverse_norm * (1.0 + regularisation * inverse_norm)
    return bound


def tight_bound(update: Tensor, regularisation: float) -> Tensor:
    """A bound that needs no inputs: |dW P X| <= sqrt(lambda) |dW| / 2 in Frobenius norms.

    Not in the paper. With the singular values s of ``X``, those of ``P X`` are lambda s / (lambda + s^2), which is at
    most sqrt(lambda) / 2. It also holds for inputs that do not span the space, where Theorem 4.1 says nothing.
    """
    bound: Tensor = 0.5 * regularisation**0.5 * torch.linalg.vector_norm(update.to(_EXACT))
    return bound
