#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# distro.sh RELEASE [quick|packages|wheel|wheel-check|arm64]: the program on a fresh Debian, as a new user has it.  As root.
#
# A chroot is made by debootstrap from the mirror that this machine's apt uses; in it a user with sudo
# gets an archive of the sources at HEAD, without git, and types `make demo && make check`.  quick: the
# demo, the bytes of kernels and of whole tensors, the tests that read the sources, the command-line tests that look at what is
# printed, and a calibration whose result other commands read.  packages: nothing is built there: what
# `make deb` made here, for this release, is installed and pleases lintian, and the program, the example
# and the module of Python run.  wheel: packaging/wheel.sh makes the wheel there (`make wheel`).  wheel-check: with Python
# and pip alone, that wheel gives the bytes of the program that `make` made here, also of a model on a server, and its list
# of parts is one of SPDX.  arm64: a cross compiler builds it for arm64, and qemu runs it
# (tests/arm64.sh; SUITES: some of the tests, as in tests/run.sh).
#
# RELEASE: bookworm or trixie; of a wheel bullseye too.
#
# FP8CONV_CHROOTS keeps the base of each release and the packages that were downloaded; without it
# that is ${XDG_CACHE_HOME:-$HOME/.cache}/fp8conv/chroots, where the chroot lies too while this runs.
# All mounts are in a namespace of their own, so none outlives this script.
set -eu
cd "$(dirname "$0")/.."

fail() {
	echo "distro.sh: $*" >&2
	exit 2
}

release=${1-}
what=${2-all}
case $release:$what in
bookworm:all | bookworm:quick | bookworm:packages | trixie:all | trixie:quick | trixie:packages) ;;
bookworm:arm64 | trixie:arm64) ;;
bullseye:wheel* | bookworm:wheel* | trixie:wheel*) ;;
*) fail "usage: tests/distro.sh bullseye|bookworm|trixie [quick|packages|wheel|wheel-check|arm64]" ;;
esac
build=${BUILD:-build}
[ "$(id -u)" = 0 ] || fail "a chroot needs root: run 'sudo sh tests/distro.sh $*'"
for command in debootstrap unshare git; do
	command -v $command >/dev/null || fail "no $command: install the package that has it"
done

cache=${FP8CONV_CHROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/fp8conv/chroots}
mkdir -p "$cache/$release-packages"
work=$(mktemp -d "$cache/work-XXXXXX")
cp -al "$cache/$release-packages" "$work/packages" # apt locks its folder: each run has its own
rm -f "$work/packages/lock"
child=
stop() {
	[ -z "$child" ] || kill -KILL "$child" 2>/dev/null || :
	wait
	cp -aln "$work/packages"/*.* "$cache/$release-packages/" 2>/dev/null || :
	rm -rf --one-file-system "$work"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# contained COMMAND...: its mounts and processes end with it, and it with this script.  With qemu it has the users of this
# machine in a namespace of their own, because a list of interpreters (binfmt_misc) belongs to such
# a namespace (Linux 6.7): the one of this machine stays as it is.
qemu=
contained() {
	go=
	if [ "$qemu" ]; then
		go=$work/go
		[ -p "$go" ] || mkfifo "$go"
	fi
	unshare ${go:+--user} sh -c '[ -z "$0" ] || read -r go <"$0"; exec unshare --mount --pid --fork --kill-child "$@"' \
		"$go" "$@" </dev/null &
	child=$!
	if [ "$go" ]; then
		exec 3>"$go" # waits for the namespace
		echo 0 0 65536 >"/proc/$child/uid_map"
		echo 0 0 65536 >"/proc/$child/gid_map"
		echo go >&3
		exec 3>&-
	fi
	status=0
	wait "$child" || status=$?
	child=
	return "$status"
}

# inside ROOT COMMAND...: contained, in a chroot.  /dev: pseudo-terminals, /dev/full and shared memory of the tests;
# /proc: theirs and the program's.  $mounts: folders of this machine.
mounts=
inside() {
	# shellcheck disable=SC2016
	contained sh -ec '
		mount --rbind /dev "$4/dev"
		mount -t proc proc "$4/proc"
		[ -e "$4/debootstrap" ] || mount --bind "$1" "$4/var/cache/apt/archives"
		if [ "$2" ]; then
			mount -t binfmt_misc none "$4/proc/sys/fs/binfmt_misc"
			printf %s "$2" >"$4/proc/sys/fs/binfmt_misc/register"
		fi
		for folder in $3; do
			mkdir -p "$4$folder"
			mount --bind "$folder" "$4$folder"
		done
		shift 3
		exec chroot "$@"' sh "$work/packages" "$qemu" "$mounts" "$@"
}

# emulate: from now on programs of arm64 run, sudo too (C), by the head of an ELF file and a mask of it.
emulate() {
	unshare --user --map-root-user --mount mount -t binfmt_misc none /proc/sys/fs/binfmt_misc ||
		fail "no binfmt_misc in a namespace of users: boot Linux 6.7 or newer"
	qemu=':arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
	qemu=$qemu':\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
	qemu=$qemu:/usr/bin/qemu-aarch64-static:PC
}

# The mirror of Debian itself, not of its security updates, in sources of either format.
mirror=$(apt-get indextargets --format "\$(SITE) \$(RELEASE) \$(COMPONENT)" "Created-By: Packages" |
	awk '$2 !~ /-/ && $3 == "main" { print $1; exit }')
[ "$mirror" ] || fail "apt's sources have no mirror of Debian"
eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
[ -z "${http_proxy-}" ] || export http_proxy

# quiet COMMAND...: shows what it printed if it fails.
quiet() {
	"$@" >"$work/log" 2>&1 || {
		tail -n 20 "$work/log" >&2
		fail "$* failed"
	}
}

# guest DIRECTORY: the first half of a Debian for arm64 is made into one, by qemu.
guest() {
	(cd "$work" && quiet apt-get -q download qemu-user qemu-user-static)
	for deb in "$work"/qemu-user*.deb; do dpkg -x "$deb" "$work/qemu"; done
	cp -L "$work/qemu/usr/bin/qemu-aarch64-static" "$1/usr/bin/"
	emulate
	quiet inside "$1" env container=lxc /debootstrap/debootstrap --second-stage # one that makes no devices
}

# The base: make, which README.md asks for, and a user who may use sudo.
arm64=
[ "$what:${ARCH-}" != wheel-check:aarch64 ] || arm64=arm64
base=$cache/$release${arm64:+-arm64}.tar
if ! [ -e "$base" ]; then
	echo "distro.sh: making $base"
	quiet contained debootstrap ${arm64:+--arch=arm64 --foreign} --variant=minbase --include=ca-certificates,make,sudo \
		"$release" "$work/base" "$mirror"
	[ -z "$arm64" ] || guest "$work/base"
	quiet inside "$work/base" useradd --create-home --shell /bin/sh user
	echo 'user ALL=(ALL) NOPASSWD: ALL' >"$work/base/etc/sudoers.d/user"
	tar -C "$work/base" --one-file-system -cf "$work/base.tar" .
	mv "$work/base.tar" "$base.$$"
	mv "$base.$$" "$base"
	rm -rf "$work/base"
fi
[ -z "$arm64$(echo "$what:${ARCH-}" | grep -E '^(arm64:|wheel:aarch64)')" ] || emulate

root=$work/root
mkdir "$root"
tar -C "$root" -xf "$base"
cp /etc/resolv.conf "$root/etc/resolv.conf"
echo "127.0.0.1 localhost $(uname -n)" >"$root/etc/hosts" # sudo looks for it
echo "deb $mirror $release main" >"$root/etc/apt/sources.list"
# How this machine reaches the mirror.
apt-config dump Acquire |
	grep -E '^Acquire::(http|https|Check-Date|Check-Valid-Until|Max-FutureTime|Force|Retries)' \
		>"$root/etc/apt/apt.conf.d/99host" || :
for file in /usr/local/share/ca-certificates/*.crt; do
	[ ! -e "$file" ] || cp "$file" "$root/usr/local/share/ca-certificates/"
done
quiet inside "$root" update-ca-certificates

tree=$root/home/user/fp8conv
mkdir "$tree"
git archive HEAD | tar -C "$tree" -x

all='make demo && make check'
# shellcheck disable=SC2016
quick='make demo
export SAMPLES=$PWD/sample_checkpoints FP8CONV=$PWD/build/fp8conv
for name in kernels golden golden_tensor; do
	make build/tests/unit/test_$name
	build/tests/unit/test_$name
done
for test in style layers build; do BUILD=build sh tests/$test.sh; done
for folder in usage inspect merge report eval; do sh tests/cli/run.sh /$folder/; done
cp README.md build/a.txt
cp CONTRIBUTING.md build/b.txt
cd build
for name in a b; do
	$FP8CONV calibrate $SAMPLES/tiny-llama --data $name.txt --seq-len 64 --min-tokens 1 -o $name.amax
done
$FP8CONV merge a.amax b.amax -o merged.amax
$FP8CONV inspect merged.amax
$FP8CONV quantize $SAMPLES/tiny-llama -o fp8 --recipe delayed --calibration merged.amax
$FP8CONV verify fp8'
# shellcheck disable=SC2016
packages='sudo apt-get -q update
sudo apt-get -qy --no-install-recommends install ./*.deb gcc libc6-dev pkg-config python3-numpy lintian
lintian --info --display-info --pedantic ./*.deb >lintian || :
cat lintian
[ ! -s lintian ]
fp8conv quantize sample_checkpoints/tiny-llama -o fp8
fp8conv verify fp8
cc examples/quantize.c $(pkg-config --cflags --libs fp8conv) -lm
./a.out
python3 -c "import fp8conv, numpy
w = numpy.eye(256, dtype=numpy.float32)
assert (fp8conv.dequantize(*fp8conv.quantize(w), numpy.float32) == w).all()"
sudo apt-get -qy remove fp8conv
./a.out'
# shellcheck disable=SC2016
wheel_check='sudo apt-get -q update
sudo apt-get -qy --no-install-recommends install python3-venv
python3 -m venv ../venv
PATH=$HOME/venv/bin:$PATH
export PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DISABLE_PIP_VERSION_CHECK=1
pip install -q build/*.whl numpy auditwheel uv spdx-tools
auditwheel show build/*.whl | grep -E "tag: .manylinux_2_([0-9]|1[0-9]|2[0-8])_"
uvx --offline --from build/*.whl fp8conv --help | head -n 1
sh packaging/wheel.sh use fp8conv build/wheel
diff -r build/source build/wheel
sh packaging/wheel.sh python build/wheel
sudo rm -f /usr/lib/*/libcurl*.so*
sudo sh -c "cat build/certificate >>/etc/ssl/certs/ca-certificates.crt"
python3 tests/remote/server.py sample_checkpoints build/port build/certificate build/key &
until [ -s build/port ]; do sleep 0.1; done
fp8conv quantize "https://127.0.0.1:$(cut -d " " -f 1 build/port)/good/tiny-llama" -o build/remote --quiet
kill $!
cmp build/remote/model.safetensors build/wheel/blockwise/model.safetensors
sh packaging/release.sh "$(fp8conv --version | cut -d " " -f 2)" build/release build/*.whl
for list in build/release/*.spdx.json ../venv/lib/python3*/site-packages/fp8conv-*/sboms/*; do pyspdxtools --infile "$list"; done'

case $what in
all) commands=$all ;;
quick) commands=$quick ;;
packages)
	commands=$packages
	cp "$build"/*.deb "$tree" || fail "no packages: run make deb"
	;;
wheel)
	cp /usr/share/keyrings/debian-archive-keyring.gpg "$root/etc/apt/trusted.gpg.d/" # of later releases too
	commands="export ARCH='${ARCH-}' VERSION=${VERSION:?} EPOCH=$(sh packaging/date.sh) MIRROR='$mirror' ONEDNN='${ONEDNN-}'
		export KEPT=/var/cache/apt/archives CUDA_HOME='${CUDA_HOME-}'
		sh packaging/wheel.sh build"
	mounts=${CUDA_HOME-}
	;;
wheel-check)
	commands="export ONEDNN='${ONEDNN-}'
$wheel_check"
	mkdir "$tree/build"
	cp "$build"/*_"${ARCH:-x86_64}.whl" "$tree/build" || fail "no wheel: run make wheel"
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
		-keyout "$tree/build/key" -out "$tree/build/certificate" 2>/dev/null
	;;
arm64)
	export ONEDNN=0 # products of matrices have other last digits there
	commands="SUITES='${SUITES-}' sh tests/arm64.sh build/source"
	mkdir "$tree/build"
	;;
esac
chown -R "$(stat -c %u:%g "$root/home/user")" "$tree"
if [ "$what" = wheel-check ] || [ "$what" = arm64 ]; then # after chown: manifests record the state of files
	program=$(realpath "$build/fp8conv")
	(cd "$tree" && sh packaging/wheel.sh use "$program" build/source)
fi

echo "distro.sh: $release ($what), $(git rev-parse --short HEAD)"
inside "$root" su -l user -c "export MAKEFLAGS=-j$(nproc); set -e; cd fp8conv; $commands" || {
	echo "distro.sh: $release ($what) failed with status $status" >&2
	exit "$status"
}
[ "$what" != wheel ] || cp "$tree"/build/*.whl "$build/"
echo "distro.sh: $release ($what) passed"
