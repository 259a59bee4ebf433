"""A folder as it is, whose containers have a second face found by name."""
import errno
import filecmp
import os
import shutil
import socket
import stat
import time

from support import st
from support.harness import (MODES, fails, leaves, read, test, until, walk,
                             xattr)


def library(t, name="library"):
    """Plain files, containers, folders, links; what a model folder has."""
    top = t.mkdir(name)
    st.write(os.path.join(top, "model.safetensors"),
             [("a.w", "F32", [2], st.f32(1, 2)), st.u8("b", b"bytes")])
    st.write(os.path.join(top, "runs/1/step-10.safetensors"),
             [("a.w", "F32", [2], st.f32(3, 4))])
    st.write_sharded(os.path.join(top, "sharded"), [
        [("x", "F32", [1], st.f32(5))], [("y", "F32", [1], st.f32(6))]])
    st.put(os.path.join(top, "sharded/config.json"), b"{}")
    st.put(os.path.join(top, "README.md"), b"# words\n")
    st.put(os.path.join(top, "empty"), b"")
    st.put(os.path.join(top, "broken.safetensors"), b"not one")
    st.put(os.path.join(top, "big.bin"), st.pattern(3 << 20, seed=9))
    os.makedirs(os.path.join(top, "void"))
    os.symlink("model.safetensors", os.path.join(top, "latest"))
    os.symlink("runs/1", os.path.join(top, "last-run"))
    os.chmod(os.path.join(top, "README.md"), 0o604)
    for folder, names, files in os.walk(top):
        for file in files:
            path = os.path.join(folder, file)
            os.utime(path, ns=(10**18, 10**18 + len(file)),
                     follow_symlinks=False)
    return top


def equal_trees(a, b, resolution=1):
    """Names, kinds, bytes, links, times and modes (but for write bits).

    resolution: of the times, in nanoseconds.
    """
    left = {n: e for n, e in walk(a)}
    right = {n: e for n, e in walk(b)}
    assert set(left) == set(right), set(left) ^ set(right)
    for name, entry in left.items():
        one, two = os.lstat(entry.path), os.lstat(right[name].path)
        assert stat.S_IFMT(one.st_mode) == stat.S_IFMT(two.st_mode), name
        if entry.is_symlink():
            assert os.readlink(entry.path) == os.readlink(right[name].path)
            continue
        assert one.st_mode & 0o7555 == two.st_mode & 0o7555, name
        assert one.st_mtime_ns // resolution == \
            two.st_mtime_ns // resolution, name
        if entry.is_file():
            assert filecmp.cmp(entry.path, right[name].path, False), name


@test(modes=MODES, users=("root", "nobody"))
def test_two_faces(t):
    top = library(t)
    with t.mount(top) as m:
        equal_trees(top, m.path)
        for name in ("model.safetensors", "latest"):
            face = m / name + ".tasd"
            assert stat.S_ISDIR(os.stat(face).st_mode)
            assert set(leaves(face)) == {"a.w", "b"}
            assert read(face + "/a/w") == st.f32(1, 2)
            assert xattr(face, "format") == "safetensors"
        assert read(m / "runs/1/step-10.safetensors.tasd/a/w") == st.f32(3, 4)
        assert read(m / "last-run/step-10.safetensors.tasd/a/w") == \
            st.f32(3, 4)
        assert read(m / "sharded.tasd/y") == st.f32(6)
        index = m / "sharded/model.safetensors.index.json.tasd"
        assert read(index + "/x") == st.f32(5)
        shard = m / "sharded/model-00002-of-00002.safetensors.tasd"
        assert set(leaves(shard)) == {"y"}
        for name in ("README.md", "empty", "void", "runs", "big.bin",
                     "nothing", "broken.safetensors", "runs/1",
                     "model.safetensors.tasd", "model.safetensor"):
            with fails(errno.ENOENT, errno.EINVAL, errno.EIO, errno.ENOTSUP,
                       errno.ENOTDIR, errno.EBADMSG):
                os.listdir(m / name + ".tasd")
        equal_trees(top, m.path)


@test(users=("root", "nobody"))
def test_faces_both(t):
    """faces=both lists each face beside its container, and only there."""
    top = library(t)
    with t.mount(top, "faces=both") as m:
        # A link to a container is one too, by its own name.
        assert set(os.listdir(m.path)) == set(os.listdir(top)) | {
            "model.safetensors.tasd", "sharded.tasd", "latest.tasd"}
        assert set(os.listdir(m / "runs/1")) == {
            "step-10.safetensors", "step-10.safetensors.tasd"}
        assert "model.safetensors.index.json.tasd" in os.listdir(m / "sharded")
        assert os.listdir(m / "void") == []
        assert set(os.listdir(m / "model.safetensors.tasd")) == {"a", "b"}
        # A scan looks through them.
        found = t.run("find", m.path, "-name", "w").stdout.split()
        assert {m / "model.safetensors.tasd/a/w",
                m / "runs/1/step-10.safetensors.tasd/a/w"} <= set(found)


@test()
def test_real_name_wins(t):
    """An entry that is called NAME.tasd is what that name means."""
    top = t.mkdir("library")
    for name in ("file", "folder", "dangling"):
        st.write(os.path.join(top, name), [st.u8("w", b"tensor")])
    st.put(os.path.join(top, "file.tasd"), b"real")
    st.put(os.path.join(top, "folder.tasd/inner"), b"real")
    os.symlink("nowhere", os.path.join(top, "dangling.tasd"))
    for options in ((), ("faces=both",)):
        with t.mount(top, *options) as m:
            assert read(m / "file.tasd") == b"real"
            assert os.listdir(m / "folder.tasd") == ["inner"]
            assert os.path.islink(m / "dangling.tasd")
            listed = os.listdir(m.path)
            assert sorted(listed) == sorted(os.listdir(top)), listed


@test(modes=MODES, timeout=120, needs=("rsync",))
def test_copies(t):
    """cp -a, tar, rsync and du see each checkpoint once, and equal it."""
    top = library(t)
    with t.mount(top) as m:
        t.run("cp", "-a", m.path + "/.", t.mkdir("cp"))
        equal_trees(top, t.path("cp"))
        t.run("diff", "-r", "--no-dereference", top, t.path("cp"))
        t.run("tar", "-C", m.path, "-cf", t.path("all.tar"), ".")
        t.run("tar", "-C", t.mkdir("tar"), "-xpf", t.path("all.tar"))
        equal_trees(top, t.path("tar"), resolution=10**9)
        st.put(t.path("rsync/stale"), b"to be deleted")
        t.run("rsync", "-a", "--delete", m.path + "/", t.path("rsync") + "/")
        equal_trees(top, t.path("rsync"), resolution=10**9)
        # Nothing more to do, neither way.
        for a, b in ((m.path, t.path("rsync")), (top, m.path)):
            out = t.run("rsync", "-ain", "--no-perms", "--omit-dir-times",
                        "--delete", a + "/", b + "/").stdout
            assert not [x for x in out.split("\n") if x and x[0] in ">*"], out
        sizes = [int(t.run("du", "-s", "--apparent-size", "-B1", p)
                     .stdout.split()[0]) for p in (top, m.path)]
        slack = 8192 * sum(1 for _, e in walk(top) if e.is_dir()) + 8192
        assert abs(sizes[0] - sizes[1]) <= slack, sizes
        blocks = [int(t.run("du", "-s", "-B1", p).stdout.split()[0])
                  for p in (top, m.path)]
        assert abs(blocks[0] - blocks[1]) <= slack, blocks
        found = t.run("find", m.path, "-type", "f").stdout.split("\n")
        assert not [f for f in found if ".tasd" in f]


@test()
def test_copy_of_a_state_dict(t):
    """cp -r of a face gives plain folders of raw tensors."""
    top = library(t)
    with t.mount(top) as m:
        t.run("cp", "-r", m / "model.safetensors.tasd", t.path("copy"))
        assert read(t.path("copy/a/w")) == st.f32(1, 2)
        t.run("diff", "-r", m / "model.safetensors.tasd", t.path("copy"))


@test(users=("root", "nobody"))
def test_root_is_folder(t):
    folder = os.path.join(t.data, "hf_llama_tiny")
    with t.mount(folder, "root=folder") as m:
        equal_trees(folder, m.path)
        face = m / "model.safetensors.index.json.tasd"
        assert os.path.isfile(face + "/lm_head/weight")
        assert len(leaves(m / "model-00001-of-00002.safetensors.tasd"))
        assert os.path.isfile(m / ".tasd/stats")
    with t.mount(folder) as m:
        assert "lm_head" in os.listdir(m.path)


@test(timeout=120)
def test_a_thousand(t):
    """A thousand checkpoints mount at once; each is read when looked at."""
    top = t.mkdir("many")
    for i in range(1000):
        st.write(os.path.join(top, f"step-{i:04}.safetensors"),
                 [(f"l.{j}.w", "F32", [1], st.f32(i)) for j in range(20)])
    start = time.monotonic()
    with t.mount(top) as m:
        took = time.monotonic() - start
        assert took < t.patience(1.0), f"{took:.2f} s to mount"
        assert len(os.listdir(m.path)) == 1000
        for i in (0, 500, 999):
            face = m / f"step-{i:04}.safetensors.tasd"
            assert read(face + "/l/7/w") == st.f32(i)
        stats = read(m / ".tasd/stats").decode()
        line = next(x for x in stats.splitlines() if "containers" in x)
        assert int(line.split()[-1]) <= 10, f"read before looked at: {line}"
        for i in range(1000):
            face = m / f"step-{i:04}.safetensors.tasd"
            assert read(face + "/l/19/w") == st.f32(i)


@test(users=("root", "nobody"))
def test_special_files(t):
    """Fifos, sockets and devices: seen, and nothing hangs on them."""
    top = library(t)
    os.mkfifo(os.path.join(top, "fifo"))
    listener = socket.socket(socket.AF_UNIX)
    os.chdir(top)  # a socket's path has to be short
    listener.bind("socket")
    os.chdir(t.tmp)
    if t.privileged:
        os.mknod(os.path.join(top, "null"), 0o20666, os.makedev(1, 3))
    for options in ((), ("faces=both",)):
        with t.mount(top, *options) as m:
            names = set(os.listdir(m.path))
            assert "fifo" in names and "socket" in names
            assert stat.S_ISFIFO(os.lstat(m / "fifo").st_mode)
            for name in ("fifo", "socket", "null"):
                with fails(errno.ENOENT, errno.EINVAL, errno.ENOTSUP,
                           errno.EIO, errno.ENOTDIR):
                    os.listdir(m / name + ".tasd")
            t.run("ls", "-lR", m.path)
            assert read(m / "README.md") == b"# words\n"
    listener.close()


@test(users=("root", "nobody"))
def test_permissions(t):
    """What the caller may not read stays unreadable, and tells no more."""
    top = library(t)
    os.chmod(os.path.join(top, "model.safetensors"), 0)
    os.chmod(os.path.join(top, "runs"), 0)
    try:
        with t.mount(top) as m:
            assert stat.S_IMODE(os.stat(m / "model.safetensors").st_mode) == 0
            if not t.privileged:
                for path in ("model.safetensors", "runs/1",
                             "model.safetensors.tasd/a/w",
                             "runs/1/step-10.safetensors.tasd"):
                    with fails(errno.EACCES, errno.ENOENT):
                        os.close(os.open(m / path, os.O_RDONLY))
            assert read(m / "README.md") == b"# words\n"
            assert read(m / "sharded.tasd/x") == st.f32(5)
    finally:
        os.chmod(os.path.join(top, "runs"), 0o755)


@test(modes=MODES)
def test_names_come_and_go(t):
    """Within a second or so, a library shows what the folder holds."""
    top = library(t)
    with t.mount(top) as m:
        with fails(errno.ENOENT):
            os.stat(m / "new.safetensors")
        with fails(errno.ENOENT):
            os.stat(m / "new.safetensors.tasd")
        st.write(os.path.join(top, "new.safetensors"), [st.u8("w", b"new")])
        until(lambda: "new.safetensors" in os.listdir(m.path), 3, "listed")
        until(lambda: os.path.exists(m / "new.safetensors.tasd"), 3, "faced")
        assert read(m / "new.safetensors.tasd/w") == b"new"
        os.unlink(os.path.join(top, "new.safetensors"))
        until(lambda: "new.safetensors" not in os.listdir(m.path), 3, "gone")
        until(lambda: not os.path.exists(m / "new.safetensors.tasd"), 3,
              "face gone")
        os.rename(os.path.join(top, "runs"), os.path.join(top, "moved"))
        until(lambda: os.path.exists(
            m / "moved/1/step-10.safetensors.tasd/a/w"), 3, "moved")
        until(lambda: not os.path.exists(m / "runs"), 3, "old name gone")


@test()
def test_relative_and_odd_paths(t):
    """Sources and mount points as people type them."""
    top = library(t)
    odd = shutil.copytree(top, t.path("a b\tc\\ü,=%s"), symlinks=True)
    os.chdir(t.tmp)
    with t.mount("library", at="library/../" + os.path.basename(
            t.mkdir("m n,o"))) as m:
        assert read(t.path("m n,o", "README.md")) == b"# words\n"
    with t.mount(odd) as m:
        equal_trees(odd, m.path)
    with t.mount("library/", at=t.mkdir("slash") + "/") as m:
        equal_trees(top, m.path)
    os.chdir(top)
    with t.mount(".") as m:
        equal_trees(top, m.path)
    os.chdir(t.tmp)


@test()
def test_refused_places(t):
    """A source around its own mount point, and places that are none."""
    top = library(t)
    rows = [(top, top), (top, os.path.join(top, "void")),
            (top, os.path.join(top, "runs/1")), (top, t.path("nowhere")),
            (t.path("nothing"), t.mkdir("m1")), (top, os.path.join(
                top, "README.md")), ("/dev/null", t.mkdir("m2")),
            (os.path.join(top, "README.md"), t.mkdir("m3"))]
    os.symlink(os.path.join(top, "void"), t.path("through"))
    rows.append((top, t.path("through")))
    for source, at in rows:
        status, said = t.mount(source, at=at, expect_fail=True)
        assert status == 1, (source, at, status)
        assert len(said.splitlines()) == 1, (source, at, said)
