/*
 * mask.h - removes secrets of URLs from texts before they are logged or printed.
 *
 * The user, the password, the query, the fragment and parameters (";name=value") of a URL may be
 * secret. Text counts as a URL if it begins with a scheme, a colon and slashes; if it begins with
 * two slashes at the beginning of a value; or if it is the value of "url" in JSON. Each character
 * may be escaped as in JSON ("\/", "\u002f"), once or several times, and a slash may be a
 * backslash. If the colon or the slashes are percent-encoded, the other delimiters of that URL may
 * be, too. In case of doubt the functions remove more. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The kind of a text, which decides where a URL ends. */
enum mask_kind {
    MASK_MESSAGE, /* at a quote; also at a blank, unless there is a quote before the URL */
    MASK_VALUE,   /* at a quote: a name, or JSON */
    MASK_CUT,     /* like MASK_VALUE; the end of the text was cut off, perhaps within a password */
};

/* Masks text[0..length) in place, and returns the new length, which is not larger. */
size_t mask_bytes(char *text, size_t length, enum mask_kind kind);
/* The same for a text that ends with a NUL. */
void mask_text(char *text, enum mask_kind kind);

/* Copies a value of a job, for example a name, masks it, cuts it to `size`, and returns `to`. */
const char *mask_copy(char *to, size_t size, const char *value);

/* The same for a value that must be a URL, although its scheme may be missing. */
const char *mask_copy_url(char *to, size_t size, const char *value);

/* Whether the value begins like a URL: with a scheme, a colon and two slashes. */
bool mask_is_url(const char *value);
