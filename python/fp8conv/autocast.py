# SPDX-License-Identifier: Apache-2.0
"""Recipe states, and the context in which modules use them: TransformerEngine's fp8_autocast."""
from __future__ import annotations

import array
import ctypes as c
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _c, tensors

SLOTS = {"forward": ("x", "w", "y"), "backward": ("grad_output", "grad_input")}
MODULO = 1 << 128


class RecipeState:
    """The quantizers of n_gemms products for one direction, with the amax history and scales of "delayed"."""

    def __init__(self, recipe: str = "delayed", mode: str = "forward", n_gemms: int = 1, **options: Any) -> None:
        self.context = _c.context()         # which must outlive the state
        self.handle = c.c_void_p()
        self.recipe = self.context.recipe(recipe, options)
        self.roles = SLOTS[tuple(SLOTS)[tensors.word(mode, tuple(SLOTS), "mode")]]
        _c.call("state_create", self.context.handle, self.recipe, mode == "backward", n_gemms, c.byref(self.handle))
        self.n_gemms = n_gemms

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            _c.lib.fp8conv_state_destroy(self.handle)

    def make_quantizers(self) -> list[Quantizer]:
        """Returns x, w, y of the first product, then of the next; backward grad_output, grad_input."""
        return [Quantizer(self, slot) for slot in range(self.n_gemms * len(self.roles))]

    def _history(self) -> tuple[_c.History, Any, Any]:
        history = _c.History()
        _c.call("history_get", self.handle, history)
        amax = (c.c_float * (history.length * history.n_slots))()
        scale = (c.c_float * history.n_slots)()
        history.amax, history.scale = amax, scale
        _c.call("history_get", self.handle, history)
        return history, amax, scale

    @property
    def amax_history(self) -> list[list[float]]:
        """(steps, slots): row 0 of this step, row 1 of the oldest."""
        history, amax, _ = self._history()
        return [list(amax[i * history.n_slots:(i + 1) * history.n_slots]) for i in range(history.length)]

    @property
    def scale(self) -> list[float]:
        """(slots): the factors of the casts; scale_inv is 1 / scale."""
        return list(self._history()[2])

    def set_history(self, amax_history: Sequence[Sequence[float]] | None = None, scale: Sequence[float] | None = None) -> None:
        history, amax, scales = self._history()
        for new, memory in (None if amax_history is None else [x for row in amax_history for x in row], amax), (scale, scales):
            if new is not None:
                if len(new) != len(memory):
                    raise ValueError(f"a history of {len(new)} numbers, expected {len(memory)}")
                memory[:] = [float(x) for x in new]
        _c.call("history_set", self.handle, history)

    def quantize(self, slot: int, x: Any, **copies: Any) -> tuple:
        """Quantizes x by the slot's scale, as quantize(), and raises its amax."""
        role = tensors.word(self.roles[slot % len(self.roles)], tensors.ROLES, "role")
        wanted = {"rowwise": True, "columnwise": False, "layout": "compact", "out": None} | copies
        return tensors.quantize_by(lambda t, q: _c.call("state_quantize", self.handle, slot, t, c.byref(q)), self.recipe, role, x,
                                   **wanted)

    def calibrate(self, slot: int, x: Any) -> None:
        """Raises the slot's amax to that of x, a matrix or a number."""
        if isinstance(x, float):
            number = c.c_float(x)
            x = _c.Tensor(data=c.addressof(number), rows=1, columns=1)
            x.keep = number
        elif not isinstance(x, _c.Tensor):
            x = tensors.describe(x, "x")
        _c.call("state_quantize", self.handle, slot, x, None)


class Quantizer:
    """The quantizer of one tensor of a module: `quantizer(x)` is (codes, scale_inv)."""

    def __init__(self, state: RecipeState, slot: int) -> None:
        self.state, self.slot, self.role = state, slot, state.roles[slot % len(state.roles)]

    def __call__(self, x: Any, *, rowwise: bool = True, columnwise: bool = False, layout: str = "compact",
                 out: tuple | None = None) -> tuple:
        return self.state.quantize(self.slot, x, rowwise=rowwise, columnwise=columnwise, layout=layout, out=out)

    def calibrate(self, x: Any) -> None:
        """Raises the amax of this step to that of x."""
        self.state.calibrate(self.slot, x)


class _Active(threading.local):
    """The contexts that this thread is in, and all of them that were entered since the step began."""

    def __init__(self) -> None:
        self.stack: list[autocast] = []
        self.step: list[autocast] = []


_active = _Active()


class autocast:
    """The FP8 settings of modules that run within: `with fp8conv.autocast(enabled=True, recipe="blockwise") as cast:`.

    enabled: attached modules compute with inputs and weights that went through FP8, as decoded values.
    calibrating: attached modules compute as ever, and record amaxes (recipe "delayed").
    group: a group of torch.distributed, whose ranks take the maxima of their amaxes at the end of each step.
    options: of the recipe: margin, amax_history_len, amax_algo, reduce_amax, scale_fmt...
    Contexts nest: the innermost one decides, and a module has the recipe of the innermost one that it is attached to.  The exit of the outermost one ends the step, as step() does:
    histories roll and scales are made.  Where the reduction fails, all of them stay as they are."""

    def __init__(self, enabled: bool = True, calibrating: bool = False, recipe: str = "delayed", group: Any = None,
                 **options: Any) -> None:
        self.enabled, self.calibrating, self.recipe = bool(enabled), bool(calibrating), recipe
        self.group = group if options.get("reduce_amax", True) else None
        self.options = options | ({"reduce_amax": True} if recipe == "delayed" else {})
        self.context = _c.context()
        self.handle = self.context.recipe(recipe, self.options).handle
        self.attached: list[Any] = []
        self.passes = self.tokens = self.seq_len = self.data = 0
        self._group = _Group(group if self.group is not None else None)
        self._values: array.array = array.array("f")
        self._given: array.array | None = None
        self._failed: BaseException | None = None
        self._left = self._only_records = False
        self._reduce = _c.ReduceMax(self._reduce_max)   # the library calls it at the end of a step

    # Modules.

    def attach(self, model: Any, rename: Callable[[str], str] | None = None,
               select: Callable[[str, Any], bool] | None = None) -> None:
        """Gives the modules of a torch model a recipe state: each nn.Linear, and stacks of experts (E, out, in) or
        (E, in, out) by their products.  A module that runs several times in a step has the maximum of its amaxes.

        rename: makes the name in the checkpoint of a module's name; select(name, module): whether to attach it."""
        from .modules import Attached
        self.attached.append(Attached(self, model, rename, select))
        if self in _active.step:
            self.attached[-1].touch()

    def detach(self) -> None:
        """Takes all hooks away; the histories stay."""
        for attached in self.attached:
            attached.remove()

    def settings(self, module: Any = None) -> tuple[bool, bool]:
        """(enabled, calibrating) for a module of this context at this moment; enabled in one context, others record."""
        if self not in _active.stack:
            return False, False
        last = _active.stack[-1]
        owner = next((cast for cast in reversed(_active.stack) if any(module in a.modules for a in cast.attached)), None)
        return last.enabled and owner is self, last.calibrating or last.enabled

    def only_records(self) -> bool:
        """Does the innermost context record amaxes without rounding?"""
        return self._only_records if not _active.stack else not _active.stack[-1].enabled

    # Steps.

    def __enter__(self) -> autocast:
        if self in _active.stack or self.context is not _c.context():
            raise RuntimeError("this context is entered already, or made by another thread: make another one")
        _c.call("context_enter", self.context.handle,
                _c.Autocast(calibrating=self.enabled or self.calibrating, recipe=self.handle, reduce_max=self._reduce))
        _active.stack.append(self)
        if self not in _active.step:
            _active.step.append(self)
            for attached in self.attached:
                attached.touch()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None:
        if self not in _active.stack:       # a step() that failed left it
            return
        if _active.stack[-1] is not self:   # as a generator does that is closed too early
            self._left = True               # it ends when those within have ended
            raise RuntimeError("contexts must be left in the order in which they were entered, each by its thread")
        try:
            self._leave(error)
        except _c.Error:
            if error is None:
                raise
        finally:
            while _active.stack and _active.stack[-1]._left:
                _active.stack[-1]._leave(None)

    def step(self) -> None:
        """Ends a step and begins the next one; within the outermost context."""
        if _active.stack != [self]:
            raise RuntimeError("step() belongs to the outermost context, while no other is entered")
        self._leave(None)
        self.__enter__()

    def _leave(self, error: BaseException | None) -> None:
        self._only_records = not _active.stack.pop().enabled
        self._left = False
        outermost, casts = not _active.stack, list(_active.step)
        failed = error
        if outermost:
            _active.step.clear()
            for cast in casts:
                failed = failed or cast._settle()
        for cast in casts:
            cast._failed = failed
        try:
            _c.call("context_exit", self.context.handle)
        except _c.Error as caught:
            cause = next((cast._failed for cast in casts if cast._failed), None)
            message = f"{caught.message}: {cause}" if cause and cause is not error else caught.message
            raise _c.Error(caught.code, message) from cause
        finally:
            if outermost and error is not None:
                for cast in casts:
                    cast._discard()
        if outermost:
            for cast in casts:
                cast._commit()

    def _settle(self) -> BaseException | None:
        """Before the amaxes: the ranks agree on their modules, and add their counts."""
        if self._given is not None:
            return None
        try:
            for attached in self.attached:
                attached.measure_weights()
            self._group.settle(self.attached)
        except Exception as error:
            return error
        return None

    def _reduce_max(self, _: Any, values: Any, n: int) -> int:
        try:
            if self._failed:
                return 1
            memory = (c.c_float * n).from_address(c.addressof(values.contents))
            if self._given is not None:
                memory[:] = self._given
            else:
                self._group.maximum(memory)
            self._values = array.array("f", memory)
        except BaseException as error:      # no exception passes the library
            self._failed = error
            return 1
        return 0

    def _commit(self) -> None:
        """After a step: keeps the row of the pass, if there was one."""
        if self._values and any(attached.n_forward for attached in self.attached):
            self.passes += 1
            at = 0
            for attached in self.attached:
                n = attached.state.n_gemms * 3
                attached.rows.append((self._values[at:at + n], array.array("q", attached.tokens)))
                at += n
                n_tokens = attached.n_tokens or max(attached.tokens)    # of inputs that are no ids: of the widest module
                self.tokens += n_tokens
                self.seq_len = max(self.seq_len, attached.seq_len or n_tokens)
                self.data = (self.data + attached.data) % MODULO
        self._values = array.array("f")
        for attached in self.attached:
            attached.clear()

    def _discard(self) -> None:
        """Forgets the amaxes of a step that an exception ended."""
        for attached in self.attached:
            history = attached.state.amax_history
            if history:
                attached.state.set_history([[0.0] * len(history[0]), *history[1:]])
            attached.clear()

    # Files.

    def save(self, path: str | os.PathLike, model: str | os.PathLike | None = None) -> None:
        """Writes the histories as the amax file that `fp8conv quantize --calibration` takes; in a group, its first rank.

        model: the checkpoint that will be quantized; None: the directory from which transformers loaded the model."""
        if not self.passes:
            raise ValueError("no pass was recorded: run the model in the context, with calibrating=True and recipe='delayed'")
        found = model if model is not None else self.attached[0].checkpoint()
        if not found or not os.path.exists(found):
            raise ValueError(f"the checkpoint of the model is not known ({found}): give its directory as model=")
        if self._group.rank:
            return
        modules, keep = [], []
        for attached in self.attached:
            for i, name in attached.sites():
                amax = (c.c_float * (3 * len(attached.rows)))(*(row[0][3 * i + k] for row in attached.rows for k in range(3)))
                tokens = (c.c_int64 * len(attached.rows))(*(row[1][i] for row in attached.rows))
                keep += [amax, tokens]
                modules.append(_c.AmaxModule(name=name.encode(), n_passes=len(attached.rows), amax=amax, tokens=tokens))
        rows = (_c.AmaxModule * len(modules))(*modules)
        _c.call("amax_save", os.fsencode(path), _c.AmaxFile(
            checkpoint=os.fsencode(found), precision=self.attached[0].precision.encode(), data=(self.data >> 64, self.data % 2 ** 64),
            passes=self.passes, tokens=self.tokens, seq_len=self.seq_len, history_len=self.options.get("amax_history_len", 1024),
            n_modules=len(modules), modules=rows))

    def load(self, path: str | os.PathLike) -> None:
        """Takes the histories of the attached modules from an amax file, as if its passes had run now."""
        if len(self.attached) != 1 or _active.stack:
            raise RuntimeError("load() belongs behind one attach(), outside of contexts")
        attached, file = self.attached[0], c.POINTER(_c.AmaxFile)()
        _c.call("amax_load", os.fsencode(path), c.byref(file))
        try:
            at = file.contents
            found = {module.name.decode(): module for module in at.modules[:at.n_modules] if not module.attention}
            modules = [found.get(name) for name in attached.names]
            missing = [name for name in attached.names[:attached.n_linears] if name not in found]
            if missing:
                raise _c.Error(_c.INPUT, f"module '{missing[0]}' is not in '{path}'")
            for step in range(max((m.n_passes for m in modules if m), default=0)):
                self._replay(attached, modules, step)
            self.passes, self.tokens, self.seq_len = at.passes, at.tokens, max(self.seq_len, at.seq_len)
            self.data = at.data[0] << 64 | at.data[1]
        finally:
            _c.lib.fp8conv_free(file)

    def _replay(self, attached: Any, modules: list, step: int) -> None:
        here = [m if m and step < m.n_passes else None for m in modules]
        self._given = array.array("f", (x for m in here for x in (m.amax[3 * step:3 * step + 3] if m else (0.0, 0.0, 0.0))))
        try:
            with self:
                attached.tokens[:] = [m.tokens[step] if m else 0 for m in here]
                attached.n_forward = 1
        finally:
            self._given = None


class _Group:
    """The reductions of a group of torch.distributed; None: one process."""

    def __init__(self, group: Any) -> None:
        self.group, self.rank = group, 0
        if group is not None:
            import torch.distributed as dist
            self.dist = dist
            self.device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
            self.rank = dist.get_rank(group)

    def _reduce(self, values: Iterable, dtype: str, maximum: bool) -> list:
        import torch
        x = torch.tensor(list(values), dtype=getattr(torch, dtype), device=self.device)
        self.dist.all_reduce(x, self.dist.ReduceOp.MAX if maximum else self.dist.ReduceOp.SUM, group=self.group)
        return x.tolist()

    def settle(self, attached: list) -> None:
        if self.group is None or not attached:
            return
        head = [x for a in attached for x in (a.state.n_gemms, -a.state.n_gemms, a.seq_len, a.n_forward)]
        found = self._reduce([len(attached), -len(attached)], "int64", True)
        if found[0] != -found[1]:
            raise ValueError(f"the ranks attached {-found[1]} to {found[0]} models")
        found = self._reduce(head, "int64", True)
        for i, a in enumerate(attached):
            if found[4 * i] != -found[4 * i + 1]:
                raise ValueError(f"the ranks attached {-found[4 * i + 1]} to {found[4 * i]} modules")
            a.seq_len, a.n_forward = found[4 * i + 2:4 * i + 4]
            limbs = [a.data >> 32 * k & 0xFFFFFFFF for k in range(4)]
            sums = self._reduce([*limbs, a.n_tokens, *a.tokens], "int64", False)
            a.data = sum(limb << 32 * k for k, limb in enumerate(sums[:4])) % MODULO
            a.n_tokens, a.tokens[:] = sums[4], sums[5:]

    def maximum(self, memory: Any) -> None:
        if self.group is not None:
            memory[:] = self._reduce(memory, "float32", True)
