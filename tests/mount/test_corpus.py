"""Files the real library wrote, against what the real library read."""
import json
import os
import sys

from support import st
from support.harness import MODES, leaves, read, test

USERS = ("root", "nobody")


def cases(t):
    folder = os.path.join(t.data, "safetensors")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".expected.json"):
            yield os.path.join(folder, name)
    yield os.path.join(t.data, "hf_llama_tiny")


def check(t, top, expected):
    checker = os.path.join(os.path.dirname(t.binary), "check_mount.py")
    done = t.run(sys.executable, checker, top, expected, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@test(modes=MODES, users=USERS, timeout=120)
def test_mounted(t):
    """Each file mounted by itself."""
    count = 0
    for case in cases(t):
        with t.mount(case) as m:
            check(t, m.path, case + ".expected.json")
            count += 1
    assert count >= 15, count


@test(modes=MODES, users=USERS, timeout=120)
def test_in_a_library(t):
    """Each file through its face in one mounted folder."""
    with t.mount(t.data) as m:
        for case in cases(t):
            face = m / os.path.relpath(case, t.data) + ".tasd"
            check(t, face, case + ".expected.json")


@test(modes=MODES)
def test_five_thousand(t):
    """A file of 5,000 tensors, made here rather than shipped."""
    tensors = [(f"model.layers.{i // 50}.p{i % 50}.weight", "F32", [4],
                st.f32(i, -i, i / 3, 1)) for i in range(5000)]
    source = st.write(t.path("many"), tensors, {"format": "pt"})
    with t.mount(source) as m:
        found = leaves(m.path)
        assert len(found) == 5000
        for name, _, _, data in tensors:
            assert read(found[name]) == data, name


@test()
def test_checker_can_fail(t):
    """The checker tells a wrong byte, a wrong shape and a missing tensor."""
    case = os.path.join(t.data, "safetensors", "prefix.safetensors")
    with open(case + ".expected.json") as f:
        expected = json.load(f)
    changes = {"sha256": "0" * 64, "shape": [9], "dtype": "I64",
               "path": [{"t": "str", "v": "not there"}]}
    with t.mount(case) as m:
        for field, wrong in changes.items():
            twisted = json.loads(json.dumps(expected))
            twisted["entries"][0][field] = wrong
            path = t.path("twisted.json")
            with open(path, "w") as f:
                json.dump(twisted, f)
            try:
                check(t, m.path, path)
            except AssertionError:
                continue
            raise AssertionError(f"a wrong {field} was not noticed")
