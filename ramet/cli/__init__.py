"""The command line: it names runs and prints what they give, nothing else."""

from ramet.cli.main import main

__all__ = ["main"]
