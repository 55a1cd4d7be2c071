#include "conf/errors.h"

#include <stdarg.h>
#include <stdio.h>

#include "conf/mask.h"
#include "conf/text.h"

bool errors_add(struct errors *errors, const struct error *error)
{
    if (errors->count == 0)
        errors->first = *error;
    if (errors->say && errors->count < ERRORS_SAID_MAX)
        errors->say(error->text);
    else if (errors->say && errors->count == ERRORS_SAID_MAX)
        errors->say("there are more errors");
    errors->count++;
    return false;
}

bool errors_addf(struct errors *errors, const char *format, ...)
{
    struct error error = {.status = STATUS_INTERNAL};
    va_list args;
    va_start(args, format);
    vsnprintf(error.text, sizeof error.text, format, args);
    va_end(args);
    mask_text(error.text, MASK_MESSAGE);
    text_make_printable(error.text);
    return errors_add(errors, &error);
}
