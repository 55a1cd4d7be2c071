/* device.c - writes the description from which the kernels encode a batch of images. */
#include "gpu/avif/device/device.h"

#include <string.h>

#include "gpu/avif/frame/frame_header.h"

/* Images are a dimension of the grids of blocks, and positions in a file have 32 bits. */
enum { IMAGES_MAX = 65535, FILE_BYTES_MAX = INT32_MAX };
/* Tokens that an image has room for, besides those for each sample of luma. */
enum { TOKENS_LEAST = 65536 };
/* Bytes after the code for the digits that its last segment ends with. */
enum { CODE_SPARE = 8 };

static bool set_frame(struct avif_frame *frame, uint32_t width, uint32_t height, uint32_t channels,
                      const struct avif_encode_options *options)
{
    return avif_frame_set(frame, width, height, channels, options) &&
           frame->tiles.columns * frame->tiles.rows == 1;
}

static bool set_any_frame(struct avif_frame *frame, uint32_t width, uint32_t height,
                          uint32_t channels)
{
    const struct avif_encode_options options = {.quality = 50};
    return set_frame(frame, width, height, channels, &options);
}

size_t avif_device_capacity(uint32_t width, uint32_t height, uint32_t channels, size_t header_bytes,
                            size_t trailer_bytes)
{
    struct avif_frame frame;
    if (!set_any_frame(&frame, width, height, channels) || header_bytes > FILE_BYTES_MAX ||
        trailer_bytes > FILE_BYTES_MAX)
        return 0;
    size_t bytes = avif_encode_capacity(width, height, channels) + header_bytes + trailer_bytes;
    return bytes <= FILE_BYTES_MAX ? bytes : 0;
}

/* ---- work memory ---- */

/* Tokens for each sample of luma: more than thumbnails of sharp photographs have at this quality.
 * Noise may have more, and is declined. */
static size_t tokens_per_sample(int quality)
{
    return quality <= 80 ? 2 : quality <= 95 ? 4 : 6;
}

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

/* Sets the members that point into the work memory. The frame is set. Returns the bytes of it. */
static size_t place(uint8_t *memory, int quality, struct avif_descriptor *to)
{
    struct avif_encoder *encoder = &to->encoder;
    const struct avif_frame *frame = &encoder->frame;
    size_t superblocks = (size_t)frame->superblocks_x * (size_t)frame->superblocks_y;
    size_t samples = superblocks * SUPERBLOCK * SUPERBLOCK;
    struct work work = {memory, 0};
    for (int i = 0; i < frame->planes; i++) {
        take_plane(&work, frame, i > 0, &encoder->source[i]);
        take_plane(&work, frame, i > 0, &encoder->reconstruction[i]);
        encoder->contexts[i] =
            take(&work, superblocks * (i > 0 ? 64 : 256) * sizeof *encoder->contexts[i]);
    }
    take_plane(&work, frame, 0, &encoder->proxy);
    encoder->blocks =
        take(&work, (size_t)frame->cells_x * (size_t)frame->cells_y * sizeof *encoder->blocks);
    encoder->choices = take(&work, superblocks * CHOICES * sizeof *encoder->choices);
    encoder->levels = take(&work, superblocks * LEVELS * sizeof *encoder->levels);
    to->costs = take(&work, superblocks * CHOICES * sizeof *to->costs);
    to->progress = take(&work, (size_t)frame->superblocks_y * STRIPS * sizeof *to->progress);
    to->token_counts = take(&work, superblocks * TOKEN_PARTS * sizeof *to->token_counts);
    to->token_room = (uint32_t)(TOKENS_LEAST + samples * tokens_per_sample(quality));
    to->tokens = take(&work, to->token_room * sizeof *to->tokens);
    size_t segments = (to->token_room + SEGMENT_TOKENS - 1) / SEGMENT_TOKENS;
    to->segments = take(&work, (segments + 1) * sizeof *to->segments);
    to->passages = take(&work, segments * SEGMENT_RANGES * sizeof *to->passages);
    to->code_room =
        (uint32_t)avif_encode_capacity(frame->width, frame->height, frame->planes > 1 ? 3 : 1);
    to->code = take(&work, to->code_room + CODE_SPARE);
    return work.bytes;
}

size_t avif_device_work_bytes(uint32_t width, uint32_t height, uint32_t channels, int quality)
{
    struct avif_descriptor descriptor;
    memset(&descriptor, 0, sizeof descriptor);
    if (!set_any_frame(&descriptor.encoder.frame, width, height, channels))
        return 0;
    return place(NULL, quality, &descriptor);
}

/* ---- description ---- */

static bool is_valid(const struct avif_encode_image *image)
{
    const struct image *source = &image->source;
    if ((source->channels != 1 && source->channels != 3 && source->channels != 4) ||
        image->options.quality < 1 || image->options.quality > 99 ||
        image->options.effort != AVIF_DEVICE_EFFORT)
        return false;
    size_t capacity = avif_device_capacity(source->width, source->height, source->channels,
                                           image->header_bytes, image->trailer_bytes);
    bool patches = image->image_length_at > 0 || image->media_at > 0;
    return capacity > 0 && image->capacity >= capacity && image->capacity <= FILE_BYTES_MAX &&
           (!patches || (image->image_length_at + 4 <= image->header_bytes &&
                         image->media_at + 4 <= image->header_bytes)) &&
           source->stride % STRIDE_ALIGN == 0 && source->stride <= UINT32_MAX &&
           source->stride >= (size_t)source->width * source->channels &&
           (uintptr_t)source->pixels % AVIF_ENCODE_ALIGN == 0 &&
           (uintptr_t)image->work % BUFFER_ALIGN == 0;
}

static void write_descriptor(const struct avif_encode_image *image, struct avif_descriptor *to)
{
    const struct image *source = &image->source;
    *to = (struct avif_descriptor){
        .pixels = source->pixels,
        .header = image->header,
        .file = image->file,
        .file_bytes = image->file_bytes,
        .stride = (uint32_t)source->stride,
        .channels = source->channels,
        .header_bytes = (uint32_t)image->header_bytes,
        .trailer_bytes = (uint32_t)image->trailer_bytes,
        .capacity = (uint32_t)image->capacity,
        .image_length_at = image->image_length_at,
        .media_at = image->media_at,
    };
    (void)set_frame(&to->encoder.frame, source->width, source->height, source->channels,
                    &image->options);
    avif_set_quantisers(&to->encoder.frame, to->quantisers);
    (void)place(image->work, image->options.quality, to);
    to->sequence_bytes = (uint32_t)avif_put_sequence(&to->encoder.frame, to->sequence);
    to->frame_header_bytes = (uint32_t)avif_put_frame_header(&to->encoder.frame, to->frame_header);
}

static void set_lane_positions(struct avif_common *common)
{
    for (int size = 2; size < 2 + SCAN_SIZES; size++) {
        int count = 1 << 2 * size, each = count < WARP_LANES ? 1 : count / WARP_LANES;
        for (int i = 0; i < count; i++)
            common->lane_positions[size - 2][i % each * WARP_LANES + i / each] =
                common->scans.positions[size - 2][i];
    }
}

size_t avif_encode_describe(const struct avif_encode_image *images, uint32_t count,
                            void *description, size_t bytes, struct avif_encode_batch *batch)
{
    memset(batch, 0, sizeof *batch);
    if (count > IMAGES_MAX)
        return SIZE_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_valid(&images[i]))
            return SIZE_MAX;
        uint32_t across = (images[i].source.width + SUPERBLOCK - 1) / SUPERBLOCK;
        uint32_t rows = (images[i].source.height + SUPERBLOCK - 1) / SUPERBLOCK;
        batch->rows_max = batch->rows_max < rows ? rows : batch->rows_max;
        batch->superblocks_max =
            batch->superblocks_max < across * rows ? across * rows : batch->superblocks_max;
    }
    batch->image_count = count;
    batch->images_at = sizeof(struct avif_common);
    size_t needed = batch->images_at + count * sizeof(struct avif_descriptor);
    if (needed > bytes)
        return needed;
    struct avif_common *common = description;
    common->scans = *avif_scans();
    set_lane_positions(common);
    common->rows_taken = 0;
    struct avif_descriptor *to =
        (struct avif_descriptor *)((uint8_t *)description + batch->images_at);
    for (uint32_t i = 0; i < count; i++)
        write_descriptor(&images[i], &to[i]);
    return needed;
}
