# SPDX-License-Identifier: Apache-2.0
"""llm-compressor's own outputs, made here by its model-free path: verify accepts them, names what they are and the arithmetic
that made them, to the bit, and what that costs.  LLMCOMPRESSOR is an environment made from bench/requirements.txt (its
torch is another than ours); without it there is nothing to run."""
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator

from harness import finish, report, run, sample, scratch, skip

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "llmcompressor_ptq.py"

# scheme: the recipe, and the arithmetic by name.
SCHEMES = {"FP8_BLOCK": ("blockwise", "division in bf16"), "FP8_DYNAMIC": ("channelwise", "division in bf16"),
           "MXFP8": ("mxfp8", "mx round up, a binade to spare")}


def problems(scheme: str, python: str, source: pathlib.Path) -> Iterator[str]:
    recipe, arithmetic = SCHEMES[scheme]
    with scratch() as folder:
        made = subprocess.run([python, SCRIPT, source, folder / "out", scheme], capture_output=True, text=True, check=False)
        if made.returncode:
            yield f"llm-compressor: {made.stderr.strip().splitlines()[-1]}"
            return
        for args in ([], ["--target", "vllm"], ["--source", source]):
            done = run("verify", folder / "out", *args)
            if done.returncode or done.stdout or done.stderr:
                yield f"verify {args}: exit status {done.returncode}, {(done.stdout + done.stderr).decode().strip()[:200]}"
        told = json.loads(run("verify", folder / "out", "--source", source, "--json").stdout)
        found = {key: told[key] for key in ("recipe", "format", "arithmetic")}
        if found != {"recipe": recipe, "format": "compressed-tensors", "arithmetic": arithmetic}:
            yield f"detected as {found}"
        if not told["cost_db"] >= -0.01:
            yield f"it costs {told['cost_db']} dB"


def main() -> None:
    venv, source = os.environ.get("LLMCOMPRESSOR"), sample("tiny-llama")
    if venv is None:
        skip("llm-compressor", "no environment given (LLMCOMPRESSOR)")
    elif source:
        for scheme in SCHEMES:
            report(f"verify {scheme} of llm-compressor", problems(scheme, f"{venv}/bin/python", source))
    finish()


main()
