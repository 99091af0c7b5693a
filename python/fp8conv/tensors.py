# SPDX-License-Identifier: Apache-2.0
"""Tensors of numpy and torch, by pointer: quantize, dequantize and amax."""
from __future__ import annotations

import ctypes as c
import sys
from typing import Any

from . import _c

ROLES = ("x", "w", "y", "grad_output", "grad_input")
LAYOUTS = ("compact", "padded", "swizzled")
# By enum fp8conv_dtype: the names that users give, and the names of numpy (ml_dtypes) and torch.
NAMES = ("f32", "bf16", "f16", "e4m3", "e5m2", "e8m0")
DTYPES = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
SIZES = (4, 2, 2, 1, 1, 1)
E4M3, E8M0 = 3, 5


def word(value: Any, words: tuple[str, ...], name: str) -> int:
    if value not in words:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(words)}")
    return words.index(value)


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _dtype(x: Any, name: str, byte: int | None) -> int:
    """Returns enum fp8conv_dtype; byte: what bytes without a type are, None: an error."""
    found = _known.get(x.dtype)
    if found is not None:
        return found
    text = str(x.dtype).removeprefix("torch.")
    if text == "uint8" and byte is not None:
        return byte
    if text not in DTYPES or (not is_torch(x) and not x.dtype.isnative):
        raise TypeError(f"{name} has elements of {x.dtype}, expected {', '.join(DTYPES)}")
    _known[x.dtype] = DTYPES.index(text)
    return _known[x.dtype]


_known: dict[Any, int] = {}                 # enum fp8conv_dtype of the dtypes that were seen


def device_of(x: Any) -> tuple[int, int | None]:
    """Returns the device of a tensor, and the stream in whose order calls are."""
    if not is_torch(x) or not x.is_cuda:
        return 0, None
    return 1 + (x.device.index or 0), sys.modules["torch"].cuda.current_stream(x.device).cuda_stream


def _place(x: Any, name: str, write: bool) -> tuple[int, int, int | None, tuple[int, ...]]:
    """Returns the address of a tensor, its device, its stream, and its strides in elements."""
    if is_torch(x):
        torch = sys.modules["torch"]
        if x.layout is not torch.strided:
            raise ValueError(f"{name} has the layout {x.layout}, expected torch.strided")
        if x.is_neg():
            raise ValueError(f"{name} is a view with other signs than its memory: resolve_neg() copies it")
        if x.device.type not in ("cpu", "cuda"):
            raise ValueError(f"{name} is on the device {x.device}, expected cpu or cuda")
        return x.data_ptr(), *device_of(x), x.stride()
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(x, numpy.ndarray):
        raise TypeError(f"{name} is {type(x).__name__}, expected a numpy array or a torch tensor")
    if write and not x.flags.writeable:
        raise ValueError(f"{name} is read-only")
    size = x.dtype.itemsize
    if any(stride % size for stride in x.strides):
        raise ValueError(f"{name} has strides of {x.strides} bytes, no multiples of {size}")
    return x.ctypes.data, 0, None, tuple(stride // size for stride in x.strides)


def describe(x: Any, name: str, byte: int | None = None, write: bool = False) -> _c.Tensor:
    """Returns the struct of a matrix or a stack of matrices in memory, which is not copied."""
    data, device, stream, strides = _place(x, name, write)
    dtype = _dtype(x, name, byte)
    shape = x.shape
    if len(shape) not in (2, 3):
        raise ValueError(f"{name} has the shape {tuple(shape)}, expected a matrix or a stack of matrices")
    batch, rows, columns = (1, *shape)[-3:]
    if batch == 0:
        raise ValueError(f"{name} has the shape {tuple(shape)}: a stack without matrices")
    tensor = _c.Tensor(data=data, dtype=dtype, device=device, batch=batch, rows=rows, columns=columns, stream=stream)
    tensor.keep = x                         # the memory lives as long as the struct
    if not rows * columns or strides[-2:] == (columns, 1) and (batch == 1 or strides[0] == rows * columns):
        return tensor
    if any(stride < 1 for size, stride in zip(shape, strides) if size > 1):
        raise ValueError(f"{name} has the strides {tuple(strides)}: elements must not be shared or reversed")
    if columns > 1 and strides[-1] != 1:
        raise ValueError(f"{name} has the strides {tuple(strides)}: the elements of a row must be adjacent, "
                         "make it contiguous")
    tensor.row_stride = strides[-2] if rows > 1 else 0
    tensor.batch_stride = strides[0] if batch > 1 else 0
    return tensor


def _numpy_dtype(dtype: int) -> Any:
    """Returns the type of numpy, by ml_dtypes where numpy has none; bytes for FP8 without ml_dtypes."""
    import numpy
    if DTYPES[dtype] in ("float32", "float16"):
        return numpy.dtype(DTYPES[dtype])
    try:
        import ml_dtypes
        return numpy.dtype(getattr(ml_dtypes, DTYPES[dtype]))
    except (ImportError, AttributeError):
        if SIZES[dtype] == 1:
            return numpy.dtype("uint8")
        raise TypeError(f"numpy has no {DTYPES[dtype]}: install ml_dtypes") from None


def new_bytes(like: Any, shape: tuple[int, ...], name: str) -> tuple[Any, int]:
    """Returns an empty tensor of the kind, and on the device, of like, of a type by its name; and its address."""
    if is_torch(like):
        import torch
        made = torch.empty(shape, dtype=getattr(torch, name), device=like.device)
        return made, made.data_ptr()
    import numpy
    made = numpy.empty(shape, _numpy_dtype(DTYPES.index(name)) if name in DTYPES else numpy.dtype(name))
    return made, made.ctypes.data


def new_like(x: Any, shape: tuple[int, ...], dtype: int) -> Any:
    """Returns an empty tensor of the kind, and on the device, of x."""
    if is_torch(x):
        import torch
        return torch.empty(shape, dtype=getattr(torch, DTYPES[dtype], torch.uint8), device=x.device)
    import numpy
    return numpy.empty(shape, _numpy_dtype(dtype))


def _new_matrix(like: _c.Tensor, rows: int, columns: int, dtype: int) -> tuple[Any, _c.Tensor]:
    """Returns an empty matrix, or stack, of the kind of a described one; and its struct."""
    made = new_like(like.keep, (*like.keep.shape[:-2], rows, columns), dtype)
    data = made.data_ptr() if is_torch(made) else made.ctypes.data
    return made, _c.Tensor(data=data, dtype=dtype, device=like.device, batch=like.batch, rows=rows, columns=columns)


def quantize_by(function: Any, recipe: _c.Recipe, role: int, w: Any, rowwise: bool, columnwise: bool, layout: str,
                out: tuple | None) -> tuple:
    """Allocates the copies (or takes them from out), and has function(tensor, quantized) write them."""
    x = describe(w, "w")
    if out is not None and not isinstance(out, (tuple, list)):
        raise TypeError(f"out is {type(out).__name__}, expected a tuple of tensors")
    tensors: list[Any] = list(out or ())
    n = 2 * (bool(rowwise) + bool(columnwise))
    if not n or (out is not None and len(tensors) != n):
        raise ValueError(f"out has {len(tensors)} tensors, expected {n}" if n else "neither rowwise nor columnwise is wanted")
    q = _c.Quantized(layout=word(layout, LAYOUTS, "layout"))
    structs = []
    for which in [which for which, flag in enumerate((rowwise, columnwise)) if flag]:
        shape = recipe.shape(role, which, q.layout, x.rows, x.columns)
        for rows, columns, dtype in ((shape.codes_rows, shape.codes_columns, shape.codes_dtype),
                                     (shape.scale_rows, shape.scale_columns, shape.scale_dtype)):
            if out is None:
                made, struct = _new_matrix(x, rows, columns, dtype)
                tensors.append(made)
            else:
                struct = describe(tensors[len(structs)], f"out[{len(structs)}]", dtype, write=True)
            structs.append(struct)
    if rowwise:
        q.rowwise, q.rowwise_scale_inv = c.pointer(structs[0]), c.pointer(structs[1])
    if columnwise:
        q.columnwise, q.columnwise_scale_inv = c.pointer(structs[-2]), c.pointer(structs[-1])
    function(x, q)
    return tuple(tensors)


def quantize(w: Any, recipe: str = "blockwise", *, role: str = "w", rowwise: bool = True, columnwise: bool = False,
             layout: str = "compact", out: tuple | None = None, **options: Any) -> tuple:
    """Returns (codes, scale_inv) of a matrix (rows, columns), or of a stack (n, rows, columns) whose matrices have scales of
    their own: code * scale_inv is the value.

    w: numpy (float32, float16, bfloat16 of ml_dtypes) or torch; a row's elements are adjacent.
    recipe: "blockwise", "channelwise", "current", "delayed" (as "current") or "mxfp8"; options: scale_fmt, fp8_format,
    scale_arith, mx_scale, amax_epsilon, margin, as the long options of `fp8conv quantize`.
    role: "x", "w", "y", "grad_output" or "grad_input", which decides format and tiles.
    columnwise: also (or, with rowwise=False, instead) the copy quantized along columns, as two more tensors.  Its codes are
    the transpose (columns, rows), but for "mxfp8".
    layout: of scale_inv: "compact" as in files, "padded" as TransformerEngine has it in memory, "swizzled" as cuBLASLt.
    out: the tensors to write, in the order in which they are returned.

    Codes are torch.float8_e4m3fn, or ml_dtypes.float8_e4m3fn (without ml_dtypes bytes)."""
    ctx = _c.context()
    found = ctx.recipe(recipe, options)
    n = word(role, ROLES, "role")
    return quantize_by(lambda x, q: _c.call("quantize", ctx.handle, found, n, x, c.byref(q)), found, n, w, rowwise, columnwise,
                       layout, out)


def _block(size: int, n: int, name: str) -> int:
    """Returns how many elements share a scale, where n scales serve size elements; 0: all."""
    if n == 1:
        return 0
    for block in (1, 128, 32):
        if -(-size // block) == n:
            return block
    raise ValueError(f"{n} scales for {size} {name} are no blocks of 1, 32 or 128: give block=(rows, columns)")


def _scale_matrix(scale_inv: Any, codes: Any) -> Any:
    """Scales of one tensor, or of its rows, as a matrix."""
    if getattr(scale_inv, "ndim", 2) > 1:
        return scale_inv
    return scale_inv.reshape((*codes.shape[:-2], -1, 1))


def dequantize(codes: Any, scale_inv: Any, dtype: Any = "bf16", *, block: tuple[int, int] | None = None,
               recipe: str | None = None, role: str = "w", columnwise: bool = False, layout: str = "compact",
               fp8_format: str = "e4m3", out: Any = None) -> Any:
    """Returns codes * scale_inv as a tensor of the kind of codes.

    codes, scale_inv: as quantize() returns them, or any tool wrote them: FP8 and scales of float32, bfloat16, float16 or
    E8M0, one for a tensor, a row, or a block.  Bytes are taken as fp8_format and as E8M0.
    dtype: "bf16", "f16", "f32", or a dtype of numpy or torch.
    block: the (rows, columns) that share a scale, 0 for all; None: found from the shapes, or from recipe and role, which
    columnwise=True and layouts other than "compact" need."""
    text = str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype).removeprefix("torch.")
    to = DTYPES.index(text) if text in DTYPES[:3] else word(text, NAMES[:3], "dtype")
    q = _c.Quantized(layout=word(layout, LAYOUTS, "layout"))
    of = describe(codes, "codes", word(fp8_format, NAMES, "fp8_format"))
    scales = describe(_scale_matrix(scale_inv, codes), "scale_inv", E8M0)
    along = columnwise and scales.dtype == E8M0
    rows, columns = (of.columns, of.rows) if columnwise and not along else (of.rows, of.columns)
    if block is None and recipe is not None:
        shape = _c.context().recipe(recipe, {}).shape(word(role, ROLES, "role"), columnwise, q.layout, rows, columns)
        block = shape.block_rows, shape.block_columns
    elif block is None:
        if columnwise or q.layout:
            raise ValueError("a columnwise copy, or scales in this layout, do not show their blocks: give recipe=")
        block = _block(rows, scales.rows, "rows"), _block(columns, scales.columns, "columns")
    q.block_rows, q.block_columns = block
    name = "columnwise" if columnwise else "rowwise"
    setattr(q, name, c.pointer(of))
    setattr(q, f"{name}_scale_inv", c.pointer(scales))
    y = new_like(codes, (*codes.shape[:-2], rows, columns), to) if out is None else out
    _c.call("dequantize", _c.context().handle, c.byref(q), describe(y, "out", write=True))
    return y


def amax(x: Any) -> list[float]:
    """Returns max |x| of each matrix of a stack, or of one matrix, ignoring NaN."""
    tensor = describe(x, "x")
    if tensor.device:
        import torch
        there = torch.empty(tensor.batch, dtype=torch.float32, device=x.device)
        _c.call("amax", _c.context().handle, tensor, c.cast(there.data_ptr(), c.POINTER(c.c_float)))
        return there.tolist()
    found = (c.c_float * tensor.batch)()
    _c.call("amax", _c.context().handle, tensor, found)
    return list(found)
