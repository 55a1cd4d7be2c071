/* test_jpeg_progressive.c - the device's coefficients of progressive JPEGs are libjpeg-turbo's, and
 * damaged files are declined. */
#include "tests/fixtures/test.h"

#include "tests/cuda/jpeg_progressive_rig.h"

#define BATCH 64
#define SIDE_MAX 2048
#define SIDE_DRAWN_MAX 160

/* ---- generated files ---- */

static uint32_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(seed >> 4) * below >> 28);
}

struct script {
    const char *name;
    int count;
    jpeg_scan_info scans[JPEG_FRAME_SCANS_MAX];
};

/* Gray scripts; component 0 only. */
static const struct script gray_scripts[] = {
    {"spectral", 4,
     {{1, {0}, 0, 0, 0, 0}, {1, {0}, 1, 5, 0, 0}, {1, {0}, 6, 6, 0, 0}, {1, {0}, 7, 63, 0, 0}}},
    {"refined", 10,
     {{1, {0}, 0, 0, 0, 3}, {1, {0}, 1, 63, 0, 3}, {1, {0}, 1, 63, 3, 2}, {1, {0}, 0, 0, 3, 2},
      {1, {0}, 0, 0, 2, 1}, {1, {0}, 1, 20, 2, 1}, {1, {0}, 21, 63, 2, 1}, {1, {0}, 1, 63, 1, 0},
      {1, {0}, 0, 0, 1, 0}}},
    {"bands", 12,
     {{1, {0}, 0, 0, 0, 0}, {1, {0}, 40, 63, 0, 1}, {1, {0}, 1, 1, 0, 2}, {1, {0}, 2, 9, 0, 1},
      {1, {0}, 10, 39, 0, 3}, {1, {0}, 1, 1, 2, 1}, {1, {0}, 10, 39, 3, 2}, {1, {0}, 10, 39, 2, 1},
      {1, {0}, 1, 30, 1, 0}, {1, {0}, 31, 63, 1, 0}}},
    {"crossed", 11,
     {{1, {0}, 0, 0, 0, 0}, {1, {0}, 1, 10, 0, 2}, {1, {0}, 11, 50, 0, 1}, {1, {0}, 51, 63, 0, 2},
      {1, {0}, 51, 63, 2, 1}, {1, {0}, 1, 10, 2, 1}, {1, {0}, 5, 55, 1, 0}, {1, {0}, 56, 63, 1, 0},
      {1, {0}, 1, 4, 1, 0}}},
};

static const struct script colour_scripts[] = {
    {"dc apart", 13,
     {{1, {0}, 0, 0, 0, 1}, {2, {1, 2}, 0, 0, 0, 2}, {1, {1}, 1, 63, 0, 1}, {1, {0}, 1, 63, 0, 1},
      {1, {2}, 1, 63, 0, 0}, {2, {1, 2}, 0, 0, 2, 1}, {1, {0}, 1, 63, 1, 0}, {1, {1}, 1, 63, 1, 0},
      {2, {0, 1}, 0, 0, 1, 0}, {1, {2}, 0, 0, 1, 0}}},
    {"dc mixed", 9,
     {{3, {0, 1, 2}, 0, 0, 0, 0}, {1, {1}, 1, 30, 0, 2}, {1, {1}, 31, 63, 0, 1},
      {1, {1}, 1, 30, 2, 1}, {1, {1}, 1, 63, 1, 0}, {1, {0}, 1, 63, 0, 0}, {1, {2}, 1, 63, 0, 0}}},
};

enum pattern { NOISE, SMOOTH, EDGES, FLAT, CORNERS, PATTERNS };

struct options {
    uint32_t width, height;
    int quality, h, v;    /* sampling of Y; h = 0: gray */
    unsigned restart;     /* MCUs */
    const struct script *script; /* NULL: jpeg_simple_progression */
    enum pattern pattern;
    bool optimize;
};

static uint8_t sample_of(const struct options *options, uint32_t x, uint32_t y, int channel)
{
    switch (options->pattern) {
    case NOISE:
        return (uint8_t)draw(256);
    case SMOOTH:
        return (uint8_t)(x * 3 + y * (uint32_t)(channel + 1) + draw(7));
    case EDGES:
        return (x / 5 + y / 7 + (uint32_t)channel) % 3 ? 250 : (uint8_t)draw(20);
    case CORNERS:
        return x + y < 3 || x + y + 6 > options->width + options->height ? 200 : 90;
    default:
        return (uint8_t)(100 + (x > 20 && x < 24 ? 60 : 0));
    }
}

static void set_options(j_compress_ptr writer, const struct options *options)
{
    writer->image_width = options->width;
    writer->image_height = options->height;
    writer->input_components = options->h ? 3 : 1;
    writer->in_color_space = options->h ? JCS_YCbCr : JCS_GRAYSCALE;
    jpeg_set_defaults(writer);
    jpeg_set_quality(writer, options->quality, TRUE);
    if (options->h) {
        writer->comp_info[0].h_samp_factor = options->h;
        writer->comp_info[0].v_samp_factor = options->v;
    }
    if (options->script) {
        writer->scan_info = options->script->scans;
        writer->num_scans = options->script->count;
        while (writer->scan_info[writer->num_scans - 1].comps_in_scan == 0)
            writer->num_scans--;
    } else {
        jpeg_simple_progression(writer);
    }
    writer->restart_interval = options->restart;
}

static uint8_t *make_file(const struct options *options, size_t *length)
{
    struct jpeg_compress_struct writer;
    struct rig_errors errors;
    unsigned char *file = NULL;
    unsigned long bytes = 0;
    static uint8_t row[3 * SIDE_MAX];
    JSAMPROW rows[1] = {row};
    writer.err = rig_set_errors(&errors);
    jpeg_create_compress(&writer);
    if (setjmp(errors.jump)) {
        char text[JMSG_LENGTH_MAX];
        errors.base.format_message((j_common_ptr)&writer, text);
        fail_msg("%s", text);
    }
    jpeg_mem_dest(&writer, &file, &bytes);
    set_options(&writer, options);
    jpeg_start_compress(&writer, TRUE);
    for (uint32_t y = 0; y < options->height; y++) {
        for (uint32_t x = 0; x < options->width; x++)
            for (int c = 0; c < writer.input_components; c++)
                row[x * (uint32_t)writer.input_components + (uint32_t)c] =
                    sample_of(options, x, y, c);
        jpeg_write_scanlines(&writer, rows, 1);
    }
    jpeg_finish_compress(&writer);
    jpeg_destroy_compress(&writer);
    *length = bytes;
    return file;
}

/* ---- batches ---- */

static struct codec_context *context;

static struct {
    struct rig_file files[BATCH];
    uint32_t count;
    uint32_t equal, declined; /* since the start of the test */
    uint32_t verdicts[JPEG_SCANS_VALUE + 1]; /* of the files that the host part takes */
} collected;

static int setup(void **state)
{
    (void)state;
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        return 0;
    context = codec_context_create();
    return context ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    codec_context_destroy(context);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    memset(&collected, 0, sizeof collected);
    return 0;
}

/* intact: every file must be decoded. */
static void check_file(const struct rig_batch *batch, const struct rig_file *file, bool intact)
{
    struct rig_reference reference;
    bool valid = rig_read_reference(file->bytes, file->length, &reference);
    bool decoded = file->taken && file->verdict == JPEG_SCANS_COMPLETE;
    if (intact && !decoded)
        fail_msg("declined: taken %d, verdict %u", file->taken, file->verdict);
    if (decoded) {
        /* Scans of unneeded components may be damaged. */
        assert_true(valid || file->luma_only);
        if (reference.values[0])
            assert_true(rig_coefficients_equal(batch, file, &reference));
    }
    collected.equal += decoded;
    if (file->taken)
        collected.verdicts[file->verdict]++;
    collected.declined += !decoded;
    rig_free_reference(&reference);
}

static void run_batch(bool intact)
{
    struct rig_batch batch;
    rig_open_batch(context, &batch, collected.files, collected.count);
    if (batch.taken > 0) {
        rig_upload(&batch);
        rig_launch(&batch, rig_stream());
        rig_download(&batch);
        assert_true(rig_all_guards_hold(&batch));
    }
    for (uint32_t i = 0; i < collected.count; i++) {
        check_file(&batch, &collected.files[i], intact);
        free((void *)collected.files[i].bytes);
    }
    rig_close_batch(&batch);
    collected.count = 0;
}

static void add_bytes(uint8_t *bytes, size_t length, bool luma_only, bool intact)
{
    struct rig_file *file = &collected.files[collected.count++];
    memset(file, 0, sizeof *file);
    file->bytes = bytes;
    file->length = length;
    file->luma_only = luma_only;
    if (collected.count == BATCH)
        run_batch(intact);
}

static void add_file(const struct options *options)
{
    size_t length;
    uint8_t *bytes = make_file(options, &length);
    add_bytes(bytes, length, draw(2), true);
}

static void draw_options(struct options *options)
{
    static const int samplings[][2] = {{0, 0}, {1, 1}, {2, 1}, {2, 2}, {1, 2}};
    static const unsigned restarts[] = {0, 0, 0, 1, 7, 32, 100};
    uint32_t sampling = draw(5);
    memset(options, 0, sizeof *options);
    options->h = samplings[sampling][0];
    options->v = samplings[sampling][1];
    options->width = 1 + draw(draw(4) ? 65 : SIDE_DRAWN_MAX);
    options->height = 1 + draw(draw(4) ? 65 : SIDE_DRAWN_MAX);
    options->quality = (int)(1 + draw(100));
    options->restart = restarts[draw(7)];
    options->pattern = (enum pattern)draw(PATTERNS);
    uint32_t script = draw(6);
    if (!options->h && script < 4)
        options->script = &gray_scripts[script];
    if (options->h && script < 2)
        options->script = &colour_scripts[script];
}

#define SKIP_WITHOUT_DEVICE()                                                                      \
    do {                                                                                           \
        if (!context)                                                                              \
            skip();                                                                                \
    } while (0)

/* The number of files to draw: a device takes more of them in the same time. */
static uint32_t files_of(uint32_t quick, uint32_t emulated, uint32_t on_device)
{
    struct cudaDeviceProp properties;
    const char *value = getenv("GPUIMGD_TEST_QUICK");
    if (value && *value == '1')
        return quick;
    return cudaGetDeviceProperties(&properties, 0) == cudaSuccess &&
                   properties.multiProcessorCount > 8
               ? on_device
               : emulated;
}

/* ---- tests ---- */

TEST(all_scripts_and_samplings_give_the_librarys_coefficients)
{
    SKIP_WITHOUT_DEVICE();
    for (uint32_t i = 0; i < sizeof gray_scripts / sizeof *gray_scripts; i++)
        for (unsigned restart = 0; restart < 2; restart++)
            add_file(&(struct options){.width = 70, .height = 43, .quality = 90,
                                       .script = &gray_scripts[i], .restart = 7 * restart});
    for (uint32_t i = 0; i < sizeof colour_scripts / sizeof *colour_scripts; i++)
        for (int h = 1; h <= 2; h++)
            for (int v = 1; v <= 2; v++)
                add_file(&(struct options){.width = 37, .height = 51, .quality = 80, .h = h,
                                           .v = v, .script = &colour_scripts[i],
                                           .restart = (unsigned)(3 * v)});
    run_batch(true);
    assert_int_equal(collected.declined, 0);
}

TEST(long_runs_end_in_the_right_block)
{
    SKIP_WITHOUT_DEVICE();
    /* More than 32,767 equal blocks, which is the longest run. */
    add_file(&(struct options){.width = 2048, .height = 1200, .quality = 50, .pattern = CORNERS});
    add_file(&(struct options){.width = 2040, .height = 1200, .quality = 50, .pattern = CORNERS,
                               .script = &gray_scripts[1], .restart = 38000});
    run_batch(true);
    assert_int_equal(collected.declined, 0);
}

TEST(drawn_files_give_the_librarys_coefficients)
{
    SKIP_WITHOUT_DEVICE();
    uint32_t count = files_of(200, 1500, 3000);
    for (uint32_t i = 0; i < count; i++) {
        struct options options;
        draw_options(&options);
        add_file(&options);
    }
    run_batch(true);
    assert_int_equal(collected.equal, count);
}

/* Damages a file after its first scan header, or anywhere with `anywhere`. */
static void damage(uint8_t *bytes, size_t *length)
{
    uint32_t changes = 1 + draw(3);
    for (uint32_t i = 0; i < changes; i++) {
        uint32_t at = 20 + draw((uint32_t)*length - 20);
        switch (draw(5)) {
        case 0:
            *length = at;
            return;
        case 1:
            bytes[at] = (uint8_t)draw(256);
            break;
        case 2:
            memmove(bytes + at, bytes + at + 1, *length - at - 1);
            --*length;
            break;
        case 3:
            bytes[at] = 0xFF;
            break;
        default:
            bytes[at] ^= (uint8_t)(1u << draw(8));
        }
    }
}

TEST(damaged_files_are_declined_or_equal)
{
    SKIP_WITHOUT_DEVICE();
    uint32_t count = files_of(300, 4000, 10000);
    for (uint32_t i = 0; i < count; i++) {
        struct options options;
        size_t length;
        draw_options(&options);
        uint8_t *bytes = make_file(&options, &length);
        damage(bytes, &length);
        add_bytes(bytes, length, draw(4) == 0, false);
    }
    run_batch(false);
    printf("# %u equal, %u declined; by verdict:", collected.equal, collected.declined);
    for (uint32_t i = 0; i <= JPEG_SCANS_VALUE; i++)
        printf(" %u", collected.verdicts[i]);
    printf("\n");
}

int main(void)
{
    return run_all(.setup = setup, .teardown = teardown, .each_setup = begin);
}
