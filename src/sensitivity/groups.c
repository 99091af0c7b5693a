/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sensitivity/places.h"
#include "sweep/engine_cast.h"

#define ROLE(name) ((uint64_t)1 << LINEAR_##name)

/* Matrices of a layer that share an input; the shared expert, whose matrices belong together. */
static const struct site {
	const char *name;
	uint64_t roles; /* bits of enum linear_role */
} sites[] = {
	{ "qkv", ROLE(Q) | ROLE(K) | ROLE(V) | ROLE(QKV) | ROLE(Q_A) | ROLE(KV_A) | ROLE(INDEX_K) |
			 ROLE(INDEX_WEIGHTS) | ROLE(HEAD_GATE) },
	{ "in_proj", ROLE(DELTA_QKVZ) | ROLE(DELTA_BA) | ROLE(DELTA_QKV) | ROLE(DELTA_Z) |
			     ROLE(DELTA_B) | ROLE(DELTA_A) | ROLE(DELTA_Q) | ROLE(DELTA_K) |
			     ROLE(DELTA_V) | ROLE(DELTA_F_A) | ROLE(DELTA_G_A) | ROLE(MAMBA_IN) |
			     ROLE(CONV_IN) },
	{ "f_b", ROLE(DELTA_F_B) },
	{ "g_b", ROLE(DELTA_G_B) },
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

/* The state of groups_make(). */
struct maker {
	struct sensitivity_plan *plan;
	struct unit_places *places; /* by recipe */
	size_t recipe;
	size_t layer; /* SIZE_MAX: the head */
};

/* Returns the cast of inputs that an engine makes beside the unit. */
static struct input_cast cast_of(const struct plan *plan, size_t u)
{
	const struct qspec *spec = plan->units[u].spec;
	struct input_cast cast = engine_cast_dynamic(qspec_granularity(spec), spec->format,
						     spec->tile.cols, spec->pow2, spec->mx_rule);

	if (plan->selection.units[u].static_input)
		engine_cast_static(&cast, plan->units[u].input_scale_inv);
	return cast;
}

/* Returns the bytes of the outputs of unit u. */
static uint64_t output_size(const struct plan *plan, size_t u)
{
	const struct output_shard *shard = &plan->shards[plan->units[u].shard];
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

/* Adds a unit to the last group, unless another matrix of the group has added it. */
static void add_unit(struct maker *maker, struct unit_place *place)
{
	const struct plan *from = &maker->plan->plans[maker->recipe];
	const struct unit *unit = &from->selection.units[place->unit];
	size_t g = maker->plan->table.n_groups - 1;
	struct kld_group *group = &maker->plan->table.groups[g];
	char *name;

	if (place->group == g)
		return;
	place->group = g;
	name = module_name(unit);
	kld_group_add(group, name, unit->rows, unit->cols);
	free(name);
	group->bf16_bytes += unit->rows * unit->cols * sizeof(uint16_t);
	group->fp8_bytes += output_size(from, place->unit);
}

/* Adds a matrix to the last group, if it is quantized. */
static void add_matrix(struct maker *maker, const struct linear_ref *ref)
{
	struct sensitivity_plan *plan = maker->plan;
	const struct plan *from = &plan->plans[maker->recipe];
	struct sensitivity_members *members = &plan->members[plan->table.n_groups - 1];
	struct sensitivity_member member = { .ref = ref };
	struct matrix_parts parts;

	if (!places_find(&maker->places[maker->recipe], ref, &parts))
		return;
	member.cast = cast_of(from, parts.list[0].place->unit);
	for (; member.n_parts < parts.n; member.n_parts++) {
		const struct matrix_part *part = &parts.list[member.n_parts];

		add_unit(maker, part->place);
		member.parts[member.n_parts] =
			(struct sensitivity_part){ part->place->unit, part->matrix };
	}
	ARRAY_GROW(members->list, members->n);
	members->list[members->n++] = member;
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

/* Is an expert's matrix in a stack, which is kept or quantized as a whole? */
static bool is_stacked(const struct maker *maker, const struct layer_ref *layer)
{
	const struct unit_places *places = &maker->places[maker->recipe];
	struct matrix_parts parts;

	for (int role = 0; layer->n_experts && role < N_EXPERT_ROLES; role++)
		if (places_find(places, &layer->experts[0][role], &parts) &&
		    places->selection->units[parts.list[0].place->unit].stack)
			return true;
	return false;
}

static void add_experts(struct maker *maker, const struct layer_ref *layer, bool by_expert)
{
	by_expert = by_expert && !is_stacked(maker, layer);
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
			    const struct unit_places *places)
{
	for (size_t i = 0; i < places->n; i++) {
		size_t u = places->list[i].unit;
		const struct unit *unit = &plan->selection.units[u];

		if (places->list[i].group != SIZE_MAX)
			continue;
		ARRAY_GROW(recipe->unmeasured, recipe->n_unmeasured);
		recipe->unmeasured[recipe->n_unmeasured++] = module_name(unit);
		recipe->unmeasured_bf16 += unit->rows * unit->cols * sizeof(uint16_t);
		recipe->unmeasured_fp8 += output_size(plan, u);
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
		places_release(&maker.places[r]);
	}
	free(maker.places);
	if (plan->table.n_groups)
		return 0;
	return err_set(err, ERR_USAGE,
		       "nothing to measure: none of the matrices of '%s' that would be quantized "
		       "takes part in a forward pass",
		       plan->plans[0].source.path);
}
