# SPDX-License-Identifier: Apache-2.0
"""Damages FP8 checkpoints in every plausible way, and prints the ways that `verify` passes.

ruin.py [--all] [--source] DIR ARCH...   models of tiny.py, converted in DIR; a line for each way: ARCH RECIPE/FORMAT: what

Each kind of tensor (a name without its numbers) is damaged in the middle layer and expert, without the manifest of fp8conv,
which has a checksum of each file.  --all: also the ways that are right to pass, which HARMLESS lists with the reason.
--source: asks `verify --source` and --target too of what passes.
"""
import copy
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys

import checkpoint

FP8CONV = os.environ.get("FP8CONV", "build/fp8conv")
PAIRS = [("mxfp8", "hf"), ("channelwise", "compressed-tensors"), ("channelwise", "modelopt")]
WIDTH = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "F8_E8M0": 1, "U8": 1, "F16": 2, "I64": 8, "I32": 4}


# Ways that pass by right: what they are, and why nobody can see them without the source.
HARMLESS = [
    (r"weight as F(16|32)$", "engines convert it while they load"),
    (r"weight_scale (as F16|all 1|times 64)$", "a note, as an outlier"),
    (r"weight_scale times 1/64$", "weights of that size are possible"),
    (r"second half zero$", "a note with E8M0 scales: pruned rows look so"),
    (r"weight all 1e38$", "finite values"),
    (r"^config [\w.]+ (removed|null)$", "the default of the model's class counts"),
    (r"^config quantization_config\.version ", "no loader reads it"),
    (r"^config quantization_config\.fmt a string$", "no loader of hf reads it beside scales in E8M0"),
    (r"^config quantization_config\.global_compression_ratio ", "no loader reads it"),
    (r"^config quantization_config\..*(observer|output_activations|actorder|strategy|scale_fmt|input_activations) ", "as its default, or unread"),
    (r"^config tie_word_embeddings negated$", "heads of tied models are stored too"),
    (r" swapped$", "equal shapes"),
    (r"renamed lora$", "Phi-4-MM has such names"),
    (r" too many$", "zero biases, buffers and parameters of families"),
]


def why(what):
    return next((reason for way, reason in HARMLESS if re.search(way, what)), None)


def run(*args):
    return subprocess.run([FP8CONV, *map(str, args)], capture_output=True, text=True, check=False)


def kind_of(name):
    return re.sub(r"\.\d+\.", ".N.", re.sub(r"\.\d+\.", ".N.", name))


def chosen(tensors):
    """One name of each kind: that of the middle."""
    kinds = {}
    for name in sorted(tensors):
        kinds.setdefault(kind_of(name), []).append(name)
    return [names[len(names) // 2] for names in kinds.values()]


def fill(value):
    def change(tensor):
        dtype, shape, data = tensor
        return dtype, shape, checkpoint.pack(dtype, [value]) * math.prod(shape)
    return change


def first(value):
    def change(tensor):
        dtype, shape, data = tensor
        one = checkpoint.pack(dtype, [value])
        return dtype, shape, one + data[len(one):]
    return change


def times(factor):
    def change(tensor):
        dtype, shape, data = tensor
        return dtype, shape, checkpoint.pack(dtype, [v * factor for v in checkpoint.unpack(dtype, data)])
    return change


def inverse(tensor):
    dtype, shape, data = tensor
    return dtype, shape, checkpoint.pack(dtype, [1 / v for v in checkpoint.unpack(dtype, data)])


def rows(part):
    """The first rows, `part` of them."""
    def change(tensor):
        dtype, shape, data = tensor
        n = int(shape[0] * part)
        return dtype, [n, *shape[1:]], (data * 2)[:len(data) * n // shape[0]]
    return change


def cols(tensor):
    dtype, (n, width), data = tensor
    step = width * WIDTH[dtype]
    return dtype, [n, width // 2], b"".join(data[i * step:i * step + step // 2] for i in range(n))


def transpose(tensor):
    dtype, (n, width), data = tensor
    size = WIDTH[dtype]
    return dtype, [width, n], b"".join(data[(r * width + c) * size:][:size] for c in range(width) for r in range(n))


def reshaped(shape):
    return lambda tensor: (tensor[0], shape(tensor[1]), tensor[2])


def typed(dtype):
    """Other bytes of that type."""
    def change(tensor):
        n = math.prod(tensor[1])
        return dtype, tensor[1], bytes((i * 37 % 60 + 1) if dtype[0] in "FIU" and WIDTH[dtype] == 1 else (0x11, 0x3C)[i % 2] for i in range(n * WIDTH[dtype]))
    return change


def raw(value, part=1.0):
    """Codes of one value, from the end of `part` on."""
    def change(tensor):
        dtype, shape, data = tensor
        n = int(len(data) * part)
        return dtype, shape, data[:len(data) - n] + bytes([value]) * n
    return change


def codes(tensor):
    return tensor[0].startswith("F8_E4M3")


def is_scale(name):
    return name.endswith(("_scale", "_scale_inv"))


def of_tensor(name, tensor):
    """(what, change of the tensor or None to remove it)."""
    dtype, shape, _ = tensor
    yield "removed", None
    if len(shape) == 2 and shape[0] != shape[1]:
        yield "transposed", transpose
    if shape and shape[0] > 1:
        yield "half of its rows", rows(0.5)
        yield "twice its rows", rows(2)
    if len(shape) == 2 and shape[1] > 1:
        yield "half of its columns", cols
    if shape:
        yield "[1, shape]", reshaped(lambda s: [1, *s])
        yield "flat", reshaped(lambda s: [math.prod(s)]) if len(shape) > 1 else reshaped(lambda s: [*s, 1])
    if codes(tensor):
        for other in ("BF16", "F32", "U8"):
            yield f"as {other}", typed(other)
        yield "all zero", raw(0)
        yield "all -0", raw(0x80)
        yield "second half zero", raw(0, 0.5)
        yield "all NaN", raw(0x7F)
        yield "last code NaN", lambda t: (t[0], t[1], t[2][:-1] + b"\xff")
        return
    for other in ("F8_E4M3", "F16", "F32", "I32"):
        if other != dtype:
            yield f"as {other}", typed(other)
    if dtype not in ("BF16", "F32"):
        return
    for what, value in (("NaN", math.nan), ("inf", math.inf)):
        yield f"all {what}", fill(value)
        yield f"first {what}", first(value)
    yield "all zero", fill(0)
    yield "all 1e38", fill(1e38)
    if is_scale(name):
        yield "first zero", first(0)
        yield "all 1", fill(1)
        yield "first -0.01", first(-0.01)
        for value in (1e-42, 1e-30, 1e30):
            yield f"all {value}", fill(value)
        yield "times 64", times(64)
        yield "times 1/64", times(1 / 64)
        yield "negative", times(-1)
        yield "inverse", inverse


def renames(name):
    """Other names that tools or engines give it."""
    for what, (old, new) in {"misspelt": (r"\.([a-z_]+)\.(weight|bias)", r".\1x.\2"), "no prefix": (r"^model\.", ""),
                             "two prefixes": (r"^model\.", "model.model."), "transformer.": (r"^model\.layers", "transformer.h"),
                             "language_model.": (r"^model\.", "language_model.model."), "lora": (r"\.weight$", ".base_layer.weight"),
                             "param": (r"\.weight$", ".kernel"), "upper": (r"\.weight$", ".Weight"),
                             "qkv": (r"\.[qkv]_proj\.", ".qkv_proj."), "gate_up": (r"\.(gate|up)_proj\.", ".gate_up_proj."),
                             "w13": (r"\.experts\.(\d+)\.gate_proj\.weight$", r".experts.w13_weight"),
                             "mlp": (r"\.mlp\.", ".feed_forward."), "attn": (r"\.self_attn\.", ".attention."),
                             "layer 99": (r"layers\.\d+\.", "layers.99.")}.items():
        other = re.sub(old, new, name)
        if other != name:
            yield what, other


CONFIG = """num_hidden_layers num_attention_heads head_dim num_key_value_heads hidden_size intermediate_size vocab_size
moe_intermediate_size num_experts num_local_experts n_routed_experts n_shared_experts shared_expert_intermediate_size
kv_lora_rank q_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim depth num_heads out_hidden_size
first_k_dense_replace num_nextn_predict_layers linear_num_key_heads linear_num_value_heads linear_key_head_dim
linear_value_head_dim linear_conv_kernel_dim num_kv_shared_layers attention_bias mlp_bias layer_types mlp_only_layers""".split()


def of_config(config, path=()):
    """(what, change) of each member that says a size, at any depth."""
    for key, value in config.items():
        at = (*path, key)
        if isinstance(value, dict) and key != "quantization_config":
            yield from of_config(value, at)
        if key == "tie_word_embeddings":
            yield at, "negated", lambda o, k, v=value: o.update({k: not v})
        if key not in CONFIG or value is None:
            continue
        yield at, "removed", lambda o, k: o.pop(k)
        yield at, "null", lambda o, k: o.update({k: None})
        yield at, "a string", lambda o, k, v=value: o.update({k: str(v)})
        yield at, "a float", lambda o, k: o.update({k: 1.5})
        yield at, "negative", lambda o, k: o.update({k: -1})
        if isinstance(value, bool):
            yield at, "negated", lambda o, k, v=value: o.update({k: not v})
        elif isinstance(value, int):
            for what, other in (("+ 1", value + 1), ("- 1", value - 1), ("x 2", value * 2), ("/ 2", value // 2), ("0", 0)):
                yield at, what, lambda o, k, n=other: o.update({k: n})
        elif isinstance(value, list) and value:
            yield at, "one less", lambda o, k, v=value: o.update({k: v[:-1]})
            yield at, "reversed", lambda o, k, v=value: o.update({k: v[::-1]})


def of_quantization(value, path=()):
    """(path, what, change) of each member of quantization_config."""
    for key, member in value.items():
        at = (*path, key)
        yield at, "removed", lambda o, k: o.pop(k)
        for what, other in (("null", None), ("a number", 7), ("a string", "x"), ("a list", []), ("an object", {}), ("true", True), ("false", False)):
            if type(other) is not type(member) or other != member:
                yield at, what, lambda o, k, v=other: o.update({k: v})
        if isinstance(member, dict):
            yield from of_quantization(member, at)


class Model:
    """A sound FP8 checkpoint, of which damaged ones are written."""

    def __init__(self, folder, arch, recipe, form, *options):
        self.name, self.folder, self.source = f"{arch} {recipe}/{form}", folder, folder / arch
        if not self.source.exists():
            subprocess.run([sys.executable, pathlib.Path(__file__).with_name("tiny.py"), "make", arch, self.source], check=True)
        sound = folder / f"{arch}-{recipe}-{form}"
        if not sound.exists():
            done = run("quantize", self.source, "-o", sound, "--recipe", recipe, "--format", form, *options)
            if done.returncode:
                sys.exit(f"{self.name}: {done.stderr}")
        self.tensors = checkpoint.read(sound)
        self.config = json.loads((sound / "config.json").read_text())
        self.target = "transformers" if form == "hf" else "vllm"
        self.n = 0
        self.passed = []

    def asked(self, how, tensors, config):
        out = self.folder / "damaged"
        out.mkdir(exist_ok=True)
        checkpoint.write(out / "model.safetensors", tensors, {"format": "pt"})
        (out / "config.json").write_text(json.dumps(config))
        return run("verify", out, "--progress", "none", *how)

    def read(self):
        """The members of quantization_config that a loader reads; those of modelopt read quant_algo and not the groups."""
        unread = ("config_groups", "producer") if self.name.endswith("/modelopt") else ()
        return {key: value for key, value in self.config["quantization_config"].items() if key not in unread}

    def judge(self, what, tensors, config, sources):
        self.n += 1
        marks = []
        for mark, how in (("alone", ()), ("target", ("--target", self.target)), ("source", ("--source", self.source))):
            if mark != "alone" and not (marks and sources):
                continue
            done = self.asked(how, tensors, config)
            if done.returncode not in (0, 1, 3) or (done.returncode and not done.stdout + done.stderr):
                print(f"{self.name}: {what}: {how} status {done.returncode} {done.stderr}")
            if done.returncode == 0:
                marks.append(mark + (" (note)" if done.stderr.strip() or re.search("^note", done.stdout, re.M) else ""))
        if marks:
            self.passed.append((what, marks))

    def tensor_ways(self):
        for name in chosen(self.tensors):
            for what, change in of_tensor(name, self.tensors[name]):
                yield f"{kind_of(name)} {what}", {n: t if n != name else change(t) for n, t in self.tensors.items() if n != name or change}
            for what, other in renames(name):
                if other not in self.tensors:
                    yield f"{kind_of(name)} renamed {what}", {other if n == name else n: t for n, t in self.tensors.items()}

    def set_ways(self):
        """Whole kinds of tensors, layers and experts."""
        for kind in sorted({kind_of(n) for n in self.tensors}):
            yield f"every {kind} removed", {n: t for n, t in self.tensors.items() if kind_of(n) != kind}
            weight = re.sub(r"_scale(_inv)?$", "", kind)
            if weight != kind:
                yield f"every {weight} with scales removed", {n: t for n, t in self.tensors.items() if not kind_of(n).startswith(weight)}
        for name in chosen(self.tensors):
            if is_scale(name):
                weight = re.sub(r"_scale(_inv)?$", "", name)
                yield f"{kind_of(weight)} with its scale removed", {n: t for n, t in self.tensors.items() if n not in (name, weight)}
                if self.tensors[weight][1][0] % 2 == 0:
                    per_row = self.tensors[name][1][0] == self.tensors[weight][1][0]
                    half = {name: rows(0.5) if per_row else (lambda t: t), weight: rows(0.5)}
                    yield f"{kind_of(weight)} half of its rows, with scales", {n: half[n](t) if n in half else t for n, t in self.tensors.items()}
                    if self.tensors[weight][1][1] <= 128:
                        half = {weight: cols}
                        yield f"{kind_of(weight)} half of its columns, with scales", {n: half[n](t) if n in half else t for n, t in self.tensors.items()}
        for kind in sorted({kind_of(n) for n in self.tensors if is_scale(n)}):
            weight = re.sub(r"_scale(_inv)?$", "", kind)
            each = [n for n in self.tensors if kind_of(n) in (kind, weight)]
            if all(self.tensors[n][1][0] % 2 == 0 for n in each if not is_scale(n)):
                one = {n: rows(0.5) if not is_scale(n) or self.tensors[n][1][0] > 1 else (lambda t: t) for n in each}
                yield f"every {weight} half of its rows, with scales", {n: one[n](t) if n in one else t for n, t in self.tensors.items()}
        stacks = {}
        for n in self.tensors:
            found = re.match(r"(.*?(?:layers|blocks|h)\.)(\d+)\.", n)
            if found:
                stacks.setdefault(found[1], set()).add(int(found[2]))
        for stack, numbers in stacks.items():
            for number in sorted(numbers):
                yield f"{stack}{number} removed", {n: t for n, t in self.tensors.items() if not n.startswith(f"{stack}{number}.")}
            yield f"{stack} one too many", self.tensors | {n.replace(f"{stack}{max(numbers)}.", f"{stack}{max(numbers) + 1}."): t
                                                           for n, t in self.tensors.items() if n.startswith(f"{stack}{max(numbers)}.")}
            yield f"{stack} from 1 on", {re.sub(rf"^{re.escape(stack)}(\d+)", lambda m: f"{stack}{int(m[1]) + 1}", n): t for n, t in self.tensors.items()}
        experts = sorted({int(m[1]) for n in self.tensors if (m := re.search(r"\.experts\.(\d+)\.", n))})
        for expert in experts[:1] + experts[-1:]:
            yield f"expert {expert} removed", {n: t for n, t in self.tensors.items() if f".experts.{expert}." not in n}
        if experts:
            yield "an expert too many", self.tensors | {n.replace(f".experts.{experts[-1]}.", f".experts.{experts[-1] + 1}."): t
                                                        for n, t in self.tensors.items() if f".experts.{experts[-1]}." in n}

    def swap_ways(self):
        for a, b in (("q_proj", "k_proj"), ("q_proj", "o_proj"), ("gate_proj", "up_proj"), ("gate_proj", "down_proj"), ("k_proj", "v_proj"),
                     ("input_layernorm", "post_attention_layernorm"), ("layers.0.", "layers.1.")):
            swapped = {}
            for n, t in self.tensors.items():
                found = re.search(rf"\b{re.escape(a)}|\b{re.escape(b)}", n)
                other = n.replace(found[0], b if found[0] == a else a) if found else n
                swapped[n] = self.tensors.get(other, t)
            if swapped != self.tensors:
                yield f"{a} and {b} swapped", swapped

    def extra_ways(self):
        layer = next(n for n in self.tensors if re.search(r"layers\.0\.", n))
        prefix = layer[:layer.index("layers.0.") + 9]
        half, ones = ("BF16", [64, 64], b"\x11\x3c" * 4096), ("BF16", [64], b"\x80\x3f" * 64)
        for name, tensor in (("self_attn.q_proj.bias", ones), ("self_attn.extra.weight", half), ("mlp.mix", half), ("mlp.experts.w13_weight", ("BF16", [6, 64, 64], half[2] * 6)),
                             ("mlp.experts.w2_weight", ("BF16", [6, 64, 64], half[2] * 6)), ("self_attn.qkv_proj.weight", half), ("mlp.gate_up_proj.weight", half),
                             ("self_attn.rotary_emb.inv_freq", ("F32", [8], struct.pack("<8f", *[1.0] * 8))),
                             ("self_attn.q_proj.lora_A.weight", half), ("self_attn.q_proj.lora_A.default.weight", half), ("self_attn.q_proj.weight_orig", half),
                             ("self_attn.q_proj.weight.absmax", ones), ("self_attn.q_proj.weight_g", ones), ("new_norm.weight", ones)):
            if prefix + name not in self.tensors:
                yield f"{name} too many", self.tensors | {prefix + name: tensor}
        for name, tensor in (("lm_head.bias", ones), ("optimizer.state", half), ("model.layers.0", half), ("extra.weight", half), ("value_head.weight", half)):
            yield f"{name} too many", self.tensors | {name: tensor}

    def run(self, sources):
        sound = self.asked((), self.tensors, self.config)
        if sound.returncode:
            print(f"{self.name}: sound, but: {sound.stdout}{sound.stderr}")
            return
        for ways in (self.tensor_ways, self.set_ways, self.swap_ways, self.extra_ways):
            for what, tensors in ways():
                self.judge(what, tensors, self.config, sources)
        for path, what, change in [*of_config(self.config), *((("quantization_config", *p), w, c) for p, w, c in of_quantization(self.read()))]:
            config = copy.deepcopy(self.config)
            at = config
            for key in path[:-1]:
                at = at[key]
            change(at, path[-1])
            if config != self.config:
                self.judge(f"config {'.'.join(path)} {what}", self.tensors, config, sources)
        harmless = sum(bool(why(what)) for what, _ in self.passed)
        print(f"{self.name}: {self.n} ways, {len(self.passed)} pass, {harmless} of them by right", file=sys.stderr)
        for what, marks in self.passed:
            if "--all" in sys.argv or not why(what):
                print(f"{self.name}: {what}: {' '.join(marks)}" + (f": {why(what)}" if why(what) else ""))


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    folder = pathlib.Path(args[0])
    folder.mkdir(exist_ok=True, parents=True)
    for arch in args[1:]:
        for pair in PAIRS:
            Model(folder, arch, *pair).run("--source" in sys.argv)


main()
