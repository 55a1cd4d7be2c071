/*
 * aws_keys.h - reads the keys that sign requests to S3 and compatible servers.
 *
 * Loop thread only; reads a small file.
 */
#pragma once

#include <stdbool.h>

#include "conf/status.h"

#define AWS_NAME_BYTES_MAX 64 /* of a region and of a credential */

struct aws_keys {
    char id[129], secret[257];
    char token[2049]; /* of temporary keys; "" for others */
};

/* credential "": from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. Else from the
 * file $CREDENTIALS_DIRECTORY/credential, which has lines like those of ~/.aws/credentials. All
 * keys are those of one profile: [default], or else the first one. */
bool aws_keys_read(struct aws_keys *keys, const char *credential, struct error *error) MUST_CHECK;
