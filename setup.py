"""What pyproject.toml cannot say of the package: its addresses, and a long description whose links work elsewhere.

The address of the repository stands once, as ``home`` of ``[tool.ramet]`` in pyproject.toml. Without one, a package
names no address, and links of README.md to files of the repository are their words alone.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def addresses(home: str) -> dict[str, str]:
    """Where to go from a package index: nowhere without a home."""
    if not home:
        return {}
    return {
        "Homepage": home,
        "Documentation": f"{home}/blob/main/docs/index.md",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }


def long_description(readme: str, home: str, version: str) -> str:
    """README.md for a package index, where files of the repository lie elsewhere or nowhere."""

    def elsewhere(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if re.match(r"https?://", target):
            return link[0]
        if home and not target.startswith("#"):  # an index need not give headings the names that GitHub gives them
            return f"{picture}[{words}]({home}/{'raw' if picture else 'blob'}/v{version}/{target})"
        return "" if picture else words

    parts, end = [], 0
    for block in CODE.finditer(readme):  # what stands in a program is no link
        parts += [LINK.sub(elsewhere, readme[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, LINK.sub(elsewhere, readme[end:])])


if __name__ == "__main__":
    from setuptools import setup

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    place = settings["tool"]["ramet"]["home"]
    text = long_description((ROOT / "README.md").read_text(encoding="utf-8"), place, settings["project"]["version"])
    setup(long_description=text, long_description_content_type="text/markdown", project_urls=addresses(place))
