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
