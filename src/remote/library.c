/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* The ABI of libcurl has the number 4 since 2006.  Debian has builds with OpenSSL and GnuTLS. */
static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };

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

int curl_library_open(struct curl_library *curl, struct err *err)
{
	void *library = NULL;

	for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
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
