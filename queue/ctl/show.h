/*
 * show.h - numbers, times and results as people read them.
 */
#ifndef GPUIMGD_QUEUE_CTL_SHOW_H
#define GPUIMGD_QUEUE_CTL_SHOW_H

#include <stddef.h>

#include <cjson/cJSON.h>

#define SHOW_BYTES 32

/* "17", "1,234,567": rounded to a whole number. */
const char *show_count(double count, char text[SHOW_BYTES]);
/* "512 B", "48.2 kB", "1.3 GB". */
const char *show_bytes(double bytes, char text[SHOW_BYTES]);
/* "0:07", "12:34", "1:02:03". */
const char *show_time(double seconds, char text[SHOW_BYTES]);
/* "0.3 s", "42 s", "12 min", "3 h": how long ago, or for how long. */
const char *show_age(double seconds, char text[SHOW_BYTES]);
/* "3.2": one place below ten, else none, with commas. */
const char *show_rate(double rate, char text[SHOW_BYTES]);

/* A text of the JSON, "" where there is none; a number, 0 where there is none. */
const char *show_text(const cJSON *json, const char *name);
double show_number(const cJSON *json, const char *name);

/* The same text where it is one word for a screen: as much as fits. */
const char *show_word(const cJSON *json, const char *name, char *word, size_t size);

/* Prints one result as a line: how it ended, of which input (name), and its outputs. files: where
 * those are now that came through Redis, by outputs; or NULL. */
void show_result(const cJSON *result, const char *name, const char *const *files);

#endif
