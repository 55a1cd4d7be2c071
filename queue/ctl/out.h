/*
 * out.h - everything that gpuimgctl prints, on standard output and on standard error.
 *
 * A line is put together first and written with one write, as soon as it is complete: no line is
 * torn through a pipe, or has one of the other stream in its middle. Control characters in it
 * (text_is_control, and invalid UTF-8) become '?': names, ids and messages come from elsewhere.
 */
#ifndef GPUIMGD_QUEUE_CTL_OUT_H
#define GPUIMGD_QUEUE_CTL_OUT_H

#include <stdarg.h>
#include <stdbool.h>

/* Adds to the line of standard output. */
void out_put(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends and writes it. */
void out_end(void);
/* Both. */
void out_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* JSON as a line of its own. Control characters are escaped, invalid UTF-8 becomes U+FFFD. */
void out_json(const char *json);

/* Adds our own bytes as they are: sequences for a terminal. */
void out_raw(const char *bytes);
/* While held, complete lines are kept, so that a drawing of many lines is one write. */
void out_hold(bool held);
/* Whether something could not be written, or memory was short for it. */
bool out_failed(void);

/* "gpuimgctl: " and a sentence, as a line on standard error. */
void out_error(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
/* Draws over the last line of the terminal that standard error is; "" clears it. */
void out_status(const char *text);

#endif
