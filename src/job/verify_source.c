/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint against the one it was made from: which arithmetic made it, every code and scale by that arithmetic, and
 * byte for byte what was only copied.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "base/mem.h"
#include "base/pool.h"
#include "job/arithmetic.h"
#include "job/verify_internal.h"
#include "num/e8m0.h"
#include "num/fp8.h"

#define N_PROBES    16
#define COPY_PIECE  ((uint64_t)1 << 20)
#define BF16_SLACK   (1.0f / 128) /* two roundings of 8 bits each */
#define UNLIKE_MOST 0.02 /* share of codes and scales that may differ, where an arithmetic is taken for the one that was used */

/* The source, and how the weights came out of it. */
struct origins {
	struct checkpoint checkpoint;
	struct selection selection; /* empty where nothing in the source can be quantized */
	struct source files;
	struct unit *direct; /* by weight: those that have a tensor of their own */
	float *group_amax;   /* by group */

	const struct arithmetic *arithmetic; /* that is compared with; NULL: none fits */
	bool own_amax;			     /* one scale per tensor, which merged ones do not share */

	const struct tensor_ref **copies; /* what is compared byte for byte, and with what */
	const struct tensor_ref **originals;
	size_t n_copies;
	bool *changed; /* by copy */
};

/* --- what came from where --- */

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const struct unit *const *)a)->name, (*(const struct unit *const *)b)->name);
}

static bool same_matrix(const struct st_tensor *a, const struct st_tensor *b)
{
	return a->n_dims == 2 && b->n_dims == 2 && a->shape[0] == b->shape[0] && a->shape[1] == b->shape[1];
}

static bool is_float(enum dtype dtype)
{
	return dtype == DT_BF16 || dtype == DT_F16 || dtype == DT_F32;
}

/* A tensor of the same name and shape; else what selects experts out of a fused one, or reads an FP8 source. */
static const struct unit *find_origin(struct origins *origins, size_t w, const struct checked *weight,
				      const struct unit **by_name)
{
	const struct tensor_ref *ref = checkpoint_find(&origins->checkpoint, weight->unit.name);
	const struct unit *wanted = &weight->unit;
	const struct unit **found;

	if (ref && is_float(ref->tensor->dtype) && same_matrix(ref->tensor, wanted->source->tensor)) {
		origins->direct[w] = (struct unit){ .name = wanted->name, .source = ref, .rows = wanted->rows,
						    .cols = wanted->cols, .slice = { 0, wanted->cols, 1 } };
		return &origins->direct[w];
	}
	if (!origins->selection.n_units)
		return NULL;
	found = bsearch(&wanted, by_name, origins->selection.n_units, sizeof *by_name, compare_names);
	return found && (*found)->recipe && (*found)->rows == wanted->rows && (*found)->cols == wanted->cols ? *found : NULL;
}

static void find_origins(struct verify *verify, struct origins *origins)
{
	const struct unit **by_name = xcalloc(origins->selection.n_units, sizeof *by_name);

	for (size_t u = 0; u < origins->selection.n_units; u++)
		by_name[u] = &origins->selection.units[u];
	if (origins->selection.n_units)
		qsort(by_name, origins->selection.n_units, sizeof *by_name, compare_names);
	origins->direct = xcalloc(verify->n_weights, sizeof *origins->direct);
	for (size_t w = 0; w < verify->n_weights; w++) {
		struct checked *weight = &verify->weights[w];

		weight->origin = find_origin(origins, w, weight, by_name);
		if (!weight->origin)
			problem_add(&verify->result->problems, PROBLEM_TENSOR_MISSING, weight->unit.name,
				    verify_file(verify, weight->unit.source),
				    "'%s' of %llu x %llu has no counterpart in the source", weight->unit.name,
				    (unsigned long long)weight->unit.rows, (unsigned long long)weight->unit.cols);
	}
	free(by_name);
}

/* All linear weights of the source, as the recipe that takes any shape sees them. */
static void select_all(struct origins *origins)
{
	struct err ignored;
	struct select_options options = { .recipe = recipe_find("channelwise", &ignored), .requantize = true };

	if (selection_make(&origins->selection, &origins->checkpoint, &options, &ignored))
		origins->selection = (struct selection){ 0 };
}

/* --- what was only copied --- */

static bool same_type(const struct st_tensor *a, const struct st_tensor *b)
{
	if (a->dtype != b->dtype || a->n_dims != b->n_dims)
		return false;
	return !a->n_dims || !memcmp(a->shape, b->shape, (size_t)a->n_dims * sizeof *a->shape);
}

static void find_copies(struct verify *verify, struct origins *origins)
{
	const struct checkpoint *checkpoint = verify->checkpoint;

	origins->copies = xcalloc(checkpoint->n_tensors, sizeof *origins->copies);
	origins->originals = xcalloc(checkpoint->n_tensors, sizeof *origins->originals);
	origins->changed = xcalloc(checkpoint->n_tensors, sizeof *origins->changed);
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		const struct tensor_ref *original = checkpoint_find(&origins->checkpoint, ref->tensor->name);

		if (!original || recognition_is_weight(ref) || recognition_is_scale(verify->recognition, ref))
			continue;
		if (!same_type(ref->tensor, original->tensor)) {
			problem_add(&verify->result->problems, PROBLEM_TENSOR_CHANGED, ref->tensor->name,
				    verify_file(verify, ref), "'%s' has another type or shape than in the source",
				    ref->tensor->name);
			continue;
		}
		origins->copies[origins->n_copies] = ref;
		origins->originals[origins->n_copies++] = original;
	}
}

static int compare_copy(void *context, int worker, size_t item, struct err *err)
{
	struct verify *verify = context;
	struct origins *origins = verify->origins;
	char *here = verify->desks[worker].source.matrix, *there = verify->desks[worker].source.raw;
	uint64_t size = st_tensor_size(origins->copies[item]->tensor);

	for (uint64_t at = 0; at < size; at += COPY_PIECE) {
		size_t n = (size_t)(size - at < COPY_PIECE ? size - at : COPY_PIECE);

		if (source_read_bytes(&verify->files, origins->copies[item], at, n, here, err) ||
		    source_read_bytes(&origins->files, origins->originals[item], at, n, there, err))
			return -1;
		if (memcmp(here, there, n) != 0) {
			origins->changed[item] = true;
			return 0;
		}
	}
	return 0;
}

static int compare_copies(struct verify *verify, struct origins *origins, struct err *err)
{
	find_copies(verify, origins);
	if (pool_run(verify->params->n_threads, origins->n_copies, compare_copy, verify, verify->progress->stop, err))
		return -1;
	for (size_t i = 0; i < origins->n_copies; i++)
		if (origins->changed[i])
			problem_add(&verify->result->problems, PROBLEM_TENSOR_CHANGED,
				    origins->copies[i]->tensor->name, verify_file(verify, origins->copies[i]),
				    "'%s' is not the source's, byte for byte", origins->copies[i]->tensor->name);
	return 0;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct st_tensor *const *x = a, *const *y = b;

	return (*x > *y) - (*x < *y);
}

/* What the source has, and the checkpoint has neither under its name nor cut into experts. */
static void find_missing(struct verify *verify, struct origins *origins)
{
	const struct checkpoint *source = &origins->checkpoint;
	const struct st_tensor **used = xcalloc(verify->n_weights + 1, sizeof *used);
	struct recognition recognition = { 0 };
	struct err ignored;
	bool fp8 = recognition_make(&recognition, source, &ignored) == 0;
	size_t n = 0;

	for (size_t w = 0; w < verify->n_weights; w++)
		if (verify->weights[w].origin)
			used[n++] = verify->weights[w].origin->source->tensor;
	qsort(used, n, sizeof *used, compare_addresses);
	for (size_t i = 0; i < source->n_tensors; i++) {
		const struct tensor_ref *ref = &source->tensors[i];

		if (!checkpoint_find(verify->checkpoint, ref->tensor->name) &&
		    !(fp8 && recognition_is_scale(&recognition, ref)) &&
		    !bsearch(&ref->tensor, used, n, sizeof *used, compare_addresses))
			problem_add(&verify->result->problems, PROBLEM_TENSOR_MISSING, ref->tensor->name, NULL,
				    "the source has a tensor '%s', which is not here", ref->tensor->name);
	}
	recognition_release(&recognition);
	free(used);
}

/* --- amax of what has one scale --- */

static int take_amax(void *context, int worker, size_t item, struct err *err)
{
	struct verify *verify = context;
	const struct piece *piece = &verify->pieces[item];
	struct checked *weight = &verify->weights[piece->weight];
	const struct source_tee nowhere = { 0 };
	uint64_t n_nonfinite = 0;
	struct matrix x;
	float amax = 0;

	if (!weight->origin || weight->unit.source_scale.tile.rows != WHOLE)
		return 0;
	if (source_read(&verify->origins->files, weight->origin, &piece->region, &verify->desks[worker].source, &nowhere,
			&x, err))
		return -1;
	backend_amax(verify->backend, &x, (struct tile){ WHOLE, WHOLE }, &amax, 1, &n_nonfinite);
	pthread_mutex_lock(&verify->lock);
	weight->amax = fmaxf(weight->amax, amax);
	pthread_mutex_unlock(&verify->lock);
	return 0;
}

static int take_amaxes(struct verify *verify, size_t n_pieces, struct err *err)
{
	struct origins *origins = verify->origins;

	if (pool_run(verify->params->n_threads, n_pieces, take_amax, verify, verify->progress->stop, err))
		return -1;
	origins->group_amax = xcalloc(verify->groups.n, sizeof *origins->group_amax);
	for (size_t w = 0; w < verify->n_weights; w++) {
		const struct checked *weight = &verify->weights[w];

		if (weight->group != SIZE_MAX)
			origins->group_amax[weight->group] = fmaxf(origins->group_amax[weight->group], weight->amax);
	}
	return 0;
}

/* --- one piece by one arithmetic --- */

static struct qspec spec_of(const struct checked *weight, const struct arithmetic *arithmetic)
{
	struct qspec spec = arithmetic->spec;

	spec.format = weight->unit.source->tensor->dtype == DT_F8_E5M2 ? FP8_E5M2 : FP8_E4M3;
	spec.tile = weight->unit.source_scale.tile;
	spec.scale_type = weight->unit.source_scale.scale_type;
	return spec;
}

/* Codes and scales that the arithmetic makes of x, to the desk. */
static void expect(struct verify *verify, struct desk *desk, const struct checked *weight, const struct matrix *x,
		   const struct arithmetic *arithmetic, bool own_amax)
{
	struct qspec spec = spec_of(weight, arithmetic);
	struct quant_stats stats = { 0 };
	size_t n_cols = tile_count(x->cols, spec.tile.cols);
	size_t n_tiles = tile_count(x->rows, spec.tile.rows) * n_cols;
	struct quant_out out = { .codes = desk->expected,
				 .stride = x->cols,
				 .scale_inv = desk->expected_scales,
				 .scale_stride = n_cols,
				 .stats = &stats };
	float amax = own_amax || weight->group == SIZE_MAX ? weight->amax : verify->origins->group_amax[weight->group];
	uint64_t n_nonfinite = 0;
	float *amaxes = &amax;

	if (spec.tile.rows != WHOLE && !arithmetic->quantize) {
		backend_quantize(verify->backend, x, &spec, &out);
		return;
	}
	if (spec.tile.rows != WHOLE) {
		amaxes = xcalloc(n_tiles, sizeof *amaxes);
		backend_amax(verify->backend, x, spec.tile, amaxes, n_cols, &n_nonfinite);
	}
	if (arithmetic->quantize)
		arithmetic->quantize(x, &spec, amaxes, &out);
	else
		backend_cast(verify->backend, x, &spec, amaxes, n_cols, &out);
	if (amaxes != &amax)
		free(amaxes);
}

static void count_off(uint64_t *n, uint64_t *first, uint64_t at)
{
	if (!*n || at < *first)
		*first = at;
	++*n;
}

static void compare_codes(const struct checked *weight, const struct region *region, const struct desk *desk,
			  struct scan *found)
{
	for (uint64_t r = 0; r < region->n_rows; r++) {
		const uint8_t *here = desk->codes + r * region->n_cols, *there = desk->expected + r * region->n_cols;

		if (!memcmp(here, there, region->n_cols))
			continue;
		for (uint64_t c = 0; c < region->n_cols; c++)
			if (here[c] != there[c])
				count_off(&found->n_codes_off, &found->first_code_off,
					  (region->row + r) * weight->unit.cols + region->col + c);
	}
}

static void compare_scales(const struct checked *weight, const struct region *region, const void *scales,
			   const char *expected, struct scan *found)
{
	struct tile tile = weight->unit.source_scale.tile;
	size_t size = scale_size(weight->unit.source_scale.scale_type);
	uint64_t grid_cols = tile_count(weight->unit.cols, tile.cols);
	uint64_t n_rows = tile_count(region->n_rows, tile.rows), n_cols = tile_count(region->n_cols, tile.cols);
	uint64_t first_row = tile.rows == WHOLE ? 0 : region->row / tile.rows;
	uint64_t first_col = tile.cols == WHOLE ? 0 : region->col / tile.cols;

	if (tile.rows == WHOLE && region->row)
		return;
	for (uint64_t row = 0; row < n_rows; row++) {
		const char *here = (const char *)scales + (row * grid_cols + first_col) * size;

		for (uint64_t col = 0; col < n_cols; col++)
			if (memcmp(here + col * size, expected + (row * n_cols + col) * size, size) != 0)
				count_off(&found->n_scales_off, &found->first_scale_off,
					  (first_row + row) * grid_cols + first_col + col);
	}
}

static void add_error(const struct verify *verify, const struct checked *weight, const struct region *region,
		      const struct desk *desk, const struct matrix *x, const void *scales, struct scan *found)
{
	const struct weight_scale *scale = &weight->unit.source_scale;
	uint64_t first_col = scale->tile.cols == WHOLE ? 0 : region->col / scale->tile.cols;
	struct quant_in q = { .codes = desk->codes,
			      .rows = region->n_rows,
			      .cols = region->n_cols,
			      .stride = region->n_cols,
			      .format = weight->unit.source->tensor->dtype == DT_F8_E5M2 ? FP8_E5M2 : FP8_E4M3,
			      .tile = scale->tile,
			      .scale_type = scale->scale_type,
			      .scale_inv = (const char *)scales + first_col * scale_size(scale->scale_type),
			      .scale_stride = tile_count(weight->unit.cols, scale->tile.cols) };

	backend_error(verify->backend, x, &q, &found->signal, &found->noise);
}

static float scale_at(const struct checked *weight, const struct region *region, const void *scales, uint64_t row,
		      uint64_t col)
{
	struct tile tile = weight->unit.source_scale.tile;
	uint64_t i = (tile.rows == WHOLE ? 0 : row / tile.rows) * tile_count(weight->unit.cols, tile.cols) +
		     (tile.cols == WHOLE ? 0 : (region->col + col) / tile.cols);
	float scale;

	if (weight->unit.source_scale.scale_type == SCALE_E8M0)
		return e8m0_to_f32(((const uint8_t *)scales)[i]);
	memcpy(&scale, (const char *)scales + 4 * i, 4);
	return scale;
}

/* From a code up to half the way to the next: the larger of its two sides. */
static float half_step(enum fp8_format format, uint8_t code)
{
	uint8_t magnitude = code & 0x7F;

	if (magnitude == (format == FP8_E4M3 ? 0x7E : 0x7B))
		magnitude--;
	return (fp8_to_f32(format, (uint8_t)(magnitude + 1)) - fp8_to_f32(format, magnitude)) / 2;
}

/* By no arithmetic that is known: no value further from the source than half a step of its code, give or take what the
 * rounding of quotients and scales to bf16 does. */
static void compare_bound(const struct checked *weight, const struct region *region, const struct desk *desk,
			  const struct matrix *x, const void *scales, struct scan *found)
{
	enum fp8_format format = weight->unit.source->tensor->dtype == DT_F8_E5M2 ? FP8_E5M2 : FP8_E4M3;

	for (uint64_t r = 0; r < region->n_rows; r++) {
		for (uint64_t c = 0; c < region->n_cols; c++) {
			uint8_t code = desk->codes[r * region->n_cols + c];
			float scale = scale_at(weight, region, scales, r, c);
			float value = matrix_at(x, r, c), back = fp8_to_f32(format, code) * scale;
			float most = half_step(format, code) * scale + BF16_SLACK * fabsf(back);

			if (!(fabsf(value - back) <= most))
				count_off(&found->n_codes_off, &found->first_code_off,
					  (region->row + r) * weight->unit.cols + region->col + c);
		}
	}
}

int compare_piece(struct verify *verify, struct desk *desk, const struct piece *piece, const void *scales,
		  struct scan *found, struct err *err)
{
	const struct origins *origins = verify->origins;
	const struct checked *weight = &verify->weights[piece->weight];
	const struct source_tee nowhere = { 0 };
	struct matrix x;

	if (source_read(&verify->origins->files, weight->origin, &piece->region, &desk->source, &nowhere, &x, err))
		return -1;
	add_error(verify, weight, &piece->region, desk, &x, scales, found);
	if (!origins->arithmetic) {
		compare_bound(weight, &piece->region, desk, &x, scales, found);
		return 0;
	}
	expect(verify, desk, weight, &x, origins->arithmetic, origins->own_amax);
	compare_codes(weight, &piece->region, desk, found);
	compare_scales(weight, &piece->region, scales, desk->expected_scales, found);
	return 0;
}

/* --- which arithmetic --- */

/* Pieces that an arithmetic is tried on: the first of some weights, evenly spaced. */
struct probe {
	const struct piece *pieces[N_PROBES];
	size_t n;
};

static struct probe probe_new(const struct verify *verify, const struct piece *pieces, size_t n_pieces)
{
	struct probe probe = { 0 };
	size_t n_weights = 0, seen = 0;

	for (size_t w = 0; w < verify->n_weights; w++)
		n_weights += verify->weights[w].scanned && verify->weights[w].origin;
	for (size_t i = 0; i < n_pieces && probe.n < N_PROBES; i++) {
		const struct piece *piece = &pieces[i];

		if (piece->region.row || piece->region.col || !verify->weights[piece->weight].origin)
			continue;
		if (seen++ * N_PROBES >= probe.n * n_weights)
			probe.pieces[probe.n++] = piece;
	}
	return probe;
}

/* The share of codes and scales that the arithmetic makes otherwise. */
static int try_arithmetic(struct verify *verify, const struct probe *probe, const struct arithmetic *arithmetic,
			  bool own_amax, double *share, struct err *err)
{
	const struct source_tee nowhere = { 0 };
	struct desk *desk = &verify->desks[0];
	struct scan found = { 0 };
	double n = 0;

	for (size_t i = 0; i < probe->n; i++) {
		const struct piece *piece = probe->pieces[i];
		const struct checked *weight = &verify->weights[piece->weight];
		struct matrix x;
		void *scales;

		if (weight->unit.source_scale.scale_type != arithmetic->scale_type)
			continue;
		if (read_codes(verify, piece, desk->codes, err) ||
		    source_read(&verify->origins->files, weight->origin, &piece->region, &desk->source, &nowhere, &x,
				err) ||
		    source_scales(&verify->files, &weight->unit, &piece->region, &scales, err))
			return -1;
		expect(verify, desk, weight, &x, arithmetic, own_amax);
		compare_codes(weight, &piece->region, desk, &found);
		compare_scales(weight, &piece->region, scales, desk->expected_scales, &found);
		free(scales);
		n += (double)(piece->region.n_rows * piece->region.n_cols);
	}
	*share = n > 0 ? (double)(found.n_codes_off + found.n_scales_off) / n : 1;
	return 0;
}

static int find_arithmetic(struct verify *verify, struct origins *origins, const struct probe *probe, struct err *err)
{
	double least = UNLIKE_MOST, share;

	for (const struct arithmetic *row = verify->recorded.name ? &verify->recorded : arithmetics; row->name;
	     row = row == &verify->recorded ? arithmetics : row + 1) {
		for (int own = 0; own < 2; own++) {
			if (try_arithmetic(verify, probe, row, own, &share, err))
				return -1;
			if (share < least) {
				least = share;
				origins->arithmetic = row;
				origins->own_amax = own;
			}
		}
	}
	return 0;
}

int verify_origins(struct verify *verify, const struct piece *pieces, size_t n_pieces, struct err *err)
{
	struct origins *origins = verify->origins = xcalloc(1, sizeof *origins);
	struct probe probe;

	if (checkpoint_open(&origins->checkpoint, verify->params->io, verify->params->source, err))
		return -1;
	select_all(origins);
	source_init(&origins->files, verify->params->io, &origins->checkpoint, verify->backend, -1);
	find_origins(verify, origins);
	find_missing(verify, origins);
	if (compare_copies(verify, origins, err) || take_amaxes(verify, n_pieces, err))
		return -1;
	probe = probe_new(verify, pieces, n_pieces);
	if (find_arithmetic(verify, origins, &probe, err))
		return -1;
	verify->result->arithmetic = origins->arithmetic ? origins->arithmetic->name : NULL;
	return 0;
}

int verify_origins_close(struct verify *verify, struct err *err)
{
	return verify->origins ? source_close(&verify->origins->files, err) : 0;
}

void verify_origins_release(struct verify *verify)
{
	struct origins *origins = verify->origins;

	if (!origins)
		return;
	source_release(&origins->files);
	selection_release(&origins->selection);
	checkpoint_release(&origins->checkpoint);
	free(origins->direct);
	free(origins->group_amax);
	free(origins->copies);
	free(origins->originals);
	free(origins->changed);
	free(origins);
	verify->origins = NULL;
}
