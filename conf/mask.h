/*
 * mask.h - removes secrets of URLs from texts that are shown.
 *
 * The user, the password, the query, the fragment and parameters (";name=value") of a URL can hold
 * passwords and signatures. A URL begins with a scheme, a colon and slashes, or with two slashes at
 * the beginning of a value; or it is the value of "url" in JSON. Its characters may be escaped as
 * in JSON ("\/", "\u002f"), once or several times, or be backslashes. If its colon or slashes are
 * percent-encoded, its other delimiters may be. The functions remove too much rather than too
 * little. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What may follow a URL in a text. */
enum mask_kind {
    MASK_MESSAGE, /* a quote, or a blank unless there is a quote before the URL */
    MASK_VALUE,   /* a quote: in a name, or in JSON */
    MASK_CUT,     /* as MASK_VALUE. The text was cut, perhaps within a password */
};

/* Masks text[0..length) in place, and returns the new length, which is not larger. */
size_t mask_bytes(char *text, size_t length, enum mask_kind kind);
/* The same for a text that ends with a NUL. */
void mask_text(char *text, enum mask_kind kind);

/* Copies a name or another value of a job, masks it, cuts it to fit, and returns `to`. */
const char *mask_copy(char *to, size_t size, const char *value);

/* The same for a value that must be a URL, although its scheme may be missing. */
const char *mask_copy_url(char *to, size_t size, const char *value);

/* Whether the value is a URL, or an attempt at one: a scheme, a colon and two slashes. */
bool mask_is_url(const char *value);
