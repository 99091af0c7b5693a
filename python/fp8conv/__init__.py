# SPDX-License-Identifier: Apache-2.0
"""FP8 as TransformerEngine has it, on tensors of numpy and torch, and every command of fp8conv: fp8conv-python(7).

    codes, scale_inv = fp8conv.quantize(w, "blockwise")
    w = fp8conv.dequantize(codes, scale_inv, dtype="bf16")
    fp8conv.run("quantize", "MODEL", output="OUT", recipe="mxfp8")
"""
from ._c import Error, lib as _lib
from .autocast import Quantizer, RecipeState, autocast
from .jobs import Progress, Result, run
from .plan import Change, Entry, Output, Plan
from .tensors import amax, dequantize, quantize

__all__ = ["Change", "Entry", "Error", "Output", "Plan", "Progress", "Quantizer", "RecipeState", "Result", "amax", "autocast", "dequantize", "quantize", "run"]
__version__: str = _lib.fp8conv_version().decode()
