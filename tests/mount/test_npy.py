"""numpy's files: what numpy wrote, and what others or nobody would."""
import concurrent.futures
import errno
import json
import mmap
import os
import random
import struct
import subprocess
import sys
import zipfile

from support import npy, st
from support.harness import MODES, fails, key_of, read, test, xattr

USERS = ("root", "nobody")
FORMS = (".npy", ".npz")


def check(t, top, expected):
    checker = os.path.join(os.path.dirname(t.binary), "check_mount.py")
    done = t.run(sys.executable, checker, top, expected, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def refused(t, source, *words):
    status, said = t.mount(source, expect_fail=True)
    assert status == 1, (source, status)
    assert said.count("\n") == 1, said
    for word in words:
        assert word in said, (source, said)


def cases(t):
    folder = os.path.join(t.data, "npy")
    for name in sorted(os.listdir(folder)):
        if name.endswith(FORMS):
            with open(os.path.join(folder, name + ".expected.json")) as f:
                yield os.path.join(folder, name), json.load(f)


@test(modes=MODES, users=USERS, timeout=120)
def test_corpus(t):
    """What the real library wrote, against what it read."""
    count = 0
    for path, expected in cases(t):
        if expected.get("expect") == "reject":
            refused(t, path, "Python objects")
            continue
        with t.mount(path) as m:
            check(t, m.path, path + ".expected.json")
            count += 1
    assert count >= 16, count


@test()
def test_in_a_library(t):
    """The same, found by their faces in one folder."""
    with t.mount(os.path.join(t.data, "npy")) as m:
        for path, expected in cases(t):
            face = m / os.path.basename(path) + ".tasd"
            if expected.get("expect") == "reject":
                with fails(errno.ENOENT, errno.EINVAL, errno.EIO):
                    os.listdir(face)
            else:
                check(t, face, path + ".expected.json")


@test()
def test_names(t):
    """A bare array has the key [], and the root has none."""
    source = st.put(t.path("a.npy"), npy.build(">i4", (3,), bytes(12)))
    with t.mount(source) as m:
        assert os.listdir(m.path) == ["array"]
        assert key_of(m / "array") == [] and key_of(m.path) is None
        assert xattr(m.path, "format") == "npy"
        assert xattr(m / "array", "kind") == "ndarray"
        assert xattr(m / "array", "dtype") == "int32"
        assert xattr(m / "array", "source") is None
        with open(m / ".tasd/index.json") as f:
            (node,) = json.load(f)["nodes"]
        assert node["key"] == [] and node["path"] == "array"
        assert os.listdir(m / ".tasd/flat") == ["array"]
    source = st.put(t.path("b.npy"), npy.build("<f4", (3,), st.f32(1, 2, 3)))
    with t.mount(source) as m:
        assert json.loads(xattr(m / "array", "source")) == {
            "file": "b.npy", "offset": 128, "length": 12}


BAD = {
    "cut": (npy.build("<f4", (100,), st.f32(1)), "396 more bytes"),
    "empty": (b"\x93NUMPY", ""),
    "length": (b"\x93NUMPY\1\0\xff\xff{'descr'", "more bytes"),
    "version": (b"\x93NUMPY\4\0\x02\0{}", "4.0"),
    "overflow": (npy.build("<f8", (2 ** 61, 8), bytes(8)), "63 bits"),
    "objects": (npy.build("|O", (1,), b"cos\ngetcwd\n(tR."), "pickled"),
    "eval": (npy.header("{'descr': __import__('os').getcwd(), "
                        "'fortran_order': False, 'shape': (1,), }")
             + bytes(8), "a type"),
    "deep": (npy.header("{'descr': " + "[('a', " * 5000, (2, 0)), "deep"),
    "missing": (npy.header("{'descr': '<f4', 'shape': (1,), }") + bytes(4),
                "not all"),
    "extra": (npy.header("{'descr': '<f4', 'fortran_order': False, "
                         "'shape': (1,), 'x': 1}") + bytes(4), "\"x\""),
    "negative": (npy.header("{'descr': '<f4', 'fortran_order': False, "
                            "'shape': (-1,)}") + bytes(4), "whole numbers"),
    "bomb": (npy.header("{'descr': [('a', [('x', '>i2'), ('y', '>i4')], "
                        "(300000000,))], 'fortran_order': False, "
                        "'shape': (1,)}"), "too many parts"),
}


@test(timeout=120)
def test_refused(t):
    for name, (data, word) in BAD.items():
        refused(t, st.put(t.path(name + ".npy"), data), word)
    folder = os.path.join(t.data, "hostile")
    count = 0
    for name in os.listdir(folder):
        if name.startswith("npy_") and name != "npy_trailing.npy":
            refused(t, os.path.join(folder, name))
            count += 1
    assert count == 7, count
    assert not os.path.exists("/tmp/tasdfs-payload-ran")


@test()
def test_trailing(t):
    """Bytes behind the data are let be, as numpy does."""
    path = os.path.join(t.data, "hostile", "npy_trailing.npy")
    with t.mount(path) as m:
        assert read(m / "array") == st.f32(0, 1, 2, 3)


@test()
def test_variants(t):
    """Versions, orders and long headers that others write."""
    six = st.f32(*range(6))
    long = npy.header("{'descr': '<f4', 'fortran_order': False, 'shape': "
                      "(1,), }" + " " * 60000) + st.f32(1)
    made = {
        "c": (npy.build("<f4", (2, 3), six), six),
        "fortran": (npy.build("<f4", (2, 3), st.f32(0, 3, 1, 4, 2, 5), True),
                    six),
        "big": (npy.build(">f4", (2,), struct.pack(">2f", 1, 2)),
                st.f32(1, 2)),
        "both": (npy.build(">f4", (2, 3), struct.pack(
            ">6f", 0, 3, 1, 4, 2, 5), True), six),
        "v2": (npy.build("<f4", (2,), six[:8], version=(2, 0)), six[:8]),
        "v3": (npy.build("[('\u03c0', '<f4')]", (1,), six[:4],
                         version=(3, 0)), six[:4]),
        "long": (long, st.f32(1)),
        "scalar": (npy.build("<f4", (), st.f32(7)), st.f32(7)),
        "none": (npy.build("<f4", (0, 3), b"", True), b""),
        "mixed": (npy.build("[('a', '>i2'), ('b', '|S1'), ('c', '>f8')]",
                            (2,), struct.pack(">hcdhcd", 1, b"x", 2.5, 3,
                                              b"y", 4.5)),
                  struct.pack("<hcdhcd", 1, b"x", 2.5, 3, b"y", 4.5)),
    }
    for name, (data, want) in made.items():
        with t.mount(st.put(t.path(name + ".npy"), data)) as m:
            assert os.stat(m / "array").st_size == len(want), name
            assert read(m / "array") == want, name
            again = read(m / ".tasd/npy/array.npy")
            assert again.endswith(want), name
            text = again[10 if again[6] == 1 else 12:]
            assert b"'fortran_order': False" in text, name
            assert b">" not in text[:text.index(b"\n")], name


def pieces(path, want, seed, count=200):
    """Reads of any size from any place."""
    order = random.Random(seed)
    with open(path, "rb", buffering=0) as f:
        for i in range(count):
            at = order.randrange(len(want))
            size = order.choice((1, 3, 100, 4096, 70000, 300000))
            data = os.pread(f.fileno(), size, at)
            assert data == want[at:at + size], (at, size)


def every_way(t, path, want):
    assert read(path) == want
    pieces(path, want, 1)
    # Several at a time, each from its own place forwards.
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        starts = [i * len(want) // 4 for i in range(4)]

        def part(start):
            with open(path, "rb", buffering=0) as f:
                f.seek(start)
                out = b""
                while len(out) < len(want) // 4:
                    out += f.read(50000)
                return start, out
        for start, data in pool.map(part, starts):
            assert data == want[start:start + len(data)], start
    with open(path, "rb") as f, mmap.mmap(
            f.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        for at in range(0, len(want), 1 << 18):
            assert mapped[at:at + 10] == want[at:at + 10], at
        assert mapped[:] == want


@test(modes=MODES, timeout=240)
def test_gathered(t):
    """A column-major matrix of megabytes, read in every way."""
    rows, cols = 3000, 700
    want = random.Random(7).randbytes(rows * cols * 8)
    source = st.put(t.path("f.npy"), npy.build(
        "<f8", (rows, cols), npy.columns(rows, cols, 8, want), True))
    with t.mount(source) as m:
        assert json.loads(xattr(m / "array", "stride")) == [1, rows]
        every_way(t, m / "array", want)
        assert read(m / ".tasd/npy/array.npy").endswith(want)


@test(modes=MODES, timeout=240)
def test_deflated(t):
    """Members that are inflated as they are read, in every order."""
    order = random.Random(8)
    want = b"".join(order.randbytes(3) + b"\0" for _ in range(3 << 20))
    matrix = order.randbytes(600 * 400 * 2)
    source = npy.archive(t.path("d.npz"), [
        ("w.npy", npy.build("<f4", (len(want) // 4,), want)),
        ("f.npy", npy.build("<f2", (600, 400),
                            npy.columns(600, 400, 2, matrix), True))],
        deflate=True)
    with t.mount(source) as m:
        assert os.listdir(m / ".tasd/files") == ["d.npz"]
        assert xattr(m / "w", "source") is None
        every_way(t, m / "w", want)
        every_way(t, m / "f", matrix)


@test()
def test_npz(t):
    """Keys as numpy has them; what is no array is bytes."""
    one = npy.build("<f4", (1,), st.f32(9))
    source = t.path("s.npz")
    with zipfile.ZipFile(source, "w") as z:
        with z.open("w.npy", "w", force_zip64=True) as f:
            f.write(npy.build("<f4", (2,), st.f32(1, 2)))
        z.writestr("a/b.npy", one)
        z.writestr("noext", b"x")
        z.writestr("plain", one)
        z.writestr("both", b"first")
        z.writestr("both.npy", one)
        z.writestr("large", bytes(range(256)) * 1000)
        z.writestr("gr\u00fc\u00dfe.npy", one)
        z.writestr("folder/", b"")
        z.writestr("empty", b"")
    with t.mount(source) as m:
        names = {key_of(m / n)[0]: m / n for n in os.listdir(m.path)
                 if key_of(m / n)}
        assert list(names) == ["w", "a/b", "noext", "plain", "both",
                               "both.npy", "large", "gr\u00fc\u00dfe",
                               "empty"], names
        assert read(m / "w") == st.f32(1, 2)
        assert read(m / "a%2Fb") == st.f32(9)
        assert xattr(m / "a%2Fb", "kind") == "ndarray"
        assert read(m / "noext") == b"x"
        assert xattr(m / "noext", "kind") == "bytes"
        assert read(m / "plain") == st.f32(9)
        assert read(m / "both") == b"first"
        assert read(m / "both.npy") == st.f32(9)
        assert read(m / "large") == bytes(range(256)) * 1000
        assert xattr(m / "large", "kind") == "bytes"
        assert read(m / "gr\u00fc\u00dfe") == st.f32(9)
        assert read(m / "empty") == b""
        assert "folder" not in os.listdir(m.path)
        assert xattr(m.path, "format") == "npz"
    source = npy.archive(t.path("none.npz"), [])
    with t.mount(source) as m:
        assert os.listdir(m.path) == []


def patched(path, name, field, value):
    """Change a 16-bit field of the directory's record of a member."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    at = data.rfind(b"PK\1\2", 0, data.rfind(name.encode()))
    data[at + field:at + field + 2] = struct.pack("<H", value)
    return bytes(data)


@test()
def test_broken_members(t):
    """One member that cannot be read is one broken array."""
    one = npy.build("<f4", (1,), st.f32(9))
    whole = npy.archive(t.path("w.npz"), [
        ("a.npy", one), ("b.npy", one), ("c.npy", npy.build("|O", (1,), b".")),
        ("d.npy", one[:-1]), ("e.npy", one)])
    source = st.put(t.path("s.npz"), patched(whole, "b.npy", 8, 1))
    with t.mount(source) as m:
        for name in "ae":
            assert read(m / name) == st.f32(9), name
        for name, word in (("b", "encrypted"), ("c", "pickled"),
                           ("d", "more bytes")):
            assert word in xattr(m / name, "error"), name
            with fails(errno.EIO):
                read(m / name)
        assert "pickled" in xattr(m.path, "error")
    # Bytes of one member under the name of another are shown as neither.
    data = bytearray(patched(whole, "b.npy", 42, 0))
    source = st.put(t.path("o.npz"), data)
    with t.mount(source) as m:
        for name in "ab":
            with fails(errno.EIO):
                read(m / name)
        assert read(m / "e") == st.f32(9)


@test()
def test_hostile_archives(t):
    folder = os.path.join(t.data, "hostile")
    with t.mount(os.path.join(folder, "npz_traversal.npz")) as m:
        assert os.listdir(m.path) == ["..%2F..%2Fevil", "ok"]
        assert key_of(m / "..%2F..%2Fevil") == ["../../evil"]
        assert read(m / "..%2F..%2Fevil") == read(m / "ok")
    with t.mount(os.path.join(folder, "npz_not_npy.npz")) as m:
        assert read(m / "readme/txt") == b"hi"
        assert xattr(m / "a", "kind") == "bytes"
        assert read(m / "a") == b"garbage"


@test()
def test_size_that_lies(t):
    """A member that inflates to less than it says: never made-up bytes."""
    want = random.Random(3).randbytes(1 << 20)
    data = npy.build("<f4", (1 << 18,), want)
    whole = npy.archive(t.path("w.npz"), [("a.npy", data[:1 << 19])],
                        deflate=True)
    with open(whole, "rb") as f:
        raw = bytearray(f.read())
    at = raw.rfind(b"PK\1\2")
    raw[at + 24:at + 28] = struct.pack("<I", len(data))
    with t.mount(st.put(t.path("s.npz"), raw)) as m:
        assert os.stat(m / "a").st_size == 1 << 20
        with open(m / "a", "rb", buffering=0) as f:
            assert os.pread(f.fileno(), 1000, 0) == want[:1000]
            with fails(errno.EIO):
                os.pread(f.fileno(), 1000, (1 << 20) - 1000)
        with fails(errno.EIO):
            read(m / "a")


@test(timeout=120)
def test_bomb(t):
    """A member of 1 GiB in a megabyte: listed at once, in little memory."""
    source = t.path("bomb.npz")
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as z:
        with z.open("a.npy", "w") as f:
            f.write(npy.build("|u1", (1 << 28,), b""))
            for _ in range(256):
                f.write(bytes(1 << 20))
    with t.mount(source) as m:
        assert os.stat(m / "a").st_size == 1 << 28
        with open(m / "a", "rb", buffering=0) as f:
            for at in (0, 1 << 27, 1 << 26, (1 << 28) - 4096):
                assert os.pread(f.fileno(), 4096, at) == bytes(4096)
        with open(f"/proc/{m.pid}/status") as f:
            peak = [int(line.split()[1]) for line in f
                    if line.startswith("VmHWM:")][0]
        assert t.sanitized or peak < 64 << 10, peak


@test()
def test_many_members(t):
    """Five thousand arrays."""
    for deflate in (False, True):
        source = npy.archive(t.path(f"m{deflate}.npz"), [
            (f"layer.{i}.w.npy", npy.build("<f4", (2,), st.f32(i, -i)))
            for i in range(5000)], deflate)
        with t.mount(source) as m:
            for i in range(0, 5000, 97):
                assert read(m / f"layer/{i}/w") == st.f32(i, -i)
            assert len(os.listdir(m / "layer")) == 5000


@test(modes=MODES)
def test_changed_below(t):
    """What was gathered ahead is not shown once the file has changed."""
    rows, cols = 2000, 500
    want = random.Random(9).randbytes(rows * cols * 4)
    data = npy.build("<f4", (rows, cols),
                     npy.columns(rows, cols, 4, want), True)
    source = st.put(t.path("f.npy"), data)
    with t.mount(source) as m:
        with open(m / "array", "rb", buffering=0) as f:
            assert os.pread(f.fileno(), 1 << 17, 0) == want[:1 << 17]
            assert os.pread(f.fileno(), 1 << 17, 1 << 17) == \
                want[1 << 17:1 << 18]
            with open(source, "r+b") as g:
                g.write(data[:-8] + b"changed!")
            with fails(errno.EIO):
                at = 3 << 20
                while at < len(want):
                    os.pread(f.fileno(), 4096, at)
                    at += 4096


@test()
def test_commands(t):
    """The commands that only read know the formats by their content."""
    source = st.put(t.path("any.bin"), npy.build(
        ">f4", (2, 2), struct.pack(">4f", 1, 3, 2, 4), True))
    done = subprocess.run([t.binary, "cat", source, "array"],
                          stdout=subprocess.PIPE, check=True)
    assert done.stdout == st.f32(1, 2, 3, 4)
    assert "npy" in t.tasdfs("info", source).stdout
    said = t.tasdfs("cat", "--values", source, "array").stdout
    assert said.split() == ["1.0", "2.0", "3.0", "4.0"], said
    assert "float32" in t.tasdfs("ls", "-l", source).stdout
    for what in ("info", "tree", "ls"):
        t.tasdfs(what, os.path.join(t.data, "npy", "structured.npy"))
        t.tasdfs(what, os.path.join(t.data, "npy", "compressed.npz"))
