# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as bytes: the container read by hand, so that a test of it leans on no package."""
import json
import mmap
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

INDEX = "model.safetensors.index.json"
NUMPY = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}


@dataclass(frozen=True)
class Tensor:
    dtype: str
    shape: tuple[int, ...]
    data: np.ndarray                        # its bytes

    def array(self) -> np.ndarray:
        """The elements; BF16 as bits, codes and exponents as bytes."""
        return self.data.view(NUMPY.get(self.dtype, np.uint8)).reshape(self.shape)


def tensor_of(array: np.ndarray, dtype: str) -> Tensor:
    return Tensor(dtype, array.shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def to_f32(array: np.ndarray) -> np.ndarray:
    """The elements of Tensor.array() as fp32."""
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array.astype(np.float32)


def read_file(path: pathlib.Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and tensors, which stay in the file until they are looked at."""
    with open(path, "rb") as file:
        whole = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    start = 8 + int.from_bytes(whole[:8].tobytes(), "little")
    header = json.loads(whole[8:start].tobytes())
    metadata = header.pop("__metadata__", {})
    return metadata, {name: Tensor(t["dtype"], tuple(t["shape"]),
                                   whole[start + t["data_offsets"][0]:start + t["data_offsets"][1]])
                      for name, t in header.items()}


def shard_names(folder: pathlib.Path) -> list[str]:
    """The files that the index names, or the one that needs none."""
    index = folder / INDEX
    if not index.exists():
        return ["model.safetensors"]
    return sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))


def read_checkpoint(folder: pathlib.Path) -> Iterator[tuple[str, str, Tensor]]:
    """(file, name, tensor), in the order of the files and of the data in them."""
    for file in shard_names(folder):
        for name, tensor in read_file(folder / file)[1].items():
            yield file, name, tensor
