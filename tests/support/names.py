"""How keys become paths, said a second time: the oracle of the name tests.

It is written from the design, not from the server, and is as plain as it can
be: one key after the other, no tables.
"""

NAME_MAX = 255
SPLIT_KEY_MAX = 1024
SPLIT_COMPONENT_MAX = 128


def encode(key):
    return key.encode("utf-8", "surrogateescape")


def split(key, keys):
    """The pieces of one str key, given all keys of its dict."""
    raw = encode(key)
    cuts = [i for i, c in enumerate(raw)
            if c == 0x2E and 0 < i < len(raw) - 1
            and raw[i - 1] != 0x2E and raw[i + 1] != 0x2E]
    if len(raw) > SPLIT_KEY_MAX or len(cuts) + 1 > SPLIT_COMPONENT_MAX:
        return [raw]
    pieces, start = [], 0
    for cut in cuts:
        if raw[:cut] in keys:
            break
        pieces.append(raw[start:cut])
        start = cut + 1
    return pieces + [raw[start:]]


def escape(piece):
    """One piece as a path component; None when it would have to be cut."""
    if piece == b"":
        return b"%"
    if piece in (b".", b".."):
        return piece.replace(b".", b"%2E")
    if piece == b".tasd":
        return b"%2Etasd"
    out = b"".join(b"%%%02X" % c if c < 0x20 or c in b"%/\x7f"
                   else bytes([c]) for c in piece)
    return out if len(out) <= NAME_MAX else None


def path(key, keys):
    """The path of a key, as bytes; None when a component has to be cut."""
    parts = [escape(p) for p in split(key, keys)]
    return None if None in parts else b"/".join(parts)


def paths(keys):
    """{key: path} for the keys of one flat dict."""
    raw = {encode(k) for k in keys}
    return {k: path(k, raw) for k in keys}
