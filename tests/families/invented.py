#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Convert families that nobody has listed: no tensor may be neither quantized, nor named, nor free.

    FP8CONV=path FAMILIES_SEED=1 invented.py [SEED...]

Each seed gives one model of unknown modules, experts, towers and single tensors.  The default is
twenty seeds from FAMILIES_SEED on.
"""
import json
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile

import cases
import engines
import families
import origins
from check import PAIRS, Checkpoint, Case, code_problems, cut, run

N_SEEDS = 20
PREFIXES = ("", "model.", "model.language_model.", "language_model.model.", "net.core.", "llm.",
            "backbone.", "thinker.model.", "a.b.c.d.e.")
LAYERS = ("layers", "blocks", "h", "stages.0.units", "decoder.layers", "trunk")
ATTENTION = ("self_attn", "attn", "mixer", "attention.inner", "token_mixing", "retention")
MLP = ("mlp", "ffn", "feed_forward", "channel_mixing", "dense", "block")
WORDS = ("in_map", "out_map", "kernel_a", "kernel_b", "widen", "narrow", "mix_in", "mix_out", "zig",
         "zag", "w_q", "w_kv", "lift", "drop_to", "fold", "unfold", "q", "kv", "o", "up", "down")
STACKS = ("moe_bank.w_in", "moe_bank.w_out", "experts.pool", "experts.up_bank.weight", "pool.weight",
          "specialists.kernel", "routed_experts.w_a", "routed_experts.w_b.weight", "ffn_stack.weight")
CONTAINERS = ("specialists", "experts", "routed_experts", "moe.experts", "bank.items", "mixture_experts")
TOWERS = ("vision_tower.", "visual.", "model.vision_model.", "audio_tower.", "audio_encoder.",
          "multi_modal_projector.", "image_encoder.trunk.")
WIDTHS = (32, 64, 96, 128, 160, 256, 384)


def draw(rng):
    """Tensors of one model: name to (dtype, shape)."""
    tensors = {}

    def add(name, *shape, dtype=None):
        dtype = dtype or rng.choice(("BF16", "BF16", "BF16", "F16", "F32"))
        tensors.setdefault(name, (dtype, shape))

    prefix = rng.choice(PREFIXES)
    add(prefix + rng.choice(("embed_tokens", "wte", "word_embeddings", "embedder", "tok_embed"))
        + ".weight", 384, 256)
    add(rng.choice(("lm_head.weight", "head.weight", prefix + "lm_head.weight")), 384, 256)
    add(prefix + "final_norm.weight", 256)
    for layer in range(2):
        at = "%s%s.%d." % (prefix, rng.choice(LAYERS), layer)
        add_attention(rng, add, at + rng.choice(ATTENTION) + ".")
        add(at + "pre_norm.weight", 256)
        rng.choice((add_dense, add_stack, add_numbered, add_known))(rng, add, at, rng.choice(MLP))
        add_odd(rng, add, at)
    if rng.random() < 0.6:
        tower = rng.choice(TOWERS)
        for i in range(2):
            add("%slayers.%d.%s.weight" % (tower, i, rng.choice(WORDS)), rng.choice(WIDTHS), 128)
        add(tower + "stack", 3, 64, 64)
        add(tower + "patch.weight", 32, 3, 4, 4)
    if rng.random() < 0.3:              # one name ends another: one of the two may be kept
        name = rng.choice(sorted(t for t in tensors if t.endswith(".weight")))
        add("draft." + name, rng.choice((100, 128)), 256)
    return tensors


def add_attention(rng, add, at):
    if rng.random() < 0.5:
        q, kv = rng.choice((256, 384)), rng.choice((64, 96, 128))
        for name, rows in (("q_proj", q), ("k_proj", kv), ("v_proj", kv)):
            add(at + name + ".weight", rows, 256)
        add(at + "o_proj.weight", 256, q)
        return
    for word in rng.sample(WORDS, 3):
        add(at + word + ".weight", rng.choice(WIDTHS), rng.choice(WIDTHS))
        if rng.random() < 0.3:
            add(at + word + ".bias", 256)


def add_dense(rng, add, at, mlp):
    for word in rng.sample(WORDS, 2) + ["gate_proj", "up_proj"][:rng.choice((0, 2))]:
        add("%s%s.%s.weight" % (at, mlp, word), rng.choice((256, 384, 96)), 256)


def add_stack(rng, add, at, mlp):
    for name in rng.sample(STACKS, 2):
        add("%s%s.%s" % (at, mlp, name), 4, rng.choice(WIDTHS), rng.choice((64, 256)))
    add("%s%s.gate.weight" % (at, mlp), 4, 256)


def add_numbered(rng, add, at, mlp):
    container, width = rng.choice(CONTAINERS), rng.choice((64, 96, 128, 256))
    names = rng.choice((("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"), ("up", "down"),
                        ("alpha", "beta")))
    for e in range(4):
        for name in names:
            shape = (256, width) if name in (names[-1], "w2") else (width, 256)
            add("%s%s.%s.%d.%s.weight" % (at, mlp, container, e, name), *shape, dtype="BF16")
    add("%s%s.router.weight" % (at, mlp), 4, 256)


def add_known(rng, add, at, mlp):
    width = rng.choice((64, 128, 192))
    add("%s%s.experts.gate_up_proj" % (at, mlp), 4, 2 * width, 256, dtype="BF16")
    add("%s%s.experts.down_proj" % (at, mlp), 4, 256, width, dtype="BF16")


def add_odd(rng, add, at):
    odd = [("A_log", (1, 1, 32, 1)), ("meta_tokens", (128, 256)), ("scalar", ()), ("vector", (256,)),
           ("gain", (1, 256)), ("table", (3, 16, 16)), ("cube.weight", (4, 4, 256)),
           ("kernel4", (4, 4, 32, 32)), ("short_conv.weight", (256, 1, 4)), ("row.weight", (1, 256)),
           ("pos_embedding", (64, 256)), ("hyper_fn", (24, 256)), ("thin.weight", (128, 20))]
    for name, shape in rng.sample(odd, 4):
        add(at + name, *shape)
    add(at + "ids", 64, 4, dtype="I32")
    add(at + "tid2eid.weight", 64, 6, dtype="I64")


# ------------------------------------------------------------------ what the rules say

def in_tower(tensor):
    return bool(re.search(r"vision|visual|audio|image|projector", tensor))


def looks_like_experts(tensor, dtype, shape):
    """Three dimensions, the last two at least 32, no tower, not free, no layout that is known."""
    return (not re.search(r"experts\.(gate_up|down)_proj$", tensor) and dtype in engines.FLOATS and len(shape) == 3 and min(shape[1:]) >= 32 and
            not in_tower(tensor) and not engines.is_free(tensor, dtype, shape))


def parent_experts(tensor):
    """P of a stack: its path up to `experts`, else its parent and `.experts`."""
    module = engines.module_of(tensor)
    found = re.match(r"(.*experts)\.", module)
    return found.group(1) if found else module.rpartition(".")[0] + ".experts"


def outcome(tensors, recipe, form, folder):
    """Exit status, standard error and the plan of a dry run."""
    one = {"tensors": tensors, "expected": {},
           "config": cases.text("never_seen_%d" % len(tensors), architectures=["NeverSeen"])}
    families.write(folder, one)
    done = run("quantize", folder, "--recipe", recipe, "--format", form, "--dry-run", "--json")
    return done, json.loads(done.stdout) if not done.returncode else None


def clash(message):
    """The quoted names of a refusal, where one really skips the other in some engine."""
    quoted = re.findall(r"'([^']+)'", message)
    for entry in quoted:
        for module in quoted:
            if entry != module and any(skips(engines.module_of(module), [engines.module_of(entry)])
                                       for skips in engines.EVERY.values()):
                return engines.module_of(module)
    return None


class Invented(Case):
    def __init__(self, recipe, form, source):
        self.recipe, self.form, self.source = recipe, form, source
        self.expected = {}


def problems(seed, recipe, form, folder):
    tensors = draw(random.Random(seed))
    source, out = os.path.join(folder, "in"), os.path.join(folder, "out")
    for _ in range(8):
        done, plan = outcome(tensors, recipe, form, source)
        if done.returncode != 2:
            break
        module = clash(done.stderr)
        if not module:
            break
        tensors = {t: v for t, v in tensors.items() if engines.module_of(t) != module}
    if done.returncode:
        if "nothing to quantize" not in done.stderr:
            yield "exit %d: %s" % (done.returncode, done.stderr.strip())
        return
    done = run("quantize", source, "-o", out, "--recipe", recipe, "--format", form, "--progress", "none")
    if done.returncode:
        yield "exit %d: %s" % (done.returncode, done.stderr.strip())
        return
    yield from judge_output(Invented(recipe, form, source), plan, out, random.Random(seed))


def judge_output(case, plan, out, rng):
    source, made = Checkpoint(case.source), Checkpoint(out)
    with open(os.path.join(out, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    case.names = engines.skip_list(config) or []
    if plan.get("skip_list") != case.names:
        yield "the plan's skip_list is not that of config.json"
    unknown = [t for t, (dtype, shape) in source.tensors.items()
               if looks_like_experts(t, dtype, shape) and t in made.tensors]
    stacks = {engines.module_of(t): parent_experts(t) for t in unknown}
    yield from sorted(set(engines.problems(made.tensors, case.names, case.form, stacks)))
    yield from note_problems(plan, unknown)
    for t, (dtype, shape) in made.tensors.items():
        if dtype in engines.CODES:
            yield from code_problems(case, made, t, origin_of(source, t))
            if len(shape) != 2 or in_tower(t):
                yield "%s %s: quantized" % (t, list(shape))
        elif t in source.tensors and made.raw(t) != source.raw(t):
            yield "%s: kept, but changed" % t
    done = run("verify", out, "--progress", "none")
    if done.returncode or done.stderr:
        yield "verify: exit %d: %s" % (done.returncode, (done.stdout + done.stderr).split("\n")[0])
        return
    own = {engines.module_of(t) for t, (_, shape) in made.tensors.items()
           if t in unknown or len(shape) == 3 and engines.container(t)}
    needed = {engines.module_of(t): t for t, v in made.tensors.items() if not engines.is_free(t, *v)}
    needed = [name for name in case.names if name in needed and name not in own or
              name in stacks.values()]
    for name in rng.sample(needed, min(3, len(needed))):
        others = [other for other in case.names if other != name]
        if engines.sglang(name, others) or engines.transformers(name, others):
            continue                    # for one engine another entry says it too
        if not cut(case, out, config, name):
            yield "%s: taken out of the list, and verify does not find it" % name


def origin_of(source, tensor):
    """A weight keeps its name, or is one of an expert in `gate_up_proj` or `down_proj`."""
    if tensor in source.tensors:
        return origins.same(source, tensor)
    p = tensor.rsplit(".", 3)[0]
    made = [part for name in ("gate_up_proj", "down_proj")
            for part in origins.parts(source, "%s.%s" % (p, name), "plain")]
    return dict(made)[tensor]


def note_problems(plan, unknown):
    """Experts of an unknown layout are told once, with their number and one name."""
    notes = [n for n in plan.get("notes", []) if isinstance(n, dict) and n["kind"] == "experts-unknown"]
    if len(notes) != bool(unknown):
        yield "%d notes of unknown experts, there are %d: %s" % (len(notes), len(unknown), unknown[:1])
    elif notes and not (notes[0]["message"].startswith("%d tensor" % len(unknown)) and
                        notes[0]["tensor"] in unknown):
        yield "note %r of %r, there are %d" % (notes[0]["message"], notes[0]["tensor"], len(unknown))
    for unit in plan["tensors"]:
        if unit["name"] in unknown and unit["reason"] != "fused experts of an unknown layout":
            yield "%s: reason %r" % (unit["name"], unit["reason"])


def top_level_proj(folder):
    """`proj` would end every `q_proj`: refused at plan time, with both names."""
    tensors = {"model.layers.0.self_attn.%s_proj.weight" % x: ("BF16", (128, 128)) for x in "qkvo"}
    for shape, options in (((128, 128), ("--exclude", r"^proj\.weight$")), ((128, 100), ())):
        tensors["proj.weight"] = ("BF16", shape)
        families.write(folder, {"tensors": tensors, "expected": {}, "config": cases.text("never")})
        for command in ((), ("--dry-run",)):
            done = run("quantize", folder, "-o", folder + "-out", "-q", *options, *command)
            named = re.findall(r"'([^']+)'", done.stderr)
            if done.returncode != 2 or not clash(done.stderr) or os.path.exists(folder + "-out"):
                yield "a kept proj.weight at the top: exit %d, names %s" % (done.returncode, named)
                shutil.rmtree(folder + "-out", ignore_errors=True)


def judge(seed):
    found = []
    with tempfile.TemporaryDirectory(prefix="fp8conv-invented-") as folder:
        for recipe, form in PAIRS:
            here = os.path.join(folder, "%s-%s" % (recipe, form))
            try:
                lines = list(problems(seed, recipe, form, here))
            except Exception as error:  # one broken pair hides no other
                lines = ["%s: %s" % (type(error).__name__, error)]
            found += ["seed %d %s/%s: %s" % (seed, recipe, form, what) for what in lines]
    return found


def main():
    first = int(os.environ.get("FAMILIES_SEED", "1"))
    seeds = [int(s) for s in sys.argv[1:]] or list(range(first, first + N_SEEDS))
    with tempfile.TemporaryDirectory(prefix="fp8conv-invented-") as folder:
        found = list(top_level_proj(os.path.join(folder, "in")))
    with multiprocessing.Pool() as pool:
        for lines in pool.imap(judge, seeds):
            found += lines
    for line in found:
        print(line)
    print("invented: %d families, %d conversions, %d problems" %
          (len(seeds), len(seeds) * len(PAIRS), len(found)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
