/*
 * chrome.h - writes jobs to a file of Chrome trace events, for Perfetto and chrome://tracing.
 *
 * The file is a JSON array with one event per line. The viewers accept an array without its "]", so
 * the file can be opened at any time, even after a crash. No event crosses a page boundary, and the
 * kernel copies each page whole: a process that is killed in write() leaves only whole events.
 *
 * Each worker is a thread of the process "gpuimgd". Each device is a process, and its streams are
 * the threads. A job is an asynchronous slice, and its waits are slices within it.
 *
 * Not thread-safe: trace.c calls all functions on its thread, or before and after that thread runs.
 */
#pragma once

#include "daemon/telemetry/trace.h"

struct chrome;

/* Creates the file; an old one is kept as NAME.old. The config must outlive the trace. Errors:
 * write_failed, out_of_memory. */
enum status chrome_open(const struct trace_config *config, struct chrome **chrome,
                        struct error *error) MUST_CHECK;
/* Writes the events of a job that has ended. A job that finds the file full or broken is counted
 * instead. */
void chrome_add(struct chrome *chrome, const struct trace_job *job);
void chrome_flush(struct chrome *chrome);
/* Completes the JSON array, closes the file and logs how many jobs it has. missed: jobs that were
 * dropped before chrome_add. Takes NULL. */
void chrome_close(struct chrome *chrome, uint64_t missed);
