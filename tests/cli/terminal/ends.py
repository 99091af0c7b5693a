# SPDX-License-Identifier: Apache-2.0
"""What an 80x24 screen shows when a command has ended: its result, and nothing of a bar."""
import os
import pathlib
import re
import subprocess
import sys

from terminal import Terminal

FP8CONV, SAMPLES = os.environ["FP8CONV"], os.environ["SAMPLES"]
MOE = SAMPLES + "/tiny-moe/per-expert"


def show(*arguments, status=0, columns=80):
    """The lines below the prompt; no bar, no escape that the emulator does not know."""
    terminal = Terminal(FP8CONV, *arguments, columns=columns, lines=200).emulate()
    if terminal.finish() != status:
        print(*arguments, "ended with", terminal.status, "not", status)
    lines = terminal.display()[1:]
    for line in lines:
        if re.search(r"^ *\d+%|\[=|\x1b", line) and "--" not in line:
            print(*arguments, "left on the screen:", line)
    return lines


def expect(what, lines, patterns):
    """Each line is like its pattern, and there are no others."""
    if len(lines) != len(patterns) or not all(map(re.fullmatch, patterns, lines)):
        print(what, "shows:", *lines, sep="\n  ")


summary = [r"tensors    26 blockwise, 12 kept", r"size       921 kB in, 495 kB out \(54 %\)", r"time       .*, peak memory \d+ MiB",
           r"worst SQNR \d\d\.\d\d dB, model\..*", r"saturated  0 values"]
place = [r"output     out"]

os.symlink(MOE, "m")
os.symlink(SAMPLES + "/tiny-llama", "dense")
pathlib.Path("text.txt").write_text("A text that a model is calibrated with. " * 40)
expect("quantize", show("quantize", "m", "-o", "out"), summary + place + [r"next       fp8conv verify out --source m"])
expect("quantize again", show("quantize", "m", "-o", "out"),
       summary[:2] + [r"time       0\.\d s, peak memory \d+ MiB", r"files      0 written, 2 already finished"] +
       place + [r"next       fp8conv verify out --source m"])
expect("repack", show("repack", "out", "-o", "ct", "--format", "compressed-tensors", "--target", "vllm"),
       [r"tensors    26 blockwise, .* kept", r"size .*", r"time .*", r"output     ct", r"next       fp8conv verify ct --target vllm"])
expect("quantize --target", show("quantize", "m", "-o", "v", "--target", "vllm")[-1:],
       [r"next       fp8conv verify v --source m --target vllm"])
expect("dequantize", show("dequantize", "out", "-o", "it's", "--dtype", "bf16"),
       [r"tensors    26 bf16, .* kept", r"size .*", r"time .*", r"output     'it'\\''s'"])
expect("verify", show("verify", "out"), [r"OK: 64 tensors, 26 FP8 weights; names, types, shapes, config, scales, codes"])
expect("verify --source", show("verify", "out", "--source", "m"),
       [r"OK: 64 tensors, 26 FP8 weights; every scale and code compared with the source",
        r"next       fp8conv eval out --source m --data FILE"])
for command in (["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "k.pem"], ["pkey", "-in", "k.pem", "-pubout", "-out", "k.pub"]):
    subprocess.run(["openssl", *command], check=True)
show("quantize", "m", "-o", "signed", "-q", "--sign", "k.pem")
expect("verify --manifest --key", show("verify", "signed", "--manifest", "--key", "k.pub")[1:],
       [r"manifest   every file has the recorded SHA-256", r"signature  every file is signed with the key of k\.pub"])
# A model that eval does not run is not to be measured.
pathlib.Path("encoder").mkdir()
for name, text in (("config.json", pathlib.Path("dense/config.json").read_text().replace("LlamaForCausalLM", "LlamaModel")),
                   ("model.safetensors", None)):
    pathlib.Path("encoder", name).write_bytes(text.encode() if text else pathlib.Path("dense", name).read_bytes())
show("quantize", "encoder", "-o", "e8", "-q")
expect("verify of an encoder", show("verify", "e8", "--source", "encoder")[-1:], [r"next       fp8conv report e8 --source encoder -o e8"])
expect("families", show("families")[-1:], [r"'fp8conv families FAMILY' lists the rules of one\."])
expect("eval", show("eval", "out", "--source", "m", "--data", "text.txt", "--seq-len", "16", "--passes", "4")[-4:],
       [r"tokens     64, \d+ per second", r"time .*",
        r"perplexity \d+\.?\d* \(source \d+\.?\d*, [-+]\d+\.\d %\), KLD 0\.\d+, same top token \d+\.\d %",
        r"next       fp8conv report out --source m -o out"])
expect("eval without a source", show("eval", "m", "--data", "text.txt", "--seq-len", "16", "--passes", "4")[-1:], [r"perplexity \d+\.?\d*"])
expect("report", show("report", "out", "-o", "out")[-1:], [r"next       hf upload ORG/NAME out"])
expect("verify with problems", show("verify", "dense", status=1)[-1:], [r"1 problem in 38 tensors, 0 FP8 weights"])
expect("verify --quiet", show("verify", "out", "--quiet"), [])
expect("calibrate", show("calibrate", "dense", "--data", "text.txt", "--seq-len", "16", "--passes", "2", "--min-tokens", "1", "-o", "s.amax"),
       [r"passes     2", r"tokens     32, \d+ per second", r"perplexity \d+\.\d{4}", r"time .*", r"output     s\.amax",
        r"next       fp8conv quantize dense -o DIR --recipe delayed --calibration s\.amax"])
expect("calibrate --resume of what is finished", show("calibrate", "dense", "--data", "text.txt", "--seq-len", "16", "--passes", "2", "-o",
                                                      "s.amax", "--min-tokens", "1", "--resume")[:2],
       [r"passes     2, 2 of them from earlier runs: the file was finished", r"tokens     32"])
expect("calibrate of one pass", show("calibrate", "dense", "--data", "text.txt", "--seq-len", "16", "--passes", "1", "--dry-run")[1:2],
       [r"1 pass, 1 sequence, 16 tokens"])
expect("compensated", show("quantize", "dense", "-o", "c", "--recipe", "channelwise", "--rounding", "compensated", "--data", "text.txt",
                           "--seq-len", "16", "--passes", "8")[3:6],
       [r"rounding   compensated, shrink .* of codes are not the nearest",
        r"KLD        0\.\d+ on 1 held-out sequence \(to nearest 0\.\d+; weights only\)",
        r"worst SQNR \d\d\.\d\d dB, model\..* \(lower by intention\)"])
# A command that is too long for a line goes on after a backslash, before an option and never within a name.
expect("a long command", show("calibrate", "dense", "--data", "text.txt", "--seq-len", "16", "--passes", "1", "--min-tokens", "1", "-o",
                              "amax - of 'it' -x.amax")[-2:],
       [r"next       fp8conv quantize dense -o DIR --recipe delayed \\",
        r"             --calibration 'amax - of '\\''it'\\'' -x\.amax'"])
expect("sensitivity", show("sensitivity", "dense", "--data", "text.txt", "--seq-len", "16", "--passes", "1", "--ragged", "--exclude",
                           "mlp|layers.[1-3]", "--recipe", "channelwise,mxfp8", "--format", "compressed-tensors", "-o", "S.json")[-2:],
       [r"output     S\.json", r"next       fp8conv sensitivity --from S\.json --budget 10% -o KEEP"])
expect("choice", show("sensitivity", "--from", "S.json", "--budget", "10%", "-o", "KEEP", "dense")[-4:],
       [r"output     KEEP", r"next       fp8conv quantize dense -o DIR --recipe channelwise \\",
        r"             --format compressed-tensors --exclude 'mlp\|layers\.\[1-3\]' --ragged \\",
        r"             --tensors KEEP"])
pathlib.Path("t.amax").write_bytes(pathlib.Path("s.amax").read_bytes())
expect("merge", show("merge", "s.amax", "t.amax", "-o", "m.amax"),
       [r"fp8conv merge: note: 's\.amax' and 't\.amax' are of the same data, which counts",
        r"  twice",
        r"passes     4", r"tokens     64", r"output     m\.amax",
        r"next       fp8conv quantize MODEL -o DIR --recipe delayed --calibration m\.amax"])
expect("an error", show("quantize", "nowhere", "-o", "x", status=3), [r"fp8conv quantize: .*nowhere.*"])

for command in (["inspect", "out"], ["inspect", "--stats", "out"], ["inspect", "dense"], ["recipes"], ["formats"],
                ["quantize", "m", "--dry-run"], ["dequantize", "out", "--dry-run"], ["inspect", "s.amax"]):
    lines = show(*command)
    terminal = Terminal(FP8CONV, *command, columns=200, lines=200).emulate()
    terminal.finish()
    if len(lines) > len(terminal.display()[1:]) + (3 if command == ["recipes"] else 0):
        print(*command, "wraps on 80 columns:", *lines[:12], sep="\n  ")
# A long reason stands below its line, so that names are not cut where they differ.
experts = [f"backbone.layers.1.mixer.experts.{n}.{side}_proj.weight=BF16:320x320" for n in range(4) for side in ("up", "down")]
subprocess.run([sys.executable, os.environ["CLI"] + "/checkpoint.py", "make", "ragged.safetensors",
                "backbone.layers.5.mixer.o_proj.weight=BF16:128x128", *experts], check=True)
names = [line.split()[0] for line in show("quantize", "ragged.safetensors", "--dry-run") if line.startswith("backbone.")]
if len(set(names)) != 9:
    print("quantize --dry-run does not tell tensors apart:", *names, sep="\n  ")

names = [line.split()[0] for line in show("inspect", "dense") if line.startswith("model.")]
if names != sorted(names, key=lambda name: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)]):
    print("inspect is not in the order of layers:", *names)

commands = re.findall(r"^  ([a-z]+) ", "\n".join(show("--help")), re.M)
for columns in (60, 80):
    for command in [[]] + [[name] for name in commands]:
        text = Terminal(FP8CONV, *command, "--help", columns=columns)
        text.finish()
        wide = [line for line in text.text.decode().split("\r\n") if len(line) > columns and " " in line.strip()]
        for line in wide:
            print(f"{columns} columns:", *command, "--help:", line)
if len(commands) < 9:
    print("--help lists only", *commands)
