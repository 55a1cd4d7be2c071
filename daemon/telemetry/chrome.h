/*
 * chrome.h - writes jobs to a file of Chrome trace events, for Perfetto and chrome://tracing.
 *
 * The file is a JSON array with one event per line. The viewers accept an array without its "]", so
 * the file can be opened at any time, even after a crash. No event crosses a boundary of 4,096
 * bytes, because the kernel copies each page of a write() completely or not at all: a process that
 * is killed in write() leaves only whole events.
 *
 * In the viewer, the daemon is a process "gpuimgd" whose threads are the workers. Each device is a
 * process whose threads are the device's streams. A job is an asynchronous slice, which contains
 * slices for the times when the job waited.
 *
 * Not thread-safe: trace.c calls all functions on its thread, or before that thread starts and
 * after it has ended.
 */
#pragma once

#include "daemon/telemetry/trace.h"

struct chrome;

/* Creates the file; an old one is kept as NAME.old. The config must outlive the trace. Errors:
 * write_failed, out_of_memory. */
enum status chrome_open(const struct trace_config *config, struct chrome **chrome,
                        struct error *error) MUST_CHECK;
/* Writes the events of a job that has ended. If the file is full or cannot be written, counts the
 * job instead. */
void chrome_add(struct chrome *chrome, const struct trace_job *job);
void chrome_flush(struct chrome *chrome);
/* Completes the JSON array, closes the file and logs how many jobs it has and how many are missing.
 * missed: jobs for which chrome_add was never called. Takes NULL. */
void chrome_close(struct chrome *chrome, uint64_t missed);
