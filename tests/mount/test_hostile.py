"""Broken and malicious input: refused with one clear line, or partly shown.

REFUSED holds, for each shipped or made file, words that its one line must
have; () where any reason will do.
"""
import errno
import json
import os
import resource
import struct
import subprocess

from support import st
from support.harness import (fails, key_of, leaves, mounted, read, test,
                             walk, xattr)

MEMORY = 256 << 20

SHIPPED = {
    "st_7bytes": (), "st_big_ints": (), "st_bom": (),
    "st_dtype_unknown": ("Q7",), "st_dup_inner": ("dtype",),
    "st_dup_keys": (), "st_empty_file": ("empty",), "st_float_offsets": (),
    "st_header_len_0": (), "st_header_too_long": (),
    "st_missing_field": ("shape",), "st_non_utf8": (), "st_not_json": (),
    "st_out_of_range": (), "st_overlap": (), "st_reversed": (),
    "st_shape_mismatch": (), "st_shape_neg": (), "st_shape_overflow": (),
    "st_trailing": (), "st_truncated_data": ("more bytes",),
}
SHOWN = {
    "st_extra_field": {"a": [1]}, "st_leading_space": {"a": [1]},
    "st_rank1000": {"a": [1] * 1000},
}
SHOWN_OR_REFUSED = {"st_shape_0_overflow"}


def one(entry, extra=b""):
    return b'{"a":' + entry + extra + b"}"


def tensor(shape=b"[2]", offsets=b"[0,8]", dtype=b'"F32"'):
    return (b'{"dtype":' + dtype + b',"shape":' + shape +
            b',"data_offsets":' + offsets + b"}")


EIGHT = st.f32(1, 2)

# Headers of a file with eight bytes of data.
HEADERS = {
    "array": b"[1,2]", "string": b'"x"', "null": b"null", "none": b"",
    "number": b"7", "float_off": one(tensor(offsets=b"[0.0,8.5]")),
    "neg_off": one(tensor(offsets=b"[-8,8]")),
    "reversed": one(tensor(offsets=b"[8,0]")),
    "str_off": one(tensor(offsets=b'["0","8"]')),
    "three_off": one(tensor(offsets=b"[0,4,8]")),
    "one_off": one(tensor(offsets=b"[0]")),
    "no_off": one(b'{"dtype":"F32","shape":[2]}'),
    "past_eof": one(tensor(b"[4]", b"[0,16]")),
    "size_mismatch": one(tensor(b"[3]")),
    "shape_overflow": one(tensor(b"[4611686018427387905,4]")),
    "shape_neg": one(tensor(b"[-1,-2]")),
    "shape_minus_zero": one(tensor(b"[-0]", b"[0,0]")),
    "shape_float": one(tensor(b"[2.0]")),
    "shape_exponent": one(tensor(b"[2e0]")),
    "shape_deep": one(tensor(b"[[2]]")),
    "off_2e63": one(tensor(
        offsets=b"[9223372036854775808,9223372036854775816]")),
    "off_2e64": one(tensor(
        offsets=b"[18446744073709551616,18446744073709551624]")),
    "deep": one(b"[" * 100000 + b"]" * 100000),
    "deep_open": b"[" * 500000,
    "overlap": one(tensor(), b',"b":' + tensor(b"[1]", b"[4,8]")),
    "gap": one(tensor(b"[1]", b"[4,8]")),
    "latin1": b'{"\xe9":' + tensor() + b"}",
    "overlong": b'{"\xc0\x80":' + tensor() + b"}",
    "surrogate_bytes": b'{"\xed\xa0\x80":' + tensor() + b"}",
    "lone_surrogate": b'{"\\ud800":' + tensor() + b"}",
    "bad_pair": b'{"\\ud800\\u0041":' + tensor() + b"}",
    "duplicate": one(tensor(b"[1]", b"[0,4]"),
                     b',"a":' + tensor(b"[1]", b"[4,8]")),
    "duplicate_escaped": one(tensor(b"[1]", b"[0,4]"),
                             b',"\\u0061":' + tensor(b"[1]", b"[4,8]")),
    "two_metadata": b'{"__metadata__":{},"__metadata__":{},"a":' +
                    tensor() + b"}",
    "meta_string": b'{"__metadata__":"hi","a":' + tensor() + b"}",
    "meta_number": b'{"__metadata__":{"step":12},"a":' + tensor() + b"}",
    "meta_nested": b'{"__metadata__":{"a":{"b":1}},"a":' + tensor() + b"}",
    "meta_list": b'{"__metadata__":{"l":["x"]},"a":' + tensor() + b"}",
    "old_writer": b'{},"__metadata__":{"key":"value"}}',
    "trailing_text": one(tensor()) + b"x",
    "trailing_nul": one(tensor()) + b"\0",
    "comment": b"/*x*/" + one(tensor()),
    "single_quotes": one(tensor()).replace(b'"', b"'"),
    "nan": one(tensor(b"[NaN]")),
    "comma": b'{"a":' + tensor() + b",}",
    "dtype_number": one(tensor(dtype=b"5")),
    "dtype_empty": one(tensor(dtype=b'""')),
    "dtype_null": one(tensor(dtype=b"null")),
    "odd_fp4": one(tensor(b"[15]", dtype=b'"F4"')),
    "unclosed": b'{"a":' + tensor(),
    "control_in_string": b'{"a\nb":' + tensor() + b"}",
}


def made():
    """{name: (bytes, words)} of whole files that are refused."""
    files = {n: (st.raw(h, EIGHT), ()) for n, h in HEADERS.items()}
    for name in ("duplicate", "duplicate_escaped"):
        files[name] = (files[name][0], ("a",))
    for name, length in (("huge", 2**63), ("all_ones", 2**64 - 1),
                         ("over_100mb", 100_000_001), ("past_eof", 4096)):
        files["length_" + name] = (st.raw(b"{}", EIGHT, length), ())
    lfs = (b"version https://git-lfs.github.com/spec/v1\noid sha256:" +
           b"ab" * 32 + b"\nsize 4976698672\n")
    files["lfs"] = (lfs, ("git-lfs",))
    files["html"] = (b"<!DOCTYPE html><html><body>404</body></html>",
                     ("HTML",))
    files["png"] = (b"\x89PNG\r\n\x1a\n" + b"\0" * 64, ())
    files["gzip"] = (b"\x1f\x8b\x08\0" + b"\0" * 32, ())
    files["zeros"] = (b"\0" * 4096, ())
    files["text"] = (b"hello\n" * 100, ())
    files["empty"] = (b"", ("empty",))
    return files


def expect_refusal(t, source, words=()):
    """What is wrong with how source was refused; None when nothing is."""
    start = sum(os.times()[2:4])
    try:
        status, said = t.mount(source, expect_fail=True)
    except AssertionError as error:
        return str(error)
    except subprocess.TimeoutExpired:
        return "no answer"
    took = sum(os.times()[2:4]) - start  # of the program; the disk may stall
    lines = said.splitlines()
    if status != 1:
        return f"exit status {status}: {said}"
    if len(lines) != 1 or len(lines[0]) < 15:
        return f"not one clear line: {said!r}"
    if not lines[0].isprintable():
        return f"control characters: {lines[0]!r}"
    if took > t.patience(5):
        return f"{took:.1f} s"
    missing = [w for w in words if w.lower() not in lines[0].lower()]
    if missing:
        return f"the reason does not say {missing}: {lines[0]}"
    return None


def check_memory(t):
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    assert peak <= MEMORY * (4 if t.sanitized else 1), f"{peak >> 20} MiB"


@test(timeout=120)
def test_shipped(t):
    folder, trouble = os.path.join(t.data, "hostile"), {}
    files = {n[:-len(".safetensors")] for n in os.listdir(folder)
             if n.endswith(".safetensors")}
    assert files == set(SHIPPED) | set(SHOWN) | SHOWN_OR_REFUSED
    for name, words in SHIPPED.items():
        wrong = expect_refusal(
            t, os.path.join(folder, name + ".safetensors"), words)
        if wrong:
            trouble[name] = wrong
    assert not trouble, json.dumps(trouble, indent=1)
    check_memory(t)


@test()
def test_shown(t):
    folder = os.path.join(t.data, "hostile")
    for name, shapes in SHOWN.items():
        with t.mount(os.path.join(folder, name + ".safetensors")) as m:
            found = leaves(m.path)
            assert set(found) == set(shapes), name
            for key, shape in shapes.items():
                assert json.loads(xattr(found[key], "shape")) == shape
                assert len(read(found[key])) == 4
    name = os.path.join(folder, "st_shape_0_overflow.safetensors")
    if expect_refusal(t, name):
        with t.mount(name) as m:
            assert all(read(p) is not None for p in leaves(m.path).values())


@test(timeout=240)
def test_made(t):
    trouble = {}
    for name, (data, words) in made().items():
        source = st.put(t.path(name + ".safetensors"), data)
        wrong = expect_refusal(t, source, words)
        if wrong:
            trouble[name] = wrong
    assert not trouble, json.dumps(trouble, indent=1)
    check_memory(t)


@test(timeout=120)
def test_in_a_library(t):
    """In a library they are plain files; their faces fail, the rest works."""
    folder = t.mkdir("library")
    files = {n + ".safetensors": d for n, (d, _) in made().items()}
    for name, data in files.items():
        st.put(os.path.join(folder, name), data)
    st.write(os.path.join(folder, "good.safetensors"), [st.u8("w", b"good")])
    with t.mount(folder) as m:
        for name, data in files.items():
            assert read(m / name) == data, name
            try:
                found = os.listdir(m / name + ".tasd")
            except OSError:
                continue
            raise AssertionError(f"{name} has a face: {found}")
        assert read(m / "good.safetensors.tasd/w") == b"good"
        assert set(os.listdir(m.path)) == set(files) | {"good.safetensors"}


@test()
def test_empty_keys(t):
    """18,000 empty tensors in one megabyte."""
    names = [f"k{i * 7919 % 18000}" for i in range(18000)]
    source = st.write(t.path("k"), [(n, "U8", [0], b"") for n in names])
    with t.mount(source) as m:
        assert os.listdir(m.path) == names
        assert all(os.stat(m / n).st_size == 0 for n in names[::100])


@test()
def test_same_range_twice(t):
    """One key twice with the same bytes: refused, or shown exactly once."""
    header = one(tensor(), b',"a":' + tensor())
    source = st.put(t.path("same"), st.raw(header, EIGHT))
    if expect_refusal(t, source, ("a",)):
        with t.mount(source) as m:
            assert os.listdir(m.path) == ["a"]
            assert read(m / "a") == EIGHT


@test()
def test_nul_in_a_name(t):
    """A key with NUL is encoded, never cut short."""
    source = st.put(t.path("nul"), st.raw(
        b'{"a\\u0000b":' + tensor() + b"}", EIGHT))
    with t.mount(source) as m:
        assert os.listdir(m.path) == ["a%00b"]
        assert key_of(m / "a%00b") == ["a\0b"]


@test(timeout=120)
def test_header_sizes(t):
    """Headers whose length lies on what a reader may read at once."""
    base = {f"k{i}": {"dtype": "F32", "shape": [1],
                      "data_offsets": [4 * i, 4 * i + 4]} for i in range(12)}
    for want in (4088, 4095, 4096, 4097, 65528, 65536, 99992, 100000, 1048568,
                 1048576):
        empty = json.dumps({"__metadata__": {"pad": ""}, **base},
                           separators=(",", ":"))
        pad = "x" * (want - len(empty))
        text = json.dumps({"__metadata__": {"pad": pad}, **base},
                          separators=(",", ":")).encode()
        assert len(text) == want
        source = st.put(t.path(f"h{want}"), st.raw(text, st.f32(*range(12))))
        with t.mount(source) as m:
            assert len(os.listdir(m.path)) == 12, want
            for i in range(12):
                assert read(m / f"k{i}") == st.f32(i), (want, i)
            assert read(m / ".tasd/meta/pad").decode() == pad


@test()
def test_unaligned(t):
    """Data that begins at any byte: no rounding."""
    for extra in range(9):
        header = one(tensor(b"[4]", b"[0,16]")) + b" " * extra
        source = st.put(t.path(f"u{extra}"),
                        st.raw(header, st.f32(1, 2, 3, 4)))
        with t.mount(source) as m:
            assert read(m / "a") == st.f32(1, 2, 3, 4), extra


@test()
def test_scalars_and_empties(t):
    source = st.write(t.path("m"), [
        ("scale", "F32", [], st.f32(0.5)), ("empty0", "F32", [0], b""),
        ("empty1", "F16", [3, 0, 5], b""), ("w", "F32", [2], EIGHT),
        ("empty_last", "F8_E4M3", [0], b"")])
    with t.mount(source) as m:
        assert xattr(m / "scale", "shape") == "[]"
        assert read(m / "scale") == st.f32(0.5)
        assert xattr(m / "empty1", "shape") == "[3, 0, 5]"
        for name in ("empty0", "empty1", "empty_last"):
            assert os.stat(m / name).st_size == 0 and read(m / name) == b""
        assert read(m / "w") == EIGHT


@test()
def test_small_elements(t):
    """Elements of 4 and 6 bits: whole bytes or nothing."""
    source = st.write(t.path("fp4"), [
        ("w", "F4", [2, 8], bytes(range(8))), ("s", "F8_E8M0", [4], b"abcd"),
        ("six", "F6_E2M3", [4], b"abc")])
    with t.mount(source) as m:
        assert read(m / "w") == bytes(range(8))
        assert xattr(m / "w", "shape") == "[2, 8]"
        assert read(m / "six") == b"abc"


@test(alone=True, timeout=120)
def test_big_header(t):
    """The largest header the library takes, one name, and one byte more."""
    limit, block = 100_000_000, b"n" * 1000
    for more in (0, 1):
        source = t.path(f"big{more}")
        with open(source, "wb") as f:
            # In pieces: a child counts the memory its parent had.
            f.write(struct.pack("<Q", limit + more) + b'{"')
            count = limit + more - len(b'{"":' + tensor() + b"}")
            for _ in range(count // len(block)):
                f.write(block)
            f.write(b"n" * (count % len(block)) + b'":' + tensor() + b"}")
            f.write(EIGHT)
        wrong = expect_refusal(t, source)
        if more:
            assert wrong is None, wrong
        elif wrong:
            with t.mount(source) as m:
                (path, _), = list(walk(m.path))
                assert len(path) <= 255
                with fails(errno.ENOENT):
                    os.stat(m / "n")
        os.unlink(source)
    check_memory(t)


@test()
def test_nothing_left_mounted(t):
    """A refusal leaves no mount behind, and the place as it was."""
    at = t.mkdir("place")
    st.put(os.path.join(at, "there"), b"1")
    source = st.put(t.path("bad"), b"hello")
    status, _ = t.mount(source, at=at, expect_fail=True)
    assert status == 1 and not mounted(at)
    assert os.listdir(at) == ["there"]
