#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
q=' quantize: '
fails 2 "${q}unknown option '--recipie' (did you mean '--recipe'?)" quantize --recipie blockwise in -o out
fails 2 "${q}unknown option '--recipie' (did you mean '--recipe'?)" quantize in -o out --recipie=blockwise
fails 2 "${q}unknown option '--max-mem-ory' (did you mean '--max-memory'?)" quantize in --max-mem=1 --max-mem-ory=1
fails 2 "${q}unknown option '--drry-run' (did you mean '--dry-run'?)" quantize in --drry-run
fails 2 "${q}unknown option '--threds' (did you mean '--threads'?)" quantize --threds 3 in
fails 2 "${q}unknown option '--exlude' (did you mean '--exclude'?)" quantize --exlude x in
fails 2 "${q}unknown option '--' (see 'fp8conv quantize --help')" quantize --=3
fails 2 "${q}unknown option '-Z' (see 'fp8conv quantize --help')" quantize in -qvZ -o out
fails 2 "${q}unknown option '-Z' (see 'fp8conv quantize --help')" quantize in -Zq -o out
fails 2 "${q}unknown option '--activations' (see 'fp8conv quantize --help')" quantize in --activations f
fails 2 "${q}option '--m' is ambiguous: '--min-tokens' or '--manifest', and more" quantize in --m 3
fails 2 "${q}option '--re' is ambiguous: '--recipe' or '--requantize', and more" quantize in --re
fails 2 "${q}option '--recipe' needs a value (RECIPE)" quantize in -o out --recipe
fails 2 "${q}option '--recipe' needs a value (RECIPE)" quantize in -o out --rec
fails 2 "${q}option '--output' needs a value (OUT)" quantize in --output
fails 2 "${q}option '-o' needs a value (OUT)" quantize in -qo
fails 2 "${q}option '--progress' needs a value (auto|bar|json|none)" quantize in --progress
fails 2 "${q}option '--json' does not take a value ('yes')" quantize in --json=yes -o out
fails 2 "${q}option '--dry-run' does not take a value ('')" quantize in --dry-run=
fails 2 "${q}MODEL is missing (fp8conv quantize MODEL -o OUT)" quantize
fails 2 "${q}MODEL is missing (fp8conv quantize MODEL -o OUT)" quantize -o out
fails 2 "${q}option '--output' is missing: give an output (-o OUT), or --dry-run" quantize in
fails 2 "${q}unexpected argument 'out' (give the output as -o out)" quantize in out
fails 2 "${q}unexpected argument '--dry-run'" quantize -- in --dry-run
fails 2 " inspect: MODEL is missing (fp8conv inspect MODEL)" inspect
fails 2 " inspect: unexpected argument 'b'" inspect a b
fails 2 " inspect: unknown option '--jsn' (did you mean '--json'?)" inspect a --jsn
for command in recipes formats version; do
	fails 2 " $command: unexpected argument 'x'" $command x
	fails 2 " $command: unknown option '--jason' (did you mean '--json'?)" $command --jason
	fails 2 " $command: unknown option '-j' (see 'fp8conv $command --help')" $command -j
done
[ -z "$(ls)" ] || ls
