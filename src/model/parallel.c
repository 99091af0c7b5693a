/* SPDX-License-Identifier: Apache-2.0 */
#include "model/parallel.h"

static bool whole_tiles(uint64_t n, size_t tile)
{
	return tile == WHOLE || n % tile == 0;
}

static int qkv_parts(const struct model_config *config, uint64_t rows, struct part parts[MAX_PARTS])
{
	uint64_t q = config->size[CONFIG_HEADS], kv = config->size[CONFIG_KV_HEADS];
	uint64_t head;

	/* Heads beyond any real model would overflow below. */
	if (q == 0 || kv == 0 || q > UINT32_MAX || kv > UINT32_MAX || rows % (q + 2 * kv))
		return 0;
	head = rows / (q + 2 * kv);
	parts[0] = (struct part){ .rows = q * head };
	parts[1] = parts[2] = (struct part){ .rows = kv * head };
	return 3;
}

int parallel_parts(enum parallel parallel, const struct model_config *config, uint64_t rows,
		   struct part parts[MAX_PARTS])
{
	int n = 0;

	if (parallel == PARALLEL_QKV)
		n = qkv_parts(config, rows, parts);
	if (parallel == PARALLEL_GATE_UP && rows % 2 == 0) {
		parts[0] = parts[1] = (struct part){ .rows = rows / 2 };
		n = 2;
	}
	if (n == 0) {
		parts[0] = (struct part){ .rows = rows };
		n = 1;
	}
	return n;
}

bool part_splits(const struct part *part, uint64_t tp, size_t tile_rows)
{
	return columns_split(part->rows, tp, tile_rows);
}

bool columns_split(uint64_t n, uint64_t tp, size_t tile_cols)
{
	return n % tp == 0 && whole_tiles(n / tp, tile_cols);
}

static bool rows_split(const struct tp_split *split, const struct model_config *config, uint64_t tp)
{
	struct part parts[MAX_PARTS];
	int n = parallel_parts(split->parallel, config, split->rows, parts);
	/* On one device the last part may be ragged: nothing follows it. */
	int n_checked = n - (tp == 1 && split->ends_fused_set && !split->expert);

	for (int i = 0; i < n_checked; i++)
		if (!part_splits(&parts[i], tp, split->tile.rows))
			return false;
	return true;
}

bool tp_split_fits(const struct tp_split *split, const struct model_config *config, uint64_t tp,
		   char *dimension)
{
	*dimension = 'N';
	if (split->parallel == PARALLEL_ROW) {
		*dimension = 'K';
		return (tp == 1 && !split->expert) ||
		       columns_split(split->cols, tp, split->tile.cols);
	}
	return rows_split(split, config, split->parallel == PARALLEL_REPLICATED ? 1 : tp);
}
