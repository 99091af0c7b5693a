# SPDX-License-Identifier: Apache-2.0
"""What must become of each tensor of a case: case() derives it from the few rules that a case has, and families.py writes it as
expected.json.  It comes from the releases and the engines' loaders, never from a program's output:

    formats     the format that `quantize --recipe R` takes by itself, by recipe
    tensors     by source tensor: {RECIPE: D, "RECIPE/FORMAT": D}, and "rule", "source" where a
                profile keeps it.  RECIPE/FORMAT says more than RECIPE; without one, current is as channelwise
    bonds       lists of tensors that are quantized together or kept together, whatever a user excludes
    experts     by container P: its tensors.  Where they are kept, the skip list names P or its expert 0
    layout      how gate and up lie in fused experts: plain, transposed, interleaved
    notes       kinds of notes that the plan must carry, by recipe
    config      keys that the output's config.json must have at the top level, beside quantization_config
    arguments   options the case is run with
    bare        a regular expression: modules that an engine builds without quantization, named or not
    engine_names  by engine, or engine/format, the module that it asks the skip list for, by that of the checkpoint
    mappers     by engine/format, what it makes of the end of an entry before it compares
    refused     instead of all that: a regular expression that the one line on standard error must match

    D is quantize  codes and a scale under its own name
         stack     the same, and the tensor stays 3-D
         split     gone; per expert P.E.{gate,up,down}_proj.weight (or w1, w3, w2), each with its scale
         named     kept, and its module is in the skip list
         free      kept; an embedding, norm, convolution, vector or integer, which needs no name
         pass      low-bit codes or their scales, byte for byte
         A|B       one of the two
"""
import re

RECIPES = ("blockwise", "channelwise", "mxfp8")
FORMATS = {"blockwise": "hf", "channelwise": "compressed-tensors", "mxfp8": "hf"}
CASES = {}

FREE = (r"(^|\.)[^.]*([nN]orm|conv)[^.]*(\.weight)?$|patch_embed\.proj\.|"
        r"(^|\.)(embed_tokens(_per_layer)?|word_embeddings|tok_embeddings|embeddings?|embed|embedders\.\d+|pos_embed|vte)\.weight$")


def case(name, config, *groups, rules=(), bonds=(), experts=None, extra=None, **more):
    """rules: (pattern, D or (D by recipe)[, rule, source]); vectors, integers and FREE are free, then the first that
    matches decides.  by_format: (pattern, "RECIPE/FORMAT", D) where a format differs from its recipe."""
    tensors = {}
    for group in groups:
        for t in group if isinstance(group, list) else [group]:
            assert t[0] not in tensors, t[0]
            tensors[t[0]] = (t[2] if len(t) > 2 else "BF16", tuple(t[1]))
    expected = {}
    for t, (dtype, shape) in tensors.items():
        rule = next((r for r in rules if re.search(r[0], t)), None)
        vector = sum(d > 1 for d in shape) < 2 and not (t.endswith(".weight") and len(shape) > 1)
        if vector and dtype != "I32" or dtype in ("I32", "I64") and not rule or re.search(FREE, t):
            rule = ("", "free")
        assert rule, "%s: nothing is said of %s" % (name, t)
        d = rule[1] if isinstance(rule[1], tuple) else (rule[1],) * 3
        expected[t] = dict(zip(RECIPES, d))
        if len(rule) > 2:
            expected[t].update(rule=rule[2], source=rule[3])
    for b in bonds:
        assert all(t in tensors for t in b), (name, b)
    only_whole_blocks(tensors, expected, bonds)
    for pattern, key, d in more.pop("by_format", ()):
        for t in tensors:
            if re.search(pattern, t):
                expected[t][key] = d
    more["formats"] = dict(FORMATS, **more.get("formats", {}))
    CASES[name] = {"config": config, "tensors": tensors, "expected": {
        "tensors": expected, "bonds": [list(b) for b in bonds], "config": extra or {},
        "experts": {p: [t for t in tensors if re.search(x, t)] for p, x in (experts or {}).items()}, **more}}


SETS = (("q_a_proj", "kv_a_proj_with_mqa"), ("wq_a", "wkv_a_with_mqa"), ("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


def only_whole_blocks(tensors, expected, bonds):
    """ModelOpt's block scales need multiples of 128 both ways; a fused set is kept whole."""
    key = "blockwise/modelopt"
    for t, (_, shape) in tensors.items():
        if expected[t]["blockwise"] == "quantize" and any(d % 128 for d in shape):
            expected[t][key] = "named"
        if expected[t]["blockwise"] == "stack":
            for recipe in RECIPES:
                expected[t][recipe + "/modelopt"] = "stack|named"
    sets = [list(b) for b in bonds]
    for words in SETS:
        for t in tensors:
            if t.endswith("." + words[0] + ".weight"):
                sets.append([t.replace("." + words[0] + ".", "." + word + ".") for word in words])
    for one in sets:
        if any(key in expected.get(t, {}) and expected[t][key] == "named" for t in one):
            for t in one:
                if expected.get(t, {}).get("blockwise") == "quantize":
                    expected[t][key] = "named"
