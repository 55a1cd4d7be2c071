/*
 * room.c - a hung worker holds memory, and other jobs need more than is left.
 *
 * The victim hangs in its decode while a flag file exists. Before its deadline it is a slow job;
 * after it, a zombie that keeps its memory. The large job needs more memory than the victim leaves;
 * the small jobs fit beside the victim.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/http.h"
#include "tests/fixtures/prometheus.h"
#include "tests/fixtures/raster.h"

#define SMALL 12

/* Half of it is for input files. */
#define HOST_BYTES "--host_bytes=8M"
#define FILE_BYTES (5 << 19) /* two do not fit into 4 MiB */

/* ---- observations ---------------------------------------------------------------------------- */

static double waiting_jobs(const char *place)
{
    struct prometheus read;
    struct http_reply reply = http_request(place, "GET", "/metrics");
    double waiting =
        prometheus_read(&read, reply.body) ? prometheus_value(&read, "gpuimgd_jobs_waiting", NULL)
                                           : -1;
    prometheus_free(&read);
    http_free(&reply);
    return waiting;
}

/* Waits until this many jobs wait for memory. */
static void saw_waiting(struct rig *rig, double wanted)
{
    const char *place = rig_place(rig);
    double waiting;
    RIG_WAIT_UNTIL(20, (waiting = waiting_jobs(place)) == wanted);
    rig_saw(rig, "%g wait for memory", waiting);
}

/* ---- the jobs -------------------------------------------------------------------------------- */

/* Starts a daemon and a victim at its decode. timeout_s: the victim's timeout. */
static struct process *start_with_victim(struct rig *rig, const char *bound, double timeout_s)
{
    struct process *daemon =
        rig_start(rig, 0, rig_hang_while(rig, "hung", "run=decode,match=victim"), bound,
                  rig_listen(rig), "--input_bytes_max=4M", "--workers=3", "--inflight=24",
                  "--renew_s=0.2", "--job_timeout_s=600",
                  rig_option_s("hang_grace_s", 0.3), NULL);
    rig_push_text(rig, "victim", "{'id':'victim','input':'large.jpg','output':'v.png',"
                                 "'ops':['invert'],'timeout_s':%g}", patience(timeout_s));
    rig_saw_if(rig, rig_met(rig, "hung", 20), "it hangs");
    return daemon;
}

static void push_large(struct rig *rig, const char *id)
{
    rig_push_text(rig, id, "{'id':'%s','input':'large.jpg','output':'%s.png','ops':['invert']}",
                  id, id);
    saw_waiting(rig, 1);
}

/* Small jobs pass while the large job waits; it runs after the worker has returned. */
static void pass_and_come_back(struct rig *rig)
{
    rig_wait_jobs(rig, 20, "victim");
    push_large(rig, "large");
    rig_push(rig, "n", SMALL);
    rig_wait_for(rig, 1 + SMALL, 10);
    rig_saw_done(rig, "n");
    rig_saw_jobs(rig, "large");
    rig_lower(rig, "hung");
    rig_wait_jobs(rig, 20, "large");
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void file_of_a_hung_worker(struct rig *rig)
{
    rig_put_large_file(rig, "large.jpg", FILE_BYTES);
    start_with_victim(rig, HOST_BYTES, 0.5);
    pass_and_come_back(rig);
}

/* 18 MB of input pixels and 18 MB of output pixels: two jobs do not fit into 48 MiB. */
static void picture_of_a_hung_worker(struct rig *rig)
{
    world_put_photo(&rig->world, "large.jpg", 3000, 2000);
    start_with_victim(rig, "--pinned_bytes=48M", 0.5);
    pass_and_come_back(rig);
}

/* The large job is first in the line and is removed before the victim's deadline. */
static void first_in_line_is_cancelled(struct rig *rig)
{
    rig_put_large_file(rig, "large.jpg", FILE_BYTES);
    start_with_victim(rig, HOST_BYTES, 50);
    push_large(rig, "large");
    rig_push(rig, "n", SMALL);
    saw_waiting(rig, 1 + SMALL);
    rig_cancel(rig, "large");
    rig_wait_for(rig, 1 + SMALL, 10);
    rig_saw_jobs(rig, "large");
    rig_saw_done(rig, "n");
    rig_saw_jobs(rig, "victim");
    rig_lower(rig, "hung");
    rig_wait_jobs(rig, 20, "victim");
}

static void health_while_one_waits(struct rig *rig)
{
    rig_put_large_file(rig, "large.jpg", FILE_BYTES);
    start_with_victim(rig, HOST_BYTES, 0.5);
    rig_wait_jobs(rig, 20, "victim");
    rig_saw_answer(rig, "/healthz", 200, "running");
    push_large(rig, "large");
    rig_saw_answer(rig, "/healthz", 503, "no progress");
    rig_saw_answer(rig, "/readyz", 503, "no progress");
    rig_push(rig, "n", 1);
    rig_saw_answer(rig, "/healthz", 200, "running");
    rig_saw_answer(rig, "/healthz", 503, "no progress");
    rig_lower(rig, "hung");
    rig_saw_answer(rig, "/healthz", 200, "running");
    rig_wait_done(rig, 20, "n");
    rig_saw_jobs(rig, "large");
}

/* One worker runs the victim while others wait for it, for memory and for room for their inputs.
 * urgent: a job that is pushed then to list 9, fetched, and answered first. */
static void an_urgent_job_overtakes(struct rig *rig)
{
    world_put_photo(&rig->world, "large.jpg", 1500, 1200);
    rig_start(rig, 0, rig_hang_while(rig, "hung", "run=decode,match=victim"), "--workers=1",
              "--inflight=12", "--job_timeout_s=600", NULL);
    rig_push_text(rig, "victim", "{'id':'victim','input':'p.jpg','output':'v.png'}");
    rig_saw_if(rig, rig_met(rig, "hung", 20), "it hangs");
    for (int i = 0; i < 6; i++) {
        const char *id = text_of("large%d", i);
        rig_push_text(rig, id, "{'id':'%s','input':'large.jpg','output':'%s.jpg'}", id, id);
    }
    rig_saw_if(rig, world_until(&rig->world, 20, 7, "ZCARD gpuimgd:lease"), "6 wait");
    rig_expects(rig, "urgent");
    freeReplyObject(redisCommand(rig->world.client, "LPUSH gpuimgd:jobs:9 %s",
                                 "{\"id\":\"urgent\",\"input\":\"p.jpg\",\"output\":\"u.png\"}"));
    rig_saw_if(rig, world_until(&rig->world, 20, 8, "ZCARD gpuimgd:lease"), "fetched");
    rig_lower(rig, "hung");
    world_until(&rig->world, 20, 8, "LLEN gpuimgd:results");
    for (int i = -1; i >= -2; i--) {
        char *text = redis_string(rig->world.client, "LINDEX gpuimgd:results %d", i);
        cJSON *result = cJSON_Parse(text);
        rig_saw(rig, "%s", json_text(result, "id"));
        cJSON_Delete(result);
        free(text);
    }
    rig_wait_done(rig, 20, "large");
}

/* The first job in the line waits for room for an overlay from a key. Jobs after it wait for room
 * for their inputs, which have used up the budget of large keys. All are fetched together, because
 * later jobs would not read their inputs. */
static void inputs_after_an_overlay(struct rig *rig)
{
    enum { input_bytes = 1800000, others = 4 };
    char jobs[1 + others][160] = {
        "{\"id\":\"n0\",\"input\":\"p.jpg\",\"output\":\"n0.png\",\"ops\":[{\"op\":\"composite\","
        "\"input\":{\"key\":\"gpuimgd:img:over\"}}]}"};
    rig_put_large_file(rig, "large.jpg", FILE_BYTES);
    world_set_picture(&rig->world, "gpuimgd:img:over",
                      make_png(.width = 600, .height = 450, .colour_type = 6));
    world_set_picture(&rig->world, "gpuimgd:img:in", picture_padded(input_bytes));
    start_with_victim(rig, HOST_BYTES, 50);
    for (int i = 0; i <= others; i++) {
        rig_expects(rig, text_of("n%d", i));
        if (i > 0)
            snprintf(
                jobs[i], sizeof jobs[i],
                "{\"id\":\"n%d\",\"input\":{\"key\":\"gpuimgd:img:in\"},\"output\":\"n%d.png\"}", i,
                i);
    }
    freeReplyObject(redisCommand(rig->world.client, "LPUSH gpuimgd:jobs %s %s %s %s %s", jobs[0],
                                 jobs[1], jobs[2], jobs[3], jobs[4]));
    saw_waiting(rig, 1 + others);
    rig_lower(rig, "hung");
    rig_wait(rig, 20);
    rig_saw_done(rig, "n");
}

/* A white frame of `margin` around black, in a file of 1 MB. */
static void put_framed(struct rig *rig, uint32_t side, uint32_t margin)
{
    enum { file_bytes = 1 << 20 };
    struct raster raster = raster_make(side, side, 3);
    struct picture_file file = {.bytes = NULL};
    uint8_t *padded = calloc(1, file_bytes);
    memset(raster.pixels, 255, (size_t)side * side * 3);
    for (uint32_t y = margin; y < side - margin; y++)
        memset(raster_at(&raster, margin, y), 0, (size_t)(side - 2 * margin) * 3);
    file.bytes = raster_to_jpeg(&raster, 95, &file.length);
    if (!padded || file.length > file_bytes)
        abort();
    memcpy(padded, file.bytes, file.length);
    world_put(&rig->world, "framed.jpg", padded, file_bytes);
    free(padded);
    picture_free(&file);
    raster_clear(&raster);
}

/* The borders of an input are measured, but there is no room for its overlay. Then another, smaller
 * file is there under its name. */
static void trimmed_input_changes(struct rig *rig)
{
    rig_put_large_file(rig, "large.jpg", FILE_BYTES);
    put_framed(rig, 240, 40);
    world_put_picture(&rig->world, "over.png",
                      make_png(.width = 500, .height = 400, .colour_type = 6));
    start_with_victim(rig, HOST_BYTES, 50);
    rig_push_text(rig, "trims",
                  "{'id':'trims','input':'framed.jpg','trim':{'threshold':100},'output':'t.png',"
                  "'ops':[{'op':'composite','input':'over.png'}]}");
    saw_waiting(rig, 1);
    put_framed(rig, 96, 16);
    rig_lower(rig, "hung");
    rig_wait(rig, 20);
    rig_saw_jobs(rig, "trims");
    struct raster raster = raster_load(text_of("%s/t.png", rig->world.out), RASTER_COLOUR);
    rig_saw(rig, "%u x %u", raster.width, raster.height);
    raster_clear(&raster);
}

/* The borders of an input are measured. Then the only worker hangs in another job, longer than the
 * timeout of the first job, whose clock stands while it waits. */
static void trimmed_input_waits(struct rig *rig)
{
    char trims[160];
    put_framed(rig, 96, 16);
    rig_start(rig, 0, rig_hang_while(rig, "hung", "run=decode,match=victim"), "--workers=1",
              "--job_timeout_s=600", NULL);
    rig_expects(rig, "trims");
    rig_expects(rig, "victim");
    snprintf(trims, sizeof trims,
             "{\"id\":\"trims\",\"input\":\"framed.jpg\",\"trim\":{\"threshold\":100},"
             "\"output\":\"t.png\",\"timeout_s\":%g}",
             patience(2));
    freeReplyObject(redisCommand(rig->world.client, "LPUSH gpuimgd:jobs %s %s", trims,
                                 "{\"id\":\"victim\",\"input\":\"p.jpg\",\"output\":\"v.png\"}"));
    rig_saw_if(rig, rig_met(rig, "hung", 20), "it hangs");
    process_sleep(patience(3));
    rig_lower(rig, "hung");
    rig_wait(rig, 20);
    rig_saw_jobs(rig, "trims");
}

const struct fault_case room_faults[] = {
    CASE("an input beside that of a hung worker", "there is no room", file_of_a_hung_worker,
         "it hangs; victim: failed timeout, attempt 1; 1 wait for memory; 12 done once; large: no "
         "result; large: done, attempt 1"),
    CASE("a picture beside that of a hung worker", "there is no room", picture_of_a_hung_worker,
         "it hangs; victim: failed timeout, attempt 1; 1 wait for memory; 12 done once; large: no "
         "result; large: done, attempt 1"),
    CASE("the first of those that wait for room", "cancel", first_in_line_is_cancelled,
         "it hangs; 1 wait for memory; 13 wait for memory; large: cancelled cancelled, attempt 1; "
         "12 done once; victim: no result; victim: done, attempt 1"),
    CASE("health, while one waits for room", "a worker hangs", health_while_one_waits,
         "it hangs; victim: failed timeout, attempt 1; /healthz 200; 1 wait for memory; /healthz "
         "503; /readyz 503; /healthz 200; /healthz 503; /healthz 200; 1 done once; large: done, "
         "attempt 1"),
    CASE("6 jobs that wait for one worker", "a job of list 9", an_urgent_job_overtakes,
         "it hangs; 6 wait; fetched; victim; urgent; 6 done once"),
    CASE("large inputs from keys", "there is no room for an overlay before them",
         inputs_after_an_overlay, "it hangs; 5 wait for memory; 5 done once"),
    CASE("an input whose borders are measured", "no room for its overlay, and the file changes",
         trimmed_input_changes, "it hangs; 1 wait for memory; trims: done, attempt 1; 64 x 64"),
    CASE("an input whose borders are measured", "the only worker hangs before the second read",
         trimmed_input_waits, "it hangs; trims: done, attempt 1"),
    {.name = NULL},
};
