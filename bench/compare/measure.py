"""Runs the benches in turn, and notes on what they ran."""
import datetime
import json
import os
import platform
import re
import subprocess
import tempfile
import time

from rows import BENCHES

UNAVAILABLE = 4  # the exit code of lockstep for what a machine does not have


def first_line_of(command):
    """Of what it prints; nothing where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else ""


# It asks the Python that `lockstep bench` would take: the first that has PyTorch. Debian's PyTorch takes Gloo
# from the library that `bench comm` takes; others bring their own.
ASK_PYTHON = """
import platform, torch, torchvision, PIL
with open("/proc/self/maps") as maps:
    gloo = "the same Gloo" if "/libgloo.so" in maps.read() else "a Gloo of its own"
print(f"{torch.__version__} with {gloo}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}, "
      f"Python {platform.python_version()}")
"""


def python_versions():
    for python in ("python3", "/usr/bin/python3"):
        line = first_line_of([python, "-c", ASK_PYTHON])
        if line:
            return line
    return "not here"


def system_name():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def versions_of(report, load, with_torch):
    gloo = first_line_of(["dpkg-query", "-W", "-f", "${Version}", "libgloo-dev"])
    mpi = re.sub(r"^.*\) ", "", first_line_of(["mpirun", "--version"]))
    return [
        ("lockstep", f"{report['version']}, commit {report['commit']}"),
        ("built by", report["build"]),
        ("Open MPI", mpi or "not here"),
        ("Gloo", f"libgloo-dev {gloo}" if gloo else "not known"),
        *([("PyTorch", python_versions())] if with_torch else []),
        ("processor", f"{report['processor']}, {report['cores']} cores"),
        ("system", f"{system_name()}, kernel {platform.release()}"),
        ("load before the first run", load),
    ]


def run_bench(lockstep, arguments, folder):
    """The report of one `lockstep bench …`, its exit code, and what it said."""
    file = os.path.join(folder, "report.json")
    done = subprocess.run([lockstep, "bench", *arguments, "--json", file], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.returncode, done.stderr.strip()
    with open(file, encoding="utf-8") as opened:
        return json.load(opened), 0, done.stderr.strip()


def measure(lockstep, runs, benches, say):
    """All runs of these benches. What fails once is not tried again; the others go on."""
    load = f"{os.getloadavg()[0]:.2f}"
    results = {"runs": runs, "date": datetime.date.today().isoformat(), "benches": {}, "failed": {},
               "without_torch": {}, "versions": []}
    last_report = None
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            for name in benches:
                if name in results["failed"]:
                    continue
                begin = time.monotonic()
                report = measure_once(lockstep, name, folder, results, say)
                if report is None:
                    continue
                last_report = report
                results["benches"].setdefault(name, []).append(report)
                say(f"run {run + 1} of {runs}: {name}, {time.monotonic() - begin:.0f} s")
    # To import PyTorch takes seconds, so only where it was measured.
    with_torch = any("torch" in BENCHES[name].arguments and name not in results["without_torch"]
                     for name in results["benches"])
    if last_report:
        results["versions"] = versions_of(last_report, load, with_torch)
    return results


def measure_once(lockstep, name, folder, results, say):
    bench = BENCHES[name]
    arguments = bench.without_torch if name in results["without_torch"] else bench.arguments
    if not arguments:
        return None
    report, code, said = run_bench(lockstep, arguments, folder)
    if code == UNAVAILABLE and name not in results["without_torch"]:
        say(f"{name}: {said}")
        results["without_torch"][name] = said
        return measure_once(lockstep, name, folder, results, say)
    if code != 0:
        say(f"{name}: 'lockstep bench {' '.join(arguments)}' ended with {code}\n{said}")
        results["failed"][name] = said
    elif said and name not in results["benches"]:
        say(f"{name}: {said}")  # which peers are left out, say; once is enough
    return report
