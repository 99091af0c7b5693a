# SPDX-License-Identifier: Apache-2.0
"""transformers' from_pretrained, which makes BF16 of FP8 on a CPU: fine-grained FP8 always, compressed-tensors when asked."""
import json
import pathlib

import torch
from loguru import logger
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, CompressedTensorsConfig
from transformers.utils import logging

from held import CODES, Held

# What dequantized weights have no use for.
UNUSED = ("input_scale", "activation_scale", ".k_scale", ".v_scale")

logger.remove()
logging.disable_progress_bar()


def load(folder: pathlib.Path, steps: list[str]) -> Held:
    """What the loader reports as missing, unexpected or of another shape is no right checkpoint either."""
    steps.append("loading")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    method = config.get("quantization_config", {}).get("quant_method")
    more = {"quantization_config": CompressedTensorsConfig(dequantize=True)} if method == "compressed-tensors" else {}
    auto = AutoModelForImageTextToText if "vision_config" in config else AutoModelForCausalLM
    model, info = auto.from_pretrained(folder, dtype=torch.bfloat16, output_loading_info=True, **more)
    found = Held({name: p.data.to(torch.bfloat16) for name, p in model.named_parameters() if not name.endswith("_scale")})
    found.fp8 = {name for name, value in found.values.items() if value.ndim > 1}        # which were codes is not told
    for kind, names in info.items():
        if told := sorted(n for n in map(str, names) if not n.endswith(UNUSED)):
            found.odd[kind] = ", ".join(told[:2])
    found.odd |= {name: "codes without a scale" for name, p in model.named_parameters() if p.dtype in CODES}
    return found
