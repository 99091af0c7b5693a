/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that weights need, before any of them is loaded.
 */
#include "sweep/weights.h"

static uint64_t linear_size(const struct linear_ref *ref, const struct weights_kind *kind)
{
	return (uint64_t)ref->n * ref->k * dtype_bits(kind->dtype) / 8;
}

static uint64_t piece_size(const struct linear_ref *ref, const struct weights_kind *kind)
{
	uint64_t size = linear_size(ref, kind);

	return ref->n ? size / ref->n * kind->executor->portion(PORTION_WEIGHT, ref->n) : 0;
}

/* The size of a loading. */
struct load_size {
	uint64_t weights, largest_piece; /* bytes */
	uint64_t n_pieces;
};

static void load_size_add(struct load_size *size, const struct linear_ref *ref,
			  const struct weights_kind *kind)
{
	uint64_t piece = piece_size(ref, kind);
	size_t rows;

	if (!ref->n)
		return;
	rows = kind->executor->portion(PORTION_WEIGHT, ref->n);
	size->weights += linear_size(ref, kind);
	size->largest_piece = piece > size->largest_piece ? piece : size->largest_piece;
	size->n_pieces += (ref->n + rows - 1) / rows;
}

/* Returns the bytes at most of the pieces of a loading: each thread has one at a time. */
static uint64_t load_size_pieces(const struct load_size *size, int n_threads)
{
	uint64_t n = size->n_pieces < (uint64_t)n_threads ? size->n_pieces : (uint64_t)n_threads;

	return n * size->largest_piece;
}

static struct load_size layer_load_size(const struct layer_ref *layer,
					const struct weights_kind *kind)
{
	struct load_size size = { 0 };

	for (size_t l = 0; l < layer_n_linears(layer); l++)
		load_size_add(&size, layer_linear_ref(layer, l), kind);
	return size;
}

uint64_t weights_model_size(const struct model *model, const struct weights_kind *kind)
{
	struct load_size size = { 0 };

	load_size_add(&size, &model->head, kind);
	for (size_t i = 0; i < model->n_layers; i++)
		size.weights += layer_load_size(&model->layers[i], kind).weights;
	return size.weights;
}

uint64_t weights_layer_size(const struct model *model, const struct weights_kind *kind,
			    int n_threads, bool ahead)
{
	struct load_size size, head = { 0 };
	uint64_t most = 0, most_pieces = 0, bytes, pieces, before;

	load_size_add(&head, &model->head, kind);
	before = head.weights;
	for (size_t i = 0; i <= model->n_layers; i++) {
		size = i < model->n_layers ? layer_load_size(&model->layers[i], kind) : head;
		bytes = size.weights + (ahead ? before : 0);
		pieces = load_size_pieces(&size, n_threads);
		most = bytes > most ? bytes : most;
		most_pieces = pieces > most_pieces ? pieces : most_pieces;
		before = size.weights;
	}
	return most + most_pieces;
}
