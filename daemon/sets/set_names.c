#include "daemon/sets/set_names.h"

#include <stdlib.h>

#include "conf/limits.h"

/* FNV-1a (Fowler, Noll, Vo), with 0 for free places left out. */
static uint64_t hash(char kind, const char *name)
{
    const uint64_t prime = 0x100000001b3;
    uint64_t sum = (0xcbf29ce484222325 ^ (unsigned char)kind) * prime;
    for (; *name; name++)
        sum = (sum ^ (unsigned char)*name) * prime;
    return sum ? sum : 1;
}

/* Returns the place of the hash, or the free place for it. */
static uint64_t *find(const struct set_names *names, uint64_t value)
{
    size_t at = (size_t)(value ^ value >> 32);
    while (names->hashes[at & (names->places - 1)] != 0 &&
           names->hashes[at & (names->places - 1)] != value)
        at++;
    return &names->hashes[at & (names->places - 1)];
}

static bool grow(struct set_names *names)
{
    if (names->count >= SET_NAMES_MAX)
        return true; /* it takes no more names */
    struct set_names larger = {.places = names->places ? 2 * names->places : 1024,
                               .count = names->count,
                               .compared = names->compared};
    larger.hashes = calloc(larger.places, sizeof *larger.hashes);
    if (!larger.hashes)
        return false;
    for (size_t i = 0; i < names->places; i++)
        if (names->hashes[i] != 0)
            *find(&larger, names->hashes[i]) = names->hashes[i];
    free(names->hashes);
    *names = larger;
    return true;
}

enum set_names_result set_names_add(struct set_names *names, char kind, const char *name,
                                    bool is_distinct)
{
    if (2 * names->count >= names->places && !grow(names)) /* uncovered: memory */
        return NAME_LACKS_MEMORY;
    uint64_t value = hash(kind, name), *place = find(names, value);
    if (*place == value)
        return NAME_IS_KNOWN;
    if (is_distinct && names->count - names->compared >= SET_NAMES_MAX / 2)
        return NAME_IS_NEW;
    if (!is_distinct && names->compared >= SET_NAMES_MAX)
        return NAME_LACKS_PLACE;
    *place = value;
    names->count++;
    names->compared += !is_distinct;
    return NAME_IS_NEW;
}

void set_names_clear(struct set_names *names)
{
    free(names->hashes);
    *names = (struct set_names){0};
}
