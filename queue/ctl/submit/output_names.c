#include "queue/ctl/submit/output_names.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct name {
    const char *name, *image; /* in `text` */
    char text[];
};

static int order(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->name, ((const struct name *)b)->name);
}

const char *output_names_find(const struct output_names *names, const char *name)
{
    const struct name key = {.name = name};
    struct name *const *found = tfind(&key, &names->tree, order);
    return found ? (*found)->image : NULL;
}

bool output_names_add(struct output_names *names, const char *name, const char *image)
{
    size_t length = strlen(name) + 1, bytes = length + strlen(image) + 1;
    if (names->count == OUTPUT_NAMES_MAX || names->bytes + bytes > OUTPUT_NAMES_BYTES_MAX)
        return false; /* uncovered: gone */
    struct name *added = malloc(sizeof *added + bytes);
    if (!added) /* uncovered: gone */
        return false;
    added->name = memcpy(added->text, name, length);
    added->image = strcpy(added->text + length, image);
    struct name *const *at = tsearch(added, &names->tree, order);
    if (!at || *at != added) { /* out of memory, or known */
        free(added);
        return at != NULL;
    }
    names->bytes += bytes;
    names->count++;
    return true;
}

void output_names_clear(struct output_names *names)
{
    tdestroy(names->tree, free);
    *names = (struct output_names){0};
}
