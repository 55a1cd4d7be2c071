/* prometheus.h - writes a snapshot of the daemon (snapshot.h) in Prometheus's text format 0.0.4,
 * for the path /metrics. Any thread. */
#pragma once

#include "daemon/telemetry/snapshot.h"

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum prometheus_type { PROMETHEUS_COUNTER, PROMETHEUS_GAUGE, PROMETHEUS_HISTOGRAM };

/* One row of the table of all metrics (metrics.def). */
struct prometheus_row {
    const char *name;
    enum prometheus_type type;
    const char *labels; /* their documentation, as METRICS.md prints it */
    const char *source; /* the C expression of the value */
    const char *help;
};
size_t prometheus_rows(void);
struct prometheus_row prometheus_row(size_t index);

/* Returns text that the caller frees; NULL: out of memory. now_ns: CLOCK_MONOTONIC. */
char *prometheus_write(const struct snapshot *snapshot, uint64_t now_ns);
