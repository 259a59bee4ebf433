"""Every element type as float32, by its definition: the oracle of .tasd/f32.

Slow and plain: one code at a time, from sign, exponent and fraction.
"""
import math
import struct

#          bits, exponent bits, fraction bits, bias, kind
SMALL = {
    "F16": (16, 5, 10, 15, "ieee"),
    "BF16": (16, 8, 7, 127, "ieee"),
    "F8_E5M2": (8, 5, 2, 15, "ieee"),
    "F8_E4M3": (8, 4, 3, 7, "fn"),
    "F8_E4M3FNUZ": (8, 4, 3, 8, "fnuz"),
    "F8_E5M2FNUZ": (8, 5, 2, 16, "fnuz"),
    "F6_E2M3": (6, 2, 3, 1, "finite"),
    "F6_E3M2": (6, 3, 2, 3, "finite"),
    "F4": (4, 2, 1, 1, "finite"),
}


def value(dtype, code):
    """The number a code stands for, as a float (nan for every NaN)."""
    if dtype == "F8_E8M0":
        return math.nan if code == 255 else math.ldexp(1.0, code - 127)
    bits, ebits, fbits, bias, kind = SMALL[dtype]
    sign = -1.0 if code >> (bits - 1) else 1.0
    exponent = code >> fbits & (1 << ebits) - 1
    fraction = code & (1 << fbits) - 1
    top = exponent == (1 << ebits) - 1
    if kind == "ieee" and top:
        return math.nan if fraction else sign * math.inf
    if kind == "fn" and top and fraction == (1 << fbits) - 1:
        return math.nan
    if kind == "fnuz" and code == 1 << (bits - 1):
        return math.nan
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - bias - fbits)
    return sign * math.ldexp(fraction + (1 << fbits), exponent - bias - fbits)


def codes(dtype, data):
    """The elements' codes; sub-byte ones lie low bits first."""
    bits = 8 if dtype == "F8_E8M0" else SMALL[dtype][0]
    whole = int.from_bytes(data, "little")
    mask = (1 << bits) - 1
    count = len(data) * 8 // bits
    if bits == 16:
        return struct.unpack(f"<{count}H", data)
    if bits == 8:
        return data
    return [whole >> (i * bits) & mask for i in range(count)]


def widen(dtype, data):
    """The float32 bit patterns, None where it is a NaN (any will do)."""
    out = []
    for code in codes(dtype, data):
        number = value(dtype, code)
        out.append(None if math.isnan(number)
                   else struct.unpack("<I", struct.pack("<f", number))[0])
    return out


def same(dtype, data, got):
    """Is got (float32 bytes) the exact widening of data?"""
    want = widen(dtype, data)
    have = struct.unpack(f"<{len(got) // 4}I", got)
    if len(want) != len(have):
        return f"{len(have)} numbers, want {len(want)}"
    for i, (w, h) in enumerate(zip(want, have)):
        nan = h & 0x7F800000 == 0x7F800000 and h & 0x7FFFFF
        if (w is None and not nan) or (w is not None and w != h):
            return f"element {i}: {h:#010x}, want {w and hex(w)}"
    return None
