"""The source changes under the mount: errors, never stale or mixed bytes.

Every change is tried on five files that are found and served differently.
What is promised is close-to-open: an open made before the change gives the
old bytes or an error; one made after it shows what the source holds now.
"""
import contextlib
import errno
import functools
import json
import mmap
import os
import signal
import time

from support import st
from support.harness import (MODES, fails, in_child, read, test, until, xattr)

GONE = (errno.EIO, errno.ESTALE, errno.ENOENT, errno.ENODATA, errno.EINVAL)
SIZE = 2_500_003


@functools.lru_cache
def tensors(version):
    """Two versions of one checkpoint: a key that stays, one that does not."""
    fill = bytes([version]) * 8
    body = st.pattern(SIZE - 8 * version, seed=version)
    return [("keep.w", "U8", [len(body) + 8], fill + body),
            st.u8("only.in" + str(version), b"v%d" % version)]


class Place:
    """One way to look at the checkpoint, and the file that is changed."""

    def __init__(self, t, kind):
        self.kind = kind
        self.folder = t.mkdir("source")
        self.file = os.path.join(self.folder, "m.safetensors")
        self.put(self.file, 1)
        if kind == "set":
            st.write(os.path.join(self.folder, "other.safetensors"),
                     [st.u8("other", b"other")])
            st.write_index(self.folder, {
                "keep.w": "m.safetensors", "only.in1": "m.safetensors",
                "other": "other.safetensors"})
        single = kind in ("single", "view")
        self.mount = m = t.mount(self.file if single else self.folder)
        self.path = m / {"single": "keep/w", "view": ".tasd/npy/keep/w.npy",
                         "face": "m.safetensors.tasd/keep/w",
                         "whole": "m.safetensors", "set": "keep/w"}[kind]
        self.top = m.path if single or kind == "set" else \
            m / "m.safetensors.tasd"

    def put(self, path, version):
        st.write(path, tensors(version))

    def want(self, version):
        """What the path must read as while the source is that version."""
        if self.kind == "whole":
            return st.build(tensors(version))
        return tensors(version)[0][3]

    def same(self, got, version):
        want = self.want(version)
        return got[128:] == want if self.kind == "view" else got == want

    # The changes.

    def truncate(self):
        os.truncate(self.file, 1_000_000)

    def rewrite(self):
        with open(self.file, "r+b") as f:
            f.write(st.build(tensors(2)))
            f.truncate()

    def replace(self):
        self.put(self.file + ".new", 2)
        os.rename(self.file + ".new", self.file)

    def delete(self):
        os.unlink(self.file)


KINDS = ("single", "view", "face", "whole", "set")


def settle():
    """Past the clock's tick: a change within one cannot be told by times."""
    time.sleep(0.02)


def read_rest(fd, at):
    """From at to the end of an open file; OSError's number when it fails."""
    pieces = []
    try:
        while piece := os.pread(fd, 1 << 20, at):
            pieces.append(piece)
            at += len(piece)
    except OSError as error:
        return b"".join(pieces), error.errno
    return b"".join(pieces), None


def check_old_open(place, fd, change, t):
    """What an open made before the change gives: old bytes or an error."""
    old = place.want(1)
    offset = 128 if place.kind == "view" else 0

    def attempt():
        got, number = read_rest(fd, offset + 500_000)
        assert number in (None, errno.EIO, errno.ESTALE), number
        if place.kind == "whole" and change in ("truncate", "rewrite"):
            # Written in place below a whole file: it is the file.
            return
        want = old[500_000:]
        if number is None:
            assert got == want, f"{len(got)} bytes that were not there"
        else:
            assert got == want[:len(got)], "wrong bytes before the error"
    got = in_child(attempt, t.patience(20))
    assert got == "ok", f"an open made before: {got}"


def check_new_open(place, change, t):
    def attempt():
        if change in ("rewrite", "replace"):
            assert place.same(read(place.path), 2), "not the new bytes"
            return
        if change == "truncate" and place.kind == "whole":
            assert read(place.path) == read(place.file)
            return
        with fails(*GONE):
            read(place.path)
    got = in_child(attempt, t.patience(20))
    assert got == "ok", f"a new open: {got}"


def check_new_names(place, change, t):
    if place.kind in ("whole", "set") or change not in ("rewrite", "replace"):
        return
    assert read(place.top + "/only/in2") == b"v2"
    # Names and attributes that nobody opened follow by themselves.
    until(lambda: not os.path.exists(place.top + "/only/in1"), 2, "gone")
    until(lambda: os.listdir(place.top + "/only") == ["in2"], 2, "listing")
    tree = place.top + "/keep/w"
    until(lambda: os.stat(tree).st_size == len(place.want(2)), 2, "size")
    assert json.loads(xattr(tree, "shape")) == [len(place.want(2))]
    nodes = json.loads(read(place.top + "/.tasd/index.json"))["nodes"]
    assert [["keep.w"], ["only.in2"]] == [
        n["key"] for n in nodes if n["kind"] == "tensor"]


def run_change(t, change):
    for kind in KINDS:
        t.tmp, home = os.path.join(t.tmp, f"{kind}-{change}"), t.tmp
        os.mkdir(t.tmp)
        place = Place(t, kind)
        fd = os.open(place.path, os.O_RDONLY)
        assert os.pread(fd, 8, 128 * (kind == "view")) == place.want(1)[:8]
        settle()
        getattr(place, change)()
        print(kind, change)
        check_old_open(place, fd, change, t)
        check_new_open(place, change, t)
        check_new_names(place, change, t)
        check_old_open(place, fd, change, t)
        os.close(fd)
        if kind == "set":
            assert read(place.mount / "other") == b"other"
            if change in ("truncate", "delete"):
                assert xattr(place.mount.path, "error")
        # The good state comes back, and is shown.
        settle()
        place.put(place.file + ".new", 1)
        os.rename(place.file + ".new", place.file)
        assert place.same(read(place.path), 1), "not back"
        place.mount.umount()
        t.tmp = home


@test(modes=MODES, users=("root", "nobody"))
def test_truncated(t):
    run_change(t, "truncate")


@test(modes=MODES, users=("root", "nobody"))
def test_rewritten(t):
    run_change(t, "rewrite")


@test(modes=MODES, users=("root", "nobody"))
def test_replaced(t):
    run_change(t, "replace")


@test(modes=MODES, users=("root", "nobody"))
def test_deleted(t):
    run_change(t, "delete")


@test(modes=MODES)
def test_times_put_back(t):
    """A replacement with the old one's size and times is still another."""
    source = st.write(t.path("m"), [("w", "U8", [4], b"old!")])
    times = (10**18, 10**18)
    os.utime(source, ns=times)
    with t.mount(source) as m:
        assert read(m / "w") == b"old!"
        settle()
        new = st.write(t.path("new"), [("w", "U8", [4], b"new!")])
        os.utime(new, ns=times)
        os.rename(new, source)
        assert read(m / "w") == b"new!"
        settle()
        with open(source, "r+b") as f:
            f.seek(-4, os.SEEK_END)
            f.write(b"again"[:4])
        os.utime(source, ns=times)
        assert read(m / "w") == b"agai"


@test(modes=MODES)
def test_first_look_is_anywhere(t):
    """Whatever is opened first after a change, and was known, is new."""
    source, number = t.path("m"), 0

    def change():
        nonlocal number
        number += 1
        settle()
        st.write(t.path("new"), [st.u8("old.w", b"w%d" % number),
                                 st.u8("old.n%d" % number, b"n")],
                 {"v": str(number), "m%d" % number: "m"})
        os.rename(t.path("new"), source)

    def index(path):
        return json.loads(read(path))["meta"]["v"] == str(number)

    looks = {
        "old/w": lambda p: read(p) == b"w%d" % number,
        "old/n%d": lambda p: read(p) == b"n",
        ".tasd/index.json": index,
        ".tasd/index.msgpack": lambda p: b"old.n%d" % number in read(p),
        ".tasd/tree": lambda p: b"n%d" % number in read(p),
        ".tasd/meta/v": lambda p: read(p) == b"%d" % number,
        ".tasd/meta/m%d": lambda p: read(p) == b"m",
        ".tasd/flat/old.n%d": lambda p: read(p) == b"n",
        ".tasd/npy/old/n%d.npy": lambda p: read(p)[128:] == b"n",
        ".tasd/files/m": lambda p: read(p) == read(source),
    }
    change()
    with t.mount(source) as m:
        for name, right in looks.items():
            for known in looks:
                path = m / (known % number if "%d" in known else known)
                assert looks[known](path), known
            change()
            path = m / (name % number if "%d" in name else name)
            assert right(path), f"{name} is not of version {number}"


@test(modes=MODES)
def test_many_replacements(t):
    """Each open after each replacement shows that one, a hundred times."""
    source = t.path("m")
    st.write(source, [st.u8("w", b"0" * 70000)])
    with t.mount(source) as m:
        for i in range(1, 101):
            data = (b"%d " % i) * 20000
            st.write(t.path("new"), [st.u8("w", data)])
            os.rename(t.path("new"), source)
            assert read(m / "w") == data, i


@test(modes=MODES)
def test_old_and_new_at_once(t):
    """Old opens and maps keep the old bytes beside new ones with the new."""
    source = st.write(t.path("m"), [st.u8("w", b"1" * 300000)])
    with t.mount(source) as m:
        held = []
        for i in range(2, 8):
            fd = os.open(m / "w", os.O_RDONLY)
            view = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE,
                             prot=mmap.PROT_READ)
            assert view[:10] == b"%d" % (i - 1) * 10
            held.append((fd, view, i - 1))
            settle()
            st.write(t.path("new"), [st.u8("w", b"%d" % i * 300000)])
            os.rename(t.path("new"), source)
            assert read(m / "w") == b"%d" % i * 300000
            for old, pages, version in held:
                assert pages[:10] == b"%d" % version * 10
                try:
                    got = os.pread(old, 300000, 0)
                except OSError as error:
                    assert error.errno in (errno.EIO, errno.ESTALE)
                else:
                    assert got == b"%d" % version * 300000
        for fd, view, _ in held:
            view.close()
            os.close(fd)


def held_though_deleted(pid):
    """The deleted files that a process keeps on the disk."""
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return [link for link in links if link.endswith(" (deleted)")]


@test(modes=MODES)
def test_what_was_replaced_is_given_back(t):
    """A version that was open when it was replaced goes with the open."""
    source = t.path("m")

    def replace(i):
        st.write(t.path("new"), [st.u8("a.b.c", b"%05d" % i),
                                 st.u8("top", b"%05d" % i)], {"v": str(i)})
        os.rename(t.path("new"), source)

    replace(0)
    with t.mount(source) as m:
        names = ["top", "a/b/c", ".tasd/npy/a/b/c.npy", ".tasd/flat/a.b.c",
                 ".tasd/meta/v", ".tasd/index.json"]
        for name in names:
            for i in range(10):
                held = [os.open(m / name, os.O_RDONLY),
                        os.open(os.path.dirname(m / name), os.O_RDONLY)]
                os.listdir(held[1])
                settle()
                replace(i)
                read(m / name)
                for fd in held:
                    os.close(fd)
            # A name at the top that is not asked for again keeps its own.
            until(lambda: len(held_though_deleted(m.pid)) <= 3, 5,
                  f"{name}: the files of old versions are closed")


@test(modes=MODES, users=("root", "nobody"))
def test_mapped_and_truncated(t):
    """A map of what is gone: old bytes or a signal; it can be killed."""
    for kind in KINDS:
        t.tmp, home = os.path.join(t.tmp, kind), t.tmp
        os.mkdir(t.tmp)
        place = Place(t, kind)
        settle()

        def touch():
            skip = 128 if kind == "view" else 0
            fd = os.open(place.path, os.O_RDONLY)
            view = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE,
                             prot=mmap.PROT_READ)
            want = place.want(1)
            assert view[skip] == want[0]
            place.truncate()
            for at in range(0, len(view) - skip - 10, 4096):
                got = view[skip + at:skip + at + 8]
                if kind == "whole":
                    continue  # the file itself, cut: its last page is zeros
                assert got == want[at:at + 8], f"other bytes at {at}"
        got = in_child(touch, t.patience(20))
        assert got in ("ok", "SIGBUS"), f"{kind}: {got}"
        place.mount.umount()
        t.tmp = home


@test(modes=MODES)
def test_becomes_broken_and_back(t):
    """What is no checkpoint any more is refused until it is one again."""
    source = st.write(t.path("m"), [st.u8("w", b"one")])
    with t.mount(source) as m:
        assert read(m / "w") == b"one"
        for junk in (b"hello", b"", st.build([st.u8("w", b"xx")])[:-1],
                     b"\0" * 100):
            settle()
            st.put(t.path("new"), junk)
            os.rename(t.path("new"), source)
            with fails(*GONE):
                read(m / "w")
            assert xattr(m.path, "error"), junk
            with fails(*GONE):
                os.listdir(m.path)
        settle()
        st.write(source, [st.u8("w", b"two")])
        assert read(m / "w") == b"two"
        assert os.listdir(m.path) == ["w"]
        until(lambda: xattr(m.path, "error") is None, 2, "well again")


@test(modes=MODES)
def test_kinds_change(t):
    """A tensor becomes a folder, a folder a tensor, a container a folder."""
    library = t.mkdir("library")
    source = st.write(os.path.join(library, "m"), [st.u8("a", b"leaf"),
                                                   st.u8("b.c", b"inner")])
    with t.mount(library) as m:
        face = m / "m.tasd"
        assert read(face + "/a") == b"leaf" and read(face + "/b/c") == b"inner"
        settle()
        st.write(t.path("new"), [st.u8("a.x", b"inner"), st.u8("b", b"leaf")])
        os.rename(t.path("new"), source)
        # A name in a library is held for a second at most, without an open.
        until(lambda: os.path.isdir(face + "/a"), 3, "a folder")
        assert read(face + "/a/x") == b"inner"
        assert read(face + "/b") == b"leaf"
        settle()
        os.unlink(source)
        os.mkdir(source)
        until(lambda: os.path.isdir(m / "m"), 3, "a folder")
        st.put(os.path.join(source, "inner"), b"plain")
        until(lambda: os.path.exists(m / "m/inner"), 3, "its file")
        assert read(m / "m/inner") == b"plain"
        with fails(*GONE):
            os.listdir(face)


@test(modes=MODES)
def test_index_changes(t):
    """A set whose index is replaced, and whose shard is."""
    folder = t.mkdir("set")
    st.write_sharded(folder, [[st.u8("a", b"a1")], [st.u8("b", b"b1")]])
    with t.mount(folder) as m:
        assert read(m / "a") == b"a1" and read(m / "b") == b"b1"
        settle()
        st.write(os.path.join(folder, "new"), [st.u8("b", b"b2222")])
        os.rename(os.path.join(folder, "new"),
                  os.path.join(folder, "model-00002-of-00002.safetensors"))
        assert read(m / "b") == b"b2222" and read(m / "a") == b"a1"
        settle()
        st.write(os.path.join(folder, "c"), [st.u8("c", b"c3")])
        st.write_index(folder, {
            "a": "model-00001-of-00002.safetensors", "c": "c"}, name="i")
        os.rename(os.path.join(folder, "i"),
                  os.path.join(folder, "model.safetensors.index.json"))
        assert read(m / "c") == b"c3" and read(m / "a") == b"a1"
        until(lambda: not os.path.exists(m / "b"), 2, "gone")


@test(modes=MODES)
def test_folder_vanishes(t):
    """The mounted folder itself is moved, or deleted: answers, no hang."""
    library = t.mkdir("library")
    st.write(os.path.join(library, "m"), [st.u8("w", b"1")])
    with t.mount(library) as m:
        assert read(m / "m.tasd/w") == b"1"
        os.rename(library, t.path("moved"))
        assert read(m / "m.tasd/w") == b"1", "the folder is the same"
        os.unlink(t.path("moved/m"))
        os.rmdir(t.path("moved"))
        with fails(*GONE):
            read(m / "m.tasd/w")

        def look():
            try:
                os.listdir(m.path)
            except OSError:
                pass
        assert in_child(look, t.patience(20)) == "ok"


@test(modes=MODES)
def test_reader_is_killed(t):
    """A reader in the middle of a big read ends at once when killed."""
    data = st.pattern(4 << 20)
    source = t.path("big")
    with open(source, "wb") as f:
        f.write(st.raw(b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":'
                       b'[0,%d]}}' % ((256 << 20,) * 2)))
        for _ in range(64):
            f.write(data)
    with t.mount(source) as m:
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                while True:
                    read(m / "w")
            time.sleep(0.05)
            os.kill(pid, signal.SIGKILL)
            start = time.monotonic()
            os.waitpid(pid, 0)
            assert time.monotonic() - start < t.patience(2)
        with open(m / "w", "rb") as f:
            assert f.read(1000) == data[:1000]


@test(modes=("auto", "direct"), users=("root", "nobody"))
def test_a_log_that_grows(t):
    """A file that is written to all the time can be opened all the time."""
    library = t.mkdir("library")
    path = os.path.join(library, "log")
    pid = os.fork()
    if pid == 0:
        with open(path, "ab", buffering=0) as log:
            while True:
                log.write(b"0123456789")
    try:
        until(lambda: os.path.exists(path), 5, "the log")
        with t.mount(library) as m:
            for _ in range(300):
                at = os.stat(path).st_size
                with open(m / "log", "rb", buffering=0) as f:
                    f.seek(max(0, at - 1000) // 10 * 10)
                    got = f.read(1000)
                assert got and got == (b"0123456789" * 100)[:len(got)]
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            pid = 0
            # Cut to nothing below a name that the kernel holds.
            os.stat(m / "log")
            os.truncate(path, 0)
            assert read(m / "log") == b""
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@test(modes=MODES)
def test_in_a_folder_that_was_replaced(t):
    """Whoever is in the old folder is not shown the new one under its path."""
    library = t.mkdir("library")
    old, away = os.path.join(library, "run"), os.path.join(library, "away")
    st.put(os.path.join(old, "both"), b"old")
    st.put(os.path.join(old, "in/both"), b"old")
    with t.mount(library) as m:
        folder = os.open(m / "run", os.O_RDONLY)
        inner = os.open(m / "run/in", os.O_RDONLY)
        os.rename(old, away)
        st.put(os.path.join(old, "both"), b"new")
        st.put(os.path.join(old, "in/both"), b"new")
        time.sleep(1.1)  # what a library's names are held for
        for name, fd in (("both", folder), ("both", inner), (".", folder)):
            with fails(errno.ESTALE, errno.ENOENT):
                os.listdir(os.open(name, os.O_RDONLY, dir_fd=fd))
        for path in ("run/both", "run/in/both"):
            assert read(m / path) == b"new"
        for path in ("away/both", "away/in/both"):
            assert read(m / path) == b"old"
        os.close(folder)
        os.close(inner)
