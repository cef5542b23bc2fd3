"""The peer of `lockstep bench train`: PyTorch's DistributedDataParallel over Gloo.

One process of a job; its place comes from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, its cores
from whoever starts it. Rank 0 prints one JSON line.

    torch_train.py --job FILE.json --workers 0 --layout channels_last

trains a ResNet-20 for an epoch:
{"steps": …, "first_step_unix_s": …, "last_step_unix_s": …, "data_share": …,
 "train_loss": …}.

    torch_train.py --update --rounds 10

averages and updates as many parameters as a ResNet-50 has: {"seconds": [one per round]}.
"""
import argparse
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    """Two convolutions; the shortcut has no parameters (option A of He et al.)."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.stride = stride
        self.added = after - before

    def shortcut(self, value):
        if self.stride == 1 and self.added == 0:
            return value
        thinned = value[:, :, ::self.stride, ::self.stride]
        return functional.pad(thinned, (0, 0, 0, 0, 0, self.added))

    def forward(self, value):
        out = self.relu(self.bn1(self.conv1(value)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(value)
        return self.relu(out)


class ResNet20(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = self.stage(16, 16, 1)
        self.layer2 = self.stage(16, 32, 2)
        self.layer3 = self.stage(32, 64, 2)
        self.fc = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.normal_(self.fc.weight, std=0.01)
        nn.init.zeros_(self.fc.bias)

    @staticmethod
    def stage(before, after, stride):
        return nn.Sequential(Block(before, after, stride), Block(after, after, 1),
                             Block(after, after, 1))

    def forward(self, images):
        value = self.relu(self.bn1(self.conv1(images)))
        value = self.layer3(self.layer2(self.layer1(value)))
        return self.fc(torch.flatten(functional.adaptive_avg_pool2d(value, 1), 1))


def make_set(job):
    """What torchvision's CIFAR10 does with a sample: an array becomes an image, and is varied."""
    # Imported here: reducing gradients takes none of them.
    import numpy
    from PIL import Image
    from torchvision import transforms

    size = (job["height"], job["width"])
    transform = transforms.Compose([
        transforms.RandomCrop(size, padding=job["padding"]),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(job["mean"], job["std"]),
    ])

    class Pictures(torch.utils.data.Dataset):
        def __init__(self):
            pixels = numpy.fromfile(job["images"], dtype=numpy.uint8)
            self.images = pixels.reshape((-1, *size, job["channels"]))
            self.labels = numpy.fromfile(job["labels"], dtype=numpy.int64).tolist()

        def __len__(self):
            return len(self.labels)

        def __getitem__(self, index):
            return transform(Image.fromarray(self.images[index])), self.labels[index]

    return Pictures()


def train(job, workers, memory_format):
    model = ResNet20(job["channels"], job["classes"]).to(memory_format=memory_format)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=job["lr"], momentum=job["momentum"])
    pictures = make_set(job)
    loader = torch.utils.data.DataLoader(
        pictures, batch_size=job["batch_size"], num_workers=workers, drop_last=True,
        sampler=torch.utils.data.distributed.DistributedSampler(pictures, drop_last=True))

    finished = []
    loss_sum = 0.0
    waited = 0.0
    begin = end = time.perf_counter()
    for images, labels in loader:
        waited += time.perf_counter() - end
        images = images.contiguous(memory_format=memory_format)
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        loss_sum += loss.item()
        finished.append(time.time())
        end = time.perf_counter()
    return {"steps": len(finished), "first_step_unix_s": finished[0],
            "last_step_unix_s": finished[-1],
            "data_share": waited / (end - begin), "train_loss": loss_sum / len(finished)}


def resnet50_shapes():
    shapes = []

    def add_convolution(before, after, kernel):
        shapes.extend([(after, before, kernel, kernel), (after,), (after,)])

    add_convolution(3, 64, 7)
    before = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            add_convolution(before, width, 1)
            add_convolution(width, width, 3)
            add_convolution(width, 4 * width, 1)
            if block == 0:
                add_convolution(before, 4 * width, 1)
            before = 4 * width
    return shapes + [(1000, before), (1000,)]


class Weights(nn.Module):
    """Parameters alone. The gradient of each is `slope` everywhere, and costs next to nothing."""

    def __init__(self, shapes, slope):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in shapes)
        self.slope = slope

    def forward(self):
        return self.slope * sum(weight.sum() for weight in self.weights)


def longest(seconds):
    """Of all ranks' times for the same thing."""
    times = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return times.item()


def timed(work):
    dist.barrier()
    begin = time.perf_counter()
    work()
    return longest(time.perf_counter() - begin)


def update(rounds):
    """What averaging gradients and a step of SGD add to a backward pass.

    A backward pass of the bare module, which each rank keeps to itself, takes turns with one of DDP
    and a step; their difference counts. So what DDP hides behind the backward pass is free.
    """
    rate = 0.125
    weights = Weights(resnet50_shapes(), dist.get_rank() + 1.0)
    count = sum(weight.numel() for weight in weights.parameters())
    if count != 25_557_032:
        raise SystemExit(f"expected the parameters of a ResNet-50, found {count}")
    model = DistributedDataParallel(weights)
    optimizer = torch.optim.SGD(weights.parameters(), lr=rate)

    def step():
        model().backward()
        optimizer.step()

    def alone():
        weights().backward()

    seconds = []
    warm_up = 2  # DDP orders its buckets anew after the first step
    for number in range(warm_up + rounds):
        with_peers = timed(step)
        optimizer.zero_grad(set_to_none=True)
        without = timed(alone)
        optimizer.zero_grad(set_to_none=True)
        if number >= warm_up:
            seconds.append(with_peers - without)
    mean_slope = (dist.get_world_size() + 1) / 2
    expected = -rate * mean_slope * (warm_up + rounds)
    for weight in weights.parameters():
        if not torch.allclose(weight, torch.tensor(expected), rtol=1e-5):
            raise SystemExit(f"expected weights of {expected}, found {weight.flatten()[0]}")
    return {"seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--job", help="what to train on, as JSON")
    parser.add_argument("--workers", type=int, default=0, help="of the DataLoader")
    parser.add_argument("--layout", choices=["contiguous", "channels_last"], default="contiguous")
    parser.add_argument("--update", action="store_true", help="reduce and update alone")
    parser.add_argument("--rounds", type=int, default=10, help="of --update")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    if arguments.update:
        result = update(arguments.rounds)
    else:
        memory_format = {"contiguous": torch.contiguous_format,
                         "channels_last": torch.channels_last}[arguments.layout]
        with open(arguments.job, encoding="utf-8") as file:
            result = train(json.load(file), arguments.workers, memory_format)
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


main()
