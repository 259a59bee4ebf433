#!/usr/bin/env python3
"""tasdfs scan: test_scan.py TASDFS [unittest options].

The pickles are written opcode by opcode; nothing here loads one.
"""

import io
import json
import os
import struct
import sys
import tarfile
import unittest
import zipfile

import test_cli

SYSTEM = b"cposix\nsystem\n(S'true'\ntR."
SYSTEM2 = b"\x80\x02" + SYSTEM
SAFE2 = b"\x80\x02ccollections\nOrderedDict\n)R."
PLAIN2 = b"\x80\x02}q\x00X\x01\x00\x00\x00aK\x01s."
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def npy(descr, data):
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}\n"
    head = head.encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + data


class Scan(test_cli.Case):
    def write(self, name, data):
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def scan(self, status, *argv, told=None):
        done = self.run_raw("scan", *argv)
        self.assertEqual(done.returncode, status, done)
        if told is None:
            self.assertEqual(done.stderr, b"", done)
        else:
            self.assertIn(told, done.stderr.decode())
        return done.stdout.decode()

    def one(self, status, path, **kwargs):
        """What the JSON says of one file."""
        got = json.loads(self.scan(status, "--json", path, **kwargs))
        self.assertEqual(len(got["files"]), 1)
        self.assertEqual(got["files"][0]["path"], path)
        return got["files"][0]

    def names(self, status, path, **kwargs):
        got = self.one(status, path, **kwargs)
        return [(g["pickle"], g["name"], g["safe"]) for g in got["globals"]]

    def zipped(self, members, name="a.pt", how=zipfile.ZIP_STORED):
        raw = io.BytesIO()
        with zipfile.ZipFile(raw, "w", how) as z:
            for member, data in members:
                z.writestr(member, data)
        return self.write(name, raw.getvalue())

    def test_pickle_of_each_kind(self):
        for name, data in [("a.pkl", SYSTEM2), ("b.pkl", SYSTEM),
                           ("no_suffix", SYSTEM2), ("old", SYSTEM)]:
            with self.subTest(name):
                path = self.write(name, data)
                self.assertEqual(self.names(1, path),
                                 [("", "posix.system", False)])

    def test_clean(self):
        path = self.write("a.pkl", SAFE2)
        self.assertEqual(self.scan(0, path),
                         f"{path}: clean: 1 pickle, 1 import\n")
        self.assertEqual(self.names(0, path),
                         [("", "collections.OrderedDict", True)])
        self.assertEqual(self.one(0, self.write("b.pkl", PLAIN2))["globals"],
                         [])

    def test_text(self):
        path = self.write("evil.pt", SYSTEM2)
        self.assertEqual(
            self.scan(1, path),
            f"{path}: unsafe: 1 import outside torch's safe list\n"
            "  posix.system\n")

    def test_count(self):
        twice = b"\x80\x02" + (SYSTEM[:-1] + b"0") * 2 + b"N."
        got = self.one(1, self.write("a.pkl", twice))
        self.assertEqual(got["globals"][0]["count"], 2)
        self.assertIn(", 2 times\n", self.scan(1, self.path("a.pkl")))

    def test_zip(self):
        for how in zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED:
            path = self.zipped([("a/data.pkl", SYSTEM2), ("a/version", b"3")],
                               how=how)
            self.assertEqual(self.names(1, path),
                             [("a/data.pkl", "posix.system", False)])

    def test_zip_member_of_another_name(self):
        path = self.zipped([("a/data.pkl", PLAIN2), ("a/data/0", SYSTEM2)])
        self.assertEqual(self.names(1, path),
                         [("a/data/0", "posix.system", False)])

    def test_zip_weights_that_begin_as_a_pickle(self):
        path = self.zipped([("a/data.pkl", PLAIN2),
                            ("a/data/0", b"\x80\x02" + b"\xfe" * 100)])
        self.assertEqual(self.names(0, path), [])

    def test_zip_broken_pickle(self):
        path = self.zipped([("a/data.pkl", SYSTEM2[:-1]), ("b.pkl", SAFE2)])
        got = self.one(1, path, told="a/data.pkl: pickle: ends at byte")
        self.assertEqual(got["status"], "unsafe")
        self.assertEqual(len(got["globals"]), 2)
        self.assertEqual(len(got["errors"]), 1)

    def test_cut_zip(self):
        path = self.zipped([("a/data.pkl", SYSTEM2)])
        os.truncate(path, os.path.getsize(path) - 30)
        got = self.one(2, path, told="truncated")
        self.assertEqual(got["status"], "unreadable")

    def test_broken_pickle(self):
        got = self.one(2, self.write("a.pkl", b"\x80\x02\xfe"),
                       told="no such opcode")
        self.assertEqual(got["status"], "unreadable")
        # What was named before it broke was imported.
        self.names(1, self.write("b.pkl", SYSTEM2[:-1] + b"\xfe"),
                   told="no such opcode")

    def test_one_behind_the_other(self):
        path = self.write("a.bin", PLAIN2 + SYSTEM + b"weights")
        self.assertEqual(self.names(1, path), [("", "posix.system", False)])
        got = self.one(0, self.write("b.bin", PLAIN2 + SAFE2 + b"\xfe" * 9))
        self.assertEqual(got["pickles"], 2)

    def test_far_behind_the_head(self):
        # A line that the first piece of the file does not hold the end of.
        far = b"S'" + b"x" * 10000 + b"'\n0" + SYSTEM
        self.assertEqual(self.names(1, self.write("a", far)),
                         [("", "posix.system", False)])

    def test_npy(self):
        self.assertEqual(self.names(1, self.write("a.npy",
                                                  npy("'|O'", SYSTEM2))),
                         [("", "posix.system", False)])
        field = npy("[('x', 'O')]", SYSTEM2)
        self.assertEqual(len(self.names(1, self.write("b.npy", field))), 1)
        self.assertEqual(self.names(0, self.write("c.npy",
                                                  npy("'<f4'", SYSTEM2))), [])
        self.assertEqual(self.names(0, self.write("d.npy", npy(
            "[('O', '<f4')]", b"\0\0\0\0"))), [])

    def test_npz(self):
        path = self.zipped([("w.npy", npy("'|O'", SYSTEM2))], name="a.npz")
        self.assertEqual(self.names(1, path),
                         [("w.npy", "posix.system", False)])

    def test_tar(self):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for name, data in [("x" * 200, b"long"), ("pickle", SYSTEM2),
                               ("storages", PLAIN2 + b"\xfe" * 700),
                               ("a.pkl", SAFE2)]:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        path = self.write("a.pt", raw.getvalue())
        self.assertEqual(self.names(1, path), [
            ("pickle", "posix.system", False),
            ("a.pkl", "collections.OrderedDict", True)])
        cut = self.write("cut.tar", raw.getvalue()[:2560 + 8])
        self.one(2, cut, told="absurd")

    def test_no_pickle(self):
        texts = [("a.py", b"class A(B):\n    '''x'''\n"), ("b", b""),
                 ("c.txt", b"import os\nfrom x import y\n"),
                 ("d.msgpack", b"\x82\xa1a\x01\xa1b\x02"),
                 ("e.png", b"\x89PNG\r\n\x1a\n"), ("site.pth", b"../lib\n")]
        for name, data in texts:
            with self.subTest(name):
                path = self.write(name, data)
                self.assertEqual(self.scan(0, path),
                                 f"{path}: clean: no pickle\n")

    def test_what_it_is_instead(self):
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
        self.scan(2, self.write("a.pt", pointer), told="a git-lfs pointer")
        self.scan(2, self.write("a.pkl.gz", b"\x1f\x8b\x08\0"),
                  told="unpack it first")
        self.scan(0, self.write("log.gz", b"\x1f\x8b\x08\0"))

    def test_folder(self):
        os.makedirs(self.path("hub", "blobs"))
        os.makedirs(self.path("hub", "snap"))
        self.write("hub/blobs/1234", SYSTEM2)
        self.write("hub/snap/readme.md", b"text")
        os.symlink("../blobs/1234", self.path("hub", "snap", "model.pt"))
        os.symlink("nowhere", self.path("hub", "snap", "dangling"))
        os.symlink(".", self.path("hub", "snap", "loop"))
        os.mkfifo(self.path("hub", "snap", "fifo"))
        got = self.scan(1, self.path("hub")).splitlines()
        self.assertEqual(got[0], self.path("hub", "blobs", "1234") +
                         ": unsafe: 1 import outside torch's safe list")
        self.assertEqual(got[2], self.path("hub", "snap", "model.pt") +
                         ": unsafe: 1 import outside torch's safe list")
        self.assertEqual(got[-1], "3 files: 1 clean, 2 unsafe, "
                         "0 not read or not whole")
        self.assertEqual(len(got), 5)

    def test_operands(self):
        self.assertIn("PATH", self.run_raw("scan").stderr.decode())
        self.assertEqual(self.run_raw("scan").returncode, 2)
        self.scan(2, self.path("nowhere"), told="No such file")
        os.mkfifo(self.path("fifo"))
        self.scan(2, self.path("fifo"), told="Invalid argument")
        # One that is not there does not hide what is in another.
        self.write("a.pkl", SYSTEM2)
        self.scan(1, self.path("nowhere"), self.path("a.pkl"),
                  told="No such file")

    def test_names_do_not_steer(self):
        evil = b"\x80\x02cos\x1b[2J\nsystem\n."
        path = self.write("a.pkl", evil)
        self.assertNotIn("\x1b", self.scan(1, path))
        self.assertIn("os\\x1b[2J.system", self.scan(1, path))

    def test_hostile_data(self):
        """No file of the tests' own is taken for a clean one that is not."""
        folder = os.path.join(DATA, "torch_hostile")
        done = self.run_raw("scan", "--json", folder)
        self.assertIn(done.returncode, (1, 2))
        got = json.loads(done.stdout)
        self.assertEqual(len(got["files"]),
                         sum(len(f) for _, _, f in os.walk(folder)))


if __name__ == "__main__":
    test_cli.TASDFS = os.path.abspath(sys.argv.pop(1))
    os.environ["LC_ALL"] = "C.UTF-8"
    unittest.main()
