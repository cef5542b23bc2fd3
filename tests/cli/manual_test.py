#!/usr/bin/env python3
"""Compares the man pages and the completions with the help: manual_test.py LOCKSTEP SHARE [TEST…].

SHARE is the folder that the target `manpages` writes.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LOCKSTEP = ""
SHARE = Path()


def output_of(*command: str, folder: str = ".") -> str:
    return subprocess.run(command, text=True, capture_output=True, check=True, cwd=folder).stdout


def help_of(path: str) -> str:
    return output_of(LOCKSTEP, *path.split(), "--help")


def names_below(heading: str, text: str) -> list[str]:
    """The first word of each line below a heading of the help."""
    if f"\n{heading}:\n" not in text:
        return []
    lines = text.split(f"\n{heading}:\n")[1].split("\n\n")[0].splitlines()
    return re.findall(r"^  (\S+)", "\n".join(lines), flags=re.MULTILINE)


def commands() -> list[str]:
    """Every command that the help names: "run", "data", "data pack", …"""
    found = []
    for name in names_below("Commands", help_of("")):
        found.append(name)
        found += [f"{name} {each}" for each in names_below("Subcommands", help_of(name))]
    return found


def options(path: str) -> list[str]:
    """The options that the help of a command describes, each with all its names."""
    columns = re.findall(r"^  (-\S+)", help_of(path), flags=re.MULTILINE)
    return [name for column in columns for name in column.split(",")]


def page(path: str) -> Path:
    return SHARE / "man/man1" / ("-".join(["lockstep", *path.split()]) + ".1")


def complete(line: str, folder: str = ".", before: str = "") -> list[str]:
    """What bash suggests where the line ends."""
    # Readline makes a word of each "=".
    words = re.findall(r"=|[^\s=]+", line)
    if line.endswith(" "):
        words.append("")
    file = SHARE / "bash-completion/completions/lockstep"
    script = (f"{before}\nset -u\nsource {shlex.quote(str(file))}\nCOMP_WORDS=({shlex.join(words)})\n"
              f"COMP_CWORD={len(words) - 1}\n_lockstep\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"")
    shown = subprocess.run(["bash", "--norc", "-c", script], text=True, capture_output=True, cwd=folder)
    assert not shown.stderr, shown.stderr
    return shown.stdout.split()


class DescribeTest(unittest.TestCase):
    def test_the_help_does_not_show_the_argument(self):
        for path in ["", *commands()]:
            self.assertNotIn("--describe", help_of(path))

    def test_a_program_gets_the_argument_as_it_is(self):
        self.assertEqual("--describe=json\n", output_of(LOCKSTEP, "run", "echo", "--describe=json"))


class ManPageTest(unittest.TestCase):
    def test_every_command_has_a_page_and_every_page_a_command(self):
        wanted = {page(path).name for path in ["", *commands()]}
        self.assertEqual(wanted, {file.name for file in (SHARE / "man/man1").iterdir()})
        self.assertLess(15, len(wanted))

    def test_every_option_of_the_help_is_in_the_page(self):
        for path in commands():
            text = page(path).read_text().replace("\\-", "-")
            tags = re.findall(r"^\.TP\n(.*)$", text, flags=re.MULTILINE)
            described = {name for tag in tags for name in re.findall(r"\\fB(-[^\\]+)\\fR", tag)}
            self.assertLessEqual({"-h", "--help"}, described, path)
            self.assertEqual(set(options(path)), described, path)

    def test_lists_the_values_of_an_option(self):
        self.assertIn("one of auto, local, mpirun, srun, ssh (default: auto)",
                      page("run").read_text())

    @unittest.skipUnless(shutil.which("man"), "there is no man-db")
    def test_man_has_no_warning(self):
        for file in (SHARE / "man/man1").iterdir():
            shown = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", file],
                                   text=True, capture_output=True)
            self.assertEqual("", shown.stderr, file)

    @unittest.skipUnless(shutil.which("lexgrog"), "there is no man-db")
    def test_every_page_has_a_line_for_whatis(self):
        for file in (SHARE / "man/man1").iterdir():
            self.assertIn(f'"{file.stem} - ', output_of("lexgrog", str(file)))


class BashCompletionTest(unittest.TestCase):
    def test_completes_every_command_and_option_of_the_help(self):
        for path in commands():
            before, _, name = path.rpartition(" ")
            self.assertIn(name, complete(f"lockstep {before} {name[:1]}"))
            self.assertEqual(set(options(path)), set(complete(f"lockstep {path} -")), path)

    def test_completes_a_word_that_an_option_accepts(self):
        self.assertEqual(["mpirun"], complete("lockstep run --launcher m"))
        self.assertEqual(["srun", "ssh"], complete("lockstep run --num-instances 2 --launcher=s"))
        self.assertEqual(["adam", "adamw"], complete("lockstep train --lr 0.1 --optimizer ad"))
        self.assertEqual(["auto", "local", "mpi", "shm", "tcp"], complete("lockstep run --transport="))
        self.assertEqual(["train", "test", "all"], complete("lockstep data pack --split "))
        self.assertEqual(["stage", "blocks"], complete("lockstep train --recompute="))
        self.assertEqual(["stage", "blocks"], complete("lockstep train --recompute "))

    def test_completes_the_last_word_of_a_list(self):
        self.assertEqual(["gloo,mpi"], complete("lockstep bench comm --against gloo,m"))
        self.assertEqual(["tutorial,standard"], complete("lockstep bench data --pipeline=tutorial,s"))

    def test_completes_a_value_where_the_sign_is_no_word_of_its_own(self):
        script = "COMP_WORDBREAKS=${COMP_WORDBREAKS//=}"
        self.assertEqual(["mpirun"], complete("lockstep run --launcher=m", before=script))

    def test_completes_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a.pt", "a.txt"):
                (Path(folder) / name).touch()
            (Path(folder) / "afolder").mkdir()
            self.assertEqual(["a.pt", "a.txt", "afolder"],
                             sorted(complete("lockstep run --hostfile a", folder)))
            self.assertEqual(["afolder"], complete("lockstep run --log-dir a", folder))
            self.assertEqual(["a.pt", "afolder"], sorted(complete("lockstep train --model a", folder)))
            self.assertEqual(["a.pt", "a.txt", "afolder"], sorted(complete("lockstep diff a", folder)))

    def test_completes_the_program_that_is_started(self):
        self.assertIn("hostname", complete("lockstep run --num-instances 2 hostn"))
        self.assertIn("hostname", complete("lockstep run --dashboard 8080 -- hostn"))
        self.assertIn("hostname", complete("lockstep run --dashboard hostn"))
        self.assertEqual([], complete("lockstep run hostname --num-ins"))
        helper = "_command_offset() { COMPREPLY=(\"offset $1\"); }"
        self.assertEqual(["offset", "4"], complete("lockstep run -v --shrink sort --he", before=helper))

    def test_suggests_nothing_for_numbers(self):
        self.assertEqual([], complete("lockstep run --num-instances "))
        self.assertEqual([], complete("lockstep run --num-instances="))


class ZshCompletionTest(unittest.TestCase):
    TEXT = ""

    @classmethod
    def setUpClass(cls):
        cls.FILE = SHARE / "zsh/site-functions/_lockstep"
        cls.TEXT = cls.FILE.read_text()

    def test_holds_every_command_and_option_of_the_help(self):
        for path in commands():
            start = f"\n_lockstep_{path.replace(' ', '_')}() {{\n"
            self.assertIn(start, self.TEXT)
            function = self.TEXT.split(start)[1].split("\n}\n")[0]
            for name in options(path):
                self.assertRegex(function, rf"[)*]{name}[=+-]*\[", path)

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh_reads_it(self):
        self.assertEqual("", output_of("zsh", "-n", str(self.FILE)))


if __name__ == "__main__":
    LOCKSTEP = str(Path(sys.argv.pop(1)).resolve())
    SHARE = Path(sys.argv.pop(1)).resolve()
    unittest.main()
