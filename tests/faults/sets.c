/* sets.c - jobs with many images whose daemon dies, stops, drains or hangs in the midst of them. */
#include <signal.h>
#include <unistd.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/shard.h"
#include "tests/fixtures/text_file.h"

#define LONG_LEASES "--lease_s=600", "--renew_s=5", "--reap_s=0.3"
#define IMAGES      40

/* An archive of 40 images and 40 texts. */
static void put_shard(struct rig *rig)
{
    struct shard_member members[2 * IMAGES];
    struct picture_file photo = make_jpeg(.width = 120, .height = 80);
    for (size_t i = 0; i < IMAGES; i++) {
        members[2 * i] = (struct shard_member){text_of("%03zu.jpg", i), photo.bytes, photo.length};
        members[2 * i + 1] = (struct shard_member){text_of("%03zu.txt", i), "label", 5};
    }
    struct picture_file shard = shard_make(members, 2 * IMAGES);
    world_put_picture(&rig->world, "shard.tar", shard);
    picture_free(&photo);
}

static void push_job(struct rig *rig, const char *id)
{
    rig_push_text(rig, id,
                  "{'id':'%s','inputs':{'archive':'shard.tar'},'outputs':["
                  "{'output':'%s.tar','ops':['sobel']},{'output':'%s/%%p.jpg','ops':['invert']}]}",
                  id, id, id);
}

/* A job that makes a tar of the archive, and a file of each image. */
static void push_shard(struct rig *rig, const char *id)
{
    put_shard(rig);
    push_job(rig, id);
}

/* The members of the tar; 0: it is not there. */
static size_t members_of(struct rig *rig, const char *id)
{
    const char *path = text_of("%s/%s.tar", rig->world.out, id);
    size_t offset = 0, count = 0;
    struct shard_member member;
    if (access(path, F_OK) != 0)
        return 0;
    struct picture_file tar = picture_load(path);
    while (shard_next(&tar, &offset, &member))
        count++;
    picture_free(&tar);
    return count;
}

static void saw_outputs(struct rig *rig, const char *id)
{
    RIG_WAIT_UNTIL(5, text_file_count(rig->world.out, ".tmp") == 0);
    rig_saw(rig, "%zu members, %zu files, %zu temporary", members_of(rig, id),
            text_file_count(rig->world.out, text_of("/%s/", id)),
            text_file_count(rig->world.out, ".tmp"));
}

/* with: the place. */
static void kill_at(struct rig *rig)
{
    const char *fault = text_of("%s,action=kill", rig->fault->with[0]);
    struct process *daemon = rig_start(rig, 0, fault, LONG_LEASES, NULL);
    push_shard(rig, "victim0");
    rig_saw_end(rig, daemon, 20);
    rig_start(rig, 1, NULL, LONG_LEASES, NULL);
    rig_wait_jobs(rig, 20, "victim0");
    saw_outputs(rig, "victim0");
}

static void stopped_past_its_lease(struct rig *rig)
{
    const char *lease = rig_option_s("lease_s", 0.8), *renew = rig_option_s("renew_s", 0.16);
    struct process *first =
        rig_start(rig, 0, "run=encode,after=10,action=stop", lease, renew, NULL);
    push_shard(rig, "victim0");
    rig_saw_if(rig, rig_stopped(first, 20), "stopped");
    struct process *second = rig_start(rig, 1, NULL, lease, renew, "--reap_s=0.3", NULL);
    rig_wait_jobs(rig, 20, "victim0");
    rig_saw_if(rig, rig_by(rig, "victim0", second), "by the other");
    process_signal(first, SIGCONT);
    rig_saw_terminated(rig, first);
    saw_outputs(rig, "victim0");
}

static void cancel(struct rig *rig)
{
    const char *fault = rig_hang_while(rig, "held", "run=encode,after=10");
    rig_start(rig, 0, fault, "--workers=2", NULL);
    push_shard(rig, "victim0");
    rig_saw_if(rig, rig_met(rig, "held", 20), "met");
    rig_cancel(rig, "victim0");
    process_sleep(0.5);
    rig_lower(rig, "held");
    rig_wait_jobs(rig, 20, "victim0");
    RIG_WAIT_UNTIL(5, text_file_count(rig->world.out, ".tmp") == 0);
    rig_saw(rig, "%zu members, %zu temporary", members_of(rig, "victim0"),
            text_file_count(rig->world.out, ".tmp"));
    rig_push(rig, "n", 5);
    rig_wait_done(rig, 20, "n");
}

/* The daemon gives the job back at the end of its drain, and the next one does all of it. */
static void terminate(struct rig *rig)
{
    const char *fault = rig_hang_while(rig, "held", "run=encode,after=10");
    struct process *daemon = rig_start(rig, 0, fault, rig_option_s("drain_timeout_s", 0.5), NULL);
    push_shard(rig, "victim0");
    rig_saw_if(rig, rig_met(rig, "held", 20), "met");
    rig_saw_terminated(rig, daemon);
    rig_start(rig, 1, NULL, LONG_LEASES, NULL);
    rig_wait_jobs(rig, 20, "victim0");
    saw_outputs(rig, "victim0");
}

/* Only the image fails. The tar lacks it; its text is still there. */
static void worker_hangs(struct rig *rig)
{
    rig_start(rig, 0, "run=decode,after=40,action=hang", rig_option_s("job_timeout_s", 0.5),
              rig_option_s("hang_grace_s", 0.5), "--workers=2", NULL);
    push_shard(rig, "victim0");
    rig_wait_jobs(rig, 20, "victim0");
    saw_outputs(rig, "victim0");
}

/* with: the shim's text. */
static void disk_fails(struct rig *rig)
{
    struct shim_page *page = rig_shim(rig, "disk", rig->fault->with[0]);
    rig_start(rig, 0, NULL, NULL);
    push_shard(rig, "victim0");
    rig_wait_jobs(rig, 30, "victim0");
    rig_saw_if(rig, page->faults > 0, "the fault came");
    saw_outputs(rig, "victim0");
}

/* number: jobs and kills. Each daemon dies in the midst of some jobs. Those that died with several
 * run alone at last, so that they need many attempts. */
static void many_kills(struct rig *rig)
{
    size_t jobs = (size_t)rig->fault->number[0], kills = (size_t)rig->fault->number[1], whole = 0;
    put_shard(rig);
    for (size_t i = 0; i < jobs; i++)
        push_job(rig, text_of("set%zu", i));
    for (size_t i = 0; i < kills; i++) {
        size_t before = rig_answered(rig, "set");
        struct process *daemon = rig_start(rig, i, NULL, LONG_LEASES, "--attempts=100", NULL);
        rig_wait_for(rig, before + jobs / (2 * kills), 20);
        process_kill9(daemon);
    }
    rig_start(rig, kills, NULL, LONG_LEASES, "--attempts=100", NULL);
    rig_wait_done(rig, 60, "set");
    for (size_t i = 0; i < jobs; i++)
        whole += members_of(rig, text_of("set%zu", i)) == 2 * IMAGES;
    RIG_WAIT_UNTIL(5, text_file_count(rig->world.out, ".tmp") == 0);
    rig_saw(rig, "%zu tars, %zu files, %zu temporary", whole,
            text_file_count(rig->world.out, "/set"), text_file_count(rig->world.out, ".tmp"));
}

#define WHOLE "80 members, 40 files, 0 temporary"
#define AGAIN "killed by 9; victim0: done, attempt 2; " WHOLE

const struct fault_case set_faults[] = {
    CASE("after FETCH", "kill -9", kill_at, AGAIN, .with = {"enter=read"}),
    CASE("the archive opens", "kill -9", kill_at, AGAIN, .with = {"run=set"}),
    CASE("members are read", "kill -9", kill_at, AGAIN, .with = {"run=set,after=2"}),
    CASE("an image decodes", "kill -9", kill_at, AGAIN, .with = {"run=decode,after=20"}),
    CASE("an image encodes", "kill -9", kill_at, AGAIN, .with = {"run=encode,after=20"}),
    CASE("an image waits for the tar", "kill -9", kill_at, AGAIN, .with = {"enter=set,after=20"}),
    CASE("a worker writes the tar", "kill -9", kill_at, AGAIN, .with = {"run=set,after=2"}),
    CASE("between the tar's rename and DONE", "kill -9", kill_at, AGAIN, .with = {"enter=ack"}),
    CASE("images encode, leases of 0.8 s", "SIGSTOP", stopped_past_its_lease,
         "stopped; victim0: done, attempt 2; by the other; exit 0; " WHOLE),
    CASE("images encode", "CANCEL", cancel,
         "met; victim0: cancelled cancelled, attempt 1; 0 members, 0 temporary; 5 done once"),
    CASE("images encode", "SIGTERM", terminate, "met; exit 0; victim0: done, attempt 1; " WHOLE),
    CASE("the last image decodes", "its worker hangs", worker_hangs,
         "victim0: done, attempt 1; 79 members, 39 files, 0 temporary"),
    CASE("the tar is written", "EIO once", disk_fails,
         "victim0: done, attempt 2; the fault came; " WHOLE,
         .with = {"call=write,do=EIO,match=*.1.*.0.tmp,times=1"}),
    CASE("the tar is written", "ENOSPC once", disk_fails,
         "victim0: done, attempt 2; the fault came; " WHOLE,
         .with = {"call=write,do=ENOSPC,match=*.1.*.0.tmp,times=1"}),
    CASE("the tar is renamed", "EIO once", disk_fails,
         "victim0: done, attempt 2; the fault came; " WHOLE,
         .with = {"call=renameat,do=EIO,match=*/victim0.tar,times=1"}),
    CASE("200 jobs", "20 kill -9", many_kills, "200 done once; 200 tars, 8200 files, 0 temporary",
         .number = {200, 20}, .slow = true),
    {.name = NULL},
};
