#include "conf/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "conf/mask.h"
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

static void set(struct error *error, enum status status, const char *format, va_list args)
{
    if (error->status != STATUS_OK)
        return;
    error->status = status;
    vsnprintf(error->text, sizeof error->text, format, args);
    mask_text(error->text, MASK_MESSAGE);
    text_make_printable(error->text);
}

enum status error_set(struct error *error, enum status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set(error, status, format, args);
    va_end(args);
    return error->status;
}

bool error_refuse(struct error *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set(error, STATUS_INTERNAL, format, args);
    va_end(args);
    return false;
}
