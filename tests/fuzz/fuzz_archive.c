/* fuzz_archive.c - any bytes as an archive: the reader keeps its limits, of memory, too, and a tar
 * that is written from the members has the same members. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <zlib.h>

#include "codecs/archive/archive_reader.h"
#include "codecs/archive/tar_writer.h"
#include "tests/fuzz/fuzz.h"

enum { MEMBERS_MAX = 50, BYTES_MAX = 1 << 20, NAME_BYTES_MAX = 300, FILE_BYTES_MAX = 1 << 22 };

static int file_of(const void *bytes, size_t length)
{
    int fd = memfd_create("archive", MFD_CLOEXEC);
    FUZZ_MUST(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    return fd;
}

static void check_error(const struct error *error)
{
    FUZZ_MUST(error->text[0] &&
              (error->status == STATUS_BAD_ARCHIVE || error->status == STATUS_OUT_OF_MEMORY ||
               error->status == STATUS_UNSUPPORTED_FORMAT));
}

static void check_member(int fd, const struct archive_member *member)
{
    uint64_t end = (uint64_t)lseek(fd, 0, SEEK_END);
    char name[NAME_BYTES_MAX + 3];
    size_t length = strlen(member->name);
    FUZZ_MUST(length > 0 && length <= NAME_BYTES_MAX);
    snprintf(name, sizeof name, "/%s/", member->name);
    FUZZ_MUST(!strstr(name, "//") && !strstr(name, "/../"));
    for (size_t i = 0; i < length; i++)
        FUZZ_MUST((unsigned char)name[i] >= ' ' && name[i] != 0x7F);
    FUZZ_MUST(member->modified_s <= INT64_MAX);
    FUZZ_MUST(member->offset == ARCHIVE_NO_OFFSET ||
              (member->offset % 512 == 0 && member->offset <= end &&
               member->bytes <= end - member->offset));
}

/* ---- the tar of the members ---- */

struct written {
    uint8_t *bytes;
    size_t length;
};

static enum status keep(void *context, const uint8_t *bytes, size_t length, struct error *error)
{
    struct written *written = context;
    if (written->length + length > FILE_BYTES_MAX)
        return error_set(error, STATUS_WRITE_FAILED, "full");
    memcpy(written->bytes + written->length, bytes, length);
    written->length += length;
    return STATUS_OK;
}

/* Reads the archive, and writes its members to `writer` if that is not NULL. Returns a sum over all
 * members. *whole: there was no error. */
static uint64_t walk(int fd, struct tar_writer *writer, bool reads, bool *whole)
{
    static const struct archive_limits limits = {MEMBERS_MAX, BYTES_MAX, NAME_BYTES_MAX,
                                                 MEMBERS_MAX, BYTES_MAX};
    static uint8_t contents[BYTES_MAX];
    struct error error = {0};
    struct archive_member member;
    uint64_t sum = 0;
    unsigned count = 0;
    enum archive_step step = ARCHIVE_FAILED;
    struct archive_reader *reader = archive_reader_open(fd, &limits, &error);
    while (reader && (step = archive_reader_next(reader, &member, &error)) == ARCHIVE_MEMBER) {
        FUZZ_MUST(++count <= MEMBERS_MAX);
        check_member(fd, &member);
        if (!reads || member.bytes > BYTES_MAX)
            continue;
        memset(contents, 0xA5, member.bytes + (member.bytes < BYTES_MAX));
        char *name = strdup(member.name);
        enum status status = archive_reader_read(reader, contents, &error);
        FUZZ_MUST(status == error.status);
        FUZZ_MUST(member.bytes == BYTES_MAX || contents[member.bytes] == 0xA5);
        step = ARCHIVE_FAILED;
        if (status == STATUS_OK) {
            for (const char *at = name; *at; at++)
                sum = sum * 31 + (unsigned char)*at;
            for (uint64_t i = 0; i < member.bytes; i++)
                sum = sum * 31 + contents[i];
            sum += member.modified_s < TAR_TIME_MAX ? member.modified_s : TAR_TIME_MAX;
            if (writer && tar_writer_put(writer, name, member.modified_s, contents, member.bytes,
                                         &error) != STATUS_OK)
                FUZZ_MUST(error.status == STATUS_WRITE_FAILED);
        }
        free(name);
        if (status != STATUS_OK && archive_reader_goes_on(reader)) {
            check_error(&error);
            error = (struct error){0};
        }
        if (error.status != STATUS_OK)
            break;
    }
    *whole = reader && step == ARCHIVE_END;
    FUZZ_MUST(*whole == (error.status == STATUS_OK));
    if (error.status != STATUS_OK && error.status != STATUS_WRITE_FAILED)
        check_error(&error);
    archive_reader_close(reader);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    static uint8_t tar[FILE_BYTES_MAX];
    struct written written = {tar, 0};
    struct error error = {0};
    bool whole, again;
    int fd = file_of(bytes, length);
    struct tar_writer *writer = tar_writer_open(keep, &written, &error);
    memory_peak_start();
    (void)walk(fd, NULL, false, &whole);
    FUZZ_MUST(memory_peak_end() <= ARCHIVE_READER_BYTES + MEMBERS_MAX * ARCHIVE_ZIP_MEMBER_BYTES);
    uint64_t sum = walk(fd, writer, true, &whole);
    close(fd);
    if (whole && tar_writer_finish(writer, &error) == STATUS_OK) {
        fd = file_of(tar, written.length);
        FUZZ_MUST(walk(fd, NULL, true, &again) == sum && again);
        close(fd);
    }
    tar_writer_close(writer);
    return 0;
}

/* ---- mutations ---- */

enum { BLOCK = 512, SUM_AT = 148, SUM_BYTES = 8, MAGIC_AT = 257 };

static void put_sum(uint8_t *header)
{
    unsigned sum = 0;
    memset(header + SUM_AT, ' ', SUM_BYTES);
    for (size_t i = 0; i < BLOCK; i++)
        sum += header[i];
    snprintf((char *)header + SUM_AT, SUM_BYTES, "%06o", sum);
}

/* libFuzzer's own mutations; replay.c has none. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *bytes, size_t length, size_t capacity);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t length, size_t capacity, unsigned seed);

/* The headers of a tar get their checksums again, mostly. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t length, size_t capacity, unsigned seed)
{
    if (LLVMFuzzerMutate)
        length = LLVMFuzzerMutate(bytes, length, capacity);
    for (size_t at = 0; seed % 8 != 0 && at + BLOCK <= length; at += BLOCK)
        if (at == 0 || memcmp(bytes + at + MAGIC_AT, "ustar", 5) == 0)
            put_sum(bytes + at);
    return length;
}

/* ---- seeds ---- */

struct seed {
    uint8_t bytes[16384];
    size_t length;
};

static void append(struct seed *seed, const void *bytes, size_t length)
{
    FUZZ_MUST(seed->length + length <= sizeof seed->bytes);
    memcpy(seed->bytes + seed->length, bytes, length);
    seed->length += length;
}

static void append_block(struct seed *seed, const char *name, char type, size_t length)
{
    char header[BLOCK] = {0};
    snprintf(header, 100, "%s", name);
    snprintf(header + 124, 12, "%011o", (unsigned)length);
    snprintf(header + 136, 12, "%011o", 1700000000u);
    header[156] = type;
    memcpy(header + MAGIC_AT, "ustar\00000", 8);
    put_sum((uint8_t *)header);
    append(seed, header, sizeof header);
}

static void append_member(struct seed *seed, const char *name, char type, const char *contents)
{
    static const uint8_t zeros[BLOCK];
    size_t length = strlen(contents);
    append_block(seed, name, type, length);
    append(seed, contents, length);
    append(seed, zeros, (BLOCK - length % BLOCK) % BLOCK);
}

static void put_le(uint8_t *bytes, size_t value, int count)
{
    for (int i = 0; i < count; i++, value >>= 8)
        bytes[i] = (uint8_t)value;
}

/* A zip of two members: stored, and deflated. flags: such as 8, sizes after the contents. */
static struct seed zip_seed(unsigned flags)
{
    static const char text[] = "contents contents contents";
    struct seed seed = {.length = 0}, directory = {.length = 0};
    for (unsigned method = 0; method <= 8; method += 8) {
        uint8_t packed[100], head[46] = "PK\1\2\x14\0\x14";
        size_t length = sizeof text;
        memcpy(packed, text, length);
        if (method == 8) { /* without zlib's header and sum */
            uLongf bytes = sizeof packed;
            FUZZ_MUST(compress(packed, &bytes, (const uint8_t *)text, sizeof text) == Z_OK);
            length = bytes - 6;
            memmove(packed, packed + 2, length);
        }
        put_le(head + 8, flags, 2);
        put_le(head + 10, method, 2);
        put_le(head + 16, crc32(0, (const uint8_t *)text, sizeof text), 4);
        put_le(head + 20, length, 4);
        put_le(head + 24, sizeof text, 4);
        put_le(head + 28, 5, 2);
        put_le(head + 42, seed.length, 4);
        append(&directory, head, sizeof head);
        append(&directory, method ? "b.jpg" : "a.jpg", 5);
        append(&seed, "PK\3\4", 4);
        append(&seed, head + 6, 26);
        append(&seed, method ? "b.jpg" : "a.jpg", 5);
        append(&seed, packed, length);
    }
    uint8_t end[22] = "PK\5\6\0\0\0\0\2\0\2";
    put_le(end + 12, directory.length, 4);
    put_le(end + 16, seed.length, 4);
    append(&seed, directory.bytes, directory.length);
    append(&seed, end, sizeof end);
    return seed;
}

static struct seed gzip_of(const struct seed *seed)
{
    struct seed packed = {.length = 0};
    z_stream stream = {.next_in = (uint8_t *)seed->bytes,
                       .avail_in = (unsigned)seed->length,
                       .next_out = packed.bytes,
                       .avail_out = sizeof packed.bytes};
    FUZZ_MUST(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK &&
              deflate(&stream, Z_FINISH) == Z_STREAM_END);
    packed.length = stream.total_out;
    deflateEnd(&stream);
    return packed;
}

static void give_tar(fuzz_give *give, void *context, const char *name, const struct seed *seed)
{
    static const uint8_t end[2 * BLOCK];
    char packed_name[40];
    struct seed whole = *seed;
    append(&whole, end, sizeof end);
    give(context, name, whole.bytes, whole.length);
    snprintf(packed_name, sizeof packed_name, "%s.gz", name);
    whole = gzip_of(&whole);
    give(context, packed_name, whole.bytes, whole.length);
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    struct seed plain = {.length = 0}, pax = {.length = 0}, sparse = {.length = 0}, zip;
    append_member(&plain, "a/b.jpg", '0', "contents");
    append_member(&plain, "folder/", '5', "");
    append_member(&plain, "link", '2', "");
    append_member(&plain, "././@LongLink", 'L', "a long name of GNU tar");
    append_member(&plain, "a long", '0', "more");
    give_tar(give, context, "plain.tar", &plain);
    append_member(&pax, "pax", 'g', "18 comment=global\n");
    append_member(&pax, "pax", 'x', "18 path=a/\xC3\xA9\xFF.jpg\n10 size=4\n16 mtime=-1.5e9\n");
    append_member(&pax, "x", '0', "four");
    give_tar(give, context, "pax.tar", &pax);
    append_member(&sparse, "pax", 'x',
                  "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n25 GNU.sparse.name=a.jpg\n"
                  "27 GNU.sparse.realsize=100\n");
    append_block(&sparse, "s", '0', BLOCK + 5);
    append(&sparse, (const uint8_t[BLOCK]){"1\n10\n5\n"}, BLOCK);
    append(&sparse, (const uint8_t[BLOCK]){"holes"}, BLOCK);
    give_tar(give, context, "sparse.tar", &sparse);
    zip = zip_seed(0);
    give(context, "plain.zip", zip.bytes, zip.length);
    zip = zip_seed(0x808);
    give(context, "descriptors.zip", zip.bytes, zip.length);
    zip = zip_seed(1);
    give(context, "encrypted.zip", zip.bytes, zip.length);
}
