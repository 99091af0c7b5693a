/* SPDX-License-Identifier: Apache-2.0
 *
 * Amax files from arrays of the caller, and back.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "amax/amax.h"
#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "lib/context.h"
#include "num/scale_grid.h"
#include "source/fingerprint.h"

static int fingerprint_of(const char *path, char text[FINGERPRINT_SIZE], struct err *err)
{
	struct checkpoint checkpoint = { 0 };
	struct source source;
	int rc = checkpoint_open(&checkpoint, &io_system, path, 1, err);

	if (!rc) {
		source_init(&source, &io_system, &checkpoint, NULL, -1);
		rc = fingerprint_make(&source, text, err);
		source_release(&source);
	}
	checkpoint_release(&checkpoint);
	return rc;
}

/* Adds one pass of a module. */
static int pass_add(struct amax_site *site, const struct fp8conv_amax_module *module, size_t pass,
		    struct err *err)
{
	const float *row = module->amax + pass * (module->stride ? module->stride : 3);
	int64_t n = module->tokens ? module->tokens[pass] : row[AMAX_X] > 0;

	for (int i = 0; i < 3; i++)
		if (isnan(row[i]) || signbit(row[i]))
			return err_set(err, ERR_USAGE, "module '%s': amax %d of pass %zu is %g",
				       module->name, i, pass, (double)row[i]);
	if (n < 0)
		return err_set(err, ERR_USAGE, "module '%s': tokens of pass %zu are %lld",
			       module->name, pass, (long long)n);
	amax_site_append(site, row, n);
	return 0;
}

static int module_add(struct amax_stats *stats, const struct fp8conv_amax_module *module,
		      struct err *err)
{
	struct amax_site *site;
	size_t before = stats->n_sites;

	if (size_check(module, sizeof *module, "a module", err))
		return -1;
	if (!module->name || !*module->name || (module->n_passes && !module->amax))
		return err_set(err, ERR_USAGE, "a module has no %s",
			       module->name && *module->name ? "amax" : "name");
	if (module->stride && module->stride < 3)
		return err_set(err, ERR_USAGE, "module '%s': stride is %zu, less than 3",
			       module->name, module->stride);
	site = amax_stats_site(stats, module->name, module->attention ? AMAX_ATTENTION : AMAX_GEMM);
	if (stats->n_sites == before)
		return err_set(err, ERR_USAGE, "duplicate module '%s'", module->name);
	for (size_t pass = 0; pass < module->n_passes; pass++)
		if (pass_add(site, module, pass, err))
			return -1;
	return 0;
}

static int file_check(const char *path, const struct fp8conv_amax_file *file, struct err *err)
{
	if (size_check(file, sizeof *file, "file", err))
		return -1;
	if (!path || !file->precision || (!file->checkpoint && !file->model) ||
	    (file->n_modules && !file->modules))
		return err_set(err, ERR_USAGE, "%s is NULL",
			       !path		  ? "path"
			       : !file->precision ? "precision"
			       : file->n_modules && !file->modules
				       ? "modules"
				       : "the model: give its checkpoint; it");
	if (file->history_len > AMAX_HISTORY_LEN_MAX)
		return err_set(err, ERR_USAGE, "history_len is %llu, more than %d",
			       (unsigned long long)file->history_len, AMAX_HISTORY_LEN_MAX);
	if (file->passes > INT64_MAX || file->tokens > INT64_MAX || file->seq_len > INT64_MAX)
		return err_set(err, ERR_USAGE, "passes, tokens or seq_len has more than 63 bits");
	return 0;
}

static int save(const char *path, const struct fp8conv_amax_file *file, struct err *err)
{
	char fingerprint[FINGERPRINT_SIZE];
	struct amax_stats stats;
	int rc = 0;

	if (file_check(path, file, err) ||
	    (file->checkpoint && fingerprint_of(file->checkpoint, fingerprint, err)))
		return -1;
	amax_stats_init(&stats, file->checkpoint ? fingerprint : file->model, file->precision,
			file->backend ? file->backend : "library",
			file->history_len ? file->history_len : AMAX_HISTORY_LEN);
	memcpy(stats.data, file->data, sizeof stats.data);
	stats.n_passes = file->passes;
	stats.n_tokens = file->tokens;
	stats.seq_len = file->seq_len;
	for (size_t i = 0; !rc && i < file->n_modules; i++)
		rc = module_add(&stats, &file->modules[i], err);
	rc = rc ? rc : amax_stats_write(&stats, &io_system, path, err);
	amax_stats_release(&stats);
	return rc;
}

EXPORTED int fp8conv_amax_save(const char *path, const struct fp8conv_amax_file *file,
			       struct fp8conv_error *error)
{
	struct err err = { 0 };

	return error_out(save(path, file, &err), &err, error);
}

/* Memory that is dealt out; memory NULL: only counted. */
struct block {
	char *memory;
	size_t used;
};

static void *block_copy(struct block *block, const void *data, size_t size)
{
	char *at = block->memory ? block->memory + block->used : NULL;

	block->used += round_up(size, 8);
	return at && size ? memcpy(at, data, size) : at;
}

/* Copies the table to the block.  Returns where the file begins. */
static struct fp8conv_amax_file *stats_copy(const struct amax_stats *stats, struct block *block)
{
	struct fp8conv_amax_module *modules, module = { .size = sizeof module };
	struct fp8conv_amax_file file = { .size = sizeof file,
					  .data = { stats->data[0], stats->data[1] },
					  .passes = stats->n_passes,
					  .tokens = stats->n_tokens,
					  .seq_len = stats->seq_len,
					  .history_len = stats->history_len,
					  .n_modules = stats->n_sites };
	struct fp8conv_amax_file *at = block_copy(block, &file, sizeof file);

	file.model = block_copy(block, stats->model, strlen(stats->model) + 1);
	file.precision = block_copy(block, stats->precision, strlen(stats->precision) + 1);
	file.backend = block_copy(block, stats->backend, strlen(stats->backend) + 1);
	modules = block->memory ? (void *)(block->memory + block->used) : NULL;
	file.modules = modules;
	block->used += stats->n_sites * sizeof module;
	for (size_t i = 0; i < stats->n_sites; i++) {
		const struct amax_site *site = stats->sites[i];

		module.name = block_copy(block, site->name, strlen(site->name) + 1);
		module.attention = site->kind == AMAX_ATTENTION;
		module.n_passes = site->n_passes;
		module.stride = 3;
		module.amax =
			block_copy(block, site->history, site->n_passes * sizeof *site->history);
		module.tokens =
			block_copy(block, site->tokens, site->n_passes * sizeof *site->tokens);
		if (modules)
			modules[i] = module;
	}
	if (at)
		*at = file;
	return at;
}

static int load(const char *path, struct fp8conv_amax_file **file, struct err *err)
{
	struct amax_stats stats;
	struct block block = { 0 };

	if (!path || !file)
		return err_set(err, ERR_USAGE, "%s is NULL", path ? "file" : "path");
	if (amax_stats_read(&stats, &io_system, path, err))
		return -1;
	stats_copy(&stats, &block);
	block = (struct block){ .memory = xcalloc(1, block.used) };
	*file = stats_copy(&stats, &block);
	amax_stats_release(&stats);
	return 0;
}

EXPORTED int fp8conv_amax_load(const char *path, struct fp8conv_amax_file **file,
			       struct fp8conv_error *error)
{
	struct err err = { 0 };

	return error_out(load(path, file, &err), &err, error);
}
