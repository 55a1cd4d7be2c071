/*
 * command.h - encodes a Redis command as an array of bulk strings (RESP2).
 *
 * The bytes equal those of redisFormatCommandArgv in hiredis, which formats each number with
 * sprintf. For small jobs, that took a fifth of the loop thread's time. Any thread.
 */
#ifndef GPUIMGD_QUEUE_REDIS_COMMAND_H
#define GPUIMGD_QUEUE_REDIS_COMMAND_H

#include <stddef.h>

/* Returns the encoded size in bytes of `count` words (at least 1) with these lengths in bytes. */
size_t command_bytes(size_t count, const size_t *lengths);
/* Writes command_bytes() bytes to `to`, without a NUL. */
void command_write(char *to, size_t count, const char *const *words, const size_t *lengths);

#endif
