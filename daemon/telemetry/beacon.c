#include "daemon/telemetry/beacon.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "conf/clock.h"
#include "conf/limits.h"
#include "daemon/pipeline/work.h"

/* Some 900, and 130 a device. */
#define TEXT_BYTES (1024 + 192 * DEVICES_MAX)

void beacon_init(struct beacon *beacon, const struct beacon_parts *parts)
{
    *beacon = (struct beacon){.parts = *parts, .state = "running", .began_ns = clock_now_ns()};
}

__attribute__((format(printf, 3, 4))) static void add(char *text, size_t *length,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int more = vsnprintf(text + *length, TEXT_BYTES - *length, format, args);
    va_end(args);
    *length += more > 0 && (size_t)more < TEXT_BYTES - *length ? (size_t)more : 0;
}

/* The stages that stats_totals knows the times of, by its places. */
static int timed(enum stage stage)
{
    switch (stage) {
    case STAGE_READ:
        return STATS_READ;
    case STAGE_DECODE:
        return STATS_DECODE;
    case STAGE_GPU:
        return STATS_GPU;
    case STAGE_ENCODE:
        return STATS_ENCODE;
    default:
        return -1;
    }
}

static void add_devices(const struct beacon_parts *parts, char *text, size_t *length)
{
    stats_take_activity(parts->stats, parts->engine);
    for (uint32_t d = 0; d < engine_devices(parts->engine); d++) {
        const struct engine_activity *sums = stats_activity(parts->stats, d);
        add(text, length,
            "%s{\"name\":\"%s\",\"busy_s\":%.6f,\"up_s\":%.6f,\"kernel_s\":%.6f,\"down_s\":%.6f}",
            d ? "," : "", engine_name(parts->engine, d), sums->any_s, sums->h2d_s, sums->kernel_s,
            sums->d2h_s);
    }
}

static void write_text(const struct beacon *beacon, const struct stats_totals *totals,
                       uint64_t now_ns, char *text)
{
    const struct beacon_parts *parts = &beacon->parts;
    uint32_t slots = engine_slots(parts->engine);
    uint32_t busy = pipeline_in_stage(parts->pipeline, STAGE_GPU);
    size_t length = 0;
    add(text, &length,
        "{\"up_s\":%.3f,\"state\":\"%s\",\"engine\":\"%s\",\"workers\":%" PRIu64
        ",\"streams\":%u,\"streams_busy\":%u,\"in_flight\":%u,\"oldest_s\":%.1f",
        clock_ms(beacon->began_ns, now_ns) / 1e3, beacon->state, engine_name(parts->engine, 0),
        parts->options->workers, slots, busy < slots ? busy : slots,
        pipeline_inflight(parts->pipeline), pipeline_oldest_s(parts->pipeline));
    add(text, &length,
        ",\"jobs\":%" PRIu64 ",\"done\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"dead\":%" PRIu64
        ",\"retried\":%" PRIu64 ",\"images\":%" PRIu64 ",\"pixels\":%" PRIu64
        ",\"bytes_in\":%" PRIu64 ",\"bytes_out\":%" PRIu64 ",\"stages\":{",
        totals->jobs, totals->done, totals->failed, totals->dead, totals->retried, totals->images,
        totals->pixels, totals->bytes_in, totals->bytes_out);
    for (enum stage stage = 0; stage < STAGE_COUNT; stage++) {
        int time = timed(stage);
        add(text, &length, "%s\"%s\":{\"now\":%u", stage ? "," : "", pipeline_stage_name(stage),
            pipeline_in_stage(parts->pipeline, stage));
        if (time >= 0)
            add(text, &length, ",\"jobs\":%" PRIu64 ",\"ms\":%.3f", totals->stage_count[time],
                totals->stage_ms[time]);
        add(text, &length, "}");
    }
    add(text, &length, "},\"devices\":[");
    add_devices(parts, text, &length);
    add(text, &length, "]}");
}

void beacon_tell(struct beacon *beacon)
{
    const struct options *options = beacon->parts.options;
    struct stats_totals totals;
    char text[TEXT_BYTES];
    uint64_t now_ns = clock_now_ns();
    stats_totals(beacon->parts.stats, &totals);
    bool moved = totals.jobs != beacon->told_jobs || beacon->state != beacon->told_state ||
                 pipeline_inflight(beacon->parts.pipeline) > 0;
    if (!moved && !beacon->moved && clock_ms(beacon->told_ns, now_ns) < options->renew_s * 1e3)
        return;
    beacon->moved = moved;
    write_text(beacon, &totals, now_ns, text);
    queue_publish(beacon->parts.queue, text, options->lease_s);
    beacon->told_ns = now_ns;
    beacon->told_jobs = totals.jobs;
    beacon->told_state = beacon->state;
}
