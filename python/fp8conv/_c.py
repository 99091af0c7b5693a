# SPDX-License-Identifier: Apache-2.0
"""The functions and structs of fp8conv.h by ctypes, and a context for each thread."""
from __future__ import annotations

import ctypes as c
import json
import os
import pathlib
import threading
from collections.abc import Mapping
from typing import Any

USAGE, INPUT, SYSTEM, INTERRUPTED = 2, 3, 4, 5


class Error(Exception):
    """A failure: `message`, and `code`, which is the exit status of the program for it: 2 the request cannot be done,
    3 the input is bad, 4 memory, device or I/O, 5 the job was cancelled."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    def __reduce__(self) -> tuple:
        return Error, (self.code, self.message)


class Failure(c.Structure):
    _fields_ = [("code", c.c_int), ("message", c.c_char * 1024)]


class Struct(c.Structure):
    """A struct that begins with its size."""

    def __init__(self, **members: Any) -> None:
        super().__init__(size=c.sizeof(self), **members)


class Options(Struct):
    _fields_ = [("size", c.c_size_t), ("threads", c.c_int), ("backend", c.c_char_p)]


class Tensor(Struct):
    _fields_ = [("size", c.c_size_t), ("data", c.c_void_p), ("bytes", c.c_size_t), ("dtype", c.c_int), ("device", c.c_int),
                ("batch", c.c_size_t), ("rows", c.c_size_t), ("columns", c.c_size_t), ("batch_stride", c.c_size_t),
                ("row_stride", c.c_size_t), ("stream", c.c_void_p)]


class Quantized(Struct):
    _fields_ = [("size", c.c_size_t), ("rowwise", c.POINTER(Tensor)), ("rowwise_scale_inv", c.POINTER(Tensor)),
                ("columnwise", c.POINTER(Tensor)), ("columnwise_scale_inv", c.POINTER(Tensor)), ("layout", c.c_int),
                ("block_rows", c.c_size_t), ("block_columns", c.c_size_t), ("saturated", c.c_uint64), ("nonfinite", c.c_uint64)]


class Copy(Struct):
    _fields_ = [("size", c.c_size_t), ("role", c.c_int), ("columnwise", c.c_int), ("layout", c.c_int)]


class Shape(Struct):
    _fields_ = [("size", c.c_size_t), ("codes_rows", c.c_size_t), ("codes_columns", c.c_size_t), ("scale_rows", c.c_size_t),
                ("scale_columns", c.c_size_t), ("block_rows", c.c_size_t), ("block_columns", c.c_size_t), ("codes_dtype", c.c_int),
                ("scale_dtype", c.c_int)]


class History(Struct):
    _fields_ = [("size", c.c_size_t), ("length", c.c_size_t), ("n_slots", c.c_size_t), ("amax", c.POINTER(c.c_float)),
                ("scale", c.POINTER(c.c_float))]


ReduceMax = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_float), c.c_size_t)


class Autocast(Struct):
    _fields_ = [("size", c.c_size_t), ("enabled", c.c_int), ("calibrating", c.c_int), ("recipe", c.c_void_p),
                ("reduce_max", ReduceMax), ("group", c.c_void_p)]


class AmaxModule(Struct):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("attention", c.c_int), ("n_passes", c.c_size_t),
                ("stride", c.c_size_t), ("amax", c.POINTER(c.c_float)), ("tokens", c.POINTER(c.c_int64))]


class AmaxFile(Struct):
    _fields_ = [("size", c.c_size_t), ("checkpoint", c.c_char_p), ("model", c.c_char_p), ("precision", c.c_char_p),
                ("backend", c.c_char_p), ("data", c.c_uint64 * 2), ("passes", c.c_uint64), ("tokens", c.c_uint64),
                ("seq_len", c.c_uint64), ("history_len", c.c_uint64), ("n_modules", c.c_size_t),
                ("modules", c.POINTER(AmaxModule))]


class Item(Struct):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("dtype", c.c_char_p), ("n_dims", c.c_size_t),
                ("shape", c.POINTER(c.c_uint64)), ("data", c.c_void_p)]


class Model(Struct):
    _fields_ = [("size", c.c_size_t), ("config", c.c_char_p), ("n_tensors", c.c_size_t), ("tensors", c.POINTER(Item))]


class Entry(Struct):
    _fields_ = [("size", c.c_size_t), ("action", c.c_char_p), ("recipe", c.c_char_p), ("reason", c.c_char_p),
                ("source", c.c_char_p), ("n_outputs", c.c_size_t), ("outputs", c.POINTER(Item)), ("n_needed", c.c_size_t),
                ("needed", c.POINTER(c.c_size_t))]


class Conversion(Struct):
    _fields_ = [("size", c.c_size_t), ("tensor", c.c_size_t), ("data", c.c_void_p), ("bytes", c.c_size_t),
                ("outputs", c.POINTER(c.c_void_p)), ("scales_by_columns", c.c_int), ("device", c.c_int), ("stream", c.c_void_p)]


class Progress(Struct):
    _fields_ = [("size", c.c_size_t), ("done", c.c_double), ("total", c.c_double), ("unit", c.c_char_p), ("doing", c.c_char_p),
                ("item", c.c_char_p)]


OnProgress = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Progress))
OnLog = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)


class Run(Struct):
    _fields_ = [("size", c.c_size_t), ("cancel", c.POINTER(c.c_int)), ("progress", OnProgress), ("log", OnLog),
                ("user", c.c_void_p), ("output", c.c_void_p), ("output_size", c.c_size_t), ("status", c.c_int)]


def _load() -> c.CDLL:
    """The library beside this module, or where `make install` puts it from here; else by the loader."""
    here = pathlib.Path(__file__).resolve()
    for folder in (here.parent, *list(here.parents)[3:4]):
        if (folder / "libfp8conv.so.1").is_file():
            return c.CDLL(os.fspath(folder / "libfp8conv.so.1"))
    return c.CDLL("libfp8conv.so.1")


lib = _load()
_handle, _error = c.c_void_p, c.POINTER(Failure)
for _name, _types in {
        "context_create": (c.POINTER(Options), c.POINTER(_handle)),
        "recipe_get": (_handle, c.c_char_p, c.c_char_p, c.POINTER(_handle)),
        "supports": (_handle, _handle),
        "scale_shape": (_handle, c.POINTER(Copy), c.c_size_t, c.c_size_t, c.POINTER(Shape)),
        "amax": (_handle, c.POINTER(Tensor), c.POINTER(c.c_float)),
        "quantize": (_handle, _handle, c.c_int, c.POINTER(Tensor), c.POINTER(Quantized)),
        "dequantize": (_handle, c.POINTER(Quantized), c.POINTER(Tensor)),
        "state_create": (_handle, _handle, c.c_int, c.c_size_t, c.POINTER(_handle)),
        "state_quantize": (_handle, c.c_size_t, c.POINTER(Tensor), c.POINTER(Quantized)),
        "history_get": (_handle, c.POINTER(History)),
        "history_set": (_handle, c.POINTER(History)),
        "context_enter": (_handle, c.POINTER(Autocast)),
        "context_exit": (_handle,),
        "plan_create": (_handle, c.POINTER(Model), c.c_char_p, c.POINTER(_handle)),
        "plan_entry": (_handle, c.c_size_t, c.POINTER(Entry)),
        "plan_apply": (_handle, c.POINTER(Conversion), c.c_size_t),
        "amax_save": (c.c_char_p, c.POINTER(AmaxFile)),
        "amax_load": (c.c_char_p, c.POINTER(c.POINTER(AmaxFile))),
        "run": (c.c_int, c.POINTER(c.c_char_p), c.POINTER(Run))}.items():
    getattr(lib, f"fp8conv_{_name}").argtypes = (*_types, _error)
for _name in "context_destroy", "state_destroy", "plan_destroy", "free":
    getattr(lib, f"fp8conv_{_name}").argtypes = (_handle,)
    getattr(lib, f"fp8conv_{_name}").restype = None
lib.fp8conv_version.restype = lib.fp8conv_plan_text.restype = c.c_char_p
lib.fp8conv_plan_text.argtypes = _handle, c.c_char_p


_functions: dict[str, Any] = {}


def call(name: str, *args: Any) -> None:
    """Calls a function of the library; raises Error where it fails."""
    function = _functions.get(name)
    if not function:
        function = _functions[name] = getattr(lib, f"fp8conv_{name}")
    failure = Failure()
    if function(*args, c.byref(failure)):
        raise Error(failure.code, failure.message.decode(errors="replace"))


def options_text(options: Mapping[str, Any]) -> bytes:
    """Returns options as JSON, by the names of long options; numbers may be those of numpy."""
    def plain(value: Any, key: str) -> Any:
        if isinstance(value, (list, tuple)):
            return [plain(one, key) for one in value]
        if not isinstance(value, (str, int, float, type(None))) and hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
            value = value.item()
        if not isinstance(value, (str, int, float, type(None))):
            raise TypeError(f"option '{key}' is {type(value).__name__}, expected a text, a number, True, False or a list of them")
        return value
    return json.dumps({key.replace("_", "-"): plain(value, key) for key, value in sorted(options.items())}).encode()


def text(value: Any, name: str) -> str:
    """Returns a text that C can have."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {type(value).__name__}, expected a text")
    if "\0" in value:
        raise ValueError(f"{name} is {value!r}: a text must not contain NUL")
    return value


class Context:
    """A context of the library, which serves one thread at a time."""

    def __init__(self, threads: int = 0, backend: str | None = None) -> None:
        self.handle = c.c_void_p()
        call("context_create", Options(threads=threads, backend=backend and backend.encode()), c.byref(self.handle))
        self.recipes: dict[tuple, Recipe] = {}

    def __del__(self) -> None:
        if self.handle:
            lib.fp8conv_context_destroy(self.handle)

    def recipe(self, name: str, options: dict[str, Any]) -> Recipe:
        """Returns a recipe, valid as long as this context."""
        key = (name, *((key, value, type(value)) for key, value in options.items()))
        try:
            if key in self.recipes:
                return self.recipes[key]
        except TypeError:                   # an option that is a list
            key = ()
        if not isinstance(name, str):
            raise TypeError(f"recipe is {type(name).__name__}, not a name such as 'blockwise'")
        found = c.c_void_p()
        call("recipe_get", self.handle, text(name, "recipe").encode(), options_text(options), c.byref(found))
        made = Recipe(found)
        if key:
            self.recipes[key] = made
        return made


class Recipe:
    """A recipe of a context, and the shapes of the copies that it makes."""

    def __init__(self, handle: c.c_void_p) -> None:
        self.handle = self._as_parameter_ = handle
        self.shapes: dict[tuple, Shape] = {}

    def shape(self, *copy: int) -> Shape:
        """copy: role, columnwise, layout, and the rows and columns of the matrix."""
        found = self.shapes.get(copy)
        if not found:
            role, columnwise, layout, rows, columns = copy
            found = Shape()
            call("scale_shape", self.handle, Copy(role=role, columnwise=columnwise, layout=layout), rows, columns, c.byref(found))
            if len(self.shapes) >= 1024:
                self.shapes.clear()
            self.shapes[copy] = found
        return found


_local = threading.local()


def context() -> Context:
    """Returns the context of this thread."""
    if not hasattr(_local, "context"):
        _local.context = Context()
    return _local.context
