#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes $BUILD/deb, where `make install` has been, into a Debian package of VERSION.
#
#	deb.sh [tools]		tools: only looks whether all are there that it takes
#
# WITH_CUDA: not empty where it was built with CUDA.  DEBFULLNAME and DEBEMAIL: the maintainer, as
# for other tools of Debian.
set -eu

for tool in dpkg-deb dpkg-shlibdeps strip gzip md5sum; do
	command -v $tool >/dev/null && continue
	echo "make deb: no $tool: apt install dpkg-dev" >&2
	exit 1
done
[ "${1-}" != tools ] || exit 0

: "${DEBFULLNAME:=fp8conv contributors}" "${DEBEMAIL:=maintainers@fp8conv.invalid}"
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$BUILD/deb" && pwd)
program=$root/usr/bin/fp8conv
doc=$root/usr/share/doc/fp8conv
date=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}
date=$(LC_ALL=C date -u -R -d "@$date")
mkdir -p "$doc" "$root/DEBIAN"

# package_of LIBRARY: the package that the linker's lib<LIBRARY>.so comes from.
package_of() {
	# CC may be more than a word.
	# shellcheck disable=SC2086
	library=$(readlink -f "$(${CC:-cc} -print-file-name="lib$1.so")")
	dpkg-query -S "$library" | cut -d : -f 1
}

strip --strip-unneeded --remove-section=.comment --remove-section=.note "$program" "$root"/usr/lib/libfp8conv.so.1
find "$root/usr/share/man" -type f -exec gzip -9n {} +

cp "$here/copyright" "$doc/copyright"
[ -z "${WITH_CUDA-}" ] || cat "$here/copyright.cuda" >>"$doc/copyright"
gzip -9n >"$doc/changelog.gz" <<END
fp8conv ($VERSION) unstable; urgency=medium

  * Release $VERSION.

 -- $DEBFULLNAME <$DEBEMAIL>  $date
END
find "$root/usr" -type d -exec chmod 755 {} +
find "$root/usr" -type f ! -path "$program" -exec chmod 644 {} +
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

# dpkg-shlibdeps wants a source package.
source=$(mktemp -d "$BUILD/deb-source-XXXXXX")
trap 'rm -rf "$source"' EXIT
mkdir "$source/debian"
printf 'Source: fp8conv\n\nPackage: fp8conv\nArchitecture: any\n' >"$source/debian/control"
depends=$(cd "$source" && dpkg-shlibdeps -O "$program" | sed -n 's/^shlibs:Depends=//p')
onednn=$(package_of dnnl)
curl=$(package_of curl)

echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
architecture=$(dpkg --print-architecture)
cat >"$root/DEBIAN/control" <<END
Package: fp8conv
Version: $VERSION
Architecture: $architecture
Maintainer: $DEBFULLNAME <$DEBEMAIL>
Installed-Size: $(du -sk "$root/usr" | cut -f 1)
Depends: $depends
Recommends: $onednn, $curl, ca-certificates
Section: science
Priority: optional
$(cat "$here/description")
END
package=$BUILD/fp8conv_${VERSION}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package ($(du -h "$package" | cut -f 1)) is the package.  To install it:"
echo "  sudo apt install $(readlink -f "$package")"
