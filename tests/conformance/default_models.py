# SPDX-License-Identifier: Apache-2.0
"""Header-true checkpoints of the default configurations of the installed transformers: the names, types and shapes that
save_pretrained writes, in files whose data is a hole; and, from the modules of torch alone, which of their tensors no
engine multiplies in FP8."""
import collections
import contextlib
import json
import pathlib
import re
import struct
from collections.abc import Iterator

import torch
from torch import nn
from transformers import CONFIG_MAPPING, PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion
from transformers.models.auto import modeling_auto

MAPPINGS = [getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING") for task in (
    "CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ")
    if hasattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING")]
DTYPES = {torch.bfloat16: "BF16", torch.float32: "F32", torch.float16: "F16", torch.int64: "I64", torch.int32: "I32",
          torch.uint8: "U8", torch.int8: "I8", torch.bool: "BOOL", torch.float64: "F64", torch.float8_e4m3fn: "F8_E4M3"}
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
ROUTER = re.compile(r"Router$|TopK\w*Gat|Moe\w*Gate$|MoE\w*Gate$")
TOWER = re.compile(r"Vision|Audio|Speech|CTC|Sam|Perceiver|Projector|Adapter|QFormer|Token2Wav|Talker|Patcher")
N_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def types() -> list[str]:
    """Model types of which a causal or conditional language model can be made."""
    return [t for t in CONFIG_MAPPING if classes_of(CONFIG_MAPPING[t])]


def classes_of(config_class) -> list:
    found = [mapping[config_class] for mapping in MAPPINGS if config_class in mapping]
    return [f[0] if isinstance(f, (list, tuple)) else f for f in found]


def make(model_type: str, changed: dict | None = None):
    """The model of the default configuration, or of a changed one, without data: of the first class that takes it."""
    config = CONFIG_MAPPING[model_type].from_dict(changed) if changed else CONFIG_MAPPING[model_type]()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            *others, last = classes_of(type(config))
            for cls in others:
                with contextlib.suppress(Exception):
                    return cls(config)
            return last(config)
    finally:
        torch.set_default_dtype(torch.float32)


# ------------------------------------------------------------------ what no engine multiplies in FP8

def n_experts(config) -> set[int]:
    text = config.get_text_config()
    return {n for key in N_EXPERTS if isinstance(n := getattr(text, key, None), int)}


def is_router(name: str, module: nn.Module, experts: set[int]) -> bool:
    if ROUTER.search(type(module).__name__):
        return True
    return (isinstance(module, nn.Linear) and module.out_features in experts | {1} and
            re.search(r"^gate$|_gate$|router", name.rsplit(".", 1)[-1]) is not None)


def towers(model: PreTrainedModel):
    """The sub-models that take no token ids, or whose class says what they are for."""
    text = model.config.get_text_config()
    for name, module in model.named_modules():
        config = getattr(module, "config", None)
        if not name or not isinstance(module, PreTrainedModel) or config is None:
            continue
        if type(config) in (type(model.config), type(text)) or config.get_text_config() is text:
            continue
        if module.main_input_name != "input_ids" or TOWER.search(type(module).__name__):
            yield name, module


def stacks(model: PreTrainedModel) -> list[str]:
    """Lists of modules: a layer is in one."""
    return [name for name, module in model.named_modules() if isinstance(module, nn.ModuleList)]


def kept(model: PreTrainedModel) -> dict[str, str]:
    """Parameters that must stay in high precision, with the reason."""
    found = {}
    experts = n_experts(model.config)
    head = model.get_output_embeddings()
    lists = stacks(model)

    def take(prefix: str, module: nn.Module, reason: str) -> None:
        for name, _ in module.named_parameters():
            found.setdefault(f"{prefix}.{name}" if prefix else name, reason)

    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding):
            take(name, module, "embedding")
        elif isinstance(module, CONVOLUTIONS):
            take(name, module, "convolution")
        elif is_router(name, module, experts):
            take(name, module, "router")
        elif module is head:
            take(name, module, "head")
        elif isinstance(module, nn.Linear) and not any(name.startswith(n + ".") for n in lists):
            take(name, module, "outside of the layers")
    for name, module in towers(model):
        take(name, module, "tower")
    return found


# ------------------------------------------------------------------ files

def tied(model: PreTrainedModel) -> set[str]:
    text = model.config.get_text_config()
    keys = getattr(model, "_tied_weights_keys", None)
    if not (getattr(text, "tie_word_embeddings", False) or getattr(model.config, "tie_word_embeddings", False)):
        return set()
    return {n for n in model.state_dict() if any(n == k or re.fullmatch(k, n) for k in keys or ())}


def saved(model: PreTrainedModel, state: dict) -> dict:
    """The names and tensors that save_pretrained writes of some parameters."""
    state = revert_weight_conversion(model, state) if state else state
    return state[0] if isinstance(state, tuple) else state


def write(path: pathlib.Path, tensors: dict) -> None:
    header, at = {}, 0
    for name, tensor in tensors.items():
        end = at + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    header["__metadata__"] = {"format": "pt"}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)


def linears(model: PreTrainedModel, drop: set[str]) -> Iterator[tuple[str, nn.Linear, list[str]]]:
    """The linear modules, two of each name but for its numbers, and the tensors of the file that each is read from: none for
    a tied one."""
    seen = collections.Counter()
    for name, module in model.named_modules():
        kind = re.sub(r"\d+", "#", name)
        if isinstance(module, nn.Linear) and seen[kind] < 2:
            seen[kind] += 1
            weight = name + ".weight"
            yield name, module, [] if weight in drop else list(saved(model, {weight: module.weight}))


def save(model: PreTrainedModel, folder: pathlib.Path) -> dict[str, str]:
    """Writes the checkpoint; returns the tensors of the file that must be kept, with the reason."""
    drop = tied(model)
    state = {n: t for n, t in model.state_dict().items() if n not in drop}
    reasons = kept(model)
    tensors = saved(model, {n: t for n, t in state.items() if n not in reasons})
    wanted = {}
    for reason in set(reasons.values()):
        part = saved(model, {n: t for n, t in state.items() if reasons.get(n) == reason})
        wanted |= dict.fromkeys(part, reason)
        tensors |= part
    folder.mkdir(parents=True)
    write(folder / "model.safetensors", tensors)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    return wanted
