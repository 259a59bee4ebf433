#!/usr/bin/env python3
"""tasdfs export: test_export.py TASDFS [unittest options]."""

import json
import os
import signal
import stat
import struct
import subprocess
import sys
import time
import unittest
import zipfile

import test_cli
from test_cli import floats, write_safetensors
from test_diff import npy


def read_safetensors(path):
    """The header, and name -> (dtype, shape, bytes), checked strictly."""
    with open(path, "rb") as f:
        raw = f.read()
    size, = struct.unpack("<Q", raw[:8])
    text = raw[8:8 + size].decode()
    assert (8 + size) % 8 == 0 and text.startswith("{"), text
    header = json.loads(text)
    data = raw[8 + size:]
    meta = header.pop("__metadata__", None)
    got, at = {}, 0
    for name, entry in sorted(header.items(),
                              key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == at and end >= begin, (name, begin, at)
        assert set(entry) == {"dtype", "shape", "data_offsets"}
        width = {"F64": 8, "I64": 8, "U64": 8, "C64": 8, "F32": 4, "I32": 4,
                 "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}.get(
                     entry["dtype"], 1)
        assert begin % width == 0, (name, begin)
        got[name] = (entry["dtype"], entry["shape"], data[begin:end])
        at = end
    assert at == len(data)
    return meta, list(header), got


class Case(test_cli.Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("to"))
        self.out = self.path("to", "out.safetensors")

    def nothing(self):
        """No file, and no temporary one."""
        self.assertEqual(os.listdir(self.path("to")), [])

    def st(self, name, tensors, meta=None):
        write_safetensors(self.path(name), tensors, meta)
        return self.path(name)

    def export(self, *argv):
        """The line that is printed."""
        line = self.run_ok("export", *argv)
        self.assertTrue(line.startswith(argv[-1] + ": "), line)
        self.assertEqual(os.listdir(os.path.dirname(argv[-1])),
                         [os.path.basename(argv[-1])])
        return line[len(argv[-1]) + 2:-1]


class Export(Case):
    def test_whole(self):
        self.assertEqual(self.export(self.model, self.out),
                         "7 tensors, 63 B")
        meta, names, got = read_safetensors(self.out)
        old_meta, old_names, want = read_any(self.model)
        self.assertEqual(got, want)
        self.assertEqual(names, old_names)
        self.assertEqual(meta, old_meta)
        self.assertEqual(stat.S_IMODE(os.stat(self.out).st_mode),
                         0o666 & ~umask())
        self.assertEqual(self.run_ok("diff", self.model, self.out),
                         "equal: 7 tensors\n")

    def test_every_dtype(self):
        sizes = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16,
                 "U32": 32, "I32": 32, "U64": 64, "I64": 64, "F16": 16,
                 "BF16": 16, "F32": 32, "F64": 64, "C64": 64, "F8_E4M3": 8,
                 "F8_E5M2": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
                 "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
        rows = [(f"t.{d}", d, [3, 4], os.urandom(12 * bits // 8))
                for d, bits in sizes.items()]
        source = self.st("all", rows)
        self.export(source, self.out)
        meta, names, got = read_safetensors(self.out)
        self.assertIsNone(meta)
        self.assertEqual(names, [row[0] for row in rows])
        self.assertEqual(got, {r[0]: r[1:] for r in rows})

    def test_large(self):
        """In more than one piece."""
        data = os.urandom((3 << 20) + 17)
        source = self.st("large", [("w", "U8", [len(data)], data),
                                   ("x", "F32", [1], floats([1]))])
        self.export(source, self.out)
        self.assertEqual(read_safetensors(self.out)[2]["w"][2], data)

    def test_empty(self):
        self.assertEqual(self.export(self.st("none", []), self.out),
                         "0 tensors, 0 B")
        with open(self.out, "rb") as f:
            self.assertEqual(f.read(), struct.pack("<Q", 8) + b"{}      ")

    def test_names(self):
        names = ["a\"b\\", "\x1b\x00\x7f", "", "é", "\U0001f600", "a/b",
                 "..", "x" * 5000]
        source = self.st("names", [(n, "U8", [1], b"x") for n in names])
        self.export(source, self.out)
        self.assertEqual(read_safetensors(self.out)[1], names)

    def test_npz(self):
        w = floats([0, 1.5, -2, 3, 4, 0.1])
        path = self.path("n.npz")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("a.npy", npy("<f4", [2, 3], floats(
                [0, 3, 1.5, 4, -2, 0.1]), True))
            z.writestr("b.npy", npy(">i8", [2], struct.pack(">2q", -5, 9)))
        self.export(path, self.out)
        meta, names, got = read_safetensors(self.out)
        self.assertEqual(meta, {"format": "pt"})
        self.assertEqual(names, ["a", "b"])
        self.assertEqual(got, {
            "a": ("F32", [2, 3], w),
            "b": ("I64", [2], struct.pack("<2q", -5, 9))})

    def test_parts(self):
        self.export(self.model + ".tasd/layers", self.out)
        self.assertEqual(read_safetensors(self.out)[1],
                         ["0.w", "0.b", "1.w"])
        os.unlink(self.out)
        self.export(self.model + ".tasd/layers/0/w", self.out)
        self.assertEqual(read_safetensors(self.out)[1], ["layers.0.w"])

    def test_only_and_strip(self):
        for argv, want in [
                (["--only=layers.*"],
                 ["layers.0.w", "layers.0.b", "layers.1.w"]),
                (["--only", "*.w", "--only", "flags"],
                 ["layers.0.w", "layers.1.w", "flags"]),
                (["--only=layers.*", "--strip=layers"],
                 ["0.w", "0.b", "1.w"]),
                (["--only=layers.0.?", "--strip=.0", "--strip", "layers."],
                 ["w", "b"])]:
            with self.subTest(argv=argv):
                self.export(*argv, "-f", self.model, self.out)
                self.assertEqual(read_safetensors(self.out)[1], want)
        os.unlink(self.out)
        self.assertIn("no key matches", self.refused(
            1, "export", "--only=w", self.model, self.out))
        text = self.refused(1, "export", "--only=*.w", "--strip=layers.0",
                            "--strip=layers.1", self.model, self.out)
        self.assertIn('w: the key of both ["layers.0.w"] and '
                      '["layers.1.w"]', text)
        self.refused(2, "export", "--strip=", self.model, self.out)
        self.nothing()

    def test_sharded(self):
        folder = self.path("set")
        os.mkdir(folder)
        write_safetensors(os.path.join(folder, "1.st"),
                          [("a", "U8", [1], b"a")], {"format": "pt"})
        write_safetensors(os.path.join(folder, "2.st"),
                          [("b", "U8", [1], b"b")], {"format": "pt"})
        with open(os.path.join(folder, "model.safetensors.index.json"),
                  "w") as f:
            json.dump({"metadata": {"total_size": 2, "note": "n"},
                       "weight_map": {"a": "1.st", "b": "2.st"}}, f)
        self.export(folder, self.out)
        meta, names, got = read_safetensors(self.out)
        self.assertEqual(meta, {"format": "pt", "note": "n"})
        self.assertEqual(got, {"a": ("U8", [1], b"a"),
                               "b": ("U8", [1], b"b")})
        os.unlink(self.out)
        # A broken tensor is never left out on the quiet.
        os.unlink(os.path.join(folder, "2.st"))
        for argv in ([], ["--skip"]):
            done = self.run_raw("export", *argv, folder, self.out)
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            self.assertIn(f"{folder}: b: ".encode(), done.stderr)
            self.nothing()
        self.export("--only=a", folder, self.out)

    def test_cannot_hold(self):
        path = self.path("n.npz")
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("s.npy", npy("<U1", [1], b"a\0\0\0"))
            z.writestr("c.npy", npy("<c16", [1], bytes(16)))
            z.writestr("w.npy", npy("<f4", [1], floats([1])))
        done = self.run_raw("export", path, self.out)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        lines = done.stderr.decode().splitlines()
        self.assertEqual(lines[:2], [
            f"tasdfs: {path}: s: safetensors has no dtype <U1",
            f"tasdfs: {path}: c: safetensors has no dtype complex128"])
        self.assertIn("--skip", lines[2])
        self.assertEqual(len(lines), 3)
        self.nothing()
        done = self.run_raw("export", "--skip", path, self.out)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.decode(),
                         f"{self.out}: 1 tensor, 4 B; 2 left out\n")
        self.assertEqual([line.split(": ")[2:] for line in
                          done.stderr.decode().splitlines()], [
            ["s", "left out", "safetensors has no dtype <U1"],
            ["c", "left out", "safetensors has no dtype complex128"]])
        self.assertEqual(read_safetensors(self.out)[1], ["w"])

    def test_many_refusals(self):
        path = self.path("n.npz")
        with zipfile.ZipFile(path, "w") as z:
            for i in range(50):
                z.writestr(f"c{i}.npy", npy("<c16", [0], b""))
        done = self.run_raw("export", path, self.out)
        self.assertEqual(done.returncode, 1)
        lines = done.stderr.decode().splitlines()
        self.assertEqual(len(lines), 22)
        self.assertIn("and 30 more", lines[20])


class Output(Case):
    def test_there_already(self):
        with open(self.out, "w") as f:
            f.write("mine")
        self.assertIn("-f replaces", self.refused(
            1, "export", self.model, self.out))
        with open(self.out) as f:
            self.assertEqual(f.read(), "mine")
        self.export("-f", self.model, self.out)
        self.export("--force", self.model, self.out)
        read_safetensors(self.out)
        # Over its own source.
        with open(self.model, "rb") as f:
            before = f.read()
        self.run_ok("export", "-f", self.model, self.model)
        self.assertEqual(read_safetensors(self.model)[2],
                         read_safetensors(self.out)[2])
        self.assertNotEqual(before, b"")

    def test_places(self):
        self.refused(1, "export", self.model, self.path("gone", "x"))
        self.refused(1, "export", self.model, self.path("to") + "/")
        self.refused(1, "export", "-f", self.model, self.path("to"))
        self.refused(1, "export", self.model, self.path("to", "y" * 256))
        self.refused(1, "export", "-f", self.model, "/dev/null")
        self.refused(1, "export", self.path("gone"), self.out)
        self.refused(1, "export", self.tmp, self.out)
        self.nothing()
        # A relative name, and a link, which is replaced itself.
        self.run_ok("export", self.model, "out.safetensors",
                    cwd=self.path("to"))
        os.rename(self.out, self.path("to", "old"))
        os.symlink("old", self.out)
        self.refused(1, "export", self.model, self.out)
        self.run_ok("export", "-f", "--only=flags", self.model, self.out)
        self.assertFalse(os.path.islink(self.out))
        self.assertEqual(
            len(read_safetensors(self.path("to", "old"))[1]), 7)

    def test_no_room(self):
        """A file too large for the limit leaves nothing behind."""
        import resource
        data = os.urandom(1 << 20)
        source = self.st("large", [("w", "U8", [len(data)], data)])

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

        text = self.refused(1, "export", source, self.out,
                            preexec_fn=limit)
        self.assertIn("File too large", text)
        self.nothing()

    def test_stopped(self):
        """A signal ends it between two pieces, with nothing left."""
        size = 2 << 30
        big = self.path("big.safetensors")
        head = json.dumps({"w": {"dtype": "U8", "shape": [size],
                                 "data_offsets": [0, size]}}).encode()
        head += b" " * (-len(head) % 8)
        with open(big, "wb") as f:
            f.write(struct.pack("<Q", len(head)) + head)
            f.truncate(8 + len(head) + size)
        free = os.statvfs(self.tmp)
        if free.f_bavail * free.f_frsize < 3 << 30:
            self.skipTest("not enough room for a file to be stopped in")
        for number in (signal.SIGTERM, signal.SIGINT):
            process = subprocess.Popen(
                [test_cli.TASDFS, "export", big, self.out],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            end = time.monotonic() + 30
            while not os.listdir(self.path("to")) and \
                    process.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(0.03)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, out), (1, b""), err)
            self.assertIn(b"nothing is written", err)
            self.nothing()


def read_any(path):
    """As read_safetensors, of a file whose elements may lie anywhere."""
    with open(path, "rb") as f:
        raw = f.read()
    size, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + size])
    meta = header.pop("__metadata__", None)
    return meta, list(header), {
        name: (e["dtype"], e["shape"], raw[8 + size + e["data_offsets"][0]:
                                           8 + size + e["data_offsets"][1]])
        for name, e in header.items()}


def umask():
    old = os.umask(0)
    os.umask(old)
    return old


if __name__ == "__main__":
    test_cli.TASDFS = os.path.abspath(sys.argv.pop(1))
    os.environ["LC_ALL"] = "C.UTF-8"
    unittest.main()
