/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of tests that calibrate: a folder with sequences, and a history that is read and
 * removed.  Order: files_begin(), data_write() as often as wanted, history_take() after each
 * calibration, files_end().
 */
#ifndef FP8CONV_TESTS_SIMT_HISTORY_FILES_H
#define FP8CONV_TESTS_SIMT_HISTORY_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/unit/support/folders.h"

#define HISTORY_MOST ((size_t)1 << 24) /* bytes */

static char *folder, *data, *output;

static int files_begin(void)
{
	folder = scratch_new();
	if (!folder)
		return -1;
	data = xasprintf("%s/ids.jsonl", folder);
	output = xasprintf("%s/out.amax", folder);
	return 0;
}

/* Writes n sequences, of 3 and of 6 tokens; the third of sequence i is 3 + i * third. */
static void data_write(int n, int third)
{
	FILE *file = fopen(data, "w");

	assert_non_null(file);
	for (int i = 0; i < n; i++)
		fprintf(file, "{\"input_ids\": [%d, 2, %d%s]}\n", i, 3 + i * third,
			i % 3 ? ", 5, 8, 13" : "");
	fclose(file);
}

/* Returns the bytes of the history, which the caller frees, and removes it. */
static char *history_take(size_t *size)
{
	char *bytes = xcalloc(1, HISTORY_MOST);
	FILE *file = fopen(output, "rb");

	assert_non_null(file);
	*size = fread(bytes, 1, HISTORY_MOST, file);
	fclose(file);
	unlink(output);
	return bytes;
}

static int files_end(void **state)
{
	(void)state;
	unlink(data);
	rmdir(folder);
	free(data);
	free(output);
	free(folder);
	return 0;
}

#endif
