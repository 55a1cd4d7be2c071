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
    unsigned of_1, of_16;
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
        unsigned wanted = batch == 1 ? rows[i].of_1 : rows[i].of_16, made = cuda_calls(rows[i].name);
        if (made != wanted && made != wanted + 1)
            fail_msg("%u files: %s %u times, not %u", batch, rows[i].name, made, wanted);
        total += made;
    }
    assert_int_equal(cuda_calls(NULL), total);
    check_all_edges();
    jobs_close(&jobs);
}

/* All calls that the device's thread makes for a batch of so many files. The decoder is 7 kernels,
 * the encoder 3. */
TEST(test_calls_of_a_batch)
{
    static const struct calls rows[] = {
        {"cudaSetDevice", 1, 1},      {"cudaMemcpyAsync", 4, 34},   {"launch", 1, 16},
        {"codec launch", 10, 10},     {"cudaEventRecord", 6, 6},    {"cudaLaunchHostFunc", 1, 1},
        {"cudaEventElapsedTime", 6, 6}};
    check_calls(rows, COUNT_OF(rows), 1);
    check_calls(rows, COUNT_OF(rows), 16);
}

int main(void)
{
    return run_all(.setup = read_files, .teardown = clear_files);
}
