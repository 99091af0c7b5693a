# SPDX-License-Identifier: Apache-2.0
"""What is asked of fp8conv: every pair of recipe and format that an engine loads, for no target and
for each, and every option that changes bytes."""
from collections.abc import Iterator
from dataclasses import dataclass, replace

from reference import WHOLE, Spec           # tests/golden

RECIPES = {
    "blockwise": Spec("blockwise", (128, 128)),
    "channelwise": Spec("channelwise", (1, WHOLE), kind="float"),
    "current": Spec("current", (WHOLE, WHOLE), kind="float"),
    "mxfp8": Spec("mxfp8", (1, 32), kind="e8m0-up"),
}
FORMATS = ("hf", "compressed-tensors", "modelopt")
TARGETS = ("vllm", "sglang", "trtllm", "transformers")
DEFAULT_FORMAT = {"blockwise": "hf", "mxfp8": "hf", "channelwise": "compressed-tensors",
                  "current": "compressed-tensors"}

# Which engine loads the pair.  "dense": all but models with experts.  Pairs that are not here load nowhere.
LOADS = {
    ("blockwise", "hf"): {"vllm": True, "sglang": True, "trtllm": True, "transformers": True},
    ("current", "hf"): {"vllm": True, "sglang": True, "trtllm": False, "transformers": True},
    ("mxfp8", "hf"): {"vllm": True, "sglang": True, "trtllm": True, "transformers": True},
    ("current", "compressed-tensors"): {"vllm": True, "sglang": True, "trtllm": False, "transformers": True},
    ("channelwise", "compressed-tensors"): {"vllm": True, "sglang": True, "trtllm": True, "transformers": True},
    ("blockwise", "compressed-tensors"): {"vllm": True, "sglang": True, "trtllm": True, "transformers": "dense"},
    ("mxfp8", "compressed-tensors"): {"vllm": True, "sglang": False, "trtllm": False, "transformers": "dense"},
    ("channelwise", "modelopt"): {"vllm": "dense", "sglang": False, "trtllm": True, "transformers": False},
    ("blockwise", "modelopt"): {"vllm": "dense", "sglang": False, "trtllm": True, "transformers": False},
    ("mxfp8", "modelopt"): {"vllm": True, "sglang": True, "trtllm": True, "transformers": False},
}
# Pairs that an engine does not load of a model type.  SGLang's load_weights() of both renames block scales in hf, and all scales
# of mxfp8; transformers finds single experts of Llama 4 in compressed-tensors alone.  tests/engines_load runs them.
RENAMED = {("blockwise", "hf"), ("mxfp8", "hf"), ("mxfp8", "modelopt")}
LOST = {("sglang", "llama"): RENAMED, ("sglang", "llama4_text"): RENAMED,
        ("transformers", "llama4_text"): {pair for pair in LOADS if pair[1] == "hf"}}


def loads_in(recipe: str, format: str, target: str, has_experts: bool, model_type: str) -> bool:
    """Does the target load the pair of a model of this type, with or without experts?"""
    loads = LOADS.get((recipe, format), {}).get(target, False)
    if (recipe, format) in LOST.get((target, model_type), ()):
        return False
    return loads is True or (loads == "dense" and not has_experts)


@dataclass(frozen=True)
class Case:
    recipe: str
    format: str
    spec: Spec
    options: tuple[str, ...] = ()
    target: str | None = None
    ragged: bool = False
    exclude: str | None = None              # a pattern that means the same in PCRE2 and in Python
    rules: tuple[tuple[str, str], ...] = ()

    def arguments(self) -> list[str]:
        out = ["--recipe", self.recipe, "--format", self.format, *self.options]
        out += ["--target", self.target] if self.target else []
        out += ["--ragged"] if self.ragged else []
        out += ["--exclude", self.exclude] if self.exclude else []
        for pattern, recipe in self.rules:
            out += ["--tensor", f"{pattern}={recipe}"]
        return out

    def spec_of(self, recipe: str) -> Spec:
        """Only the main recipe is tuned; the FP8 format is everybody's."""
        return self.spec if recipe == self.recipe else replace(RECIPES[recipe], fp8=self.spec.fp8)

    def __str__(self) -> str:
        return " ".join(self.arguments()).replace("--recipe ", "").replace("--format ", "")


def plain(recipe: str, format: str, **more) -> Case:
    return Case(recipe, format, RECIPES[recipe], **more)


def tuned(case: Case, *options: str, **spec) -> Case:
    return replace(case, options=options, spec=replace(case.spec, **spec))


def pairs() -> Iterator[Case]:
    for recipe, format in LOADS:
        yield plain(recipe, format)


def targeted(has_experts: bool, model_type: str) -> Iterator[Case]:
    for (recipe, format), engines in LOADS.items():
        for target in engines:
            if loads_in(recipe, format, target, has_experts, model_type):
                yield plain(recipe, format, target=target)


def every_arithmetic() -> Iterator[Case]:
    """Options that change numbers, each with the recipe's own format."""
    for recipe, format in DEFAULT_FORMAT.items():
        case = plain(recipe, format)
        yield tuned(case, "--fp8-format", "e5m2", fp8="e5m2")
        if recipe == "mxfp8":
            for rule in ("floor", "even"):
                yield tuned(case, "--mx-scale", rule, kind=f"e8m0-{rule}")
            yield tuned(case, "--mx-scale", "even", "--fp8-format", "e5m2", kind="e8m0-even", fp8="e5m2")
            continue
        for arith in ("te", "deepseek", "deepgemm"):
            options = ["--scale-arith", arith]
            yield tuned(case, "--scale-fmt", "float", *options, kind="float", arith=arith)
        yield tuned(case, "--scale-fmt", "ue8m0", kind="pow2")
        yield tuned(case, "--amax-epsilon", "0.125", eps=0.125)
        yield tuned(case, "--margin", "2", margin=2)
        yield tuned(case, "--scale-fmt", "float", "--fp8-format", "e5m2", "--scale-arith", "deepseek",
                    "--margin", "1", "--amax-epsilon", "1e-12",
                    kind="float", fp8="e5m2", arith="deepseek", margin=1, eps=1e-12)


def every_selection() -> Iterator[Case]:
    """Options that change which tensors are quantized, and how."""
    for recipe, format in (("blockwise", "hf"), ("blockwise", "compressed-tensors"), ("channelwise", "modelopt")):
        yield plain(recipe, format, exclude=r"\.(mlp|feed_forward)\.")
    yield plain("channelwise", "compressed-tensors", rules=(("self_attn", "current"), ("o_proj", "mxfp8")))
    yield plain("current", "compressed-tensors", rules=(("self_attn", "skip"), (r"\bo_proj", "blockwise")))


def ragged() -> Iterator[Case]:
    for format in ("hf", "compressed-tensors"):
        yield plain("blockwise", format, ragged=True)


def for_small(has_experts: bool, model_type: str) -> list[Case]:
    cases = [*pairs(), *targeted(has_experts, model_type), *every_arithmetic(), *every_selection(), *ragged()]
    cases += [replace(case, ragged=True) for case in every_arithmetic() if case.recipe == "blockwise"]
    return cases


def for_smollm2() -> list[Case]:
    """The real model, whose 576 rows and columns need ragged blocks; sorted, so that one spec's codes serve many cases."""
    cases = [*(case for case in pairs() if case.recipe != "blockwise"), *ragged()]
    cases += [replace(case, ragged=case.recipe == "blockwise") for case in every_arithmetic()]
    return sorted(cases, key=lambda case: (repr(case.spec), repr(case)))
