/*
 * test_codec_check.c - the test of the devices' codecs at start: a codec that gives the CPU's
 * results is used, and one that does not is named in the log. Uses the stand-in CUDA runtime.
 */
#include "tests/cuda/jobs.h"

#include <unistd.h>

#include "daemon/selfcheck/codec_check.h"

/* Runs the test of a codec, and returns the lines of the log, malloc'd. */
static char *check_codec(enum device_codec codec, const struct cuda_fault *fault,
                         struct engine_codecs *codecs)
{
    struct error error = {0};
    jobs_set_no_fault(1);
    struct engine *engine = jobs_engine(&(struct jobs_how){.streams = 1});
    FILE *lines = tmpfile();
    int old = dup(STDERR_FILENO);
    char *text = calloc(1, 4096);
    assert_true(lines && text && old >= 0 && engine_prepare_codecs(engine));
    fflush(stderr);
    dup2(fileno(lines), STDERR_FILENO);
    if (fault)
        cuda_fault_set(fault);
    bool ok = codec_check_run(engine, codec, &error);
    dup2(old, STDERR_FILENO);
    close(old);
    jobs_set_no_fault(1);
    if (!ok)
        fail_msg("%s", error.text);
    rewind(lines);
    size_t length = fread(text, 1, 4095, lines);
    assert_true(length < 4095);
    fclose(lines);
    *codecs = engine_codecs(engine);
    engine_close(engine);
    return text;
}

static void expect_used(enum device_codec codec, bool decodes)
{
    struct engine_codecs codecs;
    char *lines = check_codec(codec, NULL, &codecs);
    assert_string_equal(lines, "");
    for (enum device_codec each = DEVICE_CODEC_NONE; each < DEVICE_CODECS; each++) {
        assert_int_equal(codecs.encodes[each], each == codec);
        assert_int_equal(codecs.decodes[each], each == codec && decodes);
    }
    free(lines);
}

TEST(right_codecs_are_used)
{
    expect_used(DEVICE_CODEC_JPEG, true);
    expect_used(DEVICE_CODEC_PNG, true);
}

#ifdef GPUIMGD_WEBP

TEST(a_right_webp_encoder_is_used)
{
    expect_used(DEVICE_CODEC_WEBP, false);
}

/* A bit of each image that the encoder gets is wrong. One line says so. */
TEST(a_wrong_webp_encoder_is_not_used)
{
    const struct cuda_fault fault = {.at = "kernel", .bit = true, .times = 0, .devices = 1};
    struct engine_codecs codecs;
    char *lines = check_codec(DEVICE_CODEC_WEBP, &fault, &codecs);
    const char *line = strstr(lines, "cuda:0: the WebP encoder differs (");
    if (!line || !strstr(line, "): libwebp 1.") || !strstr(line, " encodes on the CPU instead\n") ||
        strstr(line, "\n")[1] != '\0')
        fail_msg("the log is \"%s\"", lines);
    assert_false(codecs.encodes[DEVICE_CODEC_WEBP]);
    free(lines);
}

#endif

#ifdef GPUIMGD_AVIF

TEST(a_right_avif_encoder_is_used)
{
    expect_used(DEVICE_CODEC_AVIF, false);
}

TEST(a_wrong_avif_encoder_is_not_used)
{
    const struct cuda_fault fault = {.at = "kernel", .bit = true, .times = 0, .devices = 1};
    struct engine_codecs codecs;
    char *lines = check_codec(DEVICE_CODEC_AVIF, &fault, &codecs);
    const char *line = strstr(lines, "cuda:0: the AVIF encoder differs (");
    if (!line || !strstr(line, "): gpuimgd's encoder encodes on the CPU instead\n") ||
        strstr(line, "\n")[1] != '\0')
        fail_msg("the log is \"%s\"", lines);
    assert_false(codecs.encodes[DEVICE_CODEC_AVIF]);
    free(lines);
}

#endif

TEST_MAIN(.name = "codec check")
