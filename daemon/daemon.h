/*
 * daemon.h - starts all parts of the daemon, runs the event loop, and shuts down.
 */
#pragma once

#include "conf/options.h"

enum exit_status { EXIT_OK = 0, EXIT_USAGE = 64, EXIT_FAULT = 70, EXIT_CONFIGURATION = 78 };

/* Reads all options, for a reload: the defaults, then the file, then the command line. A later
 * source overrides an earlier one. false: there were errors, which it has added to `errors`. */
typedef bool daemon_load(void *context, struct options *options, struct errors *errors);

/* Runs the daemon until a signal or a fault ends it. SIGHUP reloads the configuration with `load`
 * and changes *options. If *abrupt is true, a thread or a device still uses memory of the daemon:
 * the caller must end the process with _exit, which frees nothing. */
enum exit_status daemon_run(struct options *options, daemon_load *load, void *context,
                            bool *abrupt);

/* ---- explain_job.c ---- */

/* Prints to `out` how the daemon would run the job in a file ("-": standard input), as text or as
 * one line of JSON. false: the job or one of its outputs would fail. The reason is in the log and
 * in the JSON. */
bool explain_job(const struct options *options, const char *file, bool json, FILE *out);
