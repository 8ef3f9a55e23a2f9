"""A function from a user's own file, named as FILE.py:function."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ramet.errors import ConfigError


class FunctionFromFile:
    """A callable that loads its function from a file when it is first called, also in another process.

    Pickling it for a worker process carries only the file's path and the function's name.

    Args:
        reference: ``FILE.py:function``.

    Raises:
        ConfigError: the file or the function does not exist, or the file fails to run.
    """

    def __init__(self, reference: str) -> None:
        path, separator, name = reference.rpartition(":")
        if not separator or not path.endswith(".py") or not name.isidentifier():
            raise ConfigError(f"code of your own is named as FILE.py:function, but got {reference!r}.")
        if not Path(path).is_file():
            raise ConfigError(f"code of your own must be in a file, but there is no {path}.")
        self.path = str(Path(path).resolve())
        self.name = name
        self._function: Callable[..., Any] | None = None
        self.load()

    def load(self) -> Callable[..., Any]:
        """The function itself."""
        if self._function is None:
            self._function = _load(self.path, self.name)
        return self._function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.load()(*arguments, **options)

    def __reduce__(self) -> tuple[type[FunctionFromFile], tuple[str]]:
        return FunctionFromFile, (f"{self.path}:{self.name}",)


def _load(path: str, name: str) -> Callable[..., Any]:
    module_name = f"ramet_user_code_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickling look a class's module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path} must run without an error, but raised {type(error).__name__}: {error}.") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigError(f"{path} must define the function {name}, but does not.")
    return function  # type: ignore[no-any-return]
