/* command.h - encodes a Redis command as an array of bulk strings (RESP2), word by word.
 *
 * It writes the same bytes as redisFormatCommandArgv of hiredis, but without sprintf, which took a
 * fifth of the loop thread's time with small jobs. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* All zero at the start. `text` is malloc'd and owned by the caller; it has no NUL. */
struct command {
    char *text;
    size_t length, capacity;
    bool failed; /* memory was short; further additions do nothing */
};

/* Writes the head of a command of `words` words; command_add then writes each word. */
void command_begin(struct command *command, size_t words);
void command_add(struct command *command, const void *word, size_t length);
