/*
 * disk.c - files that cannot be written or read, or only partly, and disks that hang.
 *
 * shim_disk.c makes the calls of one job fail. The first job is the reference. The second is the
 * victim: job 2, which its temporary files have in their names. The other jobs are neighbours. At
 * any moment, the victim's output file is either the old image or the complete new image.
 */
#include <string.h>
#include <unistd.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/text_file.h"

#define OLD "the picture that was there before"
#define NEIGHBOURS 4

/* ---- the victim's output --------------------------------------------------------------------- */

static struct picture_file load(struct rig *rig, const char *name)
{
    struct picture_file file = {NULL, 0};
    file.bytes = text_file_bytes(text_of("%s/%s", rig->world.out, name), &file.length);
    return file;
}

static bool same(const struct picture_file *file, const void *other, size_t length)
{
    return file->bytes && file->length == length && memcmp(file->bytes, other, length) == 0;
}

static const char *look(struct rig *rig, const char *name, const struct picture_file *whole)
{
    struct picture_file now = load(rig, name);
    const char *word = !now.bytes                                 ? "no picture"
                       : same(&now, OLD, strlen(OLD))             ? "the old picture"
                       : same(&now, whole->bytes, whole->length) ? "the whole picture"
                                                                 : "a part of it";
    picture_free(&now);
    return word;
}

/* Waits for all results and checks the image continuously. */
static void wait_and_look(struct rig *rig, const char *name, const struct picture_file *whole)
{
    double deadline = process_now() + patience(30);
    const char *seen = look(rig, name, whole);
    while (strcmp(seen, "a part of it") != 0 && !rig_wait(rig, 0.001) && process_now() < deadline)
        seen = look(rig, name, whole);
    rig_saw(rig, "%s", look(rig, name, whole));
}

/* ---- one output ------------------------------------------------------------------------------ */

/* The case's call with the name of the case, limited to the victim's files. what: do=... */
static const char *fault_of_victim(const struct rig *rig, const char *what)
{
    const char *call = rig->fault->name;
    return text_of("call=%s,match=%s,do=%s", call,
                   strcmp(call, "pread") == 0      ? "*/v.jpg"
                   : strcmp(call, "renameat") == 0 ? "*/victim.png"
                                                   : "*/.gpuimgd/*.2.*.*.tmp", what);
}

/* A victim with the output `name`. old: the file exists already. more: extra keys of the job. */
static struct process *spoil(struct rig *rig, const char *shim, const char *name, bool old,
                             const char *more)
{
    struct shim_page *page = rig_shim(rig, "disk", shim);
    struct process *daemon = rig_start(rig, 0, NULL, "--sync_outputs=yes",
                                       rig_option_s("hang_grace_s", 0.2), NULL);
    const char *path = text_of("%s/%s", rig->world.out, name);
    world_put_photo(&rig->world, "v.jpg", 160, 120);
    rig_push(rig, "ref", 1);
    rig_wait(rig, 20);
    struct picture_file whole = load(rig, "ref0.png");
    if (old && !text_file_write(path, OLD, strlen(OLD)))
        rig_saw(rig, "cannot write %s", path);
    rig_push_text(rig, "victim", "{'id':'victim','output':{'path':'%s','compression':1},"
                                 "'input':'v.jpg','ops':['sobel']%s}", name, more);
    rig_push(rig, "n", NEIGHBOURS);
    wait_and_look(rig, name, &whole);
    rig_saw_jobs(rig, "victim");
    rig_saw(rig, "%u faults", atomic_load(&page->faults));
    rig_saw_done(rig, "n");
    picture_free(&whole);
    return daemon;
}

static void lives(struct rig *rig)
{
    spoil(rig, fault_of_victim(rig, rig->fault->with[0]), "victim.png", true, "");
}

static void dies(struct rig *rig)
{
    lives(rig);
    rig_saw_message(rig, "victim");
}

static void folder_enospc(struct rig *rig)
{
    spoil(rig, "call=mkdirat,do=ENOSPC,match=*/a/b", "a/b/victim.png", false, "");
    rig_saw_message(rig, "victim");
}

/* At that time the complete image has its final name, but is not synced. */
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
    rig_wait_jobs(rig, 20, "victim");
    char *text = redis_string(w->client, "GET %s:result:victim", w->ns);
    cJSON *result = cJSON_Parse(text);
    for (int i = 0; i < 4; i++) {
        const char *code = json_text(result, text_of("outputs.%d.error.code", i));
        double bytes = json_number(result, text_of("outputs.%d.bytes", i));
        rig_saw(rig, "%s", bytes > 0 && !*code ? "written" : code);
        if (i == 0 || i == 3)
            rig_saw_if(rig, redis_integer(w->client, "STRLEN %s:img:%d", w->ns, i) ==
                                (long long)bytes, "stored");
    }
    rig_saw(rig, "%zu and %zu files", text_file_count(w->out, "/b.png"),
            text_file_count(w->out, "/c.png"));
    rig_saw(rig, "%u faults", atomic_load(&page->faults));
    cJSON_Delete(result);
    free(text);
}

/* ---- a disk that hangs ----------------------------------------------------------------------- */

static void hangs(struct rig *rig)
{
    const char *what = text_of("hang,times=1,seconds=%g", patience(2));
    const char *more = text_of(",'timeout_s':%g", patience(0.7));
    struct process *daemon = spoil(rig, fault_of_victim(rig, what), "victim.png", true, more);
    rig_saw(rig, "%zu workers replaced", process_log_count(daemon, 0, "is replaced"));
    process_sleep(patience(2.3)); /* until the hung call has returned, and a little longer */
    rig_push(rig, "m", 2);
    rig_wait_done(rig, 20, "m");
    struct picture_file now = load(rig, "victim.png");
    rig_saw_if(rig, same(&now, OLD, strlen(OLD)), "nothing late");
    picture_free(&now);
    rig_saw_terminated(rig, daemon);
}

/* All workers hang forever, one after the other; their temporary files are removed. */
static void all_workers_hang(struct rig *rig)
{
    struct shim_page *page =
        rig_shim(rig, "disk", "call=fsync,do=hang,match=*/.gpuimgd/*.tmp,times=2");
    struct process *daemon = rig_start(rig, 0, NULL, "--sync_outputs=yes",
                                       rig_option_s("hang_grace_s", 0.2),
                                       rig_option_s("job_timeout_s", 0.5), NULL);
    rig_push(rig, "victim", 1);
    rig_wait(rig, 20);
    rig_saw_if(rig, process_running(daemon), "goes on with one");
    rig_push_text(rig, "victim1", "{'id':'victim1','input':'p.jpg','output':'victim1.png'}");
    rig_saw_end(rig, daemon, 20);
    rig_saw(rig, "%u faults", atomic_load(&page->faults));
    rig_push(rig, "n", 3);
    rig_start(rig, 1, NULL, NULL);
    rig_wait_jobs(rig, 20, "victim");
    rig_saw_done(rig, "n");
}

/* The second sweep for temporary files hangs forever; jobs continue. The daemon cannot wait for the
 * thread when it ends, but removes its socket. */
static void sweep_hangs(struct rig *rig)
{
#ifdef GPUIMGD_HTTP
    const char *listen = text_of("--metrics_listen=unix:%s/http.sock", rig->world.folder);
#else
    const char *listen = "--metrics_listen=";
#endif
    struct shim_page *page =
        rig_shim(rig, "disk", "call=openat,do=hang,match=*/.gpuimgd/.,skip=1,times=1");
    struct process *daemon = rig_start(rig, 0, NULL, rig_option_s("reap_s", 0.2), listen, NULL);
    RIG_WAIT_UNTIL(20, atomic_load(&page->faults) > 0);
    rig_saw(rig, "%u faults", atomic_load(&page->faults));
    rig_push(rig, "n", 3);
    rig_wait_done(rig, 20, "n");
    rig_saw_terminated(rig, daemon);
    rig_saw_if(rig, access(text_of("%s/http.sock", rig->world.folder), F_OK) != 0, "no socket");
}

#define DEAD(code, faults, message)                                                                \
    "the old picture; victim: dead " code ", attempt 3; " faults " faults; 4 done once; " message
#define UNWRITTEN(faults, reason)                                                                  \
    DEAD("write_failed", faults, "the output \"victim.png\" cannot be " reason)
#define WHOLE(attempt, faults)                                                                     \
    "the whole picture; victim: done, attempt " attempt "; " faults " faults; 4 done once"
#define TIMED_OUT                                                                                  \
    "the old picture; victim: failed timeout, attempt 1; 1 faults; 4 done once; 1 workers "        \
    "replaced; 2 done once; nothing late; exit 0"

const struct fault_case disk_faults[] = {
    CASE("write", "ENOSPC", dies, UNWRITTEN("3", "written: No space left on device"),
         .with = {"ENOSPC"}),
    CASE("write", "ENOSPC twice", lives, WHOLE("3", "2"), .with = {"ENOSPC,times=2"}),
    CASE("write", "half, then ENOSPC", dies, UNWRITTEN("6", "written: No space left on device"),
         .with = {"full"}),
    CASE("write", "EIO", dies, UNWRITTEN("3", "written: Input/output error"), .with = {"EIO"}),
    CASE("write", "short, 20 times", lives, WHOLE("1", "20"), .with = {"short,times=20"}),
    CASE("write", "EINTR, 50 times", lives, WHOLE("1", "50"), .with = {"EINTR,times=50"}),
    CASE("write", "0 bytes", dies, UNWRITTEN("3", "written: No space left on device"),
         .with = {"zero"}),
    CASE("fsync", "EIO", dies, UNWRITTEN("3", "synced: Input/output error"), .with = {"EIO"}),
    CASE("fsync", "ENOSPC once", lives, WHOLE("2", "1"), .with = {"ENOSPC,times=1"}),
    CASE("fsync", "EINTR twice", lives, WHOLE("3", "2"), .with = {"EINTR,times=2"}),
    CASE("close", "EIO", dies, UNWRITTEN("3", "closed: Input/output error"), .with = {"EIO"}),
    CASE("openat", "ENOSPC", dies, UNWRITTEN("3", "created: No space left on device"),
         .with = {"ENOSPC"}),
    CASE("openat", "EMFILE twice", lives, WHOLE("3", "2"), .with = {"EMFILE,times=2"}),
    CASE("openat", "EINTR once", lives, WHOLE("2", "1"), .with = {"EINTR,times=1"}),
    CASE("renameat", "EIO", dies, UNWRITTEN("3", "renamed into place: Input/output error"),
         .with = {"EIO"}),
    CASE("renameat", "ENOSPC twice", lives, WHOLE("3", "2"), .with = {"ENOSPC,times=2"}),
    CASE("renameat", "EINTR once", lives, WHOLE("2", "1"), .with = {"EINTR,times=1"}),
    CASE("mkdirat", "ENOSPC", folder_enospc,
         "no picture; victim: dead write_failed, attempt 3; 3 faults; 4 done once; the output "
         "\"a/b/victim.png\" cannot be given a folder: No space left on device"),
    CASE("fsync of the folder", "EIO twice", folder_fsync_eio, WHOLE("3", "2")),
    CASE("pread", "EIO", dies,
         DEAD("input_unreadable", "3", "reading \"v.jpg\" failed at byte 0: Input/output error"),
         .with = {"EIO"}),
    CASE("pread", "EIO twice", lives, WHOLE("3", "2"), .with = {"EIO,times=2"}),
    CASE("pread", "short, 20 times", lives, WHOLE("1", "20"), .with = {"short,times=20"}),
    CASE("pread", "EINTR, 50 times", lives, WHOLE("1", "50"), .with = {"EINTR,times=50"}),
    CASE("pread", "the end at once", dies,
         DEAD("input_unreadable", "3",
              "the input \"v.jpg\" shrank from 5682 to 0 bytes while it was read"),
         .with = {"zero"}),
    CASE("write of one output of four", "EIO", one_of_four,
         "victim: dead write_failed, attempt 3; written; stored; write_failed; written; written; "
         "stored; 0 and 1 files; 3 faults"),
    CASE("pread", "hangs 2 s", hangs, TIMED_OUT),
    CASE("write", "hangs 2 s", hangs, TIMED_OUT),
    CASE("fsync", "hangs 2 s", hangs, TIMED_OUT),
    CASE("openat", "hangs 2 s", hangs, TIMED_OUT),
    CASE("fsync, in all workers", "hangs", all_workers_hang,
         "goes on with one; exit 70; 2 faults; victim0: failed timeout, attempt 1; victim1: "
         "failed timeout, attempt 1; 3 done once"),
    CASE("openat, of the sweep", "hangs", sweep_hangs,
         "1 faults; 3 done once; exit 0; no socket"),
    {.name = NULL},
};
