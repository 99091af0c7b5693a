/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/values/kept_values.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "base/mem.h"
#include "ckpt/checksum.h"
#include "format/scale_names.h"
#include "verify/tensors.h"
#include "verify/values/worker.h"

#define LINE	  1024 /* elements of a line at least, where rows are short */
#define MAX_LINES 1024 /* of a piece */
#define HALF	  4    /* a part of a weight that is zero, from which on it is not padding */

/* A norm gives values near 1, a weight multiplies them, and the next norm adds up their squares in
 * fp32, which ends at 2^128. */
#define MAX_WEIGHT 0x1p64f

/* --- the list --- */

static bool is_kept(const struct verify *verify, const struct tensor_ref *ref)
{
	const struct st_tensor *tensor = ref->tensor;

	return (tensor->dtype == DT_BF16 || tensor->dtype == DT_F16 || tensor->dtype == DT_F32) &&
	       !scale_name_find(tensor->name) &&
	       !detection_is_scale(verify->opened.detection, ref) &&
	       st_n_elements(tensor->shape, tensor->n_dims) > 0;
}

/* Returns the elements of a line: whole rows, or a part of a row that `bytes` do not hold. */
static uint64_t line_of(const struct st_tensor *tensor, uint64_t bytes)
{
	uint64_t cols = tensor->n_dims ? tensor->shape[tensor->n_dims - 1] : 1;
	uint64_t most = bytes / (dtype_bits(tensor->dtype) / 8);

	if (cols < LINE)
		cols *= (LINE + cols - 1) / cols;
	return cols < most ? cols : most;
}

static uint64_t n_lines(const struct kept_tensor *tensor)
{
	return (tensor->n + tensor->line - 1) / tensor->line;
}

static void add_pieces(struct kept_values *kept, size_t t, uint64_t bytes)
{
	const struct kept_tensor *tensor = &kept->tensors[t];
	uint64_t size = tensor->line * (dtype_bits(tensor->ref->tensor->dtype) / 8);
	uint64_t step = bytes / size < MAX_LINES ? bytes / size : MAX_LINES, n = n_lines(tensor);

	for (uint64_t at = 0; at < n; at += step) {
		ARRAY_GROW(kept->pieces, kept->n_pieces);
		kept->pieces[kept->n_pieces++] = (struct kept_piece){
			.tensor = t, .first = at, .n = n - at < step ? n - at : step
		};
	}
}

void kept_values_list(struct kept_values *kept, struct verify *verify, uint64_t bytes)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	*kept = (struct kept_values){ .verify = verify };
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		size_t number;

		if (!is_kept(verify, ref))
			continue;
		number = role_cache_add(&verify->roles, ref->tensor->name);
		ARRAY_GROW(kept->tensors, kept->n);
		kept->tensors[kept->n++] = (struct kept_tensor){
			.ref = ref,
			.role = verify->roles.facts[number].role,
			.weight = verify->roles.facts[number].weight,
			.number = number,
			.n = st_n_elements(ref->tensor->shape, ref->tensor->n_dims),
			.line = line_of(ref->tensor, bytes),
		};
		add_pieces(kept, kept->n - 1, bytes);
	}
}

uint64_t kept_values_bytes(const struct kept_values *kept)
{
	uint64_t n = 0;

	for (size_t t = 0; t < kept->n; t++)
		n += st_tensor_size(kept->tensors[t].ref->tensor);
	return n;
}

void kept_values_release(struct kept_values *kept)
{
	free(kept->tensors);
	free(kept->pieces);
}

/* --- reading --- */

/* Counts NaN and infinite values of x, the first of which is element `first` of the tensor. */
static void find_bad(struct kept_values *kept, struct kept_tensor *tensor, const struct matrix *x,
		     uint64_t first)
{
	struct finding found = { 0 };

	for (size_t i = 0; i < x->rows * x->cols; i++)
		if (!isfinite(matrix_at(x, 0, i)))
			finding_add(&found, first + i, matrix_at(x, 0, i));
	pthread_mutex_lock(&kept->verify->run.lock);
	finding_merge(&tensor->bad, &found);
	pthread_mutex_unlock(&kept->verify->run.lock);
}

static void count(struct kept_piece *piece, const float *amax)
{
	uint64_t run = 0;
	bool leading = true;

	for (uint64_t i = 0; i < piece->n; i++) {
		piece->amax = fmaxf(piece->amax, amax[i]);
		run = amax[i] == 0 ? run + 1 : 0;
		leading &= amax[i] == 0;
		piece->leading += leading;
		piece->most = run > piece->most ? run : piece->most;
	}
	piece->trailing = run;
}

int kept_values_read(struct kept_values *kept, size_t piece, struct verify_worker *worker,
		     uint64_t *bytes, struct err *err)
{
	struct verify *verify = kept->verify;
	struct kept_piece *lines = &kept->pieces[piece];
	struct kept_tensor *tensor = &kept->tensors[lines->tensor];
	uint64_t first = lines->first * tensor->line, left = tensor->n - first;
	uint64_t n = lines->n * tensor->line < left ? lines->n * tensor->line : left;
	size_t size = dtype_bits(tensor->ref->tensor->dtype) / 8;
	float amax[MAX_LINES] = { 0 };
	struct matrix x = { .data = worker->codes,
			    .dtype = tensor->ref->tensor->dtype,
			    .rows = n / tensor->line,
			    .cols = tensor->line,
			    .stride = tensor->line };
	struct matrix rest = x;
	uint64_t n_bad = 0;

	if (source_read_bytes(&verify->run.files, tensor->ref, first * size, (size_t)(n * size),
			      worker->codes, err))
		return -1;
	sums_add(&verify->run.sums, verify, tensor->ref, first * size, worker->codes, n * size);
	rest.rows = 1;
	rest.cols = rest.stride = n % tensor->line;
	rest.data = worker->codes + (n - rest.cols) * size;
	if (x.rows)
		backend_amax(verify->run.backend, &x, (struct tile){ 1, WHOLE }, amax, 1, &n_bad);
	if (rest.cols)
		backend_amax(verify->run.backend, &rest, (struct tile){ 1, WHOLE }, amax + x.rows,
			     1, &n_bad);
	if (backend_failed(verify->run.backend, tensor->ref->tensor->name, err))
		return -1;
	x = (struct matrix){ worker->codes, x.dtype, 1, n, n };
	if (n_bad)
		find_bad(kept, tensor, &x, first);
	count(lines, amax);
	if (tensor->role == ROLE_LM_HEAD || tensor->role == ROLE_EMBEDDING)
		lines->crc = checksum_crc32_add(0, worker->codes, n * size);
	*bytes = n * size;
	return 0;
}

/* --- what was found --- */

/* Joins the pieces of each tensor. */
static void join(struct kept_values *kept)
{
	uint64_t run = 0;

	for (size_t i = 0; i < kept->n_pieces; i++) {
		const struct kept_piece *piece = &kept->pieces[i];
		struct kept_tensor *tensor = &kept->tensors[piece->tensor];
		uint64_t most;

		run = piece->first ? run + piece->leading : piece->leading;
		most = run > piece->most ? run : piece->most;
		tensor->zero_lines = most > tensor->zero_lines ? most : tensor->zero_lines;
		if (piece->leading < piece->n)
			run = piece->trailing;
		tensor->zero = tensor->zero_lines == n_lines(tensor) && !tensor->bad.n;
		tensor->amax = fmaxf(tensor->amax, piece->amax);
		tensor->digest = tensor->digest * 31 + piece->crc;
	}
}

/* Buffers may hold infinite values: masks do. */
static bool is_mask(const struct kept_tensor *tensor)
{
	return tensor->role == ROLE_PARAMETER && !isnan(tensor->bad.value);
}

/* Does a trained model need values in it?  Gates, adapters, convolutions and parameters may begin
 * at zero and stay there. */
static bool needs_values(const struct kept_tensor *tensor)
{
	static const bool needed[N_ROLES] = {
		[ROLE_LINEAR] = true,	    [ROLE_EXPERTS_GATE_UP] = true,
		[ROLE_EXPERTS_DOWN] = true, [ROLE_EXPERTS_UNKNOWN] = true,
		[ROLE_EMBEDDING] = true,    [ROLE_TABLE] = true,
		[ROLE_LM_HEAD] = true,	    [ROLE_OUTPUT_HEAD] = true,
		[ROLE_ROUTER] = true,
	};

	return needed[tensor->role] && tensor->ref->tensor->n_dims >= 2;
}

static bool is_norm(const struct kept_tensor *tensor)
{
	return tensor->role == ROLE_NORM && tensor->weight;
}

static void report_huge(struct verify *verify, const struct kept_tensor *tensor)
{
	const char *name = tensor->ref->tensor->name;

	if (tensor->amax >= MAX_WEIGHT && (needs_values(tensor) || is_norm(tensor)))
		verify_report(verify, PROBLEM_TENSOR_HUGE, tensor->ref, "the amax of '%s' is %g",
			      name, (double)tensor->amax);
}

/* The norms of one name in all layers. */
struct norm_counts {
	size_t n, n_zero;
};

/* Is a norm of zeros wrong?  A zero-centered gamma is 1 + weight, and begins at zero; then all
 * norms of that name are zero in a model that was not trained.  One that others of its name
 * contradict, or all others where no other layer has it, was not left so. */
static bool is_odd(const struct norm_counts *same, const struct norm_counts *all)
{
	return same->n > 1 ? 2 * same->n_zero < same->n : 2 * all->n_zero < all->n;
}

/* Does an embedding have the shape and type of a head, but other bytes, as far as none of the same
 * shape has its bytes? */
static const struct kept_tensor *find_untied(const struct kept_values *kept,
					     const struct kept_tensor *head)
{
	const struct kept_tensor *found = NULL;

	for (size_t t = 0; t < kept->n; t++) {
		const struct kept_tensor *tensor = &kept->tensors[t];

		if (tensor->role != ROLE_EMBEDDING || tensor->n != head->n ||
		    tensor->ref->tensor->dtype != head->ref->tensor->dtype)
			continue;
		if (tensor->digest == head->digest)
			return NULL;
		found = tensor;
	}
	return found;
}

/* A head that config.json ties to the embedding.  Source: llama.py of SGLang 0.5.23 passes over
 * "lm_head."; maybe_untie_word_embeddings() of vLLM 0.32 and tie_weights() of transformers 5.23
 * compare the two, and take a head that differs. */
static void report_tied(const struct kept_values *kept, const struct kept_tensor *head)
{
	struct verify *verify = kept->verify;
	const struct kept_tensor *embedding;

	if (head->role != ROLE_LM_HEAD || !verify->opened.model.tie_is_stated ||
	    !verify->opened.model.tie_word_embeddings ||
	    !engine_has_bit(ENGINE_BIT(ENGINE_SGLANG), verify->opened.target))
		return;
	embedding = find_untied(kept, head);
	if (embedding)
		verify_report(verify, PROBLEM_CONFIG_KEY, head->ref,
			      "tie_word_embeddings of config.json is true, but the values of '%s' "
			      "are not those of '%s': SGLang takes the embedding, vLLM and "
			      "transformers take the head",
			      head->ref->tensor->name, embedding->ref->tensor->name);
}

/* Zeros are reported where neither a source nor a manifest says that they were in the source. */
void kept_values_report(struct kept_values *kept)
{
	struct verify *verify = kept->verify;
	struct norm_counts *norms = xcalloc(verify->roles.names.n, sizeof *norms), all = { 0 };

	join(kept);
	for (size_t t = 0; t < kept->n; t++) {
		const struct kept_tensor *tensor = &kept->tensors[t];

		if (!is_norm(tensor))
			continue;
		norms[tensor->number].n++;
		norms[tensor->number].n_zero += tensor->zero;
		all.n++;
		all.n_zero += tensor->zero;
	}
	for (size_t t = 0; t < kept->n; t++) {
		const struct kept_tensor *tensor = &kept->tensors[t];

		if (!is_mask(tensor))
			verify_report_values(verify, PROBLEM_TENSOR_NONFINITE, tensor->ref,
					     &tensor->bad, tensor->n, "are NaN or infinite");
		if (verify->run.origin || sums_are_right(&verify->run.sums, tensor->ref->shard))
			continue;
		report_huge(verify, tensor);
		report_tied(kept, tensor);
		if (tensor->zero && (needs_values(tensor) ||
				     (is_norm(tensor) && is_odd(&norms[tensor->number], &all))))
			verify_report(verify, PROBLEM_TENSOR_ZERO, tensor->ref,
				      "all %" PRIu64 " values of '%s' are zero", tensor->n,
				      tensor->ref->tensor->name);
		else if (!tensor->zero && needs_values(tensor) &&
			 HALF * tensor->zero_lines >= n_lines(tensor))
			verify_report(verify, PROBLEM_TENSOR_ZERO, tensor->ref,
				      "%" PRIu64 " of %" PRIu64
				      " values of '%s' are zero, one after the other",
				      tensor->zero_lines * tensor->line, tensor->n,
				      tensor->ref->tensor->name);
	}
	free(norms);
}
