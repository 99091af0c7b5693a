/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/rank_job.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/unit/support/folders.h"

#define MOST_BYTES ((size_t)1 << 22)

static char *file_read(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	char *bytes = xcalloc(1, MOST_BYTES);

	assert_non_null(file);
	*size = fread(bytes, 1, MOST_BYTES, file);
	assert_true(*size < MOST_BYTES);
	fclose(file);
	return bytes;
}

void assert_same_file(const char *a, const char *b)
{
	size_t n_a, n_b;
	char *of_a = file_read(a, &n_a), *of_b = file_read(b, &n_b);

	assert_int_equal(n_a, n_b);
	assert_memory_equal(of_a, of_b, n_a);
	free(of_a);
	free(of_b);
}

/* Calls visit() for the path of each file of a folder; returns their number. */
static size_t each_file(const char *folder, void (*visit)(const char *path, const void *context),
			const void *context)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	size_t n = 0;

	for (; dir && (entry = readdir(dir));) {
		char *path;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		path = xasprintf("%s/%s", folder, entry->d_name);
		visit(path, context);
		free(path);
		n++;
	}
	if (dir)
		closedir(dir);
	return n;
}

static void compare_file(const char *path, const void *context)
{
	char *other = xasprintf("%s/%s", (const char *)context, strrchr(path, '/') + 1);

	assert_same_file(path, other);
	free(other);
}

void assert_same_folder(const char *a, const char *b)
{
	assert_int_equal(each_file(a, compare_file, b), each_file(b, compare_file, a));
}

static void remove_file(const char *path, const void *context)
{
	(void)context;
	unlink(path);
}

void rank_folder_remove(const char *path)
{
	each_file(path, remove_file, NULL);
	rmdir(path);
}

struct rank_files rank_files_new(int n_sequences)
{
	struct rank_files files = { .folder = scratch_new() };
	FILE *file;

	assert_non_null(files.folder);
	files.data = xasprintf("%s/ids.jsonl", files.folder);
	files.one = xasprintf("%s/one", files.folder);
	files.many = xasprintf("%s/many", files.folder);
	file = fopen(files.data, "w");
	assert_non_null(file);
	for (int i = 0; i < n_sequences; i++)
		fprintf(file, "{\"input_ids\": [%d, 2, 3%s]}\n", i, i % 3 ? ", 5, 8, 13" : "");
	fclose(file);
	return files;
}

void rank_files_free(struct rank_files *files)
{
	unlink(files->data);
	unlink(files->one);
	unlink(files->many);
	rmdir(files->folder);
	free(files->data);
	free(files->one);
	free(files->many);
	free(files->folder);
}

void rank_threads_run(void *jobs, size_t size, int n, void *(*run)(void *))
{
	struct group groups[MOST_RANKS];
	struct rank_job ranks[MOST_RANKS];
	pthread_t threads[MOST_RANKS];

	group_threads_open(groups, n);
	for (int i = 0; i < n; i++) {
		ranks[i] = (struct rank_job){ &groups[i], (char *)jobs + (size_t)i * size };
		assert_int_equal(pthread_create(&threads[i], NULL, run, &ranks[i]), 0);
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	group_threads_close(groups);
}

/* --- threads as ranks --- */

/* Threads meet: each reduces its values into the others', the last one opens the way out, each
 * takes the result along, and the last one to leave clears the place for the next reduction. */
struct meeting {
	pthread_mutex_t lock; /* of all following members */
	pthread_cond_t changed;
	int n_ranks;
	int arrived;	/* ranks that wait for the others */
	int leaving;	/* ranks that are still to leave a complete reduction */
	void *values;	/* reduced so far */
	size_t n;	/* of the first rank */
	size_t n_other; /* of a rank that differs, else n */
};

/* The values of the first one are the maximum with none, or a copy. */
static void meeting_begin(struct meeting *m, enum group_op op, const void *values, size_t n)
{
	m->values = xcalloc(n, group_value_size(op));
	m->n = m->n_other = n;
	if (op == GROUP_MAX)
		group_combine(op, m->values, values, n);
	else if (n)
		memcpy(m->values, values, n * group_value_size(op));
}

static void meeting_arrive(struct meeting *m, enum group_op op, const void *values, size_t n)
{
	if (m->arrived++ == 0)
		meeting_begin(m, op, values, n);
	else
		group_combine(op, m->values, values, n < m->n ? n : m->n);
	if (n != m->n)
		m->n_other = n;
	if (m->arrived == m->n_ranks) {
		m->arrived = 0;
		m->leaving = m->n_ranks;
		pthread_cond_broadcast(&m->changed);
	}
}

static int meeting_leave(struct meeting *m, enum group_op op, void *values, struct err *err)
{
	int rc = 0;

	if (m->n_other != m->n)
		rc = err_set(err, ERR_INPUT,
			     "the ranks of a group have different numbers of values: %zu and %zu",
			     m->n < m->n_other ? m->n : m->n_other,
			     m->n < m->n_other ? m->n_other : m->n);
	else if (m->n)
		memcpy(values, m->values, m->n * group_value_size(op));
	if (--m->leaving == 0) {
		free(m->values);
		m->values = NULL;
		pthread_cond_broadcast(&m->changed);
	}
	return rc;
}

static int threads_reduce(const struct group *group, enum group_op op, void *values, size_t n,
			  struct err *err)
{
	struct meeting *m = group->shared;
	int rc;

	pthread_mutex_lock(&m->lock);
	while (m->leaving > 0) /* other ranks still leave the previous reduction */
		pthread_cond_wait(&m->changed, &m->lock);
	meeting_arrive(m, op, values, n);
	while (m->leaving == 0)
		pthread_cond_wait(&m->changed, &m->lock);
	rc = meeting_leave(m, op, values, err);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

static const struct group_kind group_threads = {
	.name = "threads",
	.reduce = threads_reduce,
};

void group_threads_open(struct group *groups, int n_ranks)
{
	struct meeting *m = xcalloc(1, sizeof *m);

	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->changed, NULL);
	m->n_ranks = n_ranks;
	for (int rank = 0; rank < n_ranks; rank++)
		groups[rank] = (struct group){ &group_threads, rank, n_ranks, m, "" };
}

void group_threads_close(struct group *groups)
{
	struct meeting *m = groups[0].shared;

	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
	free(m);
}
