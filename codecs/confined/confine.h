/*
 * confine.h - takes from gpuimgd-codec what it does not need to decode and encode.
 *
 * The process runs libraries on files of strangers. After confine_enter it can compute, allocate
 * memory up to the limit that the daemon sets, map the region, and exchange messages with the
 * daemon. The kernel refuses everything else: it opens no file and no socket, starts no process,
 * signals none, and cannot make memory executable.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* These builds write reports and counters, and need far more address space than any limit. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(GPUIMGD_COVERAGE)
#define CONFINE_WITHOUT_LIMITS true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CONFINE_WITHOUT_LIMITS true
#endif
#endif
#ifndef CONFINE_WITHOUT_LIMITS
#define CONFINE_WITHOUT_LIMITS false
#endif

/* First of all: the process ends with the thread that has started it, and keeps no descriptors
 * except its own. parent: the process id of the daemon. false: the daemon has ended. */
bool confine_begin(int parent);
/* After the libraries are initialised. *address_bytes: address space in use, 0 if this build has no
 * limits. Returns why it failed; NULL: it did not. */
const char *confine_enter(uint64_t *address_bytes);
