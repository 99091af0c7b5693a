/* SPDX-License-Identifier: Apache-2.0 */
#include "names/parallel.h"

static bool whole_tiles(uint64_t n, size_t tile)
{
	return tile == WHOLE || n % tile == 0;
}

static int one_section(uint64_t rows, struct section sections[MAX_SECTIONS])
{
	sections[0] = (struct section){ .rows = rows };
	return 1;
}

/* Larger sizes, beyond any real model, would overflow in sums of products. */
#define HEADS_MAX ((uint64_t)1 << 30)

/* Heads of v have another size than heads of q and k. */
static int uneven_sections(const struct model_config *config, uint64_t rows,
			   struct section sections[MAX_SECTIONS])
{
	uint64_t q = config->size[CONFIG_HEADS], kv = config->size[CONFIG_KV_HEADS];
	uint64_t head = config->size[CONFIG_HEAD_DIM], v = config->size[CONFIG_V_HEAD_DIM];

	if (head > HEADS_MAX || v > HEADS_MAX || rows != q * head + kv * (head + v))
		return 0;
	sections[0] = (struct section){ .rows = q * head };
	sections[1] = (struct section){ .rows = kv * head };
	sections[2] = (struct section){ .rows = kv * v };
	return 3;
}

static int qkv_sections(const struct model_config *config, uint64_t rows,
			struct section sections[MAX_SECTIONS])
{
	uint64_t q = config->size[CONFIG_HEADS], kv = config->size[CONFIG_KV_HEADS];
	uint64_t head = config->size[CONFIG_HEAD_DIM], v = config->size[CONFIG_V_HEAD_DIM];

	if (q == 0 || kv == 0)
		return one_section(rows, sections);
	if (q > HEADS_MAX || kv > HEADS_MAX)
		return 0;
	if (head && v && head != v)
		return uneven_sections(config, rows, sections);
	if (rows % (q + 2 * kv))
		return 0;
	head = rows / (q + 2 * kv);
	sections[0] = (struct section){ .rows = q * head };
	sections[1] = sections[2] = (struct section){ .rows = kv * head };
	return 3;
}

/* A mixer of another kind, as Mamba-1's and that of short convolutions, is one section. */
static int mamba_sections(const struct model_config *config, uint64_t rows,
			  struct section sections[MAX_SECTIONS])
{
	uint64_t heads = config->size[CONFIG_MAMBA_HEADS];
	uint64_t groups = config->size[CONFIG_MAMBA_GROUPS];
	uint64_t state = config->size[CONFIG_MAMBA_STATE], inner;

	if (!heads || !groups || !state || heads > HEADS_MAX || groups > HEADS_MAX ||
	    state > HEADS_MAX || rows <= heads + 2 * groups * state)
		return one_section(rows, sections);
	inner = rows - heads - 2 * groups * state;
	if (inner % 2 || inner / 2 % heads)
		return one_section(rows, sections);
	sections[0] = sections[1] = (struct section){ .rows = inner / 2 };
	sections[2] = sections[3] = (struct section){ .rows = groups * state };
	sections[4] = (struct section){ .rows = heads };
	return 5;
}

/* Gate and up under a name that says so, or of the size of both, as ChatGLM's dense_h_to_4h. */
static bool is_gate_up(enum parallel parallel, const struct model_config *config, uint64_t rows)
{
	return parallel == PARALLEL_GATE_UP ||
	       (parallel != PARALLEL_ROW && rows / 2 == config->size[CONFIG_INTERMEDIATE_SIZE]);
}

int parallel_sections(enum parallel parallel, const struct model_config *config, uint64_t rows,
		      struct section sections[MAX_SECTIONS])
{
	if (parallel == PARALLEL_QKV)
		return qkv_sections(config, rows, sections);
	if (parallel == PARALLEL_MAMBA)
		return mamba_sections(config, rows, sections);
	if (!is_gate_up(parallel, config, rows) || rows % 2)
		return one_section(rows, sections);
	sections[0] = sections[1] = (struct section){ .rows = rows / 2 };
	return 2;
}

bool tp_heads_fit(const struct model_config *config, uint64_t tp, uint64_t *n, const char **what)
{
	uint64_t q = config->size[CONFIG_HEADS], kv = config->size[CONFIG_KV_HEADS];

	*n = q;
	*what = "attention heads";
	if (q % tp)
		return false;
	*n = kv;
	*what = "key and value heads";
	return !kv || kv % tp == 0 || (kv < tp && tp % kv == 0);
}

/* Whether n rows or columns can be split over tp devices so that each gets whole tiles. */
static bool fits(uint64_t n, uint64_t tp, size_t tile)
{
	return n % tp == 0 && whole_tiles(n / tp, tile);
}

static bool rows_fit(const struct tp_split *split, const struct model_config *config, uint64_t tp)
{
	struct section sections[MAX_SECTIONS];
	int n = parallel_sections(split->parallel, config, split->rows, sections);
	/* On one device the last section may end in a partial tile, which no weight follows. */
	int n_checked = n - (tp == 1 && split->ends_fused_set && !split->expert);

	/* Tiles of several rows would cross a border that is not known. */
	if (n == 0)
		return split->tile.rows <= 1 && split->rows % tp == 0;
	for (int i = 0; i < n_checked; i++)
		if (!fits(sections[i].rows, tp, split->tile.rows))
			return false;
	return true;
}

const char *dimension_noun(char dimension)
{
	return dimension == 'N' ? "rows" : "columns";
}

bool tp_split_fits(const struct tp_split *split, const struct model_config *config, uint64_t tp,
		   char *dimension)
{
	*dimension = 'N';
	if (split->parallel == PARALLEL_ROW) {
		*dimension = 'K';
		return (tp == 1 && !split->expert) || fits(split->cols, tp, split->tile.cols);
	}
	return rows_fit(split, config, split->parallel == PARALLEL_REPLICATED ? 1 : tp);
}
