#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
"$FP8CONV" version >t
for fact in fp8conv compiler CUDA 'CPU features' backend calibrate jansson libunistring PCRE2; do
	grep -q "^$fact	." t || echo "nothing about $fact"
done
[ "$(sed -n 's/^fp8conv	/fp8conv /p' t)" = "$("$FP8CONV" --version)" ] || cat t
grep -q '^backend	reference: usable' t || cat t
[ "$(grep -c "chosen by 'auto'" t)" -eq 1 ] || cat t
"$FP8CONV" version --json >j
json j 'list(j) == ["schema", "version", "compiler", "cuda", "cpu_features", "backend", "backends", "executors", "libraries"]' \
	'all(list(e) == ["name", "library", "usable", "reason"] for e in j["executors"])' \
	'[e["name"] for e in j["executors"] if (e["library"] or "").startswith("oneDNN ")] == ["cpu"]' \
	'all(list(b) == ["name", "summary", "usable", "reason"] for b in j["backends"])' \
	'all(b["usable"] == (b["reason"] is None) for b in j["backends"])' \
	'j["backend"] in [b["name"] for b in j["backends"] if b["usable"]]' \
	'"reference" in [b["name"] for b in j["backends"]]'

mkdir next
cd next
# What the program was built with, read from it: PIE, full RELRO, a stack that is not executable, stack protector, FORTIFY.
need "readelf()"
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
