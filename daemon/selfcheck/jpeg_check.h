/*
 * jpeg_check.h - compares the JPEG codec of each device with libjpeg before the daemon uses it.
 *
 * Call it before any job runs.
 */
#pragma once

#include "gpu/engine/engine.h"

/* Decodes and encodes generated JPEGs of every kind on every device, and enables the codecs whose
 * results all equal libjpeg's. Logs one warning for each codec that stays off. false: the engine
 * has failed, or memory is short; error has the reason. */
bool jpeg_check_run(struct engine *engine, struct error *error) MUST_CHECK;
