/*
 * errors.h - collects all errors of a configuration, so that a user sees them together. Loop thread
 * only.
 */
#pragma once

#include <stdint.h>

#include "conf/status.h"

struct errors {
    void (*say)(
        const char *text); /* optional: called for each of the first ERRORS_SAID_MAX errors */
    uint32_t count;        /* of all errors */
    struct error first;
};

/* Adds an error. Returns false. */
bool errors_add(struct errors *errors, const struct error *error);
/* Adds an error with a printf-style message. Returns false. */
bool errors_addf(struct errors *errors, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
