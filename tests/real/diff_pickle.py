#!/usr/bin/env python3
"""Hold the pickle machine against CPython's own unpickler.

    diff_pickle.py PICKLE_DUMP [--seed N] [--rounds N] [--safe]

Random objects at every protocol, random mutations of their streams and random
programs of opcodes are read by both: the same graph, or both refuse.  CPython
reads with classes and persistent ids that only record how they were used.
Where the two may differ, ALLOWED says so and why.  --safe compares the table of
safe globals with the torch that is installed instead.

Only the Python standard library is used.
"""
import argparse
import collections
import datetime
import decimal
import enum
import fractions
import io
import json
import pickle
import pickletools
import random
import resource
import string
import struct
import subprocess
import sys
import warnings

# What the machine refuses and CPython takes: messages, and the reason.
ALLOWED = {
    "takes no state": "CPython does nothing with None, or sets attributes of a class",
    "not a decimal number": "CPython reads hexadecimal, signs and underscores",
    "not a memo index": "CPython reads signs, spaces and underscores",
    "not a number": "CPython's float takes underscores",
    "takes no keys": "CPython puts items into lists and bytearrays by position",
    "has no append": "CPython appends numbers to bytearrays",
    "frame": "CPython reads a file with crooked frames in other ways than the same bytes in memory",
    "its data is not in the file": "CPython makes memoryviews of bytes that are",
    "its name is bytes": "a name that is not UTF-8, which only errors=surrogateescape reads",
    "a number of": "CPython has a limit of its own for digits, for int() only",
}
# What CPython refuses and the machine takes.
REFUSED = {
    "argument must be a type": "a class that only a call would give: kept as an object",
    "isn't a type object": "the same",
    "unregistered extension code": "the registry is of the process that wrote it",
    "must be a type object": "the same as above",
}
TOKENS_MAX = 20000
DIGITS = 4300


def py_hex(text):
    return text.encode("utf-8", "surrogatepass").hex()


class Recorder:
    """What an instance of an unknown class remembers."""

    how = callable = None

    def setup(self, how, what, args, kwargs):
        self.how, self.callable, self.args, self.kwargs = how, what, args, kwargs
        self.states, self.items, self.pairs, self.places = [], [], [], {}
        return self

    def __call__(self, *args, **kwargs):
        return Instance().setup("c", self, args, kwargs)

    def __setstate__(self, state):
        self.states.append(state)

    def append(self, item):
        self.items.append(item)

    def extend(self, items):
        self.items.extend(items)

    add = append

    def __setitem__(self, key, value):
        try:
            place = self.places.setdefault(("key", key), len(self.pairs))
        except TypeError:
            place = self.places.setdefault(("id", id(key)), len(self.pairs))
        if place == len(self.pairs):
            self.pairs.append([key, value])
        else:
            self.pairs[place][1] = value


class Instance(Recorder):
    pass


class Meta(type):
    def __call__(cls, *args, **kwargs):
        return Instance().setup("c", cls, args, kwargs)


def make_new(cls, *args, **kwargs):
    return Instance().setup("n", cls, args, kwargs)


class PersId:
    def __init__(self, pid):
        self.pid = pid

    def __call__(self, *args):
        return Instance().setup("c", self, args, {})


class Inert(pickle.Unpickler):
    def __init__(self, stream):
        super().__init__(stream, encoding="utf-8", errors="surrogateescape")
        self.classes = {}
        self.named = collections.Counter()

    def find_class(self, module, name):
        key = (module, name)
        self.named[key] += 1
        if key not in self.classes:
            cls = Meta.__new__(Meta, "Named", (Recorder,), {"__new__": make_new})
            cls.tasd = key
            self.classes[key] = cls
        return self.classes[key]

    def persistent_load(self, pid):
        return PersId(pid)


def plain(value):
    """The token of a value without parts, or None."""
    kind = type(value)
    if value is None:
        return "N"
    if kind is bool:
        return "T" if value else "F"
    if kind is int:
        if value.bit_length() > 14300 or abs(value) >= 10 ** DIGITS:
            return "i!"
        return "i%d" % value
    if kind is float:
        return "f" + repr(value)
    if kind is str:
        return "s" + py_hex(value)
    if kind is bytes:
        return "b" + value.hex()
    if kind is Meta:
        return "g%s:%s" % tuple(py_hex(t) for t in value.tasd)
    if kind is PersId:
        return "p"
    return None


def tokens_of(root):
    """The graph as pickle_dump.c prints it."""
    out, numbers, keep = [], {}, []
    stack = [iter([("", root)])]
    while stack and len(out) < TOKENS_MAX:
        try:
            role, value = next(stack[-1])
        except StopIteration:
            stack.pop()
            continue
        if role == "kwargs":
            out.append("d%d" % len(value))
            stack.append(iter([("", x) for pair in value.items() for x in pair]))
            continue
        text = plain(value)
        if text is not None:
            out.append(text)
            if text == "p":
                stack.append(iter([("", value.pid)]))
            continue
        kind = type(value)
        if kind not in (tuple, frozenset):
            if id(value) in numbers:
                out.append("r%d" % numbers[id(value)])
                continue
            numbers[id(value)] = len(numbers)
            keep.append(value)
        if kind in (tuple, list):
            out.append("%s%d" % (kind.__name__[0], len(value)))
            stack.append(iter([("", x) for x in value]))
        elif kind in (set, frozenset):
            items = sorted("t" if type(x) is tuple else plain(x) or "?" for x in value)
            out.append("".join([{set: "S", frozenset: "Z"}[kind]] + [" " + x for x in items]))
        elif kind is dict:
            out.append("d%d" % len(value))
            stack.append(iter([("", x) for pair in value.items() for x in pair]))
        elif kind is bytearray:
            out.append("y" + value.hex())
        elif kind is Instance:
            out.append("o%s %d %d %d %d" % (value.how, len(value.kwargs), len(value.states),
                                            len(value.items), len(value.pairs)))
            parts = [("", value.callable), ("", value.args)]
            parts += [("kwargs", value.kwargs)] if value.kwargs else []
            parts += [("", x) for x in value.states + value.items]
            parts += [("", x) for pair in value.pairs for x in pair]
            stack.append(iter(parts))
        else:
            raise ValueError("a %s among what was read" % kind)
    return out


class Dump:
    def __init__(self, path):
        self.proc = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self, data):
        self.proc.stdin.write(struct.pack("<I", len(data)) + data)
        self.proc.stdin.flush()
        line = self.proc.stdout.readline()
        if not line:
            raise SystemExit("pickle_dump died of %r" % data)
        return json.loads(line)


def python_reads(data):
    """(tokens, used, names), or (None, error, names); Ellipsis: cannot tell."""
    stream = io.BytesIO(data)
    unpickler = Inert(stream)
    try:
        value = unpickler.load()
    except MemoryError:
        return Ellipsis, "out of memory", unpickler.named
    except RecursionError:
        return Ellipsis, "recursion", unpickler.named
    except Exception as e:  # all it can raise means that it refuses
        return None, "%s: %s" % (type(e).__name__, e), unpickler.named
    try:
        return tokens_of(value), stream.tell(), unpickler.named
    except ValueError as e:  # a memoryview of READONLY_BUFFER
        return Ellipsis, str(e), unpickler.named


# Classes whose instances are pickled.

class Plain:
    def __init__(self, **kw):
        self.__dict__.update(kw)


class Slots:
    __slots__ = ("a", "b")


class State(Plain):
    def __getstate__(self):
        return ("a tuple", dict(self.__dict__))

    def __setstate__(self, state):
        self.__dict__.update(state[1])


class NewArgs(Plain):
    def __new__(cls, *args, **kw):
        return object.__new__(cls)

    def __getnewargs_ex__(self):
        return (1, "two"), {"three": [3]}


class MyList(list):
    pass


class MyDict(dict):
    pass


class Reduced(Plain):
    def __reduce__(self):
        return (Plain, (), self.__dict__, iter([1, 2]), iter([("k", "v")]))


class Color(enum.Enum):
    RED = 1
    BLUE = "b"


class Persistent:
    def __init__(self, pid):
        self.pid = pid


class Writer(pickle.Pickler):
    def persistent_id(self, obj):
        return obj.pid if type(obj) is Persistent else None


class SlowWriter(pickle._Pickler):
    def persistent_id(self, obj):
        return obj.pid if type(obj) is Persistent else None


ALPHABET = string.ascii_letters + "\0\n\\'\" /.%\u00e9\u0416\ud800\udfff\U0001f600\x7f\x80\xff"


class Maker:
    """Random objects, with parts that occur several times."""

    def __init__(self, rng):
        self.rng = rng
        self.made = []

    def text(self):
        return "".join(self.rng.choice(ALPHABET) for _ in range(self.rng.choice((0, 1, 3, 8, 300))))

    def integer(self):
        rng = self.rng
        return rng.choice((
            rng.randrange(-3, 300), rng.randrange(-2 ** 16, 2 ** 16), rng.randrange(-2 ** 33, 2 ** 33),
            rng.randrange(-2 ** 65, 2 ** 65), rng.randrange(-2 ** 2100, 2 ** 2100),
            2 ** rng.randrange(0, 140), -2 ** rng.randrange(0, 140), 2 ** rng.randrange(0, 140) - 1,
            10 ** rng.randrange(0, 700)))

    def number(self):
        rng = self.rng
        return rng.choice((
            0.0, -0.0, float("inf"), float("-inf"), 1e16, 1e-5, 123456789012345680.0, rng.random(),
            struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0],
            2.0 ** rng.randrange(-1074, 1024), float(rng.randrange(-2 ** 70, 2 ** 70)),
            rng.randrange(1000) / 8, 5e-324 * rng.randrange(1, 1000)))

    def atom(self):
        rng = self.rng
        kind = rng.randrange(14)
        if kind == 0:
            return None
        if kind == 1:
            return rng.random() < 0.5
        if kind in (2, 3, 4):
            return self.integer()
        if kind in (5, 6):
            return self.number()
        if kind in (7, 8, 9):
            return self.text()
        if kind == 10:
            return rng.randbytes(rng.choice((0, 1, 5, 300)))
        if kind == 11:
            return rng.choice((len, Plain, Color.RED, collections.OrderedDict, Ellipsis, struct.pack))
        if kind == 12:
            return rng.choice((complex(1, -2.5), decimal.Decimal("1.5"), fractions.Fraction(1, 3),
                               datetime.date(2020, 2, 3), range(3), slice(1, 2)))
        return Persistent(rng.choice(("p1", "0")))

    def key(self, depth):
        rng = self.rng
        if depth and rng.random() < 0.2:
            items = [self.key(depth - 1) for _ in range(rng.randrange(4))]
            return tuple(items) if rng.random() < 0.7 else frozenset(items)
        return rng.choice((self.text, self.integer, self.number, lambda: rng.randrange(4),
                           lambda: rng.choice((True, False, None, 0, 1, 1.0, 2.0 ** 70, 2 ** 70)),
                           lambda: rng.randbytes(2)))()

    def value(self, depth=5):
        rng = self.rng
        if self.made and rng.random() < 0.15:
            return rng.choice(self.made)
        if not depth or rng.random() < 0.35:
            return self.atom()
        made = self.container(depth, rng.choice((0, 1, 2, 3, 4, 12)))
        self.made.append(made)
        return made

    def container(self, depth, n):
        rng = self.rng
        part = lambda: self.value(depth - 1)  # noqa: E731
        names = lambda: "".join(rng.choice("abc_") for _ in range(3))  # noqa: E731
        kind = rng.randrange(16)
        if kind in (0, 1):
            out = []
            self.made.append(out)  # so that it may hold itself
            out.extend(part() for _ in range(n))
            return out
        if kind in (2, 3, 4):
            out = {}
            self.made.append(out)
            out.update((self.key(2), part()) for _ in range(n))
            return out
        if kind in (5, 6):
            return tuple(part() for _ in range(n))
        if kind == 7:
            return {self.key(2) for _ in range(n)}
        if kind == 8:
            return frozenset(self.key(2) for _ in range(n))
        if kind == 9:
            return bytearray(rng.randbytes(n))
        if kind == 10:
            out = Slots()
            out.a = part()
            return out
        if kind == 11:
            out = MyList(part() for _ in range(n))
            out.extra = part()
            return out
        if kind == 12:
            return MyDict((self.key(1), part()) for _ in range(n))
        if kind == 13:
            return collections.OrderedDict((self.key(1), part()) for _ in range(n))
        if kind == 14:
            return collections.defaultdict(list, {1: part()})
        out = rng.choice((Plain, State, NewArgs, Reduced))()
        out.__dict__.update((names(), part()) for _ in range(n))
        return out


def write(rng, value):
    protocol = rng.randrange(6)
    while True:
        stream = io.BytesIO()
        try:
            rng.choice((Writer, SlowWriter))(stream, protocol).dump(value)
            break
        except (TypeError, pickle.PicklingError):
            protocol += 1  # slots and keyword arguments need a newer one
            if protocol > 5:
                raise
    data = stream.getvalue()
    if rng.random() < 0.2:
        data = pickletools.optimize(data)
    return data


OPS = [(op.code.encode("latin-1"), op.arg.name if op.arg else None) for op in pickletools.opcodes]
NAMES = (b"os", b"torch._utils", b"x.y", b"\xc3\xa9", b"", b"__builtin__", b"set")


def argument(rng, kind):
    """Bytes of a random, mostly sound argument of an opcode."""
    some = rng.randbytes(rng.choice((0, 1, 2, 5)))
    if rng.random() < 0.5:
        some = rng.choice((b"os", b"a", b"\\'", b"\\x41", b"\\u00e9\\\\", b"12", b"abc"))
    line = some.replace(b"\n", b"") + b"\n"
    n = rng.choice((0, 1, 2, 3, 200, 255))
    small = rng.randrange(4)
    return {
        None: b"",
        "uint1": bytes([rng.choice((small, n))]), "uint2": struct.pack("<H", rng.choice((small, 300))),
        "int4": struct.pack("<i", rng.choice((small, -1, 2 ** 31 - 1))),
        "uint4": struct.pack("<I", rng.choice((small, 5000))),
        "uint8": struct.pack("<Q", rng.choice((0, 1, 5, 2 ** 63, 2 ** 64 - 1))),
        "float8": struct.pack(">d", rng.choice((1.0, 2.5, float("nan"), 1e300, -0.0, 2.0 ** 64))),
        "decimalnl_short": rng.choice((b"0\n", b"1\n", b"00\n", b"01\n", b"-7\n", line, b"123456789012345678901\n")),
        "decimalnl_long": rng.choice((b"0L\n", b"1\n", b"-7L\n", line, b"123456789012345678901L\n", b"01L\n")),
        "floatnl": rng.choice((b"1\n", b"-1.5e3\n", b"nan\n", b"1e400\n", b".\n", b"1.\n", b".5\n", b"-inf\n", line)),
        "stringnl": rng.choice((b"'" + some.replace(b"\n", b"") + b"'\n", b'"a\\n\\101\\x7f\\q"\n', b"'\\\n", line)),
        "unicodestringnl": line,
        "stringnl_noescape": rng.choice((b"0\n", b"1\n", b"2\n", line)),
        "stringnl_noescape_pair": rng.choice(NAMES) + b"\n" + rng.choice(NAMES) + b"\n",
        "string1": bytes([len(some)]) + some, "bytes1": bytes([len(some)]) + some,
        "unicodestring1": bytes([len(some)]) + some, "long1": bytes([len(some)]) + some,
        "string4": struct.pack("<i", rng.choice((len(some), len(some), -1))) + some,
        "bytes4": struct.pack("<I", len(some)) + some, "unicodestring4": struct.pack("<I", len(some)) + some,
        "long4": struct.pack("<i", rng.choice((len(some), -1))) + some,
        "bytes8": struct.pack("<Q", len(some)) + some, "bytearray8": struct.pack("<Q", len(some)) + some,
        "unicodestring8": struct.pack("<Q", len(some)) + some,
    }[kind]


class Program:
    """A random program of opcodes that mostly finds on the stack what it needs."""

    PUSH = ((b"N", "n"), (b"K\x01", "k"), (b"K\x02", "k"), (b"J\xff\xff\xff\xff", "k"), (b"\x88", "k"), (b"]", "l"),
            (b"}", "d"), (b")", "t"), (b"\x8f", "S"), (b"cos\nx\n", "g"), (b"c__builtin__\nset\n", "g"), (b"\x8c\x01a", "k"),
            (b"U\x02a\xff", "k"), (b"C\x01a", "k"), (b"G?\xf0\0\0\0\0\0\0", "k"), (b"G\x7f\xf8\0\0\0\0\0\0", "k"),
            (b"GC\xe0\0\0\0\0\0\0", "k"), (b"\x8a\x09\0\0\0\0\0\0\0\x80\0", "k"), (b"\x96" + b"\x01" + b"\0" * 7 + b"z", "y"),
            (b"\x8c\x01m\x8c\x01n\x93", "g"), (b"P1\n", "p"), (b"F-0.0\n", "k"), (b"V\\u0061\n", "k"))
    # Needs below the top, makes instead of them; "." is anything.
    CHANGE = ((b"0", ".", ""), (b"2", ".", "2"), (b"\x85", ".", "t"), (b"\x86", "..", "t"), (b"\x87", "...", "t"),
              (b"R", "gt", "o"), (b"R", "ot", "o"), (b"\x81", "gt", "o"), (b"\x92", "gtd", "o"), (b"b", "o.", "o"),
              (b"a", "l.", "l"), (b"a", "o.", "o"), (b"s", "dk.", "d"), (b"s", "ok.", "o"), (b"s", "dt.", "d"), (b"Q", ".", "p"),
              (b"s", "o..", "o"), (b"b", "on", "o"), (b"s", "d..", "d"))
    MARKED = ((b"e", "l", "l"), (b"e", "o", "o"), (b"u", "d", "d"), (b"u", "o", "o"), (b"\x90", "S", "S"), (b"\x90", "o", "o"),
              (b"l", "", "l"), (b"d", "", "d"), (b"t", "", "t"), (b"\x91", "", "z"), (b"1", "", ""), (b"ios\nx\n", "", "o"),
              (b"o", "", "o"))

    def __init__(self, rng):
        self.rng, self.stack, self.marks, self.memo, self.out = rng, [], [], {}, []

    def room(self):
        return self.stack[self.marks[-1] if self.marks else 0:]

    def fits(self, needs):
        have = self.room()[-len(needs):] if needs else []
        return len(have) == len(needs) and all(n in (".", h) for n, h in zip(needs, have))

    def remember(self):
        index = self.rng.choice((0, 1, 2, 3, 300, 5000, len(self.memo)))
        if index == len(self.memo) and self.rng.random() < 0.5:
            self.out.append(b"\x94")
        elif index < 256:
            self.out.append(b"q" + bytes([index]))
        else:
            self.out.append(self.rng.choice((b"r" + struct.pack("<I", index), b"p%d\n" % index)))
        self.memo[index] = self.stack[-1]

    def marked(self):
        rng, at = self.rng, self.marks[-1]
        below = self.stack[:at][self.marks[-2] if len(self.marks) > 1 else 0:]
        ops = [op for op in self.MARKED if not op[1] or (below and below[-1] == op[1])]
        if rng.random() < 0.7:
            ops = [op for op in ops if op[1]] or ops
        code, needs, makes = rng.choice(ops)
        above = self.stack[at:]
        if code == b"o" and (not above or above[0] not in "go") and rng.random() < 0.9:
            return
        if code in (b"u", b"d") and len(above) % 2 and rng.random() < 0.95:
            return
        if code in (b"u", b"d") and set(above[::2]) & set("ldSy") and rng.random() < 0.9:
            return
        if code in (b"\x90", b"\x91") and set(above) & set("ldSy") and rng.random() < 0.9:
            return
        self.out.append(code)
        self.marks.pop()
        del self.stack[at - len(needs):]
        self.stack.extend(makes)

    def step(self):
        rng = self.rng
        what = rng.random()
        if what < 0.4:
            code, makes = rng.choice(self.PUSH)
            self.out.append(code)
            self.stack.append(makes)
        elif what < 0.65:
            ops = [op for op in self.CHANGE if self.fits(op[1])]
            if ops:
                code, needs, makes = rng.choice(ops)
                self.out.append(code)
                top = self.stack[-1]
                del self.stack[len(self.stack) - len(needs):]
                self.stack.extend([top, top] if makes == "2" else makes)
        elif what < 0.72:
            self.out.append(b"(")
            self.marks.append(len(self.stack))
        elif what < 0.82:
            if self.marks:
                self.marked()
        elif what < 0.9:
            if self.room():
                self.remember()
        elif self.memo:
            index = rng.choice(list(self.memo))
            self.out.append(b"g%d\n" % index if index > 255 else b"h" + bytes([index]))
            self.stack.append(self.memo[index])
        if rng.random() < 0.01:
            code, arg = rng.choice(OPS)
            if code not in b"\x80.":
                self.out.append(code + argument(rng, arg))

    def make(self):
        if self.rng.random() < 0.7:
            self.out.append(b"\x80" + bytes([self.rng.randrange(6)]))
        for _ in range(self.rng.randrange(2, 80)):
            self.step()
        while self.marks and self.rng.random() < 0.95:
            self.out.append(self.rng.choice((b"l", b"t")))
            self.stack[self.marks.pop():] = ["l"]
        if not self.room():
            self.out.append(b"]")
        elif self.rng.random() < 0.5:
            n = len(self.room())
            self.out.append(b"\x86" * (n - 1))  # so that nothing stays unseen
        return b"".join(self.out) + b"."


def noise(rng):
    """Opcodes without a plan."""
    out = []
    for _ in range(rng.randrange(1, 8)):
        code, arg = rng.choice(OPS)
        out.append(rng.choice((b"N", b"]", b"}", b"K\x01", b"(", b")", b"cos\nx\n")))
        out.append(code + argument(rng, arg))
    return b"".join(out) + b"."


def mutate(rng, data, other):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(6)
        if what == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif what == 1:
            data[at:at] = rng.choice(OPS)[0]
        elif what == 2 and at < len(data):
            data[at:at + 1] = rng.choice(OPS)[0]
        elif what == 3:
            del data[at:at + rng.randrange(1, 5)]
        elif what == 4:
            del data[at:]
        else:
            cut = rng.randrange(len(other) + 1)
            data[at:at] = other[cut:cut + rng.randrange(20)]
    return bytes(data)


class Diff:
    def __init__(self, dump):
        self.dump = dump
        self.count = collections.Counter()
        self.failed = 0

    def fail(self, what, data, *details):
        self.failed += 1
        if self.failed <= 20:
            print("FAIL", what, data[:400])
            for detail in details:
                print("    ", str(detail)[:600])

    def check(self, what, data, sound):
        ours = self.dump.read(data)
        want, used, named = python_reads(data)
        if want is Ellipsis:
            self.count["cannot tell"] += 1
            return
        if want is None and not ours["ok"]:
            self.count["refused by both"] += 1
            if sound:
                self.fail(what + ": a sound stream is refused", data, used, ours["error"])
            return
        if not ours["ok"]:
            reason = next((a for a in ALLOWED if a in ours["error"]), None)
            if reason is None or sound:
                return self.fail(what + ": only the machine refuses", data, ours["error"])
            self.count["only ours refuses: " + reason] += 1
            return
        if want is None:
            reason = next((a for a in REFUSED if a in used), None)
            if reason is None or sound:
                return self.fail(what + ": only CPython refuses", data, used, ours["graph"])
            self.count["only CPython refuses: " + reason] += 1
            return
        self.count["read by both"] += 1
        if ours["graph"] != want[:TOKENS_MAX] and ours["graph"][:len(want)] != want:
            return self.fail(what + ": the graphs differ", data, ours["graph"], want)
        if ours["used"] != used:
            return self.fail(what + ": it ends elsewhere", data, ours["used"], used)
        names = [((m, n), c) for m, n, c, _ in ours["globals"] if m or not n.startswith("extension ")]
        if names != list(named.items()):
            self.fail(what + ": the globals differ", data, names, named)


def compare_safe(path):
    import torch._weights_only_unpickler as unpickler
    import torch.distributed.tensor  # noqa: F401  it adds its classes
    want = set(unpickler._get_allowed_globals()) | set(unpickler._get_user_allowed_globals())
    ours = subprocess.run([path, "--safe"], check=True, capture_output=True, text=True).stdout.split()
    print("more:", sorted(set(ours) - want), "missing:", sorted(want - set(ours)), "sorted:", ours == sorted(ours))
    return 0 if set(ours) == want and ours == sorted(ours) else 1


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("dump")
    ap.add_argument("--seed", type=int, default=random.randrange(2 ** 32))
    ap.add_argument("--rounds", type=int, default=2000)
    ap.add_argument("--safe", action="store_true")
    args = ap.parse_args()
    if args.safe:
        return compare_safe(args.dump)
    print("seed", args.seed)
    warnings.simplefilter("ignore", DeprecationWarning)  # odd escapes
    diff = Diff(Dump(args.dump))
    # A mutated memo index makes CPython allocate gigabytes.
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    last = b"N."
    for n in range(args.rounds):
        rng = random.Random("%d/%d" % (args.seed, n))
        data = write(rng, Maker(rng).value())
        diff.check("object %d" % n, data, True)
        for _ in range(5):
            diff.check("mutated %d" % n, mutate(rng, data, last), False)
        for _ in range(10):
            diff.check("program %d" % n, Program(rng).make(), False)
            diff.check("noise %d" % n, noise(rng), False)
        last = data
    for what, count in sorted(diff.count.items()):
        print("%8d %s" % (count, what))
    print("%d failed" % diff.failed)
    return 0 if not diff.failed and diff.count["read by both"] > args.rounds else 1


if __name__ == "__main__":
    sys.exit(main())
