/*
 * storm - decodes AVIF files with damaged trees of boxes, under hard limits of memory and time.
 *
 *     storm [--seconds 60] [--seed N] [--save FILE]
 *
 * libFuzzer does not see into gpuimgd-codec, so this program knows the structure of a file: it
 * copies, removes, exchanges and moves boxes within files of all kinds, and changes their numbers.
 * It decodes each file by the codec process. A file must end with success or with an error that
 * blames the file, before its deadline and some time to end the process; and the resident memory of
 * all processes must stay below what was reserved for the decode and the constant of a worker. The
 * exit status is 1 if a file breaks this; it is saved.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "codecs/codec.h"
#include "codecs/process/process.h"
#include "conf/clock.h"
#include "tests/fixtures/arguments.h"
#include "tests/fixtures/avif_boxes.h"
#include "tests/fixtures/avif_items.h"
#include "tests/fixtures/picture.h"

#define DEADLINE_S 1.0
#define ENDING_S   4.0 /* on a busy machine */
#define BOXES_MAX  512
#define SEEDS_MAX  16
#define BYTES_MAX  (256 * KIB)

struct box {
    size_t at, bytes;
};

static struct {
    struct picture_file seeds[SEEDS_MAX];
    size_t seed_count;
    uint64_t random;
    struct codec_context *context;
    size_t decoded, most_bytes; /* most_bytes: the largest that was reserved */
    uint64_t counts[STATUS_COUNT];
} storm;

static uint32_t draw(uint32_t below)
{
    storm.random = storm.random * 6364136223846793005ull + 1442695040888963407ull;
    return below ? (uint32_t)(storm.random >> 33) % below : 0;
}

/* ---- boxes ---------------------------------------------------------------------------------- */

static bool has_boxes(const uint8_t *type)
{
    static const char parents[][5] = {"meta", "iprp", "ipco", "iref", "iinf", "moov", "trak",
                                      "mdia", "minf", "stbl", "stsd"};
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++)
        if (memcmp(type, parents[i], 4) == 0)
            return true;
    return false;
}

/* Bytes of a parent before its first box. */
static size_t head_bytes(const uint8_t *type)
{
    static const struct {
        char type[5];
        size_t bytes;
    } heads[] = {{"meta", 12}, {"iref", 12}, {"iinf", 14}, {"stsd", 16}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (memcmp(type, heads[i].type, 4) == 0)
            return heads[i].bytes;
    return 8;
}

static uint32_t size_at(const struct picture_file *file, size_t at)
{
    const uint8_t *p = file->bytes + at;
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_size(struct picture_file *file, size_t at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        file->bytes[at + (size_t)i] = (uint8_t)(value >> (24 - 8 * i));
}

static size_t list_boxes(const struct picture_file *file, size_t from, size_t to,
                         struct box boxes[BOXES_MAX], size_t count)
{
    while (from + 8 <= to && count < BOXES_MAX) {
        size_t bytes = size_at(file, from);
        if (bytes < 8 || bytes > to - from)
            break;
        boxes[count++] = (struct box){from, bytes};
        const uint8_t *type = file->bytes + from + 4;
        if (has_boxes(type) && bytes > head_bytes(type))
            count = list_boxes(file, from + head_bytes(type), from + bytes, boxes, count);
        from += bytes;
    }
    return count;
}

/* The boxes around a place grow or shrink, mostly. */
static void fit_parents(struct picture_file *file, const struct box *boxes, size_t count, size_t at,
                        int64_t more)
{
    for (size_t i = 0; i < count && draw(16) > 0; i++)
        if (boxes[i].at < at && at < boxes[i].at + boxes[i].bytes)
            put_size(file, boxes[i].at, (uint32_t)((int64_t)boxes[i].bytes + more));
}

/* ---- changes -------------------------------------------------------------------------------- */

static void remove_bytes(struct picture_file *file, size_t at, size_t bytes)
{
    memmove(file->bytes + at, file->bytes + at + bytes, file->length - at - bytes);
    file->length -= bytes;
}

static void insert_box(struct picture_file *file, const struct box *boxes, size_t count)
{
    const struct picture_file *other = &storm.seeds[draw((uint32_t)storm.seed_count)];
    struct box theirs[BOXES_MAX];
    size_t their_count = list_boxes(other, 0, other->length, theirs, 0);
    struct box box = theirs[draw((uint32_t)their_count)], place = boxes[draw((uint32_t)count)];
    for (uint32_t copies = draw(8) ? 1 : 1 + draw(400);
         copies > 0 && file->length + box.bytes < BYTES_MAX; copies--) {
        picture_insert(file, place.at, other->bytes + box.at, box.bytes);
        struct box now[BOXES_MAX];
        size_t now_count = list_boxes(file, 0, file->length, now, 0);
        fit_parents(file, now, now_count, place.at, (int64_t)box.bytes);
    }
}

static uint32_t odd_number(void)
{
    static const uint32_t odd[] = {0, 1, 2, 255, 256, 4096, 65535, 65536, 0x7FFFFFFF, 0x80000000,
                                   0xFFFFFFFF};
    return draw(2) ? odd[draw(sizeof odd / sizeof *odd)] : draw(70000);
}

/* A number of 1, 2 or 4 bytes in the content. */
static void change_number(struct picture_file *file, const struct box *box)
{
    uint32_t width = 1u << draw(3), value = odd_number();
    if (box->bytes < 8 + width)
        return;
    size_t at = box->at + 8 + draw((uint32_t)(box->bytes - 8 - width + 1));
    for (uint32_t i = 0; i < width; i++)
        file->bytes[at + i] = (uint8_t)(value >> 8 * (width - 1 - i));
}

static void change(struct picture_file *file)
{
    struct box boxes[BOXES_MAX];
    size_t count = list_boxes(file, 0, file->length, boxes, 0);
    if (count == 0)
        return;
    struct box box = boxes[draw((uint32_t)count)];
    switch (draw(10)) {
    case 0:
        insert_box(file, boxes, count);
        break;
    case 1:
        fit_parents(file, boxes, count, box.at, -(int64_t)box.bytes);
        remove_bytes(file, box.at, box.bytes);
        break;
    case 2:
        put_size(file, box.at, odd_number());
        break;
    case 3: /* another type */
        memcpy(file->bytes + box.at + 4, file->bytes + boxes[draw((uint32_t)count)].at + 4, 4);
        break;
    default:
        change_number(file, &box);
    }
}

/* ---- one file ------------------------------------------------------------------------------- */

static size_t peak_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage); /* of processes that have ended */
    return (size_t)usage.ru_maxrss * KIB;
}

static enum status decode(const struct picture_file *file, struct error *error)
{
    struct codec_limits limits = {.pixels_max = 4000000, .side_max = 4096, .metadata = METADATA_ALL,
                                  .deadline_ns = clock_after_s(clock_now_ns(), DEADLINE_S)};
    struct image_info info;
    if (codec_probe(storm.context, file->bytes, file->length, &limits, &info, error) == STATUS_OK) {
        struct decode_request whole = {0};
        struct image image = {.width = info.width, .height = info.height, .channels = info.channels,
                              .stride = image_stride(info.width, info.channels)};
        image.pixels = malloc(image.stride * image.height);
        storm.most_bytes = info.codec_bytes > storm.most_bytes ? info.codec_bytes
                                                               : storm.most_bytes;
        if (image.pixels &&
            codec_decode(storm.context, file->bytes, file->length, &info, &whole, &limits, &image,
                         error) == STATUS_OK)
            storm.decoded++;
        free(image.pixels);
    }
    image_info_clear(&info);
    return error->status;
}

/* The processes of 200 files end together, so that their memory is known. */
static bool keeps_promises(const struct picture_file *file, size_t number)
{
    struct error error = {0};
    uint64_t start_ns = clock_now_ns();
    enum status status = decode(file, &error);
    storm.counts[status]++;
    bool blames = status == STATUS_OK || status == STATUS_DECODE_FAILED ||
                  status == STATUS_DECODE_LIMIT || status == STATUS_IMAGE_TOO_LARGE ||
                  status == STATUS_UNSUPPORTED_FORMAT;
    bool in_time = clock_now_ns() < clock_after_s(start_ns, DEADLINE_S + ENDING_S);
    if (number % 200 == 0) {
        codec_context_destroy(storm.context);
        storm.context = codec_context_create();
    }
    bool fits = peak_bytes() <= storm.most_bytes + CODEC_PROCESS_BYTES;
    if (!blames || !in_time || !fits)
        fprintf(stderr, "file %zu: %s %s; %.1f s; peak %zu MiB of %zu\n", number,
                status_name(status), error.text, (double)(clock_now_ns() - start_ns) / 1e9,
                peak_bytes() >> 20, (size_t)((storm.most_bytes + CODEC_PROCESS_BYTES) >> 20));
    return blames && in_time && fits;
}

/* ---- seeds ---------------------------------------------------------------------------------- */

struct memory_sink {
    struct codec_sink sink;
    struct picture_file file;
};

static enum status keep(struct codec_sink *sink, size_t used, struct error *error)
{
    struct memory_sink *self = (struct memory_sink *)sink;
    (void)error;
    picture_insert(&self->file, self->file.length, sink->buffer, used);
    return STATUS_OK;
}

static struct picture_file encode(uint32_t side, uint32_t channels, bool tagged)
{
    uint8_t buffer[4096];
    struct error error = {0};
    struct picture_file exif = picture_exif(6, false, true), icc = picture_icc(400, "RGB ");
    struct image image = {.width = side, .height = side, .channels = channels,
                          .stride = (size_t)side * channels,
                          .pixels = picture_pixels(side, side, channels, 1)};
    struct encode_request request = {.format = format_by_name("avif"), .encoder.quality = 50,
                                     .orientation = tagged ? 6 : 1};
    struct memory_sink sink = {.sink = {.buffer = buffer, .capacity = sizeof buffer,
                                        .flush = keep}};
    if (tagged) {
        request.exif = exif.bytes, request.exif_bytes = exif.length;
        request.icc = icc.bytes, request.icc_bytes = icc.length;
    }
    if (codec_encode(storm.context, &image, &request, &sink.sink, &error) != STATUS_OK) {
        fprintf(stderr, "storm: %s\n", error.text);
        exit(1);
    }
    free(image.pixels);
    picture_free(&exif);
    picture_free(&icc);
    return sink.file;
}

static void add_seed(struct picture_file file)
{
    storm.seeds[storm.seed_count++] = file;
}

static void make_seeds(void)
{
    static const struct avif_layout layouts[] = {
        {.columns = 2, .rows = 2, .cell_width = 64, .cell_height = 64, .width = 120, .height = 100},
        {.columns = 4, .rows = 4, .cell_width = 64, .cell_height = 64, .width = 256, .height = 256},
        {.width = 64, .height = 64, .cell_width = 64, .cell_height = 64, .thumbnail = true},
        {.width = 64, .height = 64, .cell_width = 64, .cell_height = 64, .layers = 3},
    };
    struct picture_file plain = encode(64, 3, false), large = encode(1024, 1, false);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        add_seed(avif_build(&plain, &layouts[i]));
    add_seed(avif_build(&large, &layouts[1])); /* hidden larger cells */
    for (unsigned idat = 0; idat < 2; idat++) {
        struct picture_file file = picture_cut(&plain, plain.length);
        avif_put_in_pieces(&file, &(struct avif_pieces){3, false, idat});
        add_seed(file);
    }
    add_seed(encode(40, 4, true));
    add_seed(encode(33, 1, true));
    add_seed(plain);
    add_seed(large);
}

int main(int argc, char **argv)
{
    double seconds = 60;
    unsigned seed = 1;
    const char *save = "storm.avif";
    const struct argument table[] = {{"seconds", .seconds = &seconds},
                                     {"seed", .number = &seed},
                                     {"save", .text = &save},
                                     {NULL}};
    if (arguments_read(argc, argv, table) < 0)
        return 2;
    storm.random = (uint64_t)seed * 2654435761u + 1;
    storm.context = codec_context_create();
    make_seeds();
    uint64_t end_ns = clock_after_s(clock_now_ns(), seconds);
    size_t files = 0;
    bool kept = true;
    while (kept && clock_now_ns() < end_ns) {
        const struct picture_file *one = &storm.seeds[draw((uint32_t)storm.seed_count)];
        struct picture_file file = picture_cut(one, one->length);
        for (uint32_t changes = 1 + draw(6); changes > 0; changes--)
            change(&file);
        kept = keeps_promises(&file, ++files);
        if (!kept)
            picture_save(&file, save);
        picture_free(&file);
    }
    codec_context_destroy(storm.context);
    printf("%zu files, %zu decoded; peak of a process %zu MiB, at most %zu\n", files, storm.decoded,
           peak_bytes() >> 20, (size_t)((storm.most_bytes + CODEC_PROCESS_BYTES) >> 20));
    for (int i = 0; i < STATUS_COUNT; i++)
        if (storm.counts[i])
            printf("%8llu %s\n", (unsigned long long)storm.counts[i], status_name(i));
    for (int i = 0; i < CODEC_REPLACE_REASONS; i++)
        printf("%8llu processes replaced: %s\n", (unsigned long long)codec_process_replaced(i),
               codec_replace_reason_names[i]);
    return kept ? 0 : 1;
}
