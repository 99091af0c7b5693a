# SPDX-License-Identifier: Apache-2.0
"""The checks of checks.py find what they are for: one damage each, in an output that is right."""
import json
import pathlib
import shutil
from collections.abc import Callable, Iterator

import checks
from cases import Case, plain
from checkpoint import INDEX, read_checkpoint, read_file
from expected import Codes, Expected, Model
from harness import finish, quantize, report, sample, scratch, silence

Damage = Callable[[pathlib.Path], None]
FILE = "model-00001-of-00002.safetensors"


def flip(dtype: str, suffix: str) -> Damage:
    """One bit in the middle of the first tensor of that kind."""
    def damage(out: pathlib.Path) -> None:
        file, name, tensor = next(t for t in read_checkpoint(out) if t[2].dtype == dtype and t[1].endswith(suffix))
        whole = bytearray((out / file).read_bytes())
        start = 8 + int.from_bytes(whole[:8], "little")
        offset = json.loads(whole[8:start])[name]["data_offsets"][0]
        whole[start + offset + tensor.data.nbytes // 2] ^= 1
        (out / file).write_bytes(whole)
    return damage


def replace(file: str, old: str, new: str) -> Damage:
    def damage(out: pathlib.Path) -> None:
        text = (out / file).read_bytes()
        assert old.encode() in text, f"{file} has no {old}"
        (out / file).write_bytes(text.replace(old.encode(), new.encode(), 1))
    return damage


def edit(file: str, change: Callable[[dict], object]) -> Damage:
    def damage(out: pathlib.Path) -> None:
        content = json.loads((out / file).read_text(encoding="utf-8"))
        change(content)
        (out / file).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return damage


def header(change: Callable[[dict], object], padding: int = 0) -> Damage:
    def damage(out: pathlib.Path) -> None:
        whole = (out / FILE).read_bytes()
        start = 8 + int.from_bytes(whole[:8], "little")
        content = json.loads(whole[8:start])
        change(content)
        text = json.dumps(content, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8 + padding)
        (out / FILE).write_bytes(len(text).to_bytes(8, "little") + text + whole[start:])
    return damage


def swap_names(content: dict) -> None:
    """Two tensors of the same size under each other's name."""
    a, b = "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight"
    content[a], content[b] = content[b], content[a]


def config_key(key: str, change: Callable[[dict], object]) -> Damage:
    return edit("config.json", lambda content: change(content[key]))


DAMAGES: list[tuple[str, Damage]] = [
    ("a code", flip("F8_E4M3", ".weight")),
    ("a scale", flip("F32", "_scale_inv")),
    ("a kept tensor", flip("BF16", "norm.weight")),
    ("a type", replace(FILE, '"F8_E4M3"', '"F8_E5M2"')),
    ("names", header(swap_names)),
    ("a shape", replace(FILE, '"shape":[1,1]', '"shape":[1]  ')),
    ("padding", header(lambda content: None, 8)),
    ("metadata", header(lambda content: content.pop("__metadata__"))),
    ("the order of the header", header(lambda content: content.update(__metadata__=content.pop("__metadata__")))),
    ("total_size", replace(INDEX, '"total_size": ', '"total_size": 1')),
    ("weight_map", replace(INDEX, "00001-of", "00002-of")),
    ("an ignored module less", config_key("quantization_config", lambda q: q["modules_to_not_convert"].pop())),
    ("an ignored module more", config_key("quantization_config", lambda q: q["modules_to_not_convert"].append("x"))),
    ("scale_fmt", config_key("quantization_config", lambda q: q.pop("scale_fmt"))),
    ("another key's value", replace("config.json", '"hidden_size": 128', '"hidden_size": 129')),
    ("another key's spelling", replace("config.json", "1e-06", "0.000001")),
    ("another key's place", edit("config.json", lambda c: c.update(hidden_size=c.pop("hidden_size")))),
    ("hf_quant_config.json", lambda out: (out / "hf_quant_config.json").write_text("{}")),
    ("an auxiliary file", replace("generation_config.json", "16", "17")),
    ("an auxiliary file less", lambda out: (out / "tokenizer.json").unlink()),
    ("weights in another container", lambda out: (out / "pytorch_model.bin").write_bytes(b"")),
]


def found(damage: Damage, good: pathlib.Path, source: pathlib.Path, case: Case, expected: Expected) -> Iterator[str]:
    with scratch() as tmp:
        shutil.copytree(good, tmp / "out")
        damage(tmp / "out")
        if not list(checks.everything(tmp / "out", source, case, expected)):
            yield "not noticed"


def main() -> None:
    if folder := sample("tiny-moe/per-expert"):
        case = plain("blockwise", "hf")
        expected = Model(folder, Codes()).expect(case)
        with scratch() as tmp:
            report("undamaged", [*silence(quantize(folder, tmp / "good", *case.arguments())),
                                 *checks.everything(tmp / "good", folder, case, expected)])
            assert read_file(tmp / "good" / FILE)
            for name, damage in DAMAGES:
                report(f"damage is noticed: {name}", found(damage, tmp / "good", folder, case, expected))
    finish()


if __name__ == "__main__":
    main()
