/* SPDX-License-Identifier: Apache-2.0 */
#include "eval/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The sums of one module over one sequence. */
struct module_sums {
	struct noise local, accumulated;
	uint64_t n_inputs; /* values that were cast */
	struct cast_counts counts;
};

/* The values of a worker's sequence. */
struct layers_lane {
	const struct pass *of_out; /* the checkpoint's pass, for products with the source's input */
	const float *x;		   /* the source's input of the matrix in question */
	size_t m;
	float *y;			     /* executor memory: (m, n) */
	size_t y_size;			     /* floats */
	struct buffer got;		     /* the same on the host */
	struct buffer wanted[N_LINEARS + 1]; /* the source's outputs by role, and an expert's */
	struct err err;			     /* the first failure */
};

struct layers {
	struct sweep *sweep;
	struct layer_quality *list;
	struct layers_lane *lanes; /* by worker */
	struct module_sums *sums;  /* (max_sequences, n_modules) */
	struct noise *residuals;   /* (max_sequences) */
	const struct layer *layer; /* the current one, of the checkpoint */
	size_t n_modules;	   /* of it */
};

/* Makes a row for each matrix of a layer that has a weight. */
static void list_modules(const struct layer_ref *layer, struct layer_quality *row)
{
	for (size_t i = 0; i < layer_n_linears(layer); i++) {
		const struct linear_ref *ref = layer_linear_ref(layer, i);

		if (!ref->weight)
			continue;
		ARRAY_GROW(row->modules, row->n_modules);
		row->modules[row->n_modules++] = (struct module_quality){ .ref = ref };
	}
}

struct layers *layers_new(struct sweep *sweep, struct layer_quality *list)
{
	struct layers *layers = xcalloc(1, sizeof *layers);
	const struct model *model = sweep->plan.params.models[1].model;

	*layers = (struct layers){ .sweep = sweep, .list = list };
	layers->lanes = xcalloc((size_t)sweep->plan.params.n_threads, sizeof *layers->lanes);
	layers->residuals = xcalloc(sweep->plan.max_sequences, sizeof *layers->residuals);
	for (size_t i = 0; i < model->n_layers; i++)
		list_modules(&model->layers[i], &list[i]);
	return layers;
}

void layers_free(struct layers *layers)
{
	if (!layers)
		return;
	for (int i = 0; i < layers->sweep->plan.params.n_threads; i++) {
		struct layers_lane *lane = &layers->lanes[i];
		struct executor *executor = layers->sweep->runners[1].forward.executor;

		executor->ops->memory_free(executor, lane->y);
		buffer_release(&lane->got);
		for (int l = 0; l <= N_LINEARS; l++)
			buffer_release(&lane->wanted[l]);
	}
	free(layers->lanes);
	free(layers->sums);
	free(layers->residuals);
	free(layers);
}

/* Has the layer this matrix?  One model may have one matrix where the other has several. */
static bool has_linear(const struct layer *layer, size_t place)
{
	const struct linear_ref *ref = layer_linear(layer, place)->ref;

	return ref && ref->weight;
}

static void noise_add(struct noise *sum, const float *wanted, const float *got, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		double far = (double)got[i] - (double)wanted[i];

		sum->signal += (double)wanted[i] * (double)wanted[i];
		sum->noise += far * far;
	}
}

double noise_db(const struct noise *noise)
{
	return noise->signal > 0 ? 10 * log10(noise->signal / noise->noise) : NAN;
}

/* Copies values of the executor to the buffer. */
static int fetch(struct workspace *w, struct buffer *to, const float *values, size_t n,
		 struct err *err)
{
	if (buffer_ensure(to, n * sizeof *values, "the output of a matrix", err))
		return -1;
	w->ops->fetch(w->stream, to->data, values, n * sizeof *values);
	return w->ops->wait(w->stream, err);
}

/* Makes room for n floats in lane->y. */
static int ensure_output(struct layers_lane *lane, struct executor *executor, size_t n,
			 struct err *err)
{
	if (n <= lane->y_size)
		return 0;
	executor->ops->memory_free(executor, lane->y);
	lane->y = NULL;
	lane->y_size = 0;
	if (executor->ops->memory_new(executor, (void **)&lane->y, n * sizeof *lane->y,
				      "the output of a matrix", err))
		return -1;
	lane->y_size = n;
	return 0;
}

static struct module_sums *sums_of(const struct layers *layers, size_t sequence, size_t place)
{
	return &layers->sums[(sequence - layers->sweep->first) * layers->n_modules + place];
}

/* The source's output is known: multiplies the same input by the checkpoint's matrix. */
static int run_local(struct layers *layers, struct layers_lane *lane,
		     const struct observation *observation, struct err *err)
{
	struct runner *of_source = &layers->sweep->runners[0], *of_out = &layers->sweep->runners[1];
	size_t place = layer_linear_number(observation->layer, observation->linear);
	size_t n = observation->n_rows * observation->n_cols;
	const struct linear *linear = layer_linear(layers->layer, place);
	struct workspace *source = of_source->memory.workspaces[observation->worker];
	struct module_sums *sums = sums_of(layers, observation->sequence, place);
	struct buffer *wanted = &lane->wanted[place < N_LINEARS ? place : N_LINEARS];

	if (!has_linear(layers->layer, place))
		return 0;
	if (fetch(source, wanted, observation->values, n, err) ||
	    ensure_output(lane, of_out->forward.executor, n, err) ||
	    forward_linear(lane->of_out, linear, lane->x, lane->m, lane->y, err) ||
	    fetch(lane->of_out->workspace, &lane->got, lane->y, n, err))
		return -1;
	noise_add(&sums->local, wanted->data, lane->got.data, n);
	sums->counts = *lane->of_out->workspace->host.cast_counts;
	sums->n_inputs = linear->cast ? lane->m * linear->ref->k : 0;
	return 0;
}

static void observe_source(void *context, const struct observation *observation)
{
	struct layers *layers = context;
	struct layers_lane *lane = &layers->lanes[observation->worker];

	if (!observation->layer || !observation->linear || lane->err.kind != ERR_NONE)
		return;
	if (observation->what == OBSERVED_X) {
		lane->x = observation->values;
		lane->m = observation->n_rows;
	} else if (observation->what == OBSERVED_Y) {
		run_local(layers, lane, observation, &lane->err);
	}
}

static void observe_out(void *context, const struct observation *observation)
{
	struct layers *layers = context;
	struct layers_lane *lane = &layers->lanes[observation->worker];
	size_t n = observation->n_rows * observation->n_cols, place;

	if (!observation->layer || !observation->linear || observation->what != OBSERVED_Y ||
	    lane->err.kind != ERR_NONE)
		return;
	place = layer_linear_number(observation->layer, observation->linear);
	if (place >= N_LINEARS) /* other tokens may have come to this expert */
		return;
	if (!has_linear(layers->sweep->runners[0].stage->layers, place))
		return;
	if (!fetch(lane->of_out->workspace, &lane->got, observation->values, n, &lane->err))
		noise_add(&sums_of(layers, observation->sequence, place)->accumulated,
			  lane->wanted[place].data, lane->got.data, n);
}

struct observer layers_observer(struct layers *layers, int model)
{
	return (struct observer){ .context = layers,
				  .observe = model ? observe_out : observe_source };
}

int layers_begin(struct layers *layers, struct err *err)
{
	size_t size;

	layers->layer = layers->sweep->runners[1].stage->layers;
	layers->n_modules = layer_n_linears(layers->layer->ref);
	size = layers->sweep->plan.max_sequences * layers->n_modules * sizeof *layers->sums;
	memset(layers->residuals, 0, layers->sweep->plan.max_sequences * sizeof *layers->residuals);
	free(layers->sums);
	layers->sums = NULL;
	if (buffer_alloc((void **)&layers->sums, size, "the numbers of a layer", err))
		return -1;
	memset(layers->sums, 0, size);
	return 0;
}

/* Compares the residual streams of a sequence. */
static int compare_residuals(struct layers *layers, struct layers_lane *lane,
			     const struct pass *source, size_t sequence, struct err *err)
{
	const struct pass *out = lane->of_out;
	const struct model *model = out->forward->model;
	size_t n = out->sequence->n_tokens * model->streams.n * model->hidden;

	if (fetch(source->workspace, &lane->wanted[N_LINEARS], source->sequence->residual, n,
		  err) ||
	    fetch(out->workspace, &lane->got, out->sequence->residual, n, err))
		return -1;
	noise_add(&layers->residuals[sequence], lane->wanted[N_LINEARS].data, lane->got.data, n);
	return 0;
}

int layers_run(struct layers *layers, int worker, size_t sequence, struct err *err)
{
	struct runner *runners = layers->sweep->runners;
	struct layers_lane *lane = &layers->lanes[worker];
	const struct pass source = runner_pass(&runners[0], worker, sequence);
	const struct pass out = runner_pass(&runners[1], worker, sequence);

	const struct span one = { sequence, 1 };

	lane->of_out = &out;
	lane->err = (struct err){ 0 };
	if (runner_run(&runners[0], worker, one, err) || runner_run(&runners[1], worker, one, err))
		return -1;
	if (lane->err.kind != ERR_NONE) {
		*err = lane->err;
		return -1;
	}
	return compare_residuals(layers, lane, &source, sequence, err);
}

static void noise_join(struct noise *to, const struct noise *from)
{
	to->signal += from->signal;
	to->noise += from->noise;
}

/* Adds the sums of a module over all sequences to a row of the layer. */
static void module_end(const struct layers *layers, size_t place, struct layer_quality *row)
{
	const struct linear_ref *ref = layer_linear(layers->layer, place)->ref;
	struct module_quality *module = row->modules;

	if (!has_linear(layers->layer, place))
		return;
	while (module->ref != ref)
		module++;
	for (size_t s = 0; s < layers->sweep->n_sequences; s++) {
		const struct module_sums *sums = &layers->sums[s * layers->n_modules + place];

		noise_join(&module->local, &sums->local);
		noise_join(&module->accumulated, &sums->accumulated);
		module->n_inputs += sums->n_inputs;
		module->n_saturated += sums->counts.n_saturated;
		module->n_zeros += sums->counts.n_zeros;
	}
}

/* Completes the sums of sequences with other ranks' sums. */
static int sums_unite(struct layers *layers, struct err *err)
{
	const struct group *group = layers->sweep->plan.params.group;
	size_t n = layers->sweep->n_sequences;

	if (group_reduce(group, GROUP_UNION, layers->sums,
			 n * layers->n_modules * sizeof *layers->sums, err))
		return -1;
	return group_reduce(group, GROUP_UNION, layers->residuals, n * sizeof *layers->residuals,
			    err);
}

int layers_end(struct layers *layers, struct err *err)
{
	const struct model *model = layers->sweep->runners[1].from->model;
	struct layer_quality *row = &layers->list[layers->layer->ref - model->layers];

	if (sums_unite(layers, err))
		return -1;
	for (size_t place = 0; place < layers->n_modules; place++)
		module_end(layers, place, row);
	for (size_t s = 0; s < layers->sweep->n_sequences; s++)
		noise_join(&row->residual, &layers->residuals[s]);
	return 0;
}
