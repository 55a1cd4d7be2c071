/*
 * preflight.h - checks the folders, files and addresses that the configuration names, before the
 * daemon opens them.
 *
 * So `gpuimgd -t` finds the errors with which the daemon would not start. Each check calls the
 * function that the daemon itself uses, or one that refuses the same values. The checks leave no
 * files. They may look up a host name, which can take long: call them only before jobs run.
 */
#pragma once

#include "conf/errors.h"
#include "conf/options.h"

/* Checks input_root, output_root, trace, timeline and metrics_listen. With one of these errors, the
 * daemon does not start. */
void preflight_start(const struct options *options, struct errors *errors);
/* Checks the files of passwords and certificates. With one of these errors, the daemon starts and
 * tries to read the file again and again, because another program may still be writing it. */
void preflight_connect(const struct options *options, struct errors *errors);
