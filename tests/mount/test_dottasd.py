"""`.tasd/` at the root of a state dict: section 2.4 of the design."""
import ast
import errno
import json
import os
import struct

from support import names, st, widen
from support.harness import (MODES, fails, leaves, read, test, walk, xattr,
                             xattrs)

NUMPY = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2",
    "U32": "<u4", "I32": "<i4", "U64": "<u8", "I64": "<i8", "F16": "<f2",
    "BF16": "<V2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
    "F8_E4M3": "|V1", "F8_E5M2": "|V1", "F8_E4M3FNUZ": "|V1",
    "F8_E5M2FNUZ": "|V1", "F8_E8M0": "|V1",
}


def every_dtype():
    """A tensor of each element type; the small ones hold every code."""
    tensors = []
    for i, (dtype, bits) in enumerate(st.BITS.items()):
        if bits < 8 or (bits == 8 and dtype not in ("BOOL", "U8", "I8")):
            data = bytes(range(256)) * (3 if bits == 6 else 1)
        elif dtype in ("F16", "BF16"):
            data = b"".join(struct.pack("<H", c) for c in range(65536))
        else:
            data = st.pattern(bits * 30 // 8, seed=i)
        count = len(data) * 8 // bits
        tensors.append((f"block.{i}.{dtype}", dtype, [2, count // 2], data))
    return tensors + [("scalar", "BF16", [], b"\x80\x3f"),
                      ("none", "F32", [0, 5], b"")]


def npy(data):
    """(descr, shape, data) of a .npy file, its rules checked."""
    assert data[:6] == b"\x93NUMPY", data[:6]
    major, minor = data[6:8]
    assert (major, minor) in ((1, 0), (2, 0))
    width = 2 if major == 1 else 4
    length = int.from_bytes(data[8:8 + width], "little")
    start = 8 + width + length
    assert start % 64 == 0, start
    text = data[8 + width:start]
    assert text.endswith(b"\n")
    header = ast.literal_eval(text.decode())
    assert set(header) == {"descr", "fortran_order", "shape"}
    assert header["fortran_order"] is False
    return header["descr"], header["shape"], data[start:]


@test()
def test_found_not_listed(t):
    source = st.write(t.path("s"), [st.u8("a.b", b"1"), st.u8(".tasd", b"2")])
    with t.mount(source) as m:
        assert set(os.listdir(m.path)) == {"a", "%2Etasd"}
        assert os.path.isdir(m / ".tasd")
        listed = set(os.listdir(m / ".tasd"))
        assert listed >= {"index.json", "index.msgpack", "tree", "npy", "f32",
                          "flat", "meta", "stats"}, listed
        # Only there: not below, and not in itself.
        for path in ("a/.tasd", ".tasd/.tasd", ".tasd/npy/.tasd",
                     ".tasd/flat/.tasd"):
            with fails(errno.ENOENT):
                os.stat(m / path)
        # All of it can be walked to its end.
        for name, entry in walk(m / ".tasd"):
            assert entry.is_dir() or entry.is_file(), name
            if entry.is_file() and not name.startswith(b"stats"):
                assert len(read(entry.path)) == entry.stat().st_size, name


@test()
def test_index_json(t):
    """index.json agrees with every attribute of every node."""
    meta = {"format": "pt", "long": "x" * 9000, "uni": "ü✓\0"}
    source = st.write(t.path("s"), every_dtype() + [
        st.u8(k, b"n") for k in ("..", "a/b", "a\nb", "x" * 300, 'q"\\q')],
        meta)
    with t.mount(source) as m:
        index = json.loads(read(m / ".tasd/index.json"))
        assert index["tasdfs_index"] == 1
        assert index["format"] == xattr(m.path, "format")
        assert str(index["tensors"]) == xattr(m.path, "tensors")
        assert str(index["bytes"]) == xattr(m.path, "bytes")
        assert index["meta"] == meta
        assert "problems" not in index
        nodes = {n["path"]: n for n in index["nodes"]}
        assert len(nodes) == len(index["nodes"])
        there = {os.fsdecode(name): entry for name, entry in walk(m.path)}
        assert list(nodes) == list(there), "the same nodes in the same order"
        for path, entry in there.items():
            node, attrs = nodes[path], xattrs(entry.path)
            assert node["key"] == json.loads(attrs["key"]), path
            assert node["kind"] == attrs["kind"], path
            if entry.is_dir():
                continue
            assert node["dtype"] == attrs["dtype"]
            assert node["shape"] == json.loads(attrs["shape"])
            assert str(node["nbytes"]) == attrs["nbytes"]
            assert str(node["order"]) == attrs["order"]
            assert node["source"] == json.loads(attrs["source"])


@test()
def test_tree(t):
    """The table has a line for each tensor, with what it is."""
    source = st.write(t.path("s"), every_dtype())
    with t.mount(source) as m:
        text = read(m / ".tasd/tree").decode()
        lines = [line.split() for line in text.splitlines()]
        for key, dtype, shape, _ in every_dtype():
            path = key.replace(".", "/")
            found = [w for w in lines if w[:1] == [path]]
            assert len(found) == 1, key
            assert st.TORCH[dtype] in found[0], found
            assert str(list(shape)) in " ".join(found[0]), found


@test(modes=MODES)
def test_flat(t):
    keys = ["a.b.c", "w", "w.x", "a/b.c", "..", "x" * 400, ".tasd", ""]
    tensors = [st.u8(k, k.encode()) for k in keys]
    source = st.write(t.path("s"), tensors)
    with t.mount(source) as m:
        listed = os.listdir(os.fsencode(m / ".tasd/flat"))
        assert len(listed) == len(keys)
        for key in keys:
            want = names.escape(key.encode())
            if want is None:
                continue
            path = os.path.join(os.fsencode(m / ".tasd/flat"), want)
            assert want in listed, want
            assert read(path) == key.encode()
            assert json.loads(xattr(path, "key")) == [key]
            assert xattr(path, "dtype") == "uint8"


@test(modes=MODES)
def test_npy(t):
    """A .npy file for each type numpy can name, at the tree's path."""
    tensors = every_dtype()
    source = st.write(t.path("s"), tensors)
    with t.mount(source) as m:
        for key, dtype, shape, data in tensors:
            path = m / f".tasd/npy/{key.replace('.', '/')}.npy"
            if dtype not in NUMPY:
                with fails(errno.ENOENT):
                    os.stat(path)
                continue
            whole = read(path)
            assert len(whole) == os.stat(path).st_size
            descr, got, body = npy(whole)
            assert descr == NUMPY[dtype], (dtype, descr)
            assert got == tuple(shape) and body == data, key
        # A window across the header's end, and one past the end.
        fd = os.open(path := m / ".tasd/npy/block/0/BOOL.npy", os.O_RDONLY)
        size = os.stat(path).st_size
        whole = read(path)
        for offset, length in ((0, 10), (60, 20), (127, 2), (100, size),
                               (size - 1, 10), (size, 10), (size + 9, 1)):
            got = os.pread(fd, length, offset)
            assert got == whole[offset:offset + length], (offset, length)
        os.close(fd)


@test(modes=MODES, timeout=120)
def test_f32(t):
    """Exact: every code of every small type, bit for bit."""
    tensors = every_dtype()
    source = st.write(t.path("s"), tensors)
    with t.mount(source) as m:
        seen = 0
        for key, dtype, shape, data in tensors:
            path = m / f".tasd/f32/{key.replace('.', '/')}.npy"
            small = dtype in widen.SMALL or dtype == "F8_E8M0"
            if not os.path.exists(path):
                assert not small, f"{dtype} is not in f32/"
                continue
            descr, got, body = npy(read(path))
            assert descr == "<f4" and got == tuple(shape), (key, descr, got)
            if small:
                trouble = widen.same(dtype, data, body)
                assert trouble is None, f"{dtype}: {trouble}"
                seen += 1
            elif dtype == "F32":
                assert body == data
        assert seen == len(widen.SMALL) + 2, seen


@test(modes=MODES)
def test_f32_pieces(t):
    """Reads that begin and end inside an element and inside a group."""
    data = st.pattern(3 * 4096 * 5, seed=3)
    source = st.write(t.path("s"), [
        ("b", "BF16", [len(data) // 2], data),
        ("q", "F4", [len(data) * 2], data),
        ("s", "F6_E3M2", [len(data) // 3 * 4], data)])
    with t.mount(source) as m:
        for name in "bqs":
            path = m / f".tasd/f32/{name}.npy"
            whole = read(path)
            fd = os.open(path, os.O_RDONLY)
            for offset in (0, 1, 63, 127, 128, 129, 131, 4095, 4097, 50001,
                           len(whole) - 3, len(whole)):
                for length in (1, 3, 5, 4096, 70000):
                    got = os.pread(fd, length, offset)
                    assert got == whole[offset:offset + length], \
                        (name, offset, length, len(got))
            os.close(fd)


@test()
def test_long_names_everywhere(t):
    """Cut names in npy/ and f32/ stay within 255 bytes with their suffix."""
    keys = ["x" * n for n in (250, 251, 252, 255, 256, 300)]
    source = st.write(t.path("s"), [(k, "BF16", [1], b"\0\1") for k in keys])
    with t.mount(source) as m:
        for view in ("npy", "f32"):
            listed = os.listdir(os.fsencode(m / f".tasd/{view}"))
            assert len(listed) == len(set(listed)) == len(keys)
            for name in listed:
                assert len(name) <= 255 and name.endswith(b".npy"), name
                read(os.path.join(os.fsencode(m / f".tasd/{view}"), name))


@test()
def test_files_of_a_folder(t):
    """.tasd/files is a container folder as it is."""
    folder = os.path.join(t.data, "hf_llama_tiny")
    with t.mount(folder) as m:
        assert "config.json" not in os.listdir(m.path)
        files = m / ".tasd/files"
        assert set(os.listdir(files)) == set(os.listdir(folder))
        for name in os.listdir(folder):
            assert read(os.path.join(files, name)) == read(
                os.path.join(folder, name)), name


@test()
def test_stats(t):
    """stats says how bytes are served, and counts."""
    source = st.write(t.path("s"), [st.u8("w", b"x" * 100000)])
    with t.mount(source) as m:
        before = read(m / ".tasd/stats").decode()
        read(m / "w")
        after = read(m / ".tasd/stats").decode()
        assert before.strip() and "passthrough" in before, before
        assert before != after, "nothing was counted"


@test()
def test_views_share_attributes(t):
    """A view is a file of its own; the tree's files keep their numbers."""
    source = st.write(t.path("s"), [("a.w", "BF16", [2], b"\0\1\2\3")])
    with t.mount(source) as m:
        views = [m / p for p in ("a/w", ".tasd/flat/a.w", ".tasd/npy/a/w.npy",
                                 ".tasd/f32/a/w.npy")]
        assert len({os.stat(v).st_ino for v in views}) == 4
        assert [len(read(v)) for v in views] == [os.stat(v).st_size
                                                 for v in views]
        assert list(leaves(m.path)) == ["a.w"]
