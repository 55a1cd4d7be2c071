/*
 * output_names.h - which name each picture's result has, so that no two of a submit have the same.
 *
 * Of each name 64 bits are kept, and the picture that has it: two names that are taken for one are
 * one chance in 10^7 in a submit of a million.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_NAMES_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names come from standard input without end; at most 32 MiB of slots and 128 MiB of pictures'
 * names are kept of them. */
#define CLAIMS_MAX       1000000u
#define CLAIMS_BYTES_MAX (128u << 20)

struct claims {
    struct claim *slots;
    size_t room, count;  /* room: a power of two, at least twice the count */
    char *pictures;      /* their names, each with its NUL */
    size_t bytes, bytes_room;
};

/* The picture whose result has the name; NULL: none. Until the next claims_add. */
const char *claims_holder(const struct claims *claims, const char *name);
/* false: there is no more room, and the name is not kept. */
bool claims_add(struct claims *claims, const char *name, const char *picture);
void claims_clear(struct claims *claims); /* idempotent */

#endif
