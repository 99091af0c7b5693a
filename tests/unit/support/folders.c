/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/folders.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mem.h"
#include "ckpt/checkpoint.h"

const char *scratch_parent(void)
{
	const char *parent = getenv("TMPDIR");

	return parent && *parent ? parent : "/tmp";
}

char *scratch_new(void)
{
	char *path = xasprintf("%s/fp8conv-test-XXXXXX", scratch_parent());

	if (mkdtemp(path))
		return path;
	free(path);
	return NULL;
}

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

void token_ids_list(struct buf *out, const uint32_t *ids, size_t n)
{
	out->len = 0;
	buf_puts(out, n ? "" : "-");
	for (size_t i = 0; i < n; i++)
		buf_printf(out, i ? " %u" : "%u", ids[i]);
}

/* A scratch folder; its path is the test's state. */
int model_folder_setup(void **state)
{
	*state = scratch_new();
	return *state ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk)
{
	(void)st, (void)type, (void)walk;
	return remove(path);
}

int model_folder_teardown(void **state)
{
	int rc = nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);

	free(*state);
	return rc;
}

/* folder/name, its folders made. */
char *model_folder_place(const char *folder, const char *name)
{
	char *path = xasprintf("%s/%s", folder, name);

	for (char *slash = path + strlen(folder); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	return path;
}

void model_folder_put(const char *folder, const char *name, const char *text)
{
	char *path = model_folder_place(folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	free(path);
}

void model_folder_link(const char *folder, const char *name, const char *target)
{
	char *path = model_folder_place(folder, name);

	assert_int_equal(symlink(target, path), 0);
	free(path);
}

/* A shard whose tensors are the letters of names, one byte each, laid out in that order. */
void model_folder_shard_text(struct buf *out, const char *names)
{
	uint64_t n;

	buf_add(out, "\0\0\0\0\0\0\0\0{", 9);
	for (size_t i = 0; names[i]; i++)
		buf_printf(out,
			   "%s\"%c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
			   i ? "," : "", names[i], i, i + 1);
	buf_putc(out, '}');
	n = out->len - 8;
	memcpy(out->data, &n, sizeof n);
	buf_puts(out, names);
}

void model_folder_shard(const char *folder, const char *name, const char *names)
{
	char *path = model_folder_place(folder, name);
	struct buf text = { 0 };
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	model_folder_shard_text(&text, names);
	assert_int_equal(write(fd, text.data, text.len), (ssize_t)text.len);
	close(fd);
	buf_release(&text);
	free(path);
}

/* A file with tensor a, as torch.distributed.checkpoint writes slices; offsets: where it begins. */
void model_folder_slice(const char *folder, const char *name, const char *offsets)
{
	char *path = model_folder_place(folder, name), *escaped = xstrdup(offsets);
	struct buf text = { 0 };
	uint64_t n;
	int fd;

	buf_add(&text, "\0\0\0\0\0\0\0\0", 8);
	buf_puts(&text, "{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"a\\\": "
			"{\\\"saved_offsets\\\": ");
	for (const char *c = escaped; *c; c++)
		buf_printf(&text, *c == '"' ? "\\%c" : "%c", *c);
	buf_puts(&text, "}}\"},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}");
	n = text.len - 8;
	memcpy(text.data, &n, sizeof n);
	buf_puts(&text, "a");
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, text.data, text.len), (ssize_t)text.len);
	close(fd);
	buf_release(&text);
	free(escaped);
	free(path);
}

void model_folder_open(struct checkpoint *checkpoint, const char *path)
{
	struct err err = { 0 };

	if (checkpoint_open(checkpoint, &io_system, path, 2, &err))
		fail_msg("%s", err.message);
}

/* The checkpoint at folder/name (name NULL: folder) holds these tensors, by shard and offset. */
void model_folder_tensors(const char *folder, const char *name, const char *names)
{
	char *path = name ? xasprintf("%s/%s", folder, name) : xstrdup(folder);
	struct checkpoint checkpoint;

	model_folder_open(&checkpoint, path);
	assert_string_equal(checkpoint.path, path);
	assert_int_equal(checkpoint.n_tensors, strlen(names));
	for (size_t i = 0; i < checkpoint.n_tensors; i++)
		assert_int_equal(checkpoint.tensors[i].tensor->name[0], names[i]);
	checkpoint_release(&checkpoint);
	free(path);
}

void model_folder_refused(const char *path, const char *message)
{
	struct checkpoint checkpoint;
	struct err err = { 0 };

	assert_int_equal(checkpoint_open(&checkpoint, &io_system, path, 2, &err), -1);
	assert_int_equal(err.kind, ERR_INPUT);
	if (!strstr(err.message, message))
		fail_msg("%s", err.message);
}
