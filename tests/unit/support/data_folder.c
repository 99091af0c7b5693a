/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/data_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support/scratch.h"

int data_folder_init(struct data_folder *folder, const char *tokenizer_json)
{
	struct buf json = { 0 };
	struct err err;
	int rc;

	buf_puts(&json, tokenizer_json);
	rc = tokenizer_new(&folder->tokenizer, &json, "t.json", &err);
	buf_release(&json);
	folder->path = scratch_new();
	if (rc || !folder->path)
		return -1;
	return 0;
}

int data_folder_release(struct data_folder *folder)
{
	char command[4200];
	int rc;

	tokenizer_free(folder->tokenizer);
	snprintf(command, sizeof command, "rm -r '%s'", folder->path);
	rc = system(command); /* NOLINT(cert-env33-c): a directory of this test */
	free(folder->path);
	return rc;
}

const char *data_folder_put(const struct data_folder *folder, const char *name, const void *bytes,
			    size_t n)
{
	static char path[4096];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder->path, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, n, file), n);
	assert_int_equal(fclose(file), 0);
	return path;
}

void data_folder_message(const struct data_folder *folder, const char *message, struct buf *out)
{
	size_t n = strlen(folder->path);

	for (const char *at = message; *at;) {
		if (!strncmp(at, folder->path, n) && at[n] == '/')
			at += n + 1;
		else
			buf_putc(out, *at++);
	}
}

void data_sequences_list(struct buf *out, const struct dataset *data)
{
	for (size_t i = 0; i < data->n; i++) {
		const struct dataset_sequence *sequence = &data->sequences[i];

		assert_true(sequence->begin + sequence->len <= data->ids.n);
		buf_puts(out, i ? "|" : "");
		for (size_t t = 0; t < sequence->len; t++)
			buf_printf(out, t ? " %u" : "%u", data->ids.ids[sequence->begin + t]);
	}
}
