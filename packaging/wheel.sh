#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The wheel: how it is made in a chroot of an old Debian, and what it is asked to do after that.
#
#	wheel.sh build			by tests/distro.sh, in the sources, as a user with sudo
#	wheel.sh use PROGRAM OUT	every recipe, a calibration, an evaluation: files and texts in OUT
#	wheel.sh python OUT		the module gives the codes and scales that are in OUT
#
# build: ARCH: x86_64 or aarch64, by a cross compiler; VERSION and EPOCH, of the sources; MIRROR of Debian; CUDA_HOME: with GPU code.  ONEDNN=0:
# without oneDNN, whose compilation takes most of the time.  Libraries are linked statically: those of Debian 12, or made of Debian's sources
# where its own are shared ones, not for shared ones, or large.  KEPT: what was made before.
set -eu
cd "$(dirname "$0")/.."
tree=$PWD
self=$tree/packaging/wheel.sh
work=$HOME/wheel
usr=$work/usr
kept=${KEPT:-$work}
jobs=-j$(nproc)
machine=${ARCH:-x86_64}
triplet=$machine-linux-gnu

# The oldest glibc that will do.  2.29 gave functions that set errno otherwise new versions; the first ones have that of the
# first glibc for a machine.
glibc=2.28
first_glibc=2.2.5
[ "$machine" = x86_64 ] || first_glibc=2.17
old_versions="exp log log2 pow"

# Of oneDNN only matrix products are built, without the sources of other operations.
onednn_out='conv|pool|norm|lrn|prelu|/rnn/|shuffle|softmax|resampl|inner_product|(ref|jit_uni)_(binary|eltwise|reduction)'
onednn_in='_list\.cpp|/injectors/|inner_product_utils|jit_uni_convert_xf16|jit_brgemm_primitive_conf'

fail() {
	echo "wheel.sh: $*" >&2
	exit 1
}

# quiet COMMAND...: shows what it printed if it fails.
quiet() {
	"$@" >"$work/log" 2>&1 || {
		tail -n 40 "$work/log" >&2
		fail "$* failed"
	}
}

# exports LIBRARY FUNCTION: fails if it does not, as where its sources hide all symbols of a static library.
exports() {
	nm -D --defined-only "$1" | grep -q " T $2\$" || fail "$1 does not export $2"
}

# cross: makes the names of tools those of a compiler for $machine, whose programs run by qemu.
cross() {
	quiet sudo env DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends install \
		"gcc-$triplet" "g++-$triplet" qemu-user-static/bookworm # the first that keeps argv[0]
	mkdir "$work/bin"
	for tool in cc:gcc gcc:gcc c++:g++ g++:g++ ar:gcc-ar ranlib:gcc-ranlib nm:gcc-nm strip:strip objdump:objdump; do
		ln -s "/usr/bin/$triplet-${tool#*:}" "$work/bin/${tool%:*}"
	done
	PATH=$work/bin:$PATH
	export QEMU_LD_PREFIX="/usr/$triplet"
}

# get: the compiler of this release, headers and static libraries of Debian 12, sources.
get() {
	release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	printf '%s\n' "deb $MIRROR bookworm main" "deb-src $MIRROR bookworm main" "deb-src $MIRROR trixie main" |
		sudo tee -a /etc/apt/sources.list >/dev/null
	echo "APT::Default-Release \"$release\";" | sudo tee /etc/apt/apt.conf.d/98release >/dev/null
	debian=amd64
	[ "$machine" = x86_64 ] || debian=arm64
	sudo dpkg --add-architecture $debian
	quiet sudo apt-get -q update
	quiet sudo env DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends install \
		gcc g++ make cmake nasm dpkg-dev python3
	[ "$machine" = x86_64 ] || cross
	mkdir -p "$work/debs" "$work/src"
	cd "$work/debs"
	for library in libssl libpcre2 libunistring zlib1g libzstd libisal libcurl4-openssl; do
		quiet apt-get -q download "$library-dev:$debian/bookworm"
	done
	for deb in *.deb; do dpkg -x "$deb" "$work"; done
	cd "$work/src"
	quiet apt-get -q source --only-source jansson/bookworm libisal/bookworm onednn/trixie curl/bookworm
	# Without their versions in the paths of headers.
	for name in jansson libisal onednn curl; do mv "$name"-*/ "$name"; done
	cd "$tree"
}

libraries() {
	cd "$work/src/jansson"
	quiet cmake . -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DJANSSON_BUILD_DOCS=OFF \
		-DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
	quiet make "$jobs"
	cp include/jansson*.h "$usr/include/"
	cp lib/libjansson.a "$usr/lib/"
	cd "$work/src/libisal"
	quiet make -f Makefile.unx "$jobs" lib units=crc host_cpu="$machine"
	cp bin/isa-l.a "$usr/lib/libisal.a"
	cd "$tree"
}

# curl: $work/libcurl-fp8conv.so.4, HTTP and TLS alone, for systems without libcurl.
curl() {
	cd "$work/src/curl"
	quiet cmake -B "$work/curl" . -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG" -DCMAKE_PREFIX_PATH="$usr" \
		-DCMAKE_C_FLAGS="-isystem $usr/include/$triplet" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF \
		-DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DHTTP_ONLY=ON -DCURL_HIDDEN_SYMBOLS=OFF -DCURL_USE_OPENSSL=ON \
		-DOPENSSL_USE_STATIC_LIBS=TRUE -DCURL_USE_LIBPSL=OFF -DCURL_USE_LIBSSH2=OFF -DUSE_LIBIDN2=OFF -DCURL_ZLIB=OFF \
		-DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none
	quiet make "$jobs" -C "$work/curl"
	echo '{ global: curl_*; local: *; };' >"$work/curl.map"
	gcc -shared -o "$work/libcurl-fp8conv.so.4" -Wl,-soname,libcurl-fp8conv.so.4 -Wl,--version-script="$work/curl.map" \
		-Wl,--gc-sections,--build-id=none,-z,defs,-z,relro,-z,now,-z,noexecstack -static-libgcc \
		-Wl,--whole-archive "$(find "$work/curl" -name libcurl.a)" -Wl,--no-whole-archive \
		-L"$usr/lib/$triplet" -l:libssl.a -l:libcrypto.a -ldl -lpthread -s
	exports "$work/libcurl-fp8conv.so.4" curl_easy_perform
	cd "$tree"
}

# onednn: its headers and, if it is wanted, $work/libdnnl.so.3.  One that the same lines made is kept.
onednn() {
	cd "$work/src/onednn"
	sed -i /spdlog/d src/CMakeLists.txt # Debian's patch asks for it where nothing uses it
	find src/cpu -name '*.cpp' | grep -E "$onednn_out" | grep -vE "$onednn_in" | xargs rm
	# -Os: most of oneDNN generates code, and products of matrices run the generated code.
	quiet cmake -B "$work/onednn" . -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-Os -DNDEBUG" \
		-DCMAKE_CXX_FLAGS="-DDNNL_DLL -DDNNL_DLL_EXPORTS -ffunction-sections -fdata-sections -include $work/glibc.h" \
		-DDNNL_TARGET_ARCH="$(echo "$machine" | sed 's/x86_64/x64/' | tr a-z A-Z)" \
		-DCMAKE_POSITION_INDEPENDENT_CODE=ON -DDNNL_LIBRARY_TYPE=STATIC -DDNNL_CPU_RUNTIME=SEQ \
		-DDNNL_EXPERIMENTAL_LOGGING=OFF -DONEDNN_BUILD_GRAPH=OFF -DONEDNN_BUILD_DOC=OFF -DDNNL_BUILD_TESTS=OFF \
		-DDNNL_BUILD_EXAMPLES=OFF -DONEDNN_ENABLE_WORKLOAD=INFERENCE \
		"-DONEDNN_ENABLE_PRIMITIVE=MATMUL;REORDER" -DONEDNN_ENABLE_JIT_PROFILING=OFF -DONEDNN_ENABLE_ITT_TASKS=OFF
	cp -r include/oneapi "$work/onednn/include/oneapi" "$usr/include/"
	cd "$tree"
	[ "${ONEDNN-}" != 0 ] || return 0
	made=$kept/libdnnl-$machine-$(sed -n '/^onednn/,/^}/p' "$self" | cat - "$work"/src/onednn_*.dsc | sha256sum | cut -c 1-16).so.3
	if ! [ -e "$made" ]; then
		quiet make "$jobs" -C "$work/onednn"
		echo '{ global: dnnl_*; local: *; };' >"$work/dnnl.map"
		g++ -shared -o "$work/libdnnl.so.3" -Wl,-soname,libdnnl.so.3 -Wl,--version-script="$work/dnnl.map" \
			-Wl,--gc-sections,-z,defs,-z,relro,-z,now,-z,noexecstack -static-libstdc++ -static-libgcc \
			-Wl,--whole-archive "$(find "$work/onednn" -name libdnnl.a)" -Wl,--no-whole-archive -ldl -lpthread -s
		exports "$work/libdnnl.so.3" dnnl_primitive_execute
		sudo cp "$work/libdnnl.so.3" "$made"
	fi
	cp "$made" "$work/libdnnl.so.3"
}

# linked FILE DIRECTORY...: makes it, to look for libraries in directories relative to its own.
linked() {
	file=$1
	shift
	path=
	for directory; do path=$path${path:+:}"\$\$ORIGIN/$directory"; done
	cuda=${CUDA_HOME:+-L$CUDA_HOME/lib64 -lcudart_static -lrt -l:libstdc++.a}
	make "$jobs" VERSION="$VERSION" CUDA="${CUDA_HOME:+1}" NVCC="${CUDA_HOME-}/bin/nvcc" CFLAGS=-O2 "build/$file" \
		LDFLAGS="-L$usr/lib -L$usr/lib/$triplet -static-libgcc -Wl,--enable-new-dtags,-rpath,'$path'" \
		LIBS="$cuda -Wl,-Bstatic -ljansson -lpcre2-8 -lunistring -lcrypto -lisal -lz -lzstd -Wl,-Bdynamic -lm -ldl"
	strip --strip-unneeded --remove-section=.comment -o "$work/$file" "build/$file"
}

build() {
	mkdir -p "$usr/include" "$usr/lib"
	get
	for function in $old_versions; do
		echo "__asm__(\".symver $function,$function@GLIBC_$first_glibc\");"
	done >"$work/glibc.h"
	libraries
	curl
	onednn
	export NVCC_APPEND_FLAGS=--compress-mode=size # a third of what nvcc makes of it else
	export CPPFLAGS="-include $work/glibc.h -isystem $usr/include -isystem $usr/include/$triplet"
	cublas=
	for minor in 9 10 11 12 13 14 15 16; do # of Python: PyPI's cuBLASLt of CUDA 13 or 12 lies below it
		for packages in site-packages dist-packages; do # the latter by Debian's pip as root
			nvidia=../lib/python3.$minor/$packages/nvidia
			[ -z "${CUDA_HOME-}" ] || cublas="$cublas $nvidia/cu13/lib $nvidia/cublas/lib"
		done
	done
	# shellcheck disable=SC2086
	linked fp8conv ../libexec/fp8conv $cublas
	linked libfp8conv.so.1 ../libexec/fp8conv ../../../../libexec/fp8conv ../nvidia/cu13/lib ../nvidia/cublas/lib
	newest=$(find "$work/fp8conv" "$work"/lib*.so.* -exec objdump -T {} + |
		grep -o 'GLIBC_2\.[0-9]*' | cut -d _ -f 2 | sort -V | tail -n 1)
	[ "$(printf '%s\n' "$newest" $glibc | sort -V | tail -n 1)" = $glibc ] || fail "glibc $newest is needed, not $glibc"
	python3 packaging/pack.py wheel "$work" "$VERSION" "manylinux_$(echo $glibc | tr . _)_$machine" "$EPOCH" build
	most=14000000
	[ -z "${CUDA_HOME-}" ] || most=25000000
	size=$(stat -c %s build/*.whl)
	[ "$size" -le $most ] || {
		python3 -m zipfile -l build/*.whl >&2
		fail "the wheel has $size bytes, and may have $most: compare its files with those of the last release"
	}
}

use() {
	program=$1
	out=$2
	model=sample_checkpoints/tiny-llama
	amax=sample_checkpoints/amax/tiny-llama-1.amax
	mkdir "$out"
	cp README.md "$out/text.txt"
	if [ "${ONEDNN-}" = 0 ]; then
		echo "SKIPPED: calibrate and eval: without oneDNN, or with another one"
	else
		amax=$out/amax
		"$program" calibrate $model --data "$out/text.txt" --passes 8 -o "$amax" --quiet
	fi
	for recipe in $("$program" recipes | cut -f 1); do
		calibration=
		[ "$recipe" != delayed ] || calibration="--calibration $amax"
		# shellcheck disable=SC2086
		"$program" quantize $model -o "$out/$recipe" --recipe "$recipe" $calibration --quiet
		"$program" verify "$out/$recipe" --source $model >"$out/$recipe.txt"
		[ "${ONEDNN-}" = 0 ] ||
			"$program" eval "$out/$recipe" --source $model --data "$out/text.txt" --passes 2 --json |
			sed 's/, "data": .*//' >"$out/$recipe.json" # paths, times and memory follow
	done
}

python() {
	python3 - sample_checkpoints/tiny-llama "$1/blockwise" <<-'END'
		import json, sys
		import fp8conv, numpy

		def tensor(checkpoint, name):
		    with open(f"{checkpoint}/model.safetensors", "rb") as file:
		        size = int.from_bytes(file.read(8), "little")
		        entry = json.loads(file.read(size))[name]
		        begin, end = entry["data_offsets"]
		        file.seek(8 + size + begin)
		        types = {"BF16": "<u2", "F32": "<f4", "F8_E4M3": "u1"}
		        return numpy.frombuffer(file.read(end - begin), types[entry["dtype"]]).reshape(entry["shape"])

		name = "model.layers.0.self_attn.q_proj.weight"
		source = (tensor(sys.argv[1], name).astype("<u4") << 16).view("<f4")
		codes, scales = fp8conv.quantize(source, "blockwise")
		assert (codes.view("u1") == tensor(sys.argv[2], name)).all()
		assert (scales == tensor(sys.argv[2], name + "_scale_inv")).all()
		print("fp8conv of", fp8conv.__file__, "gives the codes of", sys.argv[2])
	END
}

verb=$1
shift
"$verb" "$@"
