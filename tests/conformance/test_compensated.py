# SPDX-License-Identifier: Apache-2.0
"""quantize --rounding compensated against numpy: Hessians from what transformers multiplies, factored and rounded in fp64 by
the text of fp8conv-quantize(1) and of GPTQ as Babai's nearest plane (arXiv 2507.18553); the choice of --shrink auto against
divergences from logits of torch."""
import json
import os
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from transformers.utils import logging

import reference as ref
import tiny_models
from checkpoint import read_checkpoint
from harness import finish, quantize, report, run, scratch
from reference import WHOLE, Spec
from told import MERGED, Expert, Products

N_SEQUENCES, SEQ_LEN = 12, 48
DAMPING = 0.001
TRIED = ("0.3", "0.6", "0.8")

# Sums of fp32 differ from sums of fp64, and an input at the border of two bf16 values goes to the other one: a weight at the
# border of two codes then gets the other code, and those that come after it in its row make up for that.  99.92 to 100 % of
# the codes were the same.  A router at the border of two experts gives a token to the other one, and so changes inputs of whole
# matrices, here of GPT-OSS (99.0 %); so a single loss may be off by more than the sum of all.  Gemma 4's attention, whose scores have no
# factor, makes more of such a difference from layer to layer (99.3 %; in the first layer 99.99 %).
SAME, SAME_ROUTED = 0.998, {"gpt_oss": 0.98, "gemma4_text": 0.985}
LOSS, SINGLE_LOSS = 0.01, 0.05
GAIN = 0.9                                  # of the loss of the nearest codes; 0.72 to 0.84 was seen
KLD = 0.01                                  # of itself; 0.25 % at most was seen
ENOUGH, FEW = 4, 0.25                       # tokens for a column: below the first rho rises, below the second it is 1

RECIPES = {
    "blockwise": (Spec("", (128, 128)), ["--recipe", "blockwise", "--ragged"]),
    "blockwise, fp32 scales": (Spec("", (128, 128), kind="float"),
                               ["--recipe", "blockwise", "--ragged", "--scale-fmt", "float"]),
    "blockwise, fp32 scales of deepseek": (Spec("", (128, 128), kind="float", arith="deepseek"),
                                           ["--recipe", "blockwise", "--ragged", "--scale-fmt", "float",
                                            "--scale-arith", "deepseek"]),
    "channelwise": (Spec("", (1, WHOLE), kind="float"), ["--recipe", "channelwise"]),
    "channelwise, e5m2": (Spec("", (1, WHOLE), "e5m2", kind="float"), ["--recipe", "channelwise", "--fp8-format", "e5m2"]),
    "channelwise, the head too": (Spec("", (1, WHOLE), kind="float"),
                                  ["--recipe", "channelwise", "--tensor", "lm_head=channelwise"]),
    "current": (Spec("", (WHOLE, WHOLE), kind="float"), ["--recipe", "current"]),
    "delayed": (Spec("", (WHOLE, WHOLE), kind="float"), ["--recipe", "delayed"]),
    "mxfp8": (Spec("", (1, 32), kind="e8m0-up"), ["--recipe", "mxfp8"]),
}


ROWS = {
    "llama": list(RECIPES),
    "qwen3_moe": ["blockwise", "blockwise, fp32 scales", "channelwise", "current", "delayed", "mxfp8"],
    "mixtral": ["blockwise", "blockwise, fp32 scales", "channelwise", "current", "delayed", "mxfp8"],
    "deepseek_v3": ["blockwise", "channelwise", "current", "mxfp8"],
    "gpt_oss": ["blockwise", "channelwise", "current", "mxfp8"],
    "phi3": ["blockwise", "channelwise"],
    "gemma4": ["blockwise", "channelwise"],
    "gemma4, small": ["blockwise", "channelwise"],
}

# What makes the values that enter a module, or leave the head, infinite, or their squares.
# What is multiplied by what, and what is said then of the inputs of the module.
OVERFLOWS = {
    "model.layers.1.mlp.down_proj": ({"model.layers.1.mlp.gate_proj.weight": 1e25, "model.layers.1.mlp.up_proj.weight": 1e25},
                                     "are NaN or infinite"),
    "model.layers.1.self_attn.o_proj": ({"model.layers.1.self_attn.v_proj.weight": 1e25}, "the sum of their squares overflows"),
    "lm_head": ({"model.norm.weight": 1e38, "lm_head.weight": 1e3}, "are not finite"),
}


@dataclass
class Matrix:
    values: np.ndarray                      # (n, k) in fp32, from bf16
    site: str                               # the product, as Seen names it
    group: str                              # of per-tensor scales


def checkpoint_name(site: str, mixtral: bool) -> str:
    head, _, last = site.rpartition(".")
    if last not in ("w1", "w2", "w3"):
        return site
    if mixtral:
        return site.replace(".mlp.", ".block_sparse_moe.")
    return f"{head}.{ {'w1': 'gate_proj', 'w3': 'up_proj', 'w2': 'down_proj'}[last] }"


class Seen(Products):
    """A model that multiplies in bf16 and adds in fp32, as fp8conv does; what its products saw, by sequence; its matrices, by
    the module's name in checkpoints."""

    def __init__(self, model: torch.nn.Module) -> None:
        names = {name for name, module in model.named_modules()
                 if isinstance(module, torch.nn.Linear) or (type(module).__name__.endswith("Router") and not hasattr(module, "proj"))}
        super().__init__(model, names)
        self.inputs: list[dict[str, np.ndarray]] = []
        self.mixtral = "Mixtral" in type(model).__name__
        self.parts: dict[str, torch.Tensor] = {}
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear):
                self.parts[name] = module.weight.data
            if hasattr(module, "embed_scale"):             # as transformers has it in a model of bf16
                module.embed_scale.copy_(module.embed_scale.to(torch.bfloat16))
            if type(module).__name__.endswith("Experts"):
                for e in range(len(module.down_proj)):
                    expert = Expert(module, e)
                    self.parts |= {f"{name}.{e}.w1": expert.gate, f"{name}.{e}.w3": expert.up, f"{name}.{e}.w2": expert.down}
        self.matrices: dict[str, Matrix] = {}
        for site, part in self.parts.items():
            head, _, last = site.rpartition(".")
            merged = MERGED.get(last, {"w1": "gate_up", "w3": "gate_up"}.get(last, last))
            self.matrices[checkpoint_name(site, self.mixtral)] = Matrix(part.clone().numpy(), site, f"{head}.{merged}")

    def enter(self, name: str, x: torch.Tensor) -> torch.Tensor:
        x = x.to(torch.bfloat16).to(torch.float32)
        self.inputs[-1][name] = x.reshape(-1, x.shape[-1]).double().numpy()
        return x

    def logits(self, row: np.ndarray) -> torch.Tensor:
        self.inputs.append({})
        return self.model(torch.tensor(row[None], dtype=torch.long)).logits[0].double()

    def put(self, decoded: dict[str, np.ndarray]) -> None:
        """Gives matrices other values, in bf16."""
        for name, values in decoded.items():
            self.parts[self.matrices[name].site].copy_(torch.from_numpy(values.copy()).to(torch.bfloat16).to(torch.float32))


# The text, in fp64.

def hessian(inputs: list[dict[str, np.ndarray]], domains: list[list[int]], site: str, k: int) -> tuple[np.ndarray, int]:
    """X^T X, each domain's divided by its trace where there are several, and the tokens."""
    total, n_tokens = np.zeros((k, k)), 0
    for domain in domains:
        x = np.concatenate([np.zeros((0, k)), *(inputs[i][site] for i in domain if site in inputs[i])])
        h = x.T @ x
        total += h / np.trace(h) if len(domains) > 1 and np.trace(h) > 0 else h
        n_tokens += len(x)
    return total, n_tokens


def raised(rho: float, tokens_per_column: float) -> float:
    if tokens_per_column < FEW:
        return 1
    return 1 - (1 - rho) * min(1, tokens_per_column / ENOUGH)


def factor(h: np.ndarray, rho: float) -> tuple[np.ndarray, np.ndarray]:
    """The order of the columns, and U of U D U^T: Cholesky's factor of the matrix reversed in both axes."""
    diagonal = np.diag(h)
    shrunk = (1 - rho) * h + np.diag(rho * diagonal + DAMPING * diagonal.mean())
    order = np.argsort(-diagonal, kind="stable")
    u = np.linalg.cholesky(shrunk[order][:, order][::-1, ::-1])[::-1, ::-1]
    return order, u / np.diag(u)


@dataclass
class Scales:
    """By element."""
    factor: np.ndarray | None               # None: divides by inverse
    inverse: np.ndarray
    grid: np.ndarray                        # as the file has it


def scales_of(w: np.ndarray, amax_of: np.ndarray, spec: Spec) -> Scales:
    """amax_of: what has the amaxes, w or the stack of its group."""
    amax = ref.tile_amax(amax_of, spec.tile)
    if spec.kind.startswith("e8m0"):
        grid = ref.e8m0_from_amax(amax, spec.fp8, spec.kind)
        scale, inverse = ref.e8m0_to_f32(254 - grid.astype(np.int64)), ref.e8m0_to_f32(grid)
    else:
        grid, scale = ref.scale_from_amax(amax, spec, "bf16")
        inverse = grid
    wide = None if scale is None else ref.spread(scale, spec.tile, w.shape)
    return Scales(wide, ref.spread(inverse, spec.tile, w.shape), grid)


def cast(values: np.ndarray, scales: Scales, columns: object, spec: Spec) -> np.ndarray:
    values = values.astype(np.float32)
    inverse = scales.inverse[:, columns]
    return ref.cast(values / inverse if scales.factor is None else values * scales.factor[:, columns], spec.fp8)


def decode(codes: np.ndarray, inverse: np.ndarray, spec: Spec) -> np.ndarray:
    return ref.dequantize(codes, inverse, spec.fp8, "f32").view(np.float32)


def compensated(w: np.ndarray, scales: Scales, h: np.ndarray, rho: float, spec: Spec) -> np.ndarray:
    order, u = factor(h, rho)
    codes, errors = np.zeros(w.shape, np.uint8), np.zeros(w.shape)
    for j, column in enumerate(order):
        wanted = w[:, column] + errors[:, :j] @ u[:j, j]
        codes[:, column] = cast(wanted[:, None], scales, [column], spec)[:, 0]
        errors[:, j] = w[:, column] - decode(codes[:, column], scales.inverse[:, column], spec)
    return codes


def loss(w: np.ndarray, codes: np.ndarray, scales: Scales, h: np.ndarray, spec: Spec) -> float:
    e = w.astype(float) - decode(codes, scales.inverse, spec)
    return np.einsum("nk,nk->", e @ h, e)


# What fp8conv wrote.

def tensors(folder: pathlib.Path) -> dict[str, tuple[str, np.ndarray]]:
    return {name: (tensor.dtype, tensor.array()) for _, name, tensor in read_checkpoint(folder)}


def calibrated(folder: pathlib.Path, recipe: str) -> list[str]:
    if recipe != "delayed":
        return []
    done = run("calibrate", folder / "m", "--data", folder / "ids.npy", "--seq-len", str(SEQ_LEN), "--min-tokens", "1",
               "--quiet", "-o", folder / "s.amax")
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip())
    return ["--calibration", str(folder / "s.amax")]


def convert(folder: pathlib.Path, out: str, *options: str) -> dict[str, tuple[str, np.ndarray]]:
    done = quantize(folder / "m", folder / out, *options)
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip())
    return tensors(folder / out)


def compensation(*files: str, shrink: str) -> list[str]:
    return ["--rounding", "compensated", *(f"--data={file}" for file in files), "--seq-len", str(SEQ_LEN), "--shrink", shrink]


def save(path: pathlib.Path, ids: np.ndarray) -> str:
    np.save(path, ids)
    return str(path)


def same_tensor(a: tuple[str, np.ndarray], b: tuple[str, np.ndarray]) -> bool:
    return a[0] == b[0] and a[1].tobytes() == b[1].tobytes()


def manifest(out: pathlib.Path) -> dict:
    return json.loads((out / "fp8conv-manifest.json").read_text(encoding="utf-8"))["rounding"]


def sequences(model: torch.nn.Module, seed: int, shape: tuple[int, int]) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, model.config.vocab_size, shape).astype(np.int32)


@dataclass
class Tally:
    codes: int = 0
    same: int = 0
    moved: int = 0                          # codes that are not the nearest
    few: int = 0
    matrices: int = 0
    loss: float = 0
    numpys_loss: float = 0
    nearest_loss: float = 0


class Compared:
    """One conversion against numpy."""

    def __init__(self, seen: Seen, spec: Spec, nearest: dict, found: dict) -> None:
        self.seen, self.spec, self.nearest, self.found = seen, spec, nearest, found
        self.tally = Tally()
        self.groups: dict[str, list[np.ndarray]] = {}
        for matrix in seen.matrices.values():
            self.groups.setdefault(matrix.group, []).append(matrix.values)

    def others(self) -> Iterator[str]:
        """Scales, and whatever stays in high precision."""
        if set(self.found) != set(self.nearest):
            yield f"other tensors: {sorted(set(self.found) ^ set(self.nearest))}"
        for name, (dtype, values) in self.found.items():
            was, before = self.nearest.get(name, (None, values))
            if dtype != was or (not dtype.startswith("F8") and values.tobytes() != before.tobytes()):
                yield f"{name} is not that of rounding to nearest"

    def scales(self, matrix: Matrix) -> Scales:
        w = matrix.values
        return scales_of(w, np.concatenate(self.groups[matrix.group]) if self.spec.tile == (WHOLE, WHOLE) else w, self.spec)

    def matrix(self, name: str, domains: list[list[int]], rho: float) -> Iterator[str]:
        matrix = self.seen.matrices[name]
        w, codes, spec = matrix.values, self.found[f"{name}.weight"][1], self.spec
        scales = self.scales(matrix)
        grid = next(self.found[f"{name}.{s}"][1] for s in ("weight_scale", "weight_scale_inv") if f"{name}.{s}" in self.found)
        if grid.tobytes() != scales.grid.tobytes():
            yield f"{name}: the scales differ from numpy's"
            return
        nearest = cast(w, scales, slice(None), spec)
        h, n_tokens = hessian(self.seen.inputs, domains, matrix.site, w.shape[1])
        rho = raised(rho, n_tokens / w.shape[1])
        wanted = nearest if rho == 1 or not h.any() else compensated(w, scales, h, rho, spec)
        self.tally.matrices += 1
        self.tally.codes += codes.size
        self.tally.same += int((codes == wanted).sum())
        self.tally.moved += int((codes != nearest).sum())
        if rho == 1:
            self.tally.few += 1
            if (codes != nearest).any():
                yield f"{name}: {n_tokens} tokens reach it, and its codes are not the nearest"
        elif h.any():
            mine, numpys, nearests = (loss(w, c, scales, h, spec) for c in (codes, wanted, nearest))
            self.tally.loss += mine
            self.tally.nearest_loss += nearests
            self.tally.numpys_loss += numpys
            if not abs(mine / numpys - 1) <= SINGLE_LOSS:
                yield f"{name}: the loss is {mine:.6g}, numpy's {numpys:.6g}"
            if not mine < nearests:
                yield f"{name}: the loss is {mine:.6g}, that of the nearest codes {nearests:.6g}"

    def all(self, domains: list[list[int]], rho: float, told: dict) -> Iterator[str]:
        yield from self.others()
        quantized = [name.removesuffix(".weight") for name, (dtype, _) in self.found.items() if dtype.startswith("F8")]
        for name in quantized:
            yield from self.matrix(name, domains, rho)
        t = self.tally
        if not t.same >= SAME_ROUTED.get(self.seen.model.config.model_type, SAME) * t.codes:
            yield f"{t.same} of {t.codes} codes are numpy's"
        if not abs(t.loss / t.numpys_loss - 1) <= LOSS or not t.loss < GAIN * t.nearest_loss:
            yield f"losses sum to {t.loss:.6g}, numpy's to {t.numpys_loss:.6g}, of nearest codes to {t.nearest_loss:.6g}"
        if (told["matrices"], told["outside"], told["few_tokens"], told["raised"]) != (len(quantized), 0, t.few, 0):
            yield f"the manifest says {told}, of {len(quantized)} matrices {t.few} have few tokens"


def problems(name: str, recipe: str, shape: tuple[int, int] = (N_SEQUENCES, SEQ_LEN)) -> Iterator[str]:
    spec, options = RECIPES[recipe]
    with scratch() as folder, torch.no_grad():
        seen = Seen(tiny_models.save(name, folder / "m"))
        ids = sequences(seen.model, 3, shape)
        data = save(folder / "ids.npy", ids)
        options = [*options, *calibrated(folder, recipe)]
        nearest = convert(folder, "nearest", *options)
        found = convert(folder, "out", *options, *compensation(data, shrink="0.6"))
        for row in ids:
            seen.logits(row)
        compared = Compared(seen, spec, nearest, found)
        yield from compared.all([list(range(len(ids)))], 0.6, manifest(folder / "out"))
        t = compared.tally
        if shape[0] < N_SEQUENCES and not 0 < t.few < t.matrices:
            yield f"{t.few} of {t.matrices} matrices have few tokens: the data is of no use here"


def held_out(sizes: tuple[int, ...]) -> tuple[list[list[int]], list[int]]:
    """By file, the sequences of the sums; and those that are held out: every tenth, or the last of fewer."""
    domains, held, first = [], [], 0
    for n in sizes:
        step = min(n, 10)
        here = list(range(first + step - 1, first + n, step))
        domains.append([i for i in range(first, first + n) if i not in here])
        held += here
        first += n
    return domains, held


def divergences(seen: Seen, rows: np.ndarray, source: list[torch.Tensor]) -> np.ndarray:
    p = [torch.log_softmax(logits, -1) for logits in source]
    q = [torch.log_softmax(seen.logits(row), -1) for row in rows]
    return np.array([(a.exp() * (a - b)).sum(-1).mean().item() for a, b in zip(p, q)])


def decoded(found: dict, nearest: Compared) -> dict[str, np.ndarray]:
    out = {}
    for name, matrix in nearest.seen.matrices.items():
        if found.get(f"{name}.weight", ("", None))[0].startswith("F8"):
            out[name] = decode(found[f"{name}.weight"][1], nearest.scales(matrix).inverse, nearest.spec)
    return out


def chosen_problems(name: str, recipe: str, sizes: tuple[int, ...]) -> Iterator[str]:
    spec, options = RECIPES[recipe]
    domains, held = held_out(sizes)
    with scratch() as folder, torch.no_grad():
        seen = Seen(tiny_models.save(name, folder / "m"))
        ids = sequences(seen.model, 4, (sum(sizes), SEQ_LEN))
        whole = [save(folder / f"{d}.npy", part) for d, part in enumerate(np.split(ids, np.cumsum(sizes)[:-1]))]
        parts = [save(folder / f"{d}-part.npy", ids[domain]) for d, domain in enumerate(domains)]
        nearest = convert(folder, "nearest", *options)
        found = convert(folder, "out", *options, *compensation(*whole, shrink="auto"))
        source = [seen.logits(row) for row in ids]
        tried = {rho: convert(folder, rho, *options, *compensation(*parts, shrink=rho)) for rho in TRIED}
        told = manifest(folder / "out")

        # The codes of the rho that was chosen, by numpy, and by a run with this rho.
        best = min(told["tried"], key=lambda row: row["kld"])
        compared = Compared(seen, spec, nearest, found)
        if told["rounding"] == "nearest":
            if not told["nearest_kld"] <= best["kld"]:
                yield f"nearest was chosen: {told}"
            yield from (f"{n}: not that of rounding to nearest" for n in found if not same_tensor(found[n], nearest[n]))
        else:
            if not (best["kld"] < told["nearest_kld"] and best["shrink"] == told["shrink"]):
                yield f"{told['shrink']} was chosen: {told}"
            rho = f"{told['shrink']:.1f}"
            yield from compared.all(domains, float(rho), told)
            yield from (f"{n}: not that of --shrink {rho}" for n in found if not same_tensor(found[n], tried[rho][n]))

        # The divergences.
        if told["held_out_sequences"] != len(held):
            yield f"{told['held_out_sequences']} sequences were held out, not {len(held)}"
        p = [source[i] for i in held]
        outcomes = []
        for codes in nearest, *tried.values():
            seen.put(decoded(codes, compared))
            outcomes.append(divergences(seen, ids[held], p))
        yield from differences(outcomes, told)


def differences(outcomes: list[np.ndarray], told: dict) -> Iterator[str]:
    """outcomes: by sequence, of rounding to nearest, then of each rho."""
    rows = [("nearest_kld", outcomes[0].mean(), told["nearest_kld"])]
    for outcome, row in zip(outcomes[1:], told["tried"]):
        error = (outcome - outcomes[0]).std(ddof=1) / len(outcome) ** 0.5
        rows += [(f"kld of {row['shrink']}", outcome.mean(), row["kld"]), (f"se of {row['shrink']}", error, row["se"])]
    for what, wanted, found in rows:
        if not abs(found - wanted) <= KLD * outcomes[0].mean():
            yield f"{what}: {found:.6g}, not {wanted:.6g}"
    if [row["shrink"] for row in told["tried"]] != [float(rho) for rho in TRIED]:
        yield f"other shrinks were tried: {told['tried']}"


def overflow_problems(module: str, factors: dict[str, float], said: str) -> Iterator[str]:
    with scratch() as folder, torch.no_grad():
        model = tiny_models.save("llama", folder / "m")
        for name, by in factors.items():
            model.get_parameter(name).mul_(by)
        model.to(torch.bfloat16).save_pretrained(folder / "m")
        data = save(folder / "ids.npy", sequences(model, 3, (N_SEQUENCES, SEQ_LEN)))
        for shrink in "auto", "0.6":
            if module == "lm_head" and shrink != "auto":
                continue                    # the head runs only where its divergences are asked for
            out = folder / shrink
            done = quantize(folder / "m", out, "--recipe", "channelwise", *compensation(data, shrink=shrink))
            text = done.stderr.decode()
            if done.returncode != 3 or f"of '{module}'" not in text or said not in text or text.count("\n") != 1:
                yield f"--shrink {shrink}: exit status {done.returncode}: {text}"
            if list(out.glob("*.safetensors")) + list(out.glob("config.json")):
                yield f"--shrink {shrink}: there is an output"


def main() -> None:
    logging.disable_progress_bar()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name, recipes in ROWS.items():
        for recipe in recipes:
            report(f"compensated {name}, {recipe}", problems(name, recipe))
    for name in ("mixtral", "qwen3_moe", "deepseek_v3", "gpt_oss"):
        report(f"compensated {name}, few tokens", problems(name, "channelwise", (2, 16)))
    for name in ("llama", "qwen3_moe", "mixtral", "deepseek_v3", "gpt_oss", "gemma4, small"):
        for recipe, sizes in ("blockwise", (24,)), ("channelwise", (12, 7)):
            report(f"compensated {name}, {recipe}, --shrink auto, {len(sizes)} files", chosen_problems(name, recipe, sizes))
    # With 12 and 7 sequences, none of the rhos is better than rounding to nearest.
    report("compensated llama, blockwise, --shrink auto, 2 files", chosen_problems("llama", "blockwise", (12, 7)))
    for module, (factors, said) in OVERFLOWS.items():
        report(f"compensated, overflow in {module}", overflow_problems(module, factors, said))
    finish()


if __name__ == "__main__":
    main()
