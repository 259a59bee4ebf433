"""Safetensors files and sets, from the public description of the format.

A tensor is (name, dtype, shape, bytes); dtype is the format's own spelling.
"""
import json
import os
import struct

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32,
    "U64": 64, "I64": 64, "F16": 16, "BF16": 16, "F32": 32, "F64": 64,
    "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}

# What user.tasd.dtype says for each.
TORCH = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16",
    "I16": "int16", "U32": "uint32", "I32": "int32", "U64": "uint64",
    "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32",
    "F64": "float64", "C64": "complex64", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu",
    "F4": "float4_e2m1fn", "F6_E2M3": "float6_e2m3fn",
    "F6_E3M2": "float6_e3m2fn",
}


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)


def u8(name, data):
    """A tensor of bytes: the least that has a name and content."""
    return (name, "U8", [len(data)], data)


def raw(header, payload=b"", length=None):
    """A file around a header that is already text, however wrong."""
    if length is None:
        length = len(header)
    return struct.pack("<Q", length) + header + payload


def build(tensors, metadata=None, pad=True):
    """The bytes of a good file."""
    header, offset, body = {}, 0, []
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        body.append(data)
    text = json.dumps(header, separators=(",", ":"),
                      ensure_ascii=False).encode("utf-8", "surrogatepass")
    if pad:
        text += b" " * (-len(text) % 8)
    return raw(text, b"".join(body))


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    return path


def write(path, tensors, metadata=None, pad=True):
    return put(path, build(tensors, metadata, pad))


def read(path):
    """{name: (dtype, shape, bytes)} and the metadata of a good file."""
    with open(path, "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        body = f.read()
    meta = header.pop("__metadata__", {})
    return {name: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])])
            for name, t in header.items()}, meta


def write_index(folder, weight_map, metadata=None, name=None):
    index = {"metadata": metadata or {}, "weight_map": weight_map}
    return put(os.path.join(folder, name or "model.safetensors.index.json"),
               json.dumps(index).encode())


def write_sharded(folder, shards, metadata=None):
    """shards: a list of lists of tensors.  Returns the shards' file names."""
    files, weight_map = [], {}
    for i, tensors in enumerate(shards, 1):
        file = f"model-{i:05}-of-{len(shards):05}.safetensors"
        write(os.path.join(folder, file), tensors, {"format": "pt"})
        files.append(file)
        weight_map.update((t[0], file) for t in tensors)
    write_index(folder, weight_map, metadata)
    return files


def write_many(path, count, name):
    """count one-byte tensors; name(i) gives their keys."""
    entries = ",".join(
        f'{json.dumps(name(i))}:{{"dtype":"U8","shape":[1],'
        f'"data_offsets":[{i},{i + 1}]}}' for i in range(count))
    return put(path, raw(b"{" + entries.encode() + b"}",
                         bytes(i & 255 for i in range(count))))


def pattern(size, seed=1):
    """size bytes that differ at every distance a window may be shifted by."""
    out, word = bytearray(), (seed * 0x9E3779B97F4A7C15) & (2**64 - 1)
    block = bytearray()
    for _ in range(8192):
        word = (word * 6364136223846793005 + 1442695040888963407) % 2**64
        block += struct.pack("<Q", word)
    while len(out) < size:
        out += struct.pack("<Q", len(out) ^ seed) + block
    return bytes(out[:size])
