/*
 * webp_device - the WebP encoder of a device against libwebp, over many images.
 *
 *     webp_device corpus [FOLDER [PART]]        23,000 images, or every PART-th of them: drawings,
 *                                               and parts of the JPEG files below the folder
 *     webp_device fuzz SECONDS [SEED]           random drawings
 *     webp_device one KIND WIDTH HEIGHT CHANNELS QUALITY SEED [FOLDER]
 *
 * Every file must have libwebp's bytes. Long files may be declined. Counts what is equal, declined
 * and different. `one` repeats a drawing that a difference names, and saves both files in the
 * folder. Without CUDA, the kernels run on the host; then `fuzz` runs the threads of each batch in
 * another order.
 *
 * Exit status: 0 nothing is different, 1 something is, 2 wrong arguments, 77 there is no CUDA
 * device here. A batch that takes minutes ends the program by SIGALRM.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#ifdef GPUIMGD_WEBP

#include "tests/cuda/webp_encode_rig.h"
#include "tests/fixtures/process.h"

#if !ON_DEVICE
#include "tests/cuda/simt.h"
#endif

#define NO_CUDA         77
#define PHOTOGRAPHS_MAX 64
#define SIDE_SMALL      65
#define SMALL_ROUNDS    4
#define HANG_SECONDS    300
#define REPORT_SECONDS  60

static struct {
    struct raster photographs[PHOTOGRAPHS_MAX];
    uint32_t photograph_count;
    uint32_t number, part; /* of the images of the corpus */
    uint32_t random;
} run = {.part = 1};

/* ---- photographs ---- */

static int add_photograph(const char *path, const struct stat *stat, int type, struct FTW *at)
{
    (void)stat, (void)at;
    const char *suffix = strrchr(path, '.');
    if (type != FTW_F || !suffix || run.photograph_count == PHOTOGRAPHS_MAX ||
        (strcasecmp(suffix, ".jpg") != 0 && strcasecmp(suffix, ".jpeg") != 0))
        return 0;
    struct raster raster = raster_load(path, RASTER_COLOUR);
    if (raster.pixels)
        run.photographs[run.photograph_count++] = raster;
    return 0;
}

/* ---- batches ---- */

static void report(void)
{
    printf("%zu equal, %zu declined, %zu different\n", webp.equal, webp.declined, webp.different);
    fflush(stdout);
}

static void flush(void)
{
    alarm(HANG_SECONDS);
    run_batch(1);
}

static uint32_t below(uint32_t bound)
{
    return picture_random(&run.random) % bound;
}

/* ---- the corpus ---- */

static uint32_t channels_of(uint32_t number)
{
    static const uint32_t channels[] = {3, 3, 1, 4};
    return channels[number % 4];
}

/* Adds an image of the next kind: a drawing, or with photographs in one of three cases a part of
 * one. */
static void add_next(uint32_t width, uint32_t height, int quality)
{
    uint32_t number = run.number++;
    if (number % run.part != 0)
        return;
    alarm(HANG_SECONDS);
    struct webp_case *self = add_case(width, height, channels_of(number / 7), quality,
                                      (enum drawing_kind)(number % DRAWING_KINDS), number);
    if (run.photograph_count > 0 && number % 3 == 0)
        self->photograph = &run.photographs[number / 3 % run.photograph_count];
}

static void run_corpus(void)
{
    static const int usual[] = {80, 75, 90, 60, 50, 95, 85, 100};
    for (uint32_t round = 0; round < SMALL_ROUNDS; round++)
        for (uint32_t i = 0; i < SIDE_SMALL * SIDE_SMALL; i++)
            add_next(1 + i % SIDE_SMALL, 1 + i / SIDE_SMALL, (int)below(101));
    for (int i = 0; i < 5000; i++)
        add_next(1 + below(400), 1 + below(400), i % 2 ? (int)below(101) : usual[i / 2 % 8]);
    for (int i = 0; i < 900; i++)
        add_next(512, 341, usual[i % 8]);
    for (int i = 0; i < 200; i++)
        add_next(1200, 800, usual[i % 8]);
    for (int i = 0; i < 24; i++)
        add_next(2560, 1600, usual[i % 8]);
    flush();
}

/* ---- random images ---- */

static void add_random(void)
{
    uint32_t most = ON_DEVICE ? 1 + below(below(4) ? 100 : 1000) : 1 + below(below(4) ? 40 : 100);
    struct webp_case *self =
        add_case(1 + below(most), 1 + below(most), channels_of(below(4)), (int)below(101),
                 (enum drawing_kind)below(DRAWING_KINDS), picture_random(&run.random));
    if (below(8) == 0)
        self->header_more = 2 * below(2000);
    if (below(8) == 0)
        self->trailer_bytes = 2 * below(2000);
    if (below(16) == 0)
        self->bytes_max = 1 + below(self->width * self->height / 2 + 1000);
    self->quality += self->bytes_max > 0 && self->quality == 0;
    if (self->channels == 4 && below(8) == 0) {
        self->alpha = below(2) ? ONE_PIXEL : TRANSPARENT;
        self->expect = DECLINED;
    }
}

static void fuzz(double seconds)
{
    double start = process_now(), next = REPORT_SECONDS;
    while (process_now() - start < seconds) {
        uint32_t count = below(4) ? 1 + below(24) : 1 + below(ON_DEVICE ? BATCH_MAX : 60);
        for (uint32_t i = 0; i < count; i++)
            add_random();
        webp.chunk_tokens = below(2) ? 256u << below(3) : 0;
#if !ON_DEVICE
        simt_shuffle(below(2) ? picture_random(&run.random) : 0);
#endif
        flush();
        if (process_now() - start < next)
            continue;
        report();
        next += REPORT_SECONDS;
    }
}

/* ---- main ---- */

static void open_device(void)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("there is no CUDA device\n");
        exit(NO_CUDA);
    }
    check(cudaStreamCreateWithFlags(&webp.stream, cudaStreamNonBlocking));
    webp.prints_differences = true;
}

static bool add_one(char **argv)
{
    int kind = 0;
    while (kind < DRAWING_KINDS && strcmp(drawing_names[kind], argv[0]) != 0)
        kind++;
    if (kind == DRAWING_KINDS)
        return false;
    add_case((uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]),
             atoi(argv[4]), (enum drawing_kind)kind, (uint32_t)strtoul(argv[5], NULL, 10));
    return true;
}

int main(int argc, char **argv)
{
    open_device();
    if (argc >= 2 && argc <= 4 && strcmp(argv[1], "corpus") == 0) {
        run.random = 1;
        if (argc > 2 && nftw(argv[2], add_photograph, 16, 0) != 0)
            return 2;
        if (argc > 3 && atoi(argv[3]) > 0)
            run.part = (uint32_t)atoi(argv[3]);
        run_corpus();
    } else if (argc >= 3 && argc <= 4 && strcmp(argv[1], "fuzz") == 0) {
        run.random = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : (uint32_t)time(NULL);
        run.random = run.random ? run.random : 1;
        printf("seed %u\n", run.random);
        fuzz(atof(argv[2]));
    } else if (argc >= 8 && argc <= 9 && strcmp(argv[1], "one") == 0 && add_one(argv + 2)) {
        webp.folder = argv[8];
        flush();
    } else {
        fprintf(stderr, "webp_device corpus [FOLDER [PART]] | fuzz SECONDS [SEED] | "
                        "one KIND WIDTH HEIGHT CHANNELS QUALITY SEED [FOLDER]\n");
        return 2;
    }
    report();
    return webp.different > 0;
}

#else

int main(void)
{
    printf("webp_device: built without libwebp (WEBP=no)\n");
    return 77;
}

#endif
