/*
 * split_read.h - reads a large file with several workers.
 *
 * One thread copies 2 to 6 GB/s out of the kernel's memory, so that a file of 20 MB would take
 * longer to read than a device needs to decode it. If workers are idle, they read pieces of it.
 * They read only what the kernel has in memory, because no one would replace a helper that hangs.
 */
#pragma once

#include <stdint.h>

#include "conf/status.h"

struct workers;

/* As files_read_input from byte 0, and with its errors. On a worker. */
enum status split_read(struct workers *workers, int fd, const char *path, uint8_t *bytes,
                       uint64_t size, struct error *error) MUST_CHECK;
