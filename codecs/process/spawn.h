/* spawn.h - starts the program gpuimgd-codec as a codec process. Only process.c uses it. */
#pragma once

#include "codecs/process/process.h"

/* Starts the process. draws_text: with the fonts of this host. false: error has the reason, and
 * there is no process. */
bool codec_process_start(struct codec_process *process, bool draws_text, struct error *error);
/* Waits up to `ms` for the first message of the process (struct codec_hello). false: it has not
 * come yet, or error has the reason why it will not: then close the process. */
bool codec_process_said_hello(struct codec_process *process, int ms, struct error *error);

/* Sets a limit of a process: RLIMIT_AS and such. */
bool codec_process_limit(pid_t pid, int resource, uint64_t bytes);
