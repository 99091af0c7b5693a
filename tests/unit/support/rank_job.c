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
#include "tests/unit/support/scratch.h"

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
