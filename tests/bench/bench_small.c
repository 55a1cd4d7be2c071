/*
 * bench_small - compares the daemon on small images with the codec floor and with the queue alone.
 *
 *     bench_small --daemon PATH [--against PATH] [--engine cpu] [--folder F] [--pictures F]
 *                 [--size 64 ...] [--rounds 3] [--seconds 2] [--threads N] [--trace]
 *
 * The job is grayscale + sobel of a square JPEG to a JPEG of quality 85, from file to file and from
 * key to key. --pictures uses the JPEGs of a folder instead: the first 64 by name, of any size.
 * Then "side" is the width of the first. The floor always has the CPU engine.
 *
 * For each size and place, three turns follow one another, `rounds` times:
 *   floor    the codecs and the operations alone (floor.h), on N threads
 *   queue    queue/ alone, in this process: it fetches and parses jobs, reads input keys, and at
 *            once posts results and output keys of the usual length
 *   daemon   the whole daemon: SIGUSR2 pauses it until all jobs are in the list; the clock stops
 *            when the last result has arrived; every output is a new file, without fsync
 * Files are in /dev/shm. With --folder they are in that folder, and the floor writes output files,
 * too: on some filesystems a new file costs more than the rest of the job.
 *
 * The bound is 1 / (1 / floor + 1 / queue); Redis shares the machine. Figures are medians over the
 * rounds; a ratio is the median of the ratios of each round. "in CPU" is the CPU time of floor,
 * queue and its Redis, divided by that of the daemon and Redis. CPU times and context switches are
 * those of threads, so they hold on a busy machine. With --against, each round runs both programs.
 * With --trace, strace counts the daemon's system calls in one more turn, which is slow.
 */
#include <stdlib.h>
#include <string.h>

#include "conf/limits.h"
#include "conf/log.h"
#include "queue/job/instance.h"
#include "queue/job/job.h"
#include "queue/job/result.h"
#include "queue/lease/queue.h"
#include "tests/bench/floor.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/world.h"

#define ROUNDS_MAX 31
#define PROGRAMS_MAX 2
#define PHOTOS_MAX 64 /* different images per size */
#define KEYS 256      /* keys of outputs, overwritten in turn */
#define QUEUE_PLACES 64
#define JOBS_MAX 200000u
#define WAIT_S 300.0

enum figure {
    JOBS_S,
    REDIS_US,
    LOOP_USER_US,
    LOOP_SYSTEM_US,
    WORKERS_USER_US,
    WORKERS_SYSTEM_US,
    SWITCHES,
    FIGURES
};

/* The result of a turn: jobs per second, and CPU us per job of all processes. */
struct rate {
    double jobs_s, cpu_us;
};

static struct bench {
    const char *programs[PROGRAMS_MAX];
    size_t program_count;
    struct argument_numbers sizes;
    unsigned rounds, threads, jobs;
    double seconds;
    bool trace, keys;
    const char *folder, *pictures, *engine;
    struct world world;
    struct floor floor;
    struct floor_photo photos[PHOTOS_MAX];
    struct picture_file files[PHOTOS_MAX];
    unsigned count; /* of photos and files */
    cJSON *operations;
} bench = {.rounds = 3, .seconds = 2, .engine = "cpu"};

/* ---- CPU time -------------------------------------------------------------------------------- */

/* Adds the CPU time and the context switches of one thread so far. */
static void add_thread(pid_t pid, pid_t thread, double figures[FIGURES])
{
    unsigned long user = 0, system = 0;
    const char *folder = text_of("/proc/%ld/task/%ld", (long)pid, (long)thread);
    char *text = text_file_read(text_of("%s/stat", folder)), *after = strrchr(text, ')');
    if (after)
        sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    free(text);
    double tick_us = 1e6 / (double)sysconf(_SC_CLK_TCK);
    figures[thread == pid ? LOOP_USER_US : WORKERS_USER_US] += (double)user * tick_us;
    figures[thread == pid ? LOOP_SYSTEM_US : WORKERS_SYSTEM_US] += (double)system * tick_us;
    text = text_file_read(text_of("%s/status", folder));
    const char *names[] = {"\nvoluntary_ctxt_switches:", "\nnonvoluntary_ctxt_switches:"};
    for (int i = 0; i < 2; i++) {
        char *at = strstr(text, names[i]);
        figures[SWITCHES] += at ? strtod(at + strlen(names[i]), NULL) : 0;
    }
    free(text);
}

/* Sets the totals so far of Redis and of the daemon's threads. The loop runs on the main thread. */
static void take_usage(const struct process *daemon, double figures[FIGURES])
{
    memset(figures, 0, FIGURES * sizeof *figures);
    figures[REDIS_US] = redis_cpu_s(bench.world.client) * 1e6;
    DIR *folder = opendir(text_of("/proc/%ld/task", (long)daemon->pid));
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            add_thread(daemon->pid, (pid_t)atol(entry->d_name), figures);
    if (folder)
        closedir(folder);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void push_jobs(void)
{
    redisContext *client = bench.world.client;
    freeReplyObject(redis_command(client, "DEL gpuimgd:results"));
    for (unsigned i = 0; i < bench.jobs; i++) {
        char job[256];
        const char *form = bench.keys
            ? "{\"input\":{\"key\":\"gpuimgd:img:in:%u\"},\"output\":{\"key\":"
              "\"gpuimgd:img:out:%u\",\"format\":\"jpeg\"},\"ops\":[\"grayscale\",\"sobel\"]}"
            : "{\"input\":\"%u.jpg\",\"output\":\"out%u.jpg\",\"ops\":[\"grayscale\",\"sobel\"]}";
        snprintf(job, sizeof job, form, i % bench.count, bench.keys ? i % KEYS : i);
        redisAppendCommand(client, "LPUSH gpuimgd:jobs %s", job);
    }
    redis_drain(client, bench.jobs);
}

/* Takes the next result. Returns true if the job is done. */
static bool is_good(void)
{
    cJSON *result = world_result(&bench.world, 10);
    bool good = strcmp(json_text(result, "status"), "done") == 0;
    if (!good)
        printf("a job failed: %s\n", json_text(result, "error.message"));
    cJSON_Delete(result);
    return good;
}

/* ---- the queue alone ------------------------------------------------------------------------- */

struct clerk {
    uv_loop_t loop;
    struct queue *queue;
    char inst[INSTANCE_BYTES_MAX], daemon[INSTANCE_BYTES_MAX];
    uint32_t places;
    unsigned settled;
    bool closed;
};

struct task {
    struct clerk *clerk;
    struct lease *lease;
    struct job job;
};

/* Returns the index of a job's photo: its input is N.jpg, or a key that ends in :N. */
static unsigned photo_of(const struct job *job)
{
    const char *number = job->input.key ? strrchr(job->input.key, ':') + 1 : job->input.path;
    return (unsigned)strtoul(number, NULL, 10);
}

static void answer(struct task *task, size_t bytes)
{
    const struct job_place *place = &task->job.outputs[0].place;
    const struct floor_photo *photo = &bench.photos[photo_of(&task->job)];
    size_t length = photo->output_bytes;
    struct result_output output = {.place = place, .format = "jpeg", .width = photo->width,
                                   .height = photo->height, .bytes = length};
    struct result result = {
        .job = &task->job, .number = task->lease->number, .status = "done", .input_format = "jpeg",
        .input_width = output.width, .input_height = output.height, .input_bytes = bytes,
        .outputs = &output, .output_count = 1, .attempt = task->lease->attempt, .engine = "cpu",
        .daemon = task->clerk->daemon, .ms = {-1, 0.012, 0.001, 0.123, 0, 0.012, 0, 0.123, 1.234}};
    struct queue_value value = {.key = place->key, .bytes = length};
    if (place->key && !(value.value = calloc(1, length)))
        abort();
    struct queue_answer all = {.result = result_write(&result), .values = &value,
                               .value_count = place->key ? 1 : 0};
    if (!queue_done(task->clerk->queue, task->lease, &all))
        abort();
    job_clear(&task->job);
    free(task);
}

static void on_read(void *context, uint8_t *bytes, size_t length, const struct error *error)
{
    struct task *task = context;
    if (error)
        abort();
    free(bytes);
    queue_read_release(task->clerk->queue, length);
    answer(task, length);
}

static void on_leased(void *context, struct lease *lease)
{
    struct clerk *clerk = context;
    struct job_rules rules = {"gpuimgd", 60};
    struct error error = {0};
    struct task *task = calloc(1, sizeof *task);
    clerk->places--;
    *task = (struct task){.clerk = clerk, .lease = lease};
    if (job_parse(&task->job, lease->raw, lease->raw_bytes, &rules, &error) != STATUS_OK)
        abort();
    if (!task->job.input.key)
        answer(task, bench.files[photo_of(&task->job)].length);
    else if (!queue_read(clerk->queue, task->job.input.key, INPUT_BYTES_DEFAULT, NULL, on_read,
                         task))
        abort();
}

static void on_settled(void *context, struct lease *lease, bool stale, bool dead)
{
    struct clerk *clerk = context;
    if (stale || dead)
        abort();
    queue_set_places(clerk->queue, ++clerk->places);
    if (++clerk->settled == bench.jobs)
        uv_stop(&clerk->loop);
}

static void on_closed(void *context)
{
    ((struct clerk *)context)->closed = true;
}

static double queue_cpu_s(void)
{
    return clock_s(CLOCK_PROCESS_CPUTIME_ID) + redis_cpu_s(bench.world.client);
}

static struct rate queue_turn(void)
{
    struct clerk clerk = {.places = QUEUE_PLACES};
    struct options config = {
        .redis = bench.world.redis->address, .namespace = "gpuimgd",
        .lease_s = 30, .renew_s = 5, .reap_s = 10, .retry_delay_s = 1, .block_s = 2,
        .connect_timeout_s = 3, .command_timeout_s = 5, .auth_retry_s = 30, .attempts = 3,
        .batch = 32, .result_ttl_s = 3600, .results = "list", .results_max = 1000000,
        .dead_max = 100000};
    struct queue_events events = {
        .context = &clerk, .leased = on_leased, .settled = on_settled};
    struct error error = {0};
    push_jobs();
    if (!instance_self(clerk.inst, clerk.daemon) || uv_loop_init(&clerk.loop) ||
        !(clerk.queue = queue_create(&clerk.loop, &config, clerk.inst, &events, &error)))
        abort();
    double used_s = queue_cpu_s(), start = process_now();
    queue_start(clerk.queue);
    queue_set_places(clerk.queue, clerk.places);
    uv_run(&clerk.loop, UV_RUN_DEFAULT);
    double end = process_now();
    used_s = queue_cpu_s() - used_s;
    queue_close(clerk.queue, 1, on_closed, &clerk);
    while (!clerk.closed)
        uv_run(&clerk.loop, UV_RUN_ONCE);
    queue_destroy(clerk.queue);
    uv_run(&clerk.loop, UV_RUN_DEFAULT);
    uv_loop_close(&clerk.loop);
    return (struct rate){bench.jobs / (end - start), used_s * 1e6 / bench.jobs};
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static bool pause_daemon(struct process *daemon)
{
    size_t mark = process_log_mark(daemon);
    process_signal(daemon, SIGUSR2);
    return process_logged(daemon, mark, "fetching is paused", 30);
}

/* Removes the outputs, so that each job writes a new file, as usual jobs do. */
static void remove_outputs(void)
{
    DIR *folder = opendir(bench.world.out);
    if (!folder)
        abort();
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && unlinkat(dirfd(folder), entry->d_name, 0) < 0)
            abort();
    closedir(folder);
}

static bool daemon_turn(struct process *daemon, double figures[FIGURES])
{
    double before[FIGURES];
    push_jobs();
    take_usage(daemon, before);
    double start = process_now();
    process_signal(daemon, SIGUSR2);
    bool good = world_until(&bench.world, WAIT_S, bench.jobs, "LLEN gpuimgd:results");
    double end = process_now();
    take_usage(daemon, figures);
    for (int i = REDIS_US; i < FIGURES; i++)
        figures[i] = (figures[i] - before[i]) / bench.jobs;
    figures[JOBS_S] = bench.jobs / (end - start);
    return pause_daemon(daemon) && good && is_good();
}

/* strace writes its table when SIGINT ends it. */
static void trace_turn(struct process *daemon)
{
    double figures[FIGURES];
    const char *path = text_of("%s/calls", bench.world.folder);
    const char *pid = text_of("%ld", (long)daemon->pid);
    const char *args[] = {"-f", "-c", "-U", "calls,name", "-S", "calls", "-o", path, "-p", pid,
                          NULL};
    struct process tracer = {0};
    struct process_options how = {.program = "/usr/bin/strace", .args = args,
                                  .folder = bench.world.folder, .name = "strace"};
    if (!process_start(&tracer, &how) || !process_logged(&tracer, 0, "attached", 10)) {
        printf("cannot run strace\n");
    } else if (daemon_turn(daemon, figures)) {
        process_signal(&tracer, SIGINT);
        process_wait(&tracer, 10);
        char *text = text_file_read(path), *rest = text;
        printf("system calls per job:");
        for (char *line; (line = strsep(&rest, "\n"));) {
            char name[64];
            unsigned long calls;
            if (sscanf(line, "%lu %63s", &calls, name) == 2 && calls * 50 >= bench.jobs)
                printf(" %s %.2f", name, (double)calls / bench.jobs);
        }
        printf("\n");
        free(text);
    }
    process_clear(&tracer);
}

static bool start_daemon(size_t index)
{
    struct process_options how = {.program = bench.programs[index]};
    const char *extra[] = {text_of("--workers=%u", bench.threads),
                           text_of("--engine=%s", bench.engine), "--lease_s=30", "--renew_s=5",
                           "--reap_s=10", "--results_max=1000000", NULL};
    struct process *daemon = world_start_with(&bench.world, index, &how, extra);
    if (!world_ready(daemon))
        return false;
    process_stop_listening(daemon);
    return pause_daemon(daemon);
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Takes ownership of the file. Skips it with a message if the floor cannot handle it. */
static void add_photo(struct picture_file file, const char *name)
{
    unsigned i = bench.count;
    struct floor_photo *photo = &bench.photos[i];
    struct error error = {0};
    *photo = (struct floor_photo){0};
    if (asprintf(&photo->name, "%u.jpg", i) < 0)
        abort();
    bench.files[i] = file;
    world_put(&bench.world, photo->name, file.bytes, file.length);
    freeReplyObject(redis_command(bench.world.client, "SET gpuimgd:img:in:%u %b", i, file.bytes,
                                  file.length));
    if (floor_take(&bench.floor, photo, bench.operations, &error)) {
        bench.floor.count = ++bench.count;
        return;
    }
    printf("skipped: %s: %s\n", name, error.text);
    plan_clear(&photo->plan);
    free(photo->name);
    picture_free(&bench.files[i]);
}

static int is_jpeg(const struct dirent *entry)
{
    const char *suffix = strrchr(entry->d_name, '.');
    return suffix && (!strcasecmp(suffix, ".jpg") || !strcasecmp(suffix, ".jpeg"));
}

static void take_pictures(void)
{
    struct dirent **entries = NULL;
    int found = scandir(bench.pictures, &entries, is_jpeg, alphasort);
    for (int i = 0; i < found; i++) {
        const char *path = text_of("%s/%s", bench.pictures, entries[i]->d_name);
        size_t length = 0;
        unsigned char *bytes = bench.count < PHOTOS_MAX ? text_file_bytes(path, &length) : NULL;
        if (bytes)
            add_photo((struct picture_file){bytes, length}, path);
        free(entries[i]);
    }
    free(entries);
}

static void make_photos(uint32_t size)
{
    floor_open(&bench.floor, bench.world.in, bench.threads);
    if (bench.folder)
        bench.floor.output_folder = open(bench.world.out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bench.floor.photos = bench.photos;
    bench.count = 0;
    if (bench.pictures)
        take_pictures();
    for (uint32_t seed = 1; !bench.pictures && seed <= PHOTOS_MAX; seed++)
        add_photo(picture_jpeg(&(struct picture_jpeg){.width = size, .height = size,
                                                      .quality = 88, .seed = seed}), "");
}

static void drop_photos(void)
{
    if (bench.floor.output_folder >= 0)
        close(bench.floor.output_folder);
    floor_close(&bench.floor);
    for (unsigned i = 0; i < bench.count; i++)
        picture_free(&bench.files[i]);
    bench.floor = (struct floor){0};
}

/* For keys, the floor reads its inputs from memory. */
static void choose_place(bool keys)
{
    bench.keys = keys;
    for (unsigned i = 0; i < bench.count; i++) {
        bench.photos[i].bytes = keys ? bench.files[i].bytes : NULL;
        bench.photos[i].length = bench.files[i].length;
    }
}

/* ---- the run --------------------------------------------------------------------------------- */

static double middle(double *values)
{
    return median(values, bench.rounds);
}

struct rounds {
    double floors[ROUNDS_MAX], floor_us[ROUNDS_MAX], queues[ROUNDS_MAX], bounds[ROUNDS_MAX];
    double ratios[PROGRAMS_MAX][ROUNDS_MAX], cpu_ratios[PROGRAMS_MAX][ROUNDS_MAX];
    double figures[PROGRAMS_MAX][FIGURES][ROUNDS_MAX];
};

static bool measure(struct rounds *all)
{
    for (unsigned round = 0; round < bench.rounds; round++) {
        remove_outputs();
        struct floor_turn turn = floor_run(&bench.floor, bench.jobs);
        all->floors[round] = bench.jobs / turn.wall_s;
        all->floor_us[round] = turn.cpu_s * 1e6 / bench.jobs;
        struct rate queue = queue_turn();
        all->queues[round] = queue.jobs_s;
        all->bounds[round] = 1 / (1 / all->floors[round] + 1 / all->queues[round]);
        for (size_t i = 0; i < bench.program_count; i++) {
            double figures[FIGURES];
            remove_outputs();
            if (!daemon_turn(&bench.world.daemons[i], figures))
                return false;
            for (size_t f = 0; f < FIGURES; f++)
                all->figures[i][f][round] = figures[f];
            all->ratios[i][round] = figures[JOBS_S] / all->bounds[round];
            double used_us = 0;
            for (int f = REDIS_US; f < SWITCHES; f++)
                used_us += figures[f];
            all->cpu_ratios[i][round] = (all->floor_us[round] + queue.cpu_us) / used_us;
        }
    }
    return bench.floor.failed == 0;
}

static bool measure_row(bool keys)
{
    static struct rounds all;
    uint32_t size = bench.photos[0].width;
    choose_place(keys);
    bench.jobs = PHOTOS_MAX * 16;
    double jobs = bench.jobs / floor_run(&bench.floor, bench.jobs).wall_s * bench.seconds / 2;
    bench.jobs = jobs < JOBS_MAX ? jobs > 64 ? (unsigned)jobs : 64 : JOBS_MAX;
    if (!measure(&all)) {
        printf("%u, %s: jobs failed or timed out\n", size, keys ? "keys" : "files");
        return false;
    }
    printf("%4u %-5s %8.0f %8.1f %8.0f %8.0f", size, keys ? "keys" : "files", middle(all.floors),
           middle(all.floor_us), middle(all.queues), middle(all.bounds));
    for (size_t i = 0; i < bench.program_count; i++) {
        if (i > 0)
            printf("%44s", "against:");
        double ratio = middle(all.ratios[i]);
        printf(" %8.0f %6.2f (%.2f-%.2f) %6.2f", middle(all.figures[i][JOBS_S]), ratio,
               all.ratios[i][0], all.ratios[i][bench.rounds - 1], middle(all.cpu_ratios[i]));
        for (int f = REDIS_US; f < FIGURES; f++)
            printf(" %7.1f", middle(all.figures[i][f]));
        printf("\n");
    }
    fflush(stdout);
    for (size_t i = 0; bench.trace && i < bench.program_count; i++) {
        bench.jobs = PHOTOS_MAX * 16;
        remove_outputs();
        trace_turn(&bench.world.daemons[i]);
    }
    return true;
}

static int run(void)
{
    int status = 0;
    for (size_t i = 0; i < bench.program_count; i++)
        if (!start_daemon(i))
            return 1;
    printf("%u threads, engine %s, median of %u rounds; CPU us per job of Redis, the loop's and "
           "the workers' user and system time, switches per job\n", bench.threads, bench.engine,
           bench.rounds);
    printf("%4s %-5s %8s %8s %8s %8s %8s %18s %6s %7s %7s %7s %7s %7s %7s\n", "side", "place",
           "floor/s", "floor us", "queue/s", "bound/s", "daemon/s", "of the bound", "in CPU",
           "redis", "loop u", "loop s", "work u", "work s", "switch");
    for (size_t i = 0; i < bench.sizes.count && status == 0; i++) {
        make_photos(bench.sizes.at[i]);
        bool good = bench.count > 0 && measure_row(false) && (bench.folder || measure_row(true));
        if (bench.count == 0)
            printf("no JPEG that the floor can handle in %s\n", bench.pictures);
        status = good ? 0 : 1;
        drop_photos();
    }
    return status;
}

int main(int argc, char **argv)
{
    const struct argument options[] = {
        {"daemon", .text = &bench.programs[0]}, {"against", .text = &bench.programs[1]},
        {"size", .numbers = &bench.sizes},      {"rounds", .number = &bench.rounds},
        {"seconds", .seconds = &bench.seconds}, {"threads", .number = &bench.threads},
        {"trace", .flag = &bench.trace},        {"folder", .text = &bench.folder},
        {"engine", .text = &bench.engine},      {"pictures", .text = &bench.pictures},
        {.name = NULL}};
    bench.threads = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    bool usable = arguments_read(argc, argv, options) == argc;
    for (unsigned i = 0; i < bench.sizes.count; i++)
        usable = usable && bench.sizes.at[i] >= 8 && bench.sizes.at[i] <= 4096;
    usable = usable && (!bench.pictures || bench.sizes.count == 0);
    if (!usable || !bench.programs[0] || bench.rounds < 1 || bench.rounds > ROUNDS_MAX ||
        bench.threads < 1 || !(bench.seconds > 0)) {
        fprintf(stderr, "usage: bench_small --daemon PATH [--against PATH] [--folder F] "
                        "[--engine cpu|cuda|auto] [--size N ... | --pictures F] [--rounds 1-%d] "
                        "[--seconds S] [--threads N] [--trace]\n",
                ROUNDS_MAX);
        return 64;
    }
    if (bench.pictures)
        bench.sizes.count = 1;
    else if (bench.sizes.count == 0)
        bench.sizes = (struct argument_numbers){4, {64, 128, 256, 512}};
    bench.program_count = bench.programs[1] ? 2 : 1;
    bench.operations = cJSON_Parse("[\"grayscale\",\"sobel\"]");
    setenv("TMPDIR", bench.folder ? bench.folder : "/dev/shm", 1);
    log_set_level(LOG_LEVEL_WARNING);
    world_open(&bench.world, redis_server_start("--appendonly", "no", NULL));
    int status = run();
    cJSON_Delete(bench.operations);
    world_close(&bench.world);
    return status;
}
