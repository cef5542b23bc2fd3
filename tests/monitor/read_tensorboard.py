#!/usr/bin/python3
"""Event files of TensorBoard, read without lockstep's code and without protobuf.

read_tensorboard.py own FILE      with the decoder below
read_tensorboard.py cuts FILE     cuts it after each byte, and prints the lengths at which another event is readable
read_tensorboard.py theirs FILE   with the reader of tensorboard; exit code 77 where that is not installed

The first and the last print a line for each value, "step scalar TAG VALUE" or "step text TAG TEXT" as JSON lists, and
"version TEXT" for the first event. The first one ends with a line "whole", or "cut" where bytes that are
no whole record follow.
"""

import json
import struct
import sys


def crc32c(data):
    """Bit by bit, from the definition: no table that could have the writer's mistake."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def masked(data):
    value = crc32c(data)
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """Yields the messages; returns whether all bytes were records."""
    at = 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        (check,) = struct.unpack_from("<I", data, at + 8)
        if masked(data[at : at + 8]) != check:
            sys.exit(f"the length at {at} has another checksum")
        if at + 16 + length > len(data):
            return False
        message = data[at + 12 : at + 12 + length]
        (check,) = struct.unpack_from("<I", data, at + 12 + length)
        if masked(message) != check:
            sys.exit(f"the event at {at} has another checksum")
        yield message
        at += 16 + length
    return at == len(data)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """number -> list of values: integers, or bytes where they have a length or a fixed size."""
    found = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            if kind == 2:
                size, at = varint(data, at)
            else:
                size = {1: 8, 5: 4}[kind]
            value = data[at : at + size]
            if len(value) != size:
                sys.exit("a field is longer than its message")
            at += size
        found.setdefault(key >> 3, []).append(value)
    return found


def tell(kind, *values):
    print(kind, json.dumps(values))


def tell_value(step, value):
    tag = value[1][0].decode()
    if 2 in value:
        tell("scalar", step, tag, struct.unpack("<f", value[2][0])[0])
        return
    tensor = fields(value[8][0])
    plugin = fields(fields(value[9][0])[1][0])
    dimension = fields(fields(tensor[2][0])[2][0])
    if tensor[1] != [7] or dimension[1] != [1] or plugin[1] != [b"text"]:
        sys.exit("a text is expected to be a list of one string for the plugin 'text'")
    tell("text", step, tag, tensor[8][0].decode())


def read_own(path):
    with open(path, "rb") as file:
        reader = records(file.read())
    while True:
        try:
            event = fields(next(reader))
        except StopIteration as end:
            print("whole" if end.value else "cut")
            return
        if 3 in event:
            tell("version", event[3][0].decode())
        for summary in event.get(5, []):
            for value in fields(summary).get(1, []):
                tell_value(event.get(2, [0])[0], fields(value))


def all_of(data):
    return list(records(data))


def read_cuts(path):
    with open(path, "rb") as file:
        data = file.read()
    whole = all_of(data)
    readable = 0
    for length in range(len(data) + 1):
        events = all_of(data[:length])
        if events != whole[: len(events)] or len(events) < readable:
            sys.exit(f"cut after {length} bytes, it has other events")
        if len(events) > readable:
            print(length)
        readable = len(events)


def read_theirs(path):
    try:
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
    except ImportError:
        sys.exit(77)
    for event in LegacyEventFileLoader(path).Load():
        if event.file_version:
            tell("version", event.file_version)
        for value in event.summary.value:
            if value.HasField("simple_value"):
                tell("scalar", event.step, value.tag, value.simple_value)
            elif value.metadata.plugin_data.plugin_name == "text":
                tell("text", event.step, value.tag, value.tensor.string_val[0].decode())


if __name__ == "__main__":
    {"own": read_own, "cuts": read_cuts, "theirs": read_theirs}[sys.argv[1]](sys.argv[2])
