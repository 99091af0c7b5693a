#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# killed.sh ARG...: fp8conv, killed with SIGKILL while it writes a file of weights.
# Exit status 137; that of fp8conv where it was faster.
"$FP8CONV" "$@" &
pid=$!
while kill -0 "$pid" 2>/dev/null; do
	case $(readlink /proc/"$pid"/fd/*) in
	*.safetensors*partial*) kill -9 "$pid" ;;
	esac
done
wait "$pid"
