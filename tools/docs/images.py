"""The images of the documentation, drawn from the stored outputs of commands in docs/images.

Each image has its own background, so that it is readable on a light and on a dark page. It has a title and a
description for screen readers.
"""

import re
import shlex
from dataclasses import dataclass
from html import escape
from pathlib import Path

import terminal

INK = "#1f2328"
SOFT = "#59636e"
LINE = "#8c959f"
PAPER = "#ffffff"
PANEL = "#f3f5f8"
SHARED = "#e4e8ee"
FILLS = ["#cfe5ff", "#ffe2bd", "#d3f0cd", "#ead8f8", "#ffd6d6", "#fff3b0", "#cdf1f0", "#e6e0d4"]
EDGES = ["#3573b8", "#b3722a", "#3f8a37", "#7d4fa8", "#b94a4a", "#94801a", "#2d8683", "#7a6f58"]
WIDTH = 880
MARGIN = 16


@dataclass
class Instance:
    number: int
    host: str
    replicas: list[int]
    cores: str


@dataclass
class Topology:
    """A placement and the batch sizes of the command that printed it."""

    instances: list[Instance]
    stages: int
    threads: int
    devices: dict[tuple[int, int], int]  # of (replica, stage), by the numbers of its host
    batch: int
    accumulation: int
    samples: int

    @property
    def replicas(self) -> int:
        return sum(len(instance.replicas) for instance in self.instances)

    @property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(instance.host for instance in self.instances))

    def on(self, host: str) -> list[Instance]:
        return [instance for instance in self.instances if instance.host == host]

    def instance_of(self, replica: int) -> int:
        return next(each.number for each in self.instances if replica in each.replicas)

    @property
    def step_samples(self) -> int:
        return self.batch * self.accumulation * self.replicas


def _numbers(ranges: str) -> list[int]:
    """"0-2,5" as [0, 1, 2, 5]."""
    numbers = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def _option(words: list[str], name: str, otherwise: int) -> int:
    return int(words[words.index(name) + 1]) if name in words else otherwise


def read_topology(text: str) -> Topology:
    """Reads a command and its output."""
    command, _, printed = text.removeprefix("$ ").partition("\n")
    while command.endswith("\\"):
        more, _, printed = printed.partition("\n")
        command = command[:-1] + " " + more
    words = shlex.split(command)
    head = re.search(r"(\d+) devices? per replica, (\d+) threads? per device", printed)
    rows = re.findall(r"^(\S+) +(\d+) +([\d,-]+) +([\d,-]+) +(\S+)$", printed, re.MULTILINE)
    if not head or not rows:
        raise ValueError(f"no topology in:\n{text}")
    stages = int(head[1])
    instances = [Instance(int(number), host, _numbers(replicas), cores)
                 for host, number, replicas, _, cores in rows]
    # Stage k of a host is on device k mod D.
    devices = {}
    for host in dict.fromkeys(instance.host for instance in instances):
        count = 1 + max(max(_numbers(row[3])) for row in rows if row[0] == host)
        local = [(replica, stage) for instance in instances if instance.host == host
                 for replica in instance.replicas for stage in range(stages)]
        devices.update({each: k % count for k, each in enumerate(local)})
    return Topology(instances, stages, int(head[2]), devices, _option(words, "--batch-size", 64),
                    _option(words, "--gradient-accumulation", 1),
                    _option(words, "--limit-train", 60000))


class Image:
    def __init__(self, height: int, title: str, description: str):
        self.height = height
        self.title = title
        self.description = description
        self.parts: list[str] = []

    def box(self, x, y, width, height, fill=PANEL, edge=LINE, dashed=False):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" '
                          f'fill="{fill}" stroke="{edge}"{dash}/>')

    def text(self, x, y, words, size=13, anchor="middle", fill=INK, bold=False):
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" '
                          f'fill="{fill}"{weight}>{escape(words)}</text>')

    def label(self, x, y, width, height, words, fill=PANEL, edge=LINE, size=13, bold=False):
        """A box with lines of text in its middle."""
        self.box(x, y, width, height, fill, edge)
        lines = words.split("\n")
        first = y + height / 2 - (len(lines) - 1) * (size + 3) / 2 + size * 0.35
        for i, line in enumerate(lines):
            self.text(x + width / 2, first + i * (size + 3), line, size, bold=bold and i == 0)

    def line(self, points, edge=SOFT, arrow=False, dashed=False, width=1.5):
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        end = ' marker-end="url(#arrow)"' if arrow else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{edge}" '
                          f'stroke-width="{width:g}"{end}{dash}/>')

    def area(self, points, fill):
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polygon points="{path}" fill="{fill}"/>')

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height:g}" '
            f'width="{WIDTH}" height="{self.height:g}" role="img" aria-labelledby="title desc" '
            'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">\n'
            f'<title id="title">{escape(self.title)}</title>\n'
            f'<desc id="desc">{escape(self.description)}</desc>\n'
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{SOFT}"/></marker></defs>\n'
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.height - 1:g}" rx="8" '
            f'fill="{PAPER}" stroke="{LINE}"/>\n')
        return head + "\n".join(self.parts) + "\n</svg>\n"


def _color(number: int) -> tuple[str, str]:
    return FILLS[number % len(FILLS)], EDGES[number % len(EDGES)]


def _listed(numbers: list[int]) -> str:
    """"0 and 1", "0, 2 and 4", "0 to 7"."""
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    if len(numbers) == 1:
        return str(numbers[0])
    return ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def draw_topology(topology: Topology) -> Image:
    """Hosts with their instances, replicas, stages, devices and one copy of the weights."""
    hosts = topology.hosts
    carried = "; ".join(f"instance {each.number} on {each.host} has "
                        f"{'replica' if len(each.replicas) == 1 else 'replicas'} "
                        f"{_listed(each.replicas)}" for each in topology.instances)
    stages = f" Each replica is divided into {topology.stages} stages." if topology.stages > 1 else ""
    tall = 34 * topology.stages + 30
    image = Image(
        242 + tall,
        f"{_counted(topology.replicas, 'replica')} in {_counted(len(topology.instances), 'instance')} "
        f"on {_counted(len(hosts), 'host')}",
        f"{carried}.{stages} Each host has one copy of weights and optimizer state. Its "
        "instances share this copy.")
    room = (WIDTH - MARGIN * (len(hosts) + 1)) / len(hosts)
    for h, host in enumerate(hosts):
        _draw_host(image, topology, host, MARGIN + h * (room + MARGIN), room, tall)
    return image


def _draw_host(image, topology, host, x, width, tall):
    local = topology.on(host)
    image.box(x, 16, width, image.height - 32)
    image.text(x + 12, 38, f"host {host}", 14, "start", bold=True)
    image.label(x + 12, 50, width - 24, 36, "weights and optimizer state: one copy, in shared memory",
                  SHARED, size=12 if width < 500 else 13)
    gap = 10
    each_width = (width - 24 - gap * (len(local) - 1)) / len(local)
    for i, instance in enumerate(local):
        left = x + 12 + i * (each_width + gap)
        fill, edge = _color(instance.number)
        image.line([(left + each_width / 2, 86), (left + each_width / 2, 106)], edge)
        image.box(left, 106, each_width, tall + 48, fill, edge)
        image.text(left + each_width / 2, 126, f"instance {instance.number}", 13, bold=True)
        _draw_replicas(image, topology, instance, left, each_width, tall, edge)
    _draw_devices(image, topology, host, x + 12, width - 24, 106 + tall + 48 + 14)


def _draw_replicas(image, topology, instance, left, width, tall, edge):
    inner = (width - 12 - 6 * (len(instance.replicas) - 1)) / len(instance.replicas)
    for r, replica in enumerate(instance.replicas):
        x = left + 6 + r * (inner + 6)
        image.box(x, 138, inner, tall + 6, PAPER, edge)
        image.text(x + inner / 2, 156, f"replica {replica}", 12 if inner > 66 else 11)
        for stage in range(topology.stages):
            device = topology.devices[(replica, stage)]
            words = f"device {device}" if topology.stages == 1 else f"stage {stage}\ndevice {device}"
            image.label(x + 4, 164 + 34 * stage, inner - 8, 31, words, PANEL, LINE, 11)


def _draw_devices(image, topology, host, x, width, y):
    on_host = [replica for instance in topology.on(host) for replica in instance.replicas]
    count = 1 + max(topology.devices[(replica, 0 if topology.stages == 1 else s)]
                    for replica in on_host for s in range(topology.stages))
    inner = (width - 10 * (count - 1)) / count
    for device in range(count):
        here = [(replica, stage) for replica in on_host for stage in range(topology.stages)
                if topology.devices[(replica, stage)] == device]
        names = _listed(sorted({replica for replica, _ in here}))
        what = f"replicas {names}"
        stages = sorted({stage for _, stage in here})
        if len(stages) < topology.stages:
            what = f"stage {_listed(stages)} of " + what
        image.label(x + device * (inner + 10), y, inner, 44,
                      f"device {device}: {_counted(topology.threads, 'core')}\n{what}, in turn",
                      SHARED, size=12, bold=True)


def draw_samples(topology: Topology) -> Image:
    """The samples of a step, and the replicas that use them."""
    steps = topology.samples // topology.step_samples
    each = topology.batch * topology.accumulation
    image = Image(
        308, "The samples of one optimizer step",
        f"The samples of an epoch are divided into steps of {topology.step_samples} samples. A step is divided into "
        f"{topology.replicas} parts of {each}, one for each replica. Each part is divided into "
        f"{topology.accumulation} micro-batches of {topology.batch}.")
    left, width = 138, WIDTH - 138 - MARGIN
    image.text(MARGIN, 52, "epoch", 14, "start", bold=True)
    image.text(MARGIN, 69, f"{topology.samples} samples", 12, "start", SOFT)
    shown = min(steps, 8)
    room = width / (shown + (0.6 if steps > shown else 0))
    for step in range(shown):
        image.label(left + step * room, 34, room - 4, 40, f"step {step + 1}",
                      SHARED if step else "#fff3b0", size=12)
    if steps > shown:
        image.text(left + shown * room + room * 0.25, 58, "…", 16)
    image.area([(left, 74), (left + room - 4, 74), (left + width, 112), (left, 112)], "#fffbe6")
    image.text(MARGIN, 130, "one step", 14, "start", bold=True)
    image.text(MARGIN, 147, f"{topology.step_samples} samples", 12, "start", SOFT)
    image.text(MARGIN, 216, "micro-batches", 14, "start", bold=True)
    image.text(MARGIN, 233, f"{topology.batch} samples", 12, "start", SOFT)
    part = width / topology.replicas
    for replica in range(topology.replicas):
        fill, edge = _color(topology.instance_of(replica))
        x = left + replica * part
        image.label(x, 112, part - 4, 56, f"replica {replica}\n{each}", fill, edge, 12)
        small = (part - 4) / topology.accumulation
        for g in range(topology.accumulation):
            image.line([(x + (g + 0.5) * small, 168), (x + (g + 0.5) * small, 196)], edge,
                         arrow=True)
            image.label(x + g * small, 198, small - 3, 50, f"{g}", PAPER, edge, 12)
    for instance in topology.instances:
        fill, edge = _color(instance.number)
        x = left + instance.replicas[0] * part
        end = left + (instance.replicas[-1] + 1) * part - 4
        image.line([(x, 262), (x, 270), (end, 270), (end, 262)], edge)
        image.text((x + end) / 2, 290, f"instance {instance.number} reads these", 12)
    return image


def draw_gradients(topology: Topology) -> Image:
    """Forward and backward, on the replicas of the first instance."""
    first = topology.instances[0]
    rows = len(first.replicas)
    image = Image(
        124 + 86 * rows, "Forward and backward on the replicas of one instance",
        f"Each replica of instance {first.number} computes its {topology.accumulation} micro-batches one after "
        "another, forward and backward, with the same weights. It adds their gradients in this order. The sum "
        "is its leaf.")
    fill, edge = _color(first.number)
    image.label(MARGIN, 16, WIDTH - 2 * MARGIN, 34,
                  "the weights, version 0: all replicas read this memory, and no replica writes it", SHARED)
    left = 96
    leaf_width = 96
    room = (WIDTH - MARGIN - leaf_width - 16 - left) / topology.accumulation
    for r, replica in enumerate(first.replicas):
        y = 70 + 86 * r
        image.text(MARGIN, y + 34, f"replica {replica}", 13, "start", bold=True)
        for g in range(topology.accumulation):
            x = left + g * room
            gap = 14
            width = (room - 24 - 4 * gap) / 3
            for i, words in enumerate([f"micro-batch\n{g}", "forward", "backward"]):
                at = x + i * (width + gap)
                image.label(at, y, width, 58, words, fill if i else PAPER, edge, 12)
                image.line([(at + width, y + 29), (at + width + gap - 1, y + 29)], arrow=True)
            plus = x + 3 * (width + gap)
            image.label(plus, y + 17, 24, 24, "+", PAPER, edge)
            image.line([(plus + 24, y + 29), (x + room - 1, y + 29)], arrow=True)
        image.label(WIDTH - MARGIN - leaf_width - 16, y, leaf_width + 16, 58,
                      f"leaf {replica}\nits gradient", fill, edge, 13, bold=True)
    others = [each.number for each in topology.instances[1:]]
    if others:
        image.text(WIDTH / 2, image.height - 22,
                     f"at the same time, instance{'s' if len(others) > 1 else ''} {_listed(others)} "
                     f"compute{'' if len(others) > 1 else 's'} other samples", 13, fill=SOFT)
    return image


def _tree(first: int, size: int, leaves: int):
    """Nested (first, size, left, right) of the tree over the leaves; None where nothing is."""
    if first >= leaves:
        return None
    if size == 1:
        return (first, 1, None, None)
    left, right = _tree(first, size // 2, leaves), _tree(first + size // 2, size // 2, leaves)
    return left if right is None else (first, size, left, right)


def draw_tree(topology: Topology) -> Image:
    """The order in which gradients are added, a tree over replicas, colored by the instance that computes each node."""
    leaves = topology.replicas
    levels = max(1, (leaves - 1).bit_length())
    owned = "; ".join(f"instance {each.number} has replica{'s' if len(each.replicas) > 1 else ''} "
                      f"{_listed(each.replicas)}" for each in topology.instances)
    image = Image(
        116 + 70 * levels, f"The tree that adds the gradients of {leaves} replicas",
        f"Neighbors are added first, then pairs of neighbors, up to the sum of all. {owned.capitalize()}. One "
        "instance alone computes a colored node. A white node combines nodes of several instances.")
    left, width = MARGIN, WIDTH - 2 * MARGIN
    part = width / leaves
    base = 20 + 70 * levels

    def draw(node):
        first, size, low, high = node
        last = min(first + size, leaves) - 1
        owners = {topology.instance_of(replica) for replica in range(first, last + 1)}
        fill, edge = _color(owners.pop()) if len(owners) == 1 else (PAPER, SOFT)
        level = (size - 1).bit_length()
        y = base - 70 * level
        if level == 0:
            x = left + (first + 0.5) * part
            image.label(x - part / 2 + 5, y, part - 10, 40, f"leaf {first}", fill, edge, 13)
            return x, y
        below = [draw(low), draw(high)]
        x = sum(each[0] for each in below) / 2
        half = 62 if size >= leaves else 48
        for child_x, child_y in below:
            end = x + max(-half + 12, min(half - 12, (child_x - x) * 0.35))
            image.line([(child_x, child_y), (end, y + 37)], arrow=True)
        words = "the sum of all" if size >= leaves else f"{first} + … + {last}" if last - first > 1 \
            else f"{first} + {last}"
        image.label(x - half, y, 2 * half, 36, words, fill, edge, 13, bold=size >= leaves)
        return x, y

    draw(_tree(0, 1 << levels, leaves))
    for instance in topology.instances:
        _, edge = _color(instance.number)
        begin = left + instance.replicas[0] * part + 5
        end = left + (instance.replicas[-1] + 1) * part - 5
        image.line([(begin, base + 48), (begin, base + 56), (end, base + 56), (end, base + 48)], edge)
        image.text((begin + end) / 2, base + 76, f"instance {instance.number}", 13)
    return image


def draw_update(topology: Topology) -> Image:
    """One state in two versions. Each instance writes a slice of the version that is not current."""
    host = topology.hosts[0]
    local = topology.on(host)
    image = Image(
        356, "Reducing and updating, a slice for each instance",
        f"The state is one flat array in two versions. Each of {_counted(len(local), 'instance')} "
        "adds the gradients of its slice in the order of the tree, runs the optimizer on the slice, and "
        "writes the result to version 1. When all slices are complete, version 1 becomes the current version.")
    left, width = 150, WIDTH - 150 - MARGIN
    part = width / len(local)
    for y, name, words in ((48, "version 0", "replicas read it"), (226, "version 1", "instances write it")):
        image.text(MARGIN, y + 14, name, 14, "start", bold=True)
        image.text(MARGIN, y + 32, words, 12, "start", SOFT)
    image.text(left, 34, "weights, buffers, optimizer state: one flat array", 12, "start", SOFT)
    image.text(MARGIN, 140, "each instance,", 13, "start")
    image.text(MARGIN, 157, "its own slice", 13, "start")
    for i, instance in enumerate(local):
        fill, edge = _color(instance.number)
        x = left + i * part
        image.label(x, 44, part - 4, 40, f"slice {i}", SHARED, LINE)
        middle = x + part / 2 - 2
        image.line([(middle, 84), (middle, 104)], arrow=True)
        image.label(x, 106, part - 4, 84,
                      f"instance {instance.number}\nadds all leaves\nin tree order,\n"
                      "runs the optimizer", fill, edge, 12, bold=True)
        image.line([(middle, 190), (middle, 220)], arrow=True)
        image.label(x, 222, part - 4, 40, f"slice {i}", fill, edge)
    image.line([(left, 272), (left, 280), (left + width - 4, 280), (left + width - 4, 272)])
    image.line([(left + width / 2, 280), (left + width / 2, 298)], arrow=True)
    image.label(left + width / 2 - 190, 300, 380, 36,
                  "all slices are complete: version 1 becomes current", "#fff3b0", "#94801a", 13, bold=True)
    return image


def draw_step(topology: Topology) -> Image:
    """One optimizer step as a loop."""
    boxes = [
        ("load", f"{topology.step_samples} samples,\n{topology.batch} for each\nmicro-batch", FILLS[0],
         EDGES[0]),
        ("forward, backward", f"{topology.accumulation} micro-batches\non each of\n"
         f"{topology.replicas} replicas", FILLS[2], EDGES[2]),
        ("reduce", f"{topology.replicas} gradients,\nin the order of\na fixed tree", FILLS[1], EDGES[1]),
        ("update", "each instance\nupdates a slice\nof the weights", FILLS[3], EDGES[3]),
        ("commit", "the new weights\nbecome current", FILLS[5], EDGES[5])]
    image = Image(206, "One optimizer step",
                      "Load, forward and backward, reduce, update, commit; then the next step begins. "
                      "Workers load the samples of the next step while the replicas compute this step.")
    gap = 22
    width = (WIDTH - 2 * MARGIN - gap * (len(boxes) - 1)) / len(boxes)
    for i, (name, words, fill, edge) in enumerate(boxes):
        x = MARGIN + i * (width + gap)
        image.box(x, 24, width, 104, fill, edge)
        image.text(x + width / 2, 48, name, 14, bold=True)
        for k, line in enumerate(words.split("\n")):
            image.text(x + width / 2, 72 + 17 * k, line, 12)
        if i:
            image.line([(x - gap + 2, 76), (x - 2, 76)], arrow=True)
    last = WIDTH - MARGIN - width / 2
    first = MARGIN + width / 2
    image.line([(last, 128), (last, 156), (first + width + gap, 156), (first + width + gap, 132)],
                 arrow=True)
    image.text((first + width + gap + last) / 2, 176, "next step", 13, fill=SOFT)
    image.line([(first - 34, 128), (first - 34, 156), (first + 34, 156), (first + 34, 132)], arrow=True,
                 dashed=True)
    image.text(first, 176, "loads next samples", 13, fill=SOFT)
    return image


def draw_crash(topology: Topology) -> Image:
    """A crash in the middle of a step, after which the state of the previous step is still there."""
    victim = topology.instances[len(topology.instances) // 2].number
    count = len(topology.instances)
    image = Image(
        132 + 40 * count, "A crash in the middle of a step",
        f"Instance {victim} dies in step k+1. The launcher keeps the state after step k. It starts "
        "all instances again. They read this state and compute step k+1 again.")
    left = 130
    columns = [("step k", 120), ("step k+1", 120), ("start again", 150), ("step k+1", 120), ("step k+2", 120)]
    x = left
    places = []
    for words, width in columns:
        image.text(x + width / 2, 34, words, 13, bold=words != "start again",
                     fill=SOFT if words == "start again" else INK)
        places.append((x, width))
        x += width + 10
    for i, instance in enumerate(topology.instances):
        y = 48 + 40 * i
        fill, edge = _color(instance.number)
        image.text(MARGIN, y + 20, f"instance {instance.number}", 13, "start", bold=True)
        for column, (begin, width) in enumerate(places):
            if column == 2:
                continue
            if column == 1:
                short = width * (0.45 if instance.number == victim else 0.6)
                image.box(begin, y, short, 30, PAPER, edge, dashed=True)
                if instance.number == victim:
                    image.text(begin + short + 12, y + 21, "✗", 18, fill="#b42318", bold=True)
                continue
            image.box(begin, y, width, 30, fill, edge)
    y = 48 + 40 * count + 12
    image.text(MARGIN, y + 18, "launcher’s", 13, "start", bold=True)
    image.text(MARGIN, y + 34, "memory", 13, "start", bold=True)
    kept = places[0][0] + places[0][1]
    again = places[3][0] + places[3][1]
    image.label(kept, y, again - kept, 38, "the state after step k", SHARED)
    image.label(again + 4, y, places[4][0] + places[4][1] - again - 4, 38, "after step k+1", SHARED)
    image.line([(places[3][0] + 4, y), (places[3][0] + 4, y - 10)], arrow=True)
    return image


def make_all(folder: Path) -> dict[str, str]:
    """The text of each image, by the name of its file."""
    four = read_topology((folder / "topology.txt").read_text())
    three = read_topology((folder / "topology-three.txt").read_text())
    stages = read_topology((folder / "topology-stages.txt").read_text())
    hosts = read_topology((folder / "topology-hosts.txt").read_text())
    drawn = {"topology": draw_topology(four), "samples": draw_samples(four),
             "gradients": draw_gradients(four), "tree": draw_tree(four),
             "tree-three": draw_tree(three), "update": draw_update(four), "step": draw_step(four),
             "crash": draw_crash(four), "stages": draw_topology(stages),
             "hosts": draw_topology(hosts)}
    recording = terminal.draw(
        (folder / "demo.txt").read_text(), "A run of make demo",
        "Four replicas in two processes train a ResNet-20 on Fashion-MNIST for two epochs. The run ends with the test "
        "accuracy and a digest of the weights.")
    return {"demo.svg": recording, **{f"{name}.svg": image.svg() for name, image in drawn.items()}}
