/* text.h - checks, escapes and copies text that may come from outside the program. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the length in bytes of the first UTF-8 sequence of text[0..length); 0 if it is invalid.
 * Overlong forms, surrogates and code points over U+10FFFF are invalid (RFC 3629). */
size_t text_utf8_sequence(const unsigned char *text, size_t length);

/* Returns the code point of a valid UTF-8 sequence. */
uint32_t text_code_point(const unsigned char *sequence);

/* Whether a valid UTF-8 sequence can make a terminal or an editor display other text wrongly. Not
 * so U+200C and U+200D, which Persian and emoji need. */
bool text_is_control(const unsigned char *sequence);

/* Replaces each byte of control characters and of invalid UTF-8 by '?', in place. */
void text_make_printable(char *text);

/* Writes text[0..length) with \xNN for each byte of a control character or of invalid UTF-8, and
 * with \\ for a backslash. Writes at most size - 1 bytes and a NUL; text that was cut ends with
 * "...". size is at least 4. */
void text_escape(char *to, size_t size, const char *text, size_t length);
/* The same, but text that is too long is cut at its beginning: the end of a path says more. */
void text_escape_end(char *to, size_t size, const char *text, size_t length);

/* Returns a malloc'd copy of JSON with control characters escaped and invalid UTF-8 replaced by
 * U+FFFD; NULL if memory is short. */
char *text_printable_json(const char *json);

/* Copies at most size - 1 bytes and a NUL. Returns whether the whole text fits. */
bool text_copy(char *to, size_t size, const char *from);

/* Copies a URL without its user, query and fragment, which can hold passwords and signatures: for
 * logs and results. Returns whether all of the rest fits. */
bool text_copy_url(char *to, size_t size, const char *url);

/* Writes the number in decimal digits, at most TEXT_DIGITS_MAX, without a NUL. Returns the number
 * of digits. Commands to Redis have many numbers, and printf would take most of their time. */
#define TEXT_DIGITS_MAX 20
size_t text_number(char *to, uint64_t number);

/* Returns the name that is most similar to a misspelled word; NULL if none is similar enough. */
const char *text_nearest(const char *word, const char *const *names, size_t count);
