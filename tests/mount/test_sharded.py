"""Sharded sets: the index decides, every disagreement is reported."""
import errno
import json
import os
import shutil

from support import st
from support.harness import (MODES, fails, in_child, leaves, read, test,
                             until, xattr)
from mount.test_hostile import expect_refusal

INDEX = "model.safetensors.index.json"


def shards(folder):
    return st.write_sharded(folder, [
        [("a.x", "F32", [1], st.f32(1)), ("a.y", "F32", [1], st.f32(2))],
        [("b.x", "F32", [1], st.f32(3))],
        [("c", "F32", [1], st.f32(4))]], {"total_size": 16})


GOOD = {"a.x": 1, "a.y": 2, "b.x": 3, "c": 4}


def broken(path):
    """A tensor that is there, cannot be read, and says why."""
    assert xattr(path, "error"), f"{path}: no reason"
    with fails(errno.EIO):
        read(path)
    with fails(errno.EIO):
        os.close(os.open(path, os.O_RDONLY))


def check(m, good, bad=()):
    found = leaves(m.path)
    assert set(found) == set(good) | set(bad), set(found)
    for key, value in good.items():
        assert read(found[key]) == st.f32(value), key
    for key in bad:
        broken(found[key])


def change_index(folder, change):
    path = os.path.join(folder, INDEX)
    with open(path) as f:
        index = json.load(f)
    change(index)
    st.put(path, json.dumps(index).encode())


@test(modes=MODES, users=("root", "nobody"))
def test_good(t):
    """The folder, and its index file, are the same state dict."""
    folder = t.mkdir("set")
    shards(folder)
    for source in (folder, os.path.join(folder, INDEX)):
        with t.mount(source) as m:
            check(m, GOOD)
            assert xattr(m.path, "error") is None
            assert xattr(m.path, "tensors") == "4"
            assert xattr(m.path, "meta.total_size") == "16"
            where = json.loads(xattr(m / "b/x", "source"))
            assert where["file"] == "model-00002-of-00003.safetensors"


@test()
def test_without_metadata(t):
    folder = t.mkdir("set")
    files = shards(folder)
    st.put(os.path.join(folder, INDEX), json.dumps(
        {"weight_map": {"c": files[2]}}).encode())
    with t.mount(folder) as m:
        found = leaves(m.path)
        assert read(found["c"]) == st.f32(4)


@test(modes=MODES)
def test_missing_shard(t):
    folder = t.mkdir("set")
    files = shards(folder)
    os.unlink(os.path.join(folder, files[1]))
    with t.mount(folder) as m:
        check(m, {k: v for k, v in GOOD.items() if k != "b.x"}, ["b.x"])
        assert files[1] in xattr(m.path, "error")
        index = json.loads(read(m / ".tasd/index.json"))
        assert any(files[1] in p for p in index["problems"])
        node, = (n for n in index["nodes"] if n["key"] == ["b.x"])
        assert node["error"]
        info = t.tasdfs("info", folder, check=False).stdout
        assert files[1] in info, info


@test()
def test_every_disagreement(t):
    """(what, change to the folder, good keys, broken keys, words)."""
    def lose(folder, files):
        change_index(folder, lambda i: i["weight_map"].pop("a.y"))

    def want_more(folder, files):
        change_index(folder, lambda i: i["weight_map"].update(
            {"ghost": files[0]}))

    def wrong_shard(folder, files):
        change_index(folder, lambda i: i["weight_map"].update(
            {"a.x": files[1]}))

    def total(folder, files):
        change_index(folder, lambda i: i["metadata"].update(total_size=17))

    def cut(folder, files):
        os.truncate(os.path.join(folder, files[1]), 40)

    def cut_data(folder, files):
        path = os.path.join(folder, files[1])
        os.truncate(path, os.path.getsize(path) - 1)

    def no_header(folder, files):
        st.put(os.path.join(folder, files[1]), b"hello")

    def lfs(folder, files):
        st.put(os.path.join(folder, files[1]),
               b"version https://git-lfs.github.com/spec/v1\noid sha256:" +
               b"00" * 32 + b"\nsize 5\n")

    def twice(folder, files):
        st.write(os.path.join(folder, files[1]), [
            ("b.x", "F32", [1], st.f32(3)), ("a.x", "F32", [1], st.f32(9))])

    def folder_for_file(folder, files):
        os.unlink(os.path.join(folder, files[1]))
        os.mkdir(os.path.join(folder, files[1]))

    def fifo(folder, files):
        os.unlink(os.path.join(folder, files[1]))
        os.mkfifo(os.path.join(folder, files[1]))

    def ghost_entry(folder, files):
        st.put(os.path.join(folder, files[1]), st.raw(
            b'{"b.x":{"dtype":"","shape":[],"data_offsets":[0,0]}}'))

    name = "model-00002-of-00003.safetensors"
    rows = [
        ("in a shard, not in the index", lose, "a.x b.x c", "", "a.y"),
        ("in the index, not in the shard", want_more, "a.x a.y b.x c",
         "ghost", "ghost"),
        ("in another shard than said", wrong_shard, "a.y b.x c", "a.x", "a.x"),
        ("total_size is wrong", total, "a.x a.y b.x c", "", "total_size"),
        ("a shard cut in its header", cut, "a.x a.y c", "b.x", name),
        ("a shard cut in its data", cut_data, "a.x a.y c", "b.x", name),
        ("a shard that is none", no_header, "a.x a.y c", "b.x", name),
        ("a shard that is a pointer", lfs, "a.x a.y c", "b.x", "git-lfs"),
        ("in two shards", twice, "a.x a.y b.x c", "", "a.x"),
        ("a shard that is a folder", folder_for_file, "a.x a.y c", "b.x",
         name),
        ("a shard that is a fifo", fifo, "a.x a.y c", "b.x", name),
        ("an entry without a type", ghost_entry, "a.x a.y c", "b.x", name),
    ]
    for i, (what, change, good, bad, words) in enumerate(rows):
        folder = t.mkdir(f"set{i}")
        change(folder, shards(folder))
        print(what)
        with t.mount(folder) as m:
            check(m, {k: GOOD[k] for k in good.split()}, bad.split())
            said = xattr(m.path, "error")
            assert said and words in said, f"{what}: {said}"
            info = t.tasdfs("info", folder, check=False)
            assert words in info.stdout, (what, info.stdout)


@test()
def test_broken_indexes(t):
    """An index that is none is refused; nothing in it is followed."""
    folder = t.mkdir("set")
    files = shards(folder)
    one = json.dumps(files[0])
    for name, text in {
            "not json": "{", "list": "[]", "no map": '{"metadata": {}}',
            "map is a list": '{"weight_map": []}', "empty": "",
            "twice": f'{{"weight_map": {{"c": {one}, "c": {one}}}}}',
            "two maps": '{"weight_map": {}, "weight_map": {}}',
            "latin1": '{"weight_map": {"\udce9": 1}}',
            "surrogate": f'{{"weight_map": {{"\\ud800": {one}}}}}',
            "deep": '{"x": ' + "[" * 100000 + "]" * 100000 + "}",
            "long": '{"weight_map": {' + "[" * 1000}.items():
        st.put(os.path.join(folder, INDEX),
               text.encode("utf-8", "surrogateescape"))
        wrong = expect_refusal(t, folder)
        assert wrong is None, f"{name}: {wrong}"


@test()
def test_values_of_wrong_type(t):
    """Refused, or those tensors are broken; never a name that is followed."""
    folder = os.path.join(t.data, "hostile", "idx_bad_json")
    if expect_refusal(t, folder) is None:
        return
    with t.mount(folder) as m:
        for path in leaves(m.path).values():
            broken(path)


@test(needs=("strace",))
def test_shipped(t):
    """The hostile sets, with the links that a tree cannot store."""
    data = os.path.join(t.data, "hostile")
    loop = shutil.copytree(os.path.join(data, "idx_symlink_loop"),
                           t.path("loop"))
    os.symlink("loop.safetensors", os.path.join(loop, "loop.safetensors"))
    hub = shutil.copytree(os.path.join(data, "idx_hub_blobs_ok"),
                          t.path("hub"))
    os.symlink("model-00001-of-00002.safetensors",
               os.path.join(hub, "model-00002-of-00002.safetensors"))
    value = b"\1\2\3\4"
    for folder, good, bad in (
            (os.path.join(data, "idx_missing_shard"), ["a"], ["b"]),
            (loop, ["a"], ["b"]), (hub, ["a"], ["b"]),
            (os.path.join(data, "idx_traversal"), ["a"], ["b", "c"])):
        with t.mount(folder) as m:
            found = leaves(m.path)
            assert set(found) == set(good + bad), (folder, set(found))
            for key in good:
                assert read(found[key]) == value, folder
            for key in bad:
                broken(found[key])
            assert xattr(m.path, "error"), folder


@test()
def test_inner_folders_and_links(t):
    """Shards in folders below, and behind links that stay inside."""
    folder = t.mkdir("set")
    st.write(os.path.join(folder, "sub/deep/s.safetensors"),
             [("w", "F32", [1], st.f32(1))])
    os.symlink("sub/deep/s.safetensors", os.path.join(folder, "l.safetensors"))
    os.symlink("sub", os.path.join(folder, "linked"))
    for target in ("sub/deep/s.safetensors", "l.safetensors",
                   "./sub/deep/s.safetensors", "sub/../l.safetensors",
                   "linked/deep/s.safetensors"):
        st.write_index(folder, {"w": target})
        with t.mount(folder) as m:
            check(m, {"w": 1})


@test()
def test_names_of_tensors_in_sets(t):
    """The rules for names are those of a single file."""
    folder = t.mkdir("set")
    keys = ["w", "w.absmax", "a.b", "a.b.c", "..", "a/b", "x..y", ""]
    st.write_sharded(folder, [
        [("w", "F32", [1], st.f32(0))],
        [(k, "F32", [1], st.f32(i)) for i, k in enumerate(keys) if i]])
    with t.mount(folder) as m:
        check(m, {k: i for i, k in enumerate(keys)})
        assert os.path.isfile(m / "w.absmax") and os.path.isfile(m / "a/b.c")


def readable(path, uid, gid):
    """May that user read the file?"""
    def attempt():
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        read(path)
    return in_child(attempt, 10) == "ok"


@test(modes=MODES)
def test_modes_are_the_shards_own(t):
    """Nobody reads through the mount what they may not read beside it."""
    t.need_root()
    folder, ours, theirs = t.mkdir("set"), 1234, 4321
    files = shards(folder)
    secret, shared, open_ = [os.path.join(folder, f) for f in files]
    os.chmod(secret, 0o600)
    os.chown(shared, ours, ours)
    os.chmod(shared, 0o440)
    os.chmod(open_, 0o644)
    tensors = {"a/x": secret, "b/x": shared, "c": open_,
               ".tasd/npy/a/x.npy": secret, ".tasd/flat/b.x": shared}
    with t.mount(folder, "allow_other") as m:
        for uid, gid in ((0, 0), (ours, theirs), (theirs, ours),
                         (theirs, theirs)):
            for name, shard in tensors.items():
                assert readable(m / name, uid, gid) == readable(
                    shard, uid, gid), (name, uid, gid)
        # A right that is taken away is taken away in the mount.
        os.chmod(open_, 0o600)
        assert not readable(m / "c", theirs, theirs)
        # The index hides what it names, and then the folder does.
        for path, mode in ((os.path.join(folder, INDEX), 0o640),
                           (folder, 0o750)):
            os.chmod(open_, 0o644)
            os.chmod(path, mode)
            assert read(m / "c") == st.f32(4)
            for name in ("c", ".tasd/index.json"):
                until(lambda: not readable(m / name, theirs, theirs), 3, name)
            os.chmod(path, 0o755)
