/*
 * tar_writer.h - writes files into a tar, one after the other, to a function of the caller.
 *
 * The same calls give the same bytes: each file has mode 0644, user and group 0 without names. The
 * headers are ustar with the name's bytes as they are. Only a name that does not fit (of more than
 * 100 bytes, or of up to 256 without a "/" at a suitable place) and a size of 8 GiB or more have an
 * extended header (pax). GNU tar, bsdtar and Python read it. Needs no library. Memory:
 * TAR_WRITER_BYTES (limits.h). A writer is used by one thread at a time.
 */
#pragma once

#include <stdint.h>

#include "conf/status.h"

struct tar_writer;

/* Takes the next bytes of the tar: TAR_BLOCK_BYTES, at the end fewer. If it fails, it sets `error`,
 * and the writer returns that status. */
typedef enum status tar_sink(void *context, const uint8_t *bytes, size_t length,
                             struct error *error);

/* The sink is called by the functions below, with the `error` of that call. NULL: out_of_memory. */
struct tar_writer *tar_writer_open(tar_sink *sink, void *context, struct error *error) MUST_CHECK;

/* Adds a file. `name`: any bytes, as in struct archive_member; modified_s: seconds since 1970, of
 * which the tar has at most TAR_TIME_MAX. Fails only if the sink does; then only tar_writer_close
 * may be called. */
enum status tar_writer_put(struct tar_writer *writer, const char *name, uint64_t modified_s,
                           const uint8_t *bytes, size_t length, struct error *error) MUST_CHECK;

/* The same in pieces: begins a file of `length` bytes, which the following calls of tar_writer_add
 * give, before any other call. */
enum status tar_writer_begin(struct tar_writer *writer, const char *name, uint64_t modified_s,
                             uint64_t length, struct error *error) MUST_CHECK;
enum status tar_writer_add(struct tar_writer *writer, const uint8_t *bytes, size_t count,
                           struct error *error) MUST_CHECK;

/* Writes the end of the tar. Then only tar_writer_close may be called. */
enum status tar_writer_finish(struct tar_writer *writer, struct error *error) MUST_CHECK;
/* Frees the writer without calling the sink; takes NULL. */
void tar_writer_close(struct tar_writer *writer);

/* The latest time of a ustar header, in the year 2242. */
#define TAR_TIME_MAX 077777777777ull
