/* SPDX-License-Identifier: Apache-2.0
 *
 * An apply that is killed, or fails, at any of its I/O calls leaves the old checkpoint, the new
 * one, or a state that the same apply ends.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "delta/delta.h"
#include "tests/fault/tree.h"
#include "tests/unit/support/folders.h"

static uint32_t random_state = 1;

static uint32_t random_number(void)
{
	random_state = random_state * 1664525 + 1013904223;
	return random_state >> 8;
}

/* --- an I/O table that ends the process, or fails, at one call --- */

static struct {
	long left; /* calls until then; 0: never */
	bool kills;
} disturbed;

static bool disturb(void)
{
	if (!disturbed.left || --disturbed.left)
		return false;
	if (disturbed.kills)
		raise(SIGKILL);
	errno = EIO;
	return true;
}

#define STRIP(...) __VA_ARGS__
#define DISTURBED(type, name, parameters, arguments)                \
	static type disturbed_##name parameters                     \
	{                                                           \
		bool fails = disturb();                             \
                                                                    \
		(void)io;                                           \
		if (fails && strcmp(#name, "close") != 0)           \
			return -1;                                  \
		return io_system.name(&io_system, STRIP arguments); \
	}
/* clang-format off */
IO_READS(DISTURBED)
IO_WRITES(DISTURBED)
/* clang-format on */

/* Counts: a process that is killed loses nothing that it wrote. */
static int no_fsync(const struct io *io, int fd)
{
	(void)io, (void)fd;
	return disturb() ? -1 : 0;
}

static struct io disturbed_io(void)
{
	struct io io = io_system;

#define SET(type, name, parameters, arguments) io.name = disturbed_##name;
	IO_READS(SET)
	IO_WRITES(SET)
	io.fsync = no_fsync;
	return io;
}

/* --- checkpoints --- */

/* A file of tensors "a", "b" ... of that many bytes. */
static void put_shard(const char *folder, const char *name, const uint64_t *sizes, size_t n)
{
	struct st_tensor tensors[8] = { 0 };
	char names[8][2] = { { 0 } }, *path = xasprintf("%s/%s", folder, name);
	uint64_t header_size, data_size;
	struct buf file = { 0 };

	for (size_t i = 0; i < n; i++) {
		names[i][0] = (char)(name[0] == 'm' ? 'a' + i : 'A' + i);
		tensors[i] = (struct st_tensor){ .name = names[i],
						 .dtype = DT_U8,
						 .n_dims = 1,
						 .shape = (uint64_t *)&sizes[i] };
	}
	st_layout(tensors, n, NULL, 0, &header_size, &data_size);
	st_header(tensors, n, NULL, 0, &file);
	for (uint64_t i = 0; i < data_size; i++)
		buf_putc(&file, (char)(i % 1000 ? i * 7 : random_number()));
	tree_write(path, file.data, file.len);
	buf_release(&file);
	free(path);
}

static void put_text(const char *folder, const char *name, const char *text)
{
	char *path = xasprintf("%s/%s", folder, name);

	tree_write(path, text, strlen(text));
	free(path);
}

#define IN(tensor, file) "\"" tensor "\": \"" file ".safetensors\""
#define OLD_MAP		 IN("a", "m") ", " IN("b", "m") ", " IN("c", "m") ", " IN("A", "n")
#define NEW_MAP		 OLD_MAP ", " IN("B", "n") ", " IN("C", "n") ", " IN("D", "n")
#define OLD_INDEX	 "{\"weight_map\": {" OLD_MAP "}}"
#define NEW_INDEX	 "{\"weight_map\": {" NEW_MAP "}}"

/* One weight file stays laid out as it was, and one gets a tensor more. */
static void put_checkpoint(const char *folder, bool late)
{
	static const uint64_t sizes[] = { 9000, (4 << 20) + 5000, 0, 77 };
	char *sub = xasprintf("%s/sub", folder);

	if (mkdir(folder, 0777) || mkdir(sub, 0777))
		tree_die("cannot make", folder);
	put_shard(folder, "m.safetensors", sizes, 3);
	put_shard(folder, "n.safetensors", sizes, late ? 4 : 1);
	put_text(folder, "model.safetensors.index.json", late ? NEW_INDEX : OLD_INDEX);
	put_text(folder, "config.json", "{\"model_type\": \"llama\"}");
	put_text(folder, "same.txt", "same");
	put_text(folder, "changed.txt", late ? "new" : "old");
	put_text(folder, late ? "sub/new.txt" : "sub/old.txt", "");
	free(sub);
}

/* Where the test works: `work` is the base, `out` an output. */
struct places {
	char *top, *old, *new, *delta, *work, *out;
};

static void places_init(struct places *places)
{
	char *top = scratch_new();
	struct delta_counts counts;
	struct progress progress = { 0 };
	struct err err = { 0 };

	assert_non_null(top);
	*places = (struct places){ top,
				   xasprintf("%s/old", top),
				   xasprintf("%s/new", top),
				   xasprintf("%s/D.safetensors", top),
				   xasprintf("%s/work", top),
				   xasprintf("%s/out", top) };
	put_checkpoint(places->old, false);
	put_checkpoint(places->new, true);
	if (delta_make(&(struct delta_params){ .io = &io_system,
					       .base = places->old,
					       .result = places->new,
					       .delta = places->delta,
					       .n_threads = 2 },
		       &counts, &progress, &err))
		fail_msg("%s", err.message);
}

static void places_release(struct places *places)
{
	tree_remove(places->top);
	free(places->top);
	free(places->old);
	free(places->new);
	free(places->delta);
	free(places->work);
	free(places->out);
}

struct comparison {
	const char *other;
	bool same, hidden;
	int n_files;
};

static void compare_one(const char *root, const char *name, void *context)
{
	struct comparison *comparison = context;

	if (name[0] == '.') {
		comparison->hidden = true;
	} else if (name[strlen(name) - 1] != '/') {
		comparison->same &= tree_same_file(root, comparison->other, name);
		comparison->n_files++;
	}
}

static void count_one(const char *root, const char *name, void *context)
{
	(void)root;
	*(int *)context += name[0] != '.' && name[strlen(name) - 1] != '/';
}

/* Have both folders the same files, but for hidden ones? */
static bool is_same(const char *a, const char *b, bool *hidden)
{
	struct comparison comparison = { .other = b, .same = true };
	int n_files = 0;

	tree_walk(a, "", compare_one, &comparison);
	tree_walk(b, "", count_one, &n_files);
	*hidden = comparison.hidden;
	return comparison.same && comparison.n_files == n_files;
}

static int apply(const struct places *places, bool in_place, struct err *err)
{
	struct io io = disturbed_io();
	struct progress progress = { 0 };
	struct delta_counts counts;

	*err = (struct err){ 0 };
	return delta_apply(&(struct delta_params){ .io = &io,
						   .base = places->work,
						   .delta = places->delta,
						   .output = in_place ? NULL : places->out,
						   .n_threads = 1 },
			   &counts, &progress, err);
}

/* Ends the job at its N-th call: true if it came so far. */
static bool disturb_apply(const struct places *places, long at, bool in_place, bool kills)
{
	struct err err;
	int status;
	pid_t child;

	disturbed.left = at;
	disturbed.kills = kills;
	if (!kills) {
		int rc = apply(places, in_place, &err);
		bool came = !disturbed.left;

		disturbed.left = 0;
		assert_true(came || !rc);
		return came;
	}
	child = fork();
	if (!child)
		_exit(apply(places, in_place, &err) ? 1 : 0);
	disturbed.left = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status);
}

static void look(const struct places *places, long at, bool in_place)
{
	const char *place = in_place ? places->work : places->out;
	char *journal = xasprintf("%s/.fp8conv-apply/.journal", place);
	char *config = xasprintf("%s/config.json", place);
	bool hidden = false, begun = !access(journal, F_OK);

	if (in_place && !begun && !is_same(places->work, places->old, &hidden) &&
	    !is_same(places->work, places->new, &hidden))
		fail_msg("call %ld: a mixture without a journal", at);
	if (!begun && !in_place && !access(config, F_OK) &&
	    !is_same(places->out, places->new, &hidden))
		fail_msg("call %ld: an output that is not whole", at);
	free(journal);
	free(config);
}

static void ends_whole(bool in_place, bool kills)
{
	struct places places;
	bool came = true, hidden;
	struct err err;
	long at = 0;

	places_init(&places);
	while (came) {
		tree_remove(places.work);
		tree_remove(places.out);
		tree_copy(places.old, places.work);
		at += kills ? 1 : 7;
		came = disturb_apply(&places, at, in_place, kills);
		look(&places, at, in_place);
		if (apply(&places, in_place, &err))
			fail_msg("call %ld: the same again: %s", at, err.message);
		if (!is_same(in_place ? places.work : places.out, places.new, &hidden) || hidden)
			fail_msg("call %ld: not the result%s", at, hidden ? ", with rests" : "");
		if (!in_place && !is_same(places.work, places.old, &hidden))
			fail_msg("call %ld: the base changed", at);
	}
	print_message("%ld calls\n", at - 1);
	assert_true(at > 50);
	places_release(&places);
}

static void killed_in_place(void **state)
{
	(void)state;
	ends_whole(true, true);
}

static void killed_beside(void **state)
{
	(void)state;
	ends_whole(false, true);
}

static void failed_in_place(void **state)
{
	(void)state;
	ends_whole(true, false);
}

static void failed_beside(void **state)
{
	(void)state;
	ends_whole(false, false);
}

/* With a journal, the checkpoint takes no other delta: of other tensors, or of other files. */
static void another_delta_is_refused(void **state)
{
	struct delta_file delta;
	struct places places;
	struct err err;
	char *stage, *expected;

	(void)state;
	places_init(&places);
	assert_int_equal(delta_open(&delta, &io_system, places.delta, &err), 0);
	tree_copy(places.old, places.work);
	stage = xasprintf("%s/.fp8conv-apply", places.work);
	assert_int_equal(mkdir(stage, 0777), 0);
	for (int other = 0; other < 3; other++) {
		const char *result = other == 1 ? "1" : delta.result;
		char *journal = xasprintf("{\"base\": \"%s\", \"result\": \"%s\", "
					  "\"files\": \"2\", \"patched\": []}",
					  other == 0 ? "0" : delta.base, result);

		put_text(stage, ".journal", journal);
		expected = xasprintf("is partly changed by another delta, whose result has tensors "
				     "with SHA-256 %s and files with 2: ",
				     result);
		assert_int_equal(apply(&places, true, &err), -1);
		assert_int_equal(err.kind, ERR_USAGE);
		assert_non_null(strstr(err.message, expected));
		free(expected);
		free(journal);
	}
	free(stage);
	delta_release(&delta);
	places_release(&places);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_in_place),	    cmocka_unit_test(killed_beside),
		cmocka_unit_test(failed_in_place),	    cmocka_unit_test(failed_beside),
		cmocka_unit_test(another_delta_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
