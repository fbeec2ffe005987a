"""Reads and writes small safetensors files."""

import json
import pathlib
import struct

# For each dtype name of the format, converts a number to bytes.
WRITE = {"F32": lambda x: struct.pack("<f", x), "BF16": lambda x: struct.pack("<f", x)[2:],
         "F16": lambda x: struct.pack("<e", x), "F64": lambda x: struct.pack("<d", x), "I32": lambda x: struct.pack("<i", int(x)),
         "U8": lambda x: struct.pack("<B", int(abs(x))), "I8": lambda x: struct.pack("<b", int(x)), "F8_E4M3": lambda x: b"\0"}


def read_header(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + size]), data[8 + size:]


def read_weights(path):
    """{name: (shape, numbers)} of a file whose tensors are all float32."""
    header, data = read_header(path)
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", entry
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["shape"], list(struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])))
    return tensors


def write_weights(path, tensors, dtype_of=lambda name: "F32"):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, numbers) in tensors.items():
        piece = b"".join(map(WRITE[dtype_of(name)], numbers))
        header[name] = {"dtype": dtype_of(name), "shape": shape, "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def dtypes(path):
    return {name: entry["dtype"] for name, entry in read_header(path)[0].items() if name != "__metadata__"}
