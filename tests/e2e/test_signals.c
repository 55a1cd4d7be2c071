/*
 * test_signals.c - the daemon as a service: signals, notifications, stats, exit codes.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

static struct process *start_with_config(void)
{
    return start_ready(0, "-c", config_path());
}

/* ---- stop ------------------------------------------------------------------------------------ */

TEST(test_term_drains)
{
    world_put_slow(w);
    struct process *daemon = start_ready(0, "--inflight=4");
    for (int i = 0; i < 12; i++)
        push_slow(i);
    assert_true(world_until(w, 20, 4, "ZCARD gpuimgd:lease"));
    size_t mark = process_mark(daemon);
    process_signal(daemon, SIGTERM);
    assert_true(process_noted(daemon, mark, "STOPPING=1", 10));
    assert_int_equal(process_wait(daemon, 60), 0);
    /* Jobs in flight were finished and answered; the others are still in the queue. */
    long long results = redis_integer(w->client, "LLEN gpuimgd:results");
    long long left = redis_integer(w->client, "LLEN gpuimgd:jobs");
    assert_in_range(results, 4, 11);
    assert_int_equal(results + left, 12);
    assert_int_equal(redis_integer(w->client, "ZCARD gpuimgd:lease"), 0);
    assert_int_equal(text_file_count(w->out, ".tmp"), 0);
    for (long long i = 0; i < results; i++)
        check_done(check_next(w));
    /* The next daemon runs the others at their first attempt. */
    daemon = start_ready(0);
    for (long long i = 0; i < left; i++) {
        cJSON *result = check_next(w);
        assert_true(json_number(result, "attempt") == 1);
        check_done(result);
    }
    check_stop(daemon);
    check_clean(w);
}

TEST(test_second_term_gives_back_at_once)
{
    world_put_slow(w);
    struct process *daemon = start_ready(0, "--workers=1", "--inflight=4");
    for (int i = 0; i < 4; i++)
        push_slow(i);
    assert_true(world_until(w, 20, 4, "ZCARD gpuimgd:lease"));
    process_signal(daemon, SIGTERM);
    assert_true(process_noted(daemon, 0, "STOPPING=1", 10));
    process_signal(daemon, SIGTERM);
    assert_int_equal(process_wait(daemon, 20), 0);
    long long results = redis_integer(w->client, "LLEN gpuimgd:results");
    assert_true(results < 4);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:jobs") + results, 4);
    assert_int_equal(redis_integer(w->client, "ZCARD gpuimgd:lease"), 0);
    assert_int_equal(text_file_count(w->out, ".tmp"), 0);
    /* A returned job keeps its number of attempts. */
    daemon = start_ready(0);
    for (int i = 0; i < 4; i++) {
        cJSON *result = check_next(w);
        assert_true(json_number(result, "attempt") == 1);
        check_done(result);
    }
    check_stop(daemon);
    check_clean(w);
}

TEST(test_drain_has_an_end)
{
    world_put_slow(w);
    struct process *daemon = start_ready(0, "--workers=1", "--inflight=8",
                                         "--drain_timeout_s=0.05");
    for (int i = 0; i < 8; i++)
        push_slow(i);
    assert_true(world_until(w, 20, 8, "ZCARD gpuimgd:lease"));
    check_stop(daemon);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:jobs") +
                         redis_integer(w->client, "LLEN gpuimgd:results"), 8);
    assert_true(redis_integer(w->client, "LLEN gpuimgd:jobs") > 0);
    assert_int_equal(redis_integer(w->client, "ZCARD gpuimgd:lease"), 0);
}

TEST(test_interrupt_is_as_term)
{
    struct process *daemon = start_ready(0);
    process_signal(daemon, SIGINT);
    assert_int_equal(process_wait(daemon, 20), 0);
}

/* A signal before the handlers are installed ends the process; later ones must be handled. */
TEST(test_signals_while_it_starts)
{
    static const int signals[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    for (int i = 0; i < 16; i++) {
        int signal = signals[i % 4];
        struct process *daemon = world_start(w, 0, NULL);
        process_sleep(0.004 + 0.003 * i);
        process_signal(daemon, signal);
        if (signal != SIGTERM)
            process_signal(daemon, SIGTERM);
        int status = process_wait(daemon, 20);
        if (status != 0 && status != 128 + signal && status != 128 + SIGTERM)
            fail_msg("signal %d during the start: exit status %d", signal, status);
    }
}

/* ---- stats ----------------------------------------------------------------------------------- */

static const char *const stats_keys[] = {"interval_s",    "jobs",
                                         "done",          "failed",
                                         "dead",          "retried",
                                         "img_s",         "mp_s",
                                         "in_mb_s",       "out_mb_s",
                                         "decode_host",   "decode_host_mp_s",
                                         "decode_device", "decode_device_mp_s",
                                         "encode_host",   "encode_host_mp_s",
                                         "encode_device", "encode_device_mp_s",
                                         "inflight",      "waiting",
                                         "queue",         "queue_oldest_s",
                                         "oldest_s",      "read_ms",
                                         "decode_ms",     "gpu_ms",
                                         "encode_ms",     "loop_us",
                                         "total_p50_ms",  "total_p95_ms",
                                         "total_p99_ms",  "gpu_busy",
                                         "overlap",       "pinned_mb",
                                         "device_mb",     "rss_mb",
                                         "engine"};

static void check_stats_line(const char *text)
{
    const char *at = strstr(text, "stats interval_s=");
    assert_non_null(at);
    const char *line = text_of("%.*s", (int)strcspn(at, "\n"), at);
    at = line + 5;
    for (size_t i = 0; i < sizeof stats_keys / sizeof *stats_keys; i++) {
        const char *key = text_of(" %s=", stats_keys[i]);
        if (strncmp(at, key, strlen(key)) != 0)
            print_error("%s is not next in: %s\n", key, line);
        assert_memory_equal(at, key, strlen(key));
        at += strlen(key);
        assert_true(strcspn(at, " ") > 0);
        at += strcspn(at, " ");
    }
    assert_string_equal(at, "");
}

TEST(test_usr1_prints_stats)
{
    struct process *daemon = start_ready(0, "--stats_interval_s=0");
    assert_int_equal(process_log_count(daemon, 0, "stats interval_s="), 0);
    push_jobs(1, 2);
    check_done(check_next(w));
    world_push(w, "nonsense");
    check_failed(check_next(w), "bad_json", NULL, NULL);
    process_sleep(0.5); /* a job counts after Redis has acknowledged it */
    process_signal(daemon, SIGUSR1);
    assert_true(process_logged(daemon, 0, "stats interval_s=", 10));
    process_sleep(0.05);
    const char *log = text_keep(process_log(daemon));
    check_stats_line(log);
    const char *line = strstr(log, "stats interval_s=");
    assert_non_null(strstr(line, " jobs=2 done=1 failed=1 dead=0 retried=0 "));
    assert_non_null(strstr(line, " inflight=0 "));
    assert_non_null(strstr(line, " engine=cpu"));
    double loop_us = strtod(strstr(line, " loop_us=") + strlen(" loop_us="), NULL);
    assert_true(loop_us > 0 && loop_us < 1e6);
    check_stop(daemon);
}

static int script_calls(void)
{
    const char *info = redis_text(w->client, "INFO commandstats");
    const char *sha = strstr(info, "cmdstat_evalsha:calls="), *text = strstr(info, "_eval:calls=");
    return (sha ? atoi(strchr(sha, '=') + 1) : 0) + (text ? atoi(strchr(text, '=') + 1) : 0);
}

/* Waits for scripts: RENEW runs every renew_s. */
static void wait_for_scripts(int count)
{
    int first = script_calls();
    assert_true(await(30, script_calls() >= first + count));
}

TEST(test_an_idle_daemon_is_quiet)
{
    struct process *daemon = start_ready(0, "--stats_interval_s=0.05", "--renew_s=0.1");
    for (int round = 0; round < 2; round++) {
        assert_true(process_logged(daemon, 0, "stats interval_s=", 10));
        size_t mark = process_log_mark(daemon);
        wait_for_scripts(20); /* about forty intervals; the first may have the last job's line */
        assert_true(process_log_count(daemon, mark, "stats interval_s=") <= 2);
        mark = process_log_mark(daemon);
        push_jobs(1, 2);
        check_done(check_next(w));
        assert_true(process_logged(daemon, mark, " jobs=1 done=1 ", 10));
        assert_true(process_logged(daemon, mark, " jobs=0 done=0 ", 10)); /* exactly once */
    }
    size_t mark = process_log_mark(daemon);
    process_signal(daemon, SIGUSR1);
    assert_true(process_logged(daemon, mark, " jobs=0 done=0 ", 10));
    check_stop(daemon);
}

TEST(test_stats_log)
{
    const char *path = text_of("%s/stats.log", w->folder);
    const char *option = text_of("--stats_log=%s", path);
    const char *moved = text_of("%s.1", path);
    struct process *daemon = start_ready(0, "--stats_interval_s=0.1", option);
    assert_true(process_logged(daemon, 0, "stats interval_s=", 10));
    process_sleep(patience(0.3));
    char *text = text_file_read(path);
    check_stats_line(text);
    free(text);
    /* logrotate: move, then SIGHUP. */
    assert_int_equal(rename(path, moved), 0);
    process_signal(daemon, SIGHUP);
    struct stat st;
    assert_true(await(10, stat(path, &st) == 0 && st.st_size > 0));
    text = text_file_read(path);
    check_stats_line(text);
    free(text);
    check_stop(daemon);
    /* A log that cannot be opened is reported, and does not stop the daemon. */
    daemon = start_ready(0, "--stats_log=/does/not/exist");
    assert_true(process_logged(daemon, 0, "stats_log is \"/does/not/exist\", which cannot be", 10));
    check_stop(daemon);
}

/* ---- pause and reload ------------------------------------------------------------------------ */

TEST(test_usr2_pauses)
{
    struct process *daemon = start_ready(0);
    push_jobs(0, 1);
    check_done(check_next(w));
    size_t mark = process_mark(daemon), log_mark = process_log_mark(daemon);
    process_signal(daemon, SIGUSR2);
    assert_true(process_logged(daemon, log_mark, "paus", 10));
    assert_true(process_noted(daemon, mark, "STATUS=", 10));
    push_jobs(1, 6);
    process_sleep(patience(0.5));
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:jobs"), 5);
    process_signal(daemon, SIGUSR2);
    take_jobs(5);
    check_stop(daemon);
    check_clean(w);
}

TEST(test_reload)
{
    put_config("stats_interval_s = 0\nlog_level = info\n");
    struct process *daemon = start_with_config();
    assert_int_equal(process_log_count(daemon, 0, "stats interval_s="), 0);

    size_t mark = process_mark(daemon), log_mark = process_log_mark(daemon);
    put_config("stats_interval_s = 0.1\nlog_level = info\n");
    process_signal(daemon, SIGHUP);
    assert_true(process_noted(daemon, mark, "RELOADING=1", 10));
    assert_true(process_noted(daemon, mark, "READY=1", 10));
    assert_true(process_logged(daemon, log_mark, "stats interval_s=", 10));

    /* level error hides even the stats line (INFO); debug shows more than info */
    put_config("stats_interval_s = 0\nlog_level = error\n");
    mark = process_mark(daemon);
    process_signal(daemon, SIGHUP);
    assert_true(process_noted(daemon, mark, "READY=1", 10));
    log_mark = process_log_mark(daemon);
    push_jobs(1, 2);
    check_done(check_next(w));
    process_sleep(0.2);
    assert_int_equal(process_log_mark(daemon), log_mark);

    mark = process_mark(daemon);
    put_config("stats_interval_s = 0\nlog_level = debug\n");
    process_signal(daemon, SIGHUP);
    assert_true(process_noted(daemon, mark, "READY=1", 10));
    push_jobs(2, 3);
    check_done(check_next(w));
    assert_true(await(10, process_log_mark(daemon) > log_mark));
    check_stop(daemon);
}

TEST(test_bad_reload_runs_on)
{
    put_config("stats_interval_s = 0\n");
    struct process *daemon = start_with_config();
    static const char *const wrong[] = {"stats_interval_s = soon\n", "no_such_key = 1\n",
                                        "log_level = loud\n", "[other]\na = 1\n"};
    static const char *const words[] = {"stats_interval_s", "no_such_key", "log_level", "other"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t mark = process_mark(daemon), log_mark = process_log_mark(daemon);
        put_config(wrong[i]);
        process_signal(daemon, SIGHUP);
        assert_true(process_logged(daemon, log_mark, words[i], 10));
        assert_true(process_noted(daemon, mark, "READY=1", 10));
        push_jobs(1, 2);
        check_done(check_next(w));
    }
    /* An option that needs a restart is reported and not changed. */
    size_t log_mark = process_log_mark(daemon);
    put_config("stats_interval_s = 0\nstreams = 7\n");
    process_signal(daemon, SIGHUP);
    assert_true(process_logged(daemon, log_mark, "streams", 10));
    push_jobs(1, 2);
    check_done(check_next(w));
    check_stop(daemon);
}

/* Replaces the file by something that cannot be read: the daemon keeps its options, and jobs run.
 */
TEST(test_reload_of_what_is_no_file)
{
    static const char *const faults[] = {
        "it is a folder", "it is a pipe to which no process writes",
        "it is a pipe whose writer sends nothing", "No such file"};
    put_config("stats_interval_s = 0\n");
    struct process *daemon = start_with_config();
    for (size_t kind = 0; kind < 4; kind++) {
        int writer = -1;
        unlink(config_path());
        rmdir(config_path());
        if (kind == 0)
            assert_int_equal(mkdir(config_path(), 0700), 0);
        else if (kind < 3)
            assert_int_equal(mkfifo(config_path(), 0600), 0);
        if (kind == 2)
            writer = open(config_path(), O_RDWR | O_CLOEXEC);
        size_t mark = process_mark(daemon), log_mark = process_log_mark(daemon);
        double begin_s = process_now();
        process_signal(daemon, SIGHUP);
        assert_true(process_logged(daemon, log_mark, faults[kind], 10));
        if (kind == 2) /* the loop does not wait for the writer */
            assert_true(process_now() - begin_s < patience(CONF_PIPE_S * 0.9));
        assert_true(process_logged(daemon, log_mark, "the old configuration stays", 10));
        assert_true(process_noted(daemon, mark, "READY=1", 10));
        push_jobs(1, 2);
        check_done(check_next(w));
        if (kind == 2)
            close(writer);
    }
    check_stop(daemon);
}

/* ---- systemd --------------------------------------------------------------------------------- */

TEST(test_notifications)
{
    struct process_options how = {.watchdog_s = 2};
    struct process *daemon = check_ready(world_start_with(w, 0, &how, NULL));
    assert_true(process_noted(daemon, 0, "STATUS=", 10));
    size_t mark = process_mark(daemon);
    for (int i = 0; i < 2; i++) {
        assert_true(process_noted(daemon, mark, "WATCHDOG=1", 2));
        mark = process_mark(daemon);
    }
    process_signal(daemon, SIGTERM);
    assert_true(process_noted(daemon, mark, "STOPPING=1", 10));
    assert_int_equal(process_wait(daemon, 20), 0);
}

TEST(test_notifications_to_an_abstract_name)
{
    struct process_options how = {.abstract_notify = true};
    struct process *daemon = check_ready(world_start_with(w, 0, &how, NULL));
    assert_true(process_noted(daemon, 0, "STATUS=running on cpu; connected; 0.0 images/s", 10));
    check_stop(daemon);
}

/* Jobs and signals are handled as usual; a later reader gets the current state. */
TEST(test_notifications_that_nobody_reads)
{
    struct process_options how = {.watchdog_s = 0.03};
    struct process *daemon = check_ready(world_start_with(w, 0, &how, NULL));
    assert_true(process_noted(daemon, 0, "STATUS=", 10));
    assert_true(process_fill_notes(daemon));
    push_jobs(0, 200);
    /* await does not read notifications, unlike the functions of process.h. */
    assert_true(await(20, redis_integer(w->client, "LLEN gpuimgd:results") == 200));
    process_signal(daemon, SIGHUP);
    assert_true(await(20, process_log_count(daemon, 0, "configuration reloaded") > 0));
    process_signal(daemon, SIGUSR2);
    assert_true(await(20, process_log_count(daemon, 0, "fetching is paused") > 0));
    size_t mark = daemon->notes_length;
    assert_true(process_noted(daemon, mark, "READY=1", 10));
    assert_true(process_noted(daemon, mark, "STATUS=paused", 10));
    assert_true(process_noted(daemon, mark, "WATCHDOG=1", 10));
    assert_null(strstr(daemon->notes + mark, "RELOADING=1"));
    assert_true(process_fill_notes(daemon));
    process_signal(daemon, SIGTERM);
    assert_true(await(20, !process_running(daemon)));
    assert_true(WIFEXITED(daemon->status) && WEXITSTATUS(daemon->status) == 0);
    check_clean(w);
}

TEST(test_no_device_is_said_once)
{
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1); /* hides any devices */
    struct process *daemon = start_ready(0, "--engine=auto");
    push_jobs(1, 2);
    cJSON *result = check_next(w);
    assert_string_equal(json_text(result, "engine"), "cpu");
    check_done(result);
    assert_int_equal(process_log_count(daemon, 0, "running on the CPU engine"), 1);
    check_stop(daemon);
    /* If CUDA is requested and missing, the daemon fails. */
    daemon = world_start(w, 0, "--engine=cuda", NULL);
    int status = process_wait(daemon, 20);
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_int_equal(status, 70);
}

/* ---- two daemons ----------------------------------------------------------------------------- */

TEST(test_two_daemons_share)
{
    bool seen[120] = {false};
    int by_daemon[2] = {0, 0};
    const char *pids[2];
    for (size_t i = 0; i < 2; i++) {
        start_ready(i, "--inflight=2", "--batch=2");
        pids[i] = text_of(":%ld", (long)w->daemons[i].pid);
    }
    push_jobs(0, 120);
    for (int i = 0; i < 120; i++) {
        cJSON *result = check_next(w);
        int id = atoi(json_text(result, "id"));
        assert_false(seen[id]);
        seen[id] = true;
        for (size_t k = 0; k < 2; k++)
            by_daemon[k] += strstr(json_text(result, "daemon"), pids[k]) != NULL;
        check_done(result);
    }
    assert_int_equal(by_daemon[0] + by_daemon[1], 120);
    assert_true(by_daemon[0] > 5 && by_daemon[1] > 5);
    /* One daemon stops; the other runs all jobs. */
    check_stop(&w->daemons[0]);
    push_jobs(0, 20);
    take_jobs(20);
    check_stop(&w->daemons[1]);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    check_clean(w);
}

WORLD_MAIN(OWN_WORLDS, .photo = {"p.jpg", 100, 80})
