#include "queue/redis/command.h"

#include <string.h>

#include "conf/text.h"

static size_t digits_of(size_t value)
{
    size_t digits = 1;
    for (; value >= 10; value /= 10)
        digits++;
    return digits;
}

/* "$5\r\n" or "*3\r\n". */
static size_t head_bytes(size_t value)
{
    return 1 + digits_of(value) + 2;
}

static char *write_head(char *to, char kind, size_t value)
{
    *to++ = kind;
    to += text_number(to, value);
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

size_t command_bytes(size_t count, const size_t *lengths)
{
    size_t bytes = head_bytes(count);
    for (size_t i = 0; i < count; i++)
        bytes += head_bytes(lengths[i]) + lengths[i] + 2;
    return bytes;
}

void command_write(char *to, size_t count, const char *const *words, const size_t *lengths)
{
    to = write_head(to, '*', count);
    for (size_t i = 0; i < count; i++) {
        to = write_head(to, '$', lengths[i]);
        memcpy(to, words[i], lengths[i]);
        to += lengths[i];
        *to++ = '\r';
        *to++ = '\n';
    }
}
