# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with low-bit weights in every packing, made and decoded without fp8conv.

low_bit.py packings                 their names
low_bit.py make PACKING DIR         a checkpoint in DIR with scales of every size
low_bit.py nan PACKING DIR          the same, an exponent that is NaN among them
low_bit.py finite PACKING DIR       the same, all of it small
low_bit.py wide PACKING DIR         the same, but groups of a block differ by more than FP8 holds
low_bit.py high PACKING DIR         such groups, of which the largest are far above 1
low_bit.py check PACKING OUT DTYPE  OUT is what `make` made in bf16, f16 or f32: every bit, and nothing else
low_bit.py beyond PACKING DTYPE     say where no value is beyond the type
low_bit.py counts PACKING KIND OUT  of KIND (finite or wide): "type tensors exact values changed first" of OUT's codes and scales
low_bit.py passed PACKING OUT       OUT has the low-bit tensors of `finite` byte for byte, o_proj in blocks, and says both
low_bit.py amax PACKING KIND        of its weights: name, type, sides, and the largest magnitude
low_bit.py model PACKING MODEL OUT VALUES  the matrices of MODEL's experts and MLPs are random in OUT, and decoded as F32 in VALUES
low_bit.py same A B                 two outputs have the same tensors and, as JSON, the same config.json

Products of a code and a scale are exact in double, so that rounding them once to fp32 is fp32's own product.
"""
import json
import math
import pathlib
import random
import re
import struct
import sys

import checkpoint
import fp8

H, I, E = 256, 128, 2
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def ct(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form, "version": "0.13.0", "ignore": ["lm_head", "re:.*self_attn.*"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                "num_bits": 4, "symmetric": True, "dynamic": False, **weights}, "input_activations": None}}}



# end of the packed tensor's name, its type; end of the scale's name, its type; elements with one scale; name and use of the
# tensor's own scale; projections of an expert; keys of config.json
PACKINGS = {
    "gpt-oss": ("_blocks", "U8", "_scales", "U8", 32, None, ("gate_up", "down"),
                {"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4"}}),
    "deepseek-v4": (".weight", "I8", ".scale", "F8_E8M0", 32, None, ("w1", "w3", "w2"),
                    {"expert_dtype": "fp4", "quantization_config": fp8.BLOCKS | {"scale_fmt": "ue8m0"}}),
    "ling-3": (".weight", "I8", ".weight_scale_inv", "U8", 32, None, ("gate_proj", "up_proj", "down_proj"),
               {"quantization_config": fp8.BLOCKS | {"routed_experts_quant_method": "mxfp4"}}),
    "ct-mxfp4": (".weight_packed", "U8", ".weight_scale", "U8", 32, None, ("gate_proj", "up_proj", "down_proj"),
                 {"quantization_config": ct("mxfp4-pack-quantized", type="float", strategy="group", group_size=32)}),
    "ct-int4": (".weight_packed", "I32", ".weight_scale", "BF16", 32, None, ("gate_proj", "up_proj", "down_proj"),
                {"quantization_config": ct("pack-quantized", type="int", strategy="group", group_size=32)}),
    "ct-nvfp4": (".weight_packed", "U8", ".weight_scale", "F8_E4M3", 16, (".weight_global_scale", True),
                 ("gate_proj", "up_proj", "down_proj"), {"quantization_config": ct("nvfp4-pack-quantized", type="float", strategy="tensor_group", group_size=16)}),
    "modelopt-nvfp4": (".weight", "U8", ".weight_scale", "F8_E4M3", 16, (".weight_scale_2", False),
                       ("gate_proj", "up_proj", "down_proj"),
                       {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}),
}
GLOBAL = 0.3
f32 = fp8.f32


def value_of(packing, code):
    if PACKINGS[packing][1] == "I32":
        return float(code - 8)
    return math.copysign(E2M1[code & 7], -1.0 if code & 8 else 1.0)


def type_of(packing):
    return {"U8": "MXFP4", "F8_E8M0": "MXFP4", "BF16": "INT4", "F8_E4M3": "NVFP4"}[PACKINGS[packing][3]]


def scales_of(packing, kind, n, r):
    """The bytes of n scales, and their values in fp32."""
    dtype, own = PACKINGS[packing][3], PACKINGS[packing][5]
    if dtype in ("U8", "F8_E8M0"):
        data = bytes((0, 1, 127, 252, 251, 250 if kind == "make" else 255)[i] if i < 6 and kind in ("make", "nan") else
                     r.choice((100, 125)) if kind == "wide" else r.randrange(100, 150) if kind == "high" else
                     r.randrange(118, 126) for i in range(n))
    elif dtype == "BF16":
        data = checkpoint.pack(dtype, [r.uniform(0.5, 1) * 2.0 ** r.randrange(-40 if kind == "wide" else -12, -5) for _ in range(n)])
    else:
        data = bytes(0x7E if i == 0 and kind == "make" else r.randrange(1, 0x7F) for i in range(n))
        scales = [fp8.decode(code, dtype) for code in data]
        return data, [f32(scale / f32(GLOBAL) if own[1] else scale * f32(GLOBAL)) for scale in scales]
    return data, fp8.scale_values(dtype, data)


def matrices():
    """(projection, rows, columns) of an expert, by the order of PACKINGS' projections."""
    return [(I, H), (I, H), (H, I)]


def pack(packing, kind, r, tensors, name, shape):
    """Adds the tensors of a random weight.  Returns its values."""
    packed, packed_dtype, scale, scale_dtype, group, own, _, _ = PACKINGS[packing]
    n, rows, per = math.prod(shape), shape[:-1], 8 if packed_dtype == "I32" else 2
    codes = r.randbytes(n // 2)
    scale_data, scales = scales_of(packing, kind, n // group, r)
    table = [value_of(packing, code) for code in range(16)]
    values = [f32(table[codes[i // 2] >> i % 2 * 4 & 15] * scales[i // group]) for i in range(n)]
    tensors[name + packed] = (packed_dtype, rows + ([shape[-1] // 32, 16] if len(shape) == 3 else [shape[-1] // per]), codes)
    tensors[name + scale] = (scale_dtype, rows + [shape[-1] // group], scale_data)
    if own:
        tensors[name + own[0]] = ("F32", [1] if own[1] else [], struct.pack("<f", GLOBAL))
        tensors[name + (".input_global_scale" if own[1] else ".input_scale")] = ("F32", [1], struct.pack("<f", 8.0))
    if packed_dtype == "I32":
        tensors[name + ".weight_shape"] = ("I32", [2], struct.pack("<2i", *shape))
    return values


def weights(packing, kind):
    """The tensors of the weights {name: (dtype, shape, data)}, and {logical name: (shape, values)}."""
    r = random.Random(packing + kind)
    tensors, logical = {}, {}

    if packing == "gpt-oss":
        for name, rows, cols in (("gate_up_proj", 2 * I, H), ("down_proj", H, I)):
            stem = "model.layers.0.mlp.experts." + name
            values = pack(packing, kind, r, tensors, stem, [E, rows, cols])
            logical[stem] = ([E, rows, cols], values)
            tensors[stem + "_bias"] = ("BF16", [E, rows], r.randbytes(E * rows * 2).replace(b"\x7f", b"\0").replace(b"\xff", b"\0"))
        return tensors, logical
    for e in range(E):
        for projection, (rows, cols) in zip(PACKINGS[packing][6], matrices()):
            stem = f"model.layers.0.mlp.experts.{e}.{projection}"
            logical[stem + ".weight"] = ([rows, cols], pack(packing, kind, r, tensors, stem, [rows, cols]))
    return tensors, logical


def split(packing, logical):
    """The logical weights as the matrices of `quantize`."""
    if packing != "gpt-oss":
        return logical
    out = {}
    for stem, (shape, values) in logical.items():
        prefix, part = stem.rsplit(".", 1)
        rows, cols = shape[1:]
        for e in range(E):
            matrix = [values[(e * rows + row) * cols:(e * rows + row + 1) * cols] for row in range(rows)]
            for name, lines in (("down_proj", matrix),) if part == "down_proj" else (("gate_proj", matrix[::2]), ("up_proj", matrix[1::2])):
                out[f"{prefix}.{e}.{name}.weight"] = ([len(lines), cols], [v for line in lines for v in line])
    return out


def kept(packing):
    r = random.Random(packing + "kept")
    bf16 = lambda n: checkpoint.pack("BF16", [r.gauss(0, 0.02) for _ in range(n)])
    return {"model.layers.0.self_attn.o_proj.weight": ("BF16", [H, H], bf16(H * H)),
            "model.norm.weight": ("BF16", [H], bf16(H))}


def write(packing, kind, folder):
    folder = pathlib.Path(folder)
    folder.mkdir()
    checkpoint.write(folder / "model.safetensors", weights(packing, kind)[0] | kept(packing))
    config = {"hidden_size": H, "moe_intermediate_size": I} | PACKINGS[packing][7]
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def transposed(shape, values):
    e, rows, cols = shape
    return [e, cols, rows], [values[(m * rows + row) * cols + col] for m in range(e) for col in range(cols) for row in range(rows)]


def check(packing, out, dtype):
    tensors, logical = weights(packing, "make")
    wanted = kept(packing) | {name: t for name, t in tensors.items() if name.endswith("_bias")}
    for name, (shape, values) in logical.items():
        if packing == "gpt-oss":              # the layout of the family in BF16
            shape, values = transposed(shape, values)
        wanted[name] = (dtype.upper(), shape, b"".join(fp8.encode(v, dtype) for v in values))
    checkpoint.compare(checkpoint.read(out), wanted, f"{packing} {dtype}: ")
    config = json.loads((pathlib.Path(out) / "config.json").read_text())
    if "quantization_config" in config or "expert_dtype" in config:
        print(f"{packing}: config.json has {config}")


def beyond(packing, dtype):
    """Is a value beyond the type?  Only f16 is too small for one of them."""
    values = [v for _, values in weights(packing, "make")[1].values() for v in values]
    if dtype != "f16" or max(map(abs, values)) < 65520:
        print(f"{packing} {dtype}: refused, and all values are in the range of the type")


def pack_model(packing, model, out, values):
    """Models whose experts lie in stacks have them as in BF16, [experts, in, out]; packed rows are outputs."""
    tensors, config = checkpoint.read(model), json.loads((pathlib.Path(model) / "config.json").read_text())
    decoded, r, n = dict(tensors), random.Random(packing), 0
    for name, (_, shape, _) in list(tensors.items()):
        stack = len(shape) == 3 and ".experts." in name
        matrix = PACKINGS[packing][0] != "_blocks" and re.search(r"\.(mlp|ffn)\..*(proj|w[123])\.weight$|o_proj\.weight$", name)
        if not stack and not matrix:
            continue
        stem = name.removesuffix(".weight")
        shape = [shape[0], shape[2], shape[1]] if stack else shape
        if shape[-1] % PACKINGS[packing][4]:
            continue
        del tensors[name]
        found = pack(packing, "finite", r, tensors, stem, shape)
        shape, found = transposed(shape, found) if stack else (shape, found)
        decoded[name] = ("F32", shape, checkpoint.pack("F32", found))
        n += 1
    tensors = {f"model.layers.{i}._extra_state": ("U8", [8], bytes(8)) for i in range(99)} | tensors
    for folder, content, more in ((out, tensors, PACKINGS[packing][7]), (values, decoded, {})):
        pathlib.Path(folder).mkdir()
        checkpoint.write(pathlib.Path(folder) / "model.safetensors", content)
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config | {k: v for k, v in more.items() if k != "model_type"}))
    print(n)


def scales_at(dtype, shape, data, rows, cols):
    """A function from row and column to the scale."""
    values = fp8.scale_values(dtype, data)
    n_cols = shape[1] if len(shape) == 2 else 1
    tile_rows, tile_cols = -(-rows // shape[0]), -(-cols // n_cols)
    return lambda row, col: values[row // tile_rows * n_cols + col // tile_cols]


def counts(packing, kind, out):
    found = checkpoint.read(out)
    n_exact = n_values = n_changed = 0
    first, matrices = None, split(packing, weights(packing, kind)[1])
    for name in matrices:
        (rows, cols), values = matrices[name]
        dtype, shape, codes = found[name]
        scale = next(found[name + word] for word in ("_scale_inv", "_scale") if name + word in found)
        at, table = scales_at(*scale, rows, cols), [fp8.decode(code, dtype) for code in range(256)]
        changed = 0
        for i, v in enumerate(values):
            u = f32(table[codes[i]] * at(i // cols, i % cols))
            changed += u != v or math.copysign(1, u) != math.copysign(1, v)
        n_exact += not changed
        n_values += len(values)
        n_changed += changed
        first = first or (name if changed else None)
    print(type_of(packing), len(matrices), n_exact, n_values, n_changed, first)


def amax(packing, kind):
    for name, (shape, values) in weights(packing, kind)[1].items():
        print(name, type_of(packing), "x".join(map(str, shape)), "%.9g" % max(map(abs, values)))


def passed(packing, out):
    tensors = weights(packing, "finite")[0]
    found = checkpoint.read(out)
    checkpoint.compare({name: found[name] for name in found if name in tensors}, tensors, f"{packing}: ")
    if found["model.layers.0.self_attn.o_proj.weight"][0] != "F8_E4M3":
        print(f"{packing}: o_proj is {found['model.layers.0.self_attn.o_proj.weight'][0]}")
    source = PACKINGS[packing][7]
    config = json.loads((pathlib.Path(out) / "config.json").read_text())
    q, before = config["quantization_config"], source["quantization_config"]
    if packing.startswith("ct-"):
        groups = list(q["config_groups"].items())
        theirs = before["config_groups"]["group_0"] | {"format": before["format"]}
        ours = groups[0][1]
        held = (q["format"] == "mixed-precision" and q["version"] == "0.13.0" and q["ignore"] == ["lm_head"] and len(groups) == 2
                and groups[1] == ("group_0", theirs) and ours["targets"] == ["model.layers.0.self_attn.o_proj"]
                and ours["weights"]["num_bits"] == 8 and ours["weights"]["strategy"] == "block" and ours["format"] == "float-quantized")
    elif packing == "modelopt-nvfp4":
        layers = {name.removesuffix(".weight"): {"quant_algo": "NVFP4", "group_size": 16} for name in tensors if name.endswith("proj.weight")}
        layers["model.layers.0.self_attn.o_proj"] = {"quant_algo": "FP8_PB_WO", "group_size": 128}
        other = json.loads((pathlib.Path(out) / "hf_quant_config.json").read_text())["quantization"]
        held = (q["quant_algo"] == other["quant_algo"] == "MIXED_PRECISION" and q["quantized_layers"] == other["quantized_layers"] == layers
                and q["ignore"] == other["exclude_modules"] == ["lm_head"])
    else:
        held = (q["quant_method"] == "fp8" and q["weight_block_size"] == [128, 128] and q["modules_to_not_convert"] == ["lm_head"]
                and config.get("expert_dtype") == source.get("expert_dtype")
                and q.get("routed_experts_quant_method") == before.get("routed_experts_quant_method"))
    if not held:
        print(f"{packing}: config.json has {config}")


def same(a, b):
    checkpoint.compare(checkpoint.read(a), checkpoint.read(b), f"{a} and {b} differ: ")
    configs = [json.loads((pathlib.Path(folder) / "config.json").read_text()) for folder in (a, b)]
    if configs[0] != configs[1]:
        print(f"{a} and {b} differ in config.json: {configs}")


def main():
    command, *rest = sys.argv[1:]
    if command == "packings":
        print(*PACKINGS)
    elif command in ("make", "nan", "finite", "wide", "high"):
        write(rest[0], command, rest[1])
    else:
        {"check": check, "beyond": beyond, "counts": counts, "amax": amax, "passed": passed, "same": same,
         "model": pack_model}[command](*rest)


if __name__ == "__main__":
    main()
