/* fleet_json.h - writes /fleet.json: the daemons of a namespace and their queue. Any thread. */
#pragma once

#include "daemon/telemetry/snapshot.h"
#include "queue/lease/fleet.h"

/* Returns the document, which the caller frees; NULL: out of memory. The queue is that of the
 * snapshot. fleet NULL: `error` says why; if it is not set, Redis does not answer. The statistics
 * of the fleet can be any bytes: all texts are cut and made printable, and all numbers are finite
 * and not negative. */
char *fleet_json_write(const struct snapshot *snapshot, const struct fleet *fleet,
                       const struct error *error);
