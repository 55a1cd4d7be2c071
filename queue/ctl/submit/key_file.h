/* key_file.h - uploads a file of this machine to a key in Redis. One thread. */
#pragma once

#include "queue/ctl/client.h"

/* Room for a key that submit makes. */
#define SUBMIT_KEY_BYTES 320

/* Uploads a file to a key, which expires in a day. Returns false and sets `error` or *redis_lost on
 * failure. */
bool key_file_put(struct client *client, const char *key, const char *path, uint64_t bytes_max,
                  bool *redis_lost, struct error *error);
