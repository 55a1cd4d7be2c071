/* Tests of the option table: values, files, checks, reload, and the generated sample file. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/limits.h"
#include "conf/options.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/test.h"
#include "tests/fixtures/text_file.h"

static struct options fresh(void)
{
    struct options options;
    struct error error = {0};
    assert_true(options_init(&options, &error));
    return options;
}

TEST(defaults_are_the_documented_ones)
{
    struct options options = fresh();
    assert_string_equal(options.redis, "127.0.0.1:6379");
    assert_string_equal(options.namespace, "gpuimgd");
    assert_true(options.lease_s == 30 && options.renew_s == 5 && options.reap_s == 10);
    assert_int_equal(options.input_bytes_max, 64 << 20);
    assert_int_equal(options.pixels_max, 50000000);
    assert_int_equal(options.workers, 0);
    assert_true(options.sync_outputs);
    assert_true(options_check(&options, &(struct errors){0}));
    options_resolve(&options, 64 * GIB, 6);
    assert_int_equal(options.pinned_bytes, 8 * GIB);
    assert_int_equal(options.host_bytes, 2 * GIB);
    options_resolve_workers(&options, &(struct options_host){.memory_bytes = 64 * GIB, .cpus = 6});
    assert_int_equal(options.workers, 6);
    options_resolve_inflight(&options, 8);
    assert_int_equal(options.inflight, 2 * options.workers + 8);
    assert_true(options.host_bytes >= 2 * options.input_bytes_max);
    options_clear(&options);
    options_clear(&options);
}

TEST(memory_follows_the_cpus)
{
    static const struct {
        uint64_t memory_gib, cpus, pinned_mib, host_mib;
    } rows[] = {{64, 1, 8192, 2048},    {96, 16, 8192, 2048}, {96, 17, 8704, 2176},
                {256, 32, 16384, 4096}, {16, 64, 2048, 2048}, {512, 128, 65536, 16384}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct options options = fresh();
        options_resolve(&options, rows[i].memory_gib * GIB, rows[i].cpus);
        assert_int_equal(options.pinned_bytes, rows[i].pinned_mib * MIB);
        assert_int_equal(options.host_bytes, rows[i].host_mib * MIB);
        options_clear(&options);
    }
}

/* One worker per CPU; some pause for the loop and Redis if there are 8 CPUs or more. */
TEST(workers_leave_cpus_to_others)
{
    static const struct {
        const char *workers;
        uint64_t cpus, memory_bytes;
        uint32_t others, expected, pausing;
    } rows[] = {{"auto", 1, 64 * GIB, 2, 1, 0},        {"auto", 7, 64 * GIB, 2, 7, 0},
                {"auto", 8, 64 * GIB, 2, 8, 2},        {"auto", 16, 64 * GIB, 0, 16, 0},
                {"auto", 16, 64 * GIB, 1, 16, 1},      {"auto", 16, 64 * GIB, 2, 16, 2},
                {"auto", 1025, 999 * GIB, 2, 1024, 1}, {"auto", 4096, 999 * GIB, 2, 1024, 0},
                {"auto", 16, 4 * MIB, 2, 1, 0},        {"16", 16, 64 * GIB, 2, 16, 0}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct options options = fresh();
        struct error error = {0};
        struct options_host host = {
            .memory_bytes = rows[i].memory_bytes, .cpus = rows[i].cpus, .others = rows[i].others};
        assert_true(options_set(&options, "workers", rows[i].workers, &error));
        assert_int_equal(options_resolve_workers(&options, &host), rows[i].pausing);
        assert_int_equal(options.workers, rows[i].expected);
        options_clear(&options);
    }
}

/* Resolves all options as the daemon does, and returns the bound on its memory. */
static uint64_t resolve(struct options *options, const struct options_host *host)
{
    options_resolve(options, host->memory_bytes, host->cpus);
    options_resolve_workers(options, host);
    options_resolve_inflight(options, host->slots);
    return options_memory_max(options, host);
}

TEST(the_bound_is_the_formula_of_the_readme)
{
    static const char *const values[][2] = {
        {"pinned_bytes", "1G"}, {"host_bytes", "512M"}, {"workers", "3"}, {"inflight", "100"},
        {"url_prefixes", "https://a.example/"}, {"url_bytes", "32M"}, {"url_connections", "4"}};
    struct options options = fresh();
    struct error error = {0};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        assert_true(options_set(&options, values[i][0], values[i][1], &error));
    uint64_t cpu = 1024 + 512 + 164 + 3 * WORKER_BYTES / MIB + 2 * 64 + 32 + 64 + 4 / 4;
    assert_int_equal(resolve(&options, &(struct options_host){.memory_bytes = GIB, .cpus = 9}),
                     cpu * MIB + 100 * 120 * KIB);
    struct options_host gpus = {.memory_bytes = GIB, .devices = 2, .slots = 16, .ahead = 50};
    assert_int_equal(resolve(&options, &gpus),
                     (cpu + 1024 + 16 * 4 + 2 * 7 + 3 * 24) * MIB + 150 * 120 * KIB);
    assert_true(options_set(&options, "shards", "4", &error));
    assert_int_equal(resolve(&options, &(struct options_host){.memory_bytes = GIB, .cpus = 9}),
                     (cpu + 4 * 4) * MIB + 2 * 100 * 120 * KIB);
    options_clear(&options);
}

TEST(the_least_descriptors_are_those_of_the_manual)
{
    struct options options = fresh();
    struct error error = {0};
    assert_true(options_set(&options, "workers", "3", &error));
    assert_true(options_set(&options, "shards", "2", &error));
    assert_int_equal(options_descriptors_min(&options, 0), 160 + 24 * 3 + 8 * 2 + 12 * 3);
    assert_int_equal(options_descriptors_min(&options, 2), 160 + 24 * 3 + 8 * 2 + 12 * 6 + 128 * 2);
    assert_true(options_set(&options, "workers", "50", &error));
    assert_int_equal(options_descriptors_min(&options, 1), 160 + 24 * 50 + 8 * 2 + 12 * 64 + 128);
    options_clear(&options);
}

TEST(twice_as_many_sets_as_workers_run_beside_devices)
{
    static const uint32_t rows[][3] = {{1, 1, 2}, {32, 32, 64}, {40, 40, 64}, {200, 64, 64}};
    struct options options = fresh();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        options.workers = rows[i][0];
        assert_int_equal(options_sets(&options, false), rows[i][1]);
        assert_int_equal(options_sets(&options, true), rows[i][2]);
    }
    options_clear(&options);
}

/* With "auto", the bound stays below any memory that leaves room for one worker. */
TEST(auto_stays_below_the_memory)
{
    static const uint64_t cpus[] = {1, 2, 7, 8, 64, 192, 4096};
    for (uint64_t memory = 680 * MIB; memory <= 512 * GIB; memory += memory / 32) {
        for (size_t i = 0; i < sizeof cpus / sizeof cpus[0]; i++) {
            for (uint32_t devices = 0; devices <= (memory > 4 * GIB ? 8 : 0); devices += 4) {
                struct options options = fresh();
                options.shards = memory >= GIB && i % 2 ? SHARDS_MAX : 1;
                struct options_host host = {
                    .memory_bytes = memory, .cpus = cpus[i], .devices = devices,
                    .slots = devices * 8, .ahead = 128 + devices * 256};
                assert_true(resolve(&options, &host) <= memory);
                assert_true(options.workers >= 1 && options.workers <= cpus[i]);
                options_clear(&options);
            }
        }
    }
}

TEST(auto_takes_fewer_workers_than_cpus_if_memory_is_short)
{
    struct options options = fresh();
    struct options_host host = {.memory_bytes = GIB, .cpus = 64, .ahead = 128};
    assert_true(resolve(&options, &host) <= GIB);
    assert_int_equal(options.pinned_bytes, 128 * MIB);
    assert_int_equal(options.host_bytes, 128 * MIB);
    assert_int_equal(options.workers, 484 * MIB / WORKER_BYTES); /* without that of 128 jobs */
    options_clear(&options);
    options = fresh(); /* one GPU: the bound of the manual */
    host = (struct options_host){.memory_bytes = 2252 * MIB, .cpus = 64, .devices = 1, .slots = 8,
                                 .ahead = INFLIGHT_AHEAD_MAX + INFLIGHT_DEVICE_MAX};
    assert_true(resolve(&options, &host) <= host.memory_bytes);
    options_clear(&options);
    options = fresh(); /* too little for one worker: the daemon warns and runs */
    host = (struct options_host){.memory_bytes = 4 * MIB, .cpus = 64};
    assert_true(resolve(&options, &host) > host.memory_bytes);
    assert_int_equal(options.workers, 1);
    assert_int_equal(options.pinned_bytes, MIB);
    assert_int_equal(options.host_bytes, 2 * options.input_bytes_max);
    options_clear(&options);
}

/* Each row: a setting, and a part of the message that refuses it; NULL: it is accepted. */
TEST(values_are_checked)
{
    static const struct {
        const char *name, *value, *refusal;
    } rows[] = {
        {"streams", "1", NULL},
        {"streams", "64", NULL},
        {"streams", "auto", NULL},
        {"streams", "0", "auto, or a whole number from 1 to 64"},
        {"streams", "65", "a whole number from 1 to 64"},
        {"streams", "2.5", "a whole number"},
        {"streams", "four", "a whole number"},
        {"streams", "", "a whole number"},
        {"streams", "nan", "a whole number"},
        {"streams", "1e400", "a whole number"},
        {"workers", "auto", NULL},
        {"workers", "0", "auto, or a whole number from 1"},
        {"pinned_bytes", "256M", NULL},
        {"pinned_bytes", "1GiB", NULL},
        {"pinned_bytes", "1X", "auto, or bytes, such as 512M or 2G, from 1M to 1048576M"},
        {"trace_bytes_max", "1 G", "bytes, such as 512M or 2G, from 65536 to 65536M"},
        {"pinned_bytes", "-1M", "bytes"},
        {"lease_s", "0.5", NULL},
        {"lease_s", "0", "a number of seconds, without a unit, from 0.1 to 86400"},
        {"lease_s", "30s", "without a unit"},
        {"sync_outputs", "no", NULL},
        {"sync_outputs", "TRUE", NULL},
        {"sync_outputs", "maybe", "yes or no"},
        {"redis", "", "set"},
        {"streems", "4", "there is no option \"streems\"; did you mean streams?"},
        {"colour", "4", "there is no option \"colour\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct options options = fresh();
        struct error error = {0};
        bool ok = options_set(&options, rows[i].name, rows[i].value, &error);
        if (ok != !rows[i].refusal || (!ok && !strstr(error.text, rows[i].refusal)))
            fail_msg("%s = \"%s\": %s", rows[i].name, rows[i].value, ok ? "accepted" : error.text);
        options_clear(&options);
    }
}

TEST(suffixes_are_powers_of_1024)
{
    struct options options = fresh();
    struct error error = {0};
    assert_true(options_set(&options, "pinned_bytes", "3m", &error));
    assert_int_equal(options.pinned_bytes, 3u << 20);
    assert_true(options_set(&options, "pinned_bytes", "2G", &error));
    assert_int_equal(options.pinned_bytes, 2ull << 30);
    options_clear(&options);
}

TEST(relations_are_checked)
{
    static const struct {
        const char *name, *value, *refusal;
    } rows[] = {
        {"renew_s", "10", NULL},
        {"renew_s", "10.5", "at most a third of lease_s, which is 30"},
        {"engine", "gpu", "auto, cuda or cpu"},
        {"devices", "0,2", NULL},
        {"devices", "0,,2", "all, a list"},
        {"devices", "first", "all, a list"},
        {"devices", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", NULL},
        {"devices", "MIG-5f2a9a1c-0000-5000-8000-00000000000a,MIG-GPU-8932f937/1/0", NULL},
        {"devices", "GPU-", "or UUIDs (GPU-..., MIG-...)"},
        {"devices", "GPU-8932f937,", "or UUIDs"},
        {"devices", "GPU-8932f937,1", "or UUIDs"},
        {"log_level", "loud", "error, warning, info or debug"},
        {"results", "ids", "list, stream, id or none"},
        {"namespace", "a b", "without spaces"},
        {"host_bytes", "100M", "at most half of host_bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct options options = fresh();
        struct error error = {0};
        assert_true(options_set(&options, rows[i].name, rows[i].value, &error));
        struct errors errors = {0};
        bool ok = options_check(&options, &errors);
        if (ok != !rows[i].refusal || (!ok && !strstr(errors.first.text, rows[i].refusal)))
            fail_msg("%s = \"%s\": %s", rows[i].name, rows[i].value,
                     ok ? "accepted" : errors.first.text);
        options_clear(&options);
    }
}

static void write_file(const char *path, const char *text)
{
    assert_true(text_file_write(path, text, strlen(text)));
}

TEST(files_are_read_in_order)
{
    char folder[] = "/tmp/gpuimgd-options-XXXXXX", path[128];
    assert_non_null(mkdtemp(folder));
    struct options options = fresh();
    struct errors errors = {0};
    snprintf(path, sizeof path, "%s/conf.d", folder);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/conf.d/20-b.conf", folder);
    write_file(path, "streams = 7\n");
    snprintf(path, sizeof path, "%s/conf.d/10-a.conf", folder);
    write_file(path, "streams = 6\nworkers = 3\n");
    snprintf(path, sizeof path, "%s/conf.d/30-c.off", folder);
    write_file(path, "streams = 9\n");
    snprintf(path, sizeof path, "%s/gpuimgd.conf", folder);
    write_file(path, "# a comment\n[gpuimgd]\nstreams = 5\nnamespace = images ; not a colour\n");
    char *told = NULL, expected[512];
    size_t size;
    FILE *out = open_memstream(&told, &size);
    assert_true(options_load(&options, path, CONF_PIPE_S, out, &errors));
    fclose(out);
    snprintf(expected, sizeof expected,
             "%s/gpuimgd.conf\n%s/conf.d/10-a.conf\n%s/conf.d/20-b.conf\n", folder, folder, folder);
    assert_string_equal(told, expected);
    free(told);
    assert_int_equal(options.streams, 7);
    assert_int_equal(options.workers, 3);
    assert_string_equal(options.namespace, "images");
    options_clear(&options);
    text_file_remove_folder(folder);
}

/* Loads these bytes. Returns whether they are good, with the first error. */
static bool load_bytes(struct options *options, const char *bytes, size_t length,
                       struct errors *errors)
{
    char folder[] = "/tmp/gpuimgd-options-XXXXXX", path[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/gpuimgd.conf", folder);
    assert_true(text_file_write(path, bytes, length));
    bool good = options_load(options, path, CONF_PIPE_S, NULL, errors);
    text_file_remove_folder(folder);
    return good;
}

TEST(lines_with_a_fault_are_named)
{
#define BYTES(text) text, sizeof text - 1
    static const struct {
        const char *bytes;
        size_t length;
        const char *fault;
    } rows[] = {
        {BYTES("streams = 5\n\nstreems = 5\n"),
         "gpuimgd.conf line 3: there is no option \"streems\""},
        {BYTES("[other]\nstreams = 5\n"), "line 1: section [other] is unknown"},
        {BYTES("[gpuimgd\nstreams = 5\n"), "line 1: the section has no \"]\""},
        {BYTES("streams\n"), "line 1: the line must be \"name = value\""},
        {BYTES("= 5"), "line 1: the line must be \"name = value\""},
        {BYTES("output_root = /srv/out\n  stats_log = /x\n"), "line 2: the line is indented"},
        {BYTES("redis = \"127.0.0.1:6379\"\n"), "\"127.0.0.1:6379\"; remove the quotes"},
        {BYTES("log_level = debug # loud\n"),
         "line 1: option log_level is \"debug # loud\"; a comment after a value must begin with "
         "\" ;\""},
        {BYTES("workers = 3\nstre\0ams = 4\n"), "line 2: the line has a NUL byte"},
        {BYTES("# \0\n"), "line 1: the line has a NUL byte"},
        {BYTES("\xFF\xFEw\0o\0"), "line 1: the line has a NUL byte; is this a text file in UTF-8?"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct options options = fresh();
        struct errors errors = {0};
        bool good = load_bytes(&options, rows[i].bytes, rows[i].length, &errors);
        if (good || errors.count != 1 || !strstr(errors.first.text, rows[i].fault))
            fail_msg("%s: %u errors: %s", rows[i].bytes, errors.count, errors.first.text);
        options_clear(&options);
    }
}

TEST(forms_of_lines)
{
    static const char *const texts[] = {
        "workers = 3",
        "workers=3\n",
        "workers : 3\n",
        "\xEF\xBB\xBFworkers = 3\r\n",
        "\n\t\n; c\n  # c\nworkers\t=\t3 ; c = d\n",
        "workers = 2\nstreams = 4\nworkers = 3",
        "[gpuimgd] ; c\nworkers = 3\n  ; c\n\n",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct options options = fresh();
        struct errors errors = {0};
        if (!load_bytes(&options, texts[i], strlen(texts[i]), &errors) || options.workers != 3)
            fail_msg("%s: %s", texts[i], errors.first.text);
        options_clear(&options);
    }
}

/* A line of any length is one line: a value and a comment do not set other options. */
TEST(long_lines_stay_whole)
{
    static const size_t lengths[] = {10, 197, 198, 199, 200, 201, 1022, 4095, 16384, 100000};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        for (int form = 0; form < 3; form++) {
            static const char *const heads[] = {"# ", "; ", "output_root = /o ; "};
            struct options options = fresh();
            struct errors errors = {0};
            const char *text =
                text_of("%s%0*dworkers = 3\nstreams = 5\n", heads[form], (int)lengths[i], 0);
            assert_true(load_bytes(&options, text, strlen(text), &errors));
            assert_int_equal(options.workers, 0);
            assert_int_equal(options.streams, 5);
            options_clear(&options);
        }
    }
}

TEST(values_reach_their_bound)
{
    struct options options = fresh();
    struct errors errors = {0};
    const char *value = text_of("%0*d", 16384, 7);
    const char *text = text_of("redis = %s\nworkers = 3\n", value);
    assert_true(load_bytes(&options, text, strlen(text), &errors));
    assert_string_equal(options.redis, value);
    text = text_of("workers = 3\nredis = %s8\nengine = cpu\n", value);
    assert_false(load_bytes(&options, text, strlen(text), &errors));
    assert_non_null(strstr(errors.first.text, "gpuimgd.conf line 2: option redis has 16385 bytes; "
                                              "it must have at most 16384"));
    assert_string_equal(options.engine, "cpu");
    /* A message has the bound in spite of a long value. */
    errors = (struct errors){0};
    text = text_of("workers = x%s", value);
    assert_false(load_bytes(&options, text, strlen(text), &errors));
    assert_non_null(strstr(errors.first.text, "a whole number from 1 to 1024"));
    options_clear(&options);
}

TEST(a_file_has_a_bound)
{
    struct options options = fresh();
    struct errors errors = {0};
    char *text = malloc(CONF_BYTES_MAX + 1);
    memset(text, '\n', CONF_BYTES_MAX + 1);
    assert_true(load_bytes(&options, text, CONF_BYTES_MAX, &errors));
    assert_false(load_bytes(&options, text, CONF_BYTES_MAX + 1, &errors));
    assert_non_null(strstr(errors.first.text, "it has more than 1048576 bytes"));
    free(text);
    options_clear(&options);
}

static unsigned said;

static void count_said(const char *text)
{
    assert_non_null(text);
    said++;
}

TEST(all_errors_are_said)
{
    struct options options = fresh();
    struct errors errors = {.say = count_said};
    static const char text[] = "a = 1\nworkers = x\nengine = gpu\nstreams = 3\nrenew_s = 20\n";
    said = 0;
    assert_false(load_bytes(&options, text, strlen(text), &errors));
    assert_false(options_check(&options, &errors));
    assert_int_equal(errors.count, 4);
    assert_int_equal(said, 4);
    assert_int_equal(options.streams, 3);
    /* A file that is none: the messages are bounded. */
    errors.count = said = 0;
    char lines[2000];
    memset(lines, '\n', sizeof lines);
    for (size_t i = 0; i < sizeof lines; i += 2)
        lines[i] = 'x';
    assert_false(load_bytes(&options, lines, sizeof lines, &errors));
    assert_int_equal(errors.count, 1000);
    assert_int_equal(said, ERRORS_SAID_MAX + 1);
    options_clear(&options);
}

static void check_unreadable(const char *path, const char *fault, double seconds)
{
    struct options options = fresh();
    struct errors errors = {0};
    double begin_s = clock_now_s();
    assert_false(options_load(&options, path, CONF_PIPE_S, NULL, &errors));
    assert_non_null(strstr(errors.first.text, path));
    if (!strstr(errors.first.text, fault))
        fail_msg("%s: %s", path, errors.first.text);
    assert_true(clock_now_s() - begin_s < patience(seconds));
    options_clear(&options);
}

/* conf.d: the fault is the same there. */
TEST(what_is_no_file_is_refused_at_once)
{
    char folder[] = "/tmp/gpuimgd-options-XXXXXX", extra[128];
    assert_non_null(mkdtemp(folder));
    const char *path = text_of("%s/gpuimgd.conf", folder);
    check_unreadable(path, "No such file", 0.5);
    check_unreadable(folder, "it is a folder", 0.5);
    check_unreadable("/dev/zero", "it has more than", 0.5);
    assert_int_equal(mkfifo(path, 0600), 0);
    check_unreadable(path, "it is a pipe to which no process writes", 0.5);
    int silent = open(path, O_RDWR); /* a writer that sends nothing */
    assert_true(silent >= 0);
    check_unreadable(path, "it is a pipe whose writer sends nothing", 3);
    close(silent);
    unlink(path);
    write_file(path, "workers = 3\n");
    assert_int_equal(mkdir(text_of("%s/conf.d", folder), 0700), 0);
    snprintf(extra, sizeof extra, "%s/conf.d/x.conf", folder);
    assert_int_equal(mkfifo(extra, 0600), 0);
    struct options options = fresh();
    struct errors errors = {0};
    assert_false(options_load(&options, path, CONF_PIPE_S, NULL, &errors));
    assert_non_null(strstr(errors.first.text, "conf.d/x.conf: it is a pipe"));
    unlink(extra);
    assert_int_equal(symlink("nowhere", extra), 0);
    errors = (struct errors){0};
    assert_false(options_load(&options, path, CONF_PIPE_S, NULL, &errors));
    assert_non_null(strstr(errors.first.text, "conf.d/x.conf: No such file"));
    options_clear(&options);
    text_file_remove_folder(folder);
}

/* Pipes with data, such as <(...) of a shell, are read to their end. */
TEST(a_pipe_is_read)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t writer = fork();
    if (writer == 0) {
        static const char text[] = "workers = 3\nstreams = 5\n";
        for (const char *at = text; *at; at++)
            if (write(ends[1], at, 1) == 1 && at[0] == '\n')
                usleep(20000);
        _exit(0);
    }
    close(ends[1]);
    struct options options = fresh();
    struct errors errors = {0};
    assert_true(options_load(&options, text_of("/dev/fd/%d", ends[0]), CONF_PIPE_S, NULL, &errors));
    assert_int_equal(options.workers, 3);
    assert_int_equal(options.streams, 5);
    close(ends[0]);
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    options_clear(&options);
}

TEST(only_a_default_file_may_be_missing)
{
    char folder[] = "/tmp/gpuimgd-options-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *path = text_of("%s/gpuimgd.conf", folder);
    struct options options = fresh();
    struct errors errors = {0};
    assert_true(options_load_default(&options, path, CONF_PIPE_S, NULL, &errors));
    assert_false(options_load(&options, path, CONF_PIPE_S, NULL, &errors));
    assert_int_equal(symlink("nowhere", path), 0);
    assert_false(options_load_default(&options, path, CONF_PIPE_S, NULL, &errors));
    options_clear(&options);
    text_file_remove_folder(folder);
}

TEST(reload_takes_what_it_may)
{
    struct options live = fresh(), next = fresh();
    struct error error = {0};
    options_resolve(&live, 64 * GIB, 6);
    options_resolve_workers(&live, &(struct options_host){.memory_bytes = 64 * GIB, .cpus = 3});
    uint64_t workers = live.workers;
    assert_true(options_set(&next, "stats_interval_s", "3", &error));
    assert_true(options_set(&next, "log_level", "debug", &error));
    assert_true(options_set(&next, "redis", "elsewhere:1", &error));
    assert_true(options_set(&live, "result_ttl_s", "31536000", &error));
    assert_true(options_set(&next, "result_ttl_s", "31535990", &error));
    options_adopt(&live, &next);
    assert_true(live.stats_interval_s == 3);
    assert_true(live.result_ttl_s == 31535990);
    assert_string_equal(live.log_level, "debug");
    assert_string_equal(live.redis, "127.0.0.1:6379");
    assert_int_equal(live.workers, workers);
    options_clear(&live);
    options_clear(&next);
}

TEST(sample_file_is_up_to_date)
{
    char *now = NULL, *then = text_file_read("conf/gpuimgd.conf");
    size_t size;
    FILE *made = open_memstream(&now, &size);
    options_print_sample(made);
    fclose(made);
    if (strcmp(now, then) != 0)
        fail_msg("conf/gpuimgd.conf differs from the table; make documents writes it");
    free(now);
    free(then);
}

TEST_MAIN(.name = "options")
