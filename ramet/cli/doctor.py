"""`ramet doctor`: what ramet finds on this machine, what is missing and how to get it, and whether it works."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ramet.cli.options import FLAG, print_json

if TYPE_CHECKING:
    from ramet.data import Description

EXTRAS = {
    "pandas": "results as frames, `result.to_frame()`",
    "tensorboard": "numbers of a run in TensorBoard, `--log tensorboard`",
    "mlflow": "the same in MLflow, `--log mlflow`",
    "wandb": "the same for Weights & Biases, offline, `--log wandb`",
    "plots": "`result.plot()` with matplotlib",
    "images": "folders of PNG and JPEG images as data",
    "optuna": "`ramet study`",
    "postgres": "a study that many machines share",
    "ray": "trainings on a cluster, `--executor ray`",
    "networks": "networks of Hugging Face's transformers",
    "timm": "networks of timm",
    "trainer": "a guard in Hugging Face's Trainer",
    "trl": "a guard in TRL's trainers",
    "lightning": "a guard in Lightning",
    "accelerate": "a guard in accelerate",
    "text": "texts by the file of a tokenizer, `--tokens`",
    "onnx": "networks for onnxruntime, `--onnx`",
}
"""What each extra of the package is for; those of developers, dev and docs, are not offered."""


@dataclass(frozen=True)
class Extra:
    """One extra: what it is for, and the libraries of it that are not installed."""

    name: str
    purpose: str
    missing: list[str]

    @property
    def hint(self) -> str:
        """The command that installs it."""
        return f"pip install 'ramet[{self.name}]'"


@dataclass(frozen=True)
class Check:
    """One thing that was tried, and what came of it."""

    name: str
    passed: bool
    words: str


def doctor(*, data_dir: Path | None = None, self_test: bool = True, json: Annotated[bool, FLAG] = False) -> None:
    """Say what ramet finds here: versions, devices, data sets, extras that are missing; and try whether it works.

    The self-test takes a few seconds and writes to a temporary folder only: a small training twice, a guard, a run
    directory, a worker process, a page. Nothing is fetched.

    Paste what this prints into a report of a problem: it names no people, hosts or folders but that of the data.

    Exit code 0: all that was tried works. 1: something does not.

    For example:

    - `ramet doctor`
    - `ramet doctor --no-self-test --json`

    Args:
        data_dir: where data sets are; by default the environment variable RAMET_DATA.
        self_test: whether to try out the parts; without it only versions and files are looked at.
        json: print everything as one JSON object on standard output.
    """
    from ramet.data import data_folder, describe
    from ramet.runs import describe_environment

    environment = describe_environment()
    data, extras = describe(data_dir), find_extras()
    checks = run_self_test() if self_test else []
    if json:
        told: dict[str, Any] = {"environment": environment, "data_folder": str(data_folder(data_dir))}
        told |= {"data": [asdict(each) for each in data]}
        told |= {"extras": [asdict(each) | {"hint": each.hint} for each in extras]}
        print_json(told | {"self_test": [asdict(each) for each in checks]})
    else:
        print("\n".join([*_environment_lines(environment), "", *_data_lines(data, data_folder(data_dir))]))
        print("\n".join(["", *_extra_lines(extras), *_check_lines(checks)]))
    if not all(check.passed for check in checks):
        sys.exit(1)


def find_extras() -> list[Extra]:
    """The extras of the installed package, as its metadata names them, and what each lacks."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        requirements = requires("ramet") or []
    except PackageNotFoundError:  # run from a folder, without an installation
        requirements = []
    needed: dict[str, list[str]] = {name: [] for name in EXTRAS}
    for text in requirements:
        found = re.fullmatch(r"""([\w.-]+)[^;]*;.*extra\s*==\s*["']([\w.-]+)["'].*""", text)
        if found and found[2] in needed:
            needed[found[2]].append(found[1])
    return [
        Extra(name, EXTRAS[name], [library for library in libraries if not _is_installed(library)])
        for name, libraries in needed.items()
    ]


def run_self_test() -> list[Check]:
    """Try each part; what fails is said, and the others are tried all the same."""
    from ramet.cli.self_test import CHECKS

    done = []
    for check in CHECKS:
        try:
            done.append(Check(check.__name__, True, check()))
        except Exception as error:  # whatever it is, it is what the user wants to know
            lines = str(error).splitlines() or [""]
            done.append(Check(check.__name__, False, f"{type(error).__name__}: {lines[0]}"))
    return done


def _is_installed(library: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(library)
    except PackageNotFoundError:
        return False
    return True


def _environment_lines(environment: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {environment[name]}" for name in ("python", "torch", "numpy"))
    gpus = environment["gpus"]
    devices = ["cpu", *(f"cuda:{place} ({name})" for place, name in enumerate(gpus))]
    processor = f"{environment['cpu']}, {environment['cores']} cores"
    return [
        f"ramet {environment['ramet']}: {versions}",
        f"  machine   {environment['platform']}, {processor}",
        f"  devices   {', '.join(devices)}",
        f"  threads   {environment['threads']} for a training in this process, 1 for one in a worker",
    ]


def _data_lines(data: list[Description], folder: Path) -> list[str]:
    here, there = [each.name for each in data if each.present], [each.name for each in data if not each.present]
    lines = [f"Data, looked for in {folder}", f"  here      {', '.join(here)}"]
    if there:
        lines.append(f"  not here  {', '.join(there)}; `ramet data list` says which `ramet data fetch NAME` brings")
    return lines


def _extra_lines(extras: list[Extra]) -> list[str]:
    complete = [extra.name for extra in extras if not extra.missing]
    lines = ["Extras", f"  installed {', '.join(complete) or 'none'}"]
    for extra in extras:
        if extra.missing:
            lines.append(f"  missing   {extra.name:<12} {extra.purpose}: {extra.hint}")
    return lines


def _check_lines(checks: list[Check]) -> list[str]:
    if not checks:
        return []
    lines = ["", "Self-test"]
    lines += [f"  {'works     ' if check.passed else 'FAILED    '}{check.words}" for check in checks]
    failed = sum(not check.passed for check in checks)
    return [*lines, "", f"{failed} of {len(checks)} do not work." if failed else "All that was tried works."]
