#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the cases of the command line: tests/cli/SUITE/CASE.sh, all or those whose name holds the first argument.
#
# A case is run in a folder of its own that is empty.  What is expected of it ends the script, to the byte: `#1> LINE` for each
# line of standard output, `#2> LINE` of standard error, `#exit N`; without them: nothing, nothing and 0.  Status 77 is a
# skipped case, whose stderr says why.
# Cases find FP8CONV (the program), SAMPLES (sample_checkpoints) and CLI (this folder, for `. "$CLI/lib.sh"`); their Python
# imports checkpoint, fp8 and the other programs of this folder.
set -u
CLI=$(cd "$(dirname "$0")" && pwd)
: "${FP8CONV:=$CLI/../../build/fp8conv}"
: "${SAMPLES:=$CLI/../../sample_checkpoints}"
FP8CONV=$(cd "$(dirname "$FP8CONV")" && pwd)/$(basename "$FP8CONV")
SAMPLES=$(cd "$SAMPLES" && pwd)
PYTHONPATH=$CLI
unset TMPDIR ARGP_HELP_FMT PYTHONDONTWRITEBYTECODE
LC_ALL=C.UTF-8
export LC_ALL

work=$(mktemp -d) || exit 2
PYTHONPYCACHEPREFIX=$work/pycache # what a case's Python imports is compiled once, and not beside its source
export CLI FP8CONV SAMPLES PYTHONPATH PYTHONPYCACHEPREFIX
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Cases start python3 some thousand times.  What they start is the program itself, without site-packages, which none of them
# needs: a shim that looks for the program (pyenv) and the files *.pth of site-packages take 0.2 s a time.
if python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null); then
	mkdir "$work/bin"
	printf '#!/bin/sh\nexec "%s" -S "$@"\n' "$python" >"$work/bin/python3"
	chmod +x "$work/bin/python3"
	PATH=$work/bin:$PATH
fi

# Lines of stderr that are no part of any case: a machine that takes 5 seconds for a small job is told how far it is; and what
# engines do not load, for most models are of Llama, and quantize/note is about it.
APART='/^fp8conv [a-z]*: [0-9]*%, [0-9.]*\/[0-9.]* [kMGBa-z]*, /d
	/^fp8conv [a-z]*: note: .*; see --target [a-z]*$/d'
export APART

passed=0
failed=0
skipped=0

# differs N NAME: compares the stream N, which was printed to $work/NAME, with what the case expects of it.
differs() {
	sed -n "s/^#$1> \\{0,1\\}//p" "$case" >"$work/expected"
	cmp -s "$work/expected" "$work/$2" && return 1
	echo "  $2 (- expected, + printed):"
	diff -u "$work/expected" "$work/$2" | tail -n +3 | head -n 40 | sed 's/^/  /'
}

run_case() {
	name=${case#"$CLI"/}
	rm -rf "$work/scratch"
	mkdir "$work/scratch"
	(cd "$work/scratch" && exec sh "$case") >"$work/stdout" 2>"$work/stderr" </dev/null
	status=$?
	sed -i "$APART" "$work/stderr"
	if [ "$status" -eq 77 ]; then
		skipped=$((skipped + 1))
		echo "SKIPPED cli/$name: $(cat "$work/stderr")"
		return
	fi
	wanted=$(sed -n 's/^#exit //p' "$case")
	report=$(
		[ "$status" -eq "${wanted:-0}" ] || echo "  exit status $status, expected ${wanted:-0}"
		differs 1 stdout
		differs 2 stderr
	)
	if [ -z "$report" ]; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	printf 'FAILED cli/%s\n%s\n' "$name" "$report"
}

for case in "$CLI"/*/*.sh; do
	case $case in
	*"${1-}"*) run_case ;;
	esac
done
echo "cli: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ]
