/*
 * archive_source.h - the bytes of an archive file in the blocks in which libarchive takes them.
 *
 * It unpacks gzip itself instead of libarchive, so that a budget bounds the unpacked bytes of each
 * step: libarchive's memory for a header grows with the bytes that it reads for it.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include <zlib.h>

#include "conf/status.h"

/* Why a read failed without an error. */
enum source_stop { SOURCE_GOES_ON, SOURCE_BUDGET, SOURCE_ENTRIES };

struct archive_source {
    int fd; /* borrowed */
    uint64_t file_bytes;
    uint64_t offset;  /* in the file, of the next read */
    uint8_t *block;   /* ARCHIVE_BLOCK_BYTES; the last block that was read */
    size_t room;      /* bytes that the next block has at most */
    uint64_t start;   /* in the file, of the last block, unless it was unpacked */
    size_t length;    /* of the last block */
    uint64_t budget;  /* unpacked bytes that may be read before it is set again */
    uint64_t entries; /* records of a zip's directory that may be read */
    bool counts;      /* records are counted */
    uint64_t counted; /* end of the bytes in which they were counted; 0: none */
    uint8_t tail[3];  /* the last of these bytes */
    bool gzip;
    bool gzip_ended; /* the stream of the last gzip header is complete */
    uint8_t *packed; /* ARCHIVE_PACKED_BYTES, if gzip */
    z_stream stream;
    struct error error; /* of a failed read, unless it has stopped */
    enum source_stop stop;
};

/* Prepares to read the file from its beginning. Call archive_source_clear in every case. */
enum status archive_source_open(struct archive_source *source, int fd,
                                struct error *error) MUST_CHECK;
void archive_source_clear(struct archive_source *source);

/* Unpacks the file from now on; to be called before the first read. */
enum status archive_source_unpack(struct archive_source *source, struct error *error) MUST_CHECK;

/* Reads the next block to source->block. Returns its bytes; 0 at the end; -1: source->error or
 * source->stop is set, and stays. */
ssize_t archive_source_read(struct archive_source *source) MUST_CHECK;
/* The `length` bytes at `offset` in the file; NULL if the last block has not all of them. */
const uint8_t *archive_source_at(const struct archive_source *source, uint64_t offset,
                                 size_t length);
/* Reads bytes of the file, unaffected by packing and budgets. Returns how many there are before the
 * end of the file; -1: source->error is set. */
int64_t archive_source_pread(struct archive_source *source, uint64_t offset, uint8_t *bytes,
                             uint64_t length) MUST_CHECK;
/* Skips up to `bytes` bytes without reading them. Returns how many; 0 if the file is packed. */
uint64_t archive_source_skip(struct archive_source *source, uint64_t bytes);
