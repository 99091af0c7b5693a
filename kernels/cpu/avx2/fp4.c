/* SPDX-License-Identifier: Apache-2.0
 *
 * MXFP4 to FP8 by tables.  The FP8 code of an element depends on its own code, the scale of its
 * group and the amax of its tile alone, and neighboring tiles have few pairs of the latter two: the
 * reference arithmetic makes 16 codes for each pair, and one shuffle of 16 bytes looks 16 elements
 * up.
 *
 * Moves half a byte in and one out per element.  CFLAGS: -mavx2
 */
#include "kernels/cpu/avx2/avx2.h"

#include <string.h>

#include "kernels/cpu/cast/tile_span.h"
#include "kernels/cpu/cpu.h"
#include "num/fp4.h"

/* From this scale on, 2^126, a group may hold values beyond fp32. */
#define SCALE_TOO_LARGE 253

/* What becomes of the elements of a group. */
struct table {
	_Alignas(16) uint8_t codes[16];
	struct scaling scaling;	     /* of the tile */
	int rank;		     /* of the tile's amax */
	uint16_t changed, saturated; /* by code of the source */
	uint8_t counted;	     /* by magnitude: one of the two */
};

/* The state of cpu_quantize_fp4(). */
struct fp4_cast {
	const struct fp4_matrix *x;
	const struct qspec *spec;
	const struct quant_out *out;
	float limit;
	uint64_t changed, saturated;
	uint8_t is_made[256];	     /* by scale of the group: bits by magnitude */
	struct table tables[256][8]; /* by scale of the group and magnitude of the tile's amax */
};

/* Groups [group, group_end) of rows [row, row_end). */
struct fp4_tile {
	size_t row, row_end;
	size_t group, group_end;
	int rank; /* of their amax */
};

/* The order of amaxes: 8 for each step from one E2M1 number to the next, 16 for each step of the
 * scale, plus the magnitude code. */
#define RANK(steps, code) (8 * (steps) + (code))
#define RANK_ZERO	  RANK(-1024, 0) /* below all others */
static const int ranks[] = { RANK_ZERO,	 RANK(-2, 1), RANK(0, 2), RANK(1, 3),
			     RANK(2, 4), RANK(3, 5),  RANK(4, 6), RANK(5, 7) };

/* Returns the amax of that rank. */
static float rank_amax(int rank)
{
	unsigned magnitude = (unsigned)rank & 7;

	if (rank < ranks[1])
		return 0;
	return fp4_to_f32((uint8_t)magnitude) *
	       e8m0_to_f32((uint8_t)((rank - ranks[magnitude]) / 16));
}

static void table_make(const struct fp4_cast *cast, uint8_t scale, int rank, struct table *table)
{
	enum fp8_format format = cast->spec->format;

	table->rank = rank;
	table->scaling = scaling_from_amax(cast->spec, rank_amax(rank), cast->limit);
	table->changed = table->saturated = 0;
	for (unsigned code = 0; code < 16; code++) {
		struct quant_stats stats = { 0 };
		float value = fp4_to_f32((uint8_t)code) * e8m0_to_f32(scale), decoded;

		table->codes[code] = cast_counted(format, table->scaling, value, &stats);
		decoded = fp8_to_f32(format, table->codes[code]) * table->scaling.scale_inv;
		table->saturated |= (uint16_t)((stats.saturated != 0) << code);
		table->changed |= (uint16_t)((f32_bits(decoded) != f32_bits(value)) << code);
	}
	table->counted = (uint8_t)((table->changed | table->saturated) |
				   (table->changed | table->saturated) >> 8);
}

/* Returns the table of the groups of a tile that have this scale. */
INLINE const struct table *table_of(struct fp4_cast *cast, const struct fp4_tile *tile,
				    uint8_t scale)
{
	unsigned magnitude = (unsigned)tile->rank & 7;
	struct table *table = &cast->tables[scale][magnitude];

	if (!(cast->is_made[scale] >> magnitude & 1) || table->rank != tile->rank) {
		table_make(cast, scale, tile->rank, table);
		cast->is_made[scale] |= (uint8_t)(1u << magnitude);
	}
	return table;
}

INLINE const uint8_t *group_codes(const struct fp4_matrix *x, size_t row, size_t group)
{
	return x->codes + row * x->stride / 2 + group * (MXFP4_GROUP / 2);
}

INLINE const uint8_t *row_scales(const struct fp4_matrix *x, size_t row)
{
	return x->scales + row * x->stride / MXFP4_GROUP;
}

/* Returns which magnitudes a group has, a bit for each. */
INLINE unsigned group_magnitudes(const uint8_t *codes)
{
	const __m128i bits =
		_mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128);
	const __m128i low = _mm_set1_epi8(15);
	__m128i both = _mm_loadu_si128((const void *)codes);
	__m128i has =
		_mm_or_si128(_mm_shuffle_epi8(bits, _mm_and_si128(both, low)),
			     _mm_shuffle_epi8(bits, _mm_and_si128(_mm_srli_epi16(both, 4), low)));
	uint64_t all = (uint64_t)_mm_cvtsi128_si64(_mm_or_si128(has, _mm_srli_si128(has, 8)));

	all |= all >> 32;
	all |= all >> 16;
	return (all | all >> 8) & 0xFF;
}

INLINE void group_map(const uint8_t *codes, const struct table *table, uint8_t *to)
{
	const __m128i low = _mm_set1_epi8(15), map = _mm_load_si128((const void *)table->codes);
	__m128i both = _mm_loadu_si128((const void *)codes);
	__m128i even = _mm_shuffle_epi8(map, _mm_and_si128(both, low));
	__m128i odd = _mm_shuffle_epi8(map, _mm_and_si128(_mm_srli_epi16(both, 4), low));

	_mm_storeu_si128((void *)to, _mm_unpacklo_epi8(even, odd));
	_mm_storeu_si128((void *)(to + 16), _mm_unpackhi_epi8(even, odd));
}

static void group_count(struct fp4_cast *cast, const uint8_t *codes, const struct table *table)
{
	if (!(group_magnitudes(codes) & table->counted))
		return;
	for (size_t i = 0; i < MXFP4_GROUP / 2; i++) {
		unsigned even = codes[i] & 15, odd = codes[i] >> 4;

		cast->changed += (table->changed >> even & 1) + (table->changed >> odd & 1);
		cast->saturated += (table->saturated >> even & 1) + (table->saturated >> odd & 1);
	}
}

INLINE int group_rank(const uint8_t *codes, uint8_t scale)
{
	return 16 * scale + ranks[31 - __builtin_clz(group_magnitudes(codes))];
}

/* Computes the rank of a tile.  Returns false where a value may be beyond fp32. */
INLINE bool tile_rank(const struct fp4_matrix *x, struct fp4_tile *tile)
{
	int rank = RANK_ZERO, largest = 0;

	for (size_t row = tile->row; row < tile->row_end; row++) {
		const uint8_t *scales = row_scales(x, row);

		for (size_t g = tile->group; g < tile->group_end; g++) {
			int of_group = group_rank(group_codes(x, row, g), scales[g]);

			largest = scales[g] > largest ? scales[g] : largest;
			rank = of_group > rank ? of_group : rank;
		}
	}
	tile->rank = rank;
	return largest < SCALE_TOO_LARGE;
}

/* Writes the codes of a tile, which is not empty.  Returns its scaling. */
INLINE struct scaling tile_map(struct fp4_cast *cast, const struct fp4_tile *tile)
{
	const struct table *table =
		table_of(cast, tile, row_scales(cast->x, tile->row)[tile->group]);

	for (size_t row = tile->row; row < tile->row_end; row++) {
		const uint8_t *scales = row_scales(cast->x, row);
		uint8_t *to = cast->out->codes + row * cast->out->stride;

		for (size_t g = tile->group; g < tile->group_end; g++) {
			const uint8_t *codes = group_codes(cast->x, row, g);

			table = table_of(cast, tile, scales[g]);
			group_map(codes, table, to + g * MXFP4_GROUP);
			if (table->counted)
				group_count(cast, codes, table);
		}
	}
	return table->scaling;
}

/* Returns false where a value may be beyond fp32. */
static bool quantize_tiles(struct fp4_cast *cast)
{
	const struct fp4_matrix *x = cast->x;
	struct tile tile = cast->spec->tile;
	size_t n_rows = tile_count(x->rows, tile.rows), n_cols = tile_count(x->cols, tile.cols);

	for (size_t i = 0; i < n_rows; i++) {
		for (size_t j = 0; j < n_cols; j++) {
			struct span s = tile_span(tile, x->rows, x->cols, i, j);
			struct fp4_tile groups = { .row = s.row,
						   .row_end = s.row_end,
						   .group = s.col / MXFP4_GROUP,
						   .group_end = s.col_end / MXFP4_GROUP };

			if (!tile_rank(x, &groups))
				return false;
			scale_inv_store(cast->out->scale_inv, cast->spec->scale_type,
					i * cast->out->scale_stride + j, tile_map(cast, &groups));
		}
	}
	return true;
}

bool cpu_quantize_fp4(const struct fp4_matrix *x, const struct qspec *spec,
		      const struct quant_out *out, uint64_t *n_changed)
{
	struct fp4_cast cast;

	if (spec->tile.cols % MXFP4_GROUP || x->cols % MXFP4_GROUP || x->stride % MXFP4_GROUP)
		return false;
	cast.x = x;
	cast.spec = spec;
	cast.out = out;
	cast.limit = scale_limit(DT_F32, spec->tile);
	cast.changed = cast.saturated = 0;
	memset(cast.is_made, 0, sizeof cast.is_made);
	if (!quantize_tiles(&cast))
		return false;
	out->stats->saturated += cast.saturated;
	*n_changed += cast.changed;
	return true;
}
