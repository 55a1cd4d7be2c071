/*
 * jpeg_decode_rig.h - JPEG files, libjpeg-turbo's pixels of them, and the device's, for the test
 * and the measurements of gpu/jpeg/decode.h.
 */
#pragma once

#include <cuda_runtime.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "codecs/codec.h"
#include "codecs/jpeg/zigzag.h"
#include "gpu/jpeg/coefficients.h"
#include "gpu/jpeg/decode.h"

#define RIG_GUARD 256
#define RIG_PATTERN 0xB7

#define CHECK_CUDA(call)                                                                           \
    do {                                                                                           \
        int rig_status = (int)(call);                                                              \
        if (rig_status != 0) {                                                                     \
            fprintf(stderr, "%s:%d: %s: CUDA error %d\n", __FILE__, __LINE__, #call, rig_status);  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- libjpeg-turbo ---- */

struct rig_errors {
    struct jpeg_error_mgr manager;
    jmp_buf jump;
};

static inline void rig_fail(j_common_ptr common)
{
    longjmp(((struct rig_errors *)common->err)->jump, 1);
}

static inline void rig_abort(j_common_ptr common)
{
    (*common->err->output_message)(common);
    abort();
}

static inline void rig_count(j_common_ptr common, int level)
{
    if (level < 0)
        common->err->num_warnings++;
}

static inline void rig_errors_begin(struct rig_errors *errors)
{
    jpeg_std_error(&errors->manager);
    errors->manager.error_exit = rig_fail;
    errors->manager.emit_message = rig_count;
}

struct rig_encoding {
    uint32_t width, height, channels; /* 1: gray; 3: given as YCbCr */
    int h, v, quality;
    bool optimised, wide_quant; /* wide_quant: 16-bit quantisers */
    int tables;                 /* 1 to RIG_TABLES: Huffman tables with unusual codes; 0: usual */
    uint32_t restart_interval, restart_rows;
    int pattern;
    uint32_t seed;
};

struct rig_file {
    unsigned char *bytes;
    unsigned long length;
};

static inline uint32_t rig_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* A sample of a picture: smooth, noise, stripes, edges, extremes, or flat. */
static inline uint8_t rig_sample(const struct rig_encoding *as, uint32_t x, uint32_t y, uint32_t c,
                                 uint32_t *random)
{
    switch (as->pattern) {
    case 0:
        return (uint8_t)((x * (3 + c) + y * (2 + c) + as->seed) / 2);
    case 1:
        return (uint8_t)rig_random(random);
    case 2:
        return (x + y * c) / 3 % 2 ? 230 : 20;
    case 3:
        return (uint8_t)((x / 5 * 37 + y / 7 * 91 * (c + 1)) + rig_random(random) % 16);
    case 4:
        return rig_random(random) % 2 ? 255 : 0;
    default:
        return 90;
    }
}

#define RIG_TABLES 4

/* A table of `count` symbols: codes of 16 bits only, of 9 to 16 bits, of 1 to 15 bits and then of
 * 16, or of 10 and 11 bits. */
static inline void rig_set_table(JHUFF_TBL *table, int kind, int count)
{
    int left = count;
    memset(table->bits, 0, sizeof table->bits);
    for (int i = 0; i < count; i++)
        table->huffval[i] = (UINT8)(count - 1 - i);
    for (int bits = 1; bits < 16 && kind > 1; bits++) {
        int codes = kind == 2 ? (bits >= 9 ? left / 4 : 0) : kind == 3 ? 1 : bits == 10 ? left / 2
                                                                 : bits == 11           ? left
                                                                                        : 0;
        codes = codes < left ? codes : left;
        table->bits[bits] = (UINT8)codes;
        left -= codes;
    }
    /* After one code of each length up to 15 bits, only one of 16 bits is free. */
    if (kind == 3 && left > 1) {
        table->bits[7] = 0;
        left++;
    }
    table->bits[16] = (UINT8)left;
    if (left > 255) {
        table->bits[16] = 255;
        table->bits[15] = (UINT8)(table->bits[15] + left - 255);
    }
    table->sent_table = FALSE;
}

static inline struct rig_file rig_encode(const struct rig_encoding *as)
{
    struct jpeg_compress_struct writer;
    struct rig_errors errors;
    struct rig_file file = {NULL, 0};
    uint32_t random = as->seed * 2654435761u + 1;
    rig_errors_begin(&errors);
    writer.err = &errors.manager;
    errors.manager.error_exit = rig_abort;
    jpeg_create_compress(&writer);
    jpeg_mem_dest(&writer, &file.bytes, &file.length);
    writer.image_width = as->width;
    writer.image_height = as->height;
    writer.input_components = (int)as->channels;
    writer.in_color_space = as->channels == 1 ? JCS_GRAYSCALE : JCS_YCbCr;
    jpeg_set_defaults(&writer);
    if (as->wide_quant) {
        jpeg_set_linear_quality(&writer, 2500, FALSE);
    } else {
        jpeg_set_quality(&writer, as->quality, TRUE);
    }
    writer.optimize_coding = as->optimised;
    for (int i = 0; as->tables > 0 && i < 2; i++) {
        rig_set_table(writer.dc_huff_tbl_ptrs[i], as->tables, 12);
        rig_set_table(writer.ac_huff_tbl_ptrs[i], as->tables, 256);
    }
    writer.restart_interval = as->restart_interval;
    writer.restart_in_rows = (int)as->restart_rows;
    writer.comp_info[0].h_samp_factor = as->h;
    writer.comp_info[0].v_samp_factor = as->v;
    jpeg_start_compress(&writer, TRUE);
    JSAMPROW row = malloc((size_t)as->width * as->channels);
    for (uint32_t y = 0; y < as->height; y++) {
        for (uint32_t x = 0; x < as->width; x++)
            for (uint32_t c = 0; c < as->channels; c++)
                row[x * as->channels + c] = rig_sample(as, x, y, c, &random);
        jpeg_write_scanlines(&writer, &row, 1);
    }
    jpeg_finish_compress(&writer);
    jpeg_destroy_compress(&writer);
    free(row);
    return file;
}

/* Reads the frame. Returns false if devices do not decode such files. */
static inline bool rig_frame(const unsigned char *bytes, size_t length, struct jpeg_frame *frame)
{
    static const struct codec_limits limits = {.jpeg_scans_max = 100};
    static const struct image_info jpeg = {.format = &formats[FORMAT_jpeg]};
    static struct codec_context *context;
    context = context ? context : codec_context_create();
    return codec_read_frame(context, bytes, length, &jpeg, &limits, frame);
}

/* Decodes to rows of `stride` bytes. Returns the number of warnings, or -1 for an error. */
static inline long rig_decode(const unsigned char *bytes, size_t length, J_COLOR_SPACE space,
                              uint32_t eighths, uint8_t *pixels, size_t stride)
{
    struct jpeg_decompress_struct reader;
    struct rig_errors errors;
    volatile long warnings = -1;
    rig_errors_begin(&errors);
    reader.err = &errors.manager;
    jpeg_create_decompress(&reader);
    if (setjmp(errors.jump) == 0) {
        jpeg_mem_src(&reader, bytes, length);
        jpeg_read_header(&reader, TRUE);
        reader.out_color_space = space;
        reader.dct_method = JDCT_ISLOW;
        reader.scale_num = eighths;
        reader.scale_denom = 8;
        jpeg_start_decompress(&reader);
        while (reader.output_scanline < reader.output_height) {
            JSAMPROW row = pixels + reader.output_scanline * stride;
            jpeg_read_scanlines(&reader, &row, 1);
        }
        jpeg_finish_decompress(&reader);
        warnings = errors.manager.num_warnings;
    }
    jpeg_destroy_decompress(&reader);
    return warnings;
}

/* ---- batches on the device ---- */

struct rig_image {
    const unsigned char *bytes;
    size_t length;
    enum decode_as as;    /* DECODE_LUMA: Y; DECODE_COLOUR: RGB of a colour file */
    uint32_t eighths;
    struct image_part needed; /* width 0: all */
    struct jpeg_frame frame;
    struct image image;   /* pixels: in the device's buffer */
    bool by_coefficients; /* libjpeg decodes them, and the device transforms them */
    struct jpeg_plane planes[JPEG_COMPONENTS_MAX];
    int16_t *coefficients;           /* device */
    uint32_t *coefficients_verdict;  /* device */
    size_t file_at, image_at, work_end;
    uint32_t verdict;     /* after rig_run */
};

struct rig_batch {
    struct rig_image *images;
    size_t count;
    size_t file_bytes, pixel_bytes, work_bytes, description_bytes;
    uint8_t *files, *pixels, *work, *description; /* device */
    uint8_t *host_files, *host_pixels, *host_description;
    uint32_t *verdicts, *host_verdicts;
    struct jpeg_decode_batch batch;
};

static inline void *rig_device(size_t bytes)
{
    void *memory = NULL;
    CHECK_CUDA(cudaMalloc(&memory, bytes));
    return memory;
}

static inline void *rig_pinned(size_t bytes)
{
    void *memory = NULL;
    CHECK_CUDA(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable));
    return memory;
}

static inline void rig_upload(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

static inline void rig_download(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
}

static inline size_t rig_align(size_t bytes) { return (bytes + 255) / 256 * 256; }

static inline uint32_t rig_channels(const struct rig_image *image)
{
    return image->as == DECODE_LUMA || image->frame.component_count == 1 ? 1 : 3;
}

static inline size_t rig_work_bytes(const struct rig_image *image)
{
    return jpeg_decode_work_bytes(&image->frame, image->length, image->as, image->eighths);
}

/* Copies a component's coefficients to the layout of coefficients.h. */
static inline void rig_arrange(struct jpeg_decompress_struct *reader, jvirt_barray_ptr array,
                               int component, int16_t *to)
{
    static const uint8_t natural[64] = JPEG_NATURAL_OF_ZIGZAG;
    const jpeg_component_info *info = &reader->comp_info[component];
    for (uint32_t y = 0; y < info->height_in_blocks; y++) {
        JBLOCKARRAY rows =
            reader->mem->access_virt_barray((j_common_ptr)reader, array, y, 1, FALSE);
        for (uint32_t x = 0; x < info->width_in_blocks; x++)
            for (uint32_t k = 0; k < 64; k++)
                to[jpeg_coefficient(y * info->width_in_blocks + x, k)] = rows[0][x][natural[k]];
    }
}

/* Makes the image one whose coefficients are given. */
static inline void rig_coefficients(struct rig_image *image, cudaStream_t stream)
{
    struct jpeg_decompress_struct reader;
    struct rig_errors errors;
    size_t at[JPEG_COMPONENTS_MAX] = {0}, values = 0;
    uint32_t verdict = 0;
    rig_errors_begin(&errors);
    errors.manager.error_exit = rig_abort;
    reader.err = &errors.manager;
    jpeg_create_decompress(&reader);
    jpeg_mem_src(&reader, image->bytes, image->length);
    jpeg_read_header(&reader, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&reader);
    for (int i = 0; i < reader.num_components; i++) {
        const jpeg_component_info *info = &reader.comp_info[i];
        at[i] = values;
        values += jpeg_plane_values((uint64_t)info->width_in_blocks * info->height_in_blocks);
    }
    int16_t *host = calloc(values, sizeof *host);
    image->coefficients = rig_device(values * sizeof *host);
    image->coefficients_verdict = rig_device(sizeof verdict);
    for (int i = 0; i < reader.num_components; i++) {
        const jpeg_component_info *info = &reader.comp_info[i];
        rig_arrange(&reader, arrays[i], i, host + at[i]);
        struct jpeg_plane plane = {image->coefficients + at[i], info->width_in_blocks,
                                   info->height_in_blocks};
        image->planes[i] = plane;
    }
    rig_upload(image->coefficients, host, values * sizeof *host, stream);
    rig_upload(image->coefficients_verdict, &verdict, sizeof verdict, stream);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    free(host);
    jpeg_finish_decompress(&reader);
    jpeg_destroy_decompress(&reader);
    image->frame.progressive = true;
}

/* Allocates the memory of a batch, fills it with a pattern, and describes the batch. The images
 * have their bytes, as, eighths, by_coefficients and frame. */
static inline void rig_begin(struct rig_batch *batch, struct rig_image *images, size_t count,
                             cudaStream_t stream)
{
    struct jpeg_decode_image *items = calloc(count, sizeof *items);
    size_t work_at = 0;
    memset(batch, 0, sizeof *batch);
    batch->images = images;
    batch->count = count;
    batch->pixel_bytes = RIG_GUARD;
    for (size_t i = 0; i < count; i++) {
        struct rig_image *image = &images[i];
        if (image->by_coefficients)
            rig_coefficients(image, stream);
        image->file_at = batch->file_bytes;
        batch->file_bytes += rig_align(image->length + 16);
        image->image.width = image_scaled(image->frame.width, image->eighths);
        image->image.height = image_scaled(image->frame.height, image->eighths);
        image->image.channels = rig_channels(image);
        image->image.stride = image_stride(image->image.width, image->image.channels);
        image->image_at = batch->pixel_bytes;
        batch->pixel_bytes += rig_align(image->image.stride * image->image.height) + RIG_GUARD;
    }
    for (size_t i = 0; i < count; i++)
        batch->work_bytes += rig_work_bytes(&images[i]) + RIG_GUARD;
    batch->description_bytes = jpeg_decode_describe(items, count, NULL, 0, &batch->batch);
    batch->files = rig_device(batch->file_bytes);
    batch->pixels = rig_device(batch->pixel_bytes);
    batch->work = rig_device(batch->work_bytes);
    batch->description = rig_device(batch->description_bytes);
    batch->verdicts = rig_device(count * sizeof(uint32_t));
    batch->host_files = rig_pinned(batch->file_bytes);
    batch->host_pixels = rig_pinned(batch->pixel_bytes);
    batch->host_description = rig_pinned(batch->description_bytes);
    batch->host_verdicts = rig_pinned(count * sizeof(uint32_t));
    memset(batch->host_files, RIG_PATTERN, batch->file_bytes);
    for (size_t i = 0; i < count; i++)
        memcpy(batch->host_files + images[i].file_at, images[i].bytes, images[i].length);
    memset(batch->host_pixels, RIG_PATTERN, batch->pixel_bytes);
    memset(batch->host_verdicts, RIG_PATTERN, count * sizeof(uint32_t));
    rig_upload(batch->pixels, batch->host_pixels, batch->pixel_bytes, stream);
    rig_upload(batch->verdicts, batch->host_verdicts, count * sizeof(uint32_t), stream);
    /* The result must not depend on what was in the work space. */
    static const int fills[] = {0x00, RIG_PATTERN, 0xFF};
    static unsigned turn;
    uint8_t *work = malloc(batch->work_bytes);
    memset(work, fills[turn++ % 3], batch->work_bytes);
    for (size_t i = 0; i < count; i++) {
        struct rig_image *image = &images[i];
        image->image.pixels = batch->pixels + image->image_at;
        struct jpeg_decode_image item = {
            .frame = &image->frame, .file = batch->files + image->file_at,
            .file_bytes = (uint32_t)image->length, .as = image->as, .eighths = image->eighths,
            .image = image->image, .verdict = batch->verdicts + i, .work = batch->work + work_at};
        item.needed = image->needed;
        if (image->by_coefficients) {
            item.coefficients = image->planes;
            item.coefficients_verdict = image->coefficients_verdict;
        }
        items[i] = item;
        work_at += rig_work_bytes(image);
        image->work_end = work_at;
        memset(work + work_at, RIG_PATTERN, RIG_GUARD);
        work_at += RIG_GUARD;
    }
    rig_upload(batch->work, work, batch->work_bytes, stream);
    if (jpeg_decode_describe(items, count, batch->host_description, batch->description_bytes,
                             &batch->batch) != batch->description_bytes)
        abort();
    CHECK_CUDA(cudaStreamSynchronize(stream));
    free(work);
    free(items);
}

/* Uploads files and description, and launches. */
static inline void rig_launch(struct rig_batch *batch, cudaStream_t stream)
{
    rig_upload(batch->files, batch->host_files, batch->file_bytes, stream);
    rig_upload(batch->description, batch->host_description, batch->description_bytes, stream);
    CHECK_CUDA(jpeg_decode_launch(&batch->batch, batch->description, stream));
}

/* Downloads pixels and verdicts. Returns whether nothing was written outside images and work. */
static inline bool rig_fetch(struct rig_batch *batch, cudaStream_t stream)
{
    uint8_t *guards = malloc(batch->count * RIG_GUARD);
    bool intact = true;
    rig_download(batch->host_pixels, batch->pixels, batch->pixel_bytes, stream);
    rig_download(batch->host_verdicts, batch->verdicts, batch->count * sizeof(uint32_t), stream);
    for (size_t i = 0; i < batch->count; i++)
        rig_download(guards + i * RIG_GUARD, batch->work + batch->images[i].work_end, RIG_GUARD,
                     stream);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < batch->count * RIG_GUARD; i++)
        intact &= guards[i] == RIG_PATTERN;
    for (size_t i = 0; i < RIG_GUARD; i++)
        intact &= batch->host_pixels[i] == RIG_PATTERN;
    free(guards);
    for (size_t i = 0; i < batch->count; i++) {
        const struct rig_image *image = &batch->images[i];
        size_t end = image->image_at + image->image.stride * image->image.height;
        size_t next = i + 1 < batch->count ? batch->images[i + 1].image_at : batch->pixel_bytes;
        for (size_t at = end; at < next; at++)
            intact &= batch->host_pixels[at] == RIG_PATTERN;
        batch->images[i].verdict = batch->host_verdicts[i];
    }
    return intact;
}

static inline void rig_end(struct rig_batch *batch)
{
    void *device[] = {batch->files, batch->pixels, batch->work, batch->description,
                      batch->verdicts};
    void *pinned[] = {batch->host_files, batch->host_pixels, batch->host_description,
                      batch->host_verdicts};
    for (size_t i = 0; i < batch->count; i++) {
        CHECK_CUDA(cudaFree(batch->images[i].coefficients));
        CHECK_CUDA(cudaFree(batch->images[i].coefficients_verdict));
    }
    for (size_t i = 0; i < sizeof device / sizeof *device; i++)
        CHECK_CUDA(cudaFree(device[i]));
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++)
        CHECK_CUDA(cudaFreeHost(pinned[i]));
}

static inline J_COLOR_SPACE rig_space(const struct rig_image *image)
{
    return rig_channels(image) == 1         ? JCS_GRAYSCALE
           : image->as == DECODE_YCC ? JCS_YCbCr
                                            : JCS_RGB;
}

/* Number of bytes of the needed part that differ from libjpeg's pixels. *warnings: libjpeg's, -1
 * for an error. */
static inline size_t rig_differences(const struct rig_batch *batch, const struct rig_image *image,
                                     long *warnings)
{
    const struct image *size = &image->image;
    struct image_part part = image->needed;
    if (part.width == 0)
        part = (struct image_part){0, 0, size->width, size->height};
    size_t wrong = 0, first = (size_t)part.x * size->channels;
    size_t end = first + (size_t)part.width * size->channels;
    uint8_t *reference = calloc(size->height, size->stride);
    *warnings = rig_decode(image->bytes, image->length, rig_space(image), image->eighths,
                           reference, size->stride);
    for (uint32_t y = part.y; y < part.y + part.height; y++) {
        const uint8_t *ours = batch->host_pixels + image->image_at + y * size->stride;
        for (size_t x = first; x < end; x++)
            wrong += ours[x] != reference[y * size->stride + x];
    }
    free(reference);
    return wrong;
}
