/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of an evaluation, from the losses and divergences of positions.  P is the source's
 * distribution at a position, Q that of the checkpoint; logarithms are natural, sums fp64.
 *
 * Order: samples_init(); samples_add() for each sequence, in any order and from any thread;
 * quality_compute(); samples_release().
 *
 * Source: the names are llama-perplexity's (llama.cpp); standard errors are over the means
 * of sequences, which are independent, where positions are not.
 */
#ifndef FP8CONV_EVAL_QUALITY_H
#define FP8CONV_EVAL_QUALITY_H

#include <stdbool.h>
#include <stddef.h>

#include "dataset/dataset.h"
#include "forward/forward.h"
#include "quantizer/group.h"
#include "sweep/series.h"

/* A distribution of numbers: its maximum, percentiles by linear interpolation between order
 * statistics, its median and its minimum, in the order of spread_names. */
#define N_SPREAD 10
struct spread {
	double of[N_SPREAD];
};

extern const char *const spread_names[N_SPREAD]; /* "max", "p99_9", ..., "min" */

struct quality {
	size_t n_sequences;
	size_t n_positions;		   /* that count, */
	size_t n_targets;		   /* and how many of them have a next token */
	bool has_source;		   /* without it only perplexity is set */
	struct estimate perplexity;	   /* of Q: exp(mean of -ln Q(target)) */
	struct estimate source_perplexity; /* of P */
	struct estimate ln_ratio;	   /* mean of ln P(target) - ln Q(target) */
	struct estimate ratio;		   /* exp(ln_ratio) */
	struct estimate difference;	   /* PPL(Q) - PPL(P) */
	double correlation;		   /* Pearson's, of the losses of targets */
	struct estimate kld;		   /* mean over positions of sum P ln(P / Q) */
	double reverse_kld;		   /* of sum Q ln(Q / P) */
	struct spread kld_spread;
	double delta_p, delta_p_rms; /* mean and RMS of 100 (Q(target) - P(target)) */
	struct spread delta_p_spread;
	struct estimate same_top; /* percent of positions with the same most likely token */
};

/* The numbers of all positions of a data set that count. */
struct samples {
	bool has_source;
	size_t n_sequences, n_positions, n_targets;
	size_t first_counted;	 /* in all sequences but the first */
	size_t *position_first;	 /* (n_sequences + 1): where the positions of a sequence begin */
	size_t *target_first;	 /* (n_sequences + 1): likewise */
	double *loss_p, *loss_q; /* (n_targets) */
	double *kl;		 /* (n_positions) */
	double *reverse_kl, *same_top; /* (n_sequences): sums */
};

/* Allocates for the sequences of data.  All but the first count from position first_counted on,
 * which each of them has, and with it the prediction of the token there.  ERR_SYSTEM without
 * memory. */
int samples_init(struct samples *samples, const struct dataset *data, size_t first_counted,
		 bool has_source, struct err *err);
void samples_release(struct samples *samples);

/* Adds sequence i: losses (n_tokens - 1) of P and Q, divergences (n_tokens).  Without a source
 * losses_p and divergences are NULL. */
void samples_add(struct samples *samples, size_t i, const double *losses_p, const double *losses_q,
		 const struct divergence *divergences);

/* Completes sequences [first, first + n) by those that other ranks of the group have added. */
int samples_unite(struct samples *samples, const struct group *group, size_t first, size_t n,
		  struct err *err);

/* Computes all numbers, and uses the samples up: they can only be released then. */
void quality_compute(struct quality *quality, struct samples *samples);

#endif
