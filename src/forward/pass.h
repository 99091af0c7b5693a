/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts that the steps of a pass share: products with their observations, and norms.  Most
 * steps use pass_linear(); the head uses its three parts one by one, in the order pass_round(),
 * pass_input(), pass_output().
 */
#ifndef FP8CONV_FORWARD_PASS_H
#define FP8CONV_FORWARD_PASS_H

#include "forward/workspace.h"

/* n matrices with one input: ys[i] (m, linears[i]->ref->n) = x (m, k) w^T + bias. */
struct products {
	const struct linear *const *linears;
	size_t n;
	float *x;
	size_t m;
	float *const *ys;
	bool x_ends; /* nothing else takes x: its values need not be there as fp32 */
	/* NULL, or (n), written: the stats to which the caller adds ys[i], after its bias */
	struct value_stats **y_stats;
};

/* Computes the products.  x is rounded in place, once.  Observers are called with x and y of each
 * matrix. */
void pass_products(const struct pass *pass, const struct products *products);

/* The same for one matrix: y (m, n) = x (m, k) w^T + bias. */
void pass_linear(const struct pass *pass, const struct linear *linear, float *x, size_t m,
		 float *y);

/* Part one: rounds x (m, k) in place, and adds it to the stats of the next slot; does nothing of
 * that to an input that is ready.  ends: products.x_ends. */
struct observation pass_round(const struct pass *pass, float *x, size_t m, size_t k, bool ends);

/* Returns the place of the stats and codes of an input x (n) that is rounded by the operation that
 * makes it, for the next slot, and remembers in *ready that it is.  stats NULL: it cannot be. */
struct rounded_out pass_ready(const struct pass *pass, struct ready_input *ready, const float *x,
			      size_t n, uint16_t *codes);

/* Returns codes, the place of an input as bf16; NULL if inputs are not products' as bf16, or cast
 * before. */
uint16_t *pass_codes(const struct pass *pass, uint16_t *codes);

/* Whether the fp32 values of such an input are needed beside the codes: ends as above. */
bool pass_keeps(const struct pass *pass, bool ends);

/* Adds workspace->own->out to the stats that wait for it. */
void pass_observe_out(const struct pass *pass);

/* Part two: calls the observer with x, and returns the values to multiply. */
const void *pass_input(const struct pass *pass, const struct linear *linear,
		       const struct observation *x);

/* Rows that products read, of one sequence; or of several, each of whose rows of one expert are a
 * segment. */
struct input_rows {
	const float *values; /* (n_rows, n_cols) */
	size_t n_rows, n_cols;
	struct cast_counts *counts; /* of the cast; NULL: none */
	const uint32_t *segments;   /* (n_rows); NULL: one sequence */
	size_t n_segments;	    /* of all experts and sequences */
};

/* Returns the values to multiply in the place of the rows: rounded, or cast, unless the matrix
 * before had the same rows in the same way.  Between two inputs at one place, the caller sets
 * input.rounded_from and cast.from to NULL. */
const void *pass_prepare(const struct pass *pass, const struct linear *linear,
			 const struct input_rows *rows);

/* Does pass_prepare() return the same values for both matrices, and add the input to the same
 * stats? */
bool pass_inputs_equal(const struct linear *a, const struct linear *b);

/* Part three: adds the bias to y (y.n_rows, y.n_cols), which is the columns of a product from
 * `first` on, adds y to the stats of y.slot, and calls the observer. */
void pass_output(const struct pass *pass, const struct linear *linear, float *y, size_t first,
		 struct observation observation);

/* y (m, n) += bias (n), each row; bias NULL: does nothing. */
void pass_bias(const struct pass *pass, const float *bias, float *y, size_t m, size_t n);

/* y (m, n) = input (m, k) w^T, without the bias; with parts, input has n_parts m rows. */
void pass_multiply(const struct pass *pass, const struct linear *linear, const void *input,
		   size_t m, float *y);

/* Adds n values to *stats. */
void pass_amax(const struct pass *pass, const float *x, size_t n, struct value_stats *stats);

/* x = activation(x), of n values. */
void pass_activate(const struct pass *pass, enum activation activation, float *x, size_t n);

/* x += y, of n values. */
void pass_add(const struct pass *pass, float *x, const float *y, size_t n);

/* Calls the observer with values that an operation has added to the stats of observation->slot. */
void pass_observed(const struct pass *pass, const struct observation *observation);

/* Adds the values to the stats of observation->slot, and calls the observer. */
void pass_observe(const struct pass *pass, const struct observation *observation);

/* Returns how many rows to take at a time through matrices that read and write n values a row.  A
 * cast takes all rows at once, because its scale may be of the whole input. */
size_t pass_rows(const struct pass *pass, size_t n);

/* The arguments of the model's RMS norm of the hidden values of each token, by weight: from x to
 * y. */
struct rms_norm_args pass_norm_args(const struct pass *pass, const float *x, const float *weight,
				    float *y);

/* y = the model's RMS norm of x by weight (n_cols); x and y are (n_rows, n_cols).  y may be x. */
void pass_norm(const struct pass *pass, struct rows_in x, const float *weight, struct rows_out y,
	       size_t n_rows, size_t n_cols);

/* The same for the hidden values of each token; x and y are (n_tokens, hidden). */
void pass_norm_tokens(const struct pass *pass, const float *x, const float *weight, float *y);

/* The same for own->out in place, with the eps of outputs. */
void pass_norm_out(const struct pass *pass, const float *weight);

/* Norms x (n_rows, n_cols) in place, without weights. */
void pass_norm_plain(const struct pass *pass, float *x, size_t n_rows, size_t n_cols);

/* y = x, the hidden values of each token; they do not overlap. */
void pass_copy_tokens(const struct pass *pass, const float *x, float *y);

/* x = factor x, for x (n_rows, n_cols); does nothing for a factor of 1. */
void pass_scale(const struct pass *pass, float *x, float factor, size_t n_rows, size_t n_cols);

/* The two steps of a layer, the first by its mixer: from workspace->own->normed (tokens, hidden) to
 * workspace->own->out (tokens, hidden). */
void attention_run(const struct pass *pass);

void delta_run(const struct pass *pass);
void mamba_run(const struct pass *pass);
void mamba_run_beside(const struct pass *pass); /* attention */
void mamba1_run(const struct pass *pass);
void conv_run(const struct pass *pass);
void mlp_run(const struct pass *pass);

/* mlp.gate (m, width) = the clamped activation of mlp.gate and mlp.up; or of pairs of both in
 * fused_out, where mlp.gate and mlp.up go first unless they are there. */
void mlp_gate_clamped(const struct pass *pass, size_t m, size_t width, bool are_pairs);

/* Multiplies queries, and what weighs their biases by distance, by the factors of their positions.
 */
void queries_grow(const struct pass *pass);

/* Biases by distance: the part of queries_grow(), whose factors are put; and what attention of the
 * queries from `first` on takes, if the layer has biases. */
void distances_grow(const struct pass *pass);
void distances_set(const struct pass *pass, size_t first, struct attention_args *args);

/* x (tokens, n_cols) += its short convolution of a role, if the layer has it.  Uses attn_out, which
 * must be free. */
void short_conv_run(const struct pass *pass, enum vector_role role, float *x, size_t n_cols);

/* Chooses keys by the layer's indexer, whose products are in workspace->index, rotated by the
 * layer's angles, which are put.  Does nothing in a layer without one, and where a query gets all
 * keys. */
void indexer_run(const struct pass *pass);

/* Return where the products go of which the indexer's queries and keys are made. */
float *indexer_queries(const struct pass *pass);
float *indexer_keys(const struct pass *pass);

/* Returns the sets of keys of the layer's queries, as in struct attention_args; NULL: all keys. */
const uint32_t *indexer_sets(const struct pass *pass);

/* Computes the angles, which depend on the rope and on positions, if one of these has changed. */
void rotation_put_angles(struct workspace *w, const struct rope *rope, size_t n_tokens);

/* Whether the rotation takes all values of q and k, and nothing else changes them between their
 * matrices and it, or after it: then it adds them to their stats. */
bool rotation_is_first(const struct pass *pass);
bool rotation_is_last(const struct pass *pass);

/* Rotates queries and, unless they are latent, keys; or the first values of each head of x in
 * place, from the first such value on; or the last values, from the first of a head on.  before,
 * after: as in rope_args. */
void rotation_run(const struct pass *pass);

/* Moves the elements of adjacent pairs half of n apart, in the first n values of each row.  Uses
 * attn_out, which must be free. */
void rotation_deinterleave(const struct pass *pass, struct rows_out x, size_t n_rows, size_t n);
void rotation_run_on(const struct pass *pass, struct rows_out x, size_t n_heads,
		     struct value_stats *before, struct value_stats *after);

/* Turn the values of attn_out back; and rotate n_pools keys of pools by the position of the first
 * token of each. */
void rotation_back(const struct pass *pass);
void rotation_of_pools(const struct pass *pass, struct rows_out x, size_t n_pools,
		       size_t pool_size);

/* Returns the number of heads of keys that the layer computes. */
size_t rotation_key_heads(const struct layer_ref *ref);

/* Round as a cache in FP8 does: keys and values, unless they are of another layer; or what latent
 * attention caches, the latent vector and the rotated values, by one scale. */
void caches_round(const struct pass *pass);
void caches_round_latent(const struct pass *pass);

/* Keep the layer's keys and values with the sequence, for layers that use them; and take those that
 * the layer uses. */
void caches_keep(const struct pass *pass);
void caches_take(const struct pass *pass);

/* Hyper-connections: whether the model has them; the number of weights that a token keeps from the
 * begin of a block to its end; the sum that a block takes, (tokens, hidden), before its norm; and
 * the end, with own->out. */
bool streams_are_mixed(const struct pass *pass);
size_t streams_n_mixes(const struct model *model);
const float *streams_begin(const struct pass *pass, enum vector_role mix);
void streams_end(const struct pass *pass);

/* y = the norm of each vector of x by its part of the weight; x and y are (tokens, streams.n,
 * hidden).  y may be x. */
void streams_norm(const struct pass *pass, const float *x, const float *weight, float *y);

/* y (m, hidden) = the mean of the vectors of each of m tokens of x. */
void streams_mean(const struct pass *pass, const float *x, size_t m, float *y);

/* List the arrays of hyper-connections of low rank; and return the values of their widest input. */
void streams_list_arrays(struct workspace *w, const struct model *model, uint64_t n_tokens);
uint64_t streams_widest_input(const struct model *model);

/* Hyper-connections of low rank: the sum that a block takes, in own->out; behind the last layer,
 * what the head takes, which becomes the first vector of each token. */
void low_rank_begin(const struct pass *pass, enum vector_role mix);
void low_rank_last(const struct pass *pass);

/* Adds the layer's n-gram embedding to the vectors of the residual stream. */
void ngrams_run(const struct pass *pass);

/* Returns what the final norm takes of tokens [first, first + m): in y (m, hidden), or of the
 * residual stream. */
const float *streams_last(const struct head_pass *run, size_t first, size_t m, float *y);

/* Compressed keys: makes the layer's pools of the products in workspace->pool, puts the keys of
 * tokens behind them, and chooses.  Does nothing where no pool is whole. */
void pools_run(const struct pass *pass);

/* Returns the number of whole pools of the layer. */
size_t pools_count(const struct pass *pass);

/* own->out = the matrices of attention's output times attn_out, which is multiplied by the gates of
 * the layer before, if it has any: in fused_out, or head_gates. */
void output_run(const struct pass *pass);

/* The inputs that layers have of their own: adds to the inputs of all layers what the residual
 * stream before the first layer gives; and the third step of a layer, from normed to out as
 * above. */
void layer_inputs_run(const struct pass *pass);
void layer_input_run(const struct pass *pass);

/* The second step of a layer of experts, in parts: what each sequence of a group does before the
 * experts; the experts; what each adds after them. */
struct expert_rows {
	const float *in; /* (tokens, width): of all experts */
	float *out;	 /* (tokens, width): where their outputs are added up */
	size_t width;	 /* of the layer, or smaller */
};
struct expert_rows experts_rows(const struct pass *pass);
void experts_begin(const struct pass *pass);
void experts_end(const struct pass *pass);

/* Runs all experts on the tokens of n sequences, of which pass->sequence is the first: routes them,
 * and waits once.  The number of operations of a `grouped` executor does not depend on n. */
int experts_run(const struct pass *pass, size_t n, struct err *err);

/* Computes the scores of each token of workspace->own->normed, and own->shared_scores, the factors
 * of the shared expert, if it has its own router. */
void router_run(const struct pass *pass);

/* Chooses the experts of the tokens of n sequences by workspace->scores.  Fills workspace->route;
 * host.counts (experts, n) becomes the numbers of tokens.  Waits. */
int router_choose(const struct pass *pass, size_t n, struct err *err);

#endif
