/*
 * jpeg_check.h - compares the JPEG codec of each device with libjpeg before jobs use it.
 */
#pragma once

#include "gpu/engine/engine.h"

/* Decodes and encodes generated JPEGs of every kind on every device. Enables the decoder, and the
 * encoder, if all of its results equal those of libjpeg, and logs a warning for one that stays off.
 * Call it before any job runs. false: the engine has failed, or memory is short; error has the
 * reason. */
bool jpeg_check_run(struct engine *engine, struct error *error) MUST_CHECK;
