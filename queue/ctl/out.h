/* out.h - prints gpuimgctl's lines on standard output and standard error.
 *
 * Each line is written with one write as soon as it is complete. So lines of the two streams do not
 * mix, and a pipe gets whole lines. Names, ids and messages come from outside: control characters
 * (text_is_control) and invalid UTF-8 in them become '?'. One thread. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

/* Appends to the current line of standard output. */
void out_put(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the line and writes it. */
void out_end(void);
#define out_line(...) (out_put(__VA_ARGS__), out_end())
/* Prints JSON as one line. Control characters are escaped, invalid UTF-8 becomes U+FFFD. */
void out_json(const char *json);

/* Appends terminal escape sequences without any replacement. */
void out_raw(const char *bytes);
/* While `held` is true, complete lines are buffered, so that a screen of many lines is one write.
 */
void out_hold(bool held);
/* If standard output is a file, waits until its content is on the disk. */
void out_sync(void);
/* If standard output is a file that is not empty, writes a line end. If an earlier process was
 * killed while it wrote a line, the next line then does not continue it. */
void out_separate(void);
/* Whether a write failed or memory was short. */
bool out_failed(void);

/* Prints "gpuimgctl: " and the message as one line on standard error. */
void out_error(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
/* Replaces the last line of the terminal on standard error; "" clears it. The next line of either
 * stream clears it first. */
void out_status(const char *text);
bool out_has_status(void);
