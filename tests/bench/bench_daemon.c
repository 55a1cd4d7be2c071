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
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/floor.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/measure.h"
#include "tests/fixtures/text_file.h"
#include "tests/fixtures/world.h"

#define FILES_MAX 512
#define MP_MIN 2.0
#define MP_MAX 15.0
#define ROUNDS_MAX 32
#define JOBS_MAX 100000u

static struct bench {
    char *folder;                     /* NULL: synthetic images */
    struct floor_photo photos[FILES_MAX];
    struct floor floor;
    unsigned rounds, threads;
    double seconds;
    const char *engine_name;
    unsigned repeats;                 /* of the whole set per round */
    unsigned failed;
    struct world world;
} bench = {.rounds = 3, .seconds = 10, .engine_name = "cpu"};

static cJSON *operations;

/* ---- the daemon ------------------------------------------------------------------------------ */

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
        cJSON *job = cJSON_CreateObject();
        cJSON_AddStringToObject(job, "input", bench.photos[i % bench.floor.count].name);
        cJSON_AddStringToObject(job, "output", text_of("%u.jpg", i % 256));
        cJSON_AddItemReferenceToObject(job, "ops", operations);
        char *text = cJSON_PrintUnformatted(job);
        redisAppendCommand(client, "LPUSH gpuimgd:jobs %s", text);
        cJSON_Delete(job);
        free(text);
    }
    redis_drain(client, total);
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
        world_put_picture(&bench.world, text_of("synthetic%u.jpg", i),
                          picture_jpeg(&(struct picture_jpeg){.width = sides[i][0],
                                                              .height = sides[i][1],
                                                              .quality = 88, .seed = i + 1}));
    }
    bench.folder = strdup(bench.world.in);
}

static double set_megapixels(void)
{
    double sum = 0;
    for (size_t i = 0; i < bench.floor.count; i++)
        sum += (double)bench.photos[i].width * bench.photos[i].height / 1e6;
    return sum;
}

/* ---- the run --------------------------------------------------------------------------------- */

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
        size_t length = 0;
        const char *path = text_of("%s/%zu.jpg", bench.world.out, i);
        unsigned char *bytes = text_file_bytes(path, &length);
        /* The last job with this number wrote the file. */
        unsigned total = (unsigned)bench.floor.count * bench.repeats;
        unsigned last = (total - 1 - (unsigned)i) / 256 * 256 + (unsigned)i;
        compared++;
        equal += bytes && length == bench.photos[last % bench.floor.count].output_bytes;
        free(bytes);
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
    double ratio = median(ratios, bench.rounds);
    printf("daemon / floor: %.3f (median of %u pairs, %.3f to %.3f)\n", ratio, bench.rounds,
           ratios[0], ratios[bench.rounds - 1]);
    printf("by CPU time: %.3f (more reliable on a busy machine)\n", median(costs, bench.rounds));
    bench.failed += bench.floor.failed;
    if (bench.failed)
        printf("%u jobs failed\n", bench.failed);
    return bench.failed ? 1 : 0;
}

static int bench_all(void)
{
    int status = 1;
    operations = cJSON_Parse("[\"grayscale\",\"sobel\"]");
    bench.floor.photos = bench.photos;
    if (!bench.folder)
        make_photos();
    floor_open(&bench.floor, bench.folder, bench.threads);
    nftw(bench.folder, add_photo, 16, FTW_PHYS);
    if (bench.floor.count == 0) {
        printf("no image of %g to %g MP below %s\n", MP_MIN, MP_MAX, bench.folder);
    } else {
        struct process *daemon = world_start(&bench.world, 0,
                                             text_of("--input_root=%s", bench.folder),
                                             text_of("--workers=%u", bench.threads),
                                             text_of("--engine=%s", bench.engine_name),
                                             "--lease_s=30", "--renew_s=5", "--reap_s=10", NULL);
        if (world_ready(daemon)) {
            process_stop_listening(daemon);
            status = run(daemon);
        }
        process_signal(daemon, SIGTERM);
        process_wait(daemon, 30);
    }
    floor_close(&bench.floor);
    cJSON_Delete(operations);
    return status;
}

int main(int argc, char **argv)
{
    const char *daemon = getenv("GPUIMGD"), *folder = NULL;
    const struct argument options[] = {
        {"daemon", .text = &daemon},            {"folder", .text = &folder},
        {"rounds", .number = &bench.rounds},    {"threads", .number = &bench.threads},
        {"seconds", .seconds = &bench.seconds}, {"engine", .text = &bench.engine_name},
        {.name = NULL}};
    bench.threads = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    if (arguments_read(argc, argv, options) != argc || !daemon || bench.rounds < 1 ||
        bench.rounds > ROUNDS_MAX || bench.threads < 1) {
        fprintf(stderr, "usage: bench_daemon --daemon PATH [--folder F] [--rounds N] "
                        "[--threads N] [--seconds S] [--engine cpu|cuda|auto]\n");
        return 64;
    }
    if (folder && !(bench.folder = realpath(folder, NULL))) {
        fprintf(stderr, "bench_daemon: %s: %s\n", folder, strerror(errno));
        return 64;
    }
    setenv("GPUIMGD", daemon, 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    world_open(&bench.world, redis_server_start("--appendonly", "no", NULL));
    int status = bench_all();
    world_close(&bench.world);
    free(bench.folder);
    return status;
}
