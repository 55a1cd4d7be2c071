/*
 * exposition.h - a snapshot as Prometheus's text format 0.0.4. Any thread.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_PROMETHEUS_H
#define GPUIMGD_DAEMON_TELEMETRY_PROMETHEUS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/telemetry/snapshot.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum exposition_type { EXPOSITION_COUNTER, EXPOSITION_GAUGE, EXPOSITION_HISTOGRAM };

/* The table of all metrics (metrics.def). */
struct exposition_row {
    const char *name;
    enum exposition_type type;
    const char *labels; /* as METRICS.md names them */
    const char *source, *help;
};
size_t exposition_rows(void);
struct exposition_row exposition_row(size_t index);

/* malloc'd, *length bytes and a NUL; NULL when memory is short. now_ns: CLOCK_MONOTONIC. */
char *exposition_write(const struct snapshot *snapshot, uint64_t now_ns, size_t *length);

#endif
