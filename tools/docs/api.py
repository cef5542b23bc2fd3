"""Pages of the C++ API, from the XML that Doxygen writes for the public headers.

Each namespace has a page with its structs, enums, types and functions. Each class has its own page.
"""

import html
import re
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field
from pathlib import Path

# Specializations for other libraries, and parts that only other headers use.
_LEFT_OUT = re.compile(r"^(std|torch|lockstep::(gpu|data::kernels|comm::host))\b")


@dataclass
class Compound:
    """A namespace, class or struct."""

    name: str
    kind: str
    header: str
    text: str
    members: list[xml.Element] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        return self.name.rpartition("::")[0]

    @property
    def short(self) -> str:
        return self.name.rpartition("::")[2]


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]#|])", r"\\\1", html.escape(text, quote=False))


def _plain(element: xml.Element | None) -> str:
    return re.sub(r"\s+", " ", "".join(element.itertext())).strip() if element is not None else ""


def _inline(element: xml.Element) -> str:
    """The text of a paragraph as Markdown."""
    parts = [_escaped(element.text or "")]
    for child in element:
        if child.tag == "computeroutput":
            parts.append(f"`{''.join(child.itertext())}`")
        elif child.tag == "ndash":
            parts.append("–")
        elif child.tag not in ("verbatim", "table"):
            parts.append(_inline(child))
        parts.append(_escaped(child.tail or ""))
    return "".join(parts)


def _blocks(element: xml.Element | None) -> str:
    """The paragraphs of a description as Markdown."""
    parts = []
    for child in element if element is not None else ():
        if child.tag != "para":
            continue
        text = re.sub(r"\s+", " ", _inline(child)).strip()
        if text:
            parts.append(text)
        parts += [f"```text\n{each.text.rstrip()}\n```" for each in child.iter("verbatim")]
        for table in child.iter("table"):
            rows = [[_inline(cell[0]).strip() for cell in row.iter("entry")] for row in table.iter("row")]
            lines = [f"| {' | '.join(row)} |" for row in rows]
            parts.append("\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]))
    return "\n\n".join(parts)


def _text_of(element: xml.Element) -> str:
    return "\n\n".join(filter(None, (_blocks(element.find("briefdescription")),
                                     _blocks(element.find("detaileddescription")))))


def _code(text: str) -> str:
    """The spacing of the source instead of Doxygen's."""
    text = re.sub(r"< | >", lambda match: match[0].strip(), text)
    text = re.sub(r" ([&*]+)(?=[,)>]|$)", r"\1", text)
    return re.sub(r"([\w>]) ([&*]+)(?=\w)", r"\1\2 ", text)


def _declaration(member: xml.Element, compound: str) -> str:
    definition = _plain(member.find("definition")).replace(f"{compound}::", "")
    template = member.find("templateparamlist")
    head = ""
    if template is not None:
        params = [" ".join(filter(None, (_plain(each.find("type")), _plain(each.find("declname")))))
                  for each in template.findall("param")]
        head = f"template <{', '.join(params)}>\n"
    text = f"{head}{definition}{_plain(member.find('argsstring'))}"
    if member.get("kind") == "variable":
        text += f" {_plain(member.find('initializer'))}".rstrip()
    elif member.get("explicit") == "yes":
        text = "explicit " + text
    return _code(text) + ";"


def _enum(member: xml.Element) -> str:
    rows = [f"| `{_plain(value.find('name'))}` | {_text_of(value)} |" for value in member.findall("enumvalue")]
    return "\n".join(["| value | meaning |", "|---|---|", *rows])


def _is_shown(member: xml.Element) -> bool:
    if member.get("prot") in ("private",) or member.get("kind") in ("friend", "define"):
        return False
    name, arguments = _plain(member.find("name")), _plain(member.find("argsstring"))
    is_boilerplate = name.startswith("~") or name == "operator=" or arguments.endswith(("=default", "=delete"))
    return not name.startswith("@") and (not is_boilerplate or bool(_text_of(member)))


def _sections(members: list[xml.Element], compound: str, level: int) -> str:
    """A section for each name. Overloads share one."""
    names = list(dict.fromkeys(_plain(member.find("name")) for member in members))
    parts = []
    for name in names:
        parts.append(f"{'#' * level} `{name}`")
        for member in (each for each in members if _plain(each.find("name")) == name):
            if member.get("kind") == "enum":
                parts += [_text_of(member), _enum(member)]
            else:
                parts += [f"```cpp\n{_declaration(member, compound)}\n```", _text_of(member)]
    return "\n\n".join(filter(None, parts))


def _fields(compound: Compound) -> str:
    """The fields of a struct, as its declaration."""
    lines = []
    for member in (each for each in compound.members if each.get("kind") == "variable"):
        words = " ".join(filter(None, (_plain(member.find("briefdescription")), _plain(member.find("detaileddescription")))))
        if words:
            lines.append(f"  /// {words}")
        lines.append("  " + _declaration(member, compound.name))
    return f"```cpp\nstruct {compound.short} {{\n" + "\n".join(lines) + "\n};\n```" if lines else ""


def _struct(compound: Compound) -> str:
    functions = [each for each in compound.members if each.get("kind") != "variable"]
    return "\n\n".join(filter(None, (f"### `{compound.short}`", compound.text, _fields(compound),
                                     _sections(functions, compound.name, 4))))


def _class_page(compound: Compound, nested: list[Compound]) -> str:
    variables = [each for each in compound.members if each.get("kind") == "variable"]
    others = [each for each in compound.members if each.get("kind") != "variable"]
    return "\n\n".join(filter(None, (
        f"# {compound.name}", f"`#include <{compound.header}>`", compound.text,
        "Nested: " + ", ".join(f"[{each.short}]({page_of(each.name)})" for each in nested) if nested else "",
        "## Members" if others or variables else "", _sections(others + variables, compound.name, 3)))) + "\n"


def page_of(name: str) -> str:
    """The file of a class or namespace: "comm-Communicator.md"."""
    return (name.removeprefix("lockstep::") or "lockstep").replace("::", "-") + ".md"


def _namespace_page(space: Compound, all_compounds: list[Compound]) -> str:
    inner = [each for each in all_compounds if each.namespace == space.name and each.kind != "namespace"]
    classes = [each for each in inner if each.kind == "class"]
    structs = [each for each in inner if each.kind == "struct"]
    parts = [f"# {space.name}", space.text]
    if classes:
        rows = [f"| [{each.short}]({page_of(each.name)}) | {each.text.split('. ')[0].split(chr(10))[0].rstrip('.')} |"
                for each in classes]
        parts += ["## Classes", "\n".join(["| class | purpose |", "|---|---|", *rows])]
    for title, kinds in (("Functions", ("function",)), ("Types", ("enum", "typedef")), ("Constants", ("variable",))):
        members = [each for each in space.members if each.get("kind") in kinds]
        if members:
            parts += [f"## {title}", _sections(members, space.name, 3)]
    if structs:
        parts += ["## Structs", *map(_struct, structs)]
    return "\n\n".join(filter(None, parts)) + "\n"


def read(folder: Path) -> list[Compound]:
    """All namespaces, classes and structs with something to show, sorted by name."""
    found = []
    for file in sorted(folder.glob("*.xml")):
        if not file.name.startswith(("namespace", "class", "struct")):
            continue
        element = xml.parse(file).getroot().find("compounddef")
        name = _plain(element.find("compoundname"))
        if _LEFT_OUT.match(name) or "<" in name or element.get("prot") == "private":
            continue
        location = element.find("location")
        members = [member for member in element.iter("memberdef") if _is_shown(member)]
        found.append(Compound(name, element.get("kind"), location.get("file") if location is not None else "",
                              _text_of(element), members))
    return sorted(found, key=lambda each: each.name)


def pages(folder: Path) -> dict[str, str]:
    """The text of each page by the name of its file."""
    compounds = read(folder)
    spaces = [each for each in compounds if each.kind == "namespace"]
    names = {each.name for each in spaces}
    made = {page_of(space.name): _namespace_page(space, compounds) for space in spaces
            if space.members or any(each.namespace == space.name for each in compounds if each.kind != "namespace")}
    # A class or struct within a class has its own page too.
    alone = [each for each in compounds
             if each.kind == "class" or (each.kind == "struct" and each.namespace not in names)]
    made.update({page_of(each.name): _class_page(each, [other for other in alone if other.namespace == each.name])
                 for each in alone})
    return made
