/*
 * command.h - a command as Redis reads it: an array of bulk strings (the Redis protocol, RESP2).
 *
 * Bytes are those of hiredis' redisFormatCommandArgv, which prints each number with sprintf: that
 * took a fifth of what the loop does for a small job.
 */
#ifndef GPUIMGD_QUEUE_REDIS_COMMAND_H
#define GPUIMGD_QUEUE_REDIS_COMMAND_H

#include <stddef.h>

/* How long it is with words of these lengths (bytes); count is at least 1. */
size_t command_bytes(size_t count, const size_t *lengths);
/* Writes that many bytes. */
void command_write(char *to, size_t count, const char *const *words, const size_t *lengths);

#endif
