/*
 * bench_queue - measures the queue alone: jobs per second, and CPU time per job.
 *
 *     bench_queue --daemon PATH [--against PATH] [--jobs 20000] [--rounds 3] [--inflight 64]
 *
 * The job does almost nothing: an 8 x 8 PNG from a key to a key, without operations. SIGUSR2 pauses
 * the daemons until all jobs are in the list. The clock stops when the last result has arrived.
 * One Redis on this machine serves all daemons. The rows differ in their number and in Redis's
 * persistence: none, an append-only file synced every second, or synced before each reply. CPU
 * times are those of the processes, so they hold on a busy machine. Each figure is the median over
 * the rounds. With --against, both programs take turns on each row.
 */
#include <signal.h>
#include <string.h>

#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/world.h"

#define ROUNDS_MAX 31
#define IMAGES 64 /* keys of outputs, overwritten in turn */
#define WAIT_S 300.0

static const struct row {
    const char *name, *appendonly, *appendfsync;
    size_t daemons;
} rows[] = {
    {"nothing", "no", "no", 1},         {"nothing", "no", "no", 4},
    {"everysec", "yes", "everysec", 1}, {"everysec", "yes", "everysec", 4},
    {"always", "yes", "always", 1},     {"always", "yes", "always", 4},
};
#define ROWS (sizeof rows / sizeof *rows)

enum figure { JOBS_S, REDIS_US, DAEMON_US, CALLS, FIGURES };

static struct {
    const char *programs[2];
    size_t program_count;
    unsigned jobs, rounds, inflight;
} bench = {.jobs = 20000, .rounds = 3, .inflight = 64};

static double daemons_cpu_s(struct world *w, size_t daemons)
{
    double sum = 0;
    for (size_t i = 0; i < daemons; i++)
        sum += process_cpu_s(&w->daemons[i]);
    return sum;
}

static void push_all(struct world *w)
{
    struct picture_file file =
        picture_png(&(struct picture_png){.width = 8, .height = 8, .colour_type = 2});
    freeReplyObject(redis_command(w->client, "SET gpuimgd:img:in %b", file.bytes, file.length));
    picture_free(&file);
    for (unsigned i = 0; i < bench.jobs; i++) {
        char job[256];
        snprintf(job, sizeof job,
                 "{\"input\":{\"key\":\"gpuimgd:img:in\"},\"output\":{\"key\":"
                 "\"gpuimgd:img:out:%u\",\"format\":\"png\"},\"ops\":[]}", i % IMAGES);
        redisAppendCommand(w->client, "LPUSH gpuimgd:jobs %s", job);
    }
    redis_drain(w->client, bench.jobs);
}

static bool start_daemons(struct world *w, const char *program, size_t count)
{
    const char *extra[] = {text_of("--inflight=%u", bench.inflight), "--batch=64", "--workers=1",
                           "--lease_s=60", "--renew_s=5", "--reap_s=10", "--stats_interval_s=0",
                           "--results_max=1000000", NULL};
    for (size_t i = 0; i < count; i++) {
        struct process_options how = {.program = program};
        struct process *daemon = world_start_with(w, i, &how, extra);
        if (!world_ready(daemon))
            return false;
        process_signal(daemon, SIGUSR2);
        if (!process_logged(daemon, 0, "fetching is paused", 10))
            return false;
    }
    return true;
}

static bool measure(const struct row *row, const char *program, double *figures)
{
    struct world w;
    world_open(&w, redis_server_start("--appendonly", row->appendonly, "--appendfsync",
                                      row->appendfsync, NULL));
    bool good = start_daemons(&w, program, row->daemons);
    if (good) {
        push_all(&w);
        freeReplyObject(redis_command(w.client, "CONFIG RESETSTAT"));
        double redis_s = redis_cpu_s(w.client), daemons_s = daemons_cpu_s(&w, row->daemons);
        double start = process_now();
        for (size_t i = 0; i < row->daemons; i++)
            process_signal(&w.daemons[i], SIGUSR2);
        good = world_until(&w, WAIT_S, bench.jobs, "LLEN gpuimgd:results");
        double jobs = bench.jobs;
        figures[JOBS_S] = jobs / (process_now() - start);
        figures[REDIS_US] = (redis_cpu_s(w.client) - redis_s) * 1e6 / jobs;
        figures[DAEMON_US] = (daemons_cpu_s(&w, row->daemons) - daemons_s) * 1e6 / jobs;
        figures[CALLS] = redis_info(w.client, "stats", "total_commands_processed:") / jobs;
        cJSON *result = world_result(&w, 1);
        good = good && strcmp(json_text(result, "status"), "done") == 0;
        cJSON_Delete(result);
    }
    world_close(&w);
    return good;
}

/* Sets medians[program][figure] to the median of the rounds. */
static bool measure_row(const struct row *row, double medians[2][FIGURES])
{
    double all[2][FIGURES][ROUNDS_MAX];
    for (unsigned round = 0; round < bench.rounds; round++)
        for (size_t i = 0; i < bench.program_count; i++) {
            double figures[FIGURES];
            if (!measure(row, bench.programs[i], figures))
                return false;
            for (size_t f = 0; f < FIGURES; f++)
                all[i][f][round] = figures[f];
        }
    for (size_t i = 0; i < bench.program_count; i++)
        for (size_t f = 0; f < FIGURES; f++)
            medians[i][f] = median(all[i][f], bench.rounds);
    return true;
}

static int run(void)
{
    printf("%u jobs per run, %u in flight per daemon, median of %u rounds\n", bench.jobs,
           bench.inflight, bench.rounds);
    printf("%-10s %7s %10s %14s %15s %16s\n", "Redis keeps", "daemons", "jobs/s", "Redis us/job",
           "daemons us/job", "commands/job");
    for (size_t i = 0; i < ROWS; i++) {
        double medians[2][FIGURES];
        if (!measure_row(&rows[i], medians)) {
            printf("%s, %zu daemons: jobs failed or timed out\n", rows[i].name,
                   rows[i].daemons);
            return 1;
        }
        for (size_t p = 0; p < bench.program_count; p++)
            printf("%-11s %7zu %10.0f %14.1f %15.1f %16.2f%s\n", rows[i].name, rows[i].daemons,
                   medians[p][JOBS_S], medians[p][REDIS_US], medians[p][DAEMON_US],
                   medians[p][CALLS], p == 1 ? "  against" : "");
        fflush(stdout);
    }
    return 0;
}

static bool options_read(int argc, char **argv)
{
    const struct argument options[] = {
        {"daemon", .text = &bench.programs[0]},  {"against", .text = &bench.programs[1]},
        {"jobs", .number = &bench.jobs},         {"rounds", .number = &bench.rounds},
        {"inflight", .number = &bench.inflight}, {.name = NULL}};
    return arguments_read(argc, argv, options) == argc && bench.programs[0] && bench.inflight > 0 &&
           bench.rounds > 0 && bench.rounds <= ROUNDS_MAX;
}

int main(int argc, char **argv)
{
    if (!options_read(argc, argv)) {
        fprintf(stderr,
                "usage: bench_queue --daemon PATH [--against PATH] [--jobs N] "
                "[--rounds 1-%d] [--inflight N]\n",
                ROUNDS_MAX);
        return 64;
    }
    bench.program_count = bench.programs[1] ? 2 : 1;
    return run();
}
