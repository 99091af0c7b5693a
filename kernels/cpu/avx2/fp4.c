/* SPDX-License-Identifier: Apache-2.0
 *
 * MXFP4 to FP8 by tables.  The FP8 code of an element depends on its own code, the scale of its
 * group and the amax of its tile alone, and neighboring tiles have few pairs of scale and amax.
 * The reference arithmetic makes the 16 codes of each pair once, and one shuffle of 32 bytes looks
 * the codes of a group up.
 *
 * Moves half a byte in and one out per element, and reads the half byte twice.  CFLAGS: -mavx2
 */
#include "kernels/cpu/avx2/avx2.h"

#include <string.h>

#include "kernels/cpu/cast/tile_span.h"
#include "kernels/cpu/cpu.h"
#include "num/fp4.h"

/* From this scale on, 2^126, a group may hold values beyond fp32. */
#define SCALE_TOO_LARGE 253

#define GROUP_BYTES (MXFP4_GROUP / 2)

/* The most groups in a row of a tile, a multiple of 16. */
#define MAX_GROUPS 1024

/* The groups of a row whose tables are looked for together, a multiple of 16. */
#define RUN_GROUPS 64

/* The result for each code of the elements of a group. */
struct group_codes {
	_Alignas(16) uint8_t codes[16];
	uint8_t counts[16]; /* CHANGED, SATURATED, their sum, or 0 */
};

/* A sum of 32 counts holds both numbers. */
#define CHANGED	  1
#define SATURATED 64

/* The tables that were made last.  Bits 0 to 3 of the scale of the group, and bits 0 to 2 and 4 to
 * 6 of the rank of the tile are the place of a table: neighbors have other places.  The tag has the
 * bits above these, MADE, and COUNTED if the table has counts.  (Bit 3 of a rank is its bit 0.) */
#define N_TABLES 1024
#define MADE	 0x4000
#define COUNTED	 0x8000

/* The state of cpu_quantize_fp4(). */
struct fp4_cast {
	const struct fp4_matrix *x;
	const struct qspec *spec;
	const struct quant_out *out;
	float limit;
	uint64_t changed, saturated;
	uint16_t ranks[MAX_GROUPS]; /* of the amaxes of some groups, or of their tiles */
	uint16_t places[RUN_GROUPS], wanted[RUN_GROUPS]; /* of a run: its places and tags */
	uint16_t tags[N_TABLES];
	uint8_t e8m0[N_TABLES]; /* scales of the tiles */
	struct group_codes tables[N_TABLES];
};

/* Some whole tiles of a row of tiles. */
struct groups {
	size_t row, row_end;
	size_t first, n; /* n <= MAX_GROUPS */
};

INLINE __m128i load128(const void *p)
{
	return _mm_loadu_si128(p);
}

INLINE const uint8_t *group_codes(const struct fp4_matrix *x, size_t row, size_t group)
{
	return x->codes + row * x->stride / 2 + group * GROUP_BYTES;
}

INLINE const uint8_t *group_scales(const struct fp4_matrix *x, size_t row, size_t group)
{
	return x->scales + row * x->stride / MXFP4_GROUP + group;
}

/* The rank of an amax, an E2M1 number times its scale, is 16 * scale + 8 * code + code, where code
 * is that of the number; 0 if the amax is 0.  The first two terms order amaxes: from 1 on, a number
 * is 1.5 or 4/3 of the one before, and twice a number has a code higher by 2.  The third, less than
 * 8, gives each scale and code a rank of their own.  0.5 has the place of 0.75, with the lowest
 * code that occurs there. */

/* Returns the amax of a rank. */
static float rank_amax(uint16_t rank)
{
	unsigned magnitude = rank & 7;

	return fp4_to_f32((uint8_t)magnitude) * e8m0_to_f32((uint8_t)((rank - 9 * magnitude) / 16));
}

/* Joins the halves of the lanes of two vectors, by their maxima. */
INLINE __m256i fold64(__m256i a, __m256i b)
{
	return _mm256_max_epu8(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/* Joins the halves of four groups in each lane to one word of 32 bits each. */
INLINE __m256i fold32(__m256i a, __m256i b)
{
	__m256 x = _mm256_castsi256_ps(a), y = _mm256_castsi256_ps(b);

	return _mm256_max_epu8(_mm256_castps_si256(_mm256_shuffle_ps(x, y, 0x88)),
			       _mm256_castps_si256(_mm256_shuffle_ps(x, y, 0xDD)));
}

/* Joins the halves of each group of a and of b to one word, in turn. */
INLINE __m256i fold16(__m256i a, __m256i b)
{
	return _mm256_max_epu8(_mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xAA),
			       _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xAA));
}

/* Returns the larger magnitude of both codes in the bytes of groups i and i + 8, a lane each. */
INLINE __m256i magnitudes(const uint8_t *codes, size_t i)
{
	const __m256i seven = _mm256_set1_epi8(7);
	__m128i low = load128(codes + i * GROUP_BYTES);
	__m128i high = load128(codes + (i + 8) * GROUP_BYTES);
	__m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);

	return _mm256_max_epu8(_mm256_and_si256(both, seven),
			       _mm256_and_si256(_mm256_srli_epi16(both, 4), seven));
}

/* Returns the largest magnitudes of 16 groups, as 16 words in order. */
INLINE __m256i group_magnitudes(const uint8_t *codes)
{
	__m256i even = fold32(fold64(magnitudes(codes, 0), magnitudes(codes, 2)),
			      fold64(magnitudes(codes, 4), magnitudes(codes, 6)));
	__m256i odd = fold32(fold64(magnitudes(codes, 1), magnitudes(codes, 3)),
			     fold64(magnitudes(codes, 5), magnitudes(codes, 7)));
	__m256i pairs = fold16(even, odd);

	return _mm256_and_si256(_mm256_max_epu8(pairs, _mm256_srli_epi16(pairs, 8)),
				_mm256_set1_epi16(0xFF));
}

/* Raises the ranks of 16 groups to what these codes and scales have, and *largest to the scales. */
INLINE void ranks_raise(const uint8_t *codes, const uint8_t *scales, uint16_t *ranks,
			__m256i *largest)
{
	__m256i magnitude = group_magnitudes(codes);
	__m256i scale = _mm256_cvtepu8_epi16(load128(scales));
	__m256i rank = _mm256_add_epi16(_mm256_slli_epi16(scale, 4),
					_mm256_mullo_epi16(magnitude, _mm256_set1_epi16(9)));

	rank = _mm256_and_si256(rank, _mm256_cmpgt_epi16(magnitude, _mm256_setzero_si256()));
	_mm256_storeu_si256((void *)ranks, _mm256_max_epu16(load256(ranks), rank));
	*largest = _mm256_max_epu16(*largest, scale);
}

/* The same for n groups; `ranks` has 16. */
static void ranks_raise_rest(const uint8_t *codes, const uint8_t *scales, size_t n, uint16_t *ranks,
			     __m256i *largest)
{
	uint8_t some_codes[16 * GROUP_BYTES] = { 0 }, some_scales[16] = { 0 };

	memcpy(some_codes, codes, n * GROUP_BYTES);
	memcpy(some_scales, scales, n);
	ranks_raise(some_codes, some_scales, ranks, largest);
}

/* Writes to cast->ranks the largest rank of each column of groups.  Returns false where a value may
 * be beyond fp32. */
static bool ranks_of_groups(struct fp4_cast *cast, const struct groups *groups)
{
	const __m256i limit = _mm256_set1_epi16(SCALE_TOO_LARGE - 1);
	__m256i largest = _mm256_setzero_si256();
	size_t whole = groups->n & ~(size_t)15;

	memset(cast->ranks, 0, (groups->n + 15) / 16 * 16 * sizeof *cast->ranks);
	for (size_t row = groups->row; row < groups->row_end; row++) {
		const uint8_t *codes = group_codes(cast->x, row, groups->first);
		const uint8_t *scales = group_scales(cast->x, row, groups->first);

		for (size_t g = 0; g < whole; g += 16)
			ranks_raise(codes + g * GROUP_BYTES, scales + g, cast->ranks + g, &largest);
		if (whole < groups->n)
			ranks_raise_rest(codes + whole * GROUP_BYTES, scales + whole,
					 groups->n - whole, cast->ranks + whole, &largest);
	}
	largest = _mm256_cmpgt_epi16(largest, limit);
	return _mm256_testz_si256(largest, largest);
}

static uint16_t largest_rank(const uint16_t *ranks, size_t n)
{
	uint16_t largest = 0;

	for (size_t i = 0; i < n; i++)
		largest = ranks[i] > largest ? ranks[i] : largest;
	return largest;
}

/* Replaces the rank of each group by that of its tile. */
static void ranks_spread(uint16_t *ranks, size_t n, size_t tile_groups)
{
	for (size_t g = 0, end; g < n; g = end) {
		uint16_t of_tile;

		end = n - g < tile_groups ? n : g + tile_groups;
		of_tile = largest_rank(ranks + g, end - g);
		for (size_t i = g; i < end; i++)
			ranks[i] = of_tile;
	}
}

INLINE uint16_t table_tag(uint8_t scale, uint16_t rank)
{
	return (uint16_t)(MADE | scale >> 4 | rank >> 7 << 4);
}

/* Makes the table of a scale and a rank.  Signs change nothing but the sign of the code. */
static void table_make(struct fp4_cast *cast, size_t place, uint8_t scale, uint16_t rank)
{
	enum fp8_format format = cast->spec->format;
	struct scaling scaling = scaling_from_amax(cast->spec, rank_amax(rank), cast->limit);
	struct group_codes *table = &cast->tables[place];
	uint8_t counted = 0;

	for (unsigned code = 0; code < 8; code++) {
		struct quant_stats stats = { 0 };
		float value = fp4_to_f32((uint8_t)code) * e8m0_to_f32(scale), decoded;
		uint8_t to = cast_counted(format, scaling, value, &stats), count;

		decoded = fp8_to_f32(format, to) * scaling.scale_inv;
		count = (uint8_t)((f32_bits(decoded) != f32_bits(value) ? CHANGED : 0) +
				  (stats.saturated ? SATURATED : 0));
		counted |= count;
		table->codes[code] = to;
		table->codes[code | 8] = to | 0x80;
		table->counts[code] = table->counts[code | 8] = count;
	}
	cast->e8m0[place] = scaling.e8m0;
	cast->tags[place] = (uint16_t)(table_tag(scale, rank) | (counted ? COUNTED : 0));
}

/* Up to RUN_GROUPS groups of a row. */
struct group_run {
	const uint8_t *from, *scales;
	const uint16_t *ranks;
	uint8_t *to;
	uint8_t *
		e8m0; /* where the scales go, if each group is a tile with an E8M0 scale; or NULL */
	size_t n;
};

/* Computes the places of 16 groups from g on, and the tags that the tables there must have. */
INLINE void tables_find16(struct fp4_cast *cast, const uint8_t *scales, const uint16_t *ranks,
			  size_t g)
{
	__m256i scale = _mm256_cvtepu8_epi16(load128(scales)), rank = load256(ranks);
	__m256i by_rank = _mm256_or_si256(
		_mm256_and_si256(rank, _mm256_set1_epi16(7)),
		_mm256_and_si256(_mm256_srli_epi16(rank, 1), _mm256_set1_epi16(0x38)));
	__m256i by_scale = _mm256_and_si256(scale, _mm256_set1_epi16(15));
	__m256i tag = _mm256_or_si256(_mm256_srli_epi16(scale, 4),
				      _mm256_slli_epi16(_mm256_srli_epi16(rank, 7), 4));

	_mm256_storeu_si256((void *)(cast->places + g),
			    _mm256_or_si256(_mm256_slli_epi16(by_rank, 4), by_scale));
	_mm256_storeu_si256((void *)(cast->wanted + g),
			    _mm256_or_si256(tag, _mm256_set1_epi16(MADE)));
}

static void tables_find(struct fp4_cast *cast, const struct group_run *run)
{
	uint8_t rest[16] = { 0 };
	size_t g = 0;

	for (; run->n - g >= 16; g += 16)
		tables_find16(cast, run->scales + g, run->ranks + g, g);
	if (g < run->n)
		tables_find16(cast, memcpy(rest, run->scales + g, run->n - g), run->ranks + g, g);
}

/* Are all tables in their places?  *counted: has one of them counts? */
INLINE bool tables_are_made(const struct fp4_cast *cast, size_t n, bool *counted)
{
	unsigned others = 0;

	for (size_t g = 0; g < n; g++)
		others |= cast->tags[cast->places[g]] ^ cast->wanted[g];
	*counted = others & COUNTED;
	return !(others & ~(unsigned)COUNTED);
}

/* Makes the table of group g, unless it is in its place. */
INLINE void table_ensure(struct fp4_cast *cast, const struct group_run *run, size_t g)
{
	size_t place = cast->places[g];

	if ((cast->tags[place] & ~COUNTED) != cast->wanted[g])
		table_make(cast, place, run->scales[g], run->ranks[g]);
}

/* Returns the codes of a group, one in a byte. */
INLINE __m256i group_load(const uint8_t *from)
{
	__m256i both = _mm256_cvtepu8_epi16(load128(from));

	return _mm256_and_si256(_mm256_or_si256(both, _mm256_slli_epi16(both, 4)),
				_mm256_set1_epi8(15));
}

INLINE __m256i look_up(const uint8_t *map, __m256i codes)
{
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load128(map)), codes);
}

/* Writes the codes of group g, and its scale if it is a tile. */
INLINE void group_map(const struct fp4_cast *cast, const struct group_run *run, size_t g,
		      bool is_tile)
{
	size_t place = cast->places[g];
	__m256i codes = group_load(run->from + g * GROUP_BYTES);

	_mm256_storeu_si256((void *)(run->to + g * MXFP4_GROUP),
			    look_up(cast->tables[place].codes, codes));
	if (is_tile)
		run->e8m0[g] = cast->e8m0[place];
}

INLINE void group_count(struct fp4_cast *cast, const struct group_run *run, size_t g)
{
	__m256i counts = look_up(cast->tables[cast->places[g]].counts,
				 group_load(run->from + g * GROUP_BYTES));
	__m256i sums = _mm256_sad_epu8(counts, _mm256_setzero_si256());
	__m128i halves =
		_mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
	uint64_t sum =
		(uint64_t)_mm_cvtsi128_si64(_mm_add_epi64(halves, _mm_srli_si128(halves, 8)));

	cast->changed += sum % SATURATED;
	cast->saturated += sum / SATURATED;
}

/* Maps a run in which several tables have one place. */
static void run_map_crowded(struct fp4_cast *cast, const struct group_run *run)
{
	for (size_t g = 0; g < run->n; g++) {
		table_ensure(cast, run, g);
		group_map(cast, run, g, run->e8m0 != NULL);
		group_count(cast, run, g);
	}
}

/* Maps a run whose tables are in their places. */
INLINE void run_map_made(const struct fp4_cast *cast, struct group_run run, bool are_tiles)
{
	for (size_t g = 0; g < run.n; g++)
		group_map(cast, &run, g, are_tiles);
}

static void run_map(struct fp4_cast *cast, const struct group_run *run)
{
	bool counted;

	tables_find(cast, run);
	if (!tables_are_made(cast, run->n, &counted)) {
		for (size_t g = 0; g < run->n; g++)
			table_ensure(cast, run, g);
		if (!tables_are_made(cast, run->n, &counted)) {
			run_map_crowded(cast, run);
			return;
		}
	}
	if (run->e8m0)
		run_map_made(cast, *run, true);
	else
		run_map_made(cast, *run, false);
	for (size_t g = 0; counted && g < run->n; g++)
		group_count(cast, run, g);
}

/* Writes the codes of a row of groups, which has their ranks in cast->ranks.  e8m0: as in struct
 * run. */
static void row_map(struct fp4_cast *cast, const struct groups *groups, size_t row, uint8_t *e8m0)
{
	const uint8_t *from = group_codes(cast->x, row, groups->first);
	const uint8_t *scales = group_scales(cast->x, row, groups->first);
	uint8_t *to = cast->out->codes + row * cast->out->stride + groups->first * MXFP4_GROUP;

	for (size_t g = 0; g < groups->n; g += RUN_GROUPS) {
		size_t left = groups->n - g;
		struct group_run run = { .from = from + g * GROUP_BYTES,
					 .scales = scales + g,
					 .ranks = cast->ranks + g,
					 .to = to + g * MXFP4_GROUP,
					 .e8m0 = e8m0 ? e8m0 + g : NULL,
					 .n = left < RUN_GROUPS ? left : RUN_GROUPS };

		run_map(cast, &run);
	}
}

/* Quantizes the groups, of which the first tile has place `tile` in the grid. */
static bool quantize_groups(struct fp4_cast *cast, const struct groups *groups, size_t tile_groups,
			    size_t tile)
{
	const struct qspec *spec = cast->spec;
	void *scale_inv = cast->out->scale_inv;

	if (!ranks_of_groups(cast, groups))
		return false;
	if (tile_groups == 1 && spec->tile.rows == 1 && spec->scale_type == SCALE_E8M0) {
		row_map(cast, groups, groups->row, (uint8_t *)scale_inv + tile);
		return true;
	}
	ranks_spread(cast->ranks, groups->n, tile_groups);
	for (size_t row = groups->row; row < groups->row_end; row++)
		row_map(cast, groups, row, NULL);
	for (size_t g = 0; g < groups->n; g += tile_groups)
		scale_inv_store(scale_inv, spec->scale_type, tile++,
				scaling_from_amax(spec, rank_amax(cast->ranks[g]), cast->limit));
	return true;
}

/* Quantizes a row of tiles, which are tile_groups groups wide. */
static bool quantize_tiles(struct fp4_cast *cast, size_t grid_row, size_t tile_groups)
{
	const struct fp4_matrix *x = cast->x;
	struct tile_span all = tile_span((struct tile){ cast->spec->tile.rows, WHOLE }, x->rows,
					 x->cols, grid_row, 0);
	size_t n = x->cols / MXFP4_GROUP, step = MAX_GROUPS / tile_groups * tile_groups;

	for (size_t first = 0; first < n; first += step) {
		struct groups groups = { all.row, all.row_end, first,
					 n - first < step ? n - first : step };

		if (!quantize_groups(cast, &groups, tile_groups,
				     grid_row * cast->out->scale_stride + first / tile_groups))
			return false;
	}
	return true;
}

bool cpu_quantize_fp4(const struct fp4_matrix *x, const struct qspec *spec,
		      const struct quant_out *out, uint64_t *n_changed)
{
	size_t tile_cols = spec->tile.cols == WHOLE ? x->cols : spec->tile.cols;
	size_t tile_groups = (tile_cols < x->cols ? tile_cols : x->cols) / MXFP4_GROUP;
	struct fp4_cast cast;

	if (spec->tile.cols % MXFP4_GROUP || x->cols % MXFP4_GROUP || x->stride % MXFP4_GROUP ||
	    tile_groups == 0 || tile_groups > MAX_GROUPS)
		return false;
	cast.x = x;
	cast.spec = spec;
	cast.out = out;
	cast.limit = scale_limit(DT_F32, spec->tile);
	cast.changed = cast.saturated = 0;
	memset(cast.tags, 0, sizeof cast.tags);
	for (size_t i = 0; i < tile_count(x->rows, spec->tile.rows); i++) {
		if (!quantize_tiles(&cast, i, tile_groups))
			return false;
	}
	out->stats->saturated += cast.saturated;
	*n_changed += cast.changed;
	return true;
}
