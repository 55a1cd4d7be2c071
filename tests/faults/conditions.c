/* conditions.c - jobs whose start Redis decides (unique, delayed, cancelled), while daemons and
 * Redis die. */
#include "tests/faults/rig.h"

/* Leases that outlast the case: only the next daemon on this host can bring the jobs back. */
#define LONG_LEASES "--lease_s=600", "--renew_s=0.2", "--reap_s=0.3"

#define TWIN "{'id':'twin','unique':true,"

/* The first job with the id; its result goes to the usual list. */
static void push_first(struct rig *rig)
{
    rig_push_text(rig, "twin", TWIN "'input':'p.jpg','output':'twin1.png'}");
}

static void push_slow_first(struct rig *rig)
{
    world_put_slow(&rig->world);
    rig_push_text(rig, "twin",
                  TWIN "'input':'slow.png','output':{'path':'twin1.png','compression':9}}");
}

/* The second job with the id; its result goes to its own list. */
static void push_second(struct rig *rig)
{
    world_push(&rig->world, TWIN "'input':'p.jpg','output':'twin2.png',"
                            "'reply_to':'gpuimgd:reply:second'}");
}

static void wait_for_second(struct rig *rig)
{
    rig_saw_if(rig, world_until(&rig->world, 20, 1, "ZCARD gpuimgd:delayed"), "the second waits");
}

static void saw_second(struct rig *rig)
{
    cJSON *result = world_result_from(&rig->world, "gpuimgd:reply:second", 30);
    rig_saw(rig, "second: %s%s", result ? json_text(result, "status") : "none",
            json_at(result, "same_as") ? ", of the first" : "");
    cJSON_Delete(result);
    process_sleep(0.3);
    rig_saw_if(rig, redis_integer(rig->world.client, "LLEN gpuimgd:reply:second") == 0, "once");
}

/* The daemon dies while it runs the first job; the next daemon has other options. */
static void first_dies(struct rig *rig)
{
    const char *attempts = rig->fault->with[0];
    struct process *daemon =
        rig_start(rig, 0, "run=decode,action=kill,match=twin", LONG_LEASES, attempts,
                  "--workers=1", NULL);
    push_first(rig);
    rig_saw_end(rig, daemon, 20);
    push_second(rig);
    rig_start(rig, 1, NULL, LONG_LEASES, attempts, NULL);
    rig_wait_jobs(rig, 20, "twin");
    saw_second(rig);
}

/* The first job is done, and another daemon dies while it answers the second. */
static void second_is_killed(struct rig *rig)
{
    struct process *daemon = rig_start(rig, 0, NULL, LONG_LEASES, NULL);
    push_first(rig);
    rig_wait(rig, 20);
    process_kill9(daemon);
    daemon = rig_start(rig, 1, "enter=ack,action=kill,match=twin", LONG_LEASES, NULL);
    push_second(rig);
    rig_saw_end(rig, daemon, 20);
    rig_start(rig, 2, NULL, LONG_LEASES, NULL);
    saw_second(rig);
    rig_saw_jobs(rig, "twin");
}

/* The marks in Redis expire before any daemon had a job: the first job is chosen again. */
static void start_is_lost(struct rig *rig)
{
    push_slow_first(rig);
    push_second(rig);
    off_t before = rig_aof_bytes(rig);
    rig_start(rig, 0, NULL, NULL);
    wait_for_second(rig);
    rig_crash_redis(rig, before);
    rig_wait_jobs(rig, 30, "twin");
    saw_second(rig);
}

static void start_reply_cut(struct rig *rig)
{
    const char *way = rig_line(rig);
    push_slow_first(rig);
    push_second(rig);
    world_push(&rig->world, "{'id':'later','reply_to':'gpuimgd:reply:later','input':'p.jpg',"
                            "'output':'later.png','not_before':90000000000}");
    line_cut(rig->line, "gpuimgd:waits:", 3);
    rig_start(rig, 0, NULL, way, LONG_LEASES, NULL);
    rig_wait(rig, 30);
    rig_saw(rig, "%u cut", line_cuts(rig->line));
    rig_saw_jobs(rig, "twin");
    saw_second(rig);
    rig_saw(rig, "%lld waits", redis_integer(rig->world.client, "ZCARD gpuimgd:delayed"));
    redis_integer(rig->world.client, "ZREM gpuimgd:delayed 3");
    redis_integer(rig->world.client, "DEL gpuimgd:job:3 gpuimgd:waits:later");
}

/* The daemon dies before it answers a cancelled job: the next daemon answers it. */
static void cancelled_is_killed(struct rig *rig)
{
    struct process *daemon =
        rig_start(rig, 0, "enter=ack,action=kill,match=victim", LONG_LEASES, NULL);
    rig_push_slow(rig, "victim", 1);
    world_until(&rig->world, 20, 1, "ZCARD gpuimgd:lease");
    rig_cancel(rig, "victim0");
    rig_saw_end(rig, daemon, 20);
    rig_start(rig, 1, NULL, LONG_LEASES, NULL);
    rig_wait_jobs(rig, 20, "victim");
    rig_push(rig, "n", 3);
    rig_wait_done(rig, 20, "n");
}

/* The daemon receives a cancel while a worker starts to encode a job that has only values. A second
 * job with the id waits for the worker; its immediate answer shows that the cancel has arrived. A
 * later unique job waits for the first job and is not cancelled. */
static void values_are_cancelled(struct rig *rig)
{
    struct world *w = &rig->world;
    rig_start(rig, 0, rig_hang_while(rig, "hung", "run=encode,match=twin"), "--workers=1",
              "--renew_s=0.2", NULL);
    rig_push_text(rig, "twin", TWIN "'input':'p.jpg','ops':['stats']}");
    rig_saw_if(rig, rig_met(rig, "hung", 20), "it encodes");
    world_push(w, "{'id':'twin','input':'p.jpg','output':'x.png','reply_to':'gpuimgd:reply:too'}");
    world_until(w, 20, 2, "ZCARD gpuimgd:lease");
    rig_cancel(rig, "twin");
    cJSON *too = world_result_from(w, "gpuimgd:reply:too", 20);
    rig_saw(rig, "another one: %s", too ? json_text(too, "status") : "none");
    cJSON_Delete(too);
    world_push(w, TWIN "'input':'p.jpg','ops':['stats'],'reply_to':'gpuimgd:reply:second'}");
    wait_for_second(rig);
    rig_lower(rig, "hung");
    rig_wait_jobs(rig, 20, "twin");
    cJSON *second = world_result_from(w, "gpuimgd:reply:second", 20);
    rig_saw(rig, "second: %s", second ? json_text(second, "status") : "none");
    rig_saw_if(rig, json_at(second, "outputs.0.values.stats.mean.0"), "with values");
    cJSON_Delete(second);
}

/* Two daemons die: one that is paused with all others, and one that starts during the pause. */
static void paused_are_killed(struct rig *rig)
{
    struct process *daemon = rig_start(rig, 0, NULL, LONG_LEASES, NULL);
    rig_push_slow(rig, "victim", 1);
    world_until(&rig->world, 20, 1, "ZCARD gpuimgd:lease");
    freeReplyObject(redis_command(rig->world.client, "SET gpuimgd:paused 1"));
    process_kill9(daemon);
    rig_push(rig, "n", 3);
    rig_start(rig, 1, NULL, LONG_LEASES, NULL);
    rig_saw_if(rig, world_until(&rig->world, 20, 0, "ZCARD gpuimgd:lease"), "drained");
    rig_saw(rig, "%lld wait", redis_integer(rig->world.client, "LLEN gpuimgd:jobs"));
    redis_integer(rig->world.client, "DEL gpuimgd:paused");
    rig_wait_jobs(rig, 20, "victim");
    rig_saw_done(rig, "n");
}

const struct fault_case condition_faults[] = {
    CASE("the first of two unique jobs, decoding", "kill -9", first_dies,
         "killed by 9; twin: done, attempt 2; second: done, of the first; once",
         .with = {"--attempts=3"}),
    CASE("the first of two unique jobs, its only attempt", "kill -9", first_dies,
         "killed by 9; twin: dead attempts_exhausted, attempt 1; second: dead, of the first; once",
         .with = {"--attempts=1"}),
    CASE("the second, before DONE", "kill -9", second_is_killed,
         "killed by 9; second: done, of the first; once; twin: done, attempt 1"),
    CASE("two unique jobs", "host dies: START is lost", start_is_lost,
         "the second waits; twin: done, attempt 1; second: done, of the first; once"),
    CASE("two unique jobs and one for later", "START's replies cut", start_reply_cut,
         "3 cut; twin: done, attempt 1; second: done, of the first; once; 1 waits"),
    CASE("a cancelled job, before DONE", "kill -9", cancelled_is_killed,
         "killed by 9; victim0: cancelled cancelled, attempt 2; 3 done once"),
    CASE("a unique job of values alone, at its encode", "cancel", values_are_cancelled,
         "it encodes; another one: cancelled; the second waits; twin: cancelled cancelled, "
         "attempt 1; second: done; with values"),
    CASE("all paused, a job runs", "kill -9", paused_are_killed,
         "drained; 4 wait; victim0: done, attempt 2; 3 done once"),
    {.name = NULL},
};
