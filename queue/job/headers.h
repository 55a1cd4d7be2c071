/* headers.h - the key `headers` of an output: headers of its upload besides Content-Type.
 *
 * All values are printable ASCII, so that no value can add a header, and every server and every
 * signature reads the same bytes. Loop thread only. */
#pragma once

#include <cjson/cJSON.h>

#include "conf/status.h"

/* Checks the member `headers` of an output and replaces it in the tree by a text of lines,
 * "Cache-Control: no-store\n", those of metadata sorted by name. Returns the text, which belongs to
 * the tree; NULL: the error is set. where: the output as messages name it. Errors: bad_job,
 * out_of_memory. */
const char *job_headers_take(cJSON *output, const char *where, struct error *error);
