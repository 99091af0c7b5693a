/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/address.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

static const char http[] = "http://", https[] = "https://", hub[] = "hf://";

static bool begins(const char *text, const char *prefix)
{
	return !strncasecmp(text, prefix, strlen(prefix));
}

bool address_is_remote(const char *text)
{
	return begins(text, http) || begins(text, https) || begins(text, hub);
}

/* Returns the length of scheme, host and port. */
static size_t origin_length(const char *url)
{
	const char *host = strstr(url, "://");

	return host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?#") : 0;
}

const char *address_show(const char *url, struct shown_address *shown)
{
	const char *scheme = strstr(url, "://");
	const char *host = scheme ? scheme + 3 : url;
	const char *at = memrchr(host, '@', strcspn(host, "/?#"));
	const char *rest = at ? at : host;
	size_t n = strcspn(rest, "?#");

	/* cppcheck-suppress ctuuninitvar ; only its size is read */
	snprintf(shown->text, sizeof shown->text, "%.*s%s%.*s%.1s%s", (int)(host - url), url,
		 at ? "..." : "", (int)(n < INT_MAX ? n : INT_MAX), rest, rest + n,
		 rest[n] ? "..." : "");
	return shown->text;
}

bool address_is_local(const char *url)
{
	const char *host = strstr(url, "://");
	size_t n = origin_length(url), n_name;

	if (!host)
		return false;
	host += 3;
	n -= (size_t)(host - url);
	n_name = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
	n = n_name < n ? n_name : n;
	return (n == 9 && !strncasecmp(host, "localhost", n)) ||
	       (n == 5 && !strncmp(host, "[::1]", n)) ||
	       (n > 4 && !strncmp(host, "127.", 4) && strspn(host, "0123456789.") >= n);
}

static bool is_loopback(const char *host, size_t n)
{
	static const char loopback[] = "127.0.0.1";
	size_t n_loopback = sizeof loopback - 1;

	return n >= n_loopback && !strncmp(host, loopback, n_loopback) &&
	       (n == n_loopback || host[n_loopback] == ':');
}

/* Has the host nothing or a number of a port behind it?  An IPv6 address stands in brackets, so
 * that its colons are none of a port. */
static bool has_port_or_none(const char *host, size_t n)
{
	const char *bracket = *host == '[' ? memchr(host, ']', n) : NULL;
	const char *from = bracket ? bracket + 1 : host;
	const char *colon = memchr(from, ':', n - (size_t)(from - host));
	size_t n_digits = colon ? (size_t)(host + n - colon) - 1 : 0;

	if (*host == '[' && (!bracket || (bracket + 1 < host + n && colon != bracket + 1)))
		return false;
	return n_digits <= 5 && (!colon || strspn(colon + 1, "0123456789") >= n_digits);
}

int address_check(const char *url, struct err *err)
{
	size_t n = origin_length(url);
	struct shown_address shown;
	const char *host;

	address_show(url, &shown);
	if (!begins(url, http) && !begins(url, https))
		return err_set(err, ERR_INPUT, "'%s' is not an address of http or https",
			       shown.text);
	host = strstr(url, "://") + 3;
	n -= (size_t)(host - url);
	if (text_control(url) != strlen(url) || strpbrk(url, " \\"))
		return err_set(err, ERR_INPUT, "address '%s' has a byte that no URL has",
			       shown.text);
	if (!n || *host == ':')
		return err_set(err, ERR_INPUT, "address '%s' has no host", shown.text);
	if (memchr(host, '@', n))
		return err_set(err, ERR_INPUT,
			       "an address with a user name is not read: leave "
			       "out the part before '@'");
	if (!has_port_or_none(host, n))
		return err_set(err, ERR_INPUT,
			       "address '%s' has an invalid port: give digits, or no ':'",
			       shown.text);
	if (begins(url, http) && !is_loopback(host, n))
		return err_set(err, ERR_INPUT,
			       "'%s' would be read without TLS, so that anyone on the way could "
			       "change the model: use https (http is for 127.0.0.1)",
			       shown.text);
	return 0;
}

bool address_same_origin(const char *a, const char *b)
{
	size_t n = origin_length(a);

	return n && n == origin_length(b) && !strncasecmp(a, b, n);
}

bool address_may_lead(const char *from, const char *to)
{
	return begins(to, https) || (begins(from, http) && begins(to, http));
}

/* A server takes a name of dots alone for a step to another address. */
static bool is_dots(const char *text, size_t n)
{
	return (n == 1 || n == 2) && strspn(text, ".") >= n;
}

static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

/* Returns what follows the origin of the Hub and a slash; NULL: url is elsewhere. */
static const char *path_on_hub(const char *url, const char *endpoint)
{
	const char *hosts[] = { endpoint, "https://huggingface.co", "https://hf.co" };

	for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
		size_t n = strlen(hosts[i]);

		if (begins(url, hosts[i]) && url[n] == '/')
			return url + n + 1;
	}
	return NULL;
}

char *address_of_page(const char *address, const char *endpoint)
{
	const char *repo = path_on_hub(address, endpoint), *rest;
	struct buf out = { 0 };
	size_t n_org = repo ? strspn(repo, plain) : 0, n_name;

	if (!n_org || repo[n_org] != '/')
		return NULL;
	n_name = strspn(repo + n_org + 1, plain);
	rest = repo + n_org + 1 + n_name;
	buf_printf(&out, "%s%.*s", hub, (int)(rest - repo), repo);
	rest += *rest == '/';
	if (begins(rest, "tree/") || begins(rest, "blob/")) {
		bool is_file = begins(rest, "blob/");

		rest += strlen("tree/");
		buf_putc(&out, '@');
		for (; *rest && !strchr("/?#", *rest); rest++) {
			char digits[3] = { 0 };

			if (rest[0] == '%' && isxdigit((unsigned char)rest[1])) {
				digits[0] = rest[1];
				digits[1] = rest[2];
			}
			if (!isxdigit((unsigned char)digits[1])) {
				buf_putc(&out, *rest);
				continue;
			}
			buf_putc(&out, (char)strtoul(digits, NULL, 16));
			rest += 2;
		}
		rest = is_file ? "" : rest + (*rest == '/');
	}
	if (n_name && (!*rest || *rest == '?' || *rest == '#'))
		return out.data;
	buf_release(&out);
	return NULL;
}

int address_split_hub(const char *address, char **repo, char **revision, struct err *err)
{
	const char *org = address + strlen(hub), *name, *at;
	struct shown_address shown;
	size_t n_org, n_name;

	*repo = *revision = NULL;
	n_org = begins(address, hub) ? strspn(org, plain) : 0;
	name = n_org && org[n_org] == '/' ? org + n_org + 1 : "";
	n_name = strspn(name, plain);
	at = name + n_name;
	if (!n_name || is_dots(org, n_org) || is_dots(name, n_name) || (*at && *at != '@') ||
	    !strcmp(at, "@") || (*at && is_dots(at + 1, strlen(at + 1))))
		return err_set(err, ERR_INPUT,
			       "'%s' is not of the form hf://ORG/NAME or hf://ORG/NAME@REV",
			       address_show(address, &shown));
	*repo = xstrndup(org, (size_t)(at - org));
	*revision = xstrdup(*at ? at + 1 : "main");
	return 0;
}

char *address_escape(const char *text, bool keep_slashes)
{
	struct buf out = { 0 };

	for (const char *p = text; *p; p++) {
		if (isalnum((unsigned char)*p) || strchr("-._~", *p) || (keep_slashes && *p == '/'))
			buf_putc(&out, *p);
		else
			buf_printf(&out, "%%%02X", (unsigned char)*p);
	}
	return out.data ? out.data : xstrdup("");
}

bool address_is_weights(const char *address)
{
	static const char *const ends[] = { ".safetensors", ".bin", ".pt", ".pth" };

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (text_ends(address, ends[i]))
			return true;
	return false;
}
