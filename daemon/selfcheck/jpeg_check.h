/*
 * jpeg_check.h - compares the JPEG codec of each device with libjpeg before the daemon uses it.
 *
 * Loop thread only, before any job runs.
 */
#pragma once

#include <uv.h>

#include "gpu/engine/engine.h"

/* Decodes and encodes generated JPEGs of every kind on every device, and enables the codecs whose
 * results all equal libjpeg's. Logs one warning for each codec that stays off. Runs the loop; the
 * engine's `wake` callback must lead to engine_reap. false: the engine has failed, or memory is
 * short; error has the reason. */
bool jpeg_check_run(uv_loop_t *loop, struct engine *engine, struct error *error) MUST_CHECK;
