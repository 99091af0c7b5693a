# SPDX-License-Identifier: Apache-2.0
"""`fp8conv verify`: silent on everything that quantize writes; every way in which an FP8 checkpoint breaks without a word,
made on purpose, is named; any one bit of a code or a scale is missed by nobody who gives --source."""
import json
import pathlib
import random
import re
import shutil
from collections.abc import Iterator

import torch
from safetensors.torch import load_file, save_file

from cases import RECIPES, Case, pairs, plain, ragged
from checkpoint import INDEX, read_checkpoint
from damage import Damage, both, config, extra, kinds, one, shards, tensors, text, verify, with_code, with_value
from harness import SMALL, finish, quantize, real_model, report, run, sample, scratch, silence

FLIPS = 300
LAYER = "model.layers.0.self_attn."


# --- what is right ---

def misread(case: Case) -> bool:
    """vLLM reads partial blocks that it merges with others with other scales, and does not refuse them, in hf."""
    return case.ragged and case.format == "hf"


def accepted(source: pathlib.Path, case: Case) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", *case.arguments()))
        for args in ([], ["--source", source], ["--source", source, "--threads", "1", "--backend", "reference"]):
            done = run("verify", tmp / "out", "--progress", "none", *args)
            told = [line for line in done.stdout.splitlines() if not (misread(case) and b": partial-blocks: " in line)]
            if done.returncode != bool(done.stdout) or told or done.stderr:
                yield f"{args}: exit status {done.returncode}: {(done.stdout + done.stderr).decode()[:300]}"
        status, found = verify(tmp / "out", "--source", source)
        if status != bool(found["problems"]) or kinds(found) - ({"partial-blocks"} if misread(case) else set()) or not found["arithmetic"] or found["recipe"] != case.recipe or found["format"] != case.format:
            yield f"detected as {found['recipe']}, {found['format']}, {found.get('arithmetic')}"
        if found["cost_db"] or found["worst_cost_db"]:
            yield f"its own arithmetic costs {found['cost_db']} dB"
        status, found = verify(tmp / "out", "--source", source, "--recipe", case.recipe)
        if kinds(found) - ({"partial-blocks"} if misread(case) else set()):
            yield f"--recipe {case.recipe}: {found['problems'][:2]}"
        other = next(recipe for recipe in RECIPES if recipe != case.recipe)
        if verify(tmp / "out", "--source", source, "--recipe", other)[0] != 1:
            yield f"taken for {other}"


# --- what is wrong ---

def duplicate(out: pathlib.Path) -> None:
    """A tensor of the first file in the second one too."""
    first, second = shards(out)[:2]
    content, other = load_file(first), load_file(second)
    name = next(iter(sorted(content)))
    save_file(other | {name: content[name]}, second, metadata={"format": "pt"})


def truncate(out: pathlib.Path) -> None:
    path = shards(out)[-1]
    path.write_bytes(path.read_bytes()[:-1])


Q, K, V, O = (LAYER + part + "_proj.weight" for part in "qkvo")

BLOCKWISE: list[tuple[str, str, Damage]] = [
    ("a scale is missing", "scale-missing", one(Q + "_scale_inv", lambda t: None)),
    ("a scale has another name", "scale-missing",
     tensors(lambda c: c.update({Q + "_scale": c.pop(Q + "_scale_inv")}) if Q in c else None)),
    ("a weight in bf16 where the configuration says FP8", "dtype-mismatch", one(O, lambda t: t.to(torch.bfloat16))),
    ("its scale is left", "scale-stray", one(O, lambda t: t.to(torch.bfloat16))),
    ("an FP8 weight that the configuration skips", "dtype-mismatch",
     config(lambda q: q["modules_to_not_convert"].append(LAYER + "o_proj"))),
    ("the scale of a skipped module", "scale-stray",
     config(lambda q: q["modules_to_not_convert"].append(LAYER + "o_proj"))),
    ("a scale for lm_head", "scale-stray", extra(Q, "lm_head.weight_scale_inv", torch.ones(1, 1))),
    *[(f"{name} beside FP8 codes", "scale-stray", extra(O, O.removesuffix("weight") + name, torch.ones(1)))
      for name in ("output_scale", "smooth_scale", "activation_scaling_factor", "weight_quantizer._amax", "input_quantizer._scale")],
    *[(f"{name} of a cache", "scale-stray", extra(Q, LAYER + name, torch.ones(())))
      for name in ("kv_cache_scaling_factor", "key_scale", "attn.v_cache_scale", "k_bmm_quantizer._amax")],
    ("a scale without a weight", "scale-stray", extra(Q, "model.nothing.weight_scale_inv", torch.ones(1, 1))),
    ("a scale of [n]", "scale-shape", one(Q + "_scale_inv", lambda t: t.reshape(-1))),
    ("a scale of too many rows", "scale-shape", one(Q + "_scale_inv", lambda t: torch.cat([t] * 3))),
    ("a scale in int32", "scale-dtype", one(Q + "_scale_inv", lambda t: t.view(torch.int32))),
    ("a scale of zero", "scale-value", one(Q + "_scale_inv", with_value(0))),
    ("a negative scale", "scale-value", one(Q + "_scale_inv", with_value(-2.0 ** -12))),
    ("a scale of NaN", "scale-value", one(Q + "_scale_inv", with_value(float("nan")))),
    ("an infinite scale", "scale-value", one(Q + "_scale_inv", with_value(float("inf")))),
    ("a scale that is no power of two", "scale-not-pow2", one(Q + "_scale_inv", with_value(3 * 2.0 ** -14))),
    ("scales that divide", "scale-inverted", one(Q + "_scale_inv", lambda t: 1 / t)),
    ("all scales divide", "scale-inverted",
     tensors(lambda c: c.update({n: 1 / t for n, t in c.items() if n.endswith("_scale_inv")}))),
    ("a NaN code", "code-nan", one(Q, with_code(0x7F))),
    ("a negative NaN code", "code-nan", one(Q, with_code(0xFF))),
    ("codes far below the format's range", "code-range",
     one(Q, lambda t: (t.float() / 256).to(torch.float8_e4m3fn))),
    ("half a group", "group-partial",
     both(one(K, lambda t: t.to(torch.bfloat16)), one(K + "_scale_inv", lambda t: None),
          config(lambda q: q["modules_to_not_convert"].append(LAYER + "k_proj")))),
    ("k_scale alone", "kv-scale-pair", extra(Q, LAYER + "k_scale", torch.ones(1))),
    ("v_scale alone", "kv-scale-pair", extra(Q, LAYER + "v_scale", torch.ones(1))),
    ("v_proj.v_scale alone", "kv-scale-pair", extra(Q, LAYER + "v_proj.v_scale", torch.ones(()))),
    ("no activation_scheme", "config-key", config(lambda q: q.pop("activation_scheme"))),
    ("a static activation_scheme", "config-key", config(lambda q: q.update(activation_scheme="static"))),
    ("no weight_block_size", "config-key", config(lambda q: q.pop("weight_block_size"))),
    ("another weight_block_size", "config-key", config(lambda q: q.update(weight_block_size=[64, 64]))),
    ("another quant_method", "config-key", config(lambda q: q.update(quant_method="fp9"))),
    ("no quantization_config", "config-key", text("config.json", lambda c: c.pop("quantization_config"))),
    ("a module less in the list", "dtype-mismatch", config(lambda q: q["modules_to_not_convert"].pop())),
    ("an entry that ends other modules", "config-ignore", config(lambda q: q["modules_to_not_convert"].append("proj"))),
    ("one expert in the list", "config-ignore",
     config(lambda q: q["modules_to_not_convert"].append("model.layers.0.mlp.experts.1.up_proj"))),
    ("an expert in bf16", "dtype-mismatch",
     tensors(lambda c: c.update({n: t.to(torch.bfloat16) for n, t in c.items() if re.search(r"experts\.0\.\w+\.weight$", n)}))),
    ("a matrix in bf16 that is no weight", "dtype-mismatch", extra(Q, LAYER + "mix_fn", torch.ones(64, 64, dtype=torch.bfloat16))),
    ("experts in bf16 of an unknown name", "dtype-mismatch",
     extra(Q, "model.layers.0.moe_bank.w_in", torch.ones(4, 64, 64, dtype=torch.bfloat16))),
    ("a module that is not there", "config-ignore",
     config(lambda q: q["modules_to_not_convert"].append("model.layers.77.mlp.gate"))),
    ("a tensor mapped to a file without it", "index-missing",
     text(INDEX, lambda i: i["weight_map"].update({Q: sorted(set(i["weight_map"].values()))[-1]}))),
    ("a tensor that is nowhere", "index-missing",
     text(INDEX, lambda i: i["weight_map"].update({"model.x.weight": i["weight_map"][Q]}))),
    ("a tensor that is not mapped", "index-unmapped", text(INDEX, lambda i: i["weight_map"].pop(Q))),
    ("total_size", "index-total-size", text(INDEX, lambda i: i["metadata"].update(total_size=7))),
    ("one name in two files", "name-duplicate", duplicate),
    ("a file cut short", "file-invalid", truncate),
    ("a file that is not there", "index-missing", lambda out: shards(out)[-1].unlink()),
]

TENSOR: list[tuple[str, str, Damage]] = [
    ("a scale of [1, 1]", "scale-shape", one(Q + "_scale", lambda t: t.reshape(1, 1))),
    ("a scale of []", "scale-shape", one(Q + "_scale", lambda t: t.reshape(()))),
    ("targets that lack a module", "dtype-mismatch",
     config(lambda q: q["config_groups"]["group_0"].update(targets=["re:.*mlp.*"]))),
    ("an unknown key", "config-key", config(lambda q: q["config_groups"]["group_0"]["weights"].update(shape=1))),
    ("no targets", "config-key", config(lambda q: q["config_groups"]["group_0"].update(targets=[]))),
    ("another strategy", "config-key",
     config(lambda q: q["config_groups"]["group_0"]["weights"].update(strategy="channel"))),
    ("static activations without input_scale", "input-scale-missing",
     config(lambda q: q["config_groups"]["group_0"]["input_activations"].update(dynamic=False))),
]

CHANNEL: list[tuple[str, str, Damage]] = [
    ("a scale of [n] for [n, 1]", "scale-shape", one(Q + "_scale", lambda t: t.reshape(-1))),
]

MODELOPT: list[tuple[str, str, Damage]] = [
    ("two configurations that differ", "config-key",
     text("hf_quant_config.json", lambda c: c["quantization"].update(quant_algo="FP8"))),
    ("two lists that differ", "config-ignore",
     text("hf_quant_config.json", lambda c: c["quantization"]["exclude_modules"].append("model.norm"))),
    ("FP8 without input_scale", "input-scale-missing",
     both(text("config.json", lambda c: c["quantization_config"].update(quant_algo="FP8")),
          text("hf_quant_config.json", lambda c: c["quantization"].update(quant_algo="FP8")))),
    ("a scale of [n, 1] for [n]", "scale-shape", one(Q + "_scale", lambda t: t.reshape(-1, 1))),
]

MX: list[tuple[str, str, Damage]] = [
    ("exponents typed F8_E8M0", "scale-dtype", one(Q + "_scale_inv", lambda t: t.view(torch.float8_e8m0fnu))),
    ("a NaN exponent", "scale-value", one(Q + "_scale_inv", with_value(255))),
    ("exponents of another shape", "scale-shape", one(Q + "_scale_inv", lambda t: t.reshape(1, -1))),
]


def less(part: str) -> Damage:
    """Takes away every tensor whose name has the part."""
    def apply(content: dict[str, torch.Tensor]) -> None:
        for name in [name for name in content if part in name]:
            del content[name]
    return tensors(apply)


def renamed(old: str, new: str) -> Damage:
    def apply(content: dict[str, torch.Tensor]) -> None:
        for name in [name for name in content if old in name]:
            content[name.replace(old, new)] = content.pop(name)
    return tensors(apply)


# vLLM's default loader compares loaded with expected names only for models that are not quantized.
MISSING: list[tuple[str, str, Damage]] = [
    ("an expert", "tensor-missing", less("layers.1.mlp.experts.2.")),
    ("a matrix of an expert", "tensor-missing", less("layers.1.mlp.experts.2.down_proj.")),
    ("the last norm", "tensor-missing", less("model.norm.")),
    ("the embedding", "tensor-missing", less("embed_tokens")),
    ("a layer", "layer-missing", less("layers.1.")),
    ("a layer under another number", "layer-missing", renamed("layers.1.", "layers.5.")),
    ("more layers in config.json", "layer-missing", text("config.json", lambda c: c.update(num_hidden_layers=9))),
    ("names of torch.compile", "tensor-name", renamed("model.", "_orig_mod.model.")),
]


def named(good: pathlib.Path, damage: Damage, kind: str) -> Iterator[str]:
    with scratch() as tmp:
        shutil.copytree(good, tmp / "out")
        damage(tmp / "out")
        status, found = verify(tmp / "out")
        if status != 1 or kind not in kinds(found):
            yield f"exit status {status}, {sorted(kinds(found))} {found.get('stderr', '')}"
        for problem in found["problems"]:
            if not problem["message"] or "\n" in problem["message"]:
                yield f"a message that is no line: {problem['message']!r}"


def noted(source: pathlib.Path) -> Iterator[str]:
    """Scales of q, k and v that differ, as llm-compressor and ModelOpt write them: engines quantize by the largest one."""
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", "--recipe", "current"))
        one(K + "_scale", lambda t: t * 2)(tmp / "out")
        (tmp / "out" / "fp8conv-manifest.json").unlink()
        status, found = verify(tmp / "out")
        if status or found["problems"] or {note["kind"] for note in found["notes"]} != {"group-scales-differ"}:
            yield f"exit status {status}, {found['problems'][:2]}, notes {found['notes'][:2]}"


def damaged(source: pathlib.Path, case: Case, damages: list[tuple[str, str, Damage]]) -> None:
    with scratch() as tmp:
        report(f"undamaged: {case}", silence(quantize(source, tmp / "good", *case.arguments())))
        for name, kind, damage in damages:
            report(f"verify names {kind}: {name} ({case})", named(tmp / "good", damage, kind))


# --- against the source ---

def against_source(source: pathlib.Path) -> Iterator[str]:
    """What only the source can show."""
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "good"))
        for kind, damage in (
            ("tensor-changed", one("model.norm.weight", lambda t: t + 1)),
            ("tensor-changed", one("model.norm.weight", lambda t: t.float())),
            ("tensor-missing", one("model.norm.weight", lambda t: None)),
            ("scale-mismatch", one(Q + "_scale_inv", lambda t: t * 2)),
            ("code-mismatch", one(Q, lambda t: (t.float() * 0.5).to(torch.float8_e4m3fn))),
        ):
            shutil.copytree(tmp / "good", tmp / "out")
            damage(tmp / "out")
            status, found = verify(tmp / "out", "--source", source)
            if status != 1 or kind not in kinds(found):
                yield f"{kind}: exit status {status}, {sorted(kinds(found))}"
            shutil.rmtree(tmp / "out")


def flips(source: pathlib.Path, case: Case, n: int, seed: int) -> Iterator[str]:
    """One bit of a code or a scale at a time."""
    choose = random.Random(seed)
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", *case.arguments()))
        places = []
        for file, name, tensor in read_checkpoint(tmp / "out"):
            if tensor.dtype in ("F8_E4M3", "U8") or name.endswith(("_scale", "_scale_inv")):
                places.append((file, name, tensor.data.nbytes))
        starts = {}
        for file in {file for file, _, _ in places}:
            whole = (tmp / "out" / file).read_bytes()
            head = 8 + int.from_bytes(whole[:8], "little")
            starts[file] = {name: head + t["data_offsets"][0] for name, t in json.loads(whole[8:head]).items()
                            if name != "__metadata__"}
        for _ in range(n):
            file, name, size = choose.choice(places)
            at, bit = starts[file][name] + choose.randrange(size), 1 << choose.randrange(8)
            with open(tmp / "out" / file, "r+b") as stream:
                stream.seek(at)
                byte = stream.read(1)[0]
                stream.seek(at)
                stream.write(bytes([byte ^ bit]))
                stream.flush()
                done = run("verify", tmp / "out", "--source", source, "--progress", "none")
                if done.returncode != 1 or name.encode() not in done.stdout:
                    yield f"bit {bit} of byte {at} ({name}): exit status {done.returncode}"
                stream.seek(at)
                stream.write(bytes([byte]))
        done = run("verify", tmp / "out", "--source", source)
        if done.returncode:
            yield "it did not come back"


# --- several recipes in one checkpoint ---

GROUPS = ("--recipe", "blockwise", "--tensor", r"down_proj\.weight=channelwise", "--tensor", r"o_proj\.weight=mxfp8",
          "--format", "compressed-tensors")


def values(out: pathlib.Path) -> dict[str, torch.Tensor]:
    """Every FP8 weight as torch dequantizes it, by the strategy of its config group."""
    groups = json.loads((out / "config.json").read_text())["quantization_config"]["config_groups"].values()
    strategy = {target: group["weights"]["strategy"] for group in groups for target in group["targets"]}
    content: dict[str, torch.Tensor] = {}
    for path in shards(out):
        content |= load_file(path)
    found = {}
    for name in content:
        if name + "_scale" not in content:
            continue
        rows, cols = content[name].shape
        scale = content[name + "_scale"]
        match strategy.get(name.removesuffix(".weight"), strategy["Linear"]):
            case "block":
                scale = scale.repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :cols]
            case "group":
                scale = torch.exp2(scale.float() - 127).repeat_interleave(32, 1)
        found[name] = content[name].float() * scale
    return found


def same_values(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> Iterator[str]:
    if one.keys() != other.keys():
        yield "other weights"
    yield from (f"{name} has other values" for name in one if not torch.equal(one[name], other[name]))


def groups(source: pathlib.Path) -> Iterator[str]:
    """verify looks at each weight by its own config group; repack keeps them, and makes one of two where codes can stay."""
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", *GROUPS))
        status, found = verify(tmp / "out", "--source", source)
        if status or found["arithmetic"] != "te + power of two + mx round up" or found["cost_db"] != 0:
            yield f"exit status {status}, {found['arithmetic']}, {found['cost_db']} dB, {found['problems'][:2]}"
        yield from silence(run("repack", tmp / "out", "-o", tmp / "back", "--format", "compressed-tensors"))
        for path in [*shards(tmp / "out"), tmp / "out" / "config.json"]:
            if path.read_bytes() != (tmp / "back" / path.name).read_bytes():
                yield f"{path.name} did not come back"
        yield from silence(run("verify", tmp / "back", "--source", source, "--progress", "none"))
        done = run("repack", tmp / "out", "-o", tmp / "hf", "--format", "hf")
        if done.returncode != 2 or (tmp / "hf").exists():
            yield f"repack to hf: exit status {done.returncode}, {done.stderr.decode()}"


def one_of_two(source: pathlib.Path) -> Iterator[str]:
    """Blocks and MX become MX alone: in the format of the groups, from there to another, and back, with the same values."""
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", *GROUPS[:2], *GROUPS[4:]))
        was = values(tmp / "out")
        places = ("out", "mx", "hf", "back")
        for place, before, format in zip(places[1:], places, ("compressed-tensors", "hf", "compressed-tensors")):
            yield from silence(run("repack", tmp / before, "-o", tmp / place, "--format", format, "--recipe", "mxfp8"))
            yield from silence(run("verify", tmp / place, "--progress", "none"))
        yield from same_values(was, values(tmp / "mx"))
        yield from same_values(was, values(tmp / "back"))
        for path in [*shards(tmp / "mx"), tmp / "mx" / "config.json"]:
            if path.read_bytes() != (tmp / "back" / path.name).read_bytes():
                yield f"{path.name} did not come back"


def wrong_group(source: pathlib.Path) -> Iterator[str]:
    """A weight of another group than its own is named."""
    with scratch() as tmp:
        yield from silence(quantize(source, tmp / "out", *GROUPS))

        def swap(q: dict) -> None:
            q["config_groups"]["group_1"]["targets"].remove("model.layers.0.mlp.down_proj")

        config(swap)(tmp / "out")
        status, found = verify(tmp / "out")
        if status != 1 or {(p["kind"], p["tensor"]) for p in found["problems"]} != {
                ("scale-shape", "model.layers.0.mlp.down_proj.weight_scale")}:
            yield f"exit status {status}, {found['problems'][:3]}"


def main() -> None:
    for name in SMALL:
        if folder := sample(name):
            for case in [*pairs(), *ragged()]:
                if quantizable(folder, case):
                    report(f"verify accepts {name}: {case}", accepted(folder, case))
    real = real_model(3)
    for case in (next(ragged()), plain("mxfp8", "hf"), plain("current", "compressed-tensors")):
        report(f"verify accepts smollm2: {case}", accepted(real, case))
    if folder := sample("tiny-moe/per-expert"):
        damaged(folder, plain("blockwise", "hf"), BLOCKWISE)
        damaged(folder, plain("channelwise", "compressed-tensors"), MISSING)
        damaged(folder, plain("current", "compressed-tensors"), TENSOR)
        report("verify notes scales that differ in a set", noted(folder))
        damaged(folder, plain("channelwise", "compressed-tensors"), CHANNEL)
        damaged(folder, plain("channelwise", "modelopt"), MODELOPT)
        damaged(folder, plain("mxfp8", "hf"), MX)
        report("verify --source names what it shows", against_source(folder))
    if folder := sample("tiny-llama"):
        report("several config groups: verify, repack", groups(folder))
        report("two config groups become one", one_of_two(folder))
        report("a weight of another config group", wrong_group(folder))
        for seed, recipe in enumerate(RECIPES):
            case = next(case for case in pairs() if case.recipe == recipe)
            report(f"{FLIPS} bits, one at a time: {case}", flips(folder, case, FLIPS, seed))
    finish()


def quantizable(folder: pathlib.Path, case: Case) -> bool:
    return run("quantize", folder, "--dry-run", "--json", *case.arguments()).returncode == 0


if __name__ == "__main__":
    main()
