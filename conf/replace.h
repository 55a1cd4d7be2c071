/* replace.h - replaces a file atomically: readers see the old or the new file. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes the bytes to a temporary file in the same folder and renames it. If `overwrite` is false
 * and the path exists, the file is not replaced and the result is EEXIST. Returns 0 or errno. After
 * a failure the temporary file is gone. */
int replace_file(const char *path, const char *bytes, size_t length, mode_t mode, bool overwrite);
