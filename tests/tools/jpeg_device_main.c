/*
 * jpeg_device - the JPEG decoders of a device against libjpeg-turbo, over many files.
 *
 *     jpeg_device corpus FOLDER...               every file below the folders
 *     jpeg_device fuzz SECONDS FOLDER [SEED]     damaged copies of them
 *
 * An image that the device decodes must have libjpeg's samples, and libjpeg must not warn about the
 * file. Any other image must be declined. If only Y of a progressive file is decoded, the host does
 * not read all scans, so what it decodes without an error counts. Counts what is equal, declined
 * and different.
 *
 * Exit status: 0 nothing is different, 1 something is, 2 wrong arguments, 3 the device hangs, 77
 * there is no CUDA device here.
 */
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "gpu/jpeg/progressive.h"
#include "tests/cuda/jpeg_decode_rig.h"

#define NO_CUDA 77
#define BATCH_MAX 600
/* Of a batch's work memory and pixels. */
#define BATCH_BYTES (512ull * MIB)
#define PIXELS_MAX 30000000u
#define FUZZ_BYTES_MAX 60000u
#define FUZZ_PIXELS_MAX 600000u
#define NAMES_MAX 40
/* A batch takes milliseconds on a device, and seconds in emulation. */
#define HANG_SECONDS 120
#define REPORT_SECONDS 60
#define VERDICTS 9
#define SCAN_VERDICTS 8

struct input {
    char *name;
    uint8_t *bytes;
    size_t length;
    struct jpeg_frame *frame; /* NULL: devices do not decode it */
};

/* One decoding of a file. */
struct decoding {
    struct input *input;
    enum decode_as as;
    uint32_t eighths;
    struct image image; /* pixels: on the device */
    struct jpeg_plane planes[JPEG_COMPONENTS_MAX];
    size_t file_at, image_at, work_bytes, scans_bytes;
    long warnings;      /* libjpeg's; -1: an error */
    size_t wrong;       /* bytes */
};

/* Memory that grows, on the device, pinned on the host, or both. */
struct memory {
    uint8_t *device, *host;
    size_t device_bytes, host_bytes;
};

static struct {
    struct memory files, pixels, work, descriptors, scans, verdicts;
    struct decoding decodings[BATCH_MAX];
    size_t count, bytes;
    cudaStream_t stream;
    struct codec_context *context;
    size_t next; /* decoding to compare */
    unsigned long seed;
} run;

static struct {
    size_t files, unreadable, not_taken, too_large, images, equal, different;
    size_t declined[VERDICTS], scans_declined[SCAN_VERDICTS], valid_declined;
    size_t named;
} counts;

static const char *const reasons[VERDICTS] = {
    "decoded", "bad code", "early end", "bytes left over", "restart marker", "other marker",
    "range", "not in step", "coefficients declined"};

/* ---- memory ---- */

static void reserve(struct memory *memory, size_t device, size_t host)
{
    if (device > memory->device_bytes) {
        CHECK_CUDA(cudaFree(memory->device));
        memory->device = rig_device(device);
        memory->device_bytes = device;
    }
    if (host > memory->host_bytes) {
        if (memory->host)
            CHECK_CUDA(cudaFreeHost(memory->host));
        memory->host = rig_pinned(host);
        memory->host_bytes = host;
    }
}

static uint32_t *verdict_of(uint8_t *base, size_t decoding, bool scans)
{
    return (uint32_t *)base + 2 * decoding + scans;
}

/* ---- a batch ---- */

static uint32_t channels_of(const struct decoding *decoding)
{
    return decoding->as == DECODE_LUMA || decoding->input->frame->component_count == 1 ? 1 : 3;
}

/* Lays out files, pixels and work memory, and uploads the files and a pattern for the pixels. */
static void upload_files(void)
{
    size_t files = 0, pixels = RIG_GUARD, work = 0;
    for (size_t i = 0; i < run.count; i++) {
        struct decoding *decoding = &run.decodings[i];
        decoding->file_at = files;
        decoding->image_at = pixels;
        files += rig_align(decoding->input->length + 16);
        pixels += rig_align(decoding->image.stride * decoding->image.height) + RIG_GUARD;
        work += rig_align(decoding->work_bytes) + rig_align(decoding->scans_bytes);
    }
    reserve(&run.files, files, files);
    reserve(&run.pixels, pixels, pixels);
    reserve(&run.work, work, 0);
    reserve(&run.verdicts, run.count * 2 * sizeof(uint32_t), run.count * 2 * sizeof(uint32_t));
    for (size_t i = 0; i < run.count; i++) {
        struct decoding *decoding = &run.decodings[i];
        memcpy(run.files.host + decoding->file_at, decoding->input->bytes,
               decoding->input->length);
        decoding->image.pixels = run.pixels.device + decoding->image_at;
    }
    memset(run.pixels.host, RIG_PATTERN, pixels);
    memset(run.verdicts.host, 0, run.count * 2 * sizeof(uint32_t));
    rig_upload(run.files.device, run.files.host, files, run.stream);
    rig_upload(run.pixels.device, run.pixels.host, pixels, run.stream);
    rig_upload(run.verdicts.device, run.verdicts.host, run.count * 2 * sizeof(uint32_t),
               run.stream);
}

/* Decodes the scans of the progressive files. Returns the bytes of work memory that they take. */
static size_t decode_scans(void)
{
    static struct jpeg_progressive_image images[BATCH_MAX];
    struct jpeg_progressive_batch batch;
    uint32_t count = 0;
    size_t work = 0;
    for (size_t i = 0; i < run.count; i++) {
        struct decoding *decoding = &run.decodings[i];
        bool luma = channels_of(decoding) == 1;
        if (!decoding->input->frame->progressive)
            continue;
        uint8_t *at = run.work.device + work;
        jpeg_progressive_planes(decoding->input->frame, luma, at, decoding->planes);
        images[count++] = (struct jpeg_progressive_image){
            .frame = decoding->input->frame, .file = run.files.device + decoding->file_at,
            .file_bytes = (uint32_t)decoding->input->length, .luma_only = luma, .work = at,
            .verdict = verdict_of(run.verdicts.device, i, true)};
        work += rig_align(decoding->scans_bytes);
    }
    if (count == 0)
        return 0;
    size_t bytes = jpeg_progressive_describe(images, count, NULL, 0, &batch);
    reserve(&run.scans, bytes, bytes);
    jpeg_progressive_describe(images, count, run.scans.host, bytes, &batch);
    rig_upload(run.scans.device, run.scans.host, bytes, run.stream);
    CHECK_CUDA(jpeg_progressive_decode(&batch, run.scans.device, run.stream));
    CHECK_CUDA(jpeg_progressive_complete(&batch, run.scans.device, run.stream));
    return work;
}

/* work: bytes of the work memory in use. */
static void decode_images(size_t work)
{
    static struct jpeg_decode_image images[BATCH_MAX];
    struct jpeg_decode_batch batch;
    for (size_t i = 0; i < run.count; i++) {
        const struct decoding *decoding = &run.decodings[i];
        bool progressive = decoding->input->frame->progressive;
        images[i] = (struct jpeg_decode_image){
            .frame = decoding->input->frame, .file = run.files.device + decoding->file_at,
            .file_bytes = (uint32_t)decoding->input->length, .as = decoding->as,
            .eighths = decoding->eighths, .image = decoding->image,
            .verdict = verdict_of(run.verdicts.device, i, false), .work = run.work.device + work,
            .coefficients = progressive ? decoding->planes : NULL,
            .coefficients_verdict =
                progressive ? verdict_of(run.verdicts.device, i, true) : NULL};
        work += rig_align(decoding->work_bytes);
    }
    size_t bytes = jpeg_decode_describe(images, run.count, NULL, 0, &batch);
    reserve(&run.descriptors, bytes, bytes);
    jpeg_decode_describe(images, run.count, run.descriptors.host, bytes, &batch);
    rig_upload(run.descriptors.device, run.descriptors.host, bytes, run.stream);
    CHECK_CUDA(jpeg_decode_launch(&batch, run.descriptors.device, run.stream));
}

/* ---- libjpeg's pixels ---- */

static void compare_decoding(size_t index)
{
    struct decoding *decoding = &run.decodings[index];
    const struct image *size = &decoding->image;
    size_t row = (size_t)size->width * size->channels;
    uint8_t *reference = calloc(size->height, size->stride);
    const uint8_t *ours = run.pixels.host + decoding->image_at;
    J_COLOR_SPACE space = size->channels == 1           ? JCS_GRAYSCALE
                          : decoding->as == DECODE_YCC ? JCS_YCbCr
                                                       : JCS_RGB;
    decoding->warnings = rig_decode(decoding->input->bytes, decoding->input->length, space,
                                    decoding->eighths, reference, size->stride);
    decoding->wrong = 0;
    for (uint32_t y = 0; y < size->height; y++)
        for (size_t x = 0; x < row; x++)
            decoding->wrong += ours[y * size->stride + x] != reference[y * size->stride + x];
    for (size_t i = 0; i < RIG_GUARD; i++)
        if (ours[(ptrdiff_t)i - RIG_GUARD] != RIG_PATTERN)
            decoding->wrong++;
    free(reference);
}

static void *compare_some(void *unused)
{
    size_t index;
    while ((index = __atomic_fetch_add(&run.next, 1, __ATOMIC_RELAXED)) < run.count)
        compare_decoding(index);
    return unused;
}

static void compare_all(void)
{
    enum { threads_max = 32 };
    pthread_t threads[threads_max];
    long wanted = sysconf(_SC_NPROCESSORS_ONLN);
    int count = wanted < threads_max ? (int)wanted : threads_max;
    run.next = 0;
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, compare_some, NULL) != 0)
            abort();
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* ---- results ---- */

/* Whether the host decodes the image without an error to the device's samples. */
static bool host_agrees(const struct decoding *decoding)
{
    static const struct codec_limits limits = {
        .pixels_max = PIXELS_MAX, .side_max = SIDE_CEILING, .jpeg_scans_max = 100,
        .jpeg_warnings_max = JPEG_WARNINGS_MAX};
    const struct input *input = decoding->input;
    const struct decode_request request = {decoding->as, decoding->eighths};
    struct image image = decoding->image;
    struct image_info info;
    struct error error = {0};
    uint8_t *pixels = calloc(image.height, image.stride);
    image.pixels = pixels;
    bool agrees = codec_probe(run.context, input->bytes, input->length, &limits, &info, &error) ==
                      STATUS_OK &&
                  codec_decode(run.context, input->bytes, input->length, &info, &request, &limits,
                               &image, &error) == STATUS_OK;
    image_info_clear(&info);
    for (uint32_t y = 0; y < image.height; y++)
        agrees = agrees && memcmp(pixels + y * image.stride,
                                  run.pixels.host + decoding->image_at + y * image.stride,
                                  (size_t)image.width * image.channels) == 0;
    free(pixels);
    return agrees;
}

static void keep_file(const struct input *input)
{
    char path[64];
    snprintf(path, sizeof path, "different-%lu-%zu.jpg", run.seed, counts.different);
    FILE *to = fopen(path, "wb");
    if (to) {
        fwrite(input->bytes, 1, input->length, to);
        fclose(to);
        printf("  kept as %s\n", path);
    }
}

static void count_decoding(size_t index, bool name_declined)
{
    const struct decoding *decoding = &run.decodings[index];
    uint32_t verdict = *verdict_of(run.verdicts.host, index, false);
    uint32_t scans = *verdict_of(run.verdicts.host, index, true);
    counts.images++;
    if (verdict == JPEG_DECODE_DONE) {
        bool part = decoding->as == DECODE_LUMA && decoding->input->frame->progressive;
        bool equal = decoding->wrong == 0 &&
                     (decoding->warnings == 0 || (part && host_agrees(decoding)));
        counts.equal += equal;
        if (equal)
            return;
        counts.different++;
        printf("DIFFERENT: %s as %d, %u/8: %zu bytes, libjpeg: %ld warnings\n",
               decoding->input->name, (int)decoding->as, decoding->eighths, decoding->wrong,
               decoding->warnings);
        keep_file(decoding->input);
        return;
    }
    counts.declined[verdict < VERDICTS ? verdict : 0]++;
    if (verdict == JPEG_DECODE_NO_INPUT)
        counts.scans_declined[scans < SCAN_VERDICTS ? scans : 0]++;
    counts.valid_declined += decoding->warnings == 0;
    if (decoding->warnings == 0 && name_declined && counts.named++ < NAMES_MAX)
        printf("  declined, but valid: %s as %d, %u/8: %s %u\n", decoding->input->name,
               (int)decoding->as, decoding->eighths, reasons[verdict < VERDICTS ? verdict : 0],
               scans);
}

static void run_batch(bool name_declined)
{
    if (run.count == 0)
        return;
    alarm(HANG_SECONDS);
    upload_files();
    decode_images(decode_scans());
    const struct decoding *last = &run.decodings[run.count - 1];
    rig_download(run.pixels.host, run.pixels.device,
                 last->image_at + last->image.stride * last->image.height, run.stream);
    rig_download(run.verdicts.host, run.verdicts.device, run.count * 2 * sizeof(uint32_t),
                 run.stream);
    CHECK_CUDA(cudaStreamSynchronize(run.stream));
    compare_all();
    for (size_t i = 0; i < run.count; i++)
        count_decoding(i, name_declined);
    run.count = run.bytes = 0;
    alarm(0);
}

static void on_alarm(int signal)
{
    static const char text[] = "jpeg_device: a batch takes longer than 2 minutes\n";
    (void)signal;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(4);
    _exit(3);
}

/* Adds a decoding of an input whose frame is known. The input must stay until the batch has run. */
static void add_decoding(struct input *input, enum decode_as as, uint32_t eighths,
                         bool name_declined)
{
    struct decoding *decoding = &run.decodings[run.count];
    const struct jpeg_frame *frame = input->frame;
    memset(decoding, 0, sizeof *decoding);
    decoding->input = input;
    decoding->as = as;
    decoding->eighths = eighths;
    decoding->work_bytes = jpeg_decode_work_bytes(frame, input->length, as, eighths);
    uint32_t channels = channels_of(decoding);
    if (frame->progressive)
        decoding->scans_bytes =
            jpeg_progressive_work_bytes(frame, (uint32_t)input->length, channels == 1);
    if (decoding->work_bytes == 0 || (frame->progressive && decoding->scans_bytes == 0)) {
        counts.not_taken++;
        return;
    }
    decoding->image.width = image_scaled(frame->width, eighths);
    decoding->image.height = image_scaled(frame->height, eighths);
    decoding->image.channels = channels;
    decoding->image.stride = image_stride(decoding->image.width, channels);
    run.bytes += decoding->work_bytes + decoding->scans_bytes +
                 decoding->image.stride * decoding->image.height;
    run.count++;
    if (run.count == BATCH_MAX || run.bytes > BATCH_BYTES)
        run_batch(name_declined);
}

/* ---- files ---- */

static struct input *inputs;
static size_t input_count;

static int add_input(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)walk;
    if (type != FTW_F || status->st_size < 4)
        return 0;
    FILE *from = fopen(path, "rb");
    if (!from)
        return 0;
    struct input input = {strdup(path), malloc((size_t)status->st_size), 0, NULL};
    input.length = fread(input.bytes, 1, (size_t)status->st_size, from);
    fclose(from);
    inputs = realloc(inputs, (input_count + 1) * sizeof *inputs);
    inputs[input_count++] = input;
    return 0;
}

static void read_folder(const char *folder)
{
    if (nftw(folder, add_input, 16, FTW_PHYS) != 0)
        fprintf(stderr, "jpeg_device: %s: cannot be read\n", folder);
}

/* Reads the frames of all inputs, and counts those that devices do not decode. */
static void read_frames(void)
{
    for (size_t i = 0; i < input_count; i++) {
        struct jpeg_frame frame;
        counts.files++;
        if (!rig_frame(inputs[i].bytes, inputs[i].length, &frame)) {
            counts.unreadable++;
            continue;
        }
        if ((uint64_t)frame.width * frame.height > PIXELS_MAX) {
            counts.too_large++;
            continue;
        }
        inputs[i].frame = malloc(sizeof frame);
        *inputs[i].frame = frame;
    }
}

/* ---- corpus ---- */

static void run_corpus(void)
{
    static const enum decode_as targets[] = {DECODE_LUMA, DECODE_COLOUR, DECODE_YCC};
    for (size_t i = 0; i < input_count; i++) {
        if (!inputs[i].frame)
            continue;
        int target_count = inputs[i].frame->component_count == 1 ? 1 : 3;
        for (int target = 0; target < target_count; target++)
            for (uint32_t eighths = 8; eighths > 0; eighths /= 2)
                add_decoding(&inputs[i], targets[target], eighths, true);
    }
    run_batch(true);
}

/* ---- fuzz ---- */

static uint32_t random_below(uint32_t *random, size_t limit)
{
    return limit ? rig_random(random) % (uint32_t)limit : 0;
}

/* Position of the n-th marker segment with this code, or 0. */
static size_t find_segment(const struct input *input, uint8_t code)
{
    for (size_t at = 2; at + 4 < input->length && input->bytes[at] == 0xFF;
         at += 2 + (size_t)(input->bytes[at + 2] << 8 | input->bytes[at + 3]))
        if (input->bytes[at + 1] == code)
            return at;
    return 0;
}

static void insert_marker(struct input *input, size_t at, uint32_t *random)
{
    static const uint8_t codes[] = {0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7,
                                    0xD9, 0x00, 0xFF, 0xDA, 0xC4, 0xDD, 0xDB, 0x01};
    memmove(input->bytes + at + 2, input->bytes + at, input->length - at);
    input->bytes[at] = 0xFF;
    input->bytes[at + 1] = codes[random_below(random, sizeof codes)];
    input->length += 2;
}

static void swap_pieces(struct input *input, uint32_t *random)
{
    size_t bytes = 1 + random_below(random, input->length / 4);
    size_t a = random_below(random, input->length - bytes);
    size_t b = random_below(random, input->length - bytes);
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = input->bytes[a + i];
        input->bytes[a + i] = input->bytes[b + i];
        input->bytes[b + i] = byte;
    }
}

/* Changes the input once. Its memory has room for 64 bytes more. */
static void mutate(struct input *input, uint32_t *random)
{
    static const uint8_t segments[] = {0xC4, 0xDB, 0xDA, 0xDD, 0xC0, 0xC2};
    size_t at = random_below(random, input->length), header;
    switch (random_below(random, 8)) {
    case 0:
    case 1:
        input->bytes[at] ^= (uint8_t)(1u << random_below(random, 8));
        break;
    case 2:
        for (uint32_t left = 1 + random_below(random, 12); left > 0 && at < input->length; left--)
            input->bytes[at++] = (uint8_t)rig_random(random);
        break;
    case 3:
        input->length = input->length > 64 ? 64 + random_below(random, input->length - 64) : at + 1;
        break;
    case 4:
        if (input->length < 2)
            break;
        insert_marker(input, at, random);
        break;
    case 5:
        swap_pieces(input, random);
        break;
    case 6: /* a byte of a segment: Huffman tables, quantisers, scan, interval, frame */
        header = find_segment(input, segments[random_below(random, sizeof segments)]);
        at = header + 4 + random_below(random, 40);
        if (header > 0 && at < input->length)
            input->bytes[at] = (uint8_t)rig_random(random);
        break;
    default: /* a byte less */
        memmove(input->bytes + at, input->bytes + at + 1, input->length - at - 1);
        input->length--;
        break;
    }
}

/* Adds a damaged copy of an input, if it is still one for the device. */
static void add_mutant(const struct input *from, struct input *to, struct jpeg_frame *frame,
                       uint32_t *random)
{
    static const enum decode_as targets[] = {DECODE_LUMA, DECODE_COLOUR, DECODE_YCC};
    static const uint32_t scales[] = {8, 8, 8, 4, 2, 1};
    free(to->bytes);
    to->name = from->name;
    to->bytes = malloc(from->length + 64);
    memcpy(to->bytes, from->bytes, from->length);
    to->length = from->length;
    to->frame = frame;
    for (uint32_t left = 1 + random_below(random, 3); left > 0 && to->length > 8; left--)
        mutate(to, random);
    if (!rig_frame(to->bytes, to->length, frame)) {
        counts.unreadable++;
        return;
    }
    if ((uint64_t)frame->width * frame->height > FUZZ_PIXELS_MAX) {
        counts.too_large++;
        return;
    }
    add_decoding(to, targets[random_below(random, 3)], scales[random_below(random, 6)], false);
}

static void swap_inputs(struct input *a, struct input *b)
{
    struct input other = *a;
    *a = *b;
    *b = other;
}

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void run_fuzz(double seconds)
{
    static struct input mutants[BATCH_MAX];
    static struct jpeg_frame frames[BATCH_MAX];
    uint32_t random = (uint32_t)run.seed * 2654435761u | 1;
    size_t usable = 0;
    double start = now_seconds(), reported = start, now;
    for (size_t i = 0; i < input_count; i++)
        if (inputs[i].frame && inputs[i].length <= FUZZ_BYTES_MAX &&
            (uint64_t)inputs[i].frame->width * inputs[i].frame->height <= FUZZ_PIXELS_MAX)
            swap_inputs(&inputs[usable++], &inputs[i]);
    printf("seed %lu, %zu files\n", run.seed, usable);
    fflush(stdout);
    counts.unreadable = counts.not_taken = counts.too_large = counts.files = 0;
    do {
        for (size_t i = 0; i < BATCH_MAX / 2 && usable > 0; i++, counts.files++)
            add_mutant(&inputs[random_below(&random, usable)], &mutants[i], &frames[i], &random);
        run_batch(false);
        now = now_seconds();
        if (now - reported >= REPORT_SECONDS) {
            printf("%.0f s: %zu images, %zu equal, %zu DIFFERENT\n", now - start, counts.images,
                   counts.equal, counts.different);
            fflush(stdout);
            reported = now;
        }
    } while (usable > 0 && counts.different < 20 && now - start < seconds);
    for (size_t i = 0; i < BATCH_MAX; i++)
        free(mutants[i].bytes);
}

/* For the leak checker. The mutants of a fuzz run share the names. */
static void free_inputs(void)
{
    for (size_t i = 0; i < input_count; i++) {
        free(inputs[i].name);
        free(inputs[i].bytes);
        free(inputs[i].frame);
    }
    free(inputs);
    codec_context_destroy(run.context);
}

static void print_counts(void)
{
    printf("%zu files: %zu not for devices, %zu too large; %zu images not taken\n", counts.files,
           counts.unreadable, counts.too_large, counts.not_taken);
    printf("%zu images: %zu equal, %zu DIFFERENT", counts.images, counts.equal, counts.different);
    for (int i = 1; i < VERDICTS; i++)
        printf(", %s %zu", reasons[i], counts.declined[i]);
    printf("\ndeclined coefficients by reason (progressive.h):");
    for (int i = 0; i < SCAN_VERDICTS; i++)
        printf(" %zu", counts.scans_declined[i]);
    printf("\ndeclined, but valid for libjpeg: %zu\n", counts.valid_declined);
}

int main(int argc, char **argv)
{
    int devices = 0;
    bool corpus = argc >= 3 && strcmp(argv[1], "corpus") == 0;
    bool fuzz = argc >= 4 && strcmp(argv[1], "fuzz") == 0;
    if (!corpus && !fuzz) {
        fprintf(stderr, "jpeg_device corpus FOLDER... | fuzz SECONDS FOLDER [SEED]\n");
        return 2;
    }
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        return NO_CUDA;
    signal(SIGALRM, on_alarm);
    CHECK_CUDA(cudaStreamCreateWithFlags(&run.stream, cudaStreamNonBlocking));
    run.context = codec_context_create();
    run.seed = argc >= 5 ? strtoul(argv[4], NULL, 10) : (unsigned long)time(NULL);
    for (int i = corpus ? 2 : 3; i < (corpus ? argc : 4); i++)
        read_folder(argv[i]);
    read_frames();
    if (corpus)
        run_corpus();
    else
        run_fuzz(atof(argv[2]));
    print_counts();
    free_inputs();
    return counts.different > 0;
}
