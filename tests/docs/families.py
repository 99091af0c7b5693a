# SPDX-License-Identifier: Apache-2.0
"""Holds the table in man/fp8conv-families.7 against the rows that the program has, and the words before it against theirs.

    families.py --write      writes the table anew, after a change of src/select/profile_rows.c
"""
import json
import os
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path("man/fp8conv-families.7")
BEGIN = '.\\" Between these two comments: python3 tests/docs/families.py --write\n'
END = '.\\" End of the table.\n'
WORDS = {"by": "recipes", "in": "formats", "for": "engines"}


def roff(text):
    """A line that begins with a dot is no macro."""
    return "\\&" * text.startswith((".", "'")) + text.replace("\\", "\\e").replace("-", "\\-")


def conditions(row):
    said = [f"{word} {' or '.join(row[key])}" for word, key in WORDS.items() if row[key]]
    return ", " + " ".join(said) if said else ""


def table(rows):
    """One subsection for the families that rows in a sequence share, one tagged paragraph a row."""
    families = None
    for row in rows:
        if row["families"] != families:
            families = row["families"]
            yield f'.SS {roff(", ".join(families))}\n'
        yield f'.TP\n\\fB{row["action"]}\\fR {roff(row["pattern"] + conditions(row))}\n'
        if row["said"]:
            yield roff(row["said"]) + "\n.br\n"
        yield roff(f'{row["rule"]}: {row["source"]}') + "\n"


def main():
    shown = subprocess.run([os.environ.get("FP8CONV", "build/fp8conv"), "families", "--json"], check=True, capture_output=True)
    rows = json.loads(shown.stdout)["rows"]
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    written, after = rest.split(END)
    wanted = "".join(table(rows))
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(before + BEGIN + wanted + END + after)
        return 0
    wrong = []
    if written != wanted:
        wrong.append(f"{PAGE} has another table than the program: python3 tests/docs/families.py --write")
    words = {w.replace("\\-", "-") for w in re.findall(r"^\.TP\n\.B (\S+)$", before.split(".SH ROWS")[1], re.M)}
    wrong += [f"{PAGE} does not say what '{word}' means" for word in sorted({row["action"] for row in rows} - words)]
    if len(rows) < 40:
        wrong.append(f"only {len(rows)} rows were found")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


sys.exit(main())
