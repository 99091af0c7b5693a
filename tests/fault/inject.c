/* SPDX-License-Identifier: Apache-2.0
 *
 * inject commands: prints the names of the commands, one a line (tests/fault/commands.h).
 * inject SAMPLES FOLDER all|some [COMMAND [PLACE]]: runs jobs whose N-th I/O call fails, for every
 * N until a run passes (some: for one N of a third of the kinds of calls), in an empty FOLDER, and
 * looks each time at what is left: every final name whole, no index or config.json before all
 * shards, a message that names the file and the errno, no descriptor more than before; and the same
 * job run again gives the bytes of a run that nothing disturbed.
 */
#include "tests/fault/commands.h"
#include "tests/fault/faulty_io.h"
#include "tests/fault/places.h"
#include "tests/fault/tree.h"

#define MAX_REPORTS	 30
#define READS_AFTER_STOP 5 /* that a folder may be finished with */

static const char index_name[] = "model.safetensors.index.json";
static const char manifest_name[] = "fp8conv-manifest.json";
static const char stage_name[] = ".fp8conv-apply/", journal_name[] = "out/.fp8conv-apply/.journal";
static const char rounding_name[] = ".fp8conv.rounding"; /* the next run goes on with these */

static const char *const fault_names[N_FAULTS] = { "none",  "EIO",  "ENOSPC", "EINTR",
						   "short", "full", "dead",   "SIGTERM" };

static long n_injected[N_FAULTS];
static int n_broken;
static int report_fd; /* standard output, before jobs got another one */

/* The run that is being looked at. */
static struct {
	const struct command *command;
	const struct place *place;
	int rc;
	struct err err;
	bool repeated;	     /* after a failure */
	long n_calls[N_OPS]; /* of the undisturbed run */
} now;

__attribute__((format(printf, 1, 2))) static void broken(const char *format, ...)
{
	va_list args;

	if (n_broken++ >= MAX_REPORTS)
		return;
	fprintf(stderr, "%s, %s, %s at call %ld (%s '%s'): ", now.command->name, now.place->name,
		fault_names[faulty.fault], faulty.at, faulty.hit ? op_names[faulty.op] : "none",
		faulty.subject);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

/* --- running --- */

/* Standard input that is no file at its beginning, so that it is spooled; standard output that is a
 * file. */
static void open_streams(void)
{
	int in = open("spool", O_RDONLY);
	int out;

	mkdir("out", 0777);
	out = open("out/stream", O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (in < 0 || out < 0 || lseek(in, 1, SEEK_SET) != 1 || dup2(in, 0) < 0 || dup2(out, 1) < 0)
		tree_die("cannot open", "out/stream");
	close(in);
	close(out);
}

static int run_job(bool other, int part)
{
	const struct place *place = now.place;
	struct convert_params params = {
		.io = &io_faulty,
		.input = place->input,
		.output = place->output,
		.temp_dir = "tmp",
		.preserve = now.command->preserves ? place->preserve : NULL,
		.backend = backends[0],
		.n_threads = place->n_threads,
		.max_memory = 64 << 20,
		.restart = place->restart && !other,
		.hashes = place->hashes,
		.part = part,
		.n_parts = part ? 2 : 0,
	};
	struct progress progress = { .stop = &faulty.stop };
	struct convert_result result;
	struct plan plan = { 0 };

	now.err = (struct err){ 0 };
	if (now.command->run) {
		if (!now.command->applies)
			mkdir("out", 0777);
		now.rc = now.command->run(&io_faulty, place, other, part > 0, &faulty.stop,
					  &now.err);
		return now.rc;
	}
	if (!strcmp(place->output, "-"))
		open_streams();
	now.rc = now.command->plan(&plan, &params, other, &progress, &now.err);
	if (!now.rc)
		now.rc = execute_plan(&plan, &params, &progress, &result, &now.err);
	if (!now.rc && !result.complete && !part)
		broken("success, but not complete");
	plan_release(&plan);
	return now.rc;
}

static void run_well(bool other, int part)
{
	faulty_arm(FAULT_NONE, N_OPS, 0);
	if (run_job(other, part)) {
		fprintf(stderr, "%s: undisturbed run: %s\n", now.place->name, now.err.message);
		exit(1);
	}
	if (faulty.disorder[0])
		broken("%s", faulty.disorder);
}

static void clear(void)
{
	tree_remove("out");
	tree_remove("kept");
}

static void reset(void)
{
	struct stat st;

	clear();
	if (!stat("start", &st))
		tree_copy("start", "out");
	if (!stat("start-kept", &st))
		tree_copy("start-kept", "kept");
}

/* A run that a signal ends when the first layer's codes are recorded: after the manifest, an empty
 * record and the codes. */
static void run_to_layer(void)
{
	faulty_arm(FAULT_STOP, RENAME, 4);
	run_job(false, 0);
	if (now.err.kind != ERR_INTERRUPTED) {
		fprintf(stderr, "%s: not interrupted: %s\n", now.place->name, now.err.message);
		exit(1);
	}
}

static bool has_journal(void)
{
	return !access(faulty.committed, F_OK);
}

/* The first state of an `apply` that ends at a rename with a journal and without config.json. */
static void run_to_journal(void)
{
	for (long at = 1; !has_journal() || !access("out/config.json", F_OK); at++) {
		clear();
		if (!now.place->input)
			tree_copy("fp8", "out");
		faulty_arm(FAULT_DEAD, RENAME, at);
		run_job(false, 0);
		if (!faulty.hit)
			tree_die("no journal in", "out");
	}
}

/* As prepare(); what it shall come to is what the delta was made of. */
static void prepare_apply(void)
{
	clear();
	tree_remove("start");
	if (now.place->start == START_BASE)
		tree_copy("fp8", "start");
	if (now.place->start == START_STOPPED) {
		run_to_journal();
		tree_move("out", "start");
	}
	clear();
	tree_remove("golden");
	tree_copy("next8", "golden");
}

/* What the job begins with, and what it shall come to: what a run makes of nothing. */
static void prepare(void)
{
	static const char second[] = "out/model-00002-of-00002.safetensors";
	struct stat st;

	clear();
	tree_remove("start");
	tree_remove("start-kept");
	if (now.place->start == START_HALF)
		run_well(false, 1);
	else if (now.place->start == START_STOPPED)
		run_to_layer();
	else if (now.place->start != START_EMPTY)
		run_well(now.place->start == START_OTHER, 0);
	if (now.place->start == START_CUT &&
	    (stat(second, &st) || truncate(second, st.st_size - 1)))
		tree_die("cannot cut", second);
	if (now.place->start == START_ROTTEN) {
		tree_remove("out/config.json"); /* the end of the job is missing */
		tree_flip_last(second);
	}
	if (now.place->start != START_EMPTY) {
		tree_move("out", "start");
		tree_move("kept", "start-kept");
	}
	clear();
	tree_remove("begun");
	if (now.command->run && !now.command->reads_only) {
		run_well(false, 1);
		make_begun("out/s.amax");
		tree_move("out", "begun");
	}
	run_well(false, 0);
	tree_move("out", "golden");
	tree_move("kept", "golden-kept");
}

/* --- looking --- */

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), n_end = strlen(end);

	return n >= n_end && !strcmp(name + n - n_end, end);
}

/* A file of the output, whose golden and first states lie beside it. */
static void check_left(const char *root, const char *name, void *context)
{
	const char *golden = *root == 'o' ? "golden" : "golden-kept";
	const char *start = *root == 'o' ? "start" : "start-kept";

	(void)context;
	if (ends_in(name, "/") || !strcmp(name, manifest_name))
		return;
	if ((now.command->applies && has_journal()) ||
	    (!strncmp(name, stage_name, strlen(stage_name)) && faulty.fault == FAULT_DEAD))
		return;
	if (*base_of(name) == '.') {
		if (ends_in(name, ".unfinished") &&
		    (tree_same_file(root, "begun", name) || tree_same_file(root, start, name)))
			return;
		if (faulty.fault != FAULT_DEAD && faulty.op != UNLINK &&
		    strncmp(base_of(name), rounding_name, strlen(rounding_name)) != 0)
			broken("'%s/%s' is left behind", root, name);
		return;
	}
	if (!tree_same_file(root, golden, name) && !tree_same_file(root, start, name) &&
	    !(now.command->run && tree_same_file(root, "begun", name)))
		broken("'%s/%s' is not whole", root, name);
}

struct whole {
	const char *root;
	bool golden, start;
};

static void check_shard(const char *golden, const char *name, void *context)
{
	struct whole *whole = context;

	if (!ends_in(name, ".safetensors"))
		return;
	whole->golden &= tree_same_file(golden, whole->root, name);
	whole->start &= tree_same_file("start", whole->root, name);
}

static void check_set(const char *root, const char *golden)
{
	static const char *const names[] = { index_name, "config.json" };
	struct whole whole = { root, true, *root == 'o' };

	tree_walk(golden, "", check_shard, &whole);
	for (int i = 0; i < 2 && !whole.golden && !whole.start; i++) {
		char *path = xasprintf("%s/%s", root, names[i]);
		struct stat st;

		if (!stat(path, &st))
			broken("'%s' is there without all shards", path);
		free(path);
	}
}

/* The name of the file in the message: without what we put around it. */
static void check_message(void)
{
	char subject[sizeof faulty.subject];
	char *name = subject + (faulty.subject[0] == '.');
	bool exact = faulty.fault != FAULT_DEAD &&
		     (faulty.fault != FAULT_FULL || now.place->n_threads == 1);
	const char *text =
		strerror(faulty.fault == FAULT_EINTR				      ? EINTR
			 : faulty.fault == FAULT_ENOSPC || faulty.fault == FAULT_FULL ? ENOSPC
										      : EIO);

	strcpy(subject, faulty.subject);
	if (ends_in(name, ".partial"))
		name[strlen(name) - 8] = '\0';
	if (faulty.fault == FAULT_STOP) {
		if (now.err.kind != ERR_INTERRUPTED)
			broken("error of kind %d: %s", now.err.kind, now.err.message);
		return;
	}
	if (now.err.kind != ERR_SYSTEM)
		broken("error of kind %d: %s", now.err.kind, now.err.message);
	if (!ends_in(now.err.message, text) || (exact && !strstr(now.err.message, name)))
		broken("the message does not say what failed: %s", now.err.message);
}

static void check_outcome(void)
{
	bool transfer = faulty.op == OPEN || faulty.op == CREATE || faulty.op == READ ||
			faulty.op == PWRITE || faulty.op == WRITE;

	if (now.rc)
		check_message();
	switch (faulty.fault) {
	case FAULT_EINTR:
	case FAULT_SHORT:
		if (now.rc && transfer)
			broken("not tried again: %s", now.err.message);
		break;
	case FAULT_STOP:
		if (!now.rc && !strcmp(now.place->output, "out") &&
		    faulty.n_reads_after > READS_AFTER_STOP)
			broken("went on to the end: %ld reads after the signal",
			       faulty.n_reads_after);
		break;
	default:
		if (!now.rc && !faulty.tolerated)
			broken("success, in spite of it");
	}
}

static void check_golden_file(const char *golden, const char *name, void *context)
{
	if (!ends_in(name, "/") && !tree_same_file(golden, context, name))
		broken("the same job run again: '%s/%s' is not the golden one", (char *)context,
		       name);
}

static void check_known(const char *root, const char *name, void *context)
{
	char *path = xasprintf("%s/%s", (char *)context, name);
	bool excused = !now.repeated && (faulty.op == UNLINK || faulty.fault == FAULT_DEAD) &&
		       *name == '.';
	struct stat st;

	if (stat(path, &st) && !excused)
		broken("the same job run again: '%s/%s' is left", root, name);
	free(path);
}

static void check_golden(void)
{
	tree_walk("golden", "", check_golden_file, "out");
	tree_walk("golden-kept", "", check_golden_file, "kept");
	tree_walk("out", "", check_known, "golden");
	tree_walk("kept", "", check_known, "golden-kept");
}

/* --- the loop --- */

/* False: the job made fewer calls, and passed. */
static bool inject(enum io_fault fault, enum op only, long at)
{
	bool stream = !strcmp(now.place->output, "-");
	int n_open = tree_count_descriptors();
	bool hit;

	reset();
	faulty_arm(fault, only, at);
	run_job(false, now.place->part);
	hit = faulty.hit;
	if (tree_count_descriptors() != n_open)
		broken("%d descriptors before, %d after", n_open, tree_count_descriptors());
	if (faulty.disorder[0])
		broken("%s", faulty.disorder);
	if (hit)
		check_outcome();
	else if (now.rc)
		broken("undisturbed, but failed: %s", now.err.message);
	if (!stream) {
		tree_walk("out", "", check_left, NULL);
		tree_walk("kept", "", check_left, NULL);
		check_set("out", "golden");
		check_set("kept", "golden-kept");
	}
	now.repeated = now.rc != 0;
	if (now.repeated) {
		faulty.fault = FAULT_NONE;
		atomic_store(&faulty.stop, 0);
		run_job(false, now.place->part);
		faulty.fault = fault;
		if (now.rc)
			broken("the same job run again: %s", now.err.message);
	}
	check_golden();
	n_injected[fault] += hit;
	return hit;
}

static void inject_all(enum io_fault fault, size_t p)
{
	(void)p;
	for (long at = 1; inject(fault, N_OPS, at); at++)
		;
}

/* Another third, and other calls, in each place. */
static void inject_some(enum io_fault fault, size_t p)
{
	for (enum op op = OPEN; op < N_OPS; op++) {
		if ((op + p + fault) % 3 == 0 && now.n_calls[op] > 0 && op_fails_so(op, fault))
			inject(fault, op,
			       1 + (long)(p * 37 + fault * 13 + op * 7) % now.n_calls[op]);
	}
}

static void inject_place(bool all, size_t p)
{
	(now.command->applies ? prepare_apply : prepare)();
	reset();
	run_well(false, now.place->part);
	memcpy(now.n_calls, faulty.n_undisturbed, sizeof now.n_calls);
	check_golden();
	for (enum io_fault fault = FAULT_EIO; fault < N_FAULTS; fault++)
		(all ? inject_all : inject_some)(fault, p);
}

static bool report(const char *which)
{
	FILE *file = fdopen(dup(report_fd), "w");
	long total = 0;

	fprintf(file, "inject%s%s: ", *which ? " " : "", which);
	for (enum io_fault fault = FAULT_EIO; fault < N_FAULTS; fault++) {
		fprintf(file, "%s%ld %s", fault > FAULT_EIO ? ", " : "", n_injected[fault],
			fault_names[fault]);
		total += n_injected[fault];
	}
	fprintf(file, ": %ld faults, %d promises broken\n", total, n_broken);
	return !fclose(file) && total > 0;
}

static void inject_command(const struct command *command, bool all, const char *where)
{
	size_t n;
	const struct place *list = places_of(command, &n);

	now.command = command;
	faulty.committed = command->applies ? journal_name : NULL;
	for (size_t p = 0; p < n; p++) {
		now.place = &list[p];
		if (strstr(now.place->name, where) && (command->preserves || !now.place->as_before))
			inject_place(all, p);
	}
}

static int list_commands(void)
{
	for (size_t c = 0; c < N_COMMANDS; c++)
		puts(commands[c].name);
	return 0;
}

int main(int argc, char **argv)
{
	bool enough = argc >= 4 && argc <= 6;
	const char *which = argc > 4 ? argv[4] : "", *where = argc > 5 ? argv[5] : "";
	char *samples = enough ? realpath(argv[1], NULL) : NULL;

	if (argc == 2 && !strcmp(argv[1], "commands"))
		return list_commands();
	if (!samples || chdir(argv[2])) {
		fputs("usage: inject SAMPLES FOLDER all|some [COMMAND [PLACE]] | inject commands\n",
		      stderr);
		return 2;
	}
	report_fd = dup(1);
	mkdir("tmp", 0777);
	for (size_t c = 0; c < N_COMMANDS; c++) {
		if (strcmp(which, "") != 0 && strcmp(which, commands[c].name) != 0)
			continue;
		make_inputs(&commands[c], samples);
		inject_command(&commands[c], !strcmp(argv[3], "all"), where);
	}
	free(samples);
	return !report(which) || n_broken;
}
