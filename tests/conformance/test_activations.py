# SPDX-License-Identifier: Apache-2.0
"""calibrate --activations: inputs that hooks of transformers dump give the history that hooks see, and, where the forward pass
is known, that of the forward pass; quantize takes it."""
import os
import pathlib
from collections.abc import Iterator

import numpy as np
import torch
import transformers as t
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_tensors
from safetensors.torch import save_file
from transformers.utils import logging

import hooks
import tiny_models
from harness import finish, quantize, report, run, scratch

N_SEQUENCES, SEQ_LEN = 3, 300      # more than is multiplied at once
KNOWN = ("llama", "llama, linear, tied, wide heads", "qwen2", "mixtral", "qwen3_moe", "gemma3", "phi3", "gpt_oss", "deepseek_v3",
         "olmo2", "granite")
MORE = {
    "gpt2": (t.GPT2Config, t.GPT2LMHeadModel, {"n_embd": 64, "n_head": 4, "n_layer": 3}),
    "stablelm": (t.StableLmConfig, t.StableLmForCausalLM, {"tie_word_embeddings": True}),
    "starcoder2": (t.Starcoder2Config, t.Starcoder2ForCausalLM, {"sliding_window": 32}),
    "nemotron": (t.NemotronConfig, t.NemotronForCausalLM, {}),
}


class Dump:
    """Files of inputs, one a pass, and what hooks saw of x and y."""

    def __init__(self, model: torch.nn.Module, folder: pathlib.Path, dtype: torch.dtype) -> None:
        self.folder, self.dtype = folder, dtype
        self.rows: list[dict] = []
        self.inputs: dict[str, torch.Tensor] = {}
        folder.mkdir()
        hooks.watch(model, self.see)

    def see(self, name: str, x: torch.Tensor, y: torch.Tensor) -> None:
        self.rows[-1][name] = (x.to(self.dtype).abs().max().item(), y.abs().max().item(), x.shape[0])
        self.inputs[f"{name}.input"] = x.to(self.dtype).contiguous().clone()

    def run(self, model: torch.nn.Module, ids: np.ndarray) -> None:
        for i, row in enumerate(ids):
            self.rows.append({})
            self.inputs = {}
            with torch.no_grad():
                model(torch.tensor(row[None], dtype=torch.long))
            save_file(self.inputs, self.folder / f"pass-{i:03}.safetensors")


def close(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance * abs(b)


def seen_problems(dump: Dump, found: dict, tolerance: float) -> Iterator[str]:
    """x to the bit, y as near as the product of what was dumped can be."""
    names = {name for row in dump.rows for name in row}
    histories = {name.removesuffix(".amax_history") for name in found if name.endswith(".amax_history")}
    for name in sorted(names ^ histories):
        if ".experts." not in name or name in names:
            yield f"{name}: {'no history' if name in names else 'a history of no module'}"
    for p, row in enumerate(dump.rows):
        for name, (x, y, n) in row.items():
            history = found[f"{name}.amax_history"][p]
            if history[0] != np.float32(x) or not close(history[2], y, tolerance):
                yield f"{name}, pass {p}: x {history[0]}, y {history[2]}, hooks see {x} and {y}"
            if found[f"{name}.tokens"][p] != n:
                yield f"{name}, pass {p}: {found[f'{name}.tokens'][p]} tokens, hooks see {n}"


def calibrated(folder: pathlib.Path, out: str, *args: str | pathlib.Path) -> dict | str:
    done = run("calibrate", folder, "--precision", "f32", "--quiet", "-o", folder / out, *args)
    return load_file(folder / out) if done.returncode == 0 else done.stderr.decode().strip()


def forward_problems(folder: pathlib.Path, ids: np.ndarray, found: dict) -> Iterator[str]:
    """The history of the forward pass, but for attention."""
    np.save(folder / "ids.npy", ids)
    wanted = calibrated(folder, "forward.amax", "--data", folder / "ids.npy", "--seq-len", str(SEQ_LEN))
    if isinstance(wanted, str):
        yield wanted
        return
    attentions = {name.removesuffix(".amax_history_qkv") for name in wanted if name.endswith(".amax_history_qkv")}
    left = {name for name in wanted if name.rpartition(".")[0] not in attentions}
    if left != set(found):
        yield f"other tensors: {sorted(left ^ set(found))[:3]}"
        return
    for name in left:
        same = np.array_equal if name.endswith(".tokens") else lambda a, b: np.allclose(a, b, rtol=1e-3, atol=0)
        if not same(found[name], wanted[name]):
            yield f"{name}: {found[name].tolist()}, the forward pass has {wanted[name].tolist()}"


def quantize_problems(folder: pathlib.Path) -> Iterator[str]:
    done = quantize(folder, folder / "out", "--recipe", "delayed", "--calibration", folder / "s.amax", "--uncovered",
                    "group-max")
    if done.returncode:
        yield done.stderr.decode().strip()
        return
    history, made = load_file(folder / "s.amax"), load_tensors(folder / "out/model.safetensors")
    scales = [name for name in made if name.endswith(".input_scale")]
    if not scales:
        yield "no input_scale"
    for name in scales:
        if made[name].max().item() < history[name.replace(".input_scale", ".amax_history")][:, 0].max() / np.float32(448) * 0.999:
            yield f"{name} is {made[name]}, too small for its history"


def problems(name: str, dtype: torch.dtype) -> Iterator[str]:
    with scratch() as folder:
        model = tiny_models.save(name, folder)
        dump = Dump(model, folder / "dumps", dtype)
        vocab = model.config.get_text_config().vocab_size
        ids = np.random.default_rng(11).integers(0, vocab, (N_SEQUENCES, SEQ_LEN)).astype(np.int32)
        dump.run(model, ids)
        found = calibrated(folder, "s.amax", "--activations", folder / "dumps")
        if isinstance(found, str):
            yield found
            return
        exact = dtype == torch.float32
        yield from seen_problems(dump, found, 1e-3 if exact else 5e-2)
        if name not in MORE and exact:
            yield from forward_problems(folder, ids, found)
        elif exact:
            done = run("calibrate", folder, "--data", "none.npy", "-o", folder / "none.amax")
            said = done.stderr.decode()
            if f"'{type(model).__name__}'" not in said or "'--activations'" not in said:
                yield f"an unknown architecture is refused so: {said.strip()}"
        if name not in ("gpt2", "gpt_oss"):                   # whose matrices quantize keeps
            yield from quantize_problems(folder)


def main() -> None:
    logging.disable_progress_bar()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tiny_models.MODELS |= MORE
    for name in (*KNOWN, *MORE):
        report(f"activations of {name}", problems(name, torch.float32))
    for dtype in (torch.bfloat16, torch.float16):
        report(f"activations of llama in {dtype}", problems("llama", dtype))
    finish()


main()
