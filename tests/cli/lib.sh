# SPDX-License-Identifier: Apache-2.0
# What cases share.  Every check prints nothing if it holds, and a line if it does not: the runner expects silence.

# need PATH...: skips the case where a sample is missing; a path ending in () is a program.
need() {
	for thing in "$@"; do
		case $thing in
		*"()") command -v "${thing%"()"}" >/dev/null || skip "no ${thing%"()"}" ;;
		*) [ -e "$thing" ] || skip "no ${thing##*/sample_checkpoints/}" ;;
		esac
	done
}

skip() {
	echo "$1" >&2
	exit 77
}

# screen NAME: runs the Python test NAME beside the case, with a terminal emulator; what it prints are faults.
screen() {
	venv=$(sh "$CLI/../conformance/venv.sh" "$CLI/requirements.txt" 2>venv.err) ||
		skip "no terminal emulator: $(tail -n 1 venv.err)"
	rm -f venv.err
	"$venv/bin/python" "$CLI/terminal/$1.py"
}

# fails STATUS MESSAGE ARG...: the program must fail so, with this one line ("fp8conv" left out; but for $APART of run.sh) and
# nothing on stdout, but for the object of the error with --json.  MESSAGE may hold shell wildcards.
fails() {
	wanted=$1
	message=$2
	shift 2
	"$FP8CONV" "$@" >fails.out 2>fails.err
	status=$?
	sed -i "$APART" fails.err
	[ "$status" -eq "$wanted" ] || echo "fp8conv $*: exit status $status, expected $wanted"
	grep -v '^{"schema": 1, "error": ".*", "status": [0-9]*}$' fails.out && echo "fp8conv $*: wrote to stdout"
	[ "$(wc -l <fails.err)" -eq 1 ] || echo "fp8conv $*: $(wc -l <fails.err) lines on stderr"
	# shellcheck disable=SC2254
	case $(cat fails.err) in
	"fp8conv"$message) ;;
	*) printf 'fp8conv %s\n  said: %s\n  not: fp8conv%s\n' "$*" "$(cat fails.err)" "$message" ;;
	esac
	rm -f fails.out fails.err
}

# same A B: two checkpoints hold the same files with the same bytes (the record of how they came to be aside).
same() {
	diff -r --exclude=fp8conv-manifest.json --exclude='.*' "$1" "$2" >same.diff 2>&1 ||
		{
			echo "$1 and $2 differ:"
			head -n 20 same.diff
		}
	rm -f same.diff
}

# snapshot PATH: names, sizes, times and contents of all that is there (a lock may come and go in a folder).
snapshot() {
	find "$1" -type d -printf '%P %i\n' | sort
	find "$1" ! -type d -printf '%P %y %s %T@ %i\n' | sort
	find "$1" -type f -exec cksum {} + | sort
}

# json FILE EXPRESSION...: each expression (Python; the object is j) must be true.
json() {
	python3 "$CLI/json_check.py" "$@"
}
