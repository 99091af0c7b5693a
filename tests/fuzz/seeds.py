# SPDX-License-Identifier: Apache-2.0
"""First inputs for the fuzz targets, from the sample checkpoints: seeds.py FOLDER."""
import gzip
import json
import pathlib
import re
import struct
import subprocess
import sys

SAMPLES = pathlib.Path("sample_checkpoints")
MOST = 8192                                       # bytes of an input

# Small checkpoints of every kind that the converter tells apart, as fuzz.h has them.
LINES = {
    "llama": ["model.embed_tokens.weight BF16 16 128", "model.layers.0.self_attn.q_proj.weight BF16 128 128",
              "model.layers.0.self_attn.k_proj.weight BF16 128 128", "model.layers.0.self_attn.v_proj.weight BF16 128 128",
              "model.layers.0.input_layernorm.weight BF16 128", "lm_head.weight F16 16 128"],
    "mlp": ["model.layers.0.mlp.gate_proj.weight F32 32 64", "/", "model.layers.0.mlp.up_proj.weight F32 32 64",
            "model.layers.0.mlp.down_proj.weight F32 64 32"],
    "fused": ["model.layers.0.mlp.experts.gate_up_proj BF16 3 32 64", "model.layers.0.mlp.experts.down_proj BF16 3 64 16",
              "model.layers.0.mlp.gate.weight BF16 3 64"],
    "transposed": ["model.layers.0.mlp.experts.gate_up_proj BF16 2 64 32",
                   "model.layers.0.mlp.experts.down_proj BF16 2 16 64"],
    "experts": ["model.layers.0.mlp.experts.0.up_proj.weight BF16 32 32", "model.layers.0.mlp.experts.1.up_proj.weight BF16 32 32"],
    "fp8": ["model.layers.0.mlp.up_proj.weight F8_E4M3 128 256", "model.layers.0.mlp.up_proj.weight_scale_inv F32 1 2"],
    "fp8 tensor": ["a.up_proj.weight F8_E5M2 32 32", "a.up_proj.weight_scale F32", "a.up_proj.input_scale F32"],
    "fp8 half": ["a.up_proj.weight F8_E4M3 32 32", "a.up_proj.weight_scale F16 32 1"],
    "fp8 mx": ["a.up_proj.weight F8_E4M3 32 64", "a.up_proj.weight_scale U8 32 2"],
    "odd": ["a.weight BF16 3 5", "b F4 2", "c BOOL", "d F32 0 7", "e.o_proj.weight F32 130 7"],
}
# Models that run: 1 layer of 2 heads, 32 tokens.
SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 8, "vocab_size": 32, "rms_norm_eps": 1e-5, "max_position_embeddings": 64}
ENDS = ["model.embed_tokens.weight BF16 32 16", "model.norm.weight BF16 16", "lm_head.weight BF16 32 16",
        "model.layers.0.input_layernorm.weight BF16 16", "model.layers.0.post_attention_layernorm.weight BF16 16"]
ATTENTION = [("self_attn.q_proj", 16, 16), ("self_attn.k_proj", 8, 16), ("self_attn.v_proj", 8, 16), ("self_attn.o_proj", 16, 16)]
MLP = [("mlp.gate_proj", 32, 16), ("mlp.up_proj", 32, 16), ("mlp.down_proj", 16, 32)]
EXPERTS = [(f"block_sparse_moe.experts.{e}.{w}", n, k) for e in (0, 1) for w, n, k in (("w1", 32, 16), ("w3", 32, 16), ("w2", 16, 32))]
RUNNING = {"llama": ({"architectures": ["LlamaForCausalLM"]}, ATTENTION + MLP, []),
           "gemma2": ({"architectures": ["Gemma2ForCausalLM"], "query_pre_attn_scalar": 8, "final_logit_softcapping": 30.0},
                      ATTENTION + MLP, [f"model.layers.0.{n}_feedforward_layernorm.weight BF16 16" for n in ("pre", "post")]),
           "mixtral": ({"architectures": ["MixtralForCausalLM"], "num_local_experts": 2, "num_experts_per_tok": 1},
                       ATTENTION + EXPERTS, ["model.layers.0.block_sparse_moe.gate.weight BF16 2 16"])}
# How FP8 of them is told and scaled.
SCHEMES = [({"quant_method": "compressed-tensors", "format": "float-quantized",
             "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
                                           "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}}}},
            lambda m, n, k: [f"{m}.weight_scale F32 {n} 1"]),
           ({"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
            lambda m, n, k: [f"{m}.weight_scale_inv F32 1 1"]),
           ({"quant_method": "modelopt", "quant_algo": "FP8"},
            lambda m, n, k: [f"{m}.weight_scale F32", f"{m}.input_scale F32"] +
            ([f"{m}.{m[-6]}_scale F32"] if m[-6:] in ("k_proj", "v_proj") else []))]
IDS = '{"input_ids": [1, 2, 3, 4, 5]}\n{"input_ids": [31, 0, 7]}\n'
CONFIGS = [{"model_type": "llama", "hidden_size": 64, "moe_intermediate_size": 16},
           {"text_config": {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}}]
QUANTIZATIONS = [
    {"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0", "activation_scheme": "dynamic"},
    {"quant_method": "compressed-tensors",
     "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32},
                                   "input_activations": {"dynamic": True}}}},
    {"quant_method": "fp8", "meta": {"quantizer": ["gptqmodel:2"]}},
    {"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"},
    {"quantization": {"quant_algo": "MXFP8"}},
]

# Options of a plan of the library.
PLANS = [{}, {"recipe": "current", "format": "compressed-tensors"}, {"recipe": "mxfp8", "on-nonfinite": "saturate"},
         {"recipe": "blockwise", "ragged": True, "target": "vllm"}, {"requantize": True, "tensor": ["up=channelwise", "down=skip"]}]
CARDS = ["license: apache-2.0\nlanguage:\n- en\n- 'no'\npipeline_tag: text-generation", "language: [en, \"fr\", 'it''s']",
         "license: \"a \\\"b\\\" \\\\\" # comment", "license: &x |\n  a\nbase_model:\n  - Org/Name", "license_name: {a: b}\r\n# x",
         "library_name: !!str x\nbase_model_relation: quantized\nlicense_link: https://x/y"]
COUNTS = {"tokens": 8, "targets": 7, "sequences": 1, "seq_len": 8, "data_sha256": "0" * 64}
# Results of lm_eval, as its program writes them: of a checkpoint, and of its source.
BENCHMARKS = [[{"results": {"t": {"alias": "t", "acc,none": value, "acc_stderr,none": 0.09, "ppl,none": 1.5, "ppl_stderr,none": "N/A"},
                            "g": {"alias": "g", "acc,none": value, "acc_stderr,none": 0.06}},
                "group_subtasks": {"g": ["t"]}, "versions": {"t": 1.0}, "n-shot": {"t": 0, "g": 0},
                "higher_is_better": {"t": {"acc": True, "ppl": False}}, "n-samples": {"t": {"original": 20, "effective": 20}},
                "model_name": "m"} for value in pair] for pair in ((0.2, 0.4), (0, 0), (1e308, 1e-308))]
RESULTS = [
    {"schema": 1, "perplexity": {"value": 2.5, "se": None}, **COUNTS},
    {"perplexity": {"value": 2.5, "se": 0.1}, "source_perplexity": {"value": 2}, "correlation": 0.9, "kld": {"mean": 0.1, "p99_9": 1},
     "delta_p": {"rms": 1, "min": -3}, "same_top": {"value": 90, "se": 1}, **COUNTS, "data": ["a/b.txt"], "precision": "bf16",
     "activations": "engine", "model": "m", "source": None},
    {"perplexity": {"value": 1}, **COUNTS, "layers": [{"layer": 0, "residual": {"sqnr_db": 20}, "modules": [
        {"module": "m.0.up", "local": {"sqnr_db": 30}, "accumulated": {"sqnr_db": None}, "saturated": None, "zeros": 0.1}]}]},
    {"perplexity": {"value": 1}, "tokens": -1}, {"perplexity": []}, [],
]


# Data of each kind that fuzz_dataset.c knows, by its number there.
NPY = b"\x93NUMPY\1\0\x46\0" + b"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }".ljust(69) + b"\n" + struct.pack("<4i", 1, 2, 3, 299)
ZSTD = bytes.fromhex("28b52ffd2007390000") + b"abc<c> "                       # one raw block
CHAT = [{"text": "ab <c>"}, {"prompt": "a", "completion": "b"}, {"messages": [{"role": "user", "content": "ab"}, {
    "role": "assistant", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": "a"}]}]},
    {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": None}]}]
FILES = [(0, IDS.encode()), (0, "\n".join(map(json.dumps, CHAT)).encode()), (1, json.dumps(CHAT).encode()), (2, b"\xef\xbb\xbfab<c>  a\nb\xff"),
         (3, NPY), (4, gzip.compress(NPY, mtime=0)), (5, gzip.compress(b"ab c", mtime=0)), (6, ZSTD), (7, gzip.compress(b"[]", mtime=0)), (8, ZSTD),
         (9, ZSTD), (0, b'{"input_ids": [1, 2], "text": "a"}\n\n{"input_ids": [-1]}'), (1, b'[{"input_ids": [300]}')]

RECORD = {"name": "model.safetensors", "size": 16696, "mtime": "1795730826.623144162", "header_crc32": "c566ca34", "state": "898df4b0"}
SPEC = {"fp8_format": "e4m3", "tile": [128, 128], "pow2": True, "scale_arith": "te", "mx_scale": "up", "amax_epsilon": 0.0, "margin": 0}
MANIFEST = {"tool": "fp8conv", "version": "0.1.0", "command": "quantize", "options": {
    "recipe": "blockwise", "format": "hf", "target": "any", "profile": "vendor", "scales": SPEC, "include": [], "exclude": [], "tensor": [],
    "ragged": False, "requantize": False, "on_nonfinite": "error", "preserve_high_precision": False, "kv_cache": False, "calibration": None},
    "inputs": [RECORD], "shards": [{"name": "model.safetensors", "size": 16696, "plan": "62eeb138", "crc32": "04fbc449"}], "finished": True}
HASHES = [{"name": "config.json", "size": 719, "sha256": "0" * 64}, {"name": "a/b.json", "size": 0, "sha256": "1" * 64}]
ROUNDING = {"data_sha256": "0" * 64, "sequences": 4, "tokens": 2048, "domains": [4], "executor": "cpu", "shrink": 0.5}
MANIFESTS = [
    MANIFEST, MANIFEST | {"files": HASHES, "inputs": [RECORD | {"sha256": "2" * 64}, *HASHES]},
    MANIFEST | {"options": {"recipe": "mxfp8", "tensor": ["a=skip", "b=mxfp8"], "exclude": ["a"], "scales": SPEC | {"pow2": False, "margin": 32},
                            "rounding": ROUNDING, "tensors": "0"},
                "rounding": {"rounding": "compensated", "shrink": 0.25, "tried": []}},
    {"tool": "fp8conv", "command": "dequantize", "options": {"dtype": "bf16"}, "inputs": [], "shards": [], "finished": False},
    MANIFEST | {"options": MANIFEST["options"] | {"scales": SPEC | {"scale_arith": "deepseek", "amax_epsilon": 1e-12}}}, [], {}]

TABLE = {"fp8conv_sensitivity": 1, "tool": "fp8conv 0.1.0", "model": "6b", "by": "layer", "precision": "f32", "backend": "cpu",
         "data_sha256": "0c", "sequences": 1, "seq_len": 64, "tokens": 64, "recipes": [], "groups": []}
WAY = {"recipe": "channelwise", "options": {"recipe": "channelwise"}, "kld_sum": 0.003, "unmeasured": ["lm_head"]}
GROUP = {"recipe": "channelwise", "group": "layers.0.qkv", "layer": 0, "modules": [{"name": "model.layers.0.self_attn.q_proj", "shape": [256, 128]}],
         "bytes": {"bf16": 131072, "fp8": 67584}, "kld": {"mean": 0.0005, "se": None}}
TABLES = [TABLE, TABLE | {"recipes": [WAY], "groups": [GROUP, GROUP | {"layer": None, "kld": {"mean": 1e-9, "se": 0.1}}]},
          TABLE | {"recipes": [WAY, WAY | {"recipe": "blockwise"}], "groups": [GROUP, GROUP | {"recipe": "blockwise", "kld": None}]}]


def amax(passes):
    """Header and data of a history of a module and an attention."""
    header = {"__metadata__": {"fp8conv_amax": "1", "model": "m", "data": "0123456789abcdef" * 2, "tokens": "9", "passes": "3",
                               "seq_len": "3", "precision": "bf16", "backend": "cpu+cuda", "amax_history_len": "4"}}
    data = b""
    for name, dtype, shape, block in (("a.q.tokens", "I64", [passes], b"\7" + bytes(7)), ("a.tokens", "I64", [passes], bytes(8)),
                                      ("a.amax_history_qkv", "F32", [passes, 3], b"\0\0\x80\x3f" * 3),
                                      ("a.q.amax_history", "F32", [passes, 3], b"\0\0\x80\x7f" * 3)):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + passes * len(block)]}
        data += block * passes
    return json.dumps(header), data


def small_tokenizer(name, text):
    """A golden tokenizer with a part of its vocabulary."""
    state = json.loads(text)
    model = state["model"]
    model["vocab"] = dict(sorted(model["vocab"].items(), key=lambda item: (len(item[0]) > 1, item[1]))[:120])
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    found = {token for pair in pairs for token in ["".join(pair)] if all(part in model["vocab"] for part in pair)}
    for token in sorted(found):
        model["vocab"].setdefault(token, len(model["vocab"]) + 300)
    model["merges"] = [pair for pair in pairs if all(part in model["vocab"] for part in [*pair, "".join(pair)])][:40]
    if name == "falcon":
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    return json.dumps(state, ensure_ascii=False, separators=(",", ":"))


def deltas():
    """What fuzz_delta.c makes a file of: rows of each kind, other files, several tensors."""
    header = {"a": {"dtype": "F8_E4M3", "shape": [4, 10], "data_offsets": [0, 40]},
              "b": {"dtype": "BF16", "shape": [20], "data_offsets": [40, 80]}, "c": {"dtype": "F32", "shape": [0], "data_offsets": [80, 80]}}
    size = 8 + len(json.dumps(header)) + 80
    other = {"name": "config.json", "size": 3, "sha256": "0" * 64}
    row = lambda *numbers: b"".join(n.to_bytes(4, "little") for n in numbers)
    kinds = [row(0, 0, 0, 40, 40) + bytes(range(40)), row(0, 0, 1, 3, 6) + b"\1\5\x20abc", row(0, 0, 2, 2, 6) + b"\1\2\0\0ab",
             row(0, 0, 4, 9, 14) + b"\xff\1\0\0\0abcdefghi"]
    for kind in kinds:
        for files, removed in ([], []), ([other], ["sub/x.txt"]):
            about = {"weights": [{"name": "m.safetensors", "size": size, "frame": "@"}], "files": files, "removed": removed}
            yield about, header, [kind, row(1, 0, 1, 2, 6) + b"\0\3\1\2\3\4"]


def without_checksums(archive):
    """The archive with a CRC-32 of 0 for each member, which is not compared: a pickle may change alone."""
    return re.sub(rb"(PK\x01\x02.{12}).{4}", rb"\g<1>\0\0\0\0", archive, flags=re.DOTALL)


def slices():
    """Pairs of ranks, each (bytes of data, header): rows, columns, a tensor of one rank alone, a gap, an overlap, other types and shapes."""
    def rank(**tensors):
        at, header, where = 0, {}, {}
        for name, (dtype, shape, offsets) in tensors.items():
            n = {"F32": 4, "BF16": 2, "U8": 1}[dtype]
            for dim in shape:
                n *= dim
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
            where[name] = {"saved_offsets": offsets}
            at += n
        return at, {"__metadata__": {"DCP_SHARDING_INFO": json.dumps(where)}} | header

    yield rank(w=("F32", [2, 3], [0, 0])), rank(w=("F32", [2, 3], [2, 0]))
    yield rank(w=("BF16", [4, 2], [0, 0])), rank(w=("BF16", [4, 3], [0, 2]))
    yield rank(w=("U8", [5], [0]), v=("F32", [1, 1], [0, 0])), rank(w=("U8", [2], [5]))
    yield rank(w=("F32", [2, 2, 2], [0, 0, 0])), rank(w=("F32", [2, 2, 2], [0, 2, 0]), s=("F32", [], []))
    yield rank(w=("F32", [2], [0])), rank(w=("F32", [2], [3]))
    yield rank(w=("F32", [2], [0])), rank(w=("F32", [2], [1]))
    yield rank(w=("F32", [2], [0])), rank(w=("BF16", [2], [2]))
    yield rank(w=("F32", [2], [0])), rank(w=("F32", [1, 2], [2, 0]))
    yield rank(w=("F32", [0, 2], [0, 0])), rank(w=("F32", [2, 2], [0, 0]))
    yield rank(w=("F32", [2], [2 ** 63 - 1])), rank(w=("F32", [2], [0]))


def main():
    out = pathlib.Path(sys.argv[1])
    broken = out / "broken"                       # no target's
    subprocess.run([sys.executable, SAMPLES / "broken.py", broken], check=True)
    count = 0

    def put(target, *parts):
        nonlocal count
        text = b"\0".join(p if isinstance(p, bytes) else p.encode() for p in parts)
        if len(text) <= MOST:
            (out / target).mkdir(parents=True, exist_ok=True)
            (out / target / f"{count:04}").write_bytes(text)
            count += 1

    def samples(pattern):
        return sorted(SAMPLES.rglob(pattern)) + sorted(broken.rglob(pattern))

    for file in samples("*.safetensors"):
        if not file.is_file():
            continue
        data = file.read_bytes()
        n = int.from_bytes(data[:8], "little")
        if len(data) <= MOST:
            put("header", b"r" + data)
        if n < len(data):
            size = len(data) - 8 - n
            put("header", bytes([size & 255, size >> 8 & 255]) + data[8:8 + n])
            put("inspect", b"", b"", data[8:8 + n])
            put("convert", b"\0\0", data[8:8 + n])
    sys.path.insert(0, str(SAMPLES))
    import broken_torch
    for make in (broken_torch.tensors, broken_torch.dicts, broken_torch.globals_and_opcodes, broken_torch.machine, broken_torch.zips):
        for _, data, _ in make():
            put("torch", b"z" + data)
            put("torch", b"z" + without_checksums(data))
    for data in (broken_torch.GOOD, broken_torch.archive()):
        put("torch", (b"p" if data is broken_torch.GOOD else b"z") + data)
    sys.path.insert(0, "tests/cli")
    import states
    for data in states.KINDS.values():
        put("torch", b"s" + data)
    import distcp
    for data in [*distcp.GOOD.values(), *(content for content, _ in distcp.KINDS.values())]:
        put("torch", b"d" + data)
    for headers in slices():
        put("slices", struct.pack("<HH", *(n for n, _ in headers)) + json.dumps(headers[0][1]).encode(), json.dumps(headers[1][1]).encode())
    for passes in 0, 1, 3:
        put("amax", *amax(passes))
    for file in samples("*.index.json"):
        put("index", file.read_bytes())
    put("index", '{"weight_map":{"a":"b.safetensors"}}', '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}')
    configs = [file.read_bytes() for file in samples("config.json")]
    configs += [json.dumps(config).encode() for config in CONFIGS]
    configs += [json.dumps({"quantization_config": q}, indent=2).encode() for q in QUANTIZATIONS]
    for config in configs:
        put("config", config)
    for q in QUANTIZATIONS:
        put("config", "{}", json.dumps(q))
        put("inspect", "{}", json.dumps(q), "\n".join(LINES["fp8"]))
    for i, (name, lines) in enumerate(LINES.items()):
        text = "\n".join(lines)
        put("inspect", configs[i % len(configs)], b"", text)
        high = "\n".join(re.sub(r"F8_E[45]M[23]", "BF16", line) for line in lines if "scale" not in line)
        for q in QUANTIZATIONS:
            put("verify", json.dumps({"quantization_config": q}), b"", text, b"\x38\x80\x3f\x3c", b"")
            put("verify", json.dumps({"quantization_config": q}), b"", text, b"\x38\x00\x80\x3f", high)
        for kind in range(10):
            options = 2 | kind % 2 << 6 if name.startswith("fp8") else kind % 2 | kind % 3 << 3 | kind % 4 // 3 << 2
            put("convert", bytes([kind, options]) + (json.dumps(CONFIGS[0]).encode() if kind % 2 else b""), text,
                b"\x80\x3f\x00\xbf")
        for j, options in enumerate(PLANS):
            put("plan", json.dumps(options), json.dumps(CONFIGS[j % 2]), "\n".join(line for line in lines if line != "/"), b"\x80\x3f\0\xbf")
    for i, (config, matrices, others) in enumerate(RUNNING.values()):
        high = "\n".join(ENDS + others + [f"model.layers.0.{name}.weight BF16 {n} {k}" for name, n, k in matrices])
        put("eval", json.dumps(SMALL | config), high, b"\x80\x3d\x10\xbd\x20\x3d", b"", b"\x12\0" + IDS.encode())
        for j, (quantization, scales) in enumerate(SCHEMES):
            low = ENDS + others
            for name, n, k in matrices:
                low = low + [f"model.layers.0.{name}.weight F8_E4M3 {n} {k}", *scales(f"model.layers.0.{name}", n, k)]
            put("eval", json.dumps(SMALL | config | {"quantization_config": quantization}), "\n".join(low), b"\x10\x3c\x14\x3c",
                high if i != j else b"", bytes([(8, 9, 12)[j] | i % 2 << 1, 0]) + IDS.encode())
    lines = pathlib.Path("tests/golden/tokenizer.txt").read_text(encoding="ascii").splitlines()
    texts = [bytes.fromhex(line[5:]) for line in lines if line.startswith("text ") and line != "text -"]
    for i, line in enumerate(pathlib.Path("tests/golden/tokenizers.txt").read_text(encoding="utf-8").splitlines()):
        for text in texts[i::14]:
            put("tokenizer", small_tokenizer(*line.split(" ", 1)), text[:300])
    for card in CARDS:
        put("report", f"---\n{card}\n---\n# x\n", "")
    for kind, data in FILES:
        for options in (0, 66, 131):
            put("dataset", bytes([kind, options]) + data)
    for manifest in MANIFESTS:
        put("manifest", json.dumps(manifest, indent=1))
        put("manifest", json.dumps(manifest, indent=1) + " ")
    for table in TABLES:
        put("keep", json.dumps(table))
        put("keep", json.dumps(table) + " ")
    for result in RESULTS:
        put("report", "---\nlicense: mit\n---\n", json.dumps(result))
    for about, header, rows in deltas():
        put("delta", json.dumps(about).replace('"@"', "@"), json.dumps(header), b"".join(rows))
    for own, source in BENCHMARKS:
        put("report", "", "", json.dumps(own), json.dumps(source))


main()
