/* replace.h - replaces a file atomically: readers see either the old or the new content. Any
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes a temporary file in the same folder and renames it. Returns 0 or errno: EEXIST if
 * `overwrite` is false and the path exists. */
int replace_file(const char *path, const char *bytes, size_t length, mode_t mode, bool overwrite);
