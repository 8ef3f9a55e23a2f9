"""`ramet completion`: commands and options at the press of the tab key."""

from __future__ import annotations

from typing import Annotated, Literal

from ramet.cli.options import FLAG


def completion(shell: Literal["bash", "zsh", "fish"], *, install: Annotated[bool, FLAG] = False) -> None:
    """Print a script that completes commands and options in a shell, or put it where the shell looks.

    No file of yours is edited: with --install the script goes into the folder of completions of your user and the path
    is printed. Make it anew after an update, for new options.

    For example:

    - `ramet completion bash --install`
    - in this shell only, bash or zsh: `source <(ramet completion bash)`
    - `ramet completion zsh > ~/.zsh/completions/_ramet`
    - `ramet completion fish > ~/.config/fish/completions/ramet.fish`

    Args:
        shell: which one.
        install: write it into the user's folder of completions: of bash
            `~/.local/share/bash-completion/completions`, of zsh `~/.zsh/completions` (which has to be on its `fpath`),
            of fish `~/.config/fish/completions`.
    """
    from ramet.cli.main import make_app
    from ramet.jobs import SUMMARIES

    app = make_app(tuple(SUMMARIES))  # all options of all jobs
    script = app.generate_completion(shell=shell) + (ZSH_END if shell == "zsh" else "")
    if install:
        place = app.install_completion(shell=shell, add_to_startup=False)
        place.write_text(script, encoding="utf-8")
        print(place)
    else:
        print(script)


ZSH_END = """
case $funcstack[1] in
  _ramet|_cyclopts_ramet) _cyclopts_ramet "$@" ;;  # the first use of a file on fpath, whichever of the names it has
  *) compdef _cyclopts_ramet ramet ;;              # source <(ramet completion zsh)
esac
"""
"""What makes the script complete wherever it is put: by itself it works as a file called _cyclopts_ramet only."""
