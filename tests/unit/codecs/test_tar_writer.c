/* Tests of the tar writer. Python's tarfile, GNU tar and the archive reader read its tars. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <zlib.h>

#include "codecs/archive/archive_reader.h"
#include "codecs/archive/tar_writer.h"
#include "tests/fixtures/test.h"

enum { CONTENTS_BYTES = 1 << 20 };

static uint8_t contents[CONTENTS_BYTES];
static char n100[101], n101[102], n240[241], n256[257], no256[257], n1000[1001];

static const struct {
    const char *name;
    uint64_t modified_s, wanted_s;
    size_t length;
} members[] = {
    {"a.jpg", 1700000000, 1700000000, 1000},
    {"empty", 0, 0, 0},
    {"b/one", 1, 1, 1},
    {"b/511", 1, 1, 511},
    {"b/512", 1, 1, 512},
    {"b/513", 1, 1, 513},
    {"block", 1, 1, TAR_BLOCK_BYTES - 512},
    {"large", TAR_TIME_MAX, TAR_TIME_MAX, CONTENTS_BYTES},
    {"late", TAR_TIME_MAX + 1, TAR_TIME_MAX, 5},
    {"never", UINT64_MAX, TAR_TIME_MAX, 5},
    {"b\xC3\xBC"
     "cher/\xE9\x9B\xA8.jpg",
     5, 5, 77},
    {"e\xCC\x81.jpg", 5, 5, 7}, /* not NFC */
    {"latin-\xE9.jpg", 5, 5, 7},
    {n100, 6, 6, 3},
    {n101, 6, 6, 3},
    {n240, 6, 6, 3},
    {n256, 6, 6, 3},
    {no256, 6, 6, 3},
    {n1000, 7, 7, 3},
};

/* What the sink got, and its failure: before the call number `fails_at`, from 1. */
struct written {
    uint8_t *bytes;
    size_t length;
    unsigned calls, fails_at;
};

static enum status keep(void *context, const uint8_t *bytes, size_t length, struct error *error)
{
    struct written *written = context;
    assert_true(length > 0 && length <= TAR_BLOCK_BYTES);
    if (++written->calls == written->fails_at)
        return error_set(error, STATUS_WRITE_FAILED, "the disk is full");
    written->bytes = realloc(written->bytes, written->length + length);
    assert_non_null(written->bytes);
    memcpy(written->bytes + written->length, bytes, length);
    written->length += length;
    return STATUS_OK;
}

static struct tar_writer *open_writer(struct written *written)
{
    struct error error = {0};
    struct tar_writer *writer = tar_writer_open(keep, written, &error);
    assert_non_null(writer);
    return writer;
}

/* Writes all members; returns the first status that is not STATUS_OK. */
static enum status write_all(struct written *written, struct error *error)
{
    struct tar_writer *writer = open_writer(written);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < COUNT_OF(members) && status == STATUS_OK; i++)
        status = tar_writer_put(writer, members[i].name, members[i].modified_s, contents,
                                members[i].length, error);
    if (status == STATUS_OK)
        status = tar_writer_finish(writer, error);
    tar_writer_close(writer);
    return status;
}

static struct written written_tar(void)
{
    struct written written = {0};
    struct error error = {0};
    assert_int_equal(write_all(&written, &error), STATUS_OK);
    return written;
}

static int prepare(void **state)
{
    for (size_t i = 0; i < sizeof contents; i++)
        contents[i] = (uint8_t)(i * 2654435761u >> 13);
    memset(n100, 'n', sizeof n100 - 1);
    memset(n101, 'm', sizeof n101 - 1);
    memset(n240, 'p', sizeof n240 - 1);
    n240[150] = n240[160] = '/';
    memset(n256, 'q', sizeof n256 - 1);
    n256[155] = '/';
    memset(no256, 'r', sizeof no256 - 1);
    no256[154] = '/'; /* one byte too many for the rest */
    memset(n1000, 'o', sizeof n1000 - 1);
    for (size_t i = 200; i < sizeof n1000 - 1; i += 200)
        n1000[i] = '/';
    return 0;
}

/* Writes the tar to a file. */
static void save(const struct written *written, char *path)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, written->bytes, written->length), written->length);
    close(fd);
}

/* In pieces that end anywhere in a unit. */
static enum status put_in_pieces(struct tar_writer *writer, size_t index, struct error *error)
{
    size_t length = members[index].length, piece;
    enum status status =
        tar_writer_begin(writer, members[index].name, members[index].modified_s, length, error);
    for (size_t at = 0; at < length && status == STATUS_OK; at += piece) {
        piece = length - at < 700 ? length - at : 700;
        status = tar_writer_add(writer, contents + at, piece, error);
    }
    return status;
}

TEST(test_pieces_give_the_same_bytes)
{
    struct written whole = written_tar(), pieces = {0};
    struct error error = {0};
    struct tar_writer *writer = open_writer(&pieces);
    for (size_t i = 0; i < COUNT_OF(members); i++)
        assert_int_equal(put_in_pieces(writer, i, &error), STATUS_OK);
    assert_int_equal(tar_writer_finish(writer, &error), STATUS_OK);
    tar_writer_close(writer);
    assert_int_equal(pieces.length, whole.length);
    assert_memory_equal(pieces.bytes, whole.bytes, whole.length);
    free(pieces.bytes);
    free(whole.bytes);
}

/* ---- readers ---- */

TEST(test_python_reads_it)
{
    char path[] = "/tmp/tar-writer-XXXXXX", command[256], line[4096], wanted[4096];
    struct written written = written_tar();
    save(&written, path);
    snprintf(command, sizeof command,
             "! command -v python3 >/dev/null || python3 -B tests/fixtures/archives.py --list %s",
             path);
    FILE *list = popen(command, "r");
    assert_non_null(list);
    for (size_t i = 0; fgets(line, sizeof line, list) && strcmp(line, "end\n") != 0; i++) {
        size_t used = 0;
        assert_true(i < COUNT_OF(members));
        for (const char *at = members[i].name; *at; at++)
            used +=
                (size_t)snprintf(wanted + used, sizeof wanted - used, "%02x", (unsigned char)*at);
        snprintf(wanted + used, sizeof wanted - used, " %zu %llu - %lu\n", members[i].length,
                 (unsigned long long)members[i].wanted_s,
                 crc32(0, contents, (unsigned)members[i].length));
        assert_string_equal(line, wanted);
    }
    assert_int_equal(pclose(list), 0);
    unlink(path);
    free(written.bytes);
    if (strcmp(line, "end\n") != 0)
        skip(); /* there is no python3 here */
}

TEST(test_gnu_tar_reads_it)
{
    char path[] = "/tmp/tar-writer-XXXXXX", command[256];
    struct written written = written_tar();
    save(&written, path);
    snprintf(command, sizeof command, "tar -xOf %s 2>&1", path);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        uint8_t *got = malloc(members[i].length + 1);
        assert_int_equal(fread(got, 1, members[i].length, out), members[i].length);
        assert_memory_equal(got, contents, members[i].length);
        free(got);
    }
    assert_int_equal(fgetc(out), EOF);
    assert_int_equal(pclose(out), 0);
    unlink(path);
    free(written.bytes);
}

/* ---- the format ---- */

TEST(test_headers_are_ustar)
{
    struct written written = written_tar();
    const char *head = (const char *)written.bytes;
    assert_string_equal(head, "a.jpg");
    assert_memory_equal(head + 100, "0000644", 8); /* mode */
    assert_memory_equal(head + 108, "0000000", 8); /* user */
    assert_memory_equal(head + 116, "0000000", 8); /* group */
    assert_memory_equal(head + 124, "00000001750", 12);
    assert_memory_equal(head + 136, "14524770400", 12);
    assert_memory_equal(head + 156, "0", 2); /* a regular file, no link */
    assert_memory_equal(head + 257, "ustar\00000", 8);
    assert_string_equal(head + 265, ""); /* names of user and group */
    assert_string_equal(head + 297, "");
    assert_string_equal(head + 512 + 1024, "empty"); /* the next header comes at once */
    assert_int_equal(written.length % 512, 0);
    /* Three names have extended headers: one unit, and one or two of records. */
    size_t units = 2;
    for (size_t i = 0; i < COUNT_OF(members); i++)
        units += 1 + (members[i].length + 511) / 512;
    assert_int_equal(written.length / 512, units + 2 + 2 + 3);
    for (size_t i = written.length - 1024; i < written.length; i++)
        assert_int_equal(written.bytes[i], 0);
    free(written.bytes);
}

TEST(test_same_calls_give_the_same_bytes)
{
    struct written first = written_tar(), second = written_tar();
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.bytes, second.bytes, first.length);
    free(first.bytes);
    free(second.bytes);
}

TEST(test_empty_tar)
{
    struct written written = {0};
    struct error error = {0};
    struct tar_writer *writer = open_writer(&written);
    assert_int_equal(tar_writer_finish(writer, &error), STATUS_OK);
    tar_writer_close(writer);
    assert_int_equal(written.length, 1024);
    free(written.bytes);
}

/* ---- errors ---- */

TEST(test_the_sink_fails)
{
    unsigned calls = 1;
    for (unsigned at = 1; at <= calls; at++) {
        struct written written = {.fails_at = at};
        struct error error = {0};
        assert_int_equal(write_all(&written, &error), STATUS_WRITE_FAILED);
        assert_string_equal(error.text, "the disk is full");
        assert_int_equal(written.calls, at); /* not again, and not when it is closed */
        free(written.bytes);
        if (at == 1) {
            struct written whole = written_tar();
            calls = whole.calls;
            assert_true(calls > 4);
            free(whole.bytes);
        }
    }
    tar_writer_close(NULL);
}

TEST(test_closed_without_an_end)
{
    struct written written = {0};
    struct error error = {0};
    struct tar_writer *writer = open_writer(&written);
    assert_int_equal(tar_writer_put(writer, "a", 1, contents, 9, &error), STATUS_OK);
    tar_writer_close(writer);
    assert_int_equal(written.calls, 0);
}

/* ---- with the reader ---- */

#ifdef GPUIMGD_ARCHIVE

TEST(test_the_reader_reads_it)
{
    static const struct archive_limits limits = {100, CONTENTS_BYTES, 1000, 1, 1};
    static uint8_t got[CONTENTS_BYTES];
    char path[] = "/tmp/tar-writer-XXXXXX";
    struct written written = written_tar();
    struct archive_member member;
    struct error error = {0};
    save(&written, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct archive_reader *reader = archive_reader_open(fd, &limits, &error);
    assert_non_null(reader);
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        assert_int_equal(archive_reader_next(reader, &member, &error), ARCHIVE_MEMBER);
        assert_string_equal(member.name, members[i].name);
        assert_int_equal(member.modified_s, members[i].wanted_s);
        assert_int_equal(member.bytes, members[i].length);
        assert_int_equal(archive_reader_read(reader, got, &error), STATUS_OK);
        assert_memory_equal(got, contents, members[i].length);
    }
    assert_int_equal(archive_reader_next(reader, &member, &error), ARCHIVE_END);
    archive_reader_close(reader);
    close(fd);
    unlink(path);
    free(written.bytes);
}

/* Only the header is written: the sink then fails. */
TEST(test_sizes_beyond_ustar)
{
    static const struct archive_limits limits = {10, 1, 100, 1, 1};
    const size_t length = 9ull << 30;
    char path[] = "/tmp/tar-writer-XXXXXX";
    struct written written = {.fails_at = 2};
    struct archive_member member;
    struct error error = {0};
    void *zeros = mmap(NULL, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(zeros != MAP_FAILED);
    struct tar_writer *writer = open_writer(&written);
    assert_int_equal(tar_writer_put(writer, "huge", 1, zeros, length, &error), STATUS_WRITE_FAILED);
    tar_writer_close(writer);
    munmap(zeros, length);
    save(&written, path);
    error_clear(&error);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct archive_reader *reader = archive_reader_open(fd, &limits, &error);
    assert_int_equal(archive_reader_next(reader, &member, &error), ARCHIVE_MEMBER);
    assert_string_equal(member.name, "huge");
    assert_int_equal(member.bytes, length);
    archive_reader_close(reader);
    close(fd);
    unlink(path);
    free(written.bytes);
}

#endif

TEST_MAIN(.setup = prepare)
