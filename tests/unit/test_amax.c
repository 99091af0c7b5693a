/* SPDX-License-Identifier: Apache-2.0
 *
 * amax/amax.h: the table, its file there and back, and every file that must be refused with its
 * message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "amax/amax.h"

static char path[512]; /* of the file under test */

static int make_path(void **state)
{
	const char *folder = getenv("TMPDIR");

	(void)state;
	snprintf(path, sizeof path, "%s/fp8conv-amax-%d", folder ? folder : "/tmp", (int)getpid());
	return 0;
}

static int remove_path(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static void append(struct amax_site *site, float x, float w, float y, int64_t n_tokens)
{
	amax_site_append(site, (const float[]){ x, w, y }, n_tokens);
}

/* Two modules and an attention; forward: in the order of their names. */
static void table(struct amax_stats *stats, bool forward)
{
	static const char *const names[] = { "m.attn", "m.attn.q", "m.down" };

	amax_stats_init(stats, "00112233445566778899aabbccddeeff", "bf16", "cpu", 4);
	for (int i = 0; i < 3; i++) {
		int at = forward ? i : 2 - i;

		assert_non_null(amax_stats_site(stats, names[at], at ? AMAX_GEMM : AMAX_ATTENTION));
	}
	append(stats->sites[0], 1, 2, 3, 7);
	append(stats->sites[1], 4, 5, 6, 7);
	append(stats->sites[1], INFINITY, 5, 0, 9);
	append(stats->sites[2], 0x1p-149f, 8, 9, 0);
	amax_site_histogram(stats->sites[2])[2040][1] = UINT64_MAX;
	amax_stats_data(stats, "abc", 3, 512);
	stats->n_passes = 2;
}

static void sites_stay_sorted_and_where_they_are(void **state)
{
	struct amax_stats stats;
	struct amax_site *first, *again;
	char name[16];

	(void)state;
	amax_stats_init(&stats, "m", "f32", "cpu", 4);
	first = amax_stats_site(&stats, "500", AMAX_GEMM);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "%d", (i * 7919) % 1000);
		assert_non_null(amax_stats_site(&stats, name, AMAX_GEMM));
	}
	again = amax_stats_site(&stats, "500", AMAX_GEMM);
	assert_ptr_equal(first, again);
	assert_int_equal(stats.n_sites, 1000);
	for (size_t i = 1; i < stats.n_sites; i++)
		assert_true(strcmp(stats.sites[i - 1]->name, stats.sites[i]->name) < 0);
	assert_null(amax_stats_site(&stats, "500", AMAX_ATTENTION));
	assert_null(amax_stats_find(&stats, "500", AMAX_ATTENTION));
	assert_null(amax_stats_find(&stats, "1000", AMAX_GEMM));
	assert_ptr_equal(amax_stats_find(&stats, "500", AMAX_GEMM), first);
	amax_stats_release(&stats);
}

/* For each limit, after each pass: the last `limit` of them, the oldest first. */
static void history_keeps_the_newest(void **state)
{
	(void)state;
	for (size_t limit = 1; limit < 20; limit++) {
		struct amax_stats stats;
		struct amax_site *site;

		amax_stats_init(&stats, "m", "f32", "cpu", limit);
		site = amax_stats_site(&stats, "s", AMAX_GEMM);
		for (size_t pass = 0; pass < 50; pass++) {
			size_t kept = pass + 1 < limit ? pass + 1 : limit;

			append(site, (float)pass, 1, 2, (int64_t)pass);
			assert_int_equal(site->n_passes, kept);
			for (size_t i = 0; i < kept; i++) {
				assert_int_equal(site->tokens[i], pass + 1 - kept + i);
				assert_true(site->history[i][AMAX_X] ==
					    (float)(pass + 1 - kept + i));
			}
		}
		amax_stats_release(&stats);
	}
}

static void bins_are_exponent_and_three_bits(void **state)
{
	static const struct {
		float x;
		unsigned bin;
	} rows[] = {
		{ 0, 0 },
		{ -0.0f, 0 },
		{ 0x1p-149f, 0 },
		{ 1, 127 * 8 },
		{ -1.125f, 127 * 8 + 1 },
		{ 0x1.1ffffep0f, 127 * 8 },
		{ 1.999f, 127 * 8 + 7 },
		{ 448, (127 + 8) * 8 + 6 },
		{ INFINITY, 255 * 8 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(amax_bin(rows[i].x), rows[i].bin);
}

/* By Python: hashlib.sha256(b"abc"), of b"a", and their sum modulo 2^128, with carries out of both
 * halves. */
static void data_add_up_in_any_order(void **state)
{
	static const char *const texts[] = { "abc", "a" };

	(void)state;
	for (int order = 0; order < 2; order++) {
		struct amax_stats stats;

		amax_stats_init(&stats, "m", "f32", "cpu", 1);
		amax_stats_data(&stats, texts[order], strlen(texts[order]), 5 + order);
		if (!order)
			assert_true(stats.data[0] == 0xba7816bf8f01cfea &&
				    stats.data[1] == 0x414140de5dae2223);
		amax_stats_data(&stats, texts[!order], strlen(texts[!order]), 6 - order);
		assert_true(stats.data[0] == 0x850f97d2591d8db5 &&
			    stats.data[1] == 0x3c037291f7d1fe70);
		assert_int_equal(stats.n_tokens, 11);
		assert_int_equal(stats.seq_len, 6);
		amax_stats_release(&stats);
	}
}

static void file_text(struct buf *text)
{
	struct err err = { 0 };

	text->len = 0;
	if (io_read_file(&io_system, -100, path, 1 << 24, text, &err))
		fail_msg("%s", err.message);
}

static void assert_same(const struct amax_stats *a, const struct amax_stats *b)
{
	assert_int_equal(a->n_sites, b->n_sites);
	assert_int_equal(a->history_len, b->history_len);
	assert_int_equal(a->n_passes, b->n_passes);
	assert_int_equal(a->n_tokens, b->n_tokens);
	assert_int_equal(a->seq_len, b->seq_len);
	assert_memory_equal(a->data, b->data, sizeof a->data);
	assert_string_equal(a->model, b->model);
	assert_string_equal(a->precision, b->precision);
	assert_string_equal(a->backend, b->backend);
	for (size_t i = 0; i < a->n_sites; i++) {
		const struct amax_site *x = a->sites[i], *y = b->sites[i];

		assert_string_equal(x->name, y->name);
		assert_int_equal(x->kind, y->kind);
		assert_int_equal(x->limit, y->limit);
		assert_int_equal(x->n_passes, y->n_passes);
		assert_memory_equal(x->history, y->history, x->n_passes * sizeof *x->history);
		assert_memory_equal(x->tokens, y->tokens, x->n_passes * sizeof *x->tokens);
		assert_int_equal(!x->histogram, !y->histogram);
		if (x->histogram)
			assert_memory_equal(x->histogram, y->histogram,
					    AMAX_BINS * sizeof *x->histogram);
	}
}

static void a_file_comes_back_as_it_was(void **state)
{
	struct amax_stats stats, back;
	struct buf one = { 0 }, other = { 0 };
	struct err err = { 0 };

	(void)state;
	for (int forward = 0; forward < 2; forward++) {
		table(&stats, forward);
		if (amax_stats_write(&stats, &io_system, path, &err) ||
		    amax_stats_read(&back, &io_system, path, &err))
			fail_msg("%s", err.message);
		assert_same(&stats, &back);
		file_text(forward ? &one : &other);
		/* What was read goes on as what was never written. */
		append(back.sites[1], 1, 2, 3, 4);
		append(stats.sites[1], 1, 2, 3, 4);
		assert_same(&stats, &back);
		amax_stats_release(&stats);
		amax_stats_release(&back);
	}
	assert_int_equal(one.len, other.len);
	assert_memory_equal(one.data, other.data, one.len);
	buf_release(&one);
	buf_release(&other);
}

static void an_amax_file_is_told_by_its_metadata(void **state)
{
	struct amax_stats stats;
	struct st_file file;
	struct err err = { 0 };

	(void)state;
	table(&stats, true);
	assert_int_equal(amax_stats_write(&stats, &io_system, path, &err), 0);
	assert_int_equal(st_open(&file, &io_system, path, &err), 0);
	assert_true(amax_is_file(&file));
	for (size_t i = 0; i < file.n_metadata; i++)
		if (!strcmp(file.metadata[i].key, "fp8conv_amax"))
			file.metadata[i].key[0] = '?';
	assert_false(amax_is_file(&file));
	st_release(&file);
	amax_stats_release(&stats);
}

/* A file with a text of its header replaced by one of the same length (spaces are added), or bytes
 * of its data. */
struct broken {
	const char *from, *to;
	int at; /* byte of the data, counted from its end; 0: none */
	const char *bytes;
	const char *message; /* a part of it */
};

static const struct broken broken[] = {
	{ "\"fp8conv_amax\":\"1\"", "\"fp8conv_amax\":\"2\"",
	  .message = "is an amax file of version '2', not 1" },
	{ "\"fp8conv_amax\":\"1\"", "\"fp8conv_omax\":\"1\"",
	  .message = "its metadata has no 'fp8conv_amax'" },
	{ "\"model\":", "\"nodel\":", .message = "metadata 'model' of '%s' is missing" },
	{ "\"precision\":\"bf16\"", "\"precision\":\"\"",
	  .message = "metadata 'precision' of '%s' is empty" },
	{ "\"backend\":\"cpu\"", "\"backend\":\"\\n\"",
	  .message = "'backend' of '%s' is a string with control characters" },
	{ "\"passes\":\"2\"", "\"passes\":\"x\"",
	  .message = "'passes' of '%s' is 'x', not an integer from 0 to 9223" },
	{ "\"tokens\":\"512\"", "\"tokens\":\"012\"",
	  .message = "'tokens' of '%s' is '012', not an integer" },
	{ "\"tokens\":\"512\"", "\"tokens\":\"-12\"",
	  .message = "'tokens' of '%s' is '-12', not an integer" },
	{ "\"amax_history_len\":\"4\"", "\"amax_history_len\":\"0\"",
	  .message = "is '0', not an integer from 1 to 1048576" },
	{ "\"amax_history_len\":\"4\"", "\"amax_history_len\":\"1\"",
	  .message = "'m.attn.q.amax_history' in '%s' has 2 passes, more than its amax_history_len "
		     "(1)" },
	{ "\"data\":\"ba", "\"data\":\"Ba",
	  .message = "'data' of '%s' is 'Ba7816bf8f01cfea414140de5dae2223', not 32" },
	{ "\"m.down.tokens\"", "\"m.down.tokenz\"",
	  .message = "'m.down.tokenz' in '%s' does not belong in an amax file" },
	{ "\"m.down.tokens\"", "\".tokens\"",
	  .message = "'.tokens' in '%s' does not belong in an amax file" },
	{ "\"m.down.tokens\"", "\"tokens\"",
	  .message = "'tokens' in '%s' does not belong in an amax file" },
	{ "\"m.down.tokens\"", "\"m.doom.tokens\"",
	  .message = "'m.doom.tokens' in '%s' has no history" },
	{ "\"m.down.histogram\"", "\"m.attn.histogram\"",
	  .message = "'m.attn.histogram' in '%s' has no history" },
	{ "\"m.down.amax_history\"", "\"m.attn.amax_history\"",
	  .message = "'m.attn' in '%s' is both a module and an attention" },
	{ "\"m.down.amax_history\"", "\"m.bown.amax_history\"",
	  .message = "'m.down.histogram' in '%s' has no history" },
	{ "\"m.down.tokens\":{\"dtype\":\"I64\"", "\"m.down.tokens\":{\"dtype\":\"F64\"",
	  .message = "'m.down.tokens' in '%s' is F64 [1], not I64 [passes]" },
	{ "\"shape\":[2,3]", "\"shape\":[3,2]",
	  .message = "'m.attn.q.amax_history' in '%s' is F32 [3, 2], not F32 [passes" },
	{ "\"shape\":[2048,2]", "\"shape\":[1024,4]",
	  .message = "is U64 [1024, 4], not U64 [2048, 2]" },
	{ .at = 4,
	  .bytes = "\xff\xff\xff\xff",
	  .message = "'m.down.amax_history' in '%s' has NaN at [0, 2]" },
	{ .at = 12,
	  .bytes = "\0\0\0\x80",
	  .message = "'m.down.amax_history' in '%s' has -0 at [0, 0], not a magnitude" },
	{ .at = 48,
	  .bytes = "\0\0\x80\xbf",
	  .message = "'m.attn.amax_history_qkv' in '%s' has -1 at [0, 0]" },
};

static void break_file(const struct broken *row, struct buf *text)
{
	size_t n = row->from ? strlen(row->from) : 0;
	char *at = row->from ? memmem(text->data, text->len, row->from, n) : NULL;

	assert_true(!row->from || at);
	if (at) {
		char *end = memmem(text->data, text->len, "}}", 2);

		while (memmem(end + 1, text->len - (size_t)(end + 1 - text->data), "}}", 2))
			end = memmem(end + 1, text->len - (size_t)(end + 1 - text->data), "}}", 2);
		memmove(at + strlen(row->to), at + n, (size_t)(end + 2 - at) - n);
		memcpy(at, row->to, strlen(row->to));
		memset(end + 2 - (n - strlen(row->to)), ' ', n - strlen(row->to));
	}
	if (row->at)
		memcpy(text->data + text->len - row->at, row->bytes, 4);
}

static void broken_files_are_refused(void **state)
{
	struct buf good = { 0 };
	struct amax_stats stats;
	struct err err = { 0 };

	(void)state;
	table(&stats, true);
	assert_int_equal(amax_stats_write(&stats, &io_system, path, &err), 0);
	amax_stats_release(&stats);
	file_text(&good);
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
		char *message = xasprintf("%s", broken[i].message), *wanted = message,
		     *hole = strstr(message, "%s");
		struct buf text = { 0 };
		FILE *file = fopen(path, "w");

		buf_add(&text, good.data, good.len);
		break_file(&broken[i], &text);
		fwrite(text.data, 1, text.len, file);
		fclose(file);
		if (hole)
			wanted = xasprintf("%.*s%s%s", (int)(hole - message), message, path,
					   hole + 2);
		err = (struct err){ 0 };
		assert_int_equal(amax_stats_read(&stats, &io_system, path, &err), -1);
		if (err.kind != ERR_INPUT || !strstr(err.message, wanted))
			fail_msg("'%s' instead of '%s'", err.message, wanted);
		assert_null(stats.sites);
		if (wanted != message)
			free(wanted);
		free(message);
		buf_release(&text);
	}
	buf_release(&good);
}

static void a_history_without_tokens_is_refused(void **state)
{
	struct amax_stats stats;
	struct st_tensor tensor = { .name = "m.amax_history",
				    .dtype = DT_F32,
				    .n_dims = 2,
				    .shape = (uint64_t[]){ 0, 3 } };
	struct st_metadata metadata[] = {
		{ "fp8conv_amax", "1" },    { "data", "00000000000000000000000000000000" },
		{ "model", "m" },	    { "precision", "f32" },
		{ "backend", "cpu" },	    { "passes", "0" },
		{ "tokens", "0" },	    { "seq_len", "0" },
		{ "amax_history_len", "1" }
	};
	struct buf header = { 0 };
	struct err err = { 0 };
	uint64_t size, header_size;
	FILE *file = fopen(path, "w");

	(void)state;
	st_layout(&tensor, 1, metadata, 9, &header_size, &size);
	st_header(&tensor, 1, metadata, 9, &header);
	fwrite(header.data, 1, header.len, file);
	fclose(file);
	assert_int_equal(amax_stats_read(&stats, &io_system, path, &err), -1);
	assert_non_null(strstr(err.message, "'m' in '"));
	assert_non_null(strstr(err.message, "has a history, but no 'm.tokens'"));
	buf_release(&header);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sites_stay_sorted_and_where_they_are),
		cmocka_unit_test(history_keeps_the_newest),
		cmocka_unit_test(bins_are_exponent_and_three_bits),
		cmocka_unit_test(data_add_up_in_any_order),
		cmocka_unit_test(a_file_comes_back_as_it_was),
		cmocka_unit_test(an_amax_file_is_told_by_its_metadata),
		cmocka_unit_test(broken_files_are_refused),
		cmocka_unit_test(a_history_without_tokens_is_refused),
	};

	return cmocka_run_group_tests(tests, make_path, remove_path);
}
