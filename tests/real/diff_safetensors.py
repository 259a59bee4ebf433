#!/usr/bin/env python3
"""Hold our safetensors reader against the library on random headers.

    diff_safetensors.py DESCRIBE [--count N] [--seed S] [--keep DIR]

DESCRIBE is the program tests/fuzz/describe.c.  Each round makes files whose
headers are good, nearly good or mutated byte by byte; both readers must agree
on whether a file is good, and then on names, dtypes, shapes, bytes and
metadata, and ours must keep the order of the header.  Where we are stricter on
purpose, our reason has to be one of STRICTER.  Exit 77: no library.
"""
import argparse
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

try:
    from safetensors import safe_open
    from safetensors import deserialize
except ImportError:
    print("the safetensors library is not installed")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                ".."))
from support.st import BITS, TORCH  # noqa: E402

# What the library takes and we refuse.
STRICTER = ("duplicate tensor name", "dtype is an object")

TOKENS = [b'"', b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"0",
          b"-0", b"-1", b"8.0", b"8e0", b"1e999", b"18446744073709551615",
          b"18446744073709551616", b'"dtype"', b'"shape"', b'"data_offsets"',
          b'"F32"', b'"__metadata__"', b"\\u0000", b"\\ud800", b"\\udc00",
          b"\\ud83d\\ude00", b"\\n", b"\\x", b"\n", b"\0", b"\x01", b"\x0b",
          b"\xff", b"\xc3\xa9", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b" ",
          b'"a":1,', b"[[[[", b"]]]]", b"/**/", b"'", b"01", b"+1", b".5",
          b"1.", b"\xef\xbb\xbf"]


def name(rng):
    return rng.choice([
        "a", "b", "w", "layers.0.w", "layers.0", "layers.1.w", "", ".", "..",
        "a/b", "\u00e9", "\U0001f600", "x" * 300, "n\0l", "__metadata_",
        "t%d" % rng.randrange(5), "k.%d.%d" % (rng.randrange(4),
                                              rng.randrange(4))])


def shape(rng):
    if rng.random() < 0.03:
        return rng.choice([[2 ** 62, 0, 8], [2 ** 62, 8, 0], [0, 2 ** 64 - 1],
                           [2 ** 61], [2 ** 64 - 1, 1, 0], [1] * 200,
                           [2 ** 32, 2 ** 32]])
    return [rng.choice([0, 1, 1, 2, 3, 4, 8]) for _ in range(rng.randrange(4))]


def nbytes(dtype, dims):
    bits = BITS.get(dtype, 8)
    for d in dims:
        bits *= d
    return bits // 8


def scalar(rng):
    return rng.choice(["null", "true", "1", "-0", "1.5", "1e400", '"s"',
                       "[]", "{}", '{"a": [1, {"b": null}]}', "[[[]]]",
                       "-" + "9" * 30, "1" * 400])


def offsets(rng, begin, end):
    text = "[%d, %d]" % (begin, end)
    if rng.random() < 0.03:
        text = rng.choice(["[%d]" % begin, "[%d,%d,%d]" % (begin, end, end),
                           "[%d.0,%d]" % (begin, end), "[]", "null",
                           "[%d,%d]" % (end, begin), "[-0,%d]" % end,
                           '["%d",%d]' % (begin, end),
                           "[%d,%d]" % (begin + 1, end + 1),
                           "[%d,%d]" % (begin, end + 8),
                           "[%de0,%d]" % (begin, end), scalar(rng)])
    return text


def entry(rng, at):
    """One tensor's JSON, and where it ends."""
    dtype = rng.choice(list(BITS))
    dims = shape(rng)
    if BITS[dtype] < 8 and rng.random() < 0.8:
        dims = dims + [4]
    end = at + nbytes(dtype, dims)
    if end > 1 << 20:
        end = at + rng.choice([0, 8])
    dtype_text = json.dumps(dtype)
    if rng.random() < 0.03:
        dtype_text = rng.choice(['"f32"', '"Q7"', '""', "null", "7",
                                 '{"%s": null}' % dtype, '{"F32": {}}',
                                 '["F32"]', '"F\\u00332"'])
    shape_text = json.dumps(dims)
    if rng.random() < 0.03:
        shape_text = rng.choice(["null", '"2"', "2", "[2.0]", "[-1]", "[[2]]",
                                 "[null]", scalar(rng)])
    offsets_text = offsets(rng, at, end)
    if rng.random() < 0.1:
        fields = [dtype_text, shape_text, offsets_text]
        if rng.random() < 0.2:
            fields.append(scalar(rng))
        if rng.random() < 0.1:
            fields.pop(0)
        return "[" + ",".join(fields) + "]", end
    fields = ['"dtype":' + dtype_text, '"shape":' + shape_text,
              '"data_offsets":' + offsets_text]
    if rng.random() < 0.1:
        fields.append('"%s": %s' % (rng.choice(["extra", "Dtype", "", "0"]),
                                    scalar(rng)))
    if rng.random() < 0.03:
        fields.append(rng.choice(fields))
    if rng.random() < 0.03:
        fields.pop()
    if rng.random() < 0.5:
        rng.shuffle(fields)
    return "{" + ", ".join(fields) + "}", end


def metadata(rng):
    if rng.random() < 0.1:
        return scalar(rng)
    pairs = ["%s: %s" % (json.dumps(name(rng)),
                         scalar(rng) if rng.random() < 0.05
                         else json.dumps(name(rng)))
             for _ in range(rng.randrange(4))]
    return "{" + ",".join(pairs) + "}"


def deep(rng):
    n = rng.choice([100, 120, 123, 124, 125, 126, 127, 128, 129, 200])
    return '"deep": {"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":%s%s}' \
        % ("[" * n, "]" * n)


def header(rng):
    """The text of a header, good more often than not, and its data's size."""
    items, at, used = [], 0, set()
    for _ in range(rng.choice([0, 1, 1, 2, 3, 6])):
        key = name(rng)
        if key in used and rng.random() < 0.95:
            continue
        used.add(key)
        text, at = entry(rng, at)
        items.append(json.dumps(key, ensure_ascii=rng.random() < 0.5) + ":" +
                     text)
    if rng.random() < 0.4:
        items.append('"__metadata__":' + metadata(rng))
    if rng.random() < 0.02:
        items.append('"__metadata__":' + metadata(rng))
    if rng.random() < 0.05:
        items.append(deep(rng))
    if rng.random() < 0.3:
        rng.shuffle(items)
    text = rng.choice(["", "", "", " ", "\n\t"]) + "{" + ",".join(items) + "}"
    return (text + " " * rng.choice([0, 0, 3, 8])).encode(), at


def mutate(rng, text):
    data = bytearray(text)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(5)
        if how == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at:at] = rng.choice(TOKENS)
        elif how == 2:
            del data[at:at + rng.choice([1, 1, 2, 8])]
        elif how == 3:
            span = data[at:at + rng.randrange(1, 40)]
            to = rng.randrange(len(data) + 1)
            data[to:to] = span
        else:
            data[at:at + 1] = rng.choice(TOKENS)
    return bytes(data)


def make(rng):
    text, size = header(rng)
    if rng.random() < 0.5:
        text = mutate(rng, text)
    if rng.random() < 0.05:
        size = max(0, size + rng.choice([-8, -1, 1, 8]))
    length = len(text)
    if rng.random() < 0.03:
        length = rng.choice([0, 1, length - 1, length + 1, 2 ** 40, 2 ** 63,
                             100_000_001])
    data = bytes(rng.randrange(256) for _ in range(min(size, 64)))
    data += bytes(max(0, size - 64))
    return struct.pack("<Q", max(0, length)) + text + data


def digest(data):
    return hashlib.sha256(data).hexdigest()


def of_library(path, data):
    """None when it refuses; else {name: (dtype, shape, digest)}, metadata."""
    try:
        tensors = deserialize(data)
        meta = {}
        with safe_open(path, framework="np") as f:
            meta = f.metadata() or {}
    except Exception as e:  # the binding raises several kinds
        return None, str(e)
    return ({n: (TORCH[t["dtype"]], list(t["shape"]), digest(t["data"]))
             for n, t in tensors}, meta), ""


def of_ours(line, data):
    if line.startswith("ERR "):
        return None, line[4:], None
    index = json.loads(line[3:])
    tensors, order = {}, []
    for node in index["nodes"]:
        if node["kind"] == "group":
            continue
        at, length = node["source"]["offset"], node["source"]["length"]
        [key] = node["key"]
        tensors[key] = (node["dtype"], node["shape"],
                        digest(data[at:at + length]))
        order.append((node["order"], key))
    return (tensors, index["meta"]), "", [k for _, k in sorted(order)]


def saved_order(data):
    length = struct.unpack("<Q", data[:8])[0]
    pairs = json.loads(data[8:8 + length], object_pairs_hook=list)
    return [k for k, _ in pairs if k != "__metadata__"]


def stricter(reason, data):
    """Of two entries of one name the library never looks at the first."""
    order = saved_order(data)
    return (len(set(order)) < len(order) or
            any(s in reason for s in STRICTER))


def compare(path, line):
    with open(path, "rb") as f:
        data = f.read()
    theirs, why = of_library(path, data)
    ours, reason, order = of_ours(line, data)
    if ours is None and theirs is not None:
        if stricter(reason, data):
            return "stricter", ""
        return "differs", "we refuse, they take it: " + reason
    if ours is not None and theirs is None:
        return "differs", "we take it, they refuse: " + why
    if ours is None:
        return "refused", ""
    if ours != theirs:
        return "differs", "ours %r theirs %r" % (ours, theirs)
    if order != saved_order(data):
        return "differs", "order %r" % (order,)
    return "taken", ""


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("describe")
    ap.add_argument("--count", type=int, default=4000)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--keep", help="copy files that differ here")
    args = ap.parse_args()
    rng = random.Random(args.seed)
    seen = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i in range(args.count):
            path = os.path.join(folder, "%06d.safetensors" % i)
            with open(path, "wb") as f:
                f.write(make(rng))
            paths.append(path)
        out = subprocess.run([args.describe], input="\n".join(paths) + "\n",
                             capture_output=True, text=True, check=True,
                             errors="surrogateescape")
        lines = out.stdout.split("\n")
        assert len(lines) == len(paths) + 1, "a line for each file"
        for path, line in zip(paths, lines):
            what, why = compare(path, line)
            seen[what] = seen.get(what, 0) + 1
            if what == "differs":
                print("%s (seed %d): %s" % (os.path.basename(path), args.seed,
                                            why[:400]))
                if args.keep:
                    os.makedirs(args.keep, exist_ok=True)
                    with open(path, "rb") as f, open(os.path.join(
                            args.keep, os.path.basename(path)), "wb") as g:
                        g.write(f.read())
    print(", ".join("%d %s" % (n, w) for w, n in sorted(seen.items())))
    # A run in which nothing is taken, or nothing refused, says nothing.
    good = not seen.get("differs") and seen.get("taken", 0) * 20 > args.count
    return 0 if good and seen.get("refused") else 1


if __name__ == "__main__":
    sys.exit(main())
