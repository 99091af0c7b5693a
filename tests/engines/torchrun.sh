# SPDX-License-Identifier: Apache-2.0
# torchrun starts two tasks.  PYTHON: an interpreter that has torch.
. "$1/lib.sh"
"$PYTHON" -c 'import torch' 2>/dev/null || {
	echo "no torch: PYTHON names no interpreter that has it"
	exit 77
}

"$PYTHON" -m torch.distributed.run --nproc-per-node 2 --master-addr 127.0.0.1 --master-port 29511 --no-python \
	fp8conv quantize model -o torchrun/out --part auto --threads 1 --verbose 2>torchrun/err || {
	cat torchrun/err
	fail "torchrun failed"
}
parts torchrun/err 2
converted torchrun/out

# shellcheck disable=SC2046
"$PYTHON" -m torch.distributed.run --nproc-per-node 2 --master-addr 127.0.0.1 --master-port 29511 --no-python \
	fp8conv calibrate $(calibration) -o torchrun/s.amax --ranks auto 2>torchrun/err || {
	cat torchrun/err
	fail "torchrun failed"
}
calibrated torchrun/s.amax 2
