# SPDX-License-Identifier: Apache-2.0
"""transformers loads what fp8conv wrote, on a CPU: every weight is code * scale_inv to the bit, the model
talks, and its logits equal the source's but for the rounding."""
import pathlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from loguru import logger
from transformers import (AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer,
                          CompressedTensorsConfig)
from transformers.utils import logging

import reference as ref
from cases import Case, plain
from checkpoint import Tensor, read_checkpoint
from harness import finish, quantize, real_model, report, sample, scratch, silence

CASES = [plain("blockwise", "hf", target="transformers"), plain("current", "hf", target="transformers"),
         plain("mxfp8", "hf", target="transformers"), plain("channelwise", "compressed-tensors"),
         plain("current", "compressed-tensors"), plain("blockwise", "compressed-tensors"),
         plain("mxfp8", "compressed-tensors")]
FP8 = {"F8_E4M3": "e4m3", "F8_E5M2": "e5m2"}
PROMPT = {"smollm2": "The capital of France is", "tiny-llama": "The"}
TEXT = """The lighthouse stood at the end of a long stone pier, and for more than a hundred years somebody had
climbed its stairs every evening to light the lamp. In winter the waves broke over the wall and froze there, so that
the keeper had to cut steps into the ice with an axe. He wrote down the weather three times a day: the wind, the
height of the water, the ships that passed. When the lamp was made to turn by an electric motor, nobody needed the
keeper any more, but he stayed, and kept on writing. His books are in a museum now. They show that the sea has risen
by almost thirty centimetres since the first of them was begun, and that the storms come earlier in the year."""


# What the file says.

def scale_grid(scale: Tensor, codes: Tensor) -> np.ndarray:
    """A scale for every element."""
    values = scale.array()
    values = ref.e8m0_to_f32(values) if scale.dtype == "U8" else values
    sides = scale.shape[::2] if len(scale.shape) == 4 else scale.shape      # ModelOpt's [N, 1, K, 1]
    grid = values.reshape(*sides, *(1,) * (2 - len(sides)))
    tile = [1 if n == many else 32 if scale.dtype == "U8" else 128 if n > 1 else many
            for n, many in zip(grid.shape, codes.shape)]
    return ref.spread(grid, tuple(tile), codes.shape)


def dequantized(folder: pathlib.Path, dtype: str) -> dict[str, np.ndarray]:
    """Bits of every parameter: code * scale_inv rounded to dtype, or the tensor as it is."""
    tensors = {name: tensor for _, name, tensor in read_checkpoint(folder)}
    out = {}
    for name, tensor in tensors.items():
        if tensor.dtype in FP8:
            scale = next(tensors[name + s] for s in ("_scale_inv", "_scale") if name + s in tensors)
            out[name] = ref.dequantize(tensor.array(), scale_grid(scale, tensor), FP8[tensor.dtype], dtype)
        elif not name.endswith(("_scale", "_scale_inv")):
            assert tensor.dtype == "BF16"
            out[name] = tensor.array() if dtype == "bf16" else tensor.array().astype(np.uint32) << np.uint32(16)
    return out


def merged_experts(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Experts as transformers holds them: gate and up of all in one tensor, and down."""
    out, experts = {}, defaultdict(dict)
    for name, bits in weights.items():
        prefix, found, rest = name.partition(".experts.")
        if found:
            number, part, _ = rest.split(".")
            experts[prefix][int(number), part] = bits
        else:
            out[name] = bits
    for prefix, parts in experts.items():
        n = len(parts) // 3
        out[f"{prefix}.experts.gate_up_proj"] = np.stack([
            np.concatenate([parts[e, "gate_proj"], parts[e, "up_proj"]]) for e in range(n)])
        out[f"{prefix}.experts.down_proj"] = np.stack([parts[e, "down_proj"] for e in range(n)])
    return out


# What transformers says.

def load(folder: pathlib.Path, dtype: torch.dtype, dequantize: bool) -> tuple[Any, dict]:
    """dequantize: compressed-tensors at once, else in the first forward pass.  On a CPU, hf always at once."""
    more = {"quantization_config": CompressedTensorsConfig(dequantize=True)} if dequantize else {}
    is_text = "vision_config" not in (folder / "config.json").read_text(encoding="utf-8")
    auto = AutoModelForCausalLM if is_text else AutoModelForImageTextToText
    model, info = auto.from_pretrained(folder, dtype=dtype, output_loading_info=True, **more)
    return model.eval(), {key: value for key, value in info.items() if value}


def bits_of(parameter: torch.Tensor) -> np.ndarray:
    array = parameter.detach().view(torch.uint16 if parameter.element_size() == 2 else torch.uint32)
    return array.numpy()


def weight_problems(model: Any, wanted: dict[str, np.ndarray]) -> Iterator[str]:
    found = {name: bits_of(p) for name, p in model.named_parameters() if not name.endswith("_scale")}
    for name in sorted(found.keys() ^ wanted.keys()):
        yield f"{name}: {'not in the file' if name in found else 'not in the model'}"
    for name in found.keys() & wanted.keys():
        if found[name].dtype != wanted[name].dtype or not np.array_equal(found[name], wanted[name]):
            yield f"{name}: not code * scale_inv"


@torch.no_grad()
def logits(model: Any, tokenizer: Any) -> torch.Tensor:
    return model(**tokenizer(TEXT, return_tensors="pt")).logits[0].double()


def kl(source: torch.Tensor, other: torch.Tensor) -> float:
    """Mean divergence of the next token, in nats."""
    p, q = source.log_softmax(-1), other.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean().item()


def sentence(model: Any, tokenizer: Any, prompt: str) -> str:
    ids = tokenizer(prompt, return_tensors="pt")
    out = model.generate(**ids, do_sample=False, max_new_tokens=20, pad_token_id=0)
    return tokenizer.decode(out[0])


# The tests.

def talks(name: str, folder: pathlib.Path, limit: float) -> None:
    """limit: of the divergence of weights alone; twice that where activations are quantized too."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    source, _ = load(folder, torch.float32, False)
    wanted = logits(source, tokenizer)
    print(f"   {name}: {sentence(source, tokenizer, PROMPT[name])!r}")
    for case in [*CASES, plain("blockwise", "compressed-tensors", ragged=True)]:
        if name == "smollm2" and case.recipe == "blockwise" and not case.ragged:
            continue                        # 576 rows and columns are 4.5 blocks
        report(f"load {name}: {case}", loaded(name, folder, case, wanted, tokenizer, limit))


def loaded(name: str, folder: pathlib.Path, case: Case, wanted: torch.Tensor, tokenizer: Any,
           limit: float) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(folder, tmp / "out", *case.arguments()))
        is_hf = case.format == "hf"
        model, info = load(tmp / "out", torch.bfloat16, not is_hf)
        if info:
            yield f"loading: {info}"
        bits = dequantized(tmp / "out", "bf16")
        yield from weight_problems(model, bits)
        if model.lm_head.weight.data_ptr() != model.model.embed_tokens.weight.data_ptr():
            yield "lm_head is not tied to the embeddings"
        yield from flipped_bit(model, bits)
        print(f"   {name} {case}: {sentence(model, tokenizer, PROMPT[name])!r}")
        if is_hf or case.recipe == "mxfp8" or case.ragged:      # these have no way to compute in fp32
            yield from divergence(f"{name} {case}, weights in bf16", wanted, logits(model.float(), tokenizer), limit)
            return
        yield from compressed(f"{name} {case}", tmp / "out", wanted, tokenizer, limit)


def compressed(label: str, out: pathlib.Path, wanted: torch.Tensor, tokenizer: Any, limit: float) -> Iterator[str]:
    """In fp32, without and with compressed-tensors' own quantization of activations."""
    bits = dequantized(out, "f32")
    model, _ = load(out, torch.float32, True)
    yield from weight_problems(model, bits)
    yield from divergence(f"{label}, weights", wanted, logits(model, tokenizer), limit)
    model, info = load(out, torch.float32, False)
    if info:
        yield f"loading compressed: {info}"
    yield from divergence(f"{label}, weights and activations", wanted, logits(model, tokenizer), 2 * limit)
    yield from weight_problems(model, bits)


def divergence(label: str, wanted: torch.Tensor, found: torch.Tensor, limit: float) -> Iterator[str]:
    value = kl(wanted, found)
    print(f"   {label}: KL {value:.5f}")
    if not 0 < value < limit:
        yield f"KL {value:.5f}, not in (0, {limit})"


def flipped_bit(model: Any, wanted: dict[str, np.ndarray]) -> Iterator[str]:
    """The comparison of weights would have noticed one bit."""
    bits_of(model.get_parameter("model.layers.1.mlp.down_proj.weight"))[5, 7] ^= 1
    if len(list(weight_problems(model, wanted))) != 1:
        yield "a flipped bit is not noticed"
    bits_of(model.get_parameter("model.layers.1.mlp.down_proj.weight"))[5, 7] ^= 1


def loaded_experts(folder: pathlib.Path, case: Case, merge: bool) -> Iterator[str]:
    with scratch() as tmp:
        yield from silence(quantize(folder, tmp / "out", *case.arguments()))
        model, info = load(tmp / "out", torch.bfloat16, case.format != "hf")
        if info:
            yield f"loading: {info}"
        wanted = dequantized(tmp / "out", "bf16")
        yield from weight_problems(model, merged_experts(wanted) if merge else wanted)


def main() -> None:
    logger.remove()
    logging.disable_progress_bar()
    if folder := sample("tiny-llama"):
        talks("tiny-llama", folder, 0.02)
    for name in ("tiny-moe/per-expert", "tiny-moe/fused"):
        if folder := sample(name):
            for case in CASES[:-1]:         # transformers takes E8M0 scales of experts for factors
                report(f"load {name}: {case}", loaded_experts(folder, case, True))
    if folder := sample("tiny-moe/fused-transposed"):
        for case in CASES[3:]:              # of Llama 4, transformers finds experts in compressed-tensors only
            report(f"load tiny-moe/fused-transposed: {case}", loaded_experts(folder, case, False))
    talks("smollm2", real_model(1), 0.02)
    finish()


if __name__ == "__main__":
    main()
