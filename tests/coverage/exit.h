/*
 * exit.h - put before every file of a coverage build: _exit writes the counters first, which it
 * would lose otherwise, and with them how the daemon ends after a fault.
 */
#pragma once

#include <unistd.h>

#define GPUIMGD_COVERAGE

void __gcov_dump(void);
#define _exit(status) (__gcov_dump(), _exit(status))
