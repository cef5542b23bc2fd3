#!/usr/bin/env python3
"""Runs the commands of docs/tutorial.md and README.md, and puts what they print in place.

    docs/tutorial/refresh.py --bin build/release/bin [--only REGEX] [--busy] [--pictures-alone]

`make tutorial` calls it. Commands of a block are run by one shell, all of a page in one folder that
is new, with a cache of their own: what the reader sees who begins. The page is written after each
block. In the end digests are compared, and pictures are made.
"""

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import document
import pictures

LIMIT_S = 600
MARK = "--- command of the tutorial ---"


def environment(folder: Path, binaries: Path) -> dict[str, str]:
    """The reader's: nothing of a launcher, a cache of its own, the binaries in PATH."""
    own = {name: value for name, value in os.environ.items()
           if not re.match(r"LOCKSTEP_|OMP_|OMPI_|PMIX_|SLURM|RANK$|WORLD_SIZE$|LOCAL_|MASTER_", name)}
    own.update(PATH=f"{binaries}:{own['PATH']}", XDG_CACHE_HOME=str(folder / "cache"),
               COLUMNS="100", LC_ALL="C.UTF-8", TZ="UTC")
    return own


def named_shell() -> list[str]:
    """A shell on a host called `laptop`, where this user may have one."""
    named = ["unshare", "--uts", "bash", "-c", 'hostname laptop && exec bash -c "$0"']
    allowed = shutil.which("unshare") and subprocess.run([*named, "true"], capture_output=True).returncode == 0
    return named if allowed else ["bash", "-c"]


def without_this_machine(text: str, folder: Path, binaries: Path) -> str:
    """Paths and the host's name as a reader would have them."""
    text = text.replace(f"{binaries}/", "").replace(str(folder), "~/tutorial")
    return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "laptop", text)


def run_block(block: document.Block, folder: Path, binaries: Path) -> None:
    """Fills in the outputs of a block's commands."""
    script = "".join(f"echo '{MARK}'\n{command.text}\n" for command in block.commands)
    done = subprocess.run([*named_shell(), f"set -o pipefail\n{script}code=$?\nwait\nexit $code"],
                          cwd=folder, env=environment(folder, binaries), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=LIMIT_S)
    text = without_this_machine(done.stdout, folder, binaries)
    if done.returncode != int(block.options.get("exit", 0)):
        raise document.Mistake(f"{block.commands[-1].text}\nended with {done.returncode}:\n{text}")
    outputs = text.split(MARK + "\n")[1:]
    if len(outputs) != len(block.commands):
        raise document.Mistake(f"not every command was run:\n{text}")
    for command, output in zip(block.commands, outputs):
        lines = [line.rstrip() for line in output.splitlines()]
        command.output = document.shorten(document.settle_bars(lines), block.options.get("show"))


def refresh(file: Path, binaries: Path, only: str | None) -> None:
    count = len(document.blocks(file.read_text()))
    with tempfile.TemporaryDirectory(prefix="tutorial-") as name:
        folder = Path(name).resolve()
        for index in range(count):
            block = document.blocks(file.read_text())[index]
            if not block.is_run or (only and not re.search(only, block.body(), re.DOTALL)):
                continue
            begin = time.monotonic()
            run_block(block, folder, binaries)
            # Read anew: the page may have been edited meanwhile.
            page = file.read_text()
            place = document.blocks(page)[index]
            if [each.text for each in place.commands] != [each.text for each in block.commands]:
                raise document.Mistake("blocks were moved or changed while they were run")
            file.write_text(page[:place.begin] + block.body() + page[place.end:])
            if "save" in block.options:
                (document.FOLDER / block.options["save"]).write_text(block.body())
            print(f"{time.monotonic() - begin:6.1f} s  {block.commands[0].text.splitlines()[0]}",
                  flush=True)


def check_idle() -> None:
    """What is shown should be what a reader sees, whose machine does nothing else."""
    load = os.getloadavg()[0]
    if load > 0.5:
        raise document.Mistake(f"expected a machine that does nothing else, found a load of {load:.2f}; "
                               "try: wait a minute, or --busy")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"),
                        help="the folder with lockstep and the examples")
    parser.add_argument("--only", help="only blocks in which this is found")
    parser.add_argument("--busy", action="store_true", help="also on a machine that does other things")
    parser.add_argument("--pictures-alone", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    try:
        if not arguments.pictures_alone:
            if not arguments.busy:
                check_idle()
            for page in (document.TUTORIAL, document.README):
                refresh(page, arguments.bin.resolve(), arguments.only)
        for name, text in pictures.make_all(document.FOLDER).items():
            (document.FOLDER / name).write_text(text)
        for name, digest in document.check_digests(
                document.blocks(document.TUTORIAL.read_text())).items():
            print(f"digest {name}: {digest}")
    except document.Mistake as mistake:
        print(f"tutorial: {mistake}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
