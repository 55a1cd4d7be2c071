/* content.h - reads a whole file that the configuration names, which may be a pipe. Loop thread
 * only. */
#pragma once

#include <stddef.h>

#include "conf/status.h"

/* Returns the malloc'd content of a file, a pipe or /dev/null, with a NUL after it. Returns NULL
 * and sets `error` if it cannot be read, or if it has more than CONF_BYTES_MAX bytes. Never waits
 * for the writer of a FIFO. Waits for data in other pipes until the time pipe_until_s
 * (clock_now_s). */
char *content_read(const char *path, double pipe_until_s, size_t *length, struct error *error);
