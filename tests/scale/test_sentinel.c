/*
 * test_sentinel.c - the master dies under load, and the Sentinels elect another: no job is lost.
 *
 * GPUIMGD_SCALE=full pushes more and kills more often.
 */
#include <unistd.h>

#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

TEST(test_failover_under_load)
{
    unsigned jobs = scale_full() ? 1000 : 150;
    int rounds = scale_full() ? 3 : 1;
    scale_start(0, fleet.address, NULL);
    scale_start(1, fleet.address, NULL);
    for (int round = 0; round < rounds; round++) {
        load_push(&fleet, jobs);
        assert_true(load_wait(&fleet, fleet.pushed - jobs + jobs / 5));
        size_t dead = fleet_kill_owner(&fleet);
        fleet_wait_for_other(&fleet, dead);
        assert_true(load_wait(&fleet, fleet.pushed));
        if (round + 1 < rounds)
            fleet_revive(&fleet, dead);
    }
    load_push(&fleet, 20);
    assert_true(load_wait(&fleet, fleet.pushed));
    for (size_t i = 0; i < 2; i++) /* one daemon may have done all jobs before */
        assert_true(await(20, process_log_count(&w->daemons[i], 0, "connected to") >=
                                  1 + (size_t)rounds));
    scale_finish(2);
}

TEST(test_dead_sentinels_are_passed_over)
{
    redis_server_kill9(fleet.sentinels[0]);
    struct process *daemon = scale_start(0, fleet.address, NULL);
    load_push(&fleet, 5);
    assert_true(load_wait(&fleet, 5));
    assert_int_equal(process_log_count(daemon, 0, "cannot connect: connection refused"), 1);
    /* The log names a Sentinel that does not know the master; the status says if none does. */
    const char *address = text_of("sentinel://others@%s", fleet.sentinels[1]->tcp);
    struct process *other = scale_start(1, address, NULL);
    assert_true(process_logged(other, 0, "it knows no master named others", 10));
    assert_true(process_noted(other, 0, "no Sentinel has named the master", 10));
    redis_server_restart(fleet.sentinels[0]);
    scale_finish(2);
}

/* The Sentinels first name a replica: the daemon learns that from ROLE, and asks again. */
TEST(test_replica_is_not_taken_for_the_master)
{
    redis_server_kill9(fleet.sentinels[1]);
    redis_server_kill9(fleet.sentinels[2]);
    redisContext *sentinel = redis_server_connect(fleet.sentinels[0]);
    freeReplyObject(redis_command(sentinel, "SENTINEL REMOVE " FLEET_MASTER));
    freeReplyObject(redis_command(sentinel, "SENTINEL MONITOR " FLEET_MASTER " 127.0.0.1 %d 2",
                                  fleet.nodes[1]->port));
    struct process *daemon = scale_start(0, fleet.address, NULL);
    assert_true(process_logged(daemon, 0, "it is not the master", 10));
    assert_int_equal(process_log_count(daemon, 0, "connected to"), 0);
    freeReplyObject(redis_command(sentinel, "SENTINEL REMOVE " FLEET_MASTER));
    freeReplyObject(redis_command(sentinel, "SENTINEL MONITOR " FLEET_MASTER " 127.0.0.1 %d 2",
                                  fleet.nodes[0]->port));
    redisFree(sentinel);
    assert_true(process_logged(daemon, 0, "connected to", 15));
    redis_server_restart(fleet.sentinels[1]);
    redis_server_restart(fleet.sentinels[2]);
    load_push(&fleet, 5);
    scale_finish(1);
}

TEST(test_sentinels_have_their_own_password)
{
    for (size_t i = 0; i < FLEET_SENTINELS; i++) {
        redisContext *sentinel = redis_server_connect(fleet.sentinels[i]);
        freeReplyObject(redis_command(sentinel, "ACL SETUSER watcher on >secret allchannels "
                                                "+sentinel|get-master-addr-by-name +subscribe "
                                                "+ping"));
        redisFree(sentinel);
    }
    const char *right = text_of("%s/right", w->folder);
    const char *wrong = text_of("%s/wrong", w->folder);
    assert_true(text_file_write(right, "secret\n", 7) && text_file_write(wrong, "guess", 5));
    const char *address = text_of("--redis=%s", fleet.address);
    const char *right_option = text_of("--sentinel_password_file=%s", right);
    const char *wrong_option = text_of("--sentinel_password_file=%s", wrong);
    struct process *daemon = start_ready(0, address, "--sentinel_username=watcher", right_option);
    load_push(&fleet, 5);
    assert_true(load_wait(&fleet, 5));
    daemon = start_ready(1, address, "--sentinel_username=watcher", wrong_option);
    assert_true(process_logged(daemon, 0, "no Sentinel has named the master yet: WRONGPASS", 10));
    assert_true(process_logged(daemon, 0, "see sentinel_username and sentinel_password_file", 10));
    scale_finish(2);
}

/* After a manual failover the old master still runs: +switch-master tells the daemon. */
TEST(test_switch_by_hand)
{
    struct process *daemon = scale_start(0, fleet.address, NULL);
    load_push(&fleet, 50);
    size_t before = fleet.owner;
    redisContext *sentinel = redis_server_connect(fleet.sentinels[0]);
    freeReplyObject(redis_command(sentinel, "SENTINEL FAILOVER " FLEET_MASTER));
    redisFree(sentinel);
    double end = process_now() + patience(20);
    while (fleet.owner == before && process_now() < end) {
        process_sleep(0.05);
        fleet_wait_for_other(&fleet, before);
    }
    assert_true(process_logged(daemon, 0, fleet.nodes[fleet.owner]->tcp, 10));
    load_push(&fleet, 50);
    assert_true(load_wait(&fleet, 100));
    scale_finish(1);
}

int main(void)
{
    world_options = &(struct world_options){.servers = WORLD_SENTINELS, .replicas = 2};
    return run_all(.count = scale_full() ? 0 : 1, .each_setup = open_world,
                   .each_teardown = close_world);
}
