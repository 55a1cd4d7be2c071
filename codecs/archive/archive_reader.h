/*
 * archive_reader.h - reads the files in a tar or zip archive, one after the other.
 *
 * Formats: tar (v7, ustar, pax, GNU), also as gzip, and zip (stored, deflate, zip64). By
 * libarchive; without it (ARCHIVE=no), archive_reader_open fails with unsupported_format.
 * Directories, links and special files are skipped. A tar ends at its first block of zeros, as in
 * GNU tar and Python: bytes after it are not read. A tar without such a block is truncated.
 *
 * In a tar without gzip, next reads only headers, in at most ARCHIVE_WALK_BYTES at a time. It gives
 * the place of the contents, so that threads can read them by themselves. Up to the first header
 * that is not plain (tar_header.h), it needs no libarchive, which takes 8,000 instructions per
 * header.
 *
 * Archives are not trusted. All failures because of their contents are bad_archive, and a text
 * names the member, the value and the bound. Memory: ARCHIVE_READER_BYTES, and for a zip also
 * ARCHIVE_ZIP_MEMBER_BYTES for each of up to zip_members_max members (limits.h). Time: next reads
 * the headers up to the next file: at most members_max, of ARCHIVE_HEADER_BYTES_MAX each. It skips
 * contents by seeking, except in gzip, where it unpacks at most ARCHIVE_SKIP_BYTES_MAX per call.
 * After broken contents in a zip, it may read all headers again, at most 64 times per reader.
 * The first call reads the directory of a zip. The file's size is that at the beginning: a tar's
 * member that does not end in it is refused. read takes time in proportion to the member's size.
 *
 * A reader is used by one thread at a time. The caller owns its memory through
 * archive_reader_close.
 */
#pragma once

#include <stdint.h>

#include "conf/status.h"

struct archive_reader;

struct archive_limits {
    uint64_t members_max;     /* entries of all kinds, also those that are skipped */
    uint64_t bytes_max;       /* of one member that archive_reader_read may be called for */
    size_t name_bytes_max;    /* of one name */
    uint64_t zip_members_max; /* of a zip, whose directory is kept in memory: also entries of all
                                 kinds. The smaller one of this and members_max counts */
    uint64_t zip_bytes_max;   /* of a zip's directory; two blocks more may be read */
};

struct archive_member {
    const char *name; /* the stored bytes, often UTF-8, without leading "./"; UTF-8 of a zip in NFC.
                         Not absolute, without empty or ".." parts and control characters. Valid
                         until the next call */
    uint64_t bytes;   /* may exceed bytes_max */
    uint64_t offset;  /* in the file, of the contents, which are `bytes` bytes there; or
                         ARCHIVE_NO_OFFSET */
    uint64_t modified_s; /* seconds since 1970; 0 if the archive has an earlier time, or none */
};

/* The contents are not bytes of the file, as in zip and gzip and for sparse members, or their place
 * is not known: only archive_reader_read gives them. */
#define ARCHIVE_NO_OFFSET UINT64_MAX

enum archive_step { ARCHIVE_MEMBER, ARCHIVE_END, ARCHIVE_FAILED };

/* Opens the archive in the file. `fd` is borrowed; it is read from offset 0 with pread, so its own
 * offset has no effect. `limits` are copied. NULL: bad_archive, also for other formats;
 * input_unreadable, out_of_memory, unsupported_format. */
struct archive_reader *archive_reader_open(int fd, const struct archive_limits *limits,
                                           struct error *error) MUST_CHECK;
void archive_reader_close(struct archive_reader *reader); /* takes NULL */

/* Makes archive_reader_next call `skips` for each link and special file that it skips, but not for
 * folders. name: as in struct archive_member, but not checked; valid during the call. */
typedef void archive_skips(void *context, const char *name);
void archive_reader_on_skip(struct archive_reader *reader, archive_skips *skips, void *context);

/* Goes to the next regular file, and skips the contents of the last one if they were not read.
 * After ARCHIVE_FAILED, only archive_reader_close may be called. Errors: bad_archive,
 * input_unreadable, out_of_memory. */
enum archive_step archive_reader_next(struct archive_reader *reader, struct archive_member *member,
                                      struct error *error) MUST_CHECK;

/* Reads the contents of the member: exactly member.bytes, of at most bytes_max. Once per member.
 * Checks the CRC of a zip. Errors: those of archive_reader_next. */
enum status archive_reader_read(struct archive_reader *reader, uint8_t *bytes,
                                struct error *error) MUST_CHECK;
/* Whether archive_reader_next may be called after archive_reader_read has failed: only the contents
 * of this member of a zip are broken. */
bool archive_reader_goes_on(const struct archive_reader *reader);

/* Bytes of the file that were read or skipped, for progress. A zip starts at its end, goes back and
 * then forward. */
uint64_t archive_reader_offset(const struct archive_reader *reader);
/* "tar" or "zip". */
const char *archive_reader_format(const struct archive_reader *reader);
