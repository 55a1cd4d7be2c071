/*
 * test_ctl_fleet.c - gpuimgctl with several servers: the master dies while gpuimgctl waits for
 * results, it is given a Cluster node without the slot, and a Cluster has four shards.
 */
#include "tests/fixtures/ctl.h"
#include "tests/fixtures/test_world.h"

#define PICTURES 300

static void put_album(void)
{
    put_small_pngs("album", PICTURES);
}

static const struct world_options sentinels = {.servers = WORLD_SENTINELS, .replicas = 2,
                                               .fill = put_album};
static const struct world_options cluster = {.servers = WORLD_CLUSTER, .fill = put_album};

static void start_daemon(const char *redis)
{
    start_ready(0, text_of("--redis=%s", redis));
}

TEST(test_master_dies, IN_WORLD(&sentinels))
{
    struct process process = ctl_begin(
        w, text_of("ctl submit $at --redis=%s -r in/album -o x --wait", fleet.address));
    assert_true(await(30, fleet_integer(&fleet, "LLEN %s:jobs", w->ns) >= PICTURES));
    assert_true(fleet_integer(&fleet, "WAIT 2 10000") >= 2); /* replicas have the jobs */
    size_t dead = fleet_kill_owner(&fleet);
    fleet_wait_for_other(&fleet, dead);
    start_daemon(fleet.address);
    struct ctl_run run = ctl_end(&process);
    if (run.status != 0 || !strstr(run.out, "\n300 done in "))
        fail_msg("exit status %d\n%s", run.status, run.err);
    /* Daemons publish their totals from time to time. */
    ctl_expect(w, 0, text_of("until ctl status $at --redis=%s | grep ' cpu  *300 '; do sleep 0.1; "
                             "done", fleet.address), "300 ", NULL);
}

TEST(test_another_node, IN_WORLD(&cluster))
{
    assert_int_equal(fleet_integer(&fleet, "DEL %s:jobs", w->ns), 0); /* finds the owner */
    size_t other = fleet.owner == 0 ? 1 : 0;
    const char *at = text_of("$at --redis=%s", fleet.nodes[other]->tcp);
    start_daemon(fleet.address);
#define EXPECT(status, command, ...) ctl_expect(w, status, text_of(command, at), __VA_ARGS__, NULL)
    EXPECT(0, "ctl submit %s -k -r in/album -o got", "300 done in ");
    EXPECT(0, "ctl submit %s in/album/1.png -o x --wait --id one", "1 done in ");
    EXPECT(0, "ctl result %s one", "done   one");
    EXPECT(0, "ctl cancel %s one", "an earlier one has ended (done)");
    EXPECT(0, "ctl drain %s", "drained");
    EXPECT(0, "ctl resume %s", "fetch jobs again");
    assert_int_equal(fleet_integer(&fleet, "LPUSH %s:dead {\"input\":\"album/1.png\"}", w->ns), 1);
    EXPECT(0, "ctl dead %s list", "album/1.png");
    EXPECT(0, "ctl dead %s drop '#1'", "1 dead job dropped");
#undef EXPECT
}

/* The slots of {gpuimgd:0} to {gpuimgd:3} are on all three masters. */
TEST(test_shards_of_a_cluster, IN_WORLD(&cluster))
{
    struct process *daemon = start_ready(0, text_of("--redis=%s", fleet.address), "--shards=4");
    const char *at = text_of("$at --redis=%s --shards=4", fleet.nodes[0]->tcp);
#define EXPECT(status, command, ...) ctl_expect(w, status, text_of(command, at), __VA_ARGS__, NULL)
    EXPECT(0, "ctl submit %s -k -r in/album -o got --ops composite:input=in/album/1.png",
           "300 done in ");
    EXPECT(0, "ctl submit %s in/album/1.png -o x --wait --id one", "1 done in ");
    EXPECT(0, "ctl result %s one", "done   one");
    EXPECT(0, "ctl status %s", "      3         0         0 ");
    EXPECT(0, "ctl drain %s", "drained: no job runs");
    check_stop(daemon);
    size_t owners[4], different = 1;
    for (int i = 0; i < 4; i++) {
        fleet_integer(&fleet, "EXISTS {gpuimgd:%d}:paused", i); /* finds the owner */
        owners[i] = fleet.owner;
        different += i > 0 && owners[i] != owners[i - 1];
    }
    assert_true(different > 1);
#undef EXPECT
}

TEST_MAIN()
