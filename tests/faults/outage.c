/*
 * outage.c - output_root cannot be written for a while, by any job: the disk is full, read-only or
 * broken, or its mount is gone.
 *
 * No job may die or lose an attempt, and the daemon must resume by itself. shim_disk.c injects the
 * faults while a flag file exists; if mounts are permitted, real mounts cause them, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/text_file.h"

#define JOBS 12
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
    rig_saw_if(rig, process_noted(daemon, 0, why, 20), "in STATUS", "not in STATUS");
    rig_saw_if(rig, world_until(w, 20, 0, "ZCARD %s:lease", w->ns), "none held", "some held");
    rig_saw(rig, "%lld wait", redis_integer(w->client, "LLEN %s:jobs", w->ns));
}

/* All jobs are done at their first attempt, and the outage was logged once. */
static void see_end(struct rig *rig, const struct process *daemon)
{
    rig_wait(rig, 30);
    rig_saw_answer(rig, "/readyz", 200, "running");
    rig_saw_done(rig, "n");
    rig_saw_attempts(rig, "n", 1);
    rig_saw(rig, "%lld dead", redis_integer(rig->world.client, "LLEN %s:dead", rig->world.ns));
    rig_saw(rig, "said %zu time", process_log_count(daemon, 0, REFUSED));
}

static void outage(struct rig *rig, const char *fault, const char *why)
{
    const char *shim = text_of("%s,while=%s", fault, rig_flag(rig, "broken"));
    rig_raise(rig, "broken");
    rig_shim(rig, "disk", shim);
    struct process *daemon = start_one(rig);
    rig_push(rig, "n", JOBS);
    see_outage(rig, daemon, why);
    rig_lower(rig, "broken");
    see_end(rig, daemon);
}

#define ANY_OUTPUT "match=*/.gpuimgd/*.tmp"

static void write_enospc(struct rig *rig)
{
    outage(rig, "call=write,do=ENOSPC," ANY_OUTPUT, "No space left on device");
}

static void write_edquot(struct rig *rig)
{
    outage(rig, "call=write,do=EDQUOT," ANY_OUTPUT, "Disk quota exceeded");
}

static void fsync_eio(struct rig *rig)
{
    outage(rig, "call=fsync,do=EIO," ANY_OUTPUT, "Input/output error");
}

static void create_erofs(struct rig *rig)
{
    outage(rig, "call=openat,do=EROFS," ANY_OUTPUT, "Read-only file system");
}

static void create_estale(struct rig *rig)
{
    outage(rig, "call=openat,do=ESTALE," ANY_OUTPUT, "Stale file handle");
}

static void close_enotconn(struct rig *rig)
{
    outage(rig, "call=close,do=ENOTCONN," ANY_OUTPUT, "Transport endpoint is not connected");
}

/* Outputs to Redis need no disk: such a running job ends. Jobs with files go back. */
static void keys_go_on(struct rig *rig)
{
    struct world *w = &rig->world;
    const char *shim = text_of("call=write,do=ENOSPC," ANY_OUTPUT ",while=%s",
                               rig_flag(rig, "broken"));
    rig_raise(rig, "broken");
    rig_shim(rig, "disk", shim);
    const char *fault = text_of("%s", rig_hang_while(rig, "hung", "run=decode,match=key"));
    struct process *daemon = rig_start(rig, 0, fault, rig_listen(rig), "--workers=2", NULL);
    rig_push_text(rig, "key", "{'id':'key','input':'p.jpg','output':{'key':'%s:img:k',"
                              "'format':'png'}}", w->ns);
    rig_saw_if(rig, rig_met(rig, "hung", 20), "the key is under way", "the key does not begin");
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

/* A mount namespace in which output_root, or a folder below it, is a tmpfs of `bytes` bytes. */
static bool mount_tmpfs(struct rig *rig, const char *folder, const char *size)
{
    static bool unshared;
    bool apart = unshared || (unshare(CLONE_NEWNS) == 0 &&
                              mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    unshared = apart;
    if (apart && mount("tmpfs", folder, "tmpfs", 0, size) == 0)
        return true;
    rig_skip(rig, text_of("no tmpfs can be mounted: %s", strerror(errno)));
    return false;
}

static const char *below(const char *folder, const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Fills the filesystem. */
static void fill(struct rig *rig, const char *folder)
{
    static const char zeros[4096];
    int fd = open(below(folder, "filler"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ssize_t count = 1;
    while (fd >= 0 && count > 0)
        count = write(fd, zeros, sizeof zeros);
    rig_saw_if(rig, fd >= 0 && errno == ENOSPC, "full", "not full");
    if (fd >= 0)
        close(fd);
}

static void empty(const char *folder)
{
    unlink(below(folder, "filler"));
}

static void disk_is_full(struct rig *rig)
{
    const char *out = rig->world.out;
    if (!mount_tmpfs(rig, out, "size=4m"))
        return;
    struct process *daemon = start_one(rig);
    fill(rig, out);
    rig_push(rig, "n", JOBS);
    see_outage(rig, daemon, "No space left on device");
    empty(out);
    see_end(rig, daemon);
    umount2(out, MNT_DETACH);
}

/* There is always room for a small file, but room for the images only at the end. */
static void disk_is_almost_full(struct rig *rig)
{
    const char *out = rig->world.out;
    if (!mount_tmpfs(rig, out, "size=32m"))
        return;
    struct process *daemon = start_one(rig);
    fill(rig, out);
    if (truncate(below(out, "filler"), 30 << 20) != 0)
        rig_saw(rig, "not made smaller");
    world_put_photo(&rig->world, "large.jpg", 1500, 1200);
    for (int i = 0; i < 3; i++) { /* 5.4 MB each */
        const char *id = text_of("n%d", i);
        rig_push_text(rig, id, "{'id':'%s','input':'large.jpg','output':{'path':'%s.png',"
                               "'compression':0}}", id, id);
    }
    see_outage(rig, daemon, "No space left on device");
    empty(out);
    see_end(rig, daemon);
    umount2(out, MNT_DETACH);
}

/* A filesystem below output_root is full: only the jobs that write there fail. */
static void another_disk_is_full(struct rig *rig)
{
    struct world *w = &rig->world;
    const char *other = text_of("%s", below(w->out, "other"));
    if (mkdir(other, 0755) != 0 || !mount_tmpfs(rig, other, "size=2m"))
        return;
    struct process *daemon = start_one(rig);
    fill(rig, other);
    rig_push_text(rig, "victim", "{'id':'victim','input':'p.jpg','output':'other/v.png'}");
    rig_push(rig, "n", JOBS);
    rig_wait(rig, 30);
    rig_saw_jobs(rig, "victim");
    rig_saw_done(rig, "n");
    rig_saw(rig, "said %zu times", process_log_count(daemon, 0, REFUSED));
    umount2(other, MNT_DETACH);
}

/* The filesystem is unmounted: the folder under the mount point must stay empty. */
static void mount_is_lost(struct rig *rig)
{
    const char *out = rig->world.out;
    if (!mount_tmpfs(rig, out, "size=8m"))
        return;
    struct process *daemon = start_one(rig);
    umount2(out, MNT_DETACH);
    rig_saw_answer(rig, "/readyz", 503, "mount its filesystem");
    rig_push(rig, "n", JOBS);
    rig_saw_answer(rig, "/readyz", 503, "mount its filesystem");
    rig_saw(rig, "%zu files below", text_file_count(out, ""));
    if (!mount_tmpfs(rig, out, "size=8m") || mkdir(below(out, ".gpuimgd"), 0700) != 0)
        return;
    see_end(rig, daemon);
    rig_saw(rig, "%zu on it", text_file_count(out, ".png"));
    umount2(out, MNT_DETACH);
}

#define OUTAGE "/readyz 503; /healthz 200; in STATUS; none held; "
#define END "/readyz 200; 12 done once; all at attempt 1; 0 dead; said 1 time"

static const struct fault_case cases[] = {
    {"write, of all outputs", "ENOSPC for a while",
     .run = write_enospc, .quick = true, .expected = OUTAGE "12 wait; " END},
    {"write, of all outputs", "EDQUOT for a while",
     .run = write_edquot, .quick = true, .expected = OUTAGE "12 wait; " END},
    {"fsync, of all outputs", "EIO for a while",
     .run = fsync_eio, .quick = true, .expected = OUTAGE "12 wait; " END},
    {"openat, of all outputs", "EROFS for a while",
     .run = create_erofs, .quick = true, .expected = OUTAGE "12 wait; " END},
    {"openat, of all outputs", "ESTALE for a while",
     .run = create_estale, .quick = true, .expected = OUTAGE "12 wait; " END},
    {"close, of all outputs", "ENOTCONN for a while",
     .run = close_enotconn, .quick = true, .expected = OUTAGE "12 wait; " END},
    {"a job with a key under way", "ENOSPC for a while", .run = keys_go_on, .quick = true,
     .expected = "the key is under way; /readyz 503; key: done, attempt 1; /readyz 200; 1 done "
                 "once; all at attempt 1; 0 dead; said 1 time"},
    {"output_root", "it is moved, and made again", .run = root_is_moved, .quick = true,
     .expected = "/readyz 503; " END "; 12 there; 0 elsewhere"},
    {"output_root, a tmpfs", "it is full",
     .run = disk_is_full, .quick = true, .expected = "full; " OUTAGE "12 wait; " END},
    {"output_root, a tmpfs", "it is almost full", .run = disk_is_almost_full, .quick = true,
     .expected = "full; " OUTAGE "3 wait; /readyz 200; 3 done once; all at attempt 1; 0 dead; "
                 "said 1 time"},
    {"a tmpfs below output_root", "it is full", .run = another_disk_is_full, .quick = true,
     .expected = "full; victim: dead write_failed, attempt 3; 12 done once; said 0 times"},
    {"output_root, a tmpfs", "it is unmounted, and mounted again",
     .run = mount_is_lost, .quick = true,
     .expected = "/readyz 503; /readyz 503; 0 files below; " END "; 12 on it"},
    {.name = NULL},
};

const struct fault_group outage_faults = {"outage", cases};
