/*
 * chrome.h - a file of Chrome trace events, which Perfetto and chrome://tracing open.
 *
 * A JSON array, an event a line. It may end after any event, without the "]": so it is written as
 * the jobs end, and whatever becomes of the process the file can be opened. No event lies across
 * the end of a page, and the system copies a page whole or not at all: also a process that is
 * killed while it writes leaves whole events. One thread at a time.
 *
 * Each worker is a thread of the process "gpuimgd", each stream one of its device's process, with
 * their stages as slices. A job's time in the daemon is an asynchronous slice, and in it the times
 * in which it waited. Counters tell the jobs in flight and the pinned bytes in use.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_CHROME_H
#define GPUIMGD_DAEMON_TELEMETRY_CHROME_H

#include "daemon/telemetry/trace.h"

struct chrome;

/* The config must stay. write_failed, out_of_memory. */
enum status chrome_open(const struct trace_config *config, struct chrome **chrome,
                        struct error *error) MUST_CHECK;
/* Left out and counted when the file is full or cannot be written. */
void chrome_add(struct chrome *chrome, const struct trace_job *job);
void chrome_flush(struct chrome *chrome);
/* missed: jobs that did not get here. Writes the "]" and says in the log what there is. Takes
 * NULL. */
void chrome_close(struct chrome *chrome, uint64_t missed);

#endif
