#include "daemon/telemetry/heartbeat.h"

#include <stdlib.h>

#include "conf/clock.h"
#include "daemon/telemetry/status_json.h"

static const char *state_of(const struct snapshot *snapshot)
{
    switch (snapshot->state) {
    case SNAPSHOT_FAILED: /* its jobs are given back, as in a drain */
    case SNAPSHOT_DRAINING:
        return "draining";
    case SNAPSHOT_PAUSED:
        return "paused";
    default:
        return snapshot->disk_works ? "running" : "blocked";
    }
}

void heartbeat_publish(struct heartbeat *heartbeat, const struct snapshot *snapshot,
                       const struct options *options, struct queue *queue)
{
    const char *state = state_of(snapshot);
    uint64_t jobs = metrics_jobs(&snapshot->totals);
    if (!snapshot->redis_ready)
        return;
    bool has_news =
        jobs != heartbeat->sent_jobs || state != heartbeat->sent_state || snapshot->in_flight > 0;
    if (!has_news && !heartbeat->had_news &&
        clock_ms(heartbeat->sent_ns, snapshot->taken_ns) < options->renew_s * 1e3)
        return;
    char *text = status_json_heartbeat(snapshot, state);
    if (!text)
        return;
    queue_publish(queue, text, options->lease_s);
    free(text);
    *heartbeat = (struct heartbeat){snapshot->taken_ns, jobs, state, has_news};
}
