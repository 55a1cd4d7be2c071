/*
 * test_shard_slots.c - four shards on a Redis Cluster: their slots are on different masters. A
 * master dies and comes back; the shards of the others go on, and no job is lost.
 *
 * GPUIMGD_SCALE=full adds more deaths.
 */
#include "tests/fixtures/test_world.h"

#define SHARDS 4

static const struct world_options masters = {.servers = WORLD_CLUSTER,
                                             .photo = {"p.jpg", 64, 48}};
static size_t owner[SHARDS]; /* the node of each shard's slot */
static unsigned pushed[SHARDS];

static void push(unsigned shard, unsigned count)
{
    for (unsigned i = 0; i < count; i++, pushed[shard]++)
        freeReplyObject(fleet_command(
            &fleet, "LPUSH {gpuimgd:%u}:jobs %s", shard,
            text_of("{\"id\":\"%u\",\"input\":\"p.jpg\",\"output\":\"%u/%u.png\"}", pushed[shard],
                    shard, pushed[shard])));
    owner[shard] = fleet.owner;
}

/* Waits until the shard has this many results. */
static bool wait_for_results(unsigned shard, unsigned count)
{
    return await(60, fleet_integer(&fleet, "LLEN {gpuimgd:%u}:results", shard) >= count);
}

/* Each job has one result, which names the shard; no job is left. */
static void check_shard(unsigned shard)
{
    bool seen[1000] = {false};
    redisReply *results = fleet_command(&fleet, "LRANGE {gpuimgd:%u}:results 0 -1", shard);
    assert_int_equal(results->elements, pushed[shard]);
    for (size_t i = 0; i < results->elements; i++) {
        cJSON *result = cJSON_Parse(results->element[i]->str);
        int id = atoi(json_text(result, "id"));
        assert_string_equal(json_text(result, "status"), "done");
        assert_int_equal(json_number(result, "shard"), shard);
        assert_true(!seen[id]);
        seen[id] = true;
        cJSON_Delete(result);
    }
    freeReplyObject(results);
    assert_int_equal(fleet_integer(&fleet, "EXISTS {gpuimgd:%u}:jobs {gpuimgd:%u}:lease "
                                   "{gpuimgd:%u}:delayed {gpuimgd:%u}:alone {gpuimgd:%u}:inst",
                                   shard, shard, shard, shard, shard), 0);
}

/* The master of shard 1 dies while all shards have jobs. */
static void kill_and_revive(struct process *daemon, size_t mark)
{
    size_t dead = owner[1];
    redis_server_kill9(fleet.nodes[dead]);
    assert_true(process_logged(daemon, mark, "shard 1: Redis at", 20));
    for (unsigned shard = 0; shard < SHARDS; shard++)
        if (owner[shard] != dead)
            push(shard, 20);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        if (owner[shard] != dead)
            assert_true(wait_for_results(shard, pushed[shard]));
    redis_server_restart(fleet.nodes[dead]);
}

TEST(test_a_master_dies, IN_WORLD(&masters))
{
    for (unsigned shard = 0; shard < SHARDS; shard++)
        push(shard, 40);
    assert_true(owner[0] != owner[1] && owner[0] != owner[3] && owner[1] != owner[3]);
    struct process *daemon = scale_start(0, fleet.address, "--shards=4");
    for (int round = 0; round < (scale_full() ? 5 : 1); round++) {
        size_t mark = process_log_mark(daemon);
        for (unsigned shard = 0; shard < SHARDS; shard++)
            push(shard, 60);
        kill_and_revive(daemon, mark);
        for (unsigned shard = 0; shard < SHARDS; shard++)
            assert_true(wait_for_results(shard, pushed[shard]));
    }
    check_stop(daemon);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        check_shard(shard);
}

TEST_MAIN()
