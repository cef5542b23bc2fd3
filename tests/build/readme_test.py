#!/usr/bin/env python3
"""Checks README.md beside the program: readme_test.py FOLDER-OF-BINARIES [--without-training].

Commands that show an output are run, and print it again but for numbers; options exist; links and
tests that it names lead somewhere.
"""

import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from commands_of_pages import ROOT, Programs, flags_for_gpus, flags_of, lockstep_calls  # noqa: E402
import document  # noqa: E402

PROGRAMS = Programs(Path())
WITH_TRAINING = True
PAGE = document.README.read_text()
BLOCKS = document.blocks(PAGE)
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
TEXT = re.sub(r"^```.*?^```$|^    [^\n]*$", "", PAGE, flags=re.DOTALL | re.MULTILINE)  # without code
WITHOUT_TORCH = ("run", "data info", "data pack", "diff", "monitor", "dashboard", "doctor", "version",
                 "bench data", "bench comm", "bench launch")
NEEDS_TORCH = ("train", "eval", "plan", "model", "bench train", "bench pipeline")


def pattern_of(line: str) -> str:
    """What a line looks like on another machine: other numbers, cores and columns; the same digest."""
    if "weights:" in line:
        return re.escape(line)
    words = []
    for word in line.split():
        if re.fullmatch(r"any|\d+(-\d+)?", word):
            words.append(r"(?:any|\d+(?:-\d+)?)")
        else:
            words.append(re.sub(r"\d+", r"\\d+", re.escape(word)))
    # The name of the host is the machine's.
    return re.sub(r"host\\s\+\w+", r"host\\s+\\S+", r"\s*" + r"\s+".join(words))


def commands_of_page() -> list[str]:
    """Every line that begins as a command, in fences or indented, with those that go on from it."""
    return [re.sub(r"\s+#.*", "", command) for command in
            re.findall(r"^(?:    )?\$ (lockstep(?:[^\n]*\\\n)*[^\n]*)", PAGE, re.MULTILINE)]


def anchor_of(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower().replace(" ", "-")


class Outputs(unittest.TestCase):
    def test_commands_print_what_is_shown(self):
        run = [block for block in BLOCKS if block.is_run]
        self.assertGreaterEqual(len(run), 5)
        with tempfile.TemporaryDirectory() as folder:
            for block in run:
                (command,) = block.commands
                with self.subTest(command.text):
                    self.check(command, int(block.options.get("exit", 0)), Path(folder))

    def check(self, command: document.Command, code: int, folder: Path) -> None:
        calls = lockstep_calls(command.text)
        if not WITH_TRAINING and any(subcommand in NEEDS_TORCH for subcommand, _ in calls):
            self.skipTest("built without libtorch")
        if "fashion-mnist" in " ".join(command.output) and not FASHION_MNIST.is_dir():
            self.skipTest("dataset-fashion-mnist is not installed")
        printed = PROGRAMS.run(command.text, folder, code).splitlines()
        for line in command.output:
            if line not in ("", document.ELLIPSIS):
                self.assertTrue(any(re.fullmatch(pattern_of(line), each.rstrip()) for each in printed),
                                f"not printed: {line}\nbut:\n" + "\n".join(printed))

    def test_a_pattern_is_of_words_and_not_of_numbers(self):
        pattern = pattern_of("0  layer3.13 (22)  66.7 MiB  any  host vm, pid 7")
        self.assertRegex("0   layer3.2 (2)  1.2 MiB  0-3  host laptop, pid 12", pattern)
        self.assertNotRegex("0   layer3.2 (2)  1.2 GiB  0-3  host laptop, pid 12", pattern)
        self.assertNotRegex("weights: 0123456789abcdef", pattern_of("weights: 0123456789abcdee"))


class Options(unittest.TestCase):
    def test_every_option_of_a_command_is_known(self):
        commands = commands_of_page()
        self.assertGreater(len(commands), 20)
        for command in commands:
            for subcommand, words in lockstep_calls(command):
                if WITH_TRAINING or subcommand in WITHOUT_TORCH:
                    known = PROGRAMS.flags(subcommand) | flags_for_gpus()
                    self.assertEqual(flags_of(words) - known, set(), command)

    def test_every_option_in_the_text_is_known(self):
        if not WITH_TRAINING:
            self.skipTest("built without libtorch")
        named = {flag for code in re.findall(r"`([^`\n]+)`", TEXT) if not code.startswith(("cmake", "make"))
                 for flag in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", code)}
        known = set().union(*(PROGRAMS.flags(each) for each in WITHOUT_TORCH + NEEDS_TORCH)) | flags_for_gpus()
        self.assertGreater(len(named), 20)
        self.assertEqual(named - known, set())


class Links(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for file, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", TEXT):
            target = ROOT / file if file else document.README
            self.assertTrue(target.exists(), file)
            if anchor:
                headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
                self.assertIn(anchor, [anchor_of(each) for each in headings], file)

    def test_what_it_claims_beside_others_is_shown_by_a_test(self):
        header = next(line for line in PAGE.splitlines() if line.endswith("| shown by |"))
        rows = PAGE.split(header, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
        self.assertGreater(len(rows), 15)
        for row in rows:
            _, what, ours, *_, shown_by, _ = (cell.strip() for cell in row.split("|"))
            if ours != "no" and what != "in use":
                self.assertRegex(shown_by, r"`tests/", what)

    def test_tests_that_it_names_exist(self):
        named = re.findall(r"`(tests/[^`]*)`", PAGE)
        self.assertGreater(len(named), 15)
        for name in named:
            self.assertTrue((ROOT / name).is_file(), name)


if __name__ == "__main__":
    PROGRAMS = Programs(Path(sys.argv[1]))
    WITH_TRAINING = "--without-training" not in sys.argv
    unittest.main(argv=sys.argv[:1], verbosity=2)
