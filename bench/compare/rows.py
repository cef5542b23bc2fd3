"""What is compared: the rows of the table, the `lockstep bench …` that measures each, and what is asked."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Bench:
    """A `lockstep bench …`, and what is left of it where Python has no PyTorch."""
    arguments: tuple
    without_torch: tuple = ()


BENCHES = {
    "launch": Bench(("launch", "--rounds", "20")),
    "meet": Bench(("launch", "--rounds", "5", "--against", "torch"), ("launch", "--rounds", "5")),
    "comm-large": Bench(("comm", "--instances", "2", "--sizes", "100M")),
    "comm-small": Bench(("comm", "--instances", "8", "--sizes", "4K")),
    "data": Bench(("data", "--pipeline", "tutorial,standard", "--against", "torch"),
                  ("data", "--pipeline", "tutorial,standard")),
    "train": Bench(("train", "--against", "torch", "--work", "train", "--rounds", "1", "--steps", "30")),
    "update": Bench(("train", "--against", "torch", "--work", "update", "--rounds", "1")),
}


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    system: str  # what the name of its systems begins with; of several the fastest counts


@dataclasses.dataclass(frozen=True)
class Target:
    """What design asks for: a figure of our own, or to be so many times as fast as all of these."""
    text: str
    figure: float = 0
    times: float = 0
    peers: tuple = ()


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    work: str
    bench: str
    measured: str  # the work as the bench names it
    peers: tuple
    target: Target
    figure: str = "median_s"  # or "images_per_second", of which more is better
    is_extra: bool = False  # the README omits this row first


GLOO, MPI = Peer("Gloo", "gloo"), Peer("Open MPI", "mpi")
LOADER = Peer("torch DataLoader", "torch")
CONTIGUOUS = Peer("PyTorch DDP, contiguous", "torch, contiguous")
CHANNELS_LAST = Peer("PyTorch DDP, channels_last", "torch, channels_last")
DDP = Peer("PyTorch DDP", "torch")
QUARTER = Target("≤ a quarter of DDP's", times=4, peers=(DDP.name,))

ROWS = (
    Row("start", "start 4 empty processes", "launch", "start 4 empty processes",
        (Peer("mpirun", "mpirun"),), Target("≤ 62 ms", figure=0.062)),
    Row("meet", "start 4 ranks that meet once", "meet", "start 4 processes that meet once",
        (Peer("4 Python ranks over Gloo", "torch"),), Target("≤ 0.1 s", figure=0.1), is_extra=True),
    Row("reduce-100m", "all-reduce 100 MiB fp32, 2 processes", "comm-large", "all_reduce 100 MiB, 2 instances",
        (MPI, GLOO), Target("≤ half of Open MPI's", times=2, peers=(MPI.name,))),
    Row("reduce-4k", "all-reduce 4 KiB fp32, 8 processes", "comm-small", "all_reduce 4 KiB, 8 instances",
        (MPI, GLOO), Target("≤ 0.15 ms", figure=0.15e-3)),
    Row("load-resize", "load: flip, resize to 64×64, uint8", "data", "load tutorial, batch 64",
        (LOADER,), Target("≥ 200 k images/s", figure=200e3), "images_per_second"),
    Row("load-crop", "load: crop 32, flip, normalize, fp32", "data", "load standard, batch 64",
        (LOADER,), Target("≥ 400 k images/s", figure=400e3), "images_per_second"),
    Row("train", "train ResNet-20, batch 64, 2 processes × 1 thread", "train",
        "train resnet20, batch 64, 2 instances x 1 thread", (CHANNELS_LAST, CONTIGUOUS),
        Target("≥ 1.25 × the better one", times=1.25, peers=(CHANNELS_LAST.name, CONTIGUOUS.name)),
        "images_per_second"),
    Row("update-2", "reduce + SGD update, 25.6 M parameters, 2 processes", "update",
        "reduce + SGD update, 25.6 M parameters, 2 instances", (DDP,), QUARTER),
    Row("update-4", "reduce + SGD update, 25.6 M parameters, 4 processes", "update",
        "reduce + SGD update, 25.6 M parameters, 4 instances", (DDP,), QUARTER),
)
GPU_WORK = "train ResNet-101 at 64×64 on one GPU, B=64 G=8 R=8"
GPU_TARGET = "≥ 45 k images/s on an H200"
