#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
fails 3 " quantize: *'nowhere'*: No such file or directory" quantize nowhere -o out
fails 3 " quantize: *'nowhere'*: No such file or directory" quantize nowhere --dry-run
fails 3 " inspect: *'nowhere'*: No such file or directory" inspect nowhere
fails 3 " inspect: *'nowhere?'*: No such file or directory" inspect 'nowhere
'
fails 3 " inspect: *''*: No such file or directory" inspect ''
mkdir empty
: >file
fails 3 " inspect: *'empty*" inspect empty
fails 3 " quantize: *'empty*" quantize empty -o out
fails 3 " inspect: *'file'*" inspect file
fails 3 " inspect: *'file/x'*: Not a directory" inspect file/x
mkfifo fifo
fails 3 " inspect: *'fifo'*" inspect fifo
fails 3 " inspect: *'/dev/null'*" inspect /dev/null
[ ! -e out ] || echo "out was made"
# What must be a file cannot be standard output, and "-" is no file's name.
for command in 'calibrate m --data d.txt' 'sensitivity m --data d.txt' 'merge a.amax b.amax' 'report m'; do
	# shellcheck disable=SC2086
	fails 2 " ${command%% *}: option '--output': '-' (standard output) is not supported here: name a file or directory" \
		$command -o -
done
[ ! -e ./- ] || echo "a file '-' was made"
