/* op_hints.h - answers names of operations that other image tools have and gpuimgd lacks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Room for the longest hint, with its NUL. */
#define OP_HINT_BYTES 160

/* A row of the table of hints. */
struct op_hint {
    const char *operation; /* to use instead; NULL: `text` is the whole hint */
    const char *text;      /* after the operation, or NULL */
    const char *names;     /* in lower case, without '-' and '_', separated by blanks */
};
extern const struct op_hint op_hints[];
extern const size_t op_hint_count;

/* Writes what to use instead of the unknown operation `name`: `did you mean "gaussian"?` for blur.
 * Ignores case, '-' and '_'. false: the name is in no row. Any thread. */
bool op_hint_find(const char *name, char text[OP_HINT_BYTES]);
