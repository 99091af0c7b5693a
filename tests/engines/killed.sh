#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# killed.sh SIGNAL ARG...: fp8conv, which gets a signal while it writes a file of weights.
# Exit status 128 + the signal; that of fp8conv where it was faster.
signal=$1
shift
fp8conv "$@" &
pid=$!
while kill -0 "$pid" 2>/dev/null; do
	case $(readlink /proc/"$pid"/fd/*) in
	*.safetensors*partial*)
		kill -s "$signal" "$pid"
		break
		;;
	esac
done
wait "$pid"
