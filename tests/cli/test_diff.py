#!/usr/bin/env python3
"""tasdfs diff: test_diff.py TASDFS [unittest options]."""

import io
import json
import math
import os
import pty
import struct
import subprocess
import sys
import unittest
import zipfile

import test_cli
from test_cli import floats, write_safetensors


def npy(descr, shape, data, order=False):
    """A .npy file, by hand."""
    head = (f"{{'descr': {descr!r}, 'fortran_order': {order}, "
            f"'shape': {tuple(shape)}, }}").encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + data


class Case(test_cli.Case):
    def st(self, name, tensors, meta=None):
        path = self.path(name)
        write_safetensors(path, tensors, meta)
        return path

    def diff(self, status, *argv, told=None, **kwargs):
        done = self.run_raw("diff", *argv, **kwargs)
        self.assertEqual(done.returncode, status, done)
        if told is None:
            self.assertEqual(done.stderr, b"", done)
        else:
            self.assertIn(told, done.stderr.decode())
        return done.stdout.decode()

    def diff_json(self, status, *argv, **kwargs):
        return json.loads(self.diff(status, "--json", *argv, **kwargs))

    def pair(self, dtype, shape, a, b):
        """What is told of two tensors of that dtype; None: equal."""
        one = self.st("one", [("w", dtype, shape, a)])
        two = self.st("two", [("w", dtype, shape, b)])
        found = self.run_raw("diff", "--json", one, two)
        self.assertEqual(found.stderr, b"")
        got = json.loads(found.stdout)
        self.assertEqual(found.returncode, 0 if got["equal"] else 1)
        self.assertEqual(got["equal"], not got["different"])
        self.assertEqual(got["equal_tensors"], 1 if got["equal"] else 0)
        # The other way around it is the same.
        back = json.loads(self.run_raw("diff", "--json", two, one).stdout)
        self.assertEqual(back, got)
        return got["different"][0] if got["different"] else None


class Keys(Case):
    def test_itself(self):
        self.assertEqual(self.diff(0, self.model, self.model),
                         "equal: 7 tensors\n")
        got = self.diff_json(0, self.model, self.model)
        self.assertEqual(got, {
            "equal": True, "equal_tensors": 7, "equal_values": 0,
            "equal_keys": 7, "only_in_a": [], "only_in_b": [],
            "different": [], "trouble": []})

    def test_nothing(self):
        empty = self.st("empty", [])
        self.assertEqual(self.diff(0, empty, empty), "equal: nothing\n")
        self.assertEqual(len(self.diff(1, empty, self.model).splitlines()), 8)

    def test_only(self):
        other = self.st("other", [("emb.weight", "F32", [2, 3],
                                   floats([0, 1.5, -2, 3, 4, 0.1])),
                                  ("new", "I8", [2], b"ab"),
                                  ("", "I8", [1], b"a")])
        lines = self.diff(1, self.model, other).splitlines()
        self.assertEqual(lines, [
            "only in A: layers.0.w: bfloat16 [4]",
            "only in A: layers.0.b: int64 [2]",
            "only in A: layers.1.w: float16 [2]",
            "only in A: flags: bool [3]",
            "only in A: scalar: float64 []",
            "only in A: empty: uint8 [0, 7]",
            "only in B: new: int8 [2]",
            "only in B: \"\": int8 [1]",
            "6 only in A, 2 only in B; equal: 1 tensor"])
        self.assertEqual(
            lines[:8] + ["6 only in A, 2 only in B; equal: 1 key"],
            self.diff(1, "--keys-only", self.model, other).splitlines())
        got = self.diff_json(1, self.model, other)
        self.assertEqual([row["key"] for row in got["only_in_b"]],
                         ["new", ""])
        self.assertEqual(got["only_in_b"][0]["b"], {
            "kind": "tensor", "dtype": "int8", "shape": [2]})
        self.assertEqual(len(got["only_in_a"]), 6)

    def test_order_is_nothing(self):
        rows = [(f"k{i}", "U8", [1], bytes([i])) for i in range(200)]
        one, two = self.st("one", rows), self.st("two", rows[::-1])
        self.assertEqual(self.diff(0, one, two), "equal: 200 tensors\n")

    def test_headers(self):
        one = self.st("one", [("w", "F32", [2, 3], bytes(24)),
                              ("v", "I16", [2], bytes(4)),
                              ("z", "I16", [2], bytes(4))])
        two = self.st("two", [("w", "F32", [3, 2], bytes(24)),
                              ("v", "U16", [2], bytes(4)),
                              ("z", "I16", [2], b"\1\0\0\0")])
        self.assertEqual(self.diff(1, one, two).splitlines(), [
            "differs: w: float32 [2, 3] in A, float32 [3, 2] in B",
            "differs: v: int16 [2] in A, uint16 [2] in B",
            "differs: z: 1 of 2 elements, largest difference 1 at [0]",
            "3 differ; equal: nothing"])
        self.assertEqual(self.diff(1, "--no-values", one, two).splitlines()
                         [-1], "2 differ; equal: 1 tensor")
        self.assertEqual(self.diff(0, "--keys-only", one, two),
                         "equal: 3 keys\n")
        got = self.diff_json(1, one, two)["different"]
        self.assertEqual([row["what"] for row in got],
                         ["shape", "dtype", "values"])

    def test_strip(self):
        rows = [("module._orig_mod.a.w", "U8", [1], b"a"),
                ("module.b._orig_mod.w", "U8", [1], b"b"),
                ("_orig_mod.module.module.c", "U8", [1], b"c"),
                ("modules.d", "U8", [1], b"d"), ("module", "U8", [1], b"e"),
                ("x.module.f", "U8", [1], b"f")]
        one = self.st("one", rows)
        want = ["a.w", "b._orig_mod.w", "c", "modules.d", "module",
                "x.module.f"]
        two = self.st("two", [(k, *r[1:]) for k, r in zip(want, rows)])
        self.diff(1, one, two)
        for argv in (["--strip", "module.", "--strip", "_orig_mod."],
                     ["--strip=_orig_mod", "--strip=module"]):
            self.assertEqual(self.diff(0, *argv, one, two),
                             "equal: 6 tensors\n")
        three = self.st("three", [(k.replace("._orig_mod", ""), *r[1:])
                                  for k, r in zip(want, rows)])
        self.diff(1, "--strip=_orig_mod", "--strip=module", one, three)
        self.diff(0, "--strip=._orig_mod.", "--strip=module", one, three)
        self.diff(0, "--strip=._orig_mod", "--strip=.module", one, three)
        # Several components in one, and only whole ones.
        self.diff(0, "--strip=x.y", self.st("n", [("x.y.z", *rows[0][1:])]),
                  self.st("m", [("z", *rows[0][1:])]))
        self.diff(1, "--strip=mod", one, two)
        for bad in ("", ".", ".."):
            self.refused(2, "diff", f"--strip={bad}", one, two)

    def test_collisions(self):
        one = self.st("one", [("module.a", "U8", [1], b"a"),
                              ("a", "U8", [1], b"b"),
                              ("b", "U8", [1], b"b")])
        text = self.refused(2, "diff", "--strip=module", one, self.model)
        self.refused(2, "diff", "--strip=module", self.model, one)
        self.assertIn('a: the key of both ["module.a"] and ["a"]', text)
        many = self.st("many", [(f"{p}k{i}", "U8", [1], b"a")
                                for i in range(30) for p in ("", "m.")])
        done = self.run_raw("diff", "--strip=m", self.model, many)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, b"")
        self.assertEqual(len(done.stderr.splitlines()), 11)
        self.assertIn(b"and 20 keys more", done.stderr)

    def test_names(self):
        hostile = self.st("h", [("a\x1b[2J\nb", "U8", [1], b"a"),
                                ("nul\0x", "U8", [1], b"a"),
                                ("nul\0y", "U8", [1], b"a")])
        empty = self.st("empty", [])
        text = self.diff(1, hostile, empty)
        self.assertNotIn("\x1b", text)
        self.assertEqual(len(text.splitlines()), 4)
        self.diff(0, hostile, hostile)
        got = self.diff_json(1, empty, hostile)
        self.assertEqual([r["key"] for r in got["only_in_b"]],
                         ["a\x1b[2J\nb", "nul\0x", "nul\0y"])

    def test_parts(self):
        """A face's directory; keys begin below it.  A leaf by itself."""
        part = self.st("part.safetensors", [
            ("w", "BF16", [4],
             struct.pack("<4H", 0x3f80, 0xc000, 0x7f80, 0x3dcd)),
            ("b", "I64", [2], struct.pack("<2q", -5, 1 << 40))])
        self.assertEqual(
            self.diff(0, self.model + ".tasd/layers/0", part),
            "equal: 2 tensors\n")
        self.assertEqual(
            self.diff(0, self.model + ".tasd/layers/0/w", part + ".tasd/w"),
            "equal: 1 tensor\n")
        bare = self.path("bare.npy")
        with open(bare, "wb") as f:
            f.write(npy("<i8", [2], struct.pack("<2q", -5, 1 << 40)))
        self.assertEqual(self.diff(0, part + ".tasd/b", bare),
                         "equal: 1 tensor\n")
        # A state dict of one tensor is not a bare one.
        self.diff(1, self.st("one", [("b", "I64", [2], bytes(16))]), bare)

    def test_sources(self):
        self.refused(2, "diff", self.model, self.path("gone"))
        self.refused(2, "diff", self.path("gone"), self.model)
        self.assertIn("a folder", self.refused(2, "diff", self.model,
                                               self.tmp))
        with open(self.path("text"), "w") as f:
            f.write("hello\n")
        self.refused(2, "diff", self.path("text"), self.model)
        with open("/dev/full", "wb") as full:
            for argv in ([], ["--json"]):
                done = self.run_raw("diff", *argv, self.model, self.model,
                                    stdout=full)
                self.assertEqual(done.returncode, 2, done)
                self.assertIn(b"No space left", done.stderr)


class Values(Case):
    def test_integers(self):
        for dtype, code in [("I8", "b"), ("U8", "B"), ("I16", "h"),
                            ("U16", "H"), ("I32", "i"), ("U32", "I"),
                            ("I64", "q"), ("U64", "Q")]:
            bits = 8 * struct.calcsize(code)
            low, high = (0, (1 << bits) - 1) if code.isupper() else \
                (-1 << (bits - 1), (1 << (bits - 1)) - 1)
            a, b = [low, 3, 5, 7], [high, 3, 4, 7]
            with self.subTest(dtype=dtype):
                got = self.pair(dtype, [2, 2], struct.pack(f"<4{code}", *a),
                                struct.pack(f"<4{code}", *b))
                self.assertEqual((got["elements"], got["different"],
                                  got["largest"], got["at"]),
                                 (4, 2, high - low, [0, 0]))
                self.assertNotIn("nan_in_one", got)
                # Exact beyond what a double can tell apart.
                got = self.pair(dtype, [1],
                                struct.pack(f"<{code}", high),
                                struct.pack(f"<{code}", high - 1))
                self.assertEqual(got["largest"], 1)
        got = self.pair("BOOL", [3], b"\0\1\1", b"\0\1\0")
        self.assertEqual((got["different"], got["largest"], got["at"]),
                         (1, 1, [2]))

    def test_floats(self):
        """One in every type, as far as its own neighbour."""
        for dtype, a, b, apart in [
                ("F64", struct.pack("<d", 1 + 2 ** -52),
                 struct.pack("<d", 1), 2 ** -52),
                ("F32", struct.pack("<f", 1 + 2 ** -23),
                 struct.pack("<f", 1), 2 ** -23),
                ("F32", struct.pack("<I", 1), struct.pack("<I", 0),
                 2.0 ** -149),
                ("F16", struct.pack("<e", 1 + 2 ** -10),
                 struct.pack("<e", 1), 2 ** -10),
                ("BF16", b"\x81\x3f", b"\x80\x3f", 2 ** -7),
                ("F8_E4M3", b"\x39", b"\xb8", 2.125),
                ("F8_E5M2", b"\x3d", b"\x3c", 0.25),
                ("F8_E4M3FNUZ", b"\x41", b"\x40", 0.125),
                ("F8_E5M2FNUZ", b"\x41", b"\x40", 0.25),
                ("F8_E8M0", b"\x80", b"\x7f", 1)]:
            with self.subTest(dtype=dtype):
                got = self.pair(dtype, [1], a, b)
                self.assertEqual(got["largest"], apart)
                self.assertEqual(got["at"], [0])
        # Elements smaller than a byte are counted one by one.
        got = self.pair("F4", [4], b"\x21\x7f", b"\x21\x6f")
        self.assertEqual((got["elements"], got["different"], got["largest"],
                          got["at"]), (4, 1, 2, [3]))
        a, b = [8, 1, 2, 8], [8, 1, 2, 16]
        got = self.pair("F6_E2M3", [4], *(
            sum(v << 6 * i for i, v in enumerate(x)).to_bytes(3, "little")
            for x in (a, b)))
        self.assertEqual((got["elements"], got["different"], got["largest"],
                          got["at"]), (4, 1, 1, [3]))

    def test_complex(self):
        got = self.pair("C64", [2], floats([1, 2, 3, 4]),
                        floats([1, 2, 6, 8]))
        self.assertEqual((got["elements"], got["different"], got["largest"],
                          got["at"]), (2, 1, 5, [1]))
        nan, inf = math.nan, math.inf
        self.assertIsNone(self.pair("C64", [1], floats([nan, 1]),
                                    floats([-nan, 1])))
        got = self.pair("C64", [2], floats([nan, inf, 0, 0]),
                        floats([1, 0, 0, 1]))
        self.assertEqual((got["nan_in_one"], got["different"],
                          got["largest"], got["at"]), (1, 2, 1, [1]))

    def test_nan_and_zero(self):
        nan, inf = math.nan, math.inf
        self.assertIsNone(self.pair(
            "F32", [4], struct.pack("<4I", 0x7fc00000, 0xffc00001,
                                    0x80000000, 0x7f800000),
            struct.pack("<4I", 0x7fc00002, 0x7f800001, 0, 0x7f800000)))
        got = self.pair("F32", [4], floats([nan, 1, 2, 3]),
                        floats([1, nan, 2, 3]))
        self.assertEqual((got["different"], got["nan_in_one"]), (2, 2))
        self.assertNotIn("largest", got)
        got = self.pair("F64", [3], struct.pack("<3d", inf, inf, 1),
                        struct.pack("<3d", inf, -inf, nan))
        self.assertEqual((got["different"], got["nan_in_one"],
                          got["largest"], got["at"]), (2, 1, inf, [1]))
        one, two = self.path("one"), self.path("two")
        self.assertEqual(
            self.diff(1, one, two).splitlines()[0],
            "differs: w: 2 of 3 elements, 1 NaN in one only, "
            "largest difference inf at [1]")

    def test_long(self):
        """Differences on both sides of every block and chunk end."""
        n = 700_000
        for dtype, size in (("U8", 1), ("F32", 4), ("C64", 8)):
            places = {0, n - 1}
            for block in (2048, 4096, 1024, 1048560 // size):
                places |= {block - 1, block, 2 * block - 1, 2 * block}
            places = sorted(p for p in places if p < n)
            a, b = bytearray(n * size), bytearray(n * size)
            for i, place in enumerate(places):
                # The largest is the last but one.
                weight = 1 + (i == len(places) - 2)
                b[place * size:place * size + min(size, 4)] = bytes(
                    [weight]) if size == 1 else struct.pack("<f", weight)
            with self.subTest(dtype=dtype):
                got = self.pair(dtype, [n // 100, 100], bytes(a), bytes(b))
                self.assertEqual(
                    (got["elements"], got["different"], got["largest"],
                     got["at"]),
                    (n, len(places), 2, list(divmod(places[-2], 100))))

    def test_scalar_and_empty(self):
        got = self.pair("F64", [], struct.pack("<d", 1),
                        struct.pack("<d", 3))
        self.assertEqual((got["largest"], got["at"]), (2, []))
        self.assertEqual(
            self.diff(1, self.path("one"), self.path("two")).splitlines()[0],
            "differs: w: 1 of 1 element, largest difference 2")
        self.assertIsNone(self.pair("F64", [0, 3], b"", b""))


class Formats(Case):
    def npz(self, name, rows, method):
        with zipfile.ZipFile(self.path(name), "w", method) as z:
            for key, data in rows:
                z.writestr(key + ".npy", data)
        return self.path(name)

    def test_npz(self):
        w = floats([0, 1.5, -2, 3, 4, 0.1])
        turned = floats([0, 3, 1.5, 4, -2, 0.1])
        swapped = struct.pack(">6f", 0, 1.5, -2, 3, 4, 0.1)
        want = self.st("want", [("w", "F32", [2, 3], w)])
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            for data in (npy("<f4", [2, 3], w), npy(">f4", [2, 3], swapped),
                         npy("<f4", [2, 3], turned, True)):
                got = self.npz("n.npz", [("w", data)], method)
                self.assertEqual(self.diff(0, got, want),
                                 "equal: 1 tensor\n")

    def test_not_numbers(self):
        one = self.npz("one.npz", [("s", npy("<U2", [2], "a\0b\0".encode(
            "utf-32-le")))], zipfile.ZIP_STORED)
        two = self.npz("two.npz", [("s", npy("<U2", [2], "a\0bc".encode(
            "utf-32-le")))], zipfile.ZIP_STORED)
        self.assertEqual(self.diff(0, one, one), "equal: 1 tensor\n")
        self.assertEqual(self.diff(1, one, two).splitlines(),
                         ["differs: s: 1 of 2 elements",
                          "1 differs; equal: nothing"])
        three = self.npz("three.npz", [("s", npy("<U1", [4], bytes(16)))],
                         zipfile.ZIP_STORED)
        self.assertIn("<U2 [2] in A, <U1 [4] in B",
                      self.diff(1, one, three))

    def test_sharded(self):
        folder = self.path("set")
        os.mkdir(folder)
        rows = [("a", "F32", [2], floats([1, 2])),
                ("b", "I8", [3], b"abc"), ("c", "U8", [1], b"x")]
        for i, row in enumerate(rows):
            write_safetensors(os.path.join(folder, f"{i}.safetensors"),
                              [row])
        index = {"metadata": {}, "weight_map": {
            row[0]: f"{i}.safetensors" for i, row in enumerate(rows)}}
        with open(os.path.join(folder, "model.safetensors.index.json"),
                  "w") as f:
            json.dump(index, f)
        whole = self.st("whole", rows)
        self.assertEqual(self.diff(0, folder, whole), "equal: 3 tensors\n")
        os.unlink(os.path.join(folder, "1.safetensors"))
        text = self.diff(2, folder, whole, told="b: ")
        self.assertEqual(text, "1 in trouble; equal: 2 tensors\n")
        got = self.diff_json(2, whole, folder, told="b: ")
        self.assertEqual([row["key"] for row in got["trouble"]], ["b"])
        self.assertEqual(got["trouble"][0]["source"], folder)
        self.assertFalse(got["equal"])
        # Where it has no other, and where only keys count.
        self.diff(2, folder, self.st("less", rows[:1]), told="b: ")
        self.diff(0, "--keys-only", folder, whole)

    def test_cut_deflated(self):
        """What only reading can find out is trouble, never a difference."""
        data = os.urandom(300_000)
        good = self.npz("good.npz", [("w", npy("|u1", [len(data)], data)),
                                     ("v", npy("|u1", [1], b"v"))],
                        zipfile.ZIP_DEFLATED)
        with open(good, "rb") as f:
            raw = bytearray(f.read())
        for at in range(150_000, 150_100):
            raw[at] ^= 0x55
        bad = self.path("bad.npz")
        with open(bad, "wb") as f:
            f.write(raw)
        done = self.run_raw("diff", good, bad)
        self.assertIn(done.returncode, (1, 2), done)
        self.assertNotIn(b"equal: 2", done.stdout)
        self.assertIn(b"equal: 1 tensor", done.stdout)


class Terminal(Case):
    def test_quiet(self):
        """No progress for what takes less than a second, nor in a pipe."""
        master, slave = pty.openpty()
        done = self.run_raw("diff", self.model, self.model, stderr=slave)
        os.close(slave)
        self.assertEqual(done.stdout, b"equal: 7 tensors\n")
        with self.assertRaises(OSError):
            os.read(master, 100)
        os.close(master)

    def test_progress(self):
        big = self.path("big.safetensors")
        size = 12 << 30
        head = json.dumps({"w": {"dtype": "U8", "shape": [size],
                                 "data_offsets": [0, size]}}).encode()
        head += b" " * (-len(head) % 8)
        with open(big, "wb") as f:
            f.write(struct.pack("<Q", len(head)) + head)
            f.truncate(8 + len(head) + size)
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [test_cli.TASDFS, "diff", big, big], stdout=subprocess.DEVNULL,
            stderr=slave)
        os.close(slave)
        try:
            shown = os.read(master, 200).decode()
        finally:
            process.kill()
            process.wait()
            os.close(master)
        self.assertRegex(
            shown, "\\A\rcompared [0-9.]+ [MG]iB of 12\\.0 GiB "
                   "\\([0-9]+ %\\), [0-9.]+ [MG]iB/s")


if __name__ == "__main__":
    test_cli.TASDFS = os.path.abspath(sys.argv.pop(1))
    os.environ["LC_ALL"] = "C.UTF-8"
    unittest.main()
