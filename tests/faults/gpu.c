/* gpu.c - devices that fail, hang, or have no memory, on the stand-in CUDA runtime. */
#include <signal.h>
#include <string.h>

#include "tests/faults/rig.h"
#include "tests/fixtures/text_file.h"

/* The fault starts when the flag file "now" exists; kernels wait while "hold" exists. */
static const char *from_now(struct rig *rig, const char *what)
{
    return text_of("%s,when=%s,hold=%s", what, rig_flag(rig, "now"), rig_flag(rig, "hold"));
}

static void saw_pictures(struct rig *rig, const char *prefix)
{
    size_t wrong = 0, length, expected_length;
    const char *out = rig->world.out;
    unsigned char *expected = text_file_bytes(text_of("%s/cpu0.png", out), &expected_length);
    for (size_t i = 0; i < rig->job_count; i++) {
        if (strncmp(rig->jobs[i].id, prefix, strlen(prefix)) != 0)
            continue;
        unsigned char *bytes = text_file_bytes(text_of("%s/%s.png", out, rig->jobs[i].id), &length);
        wrong += !expected || !bytes || length != expected_length ||
                 memcmp(bytes, expected, length) != 0;
        free(bytes);
    }
    free(expected);
    if (wrong)
        rig_saw(rig, "%zu pictures are not the CPU engine's", wrong);
    else
        rig_saw(rig, "the CPU engine's pictures");
}

/* Runs the same job on the CPU engine, as "cpu0", for comparison. */
static void draw_on_cpu(struct rig *rig)
{
    struct process *daemon = rig_start(rig, 7, NULL, NULL);
    rig_push(rig, "cpu", 1);
    rig_wait(rig, 60);
    process_signal(daemon, SIGTERM);
    rig_end_of(daemon, 60);
}

/* Replaces p.jpg by an image that is too large for a batch, if the device does not decode it. */
static void put_large(struct rig *rig)
{
    world_put_photo(&rig->world, "p.jpg", 2000, 1500);
}

/* Pushes jobs, waits until the daemon holds `held` in all, and then a little longer. */
static void push_held(struct rig *rig, const char *prefix, size_t count, long long held,
                      double seconds)
{
    rig_push(rig, prefix, count);
    world_until(&rig->world, 20, held, "ZCARD gpuimgd:lease");
    process_sleep(patience(seconds));
}

static void saw_few_charged(struct rig *rig, const char *prefix, size_t count, size_t slots)
{
    size_t charged = rig_at_attempt(rig, prefix, 2);
    rig_saw_if(rig, charged >= 1 && charged <= slots, "the device's jobs are charged");
    rig_saw_if(rig, rig_at_attempt(rig, prefix, 1) == count - charged, "no others");
}

/* Starts another daemon, as systemd would, on a working device; it runs the remaining jobs. */
static void next_daemon(struct rig *rig)
{
    rig_lower(rig, "now");
    rig_start_cuda(rig, 1, NULL, NULL);
    rig_wait(rig, 60);
}

static void start_anew(struct rig *rig, const char *prefix)
{
    next_daemon(rig);
    rig_saw_done(rig, prefix);
}

/* Eight jobs, of which two are on the device and one is being encoded, when the first kernel
 * fails; then more jobs come. */
static void fault_on_the_device(struct rig *rig)
{
    struct world *w = &rig->world;
    put_large(rig);
    draw_on_cpu(rig);
    struct process *daemon =
        rig_start_cuda(rig, 0, from_now(rig, "at=kernel,error=700"), "--streams=2", "--jpeg=cpu",
                       "--png=cpu", "--inflight=9", "--lease_s=600", NULL);
    rig_raise(rig, "hold");
    rig_push_slow(rig, "slow", 1);
    RIG_WAIT_UNTIL(20, process_has_open(daemon, text_of("%s/.gpuimgd/", w->out)));
    push_held(rig, "n", 8, 9, 0.2);
    rig_raise(rig, "now");
    rig_lower(rig, "hold");
    rig_saw_if(rig, process_logged(daemon, 0, "must be restarted", 60), "said");
    rig_push(rig, "late", 3);
    rig_saw_end(rig, daemon, 60);
    rig_saw_if(rig, process_log_count(daemon, 0, "stopped after 1 jobs, exit status 70") == 1,
               "what was being encoded is done");
    rig_saw(rig, "%lld leases", redis_integer(w->client, "ZCARD gpuimgd:lease"));
    rig_saw_if(rig, redis_integer(w->client, "LLEN gpuimgd:jobs") >= 3, "fetching stopped");
    start_anew(rig, "n");
    saw_few_charged(rig, "n", 8, 2);
    saw_pictures(rig, "n");
    rig_saw_jobs(rig, "slow0");
    rig_saw_done_at(rig, "late", 1);
}

/* One small job has the only stream; eight jobs wait for it and then share it. */
static struct process *hold_a_batch(struct rig *rig, const char *what)
{
    struct process *daemon = rig_start_cuda(rig, 0, from_now(rig, what), "--streams=1",
                                            "--inflight=9", "--lease_s=600", NULL);
    rig_raise(rig, "hold");
    push_held(rig, "first", 1, 1, 0.2);
    push_held(rig, "n", 8, 9, 0.4);
    rig_raise(rig, "now");
    rig_lower(rig, "hold");
    return daemon;
}

/* The second kernel of the batch fails: any job of the batch may be the cause. */
static void fault_in_a_batch(struct rig *rig)
{
    draw_on_cpu(rig);
    struct process *daemon = hold_a_batch(rig, "at=kernel,error=700,nth=2");
    rig_saw_end(rig, daemon, 60);
    rig_saw(rig, "%lld leases", redis_integer(rig->world.client, "ZCARD gpuimgd:lease"));
    start_anew(rig, "n");
    rig_saw_jobs(rig, "first0");
    rig_saw(rig, "%zu at attempt 2", rig_at_attempt(rig, "n", 2));
    saw_pictures(rig, "n");
}

/* The launch for all jobs fails, and then that for the first of them: the other jobs are done. */
static void launch_in_a_batch(struct rig *rig)
{
    draw_on_cpu(rig);
    struct process *daemon = hold_a_batch(rig, "at=launch,error=701,nth=1,times=2");
    rig_wait_done(rig, 20, "n");
    rig_saw(rig, "%zu at attempt 2", rig_at_attempt(rig, "n", 2));
    saw_pictures(rig, "n");
    rig_saw_terminated(rig, daemon);
}

/* One of two devices fails with two jobs on it. The other runs them again, and all other jobs. */
static void fault_of_one_of_two(struct rig *rig)
{
    put_large(rig);
    draw_on_cpu(rig);
    struct process *daemon =
        rig_start_cuda(rig, 0, from_now(rig, "devices=2,at=kernel,error=700"), "--streams=2",
                       "--jpeg=cpu", "--png=cpu", "--inflight=12", "--lease_s=600", NULL);
    rig_raise(rig, "hold");
    push_held(rig, "n", 12, 12, 0.6);
    rig_raise(rig, "now");
    rig_lower(rig, "hold");
    rig_saw_if(rig, process_logged(daemon, 0, "out of service until the daemon is restarted, and 1 "
                                              "other continues", 60), "said");
    rig_wait_done(rig, 20, "n");
    saw_few_charged(rig, "n", 12, 2);
    rig_push(rig, "m", 8);
    rig_wait_done_at(rig, 20, "m", 1);
    saw_pictures(rig, "n");
    saw_pictures(rig, "m");
    rig_saw_terminated(rig, daemon);
}

/* Each permanent error, at each call in turn, with a new daemon each. Its jobs wait until all these
 * daemons have ended: the pause grows with each attempt. */
static void each_lasting_error(struct rig *rig)
{
    static const int errors[] = {214, 220, 226, 700, 702, 709, 710, 714, 715,
                                 716, 717, 718, 719, 721, 810, 911, 999};
    static const char *const places[] = {"kernel", "cudaMemcpyAsync", "launch", "copy",
                                         "cudaEventRecord", "cudaLaunchHostFunc",
                                         "cudaStreamQuery", "cudaSetDevice"};
    size_t count = sizeof errors / sizeof *errors, ended = 0;
    for (size_t i = 0; i < count; i++) {
        const char *what = text_of("at=%s,error=%d", places[i % 8], errors[i]);
        const char *prefix = text_of("n%zu-", i);
        rig_lower(rig, "now");
        /* Results are copied from the device only if the host encodes them. */
        struct process *daemon =
            rig_start_cuda(rig, 0, from_now(rig, what), "--streams=2", "--png=cpu",
                           "--attempts=100", "--retry_delay_s=600", NULL);
        rig_raise(rig, "now");
        rig_push(rig, prefix, 4);
        const char *end = rig_end_of(daemon, 60);
        ended += strcmp(end, "exit 70") == 0;
        if (strcmp(end, "exit 70") != 0)
            rig_saw(rig, "%s: %s", what, end);
    }
    rig_saw(rig, "%zu times exit 70", ended);
    freeReplyObject(redis_command(rig->world.client,
                                  "ZUNIONSTORE gpuimgd:delayed 1 gpuimgd:delayed WEIGHTS 0"));
    start_anew(rig, "n");
}

static void error_of_one_launch(struct rig *rig)
{
    draw_on_cpu(rig);
    struct process *daemon =
        rig_start_cuda(rig, 0, from_now(rig, "at=launch,error=701,nth=1"), NULL);
    rig_raise(rig, "now");
    rig_push(rig, "n", 1);
    rig_wait_done(rig, 20, "n");
    rig_saw(rig, "%zu at attempt 2", rig_at_attempt(rig, "n", 2));
    saw_pictures(rig, "n");
    rig_saw_terminated(rig, daemon);
}

static void no_pinned_memory(struct rig *rig)
{
    draw_on_cpu(rig);
    struct process *daemon = rig_start_cuda(rig, 0, "at=cudaHostAlloc,error=2,times=0", NULL);
    rig_push(rig, "n", 8);
    rig_wait_done_at(rig, 20, "n", 1);
    saw_pictures(rig, "n");
    rig_saw(rig, "said %zu times", process_log_count(daemon, 0, "using pageable memory"));
}

static void no_device_memory(struct rig *rig)
{
    struct process *daemon = rig_start_cuda(rig, 0, "at=cudaMalloc,error=2,times=0", NULL);
    rig_push(rig, "n", 3);
    rig_saw_end(rig, daemon, 60);
    rig_saw_if(rig, process_log_count(daemon, 0, "device memory, although device_bytes allows") > 0,
               "it says which memory");
    start_anew(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

/* A job larger than a segment of the pool; the system refuses the memory at first. */
static void no_more_device_memory(struct rig *rig)
{
    struct picture_png large = {.width = 5200, .height = 4400, .colour_type = 2, .level = 1};
    world_put_picture(&rig->world, "large.png", picture_png(&large));
    struct process *daemon = rig_start_cuda(
        rig, 0, from_now(rig, "at=cudaMalloc,error=2,times=3"), "--device_bytes=1G",
        "--pinned_bytes=1G", "--host_bytes=1G", "--decode_timeout_s=60", NULL);
    rig_push(rig, "n", 3);
    rig_wait(rig, 60);
    rig_raise(rig, "now");
    rig_push_text(rig, "large", "{'id':'large','input':'large.png','ops':['stats']}");
    rig_wait(rig, 60);
    rig_push(rig, "m", 3);
    rig_wait_done(rig, 20, "n");
    rig_saw_jobs(rig, "large");
    rig_saw_if(rig, process_log_count(daemon, 0, "out_of_memory: the system cannot provide") == 1,
               "it says which memory");
    rig_saw_done(rig, "m");
}

/* The victim's stream never finishes; the other stream continues. */
static void never_reported(struct rig *rig)
{
    struct process *daemon =
        rig_start_cuda(rig, 0, from_now(rig, rig->fault->with[0]), "--streams=2", "--png=cpu",
                       rig_option_s("hang_grace_s", 0.5), NULL);
    rig_raise(rig, "now");
    rig_push_text(rig, "victim0", "{'id':'victim0','input':'p.jpg','output':'v.png',"
                                  "'ops':['sobel'],'timeout_s':%g}", patience(0.5));
    process_sleep(patience(0.3));
    rig_push(rig, "n", 4);
    rig_wait_for(rig, 4, 20);
    rig_saw_done(rig, "n");
    rig_saw_end(rig, daemon, 60);
    next_daemon(rig);
    rig_saw_jobs(rig, "victim0");
}

/* The deadline passes while the whole process is stopped. The device does not hang, so the grace
 * starts when the process continues. */
static void device_of_a_stopped_daemon(struct rig *rig)
{
    struct process *daemon =
        rig_start_cuda(rig, 0, from_now(rig, "at=nothing"), rig_option_s("hang_grace_s", 1.5),
                       rig_option_s("job_timeout_s", 0.5), "--lease_s=600", NULL);
    rig_raise(rig, "hold");
    push_held(rig, "victim", 1, 1, 0.2);
    process_signal(daemon, SIGSTOP);
    rig_saw_stopped(rig, daemon);
    process_sleep(patience(0.3));
    rig_lower(rig, "hold");
    rig_push(rig, "n", 4);
    rig_wait_done(rig, 20, "n");
    rig_saw_jobs(rig, "victim0");
    rig_saw_terminated(rig, daemon);
}

/* ---- files that a device decodes ---- */

/* Overwrites p.jpg with another image: a longer file, or one of the same length; or replaces it. */
static void change_input(struct rig *rig)
{
    const char *how = rig->fault->with[0];
    char *path = world_in_path(&rig->world, "p.jpg");
    struct picture_file old = picture_load(path);
    if (strcmp(how, "replace") == 0 && remove(path) != 0)
        abort();
    struct picture_file file = make_jpeg(.width = 1000, .height = 1500);
    uint8_t *padded = calloc(1, 2 * old.length);
    if (!padded || file.length > old.length)
        abort();
    memcpy(padded, file.bytes, file.length);
    world_put(&rig->world, "p.jpg", padded,
              strcmp(how, "overwrite") == 0 ? old.length : 2 * old.length);
    free(padded);
    free(path);
    picture_free(&file);
    picture_free(&old);
}

/* The victim waits for pinned memory, which another job holds. Only the head of its file is read.
 */
static void change_while_waiting(struct rig *rig)
{
    put_large(rig);
    draw_on_cpu(rig);
    struct process *daemon =
        rig_start_cuda(rig, 0, from_now(rig, "at=nothing"), "--streams=1", "--pinned_bytes=6M",
                       "--retry_delay_s=0.1", "--lease_s=600", NULL);
    rig_raise(rig, "hold");
    push_held(rig, "n", 1, 1, 0.3);
    push_held(rig, "victim", 1, 2, 0.5);
    change_input(rig);
    rig_lower(rig, "hold");
    rig_wait_jobs(rig, 20, "victim");
    rig_saw_done(rig, "n");
    saw_pictures(rig, "n");
    if (rig_at_attempt(rig, "victim", 1) == 1)
        saw_pictures(rig, "victim");
    else
        rig_saw_if(rig, process_log_count(daemon, 0, rig->fault->with[1]) == 1, "it says why");
    rig_saw_terminated(rig, daemon);
}

/* ---- the GPU check --------------------------------------------------------------------------- */

/* Jobs run at the same time. No job is charged, and the GPU check does not count as a job. */
static void wrong_bit(struct rig *rig)
{
    struct process *daemon =
        rig_start_cuda(rig, 0, from_now(rig, "devices=2,at=kernel,bit=1,times=0"),
                       "--canary_interval_s=0.1", "--lease_s=600", NULL);
    rig_push(rig, "n", 20);
    rig_wait(rig, 60);
    process_sleep(patience(0.5));
    rig_saw_if(rig, process_running(daemon), "runs");
    size_t mark = process_mark(daemon);
    rig_raise(rig, "now");
    rig_saw_end(rig, daemon, 60);
    /* On cuda:1, if the flag was set too late for the check of cuda:0. */
    rig_saw_if(rig, process_noted(daemon, mark, "STATUS=failed: GPU check on cuda:", 0.1),
               "STATUS says so");
    rig_saw_if(rig, process_log_count(daemon, 0, "error   GPU check on cuda:") > 0 &&
                        process_log_count(daemon, 0, "pixels differ from the CPU's") > 0,
               "so does the log");
    rig_saw_if(rig, process_log_count(daemon, 0, "stopped after 20 jobs, exit status 70") == 1,
               "20 jobs counted");
    rig_push(rig, "m", 3);
    start_anew(rig, "n");
    rig_saw_done(rig, "m");
}

/* One check of one of two devices finds a wrong bit, and the next one does not. */
static void wrong_bit_once(struct rig *rig)
{
    struct process *daemon =
        rig_start_cuda(rig, 0, from_now(rig, "devices=2,at=kernel,bit=1"),
                       "--canary_interval_s=0.1", NULL);
    rig_raise(rig, "now");
    rig_saw_if(rig, process_logged(daemon, 0, "is out of service, and 1 other continues", 20),
               "out");
    rig_saw_if(rig, process_logged(daemon, 0, "is in service again", 20), "in again");
    rig_push(rig, "n", 20);
    rig_wait_done_at(rig, 20, "n", 1);
    rig_saw_terminated(rig, daemon);
}

/* The GPU check finds the bit on one stream while jobs are held on another. No job is charged. */
static void wrong_bit_beside_jobs(struct rig *rig)
{
    struct process *daemon =
        rig_start_cuda(rig, 0, from_now(rig, "at=kernel,bit=1,times=0"), "--streams=4",
                       "--canary_interval_s=0.3", "--lease_s=600", NULL);
    rig_raise(rig, "hold");
    push_held(rig, "n", 3, 3, 0.6); /* and the GPU check */
    rig_raise(rig, "now");
    rig_lower(rig, "hold");
    rig_saw_end(rig, daemon, 60);
    start_anew(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

/* The device fails while only the GPU check runs on it. */
static void gpu_check_alone(struct rig *rig)
{
    struct process *daemon = rig_start_cuda(rig, 0, from_now(rig, "at=kernel,error=719"),
                                            "--canary_interval_s=0.1", NULL);
    rig_raise(rig, "now");
    rig_saw_end(rig, daemon, 60);
    rig_push(rig, "n", 3);
    start_anew(rig, "n");
    rig_saw_attempts(rig, "n", 1);
}

/* One call of the GPU check fails. The engine has no fault; checks and jobs continue. */
static void gpu_check_not_started(struct rig *rig)
{
    struct process *daemon = rig_start_cuda(rig, 0, from_now(rig, "at=launch,error=701"),
                                            "--canary_interval_s=0.1", NULL);
    rig_raise(rig, "now");
    rig_saw_if(rig, process_logged(daemon, 0, "warning GPU check on cuda:0: ", 60), "said");
    rig_push(rig, "n", 3);
    rig_wait_done(rig, 20, "n");
    rig_saw_terminated(rig, daemon);
}

/* ---- a real device --------------------------------------------------------------------------- */

static bool has_device(struct rig *rig)
{
    if (!world_has_cuda())
        rig_skip(rig, "there is no CUDA device here");
    return world_has_cuda();
}

static void illegal_address(struct rig *rig)
{
    if (!has_device(rig))
        return;
    put_large(rig);
    draw_on_cpu(rig);
    struct process *daemon =
        rig_start(rig, 0, "enter=gpu,action=wild,match=victim", "--engine=cuda", "--devices=0",
                  "--jpeg=cpu", "--png=cpu", "--webp=cpu", "--avif=cpu", "--streams=4",
                  "--inflight=12", "--lease_s=600", NULL);
    rig_push(rig, "n", 20);
    rig_push(rig, "victim", 1);
    rig_push(rig, "m", 20);
    rig_saw_end(rig, daemon, 60);
    rig_saw_if(rig, process_log_count(daemon, 0, "(cudaErrorIllegalAddress)") > 0,
               "an illegal address");
    rig_saw(rig, "%lld leases", redis_integer(rig->world.client, "ZCARD gpuimgd:lease"));
    rig_start(rig, 1, NULL, "--engine=cuda", "--devices=0", NULL);
    rig_wait_done(rig, 60, "n");
    rig_saw_done(rig, "m");
    rig_saw_jobs(rig, "victim0");
    rig_saw_if(rig, rig_at_attempt(rig, "", 2) <= 4, "no more are charged than there are streams");
    saw_pictures(rig, "n");
    saw_pictures(rig, "m");
}

static void gpu_check_on_a_device(struct rig *rig)
{
    if (!has_device(rig))
        return;
    draw_on_cpu(rig);
    struct process *daemon = rig_start(rig, 0, NULL, "--engine=cuda", "--canary_interval_s=0.01",
                                       NULL);
    rig_push(rig, "n", 200);
    rig_wait(rig, 60);
    process_sleep(1);
    rig_saw_done_at(rig, "n", 1);
    saw_pictures(rig, "n");
    rig_saw(rig, "%zu lines about the GPU check", process_log_count(daemon, 0, "GPU check"));
    rig_saw_terminated(rig, daemon);
    rig_saw_if(rig, process_log_count(daemon, 0, "stopped after 200 jobs") == 1,
               "200 jobs counted");
}

const struct fault_case gpu_faults[] = {
    CASE("2 of 8 jobs on the device", "illegal address", fault_on_the_device,
         "said; exit 70; what was being encoded is done; 0 leases; fetching stopped; 8 done once; "
         "the device's jobs are charged; no others; the CPU engine's pictures; slow0: done, "
         "attempt 1; 3 done once; all at attempt 1"),
    CASE("8 jobs that share a stream", "illegal address", fault_in_a_batch,
         "exit 70; 0 leases; 8 done once; first0: done, attempt 1; 8 at attempt 2; the CPU "
         "engine's pictures"),
    CASE("the launch of 1 of 8 that share a stream", "too many resources", launch_in_a_batch,
         "8 done once; 1 at attempt 2; the CPU engine's pictures; exit 0"),
    CASE("2 of 12 jobs on one of 2 devices", "illegal address", fault_of_one_of_two,
         "said; 12 done once; the device's jobs are charged; no others; 8 done once; all at "
         "attempt 1; the CPU engine's pictures; the CPU engine's pictures; exit 0"),
    CASE("each call, kernel and copy", "each error that lasts", each_lasting_error,
         "17 times exit 70; 68 done once"),
    CASE("the launch of a kernel", "too many resources", error_of_one_launch,
         "1 done once; 1 at attempt 2; the CPU engine's pictures; exit 0"),
    CASE("pinned memory", "refused", no_pinned_memory,
         "8 done once; all at attempt 1; the CPU engine's pictures; said 1 times"),
    CASE("device memory, at the start", "refused", no_device_memory,
         "daemon 0 does not start; exit 70; it says which memory; 3 done once; all at attempt 1"),
    CASE("device memory, for a large job", "refused once", no_more_device_memory,
         "3 done once; large: done, attempt 2; it says which memory; 3 done once", .slow = true),
    CASE("a kernel", "it never ends", never_reported,
         "4 done once; exit 70; victim0: done, attempt 2", .with = {"at=kernel,error=600"}),
    CASE("a stream", "its report never comes", never_reported,
         "4 done once; exit 70; victim0: done, attempt 2", .with = {"at=report,error=0"}),
    CASE("a copy", "it never ends", never_reported,
         "4 done once; exit 70; victim0: done, attempt 2", .with = {"at=copy,error=600"}),
    CASE("on the device, past its deadline", "SIGSTOP for 2.5 s", device_of_a_stopped_daemon,
         "stopped; 4 done once; victim0: failed timeout, attempt 1; exit 0"),
    CASE("a file that waits for pinned memory", "it grows", change_while_waiting,
         "victim0: done, attempt 2; 1 done once; the CPU engine's pictures; it says why; exit 0",
         .with = {"grow", "grew beyond"}),
    CASE("a file that waits for pinned memory", "overwritten by another", change_while_waiting,
         "victim0: done, attempt 2; 1 done once; the CPU engine's pictures; it says why; exit 0",
         .with = {"overwrite", "the header of the input \"p.jpg\" changed"}),
    CASE("a file that waits for pinned memory", "replaced by another", change_while_waiting,
         "victim0: done, attempt 1; 1 done once; the CPU engine's pictures; the CPU engine's "
         "pictures; exit 0", .with = {"replace"}),
    CASE("a device that the GPU check tests", "one wrong bit", wrong_bit,
         "runs; exit 70; STATUS says so; so does the log; 20 jobs counted; 20 done once; 3 done "
         "once"),
    CASE("one of 2 devices that the GPU check tests", "one wrong bit, once", wrong_bit_once,
         "out; in again; 20 done once; all at attempt 1; exit 0"),
    CASE("the GPU check beside 3 jobs", "one wrong bit", wrong_bit_beside_jobs,
         "exit 70; 3 done once; all at attempt 1"),
    CASE("the GPU check alone", "launch failure on the device", gpu_check_alone,
         "exit 70; 3 done once; all at attempt 1"),
    CASE("the GPU check", "too many resources", gpu_check_not_started, "said; 3 done once; exit 0"),
    CASE("a device of this machine", "a kernel with an illegal address", illegal_address,
         "exit 70; an illegal address; 0 leases; 20 done once; 20 done once; victim0: done, "
         "attempt 2; no more are charged than there are streams; the CPU engine's pictures; the "
         "CPU engine's pictures"),
    CASE("the GPU check on a device of this machine", "nothing", gpu_check_on_a_device,
         "200 done once; all at attempt 1; the CPU engine's pictures; 0 lines about the GPU "
         "check; exit 0; 200 jobs counted"),
    {.name = NULL},
};
