/* SPDX-License-Identifier: Apache-2.0
 *
 * The files as a whole: a checkpoint in which nothing is FP8, and weight files beside the model
 * that are not of it.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/listing.h"
#include "verify/steps.h"

/* The directory of the source, or a dequantized copy, is easily given instead of an output. */
static void check_quantized(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	if (!verify->opened.detection->n_weights && !checkpoint->n_expected)
		problem_add(&verify->result->problems, PROBLEM_NOTHING_QUANTIZED, NULL, NULL,
			    "no weight of '%s' is FP8", checkpoint->path);
}

/* Is the file of the model, or does another problem name it? */
static bool is_known(const struct verify *verify, const char *name)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	const struct problems *problems = &verify->result->problems;

	for (size_t i = 0; i < checkpoint->n_shards; i++)
		if (!strcmp(checkpoint->shards[i].name, name))
			return true;
	for (size_t i = 0; i < problems->n; i++)
		if (problems->list[i].file && !strcmp(problems->list[i].file, name))
			return true;
	/* Mistral's releases hold the weights in two layouts; engines choose one if there is an
	 * index. */
	return checkpoint->has_index && !fnmatch("consolidated*", name, 0);
}

/* Quantization and its reversal leave shards without tensors where a source had only scales. */
static bool is_without_tensors(const struct verify *verify, const char *name)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	char *path = xasprintf("%s/%s", checkpoint->directory, name);
	struct st_file file = { 0 };
	struct err ignored;
	bool is_empty = !st_open(&file, verify->params->io, path, &ignored) && !file.n_tensors;

	st_release(&file);
	free(path);
	return is_empty;
}

static int check_beside(struct verify *verify, struct err *err)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	struct listing names = { 0 };
	int rc;

	if (!checkpoint->directory)
		return 0;
	rc = listing_safetensors(verify->params->io, checkpoint->directory, &names, err);
	for (size_t i = 0; i < names.n; i++)
		if (!rc && !is_known(verify, names.items[i]) &&
		    !is_without_tensors(verify, names.items[i]))
			problem_add(&verify->result->problems, PROBLEM_FILE_STRAY, NULL,
				    names.items[i], "'%s' lies beside the model, but %s",
				    names.items[i],
				    checkpoint->has_index ? "the index does not name it"
							  : "is not of it");
	listing_release(&names);
	return rc;
}

int verify_files(struct verify *verify, struct err *err)
{
	check_quantized(verify);
	return check_beside(verify, err);
}
