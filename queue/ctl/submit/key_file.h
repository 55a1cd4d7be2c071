/* key_file.h - uploads a file of this machine to a key in Redis. One thread. */
#pragma once

#include "queue/ctl/client.h"

/* Bytes of a key that gpuimgctl submit makes, with its NUL. */
#define SUBMIT_KEY_BYTES 320

/* Uploads a file to a key, which expires in a day. On failure returns false, and sets `error` if
 * the file is the reason, or *redis_lost if Redis is. */
bool key_file_put(struct client *client, const char *key, const char *path, uint64_t bytes_max,
                  bool *redis_lost, struct error *error);
