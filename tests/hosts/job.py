"""What the tests start on hosts, and what they expect of it."""

import fcntl
import json
import os
import pathlib
import re
import shlex
import subprocess
import threading
import time
import unittest

import rig
import slurm

LOCKSTEP = rig.BUILD / "bin/lockstep"
LOCAL_RUNS = rig.BUILD / "tests/hosts/local_runs.json"

# Trainings of a few seconds. Threads are fixed, since results depend on them.
COMMON = ["--dataset", "fashion-mnist", "--limit-test", "64", "--threads-per-device", "1", "--eval-every", "0"]
TRAININGS = {
    "short": ["--model", "resnet20", "--limit-train", "512", "--batch-size", "16", "--epochs", "1", *COMMON],
    # Long enough to be disturbed.
    "long": ["--model", "resnet20", "--limit-train", "2048", "--batch-size", "16", "--epochs", "2", *COMMON],
    # More bytes than work.
    "wide": ["--model", "resnet18", "--limit-train", "128", "--batch-size", "4", "--epochs", "1", *COMMON],
}
# What examples/slurm trains, with a small set of data.
EXAMPLE_DATA = ["--limit-train", "128", "--batch-size", "16", *COMMON[2:]]
TRAININGS["example"] = ["--model", "resnet20", "--dataset", "fashion-mnist", "--replicas", "4", "--epochs", "20",
                        *EXAMPLE_DATA]
# What our launcher is told. All hosts have the same few cores, so nothing is bound to any.
LAUNCHED = ["--num-instances", "4", "--bind", "none"]
SHORT_STEPS = 8
# Parameters of the networks with one colour and ten classes, as `lockstep model` counts them.
PARAMETERS = {"resnet20": 269434, "resnet18": 11175370}


def train(training, *options):
    """Started by our launcher."""
    return [LOCKSTEP, "train", *TRAININGS[training], *LAUNCHED, *options]


def train_under(launcher, training, *launcher_options):
    """The command that docs/guides/hosts.md shows for another launcher, with the options of a training added."""
    page = (rig.ROOT / "docs/guides/hosts.md").read_text()
    (shown,) = re.findall(rf"^\$ ({launcher} .*)$", page, re.MULTILINE)
    words = shlex.split(shown)
    start = words.index("lockstep")
    options = _pairs(words[start + 2:]) | _pairs(TRAININGS[training])
    return [launcher, *launcher_options, *words[1:start], LOCKSTEP, words[start + 1],
            *(word for pair in options.items() for word in pair)]


def _pairs(options):
    """The options by name. Each has a value."""
    return dict(zip(options[::2], options[1::2], strict=True))


def gradient_bytes(training):
    return 4 * PARAMETERS[TRAININGS[training][1]]


def digest_of(output):
    found = re.findall(r"weights: ([0-9a-f]{16})", output)
    return found[-1] if found else None


def local_digest(training):
    """The digest of the same training on one host, without the rig. It is kept until the program changes.

    The training has the environment of the hosts, because variables such as OPENBLAS_CORETYPE change the bits. Tests
    that run at the same time take turns, so that only one of them trains. CTest runs `train_locally` before them, so
    that no test waits here.
    """
    program = [[path.name, path.stat().st_mtime] for path in sorted(LOCKSTEP.parent.glob("lockstep*"))]
    command = " ".join(map(str, train(training)))
    with open(LOCAL_RUNS, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        kept = json.loads(text) if text else {}
        if kept.get("program") != program:
            kept = {"program": program}
        if command not in kept:
            done = subprocess.run(train(training), capture_output=True, text=True, timeout=600, check=True,
                                  env=rig.ENVIRONMENT | {"HOME": os.environ.get("HOME", "/root")})
            kept[command] = digest_of(done.stdout)
            file.truncate(0)
            file.write(json.dumps(kept))
            file.flush()
        return kept[command]


def train_locally():
    """Makes the trainings of all tests on one host."""
    for training in TRAININGS:
        if training != "example" or not slurm.missing():
            print(f"{training}: {local_digest(training)}", flush=True)


class Job:
    """A command on a host whose output is read while it runs."""

    def __init__(self, host, arguments, env=None):
        self.arguments = [*map(str, arguments)]
        self.began = time.monotonic()
        self._process = host.start(arguments, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace")
        self._lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        self._lines.extend(iter(self._process.stdout.readline, ""))

    @property
    def output(self):
        return "".join(self._lines)

    def is_running(self):
        return self._process.poll() is None

    def wait_until(self, condition, seconds, what):
        """Like that of the rig, but a job that ends first has failed, and its output is shown."""
        def look():
            return condition() or not self.is_running()
        try:
            rig.wait_until(look, seconds, what)
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.output}") from late
        if not condition():
            raise AssertionError(f"ended with {self._process.returncode} before: {what}\n{self.output}")

    def wait_for(self, text, seconds=60):
        self.wait_until(lambda: text in self.output, seconds, f"says {text!r}")

    def end(self, seconds):
        """Its exit code."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(f"{' '.join(self.arguments)} still runs after {seconds} s:\n{self.output}") from late
        self._reader.join(30)
        self._process.stdout.close()
        return code


class HostsTest(unittest.TestCase):
    """A test that has hosts, or is skipped."""

    needs = ()

    @classmethod
    def setUpClass(cls):
        why = rig.missing() or (slurm.missing() if "slurm" in cls.needs else "")
        if not why and "mpirun" in cls.needs and not pathlib.Path("/usr/bin/mpirun").exists():
            why = "not installed: mpirun (packages/hosts)"
        if why:
            raise unittest.SkipTest(why)

    def hosts(self, *names, **options):
        return self.enterContext(rig.Hosts(*names, **options))

    def expect_digest(self, training, job, seconds=180):
        """The job ends well, with the bits of one host."""
        code = job.end(seconds)
        self.assertEqual((code, digest_of(job.output)), (0, local_digest(training)),
                         f"\n{' '.join(job.arguments)}\n{job.output}")

    def wait_for_steps(self, job, host, steps, training="long", seconds=120):
        """Until `host` has sent as many bytes as so many steps take."""
        before = host.counted_bytes("tx")
        job.wait_until(lambda: host.counted_bytes("tx") - before > steps * gradient_bytes(training), seconds,
                       f"{host.name} has sent the gradients of {steps} steps")

    def expect_nothing_left(self, hosts, seconds=30):
        """No process of a job on any host: but for the sshd, each is empty."""
        def left():
            return {host.name: lines for host in hosts
                    if (lines := [line for line in host.processes().values() if not line.startswith("sshd:")
                                  and not line.startswith("/usr/sbin/sshd")])}
        try:
            rig.wait_until(lambda: not left(), seconds, "no process left")
        except TimeoutError:
            self.fail(f"still there after {seconds} s: {left()}")
