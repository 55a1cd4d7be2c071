/* spawn.h - starts the program gpuimgd-codec as a codec process. Only process.c uses it. */
#pragma once

#include "codecs/process/process.h"

/* Starts the process and waits for its first message (struct codec_hello). draws_text: with the
 * fonts of this host. false: error has the reason. Call codec_process_close in any case. */
bool codec_process_start(struct codec_process *process, bool draws_text, struct error *error);

/* Sets a limit of a process: RLIMIT_AS and such. */
bool codec_process_limit(pid_t pid, int resource, uint64_t bytes);
