# SPDX-License-Identifier: Apache-2.0
"""What the matrix products of a transformers model see, under the names that their modules have in the checkpoint."""
import re
from collections.abc import Callable

import torch
from transformers.pytorch_utils import Conv1D

See = Callable[[str, torch.Tensor, torch.Tensor], None]


def mixtral_name(name: str) -> str:
    parts = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
    head, _, last = name.rpartition(".")
    name = f"{head}.{parts.get(last, last)}" if ".experts." in name else name
    return name.replace(".mlp.", ".block_sparse_moe.")


def granite_name(name: str) -> str:
    parts = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
    head, _, last = name.rpartition(".")
    return f"{head}.{parts.get(last, last)}" if ".experts." in name else name.replace(".router", ".router.layer")


def lfm2_name(name: str) -> str:
    parts = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
    head, _, last = name.rpartition(".")
    return f"{head}.{parts.get(last, last)}" if ".experts." in name else name


def kimi_name(name: str) -> str:
    parts = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
    head, _, last = name.rpartition(".")
    name = f"{head}.{parts.get(last, last)}" if ".experts." in name else name.replace(".forget_gate.", ".")
    return re.sub(r"\.mlp\.(gate$|experts\.|shared_experts\.)", r".block_sparse_moe.\1", name)


def glm53_name(name: str) -> str:
    return name.replace(".forget_gate.", ".")


def m3_name(name: str) -> str:
    return re.sub(r"\.indexer\.([qk])_proj$", r".index_\1_proj", kimi_name(name))


def ling_name(name: str) -> str:
    return name.replace(".self_attn.", ".attention.").replace(".forget_gate.", ".").replace(".o_proj", ".dense")


def hy3_name(name: str) -> str:
    return re.sub(r"\.mlp\.gate$", ".mlp.router.gate", name).replace(".shared_experts.", ".shared_mlp.")


def v4_name(name: str) -> str:
    parts = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2", "q_a_proj": "wq_a", "q_b_proj": "wq_b", "kv_proj": "wkv", "o_a_proj": "wo_a", "o_b_proj": "wo_b"}
    head, _, last = name.removeprefix("model.").rpartition(".")
    last = "wgate" if last == "gate_proj" and ".compressor" in head else parts.get(last, last)
    for before, after in ((".self_attn", ".attn"), (".mlp", ".ffn"), (".compressor.indexer.scorer", ".indexer"), (".compressor.indexer", ".indexer.compressor")):
        head = head.replace(before, after)
    head = head.removesuffix(".compressor") if last == "wq_b" else head
    return f"{head}.{last}" if head else last.replace("lm_head", "head")


def laguna_name(name: str) -> str:
    return name.replace(".shared_experts.", ".shared_expert.")


def step_name(name: str) -> str:
    name = name.replace(".language_model.", ".").replace(".mlp.shared_experts.", ".share_expert.")
    return re.sub(r"\.mlp\.(gate$|experts\.)", r".moe.\1", name)


def ernie_vl_name(name: str) -> str:
    return name.replace(".language_model.", ".").replace(".text_moe.", ".")


def inkling_name(name: str) -> str:
    names = {"self_attn.q_proj": "attn.wq_du", "self_attn.k_proj": "attn.wk_dv", "self_attn.v_proj": "attn.wv_dv", "self_attn.r_proj": "attn.wr_du", "self_attn.o_proj": "attn.wo_ud"}
    experts = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
    head, _, last = name.replace("model.language_model.", "model.llm.").replace("lm_head", "model.llm.unembed").rpartition(".")
    if "experts." in head:
        return f"{head}.{experts[last]}"
    name = f"{head}.w2_md" if last == "down_proj" else f"{head}.{last}"
    for before, after in names.items():
        name = name.replace(before, after)
    return name


def thinker_name(name: str) -> str:
    return "thinker." + name.replace("model.language_model.", "model.")


def nemotron_name(name: str) -> str:
    return name.replace("model.", "backbone.")


def see_llama4_experts(see: See, name: str, module: torch.nn.Module, x: torch.Tensor) -> None:
    """Each expert has all tokens as its input, with a factor of 0 for those that did not choose it."""
    for e, rows in enumerate(x.reshape(len(module.down_proj), -1, x.shape[-1])):
        seen = rows[(rows != 0).any(-1)]
        if len(seen):
            gate, up = (seen @ module.gate_up_proj[e]).chunk(2, dim=-1)
            inner = module.act_fn(gate) * up
            see(f"{name}.{e}.gate_proj", seen, gate)
            see(f"{name}.{e}.up_proj", seen, up)
            see(f"{name}.{e}.down_proj", inner, inner @ module.down_proj[e])


def see_experts(see: See, name: str, module: torch.nn.Module, x: torch.Tensor, chosen: torch.Tensor) -> None:
    """transformers keeps experts in one tensor: each one's products again, from the same input and choice."""
    for e in range(module.down_proj.shape[0]):
        seen = x[(chosen == e).any(-1)]
        if len(seen) == 0:
            continue
        if "GptOss" in type(module).__name__:
            both = seen @ module.gate_up_proj[e] + module.gate_up_proj_bias[e]
            inner = module._apply_gate(both)
            see(f"{name}.{e}.gate_up_proj", seen, both)
            see(f"{name}.{e}.down_proj", inner, inner @ module.down_proj[e] + module.down_proj_bias[e])
            continue
        if not hasattr(module, "gate_up_proj"):
            up = torch.nn.functional.linear(seen, module.up_proj[e])
            inner = module.act_fn(up)
            see(f"{name}.{e}.up_proj", seen, up)
            see(f"{name}.{e}.down_proj", inner, torch.nn.functional.linear(inner, module.down_proj[e]))
            continue
        both = torch.nn.functional.linear(seen, module.gate_up_proj[e])
        gate, up = both.chunk(2, dim=-1)
        inner = module._apply_gate(both) if hasattr(module, "limit") or not hasattr(module, "act_fn") else module.act_fn(gate) * up
        see(f"{name}.{e}.gate_proj", seen, gate)
        see(f"{name}.{e}.up_proj", seen, up)
        see(f"{name}.{e}.down_proj", inner, torch.nn.functional.linear(inner, module.down_proj[e]))


def see_joined(see: See, name: str, matrices: list[torch.nn.Linear], x: torch.Tensor) -> None:
    """Several matrices in memory are one in the checkpoint."""
    see(name, x, torch.cat([torch.nn.functional.linear(x, m.weight, m.bias) for m in matrices], -1))


def see_weighed(see: See, name: str, module: torch.nn.Module, x: torch.Tensor, weights: torch.Tensor) -> None:
    """Inkling's shared experts, whose activations the router weighs."""
    x = x.reshape(-1, x.shape[-1])
    for e in range(module.n_shared_experts):
        gate, up = torch.nn.functional.linear(x, module.gate_proj[e]), torch.nn.functional.linear(x, module.up_proj[e])
        inner = module.act_fn(gate) * up * weights.reshape(len(x), -1)[:, e:e + 1]
        see(f"{name}.{e}.gate_proj", x, gate)
        see(f"{name}.{e}.up_proj", x, up)
        see(f"{name}.{e}.down_proj", inner, torch.nn.functional.linear(inner, module.down_proj[e]))


def see_halves(see: See, name: str, x: torch.Tensor, y: torch.Tensor) -> None:
    """Two matrices of the checkpoint are one in memory."""
    for part, half in zip(("gate_proj", "up_proj"), y.chunk(2, dim=-1)):
        see(name.replace("gate_up_proj", part), x, half)


def see_steps(see: See, name: str, mixer: torch.nn.Module, y: torch.Tensor) -> None:
    """Jamba multiplies by the weight of dt_proj without its module."""
    x = mixer.dt_layernorm(y[..., :mixer.time_step_rank])
    see(f"{name}.dt_proj", x, torch.nn.functional.linear(x, mixer.dt_proj.weight, mixer.dt_proj.bias))


def see_pools(see: See, name: str, indexer: torch.nn.Module, x: torch.Tensor) -> None:
    """GLM-5.3 multiplies by a parameter of its indexer."""
    see(f"{name}.index_kpool_compress_gate", x, torch.nn.functional.linear(x, indexer.index_kpool_compress_gate))


# The matrices in memory that are one in the checkpoint, and its name.
JOINED = {"Inkling": (("mlp.gate_proj", "mlp.up_proj"), "mlp.w13_dn"),
          "sarvam_moe": (("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "self_attn.query_key_value")}


def is_of(model: torch.nn.Module, kind: str) -> bool:
    """kind begins the name of the class, or is the model_type where families share a class."""
    config = getattr(model, "config", None)         # a model of one's own has none
    return type(model).__name__.startswith(kind) or getattr(config, "model_type", None) == kind


def names_of(model: torch.nn.Module) -> Callable[[str], str]:
    """What makes the name of a module in the checkpoint of its name in memory."""
    renamed = {"Mixtral": mixtral_name, "MiniMaxM2": mixtral_name, "MiniMaxM3": m3_name, "GraniteMoeSWA": str, "GraniteMoe": granite_name, "Lfm2Moe": lfm2_name, "NemotronH": nemotron_name,
               "KimiLinear": kimi_name, "BailingHybrid": ling_name, "HYV3": hy3_name, "DeepseekV4": v4_name, "Laguna": laguna_name, "Step3p7": step_name, "Ernie4_5_VL": ernie_vl_name, "Dots3Note": ernie_vl_name, "Inkling": inkling_name, "Glm5Next": glm53_name, "Lfm3": lambda name: name.replace(".g_proj", ".gate_proj"),
               "sarvam_moe": ling_name, "Qwen2_5OmniThinker": thinker_name, "Qwen3OmniMoeThinker": thinker_name}
    return next((f for start, f in renamed.items() if is_of(model, start)), str)


def watch(model: torch.nn.Module, see: See) -> None:
    """see(module, x, y), x and y (tokens, features), for each product of each forward pass from now on."""
    rename = names_of(model)
    parts, whole = next((joined for kind, joined in JOINED.items() if is_of(model, kind)), ((), ""))

    def told(name: str, x: torch.Tensor, y: torch.Tensor) -> None:
        see(rename(name), x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1]))

    for name, module in model.named_modules():
        if type(module).__name__ == "JambaMambaMixer":
            module.x_proj.register_forward_hook(lambda m, x, y, name=name, mixer=module: see_steps(told, name, mixer, y))
        if type(module).__name__ in ("Gemma4TextRouter", "AfmoeTokenChoiceRouter"):
            continue                                    # whose matrix is a module of its own
        if type(module).__name__ == "Glm5NextTextIndexer":
            module.register_forward_hook(lambda m, _, x, y, name=name: see_pools(told, name, m, x["hidden_states"]), with_kwargs=True)
        if type(module).__name__ == "Llama4Router":
            module.register_forward_hook(lambda m, x, y, name=name: told(name, x[0], y[1]))
        elif type(module).__name__ == "Llama4TextExperts":
            module.register_forward_hook(lambda m, x, y, name=name: see_llama4_experts(told, name, m, x[0]))
        elif type(module).__name__ == "InklingSharedExperts":
            module.register_forward_hook(lambda m, x, more, y, name=name: see_weighed(told, name, m, x[0], more["gammas"]), with_kwargs=True)
        elif name.endswith(parts):
            if name.endswith(parts[0]):
                start = name.removesuffix(parts[0])
                matrices = [model.get_submodule(start + part) for part in parts]
                module.register_forward_hook(lambda m, x, y, name=start + whole, matrices=matrices: see_joined(told, name, matrices, x[0]))
        elif type(module).__name__ in ("LagunaTopKRouter", "InklingTopkRouter"):        # whose output is capped, or lacks shared experts
            module.register_forward_hook(lambda m, x, y, name=name: told(name, x[0], torch.nn.functional.linear(x[0], m.weight)))
        elif type(model).__name__.startswith("MiniMaxM3") and name.endswith(".gate_up_proj"):
            module.register_forward_hook(lambda m, x, y, name=name: see_halves(told, name, x[0], y))
        elif isinstance(module, torch.nn.Linear | Conv1D):
            module.register_forward_hook(lambda m, x, y, name=name: told(name, x[0], y))
        elif type(module).__name__.endswith("Router"):
            module.register_forward_hook(lambda m, x, y, name=name: told(name, x[0], y[0]))
        elif type(module).__name__.endswith("Experts"):
            module.register_forward_hook(lambda m, x, y, name=name: see_experts(told, name, m, *x[:2]))
