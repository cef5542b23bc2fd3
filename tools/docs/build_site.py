#!/usr/bin/env python3
"""Builds the documentation site with mkdocs and Doxygen.

    tools/docs/build_site.py --lockstep build/release/bin/lockstep --output build/docs

`make docs` calls it. OUTPUT/source receives the pages of docs/, and generated pages for each command, each example
and the C++ API. OUTPUT/html receives the site. Nothing is loaded from the network.

Exit code 77: Doxygen, mkdocs or its theme is not installed.
"""

import argparse
import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import api
import links

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
MISSING = 77
_MARKER = re.compile(r"^<!-- (?:run|not run|cpp|file|comparison|end of|commands|`make)[^\n]*-->\n", re.MULTILINE)


class Failure(Exception):
    """The site cannot be built."""


def escaped(text: str) -> str:
    """Text without meaning in Markdown."""
    return re.sub(r"([\\`*_{}\[\]#|])", r"\\\1", html.escape(text, quote=False))


def describe(lockstep: Path, *command: str) -> dict:
    done = subprocess.run([lockstep, *command, "--describe=json"], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise Failure(f"lockstep {' '.join(command)} --describe=json failed: {done.stderr}")
    return json.loads(done.stdout)


def option_text(option: dict) -> str:
    names = ", ".join(option["names"])
    value = option["value"].strip("[]")
    if option["takes_value"] and not option["positional"]:
        names += f" [{value}]" if option["value_is_optional"] else f" {value}"
    text = escaped(option["description"] or "print this help")
    words = [word for word in option["words"] if word and "*" not in word and word not in option["description"]]
    if words:
        text += "; one of " + ", ".join(f"`{word}`" for word in words)
    if option["range"]:
        text += f" ({escaped(option['range'])})"
    if option["default"]:
        text += f". Default: `{option['default']}`"
    return f"`{names}`\n:   {text}\n"


def footer_text(footer: str) -> str:
    parts = []
    for paragraph in filter(None, footer.split("\n\n")):
        if paragraph.startswith("  "):
            lines = "\n".join(line.strip() for line in paragraph.splitlines() if line.strip())
            parts.append(f"```sh\n{lines}\n```\n")
        elif paragraph.startswith("Example: "):
            parts.append(f"```sh\n{paragraph.removeprefix('Example: ').strip()}\n```\n")
        else:
            parts.append(escaped(paragraph.strip()) + "\n")
    return "\n".join(parts)


def command_text(command: dict, path: str, level: int = 1) -> str:
    """The page of a command. Subcommands are sections of it."""
    description = command["description"].strip()
    parts = [f"{'#' * level} lockstep {path}\n", escaped(description[:1].upper() + description[1:]) + "\n",
             f"```text\nlockstep {command['usage']}\n```\n"]
    groups: dict[str, list[dict]] = {}
    for option in command["options"]:
        groups.setdefault(option["group"], []).append(option)
    # The help option is not worth a section.
    for group, options in groups.items():
        shown = [option for option in options if "--help" not in option["names"]]
        if shown:
            parts.append(f"{'#' * (level + 1)} {group}\n")
            parts += [option_text(option) for option in shown]
    if command["footer"].strip():
        parts.append(f"{'#' * (level + 1)} Notes\n\n" + footer_text(command["footer"]))
    parts += [command_text(each, f"{path} {each['name']}", level + 1) for each in command["commands"]]
    return "\n".join(parts)


def write_commands(lockstep: Path, source: Path) -> list[str]:
    """A page for each command; returns their names."""
    top = describe(lockstep)
    names = [each["name"] for each in top["commands"]]
    folder = source / "reference" / "commands"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.md").write_text(command_text(describe(lockstep, name), name))
    rows = "".join(f"| [lockstep {each['name']}](commands/{each['name']}.md) | {escaped(each['summary'])} |\n"
                   for each in top["commands"])
    index = source / "reference" / "commands.md"
    before, rest = index.read_text().split("<!-- commands -->")
    after = rest.split("<!-- end of commands -->")[1]
    index.write_text(f"{before}| command | purpose |\n|---|---|\n{rows}{after}")
    return names


def example_page(file: Path) -> str:
    """The path in the site, from its root."""
    return f"reference/examples/{file.stem}.md"


def examples() -> list[Path]:
    return sorted([*EXAMPLES.glob("*/*.cpp"), *EXAMPLES.glob("slurm/*.sbatch")])


def page_in_site(file: Path) -> str | None:
    """The page of the site for a file of the source tree, or nothing."""
    if file.is_relative_to(DOCS):
        return str(file.relative_to(DOCS))
    if file == EXAMPLES / "README.md":
        return "reference/examples.md"
    if file in examples():
        return example_page(file)
    return "index.md" if file == ROOT / "README.md" else None


def with_links_of_site(page: Path, text: str, place: str) -> str:
    """Changes links out of docs/: to the page in the site, or to plain text."""
    def changed(match: re.Match) -> str:
        image, label, target = match.groups()
        if links.is_external(target):
            return match[0]
        file, anchor = links.resolve(page, target)
        found = page_in_site(file)
        if found is None:
            return label
        if found == target or file.is_relative_to(DOCS) and page.is_relative_to(DOCS):
            return match[0]
        relative = os.path.relpath(found, Path(place).parent)
        return f"{image}[{label}]({relative}{'#' + anchor if anchor and found != 'index.md' else ''})"

    # Code blocks keep their text.
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else links.LINK.sub(changed, part) for part in parts)


def write_pages(source: Path) -> None:
    for file in sorted(DOCS.rglob("*")):
        place = source / file.relative_to(DOCS)
        if file.suffix == ".svg":
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
        elif file.suffix == ".md":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(with_links_of_site(file, file.read_text(), str(file.relative_to(DOCS))))
    (source / "reference" / "examples").mkdir(parents=True)
    index = EXAMPLES / "README.md"
    place = page_in_site(index)
    (source / place).write_text(with_links_of_site(index, index.read_text(), place))
    for file in examples():
        language = "cpp" if file.suffix == ".cpp" else "sh"
        (source / example_page(file)).write_text(
            f"# {file.stem}\n\n`{file.relative_to(ROOT)}`\n\n```{language}\n{file.read_text()}```\n")


def remove_markers(source: Path) -> None:
    """Removes the comments for scripts."""
    for file in source.rglob("*.md"):
        file.write_text(_MARKER.sub("", file.read_text()))


def write_api(source: Path, work: Path) -> list[str]:
    """The pages of the C++ API; returns the names of the namespaces."""
    done = subprocess.run([HERE / "doxygen", work], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"doxygen failed:\n{done.stderr}")
    pages = api.pages(work / "xml")
    folder = source / "reference" / "api"
    folder.mkdir()
    for name, text in pages.items():
        (folder / name).write_text(text)
    return [space.name for space in api.read(work / "xml") if space.kind == "namespace" and api.page_of(space.name) in pages]


def write_config(names: list[str], spaces: list[str], output: Path) -> Path:
    text = (HERE / "mkdocs.yml").read_text()
    commands = "\n".join(f"          - {name}: reference/commands/{name}.md" for name in names)
    text = text.replace("          # commands", commands)
    text = text.replace("          # api", "\n".join(
        f"          - {json.dumps(space)}: reference/api/{api.page_of(space)}" for space in spaces))
    text += f"docs_dir: {json.dumps(str(output / 'source'))}\nsite_dir: {json.dumps(str(output / 'html'))}\n"
    file = output / "mkdocs.yml"
    file.write_text(text)
    return file


def build(lockstep: Path, output: Path) -> None:
    source = output / "source"
    for folder in (source, output / "html", output / "doxygen"):
        shutil.rmtree(folder, ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    write_pages(source)
    names = write_commands(lockstep, source)
    remove_markers(source)
    shutil.copy(HERE / "site.css", source)
    config = write_config(names, write_api(source, output / "doxygen"), output)
    done = subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--config-file", config], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise Failure(f"mkdocs failed:\n{done.stdout}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lockstep", type=Path, default=ROOT / "build/release/bin/lockstep", help="the built program")
    parser.add_argument("--output", type=Path, default=ROOT / "build/docs", help="the folder for source/ and html/")
    arguments = parser.parse_args()
    missing = [program for program in ("doxygen", "mkdocs") if not shutil.which(program)]
    if not Path("/usr/share/mkdocs/themes/material").is_dir():
        missing.append("mkdocs-material")
    if missing:
        print(f"docs: not installed: {', '.join(missing)}; try: make packages-docs", file=sys.stderr)
        return MISSING
    try:
        build(arguments.lockstep.resolve(), arguments.output.resolve())
    except Failure as failure:
        print(f"docs: {failure}", file=sys.stderr)
        return 1
    print(f"{arguments.output}/html/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
