/*
 * url.h - parses the URLs of images into a normal form, in which they can be compared byte by byte.
 *
 * The normal form: the scheme is http or https, the host is in lower case, a default port is
 * omitted, and the path is never empty. Percent-encoding in the path is minimal, with upper-case
 * digits. There is no user, password or fragment. libcurl's own parser splits the text, so that the
 * host which the daemon checks is the host to which libcurl connects. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "conf/status.h"

struct url {
    char *text;          /* the normal form, malloc'd */
    size_t origin_bytes; /* length of scheme, host and port */
    size_t base_bytes;   /* length before the query, which may have secrets: logs and results show
                          * only this part */
};

/* Parses a URL. Error: path_refused. A build without libcurl refuses every URL. Call url_clear in
 * any case. */
enum status url_parse(struct url *url, const char *text, struct error *error) MUST_CHECK;
/* Parses the target of a redirect: `location` may be relative to `base`. Errors: as url_parse. */
enum status url_resolve(struct url *url, const struct url *base, const char *location,
                        struct error *error) MUST_CHECK;
void url_clear(struct url *url); /* idempotent */

bool url_is_https(const struct url *url);
/* Whether two URLs name the same resource. The query of a presigned URL does not count: it is a
 * signature, which depends on the method and the time. */
bool url_same(const struct url *a, const struct url *b);

/* Returns a malloc'd copy in the form that version 4 of AWS's signature requires: all bytes are
 * percent-encoded except letters, digits, "-._~", and "/" in the path; the parameters of the query
 * are sorted, and each has a "=". libcurl 7.88 signs a query as it is, so the daemon gives it this
 * form. NULL: out of memory. */
char *url_text_for_signing(const struct url *url);

/* The two arguments of a %.*s in printf: the URL without its query, cut to this length. */
#define URL_SHOWN_BYTES 160
#define URL_SHOWN(url)                                                                             \
    (int)((url)->base_bytes < URL_SHOWN_BYTES ? (url)->base_bytes : URL_SHOWN_BYTES), (url)->text
