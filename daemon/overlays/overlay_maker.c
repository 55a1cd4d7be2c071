#include "daemon/overlays/overlay_maker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/clock.h"
#include "conf/options.h"
#include "gpu/engine/engine.h"
#include "gpu/plan/op_list.h"

/* The pool's own record of a block is then small compared with the block. */
#define BLOCK_BYTES_MIN (4 * KIB)
/* HEAP_WORKER_BYTES covers a decoder of this size. */
#define DECODER_BYTES_FREE (1 * MIB)

/* ---- memory --------------------------------------------------------------------------------- */

bool overlay_maker_take(struct overlay_maker *maker, size_t bytes, struct pool_block *block,
                        struct error *error)
{
    bool exhausted = false;
    if (overlays_take(maker->overlays, bytes, maker->held, block, &exhausted)) {
        maker->held += block->bytes;
        return true;
    }
    if (!exhausted)
        maker->lack = LACKS_FILES;
    if (overlays_fit(maker->overlays, bytes, maker->held))
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory for %zu bytes of an overlay", bytes);
    else
        error_set(error, STATUS_OVER_BUDGET,
                  "with %zu bytes for the input and other overlays, %zu more bytes do not fit into "
                  "half of host_bytes",
                  maker->held, bytes);
    return false;
}

static void give(struct overlay_maker *maker, struct pool_block *block)
{
    maker->held -= block->bytes;
    overlays_give(maker->overlays, block);
}

/* doing: for the message. Returns the reserved bytes in *lent. */
static bool lend(struct overlay_maker *maker, const char *doing, size_t bytes, size_t *lent,
                 struct error *error)
{
    bool exhausted = false;
    *lent = 0;
    if (!maker->lend || bytes <= DECODER_BYTES_FREE)
        return true;
    if (maker->lend(maker->admission, bytes, &exhausted)) {
        *lent = bytes;
        return true;
    }
    if (!exhausted)
        maker->lack = LACKS_LANE;
    error_set(error, STATUS_OVER_BUDGET,
              "%s needs %zu bytes; the limit is three eighths of host_bytes: set it to %" PRIu64
              "M or more",
              doing, bytes, options_host_mib(bytes, 3, 8));
    return false;
}

static void end_loan(struct overlay_maker *maker, size_t lent)
{
    if (lent > 0)
        maker->end_loan(maker->admission, lent);
}

/* ---- from pixels to an overlay -------------------------------------------------------------- */

static void expand_row(const uint8_t *from, uint32_t channels, uint8_t *to, uint32_t width)
{
    for (size_t x = 0; x < width; x++, from += channels, to += 4) {
        to[0] = from[0];
        to[1] = from[channels >= 3 ? 1 : 0];
        to[2] = from[channels >= 3 ? 2 : 0];
        to[3] = channels == 4 ? from[3] : 255;
    }
}

static bool is_gray_row(const uint8_t *row, uint32_t width)
{
    for (size_t x = 0; x < width; x++, row += 4)
        if (row[3] != 0 && (row[0] != row[1] || row[0] != row[2]))
            return false;
    return true;
}

/* Takes a block with room for an overlay of this size, and sets all but its pixels. The members
 * of `like` identify the overlay, which is not in the cache yet. */
static struct overlay *make_room(struct overlay_maker *maker, const struct overlay *like,
                                 uint32_t width, uint32_t height, struct error *error)
{
    size_t key_at = sizeof(struct overlay), key_bytes = like->key ? strlen(like->key) + 1 : 0;
    size_t file_at = key_at + key_bytes, file_bytes = like->key ? like->file_bytes : 0;
    size_t pixels_at = buffer_align(file_at + file_bytes);
    size_t bytes = pixels_at + image_bytes(width, height, 4);
    struct pool_block block;
    bytes = bytes > BLOCK_BYTES_MIN ? bytes : BLOCK_BYTES_MIN;
    if (!overlay_maker_take(maker, bytes, &block, error))
        return NULL;
    uint8_t *memory = block.memory;
    struct overlay *overlay = block.memory;
    *overlay = *like;
    overlay->block = block;
    if (like->key) {
        overlay->key = memcpy(memory + key_at, like->key, key_bytes);
        overlay->file = memcpy(memory + file_at, like->file, file_bytes);
    }
    overlay->pixels.image =
        (struct image){memory + pixels_at, width, height, 4, image_stride(width, 4)};
    return overlay;
}

static void put_pixels(struct plan_overlay *pixels, struct image image)
{
    pixels->gray = true;
    for (uint32_t y = 0; y < image.height; y++) {
        uint8_t *row = pixels->image.pixels + y * pixels->image.stride;
        expand_row(image.pixels + y * image.stride, image.channels, row, image.width);
        pixels->gray = pixels->gray && is_gray_row(row, image.width);
    }
}

/* A plan, its buffers and its result. The buffers and the result are in the pool. */
struct work {
    struct plan plan;
    struct engine_memory memory;
    struct pool_block block;
    struct overlay *overlay;
    bool done;
};

/* The pool takes the lowest gap. So the overlay's block is taken first: when the plan's block is
 * given back, it leaves no gap below the overlay. */
static bool work_open(struct overlay_maker *maker, struct work *work, const struct overlay *like,
                      const struct plan_source *source, const struct op_item *ops,
                      struct error *error)
{
    const struct plan_limits limits = {maker->limits->pixels_max, maker->limits->side_max};
    struct plan_target target = {.ops = ops};
    work->block = (struct pool_block){0};
    work->overlay = NULL;
    work->done = false;
    if (plan_build(&work->plan, source, &target, 1, &limits, error) != STATUS_OK)
        return false;
    const struct plan_variant *result = &work->plan.variants[0];
    work->overlay = make_room(maker, like, result->width, result->height, error);
    if (!work->overlay)
        return false;
    size_t output_at = buffer_align(work->plan.input_bytes);
    size_t scratch_at = output_at + buffer_align(work->plan.output_bytes);
    if (!overlay_maker_take(maker, scratch_at + work->plan.scratch_bytes, &work->block, error))
        return false;
    uint8_t *memory = work->block.memory;
    work->memory = (struct engine_memory){
        .input = memory, .output = memory + output_at, .scratch = memory + scratch_at};
    return true;
}

static void work_finish(struct overlay_maker *maker, struct work *work, struct error *error)
{
    struct engine_task task = {
        .plan = &work->plan, .memory = &work->memory, .deadline_ns = maker->limits->deadline_ns};
    plan_put_constants(&work->plan, work->memory.input);
    engine_run_here(&task);
    work->done = task.error.status == STATUS_OK;
    if (work->done)
        put_pixels(&work->overlay->pixels,
                   plan_result(&work->plan, 0, work->memory.input, work->memory.output));
    else
        error_set(error, STATUS_DECODE_LIMIT, "%s", task.error.text); /* uncovered: moment */
}

/* Returns a reference to the overlay in the cache. NULL: it could not be made. */
static struct overlay *work_close(struct overlay_maker *maker, struct work *work)
{
    struct overlay *overlay = work->overlay;
    struct pool_block none = {0}, block = overlay ? overlay->block : none;
    plan_clear(&work->plan);
    give(maker, &work->block);
    if (work->done) {
        maker->held -= block.bytes; /* the caller counts the overlays that it keeps */
        return overlays_add(maker->overlays, overlay);
    }
    give(maker, &block);
    return NULL;
}

/* ---- decoding ------------------------------------------------------------------------------- */

static bool is_text(const struct overlay *like)
{
    return like->key && strcmp(like->key, OVERLAY_TEXT) == 0;
}

static enum status read_pixels(struct overlay_maker *maker, const struct overlay *like,
                               const uint8_t *bytes, const struct image_info *info,
                               const struct codec_limits *limits, const struct image *image,
                               struct error *error)
{
    const struct decode_request request = {.as = DECODE_COLOUR};
    if (is_text(like))
        return codec_draw_text(maker->codec, bytes, like->file_bytes, info, limits, image, error);
    return codec_decode(maker->codec, bytes, like->file_bytes, info, &request, limits, image,
                        error);
}

static struct overlay *decode_info(struct overlay_maker *maker, const struct overlay *like,
                                   const uint8_t *bytes, const struct image_info *info,
                                   const struct codec_limits *limits, struct error *error)
{
    const struct plan_source source = {.width = info->width,
                                       .height = info->height,
                                       .channels = info->channels,
                                       .orientation = info->orientation};
    struct work work;
    size_t lent = 0;
    if (work_open(maker, &work, like, &source, NULL, error) &&
        lend(maker, is_text(like) ? "drawing the text" : "decoding", info->codec_bytes, &lent,
             error)) {
        struct image image = plan_input(&work.plan, work.memory.input);
        if (read_pixels(maker, like, bytes, info, limits, &image, error) == STATUS_OK)
            work_finish(maker, &work, error);
    }
    end_loan(maker, lent);
    return work_close(maker, &work);
}

/* To measure a text, its fonts are needed, as they are to draw it. */
static enum status read_header(struct overlay_maker *maker, const struct overlay *like,
                               const uint8_t *bytes, const struct codec_limits *limits,
                               struct image_info *info, struct error *error)
{
    size_t lent = 0;
    if (!is_text(like))
        return codec_probe(maker->codec, bytes, like->file_bytes, limits, info, error);
    if (!lend(maker, "measuring the text", TEXT_WORK_BYTES, &lent, error))
        return error->status;
    enum status status =
        codec_measure_text(maker->codec, bytes, like->file_bytes, limits, info, error);
    end_loan(maker, lent);
    return status;
}

static struct overlay *decode(struct overlay_maker *maker, struct overlay *like,
                              const uint8_t *bytes, struct error *error)
{
    struct image_info info = {0};
    struct overlay *overlay = NULL;
    struct codec_limits limits = *maker->limits;
    limits.metadata = 0; /* outputs get that of the input */
    limits.page = 0;     /* the job's page is one of the input */
    if (read_header(maker, like, bytes, &limits, &info, error) == STATUS_OK) {
        like->file_width = info.width;
        like->file_height = info.height;
        overlay = decode_info(maker, like, bytes, &info, &limits, error);
    }
    image_info_clear(&info);
    return overlay;
}

struct overlay *overlay_resized(struct overlay_maker *maker, struct overlay *whole, uint32_t width,
                                struct error *error)
{
    const struct image *from = &whole->pixels.image;
    uint64_t height = (2 * (uint64_t)from->height * width + from->width) / (2 * from->width);
    const struct plan_source source = {
        .width = from->width, .height = from->height, .channels = 4, .orientation = 1};
    struct overlay like = {.id = whole->id,
                           .asked_width = width,
                           .file_width = whole->file_width,
                           .file_height = whole->file_height,
                           .file_bytes = whole->file_bytes};
    char text[160];
    struct work work;
    height = height > 0 ? height : 1;
    if (height > maker->limits->side_max) {
        error_set(error, STATUS_IMAGE_TOO_LARGE,
                  "%" PRIu32 " pixels wide, it is %" PRIu64
                  " pixels high; a side may have at most %u",
                  width, height, maker->limits->side_max);
        return NULL;
    }
    snprintf(text, sizeof text, "[{\"op\":\"resize\",\"width\":%" PRIu32 ",\"height\":%" PRIu64
             ",\"fit\":\"exact\",\"filter\":\"lanczos3\"}]", width, height);
    cJSON *json = cJSON_Parse(text);
    struct op_item *ops = NULL;
    bool parsed = json && op_list_parse(&ops, json, -1, error) == STATUS_OK;
    cJSON_Delete(json);
    if (!parsed) {
        error_set(error, STATUS_OUT_OF_MEMORY, "no memory to resize it"); /* uncovered: memory */
        return NULL;
    }
    if (work_open(maker, &work, &like, &source, ops, error)) {
        struct image to = plan_input(&work.plan, work.memory.input);
        for (uint32_t y = 0; y < from->height; y++)
            memcpy(to.pixels + y * to.stride, from->pixels + y * from->stride, from->width * 4);
        work_finish(maker, &work, error);
    }
    struct overlay *overlay = work_close(maker, &work);
    op_list_free(ops);
    return overlay;
}

/* ---- sources -------------------------------------------------------------------------------- */

/* An overlay in the cache may have been made with larger limits. */
static bool is_allowed(const struct overlay_maker *maker, const struct overlay *overlay)
{
    const struct codec_limits *limits = maker->limits;
    const struct image *image = &overlay->pixels.image;
    return overlay->file_bytes <= maker->bytes_max && overlay->file_width <= limits->side_max &&
           overlay->file_height <= limits->side_max && image->width <= limits->side_max &&
           image->height <= limits->side_max &&
           (uint64_t)overlay->file_width * overlay->file_height <= limits->pixels_max &&
           (uint64_t)image->width * image->height <= limits->pixels_max;
}

static struct overlay *find(struct overlay_maker *maker, const struct overlay_id *id,
                            uint32_t width)
{
    struct overlay *overlay = overlays_find(maker->overlays, id, width);
    if (!overlay || is_allowed(maker, overlay))
        return overlay;
    overlays_release(maker->overlays, overlay);
    return NULL;
}

static bool is_settled(const struct overlay_maker *maker, uint64_t changed_ns, uint64_t now_ns)
{
    return changed_ns + maker->settled_s * NS_PER_S <= now_ns;
}

static struct overlay_id id_of(struct overlay_maker *maker, const struct files_input *input)
{
    uint64_t now_ns = (uint64_t)(clock_unix_s() * 1e9);
    if (!is_settled(maker, input->modified_ns, now_ns) ||
        !is_settled(maker, input->changed_ns, now_ns))
        return overlays_new_id(maker->overlays);
    return (struct overlay_id){{input->identity.device, input->identity.inode, input->size,
                                input->modified_ns, input->changed_ns}};
}

/* Reads and decodes the file. */
static struct overlay *load(struct overlay_maker *maker, const char *path,
                            const struct files_input *input, const struct overlay_id *id,
                            struct error *error)
{
    struct overlay like = {.id = *id, .file_bytes = input->size}, *overlay = NULL;
    struct pool_block file;
    if (!overlay_maker_take(maker, input->size + 1, &file, error))
        return NULL;
    if (files_read_input(input->fd, path, file.memory, 0, input->size, error) == STATUS_OK)
        overlay = decode(maker, &like, file.memory, error);
    give(maker, &file);
    return overlay;
}

static struct overlay *resize_and_release(struct overlay_maker *maker, struct overlay *whole,
                                          uint32_t width, struct error *error)
{
    bool counts = maker->holds && maker->holds(maker->holder, whole);
    size_t more = counts ? 0 : whole->block.bytes;
    maker->held += more;
    struct overlay *overlay = overlay_resized(maker, whole, width, error);
    maker->held -= more;
    overlays_release(maker->overlays, whole);
    return overlay;
}

struct overlay *overlay_from_path(struct overlay_maker *maker, const char *path, uint32_t width,
                                  struct error *error)
{
    struct files_input input;
    if (files_open_input(maker->files, NULL, path, maker->bytes_max, &input, error) != STATUS_OK)
        return NULL;
    struct overlay_id id = id_of(maker, &input);
    struct overlay *overlay = find(maker, &id, width);
    if (!overlay && width > 0) {
        overlay = find(maker, &id, 0);
        if (!overlay)
            overlay = load(maker, path, &input, &id, error);
        if (overlay)
            overlay = resize_and_release(maker, overlay, width, error);
    } else if (!overlay) {
        overlay = load(maker, path, &input, &id, error);
    }
    close(input.fd);
    return overlay;
}

/* From bytes in memory: the value of a key, or a text. */
static struct overlay *from_bytes(struct overlay_maker *maker, const char *key,
                                  const uint8_t *bytes, uint64_t length, struct error *error)
{
    struct overlay *overlay = overlays_find_key(maker->overlays, key, bytes, length);
    if (overlay && is_allowed(maker, overlay))
        return overlay;
    if (overlay)
        overlays_release(maker->overlays, overlay);
    struct overlay like = {
        .id = overlays_new_id(maker->overlays), .file_bytes = length, .key = key, .file = bytes};
    return decode(maker, &like, bytes, error);
}

struct overlay *overlay_from_key(struct overlay_maker *maker, const char *key, const uint8_t *bytes,
                                 uint64_t length, struct error *error)
{
    return from_bytes(maker, key, bytes, length, error);
}

struct overlay *overlay_from_text(struct overlay_maker *maker, const struct plan_text *text,
                                  struct error *error)
{
    uint8_t bytes[sizeof text->style + TEXT_BYTES_MAX];
    size_t length = strlen(text->text);
    memcpy(bytes, &text->style, sizeof text->style);
    memcpy(bytes + sizeof text->style, text->text, length);
    return from_bytes(maker, OVERLAY_TEXT, bytes, sizeof text->style + length, error);
}
