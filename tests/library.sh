#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shared library as it is installed: it exports what its header declares and nothing else, and the example compiles by
# pkg-config and runs.  BUILD: where it was built; SANITIZE: what with.
set -eu
cd "$(dirname "$0")/.."
: "${BUILD:=build}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
so=$BUILD/libfp8conv.so.1

nm -D --defined-only "$so" | awk '{ print $3 }' | grep -v '^FP8CONV_1$' | sort >"$scratch/exported"
sed -n 's/^[a-z].*[ *]\(fp8conv_[a-z_]*\)(.*/\1@@FP8CONV_1/p' include/fp8conv.h | sort >"$scratch/declared"
diff "$scratch/declared" "$scratch/exported"
[ "$(wc -l <"$scratch/declared")" -le 25 ]
readelf -d "$so" | grep -q 'SONAME.*\[libfp8conv.so.1\]'

unset MAKEFLAGS
make -s -o all install BUILD="$BUILD" DESTDIR="$scratch/root" PREFIX=/usr >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
root=$scratch/root/usr
if ! command -v pkg-config >/dev/null; then
	echo "SKIPPED library: no pkg-config"
	exit 0
fi
PKG_CONFIG_LIBDIR=$root/lib/pkgconfig
PKG_CONFIG_SYSROOT_DIR=$scratch/root
export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
[ "$(wc -l <examples/quantize.c)" -le 60 ]
# shellcheck disable=SC2046
cc -Wall -Wextra -Werror ${SANITIZE:+-fsanitize=$SANITIZE} -o "$scratch/quantize" examples/quantize.c \
	$(pkg-config --cflags --libs fp8conv) -lm
LD_LIBRARY_PATH=$root/lib "$scratch/quantize" >"$scratch/printed"
grep -qx '8 x 32 scales, largest error 0.000976562' "$scratch/printed" || { cat "$scratch/printed"; exit 1; }
printf '#include <fp8conv.h>\nint main() { return !fp8conv_version(); }\n' >"$scratch/plus.cc"
if command -v c++ >/dev/null; then
	c++ -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$root/include" "$scratch/plus.cc"
else
	echo "SKIPPED library/c++: no C++ compiler"
fi
