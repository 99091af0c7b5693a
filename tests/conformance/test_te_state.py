# SPDX-License-Identifier: Apache-2.0
"""States that TransformerEngine's own code saves beside the weights are left out of outputs, and make the static scales.

The package of PyPI without its libraries has the Python that matters: get_extra_state(), and the update of histories and scales. They
are taken from its files, since the modules around them cannot be imported without a GPU. The older form, a file of torch.save() in an
io.BytesIO, has the structure of 1.9 (module/base.py): no recipe, and scale_inv beside scale."""
import ast
import io
import pathlib
import pickle
import random
import re
import shutil
import subprocess
import sys
import types
import typing
from collections.abc import Iterator

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file

from harness import finish, quantize, report, run, sample, scratch, silence, skip

HERE = pathlib.Path(__file__).parent
STEPS, LENGTH = 5, 8


def package() -> pathlib.Path | None:
    made = subprocess.run(["sh", HERE / "venv.sh", HERE / "requirements-te.txt"], capture_output=True, text=True, check=False)
    found = list(pathlib.Path(made.stdout.strip()).glob("lib/python3*/site-packages/transformer_engine")) if made.returncode == 0 else []
    return found[0] if found else None


def functions(file: pathlib.Path, names: set[str], scope: dict) -> dict:
    """Compiles functions of a file in a scope of our own."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            node.decorator_list = []
            exec(compile(ast.Module([node], []), str(file), "exec"), scope)  # pylint: disable=exec-used
            names = names - {node.name}
    assert not names, f"{file} has no {names}"
    return scope


def assigned(file: pathlib.Path, *names: str) -> list:
    """The literals that a file assigns to members of self."""
    found = {t.attr: ast.literal_eval(node.value) for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Assign)
             for t in node.targets if isinstance(t, ast.Attribute) and t.attr in names}
    return [found[name] for name in names]


class Engine:
    """TransformerEngine's code for states."""

    def __init__(self, te: pathlib.Path):
        for name in ("transformer_engine", "transformer_engine.common", "transformer_engine.pytorch"):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(te.joinpath(*name.split(".")[1:]))]
        import transformer_engine.common.recipe as recipe  # pylint: disable=import-outside-toplevel,import-error
        from transformer_engine.pytorch._extra_state import is_stateless_recipe  # pylint: disable=import-outside-toplevel,import-error
        scope = vars(typing) | {"torch": torch, "pickle": pickle, "is_stateless_recipe": is_stateless_recipe, "Recipe": recipe.Recipe,
                                "DelayedScaling": recipe.DelayedScaling}
        functions(te / "pytorch" / "quantization.py", {"_update_amax_history", "_default_get_amax_and_update_history", "_default_sf_compute",
                                                       "_compute_amax_and_update_history", "_compute_scaling_factor",
                                                       "_amax_and_scale_update", "_has_delayed_scaling_state"}, scope)
        self.calls = functions(te / "pytorch" / "module" / "base.py", {"get_extra_state"}, scope)
        self.recipe = recipe
        self.offsets, counts = assigned(te / "pytorch" / "module" / "grouped_linear.py", "_offsets", "_num_fp8_tensors_per_gemm")
        self.stride = counts["fwd"]
        mlp = {"QuantizerRole": types.SimpleNamespace, "Optional": typing.Optional, "List": list}
        functions(te / "pytorch" / "module" / "layernorm_mlp.py", {"get_quantizer_roles"}, mlp)
        roles = mlp["get_quantizer_roles"](types.SimpleNamespace(name="", _output_quantizer_role=None), fwd=True, num_quantizers=6)
        self.mlp_weights = [next(i for i, role in enumerate(roles) if role and (role.tensor_type, role.name) == ("weight", fc)) for fc in ("fc1", "fc2")]
        torch.cuda.synchronize = lambda *_: None

    def state(self, steps: list[list[float]], length: int, **options) -> tuple[torch.Tensor, torch.Tensor]:
        """What a module saves after steps with these amaxes of input, weight and output of each product; and its scales."""
        n_gemms = len(steps[0]) // 3
        recipe = self.recipe.DelayedScaling(amax_history_len=length, **options)
        forward, backward = ({"scale": torch.ones(n * n_gemms), "amax_history": torch.zeros(length, n * n_gemms)} for n in (3, 2))
        for step in steps:
            forward["amax_history"][0] = torch.tensor(step)
            self.calls["_amax_and_scale_update"](forward["amax_history"], forward["scale"], 448.0, recipe)
        module = types.SimpleNamespace(fp8=True, fp8_calibration=False)
        module.fp8_meta = {"fp8_checkpoint": True, "recipe": recipe, "num_gemms": n_gemms, "fp8_max_fwd": 448.0, "fp8_max_bwd": 57344.0,
                           "scaling_fwd": types.SimpleNamespace(**forward), "scaling_bwd": types.SimpleNamespace(**backward)}
        return self.calls["get_extra_state"](module), forward["scale"]

    def columns(self, products: list[list], grouped: bool) -> list[list[float]]:
        """The steps of a module whose products have these, by the columns where its class has them."""
        kinds = ("input", "weight", "output")
        at = [[self.offsets[kind] + i * self.stride for kind in kinds] if grouped else [self.mlp_weights[i] + j for j in (-1, 0, 1)]
              for i in range(len(products))]
        rows = [[0.0] * (3 * len(products)) for _ in products[0]]
        for places, steps in zip(at, products):
            for row, step in zip(rows, steps):
                for place, amax in zip(places, step):
                    row[place] = amax
        return rows

    def stateless(self) -> torch.Tensor:
        module = types.SimpleNamespace(fp8=True, fp8_calibration=False)
        module.fp8_meta = {"fp8_checkpoint": True, "recipe": self.recipe.Float8BlockScaling()}
        return self.calls["get_extra_state"](module)


def as_file(state: torch.Tensor) -> io.BytesIO:
    values = pickle.loads(bytes(state.numpy().tobytes())) if state.numel() else None
    values = values and {k: v for k, v in values.items() if k != "recipe"} | {"scale_inv_fwd": 1 / values["scale_fwd"], "scale_inv_bwd": 1 / values["scale_bwd"]}
    file = io.BytesIO()
    torch.save(values, file)
    return file


def forms(tmp: pathlib.Path, model: pathlib.Path, states: dict[str, torch.Tensor]) -> Iterator[pathlib.Path]:
    """A checkpoint with the states in each container."""
    weights = load_file(model / "model.safetensors")

    def folder(name: str) -> pathlib.Path:
        shutil.copytree(model, tmp / name, ignore=shutil.ignore_patterns("*.safetensors"))
        return tmp / name

    made = folder("safetensors")
    save_file(weights | states, made / "model.safetensors", {"format": "pt"})
    yield made
    made = folder("bin")
    torch.save(weights | states, made / "pytorch_model.bin")
    yield made / "pytorch_model.bin"
    made = folder("bytesio")
    torch.save(weights | {name: as_file(state) for name, state in states.items()}, made / "pytorch_model.bin")
    yield made / "pytorch_model.bin"
    made = folder("distcp")
    dcp.save(weights | states, checkpoint_id=made)
    yield made / ".metadata"


def scales_of(tmp: pathlib.Path, model: pathlib.Path, source: pathlib.Path, steps: dict[str, list], scales: dict) -> Iterator[str]:
    """The input scales and the weight scales of down_proj, which no engine merges with others."""
    out = tmp / f"scaled-{source.relative_to(tmp).parts[0]}"
    yield from silence(quantize(model, out, "--recipe", "delayed", "--calibration", str(source)))
    found = load_file(out / "model.safetensors")
    for module in (m for m in steps if m.endswith("down_proj")):
        amax = np.array(steps[module], np.float32)[-(LENGTH - 1):].max(axis=0)
        for i, name in enumerate(("input_scale", "weight_scale")):
            wanted = np.float32(1) / (np.float32(448) / amax[i])
            got = found[f"{module}.{name}"].item()
            if got != wanted:
                yield f"{module}.{name} is {got}, not {wanted}"
            if abs(got * scales[module][i].item() - 1) > 2 ** -21:       # torch on a CPU divides by a reciprocal
                yield f"{module}.{name} is {got}, but TransformerEngine's scale {scales[module][i].item()}"


def several(tmp: pathlib.Path, model: pathlib.Path, engine: Engine, steps: dict[str, list]) -> Iterator[str]:
    """A LayerNormMLP and a GroupedLinear, whose weights --rename gives the names of the model."""
    mlp, attention = "model.layers.0.mlp", "model.layers.1.self_attn"
    named = {f"{mlp}.{i}_proj": f"{mlp}.fc{n}_weight" for n, i in ((1, "up"), (2, "down"))}
    named |= {f"{attention}.{i}_proj": f"{attention}.weight{n}" for n, i in enumerate("qkvo")}
    weights = load_file(model / "model.safetensors")
    source = tmp / "several"
    shutil.copytree(model, source)
    for module, name in named.items():
        weights[name] = weights.pop(f"{module}.weight")
    for name, grouped in ((mlp, False), (attention, True)):
        products = [steps[module] for module in named if module.startswith(name)]
        weights[f"{name}._extra_state"] = engine.state(engine.columns(products, grouped), LENGTH)[0]
    weights |= {f"{m}._extra_state": engine.state(steps[m], LENGTH)[0] for m in steps if m not in named}
    save_file(weights, source / "model.safetensors", {"format": "pt"})
    renames = [word for module, name in named.items() for word in ("--rename", f"s/^{re.escape(name)}$/{module}.weight/")]
    outs = tmp / "several-out", tmp / "single-out"
    yield from silence(quantize(source, outs[0], "--recipe", "delayed", "--calibration", str(source), *renames))
    yield from silence(quantize(model, outs[1], "--recipe", "delayed", "--calibration", str(tmp / "safetensors")))
    found, wanted = (load_file(out / "model.safetensors") for out in outs)
    yield from (name for name in wanted if name not in found or not torch.equal(found[name].view(torch.uint8), wanted[name].view(torch.uint8)))
    for module in (f"{mlp}.down_proj", f"{attention}.o_proj"):
        for i, name in enumerate(("input_scale", "weight_scale")):
            amax = np.array(steps[module], np.float32)[-(LENGTH - 1):].max(axis=0)[i]
            if found[f"{module}.{name}"].item() != np.float32(1) / (np.float32(448) / amax):
                yield f"{module}.{name} is {found[f'{module}.{name}'].item()}"


def main() -> None:
    te, model = package(), sample("tiny-llama")
    if te is None or model is None:
        skip("te_state", "no transformer_engine of PyPI" if te is None else "no tiny-llama")
        finish()
        return
    engine, rng = Engine(te), random.Random(7)
    modules = [n.removesuffix(".weight") for n in load_file(model / "model.safetensors") if "_proj.weight" in n]
    steps = {m: [[rng.uniform(0.01, 90) for _ in range(3)] for _ in range(STEPS)] for m in modules}
    made = {m: engine.state(steps[m], LENGTH) for m in modules}
    states = {f"{m}._extra_state": state for m, (state, _) in made.items()}
    states["model.layers.0.self_attn.core_attention._extra_state"] = engine.stateless()
    with scratch() as tmp:
        report("without states", silence(quantize(model, tmp / "wanted")))
        for source in forms(tmp, model, states):
            form = source.relative_to(tmp).parts[0]
            out = tmp / f"out-{form}"
            done = quantize(source, out)
            said = [] if b"states of TransformerEngine are left out" in done.stderr else [done.stderr.decode()]
            same = (tmp / "wanted" / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
            report(f"{form}: left out", said + ([] if same else ["other bytes"]))
            report(f"{form}: scales", scales_of(tmp, model, source, steps, {m: s for m, (_, s) in made.items()}))
        shown = run("inspect", tmp / "safetensors")
        report("inspect", [] if f"{len(modules)} of modules with an amax history".encode() in shown.stderr else [shown.stderr.decode()])
        report("modules of several products", several(tmp, model, engine, steps))
        one = tmp / "one-step"
        shutil.copytree(model, one)
        single = {m: engine.state(steps[m], 1, margin=2, amax_compute_algo="most_recent")[0] for m in modules}
        save_file(load_file(model / "model.safetensors") | {f"{m}._extra_state": s for m, s in single.items()}, one / "model.safetensors", {"format": "pt"})
        report("a history of one step", silence(quantize(model, tmp / "one-out", "--recipe", "delayed", "--calibration", str(one))))
        found = load_file(tmp / "one-out" / "model.safetensors")
        wrong = [m for m in modules if m.endswith("down_proj") and abs(found[f"{m}.input_scale"].item() * 448 / steps[m][-1][0] - 1) > 2 ** -20]
        report("a history of one step: the amax of its scale", wrong)
    finish()


if __name__ == "__main__":
    main()
