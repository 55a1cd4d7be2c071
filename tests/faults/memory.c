/*
 * memory.c - each allocation of a job fails in turn.
 *
 * shim_memory.c selects the allocations, and makes one of them fail, or all from there on until the
 * fault ends. Later jobs get all their memory. The daemon has one worker, so that the calls come in
 * nearly the same order each time. Each case ends when a job finishes without reaching the failing
 * allocation. After each job, the number of live allocations must be the same as before.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef GPUIMGD_WEBP
#include <webp/encode.h>
#endif

#include "tests/faults/rig.h"

#define ONE 1u
#define ALL (~0u)
#define NUMBERS_MAX 5000
#define LEAST 60 /* allocations per job; with fewer, the shim did not count */

struct squeeze {
    struct rig *rig;
    struct shim_page *page;
    struct process *daemon;
    const char *job, *list; /* the job, and the list of its result */
    cJSON *whole;           /* the result without faults */
    int live;
    unsigned hit, done, again, dead, wrong, leaks;
};

/* Number of live allocations when the daemon is idle; waits until it is `wanted`, if possible. */
static int settle(struct squeeze *all, int wanted)
{
    double deadline = process_now() + patience(4), since = process_now();
    int live = atomic_load(&all->page->live);
    while (abs(live - wanted) > all->rig->fault->number[0] && process_now() < deadline) {
        process_sleep(0.0005);
        int now = atomic_load(&all->page->live);
        if (now != live)
            since = process_now();
        live = now;
        if (wanted < 0 && process_now() - since > 0.1)
            break;
    }
    return live;
}

/* Waits until some allocations have failed or the job has ended, and then ends the fault. */
static void give_back_memory(struct squeeze *all)
{
    double deadline = process_now() + patience(2);
    while (atomic_load(&all->page->faults) < 3 && process_now() < deadline &&
           redis_integer(all->rig->world.client, "LLEN %s", all->list) == 0)
        process_sleep(0.0002);
    atomic_store(&all->page->from, 0);
}

static cJSON *answer(struct squeeze *all, unsigned number, unsigned times)
{
    struct shim_page *page = all->page;
    atomic_store(&page->met, 0);
    atomic_store(&page->faults, 0);
    atomic_store(&page->times, times);
    atomic_store(&page->from, number);
    world_push(&all->rig->world, "%s", all->job);
    if (times == ALL)
        give_back_memory(all);
    cJSON *result = world_result_from(&all->rig->world, all->list, 20);
    atomic_store(&page->from, 0);
    return result;
}

static bool equal(const cJSON *a, const cJSON *b)
{
    return (!a && !b) || cJSON_Compare(a, b, true);
}

static bool same(const cJSON *a, const cJSON *b)
{
    return strcmp(json_text(a, "status"), json_text(b, "status")) == 0 &&
           strcmp(json_text(a, "error.code"), json_text(b, "error.code")) == 0 &&
           equal(json_at(a, "outputs"), json_at(b, "outputs")) &&
           equal(json_at(a, "meta"), json_at(b, "meta"));
}

/* The result must equal the result without faults, at any attempt, or be out_of_memory. */
static void judge(struct squeeze *all, unsigned number, const cJSON *result)
{
    const char *status = json_text(result, "status"), *code = json_text(result, "error.code");
    if (same(result, all->whole)) {
        bool again = json_number(result, "attempt") > 1;
        all->done += !again;
        all->again += again;
    } else if (strcmp(status, "dead") == 0 && strcmp(code, "out_of_memory") == 0) {
        all->dead++;
    } else if (all->wrong++ < 4) {
        char *text = cJSON_PrintUnformatted(result);
        fprintf(stderr, "at %u: %s\n", number, text ? text : "no result");
        cJSON_free(text);
        rig_saw(all->rig, "%u: %s %s", number, status, code);
    }
}

/* false: the job made fewer allocations, so none failed. */
static bool squeeze_once(struct squeeze *all, unsigned number, unsigned times)
{
    cJSON *result = answer(all, number, times);
    bool hit = atomic_load(&all->page->faults) > 0;
    all->hit += hit;
    judge(all, number, result);
    if (!result)
        return false;
    cJSON_Delete(result);
    int live = settle(all, all->live);
    bool leaks = abs(live - all->live) > all->rig->fault->number[0];
    if (leaks && all->leaks++ < 4)
        rig_saw(all->rig, "%u: %+d live", number, live - all->live);
    if (leaks)
        all->live = live;
    return hit;
}

/* with: the option for the attempts; "all" if all allocations fail from the Nth on; an option.
 * number: allocations that a cache may hold. */
static void squeeze(struct rig *rig, const char *job)
{
    const char *attempts = rig->fault->with[0];
    unsigned times = rig->fault->with[1] ? ALL : ONE;
    struct squeeze all = {.rig = rig, .job = job,
                          .list = strstr(job, "reply_to") ? "gpuimgd:reply:r" : "gpuimgd:results"};
    all.page = rig_shim(rig, "memory", "");
    all.daemon = rig_start(rig, 0, NULL, "--workers=1", "--retry_delay_s=0.01", attempts,
                           rig_option_s("lease_s", 5), rig_option_s("renew_s", 0.15),
                           "--reap_s=0.1", "--stats_interval_s=600",
                           "--input_bytes_max=1M", rig->fault->with[2], NULL);
    for (int i = 0; i < 3 && process_running(all.daemon); i++) { /* fills caches and pools */
        cJSON_Delete(all.whole);
        all.whole = answer(&all, 0, ONE);
    }
    rig_saw(rig, "%s", json_text(all.whole, "status"));
    all.live = settle(&all, -1);
    for (unsigned number = 1; number < NUMBERS_MAX && process_running(all.daemon); number++)
        if (!squeeze_once(&all, number, times))
            break;
    fprintf(stderr, "memory, %s, refused at each of %u: %u done, %u later, %u dead, %u wrong\n",
            attempts, all.hit, all.done, all.again, all.dead, all.wrong);
    rig_saw_end(rig, all.daemon, 0);
    rig_saw_if(rig, all.hit >= LEAST, "each was hit");
    rig_saw(rig, "%s done later", all.again > 0 ? "some" : "none");
    rig_saw(rig, "%s out_of_memory", all.dead > 0 ? "some" : "none");
    rig_push(rig, "n", 5);
    rig_wait_done(rig, 20, "n");
    cJSON_Delete(all.whole);
}

/* ---- the jobs -------------------------------------------------------------------------------- */

static const char jpeg_job[] =
    "{'id':'x','input':'p.jpg','meta':{'a':[1,'b']},'outputs':["
    "{'output':{'path':'a/b.jpg','progressive':true},"
    "'ops':[{'op':'resize','width':90},'gaussian']},"
    "{'output':{'key':'gpuimgd:img:a','format':'png','ttl_s':60},'ops':['equalize','canny']},"
    "{'ops':['histogram','otsu','phash','stats']}]}";

static void jpeg(struct rig *rig)
{
    squeeze(rig, jpeg_job);
}

/* Encodes twice or more, with all coefficients in memory. */
static const char small_job[] =
    "{'id':'x','input':'p.jpg','output':{'path':'s.jpg','subsampling':'444','optimize':true,"
    "'max_bytes':1000},'ops':[{'op':'resize','width':32}]}";

static void small(struct rig *rig)
{
    squeeze(rig, small_job);
}

/* Input and output are keys, and the result goes to its own list. */
static const char png_job[] =
    "{'id':'x','meta':7,'input':{'key':'gpuimgd:img:in'},'reply_to':'gpuimgd:reply:r','output':"
    "{'key':'gpuimgd:img:a','colors':16},'ops':[{'op':'unsharp','sigma':1},'rotate',"
    "{'op':'levels','in_black':9},{'op':'convolve','kernel':[[0,1,0],[1,2,1],[0,1,0]]},"
    "{'op':'median'},'invert']}";

static void png(struct rig *rig)
{
    struct picture_file icc = picture_icc(600, "RGB ");
    struct picture_file file = picture_png(&(struct picture_png){
        .width = 60, .height = 40, .colour_type = 3, .transparent = true, .interlaced = true,
        .orientation = 6, .icc = icc.bytes, .icc_bytes = icc.length});
    picture_free(&icc);
    freeReplyObject(redis_command(rig->world.client, "SET gpuimgd:img:in %b", file.bytes,
                                  file.length));
    picture_free(&file);
    squeeze(rig, png_job);
}

/* Covers the decoder: scans, a colour profile, an orientation, and scaled decoding. */
static void scans(struct rig *rig)
{
    struct picture_file icc = picture_icc(600, "RGB ");
    world_put_picture(&rig->world, "s.jpg", picture_jpeg(&(struct picture_jpeg){
        .width = 160, .height = 120, .progressive = true, .orientation = 6, .icc = icc.bytes,
        .icc_bytes = icc.length}));
    picture_free(&icc);
    squeeze(rig, "{'id':'x','input':'s.jpg','output':'s.png','ops':[{'op':'resize','width':20}]}");
}

/* The time of the file is in the future, so that each job reads it again. The cache holds a few of
 * these overlays. */
static const char overlay_job[] =
    "{'id':'x','input':'p.jpg','outputs':[{'output':'a.png','ops':[{'op':'composite','input':"
    "'o.png','scale':0.5},{'op':'composite','input':{'key':'gpuimgd:img:o'}}]},"
    "{'output':'b.png','ops':['invert']}]}";

static void overlays(struct rig *rig)
{
    const struct timespec times[2] = {{.tv_sec = 4000000000}, {.tv_sec = 4000000000}};
    struct picture_file file = picture_png(&(struct picture_png){
        .width = 220, .height = 200, .colour_type = 6, .orientation = 6});
    freeReplyObject(redis_command(rig->world.client, "SET gpuimgd:img:o %b", file.bytes,
                                  file.length));
    world_put_picture(&rig->world, "o.png", file);
    char *path = world_in_path(&rig->world, "o.png");
    if (utimensat(AT_FDCWD, path, times, 0) != 0)
        abort();
    free(path);
    squeeze(rig, overlay_job);
}

#ifdef GPUIMGD_WEBP
/* Only the decoder: libwebp 1.2 does not report all failures in its encoder
 * (codecs/webp/webp_encode.c). Of the decoder, shim_memory.c spares one allocation, whose failure
 * crashes libwebp before 1.4.0. */
static void webp(struct rig *rig)
{
    uint8_t *bytes, *pixels = picture_pixels(60, 40, 4, 1);
    size_t length = WebPEncodeRGBA(pixels, 60, 40, 4 * 60, 75, &bytes);
    world_put(&rig->world, "a.webp", bytes, length);
    WebPFree(bytes);
    free(pixels);
    squeeze(rig, "{'id':'x','input':'a.webp','outputs':[{'output':'b.png'},{'output':'c.jpg'}]}");
}
#endif

static const char bad_job[] =
    "{'id':'x','input':'p.jpg','meta':[{}],'outputs':[{'output':{'path':'x.gif','format':'gif'}},"
    "{'output':'b.png','ops':['edges']},{'output':'c.png','ops':[{'op':'gamma'}]}]}";

static void bad(struct rig *rig)
{
    squeeze(rig, bad_job);
}

/* Small blocks of memory pools that the threads of the daemon keep for later (gpu/engine/pool.c):
 * up to 8 for each of the 2 workers and the loop, and one per pool. */
#define SHELVED 24

#define SEEN(result, later, dead)                                                                  \
    result "; still runs; each was hit; " later " done later; " dead " out_of_memory; 5 done once"

const struct fault_case memory_faults[] = {
    CASE("JPEG, three outputs", "the Nth fails", jpeg, SEEN("done", "some", "none"),
         .with = {"--attempts=3"}, .slow = true, .limit_s = 300),
    CASE("JPEG, three outputs", "the Nth fails, 1 attempt", jpeg, SEEN("done", "none", "some"),
         .with = {"--attempts=1"}, .slow = true, .limit_s = 300),
    CASE("JPEG, three outputs", "all fail from the Nth on", jpeg, SEEN("done", "some", "none"),
         .with = {"--attempts=3", "all"}, .slow = true, .limit_s = 300),
    CASE("JPEG of few bytes", "the Nth fails", small, SEEN("done", "some", "none"),
         .with = {"--attempts=3"}, .number = {SHELVED}, .limit_s = 300),
    CASE("PNG, key to key", "the Nth fails", png, SEEN("done", "some", "none"),
         .with = {"--attempts=3"}, .number = {SHELVED}, .limit_s = 300),
    CASE("PNG, key to key", "the Nth fails, 1 attempt", png, SEEN("done", "none", "some"),
         .with = {"--attempts=1"}, .slow = true, .limit_s = 300),
    CASE("JPEG of many scans, shrunk", "the Nth fails", scans, SEEN("done", "some", "none"),
         .with = {"--attempts=3"}, .slow = true, .limit_s = 300),
    CASE("JPEG of many scans, shrunk", "the Nth fails, 1 attempt", scans,
         SEEN("done", "none", "some"), .with = {"--attempts=1"}, .slow = true, .limit_s = 300),
    CASE("overlays from a file and a key", "the Nth fails", overlays, SEEN("done", "some", "none"),
         .with = {"--attempts=3", NULL, "--host_bytes=4M"}, .number = {8 + SHELVED},
         .limit_s = 300),
    CASE("overlays from a file and a key", "the Nth fails, 1 attempt", overlays,
         SEEN("done", "none", "some"), .with = {"--attempts=1", NULL, "--host_bytes=4M"},
         .number = {8}, .slow = true, .limit_s = 300),
#ifdef GPUIMGD_WEBP
    CASE("WebP to PNG and JPEG", "the Nth fails", webp, SEEN("done", "some", "none"),
         .with = {"--attempts=3"}, .slow = true, .limit_s = 300),
    CASE("WebP to PNG and JPEG", "the Nth fails, 1 attempt", webp, SEEN("done", "none", "some"),
         .with = {"--attempts=1"}, .slow = true, .limit_s = 300),
#endif
    CASE("a bad job", "the Nth fails", bad, SEEN("failed", "none", "none"),
         .with = {"--attempts=3"}, .slow = true, .limit_s = 300),
    {.name = NULL},
};
