/*
 * bench_fleet - compares the simulator of the fleet (fleet_sim.h) with 1 to 100 real daemons.
 *
 *     bench_fleet --daemon PATH [--costs FILE] [--daemons 1 ...] [--kills 3]
 *     bench_fleet --table [--costs FILE]
 *     bench_fleet --one [--costs FILE] [--count D] [--shards N] [--servers G] [--rate R]
 *                 [--places P] [--workers W] [--service-us S] [--seed N]
 *                 [--names-max N]
 *
 * The first form starts real daemons with small jobs on one Redis without persistence. A figure of
 * Redis is the CPU time of its process. For each number of daemons:
 *   idle      calls of scripts, and CPU time of Redis, per second
 *   push      from the push of a single job to its result, all daemons idle: the median
 *   load      CPU time of Redis at a steady rate of jobs
 *   kill      kill -9 of a daemon that holds jobs, until others have leased them: on the same host,
 *             and on another one (only root can give a daemon another host name)
 *   restart   from the start of a killed Redis until all daemons are connected
 * The simulator gets the costs (without --costs, they are measured at the start) and the same
 * options. The times of a job and of the network are those of the first number of daemons. Times
 * after a kill or a restart are random: the median of three is compared with the median, the least
 * and the most of 200 seeds.
 *
 * --table predicts fleets of 1 to 10,000 daemons. --one predicts one fleet.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/queue_costs.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/queue/fleet_sim.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/world.h"

#define COSTS "tests/bench/fleet_costs.txt"
#define IDLE_S 3.0
#define IDLE_WINDOWS 3
#define LOAD_S 5.0
#define RATE 400.0
#define PUSHES 41
#define PAUSE_S 0.1
#define SLOW_JOBS 8
#define DOWN_S 1.0
#define SEEDS 200
#define KILLS_MAX 15
#define SLACK_S 0.3 /* of the measurement: starts of processes, polls, a busy machine */

#define LEASE_S 6.0
#define RENEW_S 1.0
#define REAP_S 2.0

static struct {
    const char *program, *costs_path;
    struct argument_numbers counts;
    unsigned kills, count, shards, servers, rate, places, workers, service_us, seed, names_max;
    bool table, one;
    struct fleet_costs costs;
    struct world world;
    clockid_t redis;
    double service_s, rtt_s;
} bench = {.kills = 3, .count = 100, .shards = 1, .servers = 1,
           .names_max = 100, .places = 64, .workers = 16, .service_us = 5000, .seed = 1};

/* ---- rows ------------------------------------------------------------------------------------ */

static void row(unsigned daemons, const char *what, const char *unit, double measured,
                double predicted, const char *note)
{
    printf("%-42s %7u %10.2f %10.2f %-6s %+6.0f%%  %s\n", what, daemons, measured, predicted,
           unit, (predicted / measured - 1) * 100, note);
    fflush(stdout);
}

static struct fleet_plan plan_of(unsigned daemons)
{
    struct fleet_plan plan = fleet_plan_usual(&bench.costs);
    plan.daemons = daemons;
    plan.places = 8;
    plan.workers = 1;
    plan.lease_s = LEASE_S;
    plan.renew_s = RENEW_S;
    plan.reap_s = REAP_S;
    plan.rtt_s = bench.rtt_s;
    plan.service_s = bench.service_s;
    plan.hosts = 1;
    plan.warm_s = 10;
    return plan;
}

/* Prints a row for a time that depends on chance. */
static void row_of_chance(struct fleet_plan plan, const char *what, double *measured,
                          unsigned count)
{
    double predicted[SEEDS], most = 0, least = INFINITY;
    for (unsigned i = 0; i < SEEDS; i++) {
        struct fleet_result result;
        plan.seed = i + 1;
        fleet_simulate(&plan, &result);
        predicted[i] = result.recovered_s;
        most = fmax(most, predicted[i]);
        least = fmin(least, predicted[i]);
    }
    double seen_least = INFINITY, seen_most = 0;
    for (unsigned i = 0; i < count; i++) {
        seen_least = fmin(seen_least, measured[i]);
        seen_most = fmax(seen_most, measured[i]);
    }
    char note[96];
    bool inside = seen_least >= least - SLACK_S && seen_most <= most + SLACK_S;
    snprintf(note, sizeof note, "%.2f to %.2f, predicted %.2f to %.2f%s", seen_least, seen_most,
             least, most, inside ? "" : ": OUTSIDE");
    row(plan.daemons, what, "s", median(measured, count), median(predicted, SEEDS), note);
}

/* ---- daemons --------------------------------------------------------------------------------- */

static const char *const small[] = {
    "--workers=1", "--inflight=8", "--pinned_bytes=16M", "--host_bytes=32M",
    "--input_bytes_max=16M", "--lease_s=6", "--renew_s=1", "--reap_s=2", "--stats_interval_s=0",
    "--canary_interval_s=0", "--log_level=warning", NULL};

/* A shell that gives the daemon another host name in a namespace of its own. */
static const char *write_wrapper(void)
{
    const char *path = text_of("%s/elsewhere.sh", bench.world.folder);
    FILE *file = fopen(path, "w");
    if (!file)
        abort();
    fprintf(file, "#!/bin/sh\nexec unshare --uts sh -c 'hostname \"elsewhere-$$\"; exec \"$@\"' - "
                  "%s \"$@\"\n", bench.program);
    fclose(file);
    return chmod(path, 0755) == 0 ? path : NULL;
}

static bool start(size_t from, size_t to, const char *program)
{
    const struct process_options how = {.program = program};
    for (size_t i = from; i < to; i++)
        world_start_with(&bench.world, i, &how, small);
    for (size_t i = from; i < to; i++)
        if (!world_ready(&bench.world.daemons[i]))
            return false;
    return true;
}

static void open_world(void)
{
    world_open(&bench.world, redis_server_start("--appendonly", "no", "--maxclients", "5000",
                                                NULL));
    if (clock_getcpuclockid(bench.world.redis->pid, &bench.redis) != 0)
        abort();
    struct picture_file file =
        picture_png(&(struct picture_png){.width = 8, .height = 8, .colour_type = 2});
    world_put_picture(&bench.world, "in.png", file);
    world_put_slow(&bench.world);
}

/* ---- the phases ------------------------------------------------------------------------------ */

static void measure_network(void)
{
    double times[501];
    for (int i = 0; i < 501; i++) {
        double begin = process_now();
        freeReplyObject(redis_command(bench.world.client, "PING"));
        times[i] = process_now() - begin;
    }
    double redis_s = (bench.costs.call[FLEET_PING] + bench.costs.wake) * 1e-6;
    bench.rtt_s = fmax(median(times, 501) - redis_s, 0);
}

static double script_calls(void)
{
    return redis_info(bench.world.client, "commandstats", "cmdstat_evalsha:calls=");
}

static double script_rate(const struct fleet_result *result)
{
    return result->calls_s[FLEET_RENEW] + result->calls_s[FLEET_LOOK] +
           result->calls_s[FLEET_REAP] + result->calls_s[FLEET_FETCH] +
           result->calls_s[FLEET_DONE];
}

/* CPU time: the least of several windows, because other programs only add to it. */
static void phase_idle(unsigned daemons)
{
    double least = INFINITY;
    process_sleep(3);
    double scripts = script_calls(), begin = process_now();
    for (int i = 0; i < IDLE_WINDOWS; i++) {
        double cpu = clock_s(bench.redis), start_s = process_now();
        process_sleep(IDLE_S);
        least = fmin(least, (clock_s(bench.redis) - cpu) * 1e3 / (process_now() - start_s));
    }
    scripts = (script_calls() - scripts) / (process_now() - begin);
    struct fleet_plan plan = plan_of(daemons);
    struct fleet_result result;
    plan.run_s = 20;
    fleet_simulate(&plan, &result);
    row(daemons, "idle: scripts", "1/s", scripts, script_rate(&result), "");
    row(daemons, "idle: Redis", "ms/s", least, result.busy * 1e3, "");
}

static void push(void)
{
    static unsigned serial;
    freeReplyObject(redis_command(
        bench.world.client,
        "LPUSH gpuimgd:jobs {\"input\":\"in.png\",\"output\":\"out%u.png\",\"ops\":[]}",
        serial++ % 64));
}

static bool take_result(void)
{
    redisReply *reply = redis_command(bench.world.client, "BRPOP gpuimgd:results 30");
    bool good = reply->type == REDIS_REPLY_ARRAY &&
                strstr(reply->element[1]->str, "\"status\":\"done\"");
    freeReplyObject(reply);
    return good;
}

static bool phase_push(unsigned daemons)
{
    double times[PUSHES];
    for (int i = 0; i < PUSHES; i++) {
        double begin = process_now();
        push();
        if (!take_result())
            return false;
        times[i] = process_now() - begin;
        process_sleep(PAUSE_S);
    }
    struct fleet_plan plan = plan_of(daemons);
    struct fleet_result result;
    plan.rate = 1 / PAUSE_S;
    plan.paced = true;
    double measured = median(times, PUSHES);
    fleet_simulate(&plan, &result);
    if (bench.service_s <= 0) /* a result also has a way to its client */
        plan.service_s = bench.service_s =
            fmax(measured - result.latency_s[0] - bench.rtt_s, 1e-6);
    fleet_simulate(&plan, &result);
    row(daemons, "push: from a single push to its result", "ms", measured * 1e3,
        (result.latency_s[0] + bench.rtt_s) * 1e3, "");
    return true;
}

/* The bench sends one LPUSH and one RPOP per job. */
static bool phase_load(unsigned daemons)
{
    unsigned pushed = 0;
    double scripts = script_calls();
    double cpu = clock_s(bench.redis), begin = process_now(), now = begin;
    for (; now < begin + LOAD_S; now = process_now()) {
        if (pushed < (now - begin) * RATE) {
            push();
            pushed++;
            freeReplyObject(redis_command(bench.world.client, "RPOP gpuimgd:results"));
        } else {
            process_sleep(0.0005);
        }
    }
    cpu = (clock_s(bench.redis) - cpu) * 1e3 / (now - begin);
    scripts = (script_calls() - scripts) / (now - begin);
    if (!world_until(&bench.world, 30, 0, "EXISTS gpuimgd:jobs gpuimgd:lease"))
        return false;
    freeReplyObject(redis_command(bench.world.client, "DEL gpuimgd:results"));
    struct fleet_plan plan = plan_of(daemons);
    struct fleet_result result;
    plan.rate = pushed / (now - begin);
    plan.paced = true;
    fleet_simulate(&plan, &result);
    row(daemons, text_of("load: scripts at %.0f jobs/s", RATE), "1/s", scripts,
        script_rate(&result), "");
    row(daemons, text_of("load: Redis at %.0f jobs/s", RATE), "ms/s", cpu, result.busy * 1e3, "");
    return true;
}

static void signal_others(unsigned daemons, int signal)
{
    for (unsigned i = 1; i < daemons; i++)
        process_signal(&bench.world.daemons[i], signal);
}

/* The first daemon alone takes slow jobs and is killed. Returns the time until it has no lease. */
static double kill_once(unsigned daemons)
{
    redisContext *client = bench.world.client;
    signal_others(daemons, SIGUSR2);
    process_sleep(0.3);
    for (int i = 0; i < SLOW_JOBS; i++)
        world_push(&bench.world, "{'input':'slow.png','output':"
                                  "{'path':'slow-%d.png','compression':9}}", i);
    if (!world_until(&bench.world, 30, SLOW_JOBS, "ZCARD gpuimgd:lease"))
        return -1;
    char *own = redis_string(client, "EVAL %s 0",
                             "return redis.call('KEYS', 'gpuimgd:leases:*')[1]");
    signal_others(daemons, SIGUSR2);
    process_kill9(&bench.world.daemons[0]);
    double begin = process_now();
    bool gone = own && world_until(&bench.world, 60, 0, "SCARD %s", own);
    double seconds = process_now() - begin;
    free(own);
    if (!gone || !world_until(&bench.world, 120, 0, "EXISTS gpuimgd:jobs gpuimgd:lease"))
        return -1;
    freeReplyObject(redis_command(client, "DEL gpuimgd:results"));
    return seconds;
}

static bool phase_kill(unsigned daemons, const char *program)
{
    double measured[KILLS_MAX];
    for (unsigned i = 0; i < bench.kills; i++) {
        if (program && i == 0)
            process_kill9(&bench.world.daemons[0]);
        if ((program || i > 0) && !start(0, 1, program))
            return false;
        process_sleep(1 + 0.37 * i); /* another moment between two RENEWs */
        measured[i] = kill_once(daemons);
        if (measured[i] < 0)
            return false;
    }
    struct fleet_plan plan = plan_of(daemons);
    plan.hosts = program ? 0 : 1;
    plan.fault = FLEET_KILL;
    plan.held = SLOW_JOBS;
    plan.run_s = 2 * (LEASE_S + 1.2 * REAP_S + 1.5 * RENEW_S);
    row_of_chance(plan, program ? "kill -9, another host: jobs taken back"
                                : "kill -9, same host: jobs taken back", measured, bench.kills);
    return start(0, 1, NULL);
}

static bool phase_restart(unsigned daemons)
{
    double measured[KILLS_MAX];
    for (unsigned i = 0; i < bench.kills; i++) {
        redis_server_kill9(bench.world.redis);
        process_sleep(DOWN_S);
        double begin = process_now();
        redis_server_restart(bench.world.redis);
        world_reconnect(&bench.world);
        if (clock_getcpuclockid(bench.world.redis->pid, &bench.redis) != 0)
            abort();
        /* Redis lost its data: each daemon writes its name again. */
        while (redis_integer(bench.world.client, "ZCARD gpuimgd:inst") < daemons) {
            if (process_now() > begin + 60)
                return false;
            process_sleep(0.005);
        }
        measured[i] = process_now() - begin;
        process_sleep(2);
    }
    struct fleet_plan plan = plan_of(daemons);
    plan.fault = FLEET_DOWN;
    plan.down_s = DOWN_S;
    plan.run_s = 15;
    row_of_chance(plan, "restart: all daemons are connected", measured, bench.kills);
    return true;
}

static bool compare(unsigned daemons)
{
    open_world();
    const char *elsewhere = geteuid() == 0 ? write_wrapper() : NULL;
    bool good = start(0, daemons, NULL);
    if (good && bench.rtt_s <= 0)
        measure_network();
    if (good)
        phase_idle(daemons);
    good = good && phase_push(daemons) && phase_load(daemons);
    if (good && daemons > 1)
        good = phase_kill(daemons, NULL) && (!elsewhere || phase_kill(daemons, elsewhere));
    good = good && phase_restart(daemons);
    if (!good)
        printf("%u daemons: a phase failed or took too long\n", daemons);
    world_close(&bench.world);
    return good;
}

static int compare_all(void)
{
    static const struct argument_numbers usual = {5, {1, 3, 10, 30, 100}};
    const struct argument_numbers *counts = bench.counts.count ? &bench.counts : &usual;
    setenv("GPUIMGD", bench.program, 1);
    printf("lease_s %g, renew_s %g, reap_s %g; one Redis; costs of %s\n", LEASE_S, RENEW_S,
           REAP_S, bench.costs_path ? bench.costs_path : "this moment");
    printf("%-42s %7s %10s %10s %-6s %7s  %s\n", "what", "daemons", "measured", "predicted", "",
           "", "of several");
    for (unsigned i = 0; i < counts->count; i++)
        if (counts->at[i] < 1 || counts->at[i] > WORLD_DAEMONS_MAX || !compare(counts->at[i]))
            return 1;
    return 0;
}

/* ---- predictions ----------------------------------------------------------------------------- */

/* In percent of a CPU; above 100, calls pile up. */
static double share(double seconds)
{
    return fmin(seconds, 1) * 100;
}

/* The most jobs per second: all lists always have jobs. */
static struct fleet_result saturated(struct fleet_plan plan)
{
    struct fleet_result result;
    plan.backlog = true;
    plan.warm_s = 15; /* until the storm of the start is over */
    plan.run_s = plan.daemons * plan.shards > 20000 ? 2 : 5;
    fleet_simulate(&plan, &result);
    return result;
}

static struct fleet_result resting(struct fleet_plan plan)
{
    struct fleet_result result;
    plan.warm_s = 20;
    plan.run_s = 10;
    fleet_simulate(&plan, &result);
    return result;
}

/* From the start of the servers until all daemons are connected. */
static struct fleet_result restarted(struct fleet_plan plan)
{
    struct fleet_result result;
    plan.warm_s = 20;
    plan.fault = FLEET_DOWN;
    plan.down_s = 10;
    plan.run_s = 100;
    fleet_simulate(&plan, &result);
    return result;
}

static struct fleet_result killed(struct fleet_plan plan)
{
    struct fleet_result result;
    plan.warm_s = 20;
    plan.fault = FLEET_KILL;
    plan.held = plan.places;
    plan.run_s = 60;
    fleet_simulate(&plan, &result);
    return result;
}

static struct fleet_plan plan_of_options(void)
{
    struct fleet_plan plan = fleet_plan_usual(&bench.costs);
    plan.daemons = bench.count;
    plan.shards = bench.shards;
    plan.servers = bench.servers;
    plan.places = bench.places;
    plan.workers = bench.workers;
    plan.service_s = bench.service_us * 1e-6;
    plan.seed = bench.seed;
    plan.names_max = bench.names_max;
    return plan;
}

static void print_fleet(struct fleet_plan plan)
{
    struct fleet_result full = saturated(plan), rest = resting(plan), restart = restarted(plan);
    struct fleet_result kill = plan.daemons > 1 ? killed(plan) : (struct fleet_result){0};
    char lost[32] = "-", back[32] = "never";
    if (plan.daemons > 1)
        snprintf(lost, sizeof lost, "%.1f", kill.recovered_s);
    if (restart.recovered_s >= 0)
        snprintf(back, sizeof back, "%.1f", restart.recovered_s);
    printf("%7u %6u %7u %10.0f %8.0f%% %8llu %8.1f%% %8s %9s %9llu\n", plan.daemons, plan.shards,
           plan.servers, full.jobs_s, share(full.busy), (unsigned long long)full.timeouts,
           share(rest.busy), lost, back, (unsigned long long)restart.timeouts);
    fflush(stdout);
}

static void print_head(void)
{
    printf("%7s %6s %7s %10s %9s %8s %9s %8s %9s %9s\n", "daemons", "shards", "servers",
           "jobs/s", "Redis", "timeouts", "idle", "kill, s", "restart,s", "timeouts");
}

/* One of `shards` equal shards, each on its own server, with its part of a daemon's places and
 * workers. A worker that is less than one becomes one that is as much slower. */
static struct fleet_plan one_of(struct fleet_plan plan, unsigned shards)
{
    double workers = (double)plan.workers / shards;
    plan.shards = plan.servers = 1;
    plan.places = plan.places > shards ? plan.places / shards : 1;
    plan.workers = workers > 1 ? (unsigned)workers : 1;
    plan.service_s *= plan.workers / workers;
    return plan;
}

static int print_table(void)
{
    static const unsigned daemons[] = {1, 10, 100, 1000, 10000}, shards[] = {1, 4, 16, 64};
    struct fleet_plan plan = plan_of_options();
    printf("%u workers and %u places per daemon, %.3g ms per job, one server per shard; costs of "
           "%s\none server:\n", plan.workers, plan.places, plan.service_s * 1e3,
           bench.costs_path);
    print_head();
    for (size_t d = 0; d < sizeof daemons / sizeof *daemons; d++) {
        plan.daemons = daemons[d];
        plan.shards = plan.servers = 1;
        print_fleet(plan);
    }
    printf("jobs/s (Redis, timeouts) by shards:\n%7s", "daemons");
    for (size_t s = 0; s < sizeof shards / sizeof *shards; s++)
        printf(" %26u", shards[s]);
    for (size_t d = 0; d < sizeof daemons / sizeof *daemons; d++) {
        printf("\n%7u", daemons[d]);
        plan.daemons = daemons[d];
        for (size_t s = 0; s < sizeof shards / sizeof *shards; s++) {
            struct fleet_result full = saturated(one_of(plan, shards[s]));
            printf(" %10.0f (%3.0f%%, %8llu)", full.jobs_s * shards[s], share(full.busy),
                   (unsigned long long)full.timeouts * shards[s]);
            fflush(stdout);
        }
    }
    printf("\n");
    return 0;
}

static int print_one(void)
{
    struct fleet_plan plan = plan_of_options();
    struct fleet_result result;
    print_head();
    print_fleet(plan);
    plan.warm_s = 20;
    plan.rate = bench.rate;
    fleet_simulate(&plan, &result);
    printf("at %u jobs/s: %.0f jobs/s, Redis %.1f%%, busiest %.1f%%, latency %.2f ms, 99%% below "
           "%.2f ms, %llu timeouts\ncalls per second:", bench.rate, result.jobs_s,
           share(result.busy), share(result.busy_most), result.latency_s[0] * 1e3,
           result.latency_s[1] * 1e3, (unsigned long long)result.timeouts);
    for (int i = 0; i < FLEET_OP_COUNT; i++)
        if (result.calls_s[i] > 0)
            printf(" %s %.0f", fleet_op_names[i], result.calls_s[i]);
    printf("\n");
    return 0;
}

int main(int argc, char **argv)
{
    const struct argument options[] = {
        {"daemon", .text = &bench.program},      {"costs", .text = &bench.costs_path},
        {"daemons", .numbers = &bench.counts},   {"kills", .number = &bench.kills},
        {"table", .flag = &bench.table},         {"one", .flag = &bench.one},
        {"count", .number = &bench.count},       {"shards", .number = &bench.shards},
        {"servers", .number = &bench.servers},   {"rate", .number = &bench.rate},
        {"places", .number = &bench.places},     {"workers", .number = &bench.workers},
        {"service-us", .number = &bench.service_us}, {"seed", .number = &bench.seed},
        {"names-max", .number = &bench.names_max}, {.name = NULL}};
    char error[256];
    if (arguments_read(argc, argv, options) != argc || bench.kills < 1 ||
        bench.kills > KILLS_MAX || bench.count < 1 || bench.shards < 1 ||
        bench.shards > FLEET_SHARDS_MAX || bench.servers < 1 || bench.servers > bench.shards ||
        bench.places < 1 || bench.workers < 1 ||
        !(bench.program || bench.table || bench.one)) {
        fprintf(stderr, "usage: bench_fleet --daemon PATH | --table | --one; see the source\n");
        return 64;
    }
    if (bench.program && !bench.costs_path) {
        queue_costs_measure(&bench.costs);
        fleet_costs_write(&bench.costs, stdout);
        return compare_all();
    }
    if (!bench.costs_path)
        bench.costs_path = COSTS;
    if (!fleet_costs_read(bench.costs_path, &bench.costs, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    return bench.table ? print_table() : bench.one ? print_one() : compare_all();
}
