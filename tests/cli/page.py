# SPDX-License-Identifier: Apache-2.0
"""Reads what `report` writes, and holds it against the checkpoint, without fp8conv.

page.py whole DIR          README.md and report.html are whole, and hold no markup of others
page.py counts DIR PATH    codes, zeros, saturation and exponents of scales of each kind of FP8 weight of a checkpoint
page.py front DIR          prints the front matter as JSON: of what the program writes, a line is a key, or an item of a list
"""
import collections
import hashlib
import json
import math
import pathlib
import re
import sys

import checkpoint
import fp8

SCALES = ("weight_scale_inv", "weight_scale", "scale_weight", "scale")
MAX_CODE = {"F8_E4M3": 0x7E, "F8_E5M2": 0x7B}
TEMPLATE = pathlib.Path(__file__).resolve().parents[2] / "cli/report/page.html"


def cut(page):
    """What stands before the data of a page, the data, and what stands behind them."""
    before, rest = page.split('id="data">', 1)
    data, behind = rest.split("</script>", 1)
    return before, data, behind


def page_data(folder):
    return json.loads(cut(files(folder)[1].decode())[1])


def files(folder):
    folder = pathlib.Path(folder)
    return (folder / "README.md").read_bytes(), (folder / "report.html").read_bytes()


def front(text):
    """{key: text or list} of a card, of which a line is "key: value", "key:" or "- value"."""
    lines = text.decode().split("\n")
    assert lines[0] == "---", "no front matter"
    found, key = {}, None
    for line in lines[1:lines.index("---", 1)]:
        item = re.fullmatch(r"- (.+)", line)
        match = re.fullmatch(r"([a-z_]+):(?: (.+))?", line)
        assert item or match, f"a line of the front matter is {line!r}"
        value = (item or match).group(1 if item else 2)
        if value and value.startswith('"'):
            value = json.loads(value)
        if item:
            found[key].append(value)
        else:
            key = match.group(1)
            assert key not in found, f"{key} twice"
            found[key] = value if value is not None else []
    return found


def whole(folder):
    card, page = files(folder)
    for name, text in ("README.md", card), ("report.html", page):
        mark = re.search(rb"<!-- fp8conv report ([0-9a-f]{64}) -->\n\Z", text)
        if not mark or hashlib.sha256(text[:mark.start()]).hexdigest() != mark.group(1).decode():
            print(f"{name} does not end in its SHA-256")
        if re.search(rb"[\0-\x08\x0b-\x1f\x7f]", text):
            print(f"{name} has control characters")
    if len(page) >= 5_000_000:
        print(f"report.html has {len(page)} bytes")
    before, data, behind = cut(page.decode())
    template = cut(TEMPLATE.read_text())
    if before != template[0] or behind[:behind.rindex("<!--")] != template[2]:
        print("report.html is not page.html outside of its data")
    if not data.isascii() or "<" in data:
        print("the data of report.html are not ASCII, or could end their element")
    json.loads(data)
    # Markdown's own reader is not here: outside of code, no '<' of others may be left.
    body = re.sub(r"^```sh\n.*?^```$|`[^`\n]*`", "", card.decode().split("\n---\n", 1)[1], flags=re.S | re.M)
    for tag in sorted(set(re.findall(r"<[^>\n]*>?", body)) - {"<code>", "</code>"}):
        if not tag.startswith("<!-- fp8conv report "):
            print(f"README.md has {tag}")
    front(card)


def pattern(name):
    name = name.removesuffix(".weight")
    return ".".join("*" if re.fullmatch("[0-9]+", part) else part for part in name.split("."))


def find_scale(tensors, name):
    """The name of a weight's scale."""
    for word in SCALES:
        if name.endswith(".weight"):
            beside = name.removesuffix("weight") + word
        else:
            beside = name + word.removeprefix("weight") if word.startswith("weight") else f"{name}_{word}"
        if beside in tensors:
            return beside
    return None


def counts(folder, path):
    tensors = checkpoint.read(path)
    config = pathlib.Path(path) / "config.json"
    inverted = config.exists() and ("gptqmodel" in config.read_text() or '"inverse"' in config.read_text())
    codes, scales = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    types, shapes = {}, collections.defaultdict(set)
    for name, (dtype, shape, data) in tensors.items():
        if dtype not in MAX_CODE or len(shape) < 2:
            continue
        kind = pattern(name)
        types[kind] = dtype
        shapes[kind].add("x".join(map(str, shape)))
        codes[kind].update(data)
        scale_dtype, _, scale_data = tensors[find_scale(tensors, name)]
        for value in fp8.scale_values(scale_dtype, scale_data):
            value = fp8.f32(1 / value) if inverted else value
            good = math.isfinite(value) and value > 0
            scales[kind]["other" if not good else math.frexp(value)[1] - 1] += 1
    shown = {pattern(group["name"]): group for group in page_data(folder)["groups"] if "codes" in group}
    for kind, wanted in codes.items():
        largest, said = MAX_CODE[types[kind]], shown.pop(kind, {})
        if said.get("codes", []) != [wanted[code] for code in range(max(wanted) + 1)]:
            print(f"{kind}: codes are not as counted")
        if said.get("shape") != (shapes[kind].copy().pop() if len(shapes[kind]) == 1 else None):
            print(f"{kind}: shape is {said.get('shape')}, counted {shapes[kind]}")
        first, *numbers = said.get("scales", [0])
        told = collections.Counter({first + i: n for i, n in enumerate(numbers)}) + collections.Counter(other=said.get("other", 0))
        if told != scales[kind]:
            print(f"{kind}: scales are {told}, counted {scales[kind]}")
        for words, magnitudes in ("zeros", (0,)), ("saturated", (largest,)), ("nonfinite", range(largest + 1, 128)):
            n = sum(wanted[magnitude] + wanted[magnitude | 0x80] for magnitude in magnitudes)
            if (said.get(words), said.get("values")) != (n, sum(wanted.values())):
                print(f"{kind}: {words} is {said.get(words)} of {said.get('values')}, counted {n} of {sum(wanted.values())}")
    for kind in shown.keys() & {pattern(name) for name in tensors}:
        print(f"{kind} is shown, and is not FP8")


def main():
    command, *rest = sys.argv[1:]
    if command == "front":
        print(json.dumps(front(files(rest[0])[0])))
    else:
        {"whole": whole, "counts": counts}[command](*rest)


main()
