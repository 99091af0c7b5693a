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
	parts[1] = (struct part){ .rows = kv * head, .n_heads = kv };
	parts[2] = parts[1];
	return 3;
}

int parallel_parts(enum parallel parallel, const struct model_config *config, uint64_t rows,
		   struct part parts[MAX_PARTS])
{
	uint64_t kv = config->size[CONFIG_KV_HEADS];
	int n = 0;

	if (parallel == PARALLEL_QKV)
		n = qkv_parts(config, rows, parts);
	if (parallel == PARALLEL_GATE_UP && rows % 2 == 0) {
		parts[0] = parts[1] = (struct part){ .rows = rows / 2 };
		n = 2;
	}
	if (n == 0) {
		parts[0] = (struct part){ .rows = rows };
		if (parallel == PARALLEL_KV && kv && rows % kv == 0)
			parts[0].n_heads = kv;
		n = 1;
	}
	return n;
}

bool part_splits(const struct part *part, uint64_t tp, size_t tile_rows)
{
	uint64_t pieces = part->n_heads && part->n_heads < tp ? part->n_heads : tp;

	if (part->rows % pieces || tp % pieces)
		return false;
	return whole_tiles(part->rows / pieces, tile_rows);
}

bool columns_split(uint64_t n, uint64_t tp, size_t tile_cols)
{
	return n % tp == 0 && whole_tiles(n / tp, tile_cols);
}

bool heads_split(const struct model_config *config, uint64_t tp)
{
	uint64_t q = config->size[CONFIG_HEADS], kv = config->size[CONFIG_KV_HEADS];

	if (q && q % tp)
		return false;
	return kv == 0 || (kv < tp ? tp % kv == 0 : kv % tp == 0);
}
