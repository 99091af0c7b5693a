/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses by RFC 3986 (generic syntax 3, authority 3.2, unreserved characters 2.3, dot segments
 * 5.2.4) and fp8conv-remote(7).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote/address.h"

static void schemes_have_any_case_and_paths_are_not_addresses(void **state)
{
	static const struct {
		const char *text;
		bool is_remote;
	} rows[] = {
		{ "https://example.com/m", true },
		{ "HTTPS://example.com/m", true },
		{ "Http://127.0.0.1/m", true },
		{ "hf://org/name", true },
		{ "HF://org/name", true },
		{ "https:/example.com", false },
		{ "hf:org/name", false },
		{ "ftp://example.com/m", false },
		{ "file:///model", false },
		{ "s3://bucket/m", false },
		{ " https://example.com", false },
		{ "./https://example.com", false },
		{ "models/hf", false },
		{ "-", false },
		{ "", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (address_is_remote(rows[i].text) != rows[i].is_remote)
			fail_msg("'%s'", rows[i].text);
}

/* The words are of the message; NULL: the address is read. */
static const struct {
	const char *url, *word;
} urls[] = {
	{ "https://example.com", NULL },
	{ "https://example.com/a/model.safetensors", NULL },
	{ "HTTPS://EXAMPLE.COM/m", NULL },
	{ "https://example.com:8443/m", NULL },
	{ "https://example.com:/m", NULL },
	{ "https://[2001:db8::1]/m", NULL },
	{ "https://[2001:db8::1]:8443/m", NULL },
	{ "https://example.com/a%20b/%2E%2E/c", NULL },
	{ "https://example.com/a@b:c/m", NULL },
	{ "https://example.com?sig=a@b", NULL },
	{ "http://127.0.0.1", NULL },
	{ "http://127.0.0.1/m", NULL },
	{ "http://127.0.0.1:8080/m", NULL },
	{ "HTTP://127.0.0.1?x", NULL },
	{ "http://127.0.0.1.evil.com/m", "without TLS" },
	{ "http://127.0.0.10/m", "without TLS" },
	{ "http://127.0.0.1%2eevil.com/m", "without TLS" },
	{ "http://127.0.0.1-evil.com/m", "without TLS" },
	{ "http://evil.com/127.0.0.1", "without TLS" },
	{ "http://evil.com?127.0.0.1", "without TLS" },
	{ "http://evil.com#@127.0.0.1", "without TLS" },
	{ "http://localhost/m", "without TLS" },
	{ "http://127.1/m", "without TLS" },
	{ "http://[::1]/m", "without TLS" },
	{ "http://0127.0.0.1/m", "without TLS" },
	{ "http://127.0.0.1@evil.com/m", "user name" },
	{ "http://127.0.0.1:80@evil.com/m", "user name" },
	{ "http://me@127.0.0.1/m", "user name" },
	{ "https://me:secret@example.com/m", "user name" },
	{ "https://@example.com/m", "user name" },
	{ "https://me:secret @example.com/m", "byte" },
	{ "https://example.com:x/m?secret", "port" },
	{ "http://example.com/m?secret", "without TLS" },
	{ "ftp://me:secret@example.com/m", "http or https" },
	{ "http://127.0.0.1\\@evil.com/m", "byte" },
	{ "http://127.0.0.1:80.evil.com/m", "port" },
	{ "http://127.0.0.1:evil.com/m", "port" },
	{ "http://127.0.0.1:80:90/m", "port" },
	{ "https://example.com:123456/m", "port" },
	{ "https://example.com:-1/m", "port" },
	{ "https://[2001:db8::1/m", "port" },
	{ "https://[2001:db8::1]evil.com/m", "port" },
	{ "https://[2001:db8::1]evil.com:80/m", "port" },
	{ "https://2001:db8::1/m", "port" },
	{ "https://", "no host" },
	{ "https:///m", "no host" },
	{ "https://?m", "no host" },
	{ "https://:443/m", "no host" },
	{ "https://example.com/a b", "byte" },
	{ "https://example.com/a\nb", "byte" },
	{ "https://example.com\r\nHost: evil.com/m", "byte" },
	{ "https://example.com/\x01", "byte" },
	{ "https://example.com/\x7f", "byte" },
	{ "ftp://example.com/m", "http or https" },
	{ "hf://org/name", "http or https" },
	{ "example.com/m", "http or https" },
	{ "", "http or https" },
};

static void only_tls_and_loopback_are_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
		struct err err = { 0 };
		int rc = address_check(urls[i].url, &err);

		if (!urls[i].word
			    ? rc != 0
			    : !rc || err.kind != ERR_INPUT || !strstr(err.message, urls[i].word))
			fail_msg("'%s': %s", urls[i].url, rc ? err.message : "is read");
		if (strstr(err.message, "secret"))
			fail_msg("a message shows a password: %s", err.message);
	}
}

/* The pages of huggingface.co: /ORG/NAME, /tree/REV[/FOLDER], /blob/REV/FILE, with REV escaped. */
static void pages_of_the_hub_are_its_models(void **state)
{
	static const struct {
		const char *url, *hub;
	} rows[] = {
		{ "https://huggingface.co/org/name", "hf://org/name" },
		{ "https://huggingface.co/org/na-me_1.5/", "hf://org/na-me_1.5" },
		{ "https://huggingface.co/org/name?show=a#b", "hf://org/name" },
		{ "https://hf.co/org/name/tree/main", "hf://org/name@main" },
		{ "HTTPS://HuggingFace.co/org/name/tree/v1/", "hf://org/name@v1" },
		{ "https://huggingface.co/org/name/tree/refs%2Fpr%2F1?x=y",
		  "hf://org/name@refs/pr/1" },
		{ "https://huggingface.co/org/name/blob/v1/a/model.safetensors",
		  "hf://org/name@v1" },
		{ "https://mirror.example/org/name/tree/v1", "hf://org/name@v1" },
		{ "https://huggingface.co/org/name/tree/v%2", "hf://org/name@v%2" },
		{ "https://huggingface.co/org/name/tree/main/folder", NULL },
		{ "https://huggingface.co/org/name/resolve/main", NULL },
		{ "https://huggingface.co/org/name/resolve/main/model.safetensors", NULL },
		{ "https://huggingface.co/datasets/org/name", NULL },
		{ "https://huggingface.co/name", NULL },
		{ "https://huggingface.co/org/", NULL },
		{ "https://huggingface.co.example/org/name", NULL },
		{ "https://huggingface.co:443/org/name", NULL },
		{ "https://example.com/org/name", NULL },
		{ "http://huggingface.co/org/name", NULL },
		{ "hf://org/name", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char *hub = address_of_page(rows[i].url, "https://mirror.example");

		if (!hub || !rows[i].hub ? hub != rows[i].hub : strcmp(hub, rows[i].hub) != 0)
			fail_msg("'%s': %s", rows[i].url, hub ? hub : "none");
		free(hub);
	}
}

static void long_addresses_are_read_or_refused_as_short_ones(void **state)
{
	size_t n = 100000;
	char *url = malloc(n + 1);
	struct err err = { 0 };

	(void)state;
	memset(url, 'a', n);
	url[n] = '\0';
	memcpy(url, "https://", 8);
	url[1000] = '/';
	assert_int_equal(address_check(url, &err), 0);
	memcpy(url, "http://a", 8);
	assert_int_equal(address_check(url, &err), -1);
	assert_int_equal(err.kind, ERR_INPUT);
	free(url);
}

/* A token is sent where scheme, host and port are the same; RFC 3986, 3.2.2: hosts have any
 * case. */
static void a_token_stays_at_its_origin(void **state)
{
	static const char hub[] = "https://huggingface.co";
	static const struct {
		const char *url;
		bool same;
	} rows[] = {
		{ "https://huggingface.co", true },
		{ "https://huggingface.co/org/name/resolve/main/a", true },
		{ "https://huggingface.co?x", true },
		{ "https://huggingface.co#x", true },
		{ "HTTPS://HuggingFace.CO/a", true },
		{ "http://huggingface.co/a", false },
		{ "https://huggingface.co:8443/a", false },
		{ "https://huggingface.co.evil.com/a", false },
		{ "https://huggingface.co@evil.com/a", false },
		{ "https://huggingface.co\\@evil.com/a", false },
		{ "https://evil.com/https://huggingface.co", false },
		{ "https://evil.com?https://huggingface.co", false },
		{ "https://cdn.huggingface.co/a", false },
		{ "https://huggingface.c/a", false },
		{ "huggingface.co", false },
		{ "", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (address_same_origin(rows[i].url, hub) != rows[i].same ||
		    address_same_origin(hub, rows[i].url) != rows[i].same)
			fail_msg("'%s'", rows[i].url);
	assert_false(address_same_origin("", ""));
}

/* RFC 3986, 3.2.1 and 3.4: user information ends at the last '@' of the authority; a query begins
 * at the first '?'. */
static void addresses_are_shown_without_secrets(void **state)
{
	static const struct {
		const char *url, *shown;
	} rows[] = {
		{ "https://example.com/m", "https://example.com/m" },
		{ "https://example.com/m?sig=SECRET", "https://example.com/m?..." },
		{ "https://example.com/m#SECRET", "https://example.com/m#..." },
		{ "https://example.com?a@SECRET", "https://example.com?..." },
		{ "https://example.com/m?", "https://example.com/m?..." },
		{ "https://me:SECRET@example.com/a@b", "https://...@example.com/a@b" },
		{ "https://me:SEC@RET@example.com/m?SECRET", "https://...@example.com/m?..." },
		{ "https://me:SEC RET@example.com", "https://...@example.com" },
		{ "hf://org/name@rev", "hf://org/name@rev" },
		{ "hf://me:SECRET@org/name", "hf://...@org/name" },
		{ "me:SECRET@host", "...@host" },
		{ "", "" },
	};
	struct shown_address shown;

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_string_equal(address_show(rows[i].url, &shown), rows[i].shown);
}

/* RFC 1122, 3.2.1.3: 127.0.0.0/8; RFC 4291, 2.5.3: ::1; RFC 6761, 6.3: localhost. */
static void loopback_is_known_by_its_name(void **state)
{
	static const struct {
		const char *url;
		bool local;
	} rows[] = {
		{ "http://127.0.0.1", true },
		{ "http://127.0.0.1:80/m", true },
		{ "https://127.1.2.3?x", true },
		{ "https://LOCALHOST:1/m", true },
		{ "https://[::1]:8443/m", true },
		{ "https://127.0.0.1.evil.com/m", false },
		{ "https://127.evil.com", false },
		{ "https://localhost.evil.com", false },
		{ "https://example.com/127.0.0.1", false },
		{ "https://128.0.0.1", false },
		{ "https://[::2]", false },
		{ "127.0.0.1", false },
		{ "", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (address_is_local(rows[i].url) != rows[i].local)
			fail_msg("'%s'", rows[i].url);
}

static void redirects_do_not_leave_tls(void **state)
{
	(void)state;
	assert_true(address_may_lead("https://a.com", "https://b.com"));
	assert_true(address_may_lead("http://127.0.0.1", "https://b.com"));
	assert_true(address_may_lead("http://127.0.0.1", "HTTP://127.0.0.1:80"));
	assert_false(address_may_lead("https://a.com", "http://127.0.0.1"));
	assert_false(address_may_lead("HTTPS://a.com", "HTTP://a.com"));
	assert_false(address_may_lead("https://a.com", "file:///etc/passwd"));
	assert_false(address_may_lead("http://127.0.0.1", "hf://org/name"));
}

/* NULL: the address is refused. */
static void addresses_of_the_hub_have_a_name_and_a_revision(void **state)
{
	static const struct {
		const char *address, *repo, *revision;
	} rows[] = {
		{ "hf://Qwen/Qwen3-8B", "Qwen/Qwen3-8B", "main" },
		{ "HF://Qwen/Qwen3-8B", "Qwen/Qwen3-8B", "main" },
		{ "hf://org/name_1.5@v1.0", "org/name_1.5", "v1.0" },
		{ "hf://org/name@refs/pr/1", "org/name", "refs/pr/1" },
		{ "hf://org/name@a@b", "org/name", "a@b" },
		{ "hf://org/name@0123456789abcdef0123456789abcdef01234567", "org/name",
		  "0123456789abcdef0123456789abcdef01234567" },
		{ "hf://org/name@feature/../main", "org/name", "feature/../main" },
		{ "hf://org/name@a?b#c", "org/name", "a?b#c" },
		{ "hf://org/...", "org/...", "main" },
		{ "hf://org/name@..", NULL, NULL },
		{ "hf://org/name@.", NULL, NULL },
		{ "hf://org/name@", NULL, NULL },
		{ "hf://org/name/file.safetensors", NULL, NULL },
		{ "hf://org/name/", NULL, NULL },
		{ "hf://org/..", NULL, NULL },
		{ "hf://org/.", NULL, NULL },
		{ "hf://../name", NULL, NULL },
		{ "hf://./name", NULL, NULL },
		{ "hf://org", NULL, NULL },
		{ "hf://org/", NULL, NULL },
		{ "hf:///name", NULL, NULL },
		{ "hf://", NULL, NULL },
		{ "hf://org@main/name", NULL, NULL },
		{ "hf://org/na me", NULL, NULL },
		{ "hf://org/name?x=1", NULL, NULL },
		{ "hf://org/name#x", NULL, NULL },
		{ "hf://org/na%2Fme", NULL, NULL },
		{ "hf://org/na\nme", NULL, NULL },
		{ "hf://org/n\xc3\xa4me", NULL, NULL },
		{ "https://org/name", NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct err err = { 0 };
		char *repo, *revision;
		int rc = address_split_hub(rows[i].address, &repo, &revision, &err);

		if (!rows[i].repo != (rc != 0))
			fail_msg("'%s': %s", rows[i].address, rc ? err.message : "is taken");
		if (!rc) {
			assert_string_equal(repo, rows[i].repo);
			assert_string_equal(revision, rows[i].revision);
		} else {
			assert_int_equal(err.kind, ERR_INPUT);
			assert_null(repo);
			assert_null(revision);
		}
		free(repo);
		free(revision);
	}
}

/* RFC 3986, 2.3: letters, digits and "-._~" stay; every other byte becomes %XX. */
static void every_byte_that_is_not_unreserved_is_escaped(void **state)
{
	static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					 "0123456789-._~";

	(void)state;
	for (int byte = 1; byte < 256; byte++) {
		char text[2] = { (char)byte, '\0' }, expected[4];
		char *escaped = address_escape(text, false);

		snprintf(expected, sizeof expected, strchr(unreserved, byte) ? "%c" : "%%%02X",
			 byte);
		assert_string_equal(escaped, expected);
		free(escaped);
	}
}

static void slashes_of_a_path_stay_and_those_of_a_revision_do_not(void **state)
{
	static const struct {
		const char *text, *path, *segment;
	} rows[] = {
		{ "original/params.json", "original/params.json", "original%2Fparams.json" },
		{ "refs/pr/1", "refs/pr/1", "refs%2Fpr%2F1" },
		{ "a b?c#d%2F", "a%20b%3Fc%23d%252F", "a%20b%3Fc%23d%252F" },
		{ "\xe6\xa8\xa1", "%E6%A8%A1", "%E6%A8%A1" },
		{ "", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char *path = address_escape(rows[i].text, true);
		char *segment = address_escape(rows[i].text, false);

		assert_string_equal(path, rows[i].path);
		assert_string_equal(segment, rows[i].segment);
		free(path);
		free(segment);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(schemes_have_any_case_and_paths_are_not_addresses),
		cmocka_unit_test(only_tls_and_loopback_are_read),
		cmocka_unit_test(pages_of_the_hub_are_its_models),
		cmocka_unit_test(long_addresses_are_read_or_refused_as_short_ones),
		cmocka_unit_test(a_token_stays_at_its_origin),
		cmocka_unit_test(addresses_are_shown_without_secrets),
		cmocka_unit_test(loopback_is_known_by_its_name),
		cmocka_unit_test(redirects_do_not_leave_tls),
		cmocka_unit_test(addresses_of_the_hub_have_a_name_and_a_revision),
		cmocka_unit_test(every_byte_that_is_not_unreserved_is_escaped),
		cmocka_unit_test(slashes_of_a_path_stay_and_those_of_a_revision_do_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
