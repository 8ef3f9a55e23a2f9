"""What the documentation shows works: its Python runs, its links lead somewhere, its decisions are numbered."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(text: str) -> list[tuple[int, str, str]]:
    """The fenced blocks of a page: the line of the first line of code, the language, the code."""
    return [(text.count("\n", 0, match.start(2)) + 1, match[1], match[2]) for match in _FENCE.finditer(text)]


def run_page(path: Path, text: str) -> None:
    """Run the Python blocks of a page as one program, and compare what each prints with the text block after it."""
    namespace = sys.modules["page"].__dict__  # a module, because pickle looks for classes in one
    blocks = blocks_of(text)
    for place, (line, language, code) in enumerate(blocks):
        if language != "python":
            continue
        # Line breaks in front make a traceback name the line of the page.
        program = compile("\n" * (line - 1) + code, str(path), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(program, namespace)
        follower = blocks[place + 1] if place + 1 < len(blocks) else (0, "", "")
        if printed.getvalue() and follower[1] == "text":
            assert printed.getvalue().rstrip() == follower[2].rstrip(), f"{path.name}:{line} prints something else"


def with_python(pages: list[Path]) -> list[Path]:
    return [page for page in pages if any(language == "python" for _, language, _ in blocks_of(page.read_text()))]


@pytest.fixture(autouse=True)
def page_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "page", types.ModuleType("page"))


@pytest.mark.parametrize("page", with_python(PAGES), ids=lambda page: page.name)
def test_python_of_a_page_runs(page):
    run_page(page, page.read_text(encoding="utf-8"))


def test_readme_begins_with_the_two_commands():
    languages = [language for _, language, _ in blocks_of((ROOT / "README.md").read_text())]
    first = blocks_of((ROOT / "README.md").read_text())[0][2]
    assert languages[:2] == ["bash", "python"]
    assert re.findall(r"^make \w+", first, re.MULTILINE) == ["make demo", "make test"]


def test_commands_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    texts = [page.read_text() for page in PAGES]
    for target in {name for text in texts for name in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"the Makefile has no target {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_decisions_have_numbers_of_their_own():
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert len({page.name[:3] for page in pages}) == len(pages)
    for page in pages:
        assert page.read_text().startswith(f"# {page.name[:3]}: "), f"{page.name} must begin with its number"


def test_decisions_that_the_code_names_exist():
    for path in (ROOT / "ramet").rglob("*.py"):
        for name in re.findall(r"docs/[\w/-]+\.md", path.read_text()):
            assert (ROOT / name).exists(), f"{path.relative_to(ROOT)} names {name}, which is not there"


def test_a_page_that_prints_something_else_is_caught():
    page = "```python\nprint(1 + 1)\n```\n\nwords\n\n```text\n{}\n```\n"
    run_page(Path("page.md"), page.format(2))
    with pytest.raises(AssertionError, match="prints something else"):
        run_page(Path("page.md"), page.format(3))


def test_a_page_that_fails_is_caught():
    with pytest.raises(ZeroDivisionError):
        run_page(Path("page.md"), "```python\n1 / 0\n```\n")
