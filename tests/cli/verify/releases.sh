#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# What is right in other people's releases is no problem, for each engine that reads them; one damage to each is named.
python3 "$CLI/releases.py" check

mkdir next
cd next
# Each way to damage a checkpoint is found but those that pass by right, which ruin.py lists with the reason.
python3 "$CLI/ruin.py" models llama 2>ways || exit 1
grep -q "^llama mxfp8/hf: [0-9]* ways" ways && grep -q "^llama channelwise/compressed-tensors: [0-9]* ways" ways &&
	grep -q "^llama channelwise/modelopt: [0-9]* ways" ways || cat ways
