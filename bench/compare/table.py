"""The comparison as Markdown: a page with all rows, and a short table for the README."""
import statistics

from refused import Refused
from rows import BENCHES, GPU_TARGET, GPU_WORK

BEGIN = "<!-- comparison: written by `make compare` -->"
END = "<!-- end of comparison -->"
README_ROWS = 8


def digits(value, count=3):
    """With so many digits, and as a person writes it: 13.1, 0.0295, 1,234."""
    if value == 0:
        return "0"
    after = max(0, count - 1 - int(f"{value:e}".split("e")[1]))
    return f"{value:,.{after}f}"


def unit_of(row, value):
    """The unit in which a figure is best read, and what to divide by."""
    if row.figure == "images_per_second":
        return ("k images/s", 1e3) if value >= 10e3 else ("images/s", 1)
    if value < 1e-3:
        return "µs", 1e-6
    return ("ms", 1e-3) if value < 1 else ("s", 1)


def figure_text(row, figure):
    unit, scale = unit_of(row, figure.median)
    return f"{digits(figure.median / scale)} {unit}" + spread_text([value / scale for value in figure.values])


def spread_text(values):
    return f" ({digits(min(values))} to {digits(max(values))})" if len(values) > 1 else ""


def peer_text(row, peer, figure):
    if figure is None:
        return f"{peer.name}: not installed"
    # Where several of its systems were measured, the fastest is named.
    rest = figure.system[len(peer.system):].lstrip(", ")
    name = f"{peer.name}, {rest}" if rest else peer.name
    return f"{name.replace(' 1 workers', ' 1 worker')}: {figure_text(row, figure)}"


def lines_of(outcome):
    row = outcome.row
    target = f"{row.target.text}: {outcome.verdict()}"
    if outcome.ours is None:
        return [[row.work, outcome.why, "; ".join(peer.name for peer in row.peers), "", target]]
    lines = []
    for peer in row.peers:
        ratios = outcome.ratios(peer.name)
        ratio = digits(statistics.median(ratios)) + spread_text(ratios) if ratios else ""
        lines.append(["", "", peer_text(row, peer, outcome.peers[peer.name]), ratio, ""])
    lines[0][0], lines[0][1], lines[0][4] = row.work, figure_text(row, outcome.ours), target
    return lines


def markdown_of(lines):
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |").replace("|  |", "| |") for line in lines)


def table_of(outcomes, docs, with_gpu):
    """The whole table. `docs` is the path of the folder with performance.md, from the file that contains the table."""
    lines = [["work", "lockstep", "peer", "times as fast", "target"], ["---"] * 5]
    for outcome in outcomes:
        lines += lines_of(outcome)
    if with_gpu:
        lines.append([GPU_WORK, f"needs a GPU: `make bench-gpu` ([figures]({docs}performance.md#training-on-a-gpu-make-bench-gpu))",
                      "PyTorch", "", GPU_TARGET])
    return markdown_of(lines)


def is_behind(outcome):
    """Whether the row misses its target, or a peer is faster, or it was not measured."""
    ratios = [outcome.ratios(peer.name) for peer in outcome.row.peers] if outcome.ours else []
    return outcome.verdict() != "met" or any(each and statistics.median(each) < 1 for each in ratios)


def readme_outcomes(outcomes):
    """At most eight rows, in the order of the table. Rows that are behind have priority, extra rows come last."""
    ranked = sorted(outcomes, key=lambda outcome: (not is_behind(outcome), outcome.row.is_extra))
    chosen = [outcome.row.name for outcome in ranked[:README_ROWS]]
    return [outcome for outcome in outcomes if outcome.row.name in chosen]


def readme_line_of(outcome):
    """One row: the medians of lockstep and of its fastest peer."""
    row = outcome.row
    if outcome.ours is None:
        return [row.work, outcome.why, "", "", outcome.verdict()]
    measured = [(statistics.median(outcome.ratios(peer.name)), peer) for peer in row.peers if outcome.peers[peer.name]]
    unit, scale = unit_of(row, outcome.ours.median)
    ours = f"{digits(outcome.ours.median / scale)} {unit}"
    if not measured:
        return [row.work, ours, "not installed", "", outcome.verdict()]
    ratio, peer = min(measured, key=lambda pair: pair[0])
    figure = outcome.peers[peer.name]
    unit, scale = unit_of(row, figure.median)
    return [row.work, ours, f"{peer.name}: {digits(figure.median / scale)} {unit}", digits(ratio), outcome.verdict()]


def readme_table_of(outcomes):
    lines = [["work", "lockstep", "fastest peer", "times as fast", "target"], ["---"] * 5]
    return markdown_of(lines + [readme_line_of(outcome) for outcome in readme_outcomes(outcomes)])


def readme_text_of(results, outcomes):
    """The text between the two marks of the README."""
    if results["runs"] == 0:
        return runs_text(results) + "\n\n" + readme_table_of(outcomes)
    machine = dict(results["versions"]).get("processor", "an unknown machine")
    return f"{results['date']}, {machine}, medians of {results['runs']} runs:\n\n{readme_table_of(outcomes)}"


def runs_text(results):
    runs = results["runs"]
    if runs == 0:
        return "Not measured yet."
    figures = "one run of each row" if runs == 1 else f"medians of {runs} runs, with minimum and maximum"
    machine = dict(results["versions"]).get("processor", "an unknown machine")
    return f"{results['date']}, {machine}: {figures}. “Times as fast” above 1: lockstep is faster."


HOW = """\
**Method.** Each run measures all rows, one after another. Each row is a `lockstep bench` command. The command first
compares the results of lockstep and of the peer, and then measures both in turns. The data loaders are measured one
after the other. The figure of a run is the median of the command. [Performance](performance.md) describes each
measurement.

“Times as fast” compares two figures of the same run. The table shows the median, minimum and maximum over the runs. If
a peer can run in several ways, such as with different numbers of loader workers, the row shows the fastest way. The
targets were set for a machine with 2 cores, before lockstep was built. “Met” compares the median with the target.
"""


def page_of(results, outcomes, with_gpu):
    lines = [
        "# Comparison with other systems", "",
        "<!-- `make compare` (bench/compare) writes this page and the table of the README. -->", "",
        runs_text(results), "",
        table_of(outcomes, "", with_gpu),
        HOW]
    commands = [f"| {row.work} | `lockstep bench {' '.join(BENCHES[row.bench].arguments)}` |"
                for row in (outcome.row for outcome in outcomes)]
    lines += ["| work | measured by |", "|---|---|", *commands, ""]
    lines += ["| measured on | |", "|---|---|", *(f"| {name} | {value} |" for name, value in results["versions"]), ""]
    return "\n".join(lines)


def with_table(text, table, where):
    """The text with the table between the two marks."""
    for mark in (BEGIN, END):
        if text.count(mark) != 1:
            raise Refused(f"{where}: expected the line '{mark}' once, found it {text.count(mark)} times")
    before, rest = text.split(BEGIN)
    if END not in rest:
        raise Refused(f"{where}: expected '{END}' after '{BEGIN}', found it before")
    return f"{before}{BEGIN}\n\n{table}\n{END}{rest.split(END)[1]}"
