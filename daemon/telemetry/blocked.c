#include "daemon/telemetry/blocked.h"

#include <inttypes.h>
#include <stdio.h>

#include "conf/clock.h"
#include "conf/text.h"
#include "daemon/telemetry/snapshot.h"

const char *const blocked_names[BLOCKED_COUNT] = {
    [BLOCKED_BY_NOTHING] = "",      [BLOCKED_BY_DRAIN] = "drain",
    [BLOCKED_BY_SIGNAL] = "signal", [BLOCKED_BY_PAUSE] = "pause",
    [BLOCKED_BY_REDIS] = "redis",   [BLOCKED_BY_DISK] = "disk",
    [BLOCKED_BY_KEYS] = "keys",     [BLOCKED_BY_PINNED] = "pinned",
    [BLOCKED_BY_DEVICE] = "device", [BLOCKED_BY_FILES] = "files",
    [BLOCKED_BY_CODECS] = "codecs", [BLOCKED_BY_INFLIGHT] = "inflight",
};

const char *const blocked_advices[BLOCKED_COUNT] = {
    [BLOCKED_BY_NOTHING] = "",
    [BLOCKED_BY_DRAIN] = "The daemon exits when its jobs have ended.",
    [BLOCKED_BY_SIGNAL] = "Send SIGUSR2 again to resume.",
    [BLOCKED_BY_PAUSE] = "Run gpuimgctl resume.",
    [BLOCKED_BY_REDIS] = "Check Redis; the daemon connects again by itself.",
    [BLOCKED_BY_DISK] = "Free space, or permit writing; the daemon tries again by itself.",
    [BLOCKED_BY_KEYS] = "Check the role and its server; the daemon asks again by itself.",
    [BLOCKED_BY_PINNED] = "Raise pinned_bytes if this lasts.",
    [BLOCKED_BY_DEVICE] = "Raise device_bytes if this lasts.",
    [BLOCKED_BY_FILES] = "Raise host_bytes if this lasts; half of it holds inputs and overlays.",
    [BLOCKED_BY_CODECS] = "Raise host_bytes if this lasts; three eighths of it are for codecs, "
                          "plans and results.",
    [BLOCKED_BY_INFLIGHT] = "This is usual under load. Raise inflight only if workers or devices "
                            "are idle.",
};

static enum blocked_by reason_of(const struct snapshot *s, bool by_signal)
{
    if (s->state == SNAPSHOT_DRAINING || s->state == SNAPSHOT_FAILED)
        return BLOCKED_BY_DRAIN;
    if (s->state == SNAPSHOT_PAUSED)
        return by_signal ? BLOCKED_BY_SIGNAL : BLOCKED_BY_PAUSE;
    if (s->state != SNAPSHOT_RUNNING)
        return BLOCKED_BY_NOTHING;
    if (!s->redis_ready)
        return BLOCKED_BY_REDIS;
    if (!s->disk_works)
        return BLOCKED_BY_DISK;
    if (*s->keys_reason)
        return BLOCKED_BY_KEYS;
    if (s->lack.by != BLOCKED_BY_NOTHING)
        return s->lack.by;
    return s->in_flight >= s->in_flight_max && s->queue_length > 0 ? BLOCKED_BY_INFLIGHT
                                                                   : BLOCKED_BY_NOTHING;
}

static enum stage fullest_stage(const struct snapshot *s)
{
    enum stage fullest = 0;
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++)
        if (s->in_stage[stage] > s->in_stage[fullest])
            fullest = stage;
    return fullest;
}

static void explain_memory(struct blocked *blocked, const struct blocked_memory *memory)
{
    static const char *const names[BLOCKED_COUNT] = {[BLOCKED_BY_PINNED] = "pinned memory",
                                                     [BLOCKED_BY_DEVICE] = "device memory",
                                                     [BLOCKED_BY_FILES] = "memory for inputs",
                                                     [BLOCKED_BY_CODECS] =
                                                         "memory for codecs and results"};
    blocked->wanted = memory->wanted;
    blocked->free = memory->free;
    blocked->limit = memory->limit;
    char wanted[32] = "";
    if (memory->wanted > 0)
        snprintf(wanted, sizeof wanted, "%.1f MB of ", (double)memory->wanted / 1e6);
    snprintf(blocked->why, sizeof blocked->why, "a job waits for %s%s; %.1f of %.1f MB are free%s",
             wanted, names[memory->by], (double)memory->free / 1e6, (double)memory->limit / 1e6,
             *wanted && memory->free >= memory->wanted ? ", but not in one piece" : "");
}

static void explain(struct blocked *blocked, const struct snapshot *s)
{
    char *why = blocked->why;
    size_t size = sizeof blocked->why;
    switch (blocked->by) {
    case BLOCKED_BY_NOTHING:
    case BLOCKED_COUNT:
        *why = '\0';
        return;
    case BLOCKED_BY_DRAIN:
        snprintf(why, size, "no jobs are fetched, %" PRIu32 " are in flight", s->in_flight);
        return;
    case BLOCKED_BY_SIGNAL:
        snprintf(why, size, "SIGUSR2 has paused this daemon");
        return;
    case BLOCKED_BY_PAUSE:
        snprintf(why, size, "the key %.100s:paused pauses all daemons", s->namespace);
        return;
    case BLOCKED_BY_REDIS:
        snprintf(why, size, "Redis: %s", s->redis_reason);
        return;
    case BLOCKED_BY_DISK:
        text_copy(why, size, s->disk_reason);
        return;
    case BLOCKED_BY_KEYS:
        snprintf(why, size, "jobs wait for keys: %s", s->keys_reason);
        return;
    case BLOCKED_BY_INFLIGHT:
        blocked->limit = s->in_flight_max;
        snprintf(why, size, "%" PRIu32 " of %" PRIu32 " jobs are in flight, most of them in %s",
                 s->in_flight, s->in_flight_max, stage_name(fullest_stage(s)));
        return;
    case BLOCKED_BY_PINNED:
    case BLOCKED_BY_DEVICE:
    case BLOCKED_BY_FILES:
    case BLOCKED_BY_CODECS:
        explain_memory(blocked, &s->lack);
    }
}

/* A reason that was not found for longer has ended. */
#define GAP_NS (3 * NS_PER_S)

/* Returns when the reason began. */
static uint64_t note_reason(struct blocked *blocked, const struct snapshot *s)
{
    struct blocked_past *past = &blocked->past[blocked->by];
    bool lasts = past->found_ns > 0 && s->taken_ns - past->found_ns <= GAP_NS;
    if (!lasts)
        past->since_ns = blocked->by == s->lack.by && s->lack.since_ns < s->taken_ns
                             ? s->lack.since_ns
                             : s->taken_ns;
    past->found_ns = s->taken_ns;
    return past->since_ns;
}

void blocked_find(struct snapshot *snapshot, bool by_signal)
{
    struct blocked *blocked = &snapshot->blocked;
    blocked->by = reason_of(snapshot, by_signal);
    blocked->wanted = blocked->free = blocked->limit = 0;
    blocked->for_s = 0;
    explain(blocked, snapshot);
    if (blocked->by != BLOCKED_BY_NOTHING)
        blocked->for_s = clock_ms(note_reason(blocked, snapshot), snapshot->taken_ns) / 1e3;
}
