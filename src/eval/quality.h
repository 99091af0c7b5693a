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
#include "ranks/group.h"
#include "sweep/series.h"

#define N_SPREAD 10 /* numbers of a distribution: its maximum, percentiles, its minimum */

/* Every number of an evaluation.  P is the source, Q the checkpoint. */
enum quality_number {
	QUALITY_PERPLEXITY,	   /* of Q: exp(mean of -ln Q(target)) */
	QUALITY_SOURCE_PERPLEXITY, /* of P; this and what follows need a source */
	QUALITY_CORRELATION,	   /* Pearson's, of the losses of targets */
	QUALITY_LN_RATIO,	   /* mean of ln P(target) - ln Q(target) */
	QUALITY_RATIO,		   /* exp(ln_ratio) */
	QUALITY_DIFFERENCE,	   /* PPL(Q) - PPL(P) */
	QUALITY_KLD,		   /* mean over positions of sum P ln(P / Q) */
	QUALITY_REVERSE_KLD,	   /* of sum Q ln(Q / P) */
	QUALITY_KLD_SPREAD,
	QUALITY_DELTA_P = QUALITY_KLD_SPREAD + N_SPREAD, /* mean of 100 (Q(target) - P(target)) */
	QUALITY_DELTA_P_RMS,
	QUALITY_DELTA_P_SPREAD,
	QUALITY_SAME_TOP = QUALITY_DELTA_P_SPREAD + N_SPREAD, /* percent of positions with the same
								 most likely token */
	N_QUALITY
};

/* How a number is printed, written as JSON and read back, and shown in a report. */
struct quality_row {
	const char *object;  /* its object in the JSON, the same pointer in all its rows; NULL: a
			      * member by itself, {value, se} if has_error */
	const char *key;     /* its name there */
	const char *label;   /* in text: llama-perplexity's words */
	const char *heading; /* above it in text; NULL: none */
	const char *title;   /* in a report; NULL: not there */
	const char *unit;    /* after the number: "", " %" */
	double factor;	     /* 0: 1; of the number where it has the unit */
	bool has_error;
	bool of_spread; /* one of N_SPREAD */
	bool in_card;	/* of a report, and not only in its page */
};

extern const struct quality_row quality_rows[N_QUALITY];

struct quality {
	size_t n_sequences;
	size_t n_positions;	       /* that count, */
	size_t n_targets;	       /* and how many of them have a next token */
	bool has_source;	       /* without it only the perplexity is set */
	struct estimate of[N_QUALITY]; /* se: NAN where there is none */
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
