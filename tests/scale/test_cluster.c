/*
 * test_cluster.c - three masters, all keys in one slot: the slot moves, its master dies, and
 * nothing is lost.
 *
 * GPUIMGD_SCALE=full adds the failovers, and pushes more.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fixtures/check.h"
#include "tests/fixtures/redis_fleet.h"

#define NS "{gpuimgd}"

static struct world world;
static struct world *const w = &world;
static struct redis_fleet fleet;

static bool full(void)
{
    const char *scale = getenv("GPUIMGD_SCALE");
    return scale && strcmp(scale, "full") == 0;
}

static int open_cluster(size_t replicas)
{
    world_open(w, NULL);
    strcpy(w->ns, NS);
    setenv("TMPDIR", w->folder, 1); /* the servers' folders go with it */
    fleet_start_cluster(&fleet, replicas, NS);
    return 0;
}

static int open_masters(void **state)
{
    (void)state;
    return open_cluster(0);
}

static int open_with_replicas(void **state)
{
    (void)state;
    return open_cluster(2);
}

static int close_world(void **state)
{
    (void)state;
    fleet_stop(&fleet);
    unsetenv("TMPDIR");
    world_close(w);
    return 0;
}

/* It takes few jobs at once, so that some are left when slots move. */
static struct process *start_daemon(size_t index, const char *redis, const char *option)
{
    char address[320];
    snprintf(address, sizeof address, "--redis=%s", redis);
    struct process *daemon = world_start(w, index, address, "--inflight=4", option, NULL);
    check_ready(daemon);
    return daemon;
}

static void finish(size_t daemons)
{
    assert_int_equal(load_check(&fleet), 0);
    for (size_t i = 0; i < daemons; i++)
        check_stop(&w->daemons[i]);
    w->client = redis_server_connect(fleet.nodes[fleet.owner]);
    check_clean(w);
}

/* Key by key, while jobs come in and daemons work; one daemon knows only a node that does not
 * have the slot, before or after. */
static void test_slot_moves_under_load(void **state)
{
    unsigned jobs = full() ? 600 : 150;
    size_t from = fleet.owner, to = (from + 1) % 3, other = (from + 2) % 3, moved = 0;
    (void)state;
    start_daemon(0, fleet.address, NULL);
    struct process *daemon = start_daemon(1, fleet.nodes[other]->tcp, NULL);
    load_push(&fleet, jobs);
    assert_true(load_wait(&fleet, jobs / 5));
    fleet_slot_begin(&fleet, to);
    for (size_t last = 1; last > 0; moved += last) {
        last = fleet_slot_move(&fleet, from, to, full() ? 5 : 20);
        load_push(&fleet, 1);
        process_sleep(0.005);
    }
    process_sleep(patience(0.5)); /* all keys are there, and the daemons still ask here */
    load_push(&fleet, 5);
    fleet_slot_end(&fleet, to);
    assert_true(moved > jobs / 5);
    load_push(&fleet, jobs);
    assert_true(load_wait(&fleet, fleet.pushed));
    assert_int_equal(fleet.owner, to);
    assert_true(process_log_count(daemon, 0, fleet.nodes[to]->tcp) > 0);
    finish(2);
}

/* The first of a slot's keys has moved, or none yet, but all that FETCH names are still here. A
 * script that began here would find its new job's hash missing, halfway, with the job's text
 * already taken from the list. */
static void test_no_script_begins_in_a_moving_slot(void **state)
{
    static const char *const left[] = {"results", "delayed", "alone", "alone:owner", "lease",
                                       "job:1000001"};
    size_t from = fleet.owner, to = (from + 1) % 3;
    (void)state;
    struct process *daemon = start_daemon(0, fleet.address, "--block_s=0.1");
    load_push(&fleet, 1);
    assert_true(load_wait(&fleet, 1));
    fleet_integer(&fleet, "ZADD " NS ":delayed 9999999999999 1000001");
    /* In this order, or the daemon takes what nobody has the right to. */
    freeReplyObject(fleet_command(&fleet, "SET " NS ":alone:owner nobody EX 600"));
    fleet_integer(&fleet, "LPUSH " NS ":alone 1000001");
    fleet_integer(&fleet, "ZADD " NS ":lease 9999999999999 1000001");
    fleet_integer(&fleet, "HSET " NS ":job:1000001 raw x state leased attempt 1");
    process_signal(daemon, SIGUSR2);
    assert_true(process_logged(daemon, 0, "fetching is paused", 10));
    for (int i = 0; i < 10; i++)
        freeReplyObject(fleet_command(&fleet, "LPUSH " NS ":jobs {\"id\":\"none\"}"));
    fleet_slot_begin(&fleet, to);
    process_signal(daemon, SIGUSR2);
    assert_true(process_logged(daemon, 0, "TRYAGAIN", 10));
    process_sleep(patience(1));
    assert_int_equal(fleet_integer(&fleet, "LLEN " NS ":jobs"), 10);
    while (fleet_slot_move(&fleet, from, to, 100) > 0)
        continue;
    fleet_slot_end(&fleet, to);
    assert_true(load_wait(&fleet, 11));
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (fleet_integer(&fleet, "DEL " NS ":%s", left[i]) != 1)
            fail_msg("the key " NS ":%s is gone", left[i]);
    check_stop(daemon);
}

static void test_namespace_needs_a_hash_tag(void **state)
{
    (void)state;
    struct process *daemon = start_daemon(0, fleet.address, "--namespace=plain");
    assert_true(process_logged(daemon, 0, "set namespace = {plain}", 10));
    assert_true(process_logged(daemon, 0, "CROSSSLOT", 10));
    assert_true(process_noted(daemon, 0, "CROSSSLOT", 10));
    check_stop(daemon);
}

static void test_master_dies_under_load(void **state)
{
    (void)state;
    start_daemon(0, fleet.address, NULL);
    start_daemon(1, fleet.address, NULL);
    for (int round = 0; round < 3; round++) {
        load_push(&fleet, 600);
        assert_true(load_wait(&fleet, fleet.pushed - 500));
        size_t dead = fleet_kill_owner(&fleet);
        fleet_wait_for_other(&fleet, dead);
        assert_true(load_wait(&fleet, fleet.pushed));
        fleet_revive(&fleet, dead);
    }
    finish(2);
}

static void test_failover_by_hand_under_load(void **state)
{
    (void)state;
    struct process *daemon = start_daemon(0, fleet.address, NULL);
    load_push(&fleet, 300);
    assert_true(load_wait(&fleet, 50));
    size_t before = fleet.owner;
    fleet_order(&fleet, 3, "CLUSTER FAILOVER");
    fleet_wait_for_other(&fleet, before);
    load_push(&fleet, 300);
    assert_true(load_wait(&fleet, 600));
    assert_true(process_log_count(daemon, 0, fleet.nodes[3]->tcp) > 0);
    finish(1);
}

#define TEST(name, open) cmocka_unit_test_setup_teardown(name, open, close_world)

int main(void)
{
    const struct CMUnitTest quick[] = {
        TEST(test_slot_moves_under_load, open_masters),
        TEST(test_no_script_begins_in_a_moving_slot, open_masters),
    };
    const struct CMUnitTest all[] = {
        TEST(test_slot_moves_under_load, open_masters),
        TEST(test_no_script_begins_in_a_moving_slot, open_masters),
        TEST(test_namespace_needs_a_hash_tag, open_masters),
        TEST(test_master_dies_under_load, open_with_replicas),
        TEST(test_failover_by_hand_under_load, open_with_replicas),
    };
    return full() ? cmocka_run_group_tests(all, NULL, NULL)
                  : cmocka_run_group_tests(quick, NULL, NULL);
}
