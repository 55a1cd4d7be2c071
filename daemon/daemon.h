/*
 * daemon.h - the parts put together: boot, run, reload, drain.
 */
#ifndef GPUIMGD_DAEMON_DAEMON_H
#define GPUIMGD_DAEMON_DAEMON_H

#include "conf/options.h"

enum exit_status { EXIT_OK = 0, EXIT_USAGE = 64, EXIT_FAULT = 70, EXIT_CONFIGURATION = 78 };

/* Makes the options anew for a reload: defaults, file, command line. Set by main. */
struct daemon_source {
    bool (*load)(void *context, struct options *options, struct error *error);
    void *context;
};

/* Runs until a signal ends it. *abrupt is set when a thread was left behind that still uses the
 * process's memory, so that only _exit is safe. */
enum exit_status daemon_run(struct options *options, const struct daemon_source *source,
                            bool *abrupt);

#endif
