/* test_fleet_sim.c - the simulator of daemons and Redis servers against closed forms. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "tests/fixtures/queue/fleet_sim.h"
#include "tests/fixtures/test.h"

/* Round figures, in us. */
static struct fleet_costs some_costs(void)
{
    struct fleet_costs costs = {.wake = 10, .idle = 1000, .client = 0.5};
    for (int i = 0; i < FLEET_OP_COUNT; i++)
        costs.call[i] = 10;
    costs.item[FLEET_FETCH] = costs.item[FLEET_DONE] = 5;
    costs.item[FLEET_NAMES] = 0.1;
    return costs;
}

static struct fleet_plan some_plan(void)
{
    struct fleet_costs costs = some_costs();
    return fleet_plan_usual(&costs);
}

/* A Redis, a network and a loop that take no time. */
static struct fleet_plan free_plan(void)
{
    struct fleet_plan plan = fleet_plan_usual(&(struct fleet_costs){0});
    plan.rtt_s = plan.gather_s = 0;
    return plan;
}

static struct fleet_result run(const struct fleet_plan *plan)
{
    struct fleet_result result;
    fleet_simulate(plan, &result);
    assert_true(result.pushed == result.done + result.waiting + result.held);
    return result;
}

#define assert_near(value, expected, share)                                                        \
    do {                                                                                           \
        double value_ = (value), expected_ = (expected);                                           \
        if (!(fabs(value_ - expected_) <= (share) * expected_))                                    \
            fail_msg("%s is %g, expected %g", #value, value_, expected_);                          \
    } while (0)

TEST(test_a_saturated_redis_gives_one_job_per_cost)
{
    struct fleet_plan plan = some_plan();
    plan.daemons = 20;
    plan.places = 256;
    plan.batch = 50;
    plan.workers = 1000;
    plan.backlog = true;
    plan.run_s = 1;
    struct fleet_result result = run(&plan);
    /* 10 us of a call for 50 jobs, FETCH and DONE */
    assert_near(result.jobs_s, 1e6 / (5 + 5 + 20.0 / 50), 0.02);
    assert_near(result.busy, 1, 0.02);
}

TEST(test_four_servers_give_four_times_as_much)
{
    struct fleet_plan plan = some_plan();
    plan.daemons = 20;
    plan.places = 1024;
    plan.workers = 1000;
    plan.backlog = true;
    plan.run_s = 0.5;
    double one = run(&plan).jobs_s;
    plan.shards = plan.servers = 4;
    assert_near(run(&plan).jobs_s, 4 * one, 0.03);
}

/* Mean wait of M/D/1: rho S / (2 (1 - rho)); of M/M/1: rho S / (1 - rho). */
TEST(test_one_worker_is_a_queue_of_the_textbook)
{
    struct fleet_plan plan = free_plan();
    double service = 0.01, rho = 0.7;
    plan.workers = 1;
    plan.service_s = service;
    plan.rate = rho / service;
    plan.run_s = 1500;
    plan.block_s = 60;
    struct fleet_result result = run(&plan);
    assert_near(result.jobs_s, plan.rate, 0.02);
    assert_near(result.mean_s, service + rho * service / (2 * (1 - rho)), 0.03);
    plan.exponential = true;
    assert_near(run(&plan).mean_s, service + rho * service / (1 - rho), 0.05);
}

TEST(test_an_idle_fleet_sends_what_the_protocol_says)
{
    struct fleet_plan plan = some_plan();
    plan.daemons = 200;
    plan.warm_s = 20;
    plan.run_s = 60;
    struct fleet_result result = run(&plan);
    assert_near(result.calls_s[FLEET_RENEW], 200 / plan.renew_s, 0.05);
    assert_near(result.calls_s[FLEET_PUBLISH], 200 / plan.renew_s, 0.05);
    assert_near(result.calls_s[FLEET_REAP], 200 / plan.reap_s, 0.05);
    assert_near(result.calls_s[FLEET_BLOCK], 200 / plan.block_s, 0.05);
    assert_near(result.calls_s[FLEET_LOOK], 200 / (0.875 * plan.block_s), 0.05);
    assert_true(result.calls_s[FLEET_FETCH] < 1);
    assert_int_equal(result.pushed, 0);
}

TEST(test_a_push_wakes_one_daemon)
{
    struct fleet_plan plan = some_plan();
    plan.daemons = 50;
    plan.rate = 10;
    plan.paced = true;
    plan.service_s = 0.001;
    plan.run_s = 30;
    struct fleet_result result = run(&plan);
    assert_near(result.jobs_s, 10, 0.02);
    assert_true(result.calls_s[FLEET_FETCH] <= 2 * result.jobs_s);
    assert_true(result.latency_s[0] < 0.003);
}

TEST(test_a_killed_daemon_loses_no_job)
{
    struct fleet_plan plan = some_plan();
    plan.daemons = 5;
    plan.workers = 4;
    plan.service_s = 0.1;
    plan.rate = 100;
    plan.warm_s = 15;
    plan.run_s = 60;
    plan.fault = FLEET_KILL;
    plan.fault_s = 1;
    struct fleet_result result = run(&plan);
    /* the lease was renewed up to renew_s before */
    assert_true(result.recovered_s >= plan.lease_s - plan.renew_s);
    assert_true(result.recovered_s <= plan.lease_s + 1.2 * plan.reap_s + 1.5 * plan.renew_s);
    assert_true(result.waiting + result.held < 100);
    plan.hosts = 1; /* a daemon of the same host sees it */
    assert_true(run(&plan).recovered_s <= 1.2 * plan.reap_s);
}

TEST(test_all_daemons_return_after_an_outage)
{
    struct fleet_plan plan = some_plan();
    plan.daemons = 100;
    plan.service_s = 0.01;
    plan.rate = 200;
    plan.run_s = 30;
    plan.fault = FLEET_DOWN;
    plan.fault_s = 1;
    plan.down_s = 3;
    struct fleet_result result = run(&plan);
    assert_true(result.recovered_s >= 0 && result.recovered_s <= 5.5);
    assert_int_equal(result.lost_leases, 0);
    assert_true(result.waiting + result.held < 100);
}

TEST(test_a_seed_fixes_the_result)
{
    struct fleet_plan plan = some_plan();
    plan.daemons = 10;
    plan.rate = 300;
    plan.service_s = 0.002;
    plan.exponential = true;
    struct fleet_result one = run(&plan), same = run(&plan);
    assert_memory_equal(&one, &same, sizeof one);
    plan.seed = 2;
    assert_true(run(&plan).events != one.events);
}

TEST(test_costs_are_read_and_written)
{
    char path[] = "/tmp/gpuimgd-costs-XXXXXX", error[256] = "";
    struct fleet_costs costs = some_costs(), back;
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fleet_costs_write(&costs, file);
    fclose(file);
    assert_true(fleet_costs_read(path, &back, error, sizeof error));
    assert_memory_equal(&costs, &back, sizeof costs);
    file = fopen(path, "a");
    fputs("unheard 1 2\n", file);
    fclose(file);
    assert_false(fleet_costs_read(path, &back, error, sizeof error));
    assert_non_null(strstr(error, "unheard"));
    unlink(path);
}

TEST_MAIN()
