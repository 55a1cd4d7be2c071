/*
 * split.h - reads and writes large files with several workers.
 *
 * One thread copies 2 to 6 GB/s from a tmpfs. While it reads a JPEG of 23 MB, a device would wait
 * for 4 to 12 ms. It needs 6 to 10 ms to write 20 MB, because the tmpfs also allocates the pages.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "conf/status.h"

struct files_output;
struct workers;

/* Reads a file as files_read_input from 0, with the same errors. If it is large and in the kernel's
 * memory, idle workers read pieces of it. Call it on a worker: this one reads what would have to
 * wait for a disk or a file server, because a worker that helps is not replaced if it hangs.
 * `bytes` must have room for size + 1. */
enum status split_read(struct workers *workers, int fd, const char *path, uint8_t *bytes,
                       uint64_t size, struct error *error) MUST_CHECK;

/* Writes as files_output_write, with the same errors. Idle workers write pieces, if at least seven
 * are idle, `length` is at least 8 MiB, and the output is empty and in a tmpfs. Call it on a
 * worker. A helper waits for no disk or file server, only until the kernel finds memory. */
enum status split_write(struct workers *workers, struct files_output *output, const uint8_t *bytes,
                        size_t length, struct error *error) MUST_CHECK;
