/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of a checkpoint's error arises in each module, and how much arrives there: the output of
 * every matrix against the source's, for the source's input (local) and for its own (accumulated),
 * and the residual stream after each layer.
 *
 * Order: layers_new(); for each layer layers_begin(), layers_run() for every sequence, from any
 * thread, layers_end(); layers_free().  Both models have these observers meanwhile.
 */
#ifndef FP8CONV_EVAL_LAYERS_H
#define FP8CONV_EVAL_LAYERS_H

#include "sweep/sweep.h"

/* Sums over the values of the source's output and over the squares of the differences. */
struct noise {
	double signal, noise;
};

struct module_quality {
	const struct linear_ref *ref; /* of the checkpoint */
	struct noise local;
	struct noise accumulated;      /* signal 0: of an expert, whose tokens may differ */
	uint64_t n_inputs;	       /* values that were cast; 0: none are */
	uint64_t n_saturated, n_zeros; /* of them; zeros that were none before */
};

struct layer_quality {
	struct noise residual; /* of the residual stream after the layer */
	struct module_quality *modules;
	size_t n_modules;
};

struct layers;

/* The sweep's first model is the source, the second the checkpoint.  Fills list (n_layers), which
 * is zeroed and outlives the layers, with rows for all modules, and adds to them. */
struct layers *layers_new(struct sweep *sweep, struct layer_quality *list);
void layers_free(struct layers *layers); /* accepts NULL */

/* Returns what the source, or the checkpoint, is observed by. */
struct observer layers_observer(struct layers *layers, int model);

/* Allocates the sums of the current layer.  ERR_SYSTEM without memory. */
int layers_begin(struct layers *layers, struct err *err);

/* Runs a sequence through the current layer of both models. */
int layers_run(struct layers *layers, int worker, size_t sequence, struct err *err);

/* Adds the sums of all sequences, in their order, to the layer's row of the list. */
int layers_end(struct layers *layers, struct err *err);

/* Returns 10 log10(signal / noise) dB; infinity without noise, NAN without signal. */
double noise_db(const struct noise *noise);

#endif
