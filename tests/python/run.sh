#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Python module with numpy alone, and installed.  BUILD: where the library was built.
set -eu
cd "$(dirname "$0")/../.."
: "${BUILD:=build}"
for python in python3 /usr/bin/python3 "${HOME:-/root}"/.cache/fp8conv/venv-*/bin/python; do
	"$python" -c 'import numpy' 2>/dev/null && break || python=
done
[ -n "$python" ] || { echo "SKIPPED python: no python3 with numpy (python3-numpy)"; exit 0; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset MAKEFLAGS
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
make -s -o all install BUILD="$BUILD" DESTDIR="$scratch" PREFIX=/usr >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
# Where it was installed, the module finds the library without a loader's path, and needs no package.
PYTHONPATH=$scratch/usr/lib/python3/dist-packages python3 -S -c 'import fp8conv, sys; assert "numpy" not in sys.modules
fp8conv.run("recipes", json=True).output["recipes"]'
PYTHONPATH=$scratch/usr/lib/python3/dist-packages "$python" tests/python/test_numpy.py
