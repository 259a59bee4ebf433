#!/usr/bin/env python3
"""Run the tests that mount something.

    run.py [--tasdfs PROGRAM] [--flavour plain|asan|tsan] [--jobs N]
           [--list] [--tally FILE] [--keep] [PATTERN...]

A test is a function test_*(t) in tests/SUITE/test_*.py (see
support/harness.py); PATTERNs are parts of the names that --list prints.

Each test has a supervisor process of its own, in a mount namespace of its own
where that is allowed.  It adopts whatever the test starts, kills all of it
when the time is up or the test has returned, unmounts, and fails a test that
left a server or a mount behind.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import ctypes
import importlib
import inspect
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
SUITES = ("mount", "real")
PASS, FAIL, SKIP = 0, 1, 77
PR_SET_CHILD_SUBREAPER = 36
PR_SET_PDEATHSIG = 1
CLONE_NEWNS = 0x20000
OUTPUT_MAX = 20000

sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
from support import harness  # noqa: E402

Case = collections.namedtuple("Case", "name module function mode user spec")


def discover(flavour, only=None):
    """Every test this flavour runs, once for each mode and user.

    only: the name of one, so that no other module need be loaded.
    """
    for suite in SUITES:
        for file in sorted(os.listdir(os.path.join(HERE, suite))):
            if not (file.startswith("test_") and file.endswith(".py")):
                continue
            short = file[len("test_"):-len(".py")]
            if only and not only.startswith(f"{suite}/{short}/"):
                continue
            module = importlib.import_module(f"{suite}.test_{short}")
            for case in cases_of(f"{suite}/{short}", module, flavour):
                if not only or case.name == only:
                    yield case


def cases_of(where, module, flavour):
    found = [(f.__code__.co_firstlineno, n, f)
             for n, f in inspect.getmembers(module, inspect.isfunction)
             if n.startswith("test_") and f.__module__ == module.__name__]
    for _, name, function in sorted(found):
        spec = harness.spec_of(function)
        if flavour not in spec["flavours"]:
            continue
        for mode in spec["modes"]:
            for user in spec["users"]:
                words = [w for w, more in ((mode, len(spec["modes"]) > 1),
                                           (user, len(spec["users"]) > 1))
                         if more]
                suffix = f"[{','.join(words)}]" if words else ""
                yield Case(f"{where}/{name[len('test_'):]}{suffix}",
                           module.__name__, name, mode, user, spec)


# The supervisor: one test.

def children_of(pids):
    """All descendants of pids, by a look through /proc."""
    parents = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry}/stat", "rb") as f:
                rest = f.read().rsplit(b")", 1)[1].split()
            parents.setdefault(int(rest[1]), []).append(
                (int(entry), rest[0] == b"Z"))
    found, queue = {}, list(pids)
    while queue:
        for pid, zombie in parents.get(queue.pop(), ()):
            found[pid] = zombie
            queue.append(pid)
    return found


def reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def living():
    """Descendants that have not ended: a dead main thread is no end."""
    reap()
    return [p for p, zombie in children_of([os.getpid()]).items()
            if not zombie or len(os.listdir(f"/proc/{p}/task")) > 1]


def end_descendants():
    """Kill all that is left; returns the names of what was still running."""
    names = []
    for _ in range(300):
        alive = living()
        if not alive:
            return names
        for pid in alive:
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    words = f.read().split(b"\0")
                if f"{pid}" not in (n.split()[0] for n in names):
                    names.append(f"{pid} {b' '.join(words)!r}")
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return names


def mounts_below(folder):
    with open("/proc/self/mountinfo") as f:
        points = [harness.unescape(line.split()[4]) for line in f]
    return [p for p in points if p == folder or p.startswith(folder + "/")]


def isolate(user, tmp):
    """A mount namespace of our own; a /dev/fuse for all in it for nobody."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        return
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    if user != "nobody":
        return
    dev = os.path.join(tmp, ".dev")
    os.mkdir(dev)
    node = os.path.join(dev, "fuse")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0755",
                    "tasdfs-test", dev], check=True)
    os.mknod(node, 0o20666, os.makedev(10, 229))
    os.chmod(node, 0o666)
    subprocess.run(["mount", "--bind", node, "/dev/fuse"], check=True)


def become_nobody(tmp):
    for folder, _, files in os.walk(tmp):
        if os.path.basename(folder) == ".dev":
            continue
        os.chown(folder, harness.NOBODY, harness.NOBODY)
    os.setgroups([])
    os.setresgid(*[harness.NOBODY] * 3)
    os.setresuid(*[harness.NOBODY] * 3)
    os.environ["HOME"] = tmp
    os.environ["USER"] = os.environ["LOGNAME"] = "nobody"


def body(case, args, tmp):
    """The test itself; its exit status says how it went."""
    if case.user == "nobody":
        become_nobody(tmp)
    os.chdir(tmp)
    function = getattr(importlib.import_module(case.module), case.function)
    context = harness.Context(tmp, args.tasdfs, args.data, case.mode,
                              case.user, args.flavour)
    status, trouble = FAIL, []
    try:
        for command in case.spec["needs"]:
            if not shutil.which(command):
                context.skip(f"there is no {command}")
        # Ignored under nohup or behind a shell's &, they would be ignored by
        # all that is started here.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        function(context)
        status = PASS
    except harness.Skip as reason:
        print(f"skipped: {reason}")
        status = SKIP
    except BaseException:  # noqa: BLE001: the supervisor prints it
        traceback.print_exc()
    finally:
        trouble = context.close(failed=status == FAIL)
    if trouble:
        print(*trouble, sep="\n")
        status = FAIL
    if status == FAIL:
        for name, text in context.logs():
            print(f"--- {name}\n{text}")
    return status


def wait_body(pid, limit):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            if code < 0:
                print(f"ended by {signal.Signals(-code).name}")
            return code if code in (PASS, SKIP) else FAIL
        time.sleep(0.005)
    print(f"TIMEOUT after {limit} s")
    for child in children_of([os.getpid()]):
        print(harness.where_it_is(child))
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.5)
    return FAIL


def tidy(tmp, status):
    """Nothing may stay: not a process, not a mount, not a complaint."""
    left = end_descendants()
    if living():
        # Waiting in the kernel for a server that is dead already: breaking
        # the connection, as only a forced unmount can, lets them go.
        for point in mounts_below(tmp):
            subprocess.run(["umount", "-f", point],
                           stderr=subprocess.DEVNULL)
        print("could not be killed:", *left, sep="\n  ")
        end_descendants()
        status = FAIL
    if left and status == PASS:
        print("left running:", *left, sep="\n  ")
        status = FAIL
    points = [p for p in mounts_below(tmp) if os.path.basename(p) != ".dev"]
    if points and status == PASS:
        print("left mounted:", *points, sep="\n  ")
        status = FAIL
    for point in reversed(points):
        harness.detach(point)
    for name in sorted(os.listdir(tmp)):
        if name.startswith("sanitizer."):
            with open(os.path.join(tmp, name), errors="replace") as f:
                print(f"--- {name}\n{f.read(OUTPUT_MAX)}")
            status = FAIL
    return status


def supervise(case, args):
    import faulthandler
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # The runner's end, however it comes, ends this test and tidies up too.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(FAIL))
    tmp = os.path.realpath(tempfile.mkdtemp(prefix="t", dir=args.tmp))
    os.chmod(tmp, 0o755)
    isolate(case.user, tmp)
    limit = case.spec["timeout"] * (1 if args.flavour == "plain" else 4)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        status = FAIL
        try:
            status = body(case, args, tmp)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    status = FAIL
    try:
        status = wait_body(pid, limit)
    finally:
        status = tidy(tmp, status)
    if not args.keep:
        subprocess.run(["umount", "-q", os.path.join(tmp, ".dev")],
                       stderr=subprocess.DEVNULL)
        if not mounts_below(tmp):
            shutil.rmtree(tmp, ignore_errors=True)
    return status


# The runner: all of them.

class Board:
    """What is printed, and counted, by several threads."""

    def __init__(self, total):
        self.total, self.done = total, 0
        self.counts = collections.Counter()
        self.failed = []
        self.lock = threading.Lock()

    def report(self, case, status, seconds, output):
        word = {PASS: "ok", SKIP: "skip"}.get(status, "FAILED")
        with self.lock:
            self.done += 1
            self.counts[word] += 1
            note = ""
            if word == "skip" and output.strip():
                note = "  " + output.strip().splitlines()[-1]
            print(f"[{self.done}/{self.total}] {word:6} {case.name}"
                  f"  {seconds:.1f} s{note}", flush=True)
            if word == "FAILED":
                self.failed.append(case.name)
                print(indent(output[-OUTPUT_MAX:]), flush=True)


def indent(text):
    return "".join(f"    {line}\n" for line in text.splitlines())


def run_case(case, args, board):
    start = time.monotonic()
    limit = case.spec["timeout"] * (1 if args.flavour == "plain" else 4) + 60
    argv = [sys.executable, os.path.abspath(__file__), "--one", case.name,
            "--tasdfs", args.tasdfs, "--data", args.data, "--tmp", args.tmp,
            "--flavour", args.flavour] + ["--keep"] * args.keep
    with tempfile.TemporaryFile(dir=args.tmp) as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        out.seek(0)
        output = out.read().decode(errors="replace")
    board.report(case, status, time.monotonic() - start, output)


def run_all(cases, args):
    board = Board(len(cases))
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda c: run_case(c, args, board),
                      [c for c in cases if not c.spec["alone"]]))
    for case in cases:
        if case.spec["alone"]:
            run_case(case, args, board)
    return board


def share(tmp, binary):
    """Copies that a user without rights can reach, wherever the tree is."""
    folder = os.path.join(tmp, "share")
    os.mkdir(folder)
    program = shutil.copy2(binary, os.path.join(folder, "tasdfs"))
    shutil.copy2(os.path.join(os.path.dirname(binary), "mount.fuse.tasdfs"),
                 folder)
    # The server, which `tasdfs mount` looks for beside itself.
    shutil.copy2(os.path.join(os.path.dirname(os.path.realpath(binary)),
                              "mount.fuse.tasdfs"), folder)
    data = harness.copy_tree(os.path.join(HERE, "data"),
                             os.path.join(folder, "data"))
    checker = os.path.join(HERE, "real", "check_mount.py")
    shutil.copy2(checker, os.path.join(folder, "check_mount.py"))
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    return program, data


def arguments():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--tasdfs", default=os.path.join(HERE, "../build/tasdfs"))
    ap.add_argument("--flavour", default="plain",
                    choices=("plain", "asan", "tsan"))
    ap.add_argument("--jobs", type=int, default=max(2, os.cpu_count() or 2))
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--keep", action="store_true", help="keep the folders")
    ap.add_argument("--tally", help="write 'passed failed skipped' there")
    ap.add_argument("patterns", nargs="*")
    ap.add_argument("--one", help=argparse.SUPPRESS)
    ap.add_argument("--data", help=argparse.SUPPRESS)
    ap.add_argument("--tmp", help=argparse.SUPPRESS)
    return ap.parse_args()


def main():
    args = arguments()
    if args.one:
        case, = discover(args.flavour, args.one)
        return supervise(case, args)
    cases = [c for c in discover(args.flavour)
             if not args.patterns or any(p in c.name for p in args.patterns)]
    if args.list:
        print(*(c.name for c in cases), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="tasdfs-test-") as tmp:
        tmp = args.tmp = os.path.realpath(tmp)
        os.chmod(tmp, 0o755)
        args.tasdfs, args.data = share(tmp, args.tasdfs)
        board = run_all(cases, args)
        for point in reversed(mounts_below(tmp)):
            harness.detach(point)
    counts = [board.counts[w] for w in ("ok", "FAILED", "skip")]
    if args.tally:
        with open(args.tally, "w") as f:
            print(*counts, file=f)
    if board.failed:
        print("failed:", *board.failed, sep="\n    ")
    print("mounted tests ({}): {} ok, {} FAILED, {} skipped".format(
        args.flavour, *counts))
    return 1 if counts[1] or not counts[0] else 0


if __name__ == "__main__":
    sys.exit(main())
