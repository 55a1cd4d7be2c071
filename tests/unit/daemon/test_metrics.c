/*
 * Tests of counters, the text format, health verdicts, and the addresses that HTTP may listen on.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <math.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/clock.h"
#include "daemon/http/listener.h"
#include "daemon/http/http_server.h"
#include "daemon/telemetry/prometheus.h"
#include "daemon/telemetry/status_json.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/prometheus.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/world.h"

static struct prometheus shown; /* from the latest show() */
#define SHOWN(...) prometheus_value(&shown, __VA_ARGS__, NULL)

static void show(const struct snapshot *snapshot)
{
    const char *text = text_keep(prometheus_write(snapshot, 0));
    assert_non_null(text);
    prometheus_free(&shown);
    if (!prometheus_read(&shown, text))
        fail_msg("invalid metrics: %s", shown.error);
}

/* Static memory; the next call reuses it. */
static struct snapshot *snapshot_empty(void)
{
    static struct snapshot snapshot;
    memset(&snapshot, 0, sizeof snapshot);
    return &snapshot;
}

static struct metrics_job job_of(double total_ms)
{
    double part = total_ms / 4;
    return (struct metrics_job){.outcome = METRICS_DONE, .number = 7, .attempt = 1, .images = 1,
                                .pixels = 100, .bytes_in = 10, .bytes_out = 20, .queue_ms = -1,
                                .decoder = {.images = {0, 1}, .pixels = {0, 100}},
                                .encoder = {.images = {1, 0}, .pixels = {50, 0}},
                                .ms = {part, 0, part, -1, -1, -1, part}, .total_ms = total_ms};
}

/* ---- the Prometheus reader ------------------------------------------------------------------- */

TEST(the_reader_refuses)
{
    static const char *const bad[] = {
        "",
        "# HELP a b\n# TYPE a gauge\na 1",
        "a 1\n",
        "# TYPE a gauge\na 1\n",
        "# HELP a b\na 1\n",
        "# HELP a b\n# TYPE a gauge\nb 1\n",
        "# HELP a b\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a b\n# TYPE a gauge\na  1\n",
        "# HELP a b\n# TYPE a gauge\na one\n",
        "# HELP a b\n# TYPE a gauge\na 1 2 3\n",
        "# HELP a b\n# TYPE a counter\na 1\n",
        "# HELP a_total b\n# TYPE a_total gauge\na_total 1\n",
        "# HELP a_total b\n# TYPE a_total counter\na_total -1\n",
        "# HELP a b\n# TYPE a gauge\na{b=\"\\x\"} 1\n",
        "# HELP a b\n# TYPE a gauge\na{b=\"c} 1\n",
        "# HELP a b\n# TYPE a gauge\na{0b=\"c\"} 1\n",
        "# HELP a b\n# TYPE a gauge\n\na 1\n",
        "# HELP a b\n# TYPE a gauge\na 1\n# HELP a b\n# TYPE a gauge\n",
        "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n",
        "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\n"
        "a_count 1\n",
        "# HELP a b\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 2\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct prometheus read;
        if (prometheus_read(&read, bad[i]))
            fail_msg("accepted: %s", bad[i]);
        prometheus_free(&read);
    }
}

/* ---- the table of metrics -------------------------------------------------------------------- */

static bool holds(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

static bool ends(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* 'b': bytes, 's': seconds, 0: none, by the suffix of the snapshot's members. */
static char unit_of(struct prometheus_row row)
{
    if (row.type == PROMETHEUS_HISTOGRAM || ends(row.source, "_s"))
        return 's';
    bool memory = holds(row.source, ".memory.") || holds(row.source, "pools[");
    return memory || holds(row.source, "bytes") ? 'b' : 0;
}

TEST(rows_follow_the_conventions)
{
    assert_true(prometheus_rows() > 40);
    for (size_t i = 0; i < prometheus_rows(); i++) {
        struct prometheus_row row = prometheus_row(i);
        bool total = ends(row.name, "_total");
        bool ours = strncmp(row.name, "gpuimgd_", 8) == 0;
        if (!ours && strncmp(row.name, "process_", 8) != 0)
            fail_msg("%s has no prefix", row.name);
        if (total != (row.type == PROMETHEUS_COUNTER))
            fail_msg("%s: counters, and only they, end in _total", row.name);
        if (holds(row.name, "_bytes") != (unit_of(row) == 'b') ||
            holds(row.name, "_seconds") != (unit_of(row) == 's'))
            fail_msg("%s does not name its unit", row.name);
        if (holds(row.name, "_ms") || holds(row.name, "_mb"))
            fail_msg("%s is not in a base unit", row.name);
        if (row.help[0] == '\0' || row.help[strlen(row.help) - 1] != '.')
            fail_msg("the help of %s is no sentence", row.name);
    }
}

TEST(a_daemon_that_starts_shows_every_metric)
{
    struct snapshot *snapshot = snapshot_empty();
    snapshot_read_process(snapshot);
    show(snapshot);
    assert_int_equal(shown.family_count, prometheus_rows());
    for (size_t i = 0; i < shown.family_count; i++)
        assert_string_equal(shown.families[i].help, prometheus_row(i).help);
    assert_true(SHOWN("gpuimgd_state", "state", "starting") == 1);
    assert_true(SHOWN("gpuimgd_ready") == 0);
    assert_true(SHOWN("process_open_fds") >= 3);
    assert_true(SHOWN("process_resident_memory_bytes") > 1e6);
}

TEST(labels_are_escaped)
{
    static const char hostile[] = "a\\b\"c\nd} 1\n# TYPE x gauge";
    struct snapshot *snapshot = snapshot_empty();
    strcpy(snapshot->engine, hostile);
    strcpy(snapshot->redis_version, "7.0\\");
    strcpy(snapshot->namespace, "\"{n}\\");
    snapshot->device_count = 1;
    strcpy(snapshot->devices[0].name, hostile);
    snapshot->devices[0].activity = (struct engine_activity){.turns = 3, .tasks = 17};
    show(snapshot);
    assert_true(SHOWN("gpuimgd_info", "version", GPUIMGD_VERSION, "engine", hostile, "redis",
                      "7.0\\") == 1);
    assert_true(prometheus_all_have(&shown, "namespace", "\"{n}\\"));
    assert_true(SHOWN("gpuimgd_device_busy_seconds_total", "device", hostile) == 0);
    assert_true(SHOWN("gpuimgd_device_turns_total", "device", hostile) == 3);
    assert_true(SHOWN("gpuimgd_device_tasks_total", "device", hostile) == 17);
}

/* METRICS.md names exactly the samples' labels. If it lists values, it lists all of them. */
TEST(labels_are_documented)
{
    struct snapshot *snapshot = snapshot_empty();
    snapshot->device_count = snapshot->streams = 1;
    struct metrics_job job = job_of(1);
    job.tag = "a";
    tags_count(&snapshot->tags, &job);
    show(snapshot);
    for (size_t i = 0; i < shown.sample_count; i++) {
        const struct prometheus_sample *sample = &shown.samples[i];
        const char *document = prometheus_row(sample->family).labels;
        for (size_t l = 0; l < sample->label_count; l++) {
            const char *name = sample->labels[l].name, *at;
            char word[160];
            snprintf(word, sizeof word, "`%s`", name);
            at = strstr(document, word);
            if (strcmp(name, "namespace") == 0 || strcmp(name, "le") == 0)
                continue;
            if (!at)
                fail_msg("%s: the label %s is not in \"%s\"", sample->name, name, document);
            snprintf(word, sizeof word, "`%s`", sample->labels[l].value);
            if (at[strlen(name) + 2] == ':' && !strstr(at, word))
                fail_msg("%s: %s is not in \"%s\"", sample->name, word, document);
        }
    }
}

/* ---- counting -------------------------------------------------------------------------------- */

TEST(ends_are_counted_by_outcome_and_code)
{
    struct snapshot *snapshot = snapshot_empty();
    struct error error = {0};
    struct metrics_job job = job_of(4);
    metrics_count(&snapshot->totals, &job);
    (void)error_set(&error, STATUS_WRITE_FAILED, "the disk is full");
    job.error = &error;
    job.outcome = METRICS_RETRIED;
    metrics_count(&snapshot->totals, &job);
    job.outcome = METRICS_DEAD;
    metrics_count(&snapshot->totals, &job);
    error = (struct error){0};
    (void)error_set(&error, STATUS_BAD_JSON, "no JSON");
    job.outcome = METRICS_FAILED;
    metrics_count(&snapshot->totals, &job);
    error = (struct error){0};
    (void)error_set(&error, STATUS_CANCELLED, "cancelled");
    job.outcome = METRICS_CANCELLED;
    metrics_count(&snapshot->totals, &job);
    show(snapshot);
    assert_true(SHOWN("gpuimgd_jobs_total", "outcome", "done") == 1);
    assert_true(SHOWN("gpuimgd_jobs_total", "outcome", "dead") == 1);
    assert_true(SHOWN("gpuimgd_jobs_total", "outcome", "failed") == 1);
    assert_true(SHOWN("gpuimgd_jobs_total", "outcome", "cancelled") == 1);
    assert_true(SHOWN("gpuimgd_decoded_images_total", "place", "device") == 4);
    assert_true(SHOWN("gpuimgd_decoded_pixels_total", "place", "device") == 400);
    assert_true(SHOWN("gpuimgd_decoded_images_total", "place", "host") == 0);
    assert_true(SHOWN("gpuimgd_encoded_images_total", "place", "host") == 4);
    assert_true(SHOWN("gpuimgd_encoded_pixels_total", "place", "host") == 200);
    assert_true(SHOWN("gpuimgd_declined_jobs_total") == 0);
    assert_true(SHOWN("gpuimgd_retries_total") == 1);
    assert_true(SHOWN("gpuimgd_errors_total", "code", "write_failed") == 2);
    assert_true(SHOWN("gpuimgd_errors_total", "code", "bad_json") == 1);
    assert_true(SHOWN("gpuimgd_errors_total", "code", "timeout") == 0);
    assert_true(isnan(SHOWN("gpuimgd_errors_total", "code", "ok")));
    assert_true(SHOWN("gpuimgd_job_duration_seconds_count") == 4);
    assert_true(SHOWN("gpuimgd_stage_duration_seconds_count", "stage", "read") == 4);
    assert_true(SHOWN("gpuimgd_stage_duration_seconds_count", "stage", "kernel") == 0);
    assert_true(SHOWN("gpuimgd_queue_wait_seconds_count") == 0);
}

TEST(tags_are_counted_and_bounded)
{
    struct snapshot *snapshot = snapshot_empty();
    struct metrics_job job = job_of(4000);
    tags_count(&snapshot->tags, &job); /* without a tag */
    assert_int_equal(snapshot->tags.count, 0);
    job.tag = "web";
    job.ms[METRICS_ADMIT] = 500;
    tags_count(&snapshot->tags, &job);
    job.outcome = METRICS_RETRIED;
    tags_count(&snapshot->tags, &job);
    job.outcome = METRICS_DEAD;
    job.pixels = 0;
    tags_count(&snapshot->tags, &job);
    show(snapshot);
    assert_true(SHOWN("gpuimgd_tag_jobs_total", "tag", "web", "outcome", "done") == 1);
    assert_true(SHOWN("gpuimgd_tag_jobs_total", "tag", "web", "outcome", "dead") == 1);
    assert_true(SHOWN("gpuimgd_tag_jobs_total", "tag", "web", "outcome", "failed") == 0);
    assert_true(SHOWN("gpuimgd_tag_pixels_total", "tag", "web") == 100);
    assert_true(SHOWN("gpuimgd_tag_work_seconds_total", "tag", "web") == 9);
    assert_true(SHOWN("gpuimgd_tag_job_seconds_total", "tag", "web") == 12);
    for (unsigned i = 0; i < 3 * TAGS_MAX; i++) {
        char name[JOB_TAG_BYTES_MAX + 1];
        memset(name, 'x', sizeof name);
        snprintf(name + JOB_TAG_BYTES_MAX - 3, 4, "%03u", i % 1000);
        job.tag = name;
        tags_count(&snapshot->tags, &job);
    }
    job.tag = TAGS_OTHER;
    tags_count(&snapshot->tags, &job);
    assert_int_equal(snapshot->tags.count, TAGS_MAX + 1);
    show(snapshot);
    assert_true(SHOWN("gpuimgd_tag_jobs_total", "tag", "other", "outcome", "dead") ==
                2 * TAGS_MAX + 2);
}

/* A client may call itself "other". */
TEST(a_tag_named_other)
{
    struct snapshot *snapshot = snapshot_empty();
    struct metrics_job job = job_of(4);
    for (int i = 0; i <= TAGS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        job.tag = i == 3 ? TAGS_OTHER : name;
        tags_count(&snapshot->tags, &job);
    }
    assert_int_equal(snapshot->tags.count, TAGS_MAX);
    show(snapshot);
    assert_true(SHOWN("gpuimgd_tag_pixels_total", "tag", "other") == 200);
}

TEST(durations_fall_into_their_buckets)
{
    struct snapshot *snapshot = snapshot_empty();
    double sum_s = 0;
    for (size_t i = 1; i < METRICS_BUCKETS; i++) {
        double ratio = metrics_bucket_s[i] / metrics_bucket_s[i - 1];
        assert_true(ratio > 1.9 && ratio < 2.6); /* the header promises this */
    }
    for (size_t i = 0; i < METRICS_BUCKETS; i++) { /* a bucket includes its upper end */
        struct metrics_job job = job_of(metrics_bucket_s[i] * 1e3);
        metrics_count(&snapshot->totals, &job);
        sum_s += metrics_bucket_s[i];
    }
    struct metrics_job longest = job_of(3600e3);
    metrics_count(&snapshot->totals, &longest);
    for (size_t i = 0; i <= METRICS_BUCKETS; i++)
        assert_int_equal(snapshot->totals.job.counts[i], 1);
    show(snapshot);
    assert_true(SHOWN("gpuimgd_job_duration_seconds_bucket", "le", "0.001") == 5);
    assert_true(SHOWN("gpuimgd_job_duration_seconds_bucket", "le", "+Inf") == METRICS_BUCKETS + 1);
    double got = SHOWN("gpuimgd_job_duration_seconds_sum");
    assert_true(fabs(got - sum_s - 3600) < 1e-6);
}

TEST(the_latest_errors_are_kept)
{
    struct snapshot *snapshot = snapshot_empty();
    for (uint64_t i = 1; i <= METRICS_RECENT_MAX + 3; i++) {
        struct error error = {0};
        (void)error_set(&error, STATUS_INPUT_MISSING, "<script>\"%u\"</script>", (unsigned)i);
        struct metrics_job job = {.number = i, .attempt = 1, .error = &error, .total_ms = 1,
                                  .outcome = METRICS_FAILED, .input = "a/<b>.jpg"};
        metrics_count(&snapshot->totals, &job);
    }
    char *json = status_json_write(snapshot, 0);
    cJSON *root = cJSON_Parse(json);
    assert_non_null(root);
    const cJSON *errors = cJSON_GetObjectItem(root, "errors");
    assert_int_equal(cJSON_GetArraySize(errors), METRICS_RECENT_MAX);
    const cJSON *first = cJSON_GetArrayItem(errors, 0);
    assert_int_equal(cJSON_GetObjectItem(first, "job")->valueint, METRICS_RECENT_MAX + 3);
    assert_string_equal(cJSON_GetObjectItem(first, "input")->valuestring, "a/<b>.jpg");
    const cJSON *error = cJSON_GetObjectItem(first, "error"); /* the same format as in a result */
    assert_string_equal(cJSON_GetObjectItem(error, "code")->valuestring, "input_missing");
    assert_string_equal(cJSON_GetObjectItem(error, "message")->valuestring,
                        "<script>\"19\"</script>");
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(error, "retryable")));
    cJSON_Delete(root);
    free(json);
}

TEST(the_bound_of_the_oldest_waiting_job_is_shown)
{
    struct snapshot *snapshot = snapshot_empty();
    snapshot->queue_oldest_s = 12.5;
    char *json = status_json_write(snapshot, 0);
    cJSON *root = cJSON_Parse(json);
    const cJSON *redis = cJSON_GetObjectItem(root, "redis");
    assert_float_equal(cJSON_GetObjectItem(redis, "queue_oldest_s")->valuedouble, 12.5, 1e-6);
    cJSON_Delete(root);
    free(json);
}

/* The keys that PROTOCOL.md documents and gpuimgctl reads. */
TEST(the_heartbeat_has_its_keys)
{
    struct snapshot *s = snapshot_empty();
    struct metrics_job job = job_of(8); /* 2 ms each in read, decode and encode */
    s->began_ns = 5 * NS_PER_S;
    s->taken_ns = 7 * NS_PER_S;
    s->workers_max = 3;
    s->in_stage[STAGE_GPU] = 5;
    s->in_stage[STAGE_UPLOAD] = 3;
    s->in_stage[STAGE_ACK] = 1;
    strcpy(s->engine, "cpu");
    s->lease_s = 30;
    s->jobs_s = 1234.5678;
    s->pixels_s = 5e9;
    s->queue_length = 17;
    s->queue_oldest_s = 12.5;
    s->blocked = (struct blocked){.by = BLOCKED_BY_PINNED,
                                  .for_s = 6,
                                  .wanted = 300,
                                  .free = 200,
                                  .limit = 1000,
                                  .why = "a <job> waits"};
    metrics_count(&s->totals, &job);
    job.outcome = METRICS_CANCELLED;
    job.declined = true;
    job.ms[METRICS_H2D] = 1, job.ms[METRICS_KERNEL] = 2, job.ms[METRICS_D2H] = 0.5;
    metrics_count(&s->totals, &job);
    char *json = status_json_heartbeat(s, "blocked");
    assert_string_equal(
        json,
        "{\"version\":\"" GPUIMGD_VERSION "\",\"up_s\":2.000,\"lease_s\":30.000,"
        "\"state\":\"blocked\","
        "\"blocked\":{\"by\":\"pinned\",\"for_s\":6.0,\"wanted\":300,\"free\":200,"
        "\"limit\":1000,\"why\":\"a <job> waits\","
        "\"advice\":\"Raise pinned_bytes if this lasts.\"},"
        "\"engine\":\"cpu\",\"workers\":3,"
        "\"streams\":0,\"streams_busy\":0,\"in_flight\":0,\"oldest_s\":0.0,"
        "\"jobs_s\":1234.568,\"pixels_s\":5000000000,\"queue\":17,"
        "\"queue_oldest_s\":12.5,\"jobs\":2,"
        "\"done\":1,\"failed\":1,\"dead\":0,\"retried\":0,\"images\":2,\"pixels\":200,"
        "\"bytes_in\":20,\"bytes_out\":40,"
        "\"decoded\":{\"host\":{\"images\":0,\"pixels\":0},"
        "\"device\":{\"images\":2,\"pixels\":200}},"
        "\"encoded\":{\"host\":{\"images\":2,\"pixels\":100},"
        "\"device\":{\"images\":0,\"pixels\":0}},\"declined\":1,"
        "\"stages\":{\"ask\":{\"now\":0},"
        "\"read\":{\"now\":0,\"jobs\":2,\"ms\":4.000},\"admit\":{\"now\":0},"
        "\"decode\":{\"now\":0,\"jobs\":2,\"ms\":4.000},"
        "\"gpu\":{\"now\":5,\"jobs\":1,\"ms\":3.500},"
        "\"encode\":{\"now\":0,\"jobs\":2,\"ms\":4.000},\"upload\":{\"now\":3},\"set\":{\"now\":0},"
        "\"ack\":{\"now\":1}},"
        "\"devices\":[]}");
    free(json);
    s->streams = 4;
    s->device_count = 1;
    s->devices[0] = (struct snapshot_device){.name = "cuda:0",
                                             .activity = {.any_s = 1.25, .d2h_s = 0.5}};
    json = status_json_heartbeat(s, "running");
    assert_non_null(strstr(json, "\"streams\":4,\"streams_busy\":4"));
    assert_non_null(strstr(json, "\"devices\":[{\"name\":\"cuda:0\",\"busy_s\":1.250000,"
                                 "\"up_s\":0.000000,\"kernel_s\":0.000000,"
                                 "\"down_s\":0.500000}]}"));
    free(json);
}

/* ---- health verdicts ------------------------------------------------------------------------- */

static void check_verdict(const struct snapshot *snapshot, uint64_t now_ns, bool alive, bool ready,
                          const char *word)
{
    char why[512];
    assert_int_equal(snapshot_alive(snapshot, now_ns, why, sizeof why), alive);
    assert_int_equal(snapshot_ready(snapshot, now_ns, why, sizeof why), ready);
    if (!strstr(why, word))
        fail_msg("\"%s\" does not say \"%s\"", why, word);
}

static void expect_blocked(struct snapshot *s, bool by_signal, const char *by, double for_s,
                           const char *why)
{
    blocked_find(s, by_signal);
    assert_string_equal(blocked_names[s->blocked.by], by);
    assert_float_equal(s->blocked.for_s, for_s, 1e-9);
    if (!strstr(s->blocked.why, why))
        fail_msg("%s instead of %s", s->blocked.why, why);
    assert_true((*by != '\0') == (*blocked_advices[s->blocked.by] != '\0'));
    show(s);
    assert_float_equal(SHOWN("gpuimgd_blocked_seconds"), for_s, 1e-9);
    for (int i = 1; i < BLOCKED_COUNT; i++)
        assert_true(SHOWN("gpuimgd_blocked", "reason", blocked_names[i]) ==
                    (strcmp(by, blocked_names[i]) == 0));
}

TEST(what_blocks_the_daemon)
{
    struct snapshot *s = snapshot_empty();
    strcpy(s->namespace, "{n}");
    s->taken_ns = 1 * NS_PER_S;
    s->state = SNAPSHOT_STARTING;
    expect_blocked(s, false, "", 0, "");
    s->state = SNAPSHOT_RUNNING;
    s->in_flight_max = 4;
    strcpy(s->redis_reason, "127.0.0.1:6379: Connection refused");
    expect_blocked(s, false, "redis", 0, "Redis: 127.0.0.1:6379: Connection refused");
    s->taken_ns = 4 * NS_PER_S;
    expect_blocked(s, false, "redis", 3, "Redis: ");
    s->taken_ns = 9 * NS_PER_S; /* the loop did not run, so the reason counts as new */
    expect_blocked(s, false, "redis", 0, "Redis: ");
    s->taken_ns = 4 * NS_PER_S;
    s->redis_ready = true;
    strcpy(s->disk_reason, "output_root \"/out\" cannot be written: No space left on device");
    expect_blocked(s, false, "disk", 0, "No space left");
    s->disk_works = true;
    expect_blocked(s, false, "", 0, "");
    strcpy(s->keys_reason, "the role instance gets no keys: REASON");
    expect_blocked(s, false, "keys", 0, "jobs wait for keys: the role instance gets no keys: R");
    *s->keys_reason = '\0';
    s->in_flight = 4;
    expect_blocked(s, false, "", 0, ""); /* nothing waits */
    s->queue_length = 9;
    s->in_stage[STAGE_ENCODE] = 3;
    expect_blocked(s, false, "inflight", 0, "4 of 4 jobs are in flight, most of them in encode");
    s->lack = (struct blocked_memory){BLOCKED_BY_DEVICE, 3000000, 2000000, 9000000, 1 * NS_PER_S};
    expect_blocked(s, false, "device", 3,
                   "a job waits for 3.0 MB of device memory; 2.0 of 9.0 MB are free");
    assert_null(strstr(s->blocked.why, "piece"));
    s->lack.free = 3000000;
    expect_blocked(s, false, "device", 3, "3.0 of 9.0 MB are free, but not in one piece");
    s->lack = (struct blocked_memory){BLOCKED_BY_CODECS, 0, 2000000, 9000000, 4 * NS_PER_S};
    expect_blocked(s, false, "codecs", 0,
                   "a job waits for memory for codecs and results; 2.0 of 9.0 MB are free");
    s->state = SNAPSHOT_PAUSED;
    expect_blocked(s, true, "signal", 0, "SIGUSR2");
    s->taken_ns = 9 * NS_PER_S;
    expect_blocked(s, false, "pause", 0, "the key {n}:paused pauses all daemons");
    s->state = SNAPSHOT_DRAINING;
    expect_blocked(s, false, "drain", 0, "no jobs are fetched, 4 are in flight");
}

/* One job after the other waits, and at some moments none: the daemon is short all the time. */
TEST(a_shortage_lasts_while_the_jobs_change)
{
    struct snapshot *s = snapshot_empty();
    s->state = SNAPSHOT_RUNNING;
    s->redis_ready = s->disk_works = true;
    s->in_flight = s->in_flight_max = 1;
    s->queue_length = 9;
    for (uint64_t i = 10; i <= 40; i++) {
        bool waits = i % 3 != 0;
        s->taken_ns = i * NS_PER_S;
        s->lack = (struct blocked_memory){waits ? BLOCKED_BY_PINNED : BLOCKED_BY_NOTHING, 300, 200,
                                          900, s->taken_ns - NS_PER_S / 2};
        expect_blocked(s, false, waits ? "pinned" : "inflight",
                       waits ? (double)i - 9.5 : (double)i - 12, "");
    }
    /* The shortage ended long ago. */
    s->taken_ns = 50 * NS_PER_S;
    s->lack = (struct blocked_memory){BLOCKED_BY_PINNED, 300, 200, 900, 49 * NS_PER_S};
    expect_blocked(s, false, "pinned", 1, "");
}

TEST(health_and_readiness)
{
    const uint64_t taken = 1000 * NS_PER_S, stalled = taken + (SNAPSHOT_STALL_S + 1) * NS_PER_S;
    struct snapshot *m = snapshot_empty();
    m->began_ns = m->taken_ns = taken;
    m->moving = true;
    check_verdict(m, taken, true, false, "self-test");
    check_verdict(m, stalled, true, false, "self-test"); /* a device is being opened */
    check_verdict(m, taken + START_S_MAX * NS_PER_S, true, false, "self-test");
    check_verdict(m, taken + (START_S_MAX + 1) * NS_PER_S, false, false, "not passed for 181 s");
    m->state = SNAPSHOT_RUNNING;
    strcpy(m->redis_reason, "connection refused");
    check_verdict(m, taken, true, false, "Redis: connection refused");
    m->redis_ready = true;
    strcpy(m->disk_reason, "output_root \"/out\" cannot be written: No space left on device");
    check_verdict(m, taken, true, false, "No space left");
    m->disk_works = true;
    check_verdict(m, taken, true, true, "running");
    check_verdict(m, stalled, false, false, "has not run for 11 s");
    m->state = SNAPSHOT_PAUSED;
    check_verdict(m, taken, true, false, "paused");
    m->state = SNAPSHOT_DRAINING;
    m->in_flight = 3;
    check_verdict(m, taken, true, false, "3 are in flight");
    m->moving = false;
    check_verdict(m, taken, false, false, "past its deadline");
    m->state = SNAPSHOT_FAILED;
    strcpy(m->why, "an illegal address");
    check_verdict(m, taken, false, false, "an illegal address");
}

/* ---- the last two minutes -------------------------------------------------------------------- */

TEST(history_is_bounded)
{
    struct history *history = calloc(1, sizeof *history);
    struct snapshot *m = snapshot_empty();
    m->device_count = 1;
    for (uint64_t second = 1; second <= 300; second++) {
        m->generation++;
        m->taken_ns = second * NS_PER_S;
        m->taken_s = 1e9 + (double)second;
        m->totals.jobs[METRICS_DONE] = 10 * second;
        m->totals.times[METRICS_ENCODE].counts[3] = second;
        m->totals.times[METRICS_ENCODE].sum_s = (double)second / 4;
        m->devices[0].activity.any_s = (double)second / 2;
        history_add(history, m);
    }
    m->generation++; /* a state change immediately replaces the last sample */
    m->taken_ns += NS_PER_S / 10;
    m->totals.jobs[METRICS_DONE]++;
    history_add(history, m);
    char *json = history_json_write(history);
    cJSON *root = cJSON_Parse(json), *samples = cJSON_GetObjectItem(root, "samples");
    assert_int_equal(cJSON_GetArraySize(samples), HISTORY_SAMPLES);
    const cJSON *first = cJSON_GetArrayItem(samples, 0);
    const cJSON *last = cJSON_GetArrayItem(samples, HISTORY_SAMPLES - 1);
    assert_true(json_number(first, "time") == 1e9 + 180);
    assert_true(json_number(first, "jobs.done") == 1800);
    assert_true(json_number(first, "times.encode.count") == 180);
    assert_true(json_number(first, "times.encode.sum_s") == 45);
    assert_true(json_number(cJSON_GetArrayItem(json_at(first, "devices"), 0), "busy_s") == 90);
    assert_int_equal(cJSON_GetArraySize(json_at(first, "times.job.counts")), METRICS_BUCKETS + 1);
    assert_true(json_number(last, "generation") == 301);
    assert_true(json_number(last, "jobs.done") == 3001);
    cJSON_Delete(root);
    free(json);
    free(history);
}

/* ---- where to listen ------------------------------------------------------------------------- */

TEST(addresses_are_taken_or_refused)
{
    static const char *const good[] = {"9464", "0", "65535", "127.0.0.1:9464", "localhost:9464",
                                       "0.0.0.0:0", "[::1]:9464", "[::]:9464", "unix:/run/x.sock"};
    static const char *const bad[] = {"no", "65536", "-1", "99999999999", ":9464", "host:",
                                      "host:http", "::1:9464", "[::1]", "[]:9464", "[::1]:",
                                      "unix:", "unix:x.sock", "http://127.0.0.1:9464", "94 64",
                                      "9464 "};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct error error = {0};
        if (!listener_check("metrics_listen", good[i], &error))
            fail_msg("refused: %s", error.text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct error error = {0};
        if (listener_check("metrics_listen", bad[i], &error))
            fail_msg("accepted: %s", bad[i]);
        assert_non_null(strstr(error.text, "option metrics_listen is"));
    }
}

/* Replaces libc's function: an empty hosts file and no name server. */
static bool names_are_unknown;

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (names_are_unknown && strspn(host, "0123456789.") != strlen(host))
        return EAI_NONAME;
    return real(host, port, hints, found);
}

TEST(localhost_is_not_looked_up)
{
    struct listener listener;
    struct error error = {0};
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    names_are_unknown = true;
    if (!listener_open(&listener, "metrics_listen", "localhost:0", &error))
        fail_msg("%s", error.text);
    assert_int_equal(strncmp(listener.name, "http://localhost:", 17), 0);
    assert_int_equal(getsockname(listener.fd, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(address.sin_family, AF_INET);
    assert_int_equal(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK);
    listener_close(&listener);
    assert_false(listener_open(&listener, "metrics_listen", "gpuimgd.test:0", &error));
    names_are_unknown = false;
    assert_non_null(strstr(error.text, "metrics_listen is \"gpuimgd.test:0\""));
}

TEST(hosts_are_taken_or_refused)
{
    static const char *const good[] = {"gpu7.example", "GPU7.Example:9464", "localhost:1",
                                       "10.0.0.1", "[::1]:9464", "[fe80::1]", NULL};
    static const char *const bad[] = {"gpu7.example.evil", "gpu7", "gpu7.example:x", "10.0.0",
                                      ":9464", "[::1", "[::1]9464", "[]", "[10.0.0.1]",
                                      "2001:db8::7", "0x7f.1"};
    struct listener listener = {.host = "gpu7.example"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!listener_takes_host(&listener, good[i]))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (listener_takes_host(&listener, bad[i]))
            fail_msg("accepted: %s", bad[i]);
    listener = (struct listener){.path = "/run/gpuimgd/http"};
    assert_true(listener_takes_host(&listener, "gpu7.example.evil"));
}

TEST(without_the_option_nothing_is_asked)
{
    struct error error = {0};
    assert_true(http_server_check("", &error));
#ifndef GPUIMGD_HTTP
    assert_false(http_server_check("9464", &error));
    assert_non_null(strstr(error.text, "built without libmicrohttpd"));
#else
    assert_true(http_server_check("9464", &error));
    assert_false(http_server_check("nowhere", &error));
#endif
}

TEST(an_abandoned_socket_is_replaced)
{
    char folder[] = "/tmp/gpuimgd-listener.XXXXXX", option[64], path[64];
    struct listener first, second;
    struct error error = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(option, sizeof option, "unix:%s/http", folder);
    snprintf(path, sizeof path, "%s/http", folder);
    assert_true(listener_open(&first, "metrics_listen", option, &error));
    assert_string_equal(first.name, option);
    assert_false(listener_open(&second, "metrics_listen", option, &error));
    assert_non_null(strstr(error.text, "cannot listen on it"));
    close(first.fd); /* a killed process leaves the socket */
    first.fd = -1;
    assert_true(listener_open(&second, "metrics_listen", option, &error));
    listener_close(&second);
    listener_close(&second);
    assert_int_equal(access(path, F_OK), -1);
    assert_true(text_file_write(path, "x", 1)); /* not a socket, so it must not be removed */
    error = (struct error){0};
    assert_false(listener_open(&second, "metrics_listen", option, &error));
    assert_int_equal(access(path, F_OK), 0);
    text_file_remove_folder(folder);
}

TEST_MAIN(.name = "metrics")
