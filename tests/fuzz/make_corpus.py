#!/usr/bin/python3
"""Makes the stored corpora of the fuzz targets: small files that are right, and damaged ones.

Run it with Debian's python3-numpy. What fuzzing finds is added by hand, as corpus/<name>/found_<what>.
"""

import gzip
import io
import json
import pathlib
import pickle
import struct
import tarfile
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).parent / "corpus"


def keep(corpus, name, content):
    folder = HERE / corpus
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def keep_damaged(corpus, name, content):
    """The file, the file cut in half, and the file with a byte changed in its first quarter."""
    keep(corpus, name, content)
    keep(corpus, name + "_cut", content[:len(content) // 2])
    at = len(content) // 4
    keep(corpus, name + "_changed", content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1:])


def make_pickles():
    array = np.arange(24, dtype=np.uint8).reshape(2, 12)
    batch = {"labels": [1, 9], "data": array, "filenames": ["a.png", "b.png"],
             "other": (None, True, -5, 1 << 40, b"bytes", "\u20ac")}
    for protocol in range(6):
        keep_damaged("pickle", f"protocol{protocol}", pickle.dumps(batch, protocol))
    keep("pickle", "fortran", pickle.dumps(np.asfortranarray(array), 2))
    keep("pickle", "floats", pickle.dumps(np.zeros(2), 2))
    keep("pickle", "call", b"cos\nsystem\n(S'echo hello'\ntR.")
    keep("pickle", "holds_itself", b"]q\x01h\x01a.")
    keep("pickle", "huge_string", b"\x80\x04\x8e" + b"\xff" * 8 + b".")
    keep("pickle", "encoded_again", b"c_codecs\nencode\nq\x00(V" + b"x" * 200 + b"\nVlatin1\ntq\x01"
         + b"0h\x00h\x01R" * 40 + b".")


def idx(kind, shape, content):
    return bytes([0, 0, kind, len(shape)]) + b"".join(struct.pack(">I", n) for n in shape) + content


def make_idx():
    keep_damaged("idx", "images", idx(8, [2, 3, 4], bytes(range(24))))
    keep_damaged("idx", "labels", idx(8, [5], bytes(range(5))))
    keep("idx", "floats", idx(13, [1], bytes(4)))
    keep("idx", "overflow", idx(8, [0xffffffff] * 4, b""))
    keep("idx", "no_extent", idx(8, [], b"x"))
    keep_damaged("idx", "packed", gzip.compress(idx(8, [2, 3, 4], bytes(range(24))), mtime=0))
    keep("idx", "two_members", gzip.compress(idx(8, [4], b""), mtime=0)
         + gzip.compress(b"abcd", mtime=0))
    keep("idx", "bomb", gzip.compress(bytes(4 << 20), mtime=0)[:8000])


def tar(form, compression=""):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:", format=form) as archive:
        names = ["folder/one", "folder/two.x", "l" * 120 + "/long", "\u00e4"]
        for i, name in enumerate(names):
            entry = tarfile.TarInfo(name)
            entry.size = 40 * i
            archive.addfile(entry, io.BytesIO(bytes([65 + i]) * entry.size))
        link = tarfile.TarInfo("link")
        link.type = tarfile.SYMTYPE
        link.linkname = "folder/one"
        archive.addfile(link)
    content = stream.getvalue()
    content = content[:len(content.rstrip(b"\0")) // 512 * 512 + 512 + 1024]
    return gzip.compress(content, mtime=0) if compression else content


def make_archives():
    keep_damaged("archive", "ustar_packed", tar(tarfile.USTAR_FORMAT, "gz"))
    keep_damaged("archive", "gnu_packed", tar(tarfile.GNU_FORMAT, "gz"))
    keep_damaged("archive", "pax_packed", tar(tarfile.PAX_FORMAT, "gz"))
    keep("archive", "gnu", tar(tarfile.GNU_FORMAT))
    keep("archive", "pax", tar(tarfile.PAX_FORMAT)[:3072])
    keep("archive", "zip", b"PK\x03\x04" + bytes(40))
    keep("archive", "empty", b"")


def safetensors(header, content):
    text = json.dumps(header).encode() if isinstance(header, dict) else header
    return struct.pack("<Q", len(text)) + text + content


def make_safetensors():
    def entry(kind, shape, begin, end):
        return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    keep_damaged("safetensors", "two", safetensors(
        {"__metadata__": {"format": "pt", "tied": "a"}, "a": entry("F32", [2, 1], 0, 8),
         "b\u20ac": entry("BOOL", [], 8, 9), "c": entry("I64", [0, 3], 9, 9)}, b"abcdefgh\1"))
    keep("safetensors", "empty", safetensors({}, b""))
    keep("safetensors", "hole", safetensors({"a": entry("U8", [1], 1, 2)}, b"ab"))
    keep("safetensors", "overflow", safetensors({"a": entry("F64", [1 << 62, 8], 0, 8)}, bytes(8)))
    keep("safetensors", "twice", safetensors(b'{"a":{"dtype":"U8","dtype":"U8"}}', b""))
    keep("safetensors", "deep", safetensors(b'{"a":' + b"[" * 500, b""))
    keep("safetensors", "float8", safetensors({"a": entry("F8_E4M3", [1], 0, 1)}, b"a"))


def make_state_dicts():
    """What tests/weights/torch_files.py made: small enough to be a corpus as it is."""
    for path in sorted((HERE.parents[1] / "weights/fixtures").glob("*.pt")):
        keep("state_dict", path.stem, path.read_bytes())
    for name in ("zip", "legacy"):
        keep_damaged("state_dict", name, (HERE / "state_dict" / name).read_bytes())


def zipped(content, storage=bytes(16), key="0"):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, entry in ("archive/data.pkl", content), ("archive/data/" + key, storage):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), entry)
    return stream.getvalue()


def make_costly_state_dicts():
    """What is made once and used often, so that much work could be asked for with few bytes."""
    def text(content):
        return b"X" + struct.pack("<I", len(content)) + content

    def storage(key=b"0"):
        return (b"(" + text(b"storage") + b"ctorch\nFloatStorage\n" + text(key) + text(b"cpu")
                + b"K\x04tQ")

    def tensor(stored, offset=0, more=b"\x89)"):
        return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + stored + b"K" + bytes([offset])
                + b"(K\x01t(K\x01t" + more + b"tR")

    def uses(count):
        return b"}(" + b"".join(b"U\x02%02x" % i + b"h\x01" for i in range(count)) + b"u."

    begin = b"\x80\x02"
    keep("state_dict", "long_name", zipped(begin + text(b"a" * 5000) + b"q\x000" + tensor(storage())
                                           + b"q\x010}(" + b"h\x00h\x01" * 100 + b"u."))
    keep("state_dict", "long_tied_name", zipped(begin + b"}(" + text(b"+" * 4000)
                                                + tensor(storage()) + b"q\x01" + uses(100)[2:]))
    keep("state_dict", "many_wrappers", zipped(
        begin + b"ctorch._utils\n_rebuild_parameter\nq\x00" + b"h\x00" * 99 + tensor(storage())
        + b"\x85R" * 100 + b"q\x010" + uses(100)))
    keep("state_dict", "long_key", zipped(
        begin + storage(b"k" * 1000) + b"q\x000}(" + b"".join(
            b"U\x01%d" % i + tensor(b"h\x00", i) for i in range(4)) + b"u.", key="k" * 1000))
    keep("state_dict", "much_metadata", zipped(
        begin + b"}(" + b"K\x00" * 200 + b"uq\x020" + tensor(storage(), more=b"\x89)h\x02")
        + b"q\x010" + uses(100)))
    old = b"ctorch\nFloatTensor\n)R(" + storage() + b"K\x00(K\x04t(K\x01ttb"
    for name, parts in ("old_tensor", old), (
            "old_parameter", b"ctorch.nn.parameter\nParameter\n)\x81(" + old + b"N}\x88\x89tb"), (
            "holds_itself", b"ctorch.nn.parameter\nParameter\n)\x81q\x01(h\x01NNNNtb"):
        keep("state_dict", name, zipped(begin + b"}(" + text(b"a") + parts + b"u."))


def make_spans():
    def text(name):
        return name.encode().ljust(64, b"\0")

    slots = [struct.pack("<qqq", 100 * i, 100 * i + 50, i << 8 | i % 6) for i in range(4)]
    header = struct.pack("<QiiiIQqI", 0x31306E6170736B6C, 1, 0, 4711, 2, 4, 1_000, 2) + text("a") + text("boot") + bytes(4)
    tracks = struct.pack("<Q", 3) + text("device 0") + struct.pack("<Q", 1 << 63) + text("x" * 64)
    keep_damaged("spans", "good", header + tracks + b"".join(slots) * 2)
    keep("spans", "huge", struct.pack("<QiiiIQqI", 0x31306E6170736B6C, 1, 0, 1, 1 << 16, 1 << 32, 0, 1 << 16) + bytes(200))


make_pickles()
make_idx()
make_archives()
make_safetensors()
make_state_dicts()
make_costly_state_dicts()
make_spans()
