"""Commands of documentation pages, and the programs that they call: for tests of pages."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "docs"))
import refresh  # noqa: E402

PROGRAMS = ("lockstep", "train_model", "true")
_WITH_SUBCOMMANDS = ("bench", "data")


def simple_commands(text: str) -> list[list[str]]:
    """The commands of a shell line that call a program of `PROGRAMS`, each as a list of words."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set(";&|"):
            commands.append([])
        else:
            commands[-1].append(word)
    starts = [next((i for i, word in enumerate(words) if word in PROGRAMS), None) for words in commands]
    return [words[start:] for words, start in zip(commands, starts) if start is not None]


def programs_within(words: list[str]) -> list[list[str]]:
    """Separates `lockstep run …` and the program that it starts."""
    if words[:2] != ["lockstep", "run"]:
        return [words]
    inner = next((i for i in range(2, len(words)) if words[i] in PROGRAMS), len(words))
    return [words[:inner]] + ([words[inner:]] if words[inner:] else [])


def lockstep_calls(text: str) -> list[tuple[str, list[str]]]:
    """(subcommand, words) of every call of lockstep in a shell line."""
    calls = []
    for words in simple_commands(text):
        for program in programs_within(words):
            if program[0] == "lockstep" and len(program) > 1:
                length = 3 if program[1] in _WITH_SUBCOMMANDS else 2
                calls.append((" ".join(program[1:length]), program))
    return calls


def flags_of(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("--")}


def outputs_of(text: str) -> str:
    """The output lines of a console block."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("$ "))


def flags_for_gpus() -> set[str]:
    """Options that builds without CUDA do not show."""
    return set(re.findall(r'"(--[a-z][a-z-]*)', (ROOT / "lockstep/cli/train_options.cpp").read_text()))


class Programs:
    """The programs of a build: the options of each subcommand, and the output of commands."""

    def __init__(self, folder: Path):
        self.folder = folder.resolve()
        self.known: dict[str, set[str]] = {}

    def flags(self, subcommand: str) -> set[str]:
        if subcommand not in self.known:
            shown = subprocess.run([self.folder / "lockstep", *subcommand.split(), "--help"], text=True,
                                   capture_output=True, check=True, timeout=60)
            self.known[subcommand] = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", shown.stdout))
        return self.known[subcommand]

    def run(self, text: str, folder: Path, code: int = 0) -> str:
        """Runs a shell line that ends with this code, and returns its output and errors."""
        done = subprocess.run(["bash", "-c", text], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                              env=refresh.environment(folder, self.folder))
        if done.returncode != code:
            raise AssertionError(f"{text}\nended with {done.returncode}:\n{done.stdout}")
        return done.stdout
