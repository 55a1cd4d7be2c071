#include "queue/redis/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/limits.h"
#include "queue/redis/address.h"

/* ---- ids ------------------------------------------------------------------------------------ */

/* CRC-32 of zlib and IEEE 802.3, four bits per step. The table holds the remainders of 0 to 15 for
 * the reflected polynomial 0xEDB88320. */
static uint32_t crc32_of(const char *text, size_t bytes)
{
    static const uint32_t remainders[16] = {
        0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
        0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
        0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= (uint8_t)text[i];
        crc = crc >> 4 ^ remainders[crc & 15];
        crc = crc >> 4 ^ remainders[crc & 15];
    }
    return ~crc;
}

uint32_t shard_of_id(const char *id, size_t bytes, uint32_t shards)
{
    return shards > 1 ? crc32_of(id, bytes) % shards : 0;
}

/* ---- addresses ------------------------------------------------------------------------------ */

/* Returns the length of the address at `text`. A space ends the address, except after a comma:
 * "a, b" is one address, a list of servers. */
static size_t address_bytes(const char *text)
{
    size_t length = strcspn(text, " ");
    while (length > 0 && text[length - 1] == ',' && text[length] == ' ') {
        length += strspn(text + length, " ");
        length += strcspn(text + length, " ");
    }
    return length;
}

/* Returns the number of addresses. Sets the text and length of the address `index`, if it exists.
 * With one shard, "unix:PATH" is one address, because the path may contain spaces. */
static uint32_t find_address(const struct options *all, uint32_t index, const char **text,
                             size_t *bytes)
{
    const char *at = all->redis + strspn(all->redis, " ");
    uint32_t count = 0;
    bool is_one = all->shards <= 1 && strncmp(at, "unix:", 5) == 0;
    while (*at) {
        size_t length = is_one ? strlen(at) : address_bytes(at);
        if (count++ == index) {
            *text = at;
            *bytes = length;
        }
        at += length;
        at += strspn(at, " ");
    }
    return count;
}

/* Returns a malloc'd copy of an address, or NULL: memory is short. */
static char *copy_address(const struct options *all, uint32_t index)
{
    const char *text = "";
    size_t bytes = 0;
    find_address(all, index, &text, &bytes);
    return strndup(text, bytes);
}

static bool parse_address(const struct options *all, uint32_t index, struct redis_address *address,
                          struct error *error)
{
    char *text = copy_address(all, index);
    bool good = text && redis_address_parse(address, text, error) == STATUS_OK;
    if (!text) /* uncovered: memory */
        error_refuse(error, "out of memory for option redis");
    free(text);
    return good;
}

bool shard_is_local(const struct options *all)
{
    const char *text;
    size_t bytes;
    uint32_t count = find_address(all, 0, &text, &bytes);
    for (uint32_t i = 0; i < count; i++) {
        struct redis_address address;
        struct error error = {0};
        if (parse_address(all, i, &address, &error) && redis_address_is_local(&address))
            return true;
    }
    return false;
}

static bool check_addresses(const struct options *all, struct error *error)
{
    const char *ignored;
    size_t bytes;
    uint32_t count = find_address(all, 0, &ignored, &bytes);
    if (count == 0)
        return error_refuse(error, "option redis is \"%s\"; it must name a server", all->redis);
    if (count > all->shards)
        return error_refuse(error, "option redis has %u addresses, but option shards is %llu; each "
                            "address needs a shard: set shards to %u or more, or remove addresses "
                            "(write a list of Cluster nodes with commas)", count,
                            (unsigned long long)all->shards, count);
    for (uint32_t i = 0; i < count; i++) {
        struct redis_address address;
        if (!parse_address(all, i, &address, error))
            return false;
    }
    return true;
}

/* ---- namespaces ----------------------------------------------------------------------------- */

/* Returns NS without the braces around it, as a range of bytes. */
static const char *bare_namespace(const struct options *all, size_t *bytes)
{
    const char *ns = all->namespace;
    size_t length = strlen(ns);
    bool is_tag = length > 2 && ns[0] == '{' && ns[length - 1] == '}';
    *bytes = is_tag ? length - 2 : length;
    return is_tag ? ns + 1 : ns;
}

bool shard_check(const struct options *all, struct error *error)
{
    size_t bytes;
    const char *bare = bare_namespace(all, &bytes);
    if (!check_addresses(all, error))
        return false;
    if (all->shards > 1 && (memchr(bare, '{', bytes) || memchr(bare, '}', bytes)))
        return error_refuse(error, "option namespace is \"%s\"; with %llu shards it must have no "
                            "braces, or one pair around all of it", all->namespace,
                            (unsigned long long)all->shards);
    return true;
}

/* Sets a TEXT option to a value that may be longer than options_set allows: that limit is for the
 * values that users write. */
static bool replace(char **option, char *value, struct error *error)
{
    if (!value) /* uncovered: memory */
        return error_refuse(error, "out of memory for the options of a shard");
    free(*option);
    *option = value;
    return true;
}

bool shard_options(struct options *shard, const struct options *all, uint32_t index,
                   struct error *error)
{
    const char *text;
    size_t bytes;
    if (!options_copy(shard, all, error))
        return false;
    uint32_t addresses = find_address(all, 0, &text, &bytes);
    if (!replace(&shard->redis, copy_address(all, index % addresses), error))
        return false;
    if (all->shards <= 1)
        return true;
    const char *bare = bare_namespace(all, &bytes);
    char *ns = NULL;
    if (asprintf(&ns, "{%.*s:%u}", (int)bytes, bare, index) < 0) /* uncovered: memory */
        ns = NULL;
    return replace(&shard->namespace, ns, error);
}
