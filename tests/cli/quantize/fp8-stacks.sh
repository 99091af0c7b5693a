#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# --requantize of FP8 experts in one tensor makes what it makes of the same experts one by one.
need "python3()"

python3 "$CLI/experts.py" step m 3 256 384

# again RECIPE FORMAT: from, made of experts one by one, and fused or stack, the same in one tensor.
again() {
	"$FP8CONV" quantize from -o split --requantize -q --recipe "$1" --format "$2"
	"$FP8CONV" quantize "$kind" -o out --requantize -q --recipe "$1" --format "$2"
	if [ "$kind" = fused ]; then
		python3 "$CLI/checkpoint.py" list split >wanted
		python3 "$CLI/checkpoint.py" list out | diff wanted - || echo "$kind from $how to $*"
	else
		python3 "$CLI/experts.py" joined out split
	fi
	"$FP8CONV" verify out --source "$kind" || echo "$kind from $how to $*"
	rm -rf split out
}

for how in "blockwise hf --scale-fmt=ue8m0" "blockwise hf --scale-fmt=float" "channelwise compressed-tensors" "mxfp8 hf" "current hf"; do
	# shellcheck disable=SC2086
	set -- $how
	"$FP8CONV" quantize m/split -o from -q --recipe "$1" --format "$2" ${3:+"$3"}
	python3 "$CLI/experts.py" fused from fused
	"$FP8CONV" quantize m/stack -o stack -q --recipe "$1" --format "$2" ${3:+"$3"}
	kind=fused
	again blockwise hf
	again current hf
	kind=stack
	again "$1" "$2"
	again channelwise compressed-tensors
	# What has its recipe already keeps its codes.
	"$FP8CONV" quantize fused -o out --requantize -q --recipe "$1" --format "$2"
	python3 "$CLI/checkpoint.py" list from >wanted
	python3 "$CLI/checkpoint.py" list out | diff wanted - || echo "$how was not kept"
	"$FP8CONV" quantize fused -o small --requantize -q --recipe "$1" --format "$2" --max-memory 25M --threads 2
	same out small
	rm -rf from fused stack out small
done
