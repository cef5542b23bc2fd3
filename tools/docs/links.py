"""Links of Markdown pages, and the anchors of their headings."""

import re
from pathlib import Path

_FENCE = re.compile(r"^(```+).*?^\1 *$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_INDENTED = re.compile(r"^    [^\n]*$", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def prose_of(page: str) -> str:
    """The page without code blocks and comments."""
    return _INDENTED.sub("", _COMMENT.sub("", _FENCE.sub("", page)))


def links_of(page: str) -> list[str]:
    """The targets of all links and images outside of code."""
    return [match[3] for match in LINK.finditer(_CODE.sub("``", prose_of(page)))]


def anchor_of(heading: str) -> str:
    """The anchor that GitHub and mkdocs give to a heading."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", words).strip().lower().replace(" ", "-")


def anchors_of(page: str) -> list[str]:
    text = _FENCE.sub("", page)
    return [anchor_of(heading) for heading in re.findall(r"^#+ (.+?)(?: #+)?$", text, re.MULTILINE)]


def is_external(target: str) -> bool:
    return bool(re.match(r"[a-z]+:", target))


def resolve(page: Path, target: str) -> tuple[Path, str]:
    """The file and the anchor of a relative link."""
    file, _, anchor = target.partition("#")
    return ((page.parent / file).resolve() if file else page.resolve()), anchor
