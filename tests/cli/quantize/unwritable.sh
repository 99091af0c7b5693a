#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
# A disk that takes no more, played by a limit on the size of files: status 4, one line, nothing left.
need "$SAMPLES/tiny-moe"
(
	ulimit -f 100
	fails 4 " quantize: *" quantize "$SAMPLES/tiny-moe/fused" -o out
	fails 4 " quantize: *" quantize "$SAMPLES/tiny-moe/fused/model.safetensors" -o out.safetensors
	fails 4 " quantize: *" quantize "$SAMPLES/tiny-moe/fused/model.safetensors" -o -
)
find . -name '*.safetensors*' -o -name config.json -o -name '.*.partial'
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o out
"$FP8CONV" quantize "$SAMPLES/tiny-moe/fused" -o wanted
same wanted out

mkdir next
cd next
# A file that is larger than any may be fails as one for which a disk has no room: the finished one stays.  The limit, in
# blocks of 512 bytes, lies between the sizes of the two.
need "$SAMPLES/odd-shapes"
(
	ulimit -f 1320
	fails 4 " quantize: *'out/model-00002-of-00002.safetensors'*: 1 of 2 files are finished: run the same command to continue" \
		quantize "$SAMPLES/odd-shapes" -o out --recipe channelwise --threads 1
)
"$FP8CONV" quantize "$SAMPLES/odd-shapes" -o out --recipe channelwise --json >j 2>err
json j 'j["files_found"] == 1' 'j["files_written"] == 1'

mkdir next
cd next
# Where it may not write: status 4, and nothing is left.  Root may write anywhere, so it becomes somebody else.
need "$SAMPLES/tiny-moe"
mkdir closed
cp -r "$SAMPLES/tiny-moe/fused" in
cp "$FP8CONV" fp8conv
if [ "$(id -u)" -eq 0 ]; then
	need "setpriv()"
	chmod 755 .. .
	chmod -R a+rX .
	printf '#!/bin/sh\nexec setpriv --reuid=65534 --regid=65534 --clear-groups "%s" "$@"\n' "$PWD/fp8conv" >nobody
	chmod 755 nobody
	FP8CONV=$PWD/nobody
else
	chmod a-w closed
fi
fails 4 " quantize: *'closed*: Permission denied" quantize in -o closed
fails 4 " quantize: *: Permission denied" quantize in -o closed/out
fails 4 " quantize: *: Permission denied" quantize in/model.safetensors -o closed/out.safetensors
chmod 000 in/config.json
[ "$(id -u)" -eq 0 ] || fails 4 " quantize: *'in/config.json'*: Permission denied" quantize in -o out
[ -z "$(ls -A closed)" ] || ls -A closed
