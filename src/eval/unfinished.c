/* SPDX-License-Identifier: Apache-2.0 */
#include "eval/unfinished.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "source/fingerprint.h"

#define MAGIC "fp8conv_eval 1 "
/* Bytes of a file, for numbers of `size` bytes; it may have those of more sequences. */
#define LIMIT(size) (16 * (size) + (1 << 20))

/* Bytes that are appended to a buf, or are taken from it. */
struct transfer {
	struct buf *bytes;
	bool takes;
	size_t at; /* where the next ones are, or would be */
};

static void transfer(struct transfer *transfer, void *data, size_t n)
{
	const struct buf *bytes = transfer->bytes;

	if (!transfer->takes)
		buf_add(transfer->bytes, data, n);
	else if (bytes->data && transfer->at <= bytes->len && n <= bytes->len - transfer->at)
		memcpy(data, bytes->data + transfer->at, n);
	transfer->at += n;
}

/* Transfers the numbers of the first n sequences. */
static void transfer_numbers(const struct unfinished *unfinished, size_t n, struct transfer *to)
{
	const struct samples *samples = unfinished->samples;
	const size_t sums = offsetof(struct module_quality, local);
	size_t of_targets = samples->target_first[n] * sizeof *samples->loss_q;

	transfer(to, samples->loss_q, of_targets);
	if (samples->has_source) {
		transfer(to, samples->loss_p, of_targets);
		transfer(to, samples->kl, samples->position_first[n] * sizeof *samples->kl);
		transfer(to, samples->reverse_kl, n * sizeof *samples->reverse_kl);
		transfer(to, samples->same_top, n * sizeof *samples->same_top);
	}
	for (size_t i = 0; i < unfinished->result->n_layers; i++) {
		struct layer_quality *layer = &unfinished->result->layers[i];

		transfer(to, &layer->residual, sizeof layer->residual);
		for (size_t m = 0; m < layer->n_modules; m++)
			transfer(to, (char *)&layer->modules[m] + sums,
				 sizeof layer->modules[m] - sums);
	}
}

static void add_hash(struct buf *text, const char *name, const void *bytes, size_t n)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	char hex[2 * sizeof digest + 1];

	SHA256(bytes, n, digest);
	text_hex(hex, digest, sizeof digest);
	buf_printf(text, "%s: %s\n", name, hex);
}

static int add_model(struct buf *text, const char *name, const struct eval_model *model,
		     struct err *err)
{
	char fingerprint[FINGERPRINT_SIZE];
	const struct buf *config = &model->checkpoint.config;
	struct source source;
	int rc;

	source_init(&source, model->checkpoint.io, &model->checkpoint, NULL, -1);
	rc = fingerprint_make(&source, fingerprint, err);
	source_release(&source);
	if (rc)
		return -1;
	buf_printf(text, "%s: %s\n", name, fingerprint);
	add_hash(text, "config.json", config->data, config->len);
	return 0;
}

/* Writes the models and options. */
static int make_job(struct unfinished *unfinished, struct err *err)
{
	const struct eval_params *params = unfinished->params;
	const struct eval_plan *plan = unfinished->plan;
	struct buf *job = &unfinished->job;

	buf_printf(job,
		   "--source: %d\n--activations: %s\n--kv-cache: %d\n--precision: %s\n"
		   "--by-layer: %d\n--backend: %s\n--stride: %zu\n",
		   plan->has_source, params->activations ? params->activations : "engine",
		   params->kv_cache, params->precision ? params->precision : "bf16",
		   params->by_layer, params->backend->executor->name, plan->first_counted);
	if (add_model(job, "OUT", &plan->out, err))
		return -1;
	return plan->has_source ? add_model(job, "--source", &plan->source, err) : 0;
}

/* Writes all that decides the numbers of the first n sequences. */
static void add_head(const struct unfinished *unfinished, size_t n, struct buf *text)
{
	const struct dataset *data = &unfinished->plan->data;
	const struct dataset_sequence *last = &data->sequences[n - 1];

	buf_printf(text, MAGIC "%zu\n", n);
	buf_add(text, unfinished->job.data, unfinished->job.len);
	add_hash(text, "--seq-len", data->sequences, n * sizeof *data->sequences);
	add_hash(text, "--data", data->ids.ids, (last->begin + last->len) * sizeof *data->ids.ids);
}

/* ERR_USAGE with the first of the lines that the file does not have. */
static int check_head(const struct unfinished *unfinished, const char *found, const char *lines,
		      struct err *err)
{
	for (size_t n; *lines; lines += n, found += n) {
		n = strcspn(lines, "\n") + 1;
		if (strncmp(found, lines, n) != 0)
			return err_set(err, ERR_USAGE,
				       "'%s' was begun with another %.*s: repeat the first "
				       "command, or give --resume another file",
				       unfinished->params->resume, (int)strcspn(lines, ":"), lines);
	}
	return 0;
}

/* Takes the numbers of a file. */
static int take(struct unfinished *unfinished, struct buf *bytes, struct err *err)
{
	const char *name = unfinished->params->resume;
	struct transfer from = { .bytes = bytes, .takes = true };
	struct buf head = { 0 };
	uint64_t n;
	int rc;

	if (bytes->len < sizeof MAGIC || memcmp(bytes->data, MAGIC, strlen(MAGIC)) != 0)
		return err_set(err, ERR_USAGE,
			       "'%s' exists and is not of an evaluation: give --resume another "
			       "file",
			       name);
	n = strtoull(bytes->data + strlen(MAGIC), NULL, 10);
	if (n > unfinished->plan->data.n)
		return err_set(err, ERR_USAGE,
			       "'%s' holds %" PRIu64 " sequences, but only %zu are requested: give "
			       "--resume another file",
			       name, n, unfinished->plan->data.n);
	if (n)
		add_head(unfinished, (size_t)n, &head);
	rc = n ? check_head(unfinished, bytes->data, head.data, err) : 0;
	from.at = head.len;
	buf_release(&head);
	if (rc)
		return rc;
	transfer_numbers(unfinished, (size_t)n, &from);
	add_hash(&head, "SHA-256", bytes->data, from.at < bytes->len ? from.at : 0);
	rc = !n || from.at > bytes->len || strcmp(bytes->data + from.at, head.data) != 0;
	buf_release(&head);
	unfinished->n = (size_t)n;
	return rc ? err_set(err, ERR_INPUT,
			    "'%s' is damaged: remove it, and run the same command again", name)
		  : 0;
}

/* Gives all ranks the bytes of the leading one. */
static int share(const struct group *group, struct buf *bytes, struct err *err)
{
	uint64_t n = bytes->len;

	if (group_reduce(group, GROUP_UNION, &n, sizeof n, err))
		return -1;
	if (!group_leads(group)) {
		buf_reserve(bytes, n + 1);
		memset(bytes->data, 0, n + 1);
		bytes->len = n;
	}
	return group_reduce(group, GROUP_UNION, bytes->data, n, err);
}

/* Opens the file, and reads it if it is there. */
static int open_file(struct unfinished *unfinished, struct buf *bytes, struct err *err)
{
	const struct eval_params *params = unfinished->params;
	const struct outdir *dir = &unfinished->file.dir;
	struct transfer all = { .bytes = bytes, .takes = true };

	if (outfile_open(&unfinished->file, params->io, params->resume, err))
		return -1;
	transfer_numbers(unfinished, unfinished->plan->data.n, &all);
	if (!outdir_has(dir, unfinished->file.name))
		return outdir_check_space(dir, all.at, err);
	return io_read_file(params->io, dir->fd, unfinished->file.name, LIMIT(all.at), bytes, err);
}

int unfinished_open(struct unfinished *unfinished, struct err *err)
{
	const struct group *group = unfinished->params->group;
	struct buf bytes = { 0 };
	int rc = 0;

	if (!unfinished->params->resume)
		return 0;
	if (group_leads(group))
		rc = open_file(unfinished, &bytes, err);
	rc = rc ? rc : make_job(unfinished, err);
	rc = group_settle(group, rc, err);
	rc = rc ? rc : share(group, &bytes, err);
	if (!rc && bytes.len)
		rc = group_settle(group, take(unfinished, &bytes, err), err);
	buf_release(&bytes);
	return rc;
}

int unfinished_put(struct unfinished *unfinished, size_t n, struct err *err)
{
	const struct eval_params *params = unfinished->params;
	struct buf bytes = { 0 };
	struct transfer to = { .bytes = &bytes };
	int rc;

	unfinished->n = n;
	if (!params->resume || !group_leads(params->group))
		return 0;
	add_head(unfinished, n, &bytes);
	transfer_numbers(unfinished, n, &to);
	add_hash(&bytes, "SHA-256", bytes.data, bytes.len);
	rc = outdir_put(&unfinished->file.dir, unfinished->file.name, bytes.data, bytes.len, err);
	buf_release(&bytes);
	return rc;
}

int unfinished_interrupted(const struct unfinished *unfinished, double lost, struct err *err)
{
	const char *name = unfinished->params->resume;

	if (!name)
		return err_set(err, ERR_INTERRUPTED,
			       "interrupted: nothing was kept; an evaluation with --resume=FILE "
			       "can continue");
	if (!unfinished->n)
		return err_set(err, ERR_INTERRUPTED,
			       "interrupted before the first sweep ended: nothing was kept "
			       "(lost: %.0f s of work)",
			       lost);
	return err_set(err, ERR_INTERRUPTED,
		       "interrupted after %zu of %zu sequences, which are in '%s' "
		       "(lost: %.0f s of work): run the same command again to continue",
		       unfinished->n, unfinished->plan->data.n, name, lost);
}

void unfinished_close(struct unfinished *unfinished)
{
	outfile_close(&unfinished->file);
	buf_release(&unfinished->job);
}
