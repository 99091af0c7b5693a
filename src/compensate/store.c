/* SPDX-License-Identifier: Apache-2.0
 *
 * The record, RECORD_NAME:
 *
 *     { "job": "...", "n_stages": 31,
 *       "stages": { "0": { "crc32": 1, "few": [0, 0, 0], "raised": [0, 0, 0] } },   whole files
 *       "outcome": { "nearest": false, "rho": 1, "nearest_kld": 0.01, "kld": [...], "se": [...] } }
 */
#include "compensate/store.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/mem.h"
#include "ckpt/checksum.h"

#define RECORD_NAME  ".fp8conv.rounding.json"
#define RECORD_LIMIT ((size_t)16 << 20)

static char *stage_name(size_t stage)
{
	return xasprintf(".fp8conv.rounding-%05zu", stage);
}

static const char *stage_key(char key[24], size_t stage)
{
	snprintf(key, 24, "%zu", stage);
	return key;
}

uint64_t store_size(const struct store_shape *shape)
{
	uint64_t n = 0;

	for (size_t i = 0; i < shape->n_stages; i++)
		n += shape->n_codes[i] * shape->n_rhos;
	return n;
}

static int put_record(const struct store *store, struct err *err)
{
	char *text = json_dumps(store->record, JSON_INDENT(1) | JSON_SORT_KEYS);
	int rc = outdir_put(store->dir, RECORD_NAME, text, strlen(text), err);

	free(text);
	return rc;
}

/* Reads the record of a directory; NULL if there is none that can be read. */
static json_t *read_record(const struct outdir *dir)
{
	struct buf text = { 0 };
	json_t *record = NULL;
	struct err ignored = { 0 };

	if (!io_read_file(dir->io, dir->fd, RECORD_NAME, RECORD_LIMIT, &text, &ignored))
		record = json_decode((struct json_text){ text.data, text.len }, &ignored);
	buf_release(&text);
	return record;
}

/* Removes the files first: the record has their number. */
static int remove_stages(const struct outdir *dir, const json_t *record, struct err *err)
{
	json_int_t n = json_integer_value(json_object_get(record, "n_stages"));

	for (json_int_t i = 0; i < n; i++) {
		char *name = stage_name((size_t)i);
		int rc = outdir_has(dir, name) ? outdir_remove(dir, name, err) : 0;

		free(name);
		if (rc)
			return -1;
	}
	return 0;
}

int store_remove(const struct outdir *dir, struct err *err)
{
	json_t *record = outdir_has(dir, RECORD_NAME) ? read_record(dir) : NULL;
	int rc = remove_stages(dir, record, err);

	json_decref(record);
	return rc || !outdir_has(dir, RECORD_NAME) ? rc : outdir_remove(dir, RECORD_NAME, err);
}

static int record_new(struct store *store, struct err *err)
{
	if (store_remove(store->dir, err))
		return -1;
	store->record = json_pack("{s:s, s:I, s:{}}", "job", store->shape.job, "n_stages",
				  (json_int_t)store->shape.n_stages, "stages");
	return put_record(store, err);
}

static uint64_t stage_size(const struct store *store, size_t stage)
{
	return store->shape.n_codes[stage] * store->shape.n_rhos;
}

/* Compares the file of a stage with its record; *same: it is as it was written. */
static int check_stage(const struct store *store, size_t stage, struct progress *progress,
		       bool *same, struct err *err)
{
	char key[24], *name = stage_name(stage);
	const json_t *stages = json_object_get(store->record, "stages");
	const json_t *entry = json_object_get(stages, stage_key(key, stage));
	struct stat st;
	uint32_t crc;
	int rc = 0;

	*same = !fstatat(store->dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
		(uint64_t)st.st_size == stage_size(store, stage);
	if (*same)
		rc = checksum_crc32(store->dir->io, store->dir->fd, name, progress, &crc, err);
	if (*same && !rc)
		*same = json_integer_value(json_object_get(entry, "crc32")) == (json_int_t)crc;
	free(name);
	return rc;
}

/* Forgets stages whose files are missing or changed. */
static int check_stages(struct store *store, struct progress *progress, struct err *err)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < store->shape.n_stages; i++)
		if (store_has(store, i))
			bytes += stage_size(store, i);
	if (bytes)
		progress_begin(progress, PROGRESS_CHECK, bytes);
	for (size_t i = 0; i < store->shape.n_stages; i++) {
		bool same;
		char key[24];

		if (!store_has(store, i))
			continue;
		if (check_stage(store, i, progress, &same, err))
			return -1;
		if (same)
			continue;
		json_object_del(json_object_get(store->record, "stages"), stage_key(key, i));
		json_object_del(store->record, "outcome");
	}
	return 0;
}

/* Fills outcome.counts. */
static void sum_counts(struct store *store)
{
	struct store_outcome *outcome = &store->outcome;
	const char *key;
	json_t *stage;

	outcome->counts = (struct store_counts){ 0 };
	json_object_foreach(json_object_get(store->record, "stages"), key, stage)
	{
		const json_t *few = json_object_get(stage, "few");
		const json_t *raised = json_object_get(stage, "raised");

		outcome->counts.n_few +=
			(uint64_t)json_integer_value(json_array_get(few, outcome->rho));
		outcome->counts.n_raised +=
			(uint64_t)json_integer_value(json_array_get(raised, outcome->rho));
	}
}

/* Returns a number of the record; null is NAN. */
static double number_at(const json_t *number)
{
	return json_is_number(number) ? json_number_value(number) : NAN;
}

static void read_outcome(struct store *store)
{
	const json_t *json = json_object_get(store->record, "outcome");
	const json_t *kld = json_object_get(json, "kld"), *se = json_object_get(json, "se");
	struct store_outcome *outcome = &store->outcome;

	store->has_outcome = json_is_object(json);
	if (!store->has_outcome)
		return;
	outcome->is_nearest = json_is_true(json_object_get(json, "nearest"));
	outcome->rho = (size_t)json_integer_value(json_object_get(json, "rho"));
	outcome->measured = json_object_get(json, "nearest_kld");
	outcome->nearest_kld = number_at(json_object_get(json, "nearest_kld"));
	for (size_t i = 0; i < store->shape.n_rhos; i++) {
		outcome->kld[i] = number_at(json_array_get(kld, i));
		outcome->se[i] = number_at(json_array_get(se, i));
	}
	if (outcome->rho >= store->shape.n_rhos)
		store->has_outcome = false;
	else
		sum_counts(store);
}

int store_open(struct store *store, const struct outdir *dir, const struct store_shape *shape,
	       struct progress *progress, struct err *err)
{
	const char *job;

	*store = (struct store){ .dir = dir, .shape = *shape };
	pthread_mutex_init(&store->lock, NULL);
	store->fds = xmalloc(shape->n_stages * sizeof *store->fds);
	for (size_t i = 0; i < shape->n_stages; i++)
		store->fds[i] = -1;
	store->record = read_record(dir);
	job = json_string_value(json_object_get(store->record, "job"));
	if (job && !strcmp(job, shape->job) &&
	    json_is_object(json_object_get(store->record, "stages"))) {
		if (check_stages(store, progress, err))
			return -1;
		read_outcome(store);
		return 0;
	}
	json_decref(store->record);
	store->record = NULL;
	return record_new(store, err);
}

void store_close(struct store *store)
{
	if (!store->dir)
		return;
	for (size_t i = 0; i < store->shape.n_stages; i++)
		if (store->fds[i] >= 0)
			store->dir->io->close(store->fds[i]);
	free(store->fds);
	json_decref(store->record);
	pthread_mutex_destroy(&store->lock);
	*store = (struct store){ 0 };
}

bool store_has(const struct store *store, size_t stage)
{
	char key[24];

	return json_object_get(json_object_get(store->record, "stages"), stage_key(key, stage));
}

size_t store_count(const struct store *store)
{
	return json_object_size(json_object_get(store->record, "stages"));
}

int store_begin(const struct store *store, size_t stage, struct writer *writer, struct err *err)
{
	struct buf no_header = { 0 };
	char *name = stage_name(stage);
	int rc = writer_open(writer, store->dir, name, &no_header, stage_size(store, stage), err);

	free(name);
	return rc;
}

/* Returns the place in the file of a stage. */
static uint64_t span_begin(const struct store *store, const struct store_span *span)
{
	return span->rho * store->shape.n_codes[span->stage] + span->offset;
}

int store_write(const struct store *store, struct writer *writer, const struct store_span *span,
		const uint8_t *codes, struct err *err)
{
	return writer_pwrite(writer, codes, span->n, span_begin(store, span), err);
}

int store_commit(struct store *store, size_t stage, struct writer *writer,
		 const struct store_counts *counts, struct err *err)
{
	json_t *few = json_array(), *raised = json_array();
	char key[24];
	uint32_t crc;

	for (size_t i = 0; i < store->shape.n_rhos; i++) {
		json_array_append_new(few, json_integer((json_int_t)counts[i].n_few));
		json_array_append_new(raised, json_integer((json_int_t)counts[i].n_raised));
	}
	if (writer_commit(writer, &crc, err)) {
		json_decref(few);
		json_decref(raised);
		return -1;
	}
	json_object_set_new(json_object_get(store->record, "stages"), stage_key(key, stage),
			    json_pack("{s:I, s:o, s:o}", "crc32", (json_int_t)crc, "few", few,
				      "raised", raised));
	return put_record(store, err);
}

static json_t *number_json(double number)
{
	return isfinite(number) ? json_real(number) : json_null();
}

int store_choose(struct store *store, const struct store_outcome *outcome, struct err *err)
{
	json_t *json = json_pack("{s:b, s:I}", "nearest", outcome->is_nearest, "rho",
				 (json_int_t)outcome->rho);
	json_t *kld = json_array(), *se = json_array();

	for (size_t i = 0; i < store->shape.n_rhos; i++) {
		json_array_append_new(kld, number_json(outcome->kld[i]));
		json_array_append_new(se, number_json(outcome->se[i]));
	}
	if (outcome->measured)
		json_object_set_new(json, "nearest_kld", number_json(outcome->nearest_kld));
	json_object_set_new(json, "kld", kld);
	json_object_set_new(json, "se", se);
	json_object_set_new(store->record, "outcome", json);
	read_outcome(store);
	return put_record(store, err);
}

/* Returns the descriptor of a stage's file, opened at its first use; -1 on failure. */
static int stage_fd(struct store *store, size_t stage, struct err *err)
{
	int fd;

	pthread_mutex_lock(&store->lock);
	if (store->fds[stage] < 0) {
		char *name = stage_name(stage);
		struct file_identity identity;

		if (io_open_regular(store->dir->io, store->dir->fd, name, &fd, &identity, err))
			fd = -1;
		store->fds[stage] = fd;
		free(name);
	}
	fd = store->fds[stage];
	pthread_mutex_unlock(&store->lock);
	return fd;
}

int store_read(struct store *store, const struct store_span *span, uint8_t *codes, struct err *err)
{
	struct file file = { store->dir->io, stage_fd(store, span->stage, err), RECORD_NAME };

	if (file.fd < 0)
		return -1;
	return io_pread_full(&file, codes, span->n, span_begin(store, span), err);
}
