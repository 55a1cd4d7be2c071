/*
 * codec_check.h - compares the codecs of each device with those of the CPU before jobs use them.
 */
#pragma once

#include "gpu/engine/engine.h"

/* Decodes and encodes generated JPEGs, or PNGs, of every kind on every device. Enables the decoder,
 * and the encoder, if all of its results equal those of the CPU, and logs a warning for one that
 * stays off. Call it before any job runs. false: the engine has failed, or memory is short; error
 * has the reason. */
bool codec_check_run(struct engine *engine, enum device_codec codec,
                     struct error *error) MUST_CHECK;
