/*
 * exposition.h - a snapshot as Prometheus's text format 0.0.4. Any thread.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_PROMETHEUS_H
#define GPUIMGD_DAEMON_TELEMETRY_PROMETHEUS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/telemetry/snapshot.h"

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum prometheus_type { PROMETHEUS_COUNTER, PROMETHEUS_GAUGE, PROMETHEUS_HISTOGRAM };

/* The table of all metrics (metrics.def). */
struct prometheus_row {
    const char *name;
    enum prometheus_type type;
    const char *labels; /* as METRICS.md names them */
    const char *source, *help;
};
size_t prometheus_rows(void);
struct prometheus_row prometheus_row(size_t index);

/* malloc'd, *length bytes and a NUL; NULL when memory is short. now_ns: CLOCK_MONOTONIC. */
char *prometheus_write(const struct snapshot *snapshot, uint64_t now_ns, size_t *length);

#endif
