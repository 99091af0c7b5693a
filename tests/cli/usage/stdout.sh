#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# Standard output that does not take what is printed is an error, on one line.
for arguments in --help --version 'help quantize' 'quantize --help' version recipes formats 'version --json' 'recipes --json' families 'families --json'; do
	case $arguments in
	-* | help*) name=fp8conv ;;
	*) name="fp8conv ${arguments%% *}" ;;
	esac
	# shellcheck disable=SC2086
	"$FP8CONV" $arguments 2>err >/dev/full
	[ $? -eq 4 ] && [ "$(cat err)" = "$name: cannot write standard output: No space left on device" ] || cat err
	# shellcheck disable=SC2086
	"$FP8CONV" $arguments 2>err >&-
	[ $? -eq 4 ] && [ "$(cat err)" = "$name: cannot write standard output: Bad file descriptor" ] || cat err
	mkfifo pipe
	sleep 5 <pipe &
	reader=$!
	# shellcheck disable=SC2086
	(
		exec 3>pipe
		kill $reader
		wait $reader 2>/dev/null
		exec "$FP8CONV" $arguments 2>err >&3
	)
	# a reader that went away (`| head`) is no news
	[ $? -eq 4 ] && [ ! -s err ] || cat err
	rm pipe
done
# An error stays the one error that it is.
"$FP8CONV" inspect nowhere 2>err >/dev/full
[ $? -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] || cat err

mkdir next
cd next
# A standard output that ends early: the first write is short, as with a limit or a file system that is nearly full, and only the
# next one has the reason.  Whatever was printed, the status is 4, or 0 and all of it.
need "$SAMPLES/tiny-llama"
"$FP8CONV" quantize "$SAMPLES/tiny-llama" -o out --quiet
cat >cut.py <<'PYTHON'
import os, resource, subprocess, sys

program, model = os.environ["FP8CONV"], os.environ["SAMPLES"] + "/tiny-llama"


def limited(n):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))


for words in ("--help", "help quantize", "quantize --help", "recipes", "recipes --json", "formats", "families", "inspect out", "inspect out --json",
              "verify out --source MODEL", "verify out --source MODEL --json", "quantize MODEL -o none --dry-run", "completion bash",
              "version", "--version"):
    args = [program, *words.replace("MODEL", model).split()]
    whole = subprocess.run(args, capture_output=True)
    size = len(whole.stdout)
    for limit in sorted({n for n in (1, 100, 1024, 4096, 5000, size - 1, size) if 0 <= n <= size}):
        with open("cut", "wb") as cut:
            result = subprocess.run(args, stdout=cut, stderr=subprocess.PIPE, preexec_fn=limited(limit))
        said = result.stderr.decode()
        if limit == size:
            good = result.returncode == whole.returncode and not said.count("standard output") and os.path.getsize("cut") == size
        else:
            good = result.returncode == 4 and said.endswith("cannot write standard output: File too large\n")
        if not good:
            print(f"{words}: {limit} of {size} bytes: status {result.returncode}, {said}")
PYTHON
python3 cut.py
