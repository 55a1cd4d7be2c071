/*
 * Tests of the archive reader. tests/fixtures/archives.py makes archives with Python, GNU tar and
 * bsdtar, also broken and hostile ones, and lists what Python reads from them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zlib.h>

#include "codecs/archive/archive_reader.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/test.h"

#ifdef GPUIMGD_ARCHIVE

static const struct archive_limits usual = {.members_max = 5000,
                                            .bytes_max = 4000000,
                                            .name_bytes_max = 1024,
                                            .zip_members_max = 4000,
                                            .zip_bytes_max = 1 << 20};

static char folder[] = "/tmp/archives-XXXXXX";
static uint8_t contents[4000000];

/* Which members are read; the others are skipped. */
enum reads { READ_ALL, READ_NONE, READ_SOME };

static int run(const char *format, ...)
{
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command);
}

static int make_archives(void **state)
{
    if (run("command -v python3 >/dev/null") != 0)
        return 0;
    return mkdtemp(folder) && run("python3 -B tests/fixtures/archives.py %s", folder) == 0 ? 0 : -1;
}

static int remove_archives(void **state)
{
    return run("rm -rf %s", folder);
}

static int open_archive(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    return fd;
}

/* ---- comparisons with lists ---- */

/* Compares the bytes at the member's offset with the CRC at the end of the line. */
static void check_place(const char *archive, const char *line, const struct archive_member *member,
                        int fd)
{
    static uint8_t bytes[sizeof contents];
    if (member->offset == ARCHIVE_NO_OFFSET)
        return;
    ssize_t count = pread(fd, bytes, member->bytes, (off_t)member->offset);
    unsigned long sum = crc32(0, bytes, (unsigned)member->bytes);
    if (count != (ssize_t)member->bytes || sum != strtoul(strrchr(line, ' '), NULL, 10))
        fail_msg("%s: \"%s\" is not at byte %llu", archive, member->name,
                 (unsigned long long)member->offset);
}

static void check_line(const char *archive, const char *line, const struct archive_member *member,
                       bool is_read)
{
    char wanted[4096], got[4096], offset[24] = "-";
    size_t used = 0;
    if (member->offset != ARCHIVE_NO_OFFSET)
        snprintf(offset, sizeof offset, "%llu", (unsigned long long)member->offset);
    for (const char *at = member->name; *at; at++)
        used += (size_t)snprintf(got + used, sizeof got - used, "%02x", (unsigned char)*at);
    used += (size_t)snprintf(got + used, sizeof got - used, " %llu %llu %s",
                             (unsigned long long)member->bytes,
                             (unsigned long long)member->modified_s, offset);
    if (is_read)
        snprintf(got + used, sizeof got - used, " %lu",
                 crc32(0, contents, (unsigned)member->bytes));
    snprintf(wanted, sizeof wanted, "%s", line);
    if (!is_read)
        *strrchr(wanted, ' ') = '\0';
    if (strcmp(got, wanted) != 0)
        fail_msg("%s: Python reads\n%s, but the reader\n%s", archive, wanted, got);
}

/* The end of the list: "end" or "error TEXT". A member whose contents are refused is not in it. */
static void check_end(const char *archive, const char *line, enum archive_step step,
                      const struct error *error)
{
    if (strcmp(line, "end") == 0 && step == ARCHIVE_END && error->status == STATUS_OK)
        return;
    if (strncmp(line, "error ", 6) != 0 || step == ARCHIVE_END ||
        error->status != STATUS_BAD_ARCHIVE || !strstr(error->text, line + 6))
        fail_msg("%s: expected %s, not %s: %s", archive, line, status_name(error->status),
                 step == ARCHIVE_END ? "the end" : error->text);
}

/* Reads a line into a static buffer. */
static const char *next_line(FILE *list)
{
    static char line[4096];
    assert_non_null(fgets(line, sizeof line, list));
    line[strcspn(line, "\n")] = '\0';
    return line;
}

/* A member whose contents are broken, but which does not end the archive: "broken TEXT". */
static void check_broken(const char *archive, const char *line, struct error *error)
{
    if (strncmp(line, "broken ", 7) != 0 || error->status != STATUS_BAD_ARCHIVE ||
        !strstr(error->text, line + 7))
        fail_msg("%s: expected %s, not %s: %s", archive, line, status_name(error->status),
                 error->text);
    *error = (struct error){0};
}

static void check_archive(const char *archive, FILE *list, enum reads reads)
{
    struct archive_member member;
    struct error error = {0};
    enum archive_step step = ARCHIVE_FAILED;
    int fd = open_archive(archive);
    uint64_t end = (uint64_t)lseek(fd, 0, SEEK_END), offset = 0;
    struct archive_reader *reader = archive_reader_open(fd, &usual, &error);
    const char *line = next_line(list);
    for (unsigned i = 0; reader; i++, line = next_line(list)) {
        step = archive_reader_next(reader, &member, &error);
        if (step != ARCHIVE_MEMBER)
            break;
        bool reads_it = member.bytes <= usual.bytes_max &&
                        (reads == READ_ALL || (reads == READ_SOME && i % 2 == 0));
        if (reads_it && archive_reader_read(reader, contents, &error) != STATUS_OK) {
            if (!archive_reader_goes_on(reader))
                break;
            check_broken(archive, line, &error);
            continue;
        }
        if (strncmp(line, "broken ", 7) == 0) {
            if (reads_it)
                fail_msg("%s: the contents of \"%s\" are not refused", archive, member.name);
            continue;
        }
        if (reads == READ_ALL || strncmp(line, "error ", 6) != 0) {
            check_line(archive, line, &member, reads_it);
            check_place(archive, line, &member, fd);
        } else
            line = "error "; /* is only found in the contents */
        assert_in_range(archive_reader_offset(reader), offset, end);
        if (strcmp(archive_reader_format(reader), "tar") == 0)
            offset = archive_reader_offset(reader);
        if (*line == 'e' && line[1] == 'r')
            break;
    }
    if (reads == READ_ALL || error.status != STATUS_OK)
        check_end(archive, line, step, &error);
    archive_reader_close(reader);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), end); /* the descriptor's own offset */
    close(fd);
}

static int is_list(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && strcmp(dot, ".list") == 0;
}

static void check_all(enum reads reads)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_list, alphasort);
    if (count < 0)
        skip(); /* there is no python3 here */
    assert_true(count > 80);
    for (int i = 0; i < count; i++) {
        FILE *list = fdopen(open_archive(entries[i]->d_name), "r");
        *strrchr(entries[i]->d_name, '.') = '\0';
        check_archive(entries[i]->d_name, list, reads);
        fclose(list);
        free(entries[i]);
    }
    free(entries);
}

TEST(test_archives_are_read_as_by_python)
{
    check_all(READ_ALL);
}

TEST(test_members_can_be_skipped)
{
    check_all(READ_NONE);
    check_all(READ_SOME);
}

/* ---- limits ---- */

/* Counts the members without reading them. */
static unsigned count_members(const char *archive, struct archive_limits limits,
                              struct error *error)
{
    struct archive_member member;
    unsigned count = 0;
    int fd = open_archive(archive);
    struct archive_reader *reader = archive_reader_open(fd, &limits, error);
    assert_non_null(reader);
    while (archive_reader_next(reader, &member, error) == ARCHIVE_MEMBER)
        count++;
    archive_reader_close(reader);
    close(fd);
    return count;
}

static void expect_error(const struct error *error, enum status status, const char *text)
{
    if (error->status != status || !strstr(error->text, text))
        fail_msg("expected %s, not %s: %s", text, status_name(error->status), error->text);
}

TEST(test_members_max)
{
    struct archive_limits limits = usual;
    for (unsigned i = 0; i < 4; i++) {
        static const char *const names[] = {"many.tar", "many.zip"};
        struct error error = {0};
        limits.members_max = 3000 - i / 2;
        unsigned count = count_members(names[i % 2], limits, &error);
        if (i < 2) {
            assert_int_equal(error.status, STATUS_OK);
            assert_int_equal(count, 3000);
            continue;
        }
        expect_error(&error, STATUS_BAD_ARCHIVE,
                     i == 2 ? "the tar has more than 2999 members; split it"
                            : "the zip has more than 2999 members; split it or use tar");
        assert_int_equal(count, i == 2 ? 2999 : 0); /* a zip's directory is read at once */
    }
}

TEST(test_zip_limits)
{
    struct archive_limits limits = usual;
    struct error error = {0};
    limits.zip_members_max = 2999;
    assert_int_equal(count_members("many.zip", limits, &error), 0);
    expect_error(&error, STATUS_BAD_ARCHIVE, "the zip has more than 2999 members");
    error_clear(&error);
    assert_int_equal(count_members("many.tar", limits, &error), 3000);
    limits = usual;
    limits.zip_members_max = limits.members_max = 1000000;
    assert_int_equal(count_members("directory.zip", limits, &error), 0);
    expect_error(&error, STATUS_BAD_ARCHIVE, "the zip's directory has more than 1048576 bytes");
}

/* After each of the 1,000 damaged members, libarchive must read the headers again. */
TEST(test_damaged_members_of_a_zip)
{
    struct archive_member member;
    struct error error = {0};
    uint64_t read = 0, again = 0;
    int fd = open_archive("damaged-many.zip");
    struct archive_reader *reader = archive_reader_open(fd, &usual, &error);
    assert_non_null(reader);
    while (archive_reader_next(reader, &member, &error) == ARCHIVE_MEMBER) {
        enum status status = archive_reader_read(reader, contents, &error);
        assert_int_equal(status, STATUS_BAD_ARCHIVE);
        assert_true(archive_reader_goes_on(reader));
        error = (struct error){0};
        again += ++read;
    }
    expect_error(&error, STATUS_BAD_ARCHIVE, "256000; pack the zip again");
    assert_true(again > 256000 && again - read <= 256000);
    archive_reader_close(reader);
    close(fd);
}

TEST(test_entries_that_are_skipped_count)
{
    struct archive_limits limits = usual;
    struct error error = {0};
    limits.members_max = 6; /* the seventh is a FIFO */
    assert_int_equal(count_members("gnu.tar", limits, &error), 3);
    expect_error(&error, STATUS_BAD_ARCHIVE, "the tar has more than 6 members");
}

TEST(test_name_bytes_max)
{
    struct archive_limits limits = usual;
    struct error error = {0};
    limits.name_bytes_max = 9;
    assert_int_equal(count_members("many.zip", limits, &error), 3000);
    limits.name_bytes_max = 8;
    assert_int_equal(count_members("many.zip", limits, &error), 0);
    expect_error(&error, STATUS_BAD_ARCHIVE,
                 "member 1 of the archive, \"00000.txt\", has a name of 9 bytes; at most 8");
}

/* A member of 7 GiB of zeros. The file has more than ARCHIVE_SKIP_BYTES_MAX of them. */
TEST(test_skips_in_gzip_are_bounded)
{
    struct error error = {0};
    assert_int_equal(count_members("bomb.tar.gz", usual, &error), 2);
    expect_error(&error, STATUS_BAD_ARCHIVE,
                 "member 2 of the archive, \"bomb\", is too long to be skipped in gzip");
}

TEST(test_unreadable_files)
{
    struct error error = {0};
    int fd = open("/", O_RDONLY | O_CLOEXEC);
    assert_null(archive_reader_open(fd, &usual, &error));
    expect_error(&error, STATUS_INPUT_UNREADABLE, "Is a directory");
    close(fd);
    error_clear(&error);
    assert_null(archive_reader_open(fd, &usual, &error));
    expect_error(&error, STATUS_INPUT_UNREADABLE, "Bad file descriptor");
    archive_reader_close(NULL);
}

/* ---- files that are cut or change ---- */

TEST(test_cut_tars_are_refused_without_reading)
{
    struct error error = {0};
    assert_int_equal(count_members("size-lie.tar", usual, &error), 1);
    expect_error(
        &error, STATUS_BAD_ARCHIVE,
        "member 2 of the archive, \"x\", is broken or truncated: it has 1048576 bytes from "
        "byte 1536 on, but the archive ends at byte 3072");
    error_clear(&error);
    assert_int_equal(count_members("cut-padding.tar", usual, &error), 1);
    expect_error(&error, STATUS_BAD_ARCHIVE, "the archive ends at byte 2047");
}

enum { CHANGING_BYTES = 5000, CHANGING_MEMBERS = 20, CHANGING_PADDED = 5120 + 512 };

/* Opens a tar of its own, of equal members. */
static struct archive_reader *open_changing(int *fd, struct error *error)
{
    char path[] = "/tmp/archive-XXXXXX";
    *fd = mkstemp(path);
    assert_true(*fd >= 0);
    assert_int_equal(run("python3 -c 'import io, sys, tarfile\n"
                         "with tarfile.open(\"%s\", \"w\", format=tarfile.USTAR_FORMAT) as tar:\n"
                         "  for i in range(%d):\n"
                         "    m = tarfile.TarInfo(str(i)); m.size = %d\n"
                         "    tar.addfile(m, io.BytesIO(bytes([i]) * m.size))'",
                         path, CHANGING_MEMBERS, CHANGING_BYTES),
                     0);
    unlink(path);
    return archive_reader_open(*fd, &usual, error);
}

/* The file loses its end in a header, in contents that are read, or in contents that are not. */
TEST(test_files_that_shrink)
{
    static const struct {
        unsigned bytes;
        bool reads;
        const char *text;
    } cases[] = {
        {2 * CHANGING_PADDED + 100, true, "truncated"},
        {2 * CHANGING_PADDED, true, "ends after 2 members without its last blocks"},
        {2 * CHANGING_PADDED + 512 + 4000, true,
         "member 3 of the archive, \"2\", ends after 4000 of its 5000 bytes: the archive was "
         "cut while it was read"},
        {2 * CHANGING_PADDED + 512 + 4000, false, "ends after 3 members without its last blocks"}};
    if (run("command -v python3 >/dev/null") != 0)
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error error = {0};
        struct archive_member member;
        int fd;
        struct archive_reader *reader = open_changing(&fd, &error);
        assert_int_equal(archive_reader_next(reader, &member, &error), ARCHIVE_MEMBER);
        assert_int_equal(ftruncate(fd, cases[i].bytes), 0);
        do {
            if (cases[i].reads && archive_reader_read(reader, contents, &error) != STATUS_OK)
                break;
        } while (archive_reader_next(reader, &member, &error) == ARCHIVE_MEMBER);
        expect_error(&error, STATUS_BAD_ARCHIVE, cases[i].text);
        archive_reader_close(reader);
        close(fd);
    }
}

/* Plain headers are read without libarchive, which then gets the first other one. */
TEST(test_a_damaged_header_after_plain_ones)
{
    struct error error = {0};
    struct archive_member member;
    int fd;
    if (run("command -v python3 >/dev/null") != 0)
        skip();
    struct archive_reader *reader = open_changing(&fd, &error);
    assert_int_equal(pwrite(fd, "?", 1, 2 * CHANGING_PADDED + 200), 1); /* its sum is wrong then */
    assert_int_equal(archive_reader_next(reader, &member, &error), ARCHIVE_MEMBER);
    assert_int_equal(archive_reader_next(reader, &member, &error), ARCHIVE_MEMBER);
    assert_string_equal(member.name, "1");
    assert_int_equal(archive_reader_next(reader, &member, &error), ARCHIVE_FAILED);
    expect_error(&error, STATUS_BAD_ARCHIVE,
                 "member 3 of the archive is broken or truncated: its header is damaged");
    archive_reader_close(reader);
    close(fd);
}

/* What is appended after the archive was opened does not count. */
TEST(test_files_that_grow)
{
    struct error error = {0};
    struct archive_member member;
    int fd;
    if (run("command -v python3 >/dev/null") != 0)
        skip();
    archive_reader_close(open_changing(&fd, &error));
    off_t end = lseek(fd, 0, SEEK_END);
    assert_int_equal(ftruncate(fd, CHANGING_PADDED + 512 + 4000), 0);
    struct archive_reader *reader = archive_reader_open(fd, &usual, &error);
    assert_int_equal(ftruncate(fd, end), 0);
    assert_int_equal(archive_reader_next(reader, &member, &error), ARCHIVE_MEMBER);
    assert_int_equal(archive_reader_next(reader, &member, &error), ARCHIVE_FAILED);
    expect_error(&error, STATUS_BAD_ARCHIVE, "but the archive ends at byte 10144");
    archive_reader_close(reader);
    close(fd);
}

/* ---- memory ---- */

/* Resident memory that a process takes to walk through the archive. */
static size_t memory_of(const char *archive, struct archive_limits limits)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rusage before, after;
        struct error error = {0};
        getrusage(RUSAGE_SELF, &before);
        count_members(archive, limits, &error);
        getrusage(RUSAGE_SELF, &after);
        _exit((int)((after.ru_maxrss - before.ru_maxrss) / 1024));
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    return (size_t)WEXITSTATUS(status) << 20;
}

TEST(test_memory_is_bounded)
{
    struct archive_limits limits = usual;
    if (patience(1) > 1)
        skip(); /* a sanitizer keeps freed memory */
    assert_in_range(memory_of("sparse-map.tar", limits), 0, ARCHIVE_READER_BYTES);
    assert_in_range(memory_of("headers.tar", limits), 0, ARCHIVE_READER_BYTES);
    assert_in_range(memory_of("directory.zip", limits), 0, 3 << 20);
    limits.members_max = limits.zip_members_max = 400000;
    limits.zip_bytes_max = 100 << 20;
    assert_in_range(memory_of("directory.zip", limits), 20 << 20,
                    300000 * ARCHIVE_ZIP_MEMBER_BYTES);
}

TEST_MAIN(.setup = make_archives, .teardown = remove_archives)

#else

TEST(test_refused_without_libarchive)
{
    struct archive_limits limits = {1, 1, 1, 1, 1};
    struct error error = {0};
    assert_null(archive_reader_open(0, &limits, &error));
    assert_int_equal(error.status, STATUS_UNSUPPORTED_FORMAT);
    assert_non_null(strstr(error.text, "built without libarchive (ARCHIVE=no)"));
}

TEST_MAIN()

#endif
