#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a model of MXFP4 experts as compressed-tensors packs them, of Kimi's shapes.

    low_bit_model.py --mib N DIR     about so many MiB in one file; the same arguments give the same bytes
"""
import argparse
import json
import pathlib
import random

WIDTH, HIDDEN = 2048, 7168
SHAPES = {"gate_proj": (WIDTH, HIDDEN), "up_proj": (WIDTH, HIDDEN), "down_proj": (HIDDEN, WIDTH)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, required=True)
    parser.add_argument("dir", type=pathlib.Path)
    options = parser.parse_args()
    r = random.Random(0)
    # Eight binades, as in a release: blocks hold them exactly.
    bytes_of = {"weight_packed": r.randbytes(WIDTH * HIDDEN // 2), "weight_scale": bytes(118 + b % 8 for b in r.randbytes(WIDTH * HIDDEN // 32))}
    header, parts, at, e = {}, [], 0, 0
    while at < options.mib << 20:
        for name, (rows, cols) in SHAPES.items():
            for word, columns in (("weight_packed", cols // 2), ("weight_scale", cols // 32)):
                data = bytes_of[word]
                header[f"model.layers.0.mlp.experts.{e}.{name}.{word}"] = {
                    "dtype": "U8", "shape": [rows, columns], "data_offsets": [at, at + len(data)]}
                parts.append(data)
                at += len(data)
        e += 1
    options.dir.mkdir()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(options.dir / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for data in parts:
            file.write(data)
    config = {"model_type": "kimi_k2", "hidden_size": HIDDEN, "moe_intermediate_size": WIDTH,
              "quantization_config": {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}}
    (options.dir / "config.json").write_text(json.dumps(config))


main()
