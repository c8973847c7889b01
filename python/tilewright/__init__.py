"""Tilewright from Python: a thin layer of ctypes over the C interface (include/tilewright.h).

    kernel = tilewright.Kernel(open("examples/pf_causal.tw").read(), target="cuda")
    kernel(Q=q, K=k, V=v, O=o)            # torch tensors (on the GPU) or numpy arrays (target "cpu")

Arrays are NumPy arrays or PyTorch tensors. bf16 needs PyTorch. The library is found in the folder named by TILEWRIGHT_LIBRARY_DIR, in the
repository's build folder, or where the loader looks.
"""

import ctypes
import difflib
import json
import os
import pathlib

__all__ = ["Kernel", "TilewrightError", "version"]


class TilewrightError(RuntimeError):
    """The message of a failed call; `status` is 2 for the caller's mistake, 3 for a fault of Tilewright."""

    def __init__(self, message, status=2):
        super().__init__(message)
        self.status = status


class _Array(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("data", ctypes.c_void_p), ("rank", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64))]


class _Value(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


def _load():
    here = pathlib.Path(__file__).resolve()
    folders = [os.environ.get("TILEWRIGHT_LIBRARY_DIR"), here.parents[2] / "build"]
    names = [str(pathlib.Path(f) / "libtilewright.so") for f in folders if f] + ["libtilewright.so"]
    errors = []
    for name in names:
        try:
            lib = ctypes.CDLL(name)
            break
        except OSError as e:
            errors.append(str(e))
    else:
        raise TilewrightError("libtilewright.so was not found (" + "; ".join(errors) + "): run `make build`, or set TILEWRIGHT_LIBRARY_DIR")
    lib.tw_compile.restype = ctypes.c_void_p
    lib.tw_compile.argtypes = [ctypes.c_char_p] * 4
    lib.tw_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Array), ctypes.c_int32, ctypes.POINTER(_Value), ctypes.c_int32, ctypes.c_void_p]
    lib.tw_describe.restype = ctypes.c_char_p
    lib.tw_describe.argtypes = [ctypes.c_void_p]
    lib.tw_free.argtypes = [ctypes.c_void_p]
    lib.tw_last_error.restype = ctypes.c_char_p
    lib.tw_version.restype = ctypes.c_char_p
    return lib


_lib = None


def _library():
    global _lib
    if _lib is None:
        _lib = _load()
    return _lib


def version():
    return _library().tw_version().decode()


_DTYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int8": "i8", "bool": "bool",
           "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}


def _refuse(what, help):
    raise TilewrightError(f"error: {what}\n  help: {help}\n")


def _encode(text, what):
    """The bytes of a text for C, where a NUL would end it."""
    if "\0" in text:
        at = text.index("\0")
        _refuse(f"{what} holds a NUL character, at line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}",
                "remove it; if the text was read from a file, open it with the encoding that it has")
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        _refuse(f"{what} holds half of a surrogate pair, at line {text.count(chr(10), 0, e.start) + 1}, column {e.start - text.rfind(chr(10), 0, e.start)}",
                "remove it; if the text was read from a file, open it with the encoding that it has")


def _number(name, value, kind):
    """A size or a param as the f64 that C takes."""
    if isinstance(value, (str, bytes)) or not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__"):
        raise TypeError(f"{kind} `{name}` is a {type(value).__name__}: pass a number")
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError) as e:
        _refuse(f"{kind} `{name}` is no number that f64 holds ({e})", "pass one number")


def _describe(name, x, on_gpu, is_output):
    """(dtype, pointer, shape, strides in elements) of a NumPy array or a PyTorch tensor."""
    if not hasattr(x, "dtype") or not (hasattr(x, "data_ptr") or hasattr(x, "ctypes")):
        raise TypeError(f"array `{name}` is a {type(x).__name__}: pass a NumPy array or a PyTorch tensor")
    tensor = hasattr(x, "data_ptr")
    if hasattr(x, "mask") and hasattr(x, "filled"):
        _refuse(f"array `{name}` is a masked array, whose mask would not be heeded", f"pass {name}.filled(0), and the mask as an input of the program")
    if tensor and (str(x.layout) != "torch.strided" or x.device.type not in ("cpu", "cuda")):
        _refuse(f"array `{name}` is a {x.layout} tensor on device {x.device.type}, which has no elements at strides in memory",
                f"pass a dense tensor on the {'GPU' if on_gpu else 'host'}, such as {name}.to_dense()")
    if tensor and (x.is_neg() or x.is_conj()):
        _refuse(f"array `{name}` is a view whose elements are negated or conjugated when PyTorch reads them", f"pass {name}.resolve_neg().resolve_conj()")
    if (x.is_cuda if tensor else False) != on_gpu:
        where = "on the host" if on_gpu else "on a GPU"
        _refuse(f"array `{name}` lies {where}, which target {'cuda' if on_gpu else 'cpu'} does not reach",
                f"pass {name}.cuda()" if on_gpu and tensor else "pass a PyTorch tensor on the GPU" if on_gpu else f"pass {name}.cpu()")
    dtype = str(x.dtype).replace("torch.", "")
    if dtype not in _DTYPES:
        if not tensor and x.dtype.newbyteorder("=").name in _DTYPES:
            _refuse(f"array `{name}` has dtype {dtype}, whose bytes are in the other order", f"pass {name}.astype({name}.dtype.newbyteorder('='))")
        _refuse(f"array `{name}` has dtype {dtype}, which no program declares", "dtypes are " + ", ".join(_DTYPES))
    if tensor:
        return _DTYPES[dtype], x.data_ptr(), tuple(x.shape), tuple(x.stride())
    if is_output and not x.flags.writeable:
        _refuse(f"output `{name}` is read-only", "pass an array that can be written, such as a copy")
    if any(s % x.itemsize for s in x.strides):
        _refuse(f"array `{name}` has strides that are not whole elements", f"pass {name}.copy()")
    return _DTYPES[dtype], x.ctypes.data, x.shape, tuple(s // x.itemsize for s in x.strides)


class _Prepared:
    """Arguments packed for C; holds on to the arrays."""

    def __init__(self, kernel, arrays, values, keep):
        self.kernel, self.arrays, self.values, self.keep = kernel, arrays, values, keep


class Kernel:
    """A compiled program. Calling it runs it on named arrays; on CUDA it returns at once, on PyTorch's current stream."""

    def __init__(self, source, target="cpu", schedule="", overrides=""):
        self._handle = None
        for argument, value, wanted in (("source", source, "the text of a program, such as open(path).read()"), ("target", target, "\"cpu\" or \"cuda\""),
                                        ("schedule", schedule, "a schedule's text, or \"\""), ("overrides", overrides, "text like \"d=64,Q=bf16\", or \"\"")):
            if not isinstance(value, str):
                raise TypeError(f"Kernel: {argument} is a {type(value).__name__}: pass {wanted}")
        lib = _library()
        self.target = target
        self._handle = lib.tw_compile(_encode(source, "the program"), _encode(target, "target"), _encode(schedule, "the schedule"),
                                      _encode(overrides, "overrides"))
        if not self._handle:
            raise TilewrightError(lib.tw_last_error().decode())
        self.info = json.loads(lib.tw_describe(self._handle).decode())
        self._outputs = {o["name"] for o in self.info["outputs"]}

    def _values(self, argument, given):
        """What `sizes` or `params` holds: names of axes or of params, each with its number."""
        kind = argument[:-1]
        own, other = (self.info["axes"], self.info["params"]) if kind == "size" else (self.info["params"], self.info["axes"])
        what, of_other = ("axis", "params") if kind == "size" else ("param", "sizes")
        if given is None:
            return []
        if not hasattr(given, "items"):
            raise TypeError(f"Kernel: {argument} is a {type(given).__name__}: pass a dict of names and numbers; arrays are passed by name, such as x=x")
        for name, value in given.items():
            if not isinstance(name, str):
                raise TypeError(f"Kernel: {argument} names {name!r}, which is a {type(name).__name__}: names are str")
            if name in own:
                continue
            if name in other:
                _refuse(f"{argument} names `{name}`, which is {'a param' if kind == 'size' else 'an axis'}", f"pass {of_other}={{\"{name}\": {value}}}")
            near = difflib.get_close_matches(name, own, 1)
            _refuse(f"{argument} names `{name}`: the program has no {what} of that name",
                    f"did you mean `{near[0]}`?" if near else f"{argument} are of {', '.join(own)}" if own else f"leave {argument} out: the program has no {what}")
        return [(_encode(name, f"the name of a {kind}"), _number(name, value, kind)) for name, value in given.items()]

    def prepare(self, sizes=None, params=None, **arrays):
        """Packs the arguments once; `run` with the result launches without the cost of packing."""
        values = self._values("sizes", sizes) + self._values("params", params)
        keep = []
        packed = (_Array * len(arrays))()
        for slot, (name, x) in zip(packed, arrays.items()):
            dtype, pointer, shape, strides = _describe(name, x, self.target == "cuda", name in self._outputs)
            slot.name, slot.dtype, slot.data, slot.rank = _encode(name, "the name of an array"), dtype.encode(), pointer, len(shape)
            slot.shape = (ctypes.c_int64 * len(shape))(*shape)
            slot.strides = (ctypes.c_int64 * len(shape))(*strides)
            keep.append(x)
        return _Prepared(self, packed, (_Value * len(values))(*values), keep)

    def run(self, prepared, stream=None):
        if not isinstance(prepared, _Prepared):
            raise TypeError(f"Kernel.run: prepared is a {type(prepared).__name__}: pass what kernel.prepare(x=x, ...) returned, or call the kernel itself")
        if prepared.kernel is not self:
            _refuse("Kernel.run: the arguments were prepared by another kernel", "pass what `prepare` of this kernel returned")
        if stream is not None and (isinstance(stream, bool) or not isinstance(stream, int)):
            raise TypeError(f"Kernel.run: stream is a {type(stream).__name__}: pass the number of a CUDA stream, such as torch.cuda.Stream().cuda_stream")
        if stream is None and self.target == "cuda":
            import torch

            stream = torch.cuda.current_stream().cuda_stream
        lib = _library()
        status = lib.tw_run(self._handle, prepared.arrays, len(prepared.arrays), prepared.values, len(prepared.values), stream or None)
        if status:
            raise TilewrightError(lib.tw_last_error().decode(), status)

    def __call__(self, sizes=None, params=None, stream=None, **arrays):
        self.run(self.prepare(sizes, params, **arrays), stream)

    def __del__(self):
        if getattr(self, "_handle", None):
            _library().tw_free(self._handle)
            self._handle = None
