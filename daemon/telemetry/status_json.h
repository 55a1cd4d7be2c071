/*
 * status_json.h - a snapshot of metrics as the JSON that the status page reads.
 *
 * Its form follows the page and may change with it; what other programs read is /metrics.
 */
#ifndef GPUIMGD_DAEMON_TELEMETRY_STATUS_JSON_H
#define GPUIMGD_DAEMON_TELEMETRY_STATUS_JSON_H

#include <stdint.h>

#include "daemon/telemetry/metrics.h"

/* malloc'd; NULL when memory is short. Any thread. now_ns: CLOCK_MONOTONIC. */
char *status_json_write(const struct metrics *metrics, uint64_t now_ns);

#endif
