/*
 * set_names.h - the names of the files of a job with many images, to find two that are equal.
 *
 * It keeps a hash of 64 bits of each name: two different names are taken for equal once in 10^8
 * jobs of SET_NAMES_MAX names. Loop only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: empty. */
struct set_names {
    uint64_t *hashes; /* a table of `places`, a power of two; 0: free */
    size_t places, count;
};

/* What became of a name. After SET_NAMES_MAX names, each is taken for a new one. */
enum set_names_result { NAME_IS_NEW, NAME_IS_KNOWN, NAME_LACKS_MEMORY };
/* kind: of the place: names of different kinds are different. */
enum set_names_result set_names_add(struct set_names *names, char kind, const char *name);
void set_names_clear(struct set_names *names); /* idempotent */
