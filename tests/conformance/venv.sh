#!/bin/sh
# Make a Python environment for tests, once, in a cache folder; print its path.
#
# The name holds a hash of requirements.txt and of the Python version, so a change of either makes
# another one.  It is built under a temporary name beside it and renamed when complete.  Scripts in
# bin/ would name the temporary folder and are removed: run `$(venv.sh)/bin/python -m NAME`.  Python compiles
# a module when it is first imported: most of them never are.
#
#     venv.sh [REQUIREMENTS [OVER]]    PYTHON chooses the interpreter (default python3)
#
# OVER is an environment that this one is laid over: what it lacks is found there.
set -eu

fail() {
	echo "venv.sh: $*" >&2
	exit 1
}

python=${PYTHON:-python3}
requirements=${1:-$(dirname "$0")/requirements.txt}
over=${2-}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fp8conv

version=$("$python" -c 'import platform; print(platform.python_version())') ||
	fail "'$python' does not run: install Python 3.11 or later (Debian: apt-get install python3)"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
	fail "'$python' has no venv module: install it (Debian: apt-get install python3-venv)"

hash=$({ cat "$requirements"; echo "$version${over:+ over ${over##*/}}"; } | sha256sum | cut -c1-16)
venv=$cache/venv-$hash
if [ -f "$venv/complete" ]; then
	echo "$venv"
	exit 0
fi

mkdir -p "$cache"
tmp=$(mktemp -d "$venv.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

echo "venv.sh: installing $requirements into $venv" >&2
"$python" -m venv "$tmp" >&2
[ -z "$over" ] || for site in "$tmp"/lib/python3.*/site-packages; do
	echo "$over/lib/${site#"$tmp"/lib/}" >"$site/over.pth"
done
"$tmp/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-compile \
	--only-binary :all: -r "$requirements" >&2 || fail "pip could not install $requirements"
find "$tmp/bin" -type f -delete
chmod 755 "$tmp"
: >"$tmp/complete"

# Somebody else may have been faster: mv -T does not replace a folder that holds something.
mv -T "$tmp" "$venv" 2>/dev/null || [ -f "$venv/complete" ] ||
	fail "'$venv' is there and is not complete: remove it"
echo "$venv"
