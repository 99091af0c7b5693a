/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/address.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"

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

static bool is_loopback(const char *host, size_t n)
{
	static const char loopback[] = "127.0.0.1";
	size_t n_loopback = sizeof loopback - 1;

	return n >= n_loopback && !strncmp(host, loopback, n_loopback) &&
	       (n == n_loopback || host[n_loopback] == ':');
}

int address_check(const char *url, struct err *err)
{
	size_t n = origin_length(url);
	const char *host;

	if (!begins(url, http) && !begins(url, https))
		return err_set(err, ERR_INPUT, "'%s' is not an address of http or https", url);
	host = strstr(url, "://") + 3;
	n -= (size_t)(host - url);
	if (text_control(url) != strlen(url) || strpbrk(url, " \\"))
		return err_set(err, ERR_INPUT, "address '%s' has a byte that no URL has", url);
	if (!n || *host == ':')
		return err_set(err, ERR_INPUT, "address '%s' has no host", url);
	if (memchr(host, '@', n))
		return err_set(err, ERR_INPUT,
			       "an address with a user name is not read: leave "
			       "out the part before '@'");
	if (begins(url, http) && !is_loopback(host, n))
		return err_set(err, ERR_INPUT,
			       "'%s' would be read without TLS, so that anyone on the way could "
			       "change the model: use https (http is for 127.0.0.1)",
			       url);
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
