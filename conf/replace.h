/* replace.h - writes a file so that readers see the old one or the whole new one. */
#ifndef GPUIMGD_CONF_REPLACE_H
#define GPUIMGD_CONF_REPLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes the bytes to a temporary file beside the path and renames it. overwrite false: a file that
 * has the name by then stays (EEXIST). Returns 0, or the errno of what failed, without a trace. */
int replace_file(const char *path, const char *bytes, size_t length, mode_t mode, bool overwrite);

#endif
