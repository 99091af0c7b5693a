#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run `fp8conv quantize` on the cases of cases.py and judge plans, outputs and skip lists.

    FP8CONV=path check.py [--recipe R] [--format F] [--names none|some|all] [CASE...]

One line for each thing that is wrong: CASE RECIPE/FORMAT: what.  Needs python3 alone.
--names: in which formats each name is taken out of the skip list, which takes a run of `verify` for
each; `some` are those whose lists differ.
"""
import argparse
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile

import engines
import families
import origins
from cases import CASES
from checkpoint import Checkpoint, scale_index, scale_shape
from expected import RECIPES

PAIRS = [("blockwise", "hf"), ("channelwise", "compressed-tensors"), ("mxfp8", "hf"),
         ("current", "compressed-tensors"), ("blockwise", "compressed-tensors"),
         ("mxfp8", "compressed-tensors"), ("current", "hf"), ("channelwise", "modelopt"),
         ("blockwise", "modelopt"), ("mxfp8", "modelopt")]
NAMES_DIFFER = (*PAIRS[:3], ("blockwise", "compressed-tensors"), ("channelwise", "modelopt"))
KINDS = ("mostly-kept", "experts-unknown", "low-bit-inexact", "not-loaded", "overrides-engine")
FP8CONV = os.environ.get("FP8CONV", "build/fp8conv")


def run(*args):
    return subprocess.run([FP8CONV, *args], capture_output=True, text=True, check=False)


class Case:
    """One case in one recipe and format: its source, its expectation, its output."""

    def __init__(self, name, folder, recipe, form):
        self.name, self.recipe, self.form = name, recipe, form
        self.source = os.path.join(folder, name)
        with open(os.path.join(self.source, "expected.json"), encoding="utf-8") as f:
            self.expected = json.load(f)
        self.is_default = form == self.expected["formats"].get(recipe, "compressed-tensors")

    def options(self):
        chosen = [] if self.is_default else ["--format", self.form]
        return ["--recipe", self.recipe, *chosen, *self.expected.get("arguments", ())]

    def decision(self, tensor):
        row = self.expected["tensors"][tensor]
        keys = ("%s/%s" % (self.recipe, self.form), self.recipe, "channelwise")
        return next(row[k] for k in keys if k in row)

    def rule(self, tensor):
        """(rule, source) of a tensor that a profile keeps; None where the format decides."""
        row = self.expected["tensors"][tensor]
        if "rule" in row and "%s/%s" % (self.recipe, self.form) not in row:
            return row["rule"], row["source"]
        return None

    def fate(self, tensor, made):
        """The decision that the output shows."""
        module = engines.module_of(tensor)
        packed = tensor.rsplit("_", 1)[0] + "_packed" in self.expected["tensors"]
        if tensor not in made.tensors or packed:
            return "split"
        dtype, shape = made.tensors[tensor]
        if dtype in engines.CODES:
            return "stack" if len(shape) > 2 else "quantize"
        named = module in self.names or self.is_expert_named(tensor)
        return "named" if named else "free"

    def is_expert_named(self, tensor):
        p = self.container(tensor)
        return p and all(name in self.names for name in self.expert_names(p))

    def container(self, tensor):
        for p, members in self.expected.get("experts", {}).items():
            if tensor in members:
                return p
        return engines.container(tensor)

    def is_kept(self, p, source):
        return any(self.container(t) == p and "named" in self.decision(t) for t in source.tensors)

    def expert_names(self, p):
        if self.form != "compressed-tensors":
            return [p]
        return ["%s.0.%s_proj" % (p, word) for word in ("gate", "up", "down")]


# ------------------------------------------------------------------ the plan

def plan_problems(case, plan):
    expected = case.expected
    if plan["format"] != case.form:
        yield "takes format %s by itself" % plan["format"]
    for key in ("profile", "notes", "skip_list"):
        if key not in plan:
            yield "the plan has no '%s'" % key
    kinds = [n["kind"] for n in plan.get("notes", ()) if isinstance(n, dict)]
    wanted = expected.get("notes", {}).get(case.recipe, [])
    kinds = [kind for kind in kinds if kind in KINDS]
    if case.is_default and case.recipe in RECIPES:
        for kind in wanted:
            if kind not in kinds:
                yield "no note of kind %s" % kind
        for kind in kinds:
            if kind not in wanted:
                yield "an unexpected note of kind %s" % kind
    if "mostly-kept" in kinds and kinds[0] != "mostly-kept":
        yield "mostly-kept is not the first note"
    units = {t["name"]: t for t in plan["tensors"]}
    for tensor in expected["tensors"]:
        unit, rule = units.get(tensor), case.rule(tensor)
        if unit and rule and case.decision(tensor) == "named":
            found = unit.get("rule"), unit.get("source")
            if found != rule:
                yield "%s: rule %r of %r, expected %r of %r" % (tensor, *found, *rule)
        if unit and unit.get("source") and unit.get("rule") not in ("vendor", "engine"):
            yield "%s: a source, but the rule is %r" % (tensor, unit.get("rule"))


def bond_problems(case):
    """Whatever a user excludes: the members share one fate."""
    for bond in case.expected["bonds"]:
        done = run("quantize", case.source, *case.options(), "--dry-run", "--json",
                   "--exclude", "^" + re.escape(bond[0]) + "$")
        if done.returncode == 2 and "nothing to quantize" in done.stderr:
            continue
        if done.returncode:
            yield "--exclude of %s: exit %d: %s" % (bond[0], done.returncode, done.stderr.strip())
            continue
        actions = {t["action"] for t in json.loads(done.stdout)["tensors"] if t["name"] in bond}
        if actions != {"keep"}:
            yield "--exclude of %s leaves its fused set %s" % (bond[0], sorted(actions))


# ------------------------------------------------------------------ the output

def value_problems(case, made, name, origin):
    """Elements here and there: code x scale is near the source's, which origin(e, i, j) gives."""
    scale = engines.scale_of(name, made.tensors)
    shape = made.tensors[name][1]
    grid = made.tensors[scale][1]
    rows, cols = shape[-2:]
    for k in range(24):
        e = k % shape[0] if len(shape) > 2 else 0
        i, j = k * 577 % rows, k * 311 % cols
        s = made.at(scale, scale_index(case.recipe, grid, shape, e, i, j))
        found = made.at(name, (e * rows + i) * cols + j) * s
        wanted = origin(e, i, j)
        if abs(found - wanted) > 1.01 * max(abs(wanted) / 16, s * 2 ** -10):
            yield "%s: element [%d, %d] is %g, %g in the source" % (name, i, j, found, wanted)
            return


def code_problems(case, made, name, origin):
    """A weight of the output that must be FP8, with its scale."""
    if name not in made.tensors:
        yield "%s: not in the output" % name
        return
    dtype, shape = made.tensors[name]
    if dtype not in engines.CODES:
        yield "%s: %s, expected FP8" % (name, dtype)
        return
    scale = engines.scale_of(name, made.tensors)
    if "ngram_embedding" in name:       # one scale of the whole table
        if not any("ngram_embedding.weight_scale" in t for t in made.tensors):
            yield "%s: no scale" % name
        return
    if not scale:
        yield "%s: no scale" % name
        return
    wanted = ("U8" if case.recipe == "mxfp8" else "F32", scale_shape(case.recipe, case.form, shape))
    if made.tensors[scale] != wanted and not (case.form == "modelopt" and len(shape) > 2):
        yield "%s: %s %s, expected %s %s" % (scale, *made.tensors[scale], *wanted)
    elif made.tensors[scale] == wanted:
        yield from value_problems(case, made, name, origin)


def bias_problems(_, made, name, origin):
    if made.tensors.get(name, [0])[0] != "BF16":
        yield "%s: not in the output in BF16" % name
    elif any(made.at(name, i) != origin(0, i, 0) for i in range(made.tensors[name][1][0])):
        yield "%s: other values than in the source" % name


def tensor_problems(case, source, made):
    """Each source tensor came out as it is expected to."""
    for tensor, (dtype, shape) in source.tensors.items():
        wanted = case.decision(tensor).split("|")
        found = case.fate(tensor, made)
        if found not in wanted and not (found == "named" and wanted == ["free"]):
            yield "%s: %s, expected %s" % (tensor, found, " or ".join(wanted))
        elif found == "split":
            for name, origin in origins.parts(source, tensor, case.expected.get("layout", "plain")):
                judge_part = bias_problems if name.endswith(".bias") else code_problems
                yield from judge_part(case, made, name, origin)
        elif found in ("quantize", "stack"):
            yield from code_problems(case, made, tensor, origins.same(source, tensor))
        elif made.tensors[tensor] != (dtype, shape) or made.raw(tensor) != source.raw(tensor):
            yield "%s: kept, but changed" % tensor


def config_problems(case, out, config):
    for key, value in case.expected["config"].items():
        if config.get(key) != value:
            yield "config.json has %s %r, expected %r" % (key, config.get(key), value)
    for key in json.load(open(os.path.join(case.source, "config.json"), encoding="utf-8")):
        if key not in config:
            yield "config.json lost %r" % key
    beside = os.path.join(out, "hf_quant_config.json")
    if case.form == "modelopt":
        with open(beside, encoding="utf-8") as f:
            other = engines.skip_list(json.load(f), "hf_quant_config.json")
        if other != case.names:
            yield "hf_quant_config.json has another list than config.json"


# ------------------------------------------------------------------ names

def stacks(case):
    """Module of a kept or quantized stack to the P that engines ask for."""
    return {engines.module_of(t): p for p, members in case.expected.get("experts", {}).items()
            for t in members}


ENGINES = ("vllm", "sglang", "transformers")


def removal_problems(case, out, config, source):
    """Each single name taken out of the list must be found by `verify`, at least for an engine that asks for no other name."""
    free = {engines.module_of(t) for t, (_, shape) in source.tensors.items()
            if len(shape) > 2 and (case.container(t) or "experts." in t)}
    bare = case.expected.get("bare")
    modules = {engines.module_of(t): t for t in source.tensors}
    kept = {p for p in map(case.container, source.tensors) if p and case.is_kept(p, source)}
    looked_for = {name for p in kept for name in case.expert_names(p)}
    renamed = {own for pairs in case.expected.get("engine_names", {}).values() for own in pairs}
    yield from engine_removal_problems(case, out, config)
    for name in case.names:
        if name in free or bare and re.search(bare, name):
            continue
        if any(name == own or name.startswith(own + ".") for own in renamed):
            continue                    # an engine may ask for another name
        if any(".*" in other and re.match(other.removeprefix("re:"), name) or name.startswith(other + ".") for other in case.names):
            continue
        if name not in looked_for and (name not in modules or case.decision(modules[name]) == "free"):
            continue                    # a name too many
        if not any(cut(case, out, config, name, *target) for target in ((), *(("--target", e) for e in ENGINES))):
            yield "%s: taken out of the list, and verify does not find it" % name


def engine_removal_problems(case, out, config):
    """The same for the name of an engine, which that engine misses."""
    for name in case.names:
        if ".*" not in name or re.match(name.removeprefix("re:"), "lm_head"):
            continue                    # of the head of a tied model, which is in no file
        if not any(cut(case, out, config, name, "--target", engine) for engine in ENGINES):
            yield "%s: taken out of the list, and verify finds it for no target" % name
    for engine in ENGINES:
        pairs = engines.of_engine(case.expected.get("engine_names", {}), engine, case.form)
        for name in case.names:
            if not any(name == theirs or name.startswith(theirs + ".") for theirs in pairs.values()):
                continue
            if not cut(case, out, config, name, "--target", engine):
                yield "%s: taken out of the list, and verify --target %s does not find it" % (name, engine)


def cut(case, out, config, name, *options):
    less = json.loads(json.dumps(config))
    engines.skip_list(less).remove(name)
    rewrite(os.path.join(out, "config.json"), less)
    beside = os.path.join(out, "hf_quant_config.json")
    if os.path.exists(beside):
        with open(beside, encoding="utf-8") as f:
            both = json.load(f)
        other = json.loads(json.dumps(both))
        engines.skip_list(other, "hf_quant_config.json").remove(name)
        rewrite(beside, other)
    done = run("verify", out, "--progress", "none", *options)
    rewrite(os.path.join(out, "config.json"), config)
    if os.path.exists(beside):
        rewrite(beside, both)
    return done.returncode == 1 and "dtype-mismatch" in done.stdout


def rewrite(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=2)


# ------------------------------------------------------------------ all of it

def problems(case, out, takes_names):
    refused = case.expected.get("refused")
    done = run("quantize", case.source, *case.options(), "--dry-run", "--json")
    if refused:
        if done.returncode != 2 or not re.search(refused, done.stderr):
            yield "exit %d: %s, expected %r" % (done.returncode, done.stderr.strip(), refused)
        return
    if done.returncode == 2 and all({"named", "free"} & set(case.decision(t).split("|"))
                                    for t in case.expected["tensors"]):
        return                          # this format can hold nothing of it, and says so
    if done.returncode:
        yield "dry run: exit %d: %s" % (done.returncode, done.stderr.strip())
        return
    plan = json.loads(done.stdout)
    yield from plan_problems(case, plan)
    if case.is_default:
        yield from bond_problems(case)
    done = run("quantize", case.source, "-o", out, *case.options(), "--progress", "none")
    if done.returncode:
        yield "exit %d: %s" % (done.returncode, done.stderr.strip())
        return
    strange = [line for line in done.stderr.splitlines() if " note: " not in line]
    if strange:
        yield "says %r" % strange[0]
    source, made = Checkpoint(case.source), Checkpoint(out)
    with open(os.path.join(out, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    case.names = engines.skip_list(config) or []
    if "skip_list" in plan and plan["skip_list"] != case.names:
        yield "the plan's skip_list is not that of config.json"
    free = {t for t in source.tensors if case.decision(t) == "free"}
    yield from tensor_problems(case, source, made)
    yield from config_problems(case, out, config)
    yield from sorted(set(engines.problems(
        {t: v for t, v in made.tensors.items() if t not in free}, case.names, case.form, stacks(case),
        case.expected.get("engine_names", {}), case.expected.get("mappers", {}))))
    for more in ((), ("--source", case.source)):
        done = run("verify", out, *more, "--progress", "none")
        if done.returncode or done.stderr:
            yield "verify%s: exit %d: %s" % (" --source" if more else "", done.returncode,
                                            (done.stdout + done.stderr).strip().split("\n")[0])
            takes_names = False
    if takes_names:
        yield from removal_problems(case, out, config, source)
    source.close()
    made.close()


def judge(job):
    name, folder, recipe, form, takes_names = job
    case = Case(name, folder, recipe, form)
    out = tempfile.mkdtemp(dir=folder, prefix="out-")
    try:
        found = list(problems(case, os.path.join(out, "out"), takes_names))
    except Exception as error:          # one broken case hides no other
        found = ["%s: %s" % (type(error).__name__, error)]
    shutil.rmtree(out)
    return ["%s %s/%s: %s" % (name, recipe, form, what) for what in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe")
    parser.add_argument("--format")
    parser.add_argument("--names", choices=("none", "some", "all"), default="some")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    args = parser.parse_args()
    names = args.cases or list(CASES)
    for name in names:
        if name not in CASES:
            parser.error("no case %r; families.py --list shows them" % name)
    pairs = [p for p in PAIRS if args.recipe in (None, p[0]) and args.format in (None, p[1])]
    with tempfile.TemporaryDirectory(prefix="fp8conv-families-") as folder:
        for name in names:
            families.write(os.path.join(folder, name), CASES[name])
        taken = {"none": (), "some": NAMES_DIFFER, "all": PAIRS}[args.names]
        jobs = [(name, folder, *pair, pair in taken) for name in names for pair in pairs]
        n_failed = 0
        with multiprocessing.Pool() as pool:
            for found in pool.imap(judge, jobs):
                n_failed += bool(found)
                for line in found:
                    print(line, flush=True)
    print("families: %d cases, %d conversions, %d failed" % (len(names), len(jobs), n_failed))
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
