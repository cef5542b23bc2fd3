"""torchvision's side of torchvision_test: torchvision_peer.py names | exchange FOLDER."""
import json
import os
import struct
import sys

import numpy
import torch
import torchvision


def names():
    """Every tensor of every ResNet: model, name, shape."""
    for model in ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"):
        with torch.no_grad():
            state = getattr(torchvision.models, model)(weights=None).state_dict()
        for name, tensor in state.items():
            print(model, name, list(tensor.shape), str(tensor.dtype).split(".")[-1])


def read_safetensors(path):
    types = {"F32": numpy.float32, "I64": numpy.int64}
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = numpy.frombuffer(data[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def exchange(folder):
    path = lambda name: os.path.join(folder, name)
    ours = torch.load(path("ours.pt"))
    check = torch.load(path("ours_logits.pt"))
    for state in (ours, read_safetensors(path("ours.safetensors"))):
        model = torchvision.models.resnet50(weights=None)
        model.load_state_dict(state, strict=True)
        with torch.no_grad():
            error = (model.eval()(check["input"]) - check["logits"]).abs().max().item()
        print("error", error)
        assert error < 1e-4, error

    torch.manual_seed(3)
    theirs = torchvision.models.resnet50(weights=None)
    picture = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        theirs.train()(picture)  # moves the running statistics
        logits = theirs.eval()(picture)
    torch.save(theirs.state_dict(), path("theirs.pt"))
    torch.save({"input": picture, "logits": logits}, path("theirs_logits.pt"))


if sys.argv[1] == "names":
    names()
else:
    exchange(sys.argv[2])
