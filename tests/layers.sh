#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The arrows between layers: which folder may include which.  A header that is included from nowhere
# but its own .c file has no reason to be.
set -eu
cd "$(dirname "$0")/.."

# allowed FOLDER: the folders whose headers it may use besides its own.  Nothing includes what is
# higher; folders of one line do not know each other.
low="base num"
containers="ckpt amax recipe format names model backend tokenizer"
engines="$containers ranks quantizer forward"
checkpoints="$engines source select dataset expect"
allowed() {
	case $1 in
	base | num) ;;
	remote | view) echo "base" ;;
	torch) echo "$low" ;;
	ckpt) echo "$low view torch" ;;
	recipe | tokenizer) echo "$low" ;;
	backend | ranks) echo "$low" ;;
	amax) echo "$low ckpt torch" ;;
	format | names) echo "$low ckpt" ;;
	model) echo "$low ckpt names" ;;
	arch) echo "$low ckpt names model" ;;
	quantizer) echo "$low backend ranks recipe" ;;
	forward) echo "$low backend names model" ;;
	source) echo "$low $engines view" ;;
	select) echo "$low $engines source" ;;
	expect) echo "$low ckpt format names model" ;;
	dataset) echo "$low ckpt tokenizer" ;;
	sweep) echo "$low $checkpoints" ;;
	compensate | calibrate | diff | eval | inspect | verify) echo "$low $checkpoints sweep" ;;
	report) echo "$low $checkpoints sweep eval" ;;
	plan) echo "$low $checkpoints sweep compensate" ;;
	execute) echo "$low $checkpoints sweep compensate plan" ;;
	# what a conversion would write is compared
	delta) echo "$low $checkpoints sweep compensate plan execute" ;;
	# what is measured is what the plan of quantize says
	sensitivity) echo "$low $checkpoints sweep plan" ;;
	cli) echo "$low $checkpoints sweep compensate plan execute calibrate delta diff eval sensitivity inspect report verify remote" ;;
	# a door beside the program: nothing includes it
	lib) echo "$(allowed cli) cli" ;;
	kernels) echo "$low backend" ;;
	*) echo "layers: folder '$1' has no row in tests/layers.sh" >&2 ;;
	esac
}

status=0
for file in src/*/*.[ch] src/*/*/*.[ch] kernels/*.[ch] kernels/*/*.[ch] kernels/*/*/*.[ch] kernels/*/*.cu kernels/*/*/*.cu \
	cli/*.[ch] cli/*/*.[ch] lib/*.[ch]; do
	[ -e "$file" ] || continue
	case $file in
	src/*) layer=${file#src/} ;;
	*) layer=$file ;;
	esac
	layer=${layer%%/*}
	for target in $(sed -n 's,^#include "\([a-z]*\)/.*,\1,p' "$file" | sort -u); do
		case " $layer $(allowed "$layer") " in
		*" $target "*) ;;
		*)
			echo "$file includes $target/, which $layer may not"
			status=1
			;;
		esac
	done
done

# Within kernels: the GPU's never include the CPU's, and name CUDA in gpu/cuda alone.
if grep -nE '^#include "kernels/cpu/' kernels/gpu/*.* kernels/gpu/*/*.*; then
	echo "kernels/gpu includes kernels/cpu"
	status=1
fi
if grep -rniE 'cuda|cublas|nvidia|nvcc' kernels/gpu --include='*.cu' --include='*.h' --exclude-dir=cuda; then
	echo "kernels/gpu names CUDA outside of kernels/gpu/cuda"
	status=1
fi

# At link time, of kernels/ everything else wants the two lists of kernels/backends.c.  There, the
# name of a function begins with that of its file (less what follows a '_') or folder, or with cpu_.
: "${BUILD:=build}"
if [ -e "$BUILD/kernels/backends.o" ]; then
	wanted=$(nm -u "$BUILD"/src/*/*.o "$BUILD"/src/*/*/*.o "$BUILD"/cli/*.o "$BUILD"/cli/*/*.o | sed -n 's/^ *U //p' | sort -u)
	for object in "$BUILD"/kernels/*.o "$BUILD"/kernels/cpu/*/*.o; do
		source=${object#"$BUILD"/}
		source=${source%.o}.c
		[ -e "$source" ] || continue # of an older tree
		file=$(basename "$source" .c)
		folder=$(basename "$(dirname "$source")")
		nm -g --defined-only "$object" | while read -r _ type name; do
			case $name in
			backends | host_ops) continue ;;
			esac
			if printf '%s\n' "$wanted" | grep -qx "$name"; then
				echo "$source: $name is used outside of kernels"
			fi
			case $type:$name in
			T:"${file%%_*}"* | T:"$folder"* | T:cpu_* | [!T]:*) ;;
			*) echo "$source: function $name is not named after its file" ;;
			esac
		done
	done >"$BUILD/layers.txt"
	[ ! -s "$BUILD/layers.txt" ] || status=1
	cat "$BUILD/layers.txt"
	rm -f "$BUILD/layers.txt"
else
	echo "SKIPPED: names of functions in kernels: $BUILD/ has no objects"
fi

# A test can fail only those calls that go through the I/O table.
calls='open|openat|creat|close|read|write|pread|pwrite|fsync|fdatasync|rename|renameat|unlink|unlinkat|mkdir|mkdirat|ftruncate|fallocate|opendir|fopen'
if grep -nE "(^|[^A-Za-z0-9_.>])($calls)\(" src/*/*.[ch] src/*/*/*.[ch] kernels/*.[ch] kernels/*/*/*.[ch] | grep -v '^src/base/io\.c:' | grep -vE ':\s*/?\*'; then
	echo "a call bypasses src/base/io.h"
	status=1
fi

# A scale_inv belongs to the codes: only the operation that writes those, in kernels/, writes one or finds one from an amax.
# verify/values/arithmetic.c does what other tools did, to compare; plan/rescale.c gives the scale of codes
# that stay as they are another type; recipe/static_amax.c finds scales of inputs and caches, whose codes
# are written when the model runs; compensate/band.c finds those that the cast beside it writes, for codes that
# compensate each other.
writes='scale_inv\)?\[[^]]*\] = |memcpy\([^,]*scale_inv|\*[a-z_>.-]*scale_inv = '
finds='(scaling|scale_inv|e8m0)_from_amax\(|scaling_(f32|e8m0|given)\(|e8m0_round_up\('
if grep -nE "$writes|$finds" src/*/*.[ch] src/*/*/*.[ch] cli/*.[ch] cli/*/*.[ch] | grep -vE '^src/(num/|(verify/values/arithmetic|plan/rescale)\.c:|recipe/static_amax\.c:|compensate/band\.c:)|static_scale_inv\(|:\s*/?\*'; then
	echo "a scale_inv is written by a function that writes no codes"
	status=1
fi

# A README names what exists: in the first column of a table files and folders of its own, else any file.
files=$(sh tests/files.sh | sed 's,^,/,')
for readme in src/*/README.md kernels/README.md kernels/*/README.md; do
	own=$(sed -n 's/^| \(`[^|]*\) |.*/\1/p' "$readme" | grep -oE '`[a-z0-9_./]+`' | sed "s,\`\(.*\)\`,/${readme%/*}/\1,")
	any=$(grep -oE '`[A-Za-z0-9_/]+(\.(c|h|cu|sh|py|[1357])|/)`' "$readme" | sed 's,`\(.*\)`,/\1,')
	for name in $own $any; do
		printf '%s\n' "$files" | grep -qE "$name(\.[a-z]+)?$|${name%/}/" && continue
		echo "$readme names ${name#/}, which does not exist"
		status=1
	done
done

for name in utils common misc helper manager; do
	if sh tests/files.sh | grep -q "/$name\."; then
		echo "a file is called $name"
		status=1
	fi
done
exit $status
