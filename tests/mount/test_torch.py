"""PyTorch's files: what torch reads from them, and what must not be."""
import errno
import os
import sys

from support.harness import MODES, fails, read, test, walk, xattr

REFUSED = """legacy_magic_bad pkl_bad_opcode pkl_binbytes8_huge pkl_empty
pkl_frame_wrong pkl_long4_neg pkl_memo_missing pkl_no_stop pkl_nonutf8_key
pkl_truncated pkl_underflow pkl_unhashable_key plain_pickle zip64_absurd
zip_byteorder_bad zip_cd_offset zip_cut_10 zip_cut_50 zip_cut_90
zip_no_data_pkl zip_no_eocd zip_overlap""".split()

# What is readable beside the broken or unsafe thing, and what cannot be opened.
SHOWN = {
    "legacy_cut": ([], ["a"]),
    "legacy_numel_huge": ([], ["a"]),
    "legacy_os_system": ([], []),
    "pkl_builtins_eval": (["w"], []),
    "pkl_dotted_global": ([], []),
    "pkl_dup_keys": (["a"], []),
    "pkl_ext": ([], []),
    "pkl_laughs": ([], []),
    "pkl_memo_huge": ([], []),
    "pkl_newobj_build": (["w"], []),
    "pkl_obj_opcode": ([], []),
    "pkl_os_system": (["w"], []),
    "pkl_surrogate_key": ([], []),
    "pt_control": (["w"], []),
    "ten_missing_record": (["good"], ["bad"]),
    "ten_numel_lies": (["good"], ["bad"]),
    "ten_off_huge": (["good"], ["bad"]),
    "ten_overlap_write_bomb": (["good"], []),
    "ten_past_storage": (["good"], ["bad"]),
    "ten_rank_mismatch": (["good"], ["bad"]),
    "ten_size_neg": (["good"], ["bad"]),
    "ten_size_overflow": (["good"], ["bad"]),
    "ten_stride_huge": (["good"], ["bad"]),
    "ten_traversal_key": (["good"], ["bad"]),
    "zip_crc_wrong": (["w", "v"], []),
    "zip_dup_data_pkl": (["z"], []),
    "zip_encrypted_flag": (["w"], ["v"]),
    "zip_nul_name": (["w"], []),
    "zip_rec_size": (["w"], ["v"]),
    "zip_traversal": (["w"], []),
}

# Files whose pickle names something that torch's safe loader does not allow.
UNSAFE = {"pkl_builtins_eval": b"builtins.eval\n",
          "pkl_os_system": b"os.system\n",
          "pkl_newobj_build": b"subprocess.Popen\n"}


def good(t):
    folder = os.path.join(t.data, "torch")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".expected.json"):
            yield os.path.join(folder, name)


def hostile(t, name):
    return os.path.join(t.data, "torch_hostile", name + ".pt")


def files(top):
    return [os.path.join(os.fsencode(top), name)
            for name, entry in walk(top) if entry.is_file()]


def check(t, top, expected):
    checker = os.path.join(os.path.dirname(t.binary), "check_mount.py")
    done = t.run(sys.executable, checker, top, expected, check=False)
    assert done.returncode == 0, expected + done.stdout + done.stderr


@test(modes=MODES, timeout=180)
def test_mounted(t):
    """Each file by itself, and through its face in a library."""
    count = 0
    for case in good(t):
        with t.mount(case) as m:
            check(t, m.path, case + ".expected.json")
            count += 1
    assert count >= 20, count
    with t.mount(os.path.join(t.data, "torch")) as m:
        for case in good(t):
            check(t, m / os.path.basename(case) + ".tasd",
                  case + ".expected.json")


@test()
def test_all_are_listed(t):
    """Each hostile file stands in one of the tables."""
    folder = os.path.join(t.data, "torch_hostile")
    names = {n.removesuffix(".pt") for n in os.listdir(folder)}
    assert names == set(REFUSED) | set(SHOWN), names ^ (
        set(REFUSED) | set(SHOWN))


@test(timeout=120)
def test_refused(t):
    """One clear line, and no mount."""
    at = t.path("at")
    os.mkdir(at)
    for name in REFUSED:
        done = t.tasdfs("mount", hostile(t, name), at, check=False)
        assert done.returncode == 1, (name, done)
        assert done.stderr.count("\n") == 1, (name, done.stderr)
        assert "Sanitizer" not in done.stderr, done.stderr


@test(timeout=180)
def test_partly_shown(t):
    """The rest is readable; what is broken is EIO and says why."""
    for name, (fine, broken) in SHOWN.items():
        with t.mount(hostile(t, name)) as m:
            for leaf in fine:
                assert len(read(m / leaf)) == os.stat(m / leaf).st_size, name
            for leaf in broken:
                with fails(errno.EIO):
                    read(m / leaf)
                assert xattr(m / leaf, "error"), (name, leaf)
            if not broken and name != "ten_overlap_write_bomb":
                for path in files(m.path):
                    read(path)


@test()
def test_expanded_is_lazy(t):
    """4 TiB over 4 bytes: its size is told, its ends can be read."""
    with t.mount(hostile(t, "ten_overlap_write_bomb")) as m:
        size = os.stat(m / "bad").st_size
        assert size == 4 << 40, size
        fd = os.open(m / "bad", os.O_RDONLY)
        try:
            first = os.pread(fd, 4096, 0)
            assert first == os.pread(fd, 4096, size - 4096)
            assert first == first[:4] * 1024
        finally:
            os.close(fd)


@test()
def test_unsafe_names(t):
    """What a loader would import is told, and is never run."""
    for name, want in UNSAFE.items():
        with t.mount(hostile(t, name)) as m:
            assert read(m / ".tasd/unsafe") == want, read(m / ".tasd/unsafe")
            assert xattr(m.path, "unsafe") == "1"
    with t.mount(hostile(t, "pt_control")) as m:
        assert xattr(m.path, "unsafe") == "0"
        assert not os.path.exists(m / ".tasd/unsafe")


@test()
def test_ties_are_hard_links(t):
    """Tied tensors: one file of several names, each with its own key."""
    with t.mount(os.path.join(t.data, "torch", "shared.pt")) as m:
        by_ino = {}
        for path in files(m.path):
            by_ino.setdefault(os.stat(path).st_ino, []).append(path)
        tied = [paths for paths in by_ino.values() if len(paths) > 1]
        assert tied
        for paths in tied:
            assert {os.stat(p).st_nlink for p in paths} == {len(paths)}
            assert len({xattr(p, "key") for p in paths}) == len(paths)
