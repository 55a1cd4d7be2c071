/*
 * test_trace.c - --trace and --timeline of a daemon at work: on the CPU engine, and on the CUDA
 * engine's own code with the tests' runtime.
 */
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/trace_file.h"

#define JOBS 24

static char trace[128], timeline[128], trace_option[160], timeline_option[160];

static void put_files(void)
{
    snprintf(trace, sizeof trace, "%s/t.json", w->folder);
    snprintf(timeline, sizeof timeline, "%s/t.svg", w->folder);
    snprintf(trace_option, sizeof trace_option, "--trace=%s", trace);
    snprintf(timeline_option, sizeof timeline_option, "--timeline=%s", timeline);
    world_put_photo(w, "a.jpg", 640, 427);
    world_put_photo(w, "b.jpg", 1200, 800);
    world_put(w, "bad.jpg", "\xff\xd8\xff\xe0 and no more", 16);
    world_put_slow(w);
}

static void push_both(void)
{
    for (int i = 0; i < JOBS; i++)
        world_push(w, "{'input':'%c.jpg','outputs':[{'output':'%d.jpg','ops':['sobel']},"
                      "{'output':'%ds.png','ops':['grayscale',{'op':'resize','width':64}]}]}",
                   i % 2 ? 'a' : 'b', i, i);
}

static double traced_ms(const cJSON *events, const cJSON *result, const char *name)
{
    return trace_file_ms(events, json_number(result, "job"), name);
}

/* The milliseconds of a stage in the result must equal those in the trace; -1: no such stage. The
 * result's kernels include the codecs on the device. */
static void check_ms(const cJSON *events, const cJSON *result, const char *key, const char *name)
{
    double told = json_number(result, text_of("ms.%s", key));
    double seen = traced_ms(events, result, name);
    if (strcmp(name, "kernel") == 0) {
        seen += fmax(traced_ms(events, result, "device_decode"), 0);
        seen += fmax(traced_ms(events, result, "device_encode"), 0);
    }
    if (!(seen > told - 0.0011 && seen < told + 0.0011))
        fail_msg("job %.0f: ms.%s is %.3f, the trace has %.4f", json_number(result, "job"), key,
                 told, seen);
}

static cJSON *read_trace(bool wanted_whole)
{
    bool whole;
    cJSON *events = trace_file_read(trace, &whole);
    assert_non_null(events);
    assert_int_equal(whole, wanted_whole);
    assert_true(trace_file_good(events));
    return events;
}

static void check_picture(const char *const *words)
{
    const char *text = text_keep(text_file_read(timeline));
    assert_true(xml_good(text));
    for (; *words; words++)
        if (!strstr(text, *words))
            fail_msg("the timeline has no \"%s\"", *words);
}

static void take_results(cJSON **results)
{
    for (int i = 0; i < JOBS; i++) {
        results[i] = check_next(w);
        assert_string_equal(json_text(results[i], "status"), "done");
    }
}

static void check_stages(cJSON **results, bool cuda)
{
    cJSON *events = read_trace(true);
    for (int i = 0; i < JOBS; i++) {
        check_ms(events, results[i], "read", "read");
        check_ms(events, results[i], "admit", "admit");
        check_ms(events, results[i], "decode", "decode");
        check_ms(events, results[i], "kernel", "kernel");
        check_ms(events, results[i], "encode", "encode");
        if (cuda) {
            check_ms(events, results[i], "h2d", "H2D");
            check_ms(events, results[i], "d2h", "D2H");
            assert_true(traced_ms(events, results[i], "device_decode") > 0);
            assert_true(traced_ms(events, results[i], "device_encode") > 0);
        }
        cJSON_Delete(results[i]);
    }
    assert_int_equal(trace_file_jobs(events), JOBS + 1);
    assert_true(trace_file_end(events, "jobs") == JOBS + 1);
    assert_int_equal(trace_file_count(events, "X", "H2D"), cuda ? JOBS : 0);
    assert_int_equal(trace_file_count(events, "X", "device_decode"), cuda ? JOBS : 0);
    assert_int_equal(trace_file_count(events, "X", "device_encode"), cuda ? JOBS : 0);
    assert_int_equal(trace_file_count(events, "b", "ack"), JOBS + 1);
    assert_true(trace_file_count(events, "C", "in flight") > JOBS);
    cJSON_Delete(events);
}

TEST(test_on_the_cpu_engine)
{
    static const char *const words[] = {"worker 0", "worker 1", "decode", "encode", "kernel",
                                        "jobs in flight", "25 jobs ended", NULL};
    cJSON *results[JOBS];
    struct process *daemon = start_ready(0, "--trace", trace, timeline_option);
    push_both();
    take_results(results);
    check_failed(check_answer(w, "{'input':'bad.jpg','output':'bad.png'}"), "decode_failed", NULL);
    check_stop(daemon);
    check_stages(results, false);
    check_picture(words);
}

/* Counts the events with the ids of the client's trace. */
static unsigned events_with(const cJSON *events, const char *trace_id, const char *parent_id)
{
    unsigned count = 0;
    const cJSON *event;
    cJSON_ArrayForEach(event, events)
    {
        const char *trace_of = json_text(event, "args.trace_id");
        const char *parent_of = json_text(event, "args.parent_id");
        count += trace_of && parent_of && strcmp(trace_of, trace_id) == 0 &&
                 strcmp(parent_of, parent_id) == 0;
    }
    return count;
}

TEST(test_the_trace_of_the_client)
{
    struct process *daemon = start_ready(0, trace_option);
    cJSON *result = check_answer(
        w, "{'input':'a.jpg','output':'k.png','ops':['sobel'],'tracestate':'a=1,b@c=x y',"
           "'traceparent':'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'}");
    check_has(result, "{'status':'done','tracestate':'a=1,b@c=x y',"
                      "'traceparent':'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'}");
    cJSON_Delete(result);
    result =
        check_answer(w, "{'input':'no.jpg','output':'k.png',"
                        "'traceparent':'00-11111111111111111111111111111111-2222222222222222-00'}");
    check_has(result, "{'status':'failed',"
                      "'traceparent':'00-11111111111111111111111111111111-2222222222222222-00'}");
    cJSON_Delete(result);
    check_done(check_answer(w, "{'input':'a.jpg','output':'k.png'}"));
    check_stop(daemon);
    cJSON *events = read_trace(true);
    /* The job, read, admit, decode, kernel, encode and ack; waits, if there are any. */
    assert_true(events_with(events, "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331") >= 7);
    assert_true(events_with(events, "11111111111111111111111111111111", "2222222222222222") >= 1);
    /* The third job has no ids. */
    for (const cJSON *event = events->child; event; event = event->next)
        if (json_number(event, "args.job") == 3)
            assert_false(cJSON_HasObjectItem(json_at(event, "args"), "trace_id"));
    cJSON_Delete(events);
}

TEST(test_on_streams)
{
    static const char *const words[] = {"stream 0", "stream 1", "cuda:0", "H2D", "D2H", "overlap",
                                        "all decoders", "all kernels", "all encoders",
                                        "decode on the device", ": device_decode ", NULL};
    const char *program = getenv("GPUIMGD_STANDIN");
    const char *const options[] = {trace_option,  timeline_option,      "--engine=cuda",
                                   "--jpeg=cuda", "--webp=cpu",         "--avif=cpu",
                                   "--streams=2", "--pinned_bytes=64M", NULL};
    struct process_options how = {.program = program};
    cJSON *results[JOBS];
    if (!program || access(program, X_OK) != 0)
        skip();
    struct process *daemon = check_ready(world_start_with(w, 0, &how, options));
    push_both();
    take_results(results);
    check_failed(check_answer(w, "{'input':'bad.jpg','output':'bad.png'}"), "decode_failed", NULL);
    check_stop(daemon);
    check_stages(results, true);
    check_picture(words);
}

/* While the only stream is held, the other jobs wait for it; then they share it. */
TEST(test_sharing_a_stream)
{
    const char *program = getenv("GPUIMGD_STANDIN");
    const char *const options[] = {trace_option,    "--engine=cuda",      "--jpeg=cuda",
                                   "--webp=cpu",    "--avif=cpu",         "--streams=1",
                                   "--inflight=64", "--pinned_bytes=64M", NULL};
    struct process_options how = {.program = program};
    cJSON *results[JOBS];
    if (!program || access(program, X_OK) != 0)
        skip();
    const char *held = text_of("%s/held", w->folder);
    setenv("GPUIMGD_CUDA_FAULT", text_of("hold=%s", held), 1);
    struct process *daemon = world_start_with(w, 0, &how, options);
    unsetenv("GPUIMGD_CUDA_FAULT");
    check_ready(daemon);
    assert_true(text_file_write(held, "", 0));
    push_both();
    assert_true(world_until(w, 20, JOBS, "ZCARD gpuimgd:lease"));
    process_sleep(patience(2)); /* until the jobs are on the device */
    unlink(held);
    take_results(results);
    check_stop(daemon);
    cJSON *events = read_trace(true);
    for (int i = 0; i < JOBS; i++) {
        check_ms(events, results[i], "h2d", "H2D");
        check_ms(events, results[i], "kernel", "kernel");
        check_ms(events, results[i], "d2h", "D2H");
        cJSON_Delete(results[i]);
    }
    assert_true(trace_file_in_a_row(events, "H2D") > 0);
    assert_true(trace_file_in_a_row(events, "D2H") > 0);
    cJSON_Delete(events);
}

TEST(test_killed)
{
    struct process *daemon = start_ready(0, trace_option);
    check_done(check_answer(w, "{'input':'a.jpg','output':'k.png'}"));
    for (int i = 0; i < 200; i++)
        world_push(w, "{'input':'a.jpg','output':'k%d.png'}", i);
    for (int i = 0; i < 40; i++)
        check_done(check_next(w));
    /* Events are written 20 times per second, so the first are in the file. */
    process_sleep(patience(0.5));
    process_kill9(daemon);
    cJSON *events = read_trace(false);
    assert_true(trace_file_jobs(events) > 0);
    cJSON_Delete(events);
    /* The next daemon ends the jobs, and the trace of the first one still exists. */
    daemon = start_ready(0, trace_option);
    assert_true(world_settle(w));
    check_stop(daemon);
    cJSON_Delete(read_trace(true));
    strcat(trace, ".old");
    events = read_trace(false);
    trace[strlen(trace) - 4] = '\0';
    assert_true(trace_file_jobs(events) > 0);
    cJSON_Delete(events);
}

TEST(test_full_and_drawn_meanwhile)
{
    struct process *daemon =
        world_start(w, 0, trace_option, timeline_option, "--trace_bytes_max=64K", NULL);
    static const char *const nothing[] = {"no job has ended yet", NULL};
    static const char *const words[] = {"worker 0", "jobs ended in it", NULL};
    check_ready(daemon);
    check_picture(nothing);
    for (int i = 0; i < 100; i++)
        check_done(check_answer(w, "{'input':'a.jpg','ops':['stats']}"));
    assert_true(process_logged(daemon, 0, "trace_bytes_max is 65536", 20));
    size_t mark = process_log_mark(daemon);
    process_signal(daemon, SIGUSR1);
    assert_true(process_logged(daemon, mark, "timeline: ", 20));
    check_picture(words);
    check_stop(daemon);
    cJSON *events = read_trace(true);
    assert_true(trace_file_end(events, "jobs") == trace_file_jobs(events));
    assert_true(trace_file_end(events, "jobs") + trace_file_end(events, "jobs left out") == 100);
    assert_true(trace_file_end(events, "jobs left out") > 0);
    cJSON_Delete(events);
}

TEST(test_refused)
{
    struct process *daemon = world_start(w, 0, "--trace=/does/not/exist/t.json", NULL);
    assert_int_equal(process_wait(daemon, 20), 78);
    assert_true(process_logged(daemon, 0, "option trace is \"/does/not/exist/t.json\"", 1));
    daemon = world_start(w, 0, "--timeline", "/does/not/exist/t.svg", NULL);
    assert_int_equal(process_wait(daemon, 20), 78);
    assert_true(process_logged(daemon, 0, "option timeline", 1));
    daemon = world_start(w, 0, "--timeline", NULL);
    assert_int_equal(process_wait(daemon, 20), 64);
    assert_true(process_logged(daemon, 0, "the option --timeline needs a value", 1));
}

WORLD_MAIN(ONE_WORLD, .fill = put_files)
