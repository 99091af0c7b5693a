# SPDX-License-Identifier: Apache-2.0
"""Each language model of transformers in its default configuration: no plan quantizes an embedding, a convolution, a router, a
head, a tower or a module outside of the layers, as the modules of torch tell them apart; and compressed-tensors, or in hf
transformers, leaves in high precision what the list of the plan is to keep, by the names that its modules have after renaming.
What is quantized, transformers finds by its name, or a note says that it does not."""
import copy
import json
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import default_models
from compressed_tensors.utils.match import is_match
from torch import nn
from transformers import FineGrainedFP8Config, PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, rename_source_key
from transformers.quantizers.quantizer_finegrained_fp8 import FineGrainedFP8HfQuantizer
from transformers.quantizers.quantizers_utils import should_convert_module
from harness import finish, report, run, scratch, skip

RECIPES = ("blockwise", "channelwise", "mxfp8")
NOTHING = b"nothing to quantize"            # small widths, GPT-2's transposed weights
# A kept head named "output" is the middle of names of quantized modules: the plan is refused, and says how to keep both.
REFUSED = {"git": b"in some engine: keep both with --exclude"}
# Without FP8 too, transformers does not load what it saves of the first; two are parts of models with other names; in
# compressed-tensors it makes single modules of the experts of Llama 4 before it loads them.
UNFOUND = ("shieldgemma2", "inkling_text", "minimax_m3_vl_text", "llama4", "llama4_text")
SIZED = ("llama", "mixtral", "phi3", "granitemoe", "deepseek_v2", "mistral4", "qwen2_moe", "qwen3_moe", "qwen3_next", "gemma3",
         "glm4", "gpt_oss", "starcoder2", "llava", "qwen2_5_vl", "internvl")
LAYERS = ("num_hidden_layers", "depth")
SIZES = (*LAYERS, "hidden_size", "intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size", "n_shared_experts",
         "num_attention_heads", "num_key_value_heads", "head_dim", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim",
         "qk_rope_head_dim", "v_head_dim")
FEWEST = 230                                # of which a model can be built
re._MAXCACHE = 1 << 20                      # a list has more entries than re keeps compiled, and each module is matched with all of them


def ignores(plan: dict, model: PreTrainedModel) -> Callable[[str, nn.Module], bool]:
    """Whether the list of the plan keeps a module in high precision: by the functions of compressed-tensors, and in hf by
    those of transformers, which renames the entries first."""
    if plan["format"] != "hf":
        return lambda name, module: is_match(name, module, plan["skip_list"])
    quantizer = FineGrainedFP8HfQuantizer(FineGrainedFP8Config(modules_to_not_convert=plan["skip_list"]))
    quantizer._normalize_modules_to_not_convert(model)
    entries = quantizer.get_modules_to_not_convert(model, quantizer.quantization_config.modules_to_not_convert, model._keep_in_fp32_modules)
    return lambda name, module: not should_convert_module(name, entries)


def misread(model_type: str, plan: dict, model: PreTrainedModel, linears: list[tuple]) -> Iterator[str]:
    quantized = {t["name"] for t in plan["tensors"] if t["action"] == "quantize"}
    ignored_by = ignores(plan, model)
    for name, module, files in linears:
        ignored = ignored_by(name, module)
        if ignored == (files != [] and quantized.issuperset(files)):
            yield f"{model_type}, {plan['format']}: {name} ({', '.join(files) or 'tied'}) is {'ignored' if ignored else 'not ignored'}"


def is_not_loaded(plan: dict) -> bool:
    return any(n["kind"] == "not-loaded" and "transformers" in n["message"] for n in plan["notes"])


def unfound(model_type: str, plan: dict, model: PreTrainedModel) -> Iterator[str]:
    """Quantized tensors, one of each name but for its numbers, that become no parameter of the model without a note."""
    rules = get_model_conversion_mapping(model)
    converters = [rule for rule in rules if isinstance(rule, WeightConverter)]
    others = [rule for rule in rules if not isinstance(rule, WeightConverter)]
    state = model.state_dict()
    kinds = {re.sub(r"\d+", "#", t["name"]): t["name"] for t in plan["tensors"] if t["action"] == "quantize"}
    if is_not_loaded(plan) or model_type in UNFOUND:
        return
    for name in kinds.values():
        found, _ = rename_source_key(name, others, converters, model.base_model_prefix, state)
        if found not in state:
            yield f"{model_type}, {plan['format']}: {name} becomes {found}, which the model does not have"


def problems(model_type: str, folder: pathlib.Path, model: PreTrainedModel, wanted: dict[str, str]) -> Iterator[str]:
    judged: list[tuple] = []
    linears = list(default_models.linears(model, default_models.tied(model)))
    for recipe in RECIPES:
        done = run("quantize", folder, "--recipe", recipe, "--dry-run", "--json", "--threads", "1")
        if done.returncode:
            if NOTHING not in done.stderr and REFUSED.get(model_type, b"\0") not in done.stderr:
                yield f"{model_type}, {recipe}: {done.stderr.decode().strip()}"
            continue
        plan = json.loads(done.stdout)
        decided = plan["format"], plan["skip_list"], is_not_loaded(plan), [t["name"] for t in plan["tensors"] if t["action"] == "quantize"]
        if decided not in judged:                   # recipes of one format decide alike where all sizes are whole blocks
            judged.append(decided)
            yield from misread(model_type, plan, model, linears)
            yield from unfound(model_type, plan, model)
        for tensor in plan["tensors"]:
            if tensor["action"] == "quantize" and tensor["name"] in wanted:
                yield f"{model_type}, {recipe}: {tensor['name']} is quantized: {wanted[tensor['name']]}"
                break


def shapes(model: PreTrainedModel) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def sizes(config: dict) -> Iterator[tuple[dict, str]]:
    """Members that sizes follow from: of the language model, and of the encoder of images."""
    for part in (config, config.get("text_config") or {}, config.get("vision_config") or {}):
        yield from ((part, key) for key in SIZES if isinstance(part.get(key), int) and part[key] > 0)


def changed(model_type: str, folder: pathlib.Path) -> Iterator[str]:
    """One member of config.json is doubled, or a count of layers one more: the plan names it where transformers would build
    other shapes, and only there."""
    model = default_models.make(model_type)
    default_models.save(model, folder)
    whole, base = json.loads((folder / "config.json").read_text()), shapes(model)
    for index in range(len(list(sizes(whole)))):
        config = copy.deepcopy(whole)
        part, key = list(sizes(config))[index]
        part[key] = part[key] + 1 if key in LAYERS else part[key] * 2
        try:
            differs = shapes(default_models.make(model_type, config)) != base
        except Exception:                   # sizes that do not go together
            continue
        (folder / "config.json").write_text(json.dumps(config))
        done = run("quantize", folder, "--recipe", "channelwise", "--dry-run", "--json", "--threads", "1")
        named = b'"incomplete"' in done.stdout
        if differs != named:
            yield f"{model_type}: {key} of {part[key]} is {'named' if named else 'not named'}"
    shutil.rmtree(folder)


def judge(job: tuple[str, pathlib.Path]) -> tuple[str, str | None, list[str]]:
    """The type, why no model could be built, and what is wrong with its plans."""
    model_type, folder = job
    try:
        model = default_models.make(model_type)
        wanted = default_models.save(model, folder)
    except Exception as error:              # defaults that transformers itself cannot build
        return model_type, type(error).__name__, []
    try:
        return model_type, None, list(problems(model_type, folder, model, wanted))
    finally:
        shutil.rmtree(folder)


def differences(job: tuple[str, pathlib.Path]) -> list[str]:
    return list(changed(*job))


with scratch() as folder, ProcessPoolExecutor(os.cpu_count()) as pool:
    unlike = list(pool.map(differences, [(t, folder / f"{t}-sizes") for t in SIZED]))
    found = list(pool.map(judge, [(t, folder / t) for t in default_models.types()], chunksize=4))
built = [f for f in found if f[1] is None]
unbuilt = [f"{name} ({why})" for name, why, _ in found if why]
if unbuilt:
    skip(f"{len(unbuilt)} default configurations", "transformers cannot build " + ", ".join(unbuilt))
report(f"plans of {len(built)} default configurations", [p for f in built for p in f[2]])
report(f"changed sizes of {len(unlike)} configurations", [p for problems in unlike for p in problems])
report("most configurations can be built", [] if len(built) >= FEWEST else [f"{len(built)} of {len(found)}"])
finish()
