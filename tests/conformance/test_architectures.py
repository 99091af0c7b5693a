# SPDX-License-Identifier: Apache-2.0
"""tests/cli/architectures.json, from which `make check` makes a tiny model of each architecture without other packages, says
what transformers writes; and `fp8conv families` names the architecture of each model_type as that of its config.json.

    test_architectures.py --write      writes it anew, after a change of tiny_models.py
"""
import collections
import itertools
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.utils import logging

import tiny_models
from harness import FP8CONV, finish, report, scratch

# Their config.json has a language model that runs, but calibrate does not find its tensors under the names of the whole.
OTHER_NAMES = {"cosmos3_omni", "exaone", "idefics2", "idefics3", "qianfan_ocr", "shieldgemma2", "smolvlm"}
ALONE = {"inkling_text"}    # runs inside inkling_mm_model only
UNREAD = {"gemma4_assistant", "lxmert"}     # its config has no defaults; num_hidden_layers is an object

FILE = pathlib.Path(__file__).parent.parent / "cli" / "architectures.json"


def model_of(arch: str) -> str:
    """The first model whose name begins with that of the architecture."""
    return next(name for name in tiny_models.MODELS if re.match(r"\w+", name).group() == arch)


def numbers(found: list[int]) -> str:
    """[0,2-5]: a list of numbers, where those in a sequence are a range."""
    parts = []
    for _, run in itertools.groupby(enumerate(found), lambda pair: pair[1] - pair[0]):
        run = [n for _, n in run]
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return f"[{','.join(parts)}]"


def joined(shapes: dict[str, list[int]]) -> dict[str, list[int]]:
    """Names that differ in numbers alone, with one shape, are one name with lists of numbers."""
    groups = collections.defaultdict(set)
    for name, shape in shapes.items():
        groups[re.sub(r"(?<=\.)\d+(?=\.)", "#", name), tuple(shape)].add(tuple(map(int, re.findall(r"(?<=\.)(\d+)(?=\.)", name))))
    result = {}
    for (pattern, shape), found in groups.items():
        for name in product_names(pattern, found):
            result[name] = list(shape)
    return result


def product_names(pattern: str, found: set[tuple[int, ...]]) -> Iterator[str]:
    """One name if the numbers are all combinations of their lists, else one for each first number."""
    lists = [sorted(set(place)) for place in zip(*found)]
    if set(itertools.product(*lists)) == found:
        parts = pattern.split("#")
        yield parts[0] + "".join(numbers(place) + part for place, part in zip(lists, parts[1:]))
        return
    for first in lists[0]:
        rest = {places[1:] for places in found if places[0] == first}
        yield from product_names(pattern.replace("#", str(first), 1), rest)


def shapes_of(folder: pathlib.Path) -> dict[str, list[int]]:
    with open(folder / "model.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: tensor["shape"] for name, tensor in header.items() if name != "__metadata__"}


def description(arch: str) -> dict:
    with scratch() as folder:
        model = tiny_models.save(model_of(arch), folder)
        config = model.config.to_diff_dict() | {"architectures": [type(model).__name__], "dtype": "bfloat16"}
        return {"config": json.loads(json.dumps(config)), "tensors": joined(shapes_of(folder))}


def families(*names: str | pathlib.Path) -> list[dict]:
    told = subprocess.run([FP8CONV, "families", "--json", *names], check=True, capture_output=True).stdout
    return json.loads(told)["families"]


def architectures() -> list[str]:
    return list(dict.fromkeys(family["architecture"] for family in families() if family["eval"]))


def text_of(found: dict[str, dict]) -> str:
    """One line for the configuration and for each name."""
    lines = []
    for arch, model in found.items():
        tensors = ",\n".join(f"    {json.dumps(name)}: {json.dumps(shape)}" for name, shape in model["tensors"].items())
        lines.append(f' "{arch}": {{\n  "config": {json.dumps(model["config"])},\n  "tensors": {{\n{tensors}}}}}')
    return "{\n" + ",\n".join(lines) + "}\n"


def problems(arch: str, written: dict) -> Iterator[str]:
    if description(arch) != written.get(arch):
        yield f"{FILE.name} differs from transformers' model: test_architectures.py --write"


def whole_models() -> Iterator[tuple[str, str]]:
    """Each model_type of transformers that generates text, and its classes."""
    mappings = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES
    for mapping in mappings:
        for model_type, name in mapping.items():
            if model_type in CONFIG_MAPPING and model_type not in OTHER_NAMES | ALONE | UNREAD:
                yield model_type, name


def name_problems(model_type: str, name: str) -> Iterator[str]:
    """A family's name is told as the config.json that transformers makes of it without arguments."""
    with scratch() as folder:
        config = CONFIG_MAPPING[model_type]().to_diff_dict() | {"architectures": [name]}
        (folder / "config.json").write_text(json.dumps(config, default=str))
        expected = families(folder)[0]["architecture"]
    for family in (model_type, name) if name.replace("_", "").lower().startswith(model_type.replace("_", "") + "for") else (model_type,):
        told = families(family)[0]["architecture"]
        if told != expected:
            yield f"'fp8conv families {family}' says {told}; its config.json as {name}: {expected}"


def main() -> None:
    logging.disable_progress_bar()
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text_of({arch: description(arch) for arch in architectures()}))
        return
    written = json.loads(FILE.read_text())
    for arch in architectures():
        report(f"tiny model of {arch}", problems(arch, written))
    for model_type, name in dict.fromkeys(whole_models()):
        report(f"the family {model_type}, {name}", name_problems(model_type, name))
    finish()


main()
