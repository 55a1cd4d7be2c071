/*
 * writer.h - JSON text put together member by member, without a tree in between.
 *
 *     struct writer w = {0};
 *     writer_open(&w, NULL, '{');
 *     writer_text(&w, "status", "done");
 *     writer_close(&w, '}');
 *     char *text = writer_finish(&w);
 *
 * Any thread. A key of NULL: an element of an array, or the whole. What goes wrong (memory is
 * short) is kept and told once, at the end.
 */
#ifndef GPUIMGD_QUEUE_JOB_WRITER_H
#define GPUIMGD_QUEUE_JOB_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

/* All zero at the start. */
struct writer {
    char *text;
    size_t length, room;
    bool follows; /* the next one needs a comma before it */
    bool failed;
};

void writer_open(struct writer *writer, const char *key, char bracket);
void writer_close(struct writer *writer, char bracket);
/* Valid UTF-8, escaped as JSON wants it; NULL: the member is left out. */
void writer_text(struct writer *writer, const char *key, const char *value);
void writer_number(struct writer *writer, const char *key, uint64_t value);
/* With three digits behind the point; negative or not finite: the member is left out. */
void writer_thousandths(struct writer *writer, const char *key, double value);
/* With so many digits after the point. Not for hot paths; not finite: the member is left out. */
void writer_decimal(struct writer *writer, const char *key, double value, int digits);
void writer_bool(struct writer *writer, const char *key, bool value);
/* As cJSON prints it; NULL: the member is left out. */
void writer_json(struct writer *writer, const char *key, const cJSON *value);
/* Starts anew in the memory of the text so far, which is gone. */
void writer_restart(struct writer *writer);
/* The text, malloc'd, or NULL when memory was short; the writer is as at its start. */
char *writer_finish(struct writer *writer);

#endif
