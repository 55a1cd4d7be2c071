/*
 * bench_fleet - predicts the load of fleets with the simulator (fleet_sim.h).
 *
 *     bench_fleet [--costs FILE]                  fleets of 1 to 10,000 daemons
 *     bench_fleet --one [--costs FILE] [--count D] [--shards N] [--servers G] [--rate R]
 *                 [--places P] [--workers W] [--service-us S] [--seed N]
 *                 [--names-max N]
 *
 * FIGURES.md has the origin of the costs, and compares the simulator with 1 to 100 real
 * daemons.
 */
#include <math.h>
#include <stdio.h>

#include "tests/fixtures/arguments.h"
#include "tests/fixtures/queue/fleet_sim.h"

static struct {
    const char *costs_path;
    unsigned count, shards, servers, rate, places, workers, service_us, seed, names_max;
    bool one;
    struct fleet_costs costs;
} bench = {.costs_path = "tests/bench/fleet_costs.txt",
           .count = 100,
           .shards = 1,
           .servers = 1,
           .names_max = 100,
           .places = 64,
           .workers = 16,
           .service_us = 5000,
           .seed = 1};

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
        {"costs", .text = &bench.costs_path},        {"one", .flag = &bench.one},
        {"count", .number = &bench.count},           {"shards", .number = &bench.shards},
        {"servers", .number = &bench.servers},       {"rate", .number = &bench.rate},
        {"places", .number = &bench.places},         {"workers", .number = &bench.workers},
        {"service-us", .number = &bench.service_us}, {"seed", .number = &bench.seed},
        {"names-max", .number = &bench.names_max},   {.name = NULL}};
    char error[256];
    if (arguments_read(argc, argv, options) != argc || bench.count < 1 || bench.shards < 1 ||
        bench.shards > FLEET_SHARDS_MAX || bench.servers < 1 || bench.servers > bench.shards ||
        bench.places < 1 || bench.workers < 1) {
        fprintf(stderr, "usage: bench_fleet [--one]; see the source\n");
        return 64;
    }
    if (!fleet_costs_read(bench.costs_path, &bench.costs, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    return bench.one ? print_one() : print_table();
}
