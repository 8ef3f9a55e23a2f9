"""What a depthwise convolution costs on one CPU thread: torch's backward pass against ramet's.

Prints CPU milliseconds of the forward and backward pass, the least of several repeats, for batches of 64 in
channels_last memory; ``python -m benchmarks depthwise`` for those that have a limit, and for
all ``OMP_NUM_THREADS=1 python -m benchmarks.bench_depthwise``. With ``--parts`` also the input and
the weight gradient alone. Set ``MALLOC_TRIM_THRESHOLD_`` and ``MALLOC_MMAP_THRESHOLD_`` to 1000000000 to leave out
what glibc's page faults cost, which is as much again for large tensors.
"""

from __future__ import annotations

import argparse
import itertools

import torch

from benchmarks.rows import Row
from benchmarks.timing import cpu_milliseconds
from ramet.spaces.kernels.depthwise import DepthwiseConv2d, _torch_gradients, input_gradient, weight_gradient

KERNELS = [
    (3, 1, 1),
    (3, 2, 1),
    (5, 1, 1),
    (5, 2, 1),
    (7, 1, 1),
    (5, 1, 2),
    (3, 2, 2),
    (5, 2, 2),
]  # size, dilation, stride


def run() -> list[Row]:
    """The kernels for which ramet's own backward pass is taken: it must not be slower than torch's."""
    torch.set_num_threads(1)
    rows = []
    for size, dilation in ((5, 1), (7, 1), (3, 2), (5, 2)):
        case = Case(image=32, channels=16, size=size, dilation=dilation)
        before, after = case.milliseconds()
        rows.append(
            Row(
                name=f"depthwise {case.name}: ramet / torch",
                value=after / before,
                limit=1.0,
                detail=f"{after:.1f} / {before:.1f} CPU-ms forward and backward, 64 x 16 x 32 x 32, channels_last",
            )
        )
    return rows


class Case:
    """One depthwise convolution on a batch of 64, by torch and by ramet, with the same weights."""

    def __init__(
        self,
        *,
        image: int,
        channels: int,
        size: int,
        dilation: int = 1,
        stride: int = 1,
        memory_format: torch.memory_format = torch.channels_last,
    ) -> None:
        self.name = f"{size}x{size}" + f" dilation {dilation}" * (dilation > 1) + f" stride {stride}" * (stride > 1)
        padding = dilation * (size // 2)
        self.settings = (stride, padding, dilation)
        self.ours = DepthwiseConv2d(channels, channels, size, stride, padding, dilation, bias=False)
        self.plain = self.ours.plain()
        x = torch.randn(64, channels, image, image).contiguous(memory_format=memory_format)
        self.x = x.requires_grad_()
        self.grad = torch.randn_like(self.plain(self.x))

    def milliseconds(self) -> list[float]:
        """CPU time of the forward and backward pass: torch's, and ramet's."""
        inputs = (self.x, self.ours.weight)
        return cpu_milliseconds(
            lambda: torch.autograd.grad(self.plain(self.x), inputs, self.grad),
            lambda: torch.autograd.grad(self.ours(self.x), inputs, self.grad),
        )

    def parts(self) -> list[list[float]]:
        """The same for the input's gradient alone, and for the weights'."""
        given = (self.grad, self.x.detach(), self.ours.weight.detach(), *self.settings)
        return [
            cpu_milliseconds(lambda: _torch_gradients(*given, wanted=(True, False)), lambda: input_gradient(*given)),
            cpu_milliseconds(lambda: _torch_gradients(*given, wanted=(False, True)), lambda: weight_gradient(*given)),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", action="store_true", help="time the two gradients alone, too")
    parser.add_argument("--contiguous", action="store_true", help="contiguous instead of channels_last memory")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    memory_format = torch.contiguous_format if arguments.contiguous else torch.channels_last
    print(
        "| image | C | kernel | torch | ramet | ratio |"
        + (" input: torch, ramet | weight: torch, ramet |" if arguments.parts else "")
    )
    print("|---|---|---|---|---|---|" + ("---|---|" if arguments.parts else ""))
    for image, channels, (size, dilation, stride) in itertools.product((8, 16, 32), (8, 16), KERNELS):
        case = Case(
            image=image, channels=channels, size=size, dilation=dilation, stride=stride, memory_format=memory_format
        )
        before, after = case.milliseconds()
        row = f"| {image} | {channels} | {case.name} | {before:.2f} | {after:.2f} | {before / after:.1f} |"
        if arguments.parts:
            row += "".join(f" {before:.2f}, {after:.2f} |" for before, after in case.parts())
        print(row, flush=True)


if __name__ == "__main__":
    main()
