"""Mounting, unmounting, and every way a server can end."""
import errno
import os
import re
import signal
import subprocess
import time

from support import st
from support.harness import (MODES, detach, fails, in_child, mounted, read,
                             test, until, where_it_is)

BIG = 3 << 20


def source_of(t):
    return st.write(t.path("m.safetensors"), [
        st.u8("w", st.pattern(BIG)), st.u8("small", b"12345")])


def server_pid(mountpoint):
    text = read(os.path.join(mountpoint, ".tasd/stats")).decode()
    return int(re.search(r"^pid (\d+)$", text, re.M).group(1))


@test(modes=MODES, users=("root", "nobody"))
def test_background(t):
    """Returns when it is ready, with one line; umount waits for the end."""
    source, at = source_of(t), t.mkdir("at")
    done = t.tasdfs("mount", source, at, "-o", "mode=" + t.mode)
    try:
        # The pipe reached its end: the server keeps none of our files.
        assert len(done.stdout.splitlines()) == 1, done.stdout
        assert "safetensors" in done.stdout and "2 tensors" in done.stdout
        assert done.stderr == "", done.stderr
        assert read(os.path.join(at, "small")) == b"12345"
        pid = server_pid(at)
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        kept = [os.readlink(f"/proc/{pid}/fd/{n}") for n in (0, 1, 2)]
        assert not [k for k in kept if k.startswith("pipe")], kept
        assert os.getsid(pid) != os.getsid(0)
        t.tasdfs("umount", at)
    except BaseException:
        detach(at)
        raise
    assert not mounted(at)
    # It has ended; the supervisor has yet to collect it.
    with open(f"/proc/{pid}/stat") as f:
        assert f.read().rsplit(")", 1)[1].split()[0] == "Z"
    assert os.listdir(at) == []


@test()
def test_lines(t):
    """The one line says what it is."""
    source = source_of(t)
    rows = [(source, "safetensors"), (os.path.join(t.data, "hf_llama_tiny"),
                                      "tensors"), (t.mkdir("lib"), "library")]
    for place, word in rows:
        with t.mount(place) as m:
            assert word in m.line and m.path in m.line, m.line


@test(modes=MODES, users=("root", "nobody"))
def test_signals(t):
    """SIGTERM, SIGINT, SIGHUP: unmounted, exit status 0, even while busy."""
    source = source_of(t)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        for busy in (False, True):
            m = t.mount(source)
            fds = [os.open(m / "w", os.O_RDONLY)] if busy else []
            if busy:
                fds.append(os.open(m.path, os.O_RDONLY | os.O_DIRECTORY))
                os.pread(fds[0], 100, 0)
            os.kill(m.pid, number)
            status = m.process.wait(t.patience(20))
            assert status == 0, (number, busy, status, m.said())
            until(lambda: not mounted(m.path), t.patience(20), "unmounted")
            m.alive = False
            assert os.listdir(m.path) == []

            def after():
                got = os.pread(fds[0], 100, BIG // 2)
                assert got == st.pattern(BIG)[BIG // 2:][:100]
            if busy:
                got = in_child(after, t.patience(20))
                assert got == "ok" or "OSError" in got or "Errno" in got, got
            for fd in fds:
                os.close(fd)


@test(modes=MODES, users=("root", "nobody"))
def test_killed(t):
    """kill -9: errors at once; a new mount at that place clears the old."""
    source = source_of(t)
    m = t.mount(source)
    fd = os.open(m / "w", os.O_RDONLY)
    os.pread(fd, 10, 0)
    m.process.kill()
    m.process.wait()
    m.alive = False
    # Attributes that the kernel holds it may still tell; nothing else.
    for call in (lambda: os.stat(m / "nothing"), lambda: os.listdir(m.path),
                 lambda: os.open(m / "small", os.O_RDONLY),
                 lambda: os.getxattr(m / "w", "user.tasd.kind")):
        with fails(errno.ENOTCONN):
            call()

    def after():
        got = os.pread(fd, 100, BIG // 2)
        assert got == st.pattern(BIG)[BIG // 2:][:100]
    got = in_child(after, t.patience(20))
    assert got == "ok" or "Errno" in got or "Error" in got, got
    os.close(fd)
    with t.mount(source, at=m.path) as again:
        assert read(again / "small") == b"12345"
    assert not mounted(m.path), "the dead mount is still below"


@test(users=("root", "nobody"))
def test_dead_mount_is_unmounted(t):
    source = source_of(t)
    m = t.mount(source)
    m.process.kill()
    m.process.wait()
    m.alive = False
    t.tasdfs("umount", m.path)
    assert not mounted(m.path) and os.listdir(m.path) == []


@test(modes=MODES)
def test_killed_while_read(t):
    """Readers in the middle of reads end with an error, none hangs."""
    source = source_of(t)
    m = t.mount(source)
    pids = []
    for _ in range(8):
        pid = os.fork()
        if pid == 0:
            try:
                while True:
                    assert read(m / "w") == st.pattern(BIG)
            except OSError:
                os._exit(0)
            except BaseException:  # noqa: BLE001
                os._exit(1)
        pids.append(pid)
    time.sleep(0.3)
    m.process.kill()
    m.process.wait()
    m.alive = False
    end = time.monotonic() + t.patience(20)
    for pid in pids:
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                assert status == 0, status
                break
            assert time.monotonic() < end, "a reader hangs"
            time.sleep(0.01)
    detach(m.path)


def replace_and_look(t, m, path, seconds):
    """Children that look names up while a thread replaces the source."""
    pids = []
    for seed in range(4):
        pid = os.fork()
        if pid == 0:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                for name in ("a/w", "a/x", "b/w", "nothing", "a/nothing"):
                    try:
                        os.close(os.open(m / name, os.O_RDONLY))
                        os.listdir(m.path)
                    except FileNotFoundError:
                        pass
                    except OSError:
                        os._exit(0)
            os._exit(1)
        pids.append(pid)
    end, turn = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        turn += 1
        st.write(path + ".new", [st.u8(n, b"%d" % turn) for n in (
            "a.w", "a.x", "b.w", f"v{turn}.w")])
        os.rename(path + ".new", path)
        time.sleep(0.002)
    return pids


@test(users=("root", "nobody"), timeout=90)
def test_killed_while_telling(t):
    """Killed while it tells the kernel of changes: nobody waits for ever.

    The kernel holds a directory while its names are dropped; a thread that
    waits there keeps a dead server's connection open.
    """
    path = t.path("m.safetensors")
    for turn in range(15):
        st.write(path, [st.u8("a.w", b"0")])
        m = t.mount(path)
        pids = replace_and_look(t, m, path, 0.3)
        m.process.kill()
        m.alive = False
        end = time.monotonic() + t.patience(20)
        for pid in pids:
            while not os.waitpid(pid, os.WNOHANG)[0]:
                assert time.monotonic() < end, \
                    f"turn {turn}: a reader hangs\n" + where_it_is(m.pid)
                time.sleep(0.01)
        m.process.wait(5)
        detach(m.path)


@test(users=("root", "nobody"), timeout=90)
def test_ended_while_telling(t):
    """The same with SIGTERM: it ends, and with 0."""
    path = t.path("m.safetensors")
    for turn in range(15):
        st.write(path, [st.u8("a.w", b"0")])
        m = t.mount(path)
        pids = replace_and_look(t, m, path, 0.3)
        m.process.terminate()
        try:
            assert m.process.wait(t.patience(20)) == 0, m.said()
        except subprocess.TimeoutExpired:
            raise AssertionError(f"turn {turn}: it does not end\n" +
                                 where_it_is(m.pid)) from None
        m.alive = False
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        detach(m.path)


@test(modes=MODES, users=("root", "nobody"))
def test_busy(t):
    """umount while busy says who, and changes nothing; -l detaches."""
    source = source_of(t)
    m = t.mount(source)
    fd = os.open(m / "w", os.O_RDONLY)
    # A program started anew: one that has changed its user cannot be seen.
    user = subprocess.Popen(["sleep", "100"], stdin=fd)
    os.close(fd)
    done = t.tasdfs("umount", m.path, check=False)
    assert done.returncode == 1, done
    assert len(done.stderr.splitlines()) == 1 and "busy" in done.stderr
    assert str(user.pid) in done.stderr, done.stderr
    assert mounted(m.path) and read(m / "small") == b"12345"
    fd = os.open(m / "w", os.O_RDONLY)
    user.kill()
    user.wait()
    t.tasdfs("umount", "-l", m.path)
    assert not mounted(m.path)
    m.alive = False
    assert os.pread(fd, 100, 1 << 20) == st.pattern(BIG)[1 << 20:][:100]
    assert m.process.poll() is None, "ended while a file is open"
    os.close(fd)
    assert m.process.wait(t.patience(20)) == 0


@test(users=("root", "nobody"))
def test_other_tools_unmount(t):
    """umount(8) and fusermount3 end the server too, with status 0."""
    source = source_of(t)
    tools = [["fusermount3", "-u"]] + [["umount"]] * t.privileged
    for tool in tools:
        m = t.mount(source)
        read(m / "small")
        t.run(*tool, m.path)
        m.alive = False
        assert m.process.wait(t.patience(20)) == 0, m.said()


@test(users=("root", "nobody"))
def test_two_mounts(t):
    """One source at two places, and a mount of a file inside a mount."""
    source = source_of(t)
    folder = os.path.dirname(source)
    with t.mount(source) as a, t.mount(source) as b:
        assert read(a / "w") == read(b / "w")
    inner = t.mkdir("lib")
    st.write(os.path.join(inner, "x.safetensors"), [st.u8("w", b"inner")])
    with t.mount(inner) as outer:
        with t.mount(outer / "x.safetensors") as second:
            assert read(second / "w") == b"inner"
    assert folder == t.tmp


@test()
def test_usage(t):
    """Exit status 2 and one line for what makes no sense."""
    source, at = source_of(t), t.mkdir("at")
    for args in (["mount"], ["mount", source], ["mount", source, at, "more"],
                 ["mount", source, at, "-o", "nonsense"],
                 ["mount", source, at, "-o", "mode=fast"],
                 ["mount", source, at, "--nonsense"], ["umount"], ["nothing"]):
        done = t.tasdfs(*args, check=False)
        assert done.returncode == 2, (args, done)
        assert done.stdout == "" and done.stderr.strip(), (args, done)
        assert not mounted(at)
    done = t.tasdfs("umount", at, check=False)
    assert done.returncode == 1 and "not mounted" in done.stderr, done


@test(users=("root", "nobody"))
def test_ready_at_once(t):
    """What is mounted answers from the moment the command returns."""
    source, at = source_of(t), t.mkdir("at")
    for _ in range(20):
        t.tasdfs("mount", source, at)
        assert read(os.path.join(at, "small")) == b"12345"
        t.tasdfs("umount", at)
        assert not mounted(at)


@test(users=("root", "nobody"), modes=MODES)
def test_many_handles(t):
    """Two thousand open files, and all closed again."""
    import resource
    source = source_of(t)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3000:
        t.skip(f"at most {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (3000, hard))
    with t.mount(source) as m:
        fds = [os.open(m / ("w" if i % 2 else "small"), os.O_RDONLY)
               for i in range(2000)]
        for fd in fds[::97]:
            assert os.pread(fd, 3, 1)
        for fd in fds:
            os.close(fd)
        assert read(m / "small") == b"12345"


@test()
def test_short_of_descriptors(t):
    """A server with few descriptors refuses opens, and goes on after."""
    folder = t.mkdir("lib")
    for i in range(60):
        st.write(os.path.join(folder, f"m{i}"), [st.u8("w", b"%d" % i)])
    with t.mount(folder, wrap=("prlimit", "--nofile=40:40")) as m:
        held, refused = [], 0
        for i in range(60):
            try:
                held.append(os.open(m / f"m{i}", os.O_RDONLY))
            except OSError as error:
                assert error.errno in (errno.EMFILE, errno.ENFILE), error
                refused += 1
        assert refused
        for fd in held:
            os.close(fd)

        def well():
            try:
                return read(m / "m7") and read(m / "m7.tasd/w") == b"7"
            except OSError:
                return False
        until(well, 5, "well again")


@test()
def test_without_standard_descriptors(t):
    """A service manager may start us with none of the three open."""
    source, at = source_of(t), t.mkdir("mnt")
    with open(source, "rb") as f:
        before = f.read()
    for closed in ("<&-", ">&-", "<&- >&-", "<&- >&- 2>&-"):
        done = t.run("sh", "-c", f'exec "$@" {closed}', "sh", t.binary,
                     "mount", source, at, stdout=None, stderr=None)
        assert done.returncode == 0, closed
        assert read(os.path.join(at, "small")) == b"12345", closed
        t.tasdfs("umount", at)
        with open(source, "rb") as f:
            assert f.read() == before


@test()
def test_no_privilege_is_asked(t):
    """allow_other is off unless asked: another user sees nothing."""
    t.need_root()
    source = source_of(t)
    os.chmod(source, 0o644)
    with t.mount(source) as m:
        done = t.run("setpriv", "--reuid=65534", "--regid=65534",
                     "--clear-groups", "ls", m.path, check=False)
        assert done.returncode != 0
    with t.mount(source, "allow_other") as m:
        done = t.run("setpriv", "--reuid=65534", "--regid=65534",
                     "--clear-groups", "cat", m / "small")
        assert done.stdout == "12345"
    os.chmod(source, 0o600)
    with t.mount(source, "allow_other") as m:
        done = t.run("setpriv", "--reuid=65534", "--regid=65534",
                     "--clear-groups", "cat", m / "small", check=False)
        assert done.returncode != 0, "a 0600 file was shown to another user"


def stopped(pid):
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat") as f:
            if f.read().rsplit(")", 1)[1].split()[0] != "T":
                return False
    return True


@test(flavours=("plain",))
def test_stopped_server(t):
    """While the server is stopped, readers wait and can be killed."""
    source = source_of(t)
    with t.mount(source, "mode=direct") as m:
        fd = os.open(m / "w", os.O_RDONLY)
        os.kill(m.pid, signal.SIGSTOP)
        until(lambda: stopped(m.pid), 5, "all its threads have stopped")
        try:
            reader = subprocess.Popen(["cat", m / "small"],
                                      stdout=subprocess.DEVNULL)
            time.sleep(0.2)
            assert reader.poll() is None
            reader.kill()
            # Its request is with the kernel still: it goes at once.
            assert reader.wait(5) == -signal.SIGKILL
        finally:
            os.kill(m.pid, signal.SIGCONT)
        os.close(fd)
        assert read(m / "small") == b"12345"
