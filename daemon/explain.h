/*
 * explain.h - how a job would be carried out, told without carrying it out.
 *
 * Takes the ways of a real job as far as its plan: the same parser, header, decode path and plan.
 * Needs no Redis and no device, and writes to nothing but `out` and the log.
 */
#ifndef GPUIMGD_DAEMON_EXPLAIN_H
#define GPUIMGD_DAEMON_EXPLAIN_H

#include <stdbool.h>
#include <stdio.h>

#include "conf/options.h"

/* Explains the job in a file ("-": standard input), as text or as one line of JSON. false: the job,
 * or one of its outputs, would fail; the log says why, and so does the JSON. */
bool explain_job(const struct options *options, const char *file, bool json, FILE *out);

#endif
