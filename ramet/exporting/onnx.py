"""A network for onnxruntime: written, compared with the module, and timed there.

It needs the extra ``onnx``: ``pip install ramet[onnx]``.
"""

from __future__ import annotations

import copy
import importlib
import io
import logging
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ramet.costs import evaluating, zeros_for
from ramet.errors import MissingExtraError, RunError
from ramet.exporting.program import giving_a_tensor, symbolic_lengths
from ramet.seeding import torch_generator
from ramet.training import output_of

MODULES = ("onnx", "onnxscript", "onnxruntime")


def check_installed() -> None:
    """Refuse before anything is trained, if what ONNX needs is missing.

    Raises:
        MissingExtraError: it is.
    """
    for name in MODULES:
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(name, "onnx")


def export_onnx(network: nn.Module, input_shape: Sequence[int], dtype: torch.dtype = torch.float32) -> bytes:
    """A network in evaluation mode as an ONNX file, for batches of any size, that gives what the module gives.

    Args:
        network: any module; it is run on zeros and on random inputs, and left as it was.
        input_shape: the shape of one input without its batch, such as (3, 32, 32).
        dtype: of an input; ``torch.int64`` for words, of which only 0 is tried.

    Raises:
        MissingExtraError: what ONNX needs is not installed.
        ConfigError: ``input_shape`` is not made of positive numbers.
        RunError: onnxruntime computes something else than the module.
        Exception: whatever ``torch.onnx`` raises, where a module cannot be exported.
    """
    check_installed()
    example = zeros_for(network, input_shape, 2, dtype)
    buffer = io.BytesIO()
    with evaluating(network), _quiet(), symbolic_lengths():
        exported = giving_a_tensor(network, example)
        shapes = ({0: torch.export.Dim.DYNAMIC},)
        program: Any = torch.onnx.export(exported, (example,), dynamo=True, dynamic_shapes=shapes, verbose=False)
        program.save(buffer)
    _compare(network, buffer.getvalue(), example)
    return buffer.getvalue()


def onnx_latency(content: bytes, input_shape: Sequence[int], *, num_runs: int = 20, num_warmups: int = 3) -> float:
    """Seconds of one forward pass of one input in onnxruntime, with as many threads as torch has: the median.

    Args:
        content: what ``export_onnx`` gave.
        input_shape: the shape of one input without its batch.
        num_runs: passes that are measured.
        num_warmups: passes before them, which are not.
    """
    session, seconds = _session(content), []
    (given,) = session.get_inputs()
    kind = torch.int64 if given.type == "tensor(int64)" else torch.float32
    inputs = {given.name: torch.zeros(1, *input_shape, dtype=kind).numpy()}
    for _ in range(num_warmups + num_runs):
        start = time.perf_counter()
        session.run(None, inputs)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[num_warmups:])


def _session(content: bytes) -> Any:
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _compare(network: nn.Module, content: bytes, example: Tensor) -> None:
    """Run both on batches of two sizes; onnxruntime may be as far from the exact result as torch is, times 32.

    The exact result is the module's in double precision. Both round after every operation, in another order, so that
    their errors have one size; a value that rounds to zero error by luck gets the rounding of the largest output.
    """
    exact = copy.deepcopy(network).cpu().double()
    single = copy.deepcopy(network).cpu()
    session = _session(content)
    (given,) = session.get_inputs()
    for size in (1, 3):
        inputs = torch.zeros(size, *example.shape[1:], dtype=example.dtype)
        if example.is_floating_point():
            inputs = torch.randn(inputs.shape, generator=torch_generator(size, "onnx"))
        with evaluating(exact), evaluating(single):
            wanted = output_of(exact(inputs.double() if inputs.is_floating_point() else inputs))
            rounded = output_of(single(inputs)).double()
        found = torch.from_numpy(session.run(None, {given.name: inputs.numpy()})[0]).double()
        largest = max(float(wanted.abs().max()), torch.finfo(torch.float32).tiny)
        allowed = 32 * (float((rounded - wanted).abs().max()) + largest * torch.finfo(torch.float32).eps)
        if found.shape != wanted.shape or not bool(((found - wanted).abs() <= allowed).all()):
            raise RunError(
                f"onnxruntime must give what the module gives, up to {allowed:.1e}, but gives shape "
                f"{list(found.shape)} for {list(wanted.shape)}"
                + (f", {float((found - wanted).abs().max()):.1e} away" if found.shape == wanted.shape else "")
                + "."
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's words about packages that it could do more with."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
