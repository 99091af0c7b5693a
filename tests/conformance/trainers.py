# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as trainers write them: torch's own writers, by four ranks over gloo.

    python trainers.py WEIGHTS OUT

WEIGHTS: a safetensors file; OUT gets a folder for each form."""
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
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

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


def save(rank: int, weights: str, out: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("TRAINERS_PORT", "29571"))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    mesh = {"all": init_device_mesh("cpu", (RANKS,)), "grid": init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))}
    whole = load_file(weights)
    for name, place in (("fsdp", fsdp), ("tp", tensor_parallel)):
        state = {k: place(k, v, mesh) for k, v in whole.items()}
        one_file = dict.fromkeys(state, 1)
        two_files = {k: 1 + i % 2 for i, k in enumerate(sorted(state))}
        for form, mapping in (("slices", one_file), ("slices-2", two_files), ("slices-unmapped", None)):
            dcp.save(state, storage_writer=HuggingFaceStorageWriter(path=f"{out}/{form}-{name}", save_distributed=True,
                                                                    fqn_to_index_mapping=mapping))
        dcp.save(state, checkpoint_id=f"{out}/distcp-{name}")
        dcp.save({"model": state, "optim": {"exp_avg": state}, "lr": 1e-3, "step": torch.tensor(3.)}, checkpoint_id=f"{out}/distcp-model-{name}")
    dist.destroy_process_group()


def main() -> None:
    weights, out = sys.argv[1:]
    pathlib.Path(out).mkdir(exist_ok=True)
    mp.spawn(save, (weights, out), RANKS)


if __name__ == "__main__":
    main()
