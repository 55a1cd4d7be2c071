#include "daemon/telemetry/beacon.h"

#include <stdlib.h>

#include "conf/clock.h"
#include "daemon/telemetry/status_json.h"

static const char *state_of(const struct snapshot *snapshot)
{
    switch (snapshot->state) {
    case SNAPSHOT_FAILED: /* its jobs go back, as at each end */
    case SNAPSHOT_DRAINING:
        return "draining";
    case SNAPSHOT_PAUSED:
        return "paused";
    default:
        return snapshot->disk_works ? "running" : "blocked";
    }
}

void beacon_tell(struct beacon *beacon, const struct snapshot *snapshot,
                 const struct options *options, struct queue *queue)
{
    const char *state = state_of(snapshot);
    uint64_t jobs = metrics_jobs(&snapshot->totals);
    if (!snapshot->redis_ready)
        return;
    bool moved = jobs != beacon->told_jobs || state != beacon->told_state ||
                 snapshot->in_flight > 0;
    if (!moved && !beacon->moved &&
        clock_ms(beacon->told_ns, snapshot->taken_ns) < options->renew_s * 1e3)
        return;
    char *text = status_json_heartbeat(snapshot, state);
    if (!text)
        return;
    queue_publish(queue, text, options->lease_s);
    free(text);
    *beacon = (struct beacon){snapshot->taken_ns, jobs, state, moved};
}
