#!/usr/bin/python3
"""Weight files as Python sees them, for tests of lockstep's readers and writers.

torch_files.py make FOLDER        writes files with torch.save; prints "file digest ties" for each
torch_files.py load FILE          reads a file with torch.load, with and without weights_only
torch_files.py safetensors FILE   reads a safetensors file by hand

The last two print "digest ties". The digest is put together here from lockstep/weights/digest.h's
description; ties are "other=kept,…" or "-".
"""

import argparse
import collections
import ctypes
import json
import struct
import sys

XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits.restype = ctypes.c_uint64
XXHASH.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def number(value):
    return struct.pack("<Q", value)


def describe(tensors, ties):
    """tensors: name -> (type, shape, bytes), without ties."""
    text = b""
    for name in sorted(tensors, key=str.encode):
        kind, shape, content = tensors[name]
        for part in (name.encode(), kind.encode()):
            text += number(len(part)) + part
        text += number(len(shape)) + b"".join(number(n) for n in shape) + content
    digest = f"{XXHASH.XXH3_64bits(text, len(text)):016x}"
    return digest + " " + (",".join(f"{a}={b}" for a, b in sorted(ties.items())) or "-")


def plain_tensors(state):
    """name -> (type, shape, bytes), and ties."""
    import torch
    names = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
             torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
             torch.uint8: "u8", torch.bool: "bool"}
    tensors, ties, seen = {}, {}, {}
    for name in sorted(state, key=str.encode):
        tensor = state[name].detach()
        place = (tensor.storage().data_ptr(), tensor.storage_offset(), tensor.shape, tensor.stride())
        if tensor.numel() > 0 and place in seen:
            ties[name] = seen[place]
            continue
        seen[place] = name
        plain = tensor.contiguous().reshape(-1)
        content = b"" if plain.numel() == 0 else plain.view(torch.uint8).numpy().tobytes()
        tensors[name] = (names[tensor.dtype], list(tensor.shape), content)
    return tensors, ties


def describe_torch(state):
    return describe(*plain_tensors(state))


def save_safetensors(state, path):
    """In the order of names, without padding: another writer than lockstep's."""
    tensors, ties = plain_tensors(state)
    header, content = {"__metadata__": {"format": "pt", "made by": "hand", **ties}}, b""
    for name, (kind, shape, part) in tensors.items():
        header[name] = {"shape": shape, "dtype": kind.upper(),
                        "data_offsets": [len(content), len(content) + len(part)]}
        content += part
    text = json.dumps(header).encode()
    open(path, "wb").write(number(len(text)) + text + content)


def example():
    import torch
    torch.manual_seed(7)
    state = collections.OrderedDict()
    state["conv.weight"] = torch.randn(4, 3, 2, 5).to(memory_format=torch.channels_last)
    state["conv.half"] = torch.randn(3, 4).half()
    state["conv.brain"] = torch.randn(5).bfloat16()
    state["fc.weight"] = torch.nn.Parameter(torch.randn(6, 4))
    state["fc.transposed"] = torch.randn(3, 5).double().t()
    state["bn.num_batches_tracked"] = torch.tensor(12345678901)
    state["mask"] = torch.tensor([[True, False, True]])
    state["bytes"] = torch.arange(7, dtype=torch.uint8)
    state["small"] = torch.arange(-3, 3, dtype=torch.int8)
    state["short"] = torch.arange(-3, 3, dtype=torch.int16)
    state["int"] = torch.arange(-3, 3, dtype=torch.int32)
    state["empty"] = torch.zeros(0, 3)
    both = torch.randn(10)
    state["view.first"], state["view.second"] = both[:4], both[4:]
    state["view.every_other"] = both[::2]
    state["tied.b"] = state["tied.a"] = torch.randn(2, 3)
    state["alias"] = state["tied.a"]
    state["\u00fcber.\u20ac"] = torch.ones(1)
    attribute = torch.ones(2)
    attribute.note = "kept with the tensor"
    state["with_attribute"] = attribute
    state._metadata = collections.OrderedDict({"": {"version": 1}})
    return state


def make(folder):
    import torch
    state = example()
    scripted = torch.jit.script(torch.nn.Linear(2, 2))
    torch.jit.save(scripted, f"{folder}/script.pt")
    optimizer = torch.optim.Adam([state["fc.weight"]], lr=0.125)
    state["fc.weight"].sum().backward()
    optimizer.step()
    wrapped = {"epoch": 3, "args": argparse.Namespace(lr=0.5), "optimizer": optimizer.state_dict(),
               "state_dict": state, "seed": 2 ** 64 + 1, "names": {"a", "b"}}
    files = {"zip.pt": (state, {}), "legacy.pt": (state, {"_use_new_zipfile_serialization": False}),
             "wrapped.pt": (wrapped, {}), "model.pt": ({"model": dict(state), "epoch": 1}, {}),
             "wrapped_legacy.pt": (wrapped, {"_use_new_zipfile_serialization": False}),
             "protocol4.pt": (dict(state), {"pickle_protocol": 4}),
             "legacy4.pt": (state, {"_use_new_zipfile_serialization": False, "pickle_protocol": 4})}
    for name, (content, options) in files.items():
        torch.save(content, f"{folder}/{name}", **options)
        print(name, describe_torch(state))
    save_safetensors(state, f"{folder}/by_hand.safetensors")
    print("by_hand.safetensors", describe_torch(state))
    refused = {"whole_model.pt": torch.nn.Linear(2, 2), "list.pt": [torch.ones(1)],
               "tensor.pt": torch.ones(1), "number.pt": {"a": torch.ones(1), "epoch": 3},
               "complex.pt": {"a": torch.ones(1, dtype=torch.complex64)},
               "sparse.pt": {"a": torch.eye(2).to_sparse()},
               "quantized.pt": {"a": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)},
               "expanded.pt": {"a": torch.ones(1).expand(1000)}}
    for name, content in refused.items():
        torch.save(content, f"{folder}/{name}")


def load(path):
    import torch
    results = {describe_torch(torch.load(path)), describe_torch(torch.load(path, weights_only=True))}
    assert len(results) == 1, results
    print(results.pop())


def load_safetensors(path):
    content = open(path, "rb").read()
    length, = struct.unpack("<Q", content[:8])
    assert length % 8 == 0
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__")
    assert metadata.pop("format") == "pt"
    tensors, covered = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == covered, (name, begin, covered)
        covered = end
        tensors[name] = (entry["dtype"].lower(), entry["shape"], content[8 + length:][begin:end])
    assert covered == len(content) - 8 - length
    print(describe(tensors, metadata))


{"make": make, "load": load, "safetensors": load_safetensors}[sys.argv[1]](sys.argv[2])
