"""The comparison as Markdown: the table, the page around it, and the table within another file."""
import statistics

from refused import Refused
from rows import BENCHES, GPU_TARGET, GPU_WORK

BEGIN = "<!-- comparison: written by `make compare` -->"
END = "<!-- end of comparison -->"


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
        return f"{peer.name}: not here"
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


def table_of(outcomes, docs, with_gpu):
    """As Markdown. `docs` is the folder of performance.md, as seen from the file that has the table."""
    lines = [["work", "lockstep", "peer", "times as fast", "asked of lockstep"], ["---"] * 5]
    for outcome in outcomes:
        lines += lines_of(outcome)
    if with_gpu:
        lines.append([GPU_WORK, f"needs a GPU: `make bench-gpu` ([figures]({docs}performance.md#training-on-a-gpu-make-bench-gpu))",
                      "PyTorch", "", GPU_TARGET])
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |").replace("|  |", "| |") for line in lines)


def runs_text(results):
    runs = results["runs"]
    if runs == 0:
        return "Not measured yet."
    figures = "one run of each" if runs == 1 else f"medians of {runs} runs, with the least and the most"
    machine = dict(results["versions"]).get("processor", "an unknown machine")
    return f"{results['date']}, {machine}: {figures}. Times as fast: in the same run; above 1 lockstep is ahead."


def page_of(results, outcomes, with_gpu):
    lines = [
        "# lockstep beside its peers", "",
        "<!-- Written by `make compare` (bench/compare), which also writes the table of the README. -->", "",
        runs_text(results), "",
        table_of(outcomes, "", with_gpu),
        "**How.** A run goes through all rows, and there are as many runs as said above. Each row is a `lockstep bench …`, in which what lockstep and its "
        "peers compute is compared first, and then both take turns (the loaders one after the other); a run's figure is the median of what that command measured. "
        "[performance.md](performance.md) says what each of them measures.",
        "",
        "“Times as fast” compares both figures of one run; the table has the median over the runs, and its least and most. Of several ways to run a "
        "peer (workers of a loader, say) the one with the best median is shown. What is asked of lockstep was set on a machine of 2 "
        "cores before it was built; “met” compares the median.", ""]
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
