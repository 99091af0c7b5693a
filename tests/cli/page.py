# SPDX-License-Identifier: Apache-2.0
"""Reads what `report` writes, and holds it against the checkpoint, without fp8conv.

page.py whole DIR          README.md and report.html are well-formed, want nothing of a network, and hold no markup of others
page.py counts DIR PATH    codes, zeros, saturation and exponents of scales of each kind of FP8 weight of a checkpoint
page.py front DIR          prints the front matter as JSON: of what the program writes, a line is a key, or an item of a list
"""
import collections
import hashlib
import html.parser
import json
import math
import pathlib
import re
import sys

import checkpoint
import fp8

VOID = {"meta", "input", "br", "rect", "path"}
SCALES = ("weight_scale_inv", "weight_scale", "scale_weight", "scale")
MAX_CODE = {"F8_E4M3": 0x7E, "F8_E5M2": 0x7B}


class Page(html.parser.HTMLParser):
    """The elements of a page as (name, attributes, text), with checks that a lenient reader leaves out."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.found, self.ids, self.links, self.wrong = [], [], set(), set(), []
        self.feed(text)
        self.close()
        if self.open:
            self.wrong.append(f"<{self.open[-1][0]}> is not closed")
        for link in sorted(self.links - self.ids):
            self.wrong.append(f"a link to #{link}, which there is not")

    def handle_starttag(self, name, attributes):
        names = [key for key, _ in attributes]
        if len(set(names)) != len(names):
            self.wrong.append(f"<{name}> has an attribute twice")
        values = dict(attributes)
        if values.keys() & {"src", "srcset", "background", "data", "action"} or any(key.startswith("on") for key in names):
            self.wrong.append(f"<{name}> has {names}")
        if "id" in values:
            if values["id"] in self.ids:
                self.wrong.append(f"two elements are called {values['id']}")
            self.ids.add(values["id"])
        if "href" in values:
            if not values["href"].startswith("#"):
                self.wrong.append(f"a link to {values['href']}")
            self.links.add(values["href"][1:])
        element = [name, values, ""]
        self.found.append(element)
        if name not in VOID or self.open and self.open[-1][0] == "rect":
            self.open.append(element)
        elif name == "rect":
            self.open.append(element)

    def handle_startendtag(self, name, attributes):
        self.handle_starttag(name, attributes)
        if self.open and self.open[-1] is self.found[-1]:
            self.open.pop()

    def handle_endtag(self, name):
        if not self.open or self.open[-1][0] != name:
            self.wrong.append(f"</{name}> closes {self.open[-1][0] if self.open else 'nothing'}")
            return
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element[2] += data


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
    found = Page(page.decode())
    print(*found.wrong, sep="\n", end="\n" if found.wrong else "")
    if len(page) >= 5_000_000:
        print(f"report.html has {len(page)} bytes")
    scripts = [attributes for name, attributes, _ in found.found if name == "script"]
    if scripts != [{"type": "application/json", "id": "data"}, {}]:
        print(f"scripts: {scripts}")
    json.loads(next(text for name, attributes, text in found.found if attributes.get("id") == "data"))
    allowed = {"html", "head", "meta", "title", "style", "body", "header", "h1", "nav", "a", "main", "section", "h2", "h3", "p",
               "code", "pre", "dl", "div", "dt", "dd", "article", "svg", "path", "rect", "text", "details", "summary", "table",
               "thead", "tbody", "tr", "th", "td", "noscript", "label", "input", "select", "option", "script", "footer", "span"}
    for name in sorted({name for name, _, _ in found.found} - allowed):
        print(f"an element <{name}>")
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
    types = {}
    for name, (dtype, shape, data) in tensors.items():
        if dtype not in MAX_CODE or len(shape) < 2:
            continue
        kind = pattern(name)
        types[kind] = dtype
        codes[kind].update(data)
        scale_dtype, _, scale_data = tensors[find_scale(tensors, name)]
        for value in fp8.scale_values(scale_dtype, scale_data):
            value = fp8.f32(1 / value) if inverted else value
            good = math.isfinite(value) and value > 0
            scales[kind]["other" if not good else math.frexp(value)[1] - 1] += 1
    shown, inside = {}, {}
    found = Page(files(folder)[1].decode()).found
    for name, attributes, text in found:
        if name == "h2":
            inside = {}
            section = text
        elif name == "h3" and section == "Codes and scales":
            shown[text] = inside = {}
        elif attributes.get("class") in ("codes", "scales"):
            inside[attributes["class"]] = collections.Counter({key: int(n) for key, n in re.findall(r"(\S+):(\d+)", text)})
        elif name == "dt":
            key = text
        elif name == "dd":
            inside[key] = text
    for kind, wanted in codes.items():
        largest, said = MAX_CODE[types[kind]], shown.pop(kind, {})
        if said.get("codes") != {f"{code:02x}": n for code, n in wanted.items()}:
            print(f"{kind}: codes are not as counted")
        if said.get("scales") != {str(key): n for key, n in scales[kind].items()}:
            print(f"{kind}: scales are {said.get('scales')}, counted {scales[kind]}")
        total = sum(wanted.values())
        for words, magnitudes in ("zeros", (0,)), ("saturated", (largest,)), ("NaN and infinity", range(largest + 1, 128)):
            n = sum(wanted[magnitude] + wanted[magnitude | 0x80] for magnitude in magnitudes)
            share = "<0.001 %" if n and 100 * n / total < 0.0005 else f"{100 * n / total:.3f} %"
            told = said.get(words, "0")
            if told != (f"{n}, {share}" if words[0] != "N" else f"{n}"):
                print(f"{kind}: {words} is {told}, counted {n} of {total}")
    for kind in shown.keys() & {pattern(name) for name in tensors}:
        print(f"{kind} is shown, and is not FP8")


def main():
    command, *rest = sys.argv[1:]
    if command == "front":
        print(json.dumps(front(files(rest[0])[0])))
    else:
        {"whole": whole, "counts": counts}[command](*rest)


main()
