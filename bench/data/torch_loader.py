"""The peer of `lockstep bench data`: the same work through torchvision and torch's DataLoader.

Reads a job from a JSON file, writes what each pipeline makes of the first pictures (without its
random steps) for lockstep to compare, measures, and prints one JSON line per pipeline and number of
workers: {"pipeline": …, "workers": …, "seconds_per_batch": [one per round]}.
"""
import json
import sys
import time

import numpy
import torch
from PIL import Image
from torchvision import datasets, transforms


class Pictures(torch.utils.data.Dataset):
    """What torchvision's CIFAR10 and MNIST do with a sample: an array becomes an image."""

    def __init__(self, job, transform):
        shape = (-1, job["height"], job["width"], job["channels"])
        # A plain array: indexing a memmap is slow, and no part of what is compared.
        pixels = numpy.memmap(job["images"], dtype=numpy.uint8, mode="r")
        self.images = numpy.asarray(pixels).reshape(shape)
        if job["channels"] == 1:
            self.images = self.images[..., 0]
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.images[index])), 0


def steps_of(pipeline, job, with_chance):
    flip = [transforms.RandomHorizontalFlip()] if with_chance else []
    if pipeline == "tutorial":
        return flip + [transforms.Resize((64, 64)), transforms.PILToTensor()]
    if pipeline == "none":
        return [transforms.PILToTensor()]
    size = (job["height"], job["width"])
    if job["folder"]:
        crop = [transforms.RandomResizedCrop(job["crop"])]
    else:
        crop = [transforms.RandomCrop(size, padding=job["padding"])]
    end = [transforms.ToTensor(), transforms.Normalize(job["mean"], job["std"])]
    return (crop + flip if with_chance else []) + end


def make_set(pipeline, job, with_chance=True):
    transform = transforms.Compose(steps_of(pipeline, job, with_chance))
    if job["folder"]:
        return datasets.ImageFolder(job["folder"], transform)
    return Pictures(job, transform)


def write_check(pipeline, job):
    """The first pictures, channels-first as torchvision makes them."""
    pictures = make_set(pipeline, job, with_chance=False)
    first = [pictures[i][0].numpy() for i in range(job["checked"])]
    numpy.concatenate([picture.ravel() for picture in first]).tofile(job["check"][pipeline])


def measure(pipeline, workers, job):
    loader = torch.utils.data.DataLoader(
        make_set(pipeline, job), batch_size=job["batch_size"], shuffle=True, drop_last=True,
        num_workers=workers, persistent_workers=workers > 0)
    rounds = []
    for _ in range(job["rounds"]):
        # Starting workers and filling their queues is not counted.
        unmeasured = 2 * workers + 1
        count = 0
        for number, _ in enumerate(loader):
            if number == unmeasured:
                start = time.perf_counter()
            elif number > unmeasured:
                count += 1
                if time.perf_counter() - start > job["seconds"]:
                    break
        if count:
            rounds.append((time.perf_counter() - start) / count)
    return rounds


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    for pipeline in job["pipelines"]:
        if not job["folder"]:
            write_check(pipeline, job)
        for workers in job["workers"]:
            rounds = measure(pipeline, workers, job)
            print(json.dumps({"pipeline": pipeline, "workers": workers,
                              "seconds_per_batch": rounds}), flush=True)


main()
