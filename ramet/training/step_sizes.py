"""How far an optimizer goes for a gradient of one: what a penalty that acts beside the optimizer must know.

A proximal step of a penalty comes to rest at the minimum of loss and penalty if its step size is the one by which the
optimizer moves each value. With momentum that is more than the learning rate, and optimizers that divide by the size of
earlier gradients have another for each value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ramet.params import Params

StepSize = float | Tensor
"""One for all values of a parameter, or one for each."""


class OptimizerStepSizes(Mapping[str, StepSize]):
    """The step size of each parameter under an optimizer, read from its state whenever it is asked for.

    A constant gradient g moves a parameter by s g in each step once averages have settled:

    - SGD: s = lr (1 - dampening) / (1 - momentum).
    - Adam and its kin: s = lr / (sqrt(v) + eps), where v is the mean squared gradient, its bias corrected.
    - RMSprop, Adagrad, Adadelta and Adamax likewise, each with its own denominator.
    - Adafactor (torch's, and that of transformers): lr times the parameter's root mean square, over the root of the
      factored v, less where the update is clipped. Torch does not keep the root mean square that its step has used; the
      one after it is taken.
    - Others, such as those that step by the gradient's sign: the learning rate.

    A decay that is decoupled from the gradient, as in AdamW, acts beside both: with it the rest is where loss, penalty
    and s^-1 lr decay theta, which the optimizer has by itself, are in balance.

    >>> layer = torch.nn.Linear(1, 1, bias=False)
    >>> dict(OptimizerStepSizes(torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.5), {"w": layer.weight}))
    {'w': 0.2}
    """

    def __init__(self, optimizer: torch.optim.Optimizer, params: Params) -> None:
        groups = {id(param): place for place, group in enumerate(optimizer.param_groups) for param in group["params"]}
        self._optimizer = optimizer
        # By the place of the group, because an optimizer that loads a state has other dicts afterwards.
        self._params = {name: (param, groups[id(param)]) for name, param in params.items() if id(param) in groups}

    def __getitem__(self, name: str) -> StepSize:
        return self.of([name])[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def of(self, names: Sequence[str]) -> list[StepSize]:
        """The step sizes of some names, all at once."""
        return [inverse(size * factor) for size, factor in zip(*self.inverse_factors(names), strict=True)]

    def inverse_factors(self, names: Sequence[str], times: float = 1.0) -> tuple[list[StepSize], list[float]]:
        """One over the step sizes of some names times a number, which is what a proximal step divides by.

        In lists of tensors, and in as few passes over them as can be, since this happens in every step: what the values
        of a parameter have in common is the second factor.
        """
        inverses: list[StepSize] = []
        factors = [1.0] * len(names)
        adaptive: list[tuple[int, Tensor, float]] = []
        for place, name in enumerate(names):
            param, of = self._params[name]
            group = self._optimizer.param_groups[of]
            state = self._optimizer.state.get(param, {})
            plain = _plain_size(self._optimizer, group)
            if "exp_avg_sq" in state and "betas" in group:  # Adam and its kin
                squares = state["max_exp_avg_sq"] if group.get("amsgrad") else state["exp_avg_sq"]
                root = (1.0 - float(group["betas"][1]) ** float(state["step"])) ** 0.5  # of the bias' correction
                rate = float(group["lr"]) * _relative_rate(self._optimizer, group, state)
                factors[place] = _inverse_number(rate * root * times)
                adaptive.append((place, squares, float(group["eps"]) * root))
                inverses.append(plain)  # its place, for what is found below
            else:
                size = _adafactor_size(param, group, state)
                inverses.append(inverse((_other_size(plain, group, state) if size is None else size) * times))
        if adaptive:
            # (sqrt(v / c) + eps) / lr = (sqrt(v) + eps sqrt(c)) / (lr sqrt(c)), c being the correction.
            places, squared, epsilons = map(list, zip(*adaptive, strict=True))
            found = list(torch._foreach_sqrt(squared))
            torch._foreach_add_(found, epsilons)
            for place, each in zip(places, found, strict=True):
                inverses[place] = each
        return inverses, factors


def inverse(size: StepSize) -> StepSize:
    """One over a step size."""
    return size.reciprocal() if isinstance(size, Tensor) else _inverse_number(size)


def _inverse_number(size: float) -> float:
    """One over a step size; of none at all, as in a warm-up's first step, infinity."""
    return 1.0 / size if size else float("inf")


def _plain_size(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> float:
    momentum = group.get("momentum", 0.0) if isinstance(optimizer, torch.optim.SGD) else 0.0
    return float(group["lr"]) / (1.0 - momentum) * (1.0 - group.get("dampening", 0.0) if momentum else 1.0)


def _relative_rate(optimizer: torch.optim.Optimizer, group: dict[str, Any], state: dict[str, Any]) -> float:
    """What the kin of Adam multiply the learning rate with, which nears 1 in a long training."""
    step, (first, second) = float(state["step"]), group["betas"]
    if isinstance(optimizer, torch.optim.RAdam):
        most = 2.0 / (1.0 - second) - 1.0
        now = most - 2.0 * step * second**step / (1.0 - second**step)
        if now <= 5.0:
            return 1.0
        return float(((now - 4.0) * (now - 2.0) * most / ((most - 4.0) * (most - 2.0) * now)) ** 0.5)
    if isinstance(optimizer, torch.optim.NAdam):
        now, after = (first * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1.0))
        so_far = float(state["mu_product"])
        return float((1.0 - now) / (1.0 - so_far) + after / (1.0 - so_far * after))
    return 1.0


def _adafactor_size(param: Tensor, group: dict[str, Any], state: dict[str, Any]) -> Tensor | None:
    """The step size of Adafactor, in torch's form or that of transformers; None for any other optimizer."""
    eps, gradient = group.get("eps"), param.grad
    if gradient is None or "step" not in state or not isinstance(eps, list | tuple):
        return None
    gradient, step = gradient.to(torch.promote_types(gradient.dtype, torch.float32)), float(state["step"])
    if "beta2_decay" in group:  # torch
        least = torch.finfo(param.dtype).eps if eps[0] is None else float(eps[0])
        if "row_var" in state:
            squares = state["row_var"] @ state["col_var"]
            squares = squares / state["row_var"].mean(dim=-2, keepdim=True).clamp(min=least)
        else:
            squares = state["variance"]
        scale, most = squares.clamp(min=least * least).rsqrt(), float(group["d"])
        rate = min(float(group["lr"]), step**-0.5) * max(float(eps[1]), _root_mean_square(param))
    elif "clip_threshold" in group:  # transformers
        if "exp_avg_sq_row" in state:
            rows, columns = state["exp_avg_sq_row"], state["exp_avg_sq_col"]
            scale = (rows / rows.mean(dim=-1, keepdim=True)).rsqrt().unsqueeze(-1) * columns.unsqueeze(-2).rsqrt()
        else:
            scale = state["exp_avg_sq"].rsqrt()
        most = float(group["clip_threshold"])
        first = 1e-6 * step if group["warmup_init"] else 1e-2
        rate = min(first, step**-0.5) if group["relative_step"] else float(group["lr"])
        rate *= max(float(eps[1]), float(state["RMS"])) if group["scale_parameter"] else 1.0
    else:
        return None
    size: Tensor = scale * (rate / max(1.0, _root_mean_square(scale * gradient) / most))
    return size


def _root_mean_square(values: Tensor) -> float:
    return float(values.detach().norm()) / math.sqrt(max(values.numel(), 1))


def _other_size(plain: StepSize, group: dict[str, Any], state: dict[str, Any]) -> StepSize:
    """The step size of the optimizers that have a denominator of their own; ``plain`` for all others."""
    if "acc_delta" in state:  # Adadelta
        ratio: Tensor = (state["acc_delta"] + group["eps"]).sqrt() / (state["square_avg"] + group["eps"]).sqrt()
        return float(group["lr"]) * ratio
    if "square_avg" in state:  # RMSprop
        squares = state["square_avg"] - state["grad_avg"].square() if group.get("centered") else state["square_avg"]
        size: Tensor = float(group["lr"]) / (1.0 - group.get("momentum", 0.0)) / (squares.sqrt() + group["eps"])
        return size
    if "exp_inf" in state:  # Adamax
        size = float(group["lr"]) / state["exp_inf"].clamp(min=torch.finfo(state["exp_inf"].dtype).tiny)
        return size
    if "sum" in state and "lr_decay" in group:  # Adagrad
        rate = float(group["lr"]) / (1.0 + (float(state["step"]) - 1.0) * group["lr_decay"])
        size = rate / (state["sum"].sqrt() + group["eps"])
        return size
    return plain
