"""Trains a ResNet with PyTorch on one GPU, as fast as it goes in one of several ways, and prints how
many pictures per second that were, as JSON. What `bench/gpu/compare` measures lockstep against.

    eager    DistributedDataParallel with one rank, micro-batch by micro-batch
    graph    the same micro-batches, each step recorded as a CUDA graph
    compile  torch.compile of forward and backward
    large    one batch for all micro-batches of a step, recorded as a CUDA graph
    compile-large  the same, of what torch.compile made
"""

import argparse
import json
import os
import time

import torch
import torchvision

RECORDED = ("graph", "large", "compile-large")
LARGE = ("large", "compile-large")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", choices=["eager", "graph", "compile", *LARGE], required=True)
    parser.add_argument("--model", default="resnet101")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--micro-batches", type=int, default=8, help="of an optimizer step")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--workers", type=int, default=0, help="of a DataLoader; 0: no loading")
    return parser.parse_args()


class Pictures(torch.utils.data.Dataset):
    """50,000 pictures as CIFAR-10 has them: flipped at random, resized, as bytes."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(1)
        self.pixels = torch.randint(0, 256, (50000, 3, 32, 32), dtype=torch.uint8, generator=generator)
        self.labels = torch.randint(0, 10, (50000,), generator=generator)
        self.size = size

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        picture = self.pixels[index]
        if torch.rand(()) < 0.5:
            picture = picture.flip(2)
        picture = torchvision.transforms.functional.resize(picture, [self.size, self.size], antialias=True)
        return picture, self.labels[index]


class Training:
    def __init__(self, arguments):
        self.arguments = arguments
        self.batch = arguments.batch_size * (arguments.micro_batches if arguments.way in LARGE else 1)
        self.passes = 1 if arguments.way in LARGE else arguments.micro_batches
        torch.backends.cudnn.benchmark = True
        model = getattr(torchvision.models, arguments.model)(num_classes=10).cuda()
        model = model.to(memory_format=torch.channels_last)
        self.mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(1, 3, 1, 1)
        self.deviation = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(1, 3, 1, 1)
        if arguments.way == "eager":
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
            torch.distributed.init_process_group("nccl")
            model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
        self.model = torch.compile(model) if arguments.way.startswith("compile") else model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True,
                                           capturable=arguments.way in RECORDED)
        size = arguments.image_size
        self.pixels = torch.randint(0, 256, (self.passes, self.batch, 3, size, size), dtype=torch.uint8,
                                    device="cuda").to(memory_format=torch.contiguous_format)
        self.labels = torch.randint(0, 10, (self.passes, self.batch), device="cuda")

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        for i in range(self.passes):
            pictures = ((self.pixels[i].float() / 255 - self.mean) / self.deviation)
            pictures = pictures.contiguous(memory_format=torch.channels_last)
            with torch.autocast("cuda", torch.bfloat16, cache_enabled=self.arguments.way != "graph"):
                loss = torch.nn.functional.cross_entropy(self.model(pictures), self.labels[i])
            (loss / self.passes).backward()
        self.optimizer.step()

    def record(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay

    def batches(self):
        """Endless: what a DataLoader with workers gives, on the GPU."""
        loader = torch.utils.data.DataLoader(Pictures(self.arguments.image_size), self.batch, shuffle=True,
                                             drop_last=True, num_workers=self.arguments.workers,
                                             pin_memory=True, persistent_workers=True, prefetch_factor=4)
        while True:
            yield from loader

    def rate(self):
        run = self.record() if self.arguments.way in RECORDED else self.step
        loaded = self.batches() if self.arguments.workers > 0 else None

        def load():
            if loaded is None:
                return
            for i in range(self.passes):
                pixels, labels = next(loaded)
                self.pixels[i].copy_(pixels, non_blocking=True)
                self.labels[i].copy_(labels, non_blocking=True)

        for _ in range(3):
            load()
            run()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        steps = 0
        done = [torch.cuda.Event(), torch.cuda.Event()]
        while time.perf_counter() - begin < self.arguments.seconds:
            load()
            run()
            done[steps % 2].record()
            steps += 1
            done[steps % 2].synchronize()  # the step before: one is under way while the next is loaded
        torch.cuda.synchronize()
        return steps * self.passes * self.batch / (time.perf_counter() - begin)


if __name__ == "__main__":
    arguments = parse()
    training = Training(arguments)
    print(json.dumps({"way": arguments.way, "images_per_second": training.rate(),
                      "workers": arguments.workers,
                      "memory_gib": torch.cuda.max_memory_allocated() / 2**30}))
