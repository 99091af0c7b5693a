/* SPDX-License-Identifier: Apache-2.0
 *
 * A job by several ranks, which are threads, and its files, beside the files of one process.
 */
#ifndef FP8CONV_TESTS_SUPPORT_RANK_JOB_H
#define FP8CONV_TESTS_SUPPORT_RANK_JOB_H

#include <stddef.h>

#include "ranks/group.h"

#define MOST_RANKS 5

/* The files of one test, in a folder of their own. */
struct rank_files {
	char *folder;
	char *data;	  /* token ids of n sequences, of 3 and 6 tokens */
	char *one, *many; /* outputs of one process, and of several ranks */
};

struct rank_files rank_files_new(int n_sequences);
void rank_files_free(struct rank_files *files);

/* Fails unless both files have the same bytes. */
void assert_same_file(const char *a, const char *b);

/* Fails unless both folders have files of the same names and bytes, and no folders. */
void assert_same_folder(const char *a, const char *b);

/* Removes a folder of files, if it exists. */
void rank_folder_remove(const char *path);

/* Of one rank: job is its element of the array; group NULL: one process. */
struct rank_job {
	struct group *group;
	void *job;
};

/* Calls run() with a struct rank_job on a thread for each of n jobs, an array of elements of size
 * bytes; returns when all have ended. */
void rank_threads_run(void *jobs, size_t size, int n, void *(*run)(void *));

/* Makes groups[0 .. n_ranks-1], one for each thread.  The caller closes all of them once, when no
 * rank is in a reduction. */
void group_threads_open(struct group *groups, int n_ranks);
void group_threads_close(struct group *groups);

#endif
