#include "queue/lease/limit.h"

#include "conf/limits.h"

#define KEPT_MS 10000
/* Losses in a row before the first reduction: connections also break for other reasons. */
#define LOSSES_LEAST 2
/* At one job per call, every LOSSES_EACH losses halve the longest text. */
#define LOSSES_EACH 3
#define TEXT_BYTES_LEAST (4 * KIB)

uint32_t limit_count(const struct limit *limit, uint32_t most)
{
    return limit->most > 0 && limit->most < most ? limit->most : most;
}

bool limit_lost(struct limit *limit, uint32_t count, uint64_t now_ms)
{
    size_t text_bytes = limit_text_bytes(limit);
    limit->losses++;
    if (limit->most == 0 && limit->losses < LOSSES_LEAST)
        return false;
    limit->changed_ms = now_ms;
    if (limit->most == 1)
        return limit_text_bytes(limit) < text_bytes;
    limit->most = count > 1 ? count / 2 : 1;
    limit->losses = 0;
    return true;
}

void limit_accepted(struct limit *limit, uint64_t now_ms)
{
    if (limit->most > 0 && now_ms - limit->changed_ms >= KEPT_MS) {
        limit->most = limit->most < QUEUE_BATCH_MAX ? 2 * limit->most : 0;
        limit->changed_ms = now_ms;
    }
    limit->losses = 0;
}

size_t limit_text_bytes(const struct limit *limit)
{
    size_t bytes = JOB_BYTES_MAX;
    unsigned halvings = limit->most == 1 ? limit->losses / LOSSES_EACH : 0;
    for (; halvings > 0 && bytes > TEXT_BYTES_LEAST; halvings--)
        bytes /= 2;
    return bytes;
}
