/*
 * confine.h - takes away the rights that the process gpuimgd-codec does not need.
 *
 * The process decodes files of strangers, and a bug of a library could let such a file run its own
 * code. After confine_enter the process can only compute, allocate memory up to the limit that the
 * daemon sets, map the memory that it shares with the daemon, and exchange messages with the
 * daemon. The kernel refuses all other system calls: to open files and sockets, to start or signal
 * other processes, and to make memory executable.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Builds with sanitizers or coverage write files, and need more address space than any limit. */
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

/* Call it first. Lets the kernel kill the process when the thread that has started it ends, and
 * closes all descriptors above CODEC_REGION. parent: the process id of the daemon. false: the
 * daemon has already ended. */
bool confine_begin(int parent);
/* Call it after the libraries are initialised: forbids all other system calls. has_threads: a
 * library may have started threads. Sets *address_bytes to the address space in use, and
 * *data_bytes to the private memory of it that can be written; 0: this build sets no limits.
 * Returns NULL, or why it failed. */
const char *confine_enter(bool has_threads, uint64_t *address_bytes, uint64_t *data_bytes);
