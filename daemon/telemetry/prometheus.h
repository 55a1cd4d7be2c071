/*
 * prometheus.h - a snapshot of metrics as Prometheus's text format 0.0.4.
 *
 * Any thread; what it says of the process itself (CPU time, memory) is read when it is called.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_PROMETHEUS_H
#define GPUIMGD_DAEMON_TELEMETRY_PROMETHEUS_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/telemetry/metrics.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum exposition_type { EXPOSITION_COUNTER, EXPOSITION_GAUGE, EXPOSITION_HISTOGRAM };
enum exposition_unit { EXPOSITION_NONE, EXPOSITION_BYTES, EXPOSITION_SECONDS };

/* The table of all metrics (metrics.def). */
struct exposition_row {
    const char *name;
    enum exposition_type type;
    enum exposition_unit unit;
    const char *help;
};
size_t exposition_rows(void);
struct exposition_row exposition_row(size_t index);

/* malloc'd, *length bytes and a NUL; NULL when memory is short. now_ns: CLOCK_MONOTONIC. */
char *exposition_write(const struct metrics *metrics, uint64_t now_ns, size_t *length);

#endif
