"""What the runs of a row come to: medians, how many times as fast, and whether it is what was asked."""
import dataclasses
import statistics

from rows import Row


@dataclasses.dataclass
class Figure:
    """What the runs of one system came to."""
    system: str
    values: list

    @property
    def median(self):
        return statistics.median(self.values)


def systems_of(row, reports):
    """The figures of each system of a row, run by run; only those that every run has."""
    found = {}
    for report in reports:
        for line in report["rows"]:
            if line["work"] == row.measured:
                found.setdefault(line["system"], []).append(line[row.figure])
    return [Figure(system, values) for system, values in found.items() if len(values) == len(reports)]


def best_of(row, figures):
    """The fastest; None where there is none."""
    if not figures:
        return None
    return (min if row.figure == "median_s" else max)(figures, key=lambda figure: figure.median)


def times_as_fast(row, ours, theirs):
    """Ours beside theirs, run by run: above 1 we are ahead."""
    pairs = zip(ours.values, theirs.values)
    return [their / our if row.figure == "median_s" else our / their for our, their in pairs]


@dataclasses.dataclass
class Outcome:
    """A row with its figures. `ours` is None where it was not measured, and `why` says so."""
    row: Row
    ours: Figure = None
    peers: dict = dataclasses.field(default_factory=dict)  # name of a peer -> Figure, or None
    why: str = "not measured"

    def ratios(self, peer_name):
        theirs = self.peers.get(peer_name)
        return times_as_fast(self.row, self.ours, theirs) if theirs else None

    def verdict(self):
        target = self.row.target
        if self.ours is None:
            return "not measured"
        if target.times:
            ratios = [self.ratios(peer) for peer in target.peers]
            if None in ratios:
                return "not measured"
            reached = min(statistics.median(each) for each in ratios) >= target.times
        elif self.row.figure == "median_s":
            reached = self.ours.median <= target.figure
        else:
            reached = self.ours.median >= target.figure
        return "met" if reached else "**not met**"


def outcome_of(row, results):
    if row.bench in results["failed"]:
        return Outcome(row, why="failed")
    reports = results["benches"].get(row.bench, [])
    figures = systems_of(row, reports)
    ours = best_of(row, [each for each in figures if each.system.startswith("lockstep")])
    if ours is None and reports:
        return Outcome(row, why=f"failed: the bench has no work '{row.measured}' any more")
    if ours is None:
        return Outcome(row, why="not measured: no PyTorch here" if row.bench in results["without_torch"]
                       else "not measured")
    peers = {peer.name: best_of(row, [each for each in figures if each.system.startswith(peer.system)])
             for peer in row.peers}
    return Outcome(row, ours, peers)
