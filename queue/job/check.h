/* check.h - checks of the members of a job, for job.c, inputs.c and place.c.
 *
 * Each returns false and sets the error if a member is wrong. The argument `where` is the key as
 * messages name it: "outputs[2].output". Any thread. */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "queue/job/job.h"

/* Messages show at most this many bytes of a value, so that the sentence fits ERROR_TEXT_MAX. */
#define SHOWN_MAX 60

struct check {
    const struct job_rules *rules;
    struct error *error;
    bool no_urls; /* of an operation's input */
};

/* Both set the error and evaluate to false, so that a check can return them. */
#define refuse_as(check, status, ...) (error_set((check)->error, status, __VA_ARGS__) == STATUS_OK)
#define refuse(check, ...)            refuse_as(check, STATUS_BAD_JOB, __VA_ARGS__)

/* The keys of each object of a job, and the words of `metadata` in the order of their bits; the
 * last element is NULL. */
extern const char *const job_keys[],
    *const variant_keys[], *const inputs_keys[], *const input_keys[], *const output_keys[],
                                                                          *const metadata_words[];

/* Prints a value for a message, shortened, into storage of the thread, which the next call uses
 * again. */
const char *shown(const cJSON *value);
bool check_keys(const struct check *check, const cJSON *object, const char *where,
                const char *const *known);
/* NULL if the object has no such key. */
const cJSON *member(const cJSON *object, const char *key);
bool is_integer(const cJSON *item, double low, double high);
/* Reads an integer of low..high. Leaves the default in *value if the key is missing. */
bool read_integer(const struct check *check, const cJSON *object, const char *where,
                  const char *key, double low, double high, double *value);
/* As read_integer. */
bool read_bool(const struct check *check, const cJSON *object, const char *where, const char *key,
               bool *value);
/* Whether the text has a character of C0 or C1, or DEL. */
bool has_control(const char *text);

/* A key in a job begins with the namespace and a kind (":img:"), so that no job can read or write
 * the queue's own keys. */
bool check_key(const struct check *check, const cJSON *item, const char *where, const char *kind);
/* Checks a path below input_root or output_root. */
bool check_path(const struct check *check, const cJSON *item, const char *where);
/* Reads a path, or an object with one of path, key and url, and of `keys` no other. The strings
 * belong to the item. */
bool read_place(const struct check *check, const cJSON *item, const char *where,
                const char *const *keys, struct job_place *place);
/* Refuses an output in the folder for temporary files. */
bool check_output_path(const struct check *check, const char *path, const char *where);
