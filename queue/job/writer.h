/* writer.h - writes JSON text member by member, without building a tree.
 *
 *     struct writer w = {0};
 *     writer_open(&w, NULL, '{');
 *     writer_text(&w, "status", "done");
 *     writer_close(&w, '}');
 *     char *text = writer_finish(&w);
 *
 * Any thread. Pass a NULL key for an element of an array and for the outermost value. Keys are
 * written as they are: they must not need an escape. If memory runs short, only writer_finish
 * reports it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

/* All zero at the start. */
struct writer {
    char *text;
    size_t length, room;
    bool follows; /* the next value needs a comma before it */
    bool failed;
};

void writer_open(struct writer *writer, const char *key, char bracket);
void writer_close(struct writer *writer, char bracket);
/* Writes a string of valid UTF-8, escaped for JSON. A NULL value omits the member. */
void writer_text(struct writer *writer, const char *key, const char *value);
void writer_number(struct writer *writer, const char *key, uint64_t value);
/* Writes three decimal places. A negative or non-finite value omits the member. */
void writer_thousandths(struct writer *writer, const char *key, double value);
/* Writes `digits` decimal places. Slow. A non-finite value omits the member. */
void writer_decimal(struct writer *writer, const char *key, double value, int digits);
void writer_bool(struct writer *writer, const char *key, bool value);
/* Writes the text that cJSON prints. A NULL value omits the member. */
void writer_json(struct writer *writer, const char *key, const cJSON *value);
/* Writes a text that is JSON already. A NULL value omits the member. */
void writer_raw(struct writer *writer, const char *key, const char *json);
/* Discards the text and starts again in its memory. */
void writer_restart(struct writer *writer);
/* Returns the text, which the caller frees, or NULL if memory was short. Resets the writer. */
char *writer_finish(struct writer *writer);
