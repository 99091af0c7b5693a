# SPDX-License-Identifier: Apache-2.0
"""Runs docs/cookbook.md on small checkpoints with the tensor names of its models: each command must do what it says, without a
note, and a plan keeps the modules that the recipe names, for its reasons, and no others."""
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path.cwd()
SAMPLE = TOP / "sample_checkpoints/tiny-llama"
# Said once at the head of the cookbook; and vectors, which no format quantizes.
COMMON = {"embedding", "norm", "convolution", "state-space parameter", "attention sink", "router bias"}
SERVERS = ("vllm serve ", "python3 -m sglang.launch_server ")
wrong = []


def recipes(text):
    """(title, case, commands, [(globs, reason)]) of each recipe."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        title = part.split("\n", 1)[0]
        case = re.search(r"^<!-- case: (\S+) -->$", part, re.M).group(1)
        block = re.search(r"^```sh\n(.*?)^```$", part, re.M | re.S).group(1)
        commands = re.sub(r" \\\n +", " ", block).splitlines()
        rows = re.findall(r"^\| (`.*`) \| (.*) \|$", part, re.M)
        yield title, case, commands, [(re.findall(r"`([^`]+)`", globs), why) for globs, why in rows]


def run(title, command, folder):
    """What a command prints; its one line of notes or errors, or another status than 0, is wrong."""
    done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"})
    said = re.sub(r"^fp8conv \w+: *\d+%, .*\n", "", done.stderr, flags=re.M)
    if done.returncode or said:
        wrong.append(f"{title}: {command}\n  exit status {done.returncode}\n  {said}")
    return done.stdout


def check_plan(title, plan, rows):
    used = set()
    for tensor in plan["tensors"]:
        module = tensor["name"].removesuffix(".weight")
        if tensor["action"] != "keep" or tensor["reason"] in COMMON:
            continue
        found = {why for globs, why in rows if any(fnmatch.fnmatchcase(module, glob) for glob in globs)}
        used |= {glob for globs, _ in rows for glob in globs if fnmatch.fnmatchcase(module, glob)}
        if found != {tensor["reason"]}:
            wrong.append(f"{title}: {module} is kept: {tensor['reason']}; the recipe says {sorted(found)}")
    for glob in [glob for globs, _ in rows for glob in globs]:
        if glob not in used:
            wrong.append(f"{title}: nothing that is kept is named {glob}")


def check(title, commands, rows, folder):
    converts = [command for command in commands if command.startswith("fp8conv quantize ") and "--dry-run" not in command]
    if len(commands) != 4 or len(converts) != 1 or not commands[2].startswith("fp8conv verify ") or not commands[3].startswith(SERVERS):
        wrong.append(f"{title}: the commands are {commands}")
        return
    if not commands[0].startswith("fp8conv calibrate ") and commands[0] != converts[0] + " --dry-run":
        wrong.append(f"{title}: the first command does not plan the second")
    output = re.search(r" -o (\S+)", converts[0]).group(1)
    if f" {output} " not in commands[2] + " " or f" {output} " not in commands[3] + " ":
        wrong.append(f"{title}: {output} is not what is verified and served")
    run(title, commands[0], folder)
    plan = json.loads(run(title, converts[0] + " --dry-run --json", folder) or '{"tensors": []}')
    check_plan(title, plan, rows)
    run(title, converts[0], folder)
    run(title, commands[2], folder)


def main():
    if not SAMPLE.exists():
        print("SKIPPED docs/cookbook: no sample_checkpoints/tiny-llama")
        return
    found = list(recipes((TOP / "docs/cookbook.md").read_text()))
    if len(found) < 12:
        wrong.append(f"only {len(found)} recipes were found")
    top = pathlib.Path(tempfile.mkdtemp())
    cases = [case for _, case, _, _ in found if case != "tiny-llama"]
    subprocess.run([sys.executable, "tests/families/families.py", str(top / "cases"), *cases], check=True)
    (top / "cases/tiny-llama").symlink_to(SAMPLE)
    for title, case, commands, rows in found:
        folder = top / title.split(".")[0]
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/fp8conv").symlink_to(os.environ["FP8CONV"])
        (folder / "text.jsonl").write_text((json.dumps({"text": "A text that a model is calibrated with. " * 20}) + "\n") * 8)
        (folder / commands[0].split()[2]).symlink_to(top / "cases" / case)
        check(title, commands, rows, folder)
    shutil.rmtree(top)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))


main()
