#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deps.sh [NAME...]: what building and testing need (make deps).
#
# On Debian and Ubuntu the packages that are missing are installed, and the packages NAME.  Debian 12
# and 13 and Ubuntu 22.04, 24.04 and 26.04 have all of them by these names; Ubuntu in "universe".
# Elsewhere nothing is installed: the script tries every library with the compiler CC, looks for every
# command (NAME too) and lists what is missing.
set -eu
CC=${CC:-cc}
PACKAGES="gcc g++ make libc6-dev libjansson-dev libpcre2-dev libunistring-dev libssl-dev libisal-dev
	zlib1g-dev libzstd-dev libcmocka-dev libdnnl-dev libcurl4-openssl-dev openssl mandoc
	groff python3 python3-venv"

# library NAME FLAGS HEADER...: prints a line if a program with the last header does not build.
library() {
	name=$1
	flags=$2
	shift 2
	program=$(printf '#include <%s>\n' "$@")
	for header; do :; done
	# shellcheck disable=SC2086
	printf '%s\nint main(void) { return 0; }\n' "$program" |
		$CC -x c - -o /dev/null $flags >/dev/null 2>&1 ||
		echo "  $name: the header <$header>${flags:+ and $flags}"
}

missing() {
	for command in "${CC##* }" c++ make mandoc groff openssl python3 "$@"; do
		command -v "$command" >/dev/null 2>&1 || echo "  $command: the command"
	done
	library jansson -ljansson jansson.h
	library "PCRE2, 8 bits" "-DPCRE2_CODE_UNIT_WIDTH=8 -lpcre2-8" pcre2.h
	library libunistring -lunistring uninorm.h
	library OpenSSL -lcrypto openssl/evp.h
	library ISA-L -lisal isa-l/crc.h
	library zlib -lz zlib.h
	library libzstd -lzstd zstd.h
	library cmocka -lcmocka stdarg.h stddef.h stdint.h setjmp.h cmocka.h
	library "oneDNN 2 or 3" "" oneapi/dnnl/dnnl.h # it is loaded at run time, as the next one
	library libcurl "" curl/curl.h
}

if ! command -v apt-get >/dev/null 2>&1; then
	found=$(missing "$@")
	[ -z "$found" ] && exit 0
	printf 'make deps: this system has no apt-get; install what is missing:\n%s\n' "$found" >&2
	exit 1
fi

absent=
for package in $PACKAGES "$@"; do
	dpkg -s "$package" >/dev/null 2>&1 || absent="$absent $package"
done
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
# install PACKAGE...
install() {
	echo "make deps: installing $*"
	$sudo apt-get update -q && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -q -y --no-install-recommends "$@"
}
# shellcheck disable=SC2086
[ -z "$absent" ] || install $absent
# The tests of the Python module take numpy, and are skipped without it.
python3 -c 'import numpy' 2>/dev/null || dpkg -s python3-numpy >/dev/null 2>&1 || install python3-numpy ||
	echo "make deps: no numpy: the tests of the Python module are skipped"
