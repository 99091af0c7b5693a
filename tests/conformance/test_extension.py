# SPDX-License-Identifier: Apache-2.0
"""packaging/hf-fp8conv as an extension of the Hugging Face CLI, which installs it from a repository and runs it."""
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

from harness import FP8CONV, finish, report, scratch

FILE = pathlib.Path(__file__).resolve().parents[2] / "packaging/hf-fp8conv"
INSTALL = """
import pathlib, sys
from huggingface_hub.cli import extensions
extensions._fetch_remote_binary = lambda **repository: pathlib.Path(sys.argv[1]).read_bytes()
extensions._install_extension(owner="somebody", repo_name="hf-fp8conv", short_name="fp8conv", commit_sha="0" * 40)
"""


def program(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def check(home: pathlib.Path) -> Iterator[str]:
    environment = {"HOME": str(home), "HF_HUB_DISABLE_UPDATE_CHECK": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, "-c", INSTALL, FILE], env=os.environ | environment, check=True, capture_output=True)

    def hf(folders: list[pathlib.Path], *name: str) -> subprocess.CompletedProcess:
        path = ":".join(map(str, folders))
        return subprocess.run([sys.executable, "-m", "huggingface_hub.cli.hf", *name, "version", "--json"],
                              env=environment | {"PATH": path}, capture_output=True, text=True)
    bare = home / "bare"
    bare.mkdir()
    (bare / "sh").symlink_to("/bin/sh")
    program(home / "installed/fp8conv", f'#!/bin/sh\nexec {FP8CONV} "$@"\n')
    program(home / "uv/uvx", f'#!/bin/sh\n[ "$1" = fp8conv ] || exit 9\nshift\nexec {FP8CONV} "$@"\n')
    wanted = subprocess.run([FP8CONV, "version", "--json"], check=True, capture_output=True, text=True).stdout
    for folders in ([bare, home / "installed"], [bare, home / "uv"]):
        for name in (["fp8conv"], ["extensions", "exec", "fp8conv", "--"]):
            ran = hf(folders, *name)
            if ran.returncode or ran.stdout != wanted:
                yield f"{folders[-1].name}: {name}: status {ran.returncode}, {ran.stdout}{ran.stderr}"
    ran = hf([bare], "fp8conv")
    if ran.returncode != 2 or "neither fp8conv nor uvx" not in ran.stderr:
        yield f"without any: status {ran.returncode}, {ran.stdout}{ran.stderr}"


with scratch() as work:
    report("hf fp8conv", check(work))
finish()
