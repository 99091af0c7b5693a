# SPDX-License-Identifier: Apache-2.0
"""The modules of a torch model in a context: hooks of linear layers, and the products of experts in one tensor."""
from __future__ import annotations

import collections
import ctypes
import hashlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import tensors
from .autocast import RecipeState, autocast

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
PRECISIONS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
# x (tokens, in) by w (in, out); of bmm both with experts before, of the others offs are the ends of the experts' rows.
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::_grouped_mm", "transformers::grouped_mm_fallback")


class _Straight(torch.autograd.Function):
    """Values that went through FP8; their gradient is that of the values before."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, through: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return through(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None


def _is_experts(module: torch.nn.Module) -> bool:
    return not isinstance(module, torch.nn.modules.conv._ConvNd) and bool(_stacks(module))


def _stacks(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return {name: p for name, p in module.named_parameters(recurse=False) if p.ndim == 3 and p.shape[0] > 1 and p.dtype in FLOATS}


def _halves(module: torch.nn.Module, part: str) -> tuple[tuple[str, ...], int]:
    """The matrices of an expert in a tensor, and the dimension of an expert's matrix along which they lie.  Gate and up lie
    one behind the other, but with a bias (GPT-OSS) they alternate and stay together."""
    gate_up, down = getattr(module, part), getattr(module, "down_proj", None)
    if part != "gate_up_proj" or down is None or down.ndim != 3 or hasattr(module, f"{part}_bias"):
        return (part,), 0
    return ("gate_proj", "up_proj"), 0 if gate_up.shape[1] == 2 * down.shape[2] else 1


def _checkpoint_name(model: torch.nn.Module) -> Callable[[str], str]:
    """Returns the names that save_pretrained() of transformers gives to modules; of other models their own."""
    names = [f"{name}.weight" for name, m in model.named_modules() if isinstance(m, torch.nn.Linear)]
    try:
        from transformers import PreTrainedModel
        from transformers.core_model_loading import revert_weight_conversion
        if not isinstance(model, PreTrainedModel):
            return str
        marked = {name: torch.empty(i + 1, 1, device="meta") for i, name in enumerate(names)}
        saved = {names[tensor.shape[0] - 1]: name for name, tensor in revert_weight_conversion(model, marked).items()}
    except (ImportError, RuntimeError, ValueError, IndexError):
        return str
    return lambda name: saved.get(f"{name}.weight", f"{name}.weight").removesuffix(".weight")


class Attached:
    """A model, whose products have three slots each (x, w, y) in one recipe state."""

    def __init__(self, cast: autocast, model: torch.nn.Module, rename: Callable[[str], str] | None,
                 select: Callable[[str, Any], bool] | None) -> None:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"model is {type(model).__name__}, expected a torch.nn.Module")
        rename = rename or _checkpoint_name(model)
        wanted = [(name, m) for name, m in model.named_modules() if select is None or select(name, m)]
        linears = [(name, m) for name, m in wanted if isinstance(m, torch.nn.Linear) and m.weight.dtype in FLOATS]
        experts = [(name, m) for name, m in wanted if _is_experts(m)]
        again = [name for name, m in linears + experts if any(m in attached.modules for attached in cast.attached)]
        if again:
            raise ValueError(f"module '{again[0]}' is attached to this context already: make another one")
        self.cast, self.model = cast, model
        self.modules = {m for _, m in linears + experts}
        self.names = [rename(name) for name, _ in linears]
        self.n_linears = len(linears)
        self.weights: list[Callable[[], torch.Tensor]] = [lambda m=m: m.weight for _, m in linears]
        self.firsts: dict[torch.nn.Module, dict[str, int]] = {}
        for name, m in experts:
            self.firsts[m] = {}
            for part, stack in _stacks(m).items():
                self.firsts[m][part] = len(self.names)
                halves, dim = _halves(m, part)
                for e in range(stack.shape[0]):
                    self.names += [rename(f"{name}.{e}.{half}") for half in halves]
                    self.weights += [lambda m=m, part=part, e=e, h=h, n=len(halves), dim=dim: getattr(m, part)[e].chunk(n, dim)[h]
                                     for h in range(len(halves))]
        if not self.names:
            raise ValueError("the model has no linear layer of float32, bfloat16 or float16")
        self.state = RecipeState(cast.recipe, "forward", len(self.names), **cast.options)
        self.has_history = bool(self.state.scale)
        dtypes = collections.Counter(m.weight.dtype for _, m in linears)
        self.precision = PRECISIONS[dtypes.most_common(1)[0][0]] if dtypes else "bf16"
        self.rows: collections.deque = collections.deque(maxlen=cast.options.get("amax_history_len", 1024))
        self.known: dict[int, tuple[tuple, float]] = {}     # slot: what the weight was, and its amax
        self.clear()
        self.hooks = [model.register_forward_pre_hook(self._begin, with_kwargs=True)]
        for i, (_, m) in enumerate(linears):
            self.hooks += [m.register_forward_pre_hook(lambda m, args, kwargs, i=i: self._before(i, m, args, kwargs), with_kwargs=True),
                           m.register_forward_hook(lambda m, args, y, i=i: self._after(i, m, y), always_call=True)]
        for m in self.firsts:
            self.hooks += [m.register_forward_pre_hook(self._enter_experts),
                           m.register_forward_hook(lambda m, args, y: self._leave_experts(m), always_call=True)]
        self.modes: list[tuple[torch.nn.Module, Any]] = []
        self.swapped: dict[torch.nn.Module, torch.nn.Parameter] = {}

    def remove(self) -> None:
        while self.swapped:                 # of modules that run
            module, weight = self.swapped.popitem()
            module._parameters["weight"] = weight
        for hook in self.hooks:
            hook.remove()

    def clear(self) -> None:
        """Begins the counts of a step."""
        self.tokens = [0] * len(self.names)
        self.n_forward = self.n_tokens = self.seq_len = self.data = 0

    def touch(self) -> None:
        """The end of the step updates the state, whether a module runs or not; so on every rank."""
        self.state.calibrate(0, 0.0)

    def checkpoint(self) -> str | None:
        return getattr(self.model, "name_or_path", None)

    def sites(self) -> list[tuple[int, str]]:
        """Modules of the file: all linear layers, and stacks with products in any pass."""
        reached = [any(row[1][i] for row in self.rows) for i in range(len(self.names))]
        stacks = [range(first, first + getattr(m, part).shape[0] * len(_halves(m, part)[0]))
                  for m, parts in self.firsts.items() for part, first in parts.items()]
        found = [*range(self.n_linears), *(i for stack in stacks if any(reached[j] for j in stack) for i in stack)]
        return [(i, self.names[i]) for i in found]

    # What is recorded.

    def _begin(self, model: torch.nn.Module, args: tuple, kwargs: dict) -> None:
        """Counts a pass: the token ids of each sequence, or else the bytes of all tensors."""
        if not any(self.cast.settings()):
            return
        self.n_forward += 1
        given = {str(i): x for i, x in enumerate(args)} | kwargs
        ids = given.get("input_ids")
        if ids is None:
            ids = next((x for x in given.values() if isinstance(x, torch.Tensor) and x.dtype in (torch.int64, torch.int32)), None)
        if isinstance(ids, torch.Tensor) and ids.ndim == 2:
            parts = [row.to("cpu", torch.int32).contiguous() for row in ids]
            self.n_tokens += ids.numel()
            self.seq_len = max(self.seq_len, ids.shape[1])
        else:
            parts = [x.detach().cpu().contiguous() for x in given.values() if isinstance(x, torch.Tensor) and x.numel()]
        for part in parts:
            digest = hashlib.sha256(ctypes.string_at(part.data_ptr(), part.nbytes)).digest()
            self.data += int.from_bytes(digest[:16], "big")

    def _record(self, slot: int, x: torch.Tensor) -> None:
        if not self.has_history or x.numel() == 0:
            return
        self._calibrate(slot, float(torch.linalg.vector_norm(x.detach(), float("inf"))))

    def _calibrate(self, slot: int, amax: float) -> None:
        """As `fp8conv calibrate`, a pass that only records refuses values that are not finite."""
        if not math.isfinite(amax) and self.cast.only_records():
            kind = ("input", "weight", "output")[slot % 3]
            raise ValueError(f"NaN or infinite values in the {kind} of '{self.names[slot // 3]}'")
        self.state.calibrate(slot, amax)

    def _record_input(self, i: int, x: torch.Tensor) -> None:
        self.tokens[i] += x.numel() // max(x.shape[-1], 1)
        self._record(3 * i, x)

    def measure_weights(self) -> None:
        """The amaxes of weights, once a step and anew only where they changed."""
        if not self.n_forward and self.cast.group is None:
            return
        for i, weight in enumerate(self.weights):
            w = weight()
            now = (w.data_ptr(), w._version)
            if self.known.get(i, (None,))[0] != now:
                amax = float(torch.linalg.vector_norm(w.detach(), float("inf")))
                self.known[i] = now, amax
            if self.has_history:
                self._calibrate(3 * i + 1, self.known[i][1])

    def through(self, slot: int, x: torch.Tensor) -> torch.Tensor:
        """x through the FP8 of a slot and back, in its type."""
        def values(x: torch.Tensor) -> torch.Tensor:
            flat = x.detach().reshape(-1, x.shape[-1])
            flat = flat.contiguous() if x.dtype in FLOATS else flat.float()
            if flat.numel() == 0:
                return x
            back = tensors.dequantize(*self.state.quantize(slot, flat), flat.dtype)
            return back.to(x.dtype).reshape(x.shape)
        return _Straight.apply(x, values)

    # Linear layers.

    def _before(self, i: int, module: torch.nn.Module, args: tuple, kwargs: dict) -> tuple | None:
        enabled, calibrating = self.cast.settings(module)
        x = args[0] if args else kwargs.get("input")
        if x is None or not (enabled or calibrating):
            return None
        if not enabled:
            self._record_input(i, x)
            return None
        if "weight" not in module._parameters:
            raise ValueError(f"the weight of module '{self.names[i]}' is computed from others: remove its parametrization")
        self.tokens[i] += x.numel() // x.shape[-1]
        x = self.through(3 * i, x)
        self.swapped[module] = module._parameters["weight"]
        module._parameters["weight"] = self.through(3 * i + 1, module.weight)
        return ((x, *args[1:]), kwargs) if args else ((), kwargs | {"input": x})

    def _after(self, i: int, module: torch.nn.Module, y: Any) -> None:
        if module in self.swapped:
            module._parameters["weight"] = self.swapped.pop(module)
        if any(self.cast.settings(module)) and isinstance(y, torch.Tensor):
            self._record(3 * i + 2, y)

    # Experts in one tensor.

    def _enter_experts(self, module: torch.nn.Module, args: tuple) -> None:
        if any(self.cast.settings(module)):
            mode = _Products(self, module)
            mode.__enter__()
            self.modes.append((module, mode))

    def _leave_experts(self, module: torch.nn.Module) -> None:
        if self.modes and self.modes[-1][0] is module:
            self.modes.pop()[1].__exit__(None, None, None)


class _Products(TorchDispatchMode):
    """Sees the products of experts while their module runs: x (tokens, in) by a weight (in, out) that lies in a stack."""

    def __init__(self, attached: Attached, module: torch.nn.Module) -> None:
        super().__init__()
        self.attached = attached
        self.enabled = attached.cast.settings(module)[0]
        # By the address of a stack: it, its first module, and how many matrices an expert has in it.
        self.stacks = {p.untyped_storage().data_ptr(): (p, attached.firsts[module][part], len(_halves(module, part)[0]))
                       for part, p in _stacks(module).items()}
        self.pending: tuple[torch.Tensor, list] | None = None   # a product, to which a bias may be added

    def __exit__(self, *error: Any) -> Any:
        self._finish("", None, None)
        return super().__exit__(*error)

    def _stack(self, w: Any) -> tuple[torch.nn.Parameter, int, int] | None:
        return self.stacks.get(w.untyped_storage().data_ptr()) if isinstance(w, torch.Tensor) and w.device.type != "meta" else None

    def _finish(self, name: str, args: tuple | None, result: Any) -> None:
        """Records the product that an operation takes (args None: the last one), or its sum with a bias."""
        if not self.pending:
            return
        y, parts = self.pending
        if args is not None and not any(isinstance(a, torch.Tensor) and a.data_ptr() == y.data_ptr() for a in args):
            return
        self.pending = None
        if name in ("aten::add", "aten::add_"):
            y = result
        for i, n, _, rows in parts:
            for half, values in enumerate(y[rows].chunk(n, -1)):
                self.attached._record(3 * (i + half) + 2, values)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
            super().__enter__()             # in inference mode nothing has taken it apart
            try:
                return func.decompose(*args, **kwargs)
            finally:
                super().__exit__(None, None, None)
        name = func._schema.name
        at = 2 if name == "aten::addmm" else 1
        if name == "aten::index" and self._stack(args[0]):
            raise ValueError("experts whose weights are copied for each token are not known: load the model with "
                             "experts_implementation='eager' or 'grouped_mm'")
        known = self._stack(args[at]) if name in PRODUCTS else None
        parts = self._parts(name, known, args, kwargs, at) if known else []
        if parts and self.enabled:
            args = self._rounded(args, at, parts)
        y = func(*args, **kwargs)
        self._finish(name, None if parts else args, y)
        for i, n, _, rows in parts:
            for half in range(n):
                self.attached._record_input(i + half, args[at - 1][rows])
        if parts:
            self.pending = y, parts
        return y

    def _parts(self, name: str, known: tuple, args: tuple, kwargs: dict, at: int) -> list[tuple[int, int, Any, Any]]:
        """Of each expert: its first module, their number, its matrix of the weight, and its rows of x and y."""
        stack, first, n = known
        x, w = args[at - 1], args[at]
        if name in ("aten::mm", "aten::addmm"):
            e = (w.storage_offset() - stack.storage_offset()) // stack.stride(0)
            return [(first + n * e, n, ..., slice(None))]
        if name == "aten::bmm":             # all tokens for each expert, 0 in those of others
            reached = [(e, (rows != 0).any(-1)) for e, rows in enumerate(x)]
            return [(first + n * e, n, e, (e, rows)) for e, rows in reached if bool(rows.any())]
        ends = kwargs.get("offs", args[at + 1] if len(args) > at + 1 else None).tolist()
        return [(first + n * e, n, e, slice(begin, end)) for e, (begin, end) in enumerate(zip([0, *ends], ends)) if end > begin]

    def _rounded(self, args: tuple, at: int, parts: list) -> tuple:
        x, w = args[at - 1].clone(), args[at].clone()
        for i, n, e, rows in parts:
            x[rows] = self.attached.through(3 * i, x[rows])
            for half, matrix in enumerate(w[e].chunk(n, -1)):
                matrix.copy_(self.attached.through(3 * (i + half) + 1, matrix.t().contiguous()).t())
        return *args[:at - 1], x, w, *args[at + 1:]
