/* SPDX-License-Identifier: Apache-2.0
 *
 * libcurl, found at run time: the program starts without it, and models on a disk never need it.
 */
#ifndef FP8CONV_REMOTE_LIBRARY_H
#define FP8CONV_REMOTE_LIBRARY_H

#include <curl/curl.h>

#include "base/err.h"

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

/* Loads libcurl for the rest of the process.  ERR_SYSTEM, with the package to install. */
int curl_library_open(struct curl_library *curl, struct err *err);

#endif
