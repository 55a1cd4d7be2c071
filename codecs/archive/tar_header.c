#include "codecs/archive/tar_header.h"

#include <stdlib.h>
#include <string.h>

/* POSIX.1-1988 (ustar): offsets in the header, and bytes of the fields. */
enum {
    NAME_AT = 0,
    NAME_BYTES = 100,
    SIZE_AT = 124,
    MODIFIED_AT = 136,
    NUMBER_BYTES = 12,
    SUM_AT = 148,
    SUM_BYTES = 8,
    KIND_AT = 156,
    MAGIC_AT = 257,
    MAGIC_BYTES = 8,
    PREFIX_AT = 345,
    PREFIX_BYTES = 155
};

static unsigned add_up(const uint8_t *bytes, size_t count)
{
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += bytes[i];
    return sum;
}

bool tar_header_is_valid(const uint8_t *bytes, size_t length)
{
    char digits[SUM_BYTES + 1] = "";
    if (length < TAR_UNIT_BYTES)
        return false;
    memcpy(digits, bytes + SUM_AT, SUM_BYTES);
    /* The field itself counts as spaces. */
    unsigned long sum =
        add_up(bytes, TAR_UNIT_BYTES) - add_up(bytes + SUM_AT, SUM_BYTES) + SUM_BYTES * ' ';
    return strtoul(digits, NULL, 8) == sum;
}

/* Reads 11 octal digits and a NUL or a space, as all writers write them. */
static bool read_number(const uint8_t *field, uint64_t *number)
{
    *number = 0;
    for (int i = 0; i < NUMBER_BYTES - 1; i++) {
        if (field[i] < '0' || field[i] > '7')
            return false;
        *number = *number << 3 | (uint64_t)(field[i] - '0');
    }
    return field[NUMBER_BYTES - 1] == '\0' || field[NUMBER_BYTES - 1] == ' ';
}

/* false: the header has another form, or the name is empty. */
static bool read_name(const uint8_t *unit, char *name)
{
    const char *prefix = (const char *)unit + PREFIX_AT;
    bool is_ustar = memcmp(unit + MAGIC_AT, "ustar\00000", MAGIC_BYTES) == 0;
    bool is_gnu = memcmp(unit + MAGIC_AT, "ustar  ", MAGIC_BYTES) == 0;
    size_t length = is_ustar ? strnlen(prefix, PREFIX_BYTES) : 0;
    if (length > 0) {
        memcpy(name, prefix, length);
        if (name[length - 1] != '/')
            name[length++] = '/';
    }
    size_t rest = strnlen((const char *)unit + NAME_AT, NAME_BYTES);
    memcpy(name + length, unit + NAME_AT, rest);
    name[length + rest] = '\0';
    return (is_ustar || is_gnu) && rest > 0;
}

bool tar_header_read(const uint8_t unit[TAR_UNIT_BYTES], struct tar_header *header)
{
    if (!tar_header_is_valid(unit, TAR_UNIT_BYTES) || !read_name(unit, header->name) ||
        !read_number(unit + SIZE_AT, &header->bytes) ||
        !read_number(unit + MODIFIED_AT, &header->modified_s))
        return false;
    header->is_folder = unit[KIND_AT] == '5';
    bool ends_in_slash = header->name[strlen(header->name) - 1] == '/';
    return header->is_folder ? header->bytes == 0 : unit[KIND_AT] == '0' && !ends_in_slash;
}
