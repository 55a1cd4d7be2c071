/* content.h - reads whole files of the configuration. Loop thread only. */
#pragma once

#include <stddef.h>

#include "conf/status.h"

/* Returns the malloc'd content of a file, a pipe or /dev/null, with a NUL after it, or NULL: it
 * cannot be read, or has more than CONF_BYTES_MAX bytes. Never blocks at a FIFO without a writer.
 * Waits for the data of other pipes until the time `pipe_until_s` (clock_now_s). */
char *content_read(const char *path, double pipe_until_s, size_t *length, struct error *error);
