#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make engines-load`: loaders of inference engines judge what fp8conv writes.  The engines are installed once, in the
# user's cache, over the environment of tests/conformance.
#
#     FP8CONV=/path/to/fp8conv run.sh [quick] [ENGINE...]      vllm, sglang, transformers
#
# Without a name, an engine that cannot be installed is SKIPPED and counted.  With a name, it fails.
set -u
cd "$(dirname "$0")" || exit 2
: "${FP8CONV:?the program to test}"
common=$(sh ../conformance/venv.sh) || exit 1

quick=
[ "${1-}" != quick ] || {
	quick=--quick
	shift
}
asked=$#
[ $# -gt 0 ] || set -- vllm sglang transformers
for engine; do
	venv=$common
	if [ -e "requirements-$engine.txt" ] && ! venv=$(sh ../conformance/venv.sh "requirements-$engine.txt" "$common"); then
		[ "$asked" = 0 ] || exit 1
		venv=
	fi
	set -- "$@" "$engine=${venv:+$venv/bin/python}"
	shift
done

PYTHONPATH=$PWD:$PWD/../conformance
: "${OMP_NUM_THREADS:=1}"
PYTHONPYCACHEPREFIX=$common/pycache HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
unset PYTHONDONTWRITEBYTECODE # venv.sh leaves compiling to the first import
export FP8CONV OMP_NUM_THREADS PYTHONPATH PYTHONPYCACHEPREFIX HF_HUB_OFFLINE TRANSFORMERS_VERBOSITY
rc=0
for engine; do
	case $engine in vllm=?* | sglang=?*) "${engine#*=}" ../conformance/test_skip_match.py 2>/dev/null || rc=1 ;; esac
done
"$common/bin/python" table.py $quick "$@" && exit "$rc"
