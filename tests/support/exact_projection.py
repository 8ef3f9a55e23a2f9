"""What a projection is, and how far rounding may take it from that."""

from __future__ import annotations

import torch


def exact(x, lam):
    """(I + X X' / lambda)^-1 by the eigenvalues of X X': what cannot lose more digits than ``rounding`` says."""
    energy, vectors = torch.linalg.eigh(x.double() @ x.double().mT)
    return vectors * (lam / (lam + energy.clamp(min=0))) @ vectors.mT


def rounding(x, lam, dtype=torch.float64, parts=1, power=1):
    """What rounding may change in a projection, in its norm, if it is computed in so many parts.

    In float64 a sum, a factorisation or a solution with a matrix of condition 1 + |X|^2 / lambda is off by the size of
    the matrix times eps times that condition; 8 for all of them together. Eq. 7 as written multiplies what it inverts
    by X X' once more, hence ``power`` 2. Each part is rounded once to the dtype of the result.
    """
    condition = 1 + float(torch.linalg.matrix_norm(x.double(), 2)) ** 2 / lam
    single = 8 * max(x.shape) * torch.finfo(torch.float64).eps * condition**power
    return parts * (single + torch.finfo(dtype).eps * x.shape[0] ** 0.5)


def distance(a, b):
    return float((a.double() - b.double()).norm())
