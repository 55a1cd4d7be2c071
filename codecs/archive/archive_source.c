#include "codecs/archive/archive_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GZIP_ONLY = 16, WINDOW_BITS = 15 };

enum status archive_source_open(struct archive_source *source, int fd, struct error *error)
{
    struct stat info;
    *source = (struct archive_source){.fd = fd, .room = ARCHIVE_BLOCK_BYTES};
    if (fstat(fd, &info) != 0)
        return error_set(error, STATUS_INPUT_UNREADABLE, "the archive cannot be read: %s",
                         strerror(errno));
    source->file_bytes = (uint64_t)info.st_size;
    source->block = malloc(ARCHIVE_BLOCK_BYTES);
    return source->block
               ? STATUS_OK
               : error_set(error, STATUS_OUT_OF_MEMORY, "there is no memory to read the archive");
}

void archive_source_clear(struct archive_source *source)
{
    if (source->gzip)
        inflateEnd(&source->stream);
    free(source->packed);
    free(source->block);
}

enum status archive_source_unpack(struct archive_source *source, struct error *error)
{
    source->packed = malloc(ARCHIVE_PACKED_BYTES);
    source->gzip = source->packed && inflateInit2(&source->stream, WINDOW_BITS + GZIP_ONLY) == Z_OK;
    return source->gzip
               ? STATUS_OK
               : error_set(error, STATUS_OUT_OF_MEMORY, "there is no memory to unpack the archive");
}

/* Reads up to `room` bytes of the file, 0 at its end. */
static ssize_t read_at(struct archive_source *source, uint64_t offset, uint8_t *bytes, size_t room)
{
    ssize_t count;
    do
        count = pread(source->fd, bytes, room, (off_t)offset);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        error_set(&source->error, STATUS_INPUT_UNREADABLE,
                  "the archive cannot be read at byte %llu: %s", (unsigned long long)offset,
                  strerror(errno));
    return count;
}

static ssize_t read_file(struct archive_source *source, uint8_t *bytes, size_t room)
{
    ssize_t count = read_at(source, source->offset, bytes, room);
    if (count > 0)
        source->offset += (uint64_t)count;
    return count;
}

/* Gets more bytes of the file for zlib. */
static bool feed(struct archive_source *source)
{
    ssize_t count = read_file(source, source->packed, ARCHIVE_PACKED_BYTES);
    source->stream.next_in = source->packed;
    source->stream.avail_in = count > 0 ? (unsigned)count : 0;
    return count > 0;
}

/* At the end of a gzip stream: whether another one follows, as in concatenated files. Bytes that
 * are no gzip header end the archive, as for gzip itself. */
static bool goes_on(struct archive_source *source)
{
    z_stream *stream = &source->stream;
    if ((stream->avail_in == 0 && !feed(source)) || *stream->next_in != 0x1F)
        return false;
    source->gzip_ended = false;
    return inflateReset(stream) == Z_OK;
}

/* Unpacks more bytes; false: no more can be unpacked, or source->error is set. */
static bool inflate_more(struct archive_source *source)
{
    z_stream *stream = &source->stream;
    if (source->gzip_ended && !goes_on(source))
        return false;
    if (stream->avail_in == 0 && !feed(source))
        return error_fail(&source->error, STATUS_BAD_ARCHIVE,
                          "the archive is truncated: its gzip stream does not end in %llu bytes",
                          (unsigned long long)source->file_bytes);
    int result = inflate(stream, Z_NO_FLUSH);
    source->gzip_ended = result == Z_STREAM_END;
    if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR)
        return true;
    if (result == Z_MEM_ERROR)
        return error_fail(&source->error, STATUS_OUT_OF_MEMORY,
                          "there is no memory to unpack the archive");
    return error_fail(&source->error, STATUS_BAD_ARCHIVE,
                      "the archive's gzip stream is broken before byte %llu: %s",
                      (unsigned long long)source->offset, stream->msg ? stream->msg : "no reason");
}

/* An error after some bytes is returned by the next call. */
static ssize_t inflate_block(struct archive_source *source, size_t room)
{
    z_stream *stream = &source->stream;
    stream->next_out = source->block;
    stream->avail_out = (unsigned)room;
    while (stream->avail_out > 0 && inflate_more(source))
        continue;
    ssize_t count = (ssize_t)(room - stream->avail_out);
    return count == 0 && source->error.status != STATUS_OK ? -1 : count;
}

static size_t count_signatures(const uint8_t *bytes, size_t length)
{
    static const char signature[4] = "PK\1\2";
    size_t found = 0;
    for (const uint8_t *at = bytes;
         (at = memmem(at, length - (size_t)(at - bytes), signature, sizeof signature));
         at += sizeof signature)
        found++;
    return found;
}

/* Counts the records of a zip's directory by their signatures, before libarchive allocates memory
 * for each. It reads the directory once, from its beginning; then it goes back to the members. */
static void count_records(struct archive_source *source, size_t length)
{
    const uint8_t *bytes = source->block;
    uint64_t start = source->offset - length;
    uint8_t seam[2 * sizeof source->tail] = {0};
    size_t kept = sizeof source->tail, found = 0;
    if (source->counted >= source->offset)
        return;
    if (source->counted >= start) {
        bytes += source->counted - start;
        length -= source->counted - start;
        memcpy(seam, source->tail, kept);
    }
    memcpy(seam + kept, bytes, length < kept ? length : kept);
    found = count_signatures(seam, sizeof seam) + count_signatures(bytes, length);
    source->counted = source->offset;
    if (length >= kept)
        memcpy(source->tail, bytes + length - kept, kept);
    if (found > source->entries)
        source->stop = SOURCE_ENTRIES;
    source->entries -= found;
}

ssize_t archive_source_read(struct archive_source *source)
{
    size_t room = source->budget < source->room ? (size_t)source->budget : source->room;
    if (room == 0)
        source->stop = SOURCE_BUDGET;
    if (source->stop != SOURCE_GOES_ON || source->error.status != STATUS_OK)
        return -1;
    source->start = source->offset;
    source->length = 0;
    ssize_t count =
        source->gzip ? inflate_block(source, room) : read_file(source, source->block, room);
    if (count < 0)
        return -1;
    source->length = (size_t)count;
    source->budget -= (uint64_t)count;
    if (source->counts)
        count_records(source, (size_t)count);
    return source->stop == SOURCE_GOES_ON ? count : -1;
}

const uint8_t *archive_source_at(const struct archive_source *source, uint64_t offset,
                                 size_t length)
{
    uint64_t skipped = offset - source->start;
    bool has = !source->gzip && offset >= source->start && skipped <= source->length &&
               length <= source->length - skipped;
    return has ? source->block + skipped : NULL;
}

int64_t archive_source_pread(struct archive_source *source, uint64_t offset, uint8_t *bytes,
                             uint64_t length)
{
    uint64_t used = 0;
    ssize_t count = 1;
    while (used < length && count > 0) {
        count = read_at(source, offset + used, bytes + used, length - used);
        used += count > 0 ? (uint64_t)count : 0;
    }
    return count < 0 ? -1 : (int64_t)used;
}

uint64_t archive_source_skip(struct archive_source *source, uint64_t bytes)
{
    uint64_t left = source->offset < source->file_bytes ? source->file_bytes - source->offset : 0;
    if (source->gzip)
        return 0;
    bytes = bytes < left ? bytes : left;
    source->offset += bytes;
    return bytes;
}
