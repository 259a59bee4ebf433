#!/usr/bin/env python3
"""The command line without a mount: test_cli.py TASDFS [unittest options].

Inputs are written with struct and json alone, so that nothing but this file
says what the right answer is.
"""

import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

TASDFS = None
COMMANDS = ["mount", "umount", "ls", "tree", "info", "cat", "diff", "export",
            "scan", "doctor"]


def write_safetensors(path, tensors, meta=None):
    """tensors: [(name, dtype, shape, bytes)].  Returns name -> (begin, end)."""
    header, data, windows = {}, b"", {}
    if meta is not None:
        header["__metadata__"] = meta
    for name, dtype, shape, raw in tensors:
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        windows[name] = (len(data), len(data) + len(raw))
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    start = 8 + len(text)
    return {n: (start + b, start + e) for n, (b, e) in windows.items()}


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="tasdfs-cli.")
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.model = self.path("model.safetensors")
        self.windows = write_safetensors(self.model, [
            ("emb.weight", "F32", [2, 3], floats([0, 1.5, -2, 3, 4, 0.1])),
            ("layers.0.w", "BF16", [4],
             struct.pack("<4H", 0x3f80, 0xc000, 0x7f80, 0x3dcd)),
            ("layers.0.b", "I64", [2], struct.pack("<2q", -5, 1 << 40)),
            ("layers.1.w", "F16", [2], struct.pack("<2e", 0.5, -0.25)),
            ("flags", "BOOL", [3], b"\1\0\1"),
            ("scalar", "F64", [], struct.pack("<d", 3.25)),
            ("empty", "U8", [0, 7], b""),
        ], {"format": "pt", "note": "two\nlines \x1b[31m" + "x" * 300})

    def path(self, *names):
        return os.path.join(self.tmp, *names)

    def run_raw(self, *argv, **kwargs):
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stderr", subprocess.PIPE)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("timeout", 60)
        return subprocess.run([TASDFS, *argv], **kwargs)

    def run_ok(self, *argv, **kwargs):
        done = self.run_raw(*argv, **kwargs)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode()

    def refused(self, status, *argv, **kwargs):
        """Exit status, nothing on standard output, one line to tell why."""
        done = self.run_raw(*argv, **kwargs)
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stdout, b"", argv)
        text = done.stderr.decode()
        self.assertTrue(text.startswith("tasdfs: "), text)
        self.assertEqual(text.count("\n"), 1, text)
        self.assertTrue(text.endswith("\n"), text)
        self.assertNotRegex(text[:-1], r"[\x00-\x1f\x7f]")
        return text


class Help(Case):
    def check_shape(self, text):
        lines = text.splitlines()
        self.assertTrue(text.startswith("Usage: tasdfs"), text)
        self.assertTrue(text.endswith("\n"))
        self.assertLessEqual(len(lines), 24, text)
        for line in lines:
            self.assertLessEqual(len(line), 80, line)
            self.assertNotIn("\t", line)

    def test_overview(self):
        text = self.run_ok("--help")
        self.check_shape(text)
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command} ")
        self.assertEqual(text, self.run_ok("-h"))
        self.assertEqual(text, self.run_ok("help"))

    def test_every_command(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                text = self.run_ok(command, "--help")
                self.check_shape(text)
                self.assertIn(f"tasdfs {command}", text.splitlines()[0])
                self.assertEqual(text, self.run_ok(command, "-h"))
                self.assertEqual(text, self.run_ok("help", command))
                self.assertEqual(
                    text, self.run_ok(command, "operand", "--help"))

    def test_version(self):
        self.assertRegex(self.run_ok("--version"),
                         r"\Atasdfs [0-9]+\.[0-9]+\.[0-9]+\n\Z")


class Usage(Case):
    def test_no_command(self):
        self.assertIn("--help", self.refused(2))

    def test_unknown_command(self):
        for word, near in [("mont", "mount"), ("unmount", "umount"),
                           ("lss", "ls"), ("tre", "tree"), ("inof", "info"),
                           ("doktor", "doctor")]:
            with self.subTest(word=word):
                self.assertIn(f"did you mean {near}?",
                              self.refused(2, word))
        self.assertNotIn("did you mean", self.refused(2, "frobnicate"))
        self.assertIn("did you mean info?", self.refused(2, "help", "inof"))

    def test_unknown_option(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                text = self.refused(2, command, "--hepl")
                self.assertIn("did you mean --help?", text)
                self.assertIn(f"tasdfs {command} --help", text)
                self.assertIn("-Q", self.refused(2, command, "-Q"))
        self.assertIn("did you mean --json?",
                      self.refused(2, "ls", "--jsno", self.model))
        self.assertIn("takes no value",
                      self.refused(2, "ls", "--json=yes", self.model))

    def test_operands(self):
        for argv in (["ls"], ["tree"], ["info"], ["cat"], ["cat", "x"],
                     ["mount"], ["mount", "x"], ["umount"],
                     ["ls", "a", "b", "c"], ["tree", "a", "b", "c"],
                     ["info", "a", "b", "c"], ["cat", "a", "b", "c"],
                     ["mount", "a", "b", "c"], ["umount", "a", "b"],
                     ["doctor", "x"], ["diff"], ["diff", "a"],
                     ["diff", "a", "b", "c"], ["diff", "a", ""],
                     ["export", "a"], ["export", "a", "b", "c"],
                     ["ls", ""], ["cat", "", "w"], ["umount", ""],
                     ["mount", "", self.tmp], ["mount", self.model, ""]):
            with self.subTest(argv=argv):
                self.refused(2, *argv)

    def test_cat_options(self):
        self.refused(2, "cat", "--npy", "--f32", self.model, "flags")
        self.refused(2, "cat", "--values=many", self.model, "flags")
        self.refused(2, "cat", "--values=-1", self.model, "flags")

    def test_mount_options(self):
        for words, told in [
                ("root=flder", "expected folder or dict"),
                ("mode=fast", "auto, cached or direct"),
                ("faces", "needs a value"),
                ("nosplit=1", "takes no value"),
                ("threads=0", "1 to 256"),
                ("threads=x", "1 to 256"),
                ("ready_fd=999", "open file"),
                ("allow_othr", "did you mean allow_other?"),
                ("ro,nosplt", "did you mean nosplit?"),
                ("frob", "unknown option -o frob; see"),
                ("frobnicate", "unknown option -o frobnicate; see")]:
            with self.subTest(words=words):
                self.assertIn(told, self.refused(
                    2, "mount", "-o", words, self.model, self.tmp))
        self.assertIn("needs a value", self.refused(2, "mount", "-o"))


class Refusals(Case):
    """What fails for a reason other than its spelling: exit status 1."""

    def test_no_such_source(self):
        gone = self.path("gone.safetensors")
        for command in (["ls"], ["tree"], ["info"]):
            with self.subTest(command=command):
                text = self.refused(1, *command, gone)
                self.assertIn("gone.safetensors", text)
                self.assertEqual(text.count("gone.safetensors"), 1, text)

    def test_no_such_path(self):
        for argv in (["ls", self.model, "layers/9"],
                     ["tree", self.model, "layers/9"],
                     ["info", self.model, "layers.9"],
                     ["cat", self.model, "layers/9/w"]):
            with self.subTest(argv=argv):
                text = self.refused(1, *argv)
                self.assertEqual(text, f"tasdfs: {self.model}: no such key "
                                       f"or path: {argv[-1]}\n")
        for path in ("model.safetensors.tasd/x", "sub/x", "x"):
            text = self.refused(1, "ls", self.tmp, path)
            self.assertEqual(text.count(self.tmp), 1, text)
            self.assertTrue(text.startswith(f"tasdfs: {self.tmp}/"), text)

    def test_hostile_words(self):
        text = self.refused(1, "ls", self.path("a\x1b[2Jb\nc"))
        self.assertIn("\\x1b", text)
        text = self.refused(1, "cat", self.model, "x\x1b[2J\n")
        self.assertIn("\\x1b", text)

    def test_no_container(self):
        other = self.path("README")
        with open(other, "w") as f:
            f.write("not a checkpoint\n")
        for command in ("ls", "tree", "info"):
            self.assertIn("not a checkpoint",
                          self.refused(1, command, other))

    def test_broken(self):
        with open(self.model, "rb") as f:
            whole = f.read()
        short = self.path("short.safetensors")
        with open(short, "wb") as f:
            f.write(whole[:-4])
        for command in ("ls", "tree", "info"):
            self.assertIn("short.safetensors",
                          self.refused(1, command, short))
        junk = self.path("junk.safetensors")
        with open(junk, "wb") as f:
            f.write(struct.pack("<Q", 16) + b'{"a": tru}      ' + b"data")
        for command in ("ls", "tree", "info"):
            self.refused(1, command, junk)

    def test_mount_point(self):
        missing = self.path("missing")
        self.assertIn("mkdir", self.refused(1, "mount", self.model, missing))
        self.assertIn("not a directory",
                      self.refused(1, "mount", self.model, self.model))
        self.assertIn("not mounted", self.refused(1, "umount", self.tmp))
        self.refused(1, "umount", missing)
        if os.path.ismount("/proc"):
            self.assertIn("proc", self.refused(1, "umount", "/proc"))

    def test_full_output(self):
        with open("/dev/full", "wb") as full:
            for argv in (["--help"], ["ls", self.model], ["tree", self.model],
                         ["info", self.model], ["cat", self.model, "flags"]):
                with self.subTest(argv=argv):
                    done = self.run_raw(*argv, stdout=full)
                    self.assertEqual(done.returncode, 1, done)
                    self.assertIn(b"No space left", done.stderr)

    def test_reader_gone(self):
        big = self.path("big.safetensors")
        write_safetensors(big, [("w", "U8", [1 << 22], bytes(1 << 22))])
        for ignored in (False, True):
            read, write = os.pipe()
            os.close(read)
            done = self.run_raw(
                "cat", big, "w", stdout=write,
                preexec_fn=(lambda: signal.signal(signal.SIGPIPE,
                                                  signal.SIG_IGN))
                if ignored else None)
            os.close(write)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stderr, b"")


class Ls(Case):
    def test_state_dict(self):
        self.assertEqual(self.run_ok("ls", self.model).split(), [
            "emb/", "layers/", "flags", "scalar", "empty"])
        self.assertEqual(self.run_ok("ls", self.model, "layers").split(),
                         ["0/", "1/"])
        for path in ("layers/0", "/layers//0/", "layers.0"):
            with self.subTest(path=path):
                self.assertEqual(
                    self.run_ok("ls", self.model, path).split(), ["w", "b"])
        self.assertEqual(self.run_ok("ls", self.model, "layers/0/w"), "w\n")

    def test_long(self):
        lines = self.run_ok("ls", "-l", self.model, "layers/0").splitlines()
        self.assertEqual([line.split() for line in lines], [
            ["tensor", "bfloat16", "[4]", "8", "w"],
            ["tensor", "int64", "[2]", "16", "b"]])
        self.assertEqual(len({line.rindex(" ") for line in lines}), 1)
        self.assertRegex(self.run_ok("ls", "-l", self.model),
                         r"(?m)^group +- +- +- +layers/$")

    def test_recursive(self):
        text = self.run_ok("ls", "-R", self.model, "layers")
        self.assertEqual(text, "layers:\n0/\n1/\n\n"
                               "layers/0:\nw\nb\n\n"
                               "layers/1:\nw\n")

    def test_json(self):
        rows = json.loads(self.run_ok("ls", "--json", "-R", self.model))
        by_path = {row["path"]: row for row in rows}
        self.assertEqual(len(by_path), len(rows))
        row = by_path["layers/0/w"]
        self.assertEqual(
            (row["name"], row["kind"], row["dtype"], row["shape"],
             row["nbytes"], row["key"], row["directory"]),
            ("w", "tensor", "bfloat16", [4], 8, ["layers.0.w"], False))
        self.assertTrue(by_path["layers/0"]["directory"])
        self.assertEqual(json.loads(self.run_ok("ls", "--json", self.model)),
                         [r for r in rows if "/" not in r["path"]])

    def test_library(self):
        os.mkdir(self.path("sub"))
        shutil.copy(self.model, self.path("sub", "b.safetensors"))
        with open(self.path("notes.txt"), "w") as f:
            f.write("hello\n")
        self.assertEqual(self.run_ok("ls", self.tmp).split(), [
            "model.safetensors", "model.safetensors.tasd/", "notes.txt",
            "sub/"])
        self.assertEqual(
            self.run_ok("ls", self.tmp, "sub/b.safetensors.tasd/layers/0"),
            "w\nb\n")
        # The same words as one path, as a mount would have it.
        self.assertEqual(
            self.run_ok("ls", self.path("sub/b.safetensors.tasd/layers/0")),
            "w\nb\n")
        self.assertEqual(
            self.run_ok("ls", self.tmp, "sub/b.safetensors"),
            "b.safetensors\n")
        self.assertIn(".tasd", self.refused(
            1, "ls", self.tmp, "sub/b.safetensors/layers"))
        rows = json.loads(self.run_ok("ls", "--json", "-R", self.tmp))
        paths = [row["path"] for row in rows]
        self.assertIn("sub/b.safetensors.tasd/layers/1/w", paths)
        self.assertIn("notes.txt", paths)
        self.assertEqual(len(paths), len(set(paths)))
        self.refused(1, "ls", self.tmp, "../etc")

    def test_odd_file_names(self):
        for name in ("a\nb", "\x1b[2J", "\x7f"):
            with open(self.path(name), "w"):
                pass
        self.assertEqual(self.run_ok("ls", self.tmp).split(), [
            "\\x1b[2J", "a\\x0ab", "model.safetensors",
            "model.safetensors.tasd/", "\\x7f"])
        self.assertEqual(
            [row["name"] for row in json.loads(
                self.run_ok("ls", "--json", self.tmp))][:2],
            ["\x1b[2J", "a\nb"])

    def test_real_entry_wins(self):
        os.mkdir(self.path("model.safetensors.tasd"))
        self.assertEqual(self.run_ok("ls", self.tmp).split(), [
            "model.safetensors", "model.safetensors.tasd/"])
        self.assertEqual(
            self.run_ok("ls", self.tmp, "model.safetensors.tasd"), "")

    def test_recursive_goes_on(self):
        with open(self.path("bad.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", 8) + b"{       ")
        done = self.run_raw("ls", "-R", self.tmp)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"bad.safetensors", done.stderr)
        self.assertIn(b"layers/0:\nw\nb\n", done.stdout)

    def test_names(self):
        """Names with anything in them stay on their line."""
        write_safetensors(self.model, [
            ("a\nb\x1b[31m", "U8", [1], b"x"), ("\u009bx", "U8", [1], b"y"),
            ("x y", "U8", [1], b"z"), ("50%", "U8", [1], b"z"),
            ("a/b", "U8", [1], b"z"), ("é", "U8", [1], b"z")])
        text = self.run_ok("ls", self.model)
        self.assertEqual(len(text.splitlines()), 6)
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\u009b", text)
        for name in text.splitlines()[2:]:
            self.assertEqual(self.run_ok("ls", self.model, name),
                             name + "\n")
        rows = json.loads(self.run_ok("ls", "--json", self.model))
        self.assertEqual([row["key"] for row in rows],
                         [["a\nb\x1b[31m"], ["\u009bx"], ["x y"], ["50%"],
                          ["a/b"], ["é"]])


class Tree(Case):
    def test_table(self):
        text = self.run_ok("tree", self.model)
        for path, dtype, shape in [("emb/weight", "float32", "[2, 3]"),
                                   ("layers/0/w", "bfloat16", "[4]"),
                                   ("scalar", "float64", "[]"),
                                   ("empty", "uint8", "[0, 7]")]:
            self.assertRegex(text, rf"(?m)^{path} +{dtype} +"
                                   rf"{re.escape(shape)} ")

    def test_subtree(self):
        whole = self.run_ok("tree", self.model).splitlines()
        part = self.run_ok("tree", self.model, "layers/0").splitlines()
        mine = [line for line in part if line.startswith("layers/0/")]
        self.assertEqual(len(mine), 2)
        self.assertEqual(
            [line for line in part
             if re.match(r"(emb|flags|scalar|empty|layers/1)", line)], [])
        for line in part:
            self.assertIn(line, whole)
        one = self.run_ok("tree", self.model, "layers.1.w").splitlines()
        self.assertEqual(len([x for x in one if x.startswith("layers/1/w")]),
                         1)

    def test_json(self):
        whole = json.loads(self.run_ok("tree", "--json", self.model))
        self.assertEqual(whole["tensors"], 7)
        self.assertEqual(whole["format"], "safetensors")
        by_path = {node["path"]: node for node in whole["nodes"]}
        node = by_path["layers/0/b"]
        self.assertEqual(node["key"], ["layers.0.b"])
        begin, end = self.windows["layers.0.b"]
        self.assertEqual((node["source"]["offset"], node["source"]["length"]),
                         (begin, end - begin))
        part = json.loads(
            self.run_ok("tree", "--json", self.model, "layers"))
        self.assertEqual(part["nodes"], [
            n for n in whole["nodes"]
            if n["path"] == "layers" or n["path"].startswith("layers/")])
        self.assertEqual(part["tensors"], 3)

    def test_library(self):
        text = self.run_ok("tree", self.tmp)
        self.assertTrue(text.startswith("model.safetensors.tasd:\n"), text)
        with open(self.path("bad.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", 8) + b"{       ")
        done = self.run_raw("tree", "--json", self.tmp)
        self.assertEqual(done.returncode, 1)
        bad, good = json.loads(done.stdout)["checkpoints"]
        self.assertIn("error", bad)
        self.assertEqual(good["index"]["tensors"], 7)
        os.mkdir(self.path("none"))
        self.refused(1, "tree", self.path("none"))


class Info(Case):
    def test_container(self):
        text = self.run_ok("info", self.model)
        self.assertRegex(text, r"(?m)^format +safetensors$")
        self.assertRegex(text, r"(?m)^tensors +7$")
        self.assertRegex(text, r"(?m)^parameters +18$")
        self.assertRegex(text, r"(?m)^dtype +bfloat16: 1 tensor, "
                               r"4 parameters, 8 B$")
        self.assertRegex(text, r"(?m)^meta +format = pt$")
        self.assertNotIn("problem", text)
        self.assertNotIn("\x1b", text)
        for line in text.splitlines():
            self.assertLess(len(line), 200)

    def test_short_metadata(self):
        write_safetensors(self.model, [], {"k": "\x01", "": "x\ny"})
        text = self.run_ok("info", self.model)
        self.assertRegex(text, r"(?m)^meta +k = \\x01$")
        self.assertRegex(text, r'(?m)^meta +"" = x\\x0ay$')

    def test_json(self):
        got = json.loads(self.run_ok("info", "--json", self.model))
        self.assertEqual(got["format"], "safetensors")
        self.assertEqual(got["tensors"], 7)
        self.assertEqual(got["parameters"], 18)
        self.assertEqual(got["bytes"], 24 + 8 + 16 + 4 + 3 + 8)
        self.assertEqual(got["dtypes"]["bfloat16"],
                         {"tensors": 1, "parameters": 4, "bytes": 8})
        self.assertEqual(got["meta"]["format"], "pt")
        self.assertEqual(got["meta"]["note"],
                         "two\nlines \x1b[31m" + "x" * 300)
        self.assertEqual(got["problems"], [])
        self.assertEqual(got["data"][0]["size"],
                         os.path.getsize(self.model))

    def test_tensor(self):
        text = self.run_ok("info", self.model, "layers.0.w")
        self.assertRegex(text, r"(?m)^path +layers/0/w$")
        self.assertRegex(text, r"(?m)^dtype +bfloat16$")
        self.assertRegex(text, r"(?m)^shape +\[4\]$")
        got = json.loads(
            self.run_ok("info", "--json", self.model, "layers/0/w"))
        self.assertEqual(got["path"], "layers/0/w")
        self.assertEqual(got["attributes"]["shape"], [4])
        self.assertEqual(got["attributes"]["key"], ["layers.0.w"])
        self.assertEqual(got["attributes"]["nbytes"], 8)

    def test_directory(self):
        got = json.loads(self.run_ok("info", "--json", self.model, "layers"))
        self.assertEqual(got["attributes"]["kind"], "group")
        self.assertEqual((got["tensors"], got["parameters"], got["bytes"]),
                         (3, 8, 28))

    def test_library(self):
        with open(self.path("bad.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", 8) + b"{       ")
        text = self.run_ok("info", self.tmp)
        self.assertRegex(text, r"(?m)^bad\.safetensors: cannot be read: ")
        self.assertRegex(text, r"(?m)^model\.safetensors: safetensors, "
                               r"7 tensors, 63 B$")
        bad, good = json.loads(
            self.run_ok("info", "--json", self.tmp))["checkpoints"]
        self.assertIn("error", bad)
        self.assertEqual(good["info"]["tensors"], 7)
        self.assertEqual(
            self.run_ok("info", self.tmp, "model.safetensors"),
            self.run_ok("info", self.model))
        self.assertEqual(
            self.run_ok("info", self.tmp, "model.safetensors.tasd"),
            self.run_ok("info", self.model))

    def test_sharded(self):
        folder = self.path("sharded")
        os.mkdir(folder)
        write_safetensors(os.path.join(folder, "m-1.safetensors"),
                          [("a.w", "F32", [1], floats([1]))])
        with open(os.path.join(folder, "model.safetensors.index.json"),
                  "w") as f:
            json.dump({"metadata": {}, "weight_map": {
                "a.w": "m-1.safetensors", "b.w": "m-2.safetensors"}}, f)
        done = self.run_raw("info", folder)
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout.decode(),
                         r"(?m)^problem .*m-2\.safetensors")
        got = json.loads(self.run_ok("info", "--json", folder))
        self.assertGreaterEqual(got["nproblems"], 1)
        self.assertEqual(got["nproblems"], len(got["problems"]))
        self.assertEqual(self.run_raw("cat", folder, "a.w").stdout,
                         floats([1]))
        self.assertIn("m-2.safetensors", self.refused(1, "cat", folder, "b.w"))


class Cat(Case):
    def test_window(self):
        with open(self.model, "rb") as f:
            whole = f.read()
        for key, (begin, end) in self.windows.items():
            with self.subTest(key=key):
                done = self.run_raw("cat", self.model, key)
                self.assertEqual(done.returncode, 0, done)
                self.assertEqual(done.stdout, whole[begin:end])
                path = key.replace(".", "/")
                self.assertEqual(
                    self.run_raw("cat", self.model, path).stdout,
                    whole[begin:end])

    def test_large(self):
        raw = bytes(range(256)) * (3 << 13) + b"end"
        windows = write_safetensors(self.model, [
            ("pad", "U8", [5], b"12345"), ("w", "U8", [len(raw)], raw)])
        self.assertEqual(self.run_raw("cat", self.model, "w").stdout, raw)
        self.assertEqual(windows["w"][1] - windows["w"][0], len(raw))

    def test_npy(self):
        got = self.run_raw("cat", "--npy", self.model, "emb.weight").stdout
        self.assertEqual(got[:8], b"\x93NUMPY\x01\x00")
        size, = struct.unpack("<H", got[8:10])
        self.assertEqual((10 + size) % 64, 0)
        header = eval(got[10:10 + size].decode())  # noqa: S307: numpy's way
        self.assertEqual(header, {"descr": "<f4", "fortran_order": False,
                                  "shape": (2, 3)})
        self.assertEqual(got[10 + size:], floats([0, 1.5, -2, 3, 4, 0.1]))
        wide = self.run_raw("cat", "--f32", self.model, "layers.0.w").stdout
        self.assertEqual(wide[-16:], floats([1, -2, float("inf"),
                                             0.10009765625]))

    def test_values(self):
        for key, lines in [
                ("emb.weight", ["0.0", "1.5", "-2.0", "3.0", "4.0", "0.1"]),
                ("layers.0.w", ["1.0", "-2.0", "inf", "0.100097656"]),
                ("layers.0.b", ["-5", "1099511627776"]),
                ("layers.1.w", ["0.5", "-0.25"]),
                ("flags", ["True", "False", "True"]),
                ("scalar", ["3.25"]), ("empty", [])]:
            with self.subTest(key=key):
                self.assertEqual(
                    self.run_ok("cat", "--values", self.model, key)
                    .splitlines(), lines)

    def test_values_count(self):
        n = 5000
        write_safetensors(self.model, [
            ("w", "I32", [n], struct.pack(f"<{n}i", *range(n)))])
        ten = [str(i) for i in range(10)]
        for argv, lines in [(["--values"], ten), (["--values=3"], ten[:3]),
                            (["--values", "3"], ten[:3]),
                            (["--values=0"], []),
                            (["--values=99999999999999"],
                             [str(i) for i in range(n)])]:
            with self.subTest(argv=argv):
                self.assertEqual(
                    self.run_ok("cat", *argv, self.model, "w").splitlines(),
                    lines)

    def test_values_of_every_kind(self):
        write_safetensors(self.model, [
            ("f64", "F64", [4], struct.pack(
                "<4d", 1e300, -0.1, 1e22, float("nan"))),
            ("f32", "F32", [3], floats([3.4e38, 1e-45, 16777216])),
            ("u64", "U64", [1], struct.pack("<Q", (1 << 64) - 1)),
            ("i8", "I8", [2], b"\x80\x7f"),
            ("e4m3", "F8_E4M3", [3], b"\x38\x7f\xb8"),
            ("e5m2", "F8_E5M2", [2], b"\x3c\x7c"),
            ("fp4", "F4", [4], b"\x21\x7f"),
            ("c64", "C64", [1], floats([1, -2.5]))])
        for key, lines in [
                ("f64", ["1e+300", "-0.1", "1e+22", "nan"]),
                ("f32", ["3.4e+38", "1e-45", "16777216.0"]),
                ("u64", ["18446744073709551615"]), ("i8", ["-128", "127"]),
                ("e4m3", ["1.0", "nan", "-1.0"]), ("e5m2", ["1.0", "inf"]),
                ("fp4", ["0.5", "1.0", "-6.0", "6.0"]),
                ("c64", ["1.0-2.5j"])]:
            with self.subTest(key=key):
                self.assertEqual(
                    self.run_ok("cat", "--values", self.model, key)
                    .splitlines(), lines)

    def test_refusals(self):
        self.assertIn("directory", self.refused(1, "cat", self.model,
                                                "layers"))
        self.assertIn("folder", self.refused(1, "cat", self.tmp, "."))
        self.assertIn("float32", self.refused(1, "cat", "--f32", self.model,
                                              "layers.0.b"))

    def test_names_on_a_terminal(self):
        write_safetensors(self.model, [("\u009b2J", "U8", [1], b"x"),
                                       ("\x7f", "U8", [1], b"x")])
        for argv in (["ls"], ["ls", "--json"], ["ls", "-l"], ["tree"],
                     ["tree", "--json"], ["info"], ["info", "--json"]):
            with self.subTest(argv=argv):
                master, slave = pty.openpty()
                done = self.run_raw(*argv, self.model, stdout=slave)
                os.close(slave)
                self.assertEqual(done.returncode, 0, done)
                shown = os.read(master, 1 << 16)
                os.close(master)
                self.assertNotIn(b"\xc2\x9b", shown)
                self.assertNotRegex(shown.replace(b"\r\n", b"\n"),
                                    rb"[\x00-\x09\x0b-\x1f\x7f]")
                if "--json" in argv:
                    json.loads(shown)

    def test_terminal(self):
        for argv, ok in ([], False), (["--npy"], False), (["--values"], True):
            with self.subTest(argv=argv):
                master, slave = pty.openpty()
                done = self.run_raw("cat", *argv, self.model, "flags",
                                    stdout=slave)
                os.close(slave)
                if ok:
                    self.assertEqual(done.returncode, 0, done)
                    self.assertIn(b"True", os.read(master, 100))
                else:
                    self.assertEqual(done.returncode, 1, done)
                    self.assertIn(b"terminal", done.stderr)
                os.close(master)


class Doctor(Case):
    def test_doctor(self):
        done = self.run_raw("doctor", "--json")
        got = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if got["can_mount"] else 1)
        names = [check["name"] for check in got["checks"]]
        for name in ("/dev/fuse", "fusermount3", "passthrough", "openat2",
                     "ptrace scope", "CUDA", "allow_other"):
            self.assertIn(name, names)
        self.assertEqual(
            got["can_mount"],
            all(check["status"] != "bad" for check in got["checks"]))
        text = self.run_raw("doctor")
        self.assertEqual(text.returncode, done.returncode)
        for name in names:
            self.assertIn(name, text.stdout.decode())


if __name__ == "__main__":
    TASDFS = os.path.abspath(sys.argv.pop(1))
    os.environ["LC_ALL"] = "C.UTF-8"
    unittest.main()
