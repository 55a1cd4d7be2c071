/*
 * test_hosts.c - three daemons that share only Redis, as on three hosts; images are Redis keys. One
 * daemon is killed, and no job is lost.
 *
 * Each daemon uses its own loopback address and its own folders, which must be empty afterwards.
 * GPUIMGD_SCALE=full pushes more.
 */
#include <sys/stat.h>

#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

#define DAEMONS 3

static void bind_addresses(void)
{
    fleet_order(&fleet, 0, "CONFIG SET bind %s", "127.0.0.1 127.0.0.2 127.0.0.3");
}

static void start_host(size_t index)
{
    char folder[96];
    snprintf(folder, sizeof folder, "%s/host%zu", w->folder, index);
    mkdir(folder, 0755);
    const char *redis = text_of("--redis=127.0.0.%zu:%d", index + 1, fleet.nodes[0]->port);
    const char *input = text_of("--input_root=%s", folder);
    start_ready(index, redis, input, text_of("--output_root=%s", folder));
}

/* Counts the results of this daemon. */
static unsigned results_of(const struct process *daemon)
{
    unsigned count = 0;
    const char *end = text_of(":%d\",", (int)daemon->pid);
    redisReply *results = fleet_command(&fleet, "LRANGE gpuimgd:results 0 -1");
    for (size_t i = 0; i < results->elements; i++)
        count += strstr(results->element[i]->str, end) != NULL;
    freeReplyObject(results);
    return count;
}

TEST(test_three_hosts_share_keys_alone)
{
    unsigned jobs = scale_full() ? 6000 : 600;
    struct process *victim = &w->daemons[DAEMONS - 1];
    for (size_t i = 0; i < DAEMONS; i++)
        start_host(i);
    load_push(&fleet, jobs / 2);
    for (size_t i = 0; i < DAEMONS; i++) /* on a busy machine a daemon may start slowly */
        for (int more = 0; more < 100 && results_of(&w->daemons[i]) == 0; more++) {
            load_push(&fleet, 20);
            assert_true(load_wait(&fleet, fleet.pushed));
        }
    for (size_t i = 0; i < DAEMONS; i++)
        assert_true(results_of(&w->daemons[i]) > 0);
    load_push(&fleet, jobs / 2);
    process_kill9(victim);
    assert_true(load_wait(&fleet, fleet.pushed));
    assert_int_equal(load_check(&fleet), 0);
    for (size_t i = 0; i < DAEMONS - 1; i++)
        check_stop(&w->daemons[i]);
    assert_int_equal(text_file_count(w->folder, "/host"), 0);
}

WORLD_MAIN(OWN_WORLDS, .servers = WORLD_ONE, .fill = bind_addresses)
