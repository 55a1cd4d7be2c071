/*
 * text.h - what to do with text that came from outside before it goes into a log or a message.
 */
#ifndef GPUIMGD_CONF_TEXT_H
#define GPUIMGD_CONF_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length in bytes of the valid UTF-8 sequence at text[0..length), 0 if there is none. Overlong
 * forms, surrogates and code points over U+10FFFF are invalid (RFC 3629). */
size_t text_utf8_sequence(const unsigned char *text, size_t length);

/* The code point of a valid UTF-8 sequence. */
uint32_t text_code_point(const unsigned char *sequence);

/* Whether a valid UTF-8 sequence can make a terminal or an editor show something else than the
 * text: C0 and C1 controls, characters that change the direction of writing, line separators, and
 * invisible ones. U+200C and U+200D are none: Persian and emoji are not written without them. */
bool text_is_control(const unsigned char *sequence);

/* Replaces the bytes of control characters (text_is_control) and invalid UTF-8 by '?', in place. A
 * sequence that is cut at the end of the text is invalid. */
void text_make_printable(char *text);

/* Writes text[0..length) with \xNN for each byte of a control character and each that is not valid
 * UTF-8, and with \\ for a backslash: at most size - 1 bytes, "..." at the end of one that was cut.
 * size is at least 4. */
void text_escape(char *to, size_t size, const char *text, size_t length);
/* The same, cut at its beginning: the end of a path says more. */
void text_escape_end(char *to, size_t size, const char *text, size_t length);

/* One line of JSON as a malloc'd copy in which control characters are escaped and invalid UTF-8 is
 * U+FFFD; NULL: no memory. */
char *text_printable_json(const char *json);

/* Copies at most size - 1 bytes and terminates; returns whether all of it fitted. */
bool text_copy(char *to, size_t size, const char *from);

/* Writes the number in decimal digits, at most TEXT_DIGITS_MAX and no terminator; returns how many.
 * What goes to Redis is full of numbers, for which printf takes longer than all the rest. */
#define TEXT_DIGITS_MAX 20
size_t text_number(char *to, uint64_t number);
/* The one of the names that the word was likely meant to be; NULL where so many letters differ that
 * it may as well be any other. */
const char *text_nearest(const char *word, const char *const *names, size_t count);

#endif
