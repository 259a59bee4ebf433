"""Hugging Face hub caches: snapshots are links to blobs beside them."""
import errno
import hashlib
import json
import os

from support import st
from support.harness import MODES, fails, leaves, read, test, xattr

REPO = "models--org--name"


def cache(t, *names):
    """A hub cache with one repository and one revision; its root."""
    root = t.mkdir(*(names or ("hub",)))
    repo = os.path.join(root, REPO)
    st.put(os.path.join(repo, "refs/main"), b"abc123")
    snapshot = os.path.join(repo, "snapshots/abc123")
    files = {
        "config.json": b'{"model_type": "tiny"}',
        "model-00001-of-00002.safetensors": st.build(
            [("a.x", "F32", [1], st.f32(1))], {"format": "pt"}),
        "model-00002-of-00002.safetensors": st.build(
            [("b.x", "F32", [1], st.f32(2))], {"format": "pt"}),
        "sub/extra.safetensors": st.build([("e", "F32", [1], st.f32(3))]),
    }
    files["model.safetensors.index.json"] = json.dumps({
        "metadata": {"total_size": 8}, "weight_map": {
            "a.x": "model-00001-of-00002.safetensors",
            "b.x": "model-00002-of-00002.safetensors"}}).encode()
    for name, data in files.items():
        blob = os.path.join(repo, "blobs", hashlib.sha256(data).hexdigest())
        st.put(blob, data)
        link = os.path.join(snapshot, name)
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(os.path.relpath(blob, os.path.dirname(link)), link)
    return root, snapshot, files


def check_dict(top):
    found = leaves(top)
    assert {k: read(p) for k, p in found.items()} == {
        "a.x": st.f32(1), "b.x": st.f32(2)}
    assert xattr(top, "error") is None, xattr(top, "error")


@test(modes=MODES, users=("root", "nobody"))
def test_snapshot(t):
    """The snapshot mounted by itself: links are regular files in files/."""
    _, snapshot, files = cache(t)
    with t.mount(snapshot) as m:
        check_dict(m.path)
        for name, data in files.items():
            path = m / ".tasd/files" + "/" + name
            assert os.path.isfile(path) and not os.path.islink(path), name
            assert read(path) == data
    with t.mount(snapshot, "root=folder") as m:
        for name, data in files.items():
            assert not os.path.islink(m / name)
            assert os.path.getsize(m / name) == len(data)
            assert read(m / name) == data
        assert read(m / "sub/extra.safetensors.tasd/e") == st.f32(3)
        face = m / "model-00001-of-00002.safetensors.tasd"
        assert read(face + "/a/x") == st.f32(1)


@test(modes=MODES)
def test_repository_and_root(t):
    """Mounted higher up, where the links stay inside."""
    root, snapshot, files = cache(t)
    for source in (os.path.join(root, REPO), root):
        below = os.path.relpath(snapshot, source)
        with t.mount(source) as m:
            check_dict(m / below + ".tasd")
            for name, data in files.items():
                assert read(m / below + "/" + name) == data, name
            assert read(m / below + "/sub/extra.safetensors.tasd/e") == \
                st.f32(3)
            refs = m / os.path.relpath(os.path.join(root, REPO), source)
            assert read(refs + "/refs/main") == b"abc123"


@test(modes=MODES)
def test_one_link(t):
    """One symlinked file, as a user names it on the command line."""
    _, snapshot, _ = cache(t)
    for name, key, value in (("model-00001-of-00002.safetensors", "a.x", 1),
                             ("sub/extra.safetensors", "e", 3)):
        with t.mount(os.path.join(snapshot, name)) as m:
            found = leaves(m.path)
            assert list(found) == [key] and read(found[key]) == st.f32(value)
    with t.mount(os.path.join(snapshot,
                              "model.safetensors.index.json")) as m:
        check_dict(m.path)


@test()
def test_reached_through_links(t):
    """The path to the source may pass through any link: it is the user's."""
    _, snapshot, _ = cache(t, "real", "hub")
    os.symlink(t.path("real"), t.path("via"))
    os.symlink(snapshot, t.path("model"))
    for source in (t.path("model"),
                   t.path(f"via/hub/{REPO}/snapshots/abc123")):
        with t.mount(source) as m:
            check_dict(m.path)


@test()
def test_other_repositories(t):
    """A link to another repository's blobs, or past blobs, is not followed."""
    root, snapshot, _ = cache(t)
    other = st.write(os.path.join(root, "models--x--y/blobs/b1"),
                     [("s", "F32", [1], st.f32(9))])
    st.write(os.path.join(root, REPO, "secret"),
             [("s", "F32", [1], st.f32(9))])
    rows = {"other.safetensors": "../../../models--x--y/blobs/b1",
            "past.safetensors": "../../blobs/../secret",
            "up.safetensors": "../../secret",
            "absolute.safetensors": other,
            "blobs": "../../blobs",
            "deep.safetensors": "../../blobs/x/../../secret"}
    for name, target in rows.items():
        os.symlink(target, os.path.join(snapshot, name))
    os.symlink(other, os.path.join(root, REPO, "blobs/chain"))
    os.symlink("../../blobs/chain", os.path.join(snapshot, "c.safetensors"))
    with t.mount(snapshot, "root=folder") as m:
        for name in [*rows, "c.safetensors"]:
            os.lstat(m / name)
            assert os.path.islink(m / name), f"{name} is shown as a file"
            with fails(errno.ENOENT, errno.EPERM, errno.ELOOP, errno.EACCES,
                       errno.ENOTDIR, errno.EINVAL):
                os.close(os.open(m / name + ".tasd/s", os.O_RDONLY))
    for name, target in rows.items():
        st.write_index(snapshot, {"s": name})
        with t.mount(snapshot) as m:
            path, = leaves(m.path).values()
            with fails(errno.EIO):
                read(path)


@test()
def test_outside_a_cache(t):
    """The same shape under another name is no hub cache."""
    folder = t.mkdir("copies")
    st.write(os.path.join(folder, "blobs/b"), [("a", "F32", [1], st.f32(1))])
    snapshot = os.path.join(folder, "snapshots/1")
    os.makedirs(snapshot)
    os.symlink("../../blobs/b", os.path.join(snapshot, "m.safetensors"))
    with t.mount(snapshot) as m:
        assert os.path.islink(m / "m.safetensors")
        with fails(errno.ENOENT, errno.EPERM, errno.ELOOP, errno.EACCES,
                   errno.ENOTDIR, errno.EINVAL):
            os.listdir(m / "m.safetensors.tasd")


@test(needs=("rsync",))
def test_copies(t):
    """cp -a of the root gives the cache; of a snapshot, whole files."""
    root, snapshot, files = cache(t)
    with t.mount(root) as m:
        t.run("cp", "-a", m.path + "/.", t.mkdir("copy"))
        t.run("diff", "-r", root, t.path("copy"))
        for name in files:
            path = os.path.relpath(os.path.join(snapshot, name), root)
            assert os.readlink(t.path("copy", path)) == os.readlink(
                os.path.join(snapshot, name)), name
    with t.mount(snapshot, "root=folder") as m:
        t.run("cp", "-a", m.path + "/.", t.mkdir("whole"))
        t.run("rsync", "-a", "--delete", m.path + "/", t.mkdir("synced"))
    for place in ("whole", "synced"):
        for name, data in files.items():
            assert not os.path.islink(t.path(place, name))
            assert read(t.path(place, name)) == data
