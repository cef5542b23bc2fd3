"""`bench/compare`: its parts by themselves, and as a command beside a lockstep that is made up, and the real one.

LOCKSTEP is the binary, where a test takes it.
"""
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPARE = os.path.join(ROOT, "bench", "compare")
sys.dont_write_bytecode = True
sys.path.insert(0, COMPARE)

import figures  # noqa: E402
import rows  # noqa: E402
import table  # noqa: E402
from refused import Refused  # noqa: E402

MPI = rows.Peer("Open MPI", "mpi")
GLOO = rows.Peer("Gloo", "gloo")
LOADER = rows.Peer("torch DataLoader", "torch")
REDUCE = rows.Row("reduce", "all-reduce", "comm", "all_reduce 8 B", (MPI, GLOO),
                  rows.Target("≤ half of Open MPI's", times=2, peers=("Open MPI",)))
LOAD = rows.Row("load", "load", "data", "load x", (LOADER,), rows.Target("≥ 200 images/s", figure=200),
                "images_per_second")


def results_of(bench, *runs):
    """Each run is {system: figure}; the benches name their work as the rows above do."""
    reports = []
    for run in runs:
        work, key = {"comm": ("all_reduce 8 B", "median_s"), "data": ("load x", "images_per_second")}[bench]
        lines = [{"work": work, "system": system, key: figure} for system, figure in run.items()]
        # A work that no row has asked for is passed over.
        reports.append({"rows": [{"work": "other", "system": "lockstep", "median_s": 9.0}] + lines})
    return {"runs": len(runs), "date": "2026-01-02", "benches": {bench: reports}, "failed": {}, "without_torch": {},
            "versions": [["lockstep", "1"], ["processor", "Made up, 2 cores"]]}


class ComparePartsTest(unittest.TestCase):
    def test_takes_medians_and_pairs_the_figures_of_one_run(self):
        # Alone, the medians would give 0.3 / 0.1 = 3; run by run it is 2, 4 and 1.5 times as fast.
        results = results_of("comm", {"lockstep": 0.1, "mpi": 0.2}, {"lockstep": 0.3, "mpi": 1.2},
                             {"lockstep": 0.05, "mpi": 0.075})
        outcome = figures.outcome_of(REDUCE, results)
        self.assertEqual(outcome.ours.median, 0.1)
        self.assertEqual(outcome.peers["Open MPI"].median, 0.2)
        self.assertEqual([round(ratio, 9) for ratio in outcome.ratios("Open MPI")], [2, 4, 1.5])
        self.assertEqual(outcome.verdict(), "met")

    def test_a_rate_is_better_where_it_is_higher(self):
        results = results_of("data", {"lockstep, 1 workers": 150, "torch, 0 workers": 30, "torch, 2 workers": 50})
        outcome = figures.outcome_of(LOAD, results)
        self.assertEqual(outcome.peers["torch DataLoader"].system, "torch, 2 workers")
        self.assertEqual(outcome.ratios("torch DataLoader"), [3])
        self.assertEqual(outcome.verdict(), "**not met**")

    def test_a_time_is_better_where_it_is_lower(self):
        row = rows.Row("start", "start", "comm", "all_reduce 8 B", (MPI,), rows.Target("≤ 0.1 s", figure=0.1))
        for ours, verdict in ((0.1, "met"), (0.11, "**not met**")):
            outcome = figures.outcome_of(row, results_of("comm", {"lockstep": ours, "mpi, slow": 2, "mpi, fast": 1}))
            self.assertEqual(outcome.verdict(), verdict)
            self.assertEqual(outcome.peers["Open MPI"].system, "mpi, fast")

    def test_all_peers_of_a_target_have_to_be_beaten(self):
        row = rows.Row("both", "both", "comm", "all_reduce 8 B", (MPI, GLOO),
                       rows.Target("", times=2, peers=("Open MPI", "Gloo")))
        for gloo, verdict in ((2.0, "met"), (1.9, "**not met**")):
            self.assertEqual(figures.outcome_of(row, results_of("comm", {"lockstep": 1, "mpi": 8, "gloo": gloo})).verdict(), verdict)

    def test_what_was_not_measured_is_not_met_either(self):
        without_mpi = figures.outcome_of(REDUCE, results_of("comm", {"lockstep": 0.1, "gloo": 0.4}))
        self.assertEqual(without_mpi.verdict(), "not measured")
        self.assertIsNone(without_mpi.ratios("Open MPI"))
        self.assertEqual(figures.outcome_of(LOAD, results_of("comm")).why, "not measured")
        failed = results_of("comm", {"lockstep": 0.1})
        failed["failed"]["comm"] = "it burned"
        self.assertEqual(figures.outcome_of(REDUCE, failed).why, "failed")

    def test_a_work_that_a_bench_names_otherwise_is_a_failure(self):
        self.assertEqual(figures.outcome_of(REDUCE, results_of("comm", {})).why,
                         "failed: the bench has no work 'all_reduce 8 B' any more")

    def test_a_system_that_some_run_lacks_is_left_out(self):
        outcome = figures.outcome_of(REDUCE, results_of("comm", {"lockstep": 1, "mpi": 2}, {"lockstep": 1}))
        self.assertIsNone(outcome.peers["Open MPI"])

    def test_writes_three_digits(self):
        for value, text in ((13.114, "13.1"), (0.02954, "0.0295"), (9.996, "10.00"), (828.7, "829"), (1234.5, "1,234"), (0, "0")):
            self.assertEqual(table.digits(value), text)

    def test_writes_the_table(self):
        results = results_of("comm", {"lockstep": 0.0131, "mpi": 0.0655}, {"lockstep": 0.0125, "mpi": 0.05},
                             {"lockstep": 0.0142, "mpi": 0.0710})
        results["benches"]["data"] = results_of("data", {"lockstep, 1 workers": 295086, "torch, 1 workers": 5726})["benches"]["data"]
        outcomes = [figures.outcome_of(row, results) for row in (REDUCE, LOAD)]
        self.assertEqual(
            table.table_of(outcomes, "docs/internals/", with_gpu=False),
            "| work | lockstep | peer | times as fast | target |\n"
            "| --- | --- | --- | --- | --- |\n"
            "| all-reduce | 13.1 ms (12.5 to 14.2) | Open MPI: 65.5 ms (50.0 to 71.0) | 5.00 (4.00 to 5.00) | ≤ half of Open MPI's: met |\n"
            "| | | Gloo: not installed | | |\n"
            "| load | 295 k images/s | torch DataLoader, 1 worker: 5,726 images/s | 51.5 | ≥ 200 images/s: met |\n")

    def test_lists_the_row_that_takes_a_gpu(self):
        written = table.table_of([], "docs/internals/", with_gpu=True)
        self.assertIn("needs a GPU: `make bench-gpu` ([figures](docs/internals/performance.md#training-on-a-gpu-make-bench-gpu))", written)
        with open(os.path.join(ROOT, "docs", "internals", "performance.md"), encoding="utf-8") as file:
            self.assertIn("\n## Training on a GPU: `make bench-gpu`\n", file.read())

    def test_the_readme_has_eight_rows_and_keeps_those_that_are_behind(self):
        made = []
        for row in rows.ROWS:
            ours = figures.Figure("lockstep", [100.0])
            peers = {peer.name: figures.Figure(peer.system, [200.0]) for peer in row.peers}
            made.append(figures.Outcome(row, ours, peers))
        # All of these miss their target, except rows with a target relative to a peer that is twice as slow.
        for target in (rows.Target("", figure=1e9), rows.Target("", figure=0)):
            outcomes = [figures.Outcome(dataclasses.replace(each.row, target=target, figure="median_s"), each.ours, each.peers)
                        for each in made]
            chosen = [each.row.name for each in table.readme_outcomes(outcomes)]
            self.assertEqual(chosen, [row.name for row in rows.ROWS if not row.is_extra])
        outcomes[1].row = dataclasses.replace(outcomes[1].row, target=rows.Target("", figure=0))
        for outcome in outcomes[:1] + outcomes[2:]:
            outcome.row = dataclasses.replace(outcome.row, target=rows.Target("", figure=1e9))
        chosen = [each.row.name for each in table.readme_outcomes(outcomes)]
        self.assertEqual(len(chosen), 8)
        self.assertIn("meet", chosen)

    def test_the_readme_shows_the_fastest_peer(self):
        outcome = figures.outcome_of(REDUCE, results_of("comm", {"lockstep": 0.1, "mpi": 0.3, "gloo": 0.2}))
        self.assertEqual(table.readme_line_of(outcome), ["all-reduce", "100 ms", "Gloo: 200 ms", "2.00", "met"])
        outcome = figures.outcome_of(REDUCE, results_of("comm", {"lockstep": 0.1}))
        self.assertEqual(table.readme_line_of(outcome), ["all-reduce", "100 ms", "not installed", "", "not measured"])

    def test_replaces_the_table_and_nothing_else(self):
        text = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
        self.assertEqual(table.with_table(text, "new\n", "f"), f"before\n{table.BEGIN}\n\nnew\n\n{table.END}\nafter\n")

    def test_refuses_a_file_without_its_marks(self):
        for text in ("", table.BEGIN, table.END, table.BEGIN + table.END + table.END, table.END + table.BEGIN):
            with self.assertRaisesRegex(Refused, "^f: expected "):
                table.with_table(text, "new", "f")

    def test_every_row_has_a_bench_and_a_target_about_its_own_peers(self):
        self.assertEqual(len({row.name for row in rows.ROWS}), len(rows.ROWS))
        for row in rows.ROWS:
            self.assertIn(row.bench, rows.BENCHES)
            self.assertTrue(bool(row.target.figure) != bool(row.target.times), row.name)
            self.assertLessEqual(set(row.target.peers), {peer.name for peer in row.peers})


# Notes how it was called, and answers as the test says: with a file, or with an exit code.
FAKE = """#!/bin/sh
echo "$*" | sed 's/ --json.*//' >> {folder}/calls
case "$*" in {cases} esac
for file; do :; done
cp {folder}/report.json "$file"
"""
HEAD = {"processor": "Made up", "cores": 2, "version": "9.9", "commit": "abc", "build": "g++"}


class CompareCommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def fake_lockstep(self, cases="", lines=None):
        """Whose benches have the lines that are given, or one for each row of the table."""
        if lines is None:
            lines = [{"work": row.measured, "system": "lockstep", row.figure: 1.0} for row in rows.ROWS]
        self.write("report.json", json.dumps({**HEAD, "rows": lines}))
        path = self.write("lockstep", FAKE.format(folder=self.folder, cases=cases))
        os.chmod(path, 0o755)
        return path

    def compare(self, *arguments, environment=None):
        return subprocess.run([sys.executable, "-B", COMPARE, *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, **(environment or {})})

    def refused(self, *arguments):
        done = self.compare(*arguments)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_goes_through_all_rows_before_it_begins_again(self):
        lockstep = self.fake_lockstep()
        done = self.compare("--lockstep", lockstep, "--runs", "2", "--rows", "reduce-4k,start")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read("calls"), 2 * ("bench launch --rounds 20\n"
                                                  "bench comm --instances 8 --sizes 4K\n"))

    def test_measures_a_command_once_for_all_rows_of_it(self):
        # A Python that says at once which PyTorch it has.
        os.chmod(self.write("python3", "#!/bin/sh\necho 7.7 with a Gloo of its own\n"), 0o755)
        done = self.compare("--lockstep", self.fake_lockstep(), "--runs", "1", "--rows", "update-2,update-4",
                            "--output", self.path("page.md"),
                            environment={"PATH": f"{self.folder}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read("calls").count("\n"), 1)
        self.assertIn("\n| PyTorch | 7.7 with a Gloo of its own |\n", self.read("page.md"))

    def test_goes_on_without_pytorch_where_there_is_none(self):
        lines = [{"work": "start 4 processes that meet once", "system": "lockstep", "median_s": 0.035}]
        lockstep = self.fake_lockstep("*torch*) echo 'no torch' >&2; exit 4;;", lines)
        done = self.compare("--lockstep", lockstep, "--runs", "2", "--rows", "meet,train")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("meet: no torch\n", done.stderr)
        self.assertIn("| 35.0 ms (35.0 to 35.0) | 4 Python ranks over Gloo: not installed | | ≤ 0.1 s: met |", done.stdout)
        self.assertIn("| not measured: no PyTorch here | PyTorch DDP, channels_last; PyTorch DDP, contiguous | |", done.stdout)
        # It is not asked for again.
        self.assertEqual(self.read("calls").count("launch --rounds 5 --against torch"), 1)

    def test_says_once_what_a_bench_has_left_out(self):
        done = self.compare("--lockstep", self.fake_lockstep("*) echo 'not in this build: mpi' >&2;;"), "--runs", "2", "--rows", "reduce-4k")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("comm-small: not in this build: mpi\n"), 1)

    def test_a_row_that_fails_leaves_the_others(self):
        lines = [{"work": "start 4 empty processes", "system": "lockstep", "median_s": 0.013}]
        lockstep = self.fake_lockstep("*comm*) echo 'it burned' >&2; exit 5;;", lines)
        done = self.compare("--lockstep", lockstep, "--runs", "2", "--rows", "start,reduce-4k")
        self.assertEqual(done.returncode, 1)
        self.assertIn("comm-small: 'lockstep bench comm --instances 8 --sizes 4K' ended with 5\nit burned\n", done.stderr)
        self.assertIn("| all-reduce 4 KiB fp32, 8 processes | failed | Open MPI; Gloo | | ≤ 0.15 ms: not measured |", done.stdout)
        self.assertIn("| start 4 empty processes | 13.0 ms (13.0 to 13.0) | mpirun: not installed |", done.stdout)

    def test_a_row_that_its_bench_does_not_measure_any_more_is_a_failure(self):
        lines = [{"work": "start many", "system": "lockstep", "median_s": 0.013}]
        done = self.compare("--lockstep", self.fake_lockstep("", lines), "--runs", "1", "--rows", "start")
        self.assertEqual(done.returncode, 1)
        self.assertIn("| failed: the bench has no work 'start 4 empty processes' any more |", done.stdout)

    def test_writes_again_what_was_measured_before(self):
        lines = [{"work": "start 4 empty processes", "system": "lockstep", "median_s": 0.013}]
        lockstep = self.fake_lockstep("", lines)
        first = self.compare("--lockstep", lockstep, "--runs", "1", "--rows", "start", "--json", self.path("all.json"))
        again = self.compare("--from", self.path("all.json"), "--rows", "start")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(first.stdout, again.stdout)
        self.assertEqual(self.read("calls").count("\n"), 1)

    def test_refuses_what_cannot_be_meant_before_it_measures(self):
        lockstep = self.fake_lockstep()
        self.assertEqual(self.refused("--lockstep", lockstep, "--rows", "start,strat"),
                         "compare: --rows: expected some of start, meet, reduce-100m, reduce-4k, load-resize, load-crop, "
                         "train, update-2, update-4, found 'strat'\n")
        self.assertEqual(self.refused("--lockstep", lockstep, "--runs", "0"), "compare: --runs: expected 1 or more, found 0\n")
        self.assertEqual(self.refused("--lockstep", "/nowhere/lockstep"),
                         "compare: --lockstep: expected a program, found none at /nowhere/lockstep; try: make build\n")
        self.assertEqual(self.refused("--lockstep", lockstep, "--output", "/nowhere/page.md"),
                         "compare: /nowhere/page.md: expected the folder /nowhere, found none\n")
        self.assertIn("expected the line", self.refused("--lockstep", lockstep, "--readme", self.write("readme", "none\n")))
        self.assertEqual(self.refused("--lockstep", lockstep, "--readme", "/nowhere/README.md"),
                         "compare: /nowhere/README.md: No such file or directory\n")
        self.assertIn("is not what --json writes", self.refused("--from", self.write("stored", "{")))
        self.assertFalse(os.path.exists(self.path("calls")))

    def test_the_readme_has_room_for_the_table(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            table.with_table(file.read(), "", "README.md")

    def test_measures_and_writes_the_cheapest_row(self):
        readme = self.write("README.md", f"# Title\n\n{table.BEGIN}\nold\n{table.END}\n\nEnd.\n")
        done = self.compare("--lockstep", os.environ["LOCKSTEP"], "--runs", "1", "--rows", "start",
                            "--output", self.path("page.md"), "--readme", readme, "--json", self.path("all.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        stored = json.loads(self.read("all.json"))
        measured = {line["system"]: line["median_s"] for line in stored["benches"]["launch"][0]["rows"]
                    if line["work"] == "start 4 empty processes"}
        row = next(line for line in self.read("page.md").splitlines() if line.startswith("| start 4 empty processes |"))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        self.assertEqual(cells[1], f"{table.digits(measured['lockstep'] * 1e3)} ms")
        if "mpirun" in measured:
            self.assertRegex(cells[2], r"^mpirun: [0-9.]+ m?s$")
            self.assertEqual(cells[3], table.digits(measured["mpirun"] / measured["lockstep"]))
        self.assertIn(cells[4], ("≤ 62 ms: met", "≤ 62 ms: **not met**"))
        page = self.read("page.md")
        self.assertIn("\n| start 4 empty processes | `lockstep bench launch --rounds 20` |\n", page)
        for part in ("| lockstep | ", "| built by | ", "| processor | ", "| system | ", "| Open MPI | ", "| Gloo | "):
            self.assertIn("\n" + part, page)
        readme = self.read("README.md")
        self.assertTrue(readme.startswith("# Title\n") and readme.endswith(f"{table.END}\n\nEnd.\n"), readme)
        target = cells[4].split(": ")[1]
        self.assertIn(f"\n| start 4 empty processes | {cells[1]} | ", readme)
        self.assertRegex(readme, rf"\n\| start 4 empty processes .* \| {re.escape(target)} \|\n")
        self.assertNotIn("old", readme)


if __name__ == "__main__":
    unittest.main()
