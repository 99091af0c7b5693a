# SPDX-License-Identifier: Apache-2.0
# Open MPI starts the tasks: 2, and 4 on fewer processors.
. "$1/lib.sh"
need mpirun
export OMPI_MCA_oob_tcp_if_include=127.0.0.1/8 # the loopback alone, whatever its addresses

for n in 2 4; do
	mpirun --allow-run-as-root --oversubscribe -n "$n" \
		fp8conv quantize model -o "openmpi/$n" --part auto --threads 1 --verbose 2>"openmpi/$n.log" || {
		cat "openmpi/$n.log"
		fail "mpirun failed"
	}
	parts "openmpi/$n.log" "$n"
	converted "openmpi/$n"
	# shellcheck disable=SC2046
	mpirun --allow-run-as-root --oversubscribe -n "$n" \
		fp8conv calibrate $(calibration) -o "openmpi/$n.amax" --ranks auto || fail "calibrate failed"
	calibrated "openmpi/$n.amax" "$n"
done
