/*
 * prefixes.h - the option url_prefixes: the URLs that jobs may use, and which requests are signed.
 *
 * Loop thread only.
 */
#pragma once

#include "daemon/web/aws_keys.h"
#include "daemon/web/url.h"

struct prefix {
    struct url url;
    bool is_signed;
    char region[AWS_NAME_BYTES_MAX + 1], credential[AWS_NAME_BYTES_MAX + 1];
    struct aws_keys keys; /* set by prefixes_read_keys */
};

struct prefixes {
    struct prefix *items;
    size_t count;
};

/* Parses prefixes separated by blanks. A word "aws:REGION" or "aws:REGION:CREDENTIAL" after a
 * prefix signs its requests. Call prefixes_clear in any case. */
bool prefixes_parse(struct prefixes *prefixes, const char *text, struct error *error) MUST_CHECK;
/* Reads the keys of all signed prefixes. */
bool prefixes_read_keys(struct prefixes *prefixes, struct error *error) MUST_CHECK;
void prefixes_clear(struct prefixes *prefixes); /* idempotent */

/* The first prefix before the one at `index` that allows all of its URLs, so that the later one
 * never matches. NULL: there is none. */
const struct prefix *prefixes_hiding(const struct prefixes *prefixes, size_t index);

/* The first prefix that allows the URL. NULL: error is path_refused. A prefix allows its own path
 * and everything below it: https://host/a allows /a and /a/b, but not /ab. */
const struct prefix *prefixes_match(const struct prefixes *prefixes, const struct url *url,
                                    struct error *error);
