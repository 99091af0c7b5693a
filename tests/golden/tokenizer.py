#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the golden vectors of the tokenizer, or check that they are what this program writes: tokenizers.txt, lines
"NAME JSON" of small tokenizers in the styles of known models, and tokenizer.txt, what the tokenizers package makes of texts with them.

    python tokenizer.py            write
    python tokenizer.py --check    compare; exit status 1 where they differ

Made with Python 3.11 and tokenizers 0.23.3 (training breaks ties the same way in each run).
"""
import json
import pathlib
import sys

from tokenizer_inputs import CODE, MIXED, PROSE, SPECIAL, STYLES, read_as_text, texts
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
SIZE = 440


def golden(files: dict[str, Tokenizer]) -> str:
    lines = ["# text HEX; then, for each tokenizer, NAME, ids before and after each text, and the ids of each text."]
    lines += [f"text {text.hex() or '-'}" for text in texts()]
    for name, tokenizer in files.items():
        with_special = [tokenizer.encode(read_as_text(text)).ids for text in texts()]
        empty = tokenizer.encode("a", add_special_tokens=False).ids
        around = tokenizer.encode("a").ids
        n_before = next(i for i in range(len(around)) if around[i:i + len(empty)] == empty)
        lines.append(f"tokenizer {name} {n_before} {len(around) - len(empty) - n_before}")
        lines += [" ".join(map(str, ids)) or "-" for ids in with_special]
        for text, ids in zip(texts(), with_special):
            plain = tokenizer.encode(read_as_text(text), add_special_tokens=False).ids
            assert ids[n_before:n_before + len(plain)] == plain
    return "\n".join(lines) + "\n"


def main() -> None:
    corpus = [PROSE, CODE, *MIXED, *SPECIAL]
    files = {}
    for name, style in STYLES.items():
        state = json.loads(style(corpus, SIZE).to_str())
        if name == "falcon":                                # as files before version 0.20 have them
            state["model"]["merges"] = [" ".join(merge) for merge in state["model"]["merges"]]
        files[name] = json.dumps(state, ensure_ascii=False, separators=(",", ":")) + "\n"
    out = {HERE / "tokenizers.txt": "".join(f"{name} {files[name]}" for name in sorted(files)),
           HERE / "tokenizer.txt": golden({name: Tokenizer.from_str(text) for name, text in files.items()})}
    differ = [str(path) for path, text in out.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        print("\n".join(f"differs: {path}" for path in differ) or "the golden vectors are as they should be")
        sys.exit(1 if differ else 0)
    for path, text in out.items():
        path.write_text(text, encoding="utf-8")


main()
