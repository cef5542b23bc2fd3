"""A terminal session as an SVG image with a dark background, so that it is readable on every page."""

import re
from html import escape

WIDTH = 880
_LEFT, _TOP, _LINE, _SIZE = 20, 62, 19, 12.5
_BACKGROUND, _FRAME, _TEXT, _SOFT = "#0d1117", "#30363d", "#e6edf3", "#9aa4af"
_PROMPT, _LABEL, _BAR, _DIGEST = "#7ee787", "#79c0ff", "#56d364", "#f2cc60"
_COLUMNS = 110


def _styles(line: str) -> list[tuple[str, str]]:
    """The line as parts of (color, text)."""
    if line.startswith("$ "):
        return [(_PROMPT, "$ "), (_TEXT, line[2:])]
    if line.strip() == "…":
        return [(_SOFT, line)]
    parts = re.split(r"(^\[\d+\] |\[(?:Epoch|Test|Prepare)[^\]]*\]:?|█+|weights: [0-9a-f]{16})", line)
    colored = []
    for part in filter(None, parts):
        if re.fullmatch(r"\[\d+\] ", part):
            color = _SOFT
        elif part.startswith("[") and re.match(r"\[(Epoch|Test|Prepare)", part):
            color = _LABEL
        elif part.startswith("█"):
            color = _BAR
        elif part.startswith("weights:"):
            color = _DIGEST
        else:
            color = _TEXT
        colored.append((color, part))
    return colored


def _fitted(line: str) -> str:
    """Cuts a line at the width of the image."""
    return line if len(line) <= _COLUMNS else line[:_COLUMNS - 1] + "…"


def draw(session: str, title: str, description: str) -> str:
    """`session` is a command line that begins with "$ ", and its output."""
    lines = [_fitted(line) for line in session.rstrip("\n").split("\n")]
    height = _TOP + _LINE * len(lines) + 4
    rows = []
    for number, line in enumerate(lines):
        spans = "".join(f'<tspan fill="{color}">{escape(part)}</tspan>' for color, part in _styles(line))
        rows.append(f'<text x="{_LEFT}" y="{_TOP + _LINE * number}" xml:space="preserve">{spans}</text>')
    buttons = "".join(f'<circle cx="{_LEFT + 4 + 20 * i}" cy="22" r="6" fill="{color}"/>'
                      for i, color in enumerate(("#ff5f57", "#febc2e", "#28c840")))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img" aria-labelledby="title desc" font-size="{_SIZE}" '
            'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace">\n'
            f'<title id="title">{escape(title)}</title>\n<desc id="desc">{escape(description)}</desc>\n'
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" '
            f'fill="{_BACKGROUND}" stroke="{_FRAME}"/>\n{buttons}\n' + "\n".join(rows) + "\n</svg>\n")
