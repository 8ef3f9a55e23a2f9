"""A grown model of Hugging Face as ``from_pretrained`` loads it, where its configuration can say how large it is.

A configuration has one number for a size that all layers share. So a model that grew by the same amount in each layer,
as ``ties.py`` lets it grow, can be said in one, and a model that grew in some layers only cannot. A model is built from
the configuration that is found (``configured.py``) and compared with the grown one, shape by shape and output by
output, before anything is written.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch import nn

from ramet.errors import text_of
from ramet.growth.configured import fitted, has_config
from ramet.tracing.coupling import Inputs


def save_pretrained(network: nn.Module, folder: Path, inputs: Inputs) -> str:
    """Write a model as ``from_pretrained`` of its class loads it; gives why that cannot be done, or nothing.

    On the ``inputs``, a small batch, the model that will be loaded must give what the grown one gives.
    """
    if not has_config(network):
        return f"{type(network).__name__} is no model of Hugging Face"
    part = folder.with_name(f"{folder.name}.part")
    try:
        found, problem = fitted(network, inputs)
        if found is not None:
            with torch.random.fork_rng(devices=[]):
                found.built(network).save_pretrained(part)
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
    except OSError:
        raise
    except Exception as error:  # a model's class may refuse a configuration in whatever way
        return f"{type(error).__name__}: {' '.join(text_of(error).split())}"
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return problem
