# SPDX-License-Identifier: Apache-2.0
# The pods of the example of an indexed Job, as Kubernetes documents them: JOB_COMPLETION_INDEX, nothing else.  One pod is killed, and
# the Job starts it again; two pods of one index may run at once for a moment.
. "$1/lib.sh"
engines=$1
"$PYTHON" -c 'import yaml' 2>/dev/null || {
	echo "no PyYAML: PYTHON names no interpreter that has it"
	exit 77
}
command=$("$PYTHON" "$engines/job.py" "$engines/../../examples/kubernetes-job.yaml" model kubernetes/out) ||
	fail "the Job is wrong"

# pod INDEX [PROGRAM]: the command of the example with the variables of a pod, by another program than fp8conv.
pod() {
	# shellcheck disable=SC2086
	env -i PATH="$PATH" FP8CONV="$FP8CONV" HOSTNAME="convert-$1" KUBERNETES_SERVICE_HOST=10.96.0.1 JOB_COMPLETION_INDEX="$1" \
		${2-fp8conv} ${command#fp8conv } 2>>kubernetes/err."$1"
}

pids=
for index in 3 0 2; do
	pod $index &
	pids="$pids $!"
done
pod 1 "$engines/killed.sh KILL" && fail "pod 1 was not killed"
for pid in $pids; do
	wait "$pid" || fail "a pod failed"
done
[ -e kubernetes/out/config.json ] && fail "the output is finished without part 2"
pod 1 || fail "pod 1 failed in its second run"
cat kubernetes/err.* >kubernetes/err
parts kubernetes/err 4
converted kubernetes/out
