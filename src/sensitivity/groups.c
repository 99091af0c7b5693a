/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "sweep/engine_cast.h"

/* A quantized unit by its place in the checkpoint. */
struct unit_place {
	uint64_t shard, begin, first; /* begin: bytes; first: element of the tensor */
	size_t unit;
	size_t group; /* of the table; SIZE_MAX: none has it */
};

/* The quantized units of one recipe, by place. */
struct unit_places {
	const struct selection *selection;
	struct unit_place *list;
	size_t n;
};

/* What has rows of a matrix: a unit, or a matrix of a stack. */
struct matrix_part {
	struct unit_place *place;
	uint64_t matrix; /* its number in the stack; else 0 */
};

struct matrix_parts {
	struct matrix_part list[MAX_PARTS];
	size_t n;
};

COMPARISON(compare_places, struct unit_place,
	   ORDER(x->shard, y->shard) ?: ORDER(x->begin, y->begin) ?: ORDER(x->first, y->first))

static struct unit_place place_of(const struct tensor_ref *tensor, uint64_t first)
{
	return (struct unit_place){ .shard = tensor->shard,
				    .begin = tensor->tensor->begin,
				    .first = first };
}

/* selection must outlive places. */
static void places_make(struct unit_places *places, const struct selection *selection)
{
	*places = (struct unit_places){ .selection = selection };
	places->list = xcalloc(selection->n_quantized, sizeof *places->list);
	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];
		struct unit_place *place = &places->list[places->n];

		if (!unit->recipe)
			continue;
		*place = place_of(unit->source, unit->slice.first);
		place->unit = u;
		place->group = SIZE_MAX;
		places->n++;
	}
	sort(places->list, places->n, sizeof *places->list, compare_places);
}

/* Returns the place of the unit that begins at this element of the matrix's tensor and has as many
 * columns in the same order, or NULL. */
static struct unit_place *find_at(const struct unit_places *places, const struct linear_ref *ref,
				  uint64_t first)
{
	const struct unit_place wanted = place_of(ref->weight, first);
	struct unit_place *found =
		bsearch(&wanted, places->list, places->n, sizeof wanted, compare_places);
	const struct unit *unit = found ? &places->selection->units[found->unit] : NULL;

	return unit && !unit->table && unit->cols == ref->k &&
			       unit->slice.col_stride == ref->slice.col_stride
		       ? found
		       : NULL;
}

/* Finds a matrix, or some rows of one, in a stack. */
static size_t find_in_stack(const struct unit_places *places, const struct linear_ref *ref,
			    struct matrix_parts *parts)
{
	struct unit_place *place = find_at(places, ref, 0);
	const struct unit *unit = place ? &places->selection->units[place->unit] : NULL;
	uint64_t size;

	if (!unit || !unit->stack || unit->slice.row_stride != ref->slice.row_stride)
		return 0;
	size = unit->stack * unit->slice.row_stride;
	parts->list[0] = (struct matrix_part){ place, ref->slice.first / size };
	if (ref->slice.first % size + ref->n * ref->slice.row_stride > size)
		return 0;
	return 1;
}

/* Finds the two units of gate and up: one after the other, or by rows in turn. */
static size_t find_halves(const struct unit_places *places, const struct linear_ref *ref,
			  struct unit_place *first, struct matrix_parts *parts)
{
	const struct unit *units = places->selection->units, *unit = &units[first->unit];
	uint64_t stride = ref->slice.row_stride;
	struct unit_place *second;

	if (unit->rows * 2 != ref->n)
		return 0;
	second = find_at(places, ref,
			 ref->slice.first +
				 (unit->slice.row_stride == stride ? unit->rows : 1) * stride);
	if (!second || units[second->unit].rows != unit->rows ||
	    units[second->unit].slice.row_stride != unit->slice.row_stride ||
	    (unit->slice.row_stride != stride && unit->slice.row_stride != 2 * stride))
		return 0;
	parts->list[0] = (struct matrix_part){ first, 0 };
	parts->list[1] = (struct matrix_part){ second, 0 };
	return 2;
}

/* Finds the parts that have all rows of a matrix; returns false where it is not quantized. */
static bool places_find(const struct unit_places *places, const struct linear_ref *ref,
			struct matrix_parts *parts)
{
	const struct unit *units = places->selection->units;
	struct unit_place *place;

	parts->n = 0;
	if (!ref->weight)
		return false;
	parts->n = find_in_stack(places, ref, parts);
	place = parts->n ? NULL : find_at(places, ref, ref->slice.first);
	if (!place)
		return parts->n;
	parts->n = 1;
	parts->list[0] = (struct matrix_part){ place, 0 };
	if (units[place->unit].rows != ref->n)
		parts->n = find_halves(places, ref, place, parts);
	return parts->n;
}

#define ROLE(name) ((uint64_t)1 << LINEAR_##name)

/* Matrices of a layer that share an input; the shared expert, whose matrices belong together. */
static const struct site {
	const char *name;
	uint64_t roles; /* bits of enum linear_role */
} sites[] = {
	{ "qkv", ROLE(Q) | ROLE(K) | ROLE(V) | ROLE(QKV) | ROLE(Q_A) | ROLE(KV_A) | ROLE(INDEX_K) |
			 ROLE(INDEX_Q_HIDDEN) | ROLE(INDEX_WEIGHTS) | ROLE(INDEX_GATE) |
			 ROLE(POOL) | ROLE(POOL_GATE) | ROLE(HEAD_GATE) | ROLE(VALUE_GATE) |
			 ROLE(DISTANCES) },
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
	{ "o_b", ROLE(O_JOIN) },
	{ "out_proj", ROLE(DELTA_OUT) | ROLE(MAMBA_OUT) | ROLE(CONV_OUT) },
	{ "gate_up", ROLE(GATE) | ROLE(UP) | ROLE(GATE_UP) },
	{ "down", ROLE(DOWN) },
	{ "router", ROLE(ROUTER) | ROLE(SHARED_ROUTER) },
	{ "mix", ROLE(MIX_DOWN) | ROLE(MIX_UP) | ROLE(MIX_INJECT) | ROLE(MLP_MIX_DOWN) |
			 ROLE(MLP_MIX_UP) | ROLE(MLP_MIX_INJECT) | ROLE(LAST_MIX_DOWN) |
			 ROLE(LAST_MIX_UP) },
	{ "ngrams", ROLE(NGRAM_KEY) | ROLE(NGRAM_VALUE) },
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
	size_t n = layer_all_experts(layer);

	by_expert = by_expert && !is_stacked(maker, layer);
	for (size_t e = 0; e < n; e++) {
		if (by_expert)
			group_begin(maker, xasprintf("layers.%zu.expert.%zu", maker->layer, e));
		else if (e == 0)
			group_begin(maker, xasprintf("layers.%zu.experts", maker->layer));
		for (int role = 0; role < N_EXPERT_ROLES; role++)
			add_matrix(maker, &layer->experts[e][role]);
		if (by_expert || e + 1 == n)
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
