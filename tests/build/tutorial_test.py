#!/usr/bin/env python3
"""Checks docs/start/tutorial.md and its scripts: tutorial_test.py FOLDER-OF-BINARIES [--without-training].

Equal digests of the page are equal on this machine, with few samples, and the placements have the form that images are
drawn from. pages_test.py checks the options, links and images of all pages.
"""

import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from commands_of_pages import Programs, flags_of, programs_within, simple_commands  # noqa: E402
import document  # noqa: E402
import images  # noqa: E402
import terminal  # noqa: E402

PROGRAMS = Programs(Path())
WITH_TRAINING = True
PAGE = document.TUTORIAL.read_text()
BLOCKS = document.blocks(PAGE)


class Document(unittest.TestCase):
    """The page as it is."""

    def test_same_digests_are_the_same_and_others_are_not(self):
        self.assertEqual(set(document.check_digests(BLOCKS)), {"one", "eight", "mlp", "order", "program"})
        self.assertGreater(sum(block.options.get("digest") == "eight" for block in BLOCKS), 4)

    def test_every_block_shows_or_hides_its_output(self):
        for block in BLOCKS:
            if block.is_run:
                last = block.commands[-1]
                self.assertNotEqual(bool(last.output), block.hides_output, last.text)

    def test_the_program_is_built_from_the_files_of_the_page(self):
        self.assertEqual(set(document.files_of(PAGE)), {"CMakeLists.txt", "train.cpp"})


class Commands(unittest.TestCase):
    """The page beside the program."""

    def test_layouts_are_still_printed_in_a_form_that_images_are_made_from(self):
        for block in BLOCKS:
            if "save" not in block.options:
                continue
            again = PROGRAMS.run(block.commands[0].text, Path("/"))
            before, now = (images.read_topology(text) for text in
                           (block.body(), f"$ {block.commands[0].text}\n{again}"))
            self.assertEqual([(each.number, each.replicas) for each in now.instances],
                             [(each.number, each.replicas) for each in before.instances])
            self.assertEqual(now.stages, before.stages)

    def test_digests_are_the_same_on_this_machine_with_few_samples(self):
        if not WITH_TRAINING:
            self.skipTest("built without libtorch")
        few = {"--limit-train": "256", "--limit-test": "16", "--epochs": "1", "--device-iterations": "1"}
        digests = {}
        with tempfile.TemporaryDirectory() as name:
            for block in BLOCKS:
                # Those with several commands wait for the end of an epoch that is too short here.
                if block.options.get("digest") != "eight" or len(block.commands) > 1:
                    continue
                text = block.commands[0].text
                for option, value in few.items():
                    text, count = re.subn(rf"{option} \d+", f"{option} {value}", text)
                    self.assertEqual(count, 1, text)
                text = text.replace("lockstep train",
                                    "lockstep train --dataset synthetic --size 256 --image-size 28x28x1")
                output = PROGRAMS.run(text, Path(name))
                found = re.findall(r"weights: ([0-9a-f]{16})", output)
                self.assertEqual(len(found), 1, output)
                digests[text] = found[0]
        self.assertEqual(len(set(digests.values())), 1, digests)


class Script(unittest.TestCase):
    """What `make tutorial` does to a page."""

    def test_blocks_have_commands_outputs_and_options(self):
        page = ('text\n<!-- run digest=a show="x|y" -->\n```console\n$ one \\\n    more\nout\n\n$ two\n```\n'
                '<!-- not run: needs a GPU -->\n```console\n$ three\n```\n```console\n$ four\n```\n')
        first, second, third = document.blocks(page)
        self.assertEqual(first.options, {"digest": "a", "show": "x|y"})
        self.assertEqual([each.text for each in first.commands], ["one \\\n    more", "two"])
        self.assertEqual(first.commands[0].output, ["out", ""])
        self.assertEqual(page[first.begin:first.end], first.body())
        self.assertEqual([each.is_run for each in (first, second, third)], [True, False, True])

    def test_an_unknown_word_is_refused(self):
        with self.assertRaises(document.Mistake):
            document.blocks("<!-- run sohw=x -->\n```console\n$ one\n```\n")

    def test_a_block_that_is_not_run_needs_a_reason(self):
        for comment in ("not run", "not run:"):
            with self.assertRaises(document.Mistake):
                document.blocks(f"<!-- {comment} -->\n```console\n$ one\n```\n")

    def test_files_of_a_page_are_code_blocks_with_a_name(self):
        page = "<!-- cpp program file=a.cpp -->\n```cpp\nint a;\n```\n```cpp\nint b;\n```\n"
        self.assertEqual(document.files_of(page), {"a.cpp": "int a;\n"})

    def test_a_recording_shows_every_line_of_the_terminal(self):
        drawn = terminal.draw("$ echo '<a>'\n[0] [Epoch 01]: 100%|██| 1/1\n" + "x" * 200 + "\n", "title", "words")
        self.assertEqual(drawn.count("<text "), 3)
        self.assertIn("&lt;a&gt;", drawn)
        self.assertIn("x" * 100, drawn)
        self.assertNotIn("x" * 120, drawn)

    def test_lines_between_those_that_are_shown_become_one_ellipsis(self):
        lines = ["a", "b", "keep 1", "keep 2", "c", "keep 3", "d"]
        self.assertEqual(document.shorten(lines, "keep"),
                         ["…", "keep 1", "keep 2", "…", "keep 3", "…"])
        self.assertEqual(document.shorten(lines, None), lines)

    def test_of_a_bar_its_last_state_stays(self):
        bar = "[0] [Epoch 01]: {}%|███| 1/4 [00:01<00:03]"
        lines = [bar.format(" 25"), "a note", bar.format(" 50"), bar.format("100"), "[Test  01]:  35%|█| 2/6",
                 bar.format("100").replace("01]", "02]")]
        self.assertEqual(document.settle_bars(lines), ["a note", bar.format("100"),
                                                       bar.format("100").replace("01]", "02]")])

    def test_digests_that_should_be_the_same_and_are_not_are_found(self):
        block = "<!-- run digest={} -->\n```console\n$ train\nweights: {}  (R=8 T=1)\n```\n"
        same, other = "0123456789abcdef", "fedcba9876543210"
        self.assertEqual(document.check_digests(document.blocks(block.format("a", same) * 2)), {"a": same})
        for page in (block.format("a", same) + block.format("a", other),
                     block.format("a", same) + block.format("b", same), block.format("a", "none")):
            with self.assertRaises(document.Mistake):
                document.check_digests(document.blocks(page))

    def test_commands_are_found_in_a_line_of_the_shell(self):
        text = "timeout --preserve-status 6 lockstep run --num-instances 2 \\\n    lockstep train --epochs 1 >log 2>&1; echo $?"
        (words,) = simple_commands(text)
        run, train = programs_within(words)
        self.assertEqual(flags_of(run), {"--num-instances"})
        self.assertEqual(flags_of(train), {"--epochs"})

    def test_a_tree_over_any_number_of_replicas_skips_what_is_not_there(self):
        self.assertEqual(images._tree(0, 4, 3),
                         (0, 4, (0, 2, (0, 1, None, None), (1, 1, None, None)), (2, 1, None, None)))


if __name__ == "__main__":
    PROGRAMS = Programs(Path(sys.argv[1]))
    WITH_TRAINING = "--without-training" not in sys.argv
    unittest.main(argv=sys.argv[:1], verbosity=2)
