/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the amax file, and finds the modules that it covers.
 */
#include "amax/merge.h"
#include "plan/static_scales.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/torch_files.h"
#include "names/experts.h"
#include "names/tensor_name.h"
#include "source/fingerprint.h"
#include "source/states.h"

/* Do all modules have histograms?  Modules without a pass do not count. */
static bool has_counts(const struct amax_stats *stats)
{
	for (size_t i = 0; i < stats->n_sites; i++)
		if (stats->sites[i]->kind == AMAX_GEMM && stats->sites[i]->n_passes &&
		    !stats->sites[i]->histogram)
			return false;
	return true;
}

/* Reads what TransformerEngine's modules saved beside their weights. */
static int read_states(struct amax_stats *stats, const struct convert_params *convert,
		       const char *path, struct err *err)
{
	struct checkpoint checkpoint = { 0 };
	char fingerprint[FINGERPRINT_SIZE];
	struct source source;
	int rc = -1;

	if (checkpoint_open(&checkpoint, convert->io, path, convert->n_threads, err) ||
	    checkpoint_rename(&checkpoint, &convert->renames, err))
		goto out;
	source_init(&source, convert->io, &checkpoint, NULL, -1);
	rc = fingerprint_make(&source, fingerprint, err);
	if (!rc) {
		amax_stats_init(stats, fingerprint, "bf16", "transformer-engine",
				AMAX_HISTORY_LEN_MAX);
		rc = states_read(&source, stats, err);
	}
	rc = source_close(&source, rc, err);
	source_release(&source);
	if (!rc && !stats->n_sites)
		rc = err_set(err, ERR_INPUT,
			     "'%s' has no amax history of TransformerEngine: give an amax file, as "
			     "'fp8conv calibrate' makes it",
			     path);
out:
	checkpoint_release(&checkpoint);
	return rc;
}

static int read_history(struct amax_stats *stats, const struct convert_params *convert,
			const char *path, struct err *err)
{
	struct stat st;
	bool is_directory =
		!convert->io->fstatat(convert->io, AT_FDCWD, path, &st, 0) && S_ISDIR(st.st_mode);

	return is_directory || torch_files_is_name(path)
		       ? read_states(stats, convert, path, err)
		       : amax_stats_read(stats, convert->io, path, err);
}

int static_scales_open(struct static_scales *scales, const struct convert_params *convert,
		       const struct static_scales_params *params, struct err *err)
{
	*scales = (struct static_scales){ .params = params };
	if (params->amax_algo &&
	    static_choice_read(&scales->choice, "--amax-algo", params->amax_algo, err))
		return -1;
	if (!params->path && params->kv_cache)
		return err_set(err, ERR_USAGE,
			       "option '--kv-cache' needs an amax history: run 'fp8conv calibrate "
			       "MODEL --data FILE -o stats.amax' and give it with --calibration "
			       "stats.amax");
	if (!params->path) {
		const char *option = params->amax_algo	       ? "--amax-algo"
				     : params->uncovered_given ? "--uncovered"
				     : params->min_tokens      ? "--min-tokens"
							       : NULL;

		if (!option)
			return 0;
		return err_set(err, ERR_USAGE, "option '%s' requires '--calibration'", option);
	}
	if (read_history(&scales->stats, convert, params->path, err) ||
	    amax_stats_check_whole(&scales->stats, params->path, err))
		return -1;
	if (static_choice_needs_counts(&scales->choice) && !has_counts(&scales->stats))
		return err_set(err, ERR_USAGE,
			       "option '--amax-algo': '%s' needs histograms, but '%s' has none: "
			       "calibrate with --histogram",
			       params->amax_algo, params->path);
	return 0;
}

void static_scales_release(struct static_scales *scales)
{
	amax_stats_release(&scales->stats);
}

bool static_scales_is_static(const struct static_scales *scales, const struct recipe *recipe)
{
	return scales->params->path && recipe->input.tile.rows == WHOLE &&
	       recipe->input.tile.cols == WHOLE;
}

static bool is_static_unit(const struct static_scales *scales, const struct unit *unit)
{
	return unit->recipe && !unit->table && static_scales_is_static(scales, unit->recipe);
}

/* Finds the site of a unit.  Gate and up of an expert that the model multiplies as one matrix
 * (GPT-OSS) have one site; they share their input, and the scale of their weights. */
static const struct amax_site *find_site(const struct static_scales *scales,
					 const struct unit *unit, const char *module)
{
	const struct amax_site *site = amax_stats_find(&scales->stats, module, AMAX_GEMM);
	const char *part = strrchr(module, '.');
	char *both;

	if (site || !unit_is_cut(unit) || !part ||
	    (strcmp(part, ".gate_proj") != 0 && strcmp(part, ".up_proj") != 0))
		return site;
	both = xasprintf("%.*s.gate_up_proj", (int)(part - module), module);
	site = amax_stats_find(&scales->stats, both, AMAX_GEMM);
	free(both);
	return site;
}

int static_scales_site(const struct static_scales *scales, const struct unit *unit,
		       const struct amax_site **site, struct err *err)
{
	char *module = xstrndup(unit->name, module_len(unit->name));
	int rc = 0;

	*site = find_site(scales, unit, module);
	if (!*site)
		rc = err_set(err, ERR_INPUT,
			     "module '%s' is not in '%s': the calibration did not cover it", module,
			     scales->params->path);
	else if (!(*site)->n_passes)
		rc = err_set(err, ERR_INPUT,
			     "module '%s' has no pass in '%s': the calibration stopped before it",
			     module, scales->params->path);
	free(module);
	return rc;
}

bool static_scales_covers(const struct static_scales *scales, const struct amax_site *site)
{
	uint64_t min = scales->params->min_tokens ? scales->params->min_tokens : 1;
	uint64_t n = 0;

	for (size_t i = 0; i < site->n_passes && n < min; i++)
		n += (uint64_t)site->tokens[i]; /* two numbers below 2^63 do not overflow */
	return n >= min;
}

/* Removes the static scale of an uncovered module and of all modules that engines merge with it. */
static void make_dynamic(struct selection *selection, size_t u)
{
	size_t i = u;

	do {
		selection->units[i].static_input = false;
		i = selection->units[i].next_joint;
	} while (i != u);
}

static int refuse_uncovered(const struct static_scales *scales, const struct unit *unit,
			    struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "fewer than %" PRIu64 " tokens reached the module of tensor '%s' in '%s': "
		       "calibrate with more data, or choose a policy with --uncovered",
		       (scales->params->min_tokens ? scales->params->min_tokens : 1), unit->name,
		       scales->params->path);
}

/* Treats an uncovered unit.  group-max does nothing here: it changes no name. */
static int treat_uncovered(const struct static_scales *scales, struct plan *plan, size_t u,
			   bool *kept, struct err *err)
{
	struct unit *unit = &plan->selection.units[u];

	switch ((enum uncovered)scales->params->uncovered) {
	case UNCOVERED_SKIP:
		selection_keep(&plan->selection, u, "too few tokens in the calibration");
		*kept = true;
		return 0;
	case UNCOVERED_DYNAMIC:
		make_dynamic(&plan->selection, u);
		return 0;
	case UNCOVERED_GROUP_MAX:
		if (experts_prefix_len(unit->name))
			return 0;
		break;
	default:
		break;
	}
	return refuse_uncovered(scales, unit, err);
}

int static_scales_cover(const struct static_scales *scales, struct plan *plan, bool *kept,
			struct err *err)
{
	struct selection *selection = &plan->selection;
	size_t n = 0, n_uncovered = 0;

	*kept = false;
	if (plan_check_model(plan, scales->params->path, scales->stats.model, err))
		return -1;
	for (size_t u = 0; u < selection->n_units; u++) {
		struct unit *unit = &selection->units[u];

		unit->static_input = is_static_unit(scales, unit);
		n += unit->static_input;
	}
	for (size_t u = 0; u < selection->n_units; u++) {
		const struct amax_site *site;

		if (!is_static_unit(scales, &selection->units[u]))
			continue;
		if (static_scales_site(scales, &selection->units[u], &site, err))
			return -1;
		if (static_scales_covers(scales, site))
			continue;
		n_uncovered++;
		if (treat_uncovered(scales, plan, u, kept, err))
			return -1;
	}
	if (scales->stats.n_planned > scales->stats.n_passes)
		notes_add(&selection->notes, NOTE_CALIBRATION_UNFINISHED, NULL,
			  "'%s' holds %" PRIu64 " of %" PRIu64 " passes: the calibration was "
			  "interrupted, continue it with --resume",
			  scales->params->path, scales->stats.n_passes, scales->stats.n_planned);
	if (n_uncovered)
		notes_add(&selection->notes, NOTE_UNCOVERED, NULL,
			  "%zu of %zu modules had too few tokens in '%s': --uncovered applies to "
			  "them",
			  n_uncovered, n, scales->params->path);
	return 0;
}

/* Returns the parts of an expert that a tensor holds, as bits. */
static unsigned parts_of(const char *name)
{
	switch (experts_content(name)) {
	case EXPERTS_GATE:
		return 1u << EXPERT_GATE;
	case EXPERTS_UP:
		return 1u << EXPERT_UP;
	case EXPERTS_DOWN:
		return 1u << EXPERT_DOWN;
	case EXPERTS_GATE_UP:
	case EXPERTS_INTERLEAVED:
		return 1u << EXPERT_GATE | 1u << EXPERT_UP;
	default:
		return 0;
	}
}

/* Joins the site of one matrix of an expert, if the calibration has it. */
static int join_matrix(struct static_scales *scales, const char *matrix, struct amax_site **joined,
		       const char *module, struct err *err)
{
	const struct amax_site *site = amax_stats_find(&scales->stats, matrix, AMAX_GEMM);

	if (!site)
		return 0;
	if (!*joined)
		*joined = amax_stats_site(&scales->stats, module, AMAX_GEMM);
	return amax_site_join(*joined, site, scales->params->path, err);
}

/* Joins the sites of the experts of a stack. */
static int join_stack(struct static_scales *scales, const struct unit *unit, struct err *err)
{
	unsigned parts = parts_of(unit->name);
	char *module = xstrndup(unit->name, module_len(unit->name));
	struct amax_site *joined = NULL;
	int rc = 0;

	if (amax_stats_find(&scales->stats, module, AMAX_GEMM))
		parts = 0;
	for (int part = EXPERT_GATE; part <= EXPERT_DOWN && !rc; part++)
		for (uint64_t e = 0; parts >> part & 1 && e < unit_matrices(unit) && !rc; e++) {
			char *name =
				experts_part_name(unit->name, (enum expert_part)part, e, "weight");

			name[module_len(name)] = 0;
			rc = join_matrix(scales, name, &joined, module, err);
			free(name);
		}
	free(module);
	return rc;
}

int static_scales_join(struct static_scales *scales, const struct selection *selection,
		       struct err *err)
{
	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];

		if (unit->stack && unit->recipe && join_stack(scales, unit, err))
			return -1;
	}
	return 0;
}
