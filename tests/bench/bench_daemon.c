/*
 * bench_daemon - compares the whole daemon with the codec floor (floor.h) in one run.
 *
 *     bench_daemon --daemon PATH [--folder F] [--rounds 3] [--threads N] [--seconds 10]
 *                  [--engine cpu]
 *
 * The job is grayscale + sobel of every .jpg and .png of 2 to 15 megapixels below the folder, to
 * JPEG of quality 85. The floor does only this work, on as many threads as the daemon has workers.
 * The daemon gets jobs through a private Redis on a unix socket, reads files, writes files to a
 * temporary folder without fsync, and posts results. Daemon and floor take turns; the ratio is the
 * median over the pairs. Without a folder, the images are synthetic: gradients, shapes and noise.
 */
#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/floor.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/world.h"

#define FILES_MAX 512
#define MP_MIN 2.0
#define MP_MAX 15.0
#define ROUNDS_MAX 32
#define JOBS_MAX 100000u

static struct bench {
    char folder[512];
    struct floor_photo photos[FILES_MAX];
    struct floor floor;
    unsigned rounds, threads;
    double seconds;
    const char *engine_name;
    unsigned repeats;                 /* of the whole set per round */
    unsigned failed;
    struct world world;
} bench = {.rounds = 3, .seconds = 10, .engine_name = "cpu"};

/* ---- the daemon ------------------------------------------------------------------------------ */

static char *job_text(const struct floor_photo *photo, unsigned number)
{
    cJSON *job = cJSON_CreateObject(), *ops = cJSON_AddArrayToObject(job, "ops");
    char output[64];
    snprintf(output, sizeof output, "%u.jpg", number % 256);
    cJSON_AddStringToObject(job, "input", photo->name);
    cJSON_AddStringToObject(job, "output", output);
    cJSON_AddItemToArray(ops, cJSON_CreateString("grayscale"));
    cJSON_AddItemToArray(ops, cJSON_CreateString("sobel"));
    char *text = cJSON_PrintUnformatted(job);
    cJSON_Delete(job);
    return text;
}

static void take_result(const redisReply *reply)
{
    cJSON *result = cJSON_Parse(reply->str);
    if (strcmp(json_text(result, "status"), "done") != 0 && bench.failed++ < 3)
        printf("a job failed: %s\n", reply->str);
    cJSON_Delete(result);
}

static struct floor_turn daemon_turn(struct process *daemon)
{
    redisContext *client = bench.world.client;
    unsigned total = (unsigned)bench.floor.count * bench.repeats, got = 0;
    double cpu = process_cpu_s(daemon), start = process_now();
    for (unsigned i = 0; i < total; i++) {
        char *text = job_text(&bench.photos[i % bench.floor.count], i);
        redisAppendCommand(client, "LPUSH gpuimgd:jobs %s", text);
        free(text);
    }
    for (unsigned i = 0; i < total; i++) {
        void *reply = NULL;
        if (redisGetReply(client, &reply) != REDIS_OK)
            abort();
        freeReplyObject(reply);
    }
    while (got < total) {
        redisReply *reply = redis_command(client, "BRPOP gpuimgd:results 30");
        if (reply->type != REDIS_REPLY_ARRAY) {
            printf("no result for 30 s\n");
            exit(1);
        }
        take_result(reply->element[1]);
        freeReplyObject(reply);
        process_mark(daemon); /* drains the socket of its service manager */
        got++;
    }
    return (struct floor_turn){process_now() - start, process_cpu_s(daemon) - cpu};
}

/* ---- the set --------------------------------------------------------------------------------- */

static const cJSON *operations; /* nftw passes no context */

static int add_photo(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    const char *suffix = strrchr(path, '.');
    if (kind != FTW_F || !suffix || bench.floor.count == FILES_MAX)
        return 0;
    bool png = !strcasecmp(suffix, ".png");
    if (!png && strcasecmp(suffix, ".jpg") && strcasecmp(suffix, ".jpeg"))
        return 0;
    struct floor_photo *photo = &bench.photos[bench.floor.count];
    struct error error = {0};
    memset(photo, 0, sizeof *photo);
    photo->png = png;
    photo->name = strdup(path + strlen(bench.folder) + 1);
    bool usable = floor_take(&bench.floor, photo, operations, &error);
    double mp = (double)photo->width * photo->height / 1e6;
    if (usable && mp >= MP_MIN && mp <= MP_MAX) {
        bench.floor.count++;
        return 0;
    }
    printf("skipped: %s (%.1f MP%s%s)\n", photo->name, mp, usable ? "" : ": ", error.text);
    plan_clear(&photo->plan);
    free(photo->name);
    return 0;
}

static void make_photos(void)
{
    static const uint32_t sides[][2] = {{2000, 1500}, {2560, 1600}, {3000, 2000}, {1920, 1280},
                                        {3264, 2448}, {4000, 3000}, {2400, 3200}, {3840, 2160}};
    printf("no folder given: synthetic images (gradients, shapes, noise)\n");
    for (uint32_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        char name[32];
        snprintf(name, sizeof name, "synthetic%u.jpg", i);
        world_put_picture(&bench.world, name,
                          picture_jpeg(&(struct picture_jpeg){.width = sides[i][0],
                                                              .height = sides[i][1],
                                                              .quality = 88, .seed = i + 1}));
    }
    snprintf(bench.folder, sizeof bench.folder, "%s", bench.world.in);
}

static double set_megapixels(void)
{
    double sum = 0;
    for (size_t i = 0; i < bench.floor.count; i++)
        sum += (double)bench.photos[i].width * bench.photos[i].height / 1e6;
    return sum;
}

/* ---- the run --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return d < 0 ? -1 : d > 0;
}

static void show(const char *name, unsigned round, struct floor_turn turn)
{
    double images = (double)bench.floor.count * bench.repeats;
    printf("%-7s %u: %8.1f MP/s %8.2f images/s %8.4f CPU s/image %8.2f s wall\n", name, round + 1,
           set_megapixels() * bench.repeats / turn.wall_s, images / turn.wall_s,
           turn.cpu_s / images, turn.wall_s);
    fflush(stdout);
}

/* Equal pixels at equal quality give equally many bytes, so equal sizes show equal work. */
static void compare_sizes(void)
{
    size_t equal = 0, compared = 0;
    for (size_t i = 0; i < bench.floor.count && i < 256; i++) {
        char *path, name[32];
        size_t length = 0;
        snprintf(name, sizeof name, "%zu.jpg", i);
        path = world_out_path(&bench.world, name);
        unsigned char *bytes = text_file_bytes(path, &length);
        /* The last job with this number wrote the file. */
        unsigned total = (unsigned)bench.floor.count * bench.repeats;
        unsigned last = (total - 1 - (unsigned)i) / 256 * 256 + (unsigned)i;
        compared++;
        equal += bytes && length == bench.photos[last % bench.floor.count].output_bytes;
        free(bytes);
        free(path);
    }
    printf("outputs with the floor's size: %zu of %zu\n", equal, compared);
}

static int run(struct process *daemon)
{
    double ratios[ROUNDS_MAX], costs[ROUNDS_MAX];
    bench.repeats = 1;
    /* Warms caches and buffers, and gives the time of one repeat. */
    struct floor_turn floor = floor_run(&bench.floor, (unsigned)bench.floor.count);
    double repeats = bench.seconds / floor.wall_s + 1;
    bench.repeats = repeats * (double)bench.floor.count < JOBS_MAX
                        ? (unsigned)repeats
                        : JOBS_MAX / (unsigned)bench.floor.count;
    printf("%zu files, %.1f MP, %u times per round, %u threads, engine %s\n", bench.floor.count,
           set_megapixels(), bench.repeats, bench.threads, bench.engine_name);
    for (unsigned round = 0; round < bench.rounds; round++) {
        floor = floor_run(&bench.floor, (unsigned)bench.floor.count * bench.repeats);
        show("floor", round, floor);
        struct floor_turn turn = daemon_turn(daemon);
        show("daemon", round, turn);
        ratios[round] = floor.wall_s / turn.wall_s;
        costs[round] = floor.cpu_s / turn.cpu_s;
    }
    compare_sizes();
    qsort(ratios, bench.rounds, sizeof *ratios, by_value);
    printf("daemon / floor: %.3f (median of %u pairs, %.3f to %.3f)\n", ratios[bench.rounds / 2],
           bench.rounds, ratios[0], ratios[bench.rounds - 1]);
    qsort(costs, bench.rounds, sizeof *costs, by_value);
    printf("by CPU time: %.3f (more reliable on a busy machine)\n",
           costs[bench.rounds / 2]);
    bench.failed += bench.floor.failed;
    if (bench.failed)
        printf("%u jobs failed\n", bench.failed);
    return bench.failed ? 1 : 0;
}

static int bench_all(void)
{
    char input[600], workers[64], engine[64];
    cJSON *ops = cJSON_Parse("[\"grayscale\",\"sobel\"]");
    int status = 1;
    operations = ops;
    bench.floor.photos = bench.photos;
    floor_open(&bench.floor, bench.folder, bench.threads);
    if (!bench.folder[0])
        make_photos();
    nftw(bench.folder, add_photo, 16, FTW_PHYS);
    snprintf(input, sizeof input, "--input_root=%s", bench.folder);
    snprintf(workers, sizeof workers, "--workers=%u", bench.threads);
    snprintf(engine, sizeof engine, "--engine=%s", bench.engine_name);
    if (bench.floor.count == 0) {
        printf("no image of %g to %g MP below %s\n", MP_MIN, MP_MAX, bench.folder);
    } else {
        struct process *daemon = world_start(&bench.world, 0, input, workers, engine,
                                             "--lease_s=30", "--renew_s=5", "--reap_s=10", NULL);
        if (world_ready(daemon)) {
            process_stop_listening(daemon);
            status = run(daemon);
        }
        process_signal(daemon, SIGTERM);
        process_wait(daemon, 30);
    }
    floor_close(&bench.floor);
    cJSON_Delete(ops);
    return status;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"daemon", required_argument, NULL, 'd'},  {"folder", required_argument, NULL, 'f'},
        {"rounds", required_argument, NULL, 'r'},  {"threads", required_argument, NULL, 't'},
        {"seconds", required_argument, NULL, 's'}, {"engine", required_argument, NULL, 'e'},
        {NULL, 0, NULL, 0}};
    char folder[4096] = "";
    bench.threads = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'd': setenv("GPUIMGD", optarg, 1); break;
        case 'f':
            if (!realpath(optarg, folder) || strlen(folder) >= sizeof bench.folder) {
                fprintf(stderr, "bench_daemon: %s: %s\n", optarg, strerror(errno));
                return 64;
            }
            strcpy(bench.folder, folder);
            break;
        case 'r': bench.rounds = (unsigned)strtoul(optarg, NULL, 10); break;
        case 't': bench.threads = (unsigned)strtoul(optarg, NULL, 10); break;
        case 's': bench.seconds = strtod(optarg, NULL); break;
        case 'e': bench.engine_name = optarg; break;
        default: return 64;
        }
    }
    if (!getenv("GPUIMGD") || optind != argc || bench.rounds < 1 || bench.rounds > ROUNDS_MAX ||
        bench.threads < 1) {
        fprintf(stderr, "usage: bench_daemon --daemon PATH [--folder F] [--rounds N] "
                        "[--threads N] [--seconds S] [--engine cpu|cuda|auto]\n");
        return 64;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    world_open(&bench.world, redis_server_start("--appendonly", "no", NULL));
    int status = bench_all();
    world_close(&bench.world);
    return status;
}
