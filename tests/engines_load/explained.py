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
    Explained("sglang", "(qwen3|qwen3_moe|mixtral|moe192|moe192 ragged|qwen3_vl|qwen2_5_vl) kv-cache", ANY, ONES),
    Explained("sglang", "nemotron_h (?!mxfp8).*", "compressed-tensors", "SGLang 0.5.23 makes room for a gate that these experts do not have, "
              "and leaves it empty: whether its products are wrong needs a GPU"),
    Explained("transformers", "(smollm2|moe192) ragged .*", ANY, "partial blocks stop in the forward pass, which is not run here; the plan "
              "refuses the option whatever the recipe"),
)


def reason(engine: str, what: str, form: str) -> Explained | None:
    return next((row for row in EXPLAINED if row.fits(engine, what, form)), None)
