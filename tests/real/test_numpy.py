"""numpy, ml_dtypes and msgpack on what `.tasd/` makes."""
import json
import os

from support import st
from support.harness import MODES, leaves, read, test, xattr
from mount.test_dottasd import NUMPY, every_dtype

try:
    import numpy
except ImportError:
    numpy = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import msgpack
except ImportError:
    msgpack = None

USERS = ("root", "nobody")
ML = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
      "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
      "F8_E8M0": "float8_e8m0fnu"}
# Stored one an element by ml_dtypes, so they are unpacked first.
PACKED = {"F4": ("float4_e2m1fn", 4), "F6_E2M3": ("float6_e2m3fn", 6),
          "F6_E3M2": ("float6_e3m2fn", 6)}


def unpack(data, bits):
    whole = int.from_bytes(data, "little")
    return numpy.array([whole >> i & (1 << bits) - 1
                        for i in range(0, len(data) * 8, bits)], numpy.uint8)


def view(m, kind, key):
    return m / f".tasd/{kind}/{key.replace('.', '/')}.npy"


@test(modes=MODES, users=USERS)
def test_npy(t):
    """np.load of every .npy file, plain and mapped in every way."""
    if numpy is None:
        t.skip("numpy is not installed")
    source = st.write(t.path("s"), every_dtype())
    with t.mount(source) as m:
        count = 0
        for key, dtype, shape, data in every_dtype():
            if dtype not in NUMPY:
                continue
            path = view(m, "npy", key)
            for mode in (None, "r", "c"):
                if 0 in shape and mode:
                    continue  # numpy cannot map an empty array
                got = numpy.load(path, mmap_mode=mode)
                assert got.shape == tuple(shape), (key, got.shape)
                assert got.tobytes() == data, (key, mode)
                assert got.dtype == numpy.dtype(NUMPY[dtype])
                if mode == "c" and got.size and got.ndim:
                    got[0] = got[-1]  # a private copy; the file stays
            assert numpy.load(path).tobytes() == data
            count += 1
        assert count > 18


@test(modes=MODES)
def test_f32(t):
    """f32/ is what ml_dtypes makes of the same bytes."""
    if numpy is None or ml_dtypes is None:
        t.skip("numpy and ml_dtypes are not installed")
    source = st.write(t.path("s"), every_dtype())
    with t.mount(source) as m:
        for key, dtype, shape, data in every_dtype():
            if dtype == "F16":
                want = numpy.frombuffer(data, "<f2")
            elif dtype in ML:
                want = numpy.frombuffer(data, getattr(ml_dtypes, ML[dtype]))
            elif dtype in PACKED and hasattr(ml_dtypes, PACKED[dtype][0]):
                name, bits = PACKED[dtype]
                want = unpack(data, bits).view(getattr(ml_dtypes, name))
            else:
                continue
            want = want.astype(numpy.float32).reshape(shape)
            got = numpy.load(view(m, "f32", key), mmap_mode="r")
            assert got.dtype == numpy.float32 and got.shape == tuple(shape)
            assert numpy.array_equal(got, want, equal_nan=True), dtype
            # Zeros keep their sign.
            assert (numpy.signbit(got) == numpy.signbit(want))[
                want == 0].all(), dtype
            del got  # a map keeps the mount busy


@test(modes=MODES, users=USERS)
def test_raw(t):
    """fromfile, frombuffer and memmap on the tensor itself."""
    if numpy is None:
        t.skip("numpy is not installed")
    want = numpy.arange(500_000, dtype="<f4").reshape(500, 1000)
    source = st.write(t.path("s"), [("odd", "U8", [3], b"abc"),
                                    ("a.w", "F32", [500, 1000],
                                     want.tobytes())], pad=False)
    with t.mount(source) as m:
        path = m / "a/w"
        assert (numpy.fromfile(path, "<f4").reshape(500, 1000) == want).all()
        assert (numpy.frombuffer(read(path), "<f4") == want.ravel()).all()
        for mode in ("r", "c"):
            mapped = numpy.memmap(path, "<f4", mode, shape=(500, 1000))
            assert (mapped == want).all() and mapped[7, 9] == want[7, 9]
            del mapped
        shape = json.loads(xattr(path, "shape"))
        assert numpy.memmap(path, xattr(path, "dtype"), "r").reshape(
            shape).sum() == want.sum()


@test(users=USERS)
def test_index_msgpack(t):
    """index.msgpack holds what index.json holds."""
    if msgpack is None:
        t.skip("msgpack is not installed")
    sources = [os.path.join(t.data, "safetensors", n) for n in os.listdir(
        os.path.join(t.data, "safetensors")) if not n.endswith(".json")]
    sources.append(st.write(t.path("s"), every_dtype() + [
        st.u8(k, b"1") for k in ("", "é\0", "x" * 60000, "..", "a/b")],
        {"long": "y" * 70000, "nul": "\0"}))
    broken = t.mkdir("broken")
    st.write_index(broken, {"gone": "nowhere.safetensors"})
    sources.append(broken)
    for source in sources:
        with t.mount(source) as m:
            packed = msgpack.unpackb(read(m / ".tasd/index.msgpack"),
                                     strict_map_key=False)
            text = json.loads(read(m / ".tasd/index.json"))
            assert packed == text, source
            assert len(leaves(m.path)) == text["tensors"], source
