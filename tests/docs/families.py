# SPDX-License-Identifier: Apache-2.0
"""Holds tables of man/fp8conv-families.7 and fp8conv-formats.7 against those of the program, and the words of rows against theirs.

    families.py --write      writes the tables anew, after a change of src/select/profile_rows.c, of a format or an architecture
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


def program(command):
    shown = subprocess.run([os.environ.get("FP8CONV", "build/fp8conv"), command, "--json"], check=True, capture_output=True)
    return json.loads(shown.stdout)


def engines(formats):
    """A line for each recipe and format: the engines that load it."""
    lines = [f"{'recipe':<13}{'format':<20}engines"]
    pairs = [(pair["recipe"], form["name"], pair) for form in formats for pair in form["recipes"]]
    for recipe, form, pair in sorted(pairs, key=lambda p: p[:2]):
        names = [name + " (dense)" * (name in pair["dense_only"]) for name in pair["engines"]]
        lines.append(f"{recipe:<13}{form:<20}{', '.join(names)}")
    return roff("\n".join(lines)) + "\n"


def tables():
    """(page, what stands before the table, the table that the program has)."""
    families = program("families")
    run = ", ".join(family["name"] for family in families["families"] if family["eval"] and not family["name"].endswith("*"))
    yield PAGE, ".SH WHAT RUNS\n", roff(run) + ".\n"
    yield PAGE, ".SH ROWS\n", "".join(table(families["rows"]))
    yield pathlib.Path("man/fp8conv-formats.7"), ".SH ENGINES\n", engines(program("formats")["formats"])


def main():
    wrong = []
    for path, heading, wanted in tables():
        page = path.read_text()
        start = page.index(BEGIN, page.index(heading)) + len(BEGIN)
        end = page.index(END, start)
        if sys.argv[1:] == ["--write"]:
            path.write_text(page[:start] + wanted + page[end:])
        elif page[start:end] != wanted:
            wrong.append(f"{path} has another table than the program: python3 tests/docs/families.py --write")
    rows = program("families")["rows"]
    page = PAGE.read_text()
    before = page[:page.index(BEGIN, page.index(".SH ROWS"))]
    words = {w.replace("\\-", "-") for w in re.findall(r"^\.TP\n\.B (\S+)$", before.split(".SH ROWS")[1], re.M)}
    wrong += [f"{PAGE} does not say what '{word}' means" for word in sorted({row["action"] for row in rows} - words)]
    if len(rows) < 40:
        wrong.append(f"only {len(rows)} rows were found")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


sys.exit(main())
