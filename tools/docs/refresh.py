#!/usr/bin/env python3
"""Runs the commands of README.md and of all pages in docs/, and replaces the outputs that the pages show.

    tools/docs/refresh.py --bin build/release/bin [--page REGEX] [--only REGEX] [--busy] [--images-only]

`make tutorial` calls it. One shell runs the commands of a block. All blocks of a page run in the same new folder with
its own cache, as for a new user. The page is written after each block. At the end the script compares the digests and
draws the images.
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
import images

LIMIT_S = 600
MARK = "--- command of the tutorial ---"


def environment(folder: Path, binaries: Path) -> dict[str, str]:
    """The environment of a new user: no launcher, an empty home and cache, the binaries in PATH."""
    own = {name: value for name, value in os.environ.items()
           if not re.match(r"LOCKSTEP_|OMP_|OMPI_|PMIX_|SLURM|RANK$|WORLD_SIZE$|LOCAL_|MASTER_|MAKE", name)}
    own.update(PATH=f"{binaries}:{own['PATH']}", HOME=str(folder), XDG_CACHE_HOME=str(folder / "cache"),
               COLUMNS="100", LC_ALL="C.UTF-8", TZ="UTC")
    return own


def named_shell() -> list[str]:
    """A shell on a host with the name `laptop`, if this user may set a host name."""
    named = ["unshare", "--uts", "bash", "-c", 'hostname laptop && exec bash -c "$0"']
    allowed = shutil.which("unshare") and subprocess.run([*named, "true"], capture_output=True).returncode == 0
    return named if allowed else ["bash", "-c"]


def without_this_machine(text: str, folder: Path, binaries: Path) -> str:
    """Replaces the paths and the host name of this machine."""
    text = text.replace(f"{binaries}/", "").replace(str(folder), "~/tutorial")
    text = text.replace(f"{binaries.relative_to(document.ROOT)}/", "") if document.ROOT in binaries.parents else text
    return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "laptop", text)


def run_block(block: document.Block, folder: Path, binaries: Path) -> None:
    """Sets the outputs of the commands of a block."""
    script = "".join(f"echo '{MARK}'\n{command.text}\n" for command in block.commands)
    done = subprocess.run([*named_shell(), f"set -o pipefail\n{script}code=$?\nwait\nexit $code"],
                          cwd=document.ROOT if block.options.get("cwd") == "source" else folder,
                          env=environment(folder, binaries), text=True,
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
        for saved, text in document.files_of(file.read_text()).items():
            (folder / saved).write_text(text)
        for index in range(count):
            block = document.blocks(file.read_text())[index]
            if not block.is_run or (only and not re.search(only, block.body(), re.DOTALL)):
                continue
            begin = time.monotonic()
            run_block(block, folder, binaries)
            # Read the page again, because an editor may have changed it.
            page = file.read_text()
            place = document.blocks(page)[index]
            if [each.text for each in place.commands] != [each.text for each in block.commands]:
                raise document.Mistake("the blocks of the page changed while their commands ran")
            file.write_text(page[:place.begin] + block.body(not block.hides_output) + page[place.end:])
            if "save" in block.options:
                (document.IMAGES / block.options["save"]).write_text(block.body())
            print(f"{time.monotonic() - begin:6.1f} s  {block.commands[0].text.splitlines()[0]}",
                  flush=True)


def check_idle() -> None:
    """Refuses a busy machine, because the pages show times."""
    load = os.getloadavg()[0]
    if load > 0.5:
        raise document.Mistake(f"expected an idle machine, found a load of {load:.2f}; "
                               "try: wait a minute, or pass --busy")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"),
                        help="the folder with lockstep and the examples")
    parser.add_argument("--page", help="only pages with a path that contains this pattern")
    parser.add_argument("--only", help="only blocks that contain this pattern")
    parser.add_argument("--busy", action="store_true", help="also run on a busy machine")
    parser.add_argument("--images-only", action="store_true", help="run no commands")
    arguments = parser.parse_args()
    try:
        if not arguments.images_only:
            if not arguments.busy:
                check_idle()
            for page in document.pages():
                where = page.relative_to(document.ROOT)
                if arguments.page and not re.search(arguments.page, str(where)):
                    continue
                print(where, flush=True)
                refresh(page, arguments.bin.resolve(), arguments.only)
        for name, text in images.make_all(document.IMAGES).items():
            (document.IMAGES / name).write_text(text)
        for name, digest in document.check_digests(
                document.blocks(document.TUTORIAL.read_text())).items():
            print(f"digest {name}: {digest}")
    except document.Mistake as mistake:
        print(f"tutorial: {mistake}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
