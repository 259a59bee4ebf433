"""Odd callers: what no sane program asks, and some program will."""
import ctypes
import errno
import fcntl
import mmap
import os
import random
import stat
import struct
import time

from support import st
from support.harness import fails, libc, read, test

SYS_GETDENTS64 = 217 if os.uname().machine == "x86_64" else 61


def place(t):
    folder = t.mkdir("library")
    tensors = [st.u8(f"l.{i}.w{'x' * (i % 90)}", b"%d" % i)
               for i in range(700)]
    tensors += [st.u8(f"top{i}", b"") for i in range(700)]
    st.write(os.path.join(folder, "m"), tensors, {"k": "v"})
    for i in range(300):
        st.put(os.path.join(folder, f"plain{i:03}"), b"%d" % i)
    return t.mount(folder)


FOLDERS = ("", "m.tasd", "m.tasd/l", "m.tasd/.tasd", "m.tasd/.tasd/flat",
           "m.tasd/.tasd/npy", ".tasd")


def getdents(fd, size):
    """One getdents64 call: (name, offset, inode, type) of each entry."""
    buffer = ctypes.create_string_buffer(size)
    got = libc.syscall(SYS_GETDENTS64, fd, buffer, size)
    if got < 0:
        raise OSError(ctypes.get_errno(), "getdents64")
    out, at = [], 0
    while at < got:
        inode, offset, length, kind = struct.unpack_from("<QqHB", buffer, at)
        name = buffer.raw[at + 19:at + length].split(b"\0", 1)[0]
        out.append((name, offset, inode, kind))
        at += length
    return out


@test()
def test_directories_in_pieces(t):
    """Small buffers, seeks to every cookie, rewinds: the same entries."""
    with place(t) as m:
        for folder in FOLDERS:
            fd = os.open(m / folder, os.O_RDONLY | os.O_DIRECTORY)
            whole = []
            while piece := getdents(fd, 300):
                whole += piece
            names = [e[0] for e in whole if e[0] not in (b".", b"..")]
            assert len(names) == len(set(names)), folder
            listed = os.listdir(os.fsencode(m / folder))
            assert names == listed, folder
            cookies = [e[1] for e in whole]
            assert len(set(cookies)) == len(cookies), "a cookie twice"
            for i in range(0, len(whole), max(1, len(whole) // 25)):
                os.lseek(fd, cookies[i], os.SEEK_SET)
                rest = []
                while piece := getdents(fd, 5000):
                    rest += piece
                assert [e[0] for e in rest] == [e[0] for e in whole[i + 1:]]
            os.lseek(fd, 0, os.SEEK_SET)
            assert getdents(fd, 300)[0][0] == whole[0][0]
            for wild in (1 << 40, (1 << 62) + 1, 999_999):
                try:
                    os.lseek(fd, wild, os.SEEK_SET)
                    getdents(fd, 300)
                except OSError:
                    pass
            with fails(errno.EINVAL):
                os.lseek(fd, 0, os.SEEK_SET)
                getdents(fd, 20)
            for name, _, inode, kind in whole:
                if name in (b".", b".."):
                    continue
                real = os.lstat(os.path.join(os.fsencode(m / folder), name))
                assert kind << 12 == stat.S_IFMT(real.st_mode), name
            os.close(fd)


@test()
def test_two_readers_of_a_directory(t):
    with place(t) as m:
        for folder in FOLDERS:
            want = os.listdir(m / folder)
            fds = [os.open(m / folder, os.O_RDONLY) for _ in range(3)]
            lists = [[], [], []]
            live = {0, 1, 2}
            while live:
                for i in sorted(live):
                    piece = getdents(fds[i], 300 + 200 * i)
                    lists[i] += [e[0].decode() for e in piece]
                    if not piece:
                        live.discard(i)
            for names in lists:
                assert [n for n in names if n not in (".", "..")] == want
            for fd in fds:
                os.close(fd)


@test()
def test_names(t):
    with place(t) as m:
        for folder in FOLDERS:
            base = os.fsencode(m / folder)
            for name in (b"x" * 255, b"\xff\xfe", b"%", b"%2", b"%zz", b"%%",
                         b"a\nb", b" ", b"...", b"~", b"*", b".tasd.tasd",
                         b"m.tasd.tasd", b".tasd\n", b"\x01", b"-",
                         "é".encode() * 120):
                with fails(errno.ENOENT):
                    os.lstat(os.path.join(base, name))
            for size in (256, 1000, 4000):
                with fails(errno.ENAMETOOLONG, errno.ENOENT):
                    os.lstat(os.path.join(base, b"x" * size))
            with fails(errno.ENAMETOOLONG):
                os.lstat(os.path.join(base, b"x/" * 3000))
        for path in ("m/x", "plain000/x", "m.tasd/top0/x",
                     "m.tasd/.tasd/index.json/x", "m/.tasd"):
            with fails(errno.ENOTDIR):
                os.lstat(m / path)
        for path in ("m.tasd/.tasd/.tasd", ".tasd/.tasd", "m.tasd/l/.tasd",
                     "m.tasd/.tasd/npy/.tasd", ".tasd.tasd"):
            with fails(errno.ENOENT):
                os.lstat(m / path)
        assert os.path.samefile(m / "m.tasd/..", m.path)
        assert os.path.samefile(m / "m.tasd/.tasd/..", m / "m.tasd")
        assert os.path.samefile(m / "m.tasd/l/0/../..", m / "m.tasd")
        assert os.path.samefile(m / "m.tasd/.tasd/npy/../../l", m / "m.tasd/l")


@test()
def test_attributes(t):
    """Sizes and names at every limit."""
    with place(t) as m:
        for path in (m / "m.tasd", m / "m.tasd/l", m / "m.tasd/l/0/w",
                     m / "m", m.path, m / "m.tasd/.tasd",
                     m / "m.tasd/.tasd/index.json"):
            raw = os.fsencode(path)
            listed = os.listxattr(path)
            need = libc.listxattr(raw, None, 0)
            assert need == sum(len(n.encode()) + 1 for n in listed)
            if need:
                small = ctypes.create_string_buffer(need)
                assert libc.listxattr(raw, small, need - 1) == -1
                assert ctypes.get_errno() == errno.ERANGE
            for name in listed:
                value = os.getxattr(path, name)
                code = name.encode()
                assert libc.getxattr(raw, code, None, 0) == len(value)
                if len(value) > 1:  # a size of 0 asks for the size
                    out = ctypes.create_string_buffer(len(value))
                    assert libc.getxattr(raw, code, out, len(value) - 1) == -1
                    assert ctypes.get_errno() == errno.ERANGE
            for name in ("user." + "n" * 250, "user.tasd.meta." + "k" * 240):
                with fails(errno.ENODATA):
                    os.getxattr(path, name)
            for name in ("user.tasd.kin", "user.tasd.kind2", "User.tasd.kind",
                         "user.tasd.\n", "user.tasd.kind\x01"):
                with fails(errno.ENODATA, errno.EOPNOTSUPP):
                    os.getxattr(path, name)


@test()
def test_directories_as_files(t):
    with place(t) as m:
        for folder in FOLDERS:
            path = m / folder
            with fails(errno.EISDIR, errno.EROFS):
                os.open(path, os.O_RDWR)
            fd = os.open(path, os.O_RDONLY)
            with fails(errno.EISDIR):
                os.read(fd, 10)
            with fails(errno.EISDIR):
                os.pread(fd, 10, 0)
            with fails(errno.ENODEV, errno.EACCES, errno.EISDIR):
                mmap.mmap(fd, 4096, prot=mmap.PROT_READ)
            with fails(errno.ENOTTY):
                fcntl.ioctl(fd, 0x5401, bytes(64))
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.fsync(fd)
            os.close(fd)
            fd = os.open(path, os.O_PATH)
            assert stat.S_ISDIR(os.fstat(fd).st_mode)
            os.stat("..", dir_fd=fd)
            os.close(fd)
            os.chdir(path)
            os.stat(".")
            os.chdir(t.tmp)
        for path in (m / "m", m / "m.tasd/top0"):
            with fails(errno.ENOTDIR):
                os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            with fails(errno.EINVAL):
                os.readlink(path)
            with fails(errno.EACCES):
                os.execv(path, ["x"])


@test(users=("root", "nobody"))
def test_tools(t):
    """Common tools say nothing on standard error."""
    with place(t) as m:
        for argv in (["ls", "-laR"], ["find", "-ls"], ["du", "-a"],
                     ["stat", m / "m.tasd/l/3/" + "wxxx"],
                     ["getfattr", "-R", "-d", "-m", "-", "--absolute-names"],
                     ["file", m / "m"], ["md5sum", m / "m"],
                     ["grep", "-r", "no such text"], ["tree", "-d"]):
            if t.run("which", argv[0], check=False).returncode:
                continue
            if not any(str(a).startswith("/") for a in argv):
                argv.insert(2 if argv[0] == "grep" else 1, m.path)
                if argv[0] == "grep":
                    argv = ["grep", "-r", "no such text", m.path]
            done = t.run(*argv, check=False, timeout=60)
            assert done.stderr == "", (argv, done.stderr)


@test(timeout=60)
def test_random_calls(t):
    """Ten thousand calls on paths put together at random."""
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    rng = random.Random(seed)
    with place(t) as m:
        pieces = ["m", "m.tasd", ".tasd", "l", "0", "w", "top1", "npy", "f32",
                  "flat", "meta", "k", "index.json", "index.msgpack", "tree",
                  "files", "stats", "attrs", "shards", "..", ".", "",
                  "plain000", "plain000.tasd", "x" * 255, "x" * 256,
                  "top1.npy", "l.0.w", "l.1.wx", "é", "\udcff", "%", "1",
                  "wx", "control"]

        def touch(path):
            which = rng.randrange(9)
            if which == 0:
                os.listdir(path)
            elif which == 1:
                fd = os.open(path, rng.choice(
                    [os.O_RDONLY, os.O_PATH, os.O_DIRECTORY, os.O_RDWR,
                     os.O_RDONLY | os.O_DIRECT, os.O_NOFOLLOW | os.O_TRUNC]))
                try:
                    os.pread(fd, rng.choice([1, 100, 4096]),
                             rng.choice([0, 3, 4096, 1 << 50]))
                finally:
                    os.close(fd)
            elif which == 2:
                for name in os.listxattr(path):
                    os.getxattr(path, name)
            elif which == 3:
                os.getxattr(path, rng.choice(
                    ["user.tasd." + p for p in pieces if p.isprintable()]))
            elif which == 4:
                os.stat(path)
            elif which == 5:
                os.rename(path, path + "x")
            elif which == 6:
                os.readlink(path)
            elif which == 7:
                os.access(path, rng.randrange(8))
            else:
                os.statvfs(path)
        end = time.monotonic() + t.patience(8)
        for _ in range(10000):
            path = m / "/".join(rng.choice(pieces)
                                for _ in range(rng.randrange(1, 6)))
            if os.path.normpath(path).startswith(m.path):
                try:
                    touch(path)
                except (OSError, ValueError):
                    pass
            if time.monotonic() > end:
                break
        assert read(m / "plain007") == b"7"
        assert read(m / "m.tasd/l/0/w") == b"0"
        assert m.process.poll() is None


@test()
def test_bind_mount(t):
    """A subtree bound elsewhere is the same subtree."""
    t.need_root()
    with place(t) as m:
        at = t.mkdir("bound")
        t.run("mount", "--bind", m / "m.tasd/l", at)
        try:
            assert read(os.path.join(at, "0/w")) == b"0"
            with fails(errno.ENOENT):
                os.stat(os.path.join(at, ".tasd"))
        finally:
            t.run("umount", at)


@test()
def test_readahead_wherever_it_is(t):
    """What is set for a mount is set whatever its path is called."""
    t.need_root()
    source = st.write(t.path("m"), [st.u8("w", b"1")])
    for name in ("plain", "with space", "tab\tand\nline", "back\\slash 040",
                 "\\040"):
        with t.mount(source, at=t.mkdir(name)) as m:
            dev = os.stat(m.path).st_dev
            with open(f"/sys/class/bdi/{os.major(dev)}:{os.minor(dev)}"
                      "/read_ahead_kb") as f:
                assert f.read() == "1024\n", name
