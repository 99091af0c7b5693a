/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/knapsack.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"

/* A step of a set to a better option, from the one that the step before reaches. */
struct knapsack_step {
	size_t set, number; /* of the steps of this set */
	size_t to;	    /* option */
	double saved;	    /* divergence */
	int64_t n_bytes;    /* more than before; <= 0: the first step of a set may cost nothing */
	double worth;	    /* saved per byte */
};

struct knapsack_steps {
	struct knapsack_step *list;
	size_t n;
};

static double worth_of(double saved, int64_t n_bytes)
{
	return n_bytes > 0 ? saved / (double)n_bytes : INFINITY;
}

/* Returns the option with fewest bytes of those that are better than options[0] and not larger, or
 * 0 without one. */
static size_t find_free(const struct knapsack_set *set)
{
	const struct knapsack_option *options = set->options;
	size_t found = 0;

	for (size_t i = 1; i < set->n_options; i++) {
		const struct knapsack_option *best = &options[found], *option = &options[i];

		if (option->kld >= options->kld || option->n_bytes > options->n_bytes)
			continue;
		if (!found || option->n_bytes < best->n_bytes ||
		    (option->n_bytes == best->n_bytes && option->kld < best->kld))
			found = i;
	}
	return found;
}

/* Returns the option that saves most per byte from `from` on, the largest of equal ones; `from` if
 * none is better. */
static size_t find_next(const struct knapsack_set *set, size_t from)
{
	const struct knapsack_option *options = set->options;
	size_t found = from;
	double best = 0;

	for (size_t i = 0; i < set->n_options; i++) {
		int64_t n_bytes = options[i].n_bytes - options[from].n_bytes;
		double saved = options[from].kld - options[i].kld, worth;

		if (!(saved > 0) || n_bytes <= 0)
			continue;
		worth = worth_of(saved, n_bytes);
		if (worth > best ||
		    (worth >= best && options[i].n_bytes > options[found].n_bytes)) {
			best = worth;
			found = i;
		}
	}
	return found;
}

/* Adds the steps of a set along its lower convex hull. */
static void add_steps(struct knapsack_steps *steps, const struct knapsack_set *set, size_t number)
{
	size_t from = 0, to = find_free(set);

	if (!to)
		to = find_next(set, from);
	for (size_t i = 0; to != from; i++) {
		struct knapsack_step step = { .set = number, .number = i, .to = to };

		step.saved = set->options[from].kld - set->options[to].kld;
		step.n_bytes = set->options[to].n_bytes - set->options[from].n_bytes;
		step.worth = worth_of(step.saved, step.n_bytes);
		ARRAY_GROW(steps->list, steps->n);
		steps->list[steps->n++] = step;
		from = to;
		to = find_next(set, from);
	}
}

/* Compares worth, the largest first; of steps that cost nothing the larger ones; else by their
 * places. */
static int compare_steps(const void *one, const void *other)
{
	const struct knapsack_step *a = one, *b = other;

	if (a->worth < b->worth || a->worth > b->worth)
		return a->worth < b->worth ? 1 : -1;
	if (isinf(a->worth) && (a->saved < b->saved || a->saved > b->saved))
		return a->saved < b->saved ? 1 : -1;
	if (a->set != b->set)
		return a->set < b->set ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

void knapsack_choose(struct knapsack_set *sets, size_t n, const struct knapsack_limit *limit)
{
	struct knapsack_steps steps = { 0 };
	bool *closed = xcalloc(n, sizeof *closed); /* a step was left out */
	double kld = 0;
	int64_t n_bytes = 0;

	for (size_t i = 0; i < n; i++) {
		sets[i].chosen = 0;
		kld += sets[i].options[0].kld;
		add_steps(&steps, &sets[i], i);
	}
	sort(steps.list, steps.n, sizeof *steps.list, compare_steps);
	for (size_t i = 0; i < steps.n; i++) {
		const struct knapsack_step *step = &steps.list[i];

		if (!limit->by_bytes && kld <= limit->kld)
			break;
		closed[step->set] |=
			limit->by_bytes && (double)(n_bytes + step->n_bytes) > limit->n_bytes;
		if (closed[step->set])
			continue;
		sets[step->set].chosen = step->to;
		n_bytes += step->n_bytes;
		kld -= step->saved;
	}
	free(steps.list);
	free(closed);
}
