/* test_jpeg_progressive.c - the device's coefficients of progressive JPEGs are libjpeg-turbo's, and
 * damaged files are declined. */
#include "tests/fixtures/progressive.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/test.h"

#include "tests/cuda/jpeg_progressive_rig.h"

#define BATCH 64

static uint32_t random_state = 1;

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
    assert_true(!file->taken || file->ended == 1);
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

static void add_bytes(struct picture_file bytes, bool luma_only, bool intact)
{
    struct rig_file *file = &collected.files[collected.count++];
    memset(file, 0, sizeof *file);
    file->bytes = bytes.bytes;
    file->length = bytes.length;
    file->luma_only = luma_only;
    if (collected.count == BATCH)
        run_batch(intact);
}

static void add_file(const struct progressive_options *options)
{
    add_bytes(progressive_make(options), picture_random(&random_state) % 2 == 0, true);
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
    if (test_quick())
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
    for (unsigned i = 0; i < PROGRESSIVE_GRAY_SCRIPTS; i++)
        for (unsigned restart = 0; restart < 2; restart++)
            add_file(&(struct progressive_options){.width = 70, .height = 43, .quality = 90,
                                                   .script = i + 1, .restart = 7 * restart});
    for (unsigned i = 0; i < PROGRESSIVE_COLOUR_SCRIPTS; i++)
        for (int h = 1; h <= 2; h++)
            for (int v = 1; v <= 2; v++)
                add_file(&(struct progressive_options){.width = 37, .height = 51, .quality = 80,
                                                       .h = h, .v = v, .script = i + 1,
                                                       .restart = (unsigned)(3 * v)});
    run_batch(true);
    assert_int_equal(collected.declined, 0);
}

TEST(long_runs_end_in_the_right_block)
{
    SKIP_WITHOUT_DEVICE();
    /* More than 32,767 equal blocks, which is the longest run. */
    add_file(&(struct progressive_options){.width = 2048, .height = 1200, .quality = 50,
                                           .pattern = PROGRESSIVE_CORNERS});
    add_file(&(struct progressive_options){.width = 2040, .height = 1200, .quality = 50,
                                           .pattern = PROGRESSIVE_CORNERS, .script = 2,
                                           .restart = 38000});
    run_batch(true);
    assert_int_equal(collected.declined, 0);
}

TEST(drawn_files_give_the_librarys_coefficients)
{
    SKIP_WITHOUT_DEVICE();
    uint32_t count = files_of(200, 1500, 3000);
    for (uint32_t i = 0; i < count; i++) {
        struct progressive_options options;
        progressive_draw(&options, &random_state);
        add_file(&options);
    }
    run_batch(true);
    assert_int_equal(collected.equal, count);
}

TEST(damaged_files_are_declined_or_equal)
{
    SKIP_WITHOUT_DEVICE();
    uint32_t count = files_of(300, 4000, 10000);
    for (uint32_t i = 0; i < count; i++) {
        struct progressive_options options;
        progressive_draw(&options, &random_state);
        struct picture_file file = progressive_make(&options);
        progressive_damage(&file, &random_state);
        add_bytes(file, picture_random(&random_state) % 4 == 0, false);
    }
    run_batch(false);
    printf("# %u equal, %u declined; by verdict:", collected.equal, collected.declined);
    for (uint32_t i = 0; i <= JPEG_SCANS_VALUE; i++)
        printf(" %u", collected.verdicts[i]);
    printf("\n");
}

TEST_MAIN(.setup = setup, .teardown = teardown, .each_setup = begin)
