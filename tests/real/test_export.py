"""The real libraries read what `tasdfs export` writes, as they read the source.

And `tasdfs diff` says of two checkpoints what numpy says of their arrays.
"""
import json
import os
import shutil

from support import st
from support.harness import test
from real.test_safetensors import model, need, same, tensors

try:
    import numpy
    import safetensors
    import safetensors.numpy
except ImportError:
    numpy = safetensors = None


def export(t, *argv):
    """The words that are printed behind the name of the file."""
    line = t.tasdfs("export", *argv).stdout
    assert line.startswith(argv[-1] + ": "), line
    return line[len(argv[-1]) + 2:].rstrip("\n")


def compare(t, status, *argv):
    done = t.tasdfs("diff", *argv, check=False)
    assert done.returncode == status, done
    return done.stdout.splitlines()


@test()
def test_from_every_format(t):
    """safetensors, .npz plain and deflated, .npy: load_file gives the same."""
    need(t)
    want = tensors() | {"c64": numpy.array([1 + 2j, 3], "complex64"),
                        "turned": numpy.asfortranarray(
                            numpy.arange(12, dtype="i2").reshape(3, 4)),
                        "big": numpy.arange(5, dtype=">u4")}
    plain = {name: numpy.ascontiguousarray(value, value.dtype.newbyteorder(
        "<")).reshape(value.shape) for name, value in want.items()}
    numpy.savez(t.path("a.npz"), **want)
    numpy.savez_compressed(t.path("b.npz"), **want)
    safetensors.numpy.save_file(plain, t.path("c.safetensors"),
                                {"format": "np", "note": "x"})
    for name, meta in (("a.npz", {"format": "pt"}),
                       ("b.npz", {"format": "pt"}),
                       ("c.safetensors", {"format": "np", "note": "x"})):
        out = t.path("out-" + name)
        export(t, t.path(name), out)
        same(plain, safetensors.numpy.load_file(out))
        with safetensors.safe_open(out, "np") as f:
            assert f.metadata() == meta, f.metadata()
            for key, value in plain.items():
                assert f.get_tensor(key).tobytes() == value.tobytes(), key
        assert compare(t, 0, t.path(name), out) == \
            [f"equal: {len(want)} tensors"]
    numpy.save(t.path("one.npy"), want["turned"])
    export(t, t.path("one.npy"), t.path("one"))
    same({"array": plain["turned"]}, safetensors.numpy.load_file(
        t.path("one")))


@test()
def test_every_safetensors(t):
    """Each file of the corpus, and the sharded sets, by the library itself."""
    need(t)
    count = 0
    folders = [os.path.join(t.data, "safetensors", n)
               for n in sorted(os.listdir(os.path.join(t.data, "safetensors")))
               if not n.endswith(".json")]
    for source in folders + [os.path.join(t.data, "hf_llama_tiny")]:
        files = [source] if os.path.isfile(source) else [
            os.path.join(source, n) for n in os.listdir(source)
            if n.endswith(".safetensors")]
        want = {}
        for file in files:
            want |= st.read(file)[0]
        out = t.path("out")
        export(t, "-f", source, out)
        got, _ = st.read(out)
        assert got == want, source
        with safetensors.safe_open(out, "np") as f:
            assert set(f.keys()) == set(want), source
        compare(t, 0, source, out)
        count += 1
    assert count > 10


@test(timeout=180)
def test_published_model(t):
    """A published 90 MB model, whole and in part."""
    source = os.path.join(model(t), "model.safetensors")
    if not os.access(source, os.R_OK):
        t.skip("the model is out of this user's reach")
    want = safetensors.numpy.load_file(source)
    out = t.path("out")
    export(t, source, out)
    same(want, safetensors.numpy.load_file(out))
    assert compare(t, 0, source, out) == [f"equal: {len(want)} tensors"]
    export(t, "-f", "--only=encoder.layer.0.*", "--strip=encoder.layer.0",
           source, out)
    part = {key[len("encoder.layer.0."):]: value
            for key, value in want.items()
            if key.startswith("encoder.layer.0.")}
    assert part
    same(part, safetensors.numpy.load_file(out))
    compare(t, 0, source + ".tasd/encoder/layer/0", out)


@test()
def test_largest_difference(t):
    """As numpy computes it, in every type that numpy has."""
    need(t)
    rng = numpy.random.default_rng(7)
    one, two = {}, {}
    for kind in ("f2", "f4", "f8", "c8", "i1", "u1", "i2", "u2", "i4", "u4"):
        a = (rng.standard_normal((37, 211)) * 50).astype(kind) \
            if kind[0] in "fc" else rng.integers(0, 100, (37, 211), kind)
        b = a.copy()
        places = rng.choice(a.size, 40, replace=False)
        b.flat[places] = a.flat[places] + numpy.arange(1, 41).astype(kind)
        if kind[0] == "f":
            a.flat[places[0]] = numpy.nan
            a.flat[0] = b.flat[0] = numpy.nan
        one[kind], two[kind] = a, b
    safetensors.numpy.save_file(one, t.path("one"))
    numpy.savez(t.path("two.npz"), **two)
    done = t.tasdfs("diff", "--json", t.path("one"), t.path("two.npz"),
                    check=False)
    assert done.returncode == 1, done
    rows = {row["key"]: row for row in json.loads(done.stdout)["different"]}
    for kind, a in one.items():
        wide = "complex128" if kind[0] == "c" else \
            "float64" if kind[0] == "f" else "int64"
        x, y = a.astype(wide), two[kind].astype(wide)
        apart = numpy.abs(x - y)
        nan = numpy.isnan(x) != numpy.isnan(y)
        row = rows[kind]
        assert row["different"] == int((apart > 0).sum() + nan.sum()), row
        assert row.get("nan_in_one", 0) == nan.sum(), row
        best = numpy.nanmax(apart)
        assert abs(row["largest"] - best) <= 1e-15 * best, (row, best)
        assert apart[tuple(row["at"])] == best, row


@test()
def test_over_itself(t):
    """-f on its own source: read to the end before the name is taken."""
    need(t)
    want = tensors(5)
    path = t.path("m.safetensors")
    safetensors.numpy.save_file(want, path)
    shutil.copy(path, t.path("before"))
    export(t, "-f", path, path)
    same(want, safetensors.numpy.load_file(path))
    compare(t, 0, path, t.path("before"))
