"""What a test is given: a temporary folder, the program, and mounts that end.

A test is a function `test_*(t)` in a module `test_*.py`; `t` is a Context.
It fails by raising, and is skipped by `t.skip(reason)`.  run.py gives each
test a process of its own; what it mounts or starts is ended when it returns,
whatever it does.
"""
import contextlib
import ctypes
import errno
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time

MODES = ("auto", "cached", "direct")
PREFIX = "user.tasd."
NOBODY = 65534


class Skip(Exception):
    """The machine cannot do what the test needs."""


def test(modes=("auto",), users=("root",), timeout=60, alone=False,
         flavours=("plain", "asan"), needs=()):
    """Say where a test runs.

    users: "root" as whoever runs the tests; "nobody" without capabilities.
    alone: no other test beside it.  needs: commands without which it skips.
    flavours: plain, asan, tsan: the builds it is run with.
    """
    def mark(function):
        function.spec = dict(modes=modes, users=users, timeout=timeout,
                             alone=alone, flavours=flavours, needs=needs)
        return function
    return mark


def spec_of(function):
    return getattr(function, "spec", None) or test()(function).spec


class Mount:
    """A mounted source: a context manager, or ended with the test."""

    def __init__(self, path, line, process, log, context):
        self.path, self.line, self.process = path, line, process
        self.log, self.context = log, context
        self.alive = True

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.alive:
            self.umount() if kind is None else self.drop()

    @property
    def pid(self):
        return self.process.pid

    def umount(self):
        """The good end: the command succeeds and the server ends with 0."""
        self.alive = False
        try:
            self.context.tasdfs("umount", self.path)
            status = self.process.wait(self.context.patience(20))
        except BaseException:
            print(where_it_is(self.pid))
            self.drop()
            raise
        assert status == 0, f"the server ended with {status}: {self.said()}"

    def drop(self):
        """The bad end: the mount is gone and so is the server."""
        self.alive = False
        with contextlib.suppress(OSError):
            self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        detach(self.path)

    def said(self):
        with open(self.log, errors="replace") as f:
            return f.read()


def where_it_is(pid):
    """What each thread of a process that should have ended is doing."""
    lines = [f"process {pid}:"]
    with contextlib.suppress(OSError):
        for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
            for name in ("stat", "stack"):
                with contextlib.suppress(OSError), open(
                        f"/proc/{pid}/task/{task}/{name}") as f:
                    lines.append(f.read(600).rstrip())
    return "\n".join(lines)


def detach(path):
    """Unmount lazily, with whatever privilege there is."""
    for argv in (["umount", "-l", path], ["fusermount3", "-uzq", path]):
        if subprocess.run(argv, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0:
            return


class Context:
    def __init__(self, tmp, binary, data, mode, user, flavour):
        self.tmp, self.binary, self.data = tmp, binary, data
        self.mode, self.user, self.flavour = mode, user, flavour
        self.mounts, self.count = [], 0

    # What the machine and this run are like.

    @property
    def sanitized(self):
        return self.flavour != "plain"

    @property
    def privileged(self):
        return os.geteuid() == 0

    def patience(self, seconds):
        """A limit that says 'hangs', for an instrumented build too.

        Generous where a disk is waited for: one that discards what is
        deleted has been seen to stall for many seconds.
        """
        return seconds * (1 if self.flavour == "plain" else 6)

    @staticmethod
    def skip(reason):
        raise Skip(reason)

    def need_root(self):
        if not self.privileged:
            self.skip("needs root")

    # Files.

    def path(self, *names):
        return os.path.join(self.tmp, *names)

    def mkdir(self, *names):
        path = self.path(*names)
        os.makedirs(path, exist_ok=True)
        return path

    # Commands.

    def environment(self, leaks=True):
        env = dict(os.environ, LC_ALL="C.UTF-8")
        if self.sanitized:
            log = self.path("sanitizer")
            env["ASAN_OPTIONS"] = (f"log_path={log}:detect_leaks={int(leaks)}"
                                   ":handle_abort=1:exitcode=99")
            env["UBSAN_OPTIONS"] = (f"log_path={log}:print_stacktrace=1"
                                    ":halt_on_error=1:exitcode=99")
            env["TSAN_OPTIONS"] = (f"log_path={log}:exitcode=99"
                                   ":second_deadlock_stack=1")
        return env

    def run(self, *argv, timeout=30, check=True, leaks=True, **kwargs):
        """Run a command to its end; its text comes back, errors raise."""
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        done = subprocess.run(argv, timeout=self.patience(timeout),
                              env=self.environment(leaks), text=True,
                              errors="surrogateescape", **kwargs)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(map(str, argv))}: exit status "
                                 f"{done.returncode}\n{done.stdout}"
                                 f"{done.stderr}")
        return done

    def tasdfs(self, *args, **kwargs):
        return self.run(self.binary, *args, **kwargs)

    # Mounts.

    def mount(self, source, *options, at=None, wrap=(), leaks=True,
              expect_fail=False, timeout=20):
        """Mount source in the foreground and wait until it is ready.

        options are -o words; the test's mode is among them unless they name
        one.  expect_fail: give back the finished process instead.
        """
        self.count += 1
        at = at or self.mkdir(f"mnt{self.count}")
        words = list(options)
        if not any(w.startswith("mode=") for w in words):
            words.append("mode=" + self.mode)
        log = self.path(f"server{self.count}.log")
        argv = [*wrap, self.binary, "mount", source, at, "-f",
                "-o", ",".join(words)]
        with open(log, "wb") as err:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=err, env=self.environment(leaks))
        line = self._ready(process, self.patience(timeout))
        mount = Mount(at, line, process, log, self)
        if expect_fail:
            if line is not None:
                mount.drop()
                raise AssertionError(f"mounted, and should not: {line}")
            status = process.wait(self.patience(5))
            return status, mount.said()
        if line is None:
            status = process.poll()
            if status is None:
                mount.drop()
            raise AssertionError(f"cannot mount {source} (exit status "
                                 f"{status}): {mount.said()}")
        self.mounts.append(mount)
        return mount

    @staticmethod
    def _ready(process, limit):
        """The line the server prints when it is ready; None if it ended."""
        end, text = time.monotonic() + limit, b""
        while b"\n" not in text:
            left = end - time.monotonic()
            if left <= 0:
                process.kill()
                raise AssertionError(f"not mounted after {limit} s")
            if not select.select([process.stdout], [], [], left)[0]:
                continue
            piece = os.read(process.stdout.fileno(), 4096)
            if not piece:
                return None
            text += piece
        return text.decode(errors="replace").splitlines()[0]

    def close(self, failed):
        """End what the test has not ended; shout when that does not work."""
        trouble = []
        for mount in reversed(self.mounts):
            if not mount.alive:
                continue
            if failed:
                mount.drop()
                continue
            try:
                mount.umount()
            except Exception as error:  # noqa: BLE001: told, not hidden
                trouble.append(str(error))
        return trouble

    def logs(self):
        for mount in self.mounts:
            text = mount.said()
            if text:
                yield os.path.basename(mount.log), text


# Small things that many tests say.

def xattr(path, name):
    """A user.tasd.* value as text; None when there is none."""
    try:
        value = os.getxattr(path, PREFIX + name, follow_symlinks=False)
        return value.decode("utf-8", "surrogateescape")
    except OSError as error:
        if error.errno == errno.ENODATA:
            return None
        raise


def xattrs(path):
    names = os.listxattr(path, follow_symlinks=False)
    return {n[len(PREFIX):]: xattr(path, n[len(PREFIX):])
            for n in names if n.startswith(PREFIX)}


def key_of(path):
    text = xattr(path, "key")
    return None if text is None else json.loads(text)


def read(path):
    with open(path, "rb", buffering=0) as f:
        pieces = []
        while piece := f.read(1 << 20):
            pieces.append(piece)
    return b"".join(pieces)


def walk(top):
    """Every path below top, relative, as bytes, in the order listed."""
    top = os.fsencode(top)

    def below(folder, prefix):
        with os.scandir(folder) as entries:
            listed = list(entries)
        for entry in listed:
            yield prefix + entry.name, entry
            if entry.is_dir(follow_symlinks=False):
                yield from below(entry.path, prefix + entry.name + b"/")
    return below(top, b"")


def leaves(top):
    """{key: path} of every tensor below a state dict's root."""
    found = {}
    for name, entry in walk(top):
        if not entry.is_dir(follow_symlinks=False):
            key = key_of(entry.path)
            assert key is not None, f"{name!r} has no key"
            assert len(key) == 1 and key[0] not in found, (name, key)
            found[key[0]] = entry.path
    return found


@contextlib.contextmanager
def fails(*numbers):
    """The block raises OSError with one of these numbers."""
    try:
        yield
    except OSError as error:
        names = [errno.errorcode[n] for n in numbers]
        assert error.errno in numbers, \
            f"{errno.errorcode.get(error.errno)} instead of {names}"
        return
    raise AssertionError(
        f"no error, want {[errno.errorcode[n] for n in numbers]}")


def until(condition, seconds, what):
    """Wait for what another process does by itself."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not after {seconds} s"
        time.sleep(0.01)


def in_child(function, seconds):
    """Run function in a child that can be killed: 'ok', 'timeout' or a signal.

    An exception in it is 'error: ...'.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = "ok"
        try:
            result = function()
            if result is not None:
                text = str(result)
        except BaseException as error:  # noqa: BLE001: handed to the parent
            text = f"error: {error!r}"
        os.write(write_end, text.encode()[:4000])
        os._exit(0)
    os.close(write_end)
    end = time.monotonic() + seconds
    try:
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                killed_by = time.monotonic() + 5
                while os.waitpid(pid, os.WNOHANG)[0] == 0:
                    assert time.monotonic() < killed_by, \
                        "the reader hangs and cannot be killed"
                    time.sleep(0.01)
                return "timeout"
            time.sleep(0.005)
        if os.WIFSIGNALED(status):
            return signal.Signals(os.WTERMSIG(status)).name
        return os.read(read_end, 8192).decode()
    finally:
        os.close(read_end)


def rss(pid):
    """Resident memory of a process, in bytes."""
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def mounted(path):
    """Is path a mount point (of ours or not), dead ones included?"""
    want = os.path.realpath(path)
    with open("/proc/self/mountinfo") as f:
        return any(unescape(line.split()[4]) == want for line in f)


def unescape(text):
    """A field of mountinfo, with its octal escapes undone."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), text)


def copy_tree(source, target):
    shutil.copytree(source, target, symlinks=True)
    return target


libc = ctypes.CDLL(None, use_errno=True)
