/* start.h - starts gpuimgd-codec. Only for process.c. */
#pragma once

#include "codecs/process/process.h"

/* Starts the process and waits for its hello. false: the error has the reason. */
bool codec_process_start(struct codec_process *process, struct error *error);
