/*
 * daemon.h - starts all parts of the daemon, runs the event loop, and shuts down.
 */
#pragma once

#include "conf/options.h"

enum exit_status { EXIT_OK = 0, EXIT_USAGE = 64, EXIT_FAULT = 70, EXIT_CONFIGURATION = 78 };

/* Reads the defaults, then the file, then the command line, for a reload. A later source overrides
 * an earlier one. Adds all errors, and returns false if there are any. */
typedef bool daemon_load(void *context, struct options *options, struct errors *errors);

/* Runs until a signal or a fault ends the daemon. A reload changes *options. If *abrupt is true, a
 * thread or device still uses memory: the caller must end the process with _exit. */
enum exit_status daemon_run(struct options *options, daemon_load *load, void *context,
                            bool *abrupt);

/* ---- explain_job.c ---- */

/* Explains the job in a file ("-": standard input), as text or as one line of JSON. false: the job
 * or one of its outputs would fail. The reason is in the log and in the JSON. */
bool explain_job(const struct options *options, const char *file, bool json, FILE *out);
