#!/usr/bin/env python3
"""Writes one C++ file that contains every C++ fragment of README.md and docs/, so that a compiler can check them.

    tools/docs/fragments.py OUTPUT.cpp

A comment before each fragment says what it is:

    <!-- cpp program -->   a whole program
    <!-- cpp file -->      declarations at namespace scope
    <!-- cpp body -->      statements; they can use the members of `Page` below

The fragments are compiled and never run.
"""

import re
import sys
from pathlib import Path

import document

_FENCE = re.compile(r"(?:^<!-- cpp (?P<kind>\w+)[^\n]*-->\n)?^```cpp\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = ("program", "file", "body")

HEAD = """\
// Written by tools/docs/fragments.py. Nothing here is run.
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <cstdio>

/// The variables that a fragment of the documentation may use without declaring them.
struct Page {
  lockstep::World& world;
  lockstep::Options& options;
  lockstep::data::DatasetPtr& data;
  lockstep::DataLoader& loader;
  lockstep::EvaluationLoader& test_loader;
  lockstep::TrainingModel& model;
};
"""


def fragments_of(page: str) -> list[tuple[str | None, str]]:
    """(kind, code) of all C++ blocks of a page."""
    return [(match["kind"], match["code"]) for match in _FENCE.finditer(page)]


def source_of(kind: str, code: str, number: int, where: str) -> str:
    code = re.sub(r"^#include [^\n]*\n", "", code, flags=re.MULTILINE)
    if kind == "body":
        lines = "".join(f"    {line}\n" if line else "\n" for line in code.splitlines())
        code = f"struct Body : Page {{\n  void run() {{\n{lines}  }}\n}};\n"
    elif kind == "program":
        # `main` has its own rules. The name of another function has none.
        code = re.sub(r"\bint main\(", "[[maybe_unused]] int program(", code)
        code = code if ") try {" in code else re.sub(r"\n}\n\Z", "\n  return 0;\n}\n", code)
    return f"\n// {where}\nnamespace fragment_{number} {{\n{code}}}  // namespace fragment_{number}\n"


def all_fragments() -> str:
    parts = [HEAD]
    number = 0
    for file in document.pages():
        where = str(file.relative_to(document.ROOT))
        for kind, code in fragments_of(file.read_text()):
            if kind not in KINDS:
                raise document.Mistake(f"{where}: expected a comment with one of {', '.join(KINDS)} before a C++ "
                                       f"fragment, found {kind or 'none'}: {code.splitlines()[0]}")
            number += 1
            parts.append(source_of(kind, code, number, where))
    return "".join(parts)


def main() -> int:
    try:
        Path(sys.argv[1]).write_text(all_fragments())
    except document.Mistake as mistake:
        print(f"fragments: {mistake}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
