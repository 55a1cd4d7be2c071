/*
 * split.h - reads and writes large files with several worker threads at once.
 *
 * One thread copies 2 to 6 GB/s from a tmpfs. A GPU that waits for a JPEG of 23 MB would be idle
 * for 4 to 12 ms. To write 20 MB, one thread needs 6 to 10 ms, because the tmpfs also allocates
 * pages.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "conf/status.h"

struct files_output;
struct workers;

/* Reads a whole file as files_read_input does, with the same errors. If the file is large and in
 * the kernel's page cache, idle workers read pieces of it. Call it on a worker: the calling worker
 * reads all bytes for which the kernel must wait for a disk or a file server, because an idle
 * worker that helps would not be replaced if it hung. `bytes` must have room for size + 1. */
enum status split_read(struct workers *workers, int fd, const char *path, uint8_t *bytes,
                       uint64_t size, struct error *error) MUST_CHECK;

/* Writes as files_output_write does, with the same errors. Idle workers write pieces if at least
 * seven are idle, `length` is at least 8 MiB, and the output is empty and in a tmpfs. Call it on a
 * worker. The idle workers cannot hang: they never wait for a disk or a file server, only until the
 * kernel finds memory. */
enum status split_write(struct workers *workers, struct files_output *output, const uint8_t *bytes,
                        size_t length, struct error *error) MUST_CHECK;
