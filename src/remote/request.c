/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/request.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"
#include "base/mem.h"
#include "remote/address.h"

/* The ABI of libcurl has the number 4 since 2006.  Debian has builds with OpenSSL and GnuTLS. */
static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };

/* A wheel brings its own, for systems without libcurl.  It does not know where the system has its
 * certificates: Debian, Arch and Alpine Linux, Fedora, openSUSE, others (as Go's crypto/x509). */
#define WHEEL_LIBRARY "libcurl-fp8conv.so.4"
static const char *const certificates[] = {
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

static const struct {
	const char *name;
	size_t offset;
} symbols[] = {
	{ "curl_global_init", offsetof(struct curl_library, global_init) },
	{ "curl_easy_init", offsetof(struct curl_library, init) },
	{ "curl_easy_reset", offsetof(struct curl_library, reset) },
	{ "curl_easy_setopt", offsetof(struct curl_library, setopt) },
	{ "curl_easy_perform", offsetof(struct curl_library, perform) },
	{ "curl_easy_getinfo", offsetof(struct curl_library, getinfo) },
	{ "curl_easy_cleanup", offsetof(struct curl_library, cleanup) },
	{ "curl_easy_strerror", offsetof(struct curl_library, strerror) },
	{ "curl_slist_append", offsetof(struct curl_library, slist_append) },
	{ "curl_slist_free_all", offsetof(struct curl_library, slist_free_all) },
};

/* Returns the library of the system, or that of the wheel with its certificates, or NULL. */
static void *library_find(const char **ca_file)
{
	void *library = NULL;

	for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (library)
		return library;
	library = dlopen(WHEEL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; library && i < sizeof certificates / sizeof *certificates; i++)
		if (!*ca_file && io_exists(&io_system, certificates[i]))
			*ca_file = certificates[i];
	return library;
}

/* Loads libcurl for the rest of the process.  ERR_SYSTEM, with the package to install. */
static int curl_library_open(struct client *client, struct err *err)
{
	struct curl_library *curl = &client->curl;
	void *library = library_find(&client->ca_file);

	if (!library)
		return err_set(err, ERR_SYSTEM,
			       "cannot load libcurl, which reads models from servers (%s was not "
			       "found): install the package libcurl4 (Debian 13, Ubuntu 24.04 and "
			       "later: libcurl4t64; Fedora: libcurl; Arch Linux: curl)",
			       names[0]);
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *symbol = dlsym(library, symbols[i].name);

		if (!symbol)
			return err_set(err, ERR_SYSTEM,
				       "libcurl has no function %s: install libcurl 7.68 or newer",
				       symbols[i].name);
		memcpy((char *)curl + symbols[i].offset, &symbol, sizeof symbol);
	}
	if (curl->global_init(CURL_GLOBAL_ALL))
		return err_set(err, ERR_SYSTEM, "cannot start libcurl");
	return 0;
}

#define CONNECT_SECONDS 30L
#define STALL_SECONDS	60L   /* a connection that is slower for so long counts as cut */
#define STALL_SPEED	1000L /* bytes a second */
#define MAX_HEADER	((size_t)256 << 10) /* bytes of all lines */
#define TOO_LARGE	100		    /* CURLE_TOO_LARGE, which older headers lack */
#define MAX_RETRY_AFTER 86400UL		    /* seconds; a larger number counts as none */
#define REFUSED_BODY	((size_t)64 << 10)  /* of an error page that is still read */
#define BUFFER		((size_t)512 << 10)
#define SMALL_BUFFER	((size_t)64 << 10) /* of short ranges, which every worker may read */

/* A token is one word of ASCII: all else would end its line of the header, or begin another. */
static int check_token(const struct client *client, struct err *err)
{
	for (const char *p = client->token; *p; p++)
		if (*p <= ' ' || *p > '~')
			return err_set(err, ERR_USAGE,
				       "%s has a byte that no token has (byte %zu: a space, "
				       "an end of line or a control character): set it to the "
				       "token alone",
				       client->token_name, (size_t)(p - client->token));
	return 0;
}

int client_open(struct client *client, struct err *err)
{
	pthread_mutex_init(&client->lock, NULL);
	if (client->token && check_token(client, err))
		return -1;
	return curl_library_open(client, err);
}

void client_close(struct client *client)
{
	for (size_t i = 0; i < client->n_idle; i++)
		client->curl.cleanup(client->idle[i]);
	free(client->idle);
	pthread_mutex_destroy(&client->lock);
}

static CURL *handle_take(struct client *client)
{
	CURL *handle = NULL;

	pthread_mutex_lock(&client->lock);
	if (client->n_idle)
		handle = client->idle[--client->n_idle];
	pthread_mutex_unlock(&client->lock);
	if (handle)
		client->curl.reset(handle); /* keeps its connections */
	return handle ? handle : client->curl.init();
}

static void handle_return(struct client *client, CURL *handle)
{
	pthread_mutex_lock(&client->lock);
	client->idle = xreallocarray(client->idle, client->n_idle + 1, sizeof *client->idle);
	client->idle[client->n_idle++] = handle;
	pthread_mutex_unlock(&client->lock);
}

/* A request while its answer comes. */
struct exchange {
	struct client *client;
	const struct request *request;
	struct answer *answer;
	size_t n_refused, n_header; /* bytes */
	bool has_etag;
};

/* Returns the value of the header line if it has this name, else NULL. */
static const char *value_of(const char *line, const char *name)
{
	size_t n = strlen(name);

	if (strncasecmp(line, name, n) != 0 || line[n] != ':')
		return NULL;
	return line + n + 1 + strspn(line + n + 1, " \t");
}

/* Reads a number of 64 bits and moves *text behind it. */
static bool read_number(const char **text, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	*number = strtoull(*text, &end, 10);
	*text = end;
	return !errno;
}

/* Moves *text behind a word that it begins with. */
static bool read_word(const char **text, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*text, word, n) != 0)
		return false;
	*text += n;
	return true;
}

/* Reads "bytes 0-99/1000", and "bytes * /0" of a range that the file does not have. */
static bool read_range(struct answer *answer, const char *value)
{
	uint64_t last;

	if (!read_word(&value, "bytes "))
		return false;
	if (!read_word(&value, "*") && !(read_number(&value, &answer->first) &&
					 read_word(&value, "-") && read_number(&value, &last)))
		return false;
	return read_word(&value, "/") && read_number(&value, &answer->total);
}

/* Keeps a coding of the body, but for those that change nothing or that libcurl undoes. */
static void take_coding(struct answer *answer, const char *value)
{
	if (*value && strcasecmp(value, "identity") != 0 && strcasecmp(value, "chunked") != 0)
		snprintf(answer->coding, sizeof answer->coding, "%s", value);
}

/* Reads a number of seconds; a date and what is out of range count as none. */
static long read_seconds(const char *value)
{
	uint64_t seconds;

	if (!read_number(&value, &seconds) || *value || seconds > MAX_RETRY_AFTER)
		return 0;
	return (long)seconds;
}

static void take_line(struct exchange *exchange, const char *line)
{
	struct answer *answer = exchange->answer;
	const char *value;

	if (!strncmp(line, "HTTP/", 5)) { /* 100 and the answer of a proxy come before */
		*answer->version = *answer->coding = '\0';
		exchange->has_etag = answer->has_range = answer->has_length = false;
		answer->retry_after = 0;
		answer->status = strchr(line, ' ') ? strtol(strchr(line, ' '), NULL, 10) : 0;
	} else if ((value = value_of(line, "etag"))) {
		exchange->has_etag = true;
		snprintf(answer->version, sizeof answer->version, "ETag %s", value);
	} else if ((value = value_of(line, "last-modified")) && !exchange->has_etag) {
		snprintf(answer->version, sizeof answer->version, "Last-Modified %s", value);
	} else if ((value = value_of(line, "content-range"))) {
		answer->has_range = read_range(answer, value);
	} else if ((value = value_of(line, "content-length"))) {
		answer->has_length = read_number(&value, &answer->length);
	} else if ((value = value_of(line, "retry-after"))) {
		answer->retry_after = read_seconds(value);
	} else if ((value = value_of(line, "content-encoding")) ||
		   (value = value_of(line, "transfer-encoding"))) {
		take_coding(answer, value);
	}
}

static size_t on_header(char *data, size_t size, size_t n, void *context)
{
	struct exchange *exchange = context;
	size_t end = size * n;
	char line[1024];

	exchange->n_header += end;
	if (exchange->n_header > MAX_HEADER)
		return 0;
	while (end && (data[end - 1] == '\r' || data[end - 1] == '\n'))
		end--;
	snprintf(line, sizeof line, "%.*s", (int)(end < sizeof line ? end : sizeof line - 1), data);
	while (*line && strchr(" \t", line[strlen(line) - 1]))
		line[strlen(line) - 1] = '\0';
	take_line(exchange, line);
	return size * n;
}

/* Is the body what the request asks for?  Some servers send a file that is not longer than the
 * range as a whole. */
static bool is_wanted(const struct request *request, const struct answer *answer)
{
	if (!request->ranged)
		return true;
	if (answer->status == 206)
		return answer->has_range && answer->first == request->first;
	return !request->first && answer->has_length && answer->length <= request->n;
}

static size_t on_body(char *data, size_t size, size_t n, void *context)
{
	struct exchange *exchange = context;
	const struct request *request = exchange->request;
	struct answer *answer = exchange->answer;

	n *= size;
	atomic_fetch_add(&exchange->client->n_bytes, n);
	if (answer->status != 200 && answer->status != 206) {
		exchange->n_refused += n;
		return exchange->n_refused <= REFUSED_BODY ? n : 0;
	}
	answer->wrong_range = !is_wanted(request, answer);
	answer->too_long = n > request->n - answer->got;
	if (answer->wrong_range || answer->too_long)
		return 0;
	if (request->ranged)
		memcpy(request->data + answer->got, data, n);
	else
		buf_add(request->text, data, n);
	answer->got += n;
	return n;
}

static int on_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total,
		       curl_off_t up_now)
{
	const struct client *client = context;

	(void)total;
	(void)now;
	(void)up_total;
	(void)up_now;
	return client->stop && atomic_load(client->stop);
}

static void set_options(struct exchange *exchange, CURL *handle)
{
	const struct client *client = exchange->client;
	CURLcode (*set)(CURL *, CURLoption, ...) = client->curl.setopt;

	set(handle, CURLOPT_URL, exchange->request->url);
	set(handle, CURLOPT_NOSIGNAL, 1L);
	set(handle, CURLOPT_FOLLOWLOCATION, 0L);
	set(handle, CURLOPT_SSL_VERIFYPEER, 1L);
	set(handle, CURLOPT_SSL_VERIFYHOST, 2L);
	if (client->ca_file)
		set(handle, CURLOPT_CAINFO, client->ca_file);
	if (address_is_local(exchange->request->url))
		set(handle, CURLOPT_PROXY, ""); /* none, also of the environment */
	set(handle, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE); /* no token for a proxy */
	set(handle, CURLOPT_USERAGENT, "fp8conv/" FP8CONV_VERSION);
	set(handle, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
	set(handle, CURLOPT_LOW_SPEED_LIMIT, STALL_SPEED);
	set(handle, CURLOPT_LOW_SPEED_TIME, STALL_SECONDS);
	set(handle, CURLOPT_BUFFERSIZE,
	    (long)(exchange->request->n > SMALL_BUFFER ? BUFFER : SMALL_BUFFER));
	set(handle, CURLOPT_ERRORBUFFER, exchange->answer->reason);
	set(handle, CURLOPT_HEADERFUNCTION, on_header);
	set(handle, CURLOPT_HEADERDATA, exchange);
	set(handle, CURLOPT_WRITEFUNCTION, on_body);
	set(handle, CURLOPT_WRITEDATA, exchange);
	set(handle, CURLOPT_NOPROGRESS, 0L);
	set(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
	set(handle, CURLOPT_XFERINFODATA, client);
}

/* Is it the header that was too long?  libcurl before 8.6 has no code for a line of more than 100
 * KiB: it says that memory is short, when it is not. */
static bool is_header_too_long(const struct exchange *exchange)
{
	bool has_room;
	void *probe;

	if (exchange->n_header > MAX_HEADER || (int)exchange->answer->code == TOO_LARGE)
		return true;
	if (exchange->answer->code != CURLE_OUT_OF_MEMORY)
		return false;
	probe = malloc(4 * MAX_HEADER);
	has_room = probe != NULL;
	free(probe);
	return has_room;
}

/* Sends by a handle whose options are set. */
static int perform(struct exchange *exchange, CURL *handle, struct curl_slist *headers,
		   struct err *err)
{
	const struct curl_library *curl = &exchange->client->curl;
	struct answer *answer = exchange->answer;
	struct shown_address shown;
	const char *location = NULL;

	curl->setopt(handle, CURLOPT_HTTPHEADER, headers);
	answer->code = curl->perform(handle);
	if (answer->code && is_header_too_long(exchange))
		return err_set(err, ERR_INPUT,
			       "the server answers '%s' with a header of more than %zu bytes: "
			       "check the address",
			       address_show(exchange->request->url, &shown), MAX_HEADER);
	if (answer->code == CURLE_OUT_OF_MEMORY)
		return err_no_memory(err, "no memory for libcurl");
	if (answer->code && !*answer->reason)
		snprintf(answer->reason, sizeof answer->reason, "%s", curl->strerror(answer->code));
	curl->getinfo(handle, CURLINFO_TOTAL_TIME, &answer->seconds);
	if (answer->status && answer->status < 500 && answer->status != 429) {
		atomic_store(&exchange->client->answered, true);
		atomic_store(&exchange->client->told, false);
	}
	if (!curl->getinfo(handle, CURLINFO_REDIRECT_URL, &location) && location)
		answer->location = xstrdup(location);
	return 0;
}

int request_send(struct client *client, const struct request *request, struct answer *answer,
		 struct err *err)
{
	struct exchange exchange = { .client = client, .request = request, .answer = answer };
	CURL *handle = handle_take(client);
	struct curl_slist *headers = NULL;
	char range[64];
	int rc;

	*answer = (struct answer){ 0 };
	if (!handle)
		return err_no_memory(err, "no memory for libcurl");
	set_options(&exchange, handle);
	if (request->ranged) {
		snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, request->first,
			 request->first + request->n - 1);
		client->curl.setopt(handle, CURLOPT_RANGE, range);
	}
	headers = client->curl.slist_append(NULL, "Accept-Encoding: identity");
	if (client->token && address_same_origin(request->url, client->endpoint)) {
		char *line = xasprintf("Authorization: Bearer %s", client->token);

		headers = client->curl.slist_append(headers, line);
		free(line);
	}
	rc = perform(&exchange, handle, headers, err);
	client->curl.slist_free_all(headers);
	handle_return(client, handle);
	return rc;
}

void answer_release(struct answer *answer)
{
	free(answer->location);
	answer->location = NULL;
}
