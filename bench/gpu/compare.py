"""lockstep beside PyTorch on this machine's GPU, in one run:

    python3 bench/gpu/compare.py --lockstep build/cuda/bin/lockstep [--json FILE] [--seconds 6]

Two jobs: the tutorial's (ResNet-101, 64x64, B=64 G=8 R=8, AdamW, 16 bits) and ResNet-50 at 32x32.
Each row is a process of its own; rates are those of steps after the first launch.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
JOBS = {
    "tutorial": {"model": "resnet101", "size": 64, "batch": 64, "accumulation": 8, "replicas": 8, "iterations": 4},
    "resnet50-32": {"model": "resnet50", "size": 32, "batch": 64, "accumulation": 8, "replicas": 4, "iterations": 4},
}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lockstep", default="build/cuda/bin/lockstep")
    parser.add_argument("--seconds", type=float, default=6, help="that each row of PyTorch is measured for")
    parser.add_argument("--epochs", type=int, default=12, help="that each row of lockstep trains")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--rows", default="", help="only those whose name contains this")
    parser.add_argument("--workers", type=int, default=16, help="of PyTorch's DataLoader")
    parser.add_argument("--json", help="also write the rates there")
    return parser.parse_args()


def run(command):
    """What a command printed; its errors end the row, not the table."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=420)
    if done.returncode != 0:
        print("  failed (%d): %s\n%s" % (done.returncode, " ".join(command), done.stderr[-1500:]), file=sys.stderr)
        return None
    return done.stdout


def pytorch(way, job, micro_batches, seconds, workers):
    printed = run([sys.executable, os.path.join(HERE, "pytorch_peer.py"), "--way", way, "--model", job["model"],
                   "--image-size", str(job["size"]), "--batch-size", str(job["batch"]),
                   "--micro-batches", str(micro_batches), "--seconds", str(seconds), "--workers", str(workers)])
    return json.loads(printed.splitlines()[-1])["images_per_second"] if printed else None


def lockstep(binary, job, pack, epochs, folder, more):
    summary = os.path.join(folder, "summary.json")
    printed = run([binary, "train", "--device", "cuda", "--model", job["model"], "--dataset", pack,
                   "--image-size", "%dx%d" % (job["size"], job["size"]), "--batch-size", str(job["batch"]),
                   "--gradient-accumulation", str(job["accumulation"]), "--replicas", str(job["replicas"]),
                   "--device-iterations", str(job["iterations"]), "--precision", "16.16", "--eight-bit-io",
                   "--augment", "flip", "--optimizer", "adamw", "--lr", "1e-3", "--epochs", str(epochs),
                   "--eval-every", "0", "--limit-test", "1000", "--summary", summary, *more])
    if printed is None:
        return None
    with open(summary) as file:
        found = json.load(file)
    per_step = job["batch"] * job["accumulation"] * job["replicas"]
    steps = found["optimizer_steps"] - job["iterations"]
    return steps * per_step / (found["last_step_unix_s"] - found["first_step_unix_s"])


def make_pack(binary, folder):
    """Pictures of CIFAR-10's size and number; what is on them does not matter for speed."""
    pack = os.path.join(folder, "pictures-train.pack")
    run([binary, "data", "pack", "--dataset", "synthetic", "--size", "50000", "--split", "train",
         "--output", pack])
    return pack


def rows_of(job, arguments, pack, folder):
    micro_batches = job["accumulation"] * job["replicas"]
    yield "PyTorch eager, DDP", lambda: pytorch("eager", job, job["accumulation"], arguments.seconds, 0)
    yield "PyTorch, micro-batches as a CUDA graph", lambda: pytorch("graph", job, job["accumulation"], arguments.seconds, 0)
    yield "PyTorch, torch.compile", lambda: pytorch("compile", job, job["accumulation"], arguments.seconds, 0)
    for samples in (micro_batches // 2, micro_batches):
        name = "PyTorch, one batch of %d as a CUDA graph" % (samples * job["batch"])
        yield name, lambda samples=samples: pytorch("large", job, samples, arguments.seconds, 0)
    yield "PyTorch, that of torch.compile", lambda: pytorch("compile-large", job, micro_batches, arguments.seconds, 0)
    yield "PyTorch, one batch, with its loader", lambda: pytorch("large", job, micro_batches, arguments.seconds, arguments.workers)
    yield "lockstep, with its loader", lambda: lockstep(arguments.lockstep, job, pack, arguments.epochs, folder, [])
    yield "lockstep, --data-on-device", lambda: lockstep(arguments.lockstep, job, pack, arguments.epochs, folder, ["--data-on-device"])
    yield "lockstep, --deterministic", lambda: lockstep(arguments.lockstep, job, pack, arguments.epochs, folder, ["--deterministic"])
    yield "lockstep, --fuse off", lambda: lockstep(arguments.lockstep, job, pack, 2, folder, ["--fuse", "off"])


def main():
    arguments = parse()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        pack = make_pack(arguments.lockstep, folder)
        for name in arguments.jobs.split(","):
            print("%s: %s" % (name, JOBS[name]), flush=True)
            for row, measure in rows_of(JOBS[name], arguments, pack, folder):
                if arguments.rows not in row:
                    continue
                rate = measure()
                results.setdefault(name, {})[row] = rate
                print("  %-44s %s" % (row, "failed" if rate is None else "%8.0f img/s" % rate), flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
