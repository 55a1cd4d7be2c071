#include "codecs/archive/tar_writer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNIT = 512, NAME_BYTES = 100, PREFIX_BYTES = 155, CHECKSUM_BYTES = 8 };

/* The largest number in 11 octal digits, which a size and a time have. */
#define OCTAL_MAX TAR_TIME_MAX

/* A header of POSIX.1-1988. Numbers are octal digits and a NUL. */
struct ustar {
    char name[NAME_BYTES];
    char mode[8], user[8], group[8];
    char size[12], modified[12];
    char checksum[CHECKSUM_BYTES];
    char type;
    char link[NAME_BYTES];
    char magic[8]; /* with the version */
    char names[64], device[16];
    char prefix[PREFIX_BYTES]; /* of the name, before a "/" */
    char padding[12];
};
_Static_assert(sizeof(struct ustar) == UNIT, "a header is one unit");

struct tar_writer {
    tar_sink *sink;
    void *context;
    size_t used; /* of block */
    uint64_t length, left; /* of the file that was begun; its bytes that are not added yet */
    bool over;   /* finished, or failed */
    uint8_t block[TAR_BLOCK_BYTES];
};

static const uint8_t zeros[2 * UNIT];

/* ---- output ---- */

static enum status flush(struct tar_writer *writer, const uint8_t *bytes, size_t length,
                         struct error *error)
{
    enum status status = writer->sink(writer->context, bytes, length, error);
    if (status != STATUS_OK)
        writer->over = true;
    return status;
}

/* Whole blocks of `bytes` are not copied. */
static enum status append(struct tar_writer *writer, const void *bytes, size_t length,
                          struct error *error)
{
    const uint8_t *at = bytes;
    while (length > 0) {
        bool whole = writer->used == 0 && length >= TAR_BLOCK_BYTES;
        size_t room = TAR_BLOCK_BYTES - writer->used, count = length < room ? length : room;
        if (!whole) {
            memcpy(writer->block + writer->used, at, count);
            writer->used += count;
        }
        if (whole || writer->used == TAR_BLOCK_BYTES) {
            enum status status = flush(writer, whole ? at : writer->block, TAR_BLOCK_BYTES, error);
            if (status != STATUS_OK)
                return status;
            writer->used = 0;
        }
        at += count;
        length -= count;
    }
    return STATUS_OK;
}

static enum status pad(struct tar_writer *writer, uint64_t length, struct error *error)
{
    return append(writer, zeros, (UNIT - length % UNIT) % UNIT, error);
}

/* ---- headers ---- */

/* Bytes of the name that go into the prefix; 0: none are needed; SIZE_MAX: the name does not fit.
 */
static size_t prefix_bytes(const char *name, size_t length)
{
    if (length <= NAME_BYTES)
        return 0;
    for (size_t i = length - NAME_BYTES - 1; i <= PREFIX_BYTES && i + 1 < length; i++)
        if (name[i] == '/' && i > 0)
            return i;
    return SIZE_MAX;
}

/* Writes the number as `digits` octal digits. snprintf takes several times as long. */
static void write_octal(char *to, int digits, uint64_t number)
{
    for (int i = digits - 1; i >= 0; i--, number >>= 3)
        to[i] = (char)('0' + (number & 7));
}

/* A name and a size that do not fit are in the extended header before this one: the name is cut,
 * and the size is 0, as by Python. */
static enum status append_header(struct tar_writer *writer, const char *name, char type,
                                 uint64_t size, uint64_t modified_s, struct error *error)
{
    struct ustar header = {.mode = "0000644", .user = "0000000", .group = "0000000", .type = type};
    size_t length = strlen(name), prefix = prefix_bytes(name, length), skipped = 0;
    unsigned sum = 0;
    if (prefix != 0 && prefix != SIZE_MAX) {
        memcpy(header.prefix, name, prefix);
        skipped = prefix + 1;
    }
    length -= skipped;
    memcpy(header.name, name + skipped, length < NAME_BYTES ? length : NAME_BYTES);
    write_octal(header.size, sizeof header.size - 1, size <= OCTAL_MAX ? size : 0);
    write_octal(header.modified, sizeof header.modified - 1, modified_s);
    memcpy(header.magic, "ustar\00000", sizeof header.magic);
    memset(header.checksum, ' ', sizeof header.checksum);
    for (size_t i = 0; i < sizeof header; i++)
        sum += ((const uint8_t *)&header)[i];
    write_octal(header.checksum, 6, sum);
    header.checksum[6] = '\0'; /* then a space */
    return append(writer, &header, sizeof header, error);
}

/* The length of the record "LENGTH key=value\n", which counts its own digits. */
static size_t record_bytes(const char *key, size_t value_bytes)
{
    size_t rest = strlen(key) + value_bytes + sizeof " =\n" - 1, length = rest + 1;
    while (length != rest + (size_t)snprintf(NULL, 0, "%zu", length))
        length = rest + (size_t)snprintf(NULL, 0, "%zu", length);
    return length;
}

static enum status append_record(struct tar_writer *writer, const char *key, const char *value,
                                 struct error *error)
{
    char start[40];
    size_t bytes = strlen(value);
    int length = snprintf(start, sizeof start, "%zu %s=", record_bytes(key, bytes), key);
    if (append(writer, start, (size_t)length, error) != STATUS_OK ||
        append(writer, value, bytes, error) != STATUS_OK)
        return error->status;
    return append(writer, "\n", 1, error);
}

/* The extended header (pax) of a member whose name or size does not fit into ustar. */
static enum status append_extension(struct tar_writer *writer, const char *name, bool has_name,
                                    uint64_t size, struct error *error)
{
    char digits[24] = "";
    size_t length = has_name ? record_bytes("path", strlen(name)) : 0;
    if (size > OCTAL_MAX) {
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)size);
        length += record_bytes("size", strlen(digits));
    }
    if (append_header(writer, "PaxHeader", 'x', length, 0, error) != STATUS_OK ||
        (has_name && append_record(writer, "path", name, error) != STATUS_OK) ||
        (*digits && append_record(writer, "size", digits, error) != STATUS_OK))
        return error->status;
    return pad(writer, length, error);
}

/* ---- the writer ---- */

struct tar_writer *tar_writer_open(tar_sink *sink, void *context, struct error *error)
{
    struct tar_writer *writer = malloc(sizeof *writer);
    if (!writer) {
        (void)error_set(error, STATUS_OUT_OF_MEMORY, "there is no memory to write the tar");
        return NULL;
    }
    writer->sink = sink;
    writer->context = context;
    writer->used = 0;
    writer->length = writer->left = 0;
    writer->over = false;
    return writer;
}

enum status tar_writer_begin(struct tar_writer *writer, const char *name, uint64_t modified_s,
                             uint64_t length, struct error *error)
{
    bool has_name = prefix_bytes(name, strlen(name)) == SIZE_MAX;
    assert(!writer->over && writer->left == 0);
    modified_s = modified_s < TAR_TIME_MAX ? modified_s : TAR_TIME_MAX;
    if ((has_name || length > OCTAL_MAX) &&
        append_extension(writer, name, has_name, length, error) != STATUS_OK)
        return error->status;
    writer->length = writer->left = length;
    return append_header(writer, name, '0', length, modified_s, error);
}

enum status tar_writer_add(struct tar_writer *writer, const uint8_t *bytes, size_t count,
                           struct error *error)
{
    assert(!writer->over && count <= writer->left);
    writer->left -= count;
    if (append(writer, bytes, count, error) != STATUS_OK || writer->left > 0)
        return error->status;
    return pad(writer, writer->length, error);
}

enum status tar_writer_put(struct tar_writer *writer, const char *name, uint64_t modified_s,
                           const uint8_t *bytes, size_t length, struct error *error)
{
    if (tar_writer_begin(writer, name, modified_s, length, error) != STATUS_OK)
        return error->status;
    return tar_writer_add(writer, bytes, length, error);
}

enum status tar_writer_finish(struct tar_writer *writer, struct error *error)
{
    assert(!writer->over && writer->left == 0);
    if (append(writer, zeros, sizeof zeros, error) != STATUS_OK)
        return error->status;
    writer->over = true;
    return writer->used == 0 ? STATUS_OK : flush(writer, writer->block, writer->used, error);
}

void tar_writer_close(struct tar_writer *writer)
{
    free(writer);
}
