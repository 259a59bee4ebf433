"""Files of numpy's, from the public description of the format."""
import struct
import zipfile


def header(text, version=(1, 0), pad=True):
    """Magic, length and the header's own text."""
    if isinstance(text, str):
        text = text.encode("utf-8" if version[0] > 2 else "latin-1")
    front = 10 if version[0] == 1 else 12
    if pad:
        text += b" " * (-(front + len(text) + 1) % 64) + b"\n"
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text


def build(descr, shape, data, fortran=False, version=(1, 0)):
    """descr: a type's name, or the text of a structure."""
    if not descr.startswith("["):
        descr = f"'{descr}'"
    return header(f"{{'descr': {descr}, 'fortran_order': {fortran}, "
                  f"'shape': {tuple(shape)}, }}", version) + data


def archive(path, members, deflate=False):
    """A .npz file of (name, bytes)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if deflate
                         else zipfile.ZIP_STORED) as out:
        for name, data in members:
            out.writestr(name, data)
    return path


def columns(rows, cols, item, data):
    """Row-major bytes of a matrix as column-major ones."""
    return b"".join(data[(r * cols + c) * item:(r * cols + c + 1) * item]
                    for c in range(cols) for r in range(rows))
