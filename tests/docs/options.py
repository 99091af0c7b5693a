# SPDX-License-Identifier: Apache-2.0
"""Holds the man pages against the program: every command has a page, every option stands in it, and back.

The pages of conversions refer to fp8conv-convert(7) for what they share: it must have what they leave out."""
import os
import pathlib
import re
import subprocess
import sys

FP8CONV = os.environ["FP8CONV"]
MAN = pathlib.Path("man")
CONVERSIONS = ("quantize", "dequantize", "repack")
REFERENCE = "fp8conv-convert (7)"
wrong = []


def fp8conv(*args):
    return subprocess.run([FP8CONV, *args], check=True, capture_output=True, text=True).stdout


def plain(roff):
    """Text of a page without its macros and escapes, line by line."""
    roff = re.sub(r'^\.\\".*\n', "", roff, flags=re.M)
    return re.sub(r"\\f.|\\", "", roff)


def section(page, name):
    match = re.search(rf"^\.SH {name}\n(.*?)(?=^\.SH |\Z)", page, re.M | re.S)
    return match.group(1) if match else ""


def page_options(text, shared=None):
    """{option: its paragraph} of the tags (.TP) in a page's options; that of the shared page where it refers to it."""
    found = {}
    for paragraph in re.split(r"^\.TP\n", text, flags=re.M)[1:]:
        tag = paragraph.split("\n", 1)[0].replace('"', "").replace(" ", "")
        for option in re.findall(r"(--[a-z0-9-]+|(?<![a-z0-9-])-[a-zA-Z](?![a-z-]))", tag):
            found[option] = shared.get(option, "") if shared and REFERENCE in paragraph else paragraph
    return found


def help_options(text):
    """{option: its values} of --help, values where it lists all there are."""
    found = {}
    for short, long, alias, value in re.findall(r"^  (?:    |(-.), )(--[a-z0-9-]+)(?:, (--[a-z0-9-]+))?(?:=(\S+))?", text, re.M):
        found[long] = value.split("|") if "|" in value else []
        if alias:
            found[alias] = []
        if short:
            found[short] = []
    return found


def check_page(page, options, shared=None):
    text = plain((MAN / page).read_text())
    described = page_options(section(text, "OPTIONS"), shared)
    for option in sorted(options.keys() - described.keys()):
        wrong.append(f"{page} does not describe {option}")
    for option in sorted(described.keys() - options.keys()):
        wrong.append(f"{page} describes {option}, which there is not")
    for option in (option for option, paragraph in described.items() if not paragraph):
        wrong.append(f"{page} refers to {REFERENCE} for {option}, which it does not describe")
    for option in options.keys() & described.keys():
        for value in options[option]:
            if not re.search(rf"\b{re.escape(value)}\b", described[option]):
                wrong.append(f"{page}: {option} does not name {value}")


def check_headings(page, text):
    """The page has the sections of --help ("Tensors (...):" is "Tensors"), in the same order."""
    told = [name for name in re.findall(r"^([A-Z][a-z]+)(?: \(.*\))?:$", text, re.M) if name != "Examples"]
    written = re.findall(r"^\.SS (.*)$", section(plain((MAN / page).read_text()), "OPTIONS"), re.M)
    if not section(plain((MAN / page).read_text()), "EXAMPLES"):
        wrong.append(f"{page} has no EXAMPLES")
    if written and written != told:
        wrong.append(f"{page} has the headings {written}, --help {told}")


def check_statuses(page, wanted, shared):
    text = section(plain((MAN / page).read_text()), "EXIT STATUS")
    text += section(shared, "EXIT STATUS") if REFERENCE in text else ""
    for status in wanted:
        if not re.search(rf"\b{status}\b", text):
            wrong.append(f"{page} does not say what exit status {status} is")


def check_names(page, names):
    text = plain((MAN / page).read_text())
    for name in names:
        if not re.search(rf"^(\.TP\n\.B|\.SS) {re.escape(name)}$", text, re.M):
            wrong.append(f"{page} has no paragraph about {name}")


def check_references(page):
    for name, number in re.findall(r"(fp8conv(?:-[a-z]+)?) \((\d)\)", plain(page.read_text())):
        if not (MAN / f"{name}.{number}").exists():
            wrong.append(f"{page.name} refers to {name}({number}), which there is not")


def main():
    top = fp8conv("--help")
    commands = dict(re.findall(r"^  ([a-z]+) +(.+)$", top, re.M))
    listed = re.findall(r"^\.BR fp8conv-([a-z]+) \(1\)\n(.*)", section(plain((MAN / "fp8conv.1").read_text()), "COMMANDS"),
                        re.M)
    if sorted(commands) != sorted(name for name, _ in listed):
        wrong.append(f"fp8conv.1 lists {listed}, --help {sorted(commands)}")
    check_page("fp8conv.1", {"--help": [], "-h": [], "--version": [], "-V": []})
    shared = plain((MAN / "fp8conv-convert.7").read_text())
    shared_options = page_options(section(shared, "OPTIONS"))
    for command in commands:
        page = f"fp8conv-{command}.1"
        if (MAN / page).exists():
            text = fp8conv(command, "--help")
            options = help_options(text)
            check_page(page, options, shared_options)
            check_headings(page, text)
            check_statuses(page, ["0", "2", "4"] + ["3", "128"] * ("--progress" in options), shared)
            for option in shared_options.keys() - options.keys() if command in CONVERSIONS else ():
                wrong.append(f"fp8conv-convert.7 describes {option}, which {command} does not have")
        else:
            wrong.append(f"there is no {page}")
    check_names("fp8conv-recipes.7", [line.split("\t")[0] for line in fp8conv("recipes").splitlines()])
    check_names("fp8conv-formats.7", sorted({line.split("\t")[0] for line in fp8conv("formats").splitlines()}))
    notes = re.findall(r'^\tX\(NOTE_\w+, "(.*)"\)', pathlib.Path("src/select/select.h").read_text(), re.M)
    check_names("fp8conv-convert.7", notes)
    if len(commands) < 5 or len(notes) < 10:
        wrong.append(f"found only {len(commands)} commands and {len(notes)} kinds of notes")
    pages = sorted(MAN.glob("*.[1357]"))
    for page in pages:
        check_references(page)
        command = re.fullmatch(r"fp8conv-([a-z]+)\.1", page.name)
        if command and command.group(1) not in commands:
            wrong.append(f"{page.name} is about no command")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))


main()
