#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shells themselves, each that is there, with lines in which TAB is pressed, and what it offers.  A line begins with the
# letters of the shells that answer so; bash offers a value without its option, and fish nothing where any value can stand.
. "$CLI/lib.sh"
need "python3()" "bash()"
cat >answers <<'END'
bzf fp8conv qu| quantize
bzf fp8conv help in| inspect
bzf fp8conv --v| --version
bzf fp8conv quantize --recipe b| blockwise
bzf fp8conv quantize --recipe=b| --recipe=blockwise
b   fp8conv quantize --format=| --format=compressed-tensors hf modelopt
zf  fp8conv quantize --format=| --format=compressed-tensors --format=hf --format=modelopt
bzf fp8conv quantize --include=a --inc| --include
bzf fp8conv quantize --tensor=a=skip --ten| --tensor --tensors
bzf fp8conv quantize --ragged --rag| --ragged
bzf fp8conv verify --backend=au| --backend=auto
bzf fp8conv verify --backend re| reference
bzf fp8conv quantize --amax-algo=p| --amax-algo=percentile=
bz  fp8conv quantize --tp=| --tp=
f   fp8conv quantize --tp=|
bzf fp8conv repack --recipe=| --recipe=mxfp8
b   fp8conv quantize --output=mo| --output=model.safetensors models
zf  fp8conv quantize --output=mo| --output=model.safetensors --output=models/
b   fp8conv quantize mo| model.safetensors models
zf  fp8conv quantize mo| model.safetensors models/
bz  fp8conv version mo| mo
f   fp8conv version mo|
bzf fp8conv formats --j| --json
bzf fp8conv families --j| --json
b   fp8conv families mo| model.safetensors models
zf  fp8conv families mo| model.safetensors models/
bzf fp8conv families qwen3_n| qwen3_next
b   fp8conv merge -o c.amax | a.amax b.amax models
zf  fp8conv merge -o c.amax | a.amax b.amax models/
bzf fp8conv quantize model.safetensors --calibration a| a.amax
bzf fp8conv quantize model.safetensors --calibration=a| --calibration=a.amax
b   fp8conv sensitivity --from | S.json models
zf  fp8conv sensitivity --from | S.json models/
bzf fp8conv eval OUT --resume an| answers
END
PATH=$(dirname "$FP8CONV"):$PATH
missing=
for shell in bash zsh fish; do
	command -v $shell >/dev/null || missing="$missing $shell"
	command -v $shell >/dev/null || continue
	mkdir -p $shell/models
	cp answers $shell
	cd $shell || exit
	"$FP8CONV" completion $shell >script
	touch model.safetensors a.amax b.amax .c.amax.lock S.json
	letter=$(printf %.1s $shell)
	sed -n "s/^[a-z]*$letter[a-z]* *//p" answers >wanted
	sed 's/|.*//' wanted | python3 "$CLI/complete.py" $shell script | diff wanted - | sed "s/^[<>]/$shell &/"
	cd ..
done
[ -z "$missing" ] || skip "no$missing"
