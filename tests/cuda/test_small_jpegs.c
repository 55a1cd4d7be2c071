/*
 * Tests of small JPEGs that share a batch: how many calls of CUDA the batch takes, and that each
 * result is that of its file. Uses the stand-in CUDA runtime, which runs the JPEG kernels.
 */
#include "tests/cuda/jobs.h"

#include "tests/fixtures/reference.h"

#define QUALITY 85
#define FILES 7

static struct jobs jobs; /* of the running test */
static struct jobs_file files[FILES]; /* of different sizes */

static int read_files(void **state)
{
    static const uint32_t sides[FILES][2] = {{40, 30}, {8, 8},   {64, 64}, {33, 70},
                                             {1, 1},   {90, 17}, {16, 52}};
    (void)state;
    for (uint32_t i = 0; i < FILES; i++)
        jobs_file_read(&files[i], make_jpeg(.width = sides[i][0], .height = sides[i][1],
                                            .seed = i));
    return 0;
}

static int clear_files(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FILES; i++)
        jobs_file_clear(&files[i]);
    return 0;
}

/* Opens an engine with `count` jobs, which run the files in turn. */
static void open_edges(unsigned count)
{
    jobs_open(&jobs, &(struct jobs_how){.streams = 2});
    assert_true(engine_prepare_codecs(jobs.engine));
    jobs.count = count;
    for (unsigned i = 0; i < count; i++)
        jobs_prepare_file(&jobs, i, &files[i % FILES], DECODE_LUMA, JOBS_OPS, QUALITY);
}

/* The JPEG must be libjpeg's, of the edges of the luma that libjpeg decodes. */
static void check_edges(unsigned number)
{
    const struct job *job = &jobs.job[number];
    const struct picture_file *file = &files[number % FILES].file;
    struct raster luma = raster_decode(file->bytes, file->length, RASTER_LUMA);
    struct raster edges = reference_sobel(&luma, REFERENCE_HALF, REFERENCE_REFLECT101);
    size_t length, bytes;
    uint8_t *wanted = raster_to_jpeg(&edges, QUALITY, &length);
    const uint8_t *got = plan_encoded(&job->plan, 0, job->memory.output, &bytes);
    assert_int_equal(plan_report(&job->plan, job->memory.output)->declined, 0);
    if (bytes != length || memcmp(got, wanted, length) != 0)
        fail_msg("file %u: %zu bytes differ from libjpeg's %zu", number, bytes, length);
    raster_clear(&luma);
    raster_clear(&edges);
    free(wanted);
}

static void check_all_edges(void)
{
    for (unsigned i = 0; i < jobs.count; i++)
        if (jobs.job[i].task.error.status == STATUS_OK)
            check_edges(i);
}

/* ---- calls ----------------------------------------------------------------------------------- */

struct calls {
    const char *name;
    unsigned of_1, of_16, of_64;
};

/* Runs one batch. The clock may record one more event. The thread queries a stream again if the
 * batch takes longer than DEVICE_POLL_NS. */
static void check_calls(const struct calls *rows, size_t count, unsigned batch)
{
    open_edges(batch);
    jobs_set_no_fault(1);
    jobs_run(&jobs);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), batch);
    unsigned total = cuda_calls("cudaStreamQuery");
    assert_true(total >= 1);
    for (size_t i = 0; i < count; i++) {
        unsigned wanted = batch == 1 ? rows[i].of_1 : batch == 16 ? rows[i].of_16 : rows[i].of_64;
        unsigned made = cuda_calls(rows[i].name);
        if (made != wanted && made != wanted + 1)
            fail_msg("%u files: %s %u times, not %u", batch, rows[i].name, made, wanted);
        total += made;
    }
    assert_int_equal(cuda_calls(NULL), total);
    check_all_edges();
    jobs_close(&jobs);
}

/* All calls that the device's thread makes for a batch. Codec launches: one for the uploads, 7 of
 * the decoder, 3 of the encoder. The description of 64 files is a large piece. */
TEST(test_calls_of_a_batch)
{
    static const struct calls rows[] = {
        {"cudaSetDevice", 1, 1, 1},      {"cudaMemcpyAsync", 0, 0, 1},
        {"launch", 1, 1, 2},             {"codec launch", 11, 11, 11},
        {"cudaEventRecord", 5, 5, 5},    {"cudaLaunchHostFunc", 1, 1, 1},
        {"cudaEventElapsedTime", 5, 5, 5}};
    check_calls(rows, COUNT_OF(rows), 1);
    check_calls(rows, COUNT_OF(rows), 16);
    check_calls(rows, COUNT_OF(rows), 64);
}

/* ---- shared launches ------------------------------------------------------------------------- */

/* Runs a job per file and list of operations, which share one batch or are all alone. Returns the
 * number of launches of passes. */
static unsigned run_lists(const char *const *lists, size_t count, const struct jobs_file *with,
                          unsigned with_count, bool alone)
{
    jobs_open(&jobs, &(struct jobs_how){.streams = 1});
    assert_true(engine_prepare_codecs(jobs.engine));
    jobs.count = (unsigned)count * with_count;
    for (unsigned i = 0; i < jobs.count; i++) {
        jobs_prepare_file(&jobs, i, &with[i / count], DECODE_COLOUR, lists[i % count], 0);
        jobs.job[i].task.alone = alone;
    }
    jobs_set_no_fault(1);
    jobs_run(&jobs);
    assert_int_equal(jobs_with(&jobs, STATUS_OK), jobs.count);
    return cuda_calls("launch");
}

static struct raster result_of(unsigned number)
{
    const struct job *job = &jobs.job[number];
    return raster_of(plan_result(&job->plan, 0, job->memory.input, job->memory.output));
}

/* The results must equal those of jobs that run alone. */
static void check_lists(const char *const *lists, size_t count, const struct jobs_file *with,
                        unsigned with_count, unsigned shared, unsigned alone)
{
    struct raster wanted[JOBS_MAX];
    char where[200];
    assert_int_equal(run_lists(lists, count, with, with_count, true), alone);
    for (unsigned i = 0; i < jobs.count; i++)
        wanted[i] = result_of(i);
    jobs_close(&jobs);
    unsigned launches = run_lists(lists, count, with, with_count, false);
    if (launches != shared)
        fail_msg("%s: %u launches instead of %u", lists[0], launches, shared);
    for (unsigned i = 0; i < jobs.count; i++) {
        struct raster got = result_of(i);
        if (raster_differ(&got, &wanted[i], 0, where, sizeof where) != 0)
            fail_msg("%s: job %u: %s", lists[i % count], i, where);
        raster_clear(&got);
        raster_clear(&wanted[i]);
    }
    jobs_close(&jobs);
}

#define BLUR "{'op':'gaussian','sigma':1.5}"

/* The images differ in size, and the resize changes the size of each. */
TEST(test_passes_that_share_launches)
{
    static const struct {
        const char *lists[2];
        unsigned shared, alone;
    } rows[] = {
        {{"['sobel']"}, 1, FILES},
        {{"[" BLUR "]"}, 1, FILES},
        {{"[{'op':'unsharp','sigma':2,'amount':0.7}]"}, 1, FILES},
        {{"[{'op':'resize','width':20,'height':25,'fit':'exact'}]"}, 2, 2 * FILES},
        {{"[" BLUR ",'sobel']"}, 2, 2 * FILES},
        {{"['sobel','phash']"}, 4, 4 * FILES},
        {{"['invert']"}, FILES, FILES},                       /* has no shared launch */
        {{"['sobel']", "[{'op':'sobel','magnitude':'l2'}]"}, 2, 2 * FILES},
        {{"[" BLUR "]", "['grayscale'," BLUR "]"}, 2, 2 * FILES},
        {{"[{'op':'crop','x':0,'y':0,'width':1,'height':1},'sobel']", "['sobel']"},
         1, 2 * FILES},
        {{"['median','sobel']", "['sobel']"}, 1 + FILES, 3 * FILES},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_lists(rows[i].lists, rows[i].lists[1] ? 2 : 1, files, FILES, rows[i].shared,
                    rows[i].alone);
}

/* An image of more than PASS_SHARED_PIXELS has a launch of its own. */
TEST(test_large_images_share_no_launch)
{
    static const char *const lists[] = {"['sobel']"};
    struct jobs_file mixed[3] = {files[0], {.file.length = 0}, files[2]};
    jobs_file_read(&mixed[1], make_jpeg(.width = 2049, .height = 512));
    check_lists(lists, 1, mixed, 3, 2, 3);
    jobs_file_clear(&mixed[1]);
}

/* Passes that can run jointly share launches, even if their images are large. */
TEST(test_large_images_are_resized_together)
{
    static const char *const lists[] = {"[{'op':'resize','width':12}]"};
    struct jobs_file mixed[3] = {files[0], {.file.length = 0}, files[2]};
    jobs_file_read(&mixed[1], make_jpeg(.width = 2049, .height = 512));
    check_lists(lists, 1, mixed, 3, 2, 6);
    jobs_file_clear(&mixed[1]);
}

/* The results of two jobs, but not of three, have at most PASSES_SHARED_BYTES. */
TEST(test_large_results_share_fewer_launches)
{
    static const char *const lists[] = {
        "[{'op':'resize','width':8192,'height':512,'fit':'exact','filter':'box'}]"};
    struct jobs_file large[3];
    for (size_t i = 0; i < COUNT_OF(large); i++)
        jobs_file_read(&large[i], make_jpeg(.width = 64, .height = 512));
    check_lists(lists, 1, large, 3, 2, 3);
    for (size_t i = 0; i < COUNT_OF(large); i++)
        jobs_file_clear(&large[i]);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* The launch for the uploads is the first; copies replace it if it is refused. The launches of the
 * codecs are all jobs'. */
TEST(test_a_codec_launch_that_is_refused)
{
    for (unsigned nth = 1; nth <= 11; nth++) {
        open_edges(5);
        jobs_set_fault("codec launch", cudaErrorLaunchOutOfResources, nth, 1);
        jobs_run(&jobs);
        assert_int_equal(cuda_fault_struck(), 1);
        assert_int_equal(jobs_with(&jobs, nth == 1 ? STATUS_OK : STATUS_GPU_FAILED), 5);
        assert_int_equal(cuda_calls("cudaMemcpyAsync"), nth == 1 ? 1 + 2 * 5 : 0);
        assert_int_equal(jobs_charged(&jobs), 0);
        check_all_edges();
        jobs_close(&jobs);
    }
}

/* A large file has a copy of its own. If it is refused, the other jobs continue. */
TEST(test_a_copy_that_is_refused)
{
    struct jobs_file large;
    jobs_file_read(&large, make_jpeg(.width = 300, .height = 200, .subsampling = 444,
                                     .quality = 100));
    assert_true(large.file.length > 64 * KIB);
    for (unsigned nth = 1; nth <= 3; nth++) {
        open_edges(2);
        jobs.count = 4;
        for (unsigned i = 2; i < 4; i++)
            jobs_prepare_file(&jobs, i, &large, DECODE_LUMA, JOBS_OPS, QUALITY);
        jobs_set_fault("cudaMemcpyAsync", cudaErrorLaunchOutOfResources, nth, 1);
        jobs_run(&jobs);
        assert_int_equal(cuda_calls("cudaMemcpyAsync"), 2);
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(jobs.job[i].task.error.status,
                             i == nth + 1 ? STATUS_GPU_FAILED : STATUS_OK);
        check_edges(0);
        check_edges(1);
        assert_int_equal(jobs_charged(&jobs), 0);
        jobs_close(&jobs);
    }
    jobs_file_clear(&large);
}

TEST(test_a_lasting_error)
{
    static const char *const places[] = {"codec launch", "codec"};
    for (unsigned i = 0; i < 2 * 11; i++) {
        open_edges(3);
        jobs_set_fault(places[i / 11], cudaErrorIllegalAddress, 1 + i % 11, 1);
        jobs_run(&jobs);
        assert_int_equal(cuda_fault_struck(), 1);
        assert_int_equal(jobs_with(&jobs, STATUS_GPU_FAILED), 3);
        assert_int_equal(jobs_charged(&jobs), 3);
        assert_non_null(engine_fault(jobs.engine));
        jobs_close(&jobs);
    }
}

TEST_MAIN(.setup = read_files, .teardown = clear_files)
