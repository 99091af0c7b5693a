# SPDX-License-Identifier: Apache-2.0
"""vLLM's own configuration, model classes, loader and linear layers, from its build for CPUs.

What that build refuses for this machine, and not for the file, is passed over; what reads files is untouched:
 1. kernels for blocks ask for AMX: the answer is yes (their code runs on AVX-512 too);
 2. MXFP8 has no kernel for CPUs: vLLM's own emulation in torch;
 3. experts without a kernel for CPUs, or without a gate: a class that takes any, and never runs;
 4. quantization by a given scale is empty: torch does it;
 5. where a CPU has AMX, torch gives products in FP8 to oneDNN, whose reference takes a minute for a layer: torch does them.
vLLM asks what a model class can do in a process of its own, which costs seconds a class: here in this one.
"""
import contextlib
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator

OWN = tempfile.TemporaryDirectory(prefix="fp8conv-vllm-")
os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CACHE_ROOT": OWN.name, "VLLM_NO_USAGE_STATS": "1"}

import torch
import vllm.model_executor.kernels.linear as linear
import vllm.model_executor.kernels.linear.scaled_mm.cpu as blocks
import vllm.model_executor.layers.fused_moe.modular_kernel as modular
from vllm import _custom_ops as ops
from vllm.config import set_current_vllm_config
from vllm.distributed import destroy_model_parallel, init_distributed_environment, initialize_model_parallel
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.layers.fused_moe.config import FusedMoEConfig
from vllm.model_executor.layers.fused_moe.oracle import fp8, mxfp8, unquantized
from vllm.model_executor.layers.linear import LinearBase
from vllm.model_executor.layers.quantization.utils.quant_utils import is_layer_skipped  # noqa: F401 (test_skip_match)
from vllm.model_executor.model_loader import get_model_loader
from vllm.model_executor.model_loader.utils import process_weights_after_loading
from vllm.model_executor.models import registry
from vllm.platforms import PlatformEnum
from vllm.utils.torch_utils import set_default_torch_dtype

from held import Held, hold, poison

# Of errors that this machine's kernels raise after all is loaded.
OF_THE_MACHINE = ("invalid weight out features",)
FORWARD_ERROR = 0.01                        # of a product in BF16 and FP8, relative


class AnyExperts(modular.FusedMoEExpertsModular):
    """Takes experts of every scheme, and leaves their weights as they were loaded."""
    expects_unquantized_inputs = True

    @staticmethod
    def activation_format() -> modular.FusedMoEActivationFormat:
        return modular.FusedMoEActivationFormat.Standard

    _supports_current_device = _supports_no_act_and_mul = staticmethod(lambda: True)
    _supports_activation = _supports_parallel_config = staticmethod(lambda _: True)
    _supports_quant_scheme = _supports_router_logits_dtype = staticmethod(lambda *_: True)
    _supports_routing_method = staticmethod(lambda *_: True)

    def supports_expert_map(self) -> bool:
        return False

    def workspace_shapes(self, *_: object) -> None:
        raise NotImplementedError

    finalize_weight_and_reduce_impl = apply = workspace_shapes


def replace(real: object, choice: object) -> None:
    """choice for the function real, in every module that has imported it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("vllm") and vars(module).get(real.__name__) is real:
            setattr(module, real.__name__, choice)


def or_any_experts(real: object, backend: object) -> None:
    """A selection of a backend for experts, which chooses AnyExperts where no class can run here."""
    def select(*args: object, **named: object) -> tuple[object, type]:
        with contextlib.suppress(NotImplementedError, ValueError):
            chosen, experts = real(*args, **named)
            if experts is not None:
                return chosen, experts
        return backend, AnyExperts
    replace(real, select)


def pass_over_the_machine() -> None:
    blocks.CPUFp8BlockScaledMMKernel.is_supported = classmethod(lambda *_: (True, None))
    linear._POSSIBLE_MXFP8_KERNELS[PlatformEnum.CPU] = [linear.EmulationMxfp8LinearKernel]
    or_any_experts(fp8.select_fp8_moe_backend, fp8.Fp8MoeBackend.EMULATION)
    or_any_experts(mxfp8.select_mxfp8_moe_backend, fp8.Fp8MoeBackend.EMULATION)
    or_any_experts(unquantized.select_unquantized_moe_backend, unquantized.UnquantizedMoeBackend.TRITON)
    checked = FusedMoEConfig.__post_init__

    def unchecked(config: FusedMoEConfig) -> None:
        with contextlib.suppress(NotImplementedError):      # its last question: experts without a gate
            checked(config)
    FusedMoEConfig.__post_init__ = unchecked
    quant = ops.scaled_fp8_quant

    def quant_by_scale(x: torch.Tensor, scale: torch.Tensor | None = None, *args: object, **named: object) -> tuple[torch.Tensor, torch.Tensor]:
        if scale is None or scale.numel() != 1:
            return quant(x, scale, *args, **named)
        return (x.float() * (1 / scale.float().reshape(()))).clamp(-448, 448).to(torch.float8_e4m3fn), scale
    replace(quant, quant_by_scale)
    scaled_mm = torch._scaled_mm

    def scaled_mm_without_onednn(*args: object, **named: object) -> torch.Tensor:
        with torch.backends.mkldnn.flags(enabled=False):
            return scaled_mm(*args, **named)
    torch._scaled_mm = scaled_mm_without_onednn


pass_over_the_machine()
registry._run_in_subprocess = lambda ask: ask()


def configuration(folder: pathlib.Path) -> object:
    return EngineArgs(model=str(folder), dtype="bfloat16", enforce_eager=True, max_model_len=128, skip_tokenizer_init=True,
                      enable_prefix_caching=False).create_engine_config()


def start() -> None:
    """One rank, whose groups depend on the model."""
    if not torch.distributed.is_initialized():
        init_distributed_environment(1, 0, f"file://{OWN.name}/ranks", 0, "gloo")
    destroy_model_parallel()
    initialize_model_parallel(1, 1)


def load(folder: pathlib.Path, steps: list[str]) -> Held:
    """steps: told one by one, so that the last one is what an exception came from."""
    steps.append("configuration")
    config = configuration(folder)
    with set_current_vllm_config(config), set_default_torch_dtype(torch.bfloat16):
        start()
        steps.append("building")
        loader = get_model_loader(config.load_config)
        model = loader.create_model(config, config.model_config)
        before = poison(model)
        steps.append("loading")
        loader.load_weights(model, config.model_config)
        found = hold(model, before)
        steps.append("processing")
        try:
            process_weights_after_loading(model, config.model_config, torch.device("cpu"))
        except Exception as error:
            if not any(words in str(error) for words in OF_THE_MACHINE):
                raise
            return found
        steps.append("computing")
        found.odd |= dict(wrong_products(model, found))
        found.see_caches(model, "_k_scale_float", "_v_scale_float")
    return found


def wrong_products(model: torch.nn.Module, found: Held) -> Iterator[tuple[str, str]]:
    """Linear layers that do not multiply by what was loaded: their products with the rows of an identity.

    Where a CPU has AMX, latent attention takes kv_b_proj's weight to pieces and releases it: that layer is never called."""
    for name, module in model.named_modules():
        key = f"{name}.weight"
        if not isinstance(module, LinearBase) or key not in found.fp8 or key not in found.values or not module.weight.numel():
            continue
        wanted = found.values[key].float()
        given = getattr(module, "input_scale", None)
        one = 1.0 if given is None or not given.numel() else float(given.float().max()) * 256
        x = torch.eye(wanted.shape[1], dtype=torch.bfloat16) * one
        product = module.quant_method.apply(module, x, None).float().t() / one
        off = float((product - wanted).norm() / wanted.norm())
        if not off < FORWARD_ERROR:
            yield key, f"its products are off by {off:.2g}"
