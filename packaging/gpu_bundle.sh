#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Packs what tests/gpu.sh takes for a machine that has a GPU and its driver, and where nothing can be
# installed: programs, the libraries that they need, samples, and gpu_run.sh, which says how it is run.
#
# BUILD: where gpu-targets were built.  PARITY: the tests of parity.  OUTPUT: the archive.
set -eu
cd "$(dirname "$0")/.."
for tool in xz objdump readelf strip; do
	command -v $tool >/dev/null && continue
	echo "make gpu-bundle: no $tool: apt install xz-utils binutils" >&2
	exit 1
done
# cuBLASLt has hundreds of megabytes, and the C library is the machine's: they are found there.
THERE='^(libc|libm|libdl|librt|libpthread|libcuda|libcublasLt|ld-linux[^.]*)\.so'
work=$(mktemp -d "$BUILD/bundle-XXXXXX")
trap 'rm -rf "$work"' EXIT
tree=$work/tree
bundle=$work/fp8conv-gpu
mkdir -p "$bundle" "$tree/lib" "$tree/programs/tests/unit" "$tree/programs/bench"

# needs FILE: copies the libraries that a program or a library is linked with, each by its soname.
needs() {
	ldd "$1" | sed -n 's/^\t\([^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p' | while read -r soname file; do
		if ! echo "$soname" | grep -Eq "$THERE" && [ ! -e "$tree/lib/$soname" ]; then
			cp -L "$file" "$tree/lib/$soname"
		fi
	done
}

programs="fp8conv bench/gpu bench/gpu_gemm bench/model bench/products bench/copy_half"
for test in $PARITY; do
	programs="$programs tests/unit/$test"
done
for program in $programs; do
	strip -o "$tree/programs/$program" "$BUILD/$program"
	needs "$BUILD/$program"
done
# Loaded by name.  CC may be more than a word.
# shellcheck disable=SC2086
onednn=$(readlink -f "$(${CC:-cc} -print-file-name=libdnnl.so)")
cp "$onednn" "$tree/lib/$(objdump -p "$onednn" | sed -n 's/^ *SONAME *//p')"
needs "$onednn"

sh tests/files.sh tests/gpu.sh tests/simt/run.sh 'tests/golden/*' 'tests/cli/*.py' 'bench/*.py' \
	'sample_checkpoints/tiny-llama/*' 'sample_checkpoints/tiny-moe/*' 'sample_checkpoints/odd-shapes/*' |
	xargs cp --parents -t "$tree"
echo "$PARITY" >"$tree/parity"
readelf -l "$BUILD/fp8conv" | sed -n 's/.*program interpreter: \(.*\)]/\1/p' >"$tree/loader"
git describe --always --abbrev=12 --dirty=+ '--exclude=*' >"$tree/revision" || echo unknown >"$tree/revision"

# The programs share most of their code: with a window of several of them it is packed once.  432 MB
# become 21 MB in a minute; preset 9 finds 1.4 MB more in four.
unpacked=$(du -sh "$tree" | cut -f 1)
tar -C "$tree" --sort=name --owner=0 --group=0 -cf - . |
	xz -T 1 --lzma2=preset=3,nice=273,dict=192MiB >"$bundle/tree.tar.xz"
cp packaging/gpu_run.sh "$bundle/run.sh"
xz=$(command -v xz)
cp "$xz" "$bundle/xz"
ldd "$xz" | sed -n 's/^\tliblzma[^ ]* => \(\/[^ ]*\) .*/\1/p' | xargs -r cp -L -t "$bundle"
tar -C "$work" --owner=0 --group=0 -cf "$OUTPUT" fp8conv-gpu
echo "$OUTPUT ($(du -h "$OUTPUT" | cut -f 1), $unpacked unpacked).  Where the GPU is:"
echo "  tar xf ${OUTPUT##*/} && sh fp8conv-gpu/run.sh parity files bench"
echo "  sh fp8conv-gpu/run.sh sanitize"
