"""The console blocks of README.md and of the pages in docs/: their commands and outputs.

A block is

    <!-- run digest=eight show="Epoch|weights" save=topology.txt -->
    ```console
    $ command
    output
    ```

The comment is optional. `make tutorial` runs every block, unless the comment gives the reason why that is not possible:

    <!-- not run: needs a GPU -->

A `run` comment accepts these words in any order:

    show="REGEX"    keep only the output lines that match, with one … for each gap
    digest=NAME     all blocks with this name end with the same weights digest; other names have other digests
    save=FILE       also write the block to docs/images/FILE, from which scripts draw images
    exit=CODE       the exit code of the last command; default 0
    output=hidden   run the commands, but show no output on the page
    cwd=source      run in the source tree instead of the temporary folder of the page

A code block in another language is not run. With `<!-- file=NAME -->` before it, it is saved in the folder of the page.
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
TUTORIAL = DOCS / "start" / "tutorial.md"
README = ROOT / "README.md"
ELLIPSIS = "…"

_BLOCK = re.compile(
    r"(?:^<!-- (?P<comment>(?:run\b|not run\b)[^\n]*?) -->\n)?^```console\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL)
_DIGEST = re.compile(r"weights: ([0-9a-f]{16})\b")
_BAR = re.compile(r"^(?P<label>(?:\[\d+\] )?\[(?:Epoch|Test ?|Prepare)[^\]]*\]): +(?P<percent>\d+)%\|")
_OPTIONS = ("show", "digest", "save", "exit", "output", "cwd")


def pages() -> list[Path]:
    """The tutorial, the README, the page of the examples, and the other pages of docs/."""
    others = sorted(path for path in DOCS.rglob("*.md") if path != TUTORIAL)
    return [TUTORIAL, README, ROOT / "examples" / "README.md", *others]


def files_of(page: str) -> dict[str, str]:
    """The code blocks that a comment with file=NAME saves, by name. Commands of the page use these files."""
    found = re.findall(r"^<!-- [^\n]*\bfile=(\S+)[^\n]*-->\n```\w*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return dict(found)


@dataclass
class Command:
    """A command as the page shows it, and its output lines."""

    text: str
    output: list[str] = field(default_factory=list)


@dataclass
class Block:
    """A console block. `begin` and `end` are the offsets of its body in the page."""

    commands: list[Command]
    options: dict[str, str]
    is_run: bool
    begin: int
    end: int

    @property
    def hides_output(self) -> bool:
        return self.options.get("output") == "hidden"

    def body(self, with_output: bool = True) -> str:
        lines = []
        for command in self.commands:
            lines.append("$ " + command.text)
            lines += command.output if with_output else []
        return "".join(line + "\n" for line in lines)

    def digests(self) -> list[str]:
        return _DIGEST.findall(self.body())


class Mistake(Exception):
    """An error in a page."""


def _options(comment: str) -> tuple[bool, dict[str, str]]:
    if comment.startswith("not run"):
        reason = comment.removeprefix("not run").removeprefix(":").strip()
        if not reason:
            raise Mistake("expected a reason, as in '<!-- not run: needs a GPU -->', found none")
        return False, {}
    options = {}
    for word in shlex.split(comment)[1:]:
        name, _, value = word.partition("=")
        if name not in _OPTIONS or not value:
            raise Mistake(f"unknown word in a comment before a block: {word}")
        options[name] = value
    return True, options


def _commands(body: str) -> list[Command]:
    commands = []
    lines = iter(body.splitlines())
    for line in lines:
        if line.startswith("$ "):
            text = line[2:]
            while text.endswith("\\"):
                text += "\n" + next(lines)
            commands.append(Command(text))
        elif commands:
            commands[-1].output.append(line)
        else:
            raise Mistake(f"a console block begins with output: {line}")
    return commands


def blocks(page: str) -> list[Block]:
    """All console blocks, in the order of the page."""
    found = []
    for match in _BLOCK.finditer(page):
        is_run, options = _options(match["comment"] or "run")
        begin, end = match.span("body")
        found.append(Block(_commands(match["body"]), options, is_run, begin, end))
    return found


def settle_bars(lines: list[str]) -> list[str]:
    """Keeps the last state of each progress bar, and drops the bars of evaluations."""
    kept: list[str] = []
    for line in lines:
        bar = _BAR.match(line)
        if bar and "[Test" in bar["label"]:
            continue
        # Other lines, such as a note or a failure, can stand between two states of a bar.
        if bar:
            kept = [each for each in kept if not _is_earlier(each, bar["label"])]
        kept.append(line)
    return kept


def _is_earlier(line: str, label: str) -> bool:
    bar = _BAR.match(line)
    return bool(bar) and bar["label"] == label and bar["percent"] != "100"


def shorten(lines: list[str], show: str | None) -> list[str]:
    """The lines that match `show`, with … for each gap."""
    if show is None:
        return lines
    pattern = re.compile(show)
    kept: list[str] = []
    for line in lines:
        if pattern.search(line):
            kept.append(line)
        elif not kept or kept[-1] != ELLIPSIS:
            kept.append(ELLIPSIS)
    return kept


def check_digests(all_blocks: list[Block]) -> dict[str, str]:
    """Returns the digest of each name. Raises `Mistake` if a name has two digests, or two names have one."""
    of_name: dict[str, str] = {}
    for block in all_blocks:
        name = block.options.get("digest")
        if name is None or block.hides_output:
            continue
        digests = block.digests()
        if not digests:
            raise Mistake(f"a block with the digest '{name}' shows no digest: {block.commands[0].text}")
        for digest in digests:
            if of_name.setdefault(name, digest) != digest:
                raise Mistake(f"the digest '{name}' is {of_name[name]} and {digest}")
    values = list(of_name.values())
    if len(values) != len(set(values)):
        raise Mistake(f"digests with different names are equal: {of_name}")
    return of_name
