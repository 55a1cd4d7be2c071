#include "tests/tools/fleet.h"

#include "conf/log.h"
#include "queue/job/instance.h"
#include "queue/lease/queue.h"

/* ---- leases of a daemon elsewhere ------------------------------------------------------------ */

struct foreign {
    uv_loop_t loop;
    struct queue *queue;
    unsigned taken;
};

static void foreign_leased(void *context, struct lease *lease)
{
    ((struct foreign *)context)->taken++;
}

static void foreign_lost(void *context, struct lease *lease)
{
}

static void foreign_settled(void *context, struct lease *lease, bool stale, bool dead)
{
}

static void foreign_start_decided(void *context, struct lease *lease, enum start_decision decision,
                                  const char *kept)
{
}

bool fleet_lease_elsewhere(struct fleet *fleet)
{
    struct foreign foreign = {0};
    struct queue_events events = {&foreign, foreign_leased, foreign_lost, foreign_settled,
                                  foreign_start_decided};
    char self[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX], name[INSTANCE_BYTES_MAX + 16];
    if (!instance_self(self, daemon))
        return false;
    snprintf(name, sizeof name, "elsewhere%s", strchr(self, ':'));
    struct queue_config config = {
        .redis = fleet->world.redis->address, .ns = fleet->world.ns, .instance = name,
        .lease_s = 36000, .renew_s = 3600, .reap_s = 3600, .retry_delay_s = 1, .block_s = 1,
        .connect_timeout_s = 5, .command_timeout_s = 60, .auth_retry_s = 1, .attempts = 3,
        .batch = QUEUE_BATCH_MAX, .result_ttl_s = 60, .results_max = 1000, .dead_max = 1000};
    struct error error = {0};
    log_set_level(LOG_LEVEL_WARNING);
    uv_loop_init(&foreign.loop);
    foreign.queue = queue_create(&foreign.loop, &config, &events, &error);
    if (!foreign.queue) {
        printf("%s\n", error.text);
        return false;
    }
    queue_start(foreign.queue);
    queue_set_places(foreign.queue, fleet->leases);
    double deadline = process_now() + WAIT_S;
    while (foreign.taken < fleet->leases && process_now() < deadline)
        uv_run(&foreign.loop, UV_RUN_ONCE);
    queue_destroy(foreign.queue); /* without LEAVE */
    uv_run(&foreign.loop, UV_RUN_DEFAULT);
    uv_loop_close(&foreign.loop);
    return foreign.taken == fleet->leases;
}
