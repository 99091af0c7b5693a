#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes $BUILD/deb/all, where `make install` has been, into Debian packages of VERSION: the program,
# the library, what compiling with it takes, and the module of Python.
#
#	deb.sh [tools]		tools: only looks whether all are there that it takes
#
# WITH_CUDA: not empty where it was built with CUDA.  DEBFULLNAME and DEBEMAIL: the maintainer, as
# for other tools of Debian.  The same sources, compiler and libraries give the same bytes.
set -eu
umask 022

for tool in dpkg-deb dpkg-shlibdeps dpkg-gensymbols strip gzip md5sum; do
	command -v $tool >/dev/null && continue
	echo "make deb: no $tool: apt install dpkg-dev" >&2
	exit 1
done
[ "${1-}" != tools ] || exit 0

: "${DEBFULLNAME:=fp8conv contributors}" "${DEBEMAIL:=maintainers@fp8conv.invalid}"
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$BUILD/deb" && pwd)
SOURCE_DATE_EPOCH=$(sh "$here/date.sh")
date=$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
codename=$(sed -n 's/^VERSION_CODENAME=\([a-z0-9]*\)$/\1/p' /etc/os-release)
revision=$VERSION-1~${codename:-local} # its libraries are of this release; a package of Debian's own would be newer
DPKG_DEB_THREADS_MAX=1 # xz writes other bytes with more
export SOURCE_DATE_EPOCH DPKG_DEB_THREADS_MAX
architecture=$(dpkg --print-architecture)

# package_of LIBRARY: the package that the linker's lib<LIBRARY>.so comes from.
package_of() {
	# CC may be more than a word.
	# shellcheck disable=SC2086
	library=$(readlink -f "$(${CC:-cc} -print-file-name="lib$1.so")")
	dpkg-query -S "$library" | cut -d : -f 1
}

# part PACKAGE PATH...: takes these, below usr, from what was installed.
part() {
	package=$1
	shift
	for path; do
		mkdir -p "$root/$package/usr/${path%/*}"
		mv "$root/all/usr/$path" "$root/$package/usr/$path"
	done
}

# depends_of FILE: on libraries.  dpkg-shlibdeps wants a source package.
source=$(mktemp -d "$BUILD/deb-source-XXXXXX")
trap 'rm -rf "$source"' EXIT
mkdir "$source/debian"
printf 'Source: fp8conv\n\nPackage: fp8conv\nArchitecture: any\n' >"$source/debian/control"
depends_of() {
	(cd "$source" && dpkg-shlibdeps -O "$1") | sed -n 's/^shlibs:Depends=//p'
}

# build PACKAGE ARCHITECTURE SECTION FIELD...: fields and description on standard input.
build() {
	tree=$root/$1
	doc=$tree/usr/share/doc/$1
	mkdir -p "$doc" "$tree/DEBIAN"
	cp "$here/copyright" "$doc/copyright"
	[ -z "${WITH_CUDA-}" ] || cat "$here/copyright.cuda" >>"$doc/copyright"
	case ${WITH_CUDA:+$1} in
	fp8conv | libfp8conv1)
		mkdir -p "$tree/usr/share/lintian/overrides"
		printf '# Words of the CUDA runtime, which is linked in.\n%s: spelling-error-in-binary\n' "$1" >"$tree/usr/share/lintian/overrides/$1"
		;;
	esac
	gzip -9n <"$here/../CHANGELOG.md" >"$doc/changelog.gz"
	gzip -9n >"$doc/changelog.Debian.gz" <<-END
		fp8conv ($revision) unstable; urgency=medium

		  * Release $VERSION: /usr/share/doc/$1/changelog.gz.

		 -- $DEBFULLNAME <$DEBEMAIL>  $date
	END
	find "$tree/usr" -type d -exec chmod 755 {} +
	find "$tree/usr" -type f ! -path '*/bin/*' -exec chmod 644 {} +
	(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
	cat >"$tree/DEBIAN/control" <<-END
		Package: $1
		Source: fp8conv
		Version: $revision
		Architecture: $2
		Maintainer: $DEBFULLNAME <$DEBEMAIL>
		Installed-Size: $(find "$tree/usr" -printf '%y %s\n' | awk '{ n += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print n }')
		Section: $3
		Priority: optional
	END
	[ "$1" != fp8conv ] || sed -i '/^Source:/d' "$tree/DEBIAN/control"
	cat >>"$tree/DEBIAN/control"
	made=$BUILD/${1}_${revision}_$2.deb
	dpkg-deb --root-owner-group --build "$tree" "$made" >/dev/null
	echo "$made ($(du -h "$made" | cut -f 1))"
	files="$files $(readlink -f "$made")"
}

lib=${LIB_DIR#/usr/}
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/all/usr/bin/fp8conv" \
	"$root/all/usr/$lib/libfp8conv.so.1"
find "$root/all/usr/share/man" -type f -exec gzip -9n {} +
part libfp8conv1 "$lib/libfp8conv.so.1"
part libfp8conv-dev "$lib/libfp8conv.so" "$lib/pkgconfig/fp8conv.pc" include/fp8conv.h share/man/man3/fp8conv.3.gz
part python3-fp8conv "${PYTHON_DIR#/usr/}/fp8conv"
find "$root/all" -depth -type d -empty -delete
mv "$root/all" "$root/fp8conv"
mkdir "$root/fp8conv/DEBIAN" "$root/libfp8conv1/DEBIAN"
echo "activate-noawait ldconfig" >"$root/libfp8conv1/DEBIAN/triggers"
echo "libfp8conv 1 libfp8conv1 (>= $VERSION)" >"$root/libfp8conv1/DEBIAN/shlibs"
(cd "$source" && dpkg-gensymbols -plibfp8conv1 -v"$VERSION" -e"$root/libfp8conv1/usr/$lib/libfp8conv.so.1" \
	-I"$here/libfp8conv1.symbols" -c4 -O"$root/libfp8conv1/DEBIAN/symbols") >"$source/log" 2>&1 || {
	cat "$source/log"
	echo "make deb: a symbol of lib/ is missing in packaging/libfp8conv1.symbols: add it with VERSION" >&2
	exit 1
}
recommends="$(package_of dnnl), $(package_of curl), ca-certificates"
files=

build fp8conv "$architecture" science <<END
Depends: $(depends_of "$root/fp8conv/usr/bin/fp8conv")
Recommends: $recommends
$(cat "$here/description")
END
build libfp8conv1 "$architecture" libs <<END
Depends: $(depends_of "$root/libfp8conv1/usr/$lib/libfp8conv.so.1")
Recommends: $recommends
Multi-Arch: same
Description: FP8 recipes and checkpoints in one's own process
 The library of fp8conv: TransformerEngine's recipes for matrices in memory of
 the CPU or a GPU, the plan of a conversion, and the commands of the program.
END
build libfp8conv-dev "$architecture" libdevel <<END
Depends: libfp8conv1 (= $revision)
Multi-Arch: same
Description: FP8 recipes and checkpoints in one's own process: header
 What compiling a program with libfp8conv takes: the header, the file of
 pkg-config, and the manual.
END
build python3-fp8conv all python <<END
Depends: python3, libfp8conv1 (>= $VERSION)
Suggests: python3-numpy
Description: FP8 recipes and checkpoints for numpy and torch
 The module fp8conv of Python: quantizes tensors of numpy and torch without
 copies, plans conversions, records amaxes of models that run in torch, and
 runs the commands of fp8conv.
END
echo "are the packages.  To install them:"
echo "  sudo apt install$files"
