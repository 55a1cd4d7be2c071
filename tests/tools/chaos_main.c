/*
 * chaos - runs jobs of all kinds, kills daemons at random moments, and checks that none is lost.
 *
 *     chaos [--daemon PATH] [--jobs 10000] [--kills 20] [--daemons 2] [--seed N]
 *           [--old PATH] [--plain]
 *     chaos --rss [--jobs 20000]
 *     chaos --shards 4 [--daemons 3] [--kills 100] [--master-kills 10] ...
 *
 * Several daemons work on one private Redis. Each kill is a SIGKILL at a seeded random moment;
 * the daemon restarts at once or after its leases have expired. At the end each job must have
 * exactly one result of the right kind, each image must be correct, and no keys or files may be
 * left.
 *
 * --old is the daemon of another version. All daemons start with it; each restart takes one of the
 * two programs at random. Half of the kills are then drains by SIGTERM, as in a rolling upgrade.
 * --plain uses no priorities.
 *
 * With --rss no daemon is killed, and the resident memory of one daemon after 2,000 jobs is
 * compared with that after all jobs.
 *
 * With --shards the jobs are in several shards on a Redis Cluster of three masters. A master that
 * is killed comes back with its append-only file, which it writes before each reply. So it keeps
 * all that it has acknowledged, and each job still has exactly one result. A failover to a replica
 * could undo a FETCH or DONE, because replication is asynchronous; test_cluster.c covers that, with
 * WAIT after each push. The masters are killed while this client has no command outstanding, so it
 * knows what it has pushed.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/tools/chaos.h"

#define QUEUE_DEPTH 400      /* limit of jobs without a result */
#define STALL_S 60.0         /* fail after this time without a result */
#define RSS_GROWTH_MAX 1.05
#define IDLE_S 5.0           /* until an idle daemon returns malloc's memory */

/* ---- shared by the parts --------------------------------------------------------------------- */

uint32_t chaos_pick(struct chaos *chaos, uint32_t below)
{
    return picture_random(&chaos->random) % below;
}

void chaos_complain(struct chaos *chaos, const char *text)
{
    if (++chaos->errors <= 20)
        printf("chaos: WRONG: %s\n", text);
}

struct shard *chaos_shard(struct chaos *chaos, unsigned id)
{
    const char *text = text_of("%u", id);
    return &chaos->shard[shard_of_id(text, strlen(text), chaos->shards)];
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Many restarts take longer than their jobs on a fast machine. */
static bool waits_for_kills(const struct chaos *chaos)
{
    return chaos->old && chaos->killed < chaos->kills &&
           chaos->answered > chaos->kill_at[chaos->killed] + QUEUE_DEPTH / 4;
}

static void run(struct chaos *chaos)
{
    double heard = process_now();
    while (chaos->answered < chaos->jobs) {
        bool deep = chaos->pushed - chaos->answered >= QUEUE_DEPTH || waits_for_kills(chaos);
        if (chaos->deferred > 0 || !deep)
            chaos_push(chaos, deep ? 0 : 100);
        if (chaos_take(chaos) > 0)
            heard = process_now();
        else
            process_sleep(0.002);
        chaos_kill(chaos);
        if (process_now() - heard > patience(STALL_S)) {
            complain(chaos, "no result for %.0f s; %u of %u have arrived", patience(STALL_S),
                     chaos->answered, chaos->jobs);
            return;
        }
    }
}

/* NS:inst keeps dead daemons for ten leases. */
static void check_names(struct chaos *chaos, const struct shard *shard)
{
    long long names = 0;
    if (!await(LEASE_S * 14, (names = redis_integer(shard->client, "ZCARD %s:inst", shard->ns)) ==
                                 chaos->daemons))
        complain(chaos, "%s:inst has %lld entries, %u daemons run", shard->ns, names,
                 chaos->daemons);
}

static void check_keys(struct chaos *chaos, const struct shard *shard)
{
    struct world one = chaos->world;
    char names[2048];
    one.client = shard->client;
    snprintf(one.ns, sizeof one.ns, "%s", shard->ns);
    if (world_leftovers(&one, names, sizeof names))
        complain(chaos, "keys are left:%s", names);
}

/* Checks the state after every job has its result. */
static void check_end(struct chaos *chaos)
{
    struct world *w = &chaos->world;
    unsigned nonsense = chaos->tally[NONSENSE].pushed, silent = 0, kept = 0;
    if (!await(60, chaos_all_masters_run(chaos))) {
        complain(chaos, "a master does not come back");
        return;
    }
    for (size_t i = 0; i < chaos->daemons; i++)
        if (!process_running(&w->daemons[i]))
            chaos_start(chaos, i, true);
    for (unsigned i = 0; i < chaos->shards; i++)
        check_names(chaos, &chaos->shard[i]);
    chaos_take(chaos);
    chaos_await_twins(chaos);
    for (size_t i = 0; i < chaos->daemons; i++)
        chaos_drain(chaos, i);
    while (chaos_take(chaos) > 0)
        continue;
    for (unsigned i = 0; i < chaos->jobs; i++) {
        if (chaos->job[i].kind == NONSENSE)
            continue;
        silent += chaos->job[i].results == 0;
        kept += redis_integer(chaos_shard(chaos, i)->client, "EXISTS %s:result:%u",
                              chaos_shard(chaos, i)->ns, i) == 1;
    }
    if (silent || chaos->nonsense_answered != nonsense)
        complain(chaos, "%u jobs have no result; %u of %u without id have", silent,
                 chaos->nonsense_answered, nonsense);
    if (kept != chaos->jobs - nonsense)
        complain(chaos, "%u of %u results are kept by id", kept, chaos->jobs - nonsense);
    chaos_check_twins(chaos);
    for (unsigned i = 0; i < chaos->shards; i++)
        check_keys(chaos, &chaos->shard[i]);
    if (text_file_count(w->out, ".tmp"))
        complain(chaos, "%zu temporary files are left", text_file_count(w->out, ".tmp"));
    if (text_file_count(w->out, "/never/"))
        complain(chaos, "failed jobs left outputs");
}

static int report(const struct chaos *chaos, double seconds)
{
    unsigned dead = 0;
    printf("%-20s %8s %8s %8s %8s %8s  %s\n", "kind", "pushed", "done", "failed", "dead", "wrong",
           "due");
    for (size_t i = 0; i < KINDS; i++) {
        const struct tally *t = &chaos->tally[i];
        const struct kind_row *kind = &chaos_kinds[i];
        printf("%-20s %8u %8u %8u %8u %8u  %s\n", kind->name, t->pushed, t->done, t->failed,
               t->dead, t->wrong, *kind->code ? kind->code : "done");
        dead += t->dead;
    }
    printf("%u jobs, %u results, %u daemons, %u kills, %.1f s, %.0f jobs/s\n", chaos->jobs,
           chaos->answered, chaos->daemons, chaos->killed, seconds, chaos->jobs / seconds);
    if (chaos->shards > 1)
        printf("%u shards on a Cluster, %u kills of masters\n", chaos->shards,
               chaos->masters_killed);
    printf("%u jobs were tried more than once, at most %u times; %u used up their attempts\n",
           chaos->repeated, chaos->attempts_most, dead + chaos->twins_dead);
    if (chaos->old)
        printf("%u of the kills were drains; %u restarts with the old program, %u with another "
               "than before\n", chaos->drained - chaos->daemons, chaos->olds, chaos->switches);
    bool right = chaos->errors == 0 && chaos->killed == chaos->kills &&
                 chaos->masters_killed == chaos->master_kills;
    printf("%s: %u errors\n", right ? "PASSED" : "FAILED", chaos->errors);
    return right ? 0 : 1;
}

static void open_shards(struct chaos *chaos)
{
    fleet_start_cluster(&chaos->fleet, 0, "{gpuimgd:0}");
    for (unsigned i = 0; i < chaos->shards; i++) {
        struct shard *shard = &chaos->shard[i];
        snprintf(shard->ns, sizeof shard->ns, "{gpuimgd:%u}", i);
        fleet_integer(&chaos->fleet, "DEL %s:none", shard->ns); /* finds the owner */
        shard->node = chaos->fleet.owner;
        shard->client = redis_server_connect(chaos->fleet.nodes[shard->node]);
        printf("%s is on master %zu\n", shard->ns, shard->node);
    }
}

static void open_chaos(struct chaos *chaos)
{
    world_open(&chaos->world, chaos->shards > 1 ? NULL : redis_server_start(NULL, NULL));
    if (chaos->shards > 1) {
        open_shards(chaos);
    } else {
        chaos->shard[0].client = chaos->world.client;
        strcpy(chaos->shard[0].ns, chaos->world.ns);
        strcpy(chaos->fleet.address, chaos->world.redis->address);
    }
    chaos->job = calloc(chaos->jobs, sizeof *chaos->job);
    if (!chaos->job)
        abort();
    chaos->kill_at = chaos_kill_times(chaos, chaos->kills);
    chaos->master_kill_at = chaos_kill_times(chaos, chaos->master_kills);
    chaos_put_inputs(chaos);
}

static void close_chaos(struct chaos *chaos)
{
    for (size_t i = 0; i < INPUTS * CHAINS * 2; i++)
        free((&chaos->proven[0][0][0] + i)->bytes);
    free(chaos->job);
    free(chaos->kill_at);
    free(chaos->master_kill_at);
    world_close(&chaos->world);
    for (unsigned i = 0; chaos->shards > 1 && i < chaos->shards; i++)
        if (chaos->shard[i].client)
            redisFree(chaos->shard[i].client);
    if (chaos->shards > 1)
        fleet_stop(&chaos->fleet);
}

static int chaos_run(struct chaos *chaos)
{
    int status = 1;
    printf("chaos: %u jobs, %u daemons, %u kills, seed %u\n", chaos->jobs, chaos->daemons,
           chaos->kills, chaos->random);
    fflush(stdout);
    open_chaos(chaos);
    bool ready = true;
    for (size_t i = 0; i < chaos->daemons; i++)
        ready = ready && chaos_start(chaos, i, true);
    if (ready) {
        double start = process_now();
        run(chaos);
        double seconds = process_now() - start;
        check_end(chaos);
        status = report(chaos, seconds);
    }
    close_chaos(chaos);
    return status;
}

static int rss_run(struct chaos *chaos)
{
    const unsigned marks[] = {2000, chaos->jobs};
    size_t kib[2] = {0, 0};
    chaos->kills = 0;
    chaos->daemons = 1;
    open_chaos(chaos);
    bool ready = chaos_start(chaos, 0, true);
    for (size_t i = 0; ready && i < 2; i++) {
        chaos->jobs = marks[i];
        run(chaos);
        process_sleep(IDLE_S);
        kib[i] = process_rss_kib(&chaos->world.daemons[0]);
        printf("resident after %6u jobs: %8zu KiB\n", marks[i], kib[i]);
        fflush(stdout);
    }
    double ratio = kib[0] ? (double)kib[1] / (double)kib[0] : 99;
    bool right = ready && !chaos->errors && ratio <= RSS_GROWTH_MAX;
    printf("ratio %.3f, at most %.2f is allowed: %s\n", ratio, RSS_GROWTH_MAX,
           right ? "PASSED" : "FAILED");
    close_chaos(chaos);
    return right ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct chaos chaos;
    chaos = (struct chaos){
        .kills = 20, .daemons = 2, .shards = 1, .random = (uint32_t)time(NULL) | 1};
    const char *daemon = getenv("GPUIMGD");
    bool rss = false;
    const struct argument options[] = {
        {"daemon", .text = &daemon},        {"jobs", .number = &chaos.jobs},
        {"kills", .number = &chaos.kills},  {"daemons", .number = &chaos.daemons},
        {"shards", .number = &chaos.shards}, {"master-kills", .number = &chaos.master_kills},
        {"seed", .number = &chaos.random},  {"old", .text = &chaos.old},
        {"plain", .flag = &chaos.plain},    {"rss", .flag = &rss},
        {.name = NULL}};
    bool usable = arguments_read(argc, argv, options) == argc;
    if (chaos.random == 0)
        chaos.random = 1;
    if (chaos.jobs == 0)
        chaos.jobs = rss ? 20000 : 10000;
    bool sharded = chaos.shards > 1 && chaos.shards <= SHARDS_MAX;
    usable = usable && (sharded || (chaos.shards == 1 && chaos.master_kills == 0));
    if (!usable || !daemon || chaos.daemons == 0 || chaos.daemons > WORLD_DAEMONS_MAX) {
        fprintf(stderr, "usage: chaos --daemon PATH [--jobs N] [--kills N] [--daemons 1-%d] "
                        "[--seed N] [--old PATH] [--plain] [--rss] "
                        "[--shards 2-%d [--master-kills N]]\n",
                WORLD_DAEMONS_MAX, SHARDS_MAX);
        return 64;
    }
    setenv("GPUIMGD", daemon, 1);
    return rss ? rss_run(&chaos) : chaos_run(&chaos);
}
