#!/usr/bin/env python3
"""Checks the pages of the documentation: pages_test.py FOLDER-OF-BINARIES [--without-training].

It runs the quick commands and compares their output, checks that all commands and options exist, and checks links,
images, tables, line lengths and paragraph lengths. It uses no network: every external link must be in `EXTERNAL_LINKS`.
"""

import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

sys.dont_write_bytecode = True
from commands_of_pages import ROOT, Programs, flags_for_gpus, flags_of, lockstep_calls, outputs_of  # noqa: E402
import document  # noqa: E402
import fragments  # noqa: E402
import images  # noqa: E402
import links  # noqa: E402

PROGRAMS = Programs(Path())
WITH_TRAINING = True
PAGES = {path: path.read_text() for path in document.pages()}
README = PAGES[document.README]
MARKDOWN = sorted({*PAGES, *ROOT.glob("*.md")})
MIGRATION = document.DOCS / "guides" / "migration.md"
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
WITHOUT_TORCH = ("run", "data info", "data pack", "diff", "monitor", "dashboard", "doctor", "version",
                 "bench data", "bench comm", "bench launch")
NEEDS_TORCH = ("train", "eval", "plan", "model", "bench train", "bench pipeline")
QUICK = ("run", "plan", "model", "data info", "version")
# The external links of the pages. Open a new link in a browser before you add it here.
EXTERNAL_LINKS = {"https://keepachangelog.com", "https://ui.perfetto.dev"}
MOST_LINES_OF_A_PARAGRAPH = 6
# build_site.py generates these pages. site_test.py checks links to them.
GENERATED = (document.DOCS / "reference" / "api",)


def pattern_of(line: str) -> str:
    """The line on another machine: with other numbers, cores and columns, but with the same digest."""
    if "weights:" in line:
        return re.escape(line)
    words = []
    for word in line.split():
        if re.fullmatch(r"any|\d+(-\d+)?", word):
            words.append(r"(?:any|\d+(?:-\d+)?)")
        elif word == "laptop":
            words.append(r"\S+")
        else:
            words.append(re.sub(r"\d+", r"\\d+", re.escape(word)))
    return re.sub(r"host\\s\+\w+", r"host\\s+\\S+", r"\s*" + r"\s+".join(words))


def is_quick(block: document.Block) -> bool:
    """Whether the output is compared here. `make tutorial` runs all blocks."""
    if not block.is_run or block.hides_output or "digest" in block.options or len(block.commands) > 1:
        return False
    calls = lockstep_calls(block.commands[0].text)
    return bool(calls) and all(subcommand in QUICK for subcommand, _ in calls)


def is_generated(file: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in GENERATED)


def rows_below(page: str, header: str) -> list[list[str]]:
    """The cells of the table with this header line."""
    table = page.split(header + "\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in table]


def paragraphs_of(page: str) -> list[list[str]]:
    """The lines of each paragraph and of each list item, without headings, tables, code and comments."""
    paragraphs: list[list[str]] = [[]]
    for line in links.prose_of(page).splitlines():
        if not line.strip() or line.startswith(("#", "|")):
            paragraphs.append([])
        elif re.match(r" *(?:[-*]|\d+\.) ", line):
            paragraphs.append([line])
        else:
            paragraphs[-1].append(line)
    return [lines for lines in paragraphs if lines]


class Outputs(unittest.TestCase):
    def test_quick_commands_print_the_shown_output(self):
        compared = 0
        with tempfile.TemporaryDirectory() as folder:
            for path, page in PAGES.items():
                if path == document.TUTORIAL:
                    continue
                for block in filter(is_quick, document.blocks(page)):
                    compared += 1
                    with self.subTest(f"{path.name}: {block.commands[0].text}"):
                        self.check(block.commands[0], int(block.options.get("exit", 0)), Path(folder))
        self.assertGreaterEqual(compared, 6)

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

    def test_a_pattern_accepts_other_numbers_and_no_other_words(self):
        pattern = pattern_of("0  layer3.13 (22)  66.7 MiB  any  host vm, pid 7")
        self.assertRegex("0   layer3.2 (2)  1.2 MiB  0-3  host laptop, pid 12", pattern)
        self.assertNotRegex("0   layer3.2 (2)  1.2 GiB  0-3  host laptop, pid 12", pattern)
        self.assertNotRegex("weights: 0123456789abcdef", pattern_of("weights: 0123456789abcdee"))


class Commands(unittest.TestCase):
    def test_the_table_of_commands_has_the_commands_of_the_program(self):
        shown = subprocess.run([PROGRAMS.folder / "lockstep", "--help"], text=True, capture_output=True, check=True,
                               timeout=60)
        commands = shown.stdout.split("\nCommands:\n")[1].split("\n\n")[0]
        expected = [[f"`lockstep {name}`", summary] for name, summary in re.findall(r"(?m)^  (\S+) +(.+)$", commands)]
        self.assertGreater(len(expected), 10)
        page = PAGES[document.DOCS / "reference" / "commands.md"]
        self.assertEqual(rows_below(page, "| command | purpose |"), expected)


class Options(unittest.TestCase):
    def test_every_option_of_a_command_exists(self):
        checked = 0
        for path, page in PAGES.items():
            for block in document.blocks(page):
                for command in block.commands:
                    for subcommand, words in lockstep_calls(command.text):
                        if not WITH_TRAINING and subcommand in NEEDS_TORCH:
                            continue
                        checked += 1
                        known = PROGRAMS.flags(subcommand) | flags_for_gpus()
                        self.assertEqual(flags_of(words) - known, set(), f"{path.name}: {command.text}")
        self.assertGreater(checked, 40)

    def test_every_option_in_the_text_exists(self):
        if not WITH_TRAINING:
            self.skipTest("built without libtorch")
        known = set().union(*(PROGRAMS.flags(each) for each in WITHOUT_TORCH + NEEDS_TORCH)) | flags_for_gpus()
        named = {}
        for path, page in PAGES.items():
            # Migration names options of other systems. Internals name options of benchmarks.
            if path == MIGRATION or path.parent.name == "internals":
                continue
            for code in re.findall(r"`([^`\n]+)`", links.prose_of(page)):
                if not code.startswith(("cmake", "make", "apt", "--mpi-global-args")):
                    named |= {flag: f"{path.name}: {code}" for flag in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", code)}
        self.assertGreater(len(named), 60)
        self.assertEqual({flag: where for flag, where in named.items() if flag not in known}, {})


class Links(unittest.TestCase):
    def test_links_lead_to_files_and_headings(self):
        checked = 0
        for path in MARKDOWN:
            for target in links.links_of(path.read_text()):
                if links.is_external(target):
                    continue
                file, anchor = links.resolve(path, target)
                where = f"{path.relative_to(ROOT)}: {target}"
                if is_generated(file):
                    continue
                self.assertTrue(file.exists(), where)
                if anchor:
                    self.assertIn(anchor, links.anchors_of(file.read_text()), where)
                checked += 1
        self.assertGreater(checked, 100)

    def test_external_links_are_known(self):
        found = {target for path in MARKDOWN for target in links.links_of(path.read_text())
                 if links.is_external(target)}
        self.assertEqual(found, EXTERNAL_LINKS)

    def test_links_in_code_are_not_checked(self):
        page = "[a](b.md)\n```cpp\nf[1](x)\n```\n`g[2](y)` ![c](d.svg#e)\n<!-- [f](g) -->\n"
        self.assertEqual(links.links_of(page), ["b.md", "d.svg#e"])
        self.assertEqual(links.anchor_of("On a GPU: `make bench-gpu`"), "on-a-gpu-make-bench-gpu")

    def test_every_page_can_be_reached_from_the_home_page(self):
        reached, waiting = set(), [document.DOCS / "index.md"]
        while waiting:
            page = waiting.pop()
            if page in reached or page.suffix != ".md" or not page.is_relative_to(document.DOCS) or is_generated(page):
                continue
            reached.add(page)
            waiting += [links.resolve(page, each)[0] for each in links.links_of(page.read_text())
                        if not links.is_external(each)]
        self.assertEqual(set(document.DOCS.rglob("*.md")) - reached, set())

    def test_named_tests_exist(self):
        named = {(path.name, name) for path, page in PAGES.items() for name in re.findall(r"`(tests/[^`\s]+)`", page)}
        self.assertGreater(len(named), 15)
        for page, name in named:
            self.assertTrue((ROOT / name).is_file(), f"{page}: {name}")

    def test_every_feature_of_lockstep_names_a_test(self):
        page = PAGES[document.DOCS / "internals" / "features.md"]
        header = next(line for line in page.splitlines() if line.endswith("| shown by |"))
        rows = rows_below(page, header)
        self.assertGreater(len(rows), 15)
        for what, ours, *_, shown_by in rows:
            if ours != "no" and what != "in use":
                self.assertRegex(shown_by, r"`tests/", what)


class Readme(unittest.TestCase):
    def test_it_is_short(self):
        self.assertLessEqual(len(README.split()), 1200)

    def test_its_sections_have_the_order_of_a_first_visit(self):
        sections = re.findall(r"^## (.+)$", README, re.MULTILINE)
        self.assertEqual(sections, ["Try it", "What works", "Train from the command line", "Train from C++", "More",
                                    "Comparison", "Where to go next"])

    def test_the_comparison_has_at_most_eight_rows(self):
        rows = rows_below(README, "| work | lockstep | fastest peer | times as fast | target |")
        self.assertTrue(1 <= len(rows) <= 8)

    def test_the_comparison_shows_every_missed_target(self):
        whole = PAGES[document.DOCS / "internals" / "comparison.md"]
        missed = re.findall(r"^\| ([^|]+) \|.*\*\*not met\*\*", whole, re.MULTILINE)
        shown = [row[0] for row in rows_below(README, "| work | lockstep | fastest peer | times as fast | target |")]
        self.assertLessEqual(set(missed), set(shown))


class Text(unittest.TestCase):
    def test_commands_are_in_console_blocks(self):
        for path, page in PAGES.items():
            self.assertNotRegex(page, r"(?m)^ {4}\$ ", path.name)
            for language, code in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
                if language != "console":
                    self.assertNotRegex(code, r"(?m)^\$ ", path.name)

    def test_every_fragment_of_cpp_says_what_it_is(self):
        found = [(path.name, kind, code) for path, page in PAGES.items() for kind, code in fragments.fragments_of(page)]
        self.assertGreater(len(found), 12)
        for name, kind, code in found:
            self.assertIn(kind, fragments.KINDS, f"{name}: {code}")

    def test_lines_are_short(self):
        for path, page in PAGES.items():
            if path.parent.name == "internals":
                continue
            for line in re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL).splitlines():
                if not line.startswith(("|", "<!--")):
                    self.assertLessEqual(len(line), 120, f"{path.name}: {line}")

    def test_paragraphs_are_short(self):
        for path, page in PAGES.items():
            if path.parent.name == "internals":
                continue
            for lines in paragraphs_of(page):
                self.assertLessEqual(len(lines), MOST_LINES_OF_A_PARAGRAPH, f"{path.name}: {lines[0]}")

    def test_items_of_a_list_are_paragraphs(self):
        page = "# A\none\ntwo\n\n- three\n  four\n- five\n```sh\nsix\n```\nseven\n| eight |\n|---|\nnine\n"
        self.assertEqual(paragraphs_of(page),
                         [["one", "two"], ["- three", "  four"], ["- five"], ["seven"], ["nine"]])

    def test_nothing_of_the_machine_that_ran_the_commands_is_left(self):
        for path, page in PAGES.items():
            for block in document.blocks(page):
                self.assertNotRegex(outputs_of(block.body()), r"/(work|tmp|root)/", path.name)


class ProjectFiles(unittest.TestCase):
    def test_they_have_the_version_of_the_build(self):
        version = re.search(r"project\(lockstep VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertIn(f"\nversion: {version}\n", (ROOT / "CITATION.cff").read_text())
        self.assertIn(f"\n## {version} - ", (ROOT / "CHANGELOG.md").read_text())

    def test_the_readme_says_that_there_is_no_licence(self):
        self.assertIn("The owner has not chosen a licence yet.", README)
        self.assertEqual(list(ROOT.glob("LICEN*")), [])

    def test_the_site_lists_every_page(self):
        config = (ROOT / "tools" / "docs" / "mkdocs.yml").read_text()
        for path in document.DOCS.rglob("*.md"):
            self.assertIn(f": {path.relative_to(document.DOCS)}\n", config)


class Images(unittest.TestCase):
    def test_scripts_generate_all_images(self):
        made = images.make_all(document.IMAGES)
        found = [path for path in document.DOCS.rglob("*") if path.suffix in (".svg", ".png", ".jpg", ".gif", ".webp")]
        self.assertEqual({path.relative_to(document.IMAGES).as_posix() for path in found}, set(made))
        for name, text in made.items():
            self.assertEqual((document.IMAGES / name).read_text(), text, f"{name}: run make tutorial")

    def test_every_image_is_shown_and_has_a_description(self):
        shown = {links.resolve(path, target)[0]: label for path, page in PAGES.items()
                 for label, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page)}
        self.assertEqual(set(shown), {document.IMAGES / name for name in images.make_all(document.IMAGES)})
        space = "{http://www.w3.org/2000/svg}"
        for file, label in shown.items():
            root = xml.fromstring(file.read_text())
            self.assertTrue(label, file.name)
            self.assertTrue(root.findtext(f"{space}title"), file.name)
            self.assertTrue(root.findtext(f"{space}desc"), file.name)
            self.assertIsNotNone(root.find(f"{space}rect"), f"{file.name}: no background")

    def test_stored_outputs_belong_to_blocks(self):
        saved = {block.options["save"]: (block, page) for page in PAGES.values()
                 for block in document.blocks(page) if "save" in block.options}
        self.assertEqual(set(saved), {path.name for path in document.IMAGES.glob("*.txt")})
        for name, (block, _) in saved.items():
            text = (document.IMAGES / name).read_text()
            if block.hides_output:
                self.assertTrue(text.startswith(block.body()), name)
            else:
                self.assertEqual(text, block.body(), name)


if __name__ == "__main__":
    PROGRAMS = Programs(Path(sys.argv[1]))
    WITH_TRAINING = "--without-training" not in sys.argv
    unittest.main(argv=sys.argv[:1], verbosity=2)
