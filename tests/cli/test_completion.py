"""The script of `ramet completion` completes commands and options in a real shell."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ramet.cli.main import main
from ramet.jobs import SUMMARIES

ASK = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_ramet
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def complete(tmp_path_factory, find_program: Callable[[str], str]) -> Callable[[str], list[str]]:
    """What bash offers after some words."""
    bash = find_program("bash")
    script = tmp_path_factory.mktemp("completion") / "ramet.bash"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.stdout", open(script, "w"))  # noqa: SIM115 (closed below)
        main(["completion", "bash"])
        __import__("sys").stdout.close()

    def ask(words: str) -> list[str]:
        code = ASK.format(script=script, words=words)
        done = subprocess.run([bash, "--norc", "-c", code], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return ask


@pytest.mark.needs_program
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("ramet gr", {"grow"}),
        ("ramet rank --truth-c", {"--truth-cache"}),
        ("ramet learn --st", {"--stream", "--start"}),
        ("ramet do", {"doctor"}),
        ("ramet data f", {"fetch"}),
    ],
)
def test_bash_completes(complete, words, offered):
    assert offered <= set(complete(words))


@pytest.mark.needs_program
def test_every_job_is_offered(complete):
    assert set(SUMMARIES) <= set(complete("ramet ''"))


@pytest.mark.needs_program
@pytest.mark.parametrize("name", ["_ramet", "_cyclopts_ramet"])
def test_zsh_completes_from_the_first_use_of_a_file(find_program, tmp_path, capsys, name):
    """A file on fpath is a function of its own name; what the script defines has another, and must be called."""
    main(["completion", "zsh"])
    (tmp_path / name).write_text(capsys.readouterr().out)
    code = f"fpath=({tmp_path}); _arguments() {{ print asked; }}; autoload -Uz {name}; {name}; {name}"
    done = subprocess.run([find_program("zsh"), "-fc", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["asked", "asked"], done.stderr


@pytest.mark.needs_program
def test_zsh_completes_when_the_script_is_read(find_program, tmp_path, capsys):
    main(["completion", "zsh"])
    (script := tmp_path / "script").write_text(capsys.readouterr().out)
    code = f"compdef() {{ print $*; }}; source {script}; whence -w _cyclopts_ramet"
    done = subprocess.run([find_program("zsh"), "-fc", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["_cyclopts_ramet", "ramet", "_cyclopts_ramet:", "function"], done.stderr


def test_installing_edits_no_file_of_the_user(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bashrc").write_text("# mine\n")
    main(["completion", "bash", "--install"])
    place = Path(capsys.readouterr().out.strip())
    assert place.is_relative_to(tmp_path) and "--truth-cache" in place.read_text()
    assert (tmp_path / ".bashrc").read_text() == "# mine\n"
