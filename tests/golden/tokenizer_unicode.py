#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write src/model/tokenizer_newer.c: characters that the pattern library of tokenizers knows and Unicode 14 does not.

    python tokenizer_unicode.py | clang-format > ../../src/model/tokenizer_newer.c

Made with Python 3.11 (unicodedata 14.0.0) and tokenizers 0.23.3 (Oniguruma with Unicode 16).
"""
import sys
import unicodedata

from tokenizers import Regex, pre_tokenizers

# An older character of the same category and length in UTF-8 (3 bytes, 4 bytes); Han is a script that patterns ask for.
KNOWN = {"Lu": (0xA722, 0x10400), "Ll": (0xA723, 0x10428), "Lm": (0xA717, 0x16B40), "Lo": (0xA840, 0x10000),
         "Han": (0x4E00, 0x20000), "Mn": (0x0900, 0x10376), "Mc": (0x0903, 0x11000), "Nd": (0x0966, 0x104A0),
         "No": (0x2460, 0x10107), "Po": (0x0964, 0x10100), "Pd": (0x2010, 0x10EAD), "So": (0x2195, 0x10137),
         "Sc": (0x20AC, 0x1ECB0), "Sm": (0x2200, 0x1D6C1), "Cf": (0x2060, 0x110BD)}


def matches(pattern: str, text: str) -> set[int]:
    """The characters of text that match."""
    kept = pre_tokenizers.Split(Regex(pattern), "removed", invert=True).pre_tokenize_str(text)
    return {ord(c) for piece, _ in kept for c in piece}


def main() -> None:
    assert unicodedata.unidata_version == "14.0.0", "the table is relative to Unicode 14"
    unknown = "".join(chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) == "Cn")
    newer = matches(r"\P{Cn}", unknown)
    text = "".join(map(chr, sorted(newer)))
    category = {c: name for name in KNOWN if name != "Han" for c in matches(rf"\p{{{name}}}", text)}
    category |= dict.fromkeys(matches(r"\p{Han}", text) & matches(r"\p{Lo}", text), "Han")
    assert set(category) == newer, sorted(newer - set(category))
    known = {c: KNOWN[name][c >= 0x10000] for c, name in category.items()}
    for c, other in known.items():
        assert unicodedata.category(chr(other)) == category[c].replace("Han", "Lo"), hex(c)
    known[0x180E] = 0x2060                  # a space for PCRE2 alone
    rows: list[list[int]] = []
    for c in sorted(known):
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == known[c]:
            rows[-1][1] = c
        else:
            rows.append([c, c, known[c]])
    out = sys.stdout
    out.write("/* SPDX-License-Identifier: Apache-2.0\n *\n * Written by tests/golden/tokenizer_unicode.py: the pattern "
              "library of tokenizers 0.23.3 (Unicode 16)\n * against Unicode 14.  Do not edit.\n */\n"
              '#include "model/tokenizer_unicode.h"\n\nconst struct unicode_newer unicode_newer[] = {\n')
    for row in rows:
        out.write("\t{ " + ", ".join(f"0x{c:05x}" for c in row) + " },\n")
    out.write("};\n\nconst size_t n_unicode_newer = sizeof unicode_newer / sizeof *unicode_newer;\n")


main()
