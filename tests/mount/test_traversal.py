"""Nothing outside the source is ever opened, whatever names and links say."""
import errno
import json
import os
import re

from support import st
from support.harness import fails, leaves, read, test, walk, xattr

# What a process that runs opens anyway.
SYSTEM = ("/proc/", "/sys/", "/dev/", "/lib", "/usr/", "/etc/ld.so",
          "/etc/fuse.conf", "/etc/nsswitch.conf", "/etc/passwd", "/etc/mtab",
          "/run/")
SECRET = b"secret bytes of another place"


def trace(t, source, visit):
    """Mount under strace, visit, and give every path the server opened."""
    log = t.path("trace")
    m = t.mount(source, leaks=False, wrap=(
        "strace", "-f", "-y", "-qq", "-o", log,
        "-e", "trace=open,openat,openat2,creat,execve"))
    try:
        visit(m)
    finally:
        m.umount()
    with open(log, errors="replace") as f:
        text = f.read()
    opened = re.findall(r"= \d+<([^>]*)>", text)
    assert any(os.path.realpath(t.tmp) in p for p in opened), \
        "the trace does not see the server's files"
    return opened, text


def look_at_all(m):
    """Open, read and list what there is; errors are fine, secrets are not.

    A symbolic link that is shown as one is the caller's to follow, by the
    kernel and with the caller's rights: not looked through here.
    """
    for _, entry in walk(m.path):
        try:
            if entry.is_file(follow_symlinks=False):
                assert SECRET not in read(entry.path), entry.path
        except OSError:
            continue
    for name in os.listdir(m.path):
        try:
            found = leaves(m / name + ".tasd")
        except OSError:
            continue
        for path in found.values():
            assert SECRET not in read(path), path


def inside(t, opened, roots):
    roots = tuple(os.path.realpath(r) for r in roots)
    own = (os.path.dirname(t.binary), t.tmp + "/mnt", t.tmp + "/server")
    for path in opened:
        path = path.removesuffix(" (deleted)")
        if path in ("/", t.tmp) or path.startswith(SYSTEM + own):
            continue
        assert any(path == r or path.startswith(r + "/") or
                   r.startswith(path + "/") for r in roots), \
            f"opened {path}, outside {roots}"


@test(needs=("strace",))
def test_indexes(t):
    """Shard names and links that leave the folder."""
    st.put(t.path("outside/plain"), SECRET)
    st.write(t.path("outside/o.safetensors"),
             [("secret", "U8", [len(SECRET)], SECRET)])
    outside = t.path("outside/o.safetensors")
    rows = {"dotdot": "../outside/o.safetensors", "absolute": outside,
            "inner": "sub/../../outside/o.safetensors",
            "link": "l.safetensors", "linkdir": "d/o.safetensors",
            "absolute link": "m.safetensors", "dev": "/dev/zero",
            "proc": "/proc/self/mem", "nul": "a\0b.safetensors",
            "empty": "", "dot": ".", "parent": "..", "slash": "/",
            "long": "x/" * 3000, "trailing": "sub/",
            "proc link": "p/o.safetensors",
            "self": "model.safetensors.index.json"}
    for i, (what, name) in enumerate(rows.items()):
        folder = t.mkdir(f"set{i}")
        os.mkdir(os.path.join(folder, "sub"))
        os.symlink("../outside/o.safetensors",
                   os.path.join(folder, "l.safetensors"))
        os.symlink(outside, os.path.join(folder, "m.safetensors"))
        os.symlink("../outside", os.path.join(folder, "d"))
        os.symlink("/proc/self/cwd/../outside", os.path.join(folder, "p"))
        st.write_index(folder, {"secret": name})

        def visit(m):
            path, = leaves(m.path).values()
            with fails(errno.EIO):
                read(path)
            assert xattr(path, "error"), what
            assert SECRET not in read(m / ".tasd/index.json")
            for name, entry in walk(m / ".tasd/files"):
                if entry.is_file(follow_symlinks=False):
                    assert SECRET not in read(entry.path), (what, name)

        print(what)
        opened, _ = trace(t, folder, visit)
        inside(t, opened, [folder])


@test(needs=("strace",))
def test_library_links(t):
    """Links out of a library dangle visibly and are never followed."""
    library = t.mkdir("library")
    st.put(t.path("outside/plain"), SECRET)
    st.write(t.path("outside/o.safetensors"),
             [("secret", "U8", [len(SECRET)], SECRET)])
    st.write(os.path.join(library, "good.safetensors"), [st.u8("w", b"1")])
    st.put(os.path.join(library, "sub/file"), b"2")
    links = {"rel": "../outside/plain", "abs": t.path("outside/plain"),
             "dir": "../outside", "etc": "/etc/passwd",
             "model": "../outside/o.safetensors", "up": "..", "self": ".",
             "loop": "loop", "proc": "/proc/self/root/etc/passwd",
             "in": "sub/file", "indir": "sub", "inmodel": "good.safetensors"}
    for name, target in links.items():
        os.symlink(target, os.path.join(library, name))

    def visit(m):
        assert set(links) <= set(os.listdir(m.path))
        for name in ("rel", "abs", "dir", "etc", "model", "proc", "loop"):
            os.lstat(m / name)  # it is there to be seen
            with fails(errno.ENOENT, errno.ELOOP, errno.EPERM, errno.EACCES,
                       errno.ENOTDIR, errno.EINVAL):
                os.close(os.open(m / name + ".tasd/secret", os.O_RDONLY))
        assert read(m / "in") == b"2"
        assert read(m / "indir/file") == b"2"
        assert read(m / "inmodel") == read(m / "good.safetensors")
        assert read(m / "inmodel.tasd/w") == b"1"
        look_at_all(m)

    opened, _ = trace(t, library, visit)
    inside(t, opened, [library])
    assert not any("outside" in p for p in opened)


@test(needs=("strace",))
def test_keys_are_not_paths(t):
    """Tensor names that look like paths lead nowhere."""
    st.put(t.path("secret"), SECRET)
    keys = ["../secret", "/etc/passwd", "a/../../secret", "..", "../..",
            "x.../secret", "....//secret", "\\..\\secret"]
    source = st.write(t.path("set/keys"), [st.u8(k, b"own") for k in keys])

    def visit(m):
        found = leaves(m.path)
        assert set(found) == set(keys)
        assert all(read(p) == b"own" for p in found.values())

    opened, _ = trace(t, source, visit)
    inside(t, opened, [t.path("set")])


@test()
def test_replaced_by_links(t):
    """A file or folder of the source that becomes a link out.

    The links lead there from the source and nowhere from the mount, so what
    is read came through the server.
    """
    folder = t.mkdir("deep/er/set")
    files = st.write_sharded(folder, [[st.u8("a", b"good a")],
                                      [st.u8("b", b"good b")]])
    st.write(t.path("deep/er/outside/o"), [st.u8("b", SECRET)])
    st.put(t.path("deep/er/outside/file"), SECRET)
    library = t.mkdir("deep/er/library")
    st.put(os.path.join(library, "sub/file"), b"fine")
    with t.mount(folder) as m, t.mount(library) as lib:
        assert read(m / "b") == b"good b" and read(lib / "sub/file") == b"fine"
        os.unlink(os.path.join(folder, files[1]))
        os.symlink("../outside/o", os.path.join(folder, files[1]))
        os.rename(os.path.join(library, "sub"), t.path("moved"))
        os.symlink("../outside", os.path.join(library, "sub"))
        for path in (m / "b", lib / "sub/file"):
            try:
                assert SECRET not in read(path), path
            except OSError:
                continue
        index = json.loads(read(m / ".tasd/index.json"))
        assert SECRET.decode() not in json.dumps(index)
