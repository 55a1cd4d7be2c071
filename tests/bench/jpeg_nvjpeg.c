#include "tests/bench/jpeg_nvjpeg.h"

#ifdef GPUIMGD_NVJPEG

#include <cuda_runtime.h>
#include <nvjpeg.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#define ROUNDS 2

struct nvjpeg_thread {
    const struct photos *photos;
    nvjpegHandle_t handle;
    pthread_barrier_t *start;
    int index, threads, batch;
    bool gray, failed;
    double megapixels;
    uint8_t *images; /* device: of all photographs, RGB or Y, rows without padding */
};

static bool ok(struct nvjpeg_thread *self, int status)
{
    self->failed |= status != 0;
    return !self->failed;
}

static size_t image_at(const struct photos *photos, size_t index, int channels)
{
    size_t at = 0;
    for (size_t i = 0; i < index; i++)
        at += buffer_align((size_t)photos->list[i].width * photos->list[i].height *
                           (size_t)channels);
    return at;
}

static nvjpegImage_t image_of(const struct nvjpeg_thread *self, size_t index, int channels)
{
    nvjpegImage_t image;
    memset(&image, 0, sizeof image);
    image.channel[0] = self->images + image_at(self->photos, index, channels);
    image.pitch[0] = self->photos->list[index].width * (unsigned)channels;
    return image;
}

static double megapixels_of(const struct photo *photo)
{
    return 1e-6 * photo->width * photo->height;
}

bool nvjpeg_is_there(void)
{
    return true;
}

/* ---- threads ---- */

/* Waits for all threads after its first, untimed image. */
static void *decode_thread(void *argument)
{
    struct nvjpeg_thread *self = argument;
    nvjpegJpegState_t state;
    cudaStream_t stream;
    ok(self, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(self, nvjpegJpegStateCreate(self->handle, &state));
    size_t count = self->photos->count;
    for (size_t i = 0; i < count * ROUNDS + 1; i++) {
        size_t at = (i + (size_t)self->index) % count;
        const struct photo *photo = &self->photos->list[at];
        nvjpegImage_t to = image_of(self, at, 3);
        if (!self->failed)
            ok(self, nvjpegDecode(self->handle, state, photo->bytes, photo->length,
                                  NVJPEG_OUTPUT_RGBI, &to, stream));
        ok(self, cudaStreamSynchronize(stream));
        if (i == 0)
            pthread_barrier_wait(self->start);
        else
            self->megapixels += megapixels_of(photo);
    }
    nvjpegJpegStateDestroy(state);
    cudaStreamDestroy(stream);
    return NULL;
}

static void *batch_thread(void *argument)
{
    struct nvjpeg_thread *self = argument;
    size_t batch = (size_t)self->batch, count = self->photos->count;
    const unsigned char **files = calloc(batch, sizeof *files);
    size_t *lengths = calloc(batch, sizeof *lengths);
    nvjpegImage_t *images = calloc(batch, sizeof *images);
    nvjpegJpegState_t state;
    cudaStream_t stream;
    ok(self, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(self, nvjpegJpegStateCreate(self->handle, &state));
    double sum = 0;
    for (size_t i = 0; i < batch; i++) {
        const struct photo *photo = &self->photos->list[i % count];
        files[i] = photo->bytes;
        lengths[i] = photo->length;
        images[i] = image_of(self, i % count, 3);
        sum += megapixels_of(photo);
    }
    for (int i = 0; i < ROUNDS + 1; i++) {
        if (!self->failed &&
            ok(self, nvjpegDecodeBatchedInitialize(self->handle, state, (int)batch, 1,
                                                   NVJPEG_OUTPUT_RGBI)))
            ok(self, nvjpegDecodeBatched(self->handle, state, files, lengths, images, stream));
        ok(self, cudaStreamSynchronize(stream));
        if (i == 0)
            pthread_barrier_wait(self->start);
        else
            self->megapixels += sum;
    }
    nvjpegJpegStateDestroy(state);
    cudaStreamDestroy(stream);
    free(files);
    free(lengths);
    free(images);
    return NULL;
}

static void *encode_thread(void *argument)
{
    struct nvjpeg_thread *self = argument;
    nvjpegEncoderState_t state;
    nvjpegEncoderParams_t params;
    cudaStream_t stream;
    size_t count = self->photos->count, capacity = 64 << 20;
    unsigned char *file = malloc(capacity);
    ok(self, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(self, nvjpegEncoderStateCreate(self->handle, &state, stream));
    ok(self, nvjpegEncoderParamsCreate(self->handle, &params, stream));
    ok(self, nvjpegEncoderParamsSetQuality(params, JPEG_QUALITY, stream));
    ok(self, nvjpegEncoderParamsSetSamplingFactors(
                 params, self->gray ? NVJPEG_CSS_GRAY : NVJPEG_CSS_420, stream));
    for (size_t i = 0; i < count * ROUNDS + 1; i++) {
        size_t at = (i + (size_t)self->index) % count, length = capacity;
        const struct photo *photo = &self->photos->list[at];
        nvjpegImage_t from = image_of(self, at, self->gray ? 1 : 3);
        int width = (int)photo->width, height = (int)photo->height;
        if (!self->failed && self->gray)
            ok(self, nvjpegEncodeYUV(self->handle, state, params, &from, NVJPEG_CSS_GRAY, width,
                                     height, stream));
        else if (!self->failed)
            ok(self, nvjpegEncodeImage(self->handle, state, params, &from, NVJPEG_INPUT_RGBI, width,
                                       height, stream));
        if (!self->failed)
            ok(self, nvjpegEncodeRetrieveBitstream(self->handle, state, file, &length, stream));
        ok(self, cudaStreamSynchronize(stream));
        if (i == 0)
            pthread_barrier_wait(self->start);
        else
            self->megapixels += megapixels_of(photo);
    }
    nvjpegEncoderParamsDestroy(params);
    nvjpegEncoderStateDestroy(state);
    cudaStreamDestroy(stream);
    free(file);
    return NULL;
}

/* Returns gigapixels per second of all threads. */
static double run(struct nvjpeg_thread *common, void *(*body)(void *), nvjpegBackend_t backend)
{
    int threads = common->threads;
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    struct nvjpeg_thread *list = calloc((size_t)threads, sizeof *list);
    pthread_barrier_t start;
    double megapixels = 0;
    bool failed = false;
    if (nvjpegCreateEx(backend, NULL, NULL, 0, &common->handle) != NVJPEG_STATUS_SUCCESS)
        return 0;
    pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        list[i] = *common;
        list[i].index = i;
        list[i].start = &start;
        pthread_create(&ids[i], NULL, body, &list[i]);
    }
    pthread_barrier_wait(&start);
    double began = bench_seconds();
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        megapixels += list[i].megapixels;
        failed |= list[i].failed;
    }
    double took = bench_seconds() - began;
    nvjpegDestroy(common->handle);
    pthread_barrier_destroy(&start);
    free(ids);
    free(list);
    return failed ? 0 : megapixels / took * 1e-3;
}

double nvjpeg_decode(const struct photos *photos, bool hardware, int batch, int threads)
{
    struct nvjpeg_thread common = {.photos = photos, .threads = threads, .batch = batch};
    if (cudaMalloc((void **)&common.images, image_at(photos, photos->count, 3)) != cudaSuccess)
        return 0;
    double rate = run(&common, batch > 0 ? batch_thread : decode_thread,
                      hardware ? NVJPEG_BACKEND_HARDWARE : NVJPEG_BACKEND_GPU_HYBRID);
    cudaFree(common.images);
    return rate;
}

/* Decodes the photographs into device memory with libjpeg. */
static void fill(const struct photos *photos, bool gray, uint8_t *device)
{
    for (size_t i = 0; i < photos->count; i++) {
        const struct photo *photo = &photos->list[i];
        int channels = gray ? 1 : 3;
        struct jpeg_decompress_struct reader;
        struct jpeg_error_mgr errors;
        size_t row = (size_t)photo->width * (size_t)channels;
        uint8_t *pixels = malloc(row * photo->height);
        reader.err = jpeg_std_error(&errors);
        jpeg_create_decompress(&reader);
        jpeg_mem_src(&reader, photo->bytes, photo->length);
        jpeg_read_header(&reader, TRUE);
        reader.out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
        jpeg_start_decompress(&reader);
        while (reader.output_scanline < photo->height) {
            JSAMPROW line = pixels + reader.output_scanline * row;
            jpeg_read_scanlines(&reader, &line, 1);
        }
        jpeg_destroy_decompress(&reader);
        cudaMemcpy(device + image_at(photos, i, channels), pixels, row * photo->height,
                   cudaMemcpyHostToDevice);
        free(pixels);
    }
}

double nvjpeg_encode(const struct photos *photos, bool gray, int threads)
{
    struct nvjpeg_thread common = {.photos = photos, .threads = threads, .gray = gray};
    if (cudaMalloc((void **)&common.images, image_at(photos, photos->count, gray ? 1 : 3)) !=
        cudaSuccess)
        return 0;
    fill(photos, gray, common.images);
    double rate = run(&common, encode_thread, NVJPEG_BACKEND_DEFAULT);
    cudaFree(common.images);
    return rate;
}

#else

bool nvjpeg_is_there(void)
{
    return false;
}

double nvjpeg_decode(const struct photos *photos, bool hardware, int batch, int threads)
{
    (void)photos, (void)hardware, (void)batch, (void)threads;
    return 0;
}

double nvjpeg_encode(const struct photos *photos, bool gray, int threads)
{
    (void)photos, (void)gray, (void)threads;
    return 0;
}

#endif
