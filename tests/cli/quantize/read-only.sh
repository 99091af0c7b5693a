#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
. "$CLI/lib.sh"
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
