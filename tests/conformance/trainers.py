# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as trainers write them: torch's own writers, by four ranks over gloo.

    python trainers.py MODEL OUT

MODEL: a directory with config.json and model.safetensors; OUT gets a folder for each form, and plain-transformers, the model that
transformers makes of its own slices."""
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch.distributed.checkpoint import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from transformers import AutoModelForCausalLM
from transformers.distributed import DistributedConfig
from transformers.distributed.checkpoint import consolidate_distributed_checkpoint

RANKS = 4


def fsdp(name: str, tensor: torch.Tensor, mesh):
    """Each tensor in rows over all ranks, as FSDP2 has it."""
    return distribute_tensor(tensor, mesh["all"], [Shard(0)])


def tensor_parallel(name: str, tensor: torch.Tensor, mesh):
    """Two ranks of data times two of tensor parallelism: rows and rows, rows and columns, rows alone."""
    if tensor.dim() < 2:
        return distribute_tensor(tensor, mesh["grid"], [Shard(0), Replicate()])
    columns = "o_proj" in name or "down_proj" in name
    return distribute_tensor(tensor, mesh["grid"], [Shard(0), Shard(1 if columns else 0)])


# What torchtitan 0.3 calls the tensors of a model of llama's form (qwen3/state_dict_adapter.py, from_hf_map).
TORCHTITAN = {"model.embed_tokens.": "tok_embeddings.", "model.norm.": "norm.", "model.layers.": "layers.",
              ".self_attn.q_proj.": ".attention.qkv_linear.wq.", ".self_attn.k_proj.": ".attention.qkv_linear.wk.",
              ".self_attn.v_proj.": ".attention.qkv_linear.wv.", ".self_attn.o_proj.": ".attention.wo.",
              ".mlp.gate_proj.": ".feed_forward.w1.", ".mlp.up_proj.": ".feed_forward.w3.", ".mlp.down_proj.": ".feed_forward.w2.",
              ".input_layernorm.": ".attention_norm.", ".post_attention_layernorm.": ".ffn_norm."}


def torchtitan_name(name: str) -> str:
    for ours, theirs in TORCHTITAN.items():
        name = name.replace(ours, theirs)
    return name


def save_modules(rank: int, model_dir: str, out: str) -> None:
    """A module of transformers: under its own sharding, saved by it; under FSDP2 and compiled."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS))
    sharding = DistributedConfig(tp_size=2, fsdp_size=RANKS // 2)
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16, distributed_config=sharding)
    model.save_pretrained(f"{out}/slices-transformers", distributed_checkpoint=True)
    if rank == 0:
        consolidate_distributed_checkpoint(f"{out}/slices-transformers", f"{out}/plain-transformers")
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16)
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    state = torch.compile(model).state_dict()
    del state["_orig_mod.lm_head.weight"]               # tied
    dcp.save(state, checkpoint_id=f"{out}/distcp-compiled")


def save(rank: int, model: str, out: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("TRAINERS_PORT", "29571"))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    mesh = {"all": init_device_mesh("cpu", (RANKS,)), "grid": init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))}
    whole = load_file(f"{model}/model.safetensors")
    for name, place in (("fsdp", fsdp), ("tp", tensor_parallel)):
        state = {k: place(k, v, mesh) for k, v in whole.items()}
        one_file = dict.fromkeys(state, 1)
        two_files = {k: 1 + i % 2 for i, k in enumerate(sorted(state))}
        for form, mapping in (("slices", one_file), ("slices-2", two_files), ("slices-unmapped", None)):
            dcp.save(state, storage_writer=HuggingFaceStorageWriter(path=f"{out}/{form}-{name}", save_distributed=True,
                                                                    fqn_to_index_mapping=mapping))
        dcp.save(state, checkpoint_id=f"{out}/distcp-{name}")
        dcp.save({"model": state, "optim": {"exp_avg": state}, "lr": 1e-3, "step": torch.tensor(3.)}, checkpoint_id=f"{out}/distcp-model-{name}")
    dcp.save({torchtitan_name(k): v for k, v in state.items()}, checkpoint_id=f"{out}/distcp-torchtitan")
    save_modules(rank, model, out)
    dist.destroy_process_group()


def main() -> None:
    model, out = sys.argv[1:]
    pathlib.Path(out).mkdir(exist_ok=True)
    mp.spawn(save, (model, out), RANKS)


if __name__ == "__main__":
    main()
