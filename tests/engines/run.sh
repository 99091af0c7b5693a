#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [NAME...]: conversions by the tasks of real engines on this machine.  As root, see README.md.
#
# Without a name, engines that are missing are SKIPPED and counted; all are where root may not make
# namespaces, as in some containers.  With a name, a missing one fails.
# All runs in namespaces of its own, which have no network but the loopback and whose processes end
# with this script.  FP8CONV: the program; FP8CONV_MPI: that of MPI=1; MODEL_MAKER: bench/model, built.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
: "${FP8CONV:=$top/build/fp8conv}" "${FP8CONV_MPI:=$top/build/fp8conv-mpi}" "${MODEL_MAKER:=$top/build/bench/model}"

if [ "${ENGINES_INSIDE-}" ]; then
	hostname localhost
	mount -t proc proc /proc
	ip link set lo up
	ip address add 127.0.0.2/8 dev lo # without a second address, Slurm resolves no name
else
	if [ "$(id -u)" != 0 ]; then
		echo "tests/engines: namespaces need root: run 'sudo make engines'" >&2
		exit 2
	fi
	set_apart="unshare --mount --pid --net --uts --ipc --fork --kill-child"
	$set_apart true 2>/dev/null || {
		echo "SKIPPED engines: this system permits no namespaces to root"
		echo "engines: 0 passed, 0 failed, 4 skipped"
		[ $# = 0 ]
		exit
	}
	work=$(mktemp -d /tmp/fp8conv-engines-XXXXXX)
	child=
	stop() {
		[ -z "$child" ] || kill -KILL "$child" 2>/dev/null || :
		wait
		rm -rf "$work"
	}
	trap stop EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	chmod 755 "$work"
	ENGINES_INSIDE=$work FP8CONV=$FP8CONV FP8CONV_MPI=$FP8CONV_MPI MODEL_MAKER=$MODEL_MAKER \
		$set_apart sh "$here/run.sh" "$@" </dev/null &
	child=$!
	status=0
	wait "$child" || status=$?
	child=
	exit "$status"
fi

work=$ENGINES_INSIDE
cd "$work" || exit 2
mkdir bin
ln -s "$FP8CONV" bin/fp8conv
ln -s "$FP8CONV_MPI" bin/fp8conv-mpi
PATH=$work/bin:/usr/local/sbin:/usr/sbin:/sbin:$PATH
PYTHON=${PYTHON-python3}
export PATH FP8CONV MODEL_MAKER PYTHON
"$MODEL_MAKER" --layers 8 --hidden 1024 --intermediate 4096 --vocab 8000 --shards 8 model >maker.log 2>&1 || {
	cat maker.log
	exit 1
}
fp8conv quantize model -o wanted --quiet || exit 1

asked=$#
[ $# -gt 0 ] || set -- kubernetes openmpi torchrun slurm
passed=0
failed=0
skipped=0
for name; do
	began=$(date +%s)
	mkdir "$name"
	sh "$here/$name.sh" "$here" "$work" >"$name/log" 2>&1
	status=$?
	if [ "$status" = 77 ] && [ "$asked" = 0 ]; then
		skipped=$((skipped + 1))
		echo "SKIPPED engines/$name: $(tail -n 1 "$name/log")"
	elif [ "$status" = 0 ]; then
		passed=$((passed + 1))
		echo "passed engines/$name in $(($(date +%s) - began)) s"
	else
		failed=$((failed + 1))
		echo "FAILED engines/$name: exit status $status"
		cat "$name/log"
	fi
done
echo "engines: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
