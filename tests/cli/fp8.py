# SPDX-License-Identifier: Apache-2.0
"""FP8 checkpoints in every variant that can be read, made and decoded without fp8conv; the other programs of this folder take
the values of codes and scales from here.

fp8.py variants                 their names
fp8.py make VARIANT DIR         a checkpoint in DIR
fp8.py check VARIANT OUT DTYPE  OUT is that checkpoint in bf16, f16 or f32: every bit, and nothing else
fp8.py beyond VARIANT DTYPE     say where no value is beyond the type
fp8.py finite VARIANT DIR       the same as make, all of it finite
fp8.py amax VARIANT             of that: the matrices by their modules, what they take, and the largest magnitude

Products are exact in double (4 x 24 bits), so that rounding them once to fp32 is fp32's own product.
"""
import json
import math
import pathlib
import random
import struct
import sys

import checkpoint

CODES = {"F8_E4M3": (4, 3), "F8_E5M2": (5, 2)}
HF = {"quant_method": "fp8", "activation_scheme": "dynamic"}
BLOCKS = HF | {"weight_block_size": [128, 128]}


def ct(strategy, **more):
    weights = {"num_bits": 8, "type": "float", "strategy": strategy, **more}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {
        "weights": weights, "input_activations": {"dynamic": True}, "targets": ["Linear"]}}}


def modelopt(algo):
    return {"quant_method": "modelopt", "quant_algo": algo}


# shape and type of the weight, name and type and shape of its scale, rows and columns that share one, quantization_config,
# tensors that go with it.  0 rows or columns: all.
VARIANTS = {
    "hf-block": ([200, 300], "F8_E4M3", "weight_scale_inv", "F32", [2, 3], (128, 128), BLOCKS, []),
    "hf-block-tall": ([17000, 16], "F8_E4M3", "weight_scale_inv", "F32", [133, 1], (128, 128), BLOCKS, []),
    "hf-tensor": ([200, 300], "F8_E4M3", "weight_scale", "F32", [1], (0, 0), HF, []),
    "hf-static": ([200, 300], "F8_E5M2", "weight_scale_inv", "F32", [], (0, 0),
                  HF | {"activation_scheme": "static", "weight_block_size": None}, ["a.activation_scale"]),
    "ct-tensor": ([200, 300], "F8_E4M3", "weight_scale", "F32", [1], (0, 0), ct("tensor"),
                  ["a.input_scale", "model.layers.0.self_attn.k_scale", "model.layers.0.self_attn.v_scale"]),
    "ct-channel": ([200, 300], "F8_E4M3", "weight_scale", "F32", [200, 1], (1, 0), ct("channel"), []),
    "ct-channel-bf16": ([200, 300], "F8_E4M3", "weight_scale", "BF16", [200, 1], (1, 0), ct("channel"), []),
    "ct-block-f16": ([130, 257], "F8_E4M3", "weight_scale", "F16", [2, 3], (128, 128),
                     ct("block", block_structure=[128, 128]), []),
    "ct-block-64": ([200, 300], "F8_E4M3", "weight_scale", "F32", [4, 5], (64, 64),
                    ct("block", block_structure=[64, 64]), []),
    "modelopt-tensor": ([200, 300], "F8_E4M3", "weight_scale", "F32", [], (0, 0), modelopt("FP8"),
                        ["a.input_scale", "m.0.self_attn.k_proj.k_scale", "m.0.self_attn.v_proj.v_scale"]),
    "modelopt-channel": ([200, 300], "F8_E4M3", "weight_scale", "F32", [200], (1, 0),
                         modelopt("FP8_PER_CHANNEL_PER_TOKEN"), []),
    "modelopt-4d": ([256, 384], "F8_E4M3", "weight_scale", "F32", [2, 1, 3, 1], (128, 128), modelopt("fp8_pb_wo"), []),
    "mxfp8": ([70, 320], "F8_E4M3", "weight_scale_inv", "U8", [70, 10], (1, 32), {"quant_method": "mxfp8"}, []),
    "mxfp8-e8m0": ([70, 320], "F8_E5M2", "weight_scale", "F8_E8M0", [70, 10], (1, 32), modelopt("MXFP8"), []),
    "deepseek-v4": ([200, 300], "F8_E4M3", "scale", "F8_E8M0", [2, 3], (128, 128), BLOCKS | {"scale_fmt": "ue8m0"}, []),
    "comfyui": ([200, 300], "F8_E4M3", "scale_weight", "F32", [], (0, 0), None, ["a.scale_input", "scaled_fp8"]),
    "gptqmodel": ([200, 300], "F8_E4M3", "weight_scale_inv", "F32", [2, 3], (128, 128),
                  BLOCKS | {"meta": {"quantizer": ["gptqmodel:5.0"]}}, []),
    "gptqmodel-channel": ([200, 300], "F8_E4M3", "weight_scale_inv", "F32", [200], (1, 0),
                          HF | {"weight_scale_semantics": "inverse"}, []),
    "experts": ([3, 130, 200], "F8_E4M3", "weight_scale_inv", "F32", [3, 2, 2], (128, 128), BLOCKS, []),
    "experts-channel": ([3, 130, 200], "F8_E4M3", "weight_scale", "F32", [3, 130, 1], (1, 0), ct("channel"), []),
    "experts-shared": ([3, 130, 200], "F8_E4M3", "weight_scale", "F32", [1], (0, 0), HF, []),
}


def f32(value):
    """Rounded to fp32; a quotient of two fp32 that was rounded to double before is the fp32 quotient."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def decode(code, dtype):
    e_bits, m_bits = CODES[dtype]
    bias = (1 << e_bits - 1) - 1
    sign, e, m = (-1.0 if code & 0x80 else 1.0), code >> m_bits & (1 << e_bits) - 1, code & (1 << m_bits) - 1
    if dtype == "F8_E4M3" and code & 0x7F == 0x7F or dtype == "F8_E5M2" and code & 0x7F > 0x7C:
        return math.nan
    if dtype == "F8_E5M2" and code & 0x7F == 0x7C:
        return sign * math.inf
    return sign * (math.ldexp(m, 1 - bias - m_bits) if e == 0 else math.ldexp((1 << m_bits) + m, e - bias - m_bits))


def scale_values(dtype, data):
    """U8 and F8_E8M0 are exponents."""
    if dtype in ("U8", "F8_E8M0"):
        return [math.nan if code == 255 else math.ldexp(1.0, code - 127) for code in data]
    return checkpoint.unpack(dtype, data)


def encode(value, dtype):
    """The bytes of an fp32 value in the type, rounded once; NaN is the positive quiet one."""
    if math.isnan(value):
        return {"f32": b"\0\0\xc0\x7f", "bf16": b"\xc0\x7f", "f16": b"\0\x7e"}[dtype]
    if dtype == "f32":
        return struct.pack("<f", value)
    if dtype == "f16":
        try:
            return struct.pack("<e", value)
        except OverflowError:
            return struct.pack("<e", math.copysign(math.inf, value))
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


finite = False


def make_scales(variant, n):
    """The bytes of n scales: of every size, and with the mantissas that the type holds."""
    dtype, r = VARIANTS[variant][3], random.Random(variant)
    if dtype in ("U8", "F8_E8M0"):
        return bytes((0, 1, 127, 238)[i] if i < 4 and not finite else r.randrange(100, 140) for i in range(n))
    return checkpoint.pack(dtype, [r.uniform(0.5, 1) * 2.0 ** r.randrange(-12, 3) for _ in range(n)])


def parts(variant):
    """The weight's codes, its scales, and what goes with them: {name: (dtype, shape, data)}."""
    shape, dtype, word, scale_dtype, scale_shape, _, _, more = VARIANTS[variant]
    codes = random.Random(variant + "codes").randbytes(math.prod(shape))
    lowest = 0x7F if dtype == "F8_E4M3" else 0x7C                   # code that is not finite
    codes = bytes(0x55 if code & 0x7F >= lowest else code for code in codes)
    if finite:
        codes = bytes(0 if code & 0x7F > 0x70 else code for code in codes)
    scales = make_scales(variant, math.prod(scale_shape))
    stem = "experts.gate_up_proj" if variant.startswith("experts") else "a.weight"
    scale_name = stem + word.removeprefix("weight") if stem != "a.weight" else f"a.{word}"
    tensors = {stem: (dtype, shape, codes), scale_name: (scale_dtype, scale_shape, scales)}
    for name in more:
        tensors[name] = ("F8_E4M3", [0], b"") if name == "scaled_fp8" else ("F32", [1], struct.pack("<f", 0.25))
    return stem, tensors, scale_values(scale_dtype, scales)


KEPT = {"norm.weight": ("F32", [5], bytes(range(20))), "b.weight": ("BF16", [3, 2], bytes(range(12))),
        "scale": ("F16", [2], b"\1\2\3\4")}


def make(variant, folder):
    folder = pathlib.Path(folder)
    folder.mkdir()
    checkpoint.write(folder / "model.safetensors", parts(variant)[1] | KEPT)
    config = VARIANTS[variant][6]
    if config:
        more = {"hidden_size": VARIANTS[variant][0][-1]} if finite else {}
        (folder / "config.json").write_text(json.dumps({"a": 1, "quantization_config": config, "z": 2} | more, indent=2))
    if (config or {}).get("quant_method") == "modelopt":
        (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": config["quant_algo"]}}))


def values(variant, dtype):
    shape, code_dtype, _, _, scale_shape, (tile_rows, tile_cols), _, _ = VARIANTS[variant]
    stem, tensors, scales = parts(variant)
    if variant.startswith("gptqmodel"):
        scales = [f32(1.0 / value) for value in scales]
    rows, cols = shape[-2:]
    n_cols = -(-cols // tile_cols) if tile_cols else 1
    grid = (-(-rows // tile_rows) if tile_rows else 1) * n_cols
    table = [decode(code, code_dtype) for code in range(256)]
    out = []
    for i, code in enumerate(tensors[stem][2]):
        matrix, row, col = i // (rows * cols), i // cols % rows, i % cols
        at = (row // tile_rows if tile_rows else 0) * n_cols + (col // tile_cols if tile_cols else 0)
        scale = scales[at + (matrix * grid if len(scales) > grid else 0)]
        out.append(encode(f32(table[code] * scale), dtype))
    return stem, b"".join(out)


def check(variant, out, dtype):
    stem, data = values(variant, dtype)
    wanted = KEPT | {stem: (dtype.upper(), VARIANTS[variant][0], data)}
    checkpoint.compare(checkpoint.read(out), wanted, f"{variant} {dtype}: ")
    config = pathlib.Path(out) / "config.json"
    text = config.read_text() if config.exists() else None
    if text != (json.dumps({"a": 1, "z": 2}, indent=2) if VARIANTS[variant][6] else None):
        print(f"{variant}: config.json is {text!r}")
    if (pathlib.Path(out) / "hf_quant_config.json").exists():
        print(f"{variant}: hf_quant_config.json is left")


def beyond(variant, dtype):
    """Is a value beyond the type?  Only f16 is too small for one of them."""
    data = values(variant, dtype)[1]
    if dtype != "f16" or all(math.isfinite(v) for v in struct.unpack(f"<{len(data) // 2}e", data)):
        print(f"{variant} {dtype}: refused, and all values are in the range of the type")


def amaxes(variant):
    """Of experts, the upper half of each is its gate."""
    data, shape = values(variant, "f32")[1], VARIANTS[variant][0]
    numbers = [abs(v) for v in struct.unpack(f"<{len(data) // 4}f", data)]
    rows, cols = shape[-2:]
    for m in range(len(numbers) // (rows * cols)):
        block = numbers[m * rows * cols:(m + 1) * rows * cols]
        if len(shape) == 2:
            print("a", cols, max(block))
            continue
        print(f"experts.{m}.gate_up_proj", cols, max(block))
        if VARIANTS[variant][5][0] != 128:                    # whose blocks end there
            print(f"experts.{m}.gate_proj", cols, max(block[:rows // 2 * cols]))
            print(f"experts.{m}.up_proj", cols, max(block[rows // 2 * cols:]))


def main():
    global finite
    command, *rest = sys.argv[1:]
    finite = command in ("finite", "amax")
    if command == "variants":
        print(*VARIANTS)
    elif finite:
        {"finite": make, "amax": amaxes}[command](*rest)
    else:
        {"make": make, "check": check, "beyond": beyond}[command](*rest)


if __name__ == "__main__":
    main()
