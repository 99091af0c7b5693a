#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What the program was built with, read from it: PIE, full RELRO, a stack that is not executable, stack protector, FORTIFY.
need "readelf()"
need_unsanitized
readelf -hlWd "$FP8CONV" >elf
readelf -sW "$FP8CONV" >symbols
has() {
	grep -q -e "$2" "$1" || echo "no $3"
}
has elf 'Type: *DYN' PIE
has elf 'FLAGS_1.*PIE' PIE
has elf GNU_RELRO RELRO
has elf 'FLAGS_1.*NOW' 'immediate binding'
has elf 'GNU_STACK .* RW ' 'stack without execution'
has symbols __stack_chk_fail 'stack protector'
has symbols '__[a-z]*printf_chk' FORTIFY
grep -E 'LOAD .* RWE ' elf
exit 0
