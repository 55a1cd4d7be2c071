/*
 * set_spill.h - moves finished images of a set from memory to a file without a name, until they are
 * written to their tar or array.
 *
 * The images of a tar are written in their order. If one waits for memory, those after it that are
 * done hold memory of their own meanwhile: all of it, if it is small. Then nothing would go on. So
 * the loop asks for a spill whenever the first job that waits for memory waits only for such images
 * (line_is_stuck).
 */
#pragma once

#include "daemon/pipeline/image_set.h"

/* Whether an image or a copied member is done and holds memory, but cannot be written yet. */
bool set_spill_helps(struct image_set *set);
/* On the worker of the job. Errors of the file are run->error. */
void set_spill(struct job_run *run);
/* On the worker of the job: frees the bytes of an image or a copied member that is written. */
void set_spill_release(struct image_set *set, struct set_item *item);
/* A spilled item is written: the file becomes empty with the last one. */
void set_spill_forget(struct image_set *set, struct set_item *item);

/* Where the bytes of an output begin among those of a spilled image. */
uint64_t set_spill_offset(const struct job_run *image, size_t index);
