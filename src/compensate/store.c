/* SPDX-License-Identifier: Apache-2.0
 *
 * The record, RECORD_NAME:
 *
 *     { "job": "...",
 *       "stages": { "0": { "crc32": 1, "few": [0, 0, 0], "raised": [0, 0, 0] } },   whole files
 *       "outcome": { "nearest": false, "rho": 1, "nearest_kld": 0.01, "kld": [...], "se": [...] },
 *       "crc32": 2 }   of all else
 *
 * What is damaged is made again, so what is read is checked whole before it is used.
 */
#include "compensate/store.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/mem.h"
#include "ckpt/listing.h"
#include "ckpt/checksum.h"

#define STORE_PREFIX ".fp8conv.rounding"
#define RECORD_NAME  STORE_PREFIX ".json"
#define RECORD_LIMIT ((size_t)16 << 20)

static char *stage_name(size_t stage)
{
	return xasprintf(STORE_PREFIX "-%05zu", stage);
}

static const char *stage_key(char key[24], size_t stage)
{
	snprintf(key, 24, "%zu", stage);
	return key;
}

/* Returns the checksum of a record without the member of this name. */
static uint32_t record_crc(json_t *record)
{
	uint32_t crc;
	char *text;

	json_object_del(record, "crc32");
	text = json_dumps(record, JSON_COMPACT | JSON_SORT_KEYS);
	crc = crc32_gzip_refl(0, (const void *)text, strlen(text));
	free(text);
	return crc;
}

static int put_record(const struct store *store, struct err *err)
{
	uint32_t crc = record_crc(store->record);
	char *text;
	int rc;

	json_object_set_new(store->record, "crc32", json_integer((json_int_t)crc));
	text = json_dumps(store->record, JSON_INDENT(1) | JSON_SORT_KEYS);
	rc = outdir_put(store->dir, RECORD_NAME, text, strlen(text), err);
	free(text);
	return rc;
}

/* Reads the record of a directory; *record is NULL if there is none that can be understood.  Fails
 * if it cannot be read: what it tells may be there the next time. */
static int read_record(const struct outdir *dir, json_t **record, struct err *err)
{
	struct buf text = { 0 };
	struct err ignored = { 0 };

	*record = NULL;
	if (io_read_file(dir->io, dir->fd, RECORD_NAME, RECORD_LIMIT, &text, err))
		return err->kind == ERR_INPUT ? 0 : -1;
	*record = json_decode((struct json_text){ text.data, text.len }, &ignored);
	buf_release(&text);
	return 0;
}

/* Is it a record of this job, as it was written? */
static bool is_whole(json_t *record, const char *job)
{
	const json_t *crc = json_object_get(record, "crc32");
	const char *text = json_string_value(json_object_get(record, "job"));
	json_int_t wanted = json_integer_value(crc);

	return json_is_integer(crc) && text && !strcmp(text, job) &&
	       json_is_object(json_object_get(record, "stages")) && wanted == record_crc(record);
}

/* Is the name of a file of a store, or of one that a killed run has not finished? */
static bool is_of_store(const void *context, const char *name)
{
	(void)context;
	if (name[0] == '.' && name[1] == '.')
		name++;
	return !strncmp(name, STORE_PREFIX, strlen(STORE_PREFIX));
}

/* By what the directory has: a record that is damaged does not tell. */
int store_remove(const struct outdir *dir, struct err *err)
{
	const struct directory directory = { dir->io, dir->fd, ".", dir->path };
	struct listing names = { 0 };
	int rc = listing_names(&names, &directory, is_of_store, NULL, err);

	for (size_t i = 0; i < names.n && !rc; i++)
		rc = outdir_remove(dir, names.items[i], err);
	listing_release(&names);
	return rc;
}

static int record_new(struct store *store, struct err *err)
{
	if (store_remove(store->dir, err))
		return -1;
	store->record = json_pack("{s:s, s:{}}", "job", store->shape.job, "stages");
	return put_record(store, err);
}

static uint64_t stage_size(const struct store *store, size_t stage)
{
	return store->shape.n_codes[stage] * store->shape.n_rhos;
}

static const json_t *stage_entry(const struct store *store, size_t stage)
{
	char key[24];

	return json_object_get(json_object_get(store->record, "stages"), stage_key(key, stage));
}

static bool are_counts(const json_t *array, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *count = json_array_get(array, i);

		if (!json_is_integer(count) || json_integer_value(count) < 0)
			return false;
	}
	return json_array_size(array) == n;
}

/* Compares the file of a stage with its record; *same: it is as it was written. */
static int check_stage(const struct store *store, size_t stage, struct progress *progress,
		       bool *same, struct err *err)
{
	const json_t *entry = stage_entry(store, stage), *crc = json_object_get(entry, "crc32");
	char *name = stage_name(stage);
	struct stat st;
	uint32_t found;
	int rc = 0;

	*same = json_is_integer(crc) &&
		are_counts(json_object_get(entry, "few"), store->shape.n_rhos) &&
		are_counts(json_object_get(entry, "raised"), store->shape.n_rhos) &&
		!fstatat(store->dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
		(uint64_t)st.st_size == stage_size(store, stage);
	if (*same)
		rc = checksum_crc32(store->dir->io, store->dir->fd, name, progress, &found, err);
	if (*same && !rc)
		*same = json_integer_value(crc) == (json_int_t)found;
	free(name);
	return rc;
}

/* Forgets all but stages whose files are as they were written; and the outcome, which needs all
 * stages. */
static int check_stages(struct store *store, struct progress *progress, struct err *err)
{
	json_t *stages = json_object();
	uint64_t bytes = 0;
	bool complete = true;
	int rc = 0;

	for (size_t i = 0; i < store->shape.n_stages; i++)
		if (store_has(store, i))
			bytes += stage_size(store, i);
	if (bytes)
		progress_begin(progress, PROGRESS_CHECK, bytes);
	for (size_t i = 0; i < store->shape.n_stages && !rc; i++) {
		const json_t *entry = stage_entry(store, i);
		bool same = false;
		char key[24];

		if (entry)
			rc = check_stage(store, i, progress, &same, err);
		if (same)
			json_object_set_new(stages, stage_key(key, i), json_deep_copy(entry));
		complete &= same || !store->shape.n_codes[i];
	}
	json_object_set_new(store->record, "stages", stages);
	if (!complete)
		json_object_del(store->record, "outcome");
	return rc;
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
	const json_t *rho = json_object_get(json, "rho");
	struct store_outcome *outcome = &store->outcome;

	store->has_outcome = json_is_boolean(json_object_get(json, "nearest")) &&
			     json_is_integer(rho) && json_integer_value(rho) >= 0 &&
			     (uint64_t)json_integer_value(rho) < store->shape.n_rhos;
	if (!store->has_outcome)
		return;
	outcome->is_nearest = json_is_true(json_object_get(json, "nearest"));
	outcome->rho = (size_t)json_integer_value(rho);
	outcome->measured = json_object_get(json, "nearest_kld");
	outcome->nearest_kld = number_at(json_object_get(json, "nearest_kld"));
	for (size_t i = 0; i < store->shape.n_rhos; i++) {
		outcome->kld[i] = number_at(json_array_get(kld, i));
		outcome->se[i] = number_at(json_array_get(se, i));
	}
	sum_counts(store);
}

int store_open(struct store *store, const struct outdir *dir, const struct store_shape *shape,
	       struct progress *progress, struct err *err)
{
	*store = (struct store){ .dir = dir, .shape = *shape };
	pthread_mutex_init(&store->lock, NULL);
	store->fds = xmalloc(shape->n_stages * sizeof *store->fds);
	for (size_t i = 0; i < shape->n_stages; i++)
		store->fds[i] = -1;
	if (read_record(dir, &store->record, err))
		return -1;
	if (is_whole(store->record, shape->job)) {
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
			store->dir->io->close(store->dir->io, store->fds[i]);
	free(store->fds);
	json_decref(store->record);
	pthread_mutex_destroy(&store->lock);
	*store = (struct store){ 0 };
}

bool store_has(const struct store *store, size_t stage)
{
	return stage_entry(store, stage);
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

int store_choose(struct store *store, const struct store_outcome *outcome, struct err *err)
{
	json_t *json = json_pack("{s:b, s:I}", "nearest", outcome->is_nearest, "rho",
				 (json_int_t)outcome->rho);
	json_t *kld = json_array(), *se = json_array();

	for (size_t i = 0; i < store->shape.n_rhos; i++) {
		json_array_append_new(kld, json_finite(outcome->kld[i]));
		json_array_append_new(se, json_finite(outcome->se[i]));
	}
	if (outcome->measured)
		json_object_set_new(json, "nearest_kld", json_finite(outcome->nearest_kld));
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
	char *name = stage_name(span->stage);
	struct file file = { store->dir->io, stage_fd(store, span->stage, err), name };
	int rc = file.fd < 0 ? -1
			     : io_pread_full(&file, codes, span->n, span_begin(store, span), err);

	free(name);
	return rc;
}
