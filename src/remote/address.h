/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of models: which ones are accepted, and what is below them.
 *
 * Data comes by TLS, or by http from 127.0.0.1.  An address has no user name, so that no message
 * and no log shows a password.
 */
#ifndef FP8CONV_REMOTE_ADDRESS_H
#define FP8CONV_REMOTE_ADDRESS_H

#include <stdbool.h>

#include "base/err.h"

/* Is it an address that remote_open() takes: http://, https:// or hf://? */
bool address_is_remote(const char *text);

/* ERR_INPUT unless url may be read: https with a host, or http with 127.0.0.1; no user name, and a
 * port of digits. */
int address_check(const char *url, struct err *err);

/* An address as messages show it: a user name, a query and a fragment may be secrets (a token, the
 * signature of a redirect), and "..." takes their place. */
struct shown_address {
	char text[512];
};

/* Fills *shown, and returns its text. */
const char *address_show(const char *url, struct shown_address *shown);

/* Is the host this machine by its name: 127.x.x.x, localhost or [::1]?  No proxy leads there. */
bool address_is_local(const char *url);

/* Have two URLs the same scheme, host and port? */
bool address_same_origin(const char *a, const char *b);

/* May an answer of one URL lead to the other?  Never from https to http. */
bool address_may_lead(const char *from, const char *to);

/* Splits hf://ORG/NAME[@REV] into ORG/NAME and REV, "main" where there is none; both are the
 * caller's.  ERR_INPUT, with NULL in both, if the address has another form. */
int address_split_hub(const char *address, char **repo, char **revision, struct err *err);

/* Does it end in the name of one file of weights, which no index names? */
bool address_is_weights(const char *address);

/* As remote_hub_page() of remote.h. */
char *address_of_page(const char *address, const char *endpoint);

/* Returns text with the bytes that a URL cannot contain as %XX; slashes stay if keep_slashes.  The
 * caller frees it. */
char *address_escape(const char *text, bool keep_slashes);

#endif
