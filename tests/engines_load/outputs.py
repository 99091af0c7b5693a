# SPDX-License-Identifier: Apache-2.0
"""What fp8conv makes of the models, each output once."""
import functools
import hashlib
import os
import pathlib
import subprocess
from dataclasses import dataclass

FP8CONV = os.environ["FP8CONV"]
FORMATS = ("hf", "compressed-tensors", "modelopt")
COLUMNS = ("blockwise", "channelwise", "current", "delayed", "mxfp8", "kv-cache")
# What is converted: a model, and options beside recipe, format and target.
VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    name: (name, ()) for name in ("llama", "qwen3", "smollm2", "qwen3_moe", "mixtral", "deepseek_v3", "gemma3", "qwen3_next", "qwen3_5_moe",
                                  "granite4", "falcon_h1", "nemotron_h", "jamba", "gpt_oss", "moe192", "qwen3_vl", "gemma3_mm", "mistral3",
                                  "qwen2_5_vl", "glm4v_moe")} | {
    "smollm2 ragged": ("smollm2", ("--ragged",)), "moe192 ragged": ("moe192", ("--ragged",)),
    "gpt_oss kept": ("gpt_oss", ("--exclude", "experts"))}
TOKENS = "\n".join(f'{{"input_ids": {[(7 * i * i + 31 * row) % 509 + 3 for i in range(64)]}}}' for row in range(16))


@dataclass(frozen=True)
class Output:
    """folder: None where fp8conv refused, with its words; digest: of all that engines read."""
    folder: pathlib.Path | None
    said: str
    digest: str = ""


def run(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([FP8CONV, *map(str, arguments)], capture_output=True, text=True, check=False)


def digest(folder: pathlib.Path) -> str:
    total = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix == ".safetensors" or file.name in ("config.json", "hf_quant_config.json"):
            total.update(file.name.encode() + file.read_bytes())
    return total.hexdigest()[:20]


class Outputs:
    """In scratch, where the models are too."""

    def __init__(self, scratch: pathlib.Path):
        self.scratch = scratch
        self.convert = functools.cache(self._convert)
        self.history = functools.cache(self._history)
        self.plain = functools.cache(self._plain)

    def model(self, variant: str) -> pathlib.Path:
        return self.scratch / "models" / VARIANTS[variant][0]

    def _history(self, model: pathlib.Path) -> pathlib.Path | None:
        """Of amaxes, by calibrate; None where it does not know the architecture."""
        data, history = self.scratch / "tokens.jsonl", self.scratch / f"{model.name}.amax"
        data.write_text(TOKENS, encoding="utf-8")
        return None if run("calibrate", model, "--data", data, "-o", history, "-q").returncode else history

    def _convert(self, variant: str, column: str, form: str, target: str | None) -> Output:
        model, options = self.model(variant), list(VARIANTS[variant][1])
        recipe = "delayed" if column == "kv-cache" else column
        folder = self.scratch / "-".join(["out", variant.replace(" ", "-"), column, form, target or "any"])
        if recipe == "delayed":
            if not (history := self.history(model)):
                return Output(None, "no amaxes: calibrate does not know the architecture")
            options += ["--calibration", history, "--uncovered", "group-max"]
        options += ["--kv-cache"] * (column == "kv-cache") + ["--target", target] * bool(target)
        done = run("quantize", model, "-o", folder, "--recipe", recipe, "--format", form, "--progress", "none", *options)
        if done.returncode:
            return Output(None, done.stderr.strip())
        return Output(folder, done.stderr.strip(), digest(folder))

    def _plain(self, folder: pathlib.Path) -> pathlib.Path:
        """What dequantize makes of it: one folder for all outputs of the same values."""
        made = folder.with_name(folder.name + "-plain")
        done = run("dequantize", folder, "-o", made, "-q")
        if done.returncode:
            raise RuntimeError(f"dequantize {folder.name}: {done.stderr.strip()}")
        same = self.scratch / f"plain-{digest(made)}"
        if not same.exists():
            made.rename(same)
        return same
