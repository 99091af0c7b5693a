# SPDX-License-Identifier: Apache-2.0
"""Models as trainers write them, for inject: trained.py makes the folders "distcp" (.metadata and two .distcp files) and "bin" (one
file of torch.save() with a state of TransformerEngine)."""
import pathlib
import sys

CLI = pathlib.Path(__file__).resolve().parent.parent / "cli"
sys.path.insert(0, str(CLI))
import distcp  # noqa: E402  pylint: disable=wrong-import-position
import states  # noqa: E402  pylint: disable=wrong-import-position
from distcp import b  # noqa: E402  pylint: disable=wrong-import-position

n = distcp.ROWS * distcp.COLS
weight = b.tensor(b.storage(n=n), shape=(distcp.ROWS, distcp.COLS), strides=(distcp.COLS, 1))
state = b.tensor(b.storage("ByteStorage", "1", len(states.GOOD)), shape=(len(states.GOOD),), strides=(1,))
pairs = b.named(distcp.NAME, weight), b.named(distcp.NAME.removesuffix("weight") + "_extra_state", state)
pathlib.Path("bin").mkdir()
pathlib.Path("bin/pytorch_model.bin").write_bytes(b.archive(b.state(*pairs), {"data/0": distcp.VALUES, "data/1": states.GOOD}))
distcp.write(pathlib.Path("distcp"), distcp.GOOD["good"])
