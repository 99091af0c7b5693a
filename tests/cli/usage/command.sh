#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
