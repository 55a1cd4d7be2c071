/*
 * aws_keys.h - reads the keys with which requests to S3 and compatible servers are signed.
 *
 * A credential is a file with keys, which systemd gives to the service (LoadCredential=). Loop
 * thread only: reading a small file blocks the loop for a short time.
 */
#pragma once

#include <stdbool.h>

#include "conf/status.h"

#define AWS_NAME_BYTES_MAX 64 /* longest name of a region or a credential */

struct aws_keys {
    char id[129], secret[257];
    char token[4097]; /* of temporary keys; "" for others */
};

/* Reads the keys from the file $CREDENTIALS_DIRECTORY/CREDENTIAL, which has the format of
 * ~/.aws/credentials. It takes the keys of the profile [default], or of the first profile if there
 * is no default. credential "": reads the environment variables AWS_ACCESS_KEY_ID,
 * AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN instead. false: error has the reason, which continues
 * "aws:REGION of URL ...". */
bool aws_keys_read(struct aws_keys *keys, const char *credential, struct error *error) MUST_CHECK;
