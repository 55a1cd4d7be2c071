/* codec.c - the process that runs libavif fails in every way; each costs at most its own job. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/text_file.h"

#ifdef GPUIMGD_AVIF
#define HAS_AVIF true
#else
#define HAS_AVIF false
#endif

/* The program that fails as with[0] says, by a name of its own. */
static const char *program(struct rig *rig)
{
    const char *path = text_of("%s/%s", rig->world.folder, rig->fault->with[0]);
    const char *target = text_of("%s/tests/faults/gpuimgd-codec", rig->build);
    char absolute[PATH_MAX];
    if (!realpath(target, absolute) || (symlink(absolute, path) != 0 && errno != EEXIST))
        abort();
    return path;
}

/* Processes that run the program. */
static size_t count_processes(struct rig *rig)
{
    char absolute[PATH_MAX], exe[PATH_MAX];
    const char *target = text_of("%s/tests/faults/gpuimgd-codec", rig->build);
    size_t count = 0;
    struct dirent *entry;
    DIR *folder = opendir("/proc");
    if (!folder || !realpath(target, absolute))
        abort();
    while ((entry = readdir(folder)) != NULL) {
        const char *path = text_of("/proc/%s/exe", entry->d_name);
        char command[PATH_MAX] = "";
        ssize_t length = readlink(path, exe, sizeof exe - 1);
        if (length <= 0 || strncmp(exe, absolute, (size_t)length) != 0)
            continue;
        FILE *file = fopen(text_of("/proc/%s/cmdline", entry->d_name), "r");
        if (file && fgets(command, sizeof command, file))
            count += strncmp(command, rig->world.folder, strlen(rig->world.folder)) == 0;
        if (file)
            fclose(file);
    }
    closedir(folder);
    return count;
}

/* Starts a daemon with an AVIF among its inputs, which libaom has written. */
static struct process *begin(struct rig *rig)
{
    const char *path = program(rig);
    setenv("GPUIMGD_CODEC", path, 1);
    const char *workers = text_of("--workers=%g", fmax(1, rig->fault->number[0]));
    struct process *daemon = rig_start(rig, 0, NULL, workers, "--decode_timeout_s=2", NULL);
    rig_push_text(rig, "make0",
                  "{'id':'make0','input':'p.jpg','output':{'path':'p.avif','effort':0}}");
    rig_wait(rig, 20);
    world_put_picture(&rig->world, "p.avif",
                      picture_load(text_of("%s/p.avif", rig->world.out)));
    return daemon;
}

/* The next process that starts will fail. The one that runs is killed, as by the kernel. */
static void arm(struct rig *rig, struct process *daemon)
{
    if (!text_file_write(text_of("%s/%s.armed", rig->world.folder, rig->fault->with[0]), "", 0))
        abort();
    char line[32] = "";
    const char *path = text_of("/proc/%d/task", (int)daemon->pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        FILE *file = fopen(text_of("%s/%s/children", path, entry->d_name), "r");
        if (file && fgets(line, sizeof line, file) && atoi(line) > 0)
            kill(atoi(line), SIGKILL);
        if (file)
            fclose(file);
    }
    if (folder)
        closedir(folder);
    RIG_WAIT_UNTIL(5, count_processes(rig) == 0);
    process_sleep(patience(0.1)); /* its program is gone before its socket is closed */
}

static const char *victim(const struct rig *rig)
{
    if (rig->fault->with[1])
        return rig->fault->with[1];
    return strncmp(rig->fault->with[0], "encode", 6) == 0
               ? "{'id':'victim0','input':'p.jpg','output':{'path':'v.avif','effort':0},"
                 "'timeout_s':%g}"
               : "{'id':'victim0','input':'p.avif','output':'v.png','timeout_s':%g}";
}

static bool has_avif(struct rig *rig)
{
    if (!HAS_AVIF)
        rig_skip(rig, "built without AVIF");
    return HAS_AVIF;
}

/* Starts a daemon, and waits until the process of the victim hangs. */
static struct process *begin_hang(struct rig *rig)
{
    struct process *daemon = begin(rig);
    arm(rig, daemon);
    const char *text = text_of(victim(rig), 50.0);
    rig_push_text(rig, "victim0", "%s", text);
    RIG_WAIT_UNTIL(10, count_processes(rig) == 1);
    return daemon;
}

/* Then other jobs, with and without AVIF, end well. */
static void fails(struct rig *rig)
{
    if (!has_avif(rig))
        return;
    if (SANITIZED && strstr(rig->fault->with[0], "-memory")) {
        rig_skip(rig, "with a sanitizer, a codec process has no limit of memory");
        return;
    }
    struct process *daemon = begin(rig);
    double start = process_now();
    arm(rig, daemon);
    const char *text = text_of(victim(rig), patience(4));
    rig_push_text(rig, "victim0", "%s", text);
    rig_wait(rig, 30);
    rig_push_text(rig, "n0", "{'id':'n0','input':'p.avif','output':'n0.avif'}");
    rig_push(rig, "n1", 3);
    rig_wait_jobs(rig, 30, "victim0");
    rig_saw_done(rig, "n");
    rig_saw_in_time(rig, start, 10);
    rig_saw_if(rig, process_log_count(daemon, 0, " is replaced: ") > 0, "the log says so");
    rig_saw_terminated(rig, daemon);
    RIG_WAIT_UNTIL(5, count_processes(rig) == 0);
    rig_saw(rig, "%zu processes left", count_processes(rig));
}

static void is_cancelled(struct rig *rig)
{
    if (!has_avif(rig))
        return;
    begin_hang(rig);
    double start = process_now();
    process_sleep(patience(0.3));
    rig_cancel(rig, "victim0");
    rig_wait_jobs(rig, 60, "victim0");
    rig_saw_in_time(rig, start, 15);
    rig_push_text(rig, "n0", "{'id':'n0','input':'p.avif','output':'n0.avif'}");
    rig_wait_done(rig, 20, "n");
}

/* The other worker runs the other jobs meanwhile. */
static void others_pass(struct rig *rig)
{
    enum { others = 40 };
    if (!has_avif(rig))
        return;
    begin_hang(rig);
    rig_push(rig, "n", others);
    rig_wait_for(rig, 1 + others, 1.8);
    rig_saw_if(rig, count_processes(rig) == 1, "it hangs");
    rig_saw_done(rig, "n");
    rig_wait_jobs(rig, 20, "victim0");
}

static void daemon_is_killed(struct rig *rig)
{
    if (!has_avif(rig))
        return;
    struct process *daemon = begin_hang(rig);
    process_sleep(patience(0.2));
    rig_saw(rig, "%zu process", count_processes(rig));
    process_kill9(daemon);
    RIG_WAIT_UNTIL(5, count_processes(rig) == 0);
    rig_saw(rig, "%zu left", count_processes(rig));
    rig_start(rig, 1, NULL, NULL);
    rig_wait_jobs(rig, 60, "victim0");
}

static void is_missing(struct rig *rig)
{
    if (!has_avif(rig))
        return;
    setenv("GPUIMGD_CODEC", "/nowhere/gpuimgd-codec", 1);
    struct process *daemon = rig_start(rig, 0, NULL, NULL);
    rig_push_text(rig, "victim0",
                  "{'id':'victim0','input':'p.jpg','output':{'path':'v.avif','effort':0}}");
    rig_push(rig, "n", 3);
    rig_wait_jobs(rig, 20, "victim0");
    rig_saw_message(rig, "victim0");
    rig_saw_done(rig, "n");
    rig_saw_if(rig, process_log_count(daemon, 0, "no AVIF files: the codec process") == 1,
               "the log says so");
    rig_saw_terminated(rig, daemon);
}

#define AFTER "; 4 done once; within 10 s; the log says so; exit 0; 0 processes left"
#define FAILED(code) "victim0: failed " code ", attempt 1" AFTER
#define RETRIED "victim0: done, attempt 2" AFTER

const struct fault_case codec_faults[] = {
    CASE("a decode", "its process crashes", fails, FAILED("decode_failed"),
         .with = {"decode-crash"}),
    CASE("a header", "its process crashes", fails, FAILED("decode_failed"),
         .with = {"probe-crash"}),
    CASE("an encode", "its process crashes", fails, FAILED("encode_failed"),
         .with = {"encode-crash"}),
    CASE("a decode", "its process exits", fails, FAILED("decode_failed"), .with = {"decode-exit"}),
    CASE("an encode", "its process is killed, as if memory ran out", fails, RETRIED,
         .with = {"encode-kill"}),
    CASE("a decode", "its process hangs", fails, FAILED("decode_limit"), .with = {"decode-hang"}),
    CASE("a header", "its process hangs", fails, FAILED("decode_limit"), .with = {"probe-hang"}),
    CASE("an encode", "its process hangs", fails, FAILED("timeout"), .with = {"encode-hang"}),
    CASE("a decode", "its process, which has read the header, needs too much memory", fails,
         "victim0: done, attempt 1" AFTER, .with = {"decode-memory"}),
    CASE("a header", "its process needs too much memory", fails, FAILED("decode_limit"),
         .with = {"probe-memory"}),
    CASE("an encode", "its process needs too much memory", fails, FAILED("over_budget"),
         .with = {"encode-memory"}),
    CASE("a header", "its process sends other numbers", fails, FAILED("decode_failed"),
         .with = {"probe-lie"}),
    CASE("a header", "its process sends an empty message", fails, FAILED("decode_failed"),
         .with = {"probe-empty"}),
    CASE("a decode", "its process sends a message that is too long", fails, FAILED("decode_failed"),
         .with = {"decode-long"}),
    CASE("an encode", "its process sends a file without end", fails, FAILED("encode_failed"),
         .with = {"encode-flood"}),
    CASE("an encode in one of two formats", "its process crashes", fails,
         "victim0: done, attempt 1" AFTER,
         .with = {"encode-crash",
                  "{'id':'victim0','input':'p.jpg','output':{'path':'v','format':['jpeg','avif'],"
                  "'effort':0,'quality':{'ssim':0.9}},'timeout_s':%g}"}),
    CASE("the second header of a job that trims", "its process sends a smaller size", fails,
         RETRIED,
         .with = {"probe-shrink",
                  "{'id':'victim0','input':'p.avif','trim':{},'output':'v.png','timeout_s':%g}"}),
    CASE("a codec process", "it exits at its start", fails, RETRIED, .with = {"start-exit"}),
    CASE("a decode that hangs", "the job is cancelled", is_cancelled,
         "victim0: cancelled cancelled, attempt 1; within 15 s; 1 done once",
         .with = {"decode-hang"}),
    CASE("40 jobs, 2 workers", "the process of one hangs", others_pass,
         "it hangs; 40 done once; victim0: failed decode_limit, attempt 1", .with = {"probe-hang"},
         .number = {2}),
    CASE("a daemon", "kill -9 while its codec process hangs", daemon_is_killed,
         "1 process; 0 left; victim0: done, attempt 2", .with = {"decode-hang"}),
    CASE("the codec process", "there is none", is_missing,
         "victim0: failed unsupported_format, attempt 1; alpha, quality 100 and efforts except 1 "
         "to 3 of AVIFs need libavif, but the codec process /nowhere/gpuimgd-codec cannot be "
         "started: No such file or directory; 3 done once; the log says so; exit 0"),
    {.name = NULL},
};
