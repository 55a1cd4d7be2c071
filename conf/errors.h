/*
 * errors.h - collects all errors of a configuration, so that a user sees them together. Loop thread
 * only.
 */
#pragma once

#include <stdint.h>

#include "conf/status.h"

struct errors {
    void (*say)(const char *text); /* optional: called for each error, ERRORS_SAID_MAX at most */
    uint32_t count;
    struct error first;
};

/* Adds an error with its text. Always false. */
bool errors_add(struct errors *errors, const struct error *error);
/* Adds a printf-style message. Always false. */
bool errors_addf(struct errors *errors, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
