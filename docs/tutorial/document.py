"""The console blocks of docs/tutorial.md and of README.md: what they run, and what they show.

A block is

    <!-- run digest=eight show="Epoch|weights" save=topology.txt -->
    ```console
    $ command
    output
    ```

The comment is optional. Its first word is `run` (the default) or `shown`: a block that is `shown`
is for the reader, and no script runs it. Then, in any order:

    show="REGEX"   of the output, only lines that match; what lies between them becomes one …
    digest=NAME    all blocks of this name end with the same digest of the weights, those of other
                   names with other ones
    save=FILE      the block is also written to docs/tutorial/FILE, where pictures are made from it
    exit=CODE      with which the last command ends; 0 where nothing is said

Other code blocks (indented, or of another language) are the writer's.
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
TUTORIAL = FOLDER.parent / "tutorial.md"
README = FOLDER.parents[1] / "README.md"
ELLIPSIS = "…"

_BLOCK = re.compile(
    r"(?:^<!-- (?P<comment>(?:run|shown)[^\n]*?) -->\n)?^```console\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL)
_DIGEST = re.compile(r"weights: ([0-9a-f]{16})\b")
_BAR = re.compile(r"^(?P<label>(?:\[\d+\] )?\[(?:Epoch|Test ?|Prepare)[^\]]*\]): +(?P<percent>\d+)%\|")


@dataclass
class Command:
    """A command as it is typed, and the lines that it left."""

    text: str
    output: list[str] = field(default_factory=list)


@dataclass
class Block:
    """One console block; `begin` and `end` are where its body stands in the page."""

    commands: list[Command]
    options: dict[str, str]
    is_run: bool
    begin: int
    end: int

    def body(self) -> str:
        lines = []
        for command in self.commands:
            lines.append("$ " + command.text)
            lines += command.output
        return "".join(line + "\n" for line in lines)

    def digests(self) -> list[str]:
        return _DIGEST.findall(self.body())


class Mistake(Exception):
    """Something in the page that is not as it should be."""


def _options(comment: str) -> tuple[bool, dict[str, str]]:
    words = shlex.split(comment or "run")
    options = {}
    for word in words[1:]:
        name, _, value = word.partition("=")
        if name not in ("show", "digest", "save", "exit") or not value:
            raise Mistake(f"unknown word in a comment before a block: {word}")
        options[name] = value
    return words[0] == "run", options


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
    """All console blocks, in the page's order."""
    found = []
    for match in _BLOCK.finditer(page):
        is_run, options = _options(match["comment"])
        begin, end = match.span("body")
        found.append(Block(_commands(match["body"]), options, is_run, begin, end))
    return found


def settle_bars(lines: list[str]) -> list[str]:
    """What stays of progress bars on a terminal: the last state of each, and nothing of a test's."""
    kept: list[str] = []
    for line in lines:
        bar = _BAR.match(line)
        if bar and "[Test" in bar["label"]:
            continue
        # Other lines (a note, a death) may have come in between.
        if bar:
            kept = [each for each in kept if not _is_earlier(each, bar["label"])]
        kept.append(line)
    return kept


def _is_earlier(line: str, label: str) -> bool:
    bar = _BAR.match(line)
    return bool(bar) and bar["label"] == label and bar["percent"] != "100"


def shorten(lines: list[str], show: str | None) -> list[str]:
    """Lines that match `show`, with … for what lies between."""
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
    """The digest of each name. Raises `Mistake` where one name has two, or two names have one."""
    of_name: dict[str, str] = {}
    for block in all_blocks:
        name = block.options.get("digest")
        if name is None:
            continue
        digests = block.digests()
        if not digests:
            raise Mistake(f"a block of the digest '{name}' shows none: {block.commands[0].text}")
        for digest in digests:
            if of_name.setdefault(name, digest) != digest:
                raise Mistake(f"the digest '{name}' is {of_name[name]} and {digest}")
    values = list(of_name.values())
    if len(values) != len(set(values)):
        raise Mistake(f"digests of different names are the same: {of_name}")
    return of_name
