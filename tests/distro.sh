#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# distro.sh RELEASE [quick|packages|wheel|wheel-check]: the program on a fresh Debian, as a new user has it.  As root.
#
# A chroot is made by debootstrap from the mirror that this machine's apt uses; in it a user with sudo
# gets an archive of the sources at HEAD, without git, and types `make demo && make check`.  quick: the
# demo, the unit tests, the tests that read the sources, the command-line tests that look at what is
# printed, and a calibration whose result other commands read.  packages: nothing is built there: what
# `make deb` made here, for this release, is installed and pleases lintian, and the program, the example
# and the module of Python run.  wheel: packaging/wheel.sh makes the wheel there (`make wheel`).  wheel-check: with Python
# and pip alone, that wheel gives the bytes of the program that `make` made here, also of a model on a server, and its list
# of parts is one of SPDX.
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
bullseye:wheel* | bookworm:wheel* | trixie:wheel*) ;;
*) fail "usage: tests/distro.sh bullseye|bookworm|trixie [quick|packages|wheel|wheel-check]" ;;
esac
build=${BUILD:-build}
[ "$(id -u)" = 0 ] || fail "a chroot needs root: run 'sudo sh tests/distro.sh $*'"
for command in debootstrap unshare git; do
	command -v $command >/dev/null || fail "no $command: install the package that has it"
done

cache=${FP8CONV_CHROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/fp8conv/chroots}
mkdir -p "$cache/$release-packages"
work=$(mktemp -d "$cache/work-XXXXXX")
child=
stop() {
	[ -z "$child" ] || kill -KILL "$child" 2>/dev/null || :
	wait
	rm -rf --one-file-system "$work"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# contained COMMAND...: its mounts and processes end with it, and it with this script.
contained() {
	unshare --mount --pid --fork --kill-child "$@" </dev/null &
	child=$!
	status=0
	wait "$child" || status=$?
	child=
	return "$status"
}

# The mirror of Debian itself, not of its security updates, in sources of either format.
mirror=$(apt-get indextargets --format "\$(SITE) \$(RELEASE) \$(COMPONENT)" "Created-By: Packages" |
	awk '$2 !~ /-/ && $3 == "main" { print $1; exit }')
[ "$mirror" ] || fail "apt's sources have no mirror of Debian"
eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
[ -z "${http_proxy-}" ] || export http_proxy

# The base: make, which README.md asks for, and a user who may use sudo.
base=$cache/$release.tar
if ! [ -e "$base" ]; then
	echo "distro.sh: making $base"
	contained debootstrap --variant=minbase --include=ca-certificates,make,sudo \
		"$release" "$work/base" "$mirror" >"$work/log" 2>&1 || {
		tail -n 20 "$work/log" >&2
		fail "debootstrap failed"
	}
	chroot "$work/base" useradd --create-home --shell /bin/sh user
	echo 'user ALL=(ALL) NOPASSWD: ALL' >"$work/base/etc/sudoers.d/user"
	tar -C "$work/base" --one-file-system -cf "$work/base.tar" .
	mv "$work/base.tar" "$base.$$"
	mv "$base.$$" "$base"
	rm -rf "$work/base"
fi

root=$work/root
mkdir "$root"
tar -C "$root" -xf "$base"
cp /etc/resolv.conf "$root/etc/resolv.conf"
echo "deb $mirror $release main" >"$root/etc/apt/sources.list"
# How this machine reaches the mirror.
apt-config dump Acquire |
	grep -E '^Acquire::(http|https|Check-Date|Check-Valid-Until|Max-FutureTime|Force|Retries)' \
		>"$root/etc/apt/apt.conf.d/99host" || :
for file in /usr/local/share/ca-certificates/*.crt; do
	[ ! -e "$file" ] || cp "$file" "$root/usr/local/share/ca-certificates/"
done
chroot "$root" update-ca-certificates >/dev/null 2>&1

tree=$root/home/user/fp8conv
mkdir "$tree"
git archive HEAD | tar -C "$tree" -x

all='make demo && make check'
# shellcheck disable=SC2016
quick='make demo
make $(ls tests/unit/test_*.c | sed "s,\(.*\)\.c,build/\1,")
export SAMPLES=$PWD/sample_checkpoints FP8CONV=$PWD/build/fp8conv
for test in tests/unit/test_*.c; do build/${test%.c}; done
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
[ -z "$(/sbin/ldconfig -p | grep libcurl)" ]
sudo sh -c "cat build/certificate >>/etc/ssl/certs/ca-certificates.crt"
python3 tests/remote/server.py sample_checkpoints build/port build/certificate build/key &
until [ -s build/port ]; do sleep 0.1; done
fp8conv quantize "https://127.0.0.1:$(cut -d " " -f 1 build/port)/good/tiny-llama" -o build/remote --quiet
kill $!
cmp build/remote/model.safetensors build/wheel/blockwise/model.safetensors
sh packaging/release.sh "$(fp8conv --version | cut -d " " -f 2)" build/release build/*.whl
for list in build/release/*.spdx.json ../venv/lib/python3*/site-packages/fp8conv-*/sboms/*; do pyspdxtools --infile "$list"; done'

mounts=
case $what in
all) commands=$all ;;
quick) commands=$quick ;;
packages)
	commands=$packages
	cp "$build"/*.deb "$tree" || fail "no packages: run make deb"
	;;
wheel)
	cp /usr/share/keyrings/debian-archive-keyring.gpg "$root/etc/apt/trusted.gpg.d/" # of later releases too
	commands="export VERSION=${VERSION:?} EPOCH=$(sh packaging/date.sh) MIRROR='$mirror' ONEDNN='${ONEDNN-}'
		export KEPT=/var/cache/apt/archives CUDA_HOME='${CUDA_HOME-}'
		sh packaging/wheel.sh build"
	mounts=${CUDA_HOME-}
	;;
wheel-check)
	commands="export ONEDNN='${ONEDNN-}'
$wheel_check"
	mkdir "$tree/build"
	cp "$build"/*.whl "$tree/build" || fail "no wheel: run make wheel"
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
		-keyout "$tree/build/key" -out "$tree/build/certificate" 2>/dev/null
	;;
esac
chroot "$root" chown -R user: /home/user/fp8conv
if [ "$what" = wheel-check ]; then # after chown: manifests record the state of files
	program=$(realpath "$build/fp8conv")
	(cd "$tree" && sh packaging/wheel.sh use "$program" build/source)
fi

echo "distro.sh: $release ($what), $(git rev-parse --short HEAD)"
# /dev: pseudo-terminals, /dev/full and shared memory of the tests; /proc: theirs and the program's.
# shellcheck disable=SC2016
contained sh -ec '
	mount --rbind /dev "$1/dev"
	mount -t proc proc "$1/proc"
	mount --bind "$2" "$1/var/cache/apt/archives"
	for folder in $4; do
		mkdir -p "$1$folder"
		mount --bind "$folder" "$1$folder"
	done
	chroot "$1" su -l user -c "export MAKEFLAGS=-j$(nproc); set -e; cd fp8conv; $3"
' sh "$root" "$cache/$release-packages" "$commands" "$mounts" || {
	echo "distro.sh: $release ($what) failed with status $status" >&2
	exit "$status"
}
[ "$what" != wheel ] || cp "$tree"/build/*.whl "$build/"
echo "distro.sh: $release ($what) passed"
