# SPDX-License-Identifier: Apache-2.0
"""The Python module with torch: histories by autocast against calibrate and against plain hooks, also over two ranks; models that
calibrate does not know; FP8 within a model against casts of torch; values that are not finite; a rank that is lost."""
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import torch
import transformers as t
from safetensors import safe_open
from safetensors.numpy import load_file
from safetensors.torch import save_file
from transformers.utils import logging

import harness
import hooks
import tiny_models
from harness import eval_text, finish, quantize, real_model, report, run, scratch

ROOT = pathlib.Path(__file__).resolve().parents[2]
fp8conv = harness.library()


def calibrating(**more) -> fp8conv.autocast:
    return fp8conv.autocast(enabled=False, calibrating=True, recipe="delayed", **more)


def record(model: torch.nn.Module, batches: list, path: pathlib.Path, source: pathlib.Path, **more) -> dict[str, np.ndarray]:
    """The file of a calibration with a step a batch."""
    with torch.no_grad(), calibrating(**more) as cast:
        cast.attach(model)
        for batch in batches:
            model(**batch)
            cast.step()
    cast.detach()
    cast.save(path, model=source)
    return load_file(path) if path.exists() else {}


def seen_by_hooks(model: torch.nn.Module, batches: list) -> dict[str, list[tuple[float, float, int]]]:
    """Of each module and pass the amax of x and of y, and the tokens."""
    seen: dict[str, list] = {}
    step = 0

    def see(name: str, x: torch.Tensor, y: torch.Tensor) -> None:
        rows = seen.setdefault(name, [(0.0, 0.0, 0)] * len(batches))
        a, b, n = rows[step]
        rows[step] = max(a, x.abs().max().item()), max(b, y.abs().max().item()), n + x.shape[0]
    hooks.watch(model, see)
    with torch.no_grad():
        for step, batch in enumerate(batches):
            model(**batch)
    return seen


def ids_of(n: int, length: int, vocab: int) -> list[dict]:
    ids = np.random.default_rng(5).integers(0, vocab, (n, length))
    return [{"input_ids": torch.tensor(row[None])} for row in ids]


# Against calibrate.

def rounded(model: torch.nn.Module) -> torch.nn.Module:
    """What calibrate multiplies in BF16: rounded inputs and weights, and sums of F32."""
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda m, args: (args[0].bfloat16().float(),))
    return model


def smollm2(precision: str, tolerance: float) -> Iterator[str]:
    source = real_model(1)
    tokenizer = t.AutoTokenizer.from_pretrained(source)
    ids = np.array(tokenizer(eval_text().read_text()[:9000])["input_ids"][:512], np.int32).reshape(4, 128)
    model = t.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    model = rounded(model) if precision == "bf16" else model
    with scratch() as folder:
        np.save(folder / "ids.npy", ids)
        found = record(model, [{"input_ids": torch.tensor(row[None]).long()} for row in ids], folder / "s.amax", source)
        done = run("calibrate", source, "--data", folder / "ids.npy", "--seq-len", "128", "--precision", precision, "-o",
                   folder / "c.amax", "--quiet")
        if done.returncode:
            yield done.stderr.decode()
            return
        wanted = {name: x for name, x in load_file(folder / "c.amax").items() if not name.endswith(("self_attn.tokens", "_qkv"))}
        if set(found) != set(wanted):
            yield f"other tensors: {sorted(set(found) ^ set(wanted))[:3]}"
            return
        errors = []
        for name, x in wanted.items():
            if name.endswith(".tokens"):
                if not np.array_equal(found[name], x):
                    yield f"{name}: {found[name].tolist()}, calibrate has {x.tolist()}"
                continue
            errors.append(np.abs(found[name] - x) / x)
            if errors[-1].max() > (tolerance if precision == "f32" else 2 ** -6):     # of BF16, an input may round another way
                yield f"{name}: {found[name].tolist()}, calibrate has {x.tolist()}"
        if not np.median(errors) <= tolerance:
            yield f"the median of the differences is {np.median(errors)}"
        files = [json.loads(run("inspect", folder / name, "--json").stdout) for name in ("s.amax", "c.amax")]
        for key in "model", "data":
            if files[0].get(key) != files[1].get(key):
                yield f"{key} is {files[0].get(key)}, calibrate has {files[1].get(key)}"


# Against hooks.

def exact_problems(found: dict, seen: dict) -> Iterator[str]:
    for name, rows in seen.items():
        if f"{name}.amax_history" not in found:
            yield f"no history of {name}"
            continue
        x, y, n = (np.array(column) for column in zip(*rows))
        got, tokens = found[f"{name}.amax_history"], found[f"{name}.tokens"]
        if not (np.array_equal(got[:, 0], x.astype(np.float32)) and np.allclose(got[:, 2], y, rtol=1e-6) and tokens.tolist() == n.tolist()):
            yield f"{name}: {got.tolist()} of {tokens.tolist()} tokens, hooks see {rows}"


def by_hooks(name: str, dtype: torch.dtype, experts: str = "eager", inference: bool = False) -> Iterator[str]:
    with scratch() as folder:
        tiny_models.save(name, folder)
        model = t.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, experts_implementation=experts)
        batches = ids_of(3, 40, model.config.vocab_size)
        with torch.inference_mode(inference):
            found = record(model, batches, folder / "s.amax", folder)
        seen = seen_by_hooks(model, batches)
        yield from exact_problems(found, {n: rows for n, rows in seen.items() if not n.endswith(("mlp.gate", "mlp.router"))})
        done = quantize(folder, folder / "out", "--recipe", "delayed", "--calibration", folder / "s.amax", "--uncovered", "group-max")
        if done.returncode:
            yield done.stderr.decode().strip()


# Models of no known architecture.

class Own(torch.nn.Module):
    """A layer that runs twice in a pass, and one that never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(32, 64)
        self.twice = torch.nn.Linear(64, 64, bias=False)
        self.never = torch.nn.Linear(64, 32)
        self.table = torch.nn.Parameter(torch.randn(2, 1, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x) + self.table[0]
        return self.twice(10 * self.twice(x))


def own_model() -> Iterator[str]:
    torch.manual_seed(1)
    model = Own()
    xs = [torch.randn(7, 32) * 2 ** i for i in range(3)]
    with scratch() as folder:
        save_file(dict(model.state_dict()), folder / "model.safetensors")
        (folder / "config.json").write_text('{"model_type": "own", "architectures": ["Own"]}')
        found = record(model, [{"x": x} for x in xs], folder / "s.amax", folder)
        yield from exact_problems(found, seen_by_hooks(model, [{"x": x} for x in xs]))
        if found["twice.tokens"].tolist() != [14] * 3 or found["never.tokens"].tolist() != [0] * 3:
            yield f"tokens: {found['twice.tokens']}, {found['never.tokens']}"
        w = model.never.weight.abs().max().item()
        if not np.array_equal(found["never.amax_history"], np.float32([[0, w, 0]] * 3)):
            yield f"a layer that does not run has {found['never.amax_history']}"
        yield from taken(folder, "--uncovered", "dynamic", "--tensor", ".=delayed")
        yield from loaded(model, folder, found)


def loaded(model: torch.nn.Module, folder: pathlib.Path, found: dict) -> Iterator[str]:
    """A history is read back: saved again it is the same file, and its scales are the recipe's."""
    cast = calibrating()
    cast.attach(model)
    cast.load(folder / "s.amax")
    cast.save(folder / "again.amax", model=folder)
    if (folder / "again.amax").read_bytes() != (folder / "s.amax").read_bytes():
        yield "a history that was loaded and saved is another file"
    amax = found["first.amax_history"].max(axis=0)
    if not np.allclose(cast.attached[0].state.scale[:3], 448 / amax, rtol=1e-6):
        yield f"scales {cast.attached[0].state.scale[:3]} of amaxes {amax}"
    cast.detach()


def taken(folder: pathlib.Path, *args: str) -> Iterator[str]:
    done = quantize(folder, folder / "out", "--recipe", "delayed", "--calibration", folder / "s.amax", *args)
    if done.returncode:
        yield done.stderr.decode().strip()
        return
    made = load_file(folder / "s.amax")
    with safe_open(folder / "out/model.safetensors", "pt") as file:
        scales = {name: file.get_tensor(name).item() for name in file.keys() if name.endswith(".input_scale")}
    if not scales:
        yield "no input_scale"
    for name, scale in scales.items():
        amax = made[name.replace(".input_scale", ".amax_history")][:, 0].max()
        if scale < amax / 448 * 0.999:
            yield f"{name} is {scale}, too small for {amax}"


def transformers_model(kind: str) -> Iterator[str]:
    torch.manual_seed(2)
    if kind == "t5":
        model = t.T5ForConditionalGeneration(t.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=100,
                                                        decoder_start_token_id=0))
        batches = [b | {"decoder_input_ids": b["input_ids"][:, :9]} for b in ids_of(2, 20, 100)]
    else:
        model = t.ViTForImageClassification(t.ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32,
                                                        patch_size=8, intermediate_size=128))
        batches = [{"pixel_values": torch.randn(2, 3, 32, 32)} for _ in range(2)]
    with scratch() as folder:
        model.eval().save_pretrained(folder)
        found = record(model, batches, folder / "s.amax", folder)
        seen = seen_by_hooks(model, batches)
        if kind == "vit":
            parts = {"q_proj": "attention.query", "k_proj": "attention.key", "v_proj": "attention.value", "o_proj": "output.dense",
                     "fc1": "", "fc2": ""}
            seen = {n: rows for n, rows in seen.items() if n.rpartition(".")[2] not in parts} | {
                n.replace("vit.layers", "vit.encoder.layer").replace(part, parts[part]): rows for n, rows in seen.items()
                if (part := n.rpartition(".")[2]) in parts and parts[part]}
        yield from exact_problems(found, seen)
        yield from taken(folder, *(("--tensor", "vit.encoder=delayed") if kind == "vit" else ()))


def not_finite() -> Iterator[str]:
    """A pass that records refuses it, as calibrate does; one in FP8 goes on, as in TransformerEngine."""
    model = Own()
    with calibrating() as cast:
        cast.attach(model)
        model(torch.ones(3, 32))
        cast.step()
        for value in float("nan"), float("-inf"):
            try:
                with fp8conv.autocast(enabled=False, calibrating=True):
                    model(torch.full((3, 32), value))
                yield f"no error: {value}"
            except ValueError as error:
                if "in the input of 'first'" not in str(error):
                    yield str(error)
    with torch.no_grad():
        model.first.weight[0, 0] = float("nan")
    try:
        with calibrating() as cast:
            cast.attach(model)
            model(torch.ones(3, 32))
        yield "no error: a weight with NaN"
    except ValueError as error:
        if "in the output of 'first'" not in str(error):
            yield str(error)
    with fp8conv.autocast(recipe="current") as cast:
        cast.attach(model)
        model(torch.ones(3, 32))


# Groups.

def rank_main(rank: int, port: str, folder: pathlib.Path, what: str) -> None:
    import torch.distributed as dist
    import datetime
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2,
                            timeout=datetime.timedelta(seconds=20))
    model = t.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    batches = ids_of(6, 24, model.config.vocab_size)
    if what == "equal":
        record(model, batches[rank::2], folder / "ranks.amax", folder, group=dist.group.WORLD)
        dist.destroy_process_group()
        return
    with torch.no_grad(), calibrating(group=dist.group.WORLD) as cast:
        cast.attach(model)
        model(**batches[rank])
        cast.step()
        before = [row[1:] for row in zip(*cast.attached[0].state.amax_history)], cast.attached[0].state.scale, cast.passes
        model(**batches[rank + 2])
        if rank == 1:
            os._exit(0)
        try:
            cast.step()
            print("no error")
        except fp8conv.Error as error:
            after = [row[1:] for row in zip(*cast.attached[0].state.amax_history)], cast.attached[0].state.scale, cast.passes
            print("same" if after == before else "changed", error.code, str(error)[:300])
    os._exit(0)


def ranks(folder: pathlib.Path, what: str) -> list[subprocess.CompletedProcess]:
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    started = [subprocess.Popen([sys.executable, __file__, "rank", str(rank), port, folder, what], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for rank in range(2)]
    return [(p, *p.communicate(timeout=300)) for p in started]


def two_ranks(name: str) -> Iterator[str]:
    with scratch() as folder:
        tiny_models.save(name, folder)
        for p, _, err in ranks(folder, "equal"):
            if p.returncode:
                yield err[-300:]
                return
        model = t.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        batches = ids_of(6, 24, model.config.vocab_size)
        with torch.no_grad(), calibrating() as cast:
            cast.attach(model)
            for i in range(0, 6, 2):        # two sequences a step, as the ranks have together
                model(**batches[i])
                model(**batches[i + 1])
                cast.step()
        cast.save(folder / "one.amax", model=folder)
        if (folder / "one.amax").read_bytes() != (folder / "ranks.amax").read_bytes():
            yield "the file of two ranks is not that of one process"


def lost_rank() -> Iterator[str]:
    with scratch() as folder:
        tiny_models.save("llama", folder)
        out = ranks(folder, "lost")[0]
        if not out[1].startswith("same 4 "):
            yield f"the rank that is left says {out[1]} {out[2][-300:]}"


# FP8 within a model.

def fp8_of_torch(x: torch.Tensor) -> torch.Tensor:
    scale = torch.tensor(448.0) / x.abs().max()
    return (x * scale).to(torch.float8_e4m3fn).float() * (1 / scale)


def enabled() -> Iterator[str]:
    torch.manual_seed(3)
    model, x = Own(), torch.randn(5, 32, requires_grad=True)
    linear = torch.nn.functional.linear
    inner = linear(fp8_of_torch(x), fp8_of_torch(model.first.weight), model.first.bias) + model.table[0]
    twice = fp8_of_torch(model.twice.weight)
    want = linear(fp8_of_torch(10 * linear(fp8_of_torch(inner), twice)), twice)
    plain = model(x)
    weight = model.twice.weight
    cast = fp8conv.autocast(recipe="current")
    cast.attach(model)
    with cast:
        got = model(x)
        with fp8conv.autocast(enabled=False):
            inside = model(x)
    if not torch.equal(got, want):
        yield f"{got[0, :3]}, torch has {want[0, :3]}"
    if not torch.equal(inside, plain) or not torch.equal(model(x), plain):
        yield "outside, or in a context that is not enabled, FP8 changes the result"
    got.sum().backward()
    if x.grad is None or model.twice.weight is not weight or weight.grad is None or not weight.grad.abs().sum() > 0:
        yield "no gradient goes through"
    cast.detach()
    if not (fp8_of_torch(x) - x).abs().max() > 0:
        yield "FP8 changes nothing"


def in_two_contexts() -> Iterator[str]:
    """A model in two contexts, of which the inner one rounds; and each weight is there again."""
    torch.manual_seed(5)
    model, x = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)), torch.randn(5, 32)
    weights = [m.weight for m in model]
    want = x
    for m in model:
        want = torch.nn.functional.linear(fp8_of_torch(want), fp8_of_torch(m.weight), m.bias)
    with fp8conv.autocast(recipe="blockwise") as outer:
        outer.attach(model)
        try:
            outer.attach(model)
            yield "no error: attached twice"
        except ValueError:
            pass
        with fp8conv.autocast(recipe="current") as inner:
            inner.attach(model)
            got = model(x)
            model[1].register_forward_pre_hook(lambda *_: inner.detach())
            model(x)
    if not torch.equal(got, want):
        yield f"{got[0, :3]}, torch has {want[0, :3]}"
    if any(m.weight is not w for m, w in zip(model, weights)):
        yield "a weight is another one"


class Keywords(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(32, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(input=x)


def by_keyword() -> Iterator[str]:
    torch.manual_seed(6)
    model, x = Keywords(), torch.randn(5, 32)
    want = torch.nn.functional.linear(fp8_of_torch(x), fp8_of_torch(model.inner.weight), model.inner.bias)
    with fp8conv.autocast(recipe="current") as cast:
        cast.attach(model)
        got = model(x)
    if not torch.equal(got, want):
        yield f"{got[0, :3]}, torch has {want[0, :3]}"
    computed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(32, 64))
    with fp8conv.autocast(recipe="current") as cast:
        cast.attach(computed)
        try:
            computed(x)
            yield "no error: a weight that is computed"
        except ValueError as error:
            if "parametrization" not in str(error):
                yield str(error)


def enabled_experts(experts: str) -> Iterator[str]:
    """The experts of a model, by torch's casts of each product's operands."""
    with scratch() as folder:
        tiny_models.save("qwen3_moe", folder)
        model = t.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, experts_implementation=experts)
        module = model.model.layers[0].mlp.experts
        x, chosen = torch.randn(12, model.config.hidden_size), torch.stack([torch.randperm(4)[:2] for _ in range(12)])
        factors = torch.rand(12, 2)
        want = torch.zeros_like(x)
        with torch.no_grad():
            for e in range(4):
                rows, at = torch.where(chosen == e)
                if len(rows):
                    both = fp8_of_torch(x[rows]) @ torch.cat([fp8_of_torch(w) for w in module.gate_up_proj[e].chunk(2)]).t()
                    inner = module.act_fn(both.chunk(2, -1)[0]) * both.chunk(2, -1)[1]
                    y = fp8_of_torch(inner) @ fp8_of_torch(module.down_proj[e]).t()
                    want.index_add_(0, rows, y * factors[rows, at, None])
            cast = fp8conv.autocast(recipe="current")
            cast.attach(module)
            with cast:
                got = module(x, chosen, factors)
        if not torch.allclose(got, want, rtol=1e-4, atol=1e-5 * float(want.abs().max())):
            yield f"off by {(got - want).abs().max()} of {want.abs().max()}"


def main() -> None:
    logging.disable_progress_bar()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    report("smollm2 in f32 as calibrate", smollm2("f32", 1e-5))
    report("smollm2 with inputs in bf16 as calibrate", smollm2("bf16", 1e-3))
    for dtype in torch.float32, torch.bfloat16:
        report(f"llama in {dtype} by hooks", by_hooks("llama", dtype))
    for name in "qwen3_moe", "gpt_oss":
        report(f"experts of {name} by hooks", by_hooks(name, torch.float32))
    report("experts in groups", by_hooks("qwen3_moe", torch.float32, "grouped_mm"))
    report("experts in inference mode", by_hooks("qwen3_moe", torch.float32, "eager", True))
    report("a model of one's own", own_model())
    report("T5", transformers_model("t5"))
    report("a vision tower", transformers_model("vit"))
    report("NaN in a pass", not_finite())
    report("two ranks are one process", two_ranks("llama"))
    report("two ranks with experts are one process", two_ranks("qwen3_moe"))
    report("a rank is lost", lost_rank())
    report("FP8 within a model", enabled())
    report("FP8 in two contexts", in_two_contexts())
    report("FP8 of inputs by keyword", by_keyword())
    for experts in "eager", "grouped_mm":
        report(f"FP8 within experts, {experts}", enabled_experts(experts))
    finish()


if sys.argv[1:2] == ["rank"]:
    rank_main(int(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4]), sys.argv[5])
else:
    main()
