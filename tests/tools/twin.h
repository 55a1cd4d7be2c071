/*
 * twin.h - the same jobs on two engines, whose output files must be equal byte for byte.
 *
 * A job is one of a table, and its file is named after who drew it: "cpu3.jpg", "cuda3.jpg".
 */
#ifndef GPUIMGD_TESTS_TOOLS_TWIN_H
#define GPUIMGD_TESTS_TOOLS_TWIN_H

#include <stddef.h>

#include "tests/tools/world.h"

struct twin_job {
    const char *input;
    const char *rest; /* of the job; its output's path has a %s and a suffix of four characters */
};

/* Pushes one job of the table. */
void twin_push(struct world *world, const struct twin_job *jobs, size_t index, const char *who);
/* Has all of the table done, one at a time. */
void twin_draw(struct world *world, const struct twin_job *jobs, size_t count, const char *who);
/* Fails the test where this file is not the one that "cpu" drew. */
void twin_check(struct world *world, const struct twin_job *jobs, size_t index, const char *who);

#endif
