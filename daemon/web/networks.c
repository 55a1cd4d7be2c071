#include "daemon/web/networks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATORS " \t,"
#define MAPPED_BITS 96 /* length of the prefix ::ffff:0:0 of IPv4 addresses in IPv6 */

/* The IPv4 and IPv6 Special-Purpose Address Registries of IANA, multicast, and the metadata server
 * of Azure, which has a public address. */
static const struct {
    const char *address;
    unsigned bits;
    const char *kind;
} forbidden[] = {
    {"0.0.0.0", 8, "this host"},
    {"10.0.0.0", 8, "a private network"},
    {"100.64.0.0", 10, "a carrier's private network"},
    {"127.0.0.0", 8, "loopback"},
    {"168.63.129.16", 32, "a metadata server"},
    {"169.254.0.0", 16, "link-local"},
    {"172.16.0.0", 12, "a private network"},
    {"192.0.0.0", 24, "a reserved network"},
    {"192.0.2.0", 24, "a network for documentation"},
    {"192.88.99.0", 24, "a relay to IPv6"},
    {"192.168.0.0", 16, "a private network"},
    {"198.18.0.0", 15, "a network for benchmarks"},
    {"198.51.100.0", 24, "a network for documentation"},
    {"203.0.113.0", 24, "a network for documentation"},
    {"224.0.0.0", 4, "multicast"},
    {"240.0.0.0", 4, "a reserved network"},
    {"::", 128, "this host"},
    {"::1", 128, "loopback"},
    {"64:ff9b::", 96, "NAT64"},
    {"64:ff9b:1::", 48, "NAT64"},
    {"fc00::", 7, "a private network"},
    {"fe80::", 10, "link-local"},
    {"ff00::", 8, "multicast"},
    {"2001::", 23, "a reserved network"},
    {"2001:db8::", 32, "a network for documentation"},
    {"2002::", 16, "a relay to IPv4"},
    {"3fff::", 20, "a network for documentation"},
};

/* *offset: bits to add to a prefix length for this kind of address. */
static bool parse_address(const char *text, uint8_t address[16], unsigned *offset)
{
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    *offset = 0;
    if (inet_pton(AF_INET6, text, address) == 1)
        return true;
    memcpy(address, mapped, sizeof mapped);
    *offset = MAPPED_BITS;
    return inet_pton(AF_INET, text, address + sizeof mapped) == 1;
}

static bool contains(const struct network *network, const uint8_t address[16])
{
    unsigned whole = network->bits / 8, rest = network->bits % 8;
    if (memcmp(network->address, address, whole) != 0)
        return false;
    uint8_t mask = (uint8_t)(0xFF00 >> rest);
    return rest == 0 || ((network->address[whole] ^ address[whole]) & mask) == 0;
}

/* ---- the option ----------------------------------------------------------------------------- */

static bool fail(struct error *error, const char *word, const char *fault)
{
    return error_refuse(error, "option url_networks has \"%.80s\", which %s; write networks like "
                        "10.0.0.0/8 or fd00::/8", word, fault);
}

/* A network with bits beyond its prefix length is probably a typing mistake. */
static bool has_host_bits(const struct network *network)
{
    for (unsigned bit = network->bits; bit < 128; bit++)
        if (network->address[bit / 8] & 0x80 >> bit % 8)
            return true;
    return false;
}

static bool parse_network(struct network *network, const char *word, struct error *error)
{
    char address[INET6_ADDRSTRLEN + 1], *end;
    unsigned offset;
    size_t length = strcspn(word, "/");
    if (length >= sizeof address)
        return fail(error, word, "is no network");
    memcpy(address, word, length);
    address[length] = '\0';
    if (!parse_address(address, network->address, &offset))
        return fail(error, word, "is no network");
    network->bits = 128;
    if (word[length]) {
        unsigned long bits = strtoul(word + length + 1, &end, 10);
        if (word[length + 1] < '0' || word[length + 1] > '9' || *end || bits > 128 - offset)
            return fail(error, word, "has a wrong prefix length");
        network->bits = (unsigned)bits + offset;
    }
    return !has_host_bits(network) ||
           fail(error, word, "has bits after its prefix length that are not 0");
}

bool networks_parse(struct networks *networks, const char *text, struct error *error)
{
    char *copy = strdup(text), *rest = NULL;
    *networks = (struct networks){.items = calloc(strlen(text) / 2 + 1, sizeof(struct network))};
    bool good = (copy && networks->items) ||
                error_refuse(error, "out of memory for option url_networks");
    for (char *word = good ? strtok_r(copy, SEPARATORS, &rest) : NULL; word && good;
         word = strtok_r(NULL, SEPARATORS, &rest))
        good = parse_network(&networks->items[networks->count++], word, error);
    free(copy);
    return good;
}

void networks_clear(struct networks *networks)
{
    free(networks->items);
    *networks = (struct networks){0};
}

/* ---- the decision --------------------------------------------------------------------------- */

static bool is_allowed(const struct networks *networks, const uint8_t address[16])
{
    for (size_t i = 0; i < networks->count; i++)
        if (contains(&networks->items[i], address))
            return true;
    return false;
}

static bool begins_with(const uint8_t address[16], const char *text, unsigned bits)
{
    struct network network = {.bits = bits};
    unsigned offset;
    bool known = parse_address(text, network.address, &offset);
    network.bits += offset;
    return known && contains(&network, address);
}

/* As networks_forbid. Of IPv6, IANA has assigned only 2000::/3 to the public internet. */
static const char *forbid(const struct networks *networks, const uint8_t address[16])
{
    if (is_allowed(networks, address))
        return NULL;
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (begins_with(address, forbidden[i].address, forbidden[i].bits))
            return forbidden[i].kind;
    bool is_public = begins_with(address, "2000::", 3) || begins_with(address, "::ffff:0:0", 96);
    return is_public ? NULL : "a reserved network";
}

const char *networks_forbid(const struct networks *networks, const struct sockaddr *address)
{
    uint8_t bytes[16] = {[10] = 0xFF, [11] = 0xFF};
    if (address->sa_family == AF_INET) {
        memcpy(bytes + 12, &((const struct sockaddr_in *)address)->sin_addr, 4);
        return forbid(networks, bytes);
    }
    if (address->sa_family != AF_INET6)
        return "no internet protocol";
    memcpy(bytes, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
    const char *kind = forbid(networks, bytes);
    if (kind || !begins_with(bytes, "64:ff9b::", 96))
        return kind;
    uint8_t translated[16] = {[10] = 0xFF, [11] = 0xFF}; /* the IPv4 address that NAT64 uses */
    memcpy(translated + 12, bytes + 12, 4);
    return forbid(networks, translated);
}
