"""How bytes are read: every way a program opens, maps, locks and copies.

Each test looks at four files that are served differently: a window of a
container, a container's own face (a whole file), a view made on the fly, and
a window of a container inside a library.
"""
import ctypes
import errno
import fcntl
import mmap
import os
import random
import shutil
import stat

from support import st
from support.harness import MODES, fails, in_child, libc, read, test

USERS = ("root", "nobody")
SIZE = 3_000_011  # no multiple of anything


class Files:
    """The four paths and the bytes each must give."""

    def __init__(self, t):
        tensors = [st.u8("first", b"1234567"),
                   ("win.dow", "BF16", [SIZE // 2], st.pattern(SIZE - 1)),
                   st.u8("last", st.pattern(5000, seed=4)),
                   ("none", "F32", [0], b"")]
        folder = t.mkdir("library")
        source = st.write(os.path.join(folder, "m.safetensors"), tensors)
        self.single, self.library = t.mount(source), t.mount(folder)
        window, whole = tensors[1][3], st.build(tensors)
        self.window = self.single / "win/dow"
        self.whole = self.library / "m.safetensors"
        self.view = self.single / ".tasd/npy/win/dow.npy"
        self.inner = self.library / "m.safetensors.tasd/win/dow"
        self.empty = self.single / "none"
        npy = read(self.view)
        assert npy.endswith(window) and len(npy) - len(window) == 128
        self.bytes = {self.window: window, self.whole: whole,
                      self.inner: window, self.view: npy}

    def __iter__(self):
        return iter(self.bytes.items())


def opened(path, flags=os.O_RDONLY):
    class Handle:
        def __enter__(self):
            self.fd = os.open(path, flags)
            return self.fd

        def __exit__(self, *_):
            os.close(self.fd)
    return Handle()


@test(modes=MODES, users=USERS)
def test_reads(t):
    """Any offset and length; short only at the end; nothing past it."""
    rng = random.Random(5)
    for path, want in Files(t):
        assert read(path) == want, path
        end = len(want)
        spots = [(0, 1), (0, end), (1, 4096), (4095, 2), (end - 1, 1),
                 (end - 1, 100), (end, 1), (end, 4096), (end + 1, 10),
                 (1 << 40, 10), (0, end + 10), ((1 << 20) - 1, 1 << 20),
                 (17, (2 << 20) + 5)]
        spots += [(rng.randrange(end), rng.randrange(1, 70000))
                  for _ in range(60)]
        with opened(path) as fd:
            for offset, length in spots:
                got = os.pread(fd, length, offset)
                # One call may be short; what comes must be right.
                while got and len(got) < min(length, end - offset):
                    more = os.pread(fd, length - len(got), offset + len(got))
                    assert more, (path, offset, length, len(got))
                    got += more
                assert got == want[offset:offset + length], (
                    path, offset, length)
            assert os.lseek(fd, 0, os.SEEK_END) == end
            assert os.read(fd, 10) == b""
            assert os.lseek(fd, 0, os.SEEK_DATA) == 0
            assert os.lseek(fd, 0, os.SEEK_HOLE) == end
            os.lseek(fd, 3, os.SEEK_SET)
            pieces = [bytearray(1000), bytearray(1), bytearray(5000)]
            assert os.readv(fd, pieces) == 6001
            assert b"".join(pieces) == want[3:6004]


@test(modes=MODES, users=USERS)
def test_maps(t):
    """Private, private and writable, shared for reading."""
    files = Files(t)
    for path, want in files:
        with opened(path) as fd:
            kinds = [(mmap.MAP_PRIVATE, mmap.PROT_READ),
                     (mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE),
                     (mmap.MAP_SHARED, mmap.PROT_READ)]
            for flags, prot in kinds:
                with mmap.mmap(fd, 0, flags=flags, prot=prot) as view:
                    assert len(view) == len(want)
                    assert view[:] == want, (path, flags, prot)
                    if prot & mmap.PROT_WRITE:
                        view[0:5] = b"XXXXX"
                        view[-3:] = b"YYY"
                        assert view[:5] == b"XXXXX"
                        assert os.pread(fd, 5, 0) == want[:5]
                        view.madvise(mmap.MADV_DONTNEED)
                        assert view[:5] == want[:5]
            with mmap.mmap(fd, 5000, flags=mmap.MAP_PRIVATE,
                           prot=mmap.PROT_READ, offset=8192) as view:
                assert view[:] == want[8192:13192]
            with fails(errno.EACCES):
                mmap.mmap(fd, 0, flags=mmap.MAP_SHARED,
                          prot=mmap.PROT_READ | mmap.PROT_WRITE)
        assert read(path) == want, "a private map changed the file"


@test(modes=MODES, users=USERS)
def test_map_outlives_open(t):
    """A map lives on after close, and beside other opens and reads."""
    for path, want in Files(t):
        fd = os.open(path, os.O_RDONLY)
        view = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        os.close(fd)
        assert view[100:200] == want[100:200]
        assert read(path) == want
        with opened(path) as second:
            assert os.pread(second, 50, 1 << 20) == want[1 << 20:][:50]
            assert view[1 << 20:(1 << 20) + 50] == want[1 << 20:][:50]
        assert view[-10:] == want[-10:]
        view.close()


def read_direct(fd, length, offset):
    """A read into memory that is aligned as O_DIRECT asks."""
    with mmap.mmap(-1, max(4096, (length + 4095) & ~4095)) as buffer:
        got = os.preadv(fd, [memoryview(buffer)[:length]], offset)
        return buffer[:got]


@test(modes=MODES, users=USERS)
def test_o_direct(t):
    """O_DIRECT opens give the same bytes, alone and beside a plain open."""
    for path, want in Files(t):
        for beside in (False, True):
            plain = os.open(path, os.O_RDONLY) if beside else None
            with opened(path, os.O_RDONLY | os.O_DIRECT) as fd:
                for offset, length in ((0, 4096), (4096, 1 << 20),
                                       (1 << 20, 2 << 20), (8192, 4096)):
                    assert read_direct(fd, length, offset) == \
                        want[offset:offset + length], (path, offset, length)
                tail = len(want) // 4096 * 4096
                assert read_direct(fd, 4096, tail) == want[tail:]
                if beside:
                    assert os.pread(plain, 100, 5) == want[5:105]
            if beside:
                os.close(plain)
        # And switched on after the open, as loaders do.
        with opened(path) as fd:
            fcntl.fcntl(fd, fcntl.F_SETFL, os.O_DIRECT)
            assert read_direct(fd, 4096, 4096) == want[4096:8192]


@test(modes=MODES, users=USERS)
def test_many_opens(t):
    """Opens of every kind, in every order, while others are open."""
    rng = random.Random(11)
    for path, want in Files(t):
        handles = []
        for _ in range(60):
            flags = rng.choice([os.O_RDONLY, os.O_RDONLY | os.O_DIRECT,
                                os.O_RDONLY | os.O_NOATIME
                                if t.privileged else os.O_RDONLY])
            fd = os.open(path, flags)
            view = None
            if rng.random() < 0.4:
                view = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE,
                                 prot=mmap.PROT_READ | mmap.PROT_WRITE)
            handles.append((fd, view))
            at = rng.randrange(len(want) // 4096) * 4096
            assert read_direct(fd, 4096, at) == want[at:at + 4096]
            if view:
                assert view[at:at + 10] == want[at:at + 10]
            if rng.random() < 0.3:
                fd, view = handles.pop(rng.randrange(len(handles)))
                os.close(fd)
        for fd, view in handles:
            os.close(fd)


@test(modes=MODES, users=USERS)
def test_copies(t):
    """copy_file_range, sendfile, splice, and the tools that use them."""
    for i, (path, want) in enumerate(Files(t)):
        size = len(want)
        for name in ("cfr", "sendfile", "splice"):
            target = t.path(f"{name}{i}")
            with opened(path) as fd, opened(
                    target, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as out:
                if name == "cfr":
                    # cp asks for far more than there is.  Between two file
                    # systems the kernel refuses it, and cp reads instead.
                    try:
                        while os.copy_file_range(fd, out, 1 << 40):
                            pass
                    except OSError as error:
                        assert error.errno == errno.EXDEV, error
                        continue
                elif name == "sendfile":
                    at = 0
                    while n := os.sendfile(out, fd, at, 1 << 20):
                        at += n
                else:
                    r, w = os.pipe()
                    while n := os.splice(fd, w, 1 << 16):
                        while n:
                            n -= os.splice(r, out, n)
                    os.close(r)
                    os.close(w)
            assert read(target) == want, (name, path)
        to = t.path(f"copy{i}")
        t.run("cp", "--reflink=auto", "--sparse=always", path, to + "cp")
        assert read(to + "cp") == want
        t.run("dd", "if=" + path, "of=" + to + "dd", "bs=777k",
              "iflag=fullblock")
        assert read(to + "dd") == want
        shutil.copyfile(path, to + "py")
        assert os.path.getsize(to + "py") == size


@test(modes=MODES, users=USERS)
def test_locks(t):
    """flock and fcntl locks hold between processes, in the kernel."""
    for path, _ in Files(t):
        with opened(path) as one, opened(path) as two:
            fcntl.flock(one, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(two, fcntl.LOCK_SH | fcntl.LOCK_NB)
            with fails(errno.EWOULDBLOCK):
                fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(one, fcntl.LOCK_UN)
            fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)

            def try_lock():
                with opened(path) as fd:
                    fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            got = in_child(try_lock, t.patience(20))
            assert "BlockingIOError" in got, got
            fcntl.flock(two, fcntl.LOCK_UN)
            assert in_child(try_lock, t.patience(20)) == "ok"
            fcntl.lockf(one, fcntl.LOCK_SH | fcntl.LOCK_NB, 100, 0)


@test(modes=MODES, users=USERS)
def test_empty_tensor(t):
    """Zero bytes: read returns at once, a map fails as on any empty file."""
    path = Files(t).empty
    assert os.stat(path).st_size == 0 and read(path) == b""
    with opened(path) as fd:
        assert os.pread(fd, 10, 0) == b"" == os.pread(fd, 10, 4096)

        def touch():
            # The length is past the end, which Python's own check refuses.
            libc.mmap.restype = ctypes.c_void_p
            address = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ,
                                mmap.MAP_PRIVATE, fd, ctypes.c_long(0))
            assert address != ctypes.c_void_p(-1).value, "map refused"
            return ctypes.string_at(address, 1)
        got = in_child(touch, t.patience(20))
        assert got in ("SIGBUS", "SIGSEGV") or "map refused" in got, got


@test(modes=MODES, users=USERS)
def test_read_only(t):
    """EROFS for every call that would change something."""
    files = Files(t)
    for folder, name in ((files.single.path, "first"),
                         (files.library.path, "m.safetensors"),
                         (files.library / "m.safetensors.tasd", "first"),
                         (files.single / ".tasd", "index.json")):
        path, new = os.path.join(folder, name), os.path.join(folder, "new")
        calls = {
            "write": lambda: os.open(path, os.O_WRONLY),
            "rdwr": lambda: os.open(path, os.O_RDWR),
            "trunc": lambda: os.open(path, os.O_RDONLY | os.O_TRUNC),
            "append": lambda: os.open(path, os.O_WRONLY | os.O_APPEND),
            "create": lambda: os.open(new, os.O_CREAT | os.O_WRONLY, 0o600),
            "excl": lambda: os.open(
                new, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o600),
            "mkdir": lambda: os.mkdir(new),
            "mknod": lambda: os.mknod(new),
            "mkfifo": lambda: os.mkfifo(new),
            "symlink": lambda: os.symlink("x", new),
            "link": lambda: os.link(path, new),
            "unlink": lambda: os.unlink(path),
            "rename": lambda: os.rename(path, new),
            "rmdir": lambda: os.rmdir(folder),
            "truncate": lambda: os.truncate(path, 0),
            "chmod": lambda: os.chmod(path, 0o777),
            "chown": lambda: os.chown(path, os.getuid(), os.getgid()),
            "utime": lambda: os.utime(path),
            "setxattr": lambda: os.setxattr(path, "user.tasd.x", b"1"),
            "setxattr2": lambda: os.setxattr(path, "user.x", b"1"),
            "removexattr": lambda: os.removexattr(path, "user.tasd.dtype"),
        }
        for what, call in calls.items():
            # A mount point or a busy folder may be told before EROFS.
            allowed = [errno.EROFS] + [errno.EBUSY] * (what == "rmdir")
            try:
                with fails(*allowed):
                    call()
            except AssertionError as error:
                raise AssertionError(f"{what} {path}: {error}") from None
        with fails(errno.EROFS, errno.EOPNOTSUPP, errno.EISDIR):
            os.open(folder, os.O_TMPFILE | os.O_RDWR)
        assert not os.access(path, os.W_OK) and os.access(path, os.R_OK)
        assert not os.access(folder, os.W_OK)
    assert os.listdir(files.single.path) == ["first", "win", "last", "none"]


@test(modes=MODES, users=USERS)
def test_statfs(t):
    files = Files(t)
    for path in (files.single.path, files.window, files.whole,
                 files.library.path, files.single / ".tasd"):
        got = os.statvfs(path)
        assert got.f_bsize > 0 and got.f_frsize > 0
        assert got.f_namemax == 255, got.f_namemax
        assert got.f_flag & os.ST_RDONLY, got
        assert got.f_flag & os.ST_NOSUID and got.f_flag & os.ST_NODEV
    out = t.run("df", "-h", files.single.path).stdout
    assert "%" in out and files.single.path in out, out
    out = t.run("findmnt", "-no", "FSTYPE,SOURCE", files.single.path).stdout
    assert out.split()[0].startswith("fuse"), out


@test(modes=MODES, users=USERS)
def test_small_calls(t):
    """fsync, fadvise, readahead, ioctl, poll: answered, never harmful."""
    for path, want in Files(t):
        with opened(path) as fd:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            libc.readahead(fd, 0, 1 << 20)
            os.fsync(fd)
            os.fdatasync(fd)
            for request in (0x5401, 0x80086601, 0, 0xFFFFFFFF, 0xC0FF5400):
                with fails(errno.ENOTTY, errno.ENOSYS, errno.EINVAL):
                    fcntl.ioctl(fd, request, bytearray(1 << 14))
            with fails(errno.ENOTTY):
                fcntl.ioctl(fd, 0x5401, bytes(64))  # TCGETS, as isatty asks
            with fails(errno.EBADF, errno.EROFS, errno.EOPNOTSUPP):
                os.posix_fallocate(fd, 0, 1)
            with fails(errno.EINVAL, errno.EBADF):
                os.ftruncate(fd, 0)
            with fails(errno.EBADF):
                os.write(fd, b"x")
            assert os.pread(fd, 10, 10) == want[10:20]
            assert stat.S_ISREG(os.fstat(fd).st_mode)


@test(modes=MODES)
def test_open_handles_outlive_names(t):
    """Reading goes on after the name was dropped from the kernel's caches."""
    for path, want in Files(t):
        with opened(path) as fd:
            os.pread(fd, 10, 0)
            with open("/proc/sys/vm/drop_caches", "w") as f:
                f.write("2")
            assert os.pread(fd, 100, 1 << 20) == want[1 << 20:][:100]
            assert os.fstat(fd).st_size == len(want)


@test(modes=MODES, users=USERS)
def test_reread_after_drop(t):
    """Dropped pages come back right, of maps too."""
    for path, want in Files(t):
        with opened(path) as fd:
            view = mmap.mmap(fd, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
            assert view[:] == want
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            if t.privileged:
                with open("/proc/sys/vm/drop_caches", "w") as f:
                    f.write("1")
            assert view[:] == want
            view.close()
            assert os.pread(fd, 99, 12345) == want[12345:12444]
