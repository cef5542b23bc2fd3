"""Reads a checkpoint with nothing but the standard library, and prints what is in it."""
import json
import struct
import sys


def tensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__")
    for name, entry in sorted(header.items()):
        begin, end = entry["data_offsets"]
        yield name, entry["dtype"], entry["shape"], data[begin:end]


folder = sys.argv[1]
with open(folder + "/manifest.json", encoding="utf-8") as file:
    manifest = json.load(file)
print(manifest["position"]["step"], manifest["options"]["lr"], list(manifest["options"]),
      float(manifest["metrics"]["acc"]), float(manifest["metrics"]["loss"]), manifest["reason"])
for name in manifest["files"]:
    for tensor, dtype, shape, data in tensors(folder + "/" + name):
        values = struct.unpack("<%d%s" % (len(data) // 4, "f"), data) if dtype == "F32" else data.hex()
        print(name, tensor, dtype, shape, values)
