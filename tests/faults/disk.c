/*
 * disk.c - files that cannot be written or read, or only partly, and disks that hang.
 *
 * shim_disk.c makes the calls of one job fail. The first job is the reference. The second is the
 * victim: job 2, which its temporary files have in their names. The other jobs are neighbours. At
 * any moment, the victim's output file is either the old image or the complete new image.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/text_file.h"

#define TEMPORARY "match=*/.gpuimgd/*.2.*.*.tmp"
#define OLD "the picture that was there before"
#define NEIGHBOURS 4

/* ---- looking at the victim's picture --------------------------------------------------------- */

struct bytes {
    unsigned char *at;
    size_t length;
};

static struct bytes load(struct rig *rig, const char *name)
{
    struct bytes bytes = {NULL, 0};
    char *path = world_out_path(&rig->world, name);
    bytes.at = text_file_bytes(path, &bytes.length);
    free(path);
    return bytes;
}

static bool same(struct bytes bytes, const void *other, size_t length)
{
    return bytes.at && bytes.length == length && memcmp(bytes.at, other, length) == 0;
}

static const char *look(struct rig *rig, const char *name, struct bytes whole)
{
    struct bytes now = load(rig, name);
    const char *word = !now.at                             ? "no picture"
                       : same(now, OLD, strlen(OLD))       ? "the old picture"
                       : same(now, whole.at, whole.length) ? "the whole picture"
                                                           : "a part of it";
    free(now.at);
    return word;
}

/* Waits for all results and checks the image continuously. */
static void wait_and_look(struct rig *rig, const char *name, struct bytes whole)
{
    double deadline = process_now() + patience(30);
    const char *seen = look(rig, name, whole);
    while (strcmp(seen, "a part of it") != 0 && !rig_wait(rig, 0.001) && process_now() < deadline)
        seen = look(rig, name, whole);
    rig_saw(rig, "%s", look(rig, name, whole));
}

/* ---- one output ------------------------------------------------------------------------------ */

/* A victim with the output `name`. old: the file exists already. more: extra keys of the job. */
static struct process *spoil(struct rig *rig, const char *shim, const char *name, bool old,
                             const char *more)
{
    struct shim_page *page = rig_shim(rig, "disk", shim);
    struct process *daemon = rig_start(rig, 0, NULL, "--sync_outputs=yes",
                                       rig_option_s("hang_grace_s", 0.2), NULL);
    char *path = world_out_path(&rig->world, name);
    world_put_photo(&rig->world, "v.jpg", 160, 120);
    rig_push(rig, "ref", 1);
    rig_wait(rig, 20);
    struct bytes whole = load(rig, "ref0.png");
    if (old && !text_file_write(path, OLD, strlen(OLD)))
        rig_saw(rig, "cannot write %s", path);
    rig_push_text(rig, "victim", "{'id':'victim','output':{'path':'%s','compression':1},"
                                 "'input':'v.jpg','ops':['sobel']%s}", name, more);
    rig_push(rig, "n", NEIGHBOURS);
    wait_and_look(rig, name, whole);
    rig_saw_jobs(rig, "victim");
    rig_saw(rig, "%u faults", atomic_load(&page->faults));
    rig_saw_done(rig, "n");
    free(whole.at);
    free(path);
    return daemon;
}

static void dies(struct rig *rig, const char *shim)
{
    spoil(rig, shim, "victim.png", true, "");
    rig_saw_message(rig, "victim");
}

static void lives(struct rig *rig, const char *shim)
{
    spoil(rig, shim, "victim.png", true, "");
}

static void folder_enospc(struct rig *rig)
{
    spoil(rig, "call=mkdirat,do=ENOSPC,match=*/a/b", "a/b/victim.png", false, "");
    rig_saw_message(rig, "victim");
}

/* The complete image has its final name by then, but is not synced yet. */
static void folder_fsync_eio(struct rig *rig)
{
    spoil(rig, "call=fsync,do=EIO,times=2,match=*/out/new", "new/victim.png", false, "");
}

/* ---- several outputs, several jobs ----------------------------------------------------------- */

/* The second of four outputs cannot be written; the others are complete, two of them in Redis. */
static void one_of_four(struct rig *rig)
{
    struct world *w = &rig->world;
    struct shim_page *page =
        rig_shim(rig, "disk", "call=write,do=EIO,match=*/.gpuimgd/*.1.*.1.tmp");
    rig_start(rig, 0, NULL, NULL);
    rig_push_text(rig, "victim",
                  "{'id':'victim','input':'p.jpg','outputs':[{'output':{'key':'%s:img:0',"
                  "'format':'png'}},{'output':'b.png'},{'output':'c.png'},"
                  "{'output':{'key':'%s:img:3','ttl_s':100},'ops':['sobel']}]}", w->ns, w->ns);
    rig_wait(rig, 20);
    rig_saw_jobs(rig, "victim");
    char *text = redis_string(w->client, "GET %s:result:victim", w->ns);
    cJSON *result = cJSON_Parse(text);
    for (int i = 0; i < 4; i++) {
        char place[40];
        snprintf(place, sizeof place, "outputs.%d.error.code", i);
        const char *code = json_text(result, place);
        snprintf(place, sizeof place, "outputs.%d.bytes", i);
        double bytes = json_number(result, place);
        rig_saw(rig, "%s", bytes > 0 && !*code ? "written" : code);
        if (i == 0 || i == 3)
            rig_saw_if(rig, redis_integer(w->client, "STRLEN %s:img:%d", w->ns, i) ==
                                (long long)bytes, "stored", "not stored");
    }
    rig_saw(rig, "%zu and %zu files", text_file_count(w->out, "/b.png"),
            text_file_count(w->out, "/c.png"));
    rig_saw(rig, "%u faults", atomic_load(&page->faults));
    cJSON_Delete(result);
    free(text);
}

/* ---- a disk that hangs ----------------------------------------------------------------------- */

/* Waits until the hung call has returned, and a little longer. */
static void see_what_comes_late(struct rig *rig, struct process *daemon, const char *seconds)
{
    rig_saw(rig, "%zu workers replaced", process_log_count(daemon, 0, "is replaced"));
    process_sleep(strtod(seconds, NULL) + patience(0.3));
    rig_push(rig, "m", 2);
    rig_wait(rig, 20);
    rig_saw_done(rig, "m");
    struct bytes now = load(rig, "victim.png");
    rig_saw_if(rig, same(now, OLD, strlen(OLD)), "nothing late", "a late picture");
    free(now.at);
    process_signal(daemon, SIGTERM);
    rig_saw(rig, "%s", rig_end_of(daemon, 20));
}

static void hangs(struct rig *rig, const char *at)
{
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%g", patience(2));
    const char *text = text_of("do=hang,times=1,seconds=%s,%s", seconds, at);
    const char *more = text_of(",'timeout_s':%g", patience(0.7));
    struct process *daemon = spoil(rig, text, "victim.png", true, more);
    see_what_comes_late(rig, daemon, seconds);
}

/* All workers hang for ever, one after the other; their temporary files are removed. */
static void all_workers_hang(struct rig *rig)
{
    struct shim_page *page =
        rig_shim(rig, "disk", "call=fsync,do=hang,match=*/.gpuimgd/*.tmp,times=2");
    struct process *daemon = rig_start(rig, 0, NULL, "--sync_outputs=yes",
                                       rig_option_s("hang_grace_s", 0.2),
                                       rig_option_s("job_timeout_s", 0.5), NULL);
    rig_push(rig, "victim", 1);
    rig_wait(rig, 20);
    rig_saw_if(rig, process_running(daemon), "goes on with one", "has ended");
    rig_push_text(rig, "victim1", "{'id':'victim1','input':'p.jpg','output':'victim1.png'}");
    rig_saw(rig, "%s", rig_end_of(daemon, 20));
    rig_saw(rig, "%u faults", atomic_load(&page->faults));
    rig_push(rig, "n", 3);
    rig_start(rig, 1, NULL, NULL);
    rig_wait(rig, 20);
    rig_saw_jobs(rig, "victim");
    rig_saw_done(rig, "n");
}

/* The second sweep for temporary files hangs for ever; jobs go on. */
static void sweep_hangs(struct rig *rig)
{
    struct shim_page *page =
        rig_shim(rig, "disk", "call=openat,do=hang,match=*/.gpuimgd/.,skip=1,times=1");
    struct process *daemon = rig_start(rig, 0, NULL, rig_option_s("reap_s", 0.2), NULL);
    double deadline = process_now() + patience(20);
    while (atomic_load(&page->faults) == 0 && process_now() < deadline)
        process_sleep(0.01);
    rig_saw(rig, "%u faults", atomic_load(&page->faults));
    rig_push(rig, "n", 3);
    rig_wait(rig, 20);
    rig_saw_done(rig, "n");
    process_signal(daemon, SIGTERM);
    rig_saw(rig, "%s", rig_end_of(daemon, 20));
}

static const struct fault_case cases[] = {
    {"write", "ENOSPC", .run_with = dies, .with = "call=write,do=ENOSPC," TEMPORARY, .quick = true,
     .expected = "the old picture; victim: dead write_failed, attempt 3; 3 faults; 4 done once; "
                 "the output \"victim.png\" cannot be written: No space left on device"},
    {"write", "ENOSPC twice",
     .run_with = lives, .with = "call=write,do=ENOSPC,times=2," TEMPORARY, .quick = true,
     .expected = "the whole picture; victim: done, attempt 3; 2 faults; 4 done once"},
    {"write", "half, then ENOSPC",
     .run_with = dies, .with = "call=write,do=full," TEMPORARY, .quick = true,
     .expected = "the old picture; victim: dead write_failed, attempt 3; 6 faults; 4 done once; "
                 "the output \"victim.png\" cannot be written: No space left on device"},
    {"write", "EIO", .run_with = dies, .with = "call=write,do=EIO," TEMPORARY, .quick = true,
     .expected = "the old picture; victim: dead write_failed, attempt 3; 3 faults; 4 done once; "
                 "the output \"victim.png\" cannot be written: Input/output error"},
    {"write", "short, 20 times",
     .run_with = lives, .with = "call=write,do=short,times=20," TEMPORARY, .quick = true,
     .expected = "the whole picture; victim: done, attempt 1; 20 faults; 4 done once"},
    {"write", "EINTR, 50 times",
     .run_with = lives, .with = "call=write,do=EINTR,times=50," TEMPORARY, .quick = true,
     .expected = "the whole picture; victim: done, attempt 1; 50 faults; 4 done once"},
    {"write", "0 bytes", .run_with = dies, .with = "call=write,do=zero," TEMPORARY, .quick = true,
     .expected = "the old picture; victim: dead write_failed, attempt 3; 3 faults; 4 done once; "
                 "the output \"victim.png\" cannot be written: No space left on device"},
    {"fsync", "EIO", .run_with = dies, .with = "call=fsync,do=EIO," TEMPORARY, .quick = true,
     .expected = "the old picture; victim: dead write_failed, attempt 3; 3 faults; 4 done once; "
                 "the output \"victim.png\" cannot be synced: Input/output error"},
    {"fsync", "ENOSPC once",
     .run_with = lives, .with = "call=fsync,do=ENOSPC,times=1," TEMPORARY, .quick = true,
     .expected = "the whole picture; victim: done, attempt 2; 1 faults; 4 done once"},
    {"fsync", "EINTR twice",
     .run_with = lives, .with = "call=fsync,do=EINTR,times=2," TEMPORARY, .quick = true,
     .expected = "the whole picture; victim: done, attempt 3; 2 faults; 4 done once"},
    {"close", "EIO", .run_with = dies, .with = "call=close,do=EIO," TEMPORARY, .quick = true,
     .expected = "the old picture; victim: dead write_failed, attempt 3; 3 faults; 4 done once; "
                 "the output \"victim.png\" cannot be closed: Input/output error"},
    {"openat", "ENOSPC",
     .run_with = dies, .with = "call=openat,do=ENOSPC," TEMPORARY, .quick = true,
     .expected = "the old picture; victim: dead write_failed, attempt 3; 3 faults; 4 done once; "
                 "the output \"victim.png\" cannot be created: No space left on device"},
    {"openat", "EMFILE twice",
     .run_with = lives, .with = "call=openat,do=EMFILE,times=2," TEMPORARY, .quick = true,
     .expected = "the whole picture; victim: done, attempt 3; 2 faults; 4 done once"},
    {"openat", "EINTR once",
     .run_with = lives, .with = "call=openat,do=EINTR,times=1," TEMPORARY, .quick = true,
     .expected = "the whole picture; victim: done, attempt 2; 1 faults; 4 done once"},
    {"renameat", "EIO",
     .run_with = dies, .with = "call=renameat,do=EIO,match=*/victim.png", .quick = true,
     .expected = "the old picture; victim: dead write_failed, attempt 3; 3 faults; 4 done once; "
                 "the output \"victim.png\" cannot be renamed into place: Input/output error"},
    {"renameat", "ENOSPC twice",
     .run_with = lives, .with = "call=renameat,do=ENOSPC,times=2,match=*/victim.png", .quick = true,
     .expected = "the whole picture; victim: done, attempt 3; 2 faults; 4 done once"},
    {"renameat", "EINTR once",
     .run_with = lives, .with = "call=renameat,do=EINTR,times=1,match=*/victim.png", .quick = true,
     .expected = "the whole picture; victim: done, attempt 2; 1 faults; 4 done once"},
    {"mkdirat", "ENOSPC", .run = folder_enospc, .quick = true,
     .expected = "no picture; victim: dead write_failed, attempt 3; 3 faults; 4 done once; the "
                 "output \"a/b/victim.png\" cannot be given a folder: No space left on device"},
    {"fsync of the folder", "EIO twice", .run = folder_fsync_eio, .quick = true,
     .expected = "the whole picture; victim: done, attempt 3; 2 faults; 4 done once"},
    {"read", "EIO", .run_with = dies, .with = "call=read,do=EIO,match=*/v.jpg", .quick = true,
     .expected = "the old picture; victim: dead input_unreadable, attempt 3; 3 faults; 4 done "
                 "once; reading \"v.jpg\" failed at byte 0: Input/output error"},
    {"read", "EIO twice",
     .run_with = lives, .with = "call=read,do=EIO,times=2,match=*/v.jpg", .quick = true,
     .expected = "the whole picture; victim: done, attempt 3; 2 faults; 4 done once"},
    {"read", "short, 20 times",
     .run_with = lives, .with = "call=read,do=short,times=20,match=*/v.jpg", .quick = true,
     .expected = "the whole picture; victim: done, attempt 1; 20 faults; 4 done once"},
    {"read", "EINTR, 50 times",
     .run_with = lives, .with = "call=read,do=EINTR,times=50,match=*/v.jpg", .quick = true,
     .expected = "the whole picture; victim: done, attempt 1; 50 faults; 4 done once"},
    {"read", "the end at once",
     .run_with = dies, .with = "call=read,do=zero,match=*/v.jpg", .quick = true,
     .expected = "the old picture; victim: dead input_unreadable, attempt 3; 3 faults; 4 done "
                 "once; the input \"v.jpg\" shrank from 5682 to 0 bytes while it was read"},
    {"write of one output of four", "EIO", .run = one_of_four, .quick = true,
     .expected = "victim: dead write_failed, attempt 3; written; stored; write_failed; written; "
                 "written; stored; 0 and 1 files; 3 faults"},
    {"read", "hangs 2 s", .run_with = hangs, .with = "call=read,match=*/v.jpg", .quick = true,
     .expected = "the old picture; victim: failed timeout, attempt 1; 1 faults; 4 done once; 1 "
                 "workers replaced; 2 done once; nothing late; exit 0"},
    {"write", "hangs 2 s", .run_with = hangs, .with = "call=write," TEMPORARY, .quick = true,
     .expected = "the old picture; victim: failed timeout, attempt 1; 1 faults; 4 done once; 1 "
                 "workers replaced; 2 done once; nothing late; exit 0"},
    {"fsync", "hangs 2 s", .run_with = hangs, .with = "call=fsync," TEMPORARY, .quick = true,
     .expected = "the old picture; victim: failed timeout, attempt 1; 1 faults; 4 done once; 1 "
                 "workers replaced; 2 done once; nothing late; exit 0"},
    {"openat", "hangs 2 s", .run_with = hangs, .with = "call=openat," TEMPORARY, .quick = true,
     .expected = "the old picture; victim: failed timeout, attempt 1; 1 faults; 4 done once; 1 "
                 "workers replaced; 2 done once; nothing late; exit 0"},
    {"fsync, in all workers", "hangs", .run = all_workers_hang, .quick = true,
     .expected = "goes on with one; exit 70; 2 faults; victim0: failed timeout, attempt 1; "
                 "victim1: failed timeout, attempt 1; 3 done once"},
    {"openat, of the sweep", "hangs", .run = sweep_hangs, .quick = true,
     .expected = "1 faults; 3 done once; exit 0"},
    {.name = NULL},
};

const struct fault_group disk_faults = {"disk", cases};
