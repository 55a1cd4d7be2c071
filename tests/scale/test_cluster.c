/*
 * test_cluster.c - three masters with all keys in one slot. The slot moves, its master dies, and no
 * job is lost.
 *
 * GPUIMGD_SCALE=full adds the failovers, and pushes more.
 */
#include <signal.h>
#include <unistd.h>

#include "tests/fixtures/test_world.h"

#define NS "{gpuimgd}"

static const struct world_options masters = {.servers = WORLD_CLUSTER};
static const struct world_options replicas = {.servers = WORLD_CLUSTER, .replicas = 2};

/* Moves the slot key by key, while jobs are pushed and daemons work. One daemon only knows a node
 * that never has the slot. */
TEST(test_slot_moves_under_load, IN_WORLD(&masters))
{
    unsigned jobs = scale_full() ? 600 : 150;
    size_t from = fleet.owner, to = (from + 1) % 3, other = (from + 2) % 3, moved = 0;
    scale_start(0, fleet.address, NULL);
    struct process *daemon = scale_start(1, fleet.nodes[other]->tcp, NULL);
    load_push(&fleet, jobs);
    assert_true(load_wait(&fleet, jobs / 5));
    fleet_slot_begin(&fleet, to);
    for (size_t last = 1; last > 0; moved += last) {
        last = fleet_slot_move(&fleet, from, to, scale_full() ? 5 : 20);
        load_push(&fleet, 1);
        process_sleep(0.005);
    }
    process_sleep(patience(0.5)); /* all keys have moved, and the daemons still ask the old node */
    load_push(&fleet, 5);
    fleet_slot_end(&fleet, to);
    assert_true(moved > jobs / 5);
    load_push(&fleet, jobs);
    assert_true(load_wait(&fleet, fleet.pushed));
    assert_int_equal(fleet.owner, to);
    assert_true(process_log_count(daemon, 0, fleet.nodes[to]->tcp) > 0);
    scale_finish(2);
}

/* All keys of FETCH are still on the old node while the slot moves. A script that started now would
 * fail halfway, at the missing hash of its new job, with the job's text already removed from the
 * list. */
TEST(test_no_script_begins_in_a_moving_slot, IN_WORLD(&masters))
{
    static const char *const left[] = {"results", "delayed", "alone", "alone:owner", "lease",
                                       "job:1000001"};
    size_t from = fleet.owner, to = (from + 1) % 3;
    struct process *daemon = scale_start(0, fleet.address, "--block_s=0.1");
    load_push(&fleet, 1);
    assert_true(load_wait(&fleet, 1));
    fleet_integer(&fleet, "ZADD " NS ":delayed 9999999999999 1000001");
    /* In this order; otherwise the daemon takes the alone job. */
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

TEST(test_namespace_needs_a_hash_tag, IN_WORLD(&masters))
{
    struct process *daemon = scale_start(0, fleet.address, "--namespace=plain");
    assert_true(process_logged(daemon, 0, "set namespace = {plain}", 10));
    assert_true(process_logged(daemon, 0, "CROSSSLOT", 10));
    assert_true(process_noted(daemon, 0, "CROSSSLOT", 10));
    check_stop(daemon);
}

TEST(test_master_dies_under_load, IN_WORLD(&replicas))
{
    scale_start(0, fleet.address, NULL);
    scale_start(1, fleet.address, NULL);
    for (int round = 0; round < 3; round++) {
        load_push(&fleet, 600);
        assert_true(load_wait(&fleet, fleet.pushed - 500));
        size_t dead = fleet_kill_owner(&fleet);
        fleet_wait_for_other(&fleet, dead);
        assert_true(load_wait(&fleet, fleet.pushed));
        fleet_revive(&fleet, dead);
    }
    scale_finish(2);
}

TEST(test_failover_by_hand_under_load, IN_WORLD(&replicas))
{
    struct process *daemon = scale_start(0, fleet.address, NULL);
    load_push(&fleet, 300);
    assert_true(load_wait(&fleet, 50));
    size_t before = fleet.owner;
    fleet_order(&fleet, 3, "CLUSTER FAILOVER");
    fleet_wait_for_other(&fleet, before);
    load_push(&fleet, 300);
    assert_true(load_wait(&fleet, 600));
    assert_true(process_log_count(daemon, 0, fleet.nodes[3]->tcp) > 0);
    scale_finish(1);
}

TEST_MAIN(.count = scale_full() ? 0 : 2)
