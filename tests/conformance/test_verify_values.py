# SPDX-License-Identifier: Apache-2.0
"""`fp8conv verify` without the source: values that no conversion writes, made with torch in checkpoints that are right, are
named; what looks like them and is right is not."""
import json
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator

import torch

from cases import Case, plain
from damage import Damage, both, extra, kinds, one, tensors, text, verify
from harness import finish, quantize, report, run, sample, scratch, silence

Change = Callable[[torch.Tensor], torch.Tensor]
LAYER = "model.layers.0."
EMBEDDING = "model.embed_tokens.weight"
DOWN, Q = LAYER + "mlp.down_proj", LAYER + "self_attn.q_proj"


def filled(value: float) -> Change:
    return lambda t: torch.full_like(t, value)


def at(value: float, place: int = 0) -> Change:
    def change(t: torch.Tensor) -> torch.Tensor:
        t.reshape(-1)[place] = value
        return t
    return change


def codes(first: float, last: float, value: int = 0) -> Change:
    """That part of the codes becomes `value`, as numbers of bytes above 1 and as shares below."""
    def change(t: torch.Tensor) -> torch.Tensor:
        n = t.numel()
        begin, end = (round(x * n) if x <= 1 else int(x) for x in (first, last))
        t.view(torch.uint8).reshape(-1)[begin:end] = value
        return t
    return change


def unsigned(t: torch.Tensor) -> torch.Tensor:
    return (t.view(torch.uint8) & 0x7F).view(t.dtype)


def scaled(by: float, *places: int) -> Change:
    def change(t: torch.Tensor) -> torch.Tensor:
        flat = t.reshape(-1)
        for place in places or range(t.numel()):
            flat[place] = flat[place] * by if t.is_floating_point() else flat[place] + round(torch.tensor(by).log2().item())
        return t
    return change


def every(end: str, change: Change) -> Damage:
    return tensors(lambda c: c.update({name: change(c[name]) for name in list(c) if name.endswith(end)}))


def kept(name: str) -> list[tuple[str, str, Damage]]:
    return [(f"{name}: {what}", "tensor-value", one(name, change)) for what, change in (
        ("one NaN", at(float("nan"), 7)), ("one infinity", at(float("-inf"), 3)), ("NaN", filled(float("nan"))), ("zero", filled(0)), ("one 2^64", at(2.0 ** 64, 5)))]


def scales(name: str) -> list[tuple[str, str, Damage]]:
    return [(f"{name} {value:g}", "scale-value", one(name, filled(value)))
            for value in (0, -0.01, float("nan"), float("inf"), 1e-42, 1e30)]


def head(change: Change) -> Damage:
    """A head on the disk beside the embedding, to which config.json ties it."""
    return both(text("config.json", lambda config: config.update(tie_word_embeddings=True)),
                tensors(lambda c: c.update({"lm_head.weight": change(c[EMBEDDING].clone())}) if EMBEDDING in c else None))


HIGH = [
    ("a tied head that differs in one value", "config-key", head(at(0.25, 999))),
    *kept("model.embed_tokens.weight"), *kept(LAYER + "input_layernorm.weight"),
    *kept("model.norm.weight"),
    ("half of the embedding is zero", "tensor-value", one("model.embed_tokens.weight", lambda t: torch.cat([t[:len(t) // 2], 0 * t[len(t) // 2:]]))),
]

BLOCK = [
    *[(f"all codes {value:#x}", "code-zero", one(DOWN + ".weight", codes(0, 1, value))) for value in (0, 0x80)],
    ("the second half of the codes", "code-zero", one(DOWN + ".weight", codes(.5, 1))),
    ("a page from the middle of a row on", "code-zero", one(DOWN + ".weight", codes(5000, 9096))),
    ("all scales 2^127", "scale-value", one(DOWN + ".weight_scale_inv", filled(2.0 ** 127))),
    ("one scale 2^100", "scale-value", one(DOWN + ".weight_scale_inv", at(2.0 ** 100))),
    ("all scales 2^-100", "scale-value", one(DOWN + ".weight_scale_inv", filled(2.0 ** -100))),
    ("all scales 2^-140", "scale-value", one(DOWN + ".weight_scale_inv", filled(2.0 ** -140))),
    ("one scale 64 times as large", "scale-outlier", one(DOWN + ".weight_scale_inv", scaled(64, 1))),
    ("the scales of a weight 64 times as large", "scale-outlier", one(DOWN + ".weight_scale_inv", scaled(64))),
    ("codes without signs", "code-sign", one(DOWN + ".weight", unsigned)),
]

CHANNEL = [
    *[(f"all codes {value:#x}", "code-zero", one(DOWN + ".weight", codes(0, 1, value))) for value in (0, 0x80)],
    ("the second half of the codes", "code-zero", one(DOWN + ".weight", codes(.5, 1))),
    ("a page", "code-zero", one(DOWN + ".weight", codes(4096, 8192))),
    ("one scale 2^100", "scale-value", one(DOWN + ".weight_scale", at(2.0 ** 100))),
    ("subnormal scales", "scale-value", one(DOWN + ".weight_scale", filled(2.0 ** -140))),
    ("one scale 64 times as large", "scale-outlier", one(DOWN + ".weight_scale", scaled(64, 1))),
    ("the scales of a weight 64 times as large", "scale-outlier", one(DOWN + ".weight_scale", scaled(64))),
]

STATIC = [
    *scales(DOWN + ".input_scale"), *scales(LAYER + "self_attn.k_scale"), *scales(LAYER + "self_attn.v_scale"),
    ("input_scale inverted", "scale-outlier", one(DOWN + ".input_scale", lambda t: 1 / t)),
    ("all input_scales inverted", "scale-inverted", every(".input_scale", lambda t: 1 / t)),
    ("all input_scales 1", "scale-outlier", every(".input_scale", filled(1))),
    *[(f"all codes {value:#x}", "code-zero", one(Q + ".weight", codes(0, 1, value))) for value in (0, 0x80)],
    ("the second half of the codes", "code-zero", one(DOWN + ".weight", codes(.5, 1))),
    ("a page from the middle of a row on", "code-zero", one(DOWN + ".weight", codes(5000, 9096))),
    ("a scale of 2^100", "scale-value", one(DOWN + ".weight_scale", filled(2.0 ** 100))),
    ("a subnormal scale", "scale-value", one(DOWN + ".weight_scale", filled(2.0 ** -140))),
    ("a scale 64 times as large", "scale-outlier", one(DOWN + ".weight_scale", scaled(64))),
]

MX = [
    *[(f"all codes {value:#x}", "code-zero", one(DOWN + ".weight", codes(0, 1, value))) for value in (0, 0x80)],
    ("the second half of the codes", "code-zero", one(DOWN + ".weight", codes(.5, 1))),
    ("a page", "code-zero", one(DOWN + ".weight", codes(4096, 8192))),
    ("all exponents 0", "scale-value", one(DOWN + ".weight_scale_inv", filled(0))),
    ("all exponents 254", "scale-value", one(DOWN + ".weight_scale_inv", filled(254))),
    ("one exponent 254", "scale-value", one(DOWN + ".weight_scale_inv", at(254))),
    ("the scales of a weight 64 times as large", "scale-outlier", one(DOWN + ".weight_scale_inv", scaled(64))),
]


# --- what is right ---

def zero(name: str, first: float = 0, last: float = 1) -> Damage:
    """These rows of a weight of the source: shares of all below 1."""
    def change(t: torch.Tensor) -> torch.Tensor:
        begin, end = (round(x * len(t)) if x <= 1 else int(x) for x in (first, last))
        t[begin:end] = 0
        return t
    return tensors(lambda c: c.update({key: change(c[key]) for key in list(c) if re.search(name, key)}))


DENSE = [
    ("pruned rows", zero(r"down_proj\.weight", 10, 30)),
    ("a pruned half in rows that lie apart", lambda out: [zero(r"q_proj\.weight", at, at + 2)(out) for at in range(2, 100, 4)]),
    ("a padded vocabulary", zero(r"embed_tokens", .8, 1)),
    ("a tied head that is a copy", head(lambda t: t)),
    ("norms as 1 + weight begins", zero(r"norm\.weight")),
    ("biases of zero", extra(Q + ".weight", Q + ".bias", torch.zeros(128, dtype=torch.bfloat16))),
    ("a gate that begins at zero", extra(Q + ".weight", LAYER + "cross_attn_gate", torch.zeros(1, dtype=torch.bfloat16))),
]

EXPERTS = [
    ("a padded expert", zero(r"experts\.1\.\w+\.weight")),
    ("a router's bias of zero", extra(Q + ".weight", LAYER + "mlp.gate.e_score_correction_bias", torch.zeros(4))),
]


def accepted(source: pathlib.Path, change: Damage, case: Case) -> Iterator[str]:
    """A source that is as a trained or a pruned model may be, with and without a manifest."""
    with scratch() as tmp:
        shutil.copytree(source, tmp / "source")
        change(tmp / "source")
        yield from silence(quantize(tmp / "source", tmp / "out", *case.arguments()))
        yield from silence(run("verify", tmp / "out", "--progress", "none"))
        (tmp / "out" / "fp8conv-manifest.json").unlink()
        status, found = verify(tmp / "out")
        if status or any(note["kind"] != "code-zero" for note in found["notes"]):
            yield f"exit status {status}, {found['problems'][:2]}, {found['notes'][:2]}"


RIGHT = [plain("blockwise", "hf"), plain("channelwise", "compressed-tensors"), plain("current", "compressed-tensors"),
         plain("mxfp8", "hf")]


# --- what is wrong ---

def named(good: pathlib.Path, damage: Damage, kind: str) -> Iterator[str]:
    """A problem of that kind and status 1; or for kinds that may be intended a note and status 0."""
    with scratch() as tmp:
        shutil.copytree(good, tmp / "out")
        damage(tmp / "out")
        status, found = verify(tmp / "out")
        noted = {note["kind"] for note in found.get("notes", [])}
        if (status, kind in kinds(found)) != (1, True) and (status, kind in noted) != (0, True):
            yield f"exit status {status}, {sorted(kinds(found))}, notes {sorted(noted)} {found.get('stderr', '')}"
        if kind in NOTES and kind not in noted:
            yield f"it is no note: {sorted(kinds(found))}"


NOTES = ("scale-outlier", "code-sign")


def checked(out: pathlib.Path, damages: list[tuple[str, str, Damage]]) -> None:
    """Without the manifest, whose checksums every change would contradict."""
    report(f"undamaged: {out.name}", silence(run("verify", out)))
    (out / "fp8conv-manifest.json").unlink()
    report(f"undamaged, without a manifest: {out.name}", silence(run("verify", out)))
    for name, kind, damage in damages:
        report(f"verify names {kind}: {name} ({out.name})", named(out, damage, kind))


def damaged(source: pathlib.Path, case: Case, damages: list[tuple[str, str, Damage]], *options: str | pathlib.Path) -> None:
    with scratch() as tmp:
        out = tmp / f"{source.name} {case.recipe} {case.format}"
        report(f"made: {out.name}", silence(quantize(source, out, *case.arguments(), *options)))
        checked(out, damages)


def main() -> None:
    if folder := sample("tiny-llama"):
        damaged(folder, plain("blockwise", "hf"), [*HIGH, *BLOCK])
        damaged(folder, plain("channelwise", "compressed-tensors"), CHANNEL)
        damaged(folder, plain("mxfp8", "hf"), MX)
        with scratch() as tmp:
            (tmp / "ids.jsonl").write_text(json.dumps({"input_ids": list(range(1, 65))}) + "\n")
            report("calibrated", silence(run("calibrate", folder, "--data", tmp / "ids.jsonl", "-o", tmp / "a.amax", "-q")))
            quantize(folder, tmp / "static", "--recipe", "delayed", "--calibration", tmp / "a.amax", "--kv-cache")
            checked(tmp / "static", STATIC)
    for name, rows in (("tiny-llama", DENSE), ("tiny-moe/per-expert", EXPERTS)):
        if folder := sample(name):
            for what, change in rows:
                for case in RIGHT:
                    report(f"verify accepts {what}: {case}", accepted(folder, change, case))
    if folder := sample("tiny-moe/per-expert"):
        damaged(folder, plain("blockwise", "hf"), [
            *kept("model.layers.1.mlp.gate.weight"),
            ("a head of zeros", "tensor-value", extra("model.embed_tokens.weight", "lm_head.weight", torch.zeros(64, 128)))])
    finish()


if __name__ == "__main__":
    main()
