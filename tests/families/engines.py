# SPDX-License-Identifier: Apache-2.0
"""How the engines decide that a module is not quantized, written after their sources.

Shares no code with fp8conv.  A matcher takes a module's path and the names of a skip list and says
whether the engine leaves the module in high precision.

    vLLM          quantization/utils/quant_utils.py is_layer_skipped;
                  compressed_tensors_moe.py get_moe_method; modelopt.py is_layer_excluded
    SGLang        quantization/utils.py _module_path_match; compressed_tensors/utils.py
    transformers  quantizers/quantizers_utils.py should_convert_module;
                  compressed_tensors/utils/match.py match_name
    TensorRT-LLM  quantization/utils.py, fnmatch over exclude_modules
"""
import fnmatch
import re

# Modules that engines merge into one; each has the scheme of its parts, which must agree.
FUSED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa"),
    "in_proj_qkvz": ("in_proj_qkv", "in_proj_z"),
    "in_proj_ba": ("in_proj_b", "in_proj_a"),
}
PARTS = {part for parts in FUSED.values() for part in parts}


class Mixed(Exception):
    """The experts of a layer differ: the engine stops."""


def vllm(prefix, names):
    """A module of experts asks whether its path stands inside a name that says experts."""
    if "experts" in prefix and prefix.split(".")[-1] not in PARTS:
        return any(prefix in name for name in names if "experts" in name)
    return prefix in names


def vllm_suffix(prefix, names):
    """Ling: names may be the last segments."""
    if "experts" in prefix:
        return vllm(prefix, names)
    return any(("." + prefix).endswith("." + name) for name in names)


def sglang(prefix, names):
    """Whole segments, anywhere in the path."""
    return any("." + name + "." in "." + prefix + "." for name in names)


def transformers(prefix, names):
    """From the start to a boundary, as a regular expression; or the end of the text."""
    return any(re.match(r"(?:%s)(?:(?<=\.)|(?=\.|$))" % name, prefix) or prefix.endswith(name)
               for name in names)


def trtllm(prefix, names):
    return any(fnmatch.fnmatchcase(prefix, name) for name in names)


def exact(prefix, names):
    """compressed-tensors: the name, or a regular expression behind re:"""
    for name in names:
        if re.match(name[3:], prefix) if name.startswith("re:") else name == prefix:
            return True
    return False


def vllm_compressed(prefix, names):
    """A module of experts takes the scheme of its expert 0, under these three words."""
    if is_experts(prefix):
        answers = {exact("%s.0.%s" % (prefix, word), names) for word in
                   ("gate_proj", "up_proj", "down_proj")}
        if len(answers) > 1:
            raise Mixed(prefix)
        return answers.pop()
    return exact(prefix, names)


def sglang_compressed(prefix, names):
    if is_experts(prefix):
        return vllm_compressed(prefix, names)
    return exact(prefix, names) or any(prefix.endswith("." + name) for name in names)


MATCHERS = {
    "hf": {"vllm": vllm, "sglang": sglang, "transformers": transformers, "trtllm": trtllm},
    "compressed-tensors": {"vllm": vllm_compressed, "sglang": sglang_compressed,
                           "transformers": exact},
    "modelopt": {"vllm": vllm, "trtllm": trtllm},
}
EVERY = {"vLLM": vllm, "vLLM's for Ling": vllm_suffix, "SGLang": sglang,
         "transformers": transformers, "TensorRT-LLM": trtllm, "compressed-tensors": exact,
         "SGLang for compressed-tensors": sglang_compressed}


def is_experts(module):
    return module.split(".")[-1].endswith("experts") and "shared_experts" not in module


def skip_list(config, listed="config.json"):
    """The names that a configuration leaves in high precision; None: it has no list."""
    if listed == "hf_quant_config.json":
        return config["quantization"].get("exclude_modules")
    config = config["quantization_config"]
    for key in ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"):
        if key in config:
            return config[key]
    return None


# ------------------------------------------------------------------ what needs no name

EMBEDDING = re.compile(r"(embed.*|.*embed|.*embeddings?|.*embedders?|wte|wpe)$")
INTEGERS = ("BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64")
FLOATS = ("BF16", "F16", "F32", "F64")
CODES = ("F8_E4M3", "F8_E5M2")


def module_of(tensor):
    return tensor[:-len(".weight")] if tensor.endswith(".weight") else tensor


def is_free(tensor, dtype, shape):
    """An embedding, a norm, a convolution, an integer, or a parameter that is a vector."""
    last = module_of(tensor).split(".")[-1]
    if len(shape) < 2 or dtype in INTEGERS:
        return True
    if not tensor.endswith(".weight") and sum(d > 1 for d in shape) <= 1:
        return True
    return bool(EMBEDDING.match(last) or "norm" in last.lower() or "conv" in last.lower() or
                len(shape) >= 4)


def container(tensor):
    """P of an expert's tensor: `P.0.w1.weight`, or a parameter right under P; else None."""
    found = re.match(r"(.*experts)\.\d+\.[^.]+(\.\w+)?$", tensor)
    found = found or re.match(r"(.*experts)\.[^.]+(\.weight)?$", tensor)
    return found.group(1) if found and is_experts(found.group(1)) else None


def scale_of(tensor, tensors):
    """The scale of a tensor of codes, whatever it is called."""
    for end in ("_scale_inv", "_scale"):
        if tensor + end in tensors:
            return tensor + end
    return None


def of_engine(rows, engine, form):
    """The value of a table by "engine" or "engine/format"."""
    return rows.get("%s/%s" % (engine, form)) or rows.get(engine) or {}


def mapped(names, suffixes):
    """vLLM maps each entry that is no regular expression as it maps the names of weights."""
    for name in names:
        end = next((end for end in suffixes if name.endswith(end) and name[:3] != "re:"), "")
        yield name[:len(name) - len(end)] + suffixes.get(end, "")


def problems(tensors, names, form, stacks=(), engine_names=(), mappers=()):
    """What an engine that reads this format gets wrong.  tensors: name to (dtype, shape);
    stacks: module of a stack of experts that is no `experts` to the P that engines ask for;
    engine_names: by engine, the module that it asks for instead of the checkpoint's;
    mappers: by engine, what it makes of the end of an entry."""
    engine_names, mappers = dict(engine_names), dict(mappers)
    quantized = {module_of(t) for t, (dtype, _) in tensors.items() if dtype in CODES}
    kept = {}
    stacks = dict(stacks)
    for t, (dtype, shape) in tensors.items():
        if dtype in FLOATS and not re.search(r"scale(_inv|_2)?$", t) and not is_free(t, dtype, shape):
            kept[module_of(t)] = stacks.get(module_of(t)) or container(t)
    asked = {m: m for m in kept if not kept[m]}
    asked.update({p: m for m, p in kept.items() if p})
    for module in sorted(asked):
        for engine, skips in MATCHERS[form].items():
            if (engine, form) == ("transformers", "compressed-tensors") and module in kept.values():
                continue                # of experts, it quantizes none that are no Linear
            its_name = of_engine(engine_names, engine, form).get(module, module)
            its_names = list(mapped(names, of_engine(mappers, engine, form)))
            try:
                if not skips(its_name, its_names):
                    yield "%s: %s builds FP8 for it" % (asked[module], engine)
            except Mixed:
                yield "%s: parts of it are named for %s" % (asked[module], engine)
    built = quantized | {p for p in map(container, quantized) if p}
    built |= {stacks[m] for m in quantized if m in stacks}
    for module in sorted(built):
        for engine, skips in EVERY.items():
            for name in names:
                try:
                    if skips(module, [name]):
                        yield "%s: FP8, and '%s' skips it in %s" % (module, name, engine)
                except Mixed:
                    yield "%s: FP8, and '%s' skips one of its experts" % (module, name)
    yield from fused_problems(quantized | set(kept), names, form)


def fused_problems(modules, names, form):
    for parts in FUSED.values():
        for module in sorted(modules):
            parent, _, last = module.rpartition(".")
            siblings = [parent + "." + part for part in parts]
            if last != parts[0] or not modules.issuperset(siblings):
                continue
            for engine in ("vllm", "sglang"):
                skips = MATCHERS[form].get(engine)
                if skips and len({skips(part, names) for part in siblings}) > 1:
                    yield "%s: of it and %s only some are named for %s" % (
                        module, ", ".join(parts[1:]), engine)
