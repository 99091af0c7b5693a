# SPDX-License-Identifier: Apache-2.0
"""The keys that an executor chooses against torch.topk, of scores that are far enough from each other for fp32."""
import pathlib
import subprocess
from collections.abc import Iterator

import numpy as np
import torch

from harness import FP8CONV, finish, report, scratch

KEYS = pathlib.Path(FP8CONV).parent / "tests/conformance/keys"
FEW = 0.01                              # of the queries may have two scores that are too near to each other
# tokens, heads, head_dim, keys of a block, blocks of a query, blocks before others
TOGETHER = ((300, 12, 20, 1, 20, 0), (700, 64, 128, 1, 256, 0), (97, 32, 64, 1, 96, 0), (260, 16, 24, 8, 5, 0))
APART = ((300, 3, 20, 16, 4, 1), (500, 4, 128, 128, 2, 1), (129, 2, 8, 32, 2, 0), (200, 2, 16, 8, 5, 3), (300, 4, 20, 1, 20, 0))


def choose(folder: pathlib.Path, shape: tuple, together: bool) -> np.ndarray:
    """The sets (sets, tokens, tokens) as flags."""
    n, heads, dim, *how = shape
    words = ["together" if together else "apart", *map(str, how)]
    subprocess.run([KEYS, folder, str(n), str(heads), str(dim), *words], check=True)
    words = np.fromfile(folder / "sets", "<u4").reshape(1 if together else heads, n, (n + 31) // 32)
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")[..., :n].astype(bool)


def block_scores(q: torch.Tensor, k: torch.Tensor, weights: torch.Tensor, shape: tuple, together: bool) -> torch.Tensor:
    """(sets, tokens, blocks): of the keys up to a query, in fp64; the blocks near it are infinite."""
    n, _, _, size, _, n_local = shape
    scores = torch.einsum("thd,sd->hts", q.double(), k.double())
    if together:
        scores = torch.einsum("th,hts->ts", weights.double(), scores.relu())[None]
    scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
    blocks = torch.nn.functional.pad(scores, (0, -n % size), value=-torch.inf).unflatten(-1, (-1, size)).amax(-1)
    for t in range(n):
        blocks[:, t, max(0, t // size + 1 - n_local):t // size + 1] = torch.inf if n_local else blocks[:, t, t // size:t // size + 1]
    return blocks


def problems(shape: tuple, together: bool) -> Iterator[str]:
    n, heads, dim, size, n_chosen, n_local = shape
    rng = np.random.default_rng(n)
    q, k, weights = (rng.normal(size=s).astype(np.float32) for s in ((n, heads, dim), (n, dim), (n, heads)))
    with scratch() as folder:
        for name, values in (("q", q), ("k", k), ("weights", weights)):
            values.tofile(folder / name)
        found = choose(folder, shape, together)
    blocks = block_scores(torch.tensor(q), torch.tensor(k), torch.tensor(weights), shape, together)
    best = blocks.topk(min(n_chosen + 1, blocks.shape[-1]), dim=-1)
    near = torch.zeros(blocks.shape[:2], dtype=torch.bool)
    if best.values.shape[-1] > n_chosen:
        near = (best.values[..., -2] - best.values[..., -1]) < 1e-5 * blocks[blocks.isfinite()].abs().mean()
    if near.double().mean() > FEW:
        yield f"{near.sum()} of {near.numel()} queries have two scores that are nearly equal"
    chosen = torch.zeros_like(blocks, dtype=torch.bool).scatter(-1, best.indices[..., :n_chosen], True)
    wanted = chosen.repeat_interleave(size, -1)[..., :n].numpy() & np.tri(n, dtype=bool)
    wrong = (found != wanted).any(-1) & ~near.numpy()
    for at in np.argwhere(wrong)[:3]:
        yield f"set {at[0]}, query {at[1]}: {np.flatnonzero(found[tuple(at)])}, torch chooses {np.flatnonzero(wanted[tuple(at)])}"


def main() -> None:
    for together, shapes in ((True, TOGETHER), (False, APART)):
        for shape in shapes:
            report(f"keys of {shape}, heads {'together' if together else 'apart'}", problems(shape, together))
    finish()


main()
