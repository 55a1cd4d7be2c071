#include "conf/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "conf/text.h"

static const struct {
    const char *name;
    const char *meaning;
    bool retryable;
} table[STATUS_COUNT] = {
    [STATUS_OK] = {"ok", "nothing is wrong", false},
#define X(code, name, retryable, meaning) [STATUS_##code] = {name, meaning, retryable},
    STATUS_TABLE(X)
#undef X
};

const char *status_name(enum status status)
{
    return table[status].name;
}

const char *status_meaning(enum status status)
{
    return table[status].meaning;
}

bool status_retryable(enum status status)
{
    return table[status].retryable;
}

enum status error_set(struct error *error, enum status status, const char *format, ...)
{
    if (error->status != STATUS_OK)
        return error->status;
    error->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    text_make_printable(error->text);
    return status;
}
