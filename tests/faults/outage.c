/*
 * outage.c - output_root cannot be written for a while, by any job: the disk is full, read-only or
 * broken, or its mount is gone. Or it has no room for some outputs.
 *
 * No job may die or lose an attempt, and the daemon must resume by itself. shim_disk.c injects the
 * faults while a flag file exists; if mounts are permitted, real mounts cause them, too.
 */
#include <errno.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/shard.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/web_server.h"

#define JOBS 12
#define SMALL_JOBS 20
#define REFUSED "nothing is fetched until outputs can be written"

/* ---- one outage ------------------------------------------------------------------------------ */

static struct process *start_one(struct rig *rig)
{
    return rig_start(rig, 0, NULL, "--sync_outputs=yes", rig_listen(rig), NULL);
}

/* The daemon logs the outage, no job has ended, and all jobs are back in the queue. */
static void see_outage(struct rig *rig, struct process *daemon, const char *why)
{
    struct world *w = &rig->world;
    rig_saw_answer(rig, "/readyz", 503, why);
    rig_saw_answer(rig, "/healthz", 200, "running");
    rig_saw_if(rig, process_noted(daemon, 0, why, 20), "in STATUS");
    rig_saw_if(rig, world_until(w, 20, 0, "ZCARD %s:lease", w->ns), "none held");
    rig_saw(rig, "%lld wait", redis_integer(w->client, "LLEN %s:jobs", w->ns));
}

/* All jobs are done at their first attempt, and the outage was logged once. */
static void see_end(struct rig *rig, const struct process *daemon)
{
    rig_wait(rig, 30);
    rig_saw_answer(rig, "/readyz", 200, "running");
    rig_saw_done_at(rig, "n", 1);
    rig_saw(rig, "%lld dead", redis_integer(rig->world.client, "LLEN %s:dead", rig->world.ns));
    rig_saw(rig, "said %zu time", process_log_count(daemon, 0, REFUSED));
}

/* Makes a call on the files of all outputs fail until the flag "broken" is removed. */
static void break_disk(struct rig *rig, const char *call)
{
    const char *shim = text_of("call=%s,match=*/.gpuimgd/*.tmp,while=%s", call,
                               rig_flag(rig, "broken"));
    rig_raise(rig, "broken");
    rig_shim(rig, "disk", shim);
}

/* with: the call and its error, and the error's text. */
static void outage(struct rig *rig)
{
    break_disk(rig, rig->fault->with[0]);
    struct process *daemon = start_one(rig);
    rig_push(rig, "n", JOBS);
    see_outage(rig, daemon, rig->fault->with[1]);
    rig_lower(rig, "broken");
    see_end(rig, daemon);
}

/* Outputs to Redis need no disk: such a running job ends. Jobs with files go back. */
static void keys_go_on(struct rig *rig)
{
    break_disk(rig, "write,do=ENOSPC");
    const char *fault = rig_hang_while(rig, "hung", "run=decode,match=key");
    struct process *daemon = rig_start(rig, 0, fault, rig_listen(rig), "--workers=2", NULL);
    rig_push_text(rig, "key", "{'id':'key','input':'p.jpg','output':{'key':'%s:img:k',"
                              "'format':'png'}}", rig->world.ns);
    rig_saw_if(rig, rig_met(rig, "hung", 20), "the key is under way");
    rig_push(rig, "n", 1);
    rig_saw_answer(rig, "/readyz", 503, "No space left");
    rig_lower(rig, "hung");
    rig_wait_for(rig, 1, 20);
    rig_saw_jobs(rig, "key");
    rig_lower(rig, "broken");
    see_end(rig, daemon);
}

/* ---- a root that goes away ------------------------------------------------------------------- */

static void root_is_moved(struct rig *rig)
{
    const char *moved = text_of("%s/moved", rig->world.folder);
    struct process *daemon = start_one(rig);
    if (rename(rig->world.out, moved) != 0)
        rig_saw(rig, "not moved: %s", strerror(errno));
    rig_saw_answer(rig, "/readyz", 503, "No such file or directory");
    rig_push(rig, "n", JOBS);
    if (mkdir(rig->world.out, 0755) != 0)
        rig_saw(rig, "not made: %s", strerror(errno));
    see_end(rig, daemon);
    rig_saw(rig, "%zu there", text_file_count(rig->world.out, ".png"));
    rig_saw(rig, "%zu elsewhere", text_file_count(moved, ".png"));
}

static void disk_is_full(struct rig *rig)
{
    const char *out = rig->world.out;
    if (!rig_mount(rig, out, "size=4m"))
        return;
    struct process *daemon = start_one(rig);
    rig_fill(rig, out);
    rig_push(rig, "n", JOBS);
    see_outage(rig, daemon, "No space left on device");
    unlink(text_of("%s/filler", out));
    see_end(rig, daemon);
}

/* There is always room for the small outputs, but for the large ones only at the end. */
static void disk_is_almost_full(struct rig *rig)
{
    const char *out = rig->world.out;
    if (!rig_mount(rig, out, "size=32m"))
        return;
    struct process *daemon = start_one(rig);
    rig_fill(rig, out);
    if (truncate(text_of("%s/filler", out), 30 << 20) != 0)
        rig_saw(rig, "not made smaller");
    world_put_photo(&rig->world, "large.jpg", 1500, 1200);
    for (int i = 0; i < 3; i++) { /* 5.4 MB each */
        const char *id = text_of("large%d", i);
        rig_push_text(rig, id, "{'id':'%s','input':'large.jpg','output':{'path':'%s.png',"
                               "'compression':0}}", id, id);
    }
    const char *named = "large0.png\" cannot be written: No space left on device; an output has at "
                        "least ";
    rig_saw_if(rig, process_logged(daemon, 0, named, 20), "large0 named");
    double start = process_now();
    for (int i = 0; i < SMALL_JOBS; i++) {
        const char *id = text_of("n%d", i);
        rig_push_text(rig, id, "{'id':'%s','input':'p.jpg','output':'%s.png',"
                               "'ops':[{'op':'resize','width':1,'height':1}]}", id, id);
    }
    rig_wait_for(rig, SMALL_JOBS, 30);
    rig_saw_done_at(rig, "n", 1);
    rig_saw_in_time(rig, start, 10);
    rig_saw_answer(rig, "/readyz", 200, "running");
    unlink(text_of("%s/filler", out));
    rig_wait_done_at(rig, 60, "large", 1);
    rig_saw(rig, "%lld dead", redis_integer(rig->world.client, "LLEN %s:dead", rig->world.ns));
    rig_saw(rig, "said %zu times", process_log_count(daemon, 0, REFUSED));
}

/* ---- jobs with many images ------------------------------------------------------------------- */

static struct web_server *server;

/* One of large.jpg has 5.4 MB as pixels: more than the disk has room for. */
#define AS_PIXELS "'ops':['invert'],'output':{'path':'%s.tar','format':'raw'}"

/* The tar itself has no room. */
static void push_tar(struct rig *rig)
{
    rig_push_text(rig, "set0", "{'id':'set0','inputs':['p.jpg','large.jpg']," AS_PIXELS "}",
                  "set0");
}

/* An archive from a key, which is stored in a file until its turn comes. */
static void push_archive(struct rig *rig)
{
    static char zeros[5 << 20];
    struct picture_file photo = picture_load(text_of("%s/p.jpg", rig->world.in));
    const struct shard_member members[] = {{"p.jpg", photo.bytes, photo.length},
                                           {"zeros.bin", zeros, sizeof zeros}};
    struct picture_file shard = shard_make(members, 2);
    world_set_picture(&rig->world, text_of("%s:img:shard", rig->world.ns), shard);
    picture_free(&photo);
    rig_push_text(rig, "set0",
                  "{'id':'set0','inputs':{'archive':{'key':'%s:img:shard'}},"
                  "'ops':['invert'],'output':{'path':'set0.npy','pack':'array'}}",
                  rig->world.ns);
}

/* Images that are done move to a file while the first one waits for its bytes. */
static void push_late(struct rig *rig)
{
    rig_push_text(rig, "set0",
                  "{'id':'set0','inputs':[{'url':'http://127.0.0.1:%u/silent'},"
                  "'large.jpg','large.jpg','large.jpg','large.jpg','large.jpg'],"
                  "'timeout_s':%g," AS_PIXELS "}",
                  web_server_port(server), patience(1), "set0");
}

/* with: the start of the message. number: which job. The job waits for room, and loses no
 * attempt. */
static void set_lacks_room(struct rig *rig)
{
    static void (*const push[])(struct rig * rig) = {push_tar, push_archive, push_late};
    const char *out = rig->world.out;
#ifndef GPUIMGD_CURL
    rig_skip(rig, "built without libcurl");
    return;
#endif
    if (!rig_mount(rig, out, "size=96m"))
        return;
    server = web_server_start();
    const char *prefix = text_of("--url_prefixes=http://127.0.0.1:%u/", web_server_port(server));
    struct process *daemon = rig_start(rig, 0, NULL, prefix, "--url_networks=127.0.0.0/8",
                                       "--host_bytes=32M", "--pinned_bytes=48M", "--workers=2",
                                       "--inflight=8", "--input_bytes_max=6M", NULL);
    world_put_photo(&rig->world, "large.jpg", 1500, 1200);
    rig_fill(rig, out);
    if (truncate(text_of("%s/filler", out), 94 << 20) != 0)
        rig_saw(rig, "not made smaller");
    push[(size_t)rig->fault->number[0]](rig);
    rig_saw_if(rig, process_logged(daemon, 0, rig->fault->with[0], 20), "named");
    process_sleep(patience(1)); /* as long as a few retries take */
    rig_saw_jobs(rig, "set0");
    unlink(text_of("%s/filler", out));
    rig_wait_jobs(rig, 40, "set0");
    web_server_stop(server);
}

/* A filesystem below output_root is full: only the jobs that write there fail. */
static void another_disk_is_full(struct rig *rig)
{
    const char *other = text_of("%s/other", rig->world.out);
    if (mkdir(other, 0755) != 0 || !rig_mount(rig, other, "size=2m"))
        return;
    struct process *daemon = start_one(rig);
    rig_fill(rig, other);
    rig_push_text(rig, "victim", "{'id':'victim','input':'p.jpg','output':'other/v.png'}");
    rig_push(rig, "n", JOBS);
    rig_wait_jobs(rig, 30, "victim");
    rig_saw_done(rig, "n");
    rig_saw(rig, "said %zu times", process_log_count(daemon, 0, REFUSED));
}

/* The filesystem is unmounted: the folder under the mount point must stay empty. */
static void mount_is_lost(struct rig *rig)
{
    const char *out = rig->world.out;
    if (!rig_mount(rig, out, "size=8m"))
        return;
    struct process *daemon = start_one(rig);
    umount2(out, MNT_DETACH);
    rig_saw_answer(rig, "/readyz", 503, "mount its filesystem");
    rig_push(rig, "n", JOBS);
    rig_saw_answer(rig, "/readyz", 503, "mount its filesystem");
    rig_saw(rig, "%zu files below", text_file_count(out, ""));
    if (!rig_mount(rig, out, "size=8m") || mkdir(text_of("%s/.gpuimgd", out), 0700) != 0)
        return;
    see_end(rig, daemon);
    rig_saw(rig, "%zu on it", text_file_count(out, ".png"));
}

#define OUTAGE "/readyz 503; /healthz 200; in STATUS; none held; "
#define END "/readyz 200; 12 done once; all at attempt 1; 0 dead; said 1 time"

#define ONE_WAITS "full; named; set0: no result; set0: done, attempt 1"
#define LATER     "runs again later: "
#define A_FILE    "a file in .gpuimgd for a job with many images cannot be written"
#define FULL      ": No space left on device; an output has at least "

const struct fault_case outage_faults[] = {
    CASE("write, of all outputs", "ENOSPC for a while", outage, OUTAGE "12 wait; " END,
         .with = {"write,do=ENOSPC", "No space left on device"}),
    CASE("write, of all outputs", "EDQUOT for a while", outage, OUTAGE "12 wait; " END,
         .with = {"write,do=EDQUOT", "Disk quota exceeded"}),
    CASE("fsync, of all outputs", "EIO for a while", outage, OUTAGE "12 wait; " END,
         .with = {"fsync,do=EIO", "Input/output error"}),
    CASE("openat, of all outputs", "EROFS for a while", outage, OUTAGE "12 wait; " END,
         .with = {"openat,do=EROFS", "Read-only file system"}),
    CASE("openat, of all outputs", "ESTALE for a while", outage, OUTAGE "12 wait; " END,
         .with = {"openat,do=ESTALE", "Stale file handle"}),
    CASE("close, of all outputs", "ENOTCONN for a while", outage, OUTAGE "12 wait; " END,
         .with = {"close,do=ENOTCONN", "Transport endpoint is not connected"}),
    CASE("a job with a key under way", "ENOSPC for a while", keys_go_on,
         "the key is under way; /readyz 503; key: done, attempt 1; /readyz 200; 1 done once; all "
         "at attempt 1; 0 dead; said 1 time"),
    CASE("output_root", "it is moved, and made again", root_is_moved,
         "/readyz 503; " END "; 12 there; 0 elsewhere"),
    CASE("output_root, a tmpfs", "it is full", disk_is_full, "full; " OUTAGE "12 wait; " END),
    CASE("output_root, a tmpfs", "it is almost full", disk_is_almost_full,
         "full; large0 named; 20 done once; all at attempt 1; within 10 s; /readyz 200; 3 done "
         "once; all at attempt 1; 0 dead; said 0 times"),
    CASE("a tar in a tmpfs", "it is almost full", set_lacks_room, ONE_WAITS,
         .with = {LATER "the output \"set0.tar\" cannot be written" FULL}, .number = {0}),
    CASE("an archive in a tmpfs", "it is almost full", set_lacks_room, ONE_WAITS,
         .with = {LATER A_FILE FULL}, .number = {1}),
    CASE("images that wait, in a tmpfs", "it is almost full", set_lacks_room, ONE_WAITS,
         .with = {LATER A_FILE FULL}, .number = {2}),
    CASE("a tmpfs below output_root", "it is full", another_disk_is_full,
         "full; victim: dead write_failed, attempt 3; 12 done once; said 0 times"),
    CASE("output_root, a tmpfs", "it is unmounted, and mounted again", mount_is_lost,
         "/readyz 503; /readyz 503; 0 files below; " END "; 12 on it"),
    {.name = NULL},
};
