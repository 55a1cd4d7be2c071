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

#include "conf/status.h"

/* All zero: empty. */
struct set_names {
    uint64_t *hashes; /* a table of `places`, a power of two; 0: free */
    size_t places, count;
    size_t compared; /* of count: those that are not distinct */
};

enum set_names_result {
    NAME_IS_NEW,
    NAME_IS_KNOWN,
    NAME_LACKS_PLACE, /* it is not known, but is not noted: there are SET_NAMES_MAX names, without
                         those that are distinct */
    NAME_LACKS_MEMORY
};

/* Notes a name. kind: of the place: names of different kinds are different. is_distinct: it differs
 * from all other names of images, by its index. Only the first SET_NAMES_MAX / 2 of these are
 * noted, to compare them with the names of inputs. */
enum set_names_result set_names_add(struct set_names *names, char kind, const char *name,
                                    bool is_distinct) MUST_CHECK;
void set_names_clear(struct set_names *names); /* idempotent */
