/*
 * output_names.h - which name each image's result has, so that no two of a submit have the same.
 *
 * Of each name 64 bits are kept, and the image that has it: two names that are taken for one are
 * one chance in 10^7 in a submit of a million.
 */
#ifndef GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_NAMES_H
#define GPUIMGD_QUEUE_CTL_SUBMIT_OUTPUT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names come from standard input without end; at most 32 MiB of slots and 128 MiB of images'
 * names are kept of them. */
#define OUTPUT_NAMES_MAX       1000000u
#define OUTPUT_NAMES_BYTES_MAX (128u << 20)

struct output_names {
    struct entry *slots;
    size_t room, count;  /* room: a power of two, at least twice the count */
    char *images;        /* their names, each with its NUL */
    size_t bytes, bytes_room;
};

/* The image whose result has the name; NULL: none. Until the next output_names_add. */
const char *output_names_find(const struct output_names *names, const char *name);
/* false: there is no more room, and the name is not kept. */
bool output_names_add(struct output_names *names, const char *name, const char *image);
void output_names_clear(struct output_names *names); /* idempotent */

#endif
