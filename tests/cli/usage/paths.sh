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
