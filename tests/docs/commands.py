# SPDX-License-Identifier: Apache-2.0
"""Runs the command lines that README.md and the man pages show.

In man pages: lines of examples that begin with "$ ".  In README.md: the lines of ```sh blocks, and commands in backquotes.
MODEL stands for a sample, OUT for what the first command of README.md makes of it; what sets a machine up (git, make) or
serves is not run, but a target of make must exist.  README.md shows examples/release.sh, which is run too.  A ```console block of README.md also shows what a terminal of 80 columns shows: that must be so, but for
the figures of a line that begins with "time".
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path.cwd()
SAMPLES = TOP / "sample_checkpoints"
MODEL = SAMPLES / "tiny-llama"
MAKEFILES = ("Makefile", "tests/tests.mk", "packaging/packaging.mk")
wrong, skipped, ran = [], [], 0


def run(line, where, folder):
    global ran
    # ssh would want a host: what it was to run there is run here.
    script = 'ssh() { shift; sh -c "$*"; }\n' + line
    path = f"{folder}/bin:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"}, stdin=subprocess.DEVNULL)
    ran += 1
    # What takes seconds, on a slow machine or with sanitizers, tells its progress.
    # What an engine does not load is told too.
    told = re.sub(r"^fp8conv \w+: ( *\d+%, .*|note: (.*; see --target \w+|the data is enough for .*))\n", "", done.stderr, flags=re.M)
    # diff ends with 1 where something differs, as it does in the examples.
    if done.returncode > line.startswith("fp8conv diff ") or told:
        wrong.append(f"{where}: {line}\n  exit status {done.returncode}\n  {told}")


def folder_for_commands():
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "bin").mkdir()
    (folder / "bin/fp8conv").symlink_to(os.environ["FP8CONV"])
    (folder / "sample_checkpoints").symlink_to(SAMPLES)
    (folder / "model.safetensors").symlink_to(MODEL / "model.safetensors")
    text = "".join(json.dumps({"text": f"Document {n} of the text that a model is calibrated with. " * 8}) + "\n"
                   for n in range(8))
    (folder / "text.jsonl").write_text(text)
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder / "private.pem"], check=True)
    subprocess.run(["openssl", "pkey", "-in", folder / "private.pem", "-pubout", "-out", folder / "public.pem"], check=True)
    return folder


def page_commands(page):
    """Lines that begin with "$ "; one that ends with a backslash goes on in the next."""
    for line in page.read_text().replace("\\e\n\\&", "").splitlines():
        if line.startswith("$ "):
            yield line[2:].replace("\\-", "-").replace("\\e", "\\").replace("\\(aq", "'")


def markdown_commands(text):
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```sh"
        elif inside and line.strip():
            yield line.split("  # ")[0].split(" # ")[0].strip()
        elif not inside:
            for span in re.findall(r"`(fp8conv [^`]*)`", line):
                if re.search(r"\bMODEL|\bOUT\b", span) or span in ("fp8conv recipes", "fp8conv formats", "fp8conv families", "fp8conv version"):
                    yield span


def run_page(page):
    commands = list(page_commands(page))
    if re.search(r"^\.SH EXAMPLES", page.read_text(), re.M) and not commands:
        wrong.append(f"{page.name}: the examples have no command")
    folder = folder_for_commands()
    for line in commands:
        run(line, page.name, folder)
    shutil.rmtree(folder)


def check_setup(line, makefile):
    for target in re.findall(r"\bmake ([a-z]+)", line):
        if not re.search(rf"^{target}:", makefile, re.M):
            wrong.append(f"README.md: {line}\n  there is no target {target}")


def console_sessions(text):
    """(command, what it prints) of each "$ " line in the ```console blocks."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        for session in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, shown = session.partition("\n")
            yield command, shown


def screen(command, folder):
    """What a terminal shows in the end: a line is what was written after it was last cleared."""
    done = subprocess.run([sys.executable, str(TOP / "tests/cli/terminal.py"), "bash", "-c", command], cwd=folder,
                          capture_output=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "TERM": "xterm"})
    text = done.stdout.decode().replace("\r\n", "\n")           # a reader of text would take each \r for an end
    lines = [re.split(r"\r|\x1b\[K", line)[-1].rstrip() for line in text.split("\n")]
    return "\n".join(lines), done.returncode


def measured(text):
    return re.sub(r"^(time +).*", r"\1...", text, flags=re.M).rstrip()


def check_console(readme):
    global ran
    folder = folder_for_commands()
    for command, shown in console_sessions(readme.read_text()):
        got, status = screen(command, folder)
        ran += 1
        if status or measured(got) != measured(shown):
            wrong.append(f"README.md: {command}\n  exit status {status}; README.md shows\n{shown}  a terminal shows\n{got}")
    shutil.rmtree(folder)


def check_release(text, folder):
    """README.md shows the script, which makes a release of MODEL with its card and page."""
    script = TOP / "examples/release.sh"
    shown = re.search(r"^```bash\n(.*?)^```$", text, re.M | re.S).group(1)
    if not script.read_text().endswith("\n" + shown):
        wrong.append(f"README.md shows another script than {script.name}")
    run(f"sh {script} MODEL RELEASE text.jsonl", script.name, folder)
    for name in ("config.json", "README.md", "report.html"):
        if not (folder / "RELEASE" / name).exists():
            wrong.append(f"{script.name} makes no {name}")


def check_links(page):
    """What a page shows or points at is there; a picture has 150 kB at most."""
    for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
        target = page.parent / link
        if "://" not in link and not target.exists():
            wrong.append(f"{page.name} points at {link}, which there is not")
        elif target.suffix in (".png", ".svg") and target.stat().st_size > 150_000:
            wrong.append(f"{link} has more than 150 kB")


def run_markdown(page):
    """The commands of a page, in one folder, in their order."""
    makefile = "".join((TOP / name).read_text() for name in MAKEFILES)
    folder = folder_for_commands()
    (folder / "MODEL").symlink_to(MODEL)
    if page.name == "README.md":
        check_release(page.read_text(), folder)
        run("fp8conv quantize MODEL -o OUT --target vllm", page.name, folder)
    for line in markdown_commands(page.read_text()):
        if line.split()[0] in ("git", "make", "sudo", "apt-get", "vllm"):
            check_setup(line, makefile)
            continue
        if re.search(r"(-o|--output[ =]) ?OUT\b", line) and line.count("OUT") == 1 and "--dry-run" not in line:
            shutil.rmtree(folder / "OUT", ignore_errors=True)
        if "calibrate" in line:
            (folder / "stats.amax").unlink(missing_ok=True)
        run(line, page.name, folder)
    shutil.rmtree(folder)


def main():
    if not (MODEL / "model.safetensors").exists():
        print("SKIPPED docs/commands: no sample_checkpoints/tiny-llama")
        return
    for page in sorted((TOP / "man").glob("*.[157]")):
        run_page(page)
    if (TOP / "README.md").exists():
        run_markdown(TOP / "README.md")
        run_markdown(TOP / "skills/fp8conv/SKILL.md")
        check_console(TOP / "README.md")
        for page in (TOP / "README.md", TOP / "docs/cookbook.md", TOP / "examples/README.md", TOP / "bench/README.md"):
            check_links(page)
    if ran < 10:
        wrong.append(f"only {ran} commands were found")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))


main()
