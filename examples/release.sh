#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A release in FP8, from a model to a folder that can be uploaded: release.sh MODEL OUT TEXT
#
# TEXT is any text (.txt, .jsonl) that the model was not trained on.  RECIPE, TARGET and MAX_KLD may be set.
# The same command continues an interrupted run.
set -eu
MODEL=$1 OUT=$2 TEXT=$3

fp8conv quantize "$MODEL" -o "$OUT" --manifest \
	--recipe "${RECIPE:-channelwise}" --target "${TARGET:-vllm}"
fp8conv verify "$OUT" --source "$MODEL" --target "${TARGET:-vllm}" --manifest
fp8conv eval "$OUT" --source "$MODEL" --data "$TEXT" --passes 16 \
	--max-kld "${MAX_KLD:-0.1}" --json > "$OUT.eval.json"
fp8conv report "$OUT" --source "$MODEL" --eval "$OUT.eval.json" -o "$OUT"
echo "ready: vllm serve $OUT, or: hf upload ORG/NAME $OUT"
