"""Keys become names and attributes: sections 2.1 to 2.3 of the design."""
import errno
import json
import os
import random
import stat

from support import names, st
from support.harness import (fails, key_of, leaves, read, test, walk, xattr,
                             xattrs)

# Each row: the keys of one dict, and the path of each.
ROWS = [
    {"layers.0.weight": "layers/0/weight"},
    {"w": "w", "w.absmax": "w.absmax", "w.quant.x": "w.quant.x"},
    {"a.b": "a/b", "a.b.c.d": "a/b.c.d"},
    {".sharded": ".sharded", "end.": "end.", "a..b": "a..b",
     "x.a..b.c": "x/a..b/c"},
    {"..": "%2E%2E", ".": "%2E", "": "%", "a/b": "a%2Fb", "50%": "50%25"},
    {".tasd": "%2Etasd"},
    {"x..tasd": "x..tasd", "x.%": "x/%25", "%": "%25", "%2F": "%252F"},
    {"7": "7", "07": "07", "1.2.3": "1/2/3"},
    {"a\0b": "a%00b", "a\nb": "a%0Ab", "a\tb.c\x7f": "a%09b/c%7F"},
    {"é.é": "é/é", "e\u0301.é": "e\u0301/é", "\U0001f600": "\U0001f600"},
    {"W.x": "W/x", "w.X": "w/X", "w.x": "w/x"},
    {"a\\b": "a\\b", "-rf": "-rf", "*": "*", " ": " ", "a:b": "a:b"},
    {"model.safetensors.tasd": "model/safetensors/tasd", "x.tasd": "x/tasd"},
    {"a": "a", "a.b": "a.b", "a.c.d": "a.c.d", "b.a": "b/a"},
    {"x" * 255: "x" * 255, "y" * 254 + ".z": "y" * 254 + "/z"},
]


def tensors_for(keys):
    return [st.u8(k, b"%d" % i) for i, k in enumerate(keys)]


def check_keys(top, keys, paths):
    """Each key at its path with its bytes, and nothing else is there."""
    found = leaves(top)
    assert set(found) == set(keys), set(found) ^ set(keys)
    for i, key in enumerate(keys):
        got = os.path.relpath(found[key], os.fsencode(top))
        if paths[key] is not None:
            want = os.fsencode(paths[key])
            assert got == want, f"{key!r}: at {got!r}, want {want!r}"
        assert read(found[key]) == b"%d" % i, key


@test()
def test_table(t):
    """Every row of the design's table that this format can hold."""
    for i, row in enumerate(ROWS):
        for keys in (list(row), list(row)[::-1]):
            source = st.write(t.path(f"row{i}"), tensors_for(keys))
            with t.mount(source) as m:
                check_keys(m.path, keys, row)


@test()
def test_groups(t):
    source = st.write(t.path("g"), tensors_for(
        ["model.layers.0.w", "model.layers.1.w", "x.a..b.c", "top"]))
    with t.mount(source) as m:
        for path, key in {"model": ["model"], "model/layers": ["model.layers"],
                          "model/layers/1": ["model.layers.1"], "x": ["x"],
                          "x/a..b": ["x.a..b"]}.items():
            assert xattr(m / path, "kind") == "group", path
            assert key_of(m / path) == key, path
        assert xattr(m.path, "kind") == "dict"
        # An empty key path: the root is not inside anything.
        assert key_of(m.path) in (None, []), key_of(m.path)


@test()
def test_order(t):
    """readdir and user.tasd.order keep the order of the file."""
    keys = ["z.b", "a.y", "z.a", "m", "a.x", "z.c.d", "0"]
    source = st.write(t.path("o"), tensors_for(keys))
    with t.mount(source) as m:
        assert os.listdir(m.path) == ["z", "a", "m", "0"]
        assert os.listdir(m / "z") == ["b", "a", "c"]
        assert os.listdir(m / "a") == ["y", "x"]
        for i, key in enumerate(keys):
            path = m / key.replace(".", "/")
            assert xattr(path, "order") == str(i), (key, xattr(path, "order"))


@test(timeout=120)
def test_random_keys(t):
    """Trees of awkward keys against a second statement of the rules."""
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    rng = random.Random(seed)
    atoms = ["a", "b", "ab", ".", ".", "..", "/", "%", "é", "\0", "\n", "0",
             ".tasd", "%2E", "x" * 120, "~"]
    for round_ in range(12):
        keys = list({"".join(rng.choice(atoms)
                             for _ in range(rng.randrange(0, 9)))
                     for _ in range(rng.choice([5, 60, 400]))})
        rng.shuffle(keys)
        source = st.write(t.path(f"r{round_}"), tensors_for(keys))
        with t.mount(source) as m:
            check_keys(m.path, keys, {
                k: None if p is None else p.decode()
                for k, p in names.paths(keys).items()})


@test()
def test_long_names(t):
    """A component over 255 bytes is cut, keeps its key, and stays itself."""
    keys = ["x" * 256, "x" * 257, "y" * 5000, "a." + "z" * 300 + ".b",
            "a." + "z" * 301 + ".b", "é" * 200, "%" * 100, "l." * 2000 + "end",
            "." * 300, "a." * 127 + "b", "a." * 128 + "b"]
    source = st.write(t.path("long"), tensors_for(keys))
    with t.mount(source) as m:
        check_keys(m.path, keys, names.paths(keys) | {
            k: None for k in keys})
        for name, entry in walk(m.path):
            last = name.rsplit(b"/", 1)[-1]
            assert len(last) <= 255, len(last)
            assert b"%~" not in last or len(last.split(b"%~")[1]) == 32, last
            last.decode()  # cut at a character
        first = sorted(leaves(m.path).values())
    with t.mount(source) as again:
        second = sorted(leaves(again.path).values())
        strip = len(os.fsencode(m.path))
        assert [p[strip:] for p in first] == [
            p[len(os.fsencode(again.path)):] for p in second], "not stable"


@test()
def test_nosplit(t):
    keys = ["a.b.c", "w", "w.x", "a/b.c", "..", "t." * 200]
    source = st.write(t.path("n"), tensors_for(keys))
    with t.mount(source, "nosplit") as m:
        check_keys(m.path, keys, {
            "a.b.c": "a.b.c", "w": "w", "w.x": "w.x", "a/b.c": "a%2Fb.c",
            "..": "%2E%2E", "t." * 200: None})
        assert all(not e.is_dir() for _, e in walk(m.path))


@test()
def test_tensor_attributes(t):
    """Every dtype: kind, key, dtype, shape, nbytes, source; a listed set."""
    tensors = [(f"t.{d}", d, [2, 8], st.pattern(2 * bits, seed=i))
               for i, (d, bits) in enumerate(st.BITS.items())]
    tensors += [("scalar", "F32", [], st.f32(0.5)),
                ("empty", "F16", [3, 0], b"")]
    source = st.write(t.path("d.safetensors"), tensors)
    start = len(st.build(tensors)) - sum(len(x[3]) for x in tensors)
    with t.mount(source) as m:
        for order, (key, dtype, shape, data) in enumerate(tensors):
            path = m / key.replace(".", "/")
            got = xattrs(path)
            assert got["kind"] == "tensor"
            assert json.loads(got["key"]) == [key]
            assert got["order"] == str(order)
            assert got["dtype"] == st.TORCH[dtype], (dtype, got["dtype"])
            assert got["shape"] == json.dumps(shape), got["shape"]
            assert got["nbytes"] == str(len(data))
            assert "error" not in got
            where = json.loads(got["source"])
            assert where == {"file": "d.safetensors", "offset": start,
                             "length": len(data)}, where
            with open(source, "rb") as f:
                f.seek(where["offset"])
                assert f.read(where["length"]) == data == read(path)
            start += len(data)
            # Each listed name can be asked for by itself, and has no twin.
            listed = os.listxattr(path)
            assert len(listed) == len(set(listed))
        assert json.dumps([2, 8]) == "[2, 8]" == xattr(m / "t/F32", "shape")


@test()
def test_root_attributes(t):
    meta = {"format": "pt", "step": "12", "empty": "", "naïve": "✓",
            "a/b": "slash", "k" * 300: "long name", "big": "x" * 70000,
            "medium": "y" * 4097, "fits": "z" * 4096, "nul": "a\0b"}
    source = st.write(t.path("m.safetensors"),
                      [st.u8("a.b", b"12345"), st.u8("c", b"")], meta)
    with t.mount(source) as m:
        got = xattrs(m.path)
        assert got["format"] == "safetensors", got["format"]
        assert got["is_hollow"] == "true" and got["inserted"] == "0", got
        assert got["tensors"] == "2" and got["bytes"] == "5", got
        for name in ("format", "step", "empty", "naïve", "fits", "nul"):
            assert got["meta." + name] == meta[name], name
        # The C string of an attribute is not the end of a value.
        assert os.getxattr(m.path, "user.tasd.meta.nul") == b"a\0b"
        omitted = [n for n in ("big", "medium") if "meta." + n in got]
        assert not omitted, omitted
        assert int(got["meta_omitted"]) >= 2, got["meta_omitted"]
        folder = m / ".tasd/meta"
        for name in ("format", "step", "empty", "naïve", "big", "medium",
                     "fits", "nul"):
            got = read(os.path.join(folder, name))
            assert got == meta[name].encode(), name
        assert read(os.path.join(folder, "a%2Fb")) == b"slash"
        assert len(os.listdir(folder)) == len(meta)
        assert all(len(os.fsencode(n)) <= 255 for n in os.listdir(folder))


@test()
def test_many_metadata(t):
    """The list stays under 48 KiB; what is left out is counted."""
    meta = {f"name_{i:05}_{'n' * 40}": str(i) for i in range(3000)}
    source = st.write(t.path("mm"), [st.u8("w", b"1")], meta)
    with t.mount(source) as m:
        listed = os.listxattr(m.path)
        assert sum(len(n) + 1 for n in listed) <= 48 << 10
        shown = [n for n in listed if n.startswith("user.tasd.meta.")]
        assert shown
        assert int(xattr(m.path, "meta_omitted")) == 3000 - len(shown)
        for name in shown:
            key = name[len("user.tasd.meta."):]
            assert os.getxattr(m.path, name) == meta[key].encode()
        files = os.listdir(m / ".tasd/meta")
        assert len(files) == 3000
        assert read(m / f".tasd/meta/{files[-1]}") == b"2999"


@test()
def test_metadata_kinds(t):
    """No metadata, empty metadata, null, and a tensor so called by a dict."""
    tensor = b'"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    for name, text in {"none": b"{%s}", "empty": b'{"__metadata__":{},%s}',
                       "null": b'{"__metadata__":null,%s}'}.items():
        source = st.put(t.path(name), st.raw(text % tensor, st.f32(5)))
        with t.mount(source) as m:
            assert os.listdir(m.path) == ["w"], name
            assert read(m / "w") == st.f32(5)
            assert not any(n.startswith("meta.") for n in xattrs(m.path))
            assert os.listdir(m / ".tasd/meta") == []


@test(modes=("auto", "cached", "direct"), users=("root", "nobody"))
def test_stat(t):
    """Sizes before the first read; mode, owner and times of the container."""
    source = st.write(t.path("s"), [st.u8("a.b", b"x" * 12345),
                                    ("e", "F32", [0], b"")])
    os.chmod(source, 0o640)
    os.utime(source, ns=(10**18, 10**18 + 123456789))
    want = os.stat(source)
    with t.mount(source) as m:
        got = os.stat(m / "a/b")
        assert stat.S_ISREG(got.st_mode) and got.st_size == 12345
        assert stat.S_IMODE(got.st_mode) == 0o440, oct(got.st_mode)
        assert (got.st_uid, got.st_gid) == (want.st_uid, want.st_gid)
        assert got.st_mtime_ns == want.st_mtime_ns, got.st_mtime_ns
        assert got.st_nlink == 1
        assert got.st_blocks * 512 >= got.st_size
        assert os.stat(m / "e").st_size == 0
        folder = os.stat(m / "a")
        assert stat.S_ISDIR(folder.st_mode) and folder.st_nlink >= 1
        assert not folder.st_mode & 0o222, oct(folder.st_mode)
        assert folder.st_mode & 0o500 == 0o500, oct(folder.st_mode)
        inodes = {n: os.lstat(e.path).st_ino for n, e in walk(m.path)}
        assert len(set(inodes.values())) == len(inodes)
    with t.mount(source) as again:
        assert inodes == {n: os.lstat(e.path).st_ino
                          for n, e in walk(again.path)}, "st_ino changed"


@test()
def test_other_attributes(t):
    """Unknown names, other namespaces, and sizes that are too small."""
    source = st.write(t.path("x"), [st.u8("w", b"1")])
    with t.mount(source) as m:
        for name in ("user.tasd.nothing", "user.other", "user.tasd.",
                     "user.tasd.meta.x", "user.tasd.keyx", "user.tasd"):
            with fails(errno.ENODATA):
                os.getxattr(m / "w", name)
        for name in ("security.selinux", "system.posix_acl_access",
                     "security.capability", "trusted.x"):
            with fails(errno.ENODATA, errno.EOPNOTSUPP, errno.EPERM):
                os.getxattr(m / "w", name)
        with fails(errno.ERANGE, errno.ENODATA):
            os.getxattr(m / "w", "user." + "n" * 4000)
        with fails(errno.EROFS, errno.EPERM, errno.EACCES):
            os.setxattr(m / "w", "user.tasd.dtype", b"int8")
        with fails(errno.EROFS, errno.EPERM, errno.EACCES):
            os.removexattr(m / "w", "user.tasd.dtype")


@test(needs=("getfattr",))
def test_getfattr(t):
    source = st.write(t.path("f"), [("a.w", "BF16", [2, 2], b"12345678")])
    with t.mount(source) as m:
        out = t.run("getfattr", "-d", "--absolute-names", m / "a/w").stdout
        assert 'user.tasd.dtype="bfloat16"' in out, out
        assert 'user.tasd.shape="[2, 2]"' in out, out


@test()
def test_empty(t):
    """No tensors at all is a state dict, and an empty folder."""
    for name, meta in (("none", None), ("meta", {"key": "value"})):
        source = st.write(t.path(name), [], meta)
        with t.mount(source) as m:
            assert os.listdir(m.path) == []
            assert xattr(m.path, "tensors") == "0"
            assert xattr(m.path, "meta.key") == (meta or {}).get("key")
