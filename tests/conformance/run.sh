#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make conformance`: other people's packages read what fp8conv wrote.  Needs some GB for the packages and
# the model, which are kept in the user's cache, and some minutes.
#
#     FP8CONV=/path/to/fp8conv run.sh [NAME...]     all tests, or test_NAME.py
set -u
cd "$(dirname "$0")" || exit 2
: "${FP8CONV:?the program to test}"
venv=$(sh ./venv.sh) || exit 1

PYTHONPATH=$PWD:$PWD/../golden:$PWD/../families
PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
export FP8CONV PYTHONPATH PYTHONDONTWRITEBYTECODE HF_HUB_OFFLINE TRANSFORMERS_VERBOSITY
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
trap 'exit 1' HUP INT TERM

# The longest first, so that none is left alone at the end.
longest='config|eval_smollm2|load'
names() {
	ls test_*.py | sed 's/^test_//; s/\.py$//'
}
[ $# -gt 0 ] || set -- $(names | grep -xE "$longest") $(names | grep -vxE "$longest")

# The real models and the text are made before the tests, which would each make their own otherwise.
"$venv/bin/python" -c 'import harness; harness.real_model(1); harness.real_model(3); harness.eval_text()' || exit 1

# As many at once as there are processors, which nproc tells before the packages of each are told to have one thread.
at_once=$(nproc)
: "${OMP_NUM_THREADS:=1}"
export OMP_NUM_THREADS venv logs
# shellcheck disable=SC2016
printf '%s\n' "$@" | xargs -P "$at_once" -I NAME sh -c '
	began=$(date +%s)
	"$venv/bin/python" test_NAME.py >"$logs/NAME.out" 2>"$logs/NAME.err"
	cat "$logs/NAME.out"
	echo "test_NAME.py: $(($(date +%s) - began)) s"'

# A test that ends without a word is a failure too: the last words of standard error say why.
passed=0 failed=0 skipped=0
for name; do
	grep -q '^done$' "$logs/$name.out" || {
		echo "FAILED test_$name.py: it did not end: $(tail -n 1 "$logs/$name.err")" | tee -a "$logs/$name.out"
		tail -n 20 "$logs/$name.err"
	}
	passed=$((passed + $(grep -c '^ok ' "$logs/$name.out")))
	failed=$((failed + $(grep -c '^FAILED ' "$logs/$name.out")))
	skipped=$((skipped + $(grep -c '^SKIPPED ' "$logs/$name.out")))
done
echo "conformance: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
