#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What can be refused before the model is looked at: it does not exist.
q=' quantize: '
fails 2 "${q}option '--recipe': unknown recipe 'blokwise' (did you mean 'blockwise'?)" quantize in -o out --recipe blokwise
fails 2 "${q}option '--recipe': unknown recipe 'int4' (see 'fp8conv recipes')" quantize in -o out --recipe int4
fails 2 "${q}option '--tensor': unknown recipe 'mxfp' (did you mean 'mxfp8'?)" quantize in -o out --tensor 'a=b=mxfp'
fails 2 "${q}unknown format 'compresed-tensors' (did you mean 'compressed-tensors'?)" quantize in -o out --format compresed-tensors
fails 2 "${q}unknown format 'gguf' (see 'fp8conv formats')" quantize in -o out --format gguf
fails 2 "${q}unknown backend 'avx1024' (see 'fp8conv version')" quantize in -o out --backend avx1024
for option in --recipe=delayed '--tensor=x=delayed'; do
	fails 2 "${q}recipe 'delayed' needs an amax history: run 'fp8conv calibrate MODEL --data FILE -o stats.amax' and give \
it with --calibration stats.amax" quantize in -o out $option
done
fails 2 "${q}option '--kv-cache' needs an amax history: run 'fp8conv calibrate MODEL *" quantize in -o out --kv-cache
fails 2 "${q}option '--amax-algo' requires '--calibration'" quantize in -o out --amax-algo max
fails 2 "${q}option '--uncovered' requires '--calibration'" quantize in -o out --uncovered error
fails 2 "${q}option '--min-tokens' requires '--calibration'" quantize in -o out --min-tokens 3
for bad in '' min percentile percentile= percentile=0 percentile=0.0000001 percentile=100.000001 percentile=1000 percentile=.5 \
	percentile=5. percentile=1.1.1 percentile=-1 percentile=1e1 percentile=99.9x percentile=99.1234567; do
	fails 2 "${q}option '--amax-algo': '$bad' is not max, most-recent, mse or percentile=P *" quantize in -o out "--amax-algo=$bad"
done
fails 2 "${q}option '--uncovered': 'ignore' is not one of error, group-max, dynamic, skip*" quantize in -o out --uncovered ignore
for bad in 0 -1 x 9223372036854775808; do
	fails 2 "${q}option '--min-tokens': '$bad' is not a number from 1 to 9223372036854775807" quantize in -o out "--min-tokens=$bad"
done
fails 2 "${q}options '--output -' and '--json' cannot be combined: both write to standard output" quantize in -o - --json
fails 2 "${q}*--mx-scale*'blockwise'*" quantize in -o out --mx-scale floor
fails 2 "${q}*--scale-fmt*'mxfp8'*" quantize in -o out --recipe mxfp8 --scale-fmt float
fails 2 "${q}*--scale-arith*" quantize in -o out --scale-arith deepseek
for bad in -1 1.5 x '' 1000; do
	fails 2 "${q}*--margin*'$bad'*" quantize in -o out "--margin=$bad"
done
for bad in -1 nan inf x '' 1e99 1x; do
	fails 2 "${q}*--amax-epsilon*'$bad'*" quantize in -o out "--amax-epsilon=$bad"
done
[ -z "$(ls)" ] || ls

mkdir next
cd next
# No command, an unknown one, and --version.
fails 2 ": no command given (see 'fp8conv --help')"
fails 2 ": unknown command 'quantise' (did you mean 'quantize'?)" quantise
fails 2 ": unknown command 'inspct' (did you mean 'inspect'?)" inspct MODEL
fails 2 ": unknown command 'frobnicate' (see 'fp8conv --help')" frobnicate
fails 2 ": unknown command 'quantise' (did you mean 'quantize'?)" help quantise
fails 2 ": unknown command '--recipe' (see 'fp8conv --help')" --recipe
fails 2 ": unknown command '' (see 'fp8conv --help')" ''
fails 2 ": unexpected argument 'inspect'" help quantize inspect
fails 2 ": unknown command 'a?b' (see 'fp8conv --help')" 'a
b'
"$FP8CONV" --version | grep -Eqx 'fp8conv [0-9]+\.[0-9]+\.[0-9]+' || "$FP8CONV" --version
