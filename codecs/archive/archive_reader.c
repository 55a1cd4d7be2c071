#include "codecs/archive/archive_reader.h"

#include <assert.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#ifdef GPUIMGD_ARCHIVE

#include <archive.h>
#include <archive_entry.h>

#include "codecs/archive/archive_source.h"
#include "codecs/archive/tar_header.h"

/* libarchive's macro of the same name; its results are compared with ARCHIVE_WARN alone. */
#undef ARCHIVE_FAILED

enum { LARGE_READS = 4 };    /* after a small file: members until it is forgotten */
enum { ZIP_AGAIN_MAX = 64 }; /* how often all headers of a zip may be read again */

enum reader_state {
    READER_BETWEEN, /* before the first member, or after one that was read, or is broken */
    READER_AGAIN,   /* after a member that is broken; libarchive must begin again */
    READER_MEMBER,  /* the contents of a member can be read */
    READER_OVER,    /* after the end, or a failure */
};

struct archive_reader {
    struct archive_limits limits;
    struct archive_source source;
    bool is_walking;         /* libarchive is not needed yet: all headers so far were plain */
    uint64_t next;           /* offset of the next header while walking */
    struct tar_header plain; /* the last one */
    uint64_t start;          /* offset at which libarchive has begun */
    bool has_entry;          /* of libarchive, whose contents it can skip */
    struct archive *archive; /* NULL while walking */
    struct archive_entry *entry;
    enum reader_state state;
    bool zip;
    locale_t locale;      /* of the thread while it is in libarchive, which converts names to it */
    uint64_t members_max; /* for this format */
    uint64_t entries;     /* headers that were read, of all kinds */
    uint64_t again;       /* headers that were read again */
    bool is_fatal;        /* libarchive does not go on after the last contents */
    const char *name;     /* of the member */
    uint64_t bytes, modified_s;
    uint64_t offset;      /* of its contents in the file, or ARCHIVE_NO_OFFSET */
    archive_skips *skips; /* or NULL; with its context */
    void *context;
    unsigned large_reads; /* members for which reads are as large as for small files */
};

/* ---- errors ---- */

/* Ends the reader with bad_archive. The text follows the number and the name of the member. */
__attribute__((format(printf, 3, 4))) static enum status
refuse(struct archive_reader *reader, struct error *error, const char *format, ...)
{
    char text[ERROR_TEXT_MAX / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    reader->state = READER_OVER;
    return error_set(error, STATUS_BAD_ARCHIVE, "member %llu of the archive%s%.120s%s %s",
                     (unsigned long long)reader->entries, reader->name ? ", \"" : "",
                     reader->name ? reader->name : "", reader->name ? "\"," : "", text);
}

/* Ends the reader after a call of libarchive has failed. `over` says what is too long if the budget
 * of the call is spent; NULL: the directory of a zip. */
static enum status fail(struct archive_reader *reader, const char *over, struct error *error)
{
    const struct archive_source *source = &reader->source;
    const char *text = reader->archive ? archive_error_string(reader->archive) : NULL;
    reader->state = READER_OVER;
    if (source->error.status != STATUS_OK)
        return error_set(error, source->error.status, "%s", source->error.text);
    if (source->stop == SOURCE_ENTRIES)
        return error_set(error, STATUS_BAD_ARCHIVE, "the %s has more than %llu members; split it%s",
                         archive_reader_format(reader), (unsigned long long)reader->members_max,
                         reader->zip ? " or use tar" : "");
    if (source->stop == SOURCE_BUDGET)
        return over ? refuse(reader, error, "%s", over)
                    : error_set(error, STATUS_BAD_ARCHIVE,
                                "the zip's directory has more than %llu bytes; split it or use tar",
                                (unsigned long long)reader->limits.zip_bytes_max);
    if (reader->archive && archive_errno(reader->archive) == ENOMEM)
        return error_set(error, STATUS_OUT_OF_MEMORY, "there is no memory to read the archive");
    text = text ? text : "it ends early";
    size_t length = strcspn(text, "\n"); /* some texts are lines */
    return refuse(reader, error, "is broken or truncated: %.*s", length < 100 ? (int)length : 100,
                  text);
}

/* ---- opening ---- */

static la_ssize_t read_block(struct archive *archive, void *context, const void **bytes)
{
    struct archive_source *source = context;
    ssize_t count = archive_source_read(source);
    *bytes = source->block;
    if (count < 0)
        archive_set_error(archive, EIO, "a read failed");
    return count < 0 ? ARCHIVE_FATAL : count;
}

static la_int64_t skip_bytes(struct archive *archive, void *context, la_int64_t bytes)
{
    (void)archive;
    return bytes > 0 ? (la_int64_t)archive_source_skip(context, (uint64_t)bytes) : 0;
}

/* Only for zip. */
static la_int64_t seek_to(struct archive *archive, void *context, la_int64_t offset, int whence)
{
    struct archive_source *source = context;
    int64_t base = whence == SEEK_CUR   ? (int64_t)source->offset
                   : whence == SEEK_END ? (int64_t)source->file_bytes
                                        : 0;
    (void)archive;
    if (offset > 0 ? base > INT64_MAX - offset : base + offset < 0)
        return ARCHIVE_FATAL;
    source->offset = (uint64_t)(base + offset);
    return base + offset;
}

/* The kinds of files that are refused by name; gzip, zip and tar are none of them. */
static const char *other_kind(const uint8_t *bytes, size_t length)
{
    static const struct {
        const char *magic;
        size_t bytes;
        const char *name;
    } kinds[] = {{"\x28\xB5\x2F\xFD", 4, "zstd"},
                 {"\xFD"
                  "7zXZ",
                  5, "xz"},
                 {"BZh", 3, "bzip2"},
                 {"\x04\x22\x4D\x18", 4, "lz4"},
                 {"7z\xBC\xAF\x27\x1C", 6, "7-Zip"},
                 {"Rar!", 4, "RAR"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (length >= kinds[i].bytes && memcmp(bytes, kinds[i].magic, kinds[i].bytes) == 0)
            return kinds[i].name;
    return NULL;
}

/* Chooses the format by the beginning of the file. */
static enum status choose_format(struct archive_reader *reader, struct error *error)
{
    struct archive_source *source = &reader->source;
    source->budget = TAR_UNIT_BYTES;
    ssize_t count = archive_source_read(source);
    source->offset = 0;
    if (count < 0)
        return error_set(error, source->error.status, "%s", source->error.text);
    if (count == 0)
        return error_set(error, STATUS_BAD_ARCHIVE, "the archive is empty: it has 0 bytes");
    if (tar_header_is_valid(source->block, (size_t)count)) {
        source->room = ARCHIVE_WALK_BYTES;
        reader->is_walking = tar_header_read(source->block, &reader->plain);
        return STATUS_OK;
    }
    const char *kind = other_kind(source->block, (size_t)count);
    if (kind)
        return error_set(error, STATUS_BAD_ARCHIVE,
                         "the archive is %s; use tar, tar with gzip, or zip", kind);
    reader->zip = count >= 2 && memcmp(source->block, "PK", 2) == 0;
    if (reader->zip && reader->limits.zip_members_max < reader->members_max)
        reader->members_max = reader->limits.zip_members_max;
    bool gzip = count >= 2 && memcmp(source->block, "\x1F\x8B", 2) == 0;
    return gzip ? archive_source_unpack(source, error) : STATUS_OK;
}

/* Begins to read with libarchive at reader->next. */
static enum status start(struct archive_reader *reader, struct error *error)
{
    struct archive *archive = reader->archive = archive_read_new();
    reader->is_walking = false;
    reader->source.offset = reader->start = reader->next;
    reader->entry = archive_entry_new();
    /* In "C", libarchive leaves names of a tar as they are if they are not ASCII, but has none for
     * such members of a zip. */
    reader->locale = reader->zip ? newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0) : (locale_t)0;
    if (!reader->locale) /* C.UTF-8 is a file, which a small container may lack */
        reader->locale = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
    if (!archive || !reader->entry || !reader->locale)
        return error_set(error, STATUS_OUT_OF_MEMORY, "there is no memory to read the archive");
    if ((reader->zip ? archive_read_support_format_zip_seekable(archive)
                     : archive_read_support_format_tar(archive)) < ARCHIVE_WARN)
        return fail(reader, "", error);
    archive_read_set_read_callback(archive, read_block);
    archive_read_set_skip_callback(archive, skip_bytes);
    if (reader->zip)
        archive_read_set_seek_callback(archive, seek_to);
    archive_read_set_callback_data(archive, &reader->source);
    /* libarchive looks at the first block, and in a zip for the directory's place in the last 16
     * KiB. */
    reader->source.budget = 4 * ARCHIVE_BLOCK_BYTES;
    if (archive_read_open1(archive) >= ARCHIVE_WARN)
        return STATUS_OK;
    bool is_damaged = reader->source.error.status == STATUS_OK &&
                      reader->source.stop == SOURCE_GOES_ON && archive_errno(archive) != ENOMEM;
    if (is_damaged && reader->start > 0) {
        reader->entries++;
        return refuse(reader, error, "is broken or truncated: its header is damaged");
    }
    if (is_damaged)
        return error_set(error, STATUS_BAD_ARCHIVE,
                         reader->zip ? "the archive is a zip without a valid directory at its end; "
                                       "it is truncated, broken or empty"
                                     : "the archive is neither tar nor zip, or its first header "
                                       "is broken");
    return fail(reader, "", error);
}

struct archive_reader *archive_reader_open(int fd, const struct archive_limits *limits,
                                           struct error *error)
{
    struct archive_reader *reader = calloc(1, sizeof *reader);
    if (!reader) {
        (void)error_set(error, STATUS_OUT_OF_MEMORY, "there is no memory to read the archive");
        return NULL;
    }
    reader->limits = *limits;
    reader->members_max = limits->members_max;
    if (archive_source_open(&reader->source, fd, error) == STATUS_OK &&
        choose_format(reader, error) == STATUS_OK &&
        (reader->is_walking || start(reader, error) == STATUS_OK))
        return reader;
    archive_reader_close(reader);
    return NULL;
}

/* Ends the reading with libarchive. */
static void stop(struct archive_reader *reader)
{
    archive_read_free(reader->archive);
    archive_entry_free(reader->entry);
    if (reader->locale)
        freelocale(reader->locale);
    reader->archive = NULL;
    reader->entry = NULL;
    reader->locale = (locale_t)0;
}

void archive_reader_close(struct archive_reader *reader)
{
    if (!reader)
        return;
    stop(reader);
    archive_source_clear(&reader->source);
    free(reader);
}

/* ---- members ---- */

/* Skips the contents of the last entry. *left: bytes that may be unpacked for it. */
static enum status skip_contents(struct archive_reader *reader, uint64_t *left, struct error *error)
{
    reader->source.budget = *left;
    if (archive_read_data_skip(reader->archive) < ARCHIVE_WARN)
        return fail(reader, "is too long to be skipped in gzip; use tar without gzip", error);
    *left = reader->source.budget;
    return STATUS_OK;
}

static enum status count_entry(struct archive_reader *reader, struct error *error)
{
    if (reader->entries <= reader->members_max)
        return STATUS_OK;
    reader->source.stop = SOURCE_ENTRIES;
    return fail(reader, "", error);
}

/* Reads the next header. *is_end: there is none. */
static enum status read_header(struct archive_reader *reader, bool *is_end, struct error *error)
{
    struct archive_source *source = &reader->source;
    bool reads_directory = reader->zip && reader->entries == 0;
    source->counts = reads_directory;
    source->entries = reader->members_max;
    source->budget = source->counts ? reader->limits.zip_bytes_max + 2 * ARCHIVE_BLOCK_BYTES
                                    : ARCHIVE_HEADER_BYTES_MAX;
    reader->entries++;
    reader->name = NULL;
    reader->has_entry = true;
    locale_t before = uselocale(reader->locale);
    int result = archive_read_next_header2(reader->archive, reader->entry);
    uselocale(before);
    source->counts = false;
    *is_end = result == ARCHIVE_EOF;
    if (*is_end && source->error.status == STATUS_OK && source->stop == SOURCE_GOES_ON)
        return STATUS_OK;
    if (*is_end || (result != ARCHIVE_OK && result != ARCHIVE_WARN))
        return fail(reader, reads_directory ? NULL : "has headers of more than 128 KiB", error);
    return count_entry(reader, error);
}

/* Returns to the last header of a zip, after ARCHIVE_FATAL, as of damaged deflate data. libarchive
 * does not promise to go on then, and 3.8.9 does not. */
static enum status begin_again(struct archive_reader *reader, struct error *error)
{
    uint64_t entries = reader->entries;
    bool is_end = false;
    reader->again += entries;
    if (reader->again > ZIP_AGAIN_MAX * reader->members_max)
        return refuse(reader, error,
                      "is broken, as members before it: to go on after them, %llu headers have "
                      "been read again, of at most %llu; pack the zip again",
                      (unsigned long long)(reader->again - entries),
                      (unsigned long long)(ZIP_AGAIN_MAX * reader->members_max));
    stop(reader);
    reader->entries = 0;
    enum status status = start(reader, error);
    while (status == STATUS_OK && reader->entries < entries && !is_end)
        status = read_header(reader, &is_end, error);
    return is_end ? refuse(reader, error, "is not there any more: the archive has changed")
                  : status;
}

static bool is_regular(struct archive_entry *entry)
{
    return archive_entry_filetype(entry) == AE_IFREG && !archive_entry_hardlink(entry);
}

/* Returns what is wrong with the name, or NULL. */
static const char *name_fault(const char *name)
{
    if (*name == '/')
        return "has an absolute name";
    for (const char *part = name;; part++) {
        size_t length = strcspn(part, "/");
        if (length == 0)
            return "has an empty part in its name";
        if (length == 2 && memcmp(part, "..", 2) == 0)
            return "has a part \"..\" in its name";
        for (size_t i = 0; i < length; i++)
            if ((unsigned char)part[i] < ' ' || part[i] == 0x7F)
                return "has a control character in its name";
        part += length;
        if (*part == '\0')
            return NULL;
    }
}

/* NULL: none. */
static const char *name_of(const struct archive_reader *reader)
{
    const char *name =
        reader->is_walking ? reader->plain.name : archive_entry_pathname(reader->entry);
    while (name && name[0] == '.' && name[1] == '/')
        name += 2 + strspn(name + 2, "/");
    return name;
}

static enum status check_name(struct archive_reader *reader, struct error *error)
{
    const char *name = name_of(reader);
    if (!name || *name == '\0')
        return refuse(reader, error, "has no name, or one that is not valid UTF-8");
    reader->name = name;
    size_t length = strlen(name);
    if (length > reader->limits.name_bytes_max)
        return refuse(reader, error, "has a name of %zu bytes; at most %zu are allowed", length,
                      reader->limits.name_bytes_max);
    const char *fault = name_fault(name);
    return fault ? refuse(reader, error, "%s", fault) : STATUS_OK;
}

/* Refuses what libarchive could only find out from the contents. */
static enum status check_zip(struct archive_reader *reader, struct error *error)
{
    const char *name = archive_format_name(reader->archive); /* such as "ZIP 2.0 (deflation)" */
    const char *method = name ? strchr(name, '(') : NULL;
    if (archive_entry_is_encrypted(reader->entry))
        return refuse(reader, error, "is encrypted; no password can be given");
    if (!method || (strcmp(method, "(deflation)") != 0 && strcmp(method, "(uncompressed)") != 0))
        return refuse(reader, error, "is compressed in a way that is not supported %s; use deflate",
                      method ? method : "(unknown)");
    return STATUS_OK;
}

/* Whether the block of a tar is the header of a file whose `bytes` bytes follow it. The header of a
 * sparse file has another size, as has one whose size is in an extended header. */
static bool is_header(const uint8_t *block, uint64_t bytes)
{
    enum { SIZE_AT = 124, SIZE_BYTES = 12, KIND_AT = 156 };
    char digits[SIZE_BYTES + 1] = "";
    memcpy(digits, block + SIZE_AT, SIZE_BYTES);
    return block[KIND_AT] != 'S' && strtoull(digits, NULL, 8) == bytes;
}

/* libarchive has taken the headers, so the contents begin at its position. The header before them
 * is compared, because its documentation does not promise that. */
static uint64_t contents_offset(const struct archive_reader *reader)
{
    uint64_t offset = reader->start + (uint64_t)archive_filter_bytes(reader->archive, 0);
    if (reader->zip || archive_entry_sparse_count(reader->entry) > 0 || offset < TAR_UNIT_BYTES)
        return ARCHIVE_NO_OFFSET;
    const uint8_t *header =
        archive_source_at(&reader->source, offset - TAR_UNIT_BYTES, TAR_UNIT_BYTES);
    return header && is_header(header, reader->bytes) ? offset : ARCHIVE_NO_OFFSET;
}

/* The contents with the zeros that fill their last unit. */
static uint64_t padded_bytes(const struct archive_reader *reader)
{
    return reader->bytes + (TAR_UNIT_BYTES - reader->bytes % TAR_UNIT_BYTES) % TAR_UNIT_BYTES;
}

/* Checks the place of the contents. A file that is cut in them, or in the zeros that fill their
 * last block, is refused although nobody may read them. */
static enum status check_place(struct archive_reader *reader, struct error *error)
{
    uint64_t offset = reader->offset, size = reader->source.file_bytes;
    if (offset == ARCHIVE_NO_OFFSET || (offset <= size && padded_bytes(reader) <= size - offset))
        return STATUS_OK;
    return refuse(reader, error,
                  "is broken or truncated: it has %llu bytes from byte %llu on, but the archive "
                  "ends at byte %llu",
                  (unsigned long long)reader->bytes, (unsigned long long)offset,
                  (unsigned long long)size);
}

/* Chooses the size of the reads from here to the contents of the next file. After a small file, as
 * between images and their captions, one read gets the headers of several members. Else it gets
 * only as many bytes as this member has headers. */
static void choose_room(struct archive_reader *reader)
{
    uint64_t headers = TAR_UNIT_BYTES;
    if (!reader->is_walking)
        headers = reader->offset - reader->start -
                  (uint64_t)archive_read_header_position(reader->archive);
    if (reader->offset == ARCHIVE_NO_OFFSET)
        return;
    if (reader->bytes < ARCHIVE_WALK_BYTES / 2)
        reader->large_reads = LARGE_READS;
    else if (reader->large_reads > 0)
        reader->large_reads--;
    bool large =
        reader->large_reads > 0 || headers < TAR_UNIT_BYTES || headers > ARCHIVE_WALK_BYTES;
    reader->source.room = large ? ARCHIVE_WALK_BYTES : (size_t)headers;
}

/* Of an entry of libarchive: checks and notes its size and place. */
static enum status note_entry(struct archive_reader *reader, struct error *error)
{
    int64_t bytes = archive_entry_size(reader->entry);
    int64_t modified = archive_entry_mtime(reader->entry);
    if (reader->zip && check_zip(reader, error) != STATUS_OK)
        return error->status;
    if (bytes < 0)
        return refuse(reader, error, "has a size of %lld bytes", (long long)bytes);
    reader->bytes = (uint64_t)bytes;
    reader->modified_s = modified > 0 ? (uint64_t)modified : 0;
    reader->offset = contents_offset(reader);
    return STATUS_OK;
}

static enum status check_member(struct archive_reader *reader, struct error *error)
{
    if (check_name(reader, error) != STATUS_OK ||
        (!reader->is_walking && note_entry(reader, error) != STATUS_OK) ||
        check_place(reader, error) != STATUS_OK)
        return error->status;
    choose_room(reader);
    return STATUS_OK;
}

static enum archive_step fail_end(struct archive_reader *reader, uint64_t members,
                                  struct error *error)
{
    reader->state = READER_OVER;
    (void)error_set(error, STATUS_BAD_ARCHIVE,
                    "the tar ends after %llu members without its last blocks, which are zeros; it "
                    "is truncated",
                    (unsigned long long)members);
    return ARCHIVE_FAILED;
}

/* A tar ends in blocks of zeros. A copy that was cut between two members lacks them, and libarchive
 * takes its end for that of the archive: it reads nothing after the last member then. */
static enum archive_step end(struct archive_reader *reader, struct error *error)
{
    struct archive *archive = reader->archive;
    reader->state = READER_OVER;
    if (reader->zip || archive_filter_bytes(archive, 0) > archive_read_header_position(archive))
        return ARCHIVE_END;
    return fail_end(reader, reader->entries - 1, error);
}

void archive_reader_on_skip(struct archive_reader *reader, archive_skips *skips, void *context)
{
    reader->skips = skips;
    reader->context = context;
}

/* Returns whether the entry is no file, and tells the caller of the reader. */
static bool is_skipped(struct archive_reader *reader)
{
    const char *name = name_of(reader);
    if (is_regular(reader->entry))
        return false;
    if (reader->skips && name && archive_entry_filetype(reader->entry) != AE_IFDIR)
        reader->skips(reader->context, name);
    return true;
}

/* Goes to the next file by the headers of libarchive. */
static enum archive_step next_entry(struct archive_reader *reader, struct error *error)
{
    uint64_t left = ARCHIVE_SKIP_BYTES_MAX;
    bool is_end;
    do {
        if (reader->has_entry && skip_contents(reader, &left, error) != STATUS_OK)
            return ARCHIVE_FAILED;
        reader->state = READER_BETWEEN;
        if (read_header(reader, &is_end, error) != STATUS_OK)
            return ARCHIVE_FAILED;
        if (is_end)
            return end(reader, error);
    } while (is_skipped(reader));
    return ARCHIVE_MEMBER;
}

/* Reads the header at reader->next. If it is not plain, libarchive goes on there. */
static enum archive_step read_plain(struct archive_reader *reader, struct error *error)
{
    struct archive_source *source = &reader->source;
    const uint8_t *unit = archive_source_at(source, reader->next, TAR_UNIT_BYTES);
    ssize_t count = TAR_UNIT_BYTES;
    if (!unit) {
        source->offset = reader->next;
        source->budget = ARCHIVE_HEADER_BYTES_MAX;
        count = archive_source_read(source);
        unit = archive_source_at(source, reader->next, TAR_UNIT_BYTES);
    }
    reader->name = NULL;
    if (count <= 0)
        return count == 0 ? fail_end(reader, reader->entries, error)
                          : (fail(reader, "", error), ARCHIVE_FAILED);
    if ((!unit || !tar_header_read(unit, &reader->plain)) && start(reader, error) != STATUS_OK)
        return ARCHIVE_FAILED;
    return ARCHIVE_MEMBER;
}

/* Goes to the next file by plain headers, as long as there are such. */
static enum archive_step walk(struct archive_reader *reader, struct error *error)
{
    do {
        if (read_plain(reader, error) != ARCHIVE_MEMBER)
            return ARCHIVE_FAILED;
        if (!reader->is_walking)
            return next_entry(reader, error);
        reader->entries++;
        if (count_entry(reader, error) != STATUS_OK)
            return ARCHIVE_FAILED;
        reader->bytes = reader->plain.bytes;
        reader->modified_s = reader->plain.modified_s;
        reader->offset = reader->next + TAR_UNIT_BYTES;
        reader->next = reader->offset + padded_bytes(reader);
    } while (reader->plain.is_folder);
    return ARCHIVE_MEMBER;
}

enum archive_step archive_reader_next(struct archive_reader *reader, struct archive_member *member,
                                      struct error *error)
{
    assert(reader->state != READER_OVER);
    if (reader->state == READER_AGAIN && begin_again(reader, error) != STATUS_OK)
        return ARCHIVE_FAILED;
    enum archive_step step = (reader->is_walking ? walk : next_entry)(reader, error);
    if (step != ARCHIVE_MEMBER)
        return step;
    if (check_member(reader, error) != STATUS_OK)
        return ARCHIVE_FAILED;
    *member = (struct archive_member){.name = reader->name,
                                      .bytes = reader->bytes,
                                      .offset = reader->offset,
                                      .modified_s = reader->modified_s};
    reader->state = READER_MEMBER;
    return ARCHIVE_MEMBER;
}

/* Reads contents whose place is known. */
static enum status read_located(struct archive_reader *reader, uint8_t *bytes, struct error *error)
{
    const uint8_t *held = archive_source_at(&reader->source, reader->offset, reader->bytes);
    if (held) { /* a small file, in the block of its header */
        memcpy(bytes, held, reader->bytes);
        return STATUS_OK;
    }
    int64_t count = archive_source_pread(&reader->source, reader->offset, bytes, reader->bytes);
    if (count < 0)
        return fail(reader, "", error);
    return (uint64_t)count == reader->bytes
               ? STATUS_OK
               : refuse(reader, error,
                        "ends after %lld of its %llu bytes: the archive was cut while it was read",
                        (long long)count, (unsigned long long)reader->bytes);
}

static la_ssize_t read_data(struct archive_reader *reader, uint8_t *bytes, uint64_t size)
{
    la_ssize_t count = archive_read_data(reader->archive, bytes, (size_t)size);
    reader->is_fatal = count == ARCHIVE_FATAL;
    return count;
}

/* Reads contents by libarchive. */
static enum status read_unpacked(struct archive_reader *reader, uint8_t *bytes, struct error *error)
{
    static const char over[] = "has more compressed bytes than its size allows";
    uint64_t size = reader->bytes;
    uint8_t more;
    /* Deflate adds at most 5 bytes to each 16 KiB. */
    reader->source.budget = size + size / 8 + 2 * ARCHIVE_BLOCK_BYTES;
    la_ssize_t count = read_data(reader, bytes, size);
    if (count < 0)
        return fail(reader, over, error);
    if (!reader->zip) {
        /* Where a tar ends early, libarchive fails. Here, a sparse file ends in a hole. */
        memset(bytes + count, 0, (size_t)size - (size_t)count);
        return STATUS_OK;
    }
    if ((uint64_t)count != size)
        return refuse(reader, error, "ends after %lld of its %llu bytes", (long long)count,
                      (unsigned long long)size);
    /* A zip's contents end by themselves, and then their CRC is checked. */
    count = read_data(reader, &more, 1);
    if (count < 0)
        return fail(reader, over, error);
    return count == 0 ? STATUS_OK
                      : refuse(reader, error, "has more than the %llu bytes in its header",
                               (unsigned long long)size);
}

/* The directory of a zip says where the other members are. So a member fails alone, unless the file
 * could not be read, or the budget was spent. */
static void go_on_in_zip(struct archive_reader *reader, const struct error *error)
{
    if (reader->zip && error->status == STATUS_BAD_ARCHIVE && reader->source.stop == SOURCE_GOES_ON)
        reader->state = reader->is_fatal ? READER_AGAIN : READER_BETWEEN;
}

enum status archive_reader_read(struct archive_reader *reader, uint8_t *bytes, struct error *error)
{
    struct archive_source *source = &reader->source;
    assert(reader->state == READER_MEMBER && reader->bytes <= reader->limits.bytes_max);
    reader->state = READER_BETWEEN;
    if (reader->offset != ARCHIVE_NO_OFFSET)
        return read_located(reader, bytes, error);
    size_t room = source->room;
    source->room = ARCHIVE_BLOCK_BYTES;
    enum status status = read_unpacked(reader, bytes, error);
    source->room = room;
    if (status != STATUS_OK)
        go_on_in_zip(reader, error);
    return status;
}

bool archive_reader_goes_on(const struct archive_reader *reader)
{
    return reader->state != READER_OVER;
}

uint64_t archive_reader_offset(const struct archive_reader *reader)
{
    return reader->source.offset;
}

const char *archive_reader_format(const struct archive_reader *reader)
{
    return reader->zip ? "zip" : "tar";
}

#endif
