# SPDX-License-Identifier: Apache-2.0
# A Slurm of two nodes on this host: tasks of srun, the two scripts of examples/, a script without srun.
. "$1/lib.sh"
engines=$1
work=$2
examples=$(cd "$1/../../examples" && pwd) || exit 2
need munged slurmctld slurmd srun sbatch scontrol

mkdir slurm/state slurm/bin
cd slurm || exit 2
dd if=/dev/urandom of=munge.key bs=1024 count=1 2>/dev/null
chmod 600 munge.key
cat >slurm.conf <<END
ClusterName=test
SlurmctldHost=localhost
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket=$PWD/munge.socket
SlurmUser=root
SlurmdUser=root
SlurmctldPort=7001
StateSaveLocation=$PWD/state
SlurmdSpoolDir=$PWD/spool-%n
SlurmctldPidFile=$PWD/slurmctld.pid
SlurmdPidFile=$PWD/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=a NodeHostname=localhost NodeAddr=127.0.0.1 Port=7002 CPUs=4 RealMemory=4096
NodeName=b NodeHostname=localhost NodeAddr=127.0.0.1 Port=7003 CPUs=4 RealMemory=4096
PartitionName=all Nodes=a,b Default=YES State=UP
END
export SLURM_CONF="$PWD/slurm.conf"

pids=
daemon() {
	"$@" >"$1.$#.log" 2>&1 &
	pids="$pids $!"
}
# shellcheck disable=SC2086
trap 'kill $pids; wait' EXIT
daemon munged -F --key-file="$PWD/munge.key" --socket="$PWD/munge.socket" --pid-file="$PWD/munged.pid" \
	--log-file="$PWD/munged.log" --seed-file="$PWD/munge.seed"
until_true() {
	seconds=$1
	shift
	while ! "$@"; do
		seconds=$((seconds - 1))
		[ "$seconds" -gt 0 ] || fail "this did not become true: $*"
		sleep 1
	done
}
until_true 20 test -S munge.socket
daemon slurmctld -D
daemon slurmd -D -N a
daemon slurmd -D -v -N b
idle() { [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c idle)" = 2 ]; }
until_true 40 idle
ss -Hltun | awk '$5 !~ /^127\./ { print "listens:", $5; bad = 1 } END { exit bad }' || fail "beyond the loopback"
cd ..

# srun starts the tasks, on both nodes.
srun -N 2 -n 4 fp8conv quantize model -o slurm/srun --part auto --threads 1 --verbose 2>slurm/srun.log ||
	fail "srun failed: $(cat slurm/srun.log)"
parts slurm/srun.log 4
converted slurm/srun

# Slurm's PMIx tells the processes of MPI of each other.  On one node: it cannot serve two nodes of the same host.
shared slurm/mpi --batch 2 --histogram -- timeout 60 srun --mpi=pmix -N 1 -n 4
sensitivity="sensitivity $here/../../sample_checkpoints/tiny-llama --data calibration.jsonl --threads 1 --quiet"
# shellcheck disable=SC2086
{
	fp8conv $sensitivity -o slurm/kld.one || fail "one process failed"
	timeout 60 srun --mpi=pmix -N 1 -n 4 fp8conv-mpi $sensitivity -o slurm/kld --ranks mpi || fail "srun failed"
}
cmp slurm/kld slurm/kld.one || fail "the table of srun differs from that of one process"

# The program, of which task 2 gets a signal in the job's first run: of an array SIGKILL, of a step SIGTERM.
cat >slurm/bin/fp8conv <<END
#!/bin/sh
PATH=$work/bin:\$PATH
if [ -z "\${SLURM_RESTART_COUNT-}" ]; then
	[ "\${SLURM_ARRAY_TASK_ID-}" != 2 ] || exec sh "$engines/killed.sh" KILL "\$@"
	[ -z "\${STOPPED-}" ] || [ "\$STOPPED" != "\${SLURM_PROCID-}" ] || exec sh "$engines/killed.sh" TERM "\$@"
fi
exec fp8conv "\$@"
END
chmod +x slurm/bin/fp8conv
PATH=$PWD/slurm/bin:$PATH
export PATH

# shows JOB WORD: is that among what Slurm says of the job?
shows() { scontrol show job "$1" -o | grep -q " $2 "; }

job=$(MODEL=model OUT=slurm/array sbatch --parsable --cpus-per-task 1 --output slurm/array.%a.log \
	"$examples/slurm-array.sbatch") || fail "sbatch failed"
until_true 60 shows "${job}_2" JobState=FAILED
for task in 0 1 3; do
	until_true 60 shows "${job}_$task" JobState=COMPLETED
done
[ -e slurm/array/config.json ] && fail "the output is finished without part 3"
scontrol requeue "${job}_2" || fail "task 2 was not requeued"
# Slurm holds it for two minutes.
scontrol update JobId="${job}_2" StartTime=now || fail "task 2 did not get another time"
until_true 60 shows "${job}_2" JobState=COMPLETED
cat slurm/array.*.log >slurm/array.log
parts slurm/array.log 4
converted slurm/array

# A step whose task 2 is stopped as by a time limit: its script sends the job back to the queue.
job=$(MODEL=model OUT=slurm/stopped STOPPED=2 sbatch --parsable --cpus-per-task 1 --output slurm/stopped.log \
	"$examples/slurm-srun.sbatch") || fail "sbatch failed"
until_true 60 shows "$job" Restarts=1
until_true 60 shows "$job" JobState=PENDING
[ -e slurm/stopped/config.json ] && fail "the output is finished without part 3"
scontrol update JobId="$job" StartTime=now || fail "the job did not get another time"
until_true 60 shows "$job" JobState=COMPLETED
converted slurm/stopped

# srun in a script; then a script for three tasks that does not call srun, which is one task.
MODEL=model OUT=slurm/inside sbatch --wait --cpus-per-task 1 --output slurm/inside.log \
	"$examples/slurm-srun.sbatch" || fail "the job failed: $(cat slurm/inside.log)"
parts slurm/inside.log 4
converted slurm/inside
sbatch --wait -n 3 --output slurm/script.log \
	--wrap 'fp8conv quantize model -o slurm/script --part auto --verbose' || fail "the script failed"
parts slurm/script.log 1
converted slurm/script
