#include "queue/redis/command.h"

#include <stdlib.h>
#include <string.h>

#include "conf/text.h"

#define FIRST_BYTES 256

static bool reserve(struct command *command, size_t bytes)
{
    if (command->failed || command->capacity - command->length >= bytes)
        return !command->failed;
    size_t capacity = 2 * command->capacity + bytes + FIRST_BYTES;
    char *text = realloc(command->text, capacity);
    command->failed = !text;
    if (text) {
        command->text = text;
        command->capacity = capacity;
    }
    return text != NULL;
}

static char *end_line(char *to)
{
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

/* Writes "$5\r\n" or "*3\r\n". */
static char *write_head(char *to, char kind, size_t value)
{
    *to++ = kind;
    return end_line(to + text_number(to, value));
}

void command_begin(struct command *command, size_t words)
{
    if (reserve(command, TEXT_DIGITS_MAX + 3))
        command->length = (size_t)(write_head(command->text, '*', words) - command->text);
}

void command_add(struct command *command, const void *word, size_t length)
{
    if (!reserve(command, TEXT_DIGITS_MAX + length + 5))
        return;
    char *to = write_head(command->text + command->length, '$', length);
    if (length > 0) /* an empty word may be NULL */
        memcpy(to, word, length);
    command->length = (size_t)(end_line(to + length) - command->text);
}
