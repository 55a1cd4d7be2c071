/*
 * gif.c - GIF with giflib (confined.h).
 *
 * Page N is what a browser shows of the animation after N frames. Where files leave the standard
 * (GIF89a), the pages are those of browsers, too:
 * - the canvas is the logical screen, and at least as large as the first frame needs; later frames
 *   are cut off at its edges. (Pillow enlarges the canvas for each frame.)
 * - the canvas is transparent where no frame has drawn, and where a frame was removed. (Pillow uses
 *   the background colour if the frame has no transparent colour.)
 * - the disposal method 4 is 3: what the frame has covered comes back.
 * - a file may end after any frame without its last byte, the trailer. But then there may have been
 *   more frames, so info.ends_early is set.
 * A colour that is not in the palette is gray, as in Pillow: the number of the colour is its value.
 */
#ifdef GPUIMGD_GIF

#include <stdlib.h>
#include <string.h>

#include <gif_lib.h>

#include "codecs/confined/confined.h"

/* What becomes of a frame before the next one is drawn. */
enum disposal { KEEP, KEEP_TOO, CLEAR, RESTORE, RESTORE_TOO };

struct frame {
    uint32_t x, y, width, height; /* on the canvas, but perhaps not inside */
    enum disposal disposal;
    int transparent; /* index of a colour; NO_TRANSPARENT_COLOR */
    uint32_t delay_ms;
    bool interlaced;
};

/* A file, read one part after the other. */
struct reader {
    struct confined_source source;
    uint64_t at;         /* the next part begins here */
    const uint8_t *part; /* what is left of the last part */
    size_t left;
    GifFileType *gif;
    int loops; /* of the extension NETSCAPE; -1: there is none */
    bool is_complete; /* the trailer is read */
};

/* What the page needs of the frames before it. */
struct plan {
    uint32_t width, height, frames;
    uint32_t first; /* the first frame to be drawn, on a transparent canvas */
    bool opaque;    /* all of the page is */
    bool all_opaque; /* all of each page is */
    bool ends_early; /* the file has no trailer, or is damaged before it */
};

/* ---- the file ------------------------------------------------------------------------------- */

static int on_read(GifFileType *gif, GifByteType *to, int count)
{
    enum { part_bytes = 1 << 18 };
    struct reader *reader = gif->UserData;
    int done = 0;
    while (done < count) {
        if (reader->left == 0) {
            reader->left = part_bytes;
            reader->part = confined_read(&reader->source, reader->at, &reader->left);
            reader->left = reader->part ? reader->left : 0;
            reader->at += reader->left;
        }
        if (reader->left == 0)
            break;
        size_t bytes = (size_t)(count - done);
        bytes = bytes < reader->left ? bytes : reader->left;
        memcpy(to + done, reader->part, bytes);
        reader->part += bytes;
        reader->left -= bytes;
        done += (int)bytes;
    }
    return done;
}

static void refuse(const struct reader *reader, int error, const char *where, uint32_t frame,
                   struct codec_reply *reply)
{
    bool lacks_data = error == D_GIF_ERR_READ_FAILED || error == D_GIF_ERR_NO_SCRN_DSCR;
    const char *detail = lacks_data ? NULL : GifErrorString(error);
    if (error == D_GIF_ERR_NOT_ENOUGH_MEM)
        confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory to decode a GIF");
    else if (lacks_data && reader->at == reader->source.size && reader->left == 0)
        confined_fail(reply, STATUS_DECODE_FAILED, "the GIF's data ends %s %u", where, frame);
    else
        confined_fail(reply, STATUS_DECODE_FAILED, "the GIF cannot be decoded, %s %u: %s", where,
                      frame, detail ? detail : "its data is corrupt");
}

static bool open_reader(struct reader *reader, const struct codec_call *call, const uint8_t *region,
                        struct codec_reply *reply)
{
    int error = 0;
    *reader = (struct reader){.source = confined_open(call, region, UINT64_MAX), .loops = -1};
    reader->gif = DGifOpen(reader, on_read, &error);
    if (!reader->gif)
        refuse(reader, error, "in the header, before frame", 0, reply);
    return reader->gif != NULL;
}

static void close_reader(struct reader *reader)
{
    int ignored;
    (void)DGifCloseFile(reader->gif, &ignored);
}

/* The extensions of Netscape and of an old tool that say how often an animation repeats. */
static bool is_loop(int kind, const GifByteType *block)
{
    enum { bytes = 11 };
    return kind == APPLICATION_EXT_FUNC_CODE && block && block[0] == bytes &&
           (memcmp(block + 1, "NETSCAPE2.0", bytes) == 0 ||
            memcmp(block + 1, "ANIMEXTS1.0", bytes) == 0);
}

/* Reads an extension: the graphics control for the next frame, the repetitions, or any other. */
static bool read_extension(struct reader *reader, GraphicsControlBlock *control)
{
    GifFileType *gif = reader->gif;
    int kind = 0;
    GifByteType *block = NULL;
    if (DGifGetExtension(gif, &kind, &block) != GIF_OK)
        return false;
    bool loops = is_loop(kind, block);
    if (kind == GRAPHICS_EXT_FUNC_CODE && block)
        (void)DGifExtensionToGCB(block[0], block + 1, control);
    while (block) {
        if (DGifGetExtensionNext(gif, &block) != GIF_OK)
            return false;
        if (loops && block && block[0] >= 3 && block[1] == 1)
            reader->loops = block[2] | block[3] << 8;
    }
    return true;
}

/* Reads the head of the frame. giflib keeps a copy of each head, which is freed. */
static bool read_head(GifFileType *gif, const GraphicsControlBlock *control, struct frame *frame)
{
    bool is_read = DGifGetImageDesc(gif) == GIF_OK;
    const GifImageDesc *head = &gif->Image;
    *frame = (struct frame){.x = (uint32_t)head->Left,
                            .y = (uint32_t)head->Top,
                            .width = (uint32_t)head->Width,
                            .height = (uint32_t)head->Height,
                            .disposal = control->DisposalMode <= RESTORE_TOO
                                            ? (enum disposal)control->DisposalMode
                                            : KEEP,
                            .transparent = control->TransparentColor,
                            .delay_ms = 10 * (uint32_t)control->DelayTime,
                            .interlaced = head->Interlace};
    GifFreeSavedImages(gif);
    gif->ImageCount = 0;
    return is_read;
}

/* Reads up to the pixels of the next frame. false: there is none; a damaged file ends here. */
static bool next_frame(struct reader *reader, struct frame *frame)
{
    GifFileType *gif = reader->gif;
    GraphicsControlBlock control = {.TransparentColor = NO_TRANSPARENT_COLOR};
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    while (DGifGetRecordType(gif, &type) == GIF_OK && type != TERMINATE_RECORD_TYPE) {
        if (type == IMAGE_DESC_RECORD_TYPE)
            return read_head(gif, &control, frame);
        if (!read_extension(reader, &control))
            return false;
    }
    reader->is_complete = type == TERMINATE_RECORD_TYPE;
    return false;
}

/* Skips what is left of the frame's pixels. false: the file ends. */
static bool skip_pixels(GifFileType *gif)
{
    GifByteType *block = NULL;
    do
        if (DGifGetCodeNext(gif, &block) != GIF_OK)
            return false;
    while (block);
    return true;
}

/* ---- the plan ------------------------------------------------------------------------------- */

/* Steps over frames that need not be drawn. Call it for each frame in order, up to the page. Before
 * frame N, `plan` describes the canvas on which it is drawn, and then its page. next: the same for
 * the next frame. */
static void plan_frame(const struct frame *frame, uint32_t number, struct plan *plan,
                       struct plan *next)
{
    bool fills = frame->x == 0 && frame->y == 0 && frame->width >= plan->width &&
                 frame->height >= plan->height;
    *next = *plan;
    if (fills && frame->transparent == NO_TRANSPARENT_COLOR) {
        plan->first = number;
        plan->opaque = true;
    }
    if (frame->disposal >= RESTORE)
        return;
    *next = *plan;
    if (frame->disposal == CLEAR && frame->width > 0 && frame->height > 0) {
        next->opaque = false;
        next->first = fills ? number + 1 : plan->first;
    }
}

static uint32_t larger(uint32_t one, uint32_t other)
{
    return one > other ? one : other;
}

/* Counts the frames of the file, up to one more than FRAMES_MAX, and plans the page. Only the first
 * frame may be missing. */
static void make_plan(struct reader *reader, uint32_t page, struct plan *plan,
                      struct codec_reply *reply)
{
    GifFileType *gif = reader->gif;
    struct plan now = {0}, last,
                next = {.width = (uint32_t)gif->SWidth, .height = (uint32_t)gif->SHeight};
    struct frame frame;
    bool more = true, all_opaque = true;
    uint32_t frames = 0;
    for (; more && frames <= FRAMES_MAX && next_frame(reader, &frame); frames++) {
        if (frames == 0) {
            next.width = larger(next.width, frame.x + frame.width);
            next.height = larger(next.height, frame.y + frame.height);
        }
        last = next;
        plan_frame(&frame, frames, &last, &next);
        all_opaque &= last.opaque;
        if (frames <= page)
            now = last;
        more = skip_pixels(gif);
    }
    if (frames == 0 && gif->Error == 0)
        confined_fail(reply, STATUS_DECODE_FAILED, "the GIF's first frame is missing or damaged");
    else if (frames == 0)
        refuse(reader, gif->Error, "before frame", 0, reply);
    *plan = now;
    plan->frames = frames;
    plan->all_opaque = all_opaque;
    plan->ends_early = !reader->is_complete && frames <= FRAMES_MAX;
}

/* The canvas, and the codes and tables of giflib. */
static uint64_t decode_bytes(const struct plan *plan)
{
    enum { fixed = 1 << 20, pixel = 4 };
    return (uint64_t)plan->width * plan->height * pixel + fixed;
}

static void probe(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct reader reader;
    struct plan plan = {0};
    if (!open_reader(&reader, call, region, reply))
        return;
    make_plan(&reader, call->page, &plan, reply);
    reply->width = plan.width;
    reply->height = plan.height;
    reply->channels = plan.opaque ? 3 : 4;
    reply->may_have_alpha = !plan.all_opaque;
    reply->ends_early = plan.ends_early;
    reply->orientation = 1;
    reply->frames = plan.frames;
    reply->decode_bytes = decode_bytes(&plan);
    close_reader(&reader);
}

/* ---- pixels --------------------------------------------------------------------------------- */

enum { RGBA = 4, COLOURS = 256 };

struct canvas {
    uint8_t *pixels; /* RGBA. Transparent pixels are 0 */
    uint32_t width, height;
};

static uint32_t smaller(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

static void fill_palette(const GifFileType *gif, uint8_t palette[COLOURS][RGBA])
{
    const ColorMapObject *map = gif->Image.ColorMap ? gif->Image.ColorMap : gif->SColorMap;
    int count = map ? map->ColorCount : 0;
    for (int i = 0; i < COLOURS; i++) {
        GifColorType gray = {(GifByteType)i, (GifByteType)i, (GifByteType)i};
        GifColorType colour = i < count ? map->Colors[i] : gray;
        memcpy(palette[i], (uint8_t[RGBA]){colour.Red, colour.Green, colour.Blue, UINT8_MAX}, RGBA);
    }
}

static void draw_row(const struct canvas *canvas, const struct frame *frame, uint32_t row,
                     const uint8_t *indexes, const uint8_t palette[COLOURS][RGBA])
{
    uint32_t y = frame->y + row, end = smaller(frame->x + frame->width, canvas->width);
    if (y >= canvas->height)
        return;
    uint8_t *to = canvas->pixels + ((size_t)y * canvas->width + frame->x) * RGBA;
    for (uint32_t x = frame->x; x < end; x++, to += RGBA, indexes++)
        if (*indexes != frame->transparent)
            memcpy(to, palette[*indexes], RGBA);
}

/* Decodes a frame. Returns false if its data is damaged. */
static bool draw_frame(GifFileType *gif, const struct frame *frame, const struct canvas *canvas)
{
    static uint8_t indexes[UINT16_MAX + 1];
    static const uint8_t starts[] = {0, 4, 2, 1}, steps[] = {8, 8, 4, 2};
    uint8_t palette[COLOURS][RGBA];
    uint32_t passes = frame->interlaced ? sizeof starts : 1;
    fill_palette(gif, palette);
    for (uint32_t pass = 0; pass < passes; pass++) {
        uint32_t step = frame->interlaced ? steps[pass] : 1;
        for (uint32_t row = starts[pass]; row < frame->height && frame->width > 0; row += step) {
            if (DGifGetLine(gif, indexes, (int)frame->width) != GIF_OK)
                return false;
            draw_row(canvas, frame, row, indexes, palette);
        }
    }
    return frame->width > 0 && frame->height > 0 ? true : skip_pixels(gif);
}

static void clear_frame(const struct frame *frame, const struct canvas *canvas)
{
    uint32_t right = smaller(frame->x + frame->width, canvas->width);
    uint32_t bottom = smaller(frame->y + frame->height, canvas->height);
    for (uint32_t y = frame->y; y < bottom && frame->x < right; y++)
        memset(canvas->pixels + ((size_t)y * canvas->width + frame->x) * RGBA, 0,
               (size_t)(right - frame->x) * RGBA);
}

/* Draws the page. A frame before it that will be removed is not decoded. */
static void draw_page(struct reader *reader, const struct plan *plan, uint32_t page,
                      const struct canvas *canvas, struct codec_reply *reply)
{
    struct frame frame;
    for (uint32_t i = 0; i <= page; i++) {
        if (!next_frame(reader, &frame)) {
            refuse(reader, reader->gif->Error, "before frame", i, reply);
            return;
        }
        bool is_kept = i == page || frame.disposal < CLEAR;
        if (i >= plan->first && !is_kept && frame.disposal == CLEAR)
            clear_frame(&frame, canvas);
        if (i >= plan->first && is_kept ? !draw_frame(reader->gif, &frame, canvas)
                                        : !skip_pixels(reader->gif)) {
            refuse(reader, reader->gif->Error, "in frame", i, reply);
            return;
        }
    }
}

/* Drops the alpha, in place. */
static void make_opaque(const struct canvas *canvas)
{
    size_t pixels = (size_t)canvas->width * canvas->height;
    uint8_t *to = canvas->pixels;
    for (size_t i = 0; i < pixels; i++, to += 3)
        memmove(to, canvas->pixels + i * RGBA, 3);
}

static void offer_page(const struct codec_call *call, const struct plan *plan, uint8_t *region,
                       struct codec_reply *reply)
{
    struct reader reader;
    struct canvas canvas = {calloc((size_t)plan->width * plan->height, RGBA), plan->width,
                            plan->height};
    if (!canvas.pixels) {
        confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory to decode a GIF");
        return;
    }
    if (open_reader(&reader, call, region, reply)) {
        draw_page(&reader, plan, call->page, &canvas, reply);
        close_reader(&reader);
    }
    if (call->channels == 3)
        make_opaque(&canvas);
    if (reply->status == STATUS_OK)
        confined_offer_image(call, canvas.pixels, (size_t)call->width * call->channels, region,
                             reply);
    free(canvas.pixels);
}

static void decode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct reader reader;
    struct plan plan = {0};
    if (!open_reader(&reader, call, region, reply))
        return;
    make_plan(&reader, call->page, &plan, reply);
    close_reader(&reader);
    if (reply->status != STATUS_OK)
        return;
    if (plan.width != call->width || plan.height != call->height ||
        call->channels != (plan.opaque ? 3u : 4u) || call->page >= plan.frames)
        confined_fail(reply, STATUS_DECODE_FAILED,
                      "the GIF's pixels are not those of its header (%u x %u, %u channels)",
                      call->width, call->height, call->channels);
    else
        offer_page(call, &plan, region, reply);
}

/* ---- all frames ----------------------------------------------------------------------------- */

/* Offers the canvas as a frame. */
static void offer_frame(const struct reader *reader, const struct frame *frame,
                        const struct canvas *canvas, uint8_t *window)
{
    const struct codec_call sides = {.width = canvas->width, .height = canvas->height};
    const struct codec_reply offer = {
        .delay_ms = frame->delay_ms,
        .plays = (uint32_t)(reader->loops > 0 ? reader->loops + 1 : -reader->loops)};
    confined_offer_frame(&sides, &offer, canvas->pixels, window);
}

/* Draws and offers a frame, and prepares the canvas for the next one. before: room for a copy of
 * the canvas. false: the frame is damaged. */
static bool play_frame(struct reader *reader, const struct frame *frame, struct canvas *canvas,
                       struct canvas *before, uint8_t *window)
{
    bool is_restored = frame->disposal >= RESTORE;
    if (is_restored)
        memcpy(before->pixels, canvas->pixels, (size_t)canvas->width * canvas->height * RGBA);
    if (!draw_frame(reader->gif, frame, canvas))
        return false;
    offer_frame(reader, frame, canvas, window);
    if (frame->disposal == CLEAR)
        clear_frame(frame, canvas);
    if (is_restored) {
        struct canvas drawn = *canvas;
        *canvas = *before;
        *before = drawn;
    }
    return true;
}

static void play(struct reader *reader, struct canvas *canvas, struct canvas *before,
                 uint8_t *window, struct codec_reply *reply)
{
    struct frame frame;
    for (uint32_t i = 0; reply->status == STATUS_OK; i++)
        if (!next_frame(reader, &frame))
            refuse(reader, reader->gif->Error, "before frame", i, reply);
        else if (!play_frame(reader, &frame, canvas, before, window))
            refuse(reader, reader->gif->Error, "in frame", i, reply);
}

/* The daemon ends the task after the last frame. */
static void frames(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct reader reader;
    size_t pixels = (size_t)call->width * call->height;
    struct canvas canvas = {calloc(pixels, RGBA), call->width, call->height};
    struct canvas before = {calloc(pixels, RGBA), call->width, call->height};
    if (!canvas.pixels || !before.pixels) {
        confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory to decode a GIF");
    } else if (open_reader(&reader, call, region, reply)) {
        play(&reader, &canvas, &before, region, reply);
        close_reader(&reader);
    }
    free(canvas.pixels);
    free(before.pixels);
}

static bool can(bool writes)
{
    return !writes;
}

const struct confined_codec confined_gif = {
    .can = can, .probe = probe, .decode = decode, .frames = frames};

#endif
