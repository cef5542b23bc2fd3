"""Compares lockstep with other systems on this machine, for docs/internals/comparison.md and the README.

    python3 bench/compare --lockstep build/release/bin/lockstep [--runs 5] [--rows start,meet]
                          [--output docs/internals/comparison.md] [--readme README.md] [--json FILE]

Each run measures all rows. Each row is a `lockstep bench` command, which measures lockstep and its peers in turns, so
that the load of the machine affects both. The figures are medians over the runs.
"""
import argparse
import json
import os
import sys

from figures import outcome_of
from measure import measure
from refused import Refused
from rows import ROWS
from table import page_of, readme_text_of, runs_text, table_of, with_table


def choose_rows(text):
    """The named rows in the order of the table, or all rows."""
    if not text:
        return list(ROWS)
    known = [row.name for row in ROWS]
    asked = text.split(",")
    for name in asked:
        if name not in known:
            raise Refused(f"--rows: expected some of {', '.join(known)}, found '{name}'")
    return [row for row in ROWS if row.name in asked]


def parse():
    parser = argparse.ArgumentParser(prog="compare", description="Compares lockstep with other systems on this machine.",
                                     epilog="rows: " + ", ".join(row.name for row in ROWS))
    parser.add_argument("--lockstep", default="build/release/bin/lockstep", metavar="FILE", help="[%(default)s]")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of each row [%(default)s]")
    parser.add_argument("--rows", default="", metavar="LIST", help="measure only these rows, and show no row for GPUs")
    parser.add_argument("--output", metavar="FILE", help="the page to write, such as docs/internals/comparison.md")
    parser.add_argument("--readme", metavar="FILE", help="a file in which to replace the short table, between its two marks")
    parser.add_argument("--json", metavar="FILE", help="also write all measurements")
    parser.add_argument("--from", dest="stored", metavar="FILE", help="measure nothing, and use a file that --json has written")
    return parser.parse_args()


def check(arguments):
    """Refuses wrong arguments before it measures for minutes."""
    if arguments.runs < 1:
        raise Refused(f"--runs: expected 1 or more, found {arguments.runs}")
    if not arguments.stored and not os.access(arguments.lockstep, os.X_OK):
        raise Refused(f"--lockstep: expected a program, found none at {arguments.lockstep}; try: make build")
    if arguments.readme:
        with_table(read(arguments.readme), "", arguments.readme)
    for file in filter(None, (arguments.output, arguments.json)):
        folder = os.path.dirname(file) or "."
        if not os.path.isdir(folder):
            raise Refused(f"{file}: expected the folder {folder}, found none")


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def results_for(arguments, rows, say):
    if not arguments.stored:
        benches = list(dict.fromkeys(row.bench for row in rows))
        return measure(arguments.lockstep, arguments.runs, benches, say)
    try:
        return json.loads(read(arguments.stored))
    except ValueError as error:
        raise Refused(f"--from: {arguments.stored} is not what --json writes: {error}") from error


def main():
    arguments = parse()
    rows = choose_rows(arguments.rows)
    check(arguments)
    results = results_for(arguments, rows, lambda text: print(text, file=sys.stderr, flush=True))
    if arguments.json:
        write(arguments.json, json.dumps(results, indent=1) + "\n")
    outcomes = [outcome_of(row, results) for row in rows]
    with_gpu = not arguments.rows
    print(runs_text(results), "\n")
    print(table_of(outcomes, "docs/internals/", with_gpu), end="")
    if arguments.output:
        write(arguments.output, page_of(results, outcomes, with_gpu))
    if arguments.readme:
        text = readme_text_of(results, outcomes)
        write(arguments.readme, with_table(read(arguments.readme), text, arguments.readme))
    return 1 if any(outcome.why.startswith("failed") for outcome in outcomes) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Refused as refused:
        print(f"compare: {refused}", file=sys.stderr)
        sys.exit(2)
