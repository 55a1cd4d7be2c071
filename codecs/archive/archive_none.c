/* archive_none.c - archive_reader.h in a build without libarchive (ARCHIVE=no). */
#include "codecs/archive/archive_reader.h"

#ifndef GPUIMGD_ARCHIVE

struct archive_reader *archive_reader_open(int fd, const struct archive_limits *limits,
                                           struct error *error)
{
    (void)fd, (void)limits;
    (void)error_set(error, STATUS_UNSUPPORTED_FORMAT,
                    "the input is an archive, but this gpuimgd was built without libarchive "
                    "(ARCHIVE=no)");
    return NULL;
}

/* There is no reader. */
void archive_reader_on_skip(struct archive_reader *reader, archive_skips *skips, void *context)
{
    (void)reader, (void)skips, (void)context;
}

enum archive_step archive_reader_next(struct archive_reader *reader, struct archive_member *member,
                                      struct error *error)
{
    (void)reader, (void)member, (void)error;
    return ARCHIVE_FAILED;
}

enum status archive_reader_read(struct archive_reader *reader, uint8_t *bytes, struct error *error)
{
    (void)reader, (void)bytes;
    return error_set(error, STATUS_INTERNAL, "there is no archive");
}

bool archive_reader_goes_on(const struct archive_reader *reader)
{
    (void)reader;
    return false;
}

uint64_t archive_reader_offset(const struct archive_reader *reader)
{
    (void)reader;
    return 0;
}

const char *archive_reader_format(const struct archive_reader *reader)
{
    (void)reader;
    return "";
}

void archive_reader_close(struct archive_reader *reader)
{
    (void)reader;
}

#endif
