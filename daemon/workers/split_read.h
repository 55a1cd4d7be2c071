/*
 * split_read.h - reads a large file with several workers.
 *
 * One thread copies 2 to 6 GB/s out of the kernel's memory, so that a file of 20 MB would take
 * longer to read than a device needs to decode it. If workers have nothing else to do, they read
 * pieces of it. The pipeline gives up a worker whose job hangs, but it does not see helpers. They
 * therefore read only what the kernel has in memory.
 */
#pragma once

#include <stdint.h>

#include "conf/status.h"

struct workers;

/* As files_read_input from byte 0, with its errors, and with room for size + 1 bytes. On a
 * worker. */
enum status split_read(struct workers *workers, int fd, const char *path, uint8_t *bytes,
                       uint64_t size, struct error *error) MUST_CHECK;
