# SPDX-License-Identifier: Apache-2.0
"""calibrate against transformers: the logits of every architecture, and the amax of every matrix product against what hooks
see; the same bytes from one thread and two, from one pass and from merged ranks, in one go and resumed."""
import json
import math
import os
import pathlib
import re
from collections.abc import Iterator

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.utils import logging

import hooks
import tiny_models
from harness import finish, our_logits, real_model, report, run, scratch

N_SEQUENCES, SEQ_LEN = 4, 150
LENGTHS = (1, 7, 64, 300)           # below the width of a convolution, and more than a block of the scan


def sequences(vocab_size: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, vocab_size, (N_SEQUENCES, SEQ_LEN)).astype(np.int32)


def logits_problems(model: torch.nn.Module, folder: pathlib.Path) -> Iterator[str]:
    """Sequences of each length, in fp32: 2e-5 of the whole."""
    all_ids = np.random.default_rng(8).integers(0, model.config.get_text_config().vocab_size, max(LENGTHS)).astype(np.uint32)
    for length in LENGTHS:
        ids = all_ids[:length]
        found = our_logits(folder, ids)
        if isinstance(found, str):
            yield found
            return
        with torch.no_grad():
            wanted = model(torch.tensor(ids[None].astype(np.int64))).logits[0].double().numpy()
        found = found.reshape(wanted.shape).astype(np.float64)
        if (error := np.linalg.norm(found - wanted) / np.linalg.norm(wanted)) > 2e-5 or not math.isfinite(error):
            yield f"logits of {length} tokens differ by {error:.2e}"


class Sites:
    """The largest |x| and |y| of each module, and how many tokens it saw, sequence by sequence."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.rows: list[dict] = []
        hooks.watch(model, self.add)

    def add(self, name: str, x: torch.Tensor, y: torch.Tensor) -> None:
        self.rows[-1][name] = (x.abs().max().item(), y.abs().max().item(), x.shape[0])


class Caches(DynamicCache):
    """The largest magnitudes of the two tensors that each layer caches."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(config=model.config)
        self.amax: dict[int, tuple[float, float]] = {}

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, *more, **others) -> tuple:
        self.amax[layer] = keys.abs().max().item(), values.abs().max().item() if values.numel() else 0.0    # without rope
        return super().update(keys, values, layer, *more, **others)


def latent_problems(found: dict, row: int, caches: Caches) -> Iterator[str]:
    """Of latent attention transformers caches the latent vector, after its norm, and the values of k after their rotation."""
    for layer, (latent, rotated) in caches.amax.items():
        name = next(name for name in found if re.search(rf"layers\.{layer}\.(self_attn|attention)\.latent_cache\.amax_history_qkv$", name))
        q, k, v = found[name][row]
        if q != 0 or max(abs(k / max(latent, rotated) - 1), abs(v / latent - 1)) > 1e-3:
            yield f"{name}, pass {row}: {q}, {k} and {v}, transformers caches {latent} and {rotated}"


def in_memory(model: torch.nn.Module, name: str) -> str:
    """The name that a module has in memory, where transformers writes models beside towers by older names, but for Llama 4."""
    if "language_model" in dict(model.named_children()):
        return name
    return name.replace("language_model.model.", "model.language_model.").replace("language_model.lm_head.", "lm_head.")


def loss_problems(said: bytes, losses: list[float], limits: tuple[float, float]) -> Iterator[str]:
    """What calibrate says of the whole, and of each sequence, against transformers' losses; limits: of each, relative."""
    told, wanted = json.loads(said), math.exp(sum(losses) / len(losses))
    if not abs(told["perplexity"] / wanted - 1) <= limits[0]:
        yield f"perplexity {told['perplexity']}, transformers {wanted}"
    if not np.allclose(told["nll_per_pass"], losses, rtol=limits[1]):
        yield f"losses {told['nll_per_pass']}, transformers {losses}"


def amax_problems(model: torch.nn.Module, folder: pathlib.Path, ids: np.ndarray) -> Iterator[str]:
    np.save(folder / "ids.npy", ids)
    done = run("calibrate", folder, "--data", folder / "ids.npy", "--precision", "f32", "-o", folder / "s.amax",
               "--json", "--quiet", "--seq-len", str(SEQ_LEN))
    if done.returncode:
        yield done.stderr.decode().strip()
        return
    found = {in_memory(model, name): history for name, history in load_file(folder / "s.amax").items()}
    sites, losses = Sites(model), []
    with torch.no_grad():
        for p, row in enumerate(ids):
            sites.rows.append({})
            caches = Caches(model) if "kv_lora_rank" in model.config.get_text_config().to_dict() else None
            tokens = torch.tensor(row[None], dtype=torch.long)
            logits = model(tokens, **{"past_key_values": caches} if caches else {}).logits
            losses.append(torch.nn.functional.cross_entropy(logits[0, :-1], tokens[0, 1:]).item())
            if caches:
                yield from latent_problems(found, p, caches)
    yield from loss_problems(done.stdout, losses, (1e-4, 5e-5))
    names = {name for row in sites.rows for name in row}
    histories = {name.removesuffix(".amax_history") for name in found if name.endswith(".amax_history")}
    for name in sorted(names ^ histories):
        if ".experts." not in name or name in names:        # an expert that no token chose has a row of zeros
            yield f"{name}: {'no history' if name in names else 'a history of no module'}"
    for p, row in enumerate(sites.rows):
        for name, (x, y, n) in row.items():
            history = found[f"{name}.amax_history"][p]
            if max(abs(history[0] / x - 1), abs(history[2] / y - 1)) > 1e-3:
                yield f"{name}, pass {p}: x {history[0]}, y {history[2]}, hooks see {x} and {y}"
            if found[f"{name}.tokens"][p] != n:
                yield f"{name}, pass {p}: {found[f'{name}.tokens'][p]} tokens, hooks see {n}"
    rename = hooks.names_of(model)
    for name, parameter in model.named_parameters():
        site = f"{rename(name.removesuffix('.weight'))}.amax_history"
        if name.endswith(".weight") and site in found and found[site][0][1] != parameter.abs().max().item():
            yield f"{name}: amax {found[site][0][1]}, not {parameter.abs().max().item()}"


def same_bytes(folder: pathlib.Path, ids: np.ndarray) -> Iterator[str]:
    def calibrate(out: str, data: np.ndarray, *args: str) -> bytes:
        np.save(folder / "d.npy", data)
        done = run("calibrate", folder, "--data", folder / "d.npy", "-o", folder / out, "--quiet", "--histogram",
                   "--seq-len", str(SEQ_LEN), *args)
        return (folder / out).read_bytes() if done.returncode == 0 else done.stderr

    whole = calibrate("whole", ids)
    for threads in ("1", "2", "3"):
        if calibrate(f"t{threads}", ids, "--threads", threads) != whole:
            yield f"{threads} threads give other bytes"
    refused = calibrate("small", ids, "--max-memory", "1K").decode()
    if not (least := re.search(r"cannot hold one pass \((\d+)\)", refused)):
        yield f"1 KiB of memory: {refused}"
    elif calibrate("small", ids, "--max-memory", least[1]) != whole:
        yield "one pass at a time gives other bytes"
    calibrate("parts", ids[:2])
    if calibrate("parts", ids, "--resume") != whole:
        yield "resumed, it gives other bytes"
    batch = calibrate("batch", ids, "--batch", str(len(ids)))
    ranks = []
    for i, row in enumerate(ids):
        calibrate(f"rank{i}", row[None])
        ranks.append(folder / f"rank{i}")
    done = run("merge", "--ranks", *ranks, "-o", folder / "ranks")
    if done.returncode or (folder / "ranks").read_bytes() != batch:
        yield f"merged ranks are not one pass of all: {done.stderr.decode().strip()}"


def perplexity_problems() -> Iterator[str]:
    """SmolLM2, the same tokens: four digits."""
    source = real_model(1)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    ids = np.random.default_rng(3).integers(0, model.config.vocab_size, (2, 200)).astype(np.int32)
    with scratch() as folder, torch.no_grad():
        np.save(folder / "ids.npy", ids)
        done = run("calibrate", source, "--data", folder / "ids.npy", "--precision", "f32", "-o", folder / "s.amax",
                   "--json", "--quiet", "--seq-len", "200")
        if done.returncode:
            yield done.stderr.decode().strip()
            return
        nll = [model(torch.tensor(row[None], dtype=torch.long), labels=torch.tensor(row[None], dtype=torch.long)).loss.item()
               for row in ids]
        yield from loss_problems(done.stdout, nll, (5e-5, 1e-5))


def main() -> None:
    logging.disable_progress_bar()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name in tiny_models.MODELS:
        with scratch() as folder:
            model = tiny_models.save(name, folder)
            config = model.config.get_text_config()
            ids = sequences(getattr(config, "unpadded_vocab_size", None) or config.vocab_size)
            report(f"logits of {name}", logits_problems(model, folder))
            report(f"amax and perplexity of {name}", amax_problems(model, folder, ids))
            if name in ("llama", "mixtral", "deepseek_v4", "glm5_next", "inkling", "qwen4_exp"):
                report(f"same bytes of {name}", same_bytes(folder, ids))
    report("perplexity of smollm2", perplexity_problems())
    finish()


main()
