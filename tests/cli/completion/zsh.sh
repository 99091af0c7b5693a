# SPDX-License-Identifier: Apache-2.0
# zsh itself, on the lines of `lines`: what it offers where TAB is pressed.
. "$CLI/lib.sh"
need "python3()" "zsh()"
PATH=$(dirname "$FP8CONV"):$PATH
"$FP8CONV" completion zsh >script
mkdir models
touch model.safetensors
python3 "$CLI/complete.py" zsh script <"$CLI/completion/lines"

#1> fp8conv qu| quantize
#1> fp8conv help in| inspect
#1> fp8conv --v| --version
#1> fp8conv quantize --recipe b| blockwise
#1> fp8conv quantize --recipe=b| --recipe=blockwise
#1> fp8conv quantize --format=| --format=compressed-tensors --format=hf --format=modelopt
#1> fp8conv quantize --include=a --inc| --include
#1> fp8conv quantize --tensor=a=skip --ten| --tensor --tensors
#1> fp8conv quantize --ragged --rag| --ragged
#1> fp8conv verify --backend=au| --backend=auto
#1> fp8conv verify --backend re| reference
#1> fp8conv quantize --amax-algo=p| --amax-algo=percentile=
#1> fp8conv quantize --tp=| --tp=
#1> fp8conv repack --recipe=| --recipe=mxfp8
#1> fp8conv quantize --output=mo| --output=model.safetensors --output=models/
#1> fp8conv quantize mo| model.safetensors models/
#1> fp8conv version mo| mo
#1> fp8conv formats --j| --json
#1> fp8conv families --j| --json
#1> fp8conv families mo| model.safetensors models/
#1> fp8conv families qwen3_n| qwen3_next
#1> fp8conv merge -o c.amax mo| model.safetensors models/
