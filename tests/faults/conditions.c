/* conditions.c - jobs whose start Redis decides (unique, delayed, cancelled), while daemons and
 * Redis die. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/redis/script.h"
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
    rig_saw_if(rig, world_until(&rig->world, 20, 1, "ZCARD gpuimgd:delayed"), "the second waits",
               "the second does not wait");
}

static void saw_second(struct rig *rig)
{
    cJSON *result = world_result_from(&rig->world, "gpuimgd:reply:second", 30);
    rig_saw(rig, "second: %s%s", result ? json_text(result, "status") : "none",
            json_at(result, "same_as") ? ", of the first" : "");
    cJSON_Delete(result);
    process_sleep(0.3);
    rig_saw_if(rig, redis_integer(rig->world.client, "LLEN gpuimgd:reply:second") == 0, "once",
               "twice");
}

/* The daemon dies while it runs the first job; the next daemon has other options. */
static void first_dies(struct rig *rig, const char *attempts)
{
    struct process *daemon =
        rig_start(rig, 0, "run=decode,action=kill,match=twin", LONG_LEASES, attempts,
                  "--workers=1", NULL);
    push_first(rig);
    rig_saw(rig, "%s", rig_end_of(daemon, 20));
    push_second(rig);
    rig_start(rig, 1, NULL, LONG_LEASES, attempts, NULL);
    rig_wait(rig, 20);
    rig_saw_jobs(rig, "twin");
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
    rig_saw(rig, "%s", rig_end_of(daemon, 20));
    rig_start(rig, 2, NULL, LONG_LEASES, NULL);
    saw_second(rig);
    rig_saw_jobs(rig, "twin");
}

/* The marks in Redis expire before any daemon had a job: the first job is chosen again. */
static void start_is_lost(struct rig *rig)
{
    struct world *w = &rig->world;
    char aof[512];
    struct stat before;
    push_slow_first(rig);
    push_second(rig);
    rig_aof(rig, aof, sizeof aof);
    if (stat(aof, &before) != 0)
        rig_saw(rig, "no %s", aof);
    rig_start(rig, 0, NULL, NULL);
    wait_for_second(rig);
    redis_server_kill9(w->redis);
    if (truncate(aof, before.st_size) != 0)
        rig_saw(rig, "not truncated");
    redis_server_restart(w->redis);
    world_reconnect(w);
    rig_wait(rig, 30);
    rig_saw_jobs(rig, "twin");
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

static void cancel(struct rig *rig, const char *id)
{
    freeReplyObject(redis_command(rig->world.client,
                                  "EVAL %s 5 gpuimgd:jobs gpuimgd:cancel gpuimgd:woken "
                                  "gpuimgd:waits:%s gpuimgd:result:%s %s",
                                  script_text(SCRIPT_ID_CANCEL), id, id, id));
}

/* The daemon dies before it answers a cancelled job: the next daemon answers it. */
static void cancelled_is_killed(struct rig *rig)
{
    struct process *daemon =
        rig_start(rig, 0, "enter=ack,action=kill,match=victim", LONG_LEASES, NULL);
    rig_push_slow(rig, "victim", 1);
    world_until(&rig->world, 20, 1, "ZCARD gpuimgd:lease");
    cancel(rig, "victim0");
    rig_saw(rig, "%s", rig_end_of(daemon, 20));
    rig_start(rig, 1, NULL, LONG_LEASES, NULL);
    rig_wait(rig, 20);
    rig_saw_jobs(rig, "victim");
    rig_push(rig, "n", 3);
    rig_wait(rig, 20);
    rig_saw_done(rig, "n");
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
    rig_saw_if(rig, rig_met(rig, "hung", 20), "it encodes", "it does not encode");
    world_push(w, "{'id':'twin','input':'p.jpg','output':'x.png','reply_to':'gpuimgd:reply:too'}");
    world_until(w, 20, 2, "ZCARD gpuimgd:lease");
    cancel(rig, "twin");
    cJSON *too = world_result_from(w, "gpuimgd:reply:too", 20);
    rig_saw(rig, "another one: %s", too ? json_text(too, "status") : "none");
    cJSON_Delete(too);
    world_push(w, TWIN "'input':'p.jpg','ops':['stats'],'reply_to':'gpuimgd:reply:second'}");
    wait_for_second(rig);
    rig_lower(rig, "hung");
    rig_wait(rig, 20);
    rig_saw_jobs(rig, "twin");
    cJSON *second = world_result_from(w, "gpuimgd:reply:second", 20);
    rig_saw(rig, "second: %s", second ? json_text(second, "status") : "none");
    rig_saw_if(rig, json_at(second, "outputs.0.values.stats.mean.0"), "with values",
               "without values");
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
    rig_saw_if(rig, world_until(&rig->world, 20, 0, "ZCARD gpuimgd:lease"), "drained",
               "not drained");
    rig_saw(rig, "%lld wait", redis_integer(rig->world.client, "LLEN gpuimgd:jobs"));
    redis_integer(rig->world.client, "DEL gpuimgd:paused");
    rig_wait(rig, 20);
    rig_saw_jobs(rig, "victim");
    rig_saw_done(rig, "n");
}

static const struct fault_case cases[] = {
    {"the first of two unique jobs, decoding", "kill -9",
     .run_with = first_dies, .with = "--attempts=3", .quick = true,
     .expected = "killed by 9; twin: done, attempt 2; second: done, of the first; once"},
    {"the first of two unique jobs, its only attempt", "kill -9",
     .run_with = first_dies, .with = "--attempts=1", .quick = true,
     .expected = "killed by 9; twin: dead attempts_exhausted, attempt 1; second: dead, of the "
                 "first; once"},
    {"the second, before DONE", "kill -9", .run = second_is_killed, .quick = true,
     .expected = "killed by 9; second: done, of the first; once; twin: done, attempt 1"},
    {"two unique jobs", "host dies: START is lost", .run = start_is_lost, .quick = true,
     .expected = "the second waits; twin: done, attempt 1; second: done, of the first; once"},
    {"two unique jobs and one for later", "START's replies cut",
     .run = start_reply_cut, .quick = true,
     .expected = "3 cut; twin: done, attempt 1; second: done, of the first; once; 1 waits"},
    {"a cancelled job, before DONE", "kill -9", .run = cancelled_is_killed, .quick = true,
     .expected = "killed by 9; victim0: cancelled cancelled, attempt 2; 3 done once"},
    {"a unique job of values alone, at its encode", "cancel",
     .run = values_are_cancelled, .quick = true,
     .expected = "it encodes; another one: cancelled; the second waits; twin: cancelled "
                 "cancelled, attempt 1; second: done; with values"},
    {"all paused, a job runs", "kill -9", .run = paused_are_killed, .quick = true,
     .expected = "drained; 4 wait; victim0: done, attempt 2; 3 done once"},
    {.name = NULL},
};

const struct fault_group condition_faults = {"conditions", cases};
