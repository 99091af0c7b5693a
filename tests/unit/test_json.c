/* SPDX-License-Identifier: Apache-2.0
 *
 * base/json.h: the walk, the values, the edits.  Expected texts of edits are what a text editor
 * would leave behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"

#define N_ROWS(rows) (sizeof(rows) / sizeof *(rows))

static struct json_text text_of(const char *text)
{
	return (struct json_text){ text, strlen(text) };
}

/* "key=value|" for each member; then "." at a good end, or the message. */
static void walk_into(struct buf *out, struct json_text text)
{
	struct json_members walk = { .text = text };
	struct json_member member;
	struct err err = { 0 };
	int rc;

	while ((rc = json_members_next(&walk, &member, &err)) > 0)
		buf_printf(out, "%s=%.*s|", member.key, (int)member.value.len, member.value.data);
	if (!rc)
		assert_int_equal(json_members_next(&walk, &member, &err), 0);
	else
		assert_int_equal(err.kind, ERR_INPUT);
	buf_puts(out, rc ? err.message : ".");
	json_members_release(&walk);
}

static void members_are_read_in_order_or_refused(void **state)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{ "{}", "." },
		{ " \t\r\n{ } \n", "." },
		{ "{\"a\":1}", "a=1|." },
		{ "{ \"a\" : [1, {\"b\": \"}\"}] , \"c\\u0041\\n\":\"x\\\"y\" }  ",
		  "a=[1, {\"b\": \"}\"}]|cA\n=\"x\\\"y\"|." },
		{ "{\"a\":NaN,\"b\":-Infinity}", "a=NaN|b=-Infinity|." },
		{ "{\"a\":1,\"a\":2}", "a=1|a=2|." },
		{ "{\"\\ud83d\\ude00\":0}", "\xf0\x9f\x98\x80=0|." },
		{ "", "bad JSON at byte 0: expected '{'" },
		{ "[]", "bad JSON at byte 0: expected '{'" },
		{ " null", "bad JSON at byte 1: expected '{'" },
		{ "{", "bad JSON at byte 1: expected a key in quotes" },
		{ "{,}", "bad JSON at byte 1: expected a key in quotes" },
		{ "{\"a\":1,}", "a=1|bad JSON at byte 7: expected a key in quotes" },
		{ "{\"a\" 1}", "bad JSON at byte 5: expected ':'" },
		{ "{\"a\":}", "bad JSON at byte 5: expected a value" },
		{ "{\"a\":,}", "bad JSON at byte 5: expected a value" },
		{ "{\"a\":", "bad JSON at byte 5: unexpected end" },
		{ "{\"a\":1", "a=1|bad JSON at byte 6: expected ',' or '}'" },
		{ "{\"a\":1 2}", "a=1|bad JSON at byte 7: expected ',' or '}'" },
		{ "{\"a\":1}}", "a=1|bad JSON at byte 7: expected the end" },
		{ "{\"a\":[1}", "bad JSON at byte 7: mismatched brackets" },
		{ "{\"a\":{]}", "bad JSON at byte 6: mismatched brackets" },
		{ "{\"a\":[1,2", "bad JSON at byte 9: unexpected end" },
		{ "{\"a\":\"b}", "bad JSON at byte 5: unterminated string" },
		{ "{\"a\":\"b\\\"", "bad JSON at byte 5: unterminated string" },
		{ "{\"a\":[\"b\\", "bad JSON at byte 6: unterminated string" },
		{ "{a:1}", "bad JSON at byte 1: expected a key in quotes" },
		{ "{\"\\u0000\":1}",
		  "bad JSON at byte 1: the key has a bad escape, a control character, a NUL or "
		  "bad UTF-8" },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		struct buf out = { 0 };

		walk_into(&out, text_of(rows[i].text));
		assert_string_equal(out.data, rows[i].expected);
		buf_release(&out);
	}
}

/* n brackets in the value of a member. */
static char *nested(size_t n)
{
	char *text = xmalloc(2 * n + 16);
	size_t at = 5;

	memcpy(text, "{\"a\":", 5);
	memset(text + at, '[', n);
	memset(text + at + n, ']', n);
	strcpy(text + at + 2 * n, "}");
	return text;
}

static void nesting_is_limited(void **state)
{
	static const struct {
		size_t n;
		bool good;
	} rows[] = { { 1, true },
		     { JSON_MAX_DEPTH - 1, true },
		     { JSON_MAX_DEPTH, false },
		     { 5000000, false } };

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		char *text = nested(rows[i].n);
		struct json_text value;
		struct err err = { 0 };
		json_t *json;

		assert_int_equal(json_find(text_of(text), "a", &value, &err),
				 rows[i].good ? 0 : -1);
		json = json_decode(text_of(text), &err);
		assert_int_equal(!!json, rows[i].good);
		if (!rows[i].good)
			assert_string_equal(err.message,
					    "bad JSON at byte 131: nested deeper than 127 levels");
		json_decref(json);
		free(text);
	}
}

static void readers_differ_only_where_they_say(void **state)
{
	enum { STRICT = 1, PYTHON = 2, CHECK = 4, ALL = 7 };
	static const struct {
		const char *text;
		int good; /* for which readers */
	} rows[] = {
		{ "0", ALL },
		{ " [1, 2.5e3, \"x\", true, false, null] ", ALL },
		{ "9223372036854775807", ALL },
		{ "9223372036854775808", CHECK },
		{ "123456789012345678901234567890", CHECK },
		{ "1e400", 0 },
		{ "-0", PYTHON | CHECK },
		{ "[-0.0, -0e1, -01]", 0 },
		{ "[-0.0, -0e1]", ALL },
		{ "\"-0\"", ALL },
		{ "{\"a\":1,\"a\":2}", CHECK },
		{ "{\"a\":{\"b\":1,\"\\u0062\":2}}", CHECK },
		{ "NaN", PYTHON },
		{ "[Infinity,-Infinity,\"NaN\"]", PYTHON },
		{ "+Infinity", 0 },
		{ "nan", 0 },
		{ "\"\\u0000\"", CHECK },
		{ "\"\\ud800\"", 0 },
		{ "\"\\x\"", 0 },
		{ "\"\x01\"", 0 },
		{ "\"\xff\"", 0 },
		{ "\"\xed\xa0\x80\"", 0 },
		{ "01", 0 },
		{ "1.", 0 },
		{ ".5", 0 },
		{ "tru", 0 },
		{ "", 0 },
		{ "[1 2]", 0 },
		{ "[1,]", 0 },
		{ "1 2", 0 },
		{ "// c\n1", 0 },
		{ "\xef\xbb\xbf{}", 0 },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		struct json_text text = text_of(rows[i].text);
		struct err err = { 0 };
		json_t *strict = json_decode(text, &err);
		json_t *python = json_decode_python(text, &err);
		int good = (strict ? STRICT : 0) | (python ? PYTHON : 0) |
			   (json_check(text, &err) ? 0 : CHECK);

		if (good != rows[i].good)
			fail_msg("%s: read by %d, expected %d", rows[i].text, good, rows[i].good);
		json_decref(strict);
		json_decref(python);
	}
}

static void a_raw_nul_is_refused(void **state)
{
	static const char text[] = "[1\0,2]"; /* jansson takes the NUL for the end of the number */
	struct json_text raw = { text, sizeof text - 1 };
	struct err err;

	(void)state;
	assert_null(json_decode(raw, &err));
	assert_null(json_decode_python(raw, &err));
	assert_int_equal(json_check(raw, &err), -1);
}

static void python_words_are_null(void **state)
{
	struct err err;
	json_t *json = json_decode_python(
		text_of("{\"a\": NaN, \"b\": [1, -Infinity], \"NaN\": \"NaN\"}"), &err);

	(void)state;
	assert_non_null(json);
	assert_true(json_is_null(json_object_get(json, "a")));
	assert_true(json_is_null(json_array_get(json_object_get(json, "b"), 1)));
	assert_string_equal(json_string_value(json_object_get(json, "NaN")), "NaN");
	json_decref(json);
}

static void strings_are_unescaped_or_refused(void **state)
{
	static const struct {
		const char *text, *expected; /* NULL: refused */
	} rows[] = {
		{ "\"\"", "" },
		{ "\"abc\"", "abc" },
		{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"", "\"\\/\b\f\n\r\t\xc3\xa9" },
		{ "\"\x7f\xc3\xa9\xf0\x9f\x98\x80\"", "\x7f\xc3\xa9\xf0\x9f\x98\x80" },
		{ "", NULL },
		{ "\"", NULL },
		{ "\"a\"b\"", NULL },
		{ "\"a\" ", NULL },
		{ " \"a\"", NULL },
		{ "1", NULL },
		{ "null", NULL },
		{ "\"\n\"", NULL },
		{ "\"\\u0000\"", NULL },
		{ "\"\\udc00\"", NULL },
		{ "\"\\u12\"", NULL },
		{ "\"\\q\"", NULL },
		{ "\"\xc3\"", NULL },
		{ "\"\xc0\x80\"", NULL },
		{ "\"\xf4\x90\x80\x80\"", NULL },
	};
	struct buf out = { 0 };

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		bool good = json_text_string(text_of(rows[i].text), &out);

		assert_int_equal(good, !!rows[i].expected);
		if (good)
			assert_string_equal(out.data, rows[i].expected);
	}
	buf_release(&out);
}

static void arrays_of_integers_are_read_or_refused(void **state)
{
	static const struct {
		const char *text;
		int64_t n;
		uint64_t last; /* of the two that there is room for */
	} rows[] = {
		{ "[]", 0, 0 },
		{ "[ ]", 0, 0 },
		{ "[0]", 1, 0 },
		{ " [ 7 , 8 ] ", 2, 8 },
		{ "[1,2,3,4]", 4, 2 },
		{ "[18446744073709551615]", 1, UINT64_MAX },
		{ "[18446744073709551616]", -1, 0 },
		{ "[99999999999999999999999]", -1, 0 },
		{ "[-1]", -1, 0 },
		{ "[-0]", -1, 0 },
		{ "[+1]", -1, 0 },
		{ "[01]", -1, 0 },
		{ "[00]", -1, 0 },
		{ "[1.0]", -1, 0 },
		{ "[1e0]", -1, 0 },
		{ "[0x1]", -1, 0 },
		{ "[true]", -1, 0 },
		{ "[\"1\"]", -1, 0 },
		{ "[1,]", -1, 0 },
		{ "[,1]", -1, 0 },
		{ "[1 2]", -1, 0 },
		{ "[1,,2]", -1, 0 },
		{ "[[1]]", -1, 0 },
		{ "[1", -1, 0 },
		{ "[1}", -1, 0 },
		{ "[1]]", -1, 0 },
		{ "1", -1, 0 },
		{ "{}", -1, 0 },
		{ "", -1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		uint64_t values[2] = { 0 };
		int64_t n = json_text_uints(text_of(rows[i].text), values, 2);

		if (n != rows[i].n)
			fail_msg("%s: %lld values, expected %lld", rows[i].text, (long long)n,
				 (long long)rows[i].n);
		if (n > 0)
			assert_true(values[n > 1] == rows[i].last);
	}
}

static void utf8_ends_before_its_first_bad_byte(void **state)
{
	static const struct {
		const char *text;
		size_t good;
	} rows[] = {
		{ "", 0 },
		{ "plain ascii, more than eight", 28 },
		{ "1234567\xc3\xa9", 9 },
		{ "12345678\x80", 8 },
		{ "\xc1\xbf", 0 },
		{ "\xc2\x80\xdf\xbf", 4 },
		{ "\xe0\x9f\xbf", 0 },
		{ "\xe0\xa0\x80\xef\xbf\xbf", 6 },
		{ "\xed\x9f\xbf\xed\xa0\x80", 3 },
		{ "\xf0\x8f\xbf\xbf", 0 },
		{ "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8 },
		{ "\xf4\x90\x80\x80", 0 },
		{ "\xf5\x80\x80\x80", 0 },
		{ "a\xe2\x82", 1 },
		{ "a\xe2\x82z", 1 },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++)
		assert_int_equal(json_utf8_prefix(text_of(rows[i].text)), rows[i].good);
}

/* Any byte at any place of texts of any length up to three times eight, another that ends it
 * behind. */
static void a_plain_prefix_ends_where_escapes_begin(void **state)
{
	char text[25];

	(void)state;
	for (size_t n = 0; n <= 24; n++) {
		for (size_t at = 0; at <= n; at++) {
			for (int c = 0; c < 256; c++) {
				bool plain = c >= ' ' && c != '"' && c != '\\';

				memset(text, 'x', sizeof text);
				text[at] = (char)c;
				if (at + 2 < n)
					text[at + 2] = '"';
				assert_int_equal(json_plain_prefix((struct json_text){ text, n }),
						 at < n && !plain ? at
						 : at + 2 < n	  ? at + 2
								  : n);
			}
		}
	}
}

static void written_strings_are_escaped(void **state)
{
	static const char text[] = "a\"\\/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9";
	struct buf out = { 0 };

	(void)state;
	config_add_json_string(&out, text, strlen(text));
	assert_string_equal(out.data, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\"");
	buf_release(&out);
}

static void a_member_is_found_once(void **state)
{
	static const struct {
		const char *text, *expected; /* "": not there; NULL: an error */
	} rows[] = {
		{ "{\"k\": [1, 2] }", "[1, 2]" },
		{ "{\"x\": NaN, \"\\u006b\":\"v\"}", "\"v\"" },
		{ "{\"kk\": 1, \"x\": {\"k\": 2}}", "" },
		{ "{}", "" },
		{ "{\"k\": 1, \"k\": 2}", NULL },
		{ "{\"k\": 1, \"x\": }", NULL },
		{ "[]", NULL },
		{ "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		struct json_text value;
		struct err err;
		int rc = json_find(text_of(rows[i].text), "k", &value, &err);

		assert_int_equal(rc, rows[i].expected ? 0 : -1);
		if (!rc)
			assert_int_equal(value.len, strlen(rows[i].expected));
		if (!rc && value.len)
			assert_memory_equal(value.data, rows[i].expected, value.len);
	}
}

static const struct {
	const char *text, *value, *expected; /* value NULL: removed; expected NULL: an error */
} edits[] = {
	/* replaced */
	{ "{\"k\":1}", "2", "{\"k\":2}" },
	{ "{\"a\": NaN, \"k\" : null , \"b\": 1e999}\n", "true",
	  "{\"a\": NaN, \"k\" : true , \"b\": 1e999}\n" },
	{ "{\n  \"a\": 1,\n  \"k\": null,\n  \"b\": 2\n}\n",
	  "{\n  \"x\": [\n    1,\n    2\n  ],\n  \"y\": {}\n}",
	  "{\n  \"a\": 1,\n  \"k\": {\n    \"x\": [\n      1,\n      2\n    ],\n    \"y\": {}\n "
	  " },\n  \"b\": 2\n}\n" },
	{ "{\n    \"k\": null\n}", "{\"x\":[1,\"a, b: {\"]}",
	  "{\n    \"k\": {\n        \"x\": [\n            1,\n            \"a, b: {\"\n        "
	  "]\n    }\n}" },
	{ "{\n\t\"k\": null\n}", "[1]", "{\n\t\"k\": [\n\t\t1\n\t]\n}" },
	{ "{\"a\":1,\"k\":2}", "{\n  \"x\": [\n    1,\n    2\n  ]\n}",
	  "{\"a\":1,\"k\":{\"x\":[1,2]}}" },
	{ "{\"a\": 1, \"k\": 2}", "{\n  \"x\": [\n    1,\n    2\n  ]\n}",
	  "{\"a\": 1, \"k\": {\"x\": [1, 2]}}" },
	{ "{\r\n  \"k\": 1\r\n}\r\n", "[1]", "{\r\n  \"k\": [\r\n    1\r\n  ]\r\n}\r\n" },
	{ "{\n\"k\":1\n}", "[1]", "{\n\"k\":[\n1\n]\n}" },
	/* appended */
	{ "{}", "1", "{\n  \"k\": 1\n}" },
	{ "{ }\n", "[1]", "{\n  \"k\": [\n    1\n  ]\n}\n" },
	{ "{\"a\":1}", "2", "{\"a\":1,\"k\":2}" },
	{ "{\"a\": 1}", "2", "{\"a\": 1, \"k\": 2}" },
	{ "{\n  \"a\": 1\n}\n", "{\"x\":1}", "{\n  \"a\": 1,\n  \"k\": {\n    \"x\": 1\n  }\n}\n" },
	{ "{\n    \"a\": {\"k\": 1}\n}", "2", "{\n    \"a\": {\"k\": 1},\n    \"k\": 2\n}" },
	/* removed */
	{ "{\"k\":1}", NULL, "{}" },
	{ "{\n  \"k\": 1\n}\n", NULL, "{}\n" },
	{ "{\"k\": 1, \"b\": 2}", NULL, "{\"b\": 2}" },
	{ "{\"a\": 1, \"k\": 2}", NULL, "{\"a\": 1}" },
	{ "{\n  \"a\": 1,\n  \"k\": 2,\n  \"b\": 3\n}", NULL, "{\n  \"a\": 1,\n  \"b\": 3\n}" },
	{ "{ \"a\": 1 }", NULL, "{ \"a\": 1 }" },
	/* refused */
	{ "[]", "1", NULL },
	{ "{\"k\":1,\"\\u006b\":2}", "1", NULL },
	{ "{\"k\":1", "1", NULL },
	{ "{\"k\":1}", "[1", NULL },
	{ "{\"k\":1}", "", NULL },
};

static void an_edit_leaves_the_rest_as_it_was(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ROWS(edits); i++) {
		struct buf out = { 0 };
		struct err err;
		int rc = json_edit(text_of(edits[i].text), "k", edits[i].value, &out, &err);

		assert_int_equal(rc, edits[i].expected ? 0 : -1);
		if (!rc)
			assert_string_equal(out.data, edits[i].expected);
		buf_release(&out);
	}
}

static void an_edit_reaches_nested_members(void **state)
{
	static const char text[] =
		"{\n  \"v\": 1e400,\n  \"text_config\": {\n    \"n\": 8\n  },\n  \"z\": [ 1 ]\n}\n";
	const char *const path[] = { "text_config", "q" };
	const char *const missing[] = { "vision_config", "q" };
	const char *const scalar[] = { "v", "q" };
	struct buf out = { 0 };
	struct err err;

	(void)state;
	assert_int_equal(json_edit_path(text_of(text), path, 2, "{\"m\":[]}", &out, &err), 0);
	assert_string_equal(
		out.data, "{\n  \"v\": 1e400,\n  \"text_config\": {\n    \"n\": 8,\n    \"q\": {\n"
			  "      \"m\": []\n    }\n  },\n  \"z\": [ 1 ]\n}\n");
	buf_release(&out);
	assert_int_equal(json_edit_path(text_of(text), missing, 2, "1", &out, &err), -1);
	assert_string_equal(err.message, "missing member 'vision_config'");
	assert_int_equal(json_edit_path(text_of(text), scalar, 2, "1", &out, &err), -1);
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_are_read_in_order_or_refused),
		cmocka_unit_test(nesting_is_limited),
		cmocka_unit_test(readers_differ_only_where_they_say),
		cmocka_unit_test(a_raw_nul_is_refused),
		cmocka_unit_test(python_words_are_null),
		cmocka_unit_test(strings_are_unescaped_or_refused),
		cmocka_unit_test(arrays_of_integers_are_read_or_refused),
		cmocka_unit_test(utf8_ends_before_its_first_bad_byte),
		cmocka_unit_test(a_plain_prefix_ends_where_escapes_begin),
		cmocka_unit_test(written_strings_are_escaped),
		cmocka_unit_test(a_member_is_found_once),
		cmocka_unit_test(an_edit_leaves_the_rest_as_it_was),
		cmocka_unit_test(an_edit_reaches_nested_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
