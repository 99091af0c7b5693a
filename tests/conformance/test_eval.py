# SPDX-License-Identifier: Apache-2.0
"""eval against transformers: every number from the logits of torch, for FP8 that numpy and ml_dtypes make (told.py)."""
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Iterator

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from transformers import DynamicCache
from transformers.utils import logging

import tiny_models
from checkpoint import read_checkpoint
from harness import finish, quantize, report, run, scratch
from reference import WHOLE, Spec
from told import Told

N_SEQUENCES, SEQ_LEN = 12, 48
PERCENTILES = {"max": 100, "p99_9": 99.9, "p99": 99, "p95": 95, "p90": 90, "median": 50, "p10": 10, "p5": 5, "p1": 1, "min": 0}

# Of w and of x, and what quantize is told.
RECIPES = {
    "blockwise": (Spec("", (128, 128)), Spec("", (1, 128)), ["--recipe", "blockwise", "--ragged"]),
    "blockwise, fp32 scales": (Spec("", (128, 128), kind="float"), Spec("", (1, 128), kind="float"),
                               ["--recipe", "blockwise", "--ragged", "--scale-fmt", "float"]),
    "current": (Spec("", (WHOLE, WHOLE), kind="float"), Spec("", (WHOLE, WHOLE), kind="float"), ["--recipe", "current"]),
    "channelwise": (Spec("", (1, WHOLE), kind="float"), Spec("", (1, WHOLE), kind="float"), ["--recipe", "channelwise"]),
    "mxfp8": (Spec("", (1, 32), kind="e8m0-up"), Spec("", (1, 32), kind="e8m0-up"), ["--recipe", "mxfp8"]),
}

# How far the numbers of a model with routed experts may be off: a token whose router is at the border between two experts
# goes to the other one where torch's last bit differs.
ROUTED = {"mixtral": 0.03, "deepseek_v3": 0.1, "gpt_oss": 0.1}

# Models of latent attention, whose router has no borders then.
DENSE = {"deepseek_v2": {"first_k_dense_replace": 9}, "deepseek_v3": {"first_k_dense_replace": 9},
         "glm4_moe_lite": {"mlp_layer_types": ["dense"] * tiny_models.SIZES["num_hidden_layers"]}}


def sequence_error(per_sequence: list[np.ndarray]) -> float:
    means = np.array([values.mean() for values in per_sequence])
    return means.std(ddof=1) / np.sqrt(len(means))


def numbers(logits_p: torch.Tensor, logits_q: torch.Tensor, ids: torch.Tensor) -> dict:
    """What eval prints, by its definitions; logits (sequences, tokens, vocabulary)."""
    p, q = (torch.log_softmax(logits.double(), -1) for logits in (logits_p, logits_q))
    at = ids[:, 1:, None]
    loss_p, loss_q = (-x[:, :-1].gather(-1, at)[..., 0].numpy() for x in (p, q))
    kl = (p.exp() * (p - q)).sum(-1).numpy()
    same = (p.argmax(-1) == q.argmax(-1)).double().numpy()
    ppl_p, ppl_q = np.exp(loss_p.mean()), np.exp(loss_q.mean())
    delta = 100 * (np.exp(-loss_q) - np.exp(-loss_p))
    error_p, error_q, error_d = (sequence_error(list(x)) for x in (loss_p, loss_q, loss_q - loss_p))
    return {
        "perplexity": {"value": ppl_q, "se": ppl_q * error_q},
        "source_perplexity": {"value": ppl_p, "se": ppl_p * error_p},
        "correlation": np.corrcoef(loss_p.ravel(), loss_q.ravel())[0, 1],
        "ln_ratio": {"value": (loss_q - loss_p).mean(), "se": error_d},
        "ratio": {"value": ppl_q / ppl_p, "se": ppl_q / ppl_p * error_d},
        "difference": {"value": ppl_q - ppl_p, "se": sequence_error(list(ppl_q * loss_q - ppl_p * loss_p))},
        "kld": {"mean": kl.mean(), "se": sequence_error(list(kl)), "reverse_mean": (q.exp() * (q - p)).sum(-1).mean().item()}
        | {name: np.percentile(kl, at) for name, at in PERCENTILES.items()},
        "delta_p": {"mean": delta.mean(), "rms": np.sqrt((delta ** 2).mean())}
        | {name: np.percentile(delta, at) for name, at in PERCENTILES.items()},
        "same_top": {"value": 100 * same.mean(), "se": sequence_error(list(100 * same))},
        "tokens": kl.size, "targets": loss_q.size, "sequences": len(ids), "seq_len": ids.shape[1],
    }


def flat(tree: dict, path: str = "") -> dict[str, float]:
    out = {}
    for key, value in tree.items():
        out |= flat(value, f"{path}{key}.") if isinstance(value, dict) else {path + key: value}
    return out


def differences(found: dict, wanted: dict, limit: float) -> Iterator[str]:
    """A mean may be off by limit of itself, a mean of numbers of both signs by limit of their size, and others by limit of
    the largest of their kind."""
    found, wanted = flat(found), flat(wanted)
    for key, value in wanted.items():
        kind = key.split(".")[0]
        allowed = abs(value)
        if key == "delta_p.mean":
            allowed = wanted["delta_p.rms"]
        elif key in ("ln_ratio.value", "difference.value"):
            allowed = 3 * abs(value) + wanted[f"{kind}.se"]
        elif not key.endswith(("mean", "value")):
            allowed = max(abs(v) for k, v in wanted.items() if k.split(".")[0] == kind)
        if not abs(found.get(key, np.nan) - value) <= limit * allowed + 1e-6:
            yield f"{key}: {found.get(key)}, not {value}"


def evaluate(out: pathlib.Path, *args: str | pathlib.Path) -> dict:
    done = run("eval", out, "--precision", "f32", "--json", "--progress", "none", *args)
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip())
    return json.loads(done.stdout)


def kept(out: pathlib.Path) -> set[str]:
    """The modules that stay in high precision, with the names that Told gives to experts."""
    names = {name.removesuffix(".weight") for _, name, tensor in read_checkpoint(out)
             if name.endswith(".weight") and not tensor.dtype.startswith("F8")}
    for ours, theirs in (("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2")):
        names |= {name.removesuffix(ours) + theirs for name in names if ".experts." in name and name.endswith(ours)}
    return names


def problems(name: str, recipe: str) -> Iterator[str]:
    w, x, options = RECIPES[recipe]
    with scratch() as folder, torch.no_grad():
        plain = tiny_models.save(name, folder / "m")
        ids = np.random.default_rng(3).integers(0, plain.config.vocab_size, (N_SEQUENCES, SEQ_LEN)).astype(np.int32)
        np.save(folder / "ids.npy", ids)
        if (done := quantize(folder / "m", folder / "out", *options)).returncode:
            yield done.stderr.decode().strip()
            return
        told = Told(tiny_models.save(name, folder / "again"), w, x, kept(folder / "out"))
        tokens = torch.tensor(ids, dtype=torch.long)
        for activations, limit in (("bf16", 0.002), ("engine", ROUTED.get(name, 0.03))):
            if activations == "bf16":
                keep, told.quantized = told.quantized, lambda _, t: t
            rows_p, rows_q = [], []
            for row in tokens:
                told.rows.append({})
                rows_p.append(plain(row[None]).logits)
                rows_q.append(told.model(row[None]).logits)
            if activations == "bf16":
                told.quantized = keep
            wanted = numbers(torch.cat(rows_p), torch.cat(rows_q), tokens)
            found = evaluate(folder / "out", "--source", folder / "m", "--data", folder / "ids.npy", "--seq-len", str(SEQ_LEN),
                             "--activations", activations)
            if found["data_sha256"] != hashlib.sha256(ids.tobytes()).hexdigest():
                yield "another SHA-256"
            yield from (f"{activations}: {line}" for line in differences(found, wanted, limit))


def e4m3(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """What FP8 holds of x with a static scale: values beyond the largest code become that one."""
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).to(torch.float32) * scale


class Static:
    """A model with the weights and input scales of a checkpoint, and what became of its inputs."""

    def __init__(self, model: torch.nn.Module, out: pathlib.Path) -> None:
        self.model, self.tensors = model, load_file(out / "model.safetensors")
        self.casts, self.n_saturated = True, 0
        for name, module in model.named_modules():
            if f"{name}.input_scale" in self.tensors:
                codes, scale = (self.tensors[f"{name}.{what}"].to(torch.float32) for what in ("weight", "weight_scale"))
                module.weight = torch.nn.Parameter(codes * scale)
                module.register_forward_pre_hook(lambda m, args, s=self.tensors[f"{name}.input_scale"]: self.cast(args[0], s))

    def cast(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        if not self.casts:
            return x
        self.n_saturated += int((x.abs() > 448 * scale).sum())
        return e4m3(x, scale)


class Rounded(DynamicCache):
    """Keys, after their rotation, and values as a cache of E4M3 holds them; of latent attention transformers caches the latent
    vector in the place of keys, and the values of keys that are rotated in that of values."""

    def __init__(self, config: transformers.PretrainedConfig, tensors: dict[str, torch.Tensor]) -> None:
        super().__init__(config=config)
        self.scales = {(int(found[1]), found[2]): tensor for name, tensor in tensors.items()
                       if (found := re.search(r"layers\.(\d+)\.self_attn\.(?:[kv]_proj\.)?([kv])_scale$", name))}

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, *more, **others) -> tuple:
        return super().update(e4m3(keys, self.scales[layer, "k"]), e4m3(values, self.scales[layer, "v"]), layer, *more, **others)


def static_problems(name: str, output_format: str) -> Iterator[str]:
    """Of 2 of 12 sequences came the scales, so that the others go beyond them."""
    with scratch() as folder, torch.no_grad():
        plain = tiny_models.save(name, folder / "m")
        ids = np.random.default_rng(5).integers(0, plain.config.vocab_size, (N_SEQUENCES, SEQ_LEN)).astype(np.int32)
        np.save(folder / "ids.npy", ids)
        data = ["--data", folder / "ids.npy", "--seq-len", str(SEQ_LEN)]
        done = run("calibrate", folder / "m", *data, "--passes", "2", "--precision", "f32", "--min-tokens", "1", "--quiet",
                   "-o", folder / "s.amax")
        if done.returncode == 0:
            done = quantize(folder / "m", folder / "out", "--recipe", "delayed", "--calibration", folder / "s.amax",
                            "--kv-cache", "--format", output_format)
        if done.returncode:
            yield done.stderr.decode().strip()
            return
        static = Static(tiny_models.save(name, folder / "again"), folder / "out")
        tokens = torch.tensor(ids, dtype=torch.long)
        rows_p = torch.cat([plain(row[None]).logits for row in tokens])
        for options, limit in (["--activations", "bf16"], 0.002), ([], 0.03), (["--kv-cache"], 0.03):
            static.casts = "bf16" not in options
            caches = [Rounded(plain.config, static.tensors) if "--kv-cache" in options else DynamicCache(config=plain.config)
                      for _ in tokens]
            rows_q = torch.cat([static.model(row[None], past_key_values=cache, use_cache=True).logits
                                for row, cache in zip(tokens, caches)])
            found = evaluate(folder / "out", "--source", folder / "m", *data, *options)
            yield from (f"{' '.join(options) or 'engine'}: {line}"
                        for line in differences(found, numbers(rows_p, rows_q, tokens), limit))
        if not static.n_saturated:
            yield "no input is beyond its scale"


def split_problems() -> Iterator[str]:
    """By layer where the source has one tensor of all experts, and the checkpoint matrices: what both have has numbers."""
    with scratch() as folder:
        tiny_models.save("gpt_oss", folder / "m")
        np.save(folder / "ids.npy", np.arange(96, dtype=np.int32).reshape(2, 48))
        quantize(folder / "m", folder / "out", "--recipe", "channelwise")
        for out, source in (("out", "m"), ("m", "out")):
            found = evaluate(folder / out, "--source", folder / source, "--data", folder / "ids.npy", "--by-layer")
            for layer in found["layers"]:
                for module in layer["modules"]:
                    name, local = module["module"], module["local"]["sqnr_db"]
                    split = name.endswith(("gate_proj", "up_proj", "gate_up_proj"))
                    if name.endswith("router") or split:
                        if local is not None:
                            yield f"{name}: {local} dB"
                    elif local is None or not 25 < local < 40:
                        yield f"{name}: {local} dB"


def main() -> None:
    logging.disable_progress_bar()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name in ("llama", "gemma2", "phi3", *ROUTED):
        for recipe in RECIPES:
            report(f"eval of {name}, {recipe}", problems(name, recipe))
    for name, changes in DENSE.items():
        config, model, others = tiny_models.MODELS[name]
        tiny_models.MODELS[f"{name}, dense"] = config, model, others | changes
    for name in ("llama", "qwen3", *(f"{name}, dense" for name in DENSE)):
        for output_format in ("compressed-tensors", "modelopt"):
            report(f"eval of {name}, static scales, {output_format}", static_problems(name, output_format))
    report("eval of gpt_oss, --by-layer", split_problems())
    finish()


if __name__ == "__main__":
    main()
