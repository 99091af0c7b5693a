# SPDX-License-Identifier: Apache-2.0
"""Where engine and verify may differ, and why."""
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Explained:
    """engine, what (a variant and a column, or a broken variant), format: patterns of the whole word."""
    engine: str
    what: str
    form: str
    reason: str

    def fits(self, engine: str, what: str, form: str) -> bool:
        return all(re.fullmatch(*pair) for pair in ((self.engine, engine), (self.what, what), (self.form, form)))


ONES = "the engine leaves the factors of the KV cache at 1 in this class: less range, and no wrong weight"
ANY = ".*"
EXPLAINED: tuple[Explained, ...] = (
    Explained("vllm", "deepseek_v3 kv-cache", ANY, ONES),
    Explained("sglang", "(qwen3|qwen3_moe|mixtral|moe192|moe192 ragged|qwen3_vl|gemma3_mm) kv-cache", ANY, ONES),
    Explained("vllm", "jamba kv-cache", ANY, "vLLM 0.32 has no place for the factors of Jamba's cache, and stops; verify does not know it"),
    Explained("sglang", "(falcon_h1|qwen3_next) kv-cache", ANY, "SGLang 0.5.23 stops, as for the rows of the same model, or at the names of "
              "the factors; verify does not know it"),
    Explained("sglang", "granite4 (blockwise|current|mxfp8)", "hf", "SGLang 0.5.23 asks a function of every configuration that only "
              "compressed-tensors has, and stops; verify does not know it"),
    Explained("sglang", "qwen3_next (current|delayed)", ANY, "SGLang 0.5.23 has one scale for each of the four parts of in_proj_qkvz, which is "
              "one tensor, and stops; verify does not know it"),
    Explained("sglang", "nemotron_h (?!mxfp8).*", "compressed-tensors", "SGLang 0.5.23 makes room for a gate that these experts do not have, "
              "and leaves it empty: whether its products are wrong needs a GPU"),
    Explained("sglang", ".* mxfp8 without --target(, the plan of --target)?", "modelopt", "its loader takes them as its own MXFP8; its kernels "
              "are for SM100 alone and were not run, so the plan does not promise them"),
    Explained("sglang", "gemma3_mm .*", ANY, "the vision tower has a weight that this class never loads, in BF16 neither"),
    Explained("transformers", "(qwen3_moe|mixtral|deepseek_v3|qwen3_next|qwen3_5_moe|nemotron_h|jamba|moe192|moe192 ragged) (blockwise|mxfp8)( "
              "without --target)?", "compressed-tensors", "transformers 5.23 finds blocks of experts only where an expert is one block, and "
              "stops; verify does not know it"),
    Explained("transformers", "(smollm2|moe192) ragged .*", ANY, "partial blocks stop in the forward pass, which is not run here; the plan "
              "refuses the option whatever the recipe"),
)


def reason(engine: str, what: str, form: str) -> Explained | None:
    return next((row for row in EXPLAINED if row.fits(engine, what, form)), None)
