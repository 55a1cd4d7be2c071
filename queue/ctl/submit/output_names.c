#include "queue/ctl/submit/output_names.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 1024

struct claim {
    uint64_t hash;
    size_t picture; /* its place among the pictures, from 1; 0: the slot is free */
};

/* FNV-1a. */
static uint64_t hash_of(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
    return hash;
}

/* The slot of the hash, or the free one where it belongs. */
static struct claim *find(struct claim *slots, size_t room, uint64_t hash)
{
    size_t at = (size_t)(hash ^ hash >> 32) & (room - 1);
    while (slots[at].picture && slots[at].hash != hash)
        at = (at + 1) & (room - 1);
    return &slots[at];
}

const char *claims_holder(const struct claims *claims, const char *name)
{
    if (claims->room == 0)
        return NULL;
    const struct claim *slot = find(claims->slots, claims->room, hash_of(name));
    return slot->picture ? claims->pictures + slot->picture - 1 : NULL;
}

static bool grow(struct claims *claims)
{
    size_t room = claims->room ? 2 * claims->room : ROOM_FIRST;
    struct claim *slots = calloc(room, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < claims->room; i++)
        if (claims->slots[i].picture)
            *find(slots, room, claims->slots[i].hash) = claims->slots[i];
    free(claims->slots);
    claims->slots = slots;
    claims->room = room;
    return true;
}

bool claims_add(struct claims *claims, const char *name, const char *picture)
{
    size_t length = strlen(picture) + 1;
    if (claims->count == CLAIMS_MAX || claims->bytes + length > CLAIMS_BYTES_MAX ||
        (2 * claims->count >= claims->room && !grow(claims)))
        return false;
    if (claims->bytes + length > claims->bytes_room) {
        size_t room = 2 * (claims->bytes + length);
        char *pictures = realloc(claims->pictures, room);
        if (!pictures)
            return false;
        claims->pictures = pictures;
        claims->bytes_room = room;
    }
    uint64_t hash = hash_of(name);
    *find(claims->slots, claims->room, hash) = (struct claim){hash, claims->bytes + 1};
    memcpy(claims->pictures + claims->bytes, picture, length);
    claims->bytes += length;
    claims->count++;
    return true;
}

void claims_clear(struct claims *claims)
{
    free(claims->slots);
    free(claims->pictures);
    *claims = (struct claims){0};
}
