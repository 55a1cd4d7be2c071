/* Tests of the option table: values, files, checks, reload, and the generated sample file. */
#include <sys/stat.h>
#include <unistd.h>

#include "conf/limits.h"
#include "conf/options.h"
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
    struct error error = {0};
    assert_string_equal(options.redis, "127.0.0.1:6379");
    assert_string_equal(options.namespace, "gpuimgd");
    assert_true(options.lease_s == 30 && options.renew_s == 5 && options.reap_s == 10);
    assert_int_equal(options.input_bytes_max, 64 << 20);
    assert_int_equal(options.pixels_max, 50000000);
    assert_int_equal(options.workers, 0);
    assert_true(options.sync_outputs);
    assert_true(options_check(&options, &error));
    options_resolve(&options, 64 * GIB, 6);
    assert_int_equal(options.pinned_bytes, 4 * GIB);
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
    } rows[] = {{64, 1, 4096, 2048}, {64, 16, 4096, 2048}, {64, 17, 4352, 2176},
                {256, 32, 8192, 4096}, {16, 64, 2048, 2048}, {512, 128, 32768, 16384}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct options options = fresh();
        options_resolve(&options, rows[i].memory_gib * GIB, rows[i].cpus);
        assert_int_equal(options.pinned_bytes, rows[i].pinned_mib * MIB);
        assert_int_equal(options.host_bytes, rows[i].host_mib * MIB);
        options_clear(&options);
    }
}

TEST(workers_leave_cpus_to_others)
{
    struct options options = fresh();
    struct error error = {0};
    assert_int_equal(options_auto_workers(1, 2), 1);
    assert_int_equal(options_auto_workers(4, 2), 4);
    assert_int_equal(options_auto_workers(7, 2), 7);
    assert_int_equal(options_auto_workers(8, 2), 6);
    assert_int_equal(options_auto_workers(16, 0), 16);
    assert_int_equal(options_auto_workers(16, 1), 15);
    assert_int_equal(options_auto_workers(16, 2), 14);
    assert_int_equal(options_auto_workers(4096, 2), 1024);
    assert_true(options_set(&options, "workers", "16", &error));
    options_resolve_workers(&options, &(struct options_host){.cpus = 64, .others = 2});
    assert_int_equal(options.workers, 16);
    options_clear(&options);
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
    uint64_t cpu = 1024 + 512 + 160 + 3 * 36 + 2 * 64 + 32 + 64 + 4 / 4;
    assert_int_equal(resolve(&options, &(struct options_host){.memory_bytes = GIB, .cpus = 9}),
                     cpu * MIB + 100 * 40 * KIB);
    struct options_host gpus = {.memory_bytes = GIB, .devices = 2, .slots = 16, .ahead = 50};
    assert_int_equal(resolve(&options, &gpus),
                     (cpu + 1024 + 16 * 4 + 2 * 7) * MIB + 150 * 40 * KIB);
    assert_true(options_set(&options, "shards", "4", &error));
    assert_int_equal(resolve(&options, &(struct options_host){.memory_bytes = GIB, .cpus = 9}),
                     (cpu + 4 * 4) * MIB + 2 * 100 * 40 * KIB);
    options_clear(&options);
}

/* With "auto", the bound stays below any memory that leaves room for one worker. */
TEST(auto_stays_below_the_memory)
{
    static const uint64_t cpus[] = {1, 2, 7, 8, 64, 192, 4096};
    for (uint64_t memory = 530 * MIB; memory <= 512 * GIB; memory += memory / 32) {
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
    assert_int_equal(options.workers, 13);
    options_clear(&options);
    options = fresh(); /* one GPU: the bound of the manual */
    host = (struct options_host){.memory_bytes = 19 * GIB / 10, .cpus = 64, .devices = 1,
                                 .slots = 8, .ahead = 128 + 256};
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
        bool ok = options_check(&options, &error);
        if (ok != !rows[i].refusal || (!ok && !strstr(error.text, rows[i].refusal)))
            fail_msg("%s = \"%s\": %s", rows[i].name, rows[i].value, ok ? "accepted" : error.text);
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
    struct error error = {0};
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
    assert_true(options_load(&options, path, out, &error));
    fclose(out);
    snprintf(expected, sizeof expected,
             "%s/gpuimgd.conf\n%s/conf.d/10-a.conf\n%s/conf.d/20-b.conf\n", folder, folder, folder);
    assert_string_equal(told, expected);
    free(told);
    assert_int_equal(options.streams, 7);
    assert_int_equal(options.workers, 3);
    assert_string_equal(options.namespace, "images");

    static const char *const bad[][2] = {
        {"streams = 5\n\nstreems = 5\n", "gpuimgd.conf line 3: there is no option \"streems\""},
        {"[other]\nstreams = 5\n", "section [other] is unknown"},
        {"streams\n", "line 1"},
        {"output_root = /srv/out\n  stats_log = /x\n",
         "line 2: option output_root is set twice, or the"},
        {"redis = \"127.0.0.1:6379\"\n", "\"127.0.0.1:6379\"; remove the quotes"},
        {"log_level = debug # loud\n", "line 1: option log_level is \"debug # loud\"; a comment "
                                       "after a value must begin with \" ;\""},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        error = (struct error){0};
        write_file(path, bad[i][0]);
        assert_false(options_load(&options, path, NULL, &error));
        if (!strstr(error.text, bad[i][1]))
            fail_msg("%s: %s", bad[i][0], error.text);
    }
    error = (struct error){0};
    assert_false(options_load(&options, "/nonexistent/gpuimgd.conf", NULL, &error));
    assert_non_null(strstr(error.text, "cannot open"));
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
