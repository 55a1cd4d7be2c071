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

/* Whether a valid UTF-8 sequence is a control character, of one byte or of two. */
bool text_is_control(const unsigned char *sequence);

/* Replaces the bytes of control characters and those that are not valid UTF-8 by '?', in place. A
 * sequence that was cut at the end of the text is such a one. */
void text_make_printable(char *text);

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
