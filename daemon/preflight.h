/*
 * preflight.h - checks the folders, files and addresses that the configuration names, before the
 * daemon opens them.
 *
 * Each check calls the function that the daemon itself uses, or one that refuses the same values.
 * The checks write nothing that stays, and may look up a host name: call them only before jobs run.
 */
#pragma once

#include "conf/errors.h"
#include "conf/options.h"

/* Adds an error for each root, trace, timeline and metrics_listen without which the daemon does not
 * start. */
void preflight_start(const struct options *options, struct errors *errors);
/* Adds an error for each password and each certificate that cannot be read. With such an error, the
 * daemon starts and goes on trying, because another program may still be writing the file. */
void preflight_connect(const struct options *options, struct errors *errors);
