#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lint.sh [REVISION]: cppcheck, clang-tidy (.clang-tidy) and gcc -fanalyzer over src/, cli/, lib/ and kernels/,
# except the vector bodies of kernels/cpu; with REVISION, the last two over the files that differ
# from it alone.  Silent, or an error.  A tool that is not installed is an error too: make deps
# EXTRA="clang-tidy cppcheck".
set -u
cd "$(dirname "$0")/.."
flags='-std=gnu11 -Isrc -I. -Iinclude -D_GNU_SOURCE -DFP8CONV_VERSION=\"lint\"'
sources='src/*.c cli/*.c lib/*.c kernels/*.c :!kernels/cpu/avx2 :!kernels/cpu/avx512 :!kernels/cpu/neon :!kernels/cpu/forward/ops.c'
set -f
# shellcheck disable=SC2086
if [ $# -gt 0 ]; then
	files=$(git diff --name-only --diff-filter=d "$1" -- $sources) || exit 2
else
	files=$(git ls-files $sources)
fi
set +f
status=0
for tool in cppcheck clang-tidy gcc; do
	command -v $tool >/dev/null || { echo "lint: $tool is missing: run make deps EXTRA=\"clang-tidy cppcheck\""; exit 1; }
done

# check NAME COMMAND...: its status and its output, which must be empty, decide.
check() {
	name=$1
	shift
	output=$("$@" 2>&1) && [ -z "$output" ] && return
	printf 'lint: %s:\n%s\n' "$name" "$output"
	status=1
}

# Macros that cppcheck does not find in headers that it does not read: jansson's, oneDNN's.  Its processes
# wait for each other where they print nothing (--quiet).
cppcheck_all() {
	cppcheck -j "$(nproc)" --error-exitcode=1 --enable=warning,performance,portability --std=c11 --inline-suppr \
		-Isrc -I. -Iinclude -D_GNU_SOURCE '-DFP8CONV_VERSION="lint"' -DDNNL_VERSION_MAJOR=3 \
		'-Djson_array_foreach(list,i,item)=while(i=json_index(list),(item=json_array_get(list,i)))' \
		'-Djson_object_foreach(object,key,item)=while((key=json_key(object))&&(item=json_value(key)))' \
		src cli lib kernels >/dev/null
}

# each COMMAND: runs it on every file by itself; "$1" in it is the file.
each() {
	printf '%s\n' "$files" | xargs -r -n 1 -P "$(nproc)" sh -c "$1" each
}

# What goes to stderr is how many warnings it did not show.
tidy_all() {
	each 'clang-tidy --quiet "$1" -- '"$flags"' 2>/dev/null'
}

analyze_all() {
	each 'gcc '"$flags"' -O1 -fanalyzer -S -o /dev/null "$1"'
}

check cppcheck cppcheck_all
check clang-tidy tidy_all
check 'gcc -fanalyzer' analyze_all
[ $status -eq 0 ] && echo "lint: cppcheck, clang-tidy and gcc -fanalyzer found nothing"
exit $status
