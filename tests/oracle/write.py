"""Writes a safetensors file with nothing but PyTorch and the standard library."""
import json
import os
import struct

import torch

DTYPES = {torch.float64: "F64", torch.int64: "I64"}


def write_safetensors(path, tensors, metadata):
    """`tensors`: name -> tensor of doubles or int64; `metadata`: text to text."""
    header, offset, order = {"__metadata__": metadata}, 0, sorted(tensors)
    for name in order:
        t = tensors[name]
        end = offset + 8 * t.numel()
        header[name] = {"dtype": DTYPES[t.dtype], "shape": list(t.shape),
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    part = str(path) + ".part"
    with open(part, "wb") as out:
        out.write(struct.pack("<Q", len(text)))
        out.write(text)
        for name in order:
            kind = "d" if tensors[name].dtype == torch.float64 else "q"
            values = tensors[name].contiguous().flatten().tolist()
            out.write(struct.pack("<%d%s" % (len(values), kind), *values))
    os.replace(part, path)
