# SPDX-License-Identifier: Apache-2.0
"""The plan of a conversion: what `fp8conv quantize` decides about the tensors of a model, and the tensors that it writes."""
from __future__ import annotations

import ctypes as c
import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral
from typing import Any, NamedTuple

from . import _c
from .tensors import device_of, is_torch, new_bytes

# The types of safetensors, as numpy (ml_dtypes) and torch name them.
TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
         "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
         "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool"}


@dataclasses.dataclass(frozen=True)
class Output:
    """A tensor that becomes of another one; dtype as safetensors has it."""
    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Entry:
    """What becomes of a tensor.

    action: "quantize", "keep" or "drop" (a scale that goes into its weight).  recipe: its name, None: kept.
    reason, source: why it is kept, or has another recipe than the others, and whose rule it is.
    needed: the names of all tensors that its conversion reads, with itself."""
    action: str
    recipe: str | None
    reason: str | None
    source: str | None
    outputs: tuple[Output, ...]
    needed: tuple[str, ...]


class Change(NamedTuple):
    """What changed in a tensor.

    indices: flat, in the order of rows, ascending; int32, or int64 where a tensor has 2^31 elements; None: the whole tensor.
    values: the new elements at these indices, or the tensor."""
    indices: Any
    values: Any


def _type_of(x: Any) -> str:
    """Returns the type of safetensors for a name, or a dtype of numpy or torch."""
    text = x if isinstance(x, str) else str(getattr(x, "name", None) or getattr(x, "__name__", None) or x)
    text = text.removeprefix("torch.")
    if not getattr(x, "isnative", True):
        raise TypeError(f"dtype is {x!r}, whose bytes are not in the order of this machine")
    if text in TYPES:
        return text
    for name, known in TYPES.items():
        if text == known:
            return name
    raise TypeError(f"dtype is {x!r}, expected a type of safetensors such as 'BF16', or of numpy or torch")


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _given(name: str, given: Any) -> tuple[tuple[int, ...], Any, Any]:
    """Returns the shape and dtype of a tensor, and its memory where it has some."""
    if isinstance(given, tuple):
        if len(given) != 2 or not isinstance(given[0], Iterable) or not all(isinstance(n, (int, Integral)) for n in given[0]):
            raise TypeError(f"tensor '{name}' is {given!r}, expected (shape, dtype) or a tensor")
        return (*given, None)
    _kind(name, given)
    meta = is_torch(given) and given.device.type == "meta"
    return given.shape, given.dtype, None if meta else _Held(given)


def _kind(name: str, x: Any) -> None:
    if not is_torch(x) and not hasattr(x, "ctypes"):
        raise TypeError(f"tensor '{name}' is {type(x).__name__}, expected a numpy array or a torch tensor")
    if is_torch(x) and str(x.layout) != "torch.strided":
        raise ValueError(f"tensor '{name}' has the layout {x.layout}, expected torch.strided")


class _Held:
    """A tensor in contiguous memory, of this process or (stays) where it is."""

    def __init__(self, x: Any, stays: bool = False) -> None:
        if is_torch(x):
            self.x = (x.detach() if stays else x.detach().cpu()).contiguous().resolve_neg()
            self.address, self.bytes = self.x.data_ptr(), self.x.nbytes
        else:
            import numpy
            self.x = numpy.ascontiguousarray(x)
            self.address, self.bytes = self.x.ctypes.data, self.x.nbytes


def _bits(x: Any) -> Any:
    """Returns the elements of a tensor in the order of rows, as integers."""
    if is_torch(x):
        import torch
        flat = x.detach().contiguous().resolve_neg().reshape(-1)
        return flat.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])
    import numpy
    return numpy.ascontiguousarray(x).reshape(-1).view(f"u{x.dtype.itemsize}")


def _change(name: str, was: Any, x: Any) -> Change | None:
    """Returns what changed in a tensor; None: nothing."""
    _kind(name, was)
    if is_torch(was) != is_torch(x):
        raise TypeError(f"since['{name}'] is {type(was).__name__}, expected {type(x).__name__} as its source")
    if was.dtype != x.dtype or tuple(was.shape) != tuple(x.shape):
        return Change(None, x)
    old, new = _bits(was.to(x.device) if is_torch(x) else was), _bits(x)
    small = len(new) < 1 << 31
    if is_torch(x):
        import torch
        indices = (old != new).nonzero().reshape(-1).to(torch.int32 if small else torch.int64)
    else:
        indices = (old != new).nonzero()[0].astype("int32" if small else "int64")
    if not len(indices):
        return None
    whole = len(indices) * (indices.itemsize + new.itemsize) >= len(new) * new.itemsize
    return Change(None, x) if whole else Change(indices, new[indices].view(x.dtype))


def _changes(made: Iterator[tuple[str, Any]], since: Mapping[str, Any]) -> Iterator[tuple[str, Change]]:
    for name, x in made:
        change = _change(name, since[name], x) if name in since else Change(None, x)
        if change:
            yield name, change


@functools.cache
def has_gpu() -> bool:
    """Can the library work on tensors of CUDA devices?"""
    try:
        _c.Context(threads=1, backend="cuda")
    except _c.Error:
        return False
    return True


class Plan:
    """What `fp8conv quantize` does with a model, decided once; then its tensors, in any order.

    config: config.json as a dict or text; None: no family is known.
    tensors: for each name (shape, dtype), or the tensor, which may be on the device meta; dtype of numpy, of torch, or as safetensors names it.
    recipe, target and options: as the long options of fp8conv-quantize(1): exclude=["lm_head"], format="modelopt"."""

    def __init__(self, config: Mapping | str | None, tensors: Mapping[str, Any], *, recipe: str | None = None,
                 target: str | None = None, **options: Any) -> None:
        self._context, self._handle = _c.context(), c.c_void_p()
        if not isinstance(tensors, Mapping):
            raise TypeError(f"tensors is {type(tensors).__name__}, expected a dict: {{name: (shape, dtype)}}, or model.state_dict()")
        self.names = list(tensors)
        items, keep = (_c.Item * len(self.names))(), []
        self._given: list[tuple[str, tuple[int, ...]]] = []
        for item, (name, given) in zip(items, tensors.items()):
            shape, dtype, held = _given(name, given)
            sizes = (c.c_uint64 * len(shape))(*shape)
            keep += [sizes, held]
            self._given.append((_type_of(dtype), tuple(shape)))
            item.__init__(name=_c.text(name, "the name of a tensor").encode(), dtype=self._given[-1][0].encode(), n_dims=len(shape), shape=sizes,
                          data=held and held.address)
        text = json.dumps(config) if isinstance(config, Mapping) else config
        text = None if text is None else _c.text(text, "config").encode()
        words = {key: value for key, value in (options | {"recipe": recipe, "target": target}).items() if value is not None}
        model = _c.Model(config=text, n_tensors=len(items), tensors=items)
        _c.call("plan_create", self._context.handle, model, _c.options_text(words), c.byref(self._handle))
        self._entries = [self._entry(i) for i in range(len(self.names))]

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            _c.lib.fp8conv_plan_destroy(self._handle)

    def _entry(self, i: int) -> Entry:
        e = _c.Entry()
        _c.call("plan_entry", self._handle, i, c.byref(e))
        outputs = tuple(Output(_text(o.name), _text(o.dtype), tuple(o.shape[:o.n_dims])) for o in e.outputs[:e.n_outputs])
        return Entry(_text(e.action), _text(e.recipe), _text(e.reason), _text(e.source), outputs,
                     tuple(self.names[k] for k in e.needed[:e.n_needed]))

    @property
    def entries(self) -> dict[str, Entry]:
        """What becomes of each tensor."""
        return dict(zip(self.names, self._entries))

    def text(self, name: str) -> str | None:
        """Returns "config.json", "hf_quant_config.json", "params.json", "quantization_config" or "notes" of the output."""
        return _text(_c.lib.fp8conv_plan_text(self._handle, name.encode()))

    @property
    def config(self) -> dict | None:
        """config.json of the output, with its quantization_config."""
        text = self.text("config.json")
        return None if text is None else json.loads(text)

    @property
    def notes(self) -> list[str]:
        return (self.text("notes") or "").splitlines()

    def convert(self, tensors: Iterable[tuple[str, Any]] | Mapping[str, Any], *, scales_by_columns: bool = False,
                since: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Any]]:
        """Yields (name, tensor) of the output, byte for byte as `fp8conv quantize` writes it, as soon as the tensors that it
        needs have come: kept tensors themselves, and new ones of the kind and on the device of their source.  Each tensor comes
        at most once.

        scales_by_columns: F32 scales of blocks lie by columns, padded to a multiple of 4 rows, as DeepGEMM reads them.
        since: the tensors of an earlier output by name, of the same kind.  Then it yields (name, Change) of the tensors that
        differ from them in any bit, and of new ones."""
        if since is not None and not isinstance(since, Mapping):
            raise TypeError(f"since is {type(since).__name__}, expected a dict of tensors by name")
        made = self._convert(tensors, scales_by_columns)
        return made if since is None else _changes(made, since)

    def _convert(self, tensors: Iterable[tuple[str, Any]] | Mapping[str, Any], scales_by_columns: bool) -> Iterator[tuple[str, Any]]:
        index = {name: i for i, name in enumerate(self.names)}
        came: set[int] = set()
        waiting: dict[int, Any] = {}                # tensors that came, whose entries are not complete
        readers: dict[int, set[int]] = {}           # entries that read a tensor and are not converted
        for i, entry in enumerate(self._entries):
            for name in entry.needed:
                readers.setdefault(index[name], set()).add(i)
        for pair in tensors.items() if isinstance(tensors, Mapping) else tensors:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"tensors has {type(pair).__name__}, expected pairs (name, tensor) as of model.state_dict().items()")
            name, x = pair
            if name not in index:
                raise ValueError(f"tensor '{name}' is not in the plan")
            i = index[name]
            if i in came:
                raise ValueError(f"tensor '{name}' came twice")
            came.add(i)
            _kind(name, x)
            if (_type_of(x.dtype), tuple(x.shape)) != self._given[i]:
                raise ValueError(f"tensor '{name}' is {_type_of(x.dtype)} {tuple(x.shape)}, the plan has "
                                 f"{self._given[i][0]} {self._given[i][1]}")
            outputs = self._entries[i].outputs
            if self._entries[i].action == "keep" and [(o.dtype, o.shape) for o in outputs] == [self._given[i]]:
                yield outputs[0].name, x
                readers.get(i, set()).discard(i)
            if not readers.get(i):
                continue
            waiting[i] = x
            ready = [j for j in sorted(readers[i]) if j in waiting and all(index[n] in waiting for n in self._entries[j].needed)]
            if ready:
                yield from self._apply(ready, {index[n] for j in ready for n in self._entries[j].needed}, waiting, scales_by_columns)
            for j in ready:
                for n in self._entries[j].needed:
                    readers[index[n]].discard(j)
            for k in [k for k in waiting if not readers[k]]:
                del waiting[k]
        left = [i for i in waiting if i in readers[i]]
        if left:
            missing = next(n for n in self._entries[left[0]].needed if index[n] not in waiting)
            raise ValueError(f"tensor '{self.names[left[0]]}' needs '{missing}', which did not come")

    def _apply(self, ready: list[int], needed: set[int], waiting: dict[int, Any], by_columns: bool) -> Iterator[tuple[str, Any]]:
        rows, keep, made = (_c.Conversion * len(needed))(), [], []
        devices = {device_of(waiting[i])[0] for i in needed}
        stays = devices == {0} or (len(devices) == 1 and has_gpu())
        for row, i in zip(rows, sorted(needed)):
            held, outputs = _Held(waiting[i], stays), None
            device, stream = device_of(held.x)
            if i in ready and self._entries[i].outputs:
                new = [(output, *self._new(held.x, output, by_columns)) for output in self._entries[i].outputs]
                outputs = (c.c_void_p * len(new))(*(address for _, _, address in new))
                made += [(output.name, tensor, waiting[i]) for output, tensor, _ in new]
            keep += [held, outputs]
            row.__init__(tensor=i, data=held.address, bytes=held.bytes, outputs=outputs, scales_by_columns=bool(by_columns),
                         device=device, stream=stream)
        _c.call("plan_apply", self._handle, rows, len(rows))
        for name, tensor, source in made:
            yield name, tensor.to(source.device) if is_torch(source) else tensor

    def _new(self, like: Any, output: Output, by_columns: bool) -> tuple[Any, int]:
        """Returns memory for an output as a tensor, and its address."""
        shape, dtype = output.shape, TYPES[output.dtype]
        if not (by_columns and output.dtype == "F32" and len(shape) > 1):
            return new_bytes(like, shape, dtype)
        padded = shape[-2] + -shape[-2] % 4
        whole, address = new_bytes(like, (*shape[:-2], shape[-1], padded), dtype)
        return whole.swapaxes(-1, -2)[..., :shape[-2], :], address
