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
#include "tests/fixtures/text_file.h"

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

/* Fills the filesystem. */
static void fill(struct rig *rig, const char *folder)
{
    static const char zeros[4096];
    int fd = open(text_of("%s/filler", folder), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ssize_t count = 1;
    while (fd >= 0 && count > 0)
        count = write(fd, zeros, sizeof zeros);
    rig_saw_if(rig, fd >= 0 && errno == ENOSPC, "full");
    if (fd >= 0)
        close(fd);
}

static void disk_is_full(struct rig *rig)
{
    const char *out = rig->world.out;
    if (!rig_mount(rig, out, "size=4m"))
        return;
    struct process *daemon = start_one(rig);
    fill(rig, out);
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
    fill(rig, out);
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

/* A filesystem below output_root is full: only the jobs that write there fail. */
static void another_disk_is_full(struct rig *rig)
{
    const char *other = text_of("%s/other", rig->world.out);
    if (mkdir(other, 0755) != 0 || !rig_mount(rig, other, "size=2m"))
        return;
    struct process *daemon = start_one(rig);
    fill(rig, other);
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
    CASE("a tmpfs below output_root", "it is full", another_disk_is_full,
         "full; victim: dead write_failed, attempt 3; 12 done once; said 0 times"),
    CASE("output_root, a tmpfs", "it is unmounted, and mounted again", mount_is_lost,
         "/readyz 503; /readyz 503; 0 files below; " END "; 12 on it"),
    {.name = NULL},
};
