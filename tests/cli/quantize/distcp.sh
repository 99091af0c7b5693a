#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# .metadata and .distcp: the bytes that safetensors give; what is damaged is refused by name.
python3 - <<'END'
import pathlib
import checkpoint, distcp
pathlib.Path("wanted").mkdir()
checkpoint.write("wanted/model.safetensors", {distcp.NAME: ("F32", [distcp.ROWS, distcp.COLS], distcp.VALUES)}, {"format": "pt"})
END
"$FP8CONV" quantize wanted -o wanted-out --quiet
for kind in good model step; do
	python3 "$CLI/distcp.py" $kind $kind
	"$FP8CONV" quantize $kind -o $kind-out --from-torch --quiet
	same wanted-out $kind-out
done
"$FP8CONV" quantize good/__1_0.distcp -o by-part --quiet
same wanted-out by-part
python3 "$CLI/distcp.py" kinds >kinds
while read -r kind; do
	message=$(python3 "$CLI/distcp.py" "$kind" "$kind")
	fails 3 " quantize: $message" quantize "$kind/.metadata" -o no
done <kinds
[ ! -e no ] || echo "a refused checkpoint left an output"
