#include "queue/ctl/submit/output_names.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 1024

struct entry {
    uint64_t hash;
    size_t image; /* offset of the image's name, plus 1; 0: the slot is free */
};

/* FNV-1a. */
static uint64_t hash_of(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
    return hash;
}

/* The slot that holds the hash, or the free slot to put it in. */
static struct entry *find(struct entry *slots, size_t room, uint64_t hash)
{
    size_t at = (size_t)(hash ^ hash >> 32) & (room - 1);
    while (slots[at].image && slots[at].hash != hash)
        at = (at + 1) & (room - 1);
    return &slots[at];
}

const char *output_names_find(const struct output_names *names, const char *name)
{
    if (names->room == 0)
        return NULL;
    const struct entry *slot = find(names->slots, names->room, hash_of(name));
    return slot->image ? names->images + slot->image - 1 : NULL;
}

static bool grow(struct output_names *names)
{
    size_t room = names->room ? 2 * names->room : ROOM_FIRST;
    struct entry *slots = calloc(room, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < names->room; i++)
        if (names->slots[i].image)
            *find(slots, room, names->slots[i].hash) = names->slots[i];
    free(names->slots);
    names->slots = slots;
    names->room = room;
    return true;
}

bool output_names_add(struct output_names *names, const char *name, const char *image)
{
    size_t length = strlen(image) + 1;
    if (names->count == OUTPUT_NAMES_MAX || names->bytes + length > OUTPUT_NAMES_BYTES_MAX ||
        (2 * names->count >= names->room && !grow(names)))
        return false;
    if (names->bytes + length > names->bytes_room) {
        size_t room = 2 * (names->bytes + length);
        char *images = realloc(names->images, room);
        if (!images)
            return false;
        names->images = images;
        names->bytes_room = room;
    }
    uint64_t hash = hash_of(name);
    *find(names->slots, names->room, hash) = (struct entry){hash, names->bytes + 1};
    memcpy(names->images + names->bytes, image, length);
    names->bytes += length;
    names->count++;
    return true;
}

void output_names_clear(struct output_names *names)
{
    free(names->slots);
    free(names->images);
    *names = (struct output_names){0};
}
