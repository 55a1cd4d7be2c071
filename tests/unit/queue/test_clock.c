/*
 * Tests of leases while Redis's clock steps: live daemons keep theirs, those of dead ones are
 * taken. redis-server runs with the clock of tests/faults/shim_clock.c.
 */
#include "tests/fixtures/queue/queue_bench.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RENEW_S 0.4
#define STEP_MS 1000000

static char clock_path[64];
static volatile int64_t *step_ms;

static int open_clock(void **state)
{
    strcpy(clock_path, "/tmp/gpuimgd-clock-XXXXXX");
    int fd = mkstemp(clock_path);
    if (fd < 0 || ftruncate(fd, sizeof *step_ms) != 0)
        return -1;
    void *page = mmap(NULL, sizeof *step_ms, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    step_ms = page;
    return page == MAP_FAILED ? -1 : 0;
}

static int close_clock(void **state)
{
    munmap((void *)step_ms, sizeof *step_ms);
    return unlink(clock_path);
}

/* Finds the shim from this program's path, build/VARIANT/tests/unit/queue/test_clock. */
static struct redis_server *start_server(void)
{
    char path[512] = "";
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(length > 0);
    path[length] = '\0';
    strcpy(strstr(path, "/unit/queue/test_clock"), "/faults/shim_clock.so");
    assert_int_equal(access(path, R_OK), 0);
    setenv("LD_PRELOAD", path, 1);
    setenv("GPUIMGD_CLOCK", clock_path, 1);
    *step_ms = 0;
    struct redis_server *server = redis_server_start(NULL);
    unsetenv("LD_PRELOAD");
    unsetenv("GPUIMGD_CLOCK");
    return server;
}

static long long redis_ms(struct bench *bench)
{
    redisReply *time = redis_command(bench->redis, "TIME");
    long long ms = atoll(time->element[0]->str) * 1000 + atoll(time->element[1]->str) / 1000;
    freeReplyObject(time);
    return ms;
}

static long long lease_end(struct bench *bench, const char *number)
{
    char *score = redis_string(bench->redis, "ZSCORE t:lease %s", number);
    long long end = score ? atoll(score) : 0;
    free(score);
    return end;
}

/* Starts a daemon with three leases of 5 s and rare renewals, or skips the test. */
static struct bench *set_up_holder(void)
{
    struct bench *bench = set_up(start_server());
    long long before = redis_ms(bench);
    *step_ms = 3600000;
    bool steps = redis_ms(bench) - before >= 3600000;
    *step_ms = 0;
    if (!steps) {
        tear_down(bench);
        print_message("this redis-server's clock cannot be set\n");
        skip();
    }
    bench->config.renew_s = RENEW_S;
    bench->config.reap_s = 60;
    push(bench, 3);
    start_queue(bench);
    queue_set_places(bench->queue, 3);
    run_until(bench, bench->leased == 3);
    return bench;
}

/* The only daemon that reaps often. */
static struct bench *start_reaper(struct bench *bench)
{
    struct bench *reaper = set_up_beside(bench, "reaper");
    reaper->config.reap_s = 0.05;
    start_queue(reaper);
    run_until(bench, redis_integer(bench->redis, "ZCARD t:inst") == 2);
    return reaper;
}

static void step_after_renewal(struct bench *bench, int64_t ms)
{
    long long end = lease_end(bench, "1");
    run_until(bench, lease_end(bench, "1") != end);
    *step_ms += ms;
}

/* A lease of a dead daemon of another host; it ends at this time of Redis's clock. */
static void add_lost_lease(struct bench *bench, int number, long long end)
{
    redis_integer(bench->redis, "HSET t:job:%d raw lost state leased attempt 1 owner else:b:n:1:1 "
                                "token else:b:n:1:1:1", number);
    redis_integer(bench->redis, "ZADD t:lease %lld %d", end, number);
}

static void finish(struct bench *bench, struct bench *reaper)
{
    assert_int_equal(bench->lost, 0);
    finish_jobs(bench);
    assert_int_equal(bench->stale, 0);
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:lease"), 0);
    tear_down_beside(reaper);
    tear_down(bench);
}

TEST(test_a_step_forward_takes_no_live_lease)
{
    struct bench *bench = set_up_holder(), *reaper = start_reaper(bench);
    add_lost_lease(bench, 50, redis_ms(bench) + 60000);
    step_after_renewal(bench, STEP_MS);
    run_until(bench, redis_integer(bench->redis, "LLEN t:jobs") > 0);
    const char *back = redis_text(bench->redis, "LINDEX t:jobs 0");
    assert_string_equal(back, "@50"); /* and no other job */
    assert_int_equal(redis_integer(bench->redis, "LLEN t:jobs"), 1);
    assert_int_equal(redis_integer(bench->redis, "ZCARD t:inst"), 2);
    finish(bench, reaper);
}

/* If the clock goes back, earlier looks are invalid: leases renewed since then end before them. */
TEST(test_a_step_back_takes_no_live_lease)
{
    struct bench *bench = set_up_holder(), *reaper = start_reaper(bench);
    *step_ms = STEP_MS;
    long long looks = calls(bench, "zcount");
    run_until(bench, calls(bench, "zcount") >= looks + 3);
    *step_ms = 0;
    add_lost_lease(bench, 50, 1);
    run_until(bench, redis_integer(bench->redis, "LLEN t:jobs") == 1);
    finish(bench, reaper);
}

/* The right to run alone is a key with an expiry; a clock step expires it. */
TEST(test_after_a_step_a_lone_job_stays_alone)
{
    struct bench *bench = set_up_holder();
    finish_jobs(bench);
    redis_integer(bench->redis, "HSET t:job:77 raw last state alone attempt 2");
    redis_integer(bench->redis, "LPUSH t:alone 77");
    queue_set_places(bench->queue, 3);
    run_until(bench, bench->leased == 4);
    assert_true(bench->leases[0]->alone);
    push(bench, 2);
    *step_ms = STEP_MS;
    for (int i = 0; i < 2; i++) {
        long long end = lease_end(bench, "77");
        run_until(bench, lease_end(bench, "77") != end);
    }
    assert_int_equal(redis_integer(bench->redis, "EXISTS t:alone:owner"), 0);
    assert_int_equal(bench->leased, 4);
    done(bench, bench->leases[0]);
    run_until(bench, bench->leased == 6);
    tear_down(bench);
}

TEST_MAIN(.name = "clock", .each_setup = open_clock, .each_teardown = close_clock)
