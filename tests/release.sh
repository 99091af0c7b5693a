#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What makes a release: one version in one place, its entry in CHANGELOG.md, the same source archive on every machine, and
# checksums, a list of parts and a signature that name what was changed.  BUILD: where the program was built.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${BUILD:=build}"
BUILD=$(realpath "$BUILD")
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
unset SOURCE_DATE_EPOCH
status=0

# expect NAME EXPECTED ACTUAL
expect() {
	[ "$2" = "$3" ] && return
	printf '%s: %s\n  expected %s\n' "$1" "$3" "$2"
	status=1
}

version=$(sed -n 's/^VERSION *:= *//p' Makefile)

# The Makefile alone says the version.  Elsewhere it stands as what happened: a release, a first version of a symbol, figures
# of a benchmark, texts of tests.
pattern="(^|[^0-9.])$(echo "$version" | sed 's/\./\\./g')([^0-9.]|\$)"
expect "files with the version" "Makefile" "$(sh tests/files.sh |
	grep -vE '^(CHANGELOG\.md|PKG-INFO|packaging/libfp8conv1\.symbols|(bench/results|tests|sample_checkpoints)/.*)$' |
	tr '\n' '\0' | xargs -0 grep -lIE "$pattern")"
expect "the newest entry of CHANGELOG.md" "## [$version] - DATE" \
	"$(grep -m 1 '^## ' CHANGELOG.md | sed 's/ 20[0-9][0-9]-[01][0-9]-[0-3][0-9]$/ DATE/')"
expect "fp8conv --version" "fp8conv $version" "$("$BUILD/fp8conv" --version)"
expect "what another version compiles" "$(grep -rl --include='*.c' FP8CONV_VERSION src cli lib | LC_ALL=C sort)" \
	"$(make -pq BUILD=b 2>/dev/null | sed -n "s,^b/\(.*\)\.o:.* b/gen/version-$version\( .*\)\?\$,\1.c,p" | LC_ALL=C sort)"

# digest DIRECTORY: of the source archive that is made there.
digest() {
	(cd "$1" && make -s dist BUILD=build) >"$scratch/log" 2>&1 || cat "$scratch/log" >&2
	sha256sum <"$1/build/$name.tar.gz"
}

# The source archive, and that of what was unpacked from it by another user, with another umask, locale and time zone.
name=fp8conv-$version
first=$scratch/first
mkdir "$first"
if [ -e .git ]; then
	git clone -q --no-hardlinks . "$first"
	git -C "$first" config tar.umask 077
	mkdir "$scratch/by-git"
	git archive HEAD | tar -C "$scratch/by-git" -x
else
	echo "SKIPPED release/clone: these sources are no clone"
	sh tests/files.sh | tar -T - -c | tar -C "$first" -x
fi
sum=$(digest "$first")
[ ! -e "$scratch/by-git" ] || expect "make dist, of git archive" "$sum" "$(umask 002 && digest "$scratch/by-git")"
mkdir -m 777 "$scratch/other"
again="umask 077; tar -C '$scratch/other' -xf '$first/build/$name.tar.gz'; cd '$scratch/other/$name'
	LC_ALL=C TZ=Asia/Kolkata HOME=/ make -s dist BUILD=build"
if [ "$(id -u)" = 0 ]; then
	setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "$again" >/dev/null
else
	sh -c "$again" >/dev/null
fi
expect "make dist, of itself" "$sum" "$(sha256sum <"$scratch/other/$name/build/$name.tar.gz")"

# A release of the sources and of a wheel with one part.
python3 - "$scratch" <<'END'
import sys, zipfile
sys.path.insert(0, "packaging")
import sbom
packages = [sbom.package(name, name, "1", "MIT") for name in ("fp8conv", "part")]
with zipfile.ZipFile(f"{sys.argv[1]}/fp8conv-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("fp8conv-1.dist-info/sboms/fp8conv.spdx.json",
                   sbom.document("1", 0, "", packages, [sbom.relation("DOCUMENT", "DESCRIBES", "fp8conv"),
                                                        sbom.relation("fp8conv", "STATIC_LINK", "part")]))
END
cd "$scratch" || exit 2
mkdir -p package/DEBIAN
printf '%s\n' 'Package: part' "Version: $version" 'Architecture: all' 'Maintainer: nobody <nobody@example.org>' \
	'Depends: libc6 (>= 2.36), libstdc++6 | other' 'Description: a part' >package/DEBIAN/control
dpkg-deb --root-owner-group --build package "part_${version}_all.deb" >/dev/null
openssl ecparam -name prime256v1 -genkey -noout -out private.pem
openssl pkey -in private.pem -pubout -out public.pem
release() {
	SIGN=private.pem sh "$OLDPWD/packaging/release.sh" "$version" "$1" "first/build/$name.tar.gz" fp8conv-1-py3-none-any.whl \
		"part_${version}_all.deb"
}
release one >/dev/null
release two >/dev/null
expect "another release of the same files" "Files one/SHA256SUMS.sig and two/SHA256SUMS.sig differ" "$(diff -rq one two)"
python3 - one "$version" <<'END' || status=1
import collections, hashlib, json, pathlib, re, sys
folder = pathlib.Path(sys.argv[1])
listed = json.loads((folder / f"fp8conv-{sys.argv[2]}.spdx.json").read_text())
ids = collections.Counter(package["SPDXID"] for package in listed["packages"])
files = {p["packageFileName"]: p["checksums"][0]["checksumValue"] for p in listed["packages"] if "packageFileName" in p}
assert max(ids.values()) == 1 and len(ids) == 6 and all(re.fullmatch("SPDXRef-[A-Za-z0-9.-]+", id) for id in ids), ids
assert set(files) == {"fp8conv-1-py3-none-any.whl", f"fp8conv-{sys.argv[2]}.tar.gz", f"part_{sys.argv[2]}_all.deb"}, files
needs = {p["name"]: p["externalRefs"][0]["referenceLocator"] for p in listed["packages"] if p["name"].startswith("lib")}
assert needs == {"libc6": "pkg:deb/debian/libc6", "libstdc++6": "pkg:deb/debian/libstdc%2B%2B6"}, needs
assert all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == sum for name, sum in files.items()), files
ends = {row[key] for row in listed["relationships"] for key in ("spdxElementId", "relatedSpdxElement")}
assert ends == set(ids) | {"SPDXRef-DOCUMENT"}, ends
kinds = sorted(row["relationshipType"] for row in listed["relationships"])
assert kinds == ["DEPENDS_ON"] * 2 + ["DESCRIBES"] * 3 + ["GENERATED_FROM"] * 2 + ["STATIC_LINK"], kinds
END

# check: what packaging/README.md says to type, in one/.  Versions of openssl write "failure" in two ways.
command=$(sed -n '/^openssl dgst/,/^```/{/^```/!p}' "$OLDPWD/packaging/README.md")
check() {
	(cd one && cp ../public.pem . && sh -c "$command" 2>/dev/null | sed 's/^Verification Failure/Verification failure/')
}
expect "a release as it was made" "Verified OK" "$(check)"
# damage FILE EXPECTED: its 101st byte is another one, then again what it was.
damage() {
	cp "one/$1" kept
	printf '\001' | dd of="one/$1" bs=1 seek=100 conv=notrunc status=none
	expect "$1 with a changed byte" "$2" "$(check)"
	mv kept "one/$1"
}
damage SHA256SUMS "Verification failure"
for file in "$name.tar.gz" fp8conv-1-py3-none-any.whl "part_${version}_all.deb" "$name.spdx.json"; do
	damage "$file" "Verified OK
$file: FAILED"
done
rm one/fp8conv-1-py3-none-any.whl
expect "a release of which not all is there" "Verified OK" "$(check)"
openssl ecparam -name prime256v1 -genkey -noout | openssl pkey -pubout -out public.pem
expect "another key" "Verification failure" "$(check)"
openssl genpkey -algorithm ed25519 -out private.pem
release three >/dev/null 2>&1 && expect "a key that openssl dgst does not take" "an error" "none"
[ ! -e three ] || expect "a release that cannot be signed" "no folder" "a folder"
exit $status
