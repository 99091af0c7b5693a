#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# release.sh VERSION OUT FILE...: copies the files into OUT, which it makes anew, and adds to them what they consist of (SPDX),
# SHA256SUMS and, with SIGN=KEY, a private key in a PEM file, SHA256SUMS.sig.
#
# Whoever has the public key checks them with openssl and sha256sum: packaging/README.md has the commands.
set -eu
version=$1
out=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
if [ "${SIGN-}" ]; then
	openssl dgst -sha256 -sign "$SIGN" -out /dev/null "$here/release.sh" || {
		echo "release.sh: openssl cannot sign with '$SIGN': give SIGN= a private key of EC or RSA in a PEM file" >&2
		exit 1
	}
fi

rm -rf "$out"
mkdir -p "$out"
cp "$@" "$out"
python3 "$here/sbom.py" "$version" "$(sh "$here/date.sh")" "$out"
(cd "$out" && LC_ALL=C && sha256sum -- *) >"$out.sums"
mv "$out.sums" "$out/SHA256SUMS"
[ -z "${SIGN-}" ] || openssl dgst -sha256 -sign "$SIGN" -out "$out/SHA256SUMS.sig" "$out/SHA256SUMS"
du -h "$out"/*
