"""Models of transformers that go through `tutti train` and `tutti export`.

    python3 tests/oracle/exported.py make FOLDER NAME...
    python3 tests/oracle/exported.py compare FOLDER NAME... LIBRARY

make writes FOLDER/NAME/hf, a small random model of families.py. compare loads
FOLDER/NAME/out, which `tutti export` wrote of the run FOLDER/NAME/run, with
from_pretrained: no tensor may be missing, left over or of another shape, and it must
not be what it was before training. Its logits are compared with those that LIBRARY
(libtutti.so) computes with the run; the largest difference is printed, relative to
the largest logit. Needs PyTorch and transformers.
"""
import ctypes
import sys

import torch
import transformers

from families import inputs, make

# fp32 on both sides: rounding adds up to a few 2^-24, angles of rotary positions to
# less than ten of 2.3e-6 (test_families.c).
TOLERANCE = 2e-5


class ForwardArgs(ctypes.Structure):
    _fields_ = [("x", ctypes.c_void_p), ("x_bytes", ctypes.c_int64),
                ("y", ctypes.c_void_p), ("y_bytes", ctypes.c_int64),
                ("logits", ctypes.c_void_p), ("logits_bytes", ctypes.c_int64)]


def logits_here(lib, run, x, classes):
    lib.tutti_error.restype = ctypes.c_char_p
    session = ctypes.c_void_p()

    def call(status):
        if status != 0:
            sys.exit("%s: %s" % (run, lib.tutti_error().decode()))

    call(lib.tutti_create(ctypes.byref(session)))
    for key, value in (("batch", x.shape[0]), ("seq", x.shape[1]),
                       ("precision", "fp32"), ("device", "cpu"),
                       ("threads", 1)):
        call(lib.tutti_set(session, key.encode(), str(value).encode()))
    call(lib.tutti_open(session, run.encode()))
    ids = x.int().contiguous()
    out = torch.zeros(*x.shape, classes)
    args = ForwardArgs(ids.data_ptr(), ids.numel() * 4, None, 0,
                       out.data_ptr(), out.numel() * 4)
    call(lib.tutti_forward(session, ctypes.byref(args), None))
    lib.tutti_destroy(session)
    return out


def load(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager")
    for what, names in info.items():
        if names:
            sys.exit("%s: %s: %s" % (folder, what, names))
    if model.dtype != torch.float32:
        sys.exit("%s: loaded as %s" % (folder, model.dtype))
    return model.eval()


def compare(lib, folder, name):
    x, _ = inputs()
    model = load("%s/%s/out" % (folder, name))
    before = load("%s/%s/hf" % (folder, name))
    if type(model) is not type(before):
        sys.exit("%s came back as %s" % (name, type(model).__name__))
    with torch.no_grad():
        there, untrained = model(x).logits, before(x).logits
    here = logits_here(lib, "%s/%s/run" % (folder, name), x, there.shape[-1])
    scale = there.abs().max()
    difference = ((here - there).abs().max() / scale).item()
    learnt = ((untrained - there).abs().max() / scale).item()
    print("%-18s %.1e, before the step %.1e" % (name, difference, learnt))
    if not difference <= TOLERANCE:
        sys.exit("%s: logits differ by more than %.1e of the largest" %
                 (name, TOLERANCE))
    if not learnt > 100 * TOLERANCE:
        sys.exit("%s: one step changed nothing" % name)


def main(what, folder, *names):
    if what == "make":
        for name in names:
            make(name).save_pretrained("%s/%s/hf" % (folder, name))
        return
    lib = ctypes.CDLL(names[-1])
    for name in names[:-1]:
        compare(lib, folder, name)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main(*sys.argv[1:])
