#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shared library and the Python module as they are installed: it exports what its header declares and nothing else, the
# module passes python.py with numpy alone, and the example compiles by pkg-config and runs.  BUILD: where it was built.
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
make -s -o all install BUILD="$BUILD" DESTDIR="$scratch/installed" PREFIX=/usr >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
usr=$scratch/installed/usr

# Where it was installed, the module finds the library without a loader's path, and needs no package.
module() {
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$usr/lib/python3/dist-packages "$@"
}
python=
for name in python3 /usr/bin/python3 "${HOME:-/root}"/.cache/fp8conv/venv-*/bin/python; do
	"$name" -c 'import numpy' 2>/dev/null && python=$name && break
done
module python3 -S -c 'import fp8conv, sys; assert "numpy" not in sys.modules; fp8conv.run("recipes", json=True).output["recipes"]'
if [ "$python" ]; then
	module "$python" tests/python.py >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
else
	echo "SKIPPED library/python: no python3 with numpy (python3-numpy)"
fi
if ! command -v pkg-config >/dev/null; then
	echo "SKIPPED library: no pkg-config"
	exit 0
fi
PKG_CONFIG_LIBDIR=$usr/lib/pkgconfig
PKG_CONFIG_SYSROOT_DIR=$scratch/installed
export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
[ "$(wc -l <examples/quantize.c)" -le 60 ]
cat >"$scratch/four.c" <<'END'
#include <pthread.h>
int example(void);
static void *run(void *unused)
{
	return example() ? &example : unused;
}
int main(void)
{
	pthread_t threads[4];
	void *failed;
	int status = 0;
	for (int i = 0; i < 4; i++)
		status |= pthread_create(&threads[i], 0, run, 0);
	for (int i = 0; i < 4; i++)
		status |= pthread_join(threads[i], &failed) || failed;
	return status;
}
END
# compile DEFINITIONS SOURCE...: a user's command
compile() {
	# shellcheck disable=SC2046
	cc -Wall -Wextra -Werror "$@" $(pkg-config --cflags --libs fp8conv) -lm -pthread
}
LD_LIBRARY_PATH=$usr/lib
export LD_LIBRARY_PATH
line='8 x 32 scales, largest error 0.000976562'
compile -o "$scratch/quantize" examples/quantize.c
[ "$("$scratch/quantize")" = "$line" ] || { echo "the example prints another line"; exit 1; }
compile -c -Dmain=example -o "$scratch/example.o" examples/quantize.c
compile -Wno-pedantic -o "$scratch/four" "$scratch/four.c" "$scratch/example.o"
[ "$("$scratch/four" | grep -cx "$line")" = 4 ] || { echo "the example fails in one of four threads"; exit 1; }
printf '#include <fp8conv.h>\nint main() { return !fp8conv_version(); }\n' >"$scratch/plus.cc"
if command -v c++ >/dev/null; then
	c++ -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$usr/include" "$scratch/plus.cc"
else
	echo "SKIPPED library/c++: no C++ compiler"
fi
