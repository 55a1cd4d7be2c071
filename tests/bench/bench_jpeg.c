/*
 * bench_jpeg.c - the JPEG codec of a device beside libjpeg-turbo on all cores.
 *
 *     bench_jpeg --folder PHOTOGRAPHS [PART ...]
 *
 * Files come from pinned memory; results go to pinned memory, or stay on the device where it says
 * so. Every result is compared with libjpeg-turbo's, byte by byte. Sizes are those of the files
 * before scaling: GP/s are gigapixels per second, GB/s gigabytes of JPEG files.
 *
 * After each row, the time of its steps alone on the device, for the batch of one stream. The
 * longest of them bounds the throughput of many streams.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/jpeg_photos.h"

#ifdef GPUIMGD_CUDA

#include "tests/bench/jpeg_flow.h"

#define STREAMS_MAX 16 /* of all devices */
#define SECONDS_PER_ROW 0.4
#define ROUNDS_MIN 3
#define SMALL_SIDE 256
#define SMALL_FILES 32
#define LARGE_WIDTH 8688
#define LARGE_HEIGHT 5792

#define EVERYTHING (STEP_UPLOAD | STEP_DECODE | STEP_SOBEL | STEP_ENCODE)

static const struct jpeg_work
    to_y = {"decode to Y", STEP_UPLOAD | STEP_DECODE, DECODE_LUMA, 8, false, 0},
    to_rgb = {"decode to RGB", STEP_UPLOAD | STEP_DECODE, DECODE_COLOUR, 8, false, 0},
    to_half = {"decode to RGB, 4/8", STEP_UPLOAD | STEP_DECODE, DECODE_COLOUR, 4, false, 0},
    to_quarter = {"decode to RGB, 2/8", STEP_UPLOAD | STEP_DECODE, DECODE_COLOUR, 2, false, 0},
    to_eighth = {"decode to RGB, 1/8", STEP_UPLOAD | STEP_DECODE, DECODE_COLOUR, 1, false, 0},
    to_edges = {"decode, sobel, encode", EVERYTHING, DECODE_LUMA, 8, false, 0},
    to_copy =
        {"decode, encode 4:2:0", EVERYTHING & ~(unsigned)STEP_SOBEL, DECODE_COLOUR, 8, false, 0},
    edges_stay = {"gray edges", EVERYTHING, DECODE_LUMA, 8, true, 0},
    copies_stay = {"RGB to 4:2:0", EVERYTHING & ~(unsigned)STEP_SOBEL, DECODE_COLOUR, 8, true, 0};

/* Images in flight: streams times batch. */
struct load {
    int streams, batch;
};

static struct photos baseline, progressive, small, large;
static size_t wrong_total;

/* ---- rows ---- */

static void print_steps(struct flow *flow, unsigned steps)
{
    static const struct { unsigned step; const char *name; } list[] = {
        {STEP_UPLOAD, "upload"}, {STEP_DECODE, "decode"}, {STEP_SOBEL, "sobel"},
        {STEP_ENCODE, "encode"}};
    double longest = 0, gigapixels = flow_megapixels(flow) * 1e-3;
    const char *name = "";
    printf("    alone, us:");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (!(steps & list[i].step))
            continue;
        double took = flow_time(flow, list[i].step);
        printf(" %s %.0f", list[i].name, took * 1e6);
        if (took > longest) {
            longest = took;
            name = list[i].name;
        }
    }
    printf("; %s bounds it at %.1f GP/s", name, gigapixels / longest);
    if (steps & STEP_UPLOAD)
        printf("; upload at %.1f GB/s", flow_megabytes_in(flow) * 1e-3 /
                                            flow_time(flow, STEP_UPLOAD));
    printf("\n");
}

/* The streams take turns on the first `devices` devices. steps: those that are timed. Returns
 * GP/s. */
static double row(const struct photos *photos, const struct jpeg_work *work, struct load load,
                  unsigned steps, int devices)
{
    struct flow *flows[STREAMS_MAX];
    size_t wrong = 0;
    double megapixels = 0, in = 0, out = 0, gibibytes = 0;
    for (int i = 0; i < load.streams; i++) {
        flows[i] = flow_open(photos, (size_t)i * (size_t)load.batch, (size_t)load.batch, work,
                             i % devices);
        megapixels += flow_megapixels(flows[i]);
        in += flow_megabytes_in(flows[i]);
        out += flow_megabytes_out(flows[i]);
        gibibytes += flow_gibibytes(flows[i]);
    }
    /* The steps that are not timed leave what the others need. */
    if (steps != work->steps)
        flow_run(flows, load.streams, work->steps, 0);
    double once = flow_run(flows, load.streams, steps, 1);
    int rounds = (int)(SECONDS_PER_ROW / once) + 1;
    rounds = rounds > ROUNDS_MIN ? rounds : ROUNDS_MIN;
    double took = flow_run(flows, load.streams, steps, rounds) / rounds;
    for (int i = 0; i < load.streams; i++)
        wrong += flow_wrong(flows[i]);
    wrong_total += wrong;
    printf("  %2d x %4d %9.2f GP/s %9.0f images/s %7.2f GB/s in %7.2f out %9.0f us, %.2f GiB, %s\n",
           load.streams, load.batch, megapixels / took * 1e-3,
           load.streams * load.batch / took, steps & STEP_UPLOAD ? in / took * 1e-3 : 0,
           steps & STEP_ENCODE ? out / took * 1e-3 : 0, took * 1e6, gibibytes,
           wrong ? "WRONG" : "equal to libjpeg-turbo's");
    print_steps(flows[0], steps);
    fflush(stdout);
    for (int i = 0; i < load.streams; i++)
        flow_close(flows[i]);
    return megapixels / took * 1e-3;
}

/* Prepares libjpeg's results, and prints its rate. */
static void begin(struct photos *photos, const struct jpeg_work *work, const char *what)
{
    int repeats = (int)(4 * (size_t)bench_cores() / photos->count) + 1;
    double took = photos_work(photos, work, repeats);
    printf("%s: %s\n  libjpeg-turbo, %d cores %9.2f GP/s %9.0f images/s\n", what, work->name,
           bench_cores(), photos_megapixels(photos) * repeats / took * 1e-3,
           (double)photos->count * repeats / took);
}

static void rows(struct photos *photos, const struct jpeg_work *work, const char *what,
                 unsigned steps, const struct load *loads, size_t count)
{
    if (photos->count == 0)
        return;
    begin(photos, work, what);
    for (size_t i = 0; i < count; i++)
        row(photos, work, loads[i], steps, 1);
}

#define ROWS(photos, work, what, steps, ...)                                                       \
    rows(photos, work, what, steps, (const struct load[]){__VA_ARGS__},                            \
         sizeof((const struct load[]){__VA_ARGS__}) / sizeof(struct load))

/* ---- parts ---- */

static void part_decode(void)
{
    const char *what = "baseline photographs";
    ROWS(&baseline, &to_y, what, to_y.steps, {1, 1}, {1, 15}, {1, 60}, {4, 15}, {4, 60});
    ROWS(&baseline, &to_rgb, what, to_rgb.steps, {1, 1}, {1, 60}, {4, 15}, {4, 60});
    ROWS(&baseline, &to_half, what, to_half.steps, {4, 60});
    ROWS(&baseline, &to_quarter, what, to_quarter.steps, {4, 60});
    ROWS(&baseline, &to_eighth, what, to_eighth.steps, {4, 60});
}

static void part_encode(void)
{
    const char *kept = "encode, files stay on the device", *stored = "encode, files to the host";
    struct jpeg_work edges = edges_stay, copies = copies_stay;
    ROWS(&baseline, &edges, kept, STEP_ENCODE, {1, 1}, {1, 8}, {1, 60});
    edges.stay = false;
    ROWS(&baseline, &edges, stored, STEP_ENCODE, {1, 1}, {2, 8}, {2, 60});
    ROWS(&baseline, &copies, kept, STEP_ENCODE, {1, 1}, {1, 8}, {1, 60});
    copies.stay = false;
    ROWS(&baseline, &copies, stored, STEP_ENCODE, {1, 1}, {2, 8}, {2, 60});
}

/* Thumbnails, and whole photographs, of a quality and of a similarity. */
static void part_similar(void)
{
    static const char *const whats[] = {"encode, a quality of 85", "encode, a similarity of 0.98"};
    for (int i = 0; i < 2; i++) {
        struct jpeg_work work = copies_stay;
        work.ssim = i > 0 ? SSIM_ONE / 100 * 98 : 0;
        work.eighths = 2;
        work.name = "RGB to 4:2:0, 2/8";
        ROWS(&baseline, &work, whats[i], STEP_ENCODE, {1, 1}, {1, 15}, {1, 60}, {4, 60});
        work.eighths = DECODE_EIGHTHS;
        work.name = "RGB to 4:2:0";
        ROWS(&baseline, &work, whats[i], STEP_ENCODE, {1, 1}, {1, 15});
    }
}

static void part_edges(void)
{
    ROWS(&baseline, &to_edges, "baseline photographs, memory to memory", EVERYTHING, {1, 1}, {4, 4},
         {4, 15}, {4, 60}, {8, 30});
    ROWS(&baseline, &to_copy, "baseline photographs, memory to memory", to_copy.steps, {4, 15},
         {4, 60});
}

/* The same on 1, 2, ... devices at the same time, with four streams each. */
static void part_devices(void)
{
    double one = 0;
    begin(&baseline, &to_edges, "baseline photographs, memory to memory");
    for (int devices = 1; devices <= flow_devices() && devices <= STREAMS_MAX / 4; devices++) {
        struct load load = {4 * devices, 15};
        double rate = row(&baseline, &to_edges, load, EVERYTHING, devices);
        one = devices == 1 ? rate : one;
        printf("    %d device%s: %.2f times one\n", devices, devices == 1 ? "" : "s", rate / one);
    }
}

static void part_small(void)
{
    small = photos_make(&baseline, SMALL_FILES, SMALL_SIDE, SMALL_SIDE, 92);
    printf("%d x %d: %.1f KB per file\n", SMALL_SIDE, SMALL_SIDE,
           photos_megabytes(&small) * 1e3 / (double)small.count);
    ROWS(&small, &to_y, "256 x 256", to_y.steps, {4, 256}, {4, 1024});
    ROWS(&small, &to_edges, "256 x 256, memory to memory", EVERYTHING, {1, 1}, {4, 256}, {8, 256},
         {16, 128});
    photos_free(&small);
}

static void part_large(void)
{
    large = photos_make(&baseline, 1, LARGE_WIDTH, LARGE_HEIGHT, 88);
    ROWS(&large, &to_edges, "one of 50 MP, memory to memory", EVERYTHING, {1, 1});
    ROWS(&large, &to_rgb, "one of 50 MP", to_rgb.steps, {1, 1});
    photos_free(&large);
}

static void part_progressive(void)
{
    ROWS(&progressive, &to_y, "progressive photographs", to_y.steps, {1, 1}, {16, 1});
    ROWS(&progressive, &to_rgb, "progressive photographs", to_rgb.steps, {16, 1});
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {{"decode", part_decode},   {"encode", part_encode},          {"edges", part_edges},
             {"similar", part_similar}, {"devices", part_devices},        {"small", part_small},
             {"large", part_large},     {"progressive", part_progressive}};

static bool is_wanted(const char *name, int count, char **wanted)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, wanted[i]) == 0)
            return true;
    return count == 0;
}

int main(int argc, char **argv)
{
    if (argc < 3 || strcmp(argv[1], "--folder") != 0 || argv[2][0] == '\0') {
        fprintf(stderr,
                "usage: bench_jpeg --folder PHOTOGRAPHS [decode] [encode] [edges] [similar] "
                "[devices] [small] [large] [progressive]\n");
        return 2;
    }
    /* Streams that share a hardware queue wait for each other's kernels. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    baseline = photos_read(argv[2], false);
    progressive = photos_read(argv[2], true);
    if (baseline.count == 0) {
        fprintf(stderr, "%s has no sequential JPEG files that the device decodes\n", argv[2]);
        return 2;
    }
    printf("%zu sequential files, %.1f MP, %.2f bits per pixel; %zu progressive files, %.1f MP\n",
           baseline.count, photos_megapixels(&baseline),
           8 * photos_megabytes(&baseline) / photos_megapixels(&baseline), progressive.count,
           photos_megapixels(&progressive));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (is_wanted(parts[i].name, argc - 3, argv + 3))
            parts[i].run();
    if (wrong_total > 0)
        printf("%zu results differ from libjpeg-turbo's\n", wrong_total);
    photos_free(&baseline);
    photos_free(&progressive);
    return wrong_total > 0;
}

#else

int main(void)
{
    fprintf(stderr, "bench_jpeg needs a build with CUDA\n");
    return 2;
}

#endif
