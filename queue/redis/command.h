/* command.h - encodes a Redis command as an array of bulk strings (RESP2), word by word.
 *
 * The bytes equal those of redisFormatCommandArgv in hiredis, which formats each number with
 * sprintf. For small jobs, that took a fifth of the loop thread's time. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* All zero at the start. `text` is malloc'd, without a NUL. */
struct command {
    char *text;
    size_t length, room;
    bool failed; /* memory was short; further additions do nothing */
};

/* Begins a command of `words` words. */
void command_begin(struct command *command, size_t words);
void command_add(struct command *command, const void *word, size_t length);
