/*
 * url.h - URLs of images: parses them into one normal form, so that prefixes and other URLs can be
 * compared with them byte by byte.
 *
 * The normal form: the scheme is http or https, the host is in lower case, a default port is
 * omitted, and the path is never empty. Percent-encoding in the path is minimal, with upper-case
 * digits. There is no user, password or fragment. libcurl's own parser splits the text, so the
 * daemon checks the host that libcurl connects to. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "conf/status.h"

struct url {
    char *text;          /* the normal form, malloc'd */
    size_t origin_bytes; /* length of its scheme, host and port */
    size_t base_bytes;   /* length up to the query: all that logs and results may show */
};

/* Error: path_refused. Without libcurl in the build, every URL is refused. Call url_clear in any
 * case. */
enum status url_parse(struct url *url, const char *text, struct error *error) MUST_CHECK;
/* The target of a redirect: `location` may be relative to `base`. Errors: as url_parse. */
enum status url_resolve(struct url *url, const struct url *base, const char *location,
                        struct error *error) MUST_CHECK;
void url_clear(struct url *url); /* idempotent */

bool url_is_https(const struct url *url);
/* Whether both name one resource. The queries of presigned URLs do not count: they have the
 * signature, which depends on the method and the time. */
bool url_same(const struct url *a, const struct url *b);

/* A malloc'd copy whose path and query are those that AWS's signature version 4 signs: it encodes
 * all bytes except letters, digits and "-._~", and "/" in the path. The parameters of the query are
 * sorted, and each has a "=". libcurl 7.88 does not sort or encode a query before it signs it, so
 * this function does. NULL: out of memory. */
char *url_text_for_signing(const struct url *url);

/* printf arguments for %.*s: the URL without its query, cut for a message. */
#define URL_SHOWN_BYTES 160
#define URL_SHOWN(url)                                                                             \
    (int)((url)->base_bytes < URL_SHOWN_BYTES ? (url)->base_bytes : URL_SHOWN_BYTES), (url)->text
