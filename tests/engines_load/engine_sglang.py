# SPDX-License-Identifier: Apache-2.0
"""SGLang's own configuration, model classes and loader, on a CPU and without its kernels.

What stands in for a GPU; what reads files is untouched:
 1. triton, and the kernels of vLLM that rotary embeddings ask for, are modules without contents: nothing of them runs,
    and torch.compile leaves functions as they are;
 2. the capability of the device is that of an H100, which compressed-tensors asks, and the device itself is the CPU;
 3. scaled_fp8_quant of sgl_kernel, by which merged parts are requantized, is torch's.
"""
import functools
import importlib.abc
import importlib.machinery
import os
import pathlib
import sys
import types

import torch
import torch._dynamo
import torch.utils._triton
import torch.utils.flop_counter

from held import Held, hold, poison


class Nothing(types.ModuleType):
    """A module that has every name; as a decorator it gives the function back."""
    __path__: list[str] = []
    __version__ = "3.9.0"

    def __getattr__(self, name: str) -> "Nothing":
        if name.startswith("__") or name == "get_current_target":      # there is no GPU
            raise AttributeError(name)
        return Nothing(f"{self.__name__}.{name}")

    def __call__(self, *args: object, **named: object) -> object:
        return args[0] if len(args) == 1 and not named and isinstance(args[0], types.FunctionType) else self

    def __getitem__(self, _: object) -> "Nothing":
        return self

    def __mro_entries__(self, _: object) -> tuple[type]:
        return (object,)


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds Nothing for packages that are not installed."""
    packages = ("triton", "vllm")

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.packages else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Nothing:
        return Nothing(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


torch.utils._triton.has_triton_package()    # remembers that there is none
torch.compile = lambda function=None, **_: function or (lambda f: f)
torch.cuda.get_device_capability = lambda *_, **__: (9, 0)
torch.cuda.current_device = lambda: torch.device("cpu")
sys.meta_path.append(Absent())

from sglang.srt.configs.load_config import LoadConfig
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.distributed.parallel_state import init_distributed_environment, initialize_model_parallel
from sglang.srt.layers.quantization.utils import is_layer_skipped  # noqa: F401 (test_skip_match)
from sglang.srt.model_loader import loader as loaders
from sglang.srt.model_loader.utils import set_default_torch_dtype
from sglang.srt.runtime_context import SpawnRanks, publish
from sglang.srt.server_args import ServerArgs

CPU = torch.device("cpu")
# Of errors that kernels of another GPU raise after all is loaded.
OF_THE_MACHINE = ("requires SM100",)


def scaled_fp8_quant(x: torch.Tensor, scale: torch.Tensor | None = None, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
    if scale is None:
        scale = x.float().abs().max().clamp_min(1e-12) / 448
    return (x.float() * (1 / scale.float().reshape(()))).clamp(-448, 448).to(torch.float8_e4m3fn), scale


@functools.cache
def start() -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    init_distributed_environment(world_size=1, rank=0, local_rank=0, backend="gloo")
    initialize_model_parallel(backend="gloo")
    for name, module in list(sys.modules.items()):
        if name.startswith("sglang") and callable(vars(module).get("scaled_fp8_quant")):
            module.scaled_fp8_quant = scaled_fp8_quant


def load(folder: pathlib.Path, steps: list[str]) -> Held:
    """steps: told one by one, so that the last one is what an exception came from."""
    steps.append("configuration")
    arguments = ServerArgs(model_path=str(folder), device="cpu", skip_tokenizer_init=True, attention_backend="torch_native",
                           disable_cuda_graph=True, mem_fraction_static=0.5, disable_radix_cache=True)
    publish(arguments, role="scheduler", ranks=SpawnRanks(world_rank=0))
    start()
    config, how = ModelConfig.from_server_args(arguments), LoadConfig()
    loader = loaders.DefaultModelLoader(how)
    quantization = loaders._get_quantization_config(config, how)
    with set_default_torch_dtype(torch.bfloat16):
        steps.append("building")
        with CPU:
            model = loaders._initialize_model(config, how, quantization)
        before = poison(model)
        steps.append("loading")
        loader.load_weights_only(model, loader._get_all_weights(config, model), CPU)
        found = hold(model, before)
        steps.append("processing")
        try:
            loader.postprocess_weights(model, CPU)
        except RuntimeError as error:
            if not any(words in str(error) for words in OF_THE_MACHINE):
                raise
    found.see_caches(model, "k_scale_float", "v_scale_float")
    return found
