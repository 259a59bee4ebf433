"""Many threads, every call, while the source is replaced.

Each tensor of a version is filled with that version's byte, so whatever a
reader gets in one open must be of one version.  Run with the thread
sanitizer's build as well, which sees what no assertion does.
"""
import mmap
import os
import random
import threading
import time

from support import st
from support.harness import MODES, read, test

NAMES = ["a.b.c", "a.b.d", "top", "deep.er.and.deep.er"]
SIZES = [100, 70_000, 1_500_000]
EXPECTED = (OSError,)


def put(path, version):
    """Replace the source by a version of its own size and names."""
    fill = bytes([version & 255])
    tensors = [st.u8(n, fill * SIZES[(i + version) % 3])
               for i, n in enumerate(NAMES)]
    tensors.append(st.u8(f"v{version % 7}.x", fill * 1000))
    st.write(path + ".new", tensors, {"version": str(version)})
    os.rename(path + ".new", path)


class Stress:
    def __init__(self, top, face, seconds):
        self.top, self.face = top, face
        self.end = time.monotonic() + seconds
        self.failures, self.done = [], 0

    def spin(self, work, seed):
        rng, count = random.Random(seed), 0
        try:
            while time.monotonic() < self.end and not self.failures:
                try:
                    work(rng)
                except EXPECTED:
                    pass  # it changed meanwhile, and said so
                count += 1
        except BaseException as error:  # noqa: BLE001
            self.failures.append(f"{work.__name__}: {error!r}")
        self.done += count

    def pick(self, rng):
        return os.path.join(self.face, rng.choice(NAMES).replace(".", "/"))

    # One turn of each kind of caller.

    def read_whole(self, rng):
        data = read(self.pick(rng))
        assert len(set(data)) == 1, "two versions in one read"
        assert len(data) in SIZES, len(data)

    def read_parts(self, rng):
        fd = os.open(self.pick(rng), os.O_RDONLY)
        try:
            size = os.fstat(fd).st_size
            seen = set()
            for _ in range(5):
                seen |= set(os.pread(fd, 4096, rng.randrange(size)))
            assert len(seen) == 1, "two versions in one open"
        finally:
            os.close(fd)

    def map(self, rng):
        fd = os.open(self.pick(rng), os.O_RDONLY)
        try:
            view = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE,
                             prot=mmap.PROT_READ)
            view.close()  # a touch could be SIGBUS, rightly
        except ValueError:
            pass
        finally:
            os.close(fd)

    def stat(self, rng):
        for path in (self.face, self.pick(rng)):
            os.stat(path)
            for name in os.listxattr(path):
                os.getxattr(path, name)

    def list(self, rng):
        names = os.listdir(self.face)
        assert len(names) == len(set(names)), names
        for folder, _, _ in os.walk(self.face):
            assert folder

    def index(self, rng):
        where = os.path.join(self.face, ".tasd")
        name = rng.choice(["index.json", "index.msgpack", "tree"])
        read(os.path.join(where, name))
        os.listdir(os.path.join(where, "flat"))
        read(os.path.join(where, "npy/top.npy"))

    def stats(self, rng):
        read(os.path.join(self.top, ".tasd/stats"))
        time.sleep(0.01)

    def run(self, put_path, pause):
        works = [self.read_whole, self.read_whole, self.read_parts, self.map,
                 self.stat, self.list, self.index, self.stats]
        threads = [threading.Thread(target=self.spin, args=(w, i))
                   for i, w in enumerate(works)]
        for thread in threads:
            thread.start()
        version = 1
        while time.monotonic() < self.end and not self.failures:
            version += 1
            put(put_path, version)
            time.sleep(pause)
        for thread in threads:
            thread.join()
        assert not self.failures, self.failures
        print(f"{self.done} turns, {version} versions")
        assert self.done > 50 and version > 5, (self.done, version)


def seconds(t):
    return {"plain": 5, "asan": 8, "tsan": 15}[t.flavour]


@test(modes=MODES, flavours=("plain", "asan", "tsan"), timeout=90)
def test_one_file(t):
    path = t.path("m.safetensors")
    put(path, 1)
    with t.mount(path) as m:
        Stress(m.path, m.path, seconds(t)).run(path, 0.05)


@test(modes=MODES, flavours=("plain", "asan", "tsan"), timeout=90)
def test_in_a_library(t):
    folder = t.mkdir("library")
    path = os.path.join(folder, "m.safetensors")
    put(path, 1)
    with t.mount(folder, "faces=both") as m:
        Stress(m.path, m / "m.safetensors.tasd", seconds(t)).run(path, 0.05)


@test(flavours=("plain", "asan", "tsan"), timeout=90)
def test_names_change(t):
    """Checkpoints come and go while a library is searched."""
    folder = t.mkdir("library")
    end = time.monotonic() + seconds(t)
    failures = []

    def look():
        try:
            while time.monotonic() < end:
                try:
                    for name in os.listdir(m.path):
                        face = m / name + ".tasd/w"
                        assert read(face) == name.encode(), face
                except OSError:
                    pass
        except BaseException as error:  # noqa: BLE001
            failures.append(repr(error))

    with t.mount(folder) as m:
        threads = [threading.Thread(target=look) for _ in range(6)]
        for thread in threads:
            thread.start()
        count = 0
        while time.monotonic() < end:
            name = f"step{count}"
            st.write(t.path("new"), [st.u8("w", name.encode())])
            os.rename(t.path("new"), os.path.join(folder, name))
            if count > 8:
                os.unlink(os.path.join(folder, f"step{count - 8}"))
            count += 1
            time.sleep(0.01)
        for thread in threads:
            thread.join()
    assert not failures, failures


@test(flavours=("plain", "asan", "tsan"), timeout=90)
def test_forgotten_meanwhile(t):
    """The kernel forgets nodes while they are looked up and read."""
    if not t.privileged:
        t.skip("needs root to drop caches")
    source = st.write(t.path("m"), [
        st.u8(f"g{i % 50}.w{i}", b"%d" % i) for i in range(1000)])
    end = time.monotonic() + seconds(t)
    failures = []

    def look(seed):
        rng = random.Random(seed)
        try:
            while time.monotonic() < end:
                i = rng.randrange(1000)
                assert read(m / f"g{i % 50}/w{i}") == b"%d" % i
        except BaseException as error:  # noqa: BLE001
            failures.append(repr(error))

    with t.mount(source) as m:
        threads = [threading.Thread(target=look, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            with open("/proc/sys/vm/drop_caches", "w") as f:
                f.write("2")
            time.sleep(0.02)
        for thread in threads:
            thread.join()
    assert not failures, failures


@test(flavours=("plain", "asan", "tsan"), timeout=60)
def test_unmounted_meanwhile(t):
    """SIGTERM in the middle of it all, again and again."""
    import signal
    path = t.path("m.safetensors")
    for turn in range(3):
        put(path, turn + 1)
        m = t.mount(path)
        stress = Stress(m.path, m.path, 2)
        works = [stress.read_whole, stress.stat, stress.list, stress.index]
        threads = [threading.Thread(target=stress.spin, args=(w, turn))
                   for w in works]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        put(path, turn + 2)
        os.kill(m.pid, signal.SIGTERM)
        status = m.process.wait(t.patience(20))
        for thread in threads:
            thread.join()
        m.alive = False
        assert status == 0, (status, m.said())
        assert not [f for f in stress.failures if "Error" not in f]
