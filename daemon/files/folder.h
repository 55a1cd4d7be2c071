/*
 * folder.h - the names of the files of a folder below input_root.
 *
 * Any thread. A list belongs to its caller.
 */
#pragma once

#include "daemon/files/files.h"

/* All zero: empty. */
struct files_names {
    char *text;      /* all names, each with its NUL, in the order of their bytes */
    size_t *offsets; /* of each name in `text` */
    size_t count;
    size_t skipped; /* links and special files that `wants` accepted */
};

/* Whether the caller wants the file with this name. */
typedef bool files_wants(const void *context, const char *name);

/* Fills in *names with the names of the regular files directly in the folder `path`, or in
 * input_root if that is ".", that `wants`
 * accepts. Symbolic links are skipped, because files_open_input does not follow them. Errors:
 * path_refused, input_missing, input_unreadable, input_too_large if there are more than count_max
 * names, or they have more than bytes_max bytes; out_of_memory. Call files_names_clear in any
 * case. */
enum status files_list(const struct files *files, const char *path, files_wants *wants,
                       const void *context, size_t count_max, size_t bytes_max,
                       struct files_names *names, struct error *error) MUST_CHECK;
void files_names_clear(struct files_names *names); /* idempotent */
