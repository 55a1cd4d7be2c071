/* show.h - formats numbers, times and results for people. The functions write to the caller's
 * buffer and return it. Any thread. */
#pragma once

#include <stddef.h>

#include <cjson/cJSON.h>

#define SHOW_BYTES 32

/* "17", "1,234,567". Rounds to a whole number. */
const char *show_count(double count, char text[SHOW_BYTES]);
/* "512 B", "48.2 kB", "1.3 GB". */
const char *show_bytes(double bytes, char text[SHOW_BYTES]);
/* Minutes and seconds, with hours from 3600 s on: "0:07", "12:34", "1:02:03". */
const char *show_time(double seconds, char text[SHOW_BYTES]);
/* A duration in its most readable unit: "0.3 s", "42 s", "12 min", "3 h". */
const char *show_age(double seconds, char text[SHOW_BYTES]);
/* A rate per second: "3.2", "1,234". One decimal place below ten, otherwise none. */
const char *show_rate(double rate, char text[SHOW_BYTES]);

/* Returns the option redis without the passwords of its URLs. Valid until the next call. */
const char *show_redis(const char *redis);

/* Return a string member of a JSON object, owned by the JSON, or "" if there is none; a number
 * member, or 0. */
const char *show_text(const cJSON *json, const char *name);
double show_number(const cJSON *json, const char *name);

/* Copies a string member to `word`, cut to `size` - 1 bytes, and returns it. */
const char *show_word(const cJSON *json, const char *name, char *word, size_t size);

/* What blocks a daemon, from its statistics; NULL: nothing. A full inflight is usual under load,
 * and so is a short wait for memory: neither counts. */
const cJSON *show_blocked(const cJSON *stats);
/* Writes a daemon's state and returns it: "running", or the pool of memory that it lacks. */
const char *show_state(const cJSON *stats, char text[SHOW_BYTES]);

/* Prints one result as a line: its status, the input's name and its outputs. files: for each output
 * the local file to which it was downloaded from Redis; NULL: none was. The result of a job with
 * many images gets a further line for each image that failed or has values. names: of `count`
 * images; NULL: the result has those that it knows. */
void show_result(const cJSON *result, const char *name, const char *const *files,
                 char *const *names, size_t count);
