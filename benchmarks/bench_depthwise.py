"""What a depthwise convolution costs on one CPU thread: torch's backward pass against ramet's.

Prints CPU milliseconds of the forward and backward pass, the least of several repeats, for batches of 64 in
channels_last memory: ``OMP_NUM_THREADS=1 python -m benchmarks.bench_depthwise``. With ``--parts`` also the input and
the weight gradient alone. Set ``MALLOC_TRIM_THRESHOLD_`` and ``MALLOC_MMAP_THRESHOLD_`` to 1000000000 to leave out
what glibc's page faults cost, which is as much again for large tensors.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from ramet.spaces.depthwise import DepthwiseConv2d, _torch_gradients, input_gradient, weight_gradient

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


def cpu_milliseconds(*functions: Callable[[], object], repeats: int = 15) -> list[float]:
    """The least CPU time of a call of each, in turns of about 10 ms: a shared machine disturbs that little."""
    calls, best = [], [float("inf")] * len(functions)
    for function in functions:
        function()
        start = time.process_time()
        function()
        calls.append(max(1, int(0.01 / max(time.process_time() - start, 1e-5))))
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.process_time()
            for _ in range(calls[i]):
                function()
            best[i] = min(best[i], 1000 * (time.process_time() - start) / calls[i])
    return best


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
    for image in (8, 16, 32):
        for channels in (8, 16):
            for size, dilation, stride in KERNELS:
                padding = dilation * (size // 2)
                module = DepthwiseConv2d(channels, channels, size, stride, padding, dilation, bias=False)
                plain = module.plain()
                x = torch.randn(64, channels, image, image).contiguous(memory_format=memory_format).requires_grad_()
                grad = torch.randn_like(plain(x))
                inputs = (x, module.weight)
                before, after = cpu_milliseconds(
                    lambda: torch.autograd.grad(plain(x), inputs, grad),  # noqa: B023
                    lambda: torch.autograd.grad(module(x), inputs, grad),  # noqa: B023
                )
                name = f"{size}x{size}" + f" dilation {dilation}" * (dilation > 1) + f" stride {stride}" * (stride > 1)
                row = f"| {image} | {channels} | {name} | {before:.2f} | {after:.2f} | {before / after:.1f} |"
                if arguments.parts:
                    given = (grad, x.detach(), module.weight.detach(), stride, padding, dilation)
                    for ours, wanted in ((input_gradient, (True, False)), (weight_gradient, (False, True))):
                        before, after = cpu_milliseconds(
                            lambda: _torch_gradients(*given, wanted=wanted),  # noqa: B023
                            lambda: ours(*given),  # noqa: B023
                        )
                        row += f" {before:.2f}, {after:.2f} |"
                print(row, flush=True)


if __name__ == "__main__":
    main()
