/*
 * explain.h - prints how the daemon would run a job, without running it.
 *
 * It uses the same parser, header probe, decode settings and planner as a real job. It needs no
 * Redis and no GPU, and writes only to `out` and the log.
 */
#ifndef GPUIMGD_DAEMON_EXPLAIN_H
#define GPUIMGD_DAEMON_EXPLAIN_H

#include <stdio.h>

#include "conf/options.h"

/* Explains the job in a file ("-": standard input), as text or as one line of JSON. false: the job
 * or one of its outputs would fail. The reason is in the log and in the JSON. */
bool explain_job(const struct options *options, const char *file, bool json, FILE *out);

#endif
