/*
 * role_answer.h - parses what the servers of roles answer (role_request.h). Any thread.
 *
 * An answer may be anything. Words become headers and parts of URLs, so they have only printable
 * ASCII without spaces.
 */
#pragma once

#include <stddef.h>

#include "daemon/web/aws_keys.h"

/* A token or a name, without the white space around it. false: there is none, or it is too long. */
bool role_answer_word(const char *text, size_t length, char *word, size_t size) MUST_CHECK;
/* Keys in JSON, or in the XML of STS. *ends: Unix seconds of the server's clock. false: error says
 * what is missing; it continues "the answer". */
bool role_answer_keys(const char *text, size_t length, struct aws_keys *keys, double *ends,
                      struct error *error) MUST_CHECK;
/* Writes the code of an error, like "AccessDenied", or "". */
void role_answer_code(const char *text, size_t length, char *code, size_t size);
