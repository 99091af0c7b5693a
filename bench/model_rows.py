# SPDX-License-Identifier: Apache-2.0
"""The rows of run.py that calibrate random models of real shapes, against the products of their weights and transformers."""
from pathlib import Path

from table import Row, ratios, remove, run

BENCH = Path(__file__).resolve().parent
# Name in random_model.py, what it is, sequences, tokens of each, GB of the files and in memory.
MODELS = (("qwen3_5", "Qwen3.5 of 0.8 B", 8, 512, 4), ("nemotron_h", "Nemotron-H of 1.0 B", 8, 512, 6),
          ("lfm2", "LFM2 of 1.2 B", 8, 512, 6), ("deepseek_v32", "2 layers of DeepSeek-V3.2", 4, 2048, 8),
          ("deepseek_v4", "3 layers of DeepSeek-V4-Flash", 4, 2048, 14),
          ("qwen3_moe", "4 layers of Qwen3-30B-A3B", 16, 512, 14))

# Names that transformers writes as they are in memory, made into the release's.
RENAMED = {"deepseek_v4": (r"s/^model\.//", "s/^embed_tokens/embed/", r"s/^hc_head\.hc_/hc_head_/", r"s/\.attn\.norm\./.attn.kv_norm./")}


def models(bench) -> None:
    if not bench.options.with_python:
        bench.table.skip("models", "calibrate, random models", "no environment with transformers given")
        return
    for name, what, n, tokens, gb in MODELS:
        if bench.has_room(bench.disk, gb, "models", f"calibrate, {what}"):
            calibrate(bench, name, what, 2 if bench.options.quick else n, tokens)


def calibrate(bench, name: str, what: str, n: int, tokens: int) -> None:
    """Whole processes, loading included; the products, of sequences of 512 tokens, and transformers time their passes alone."""
    folder, threads = bench.disk / name, 2
    python, ids, out = Path(bench.options.with_python) / "bin" / "python", bench.token_ids(n, tokens), bench.disk / "s.amax"
    folder.mkdir()
    run([python, BENCH / "random_model.py", name, folder], bench.log)
    model = folder / "model"
    commands = {"products": [bench.tools / "products", "-b", "cpu", "-t", threads, "-n", n * tokens // 512, "-f", folder / "products"],
                "calibrate": [bench.fp8conv, "calibrate", model, "--data", ids, "-o", out, "--backend", "cpu", "--quiet",
                              "--threads", threads, *(f"--rename={expression}" for expression in RENAMED.get(name, ()))],
                "transformers": [python, BENCH / "transformers_forward.py", model, ids, threads]}
    rates: dict[str, list[float]] = {command: [] for command in commands}
    for _ in range(min(bench.runs, 3)):
        for command, argv in commands.items():
            remove(out)
            seconds = run(argv, bench.log).seconds
            told = bench.log.read_text().split()
            rates[command].append(n * tokens / (seconds if command == "calibrate" else float(told[-1])))
    remove(out)
    remove(folder)
    for peer, limit, target in (("products", "the products of its weights, oneDNN", ">= 0.7"),
                                ("transformers", "transformers, bf16", ">= 1.8")):
        bench.table.add(Row("models", f"calibrate, {what}, {n} x {tokens} tokens", "tok/s", rates["calibrate"], limit,
                            rates[peer], ratios(rates["calibrate"], rates[peer]), target))
