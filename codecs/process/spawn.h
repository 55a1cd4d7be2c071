/* spawn.h - starts gpuimgd-codec. Only for process.c. */
#pragma once

#include "codecs/process/process.h"

/* Starts the process and waits for its hello. false: the error has the reason. Call
 * codec_process_close after an error as well. */
bool codec_process_start(struct codec_process *process, struct error *error);
