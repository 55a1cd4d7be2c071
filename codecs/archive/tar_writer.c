#include "codecs/archive/tar_writer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#ifdef GPUIMGD_ARCHIVE

#include <archive.h>
#include <archive_entry.h>

struct tar_writer {
    struct archive *archive;
    struct archive_entry *entry;
    tar_sink *sink;
    void *context;
    struct error *error; /* of the call that runs; NULL: the sink is not called */
};

static la_ssize_t pass_on(struct archive *archive, void *context, const void *bytes, size_t length)
{
    struct tar_writer *writer = context;
    if (writer->error && writer->sink(writer->context, bytes, length, writer->error) == STATUS_OK)
        return (la_ssize_t)length;
    archive_set_error(archive, EIO, "a write failed");
    return ARCHIVE_FATAL;
}

/* The error of the sink, or of libarchive. */
static enum status fail(struct tar_writer *writer, struct error *error)
{
    const char *text = archive_error_string(writer->archive);
    writer->error = NULL;
    if (archive_errno(writer->archive) == ENOMEM)
        return error_set(error, STATUS_OUT_OF_MEMORY, "there is no memory to write the tar");
    return error_set(error, STATUS_INTERNAL, "the tar cannot be written: %.100s",
                     text ? text : "unknown error");
}

static bool start(struct tar_writer *writer)
{
    struct archive *archive = writer->archive = archive_write_new();
    writer->entry = archive_entry_new();
    return archive && writer->entry &&
           archive_write_set_format_pax_restricted(archive) == ARCHIVE_OK &&
           archive_write_set_options(archive, "hdrcharset=BINARY") == ARCHIVE_OK &&
           archive_write_set_bytes_per_block(archive, TAR_BLOCK_BYTES) == ARCHIVE_OK &&
           archive_write_set_bytes_in_last_block(archive, 1) == ARCHIVE_OK &&
           archive_write_open(archive, writer, NULL, pass_on, NULL) == ARCHIVE_OK;
}

struct tar_writer *tar_writer_open(tar_sink *sink, void *context, struct error *error)
{
    struct tar_writer *writer = calloc(1, sizeof *writer);
    if (writer) {
        *writer = (struct tar_writer){.sink = sink, .context = context};
        if (start(writer))
            return writer;
    }
    (void)error_set(error, STATUS_OUT_OF_MEMORY, "there is no memory to write the tar");
    tar_writer_close(writer);
    return NULL;
}

enum status tar_writer_put(struct tar_writer *writer, const char *name, uint64_t modified_s,
                           const uint8_t *bytes, size_t length, struct error *error)
{
    struct archive_entry *entry = writer->entry;
    writer->error = error;
    archive_entry_clear(entry);
    archive_entry_copy_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, (int64_t)length);
    archive_entry_set_mtime(entry, (time_t)(modified_s < TAR_TIME_MAX ? modified_s : TAR_TIME_MAX),
                            0);
    if (archive_write_header(writer->archive, entry) < ARCHIVE_WARN)
        return fail(writer, error);
    if (length > 0 && archive_write_data(writer->archive, bytes, length) != (la_ssize_t)length)
        return fail(writer, error);
    return STATUS_OK;
}

enum status tar_writer_finish(struct tar_writer *writer, struct error *error)
{
    writer->error = error;
    if (archive_write_close(writer->archive) != ARCHIVE_OK)
        return fail(writer, error);
    writer->error = NULL;
    return STATUS_OK;
}

void tar_writer_close(struct tar_writer *writer)
{
    if (!writer)
        return;
    /* libarchive would write the end of the tar. */
    writer->error = NULL;
    if (writer->archive)
        archive_write_fail(writer->archive);
    archive_write_free(writer->archive);
    archive_entry_free(writer->entry);
    free(writer);
}

#else

struct tar_writer *tar_writer_open(tar_sink *sink, void *context, struct error *error)
{
    (void)sink, (void)context;
    (void)error_set(error, STATUS_UNSUPPORTED_FORMAT,
                    "output is to be a tar, but this gpuimgd was built without libarchive "
                    "(ARCHIVE=no)");
    return NULL;
}

/* There is no writer. */
enum status tar_writer_put(struct tar_writer *writer, const char *name, uint64_t modified_s,
                           const uint8_t *bytes, size_t length, struct error *error)
{
    (void)writer, (void)name, (void)modified_s, (void)bytes, (void)length;
    return error_set(error, STATUS_INTERNAL, "there is no tar");
}

enum status tar_writer_finish(struct tar_writer *writer, struct error *error)
{
    (void)writer;
    return error_set(error, STATUS_INTERNAL, "there is no tar");
}

void tar_writer_close(struct tar_writer *writer)
{
    (void)writer;
}

#endif
