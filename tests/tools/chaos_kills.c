/* chaos_kills.c - starts, drains and kills the daemons of chaos, and kills the masters. */
#include "tests/tools/chaos.h"

#include <signal.h>
#include <stdlib.h>

#include "tests/fixtures/measure.h"

static int by_value(const void *a, const void *b)
{
    return *(const unsigned *)a < *(const unsigned *)b ? -1 : 1;
}

unsigned *chaos_kill_times(struct chaos *chaos, unsigned kills)
{
    unsigned *times = calloc(kills + 1, sizeof *times);
    if (!times)
        abort();
    for (unsigned i = 0; i < kills; i++)
        times[i] = chaos_pick(chaos, chaos->jobs * 9 / 10);
    qsort(times, kills, sizeof *times, by_value);
    return times;
}

bool chaos_start(struct chaos *chaos, size_t index, bool wait)
{
    static char lease[32], renew[32];
    snprintf(lease, sizeof lease, "--lease_s=%g", patience(LEASE_S));
    snprintf(renew, sizeof renew, "--renew_s=%g", patience(LEASE_S / 5));
    const char *shards = chaos->shards > 1 ? text_of("--shards=%u", chaos->shards) : NULL;
    const char *const extra[] = {lease, renew, "--reap_s=0.4", "--host_bytes=256M",
                                 "--pinned_bytes=256M", shards,
                                 text_of("--redis=%s", chaos->fleet.address), NULL};
    bool first = !chaos->world.daemons[index].log_path[0], was_old = chaos->is_old[index];
    bool is_old = chaos->is_old[index] = chaos->old && (first || chaos_pick(chaos, 2));
    struct process_options how = {.program = is_old ? chaos->old : NULL};
    chaos->switches += !first && was_old != is_old;
    chaos->olds += !first && is_old;
    struct process *daemon = world_start_with(&chaos->world, index, &how, extra);
    chaos->restart_at[index] = 0;
    return !wait || world_ready(daemon);
}

void chaos_drain(struct chaos *chaos, size_t index)
{
    struct process *daemon = &chaos->world.daemons[index];
    int status = -1;
    if (world_ready(daemon)) { /* before that, SIGTERM may end it without a drain */
        process_signal(daemon, SIGTERM);
        status = process_wait(daemon, 30);
    }
    if (status != 0)
        complain(chaos, "daemon %zu exited with %d after SIGTERM", index, status);
    chaos->drained++;
}

static void kill_and_restart(struct chaos *chaos)
{
    double now = process_now();
    for (size_t i = 0; i < chaos->daemons; i++) {
        process_mark(&chaos->world.daemons[i]);
        if (chaos->restart_at[i] > 0 && now >= chaos->restart_at[i])
            chaos_start(chaos, i, false);
        if (chaos->world.daemons[i].pid > 0 && !process_running(&chaos->world.daemons[i])) {
            char *log = process_log(&chaos->world.daemons[i]);
            complain(chaos, "daemon %zu exited, status %d; its log:\n%s", i,
                     chaos->world.daemons[i].status, log);
            free(log);
            chaos->restart_at[i] = now;
        }
    }
    if (chaos->killed == chaos->kills || chaos->answered < chaos->kill_at[chaos->killed])
        return;
    size_t victim = chaos_pick(chaos, chaos->daemons);
    if (!process_running(&chaos->world.daemons[victim]))
        return; /* it is dead; the kill follows later */
    process_sleep(chaos_pick(chaos, 20) * 0.001);
    if (chaos->old && chaos_pick(chaos, 2))
        chaos_drain(chaos, victim);
    else
        process_kill9(&chaos->world.daemons[victim]);
    if (++chaos->killed % 100 == 0) {
        printf("%u kills, %u results\n", chaos->killed, chaos->answered);
        fflush(stdout);
    }
    /* Restarts immediately, or so late that another daemon must take over its jobs. */
    double away = chaos_pick(chaos, 3) ? chaos_pick(chaos, 300) * 0.001 : patience(LEASE_S) * 1.5;
    chaos->restart_at[victim] = process_now() + away;
}

/* Connects to the shards of a master. false: it does not accept writes yet. */
static bool connect_shards(struct chaos *chaos, size_t node)
{
    for (unsigned i = 0; i < chaos->shards; i++) {
        struct shard *shard = &chaos->shard[i];
        if (shard->node != node || shard->client)
            continue;
        redisContext *client = redisConnectUnix(chaos->fleet.nodes[node]->socket);
        redisReply *reply =
            client && !client->err ? redisCommand(client, "SET %s:img:probe 1", shard->ns) : NULL;
        bool good = reply && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        if (good)
            shard->client = client;
        else if (client)
            redisFree(client);
        if (!good)
            return false;
    }
    return true;
}

static void kill_master(struct chaos *chaos, size_t node)
{
    for (unsigned i = 0; i < chaos->shards; i++) {
        struct shard *shard = &chaos->shard[i];
        if (shard->node == node && shard->client)
            redisFree(shard->client);
        if (shard->node == node)
            shard->client = NULL;
    }
    redis_server_kill9(chaos->fleet.nodes[node]);
    chaos->masters_killed++;
    /* Some are away for longer than a lease. */
    double away = chaos_pick(chaos, 3) ? chaos_pick(chaos, 1000) * 0.001 : patience(LEASE_S) * 2;
    chaos->back_at[node] = process_now() + away;
}

static void restart_masters(struct chaos *chaos)
{
    for (size_t node = 0; node < chaos->fleet.count; node++) {
        struct redis_server *server = chaos->fleet.nodes[node];
        if (chaos->back_at[node] == 0 || process_now() < chaos->back_at[node])
            continue;
        if (!server->pid)
            redis_server_restart_nowait(server);
        if (connect_shards(chaos, node))
            chaos->back_at[node] = 0;
    }
}

static void kill_masters(struct chaos *chaos)
{
    restart_masters(chaos);
    if (chaos->masters_killed == chaos->master_kills ||
        chaos->answered < chaos->master_kill_at[chaos->masters_killed])
        return;
    size_t node = chaos->shard[chaos_pick(chaos, chaos->shards)].node;
    if (chaos->back_at[node] == 0)
        kill_master(chaos, node);
}

bool chaos_all_masters_run(struct chaos *chaos)
{
    restart_masters(chaos);
    for (unsigned i = 0; i < chaos->shards; i++)
        if (!chaos->shard[i].client)
            return false;
    return true;
}

void chaos_kill(struct chaos *chaos)
{
    kill_and_restart(chaos);
    kill_masters(chaos);
}
