/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups of matrices: those of a layer that share an input, all experts of a layer or each of
 * them, the head.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "sensitivity/steps.h"

#define ROLE(name) ((uint64_t)1 << LINEAR_##name)

/* Matrices of a layer that share an input; the shared expert, whose matrices belong together. */
static const struct site {
	const char *name;
	uint64_t roles; /* bits of enum linear_role */
} sites[] = {
	{ "qkv", ROLE(Q) | ROLE(K) | ROLE(V) | ROLE(QKV) | ROLE(Q_A) | ROLE(KV_A) | ROLE(INDEX_K) |
			 ROLE(INDEX_WEIGHTS) },
	{ "in_proj", ROLE(DELTA_QKVZ) | ROLE(DELTA_BA) | ROLE(DELTA_QKV) | ROLE(DELTA_Z) |
			     ROLE(DELTA_B) | ROLE(DELTA_A) | ROLE(MAMBA_IN) | ROLE(CONV_IN) },
	{ "x_proj", ROLE(MAMBA_X) },
	{ "dt_proj", ROLE(MAMBA_STEP) },
	{ "q_b", ROLE(Q_B) | ROLE(INDEX_Q) },
	{ "kv_b", ROLE(KV_B) },
	{ "o", ROLE(O) },
	{ "out_proj", ROLE(DELTA_OUT) | ROLE(MAMBA_OUT) | ROLE(CONV_OUT) },
	{ "gate_up", ROLE(GATE) | ROLE(UP) | ROLE(GATE_UP) },
	{ "down", ROLE(DOWN) },
	{ "router", ROLE(ROUTER) | ROLE(SHARED_ROUTER) },
	{ "latent", ROLE(LATENT_IN) | ROLE(LATENT_OUT) },
	{ "shared_expert", ROLE(SHARED_GATE) | ROLE(SHARED_UP) | ROLE(SHARED_DOWN) },
};

/* A quantized unit by its place in the checkpoint. */
struct place {
	uint64_t shard, begin, first; /* begin: bytes; first: element of the tensor */
	size_t unit;
	bool used;
};

/* The units of one recipe. */
struct places {
	struct place *list;
	size_t n;
};

static int compare_places(const void *one, const void *other)
{
	const struct place *a = one, *b = other;

	if (a->shard != b->shard)
		return a->shard < b->shard ? -1 : 1;
	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return (a->first > b->first) - (a->first < b->first);
}

static struct place place_of(const struct tensor_ref *tensor, uint64_t first)
{
	return (struct place){ .shard = tensor->shard,
			       .begin = tensor->tensor->begin,
			       .first = first };
}

static void places_make(struct places *places, const struct selection *selection)
{
	places->list = xcalloc(selection->n_quantized, sizeof *places->list);
	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];

		if (!unit->recipe)
			continue;
		places->list[places->n] = place_of(unit->source, unit->slice.first);
		places->list[places->n++].unit = u;
	}
	sort(places->list, places->n, sizeof *places->list, compare_places);
}

/* Returns the unit that is this matrix, or NULL. */
static struct place *places_find(const struct places *places, const struct selection *selection,
				 const struct linear_ref *ref)
{
	struct place wanted, *found;
	const struct unit *unit;

	if (!ref->weight)
		return NULL;
	wanted = place_of(ref->weight, ref->slice.first);
	found = bsearch(&wanted, places->list, places->n, sizeof wanted, compare_places);
	unit = found ? &selection->units[found->unit] : NULL;
	return unit && !unit->table && unit->rows == ref->n && unit->cols == ref->k &&
			       unit->slice.col_stride == ref->slice.col_stride
		       ? found
		       : NULL;
}

/* The state of groups_make(). */
struct maker {
	struct sensitivity_plan *plan;
	struct places *places; /* by recipe */
	size_t recipe;
	size_t layer; /* SIZE_MAX: the head */
};

/* Returns the cast of inputs that an engine makes beside the unit. */
static struct engine_cast cast_of(const struct plan *plan, size_t u)
{
	const struct qspec *spec = plan->units[u].spec;
	struct engine_cast cast;

	engine_cast_dynamic(&cast, qspec_granularity(spec), spec->format, spec->tile.cols,
			    spec->pow2, spec->mx_rule);
	if (plan->selection.units[u].static_input)
		engine_cast_static(&cast, plan->units[u].input_scale_inv);
	return cast;
}

/* Returns the bytes of the outputs of unit u. */
static uint64_t output_size(const struct plan *plan, size_t u)
{
	const struct output_shard *shard = &plan->shards[plan->selection.units[u].source->shard];
	uint64_t size = 0;

	for (size_t i = plan->units[u].first_output;
	     i < shard->n_tensors && shard->outputs[i].unit == u; i++)
		size += st_tensor_size(&shard->tensors[i]);
	return size;
}

/* Returns the name of a unit's module: without ".weight".  The caller frees it. */
static char *module_name(const struct unit *unit)
{
	size_t n = strlen(unit->name);

	if (n > 7 && !strcmp(unit->name + n - 7, ".weight"))
		n -= 7;
	return xstrndup(unit->name, n);
}

/* Adds a matrix to the last group, if it is quantized. */
static void add_matrix(struct maker *maker, const struct linear_ref *ref)
{
	struct sensitivity_plan *plan = maker->plan;
	const struct plan *from = &plan->plans[maker->recipe];
	size_t g = plan->table.n_groups - 1;
	struct kld_group *group = &plan->table.groups[g];
	struct sensitivity_members *members = &plan->members[g];
	struct place *place = places_find(&maker->places[maker->recipe], &from->selection, ref);
	struct engine_cast cast;
	char *name;

	if (!place)
		return;
	place->used = true;
	cast = cast_of(from, place->unit);
	ARRAY_GROW(members->list, members->n);
	members->list[members->n++] =
		(struct sensitivity_member){ place->unit, ref,
					     engine_casts_add(&plan->casts, &cast) };
	name = module_name(&from->selection.units[place->unit]);
	kld_group_add(group, name, ref->n, ref->k);
	free(name);
	group->bf16_bytes += (uint64_t)ref->n * ref->k * sizeof(uint16_t);
	group->fp8_bytes += output_size(from, place->unit);
}

/* Begins a group, and takes over its name. */
static void group_begin(struct maker *maker, char *name)
{
	struct sensitivity_plan *plan = maker->plan;
	struct kld_group *group;

	ARRAY_GROW(plan->members, plan->table.n_groups);
	plan->members[plan->table.n_groups] = (struct sensitivity_members){ 0 };
	group = kld_table_add_group(&plan->table, name);
	group->recipe = maker->recipe;
	group->layer = maker->layer;
	free(name);
}

/* Ends a group: one without a matrix is none. */
static void group_end(struct maker *maker)
{
	struct kld_table *table = &maker->plan->table;

	if (!table->groups[table->n_groups - 1].n)
		free(table->groups[--table->n_groups].name);
}

static void add_site(struct maker *maker, const struct layer_ref *layer, const struct site *site)
{
	group_begin(maker, xasprintf("layers.%zu.%s", maker->layer, site->name));
	for (int role = 0; role < N_LINEARS; role++)
		if (site->roles >> role & 1)
			add_matrix(maker, &layer->linear[role]);
	group_end(maker);
}

/* Are gate and up of experts multiplied as one matrix, but quantized as two?  Such experts are not
 * measured: their down matrices alone would be no group that could be kept. */
static bool are_apart(const struct maker *maker, const struct layer_ref *layer)
{
	const struct linear_ref *both = &layer->experts[0][EXPERT_ROLE_GATE_UP];

	return both->weight && !places_find(&maker->places[maker->recipe],
					    &maker->plan->plans[maker->recipe].selection, both);
}

static void add_experts(struct maker *maker, const struct layer_ref *layer, bool by_expert)
{
	if (layer->n_experts && are_apart(maker, layer))
		return;
	for (size_t e = 0; e < layer->n_experts; e++) {
		if (by_expert)
			group_begin(maker, xasprintf("layers.%zu.expert.%zu", maker->layer, e));
		else if (e == 0)
			group_begin(maker, xasprintf("layers.%zu.experts", maker->layer));
		for (int role = 0; role < N_EXPERT_ROLES; role++)
			add_matrix(maker, &layer->experts[e][role]);
		if (by_expert || e + 1 == layer->n_experts)
			group_end(maker);
	}
}

static void add_layer(struct maker *maker, const struct layer_ref *layer, bool by_expert)
{
	for (size_t i = 0; i < sizeof sites / sizeof *sites; i++)
		add_site(maker, layer, &sites[i]);
	add_experts(maker, layer, by_expert);
}

/* Notes the units that no group has. */
static void list_unmeasured(struct kld_recipe *recipe, const struct plan *plan,
			    const struct places *places)
{
	for (size_t i = 0; i < places->n; i++) {
		if (places->list[i].used)
			continue;
		ARRAY_GROW(recipe->unmeasured, recipe->n_unmeasured);
		recipe->unmeasured[recipe->n_unmeasured++] =
			module_name(&plan->selection.units[places->list[i].unit]);
	}
}

int groups_make(struct sensitivity_plan *plan, bool by_expert, struct err *err)
{
	struct maker maker = { .plan = plan,
			       .places = xcalloc(plan->n_plans, sizeof *maker.places) };
	const struct model *model = &plan->model;

	for (size_t r = 0; r < plan->n_plans; r++) {
		kld_table_add_recipe(&plan->table, plan->plans[r].recipe->name)->options =
			json_incref(plan->plans[r].options);
		places_make(&maker.places[r], &plan->plans[r].selection);
	}
	for (maker.layer = 0; maker.layer < model->n_layers; maker.layer++)
		for (maker.recipe = 0; maker.recipe < plan->n_plans; maker.recipe++)
			add_layer(&maker, &model->layers[maker.layer], by_expert);
	maker.layer = SIZE_MAX;
	for (maker.recipe = 0; maker.recipe < plan->n_plans; maker.recipe++) {
		group_begin(&maker, xstrdup("head"));
		add_matrix(&maker, &model->head);
		group_end(&maker);
	}
	for (size_t r = 0; r < plan->n_plans; r++) {
		list_unmeasured(&plan->table.recipes[r], &plan->plans[r], &maker.places[r]);
		free(maker.places[r].list);
	}
	free(maker.places);
	if (plan->table.n_groups)
		return 0;
	return err_set(err, ERR_USAGE,
		       "nothing to measure: none of the matrices of '%s' that would be quantized "
		       "takes part in a forward pass",
		       plan->plans[0].source.path);
}
