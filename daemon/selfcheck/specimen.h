/*
 * specimen.h - a test image: its file, the plan that it goes through, with a pass of every kernel
 * family, and what must come of it.
 *
 * Made once, by the codecs and the CPU engine, and not changed after that, so that any thread may
 * compare with it. The whole path of a job is decode, an engine at work on the plan, compare.
 */
#ifndef GPUIMGD_DAEMON_SELFCHECK_SPECIMEN_H
#define GPUIMGD_DAEMON_SELFCHECK_SPECIMEN_H

#include <stdbool.h>

#include "codecs/codec.h"
#include "conf/status.h"
#include "gpu/engine/engine.h"

struct specimen;

/* NULL with a sentence in error: the codecs do not give back what went in, or no memory. */
struct specimen *specimen_create(struct error *error);
void specimen_destroy(struct specimen *specimen); /* takes NULL */

const struct plan *specimen_plan(const struct specimen *specimen);
/* Decodes the file into memory that was reserved for the plan. false: gpu_failed or the codec's
 * error. */
bool specimen_decode(const struct specimen *specimen, struct codec_context *codec,
                     const struct engine_memory *memory, struct error *error) MUST_CHECK;
/* Compares the pixels and values that an engine left in memory, and the file that the first chain's
 * pixels are encoded into. false: they differ, or the encoder fails. */
bool specimen_compare(const struct specimen *specimen, struct codec_context *codec,
                      const struct engine_memory *memory, struct error *error) MUST_CHECK;

#endif
