/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP request and its answer, without redirects and retries.
 *
 * Order: client_open(); request_send() from any thread; client_close().
 */
#ifndef FP8CONV_REMOTE_REQUEST_H
#define FP8CONV_REMOTE_REQUEST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include <curl/curl.h>

/* The functions that are used, by their names without curl_easy_ and curl_. */
struct curl_library {
	CURLcode (*global_init)(long flags);
	CURL *(*init)(void);
	void (*reset)(CURL *handle);
	CURLcode (*setopt)(CURL *handle, CURLoption option, ...);
	CURLcode (*perform)(CURL *handle);
	CURLcode (*getinfo)(CURL *handle, CURLINFO info, ...);
	void (*cleanup)(CURL *handle);
	const char *(*strerror)(CURLcode code);
	struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
	void (*slist_free_all)(struct curl_slist *list);
};

/* What all requests share.  The texts belong to the caller. */
struct client {
	struct curl_library curl;
	const char *token;	/* sent to the origin of `endpoint` only; NULL: none */
	const char *token_name; /* of the variable or the file that it is from */
	const char *endpoint;	/* the Hub's URL */
	const char *ca_file;	/* certificates to trust; NULL: libcurl's own */
	const atomic_int *stop; /* a signal number ends requests; NULL: none does */
	double retry_time;	/* seconds for which a server that does not answer is tried again */
	/* Says, once until the next answer, that `url` is tried for so long; NULL: nobody does. */
	void (*tell)(const char *url, const char *reason, double seconds);
	atomic_bool told, answered;    /* answered: since the client was opened */
	atomic_uint_least64_t n_bytes; /* of all bodies that came */
	pthread_mutex_t lock;
	CURL **idle; /* handles with their open connections */
	size_t n_idle;
};

/* A GET. */
struct request {
	const char *url;
	bool ranged; /* asks for n bytes from first on; else for all, at most n */
	uint64_t first;
	size_t n;
	char *data;	  /* of a range: gets the body */
	struct buf *text; /* not of a range: gets the body */
};

struct answer {
	CURLcode code;
	long status;	   /* of HTTP; 0: none came */
	char version[512]; /* ETag, else Last-Modified, with its name; "" if it has neither */
	char coding[64];   /* Content-Encoding or Transfer-Encoding of the body; "": none */
	bool has_range;	   /* Content-Range was understood */
	uint64_t first, total, length; /* of Content-Range, and Content-Length */
	bool has_length;
	long retry_after; /* seconds; 0: not said */
	double seconds;	  /* that the request took */
	bool wrong_range; /* the body is not of the range that was asked for */
	bool too_long;	  /* the body has more bytes than were asked for */
	size_t got;	  /* bytes of the body that were taken */
	char *location;	  /* of a redirect, absolute; answer_release() frees it */
	char reason[CURL_ERROR_SIZE];
};

/* Loads libcurl.  The caller has set the other members.  ERR_SYSTEM; ERR_USAGE for a token that is
 * none. */
int client_open(struct client *client, struct err *err);
void client_close(struct client *client);

/* Sends the request and reads the answer; what failed is in the answer.  ERR_SYSTEM where libcurl
 * has no memory, ERR_INPUT where the header of the answer is longer than any is. */
int request_send(struct client *client, const struct request *request, struct answer *answer,
		 struct err *err);
void answer_release(struct answer *answer);

#endif
