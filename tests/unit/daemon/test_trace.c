/* Tests of the trace and the timeline of synthetic jobs: contents, full files, full disks, and a
 * killed process. */
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/telemetry/timeline.h"
#include "daemon/telemetry/trace.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/trace_file.h"

#define MS 1000000ull
#define ORIGIN (5 * MS)
#define WORKERS 3
#define STREAMS 2
#define BYTES_MAX (64 << 20)

static char folder[] = "/tmp/gpuimgd-trace-XXXXXX";
static char chrome[64], timeline[64], old[64];
static cJSON *events; /* of the last file read */

static int make_folder(void **state)
{
    if (!folder[0] || !mkdtemp(folder))
        return -1;
    snprintf(chrome, sizeof chrome, "%s/t.json", folder);
    snprintf(old, sizeof old, "%s/t.json.old", folder);
    snprintf(timeline, sizeof timeline, "%s/t.svg", folder);
    return 0;
}

static int remove_folder(void **state)
{
    text_file_remove_folder(folder);
    return 0;
}

static struct trace_config config_of(const char *trace_path, const char *timeline_path)
{
    return (struct trace_config){
        .chrome = trace_path,
        .timeline = timeline_path,
        .bytes_max = BYTES_MAX,
        .origin_ns = ORIGIN,
        .daemon = "host<&\">:4711",
        .engine = "a \"device\"\\",
        .workers = WORKERS,
        .devices = 1,
        .streams = STREAMS,
        .names = {"cuda:0"},
    };
}

/* Job N of a daemon; jobs use workers and streams in turn. A job takes about 9 ms, and one starts
 * every `gap_ns`. */
static struct trace_job job_of(uint64_t number, uint64_t gap_ns)
{
    struct trace_job job = {.number = number, .attempt = 1, .width = 640, .height = 480,
                            .end = "done", .begin_ns = ORIGIN + number * gap_ns};
    uint16_t worker = TRACE_ON_WORKER(number % WORKERS);
    uint16_t stream = TRACE_ON_STREAM(0, number % STREAMS);
    uint64_t at = job.begin_ns + 1000;
    trace_job_add(&job, TRACE_READ, worker, at, at + MS / 2);
    trace_job_add(&job, TRACE_ADMIT, TRACE_OF_JOB, at + MS / 2, at + MS);
    trace_job_add(&job, TRACE_DECODE, worker, at + MS, at + 3 * MS);
    trace_job_add(&job, TRACE_H2D, stream, at + 3 * MS, at + 4 * MS);
    trace_job_add(&job, TRACE_DEVICE_DECODE, stream, at + 4 * MS, at + 4 * MS + MS / 4);
    trace_job_add(&job, TRACE_KERNEL, stream, at + 4 * MS + MS / 4, at + 5 * MS + 123);
    trace_job_add(&job, TRACE_DEVICE_ENCODE, stream, at + 5 * MS + 123, at + 5 * MS + MS / 2);
    trace_job_add(&job, TRACE_D2H, stream, at + 5 * MS + MS / 2, at + 6 * MS);
    trace_job_add(&job, TRACE_ENCODE, worker, at + 6 * MS, at + 8 * MS);
    trace_job_add(&job, TRACE_ACK, TRACE_OF_JOB, at + 8 * MS, at + 9 * MS);
    job.end_ns = at + 9 * MS;
    job.samples[0] = (struct trace_sample){at + MS, 1000 * number, 3};
    job.samples[1] = (struct trace_sample){job.end_ns, 500, 2};
    return job;
}

static struct trace *open_good(const char *timeline_path, size_t bytes_max)
{
    struct trace_config config = config_of(chrome, timeline_path);
    struct trace *trace = NULL;
    struct error error = {0};
    config.bytes_max = bytes_max;
    if (trace_open(&config, &trace, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return trace;
}

static void put_jobs(struct trace *trace, uint64_t first, uint64_t count, uint64_t gap_ns)
{
    for (uint64_t i = 0; i < count; i++) {
        struct trace_job job = job_of(first + i, gap_ns);
        trace_put(trace, &job);
    }
}

static void read_any(const char *path, bool wanted_whole)
{
    bool whole;
    cJSON_Delete(events);
    events = trace_file_read(path, &whole);
    assert_non_null(events);
    assert_int_equal(whole, wanted_whole);
}

static void read_good(const char *path, bool wanted_whole)
{
    read_any(path, wanted_whole);
    assert_true(trace_file_good(events));
}

static void trace_jobs(const char *timeline_path, size_t bytes_max, uint64_t count)
{
    struct trace *trace = open_good(timeline_path, bytes_max);
    put_jobs(trace, 1, count, 30 * MS);
    trace_close(trace);
    read_good(chrome, true);
}

TEST(slices_waits_and_counters_come_back)
{
    trace_jobs("", BYTES_MAX, 200);
    assert_int_equal(trace_file_jobs(events), 200);
    assert_int_equal(trace_file_count(events, "X", NULL), 200 * 8);
    assert_int_equal(trace_file_count(events, "b", "admit"), 200);
    assert_int_equal(trace_file_count(events, "e", "ack"), 200);
    assert_int_equal(trace_file_count(events, "C", "in flight"), 400);
    assert_int_equal(trace_file_count(events, "C", "pinned bytes"), 400);
    assert_int_equal(trace_file_count(events, "M", "thread_name"), WORKERS + STREAMS);
    assert_float_equal(trace_file_ms(events, 17, "read"), 0.5, 1e-6);
    assert_float_equal(trace_file_ms(events, 17, "device_decode"), 0.25, 1e-6);
    assert_float_equal(trace_file_ms(events, 17, "kernel"), 0.750123, 1e-6);
    assert_float_equal(trace_file_ms(events, 17, "device_encode"), 0.499877, 1e-6);
    assert_float_equal(trace_file_ms(events, 17, "admit"), 0.5, 1e-6);
    assert_float_equal(trace_file_ms(events, 201, "read"), -1, 1e-6);
    assert_true(trace_file_end(events, "jobs") == 200);
    assert_true(trace_file_end(events, "jobs left out") == 0);
}

/* The checker itself must find errors. */
TEST(the_check_finds_overlap_and_disorder)
{
    for (int fault = 0; fault < 4; fault++) {
        struct trace *trace = open_good("", BYTES_MAX);
        put_jobs(trace, 1, 3, 30 * MS);
        struct trace_job job = job_of(4, 30 * MS);
        if (fault == 1)
            job = job_of(3 + WORKERS * STREAMS, 1); /* overlaps other jobs */
        if (fault == 2)
            job.slices[2].what = TRACE_ENCODE;
        if (fault == 3)
            job.end_ns -= 2 * MS;
        trace_put(trace, &job);
        put_jobs(trace, 3 + WORKERS * STREAMS * 2, fault == 1, 1);
        trace_close(trace);
        read_any(chrome, true);
        assert_int_equal(trace_file_good(events), fault == 0);
    }
    assert_true(xml_good("<a b=\"&lt;\"><c/>d</a>"));
    assert_false(xml_good("<a><b></a></b>"));
    assert_false(xml_good("<a>&</a>"));
    assert_false(xml_good("<a b=c/>"));
    assert_false(xml_good("<a/><b/>"));
}

TEST(a_full_file_says_what_is_missing)
{
    struct stat found;
    trace_jobs("", 100000, 500);
    assert_int_equal(stat(chrome, &found), 0);
    assert_in_range(found.st_size, 60000, 100000);
    unsigned jobs = trace_file_jobs(events);
    assert_in_range(jobs, 20, 100);
    assert_true(trace_file_end(events, "jobs") == jobs);
    assert_true(trace_file_end(events, "jobs left out") == 500 - jobs);
}

/* More jobs at a time than the ring holds: the trace counts the jobs that its thread missed. */
TEST(a_flood_is_counted)
{
    trace_jobs(timeline, BYTES_MAX, 10000);
    double jobs = trace_file_end(events, "jobs");
    assert_true(jobs >= 2048);
    assert_true(jobs + trace_file_end(events, "jobs left out") == 10000);
}

TEST(too_many_slices_are_counted)
{
    struct trace *trace = open_good(timeline, BYTES_MAX);
    struct trace_job job = {.number = 7, .end = "done", .begin_ns = ORIGIN, .end_ns = 2 * ORIGIN};
    for (uint64_t i = 0; i < TRACE_SLICES_MAX + 5; i++)
        trace_job_add(&job, TRACE_READ, TRACE_ON_WORKER(0), ORIGIN + i, ORIGIN + i + 1);
    trace_put(trace, &job);
    trace_close(trace);
    read_good(chrome, true);
    assert_int_equal(trace_file_count(events, "X", "read"), TRACE_SLICES_MAX);
    assert_true(trace_file_end(events, "slices left out") == 5);
}

/* In a child process: adds jobs, then is killed without an orderly exit. */
static void leave_behind(bool full_disk)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct trace *trace = open_good("", BYTES_MAX);
        struct rlimit limit = {150001, 150001};
        signal(SIGXFSZ, SIG_IGN);
        if (full_disk)
            setrlimit(RLIMIT_FSIZE, &limit);
        for (uint64_t i = 0; i < 5; i++) {
            put_jobs(trace, 1 + 100 * i, 100, 30 * MS);
            usleep(60000);
        }
        usleep(200000);
        if (full_disk)
            trace_close(trace);
        kill(getpid(), SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(a_killed_process_leaves_whole_events)
{
    unlink(chrome);
    leave_behind(false);
    read_good(chrome, false);
    assert_int_equal(trace_file_jobs(events), 500);
    /* Events do not cross page boundaries. */
    size_t length;
    unsigned char *bytes = text_file_bytes(chrome, &length);
    for (size_t at = 4096; at < length; at += 4096)
        assert_int_equal(bytes[at - 1], '\n');
    free(bytes);
    /* The next trace keeps the old file. */
    trace_close(open_good("", BYTES_MAX));
    read_good(old, false);
    assert_int_equal(trace_file_jobs(events), 500);
}

TEST(a_full_disk_leaves_whole_events)
{
    leave_behind(true);
    read_any(chrome, false);
    assert_in_range(trace_file_jobs(events), 20, 120);
}

static const char *draw(uint64_t count, uint64_t gap_ns, uint32_t workers)
{
    struct trace_config config = config_of("", timeline);
    struct timeline *made = NULL;
    struct error error = {0};
    config.workers = workers;
    assert_int_equal(timeline_open(&config, &made, &error), STATUS_OK);
    for (uint64_t i = 1; i <= count; i++) {
        struct trace_job job = job_of(i, gap_ns);
        timeline_add(made, &job);
    }
    timeline_draw(made);
    free(made);
    const char *text = text_keep(text_file_read(timeline));
    assert_true(xml_good(text));
    assert_int_equal(text_file_count(folder, "t.svg."), 0);
    return text;
}

static unsigned count_of(const char *text, const char *word)
{
    unsigned count = 0;
    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

TEST(the_picture_has_what_it_must)
{
    static const char *const words[] = {
        "worker 2", "stream 1", "cuda:0", "prefers-color-scheme", "job 17: decode 2.000 ms",
        "job 17: H2D 1.000 ms", "job 17: D2H", "job 17: device_decode 0.250 ms",
        "all decoders", "all kernels", "all encoders", "jobs in flight", "640 x 480",
        "host&#60;&#38;&#34;&#62;:4711", "copy to the device", "wait for admission", "ms</text>",
        "job 17, attempt 1: done, 9.001 ms"};
    const char *text = draw(40, 10 * MS, WORKERS);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(text, words[i]))
            fail_msg("the timeline has no \"%s\"", words[i]);
    assert_int_equal(count_of(text, "<g class=\"j\">"), 40);
    /* One job starts every 10 ms, and 2 of its 9 ms are copies, so none overlap. */
    assert_non_null(strstr(text, "overlap 1.00"));
    text = draw(0, MS, WORKERS);
    assert_non_null(strstr(text, "no job has ended yet"));
}

TEST(the_picture_is_bounded)
{
    const char *text = draw(6000, 10 * MS, 100);
    assert_in_range(count_of(text, "<g class=\"j\">"), TIMELINE_WINDOW_JOBS,
                    TIMELINE_WINDOW_JOBS + 4);
    assert_non_null(strstr(text, "among the last 4096 of 6000 jobs"));
    assert_non_null(strstr(text, "and 68 more workers"));
    assert_in_range(strlen(text), 50000, 250000);
    /* So many at a time that not all can be drawn separately. */
    text = draw(4096, 100, WORKERS);
    assert_int_equal(count_of(text, "<g class=\"j\">"), 512);
    assert_non_null(strstr(text, "more jobs of the window are not drawn"));
    assert_non_null(strstr(text, "more jobs</text>"));
    assert_true(strlen(text) < 1500000);
}

/* Of 300 slow jobs, 100 in the middle start three times as often. */
TEST(the_busiest_moment_is_drawn)
{
    struct trace_config config = config_of("", timeline);
    struct timeline *made = NULL;
    struct error error = {0};
    assert_int_equal(timeline_open(&config, &made, &error), STATUS_OK);
    for (uint64_t i = 1; i <= 300; i++) {
        uint64_t gap = i < 100 || i >= 200 ? 30 * MS : 10 * MS;
        struct trace_job job = job_of(i, gap);
        uint64_t shift = gap == 30 * MS ? 0 : 2000 * MS; /* between the two slow parts */
        job.begin_ns += shift;
        job.end_ns += shift;
        for (uint32_t s = 0; s < job.count; s++) {
            job.slices[s].begin_ns += shift;
            job.slices[s].end_ns += shift;
        }
        timeline_add(made, &job);
    }
    timeline_draw(made);
    free(made);
    const char *text = text_keep(text_file_read(timeline));
    assert_true(xml_good(text));
    assert_non_null(strstr(text, "job 150: "));
    assert_null(strstr(text, "job 50: "));
    assert_null(strstr(text, "job 260: "));
}

static void check_refused(const char *trace_path, const char *timeline_path, const char *word)
{
    struct trace_config config = config_of(trace_path, timeline_path);
    struct trace *trace = NULL;
    struct error error = {0};
    assert_int_equal(trace_open(&config, &trace, &error), STATUS_WRITE_FAILED);
    assert_null(trace);
    if (!strstr(error.text, word))
        fail_msg("\"%s\" does not say \"%s\"", error.text, word);
}

TEST(places_that_cannot_be_written_are_refused)
{
    char pipe[64];
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    check_refused("/does/not/exist.json", "", "option trace is \"/does/not/exist.json\"");
    check_refused("", "/does/not/exist.svg", "option timeline is \"/does/not/exist.svg\"");
    check_refused(folder, "", "option trace");
    check_refused("/dev/null", "", "not a regular file");
    check_refused(pipe, "", "option trace");
    check_refused(chrome, "/does/not/exist.svg", "option timeline");
}

TEST_MAIN(.setup = make_folder, .teardown = remove_folder)
