/* queue_servers.c - see queue_servers.h.
 *
 * Each server is a redis-server without persistence, which has one shard. Clerks (queue_clerk.h)
 * serve all shards; with a program, daemons do so instead. If the host has a CPU for each server
 * and one more, each server is pinned to a CPU of its own and the clients run on the others.
 *
 * All jobs are in the lists before the start. The clock runs from the moment when every server has
 * done a tenth of its jobs until the first one has done nine tenths, so that all servers are busy.
 * Then the jobs run to the end, and each must have exactly one result. */
#include "tests/bench/queue_servers.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/queue_clerk.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/world.h"

#define SERVERS_MAX 16
#define ROUNDS_MAX 31
#define PUSH 1000 /* jobs per LPUSH */
#define START_S 60.0
#define RUN_S 120.0

enum figure { JOBS_S, REDIS_US, CLERK_US, BUSY, BATCH, FIGURES };

struct rig {
    unsigned servers, clerks, cpus; /* cpus: that this process may use */
    bool pinned;
    unsigned jobs;
    struct redis_server *redis[SERVERS_MAX];
    redisContext *clients[SERVERS_MAX];
    pid_t pids[CLERKS_MAX];
    struct clerk_plan plan;
    cpu_set_t clerk_cpus;
    bool real;          /* daemons instead of clerks */
    struct world world; /* of the daemons */
};

/* Totals so far. */
struct tally {
    double now, redis_s, clerks_s;
    uint64_t least, most, all; /* jobs of a server, and of all servers */
};

/* ---- CPUs ------------------------------------------------------------------------------------ */

static double process_s(pid_t pid)
{
    clockid_t clock;
    return clock_getcpuclockid(pid, &clock) == 0 ? clock_s(clock) : 0;
}

static void pin(struct rig *rig)
{
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    rig->cpus = (unsigned)CPU_COUNT(&all);
    rig->pinned = rig->cpus > rig->servers;
    rig->clerk_cpus = all;
    unsigned server = 0;
    for (int cpu = 0; rig->pinned && cpu < CPU_SETSIZE && server < rig->servers; cpu++) {
        cpu_set_t one;
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        CPU_CLR(cpu, &rig->clerk_cpus);
        sched_setaffinity(rig->redis[server++]->pid, sizeof one, &one);
    }
}

/* ---- one run --------------------------------------------------------------------------------- */

static void open_servers(struct rig *rig, const struct servers_bench *bench)
{
    rig->jobs = (bench->jobs + PUSH - 1) / PUSH * PUSH;
    for (unsigned i = 0; i < rig->servers; i++) {
        struct clerk_shard *shard = &rig->plan.shards[i];
        rig->redis[i] = redis_server_start("--appendonly", "no", NULL);
        rig->clients[i] = redis_server_connect(rig->redis[i]);
        shard->redis = bench->tcp ? rig->redis[i]->tcp : rig->redis[i]->address;
        snprintf(shard->ns, sizeof shard->ns,
                 bench->daemon && rig->servers == 1 ? "gpuimgd" : "{gpuimgd:%u}", i);
    }
    pin(rig);
    rig->clerks = bench->clerks ? bench->clerks * rig->servers
                                : rig->cpus > rig->servers ? rig->cpus - rig->servers : 1;
    if (rig->clerks > CLERKS_MAX)
        rig->clerks = CLERKS_MAX;
    rig->plan.shard_count = rig->servers;
    rig->plan.places = bench->places;
    rig->plan.batch = bench->batch;
    rig->plan.cpus = &rig->clerk_cpus;
}

static void push_jobs(struct rig *rig)
{
    const char *words[2 + PUSH];
    struct picture_file file =
        picture_png(&(struct picture_png){.width = 8, .height = 8, .colour_type = 2});
    for (unsigned s = 0; s < rig->servers; s++) {
        char list[48], job[256];
        const char *ns = rig->plan.shards[s].ns;
        snprintf(job, sizeof job, "{\"input\":{\"key\":\"%s:img:in\"},\"output\":{\"key\":"
                 "\"%s:img:out\",\"format\":\"png\"},\"ops\":[]}", ns, ns);
        for (unsigned i = 0; i < PUSH; i++)
            words[2 + i] = rig->real ? job : CLERK_JOB;
        if (rig->real) {
            freeReplyObject(redis_command(rig->clients[s], "SET %s:paused 1", ns));
            freeReplyObject(redis_command(rig->clients[s], "SET %s:img:in %b", ns, file.bytes,
                                          file.length));
        }
        snprintf(list, sizeof list, "%s:jobs", rig->plan.shards[s].ns);
        words[0] = "LPUSH";
        words[1] = list;
        for (unsigned i = 0; i < rig->jobs; i += PUSH)
            freeReplyObject(redisCommandArgv(rig->clients[s], 2 + PUSH, words, NULL));
        freeReplyObject(redis_command(rig->clients[s], "CONFIG RESETSTAT"));
    }
    picture_free(&file);
}

/* Real daemons wait for NS:paused to go. */
static bool start_daemons(struct rig *rig, const struct servers_bench *bench)
{
    char redis[1024] = "--redis=";
    for (unsigned s = 0; s < rig->servers; s++)
        snprintf(redis + strlen(redis), sizeof redis - strlen(redis), "%s%s", s ? " " : "",
                 rig->plan.shards[s].redis);
    const char *extra[] = {redis, "--workers=1", "--lease_s=60", "--renew_s=5", "--reap_s=10",
                           "--block_s=0.1", "--stats_interval_s=0", "--results_max=100000000",
                           "--log_level=warning", text_of("--inflight=%u", bench->places),
                           text_of("--batch=%u", bench->batch),
                           rig->servers > 1 ? text_of("--shards=%u", rig->servers) : NULL, NULL};
    const struct process_options how = {.program = bench->daemon};
    world_open(&rig->world, NULL);
    for (unsigned i = 0; i < rig->clerks; i++) {
        world_start_with(&rig->world, i, &how, extra);
        if (rig->pinned)
            sched_setaffinity(rig->world.daemons[i].pid, sizeof rig->clerk_cpus, &rig->clerk_cpus);
    }
    for (unsigned i = 0; i < rig->clerks; i++) {
        if (!world_ready(&rig->world.daemons[i]))
            return false;
        rig->pids[i] = rig->world.daemons[i].pid;
    }
    return true;
}

static bool start_clerks(struct rig *rig)
{
    rig->plan.board = clerk_board_new();
    if (!rig->plan.board)
        return false;
    for (unsigned i = 0; i < rig->clerks; i++)
        if ((rig->pids[i] = clerk_start(&rig->plan, i)) < 0)
            return false;
    return await(START_S, rig->plan.board->ready == rig->clerks);
}

static struct tally tally_now(const struct rig *rig)
{
    struct tally tally = {.now = process_now(), .least = UINT64_MAX};
    for (unsigned s = 0; s < rig->servers; s++) {
        uint64_t jobs = 0;
        for (unsigned i = 0; i < rig->clerks && !rig->real; i++)
            jobs += rig->plan.board->settled[i][s];
        if (rig->real)
            jobs = (uint64_t)redis_integer(rig->clients[s], "LLEN %s:results",
                                           rig->plan.shards[s].ns);
        tally.least = jobs < tally.least ? jobs : tally.least;
        tally.most = jobs > tally.most ? jobs : tally.most;
        tally.all += jobs;
        tally.redis_s += process_s(rig->redis[s]->pid);
    }
    for (unsigned i = 0; i < rig->clerks; i++)
        tally.clerks_s += process_s(rig->pids[i]);
    return tally;
}

/* Waits until a server with the least (or the most) jobs has this share of them. */
static bool wait_for(const struct rig *rig, double share, bool most, struct tally *tally)
{
    double end = process_now() + patience(RUN_S);
    do {
        *tally = tally_now(rig);
        if ((double)(most ? tally->most : tally->least) >= share * rig->jobs)
            return true;
        process_sleep(rig->real ? 0.02 : 0.001);
    } while (tally->now < end);
    printf("%u servers: a run took longer than %g s\n", rig->servers, RUN_S);
    return false;
}

static bool end_daemons(struct rig *rig)
{
    bool good = true;
    for (unsigned i = 0; i < rig->clerks; i++)
        process_signal(&rig->world.daemons[i], SIGTERM);
    for (unsigned i = 0; i < rig->clerks; i++) {
        good &= process_wait(&rig->world.daemons[i], 30) == 0;
        rig->pids[i] = 0;
    }
    return good;
}

/* Ends the clerks. Each job must have one result, and no lease may be left. */
static bool finish(struct rig *rig)
{
    bool good = !rig->real || end_daemons(rig);
    if (!rig->real)
        rig->plan.board->stop = true;
    for (unsigned i = 0; i < rig->clerks && !rig->real; i++) {
        int status = -1;
        good &= rig->pids[i] > 0 && waitpid(rig->pids[i], &status, 0) > 0 && status == 0 &&
                rig->plan.board->bad[i] == 0;
        rig->pids[i] = 0;
    }
    for (unsigned s = 0; s < rig->servers; s++) {
        const char *ns = rig->plan.shards[s].ns;
        long long results = redis_integer(rig->clients[s], "LLEN %s:results", ns);
        long long left = redis_integer(rig->clients[s], "EXISTS %s:jobs %s:lease %s:delayed", ns,
                                       ns, ns);
        if (results != rig->jobs || left != 0)
            printf("%s: %lld results of %u jobs, %lld keys left\n", ns, results, rig->jobs, left);
        good &= results == rig->jobs && left == 0;
    }
    return good;
}

static void close_rig(struct rig *rig)
{
    if (rig->real)
        world_close(&rig->world);
    for (unsigned i = 0; i < rig->clerks && !rig->real; i++)
        if (rig->pids[i] > 0) {
            kill(rig->pids[i], SIGKILL);
            waitpid(rig->pids[i], NULL, 0);
        }
    for (unsigned s = 0; s < rig->servers; s++) {
        redisFree(rig->clients[s]);
        redis_server_stop(rig->redis[s]);
    }
    if (rig->plan.board)
        clerk_board_free(rig->plan.board);
}

static bool measure(struct rig *rig, const struct servers_bench *bench, double figures[FIGURES])
{
    struct tally begin, end, last;
    double calls = 0;
    open_servers(rig, bench);
    push_jobs(rig);
    bool good = rig->real ? start_daemons(rig, bench) : start_clerks(rig);
    if (good) {
        if (rig->real)
            for (unsigned s = 0; s < rig->servers; s++)
                redis_integer(rig->clients[s], "DEL %s:paused", rig->plan.shards[s].ns);
        else
            rig->plan.board->go = true;
        good = wait_for(rig, 0.1, false, &begin) && wait_for(rig, 0.9, true, &end) &&
               wait_for(rig, 1, false, &last) && finish(rig);
    }
    if (good && end.all <= begin.all) {
        printf("%u servers: one had ended before another had begun\n", rig->servers);
        good = false;
    }
    for (unsigned s = 0; good && s < rig->servers; s++)
        calls += redis_info(rig->clients[s], "commandstats", "cmdstat_evalsha:calls=");
    if (good) {
        double jobs = (double)(end.all - begin.all), seconds = end.now - begin.now;
        figures[JOBS_S] = jobs / seconds;
        figures[REDIS_US] = (end.redis_s - begin.redis_s) * 1e6 / jobs;
        figures[CLERK_US] = (end.clerks_s - begin.clerks_s) * 1e6 / jobs;
        figures[BUSY] = (end.redis_s - begin.redis_s) / seconds / rig->servers * 100;
        figures[BATCH] = 2.0 * rig->jobs * rig->servers / fmax(calls, 1); /* FETCH and DONE */
    }
    close_rig(rig);
    return good;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* What `servers` give if one job costs these CPU times: Redis has one CPU per server, and the
 * clerks have the others. Without a CPU for each server all share the CPUs. */
static double predicted(const struct rig *rig, double redis_us, double clerk_us)
{
    double redis = rig->servers * 1e6 / redis_us;
    double rest = rig->pinned ? (rig->cpus - rig->servers) * 1e6 / clerk_us
                              : rig->cpus * 1e6 / (redis_us + clerk_us);
    return fmin(redis, rest);
}

static bool measure_row(const struct servers_bench *bench, unsigned servers, double one[FIGURES])
{
    double all[FIGURES][ROUNDS_MAX], row[FIGURES];
    static struct rig rig;
    for (unsigned round = 0; round < bench->rounds; round++) {
        double figures[FIGURES];
        rig = (struct rig){.servers = servers, .real = bench->daemon != NULL};
        if (!measure(&rig, bench, figures))
            return false;
        for (int f = 0; f < FIGURES; f++)
            all[f][round] = figures[f];
    }
    for (int f = 0; f < FIGURES; f++)
        row[f] = median(all[f], bench->rounds);
    if (one[JOBS_S] <= 0)
        memcpy(one, row, sizeof row);
    double expected = predicted(&rig, one[REDIS_US], one[CLERK_US]);
    printf("%7u %7u %10.0f %7.2f %11.0f %7.2f %9.0f%% %13.2f %14.2f %6.1f  %s\n", servers,
           rig.clerks, row[JOBS_S], row[JOBS_S] / one[JOBS_S], expected, expected / one[JOBS_S],
           row[BUSY], row[REDIS_US], row[CLERK_US], row[BATCH],
           rig.pinned ? "pinned" : "shared CPUs");
    fflush(stdout);
    return true;
}

bool servers_run(const struct servers_bench *bench)
{
    static const struct argument_numbers usual = {3, {1, 2, 4}};
    const struct argument_numbers *counts = bench->counts.count ? &bench->counts : &usual;
    double one[FIGURES] = {0};
    printf("\none shard on each server, %s; %u jobs per server,\n%u places per client%s, batch %u, "
           "%s, no persistence; median of %u rounds;\npredicted from the CPU times of the first "
           "row\n", bench->daemon ? "daemons with 8 x 8 images in keys" : "jobs without any work",
           bench->jobs, bench->places, bench->daemon ? "" : " and server", bench->batch,
           bench->tcp ? "TCP" : "unix sockets", bench->rounds);
    printf("%7s %7s %10s %7s %11s %7s %10s %13s %14s %6s\n", "servers", "clients", "jobs/s",
           "to one", "predicted", "to one", "Redis busy", "Redis us/job", "client us/job", "batch");
    for (unsigned i = 0; i < counts->count; i++)
        if (counts->at[i] < 1 || counts->at[i] > SERVERS_MAX) {
            printf("%u servers: must be 1 to %d\n", counts->at[i], SERVERS_MAX);
            return false;
        } else if (!measure_row(bench, counts->at[i], one)) {
            printf("%u servers: the run failed\n", counts->at[i]);
            return false;
        }
    return true;
}
