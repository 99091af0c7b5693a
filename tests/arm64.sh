#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# arm64.sh EXPECTED: fp8conv on arm64, for tests/distro.sh, in a chroot where Linux starts programs of arm64 by qemu.
#
# Debian's cross compiler builds it, `make check` runs, and the program makes the files that the program of this machine made in
# EXPECTED (packaging/wheel.sh use).  The tests themselves run on this machine: the suites are left out that read sources
# alone, that run GPU code, or whose Python loads the library.  SUITES, a pattern of tests/run.sh, chooses
# among the rest: all of it takes hours, for products of matrices are some hundred times slower under qemu.
set -eu
cd "$(dirname "$0")/.."

# As Graviton 2: NEON, but neither SVE nor what qemu is slow at.
export QEMU_CPU=neoverse-n1
export CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++ AR=aarch64-linux-gnu-ar

# The packages of deps.sh, the libraries among them for arm64.
packages=
for package in $(sed -n '/^PACKAGES="/,/"$/{s/PACKAGES=\|"//g;p}' deps.sh); do
	case $package in
	lib* | zlib*) packages="$packages $package:arm64" ;;
	*) packages="$packages $package" ;;
	esac
done
sudo dpkg --add-architecture arm64
sudo apt-get -q update
# shellcheck disable=SC2086
sudo env DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends install $packages \
	gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static python3-numpy

# oneDNN looks here for the number of the processor, and says so where it is not.
sudo mkdir -p /sys/devices/system/cpu/cpu0/regs/identification
echo 0x413fd0c1 | sudo tee /sys/devices/system/cpu/cpu0/regs/identification/midr_el1 >/dev/null
make check SIMT= SUITES="${SUITES:-^(unit|cli|fuzz|fault|remote)[ /]}"
ONEDNN=0 sh packaging/wheel.sh use build/fp8conv build/arm64
diff -r "$1" build/arm64
echo "arm64.sh: the files of $1"
