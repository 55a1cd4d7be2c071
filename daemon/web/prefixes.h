/*
 * prefixes.h - the option url_prefixes: which URLs jobs may use, and which requests are signed.
 *
 * A job may use a URL if it begins with one of these prefixes. The prefix says with which keys
 * requests are signed for S3 and compatible servers, if at all. Loop thread only.
 */
#pragma once

#include "conf/errors.h"
#include "daemon/web/aws_keys.h"
#include "daemon/web/role_request.h"
#include "daemon/web/url.h"

struct prefix {
    struct url url;
    bool is_signed; /* if not, the following members are empty */
    char region[AWS_NAME_BYTES_MAX + 1], credential[AWS_NAME_BYTES_MAX + 1]; /* see aws_keys.h */
    enum aws_role role;   /* which gives the keys; AWS_ROLE_NONE: `keys` has them */
    struct aws_keys keys; /* set by prefixes_read_keys */
};

struct prefixes {
    struct prefix *items;
    size_t count;
};

/* Parses prefixes separated by blanks. After a prefix, the word "aws:REGION",
 * "aws:REGION:CREDENTIAL" or "aws:REGION:@ROLE" says that its requests are signed. Call
 * prefixes_clear in any case. */
bool prefixes_parse(struct prefixes *prefixes, const char *text, struct error *error) MUST_CHECK;
/* Reads the keys of all signed prefixes, and checks that the environment has what the roles need.
 * Adds an error for each prefix whose keys are missing. */
bool prefixes_read_keys(struct prefixes *prefixes, struct errors *errors) MUST_CHECK;
void prefixes_clear(struct prefixes *prefixes); /* idempotent */

/* A prefix that hides the one at `index`: it comes before it and allows all of its URLs, so that
 * the one at `index` never matches. NULL: there is none. */
const struct prefix *prefixes_hiding(const struct prefixes *prefixes, size_t index);

/* The first prefix that allows the URL. NULL: error is path_refused. A prefix allows its own path
 * and everything below it: https://host/a allows /a and /a/b, but not /ab. */
const struct prefix *prefixes_match(const struct prefixes *prefixes, const struct url *url,
                                    struct error *error);
