/* encode.c - runs the stages for the tiles of an image. */
#include "gpu/avif/encode.h"

#include <string.h>

#include "gpu/avif/decide/decide.h"
#include "gpu/avif/encode_impl.h"
#include "gpu/avif/decide/palettes.h"
#include "gpu/avif/entropy/code.h"
#include "gpu/avif/entropy/palettes.h"
#include "gpu/avif/entropy/tokeniser.h"
#include "gpu/avif/frame/frame_header.h"
#include "gpu/avif/kernels/import.h"
#include "gpu/avif/kernels/kernels.h"
#include "gpu/avif/transform/scans.h"

enum { TILE_SIZE_BYTES = 4 };

/* What a call has besides the encoder. */
struct job {
    struct avif_encoder encoder;
    struct avif_tokeniser tokeniser;
    struct avif_palette_neighbours palettes;
    struct avif_quantiser quantisers[ACTIVITIES];
    struct avif_all_cdfs cdfs;
    struct avif_range_coder coder;
    bool (*is_stopped)(void *context);
    void *context;
};

/* ---- memory ---- */

/* start NULL: only the size is computed. */
struct work {
    uint8_t *start;
    size_t bytes;
};

static void *take(struct work *work, size_t bytes)
{
    uint8_t *memory = work->start ? work->start + work->bytes : NULL;
    work->bytes += buffer_align(bytes);
    return memory;
}

static void take_plane(struct work *work, const struct avif_frame *frame, int shift,
                       struct avif_plane *plane)
{
    plane->stride = (size_t)frame->superblocks_x * SUPERBLOCK >> shift;
    plane->samples =
        take(work, plane->stride * ((size_t)frame->superblocks_y * SUPERBLOCK >> shift));
}

/* Places what the stages need. The frame is set. */
static size_t place(uint8_t *memory, struct job *job)
{
    struct avif_encoder *encoder = &job->encoder;
    const struct avif_frame *frame = &encoder->frame;
    struct work work = {memory, 0};
    for (int i = 0; i < frame->planes; i++) {
        take_plane(&work, frame, i > 0, &encoder->source[i]);
        take_plane(&work, frame, i > 0, &encoder->reconstruction[i]);
        size_t units = (size_t)(frame->superblocks_x * frame->superblocks_y) * (i > 0 ? 64 : 256);
        encoder->contexts[i] = take(&work, units * sizeof *encoder->contexts[i]);
    }
    take_plane(&work, frame, 0, &encoder->proxy);
    encoder->blocks =
        take(&work, (size_t)frame->cells_x * (size_t)frame->cells_y * sizeof *encoder->blocks);
    encoder->choices = take(&work, CHOICES * sizeof *encoder->choices);
    encoder->levels = take(&work, LEVELS * sizeof *encoder->levels);
    encoder->has_one_superblock = true;
    encoder->palettes = take(&work, sizeof *encoder->palettes);
    job->palettes.above = take(&work, (size_t)frame->tiles.width * 8 * sizeof *job->palettes.above);
    job->tokeniser.tokens = take(&work, TOKENS_SUPERBLOCK * sizeof *job->tokeniser.tokens);
    return work.bytes;
}

/* ---- properties of an image ---- */

size_t avif_encode_work_bytes(uint32_t width, uint32_t height, uint32_t channels, int effort)
{
    struct job job = {0};
    const struct avif_encode_options options = {.quality = 50, .effort = effort};
    if (!avif_frame_set(&job.encoder.frame, width, height, channels, &options))
        return 0;
    return place(NULL, &job);
}

size_t avif_encode_capacity(uint32_t width, uint32_t height, uint32_t channels)
{
    enum { base = 4096 };
    size_t pixels = (size_t)((width + 63) / 64) * ((height + 63) / 64) * 4096;
    return base + pixels / 2 * (channels == 1 ? 2 : 3);
}

void avif_encode_config(uint32_t width, uint32_t height, uint32_t channels, uint8_t av1c[4])
{
    struct avif_frame frame;
    const struct avif_encode_options options = {.quality = 50};
    int level = avif_frame_set(&frame, width, height, channels, &options) ? avif_level(&frame) : 31;
    av1c[0] = 0x81;                        /* marker, version 1 */
    av1c[1] = (uint8_t)level;              /* profile 0 */
    av1c[2] = channels == 1 ? 0x1C : 0x0C; /* 4:2:0, or monochrome */
    av1c[3] = 0;
}

/* ---- tiles ---- */

static void tokenise_block(struct job *job, int x, int y)
{
    avif_tokenise_modes(&job->tokeniser, x, y);
    if (job->encoder.frame.palettes)
        avif_tokenise_palettes(&job->tokeniser, &job->palettes, x, y);
    avif_tokenise_transforms(&job->tokeniser, x, y);
}

static void code_partition(struct job *job, int x, int y, int size)
{
    struct avif_encoder *encoder = &job->encoder;
    int half = 1 << (size - 1), right = 8 * encoder->frame.cells_x;
    int bottom = 8 * encoder->frame.cells_y;
    if (x >= right || y >= bottom)
        return;
    bool split = avif_choice_at(encoder, x, y, size)->split;
    avif_tokenise_partition(&job->tokeniser, x, y, size, split);
    if (!split) {
        avif_code_block(encoder, &job->tokeniser.tile, x, y, size);
        tokenise_block(job, x, y);
        return;
    }
    for (int i = 0; i < 4; i++)
        code_partition(job, x + (i & 1) * half, y + (i >> 1) * half, size - 1);
}

static void code_superblock(struct job *job, int x, int y)
{
    avif_analyse(&job->encoder, &job->tokeniser.tile, x, y);
    job->tokeniser.count = 0;
    code_partition(job, x, y, SUPERBLOCK_SIZE);
    avif_code_tokens(&job->coder, &job->cdfs.common, job->tokeniser.tokens, job->tokeniser.count);
}

/* Returns false if the caller has stopped the job. The coder has the bytes. */
static bool code_tile(struct job *job, uint8_t *to, size_t capacity)
{
    const struct avif_frame *frame = &job->encoder.frame;
    const struct avif_bounds *tile = &job->tokeniser.tile;
    avif_init_cdfs(&job->cdfs.common, frame->quantiser.index, 0, 1);
    if (frame->palettes) {
        avif_init_palette_cdfs(&job->cdfs.palettes);
        memset(job->palettes.above, 0,
               (size_t)frame->tiles.width * 8 * sizeof *job->palettes.above);
    }
    avif_begin_range(&job->coder, to, capacity);
    for (int y = tile->top; y < tile->bottom; y += SUPERBLOCK) {
        if (job->is_stopped && job->is_stopped(job->context))
            return false;
        int right = (tile->right + SUPERBLOCK - 1) & -SUPERBLOCK;
        avif_make_proxy(&job->encoder, tile->left, y, right, y + SUPERBLOCK);
        memset(job->palettes.left, 0, sizeof job->palettes.left);
        for (int x = tile->left; x < tile->right; x += SUPERBLOCK)
            code_superblock(job, x, y);
    }
    avif_end_range(&job->coder);
    return true;
}

static void set_tile(struct job *job, int column, int row)
{
    const struct avif_frame *frame = &job->encoder.frame;
    const struct avif_tiles *tiles = &frame->tiles;
    int width = tiles->width * SUPERBLOCK, height = tiles->height * SUPERBLOCK;
    struct avif_bounds *tile = &job->tokeniser.tile;
    tile->left = column * width;
    tile->top = row * height;
    tile->right = avif_min(tile->left + width, 8 * frame->cells_x);
    tile->bottom = avif_min(tile->top + height, 8 * frame->cells_y);
}

/* ---- the image ---- */

/* Writes the payload of the frame's OBU from `at` on, and sets *at to its end. */
static enum status code_frame(struct job *job, uint8_t *obus, size_t capacity, size_t *at)
{
    const struct avif_tiles *tiles = &job->encoder.frame.tiles;
    *at += avif_put_frame_header(&job->encoder.frame, obus + *at);
    for (int i = 0; i < tiles->columns * tiles->rows; i++) {
        size_t size_bytes = i + 1 < tiles->columns * tiles->rows ? TILE_SIZE_BYTES : 0;
        if (capacity - *at < size_bytes)
            return STATUS_ENCODE_FAILED;
        uint8_t *to = obus + *at + size_bytes;
        set_tile(job, i % tiles->columns, i / tiles->columns);
        if (!code_tile(job, to, capacity - *at - size_bytes))
            return STATUS_CANCELLED;
        size_t bytes = job->coder.count;
        if (bytes > capacity - *at - size_bytes)
            return STATUS_ENCODE_FAILED;
        for (size_t k = 0; k < size_bytes; k++)
            obus[*at + k] = (uint8_t)((bytes - 1) >> 8 * k);
        *at += size_bytes + bytes;
    }
    return STATUS_OK;
}

/* Writes the OBUs. The payload of the frame moves when the length of its header is known. */
static enum status code_image(struct job *job, uint8_t *obus, size_t capacity, size_t *bytes)
{
    uint8_t header[AVIF_OBU_HEADER_BYTES_MAX];
    if (capacity < 2 * AVIF_HEADER_BYTES_MAX)
        return STATUS_ENCODE_FAILED;
    size_t start = avif_put_sequence(&job->encoder.frame, obus), end = start;
    enum status status = code_frame(job, obus, capacity - AVIF_OBU_HEADER_BYTES_MAX, &end);
    if (status != STATUS_OK)
        return status;
    size_t header_bytes = avif_put_frame_obu(end - start, header);
    memmove(obus + start + header_bytes, obus + start, end - start);
    memcpy(obus + start, header, header_bytes);
    *bytes = end + header_bytes;
    return STATUS_OK;
}

void avif_reconstruction(const struct avif_frame *frame, void *work,
                         struct avif_plane planes[PLANES])
{
    struct job job = {.encoder = {.frame = *frame}};
    (void)place(work, &job);
    memcpy(planes, job.encoder.reconstruction, sizeof job.encoder.reconstruction);
}

enum status avif_encode_with(const struct avif_kernels *kernels, const struct image *source,
                             const struct avif_encode_options *options,
                             bool (*is_stopped)(void *context), void *context, void *work,
                             uint8_t *obus, size_t capacity, size_t *bytes)
{
    struct job job = {.is_stopped = is_stopped, .context = context};
    *bytes = 0;
    if (!avif_frame_set(&job.encoder.frame, source->width, source->height, source->channels,
                        options))
        return STATUS_ENCODE_FAILED;
    (void)place(work, &job);
    job.tokeniser.encoder = &job.encoder;
    job.tokeniser.room = TOKENS_SUPERBLOCK;
    job.encoder.scans = avif_scans();
    job.encoder.kernels = kernels;
    avif_set_quantisers(&job.encoder.frame, job.quantisers);
    job.encoder.quantisers = job.quantisers;
    avif_import(source, &job.encoder);
    job.encoder.frame.palettes =
        job.encoder.frame.tools.palettes && avif_has_palettes(&job.encoder);
    return code_image(&job, obus, capacity, bytes);
}

enum status avif_encode_pixels(const struct image *source,
                               const struct avif_encode_options *options,
                               bool (*is_stopped)(void *context), void *context, void *work,
                               uint8_t *obus, size_t capacity, size_t *bytes)
{
    const struct avif_kernels *kernels = avif_kernels_avx2();
    return avif_encode_with(kernels ? kernels : &avif_kernels_plain, source, options, is_stopped,
                            context, work, obus, capacity, bytes);
}
