/*
 * spool.h - a file without a name, on the filesystem of the outputs, for bytes that memory has no
 * room for.
 *
 * Its bytes are read with pread, not through a map: if the disk cannot give a page of a map, the
 * process ends with SIGBUS. One thread at a time, except files_spool_read.
 */
#pragma once

#include "daemon/files/files.h"

struct files_spool {
    int fd;          /* -1: not open */
    uint64_t bytes;  /* that were written */
    uint64_t wanted; /* bytes that it would have after the write that failed */
    int reason;      /* errno of the step that failed; 0: no failure */
};

/* Creates the file. Call files_spool_close in any case. Errors: write_failed. */
enum status files_spool_open(const struct files *files, struct files_spool *spool,
                             struct error *error) MUST_CHECK;
/* Appends to it. Errors: write_failed. */
enum status files_spool_write(struct files_spool *spool, const uint8_t *bytes, size_t length,
                              struct error *error) MUST_CHECK;
/* Reads `length` bytes from `offset` on. Errors: write_failed, also if they are not there. */
enum status files_spool_read(struct files_spool *spool, uint64_t offset, uint8_t *bytes,
                             size_t length, struct error *error) MUST_CHECK;
/* Frees its bytes on the disk. If that fails, they stay, and files_spool_write goes on after
 * them. */
void files_spool_empty(struct files_spool *spool);
/* Sets *bytes to the free space on its filesystem. false: it is unknown. */
bool files_spool_room(const struct files_spool *spool, uint64_t *bytes) MUST_CHECK;
void files_spool_close(struct files_spool *spool); /* idempotent */
