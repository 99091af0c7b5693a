/* SPDX-License-Identifier: Apache-2.0 */
#include "amax/merge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"

struct amax_merging {
	const char *path;
	enum amax_merge how;
};

static int check_text(const struct amax_merging *merge, const char *what, const char *one,
		      const char *other, struct err *err)
{
	if (!strcmp(one, other))
		return 0;
	return err_set(err, ERR_INPUT, "%s of '%s' is '%s', but '%s' in the earlier files", what,
		       merge->path, other, one);
}

/* Adds to a sum within int64_t, which is also the limit of a uint64_t in a file. */
static int add_count(const struct amax_merging *merge, const char *what, uint64_t *sum, uint64_t n,
		     struct err *err)
{
	if (__builtin_add_overflow(*sum, n, sum) || *sum > INT64_MAX)
		return err_set(err, ERR_INPUT, "with '%s', the %s add up to more than 2^63 - 1",
			       merge->path, what);
	return 0;
}

static int refuse_site(const struct amax_merging *merge, const struct amax_site *site, bool here,
		       struct err *err)
{
	return err_set(err, ERR_INPUT, "'%s' %s module '%s', but the earlier files %s", merge->path,
		       here ? "has" : "has no", site->name, here ? "do not have it" : "have it");
}

static int check_site(const struct amax_merging *merge, const struct amax_site *one,
		      const struct amax_site *other, struct err *err)
{
	int order = strcmp(one->name, other->name);

	if (order)
		return refuse_site(merge, order < 0 ? one : other, order > 0, err);
	if (one->kind != other->kind || !one->histogram != !other->histogram)
		return err_set(err, ERR_INPUT,
			       "only one of '%s' and the earlier files has %s for module '%s'",
			       merge->path, one->kind != other->kind ? "q, k, v" : "a histogram",
			       one->name);
	return 0;
}

static int check_sites(const struct amax_merging *merge, const struct amax_stats *stats,
		       const struct amax_stats *from, struct err *err)
{
	size_t n = stats->n_sites < from->n_sites ? stats->n_sites : from->n_sites;

	for (size_t i = 0; i < n; i++)
		if (check_site(merge, stats->sites[i], from->sites[i], err))
			return -1;
	if (stats->n_sites > n)
		return refuse_site(merge, stats->sites[n], false, err);
	return from->n_sites > n ? refuse_site(merge, from->sites[n], true, err) : 0;
}

/* Returns "cpu+cuda": each name once, in bytewise order. */
static char *unite(const char *one, const char *other)
{
	struct buf text = { 0 };

	while (*one || *other) {
		size_t n_one = strcspn(one, "+"), n_other = strcspn(other, "+");
		size_t n = n_one < n_other ? n_one : n_other;
		int order = !*one ? 1 : !*other ? -1 : memcmp(one, other, n);
		const char *word;

		if (!order)
			order = (n_one > n_other) - (n_one < n_other);
		word = order <= 0 ? one : other;
		buf_printf(&text, "%s%.*s", text.len ? "+" : "",
			   (int)(order <= 0 ? n_one : n_other), word);
		if (order <= 0)
			one += n_one + (one[n_one] == '+');
		if (order >= 0)
			other += n_other + (other[n_other] == '+');
	}
	return text.data ? text.data : xstrdup("");
}

static int merge_head(const struct amax_merging *merge, struct amax_stats *stats,
		      const struct amax_stats *from, struct err *err)
{
	char *backend;

	if (check_text(merge, "the model fingerprint", stats->model, from->model, err) ||
	    check_text(merge, "precision", stats->precision, from->precision, err))
		return -1;
	if (merge->how == AMAX_RANKS && stats->n_passes != from->n_passes)
		return err_set(err, ERR_INPUT,
			       "'%s' has %" PRIu64 " passes, but the earlier files have %" PRIu64
			       ": ranks must have the same passes",
			       merge->path, from->n_passes, stats->n_passes);
	if (check_sites(merge, stats, from, err) ||
	    add_count(merge, "tokens", &stats->n_tokens, from->n_tokens, err) ||
	    (merge->how == AMAX_APPEND &&
	     add_count(merge, "passes", &stats->n_passes, from->n_passes, err)))
		return -1;
	backend = unite(stats->backend, from->backend);
	free(stats->backend);
	stats->backend = backend;
	if (from->seq_len > stats->seq_len)
		stats->seq_len = from->seq_len;
	if (from->history_len > stats->history_len)
		stats->history_len = from->history_len;
	amax_data_add(stats->data, from->data);
	return 0;
}

static int merge_ranks(const struct amax_merging *merge, struct amax_site *site,
		       const struct amax_site *from, struct err *err)
{
	if (site->n_passes != from->n_passes)
		return err_set(err, ERR_INPUT,
			       "module '%s' has %zu passes in '%s', but %zu in the earlier files",
			       site->name, from->n_passes, merge->path, site->n_passes);
	for (size_t i = 0; i < site->n_passes; i++) {
		for (int column = 0; column < 3; column++)
			if (from->history[i][column] > site->history[i][column])
				site->history[i][column] = from->history[i][column];
		if (__builtin_add_overflow(site->tokens[i], from->tokens[i], &site->tokens[i]))
			return err_set(
				err, ERR_INPUT,
				"with '%s', the tokens of module '%s' add up to more than 2^63 - 1",
				merge->path, site->name);
	}
	return 0;
}

static int merge_histogram(const struct amax_merging *merge, struct amax_site *site,
			   const struct amax_site *from, struct err *err)
{
	for (size_t bin = 0; site->histogram && bin < AMAX_BINS; bin++)
		for (int column = 0; column < 2; column++)
			if (__builtin_add_overflow(site->histogram[bin][column],
						   from->histogram[bin][column],
						   &site->histogram[bin][column]))
				return err_set(err, ERR_INPUT,
					       "with '%s', the histogram of module '%s' adds up to "
					       "more than 2^64 - 1",
					       merge->path, site->name);
	return 0;
}

int amax_site_join(struct amax_site *site, const struct amax_site *from, const char *path,
		   struct err *err)
{
	struct amax_merging merge = { path, AMAX_RANKS };
	static const float none[3];
	bool is_new = !site->n_passes && !site->histogram;

	if (from->histogram)
		amax_site_histogram(site);
	for (size_t pass = 0; is_new && pass < from->n_passes; pass++)
		amax_site_append(site, none, 0);
	if (merge_ranks(&merge, site, from, err))
		return -1;
	return from->histogram ? merge_histogram(&merge, site, from, err) : 0;
}

int amax_stats_merge(struct amax_stats *stats, const struct amax_stats *from, enum amax_merge how,
		     const char *path, struct err *err)
{
	struct amax_merging merge = { path, how };

	if (merge_head(&merge, stats, from, err))
		return -1;
	for (size_t i = 0; i < stats->n_sites; i++) {
		struct amax_site *site = stats->sites[i];
		const struct amax_site *other = from->sites[i];

		site->limit = stats->history_len;
		if (merge_histogram(&merge, site, other, err) ||
		    (how == AMAX_RANKS && merge_ranks(&merge, site, other, err)))
			return -1;
		for (size_t pass = 0; how == AMAX_APPEND && pass < other->n_passes; pass++)
			amax_site_append(site, other->history[pass], other->tokens[pass]);
	}
	return 0;
}

static int check_places(const struct amax_merge_params *params, struct err *err)
{
	struct stat input, output;

	if (params->n_inputs < 2)
		return err_set(err, ERR_USAGE, "'%s' is the only input file: give two or more",
			       params->inputs[0]);
	for (size_t i = 0; i < params->n_inputs && !stat(params->output, &output); i++)
		if (!stat(params->inputs[i], &input) && input.st_dev == output.st_dev &&
		    input.st_ino == output.st_ino)
			return err_set(err, ERR_USAGE, "input and output are the same file '%s'",
				       params->inputs[i]);
	return 0;
}

/* The ranks of one calibration that were read; n 0: the inputs do not tell. */
struct rank_set {
	struct amax_rank first;
	size_t *inputs; /* by rank from 1: the number of its input, from 1; 0: missing */
};

/* Adds an input, which must be of the same calibration as the first one. */
static int rank_set_add(struct rank_set *set, const struct amax_merge_params *params, size_t i,
			const struct amax_stats *stats, struct err *err)
{
	const struct amax_rank *rank = &stats->rank;
	const char *path = params->inputs[i];

	if (params->how != AMAX_RANKS && amax_stats_check_whole(stats, path, err))
		return -1;
	if (i == 0) {
		set->first = *rank;
		set->inputs = xcalloc((size_t)rank->n + 1, sizeof *set->inputs);
	}
	if (rank->n != set->first.n || strcmp(rank->job, set->first.job) != 0)
		return err_set(err, ERR_INPUT,
			       "'%s' and '%s' are not ranks of the same calibration: give the "
			       "files of ranks with the same data and options",
			       params->inputs[0], path);
	if (!rank->n)
		return 0;
	if (stats->n_planned > stats->n_passes)
		return err_set(err, ERR_INPUT,
			       "'%s' has %" PRIu64 " of %" PRIu64
			       " passes: complete it by 'fp8conv calibrate --resume' first",
			       path, stats->n_passes, stats->n_planned);
	if (set->inputs[rank->index])
		return err_set(err, ERR_INPUT,
			       "'%s' and '%s' are both of rank %" PRIu64 " of %" PRIu64
			       ": give each rank once",
			       params->inputs[set->inputs[rank->index] - 1], path, rank->index,
			       rank->n);
	set->inputs[rank->index] = i + 1;
	return 0;
}

/* Ranks on several backends would not give the history of one process. */
static int check_backend(const struct amax_stats *stats, const struct amax_stats *from,
			 const char *path, struct err *err)
{
	if (!from->rank.n || !strcmp(stats->backend, from->backend))
		return 0;
	return err_set(
		err, ERR_INPUT,
		"'%s' was made by backend '%s', the earlier ranks by '%s': run all ranks with "
		"the same '--backend'",
		path, from->backend, stats->backend);
}

/* Checks that no rank is missing. */
static int rank_set_check(const struct rank_set *set, struct err *err)
{
	for (uint64_t i = 1; i <= set->first.n; i++)
		if (!set->inputs[i])
			return err_set(err, ERR_INPUT,
				       "the file of rank %" PRIu64 " of %" PRIu64
				       " is missing: give the files of all ranks",
				       i, set->first.n);
	return 0;
}

/* Returns the number of passes that an interrupted calibration did not run. */
static uint64_t passes_missing(const struct amax_stats *stats)
{
	return stats->n_planned > stats->n_passes ? stats->n_planned - stats->n_passes : 0;
}

/* The inputs that were read. */
struct merged_inputs {
	uint64_t (*data)[2]; /* the fingerprint of each */
	struct rank_set ranks;
};

static int merge_file(struct amax_stats *stats, const struct amax_merge_params *params, size_t i,
		      struct merged_inputs *inputs, struct err *err)
{
	uint64_t missing = passes_missing(stats);
	struct amax_stats from;
	int rc;

	if (amax_stats_read(&from, params->io, params->inputs[i], err))
		return -1;
	memcpy(inputs->data[i], from.data, sizeof from.data);
	missing += passes_missing(&from);
	rc = rank_set_add(&inputs->ranks, params, i, &from, err);
	if (!rc)
		rc = check_backend(stats, &from, params->inputs[i], err);
	if (!rc)
		rc = amax_stats_merge(stats, &from, params->how, params->inputs[i], err);
	stats->n_planned = stats->n_passes + missing;
	amax_stats_release(&from);
	return rc;
}

/* Sets repeated to the first two inputs of the same data, if there are any. */
static void find_repeated(uint64_t data[][2], size_t n, size_t repeated[2])
{
	for (size_t i = 1; i < n && !repeated[1]; i++)
		for (size_t j = 0; j < i && !repeated[1]; j++)
			if (!memcmp(data[i], data[j], sizeof data[i])) {
				repeated[0] = j;
				repeated[1] = i;
			}
}

int amax_merge_files(const struct amax_merge_params *params, struct amax_merged *merged,
		     struct err *err)
{
	struct amax_stats stats = { 0 };
	struct merged_inputs inputs = { 0 };
	int rc = -1;

	if (check_places(params, err) ||
	    amax_stats_read(&stats, params->io, params->inputs[0], err))
		return -1;
	inputs.data = xcalloc(params->n_inputs, sizeof *inputs.data);
	memcpy(inputs.data[0], stats.data, sizeof stats.data);
	if (rank_set_add(&inputs.ranks, params, 0, &stats, err))
		goto out;
	for (size_t i = 1; i < params->n_inputs; i++)
		if (merge_file(&stats, params, i, &inputs, err))
			goto out;
	if (rank_set_check(&inputs.ranks, err))
		goto out;
	stats.rank = (struct amax_rank){ 0 };
	*merged = (struct amax_merged){ .n_passes = stats.n_passes, .n_tokens = stats.n_tokens };
	if (!inputs.ranks.first.n)
		find_repeated(inputs.data, params->n_inputs, merged->repeated);
	rc = amax_stats_write(&stats, params->io, params->output, err);
out:
	free(inputs.data);
	free(inputs.ranks.inputs);
	amax_stats_release(&stats);
	return rc;
}
