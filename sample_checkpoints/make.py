#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the checkpoints tiny-moe and odd-shapes: same bytes on every run.

    python make.py [OUT]        (default: the folder of this script)

Needs numpy.
"""
import pathlib
import sys

from odd_shapes import make_odd_shapes
from tiny_moe import make_tiny_moe


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/..").resolve()
    make_tiny_moe(out / "tiny-moe")
    make_odd_shapes(out / "odd-shapes")


if __name__ == "__main__":
    main()
