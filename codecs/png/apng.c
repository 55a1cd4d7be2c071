#include "codecs/png/apng.h"

#include "codecs/animation.h"
#include "codecs/png/png_kernels.h"
#include "codecs/png/png_state.h"

/* Channels of a pixel of the canvas, and the index of its alpha. */
enum { RGBA = 4, ALPHA = 3 };

/* Bytes: length and type before the data of a chunk, the CRC after it, the sequence number at the
 * beginning of fdAT, and the data of IHDR, whose chunk begins at IHDR_AT in a file. */
enum { CHUNK_HEAD = 8, CRC_BYTES = 4, NUMBER_BYTES = 4, IHDR_AT = 8, IHDR_BYTES = 13 };

/* Offsets in the data of IHDR (PNG, "IHDR"). */
enum { IHDR_WIDTH = 0, IHDR_HEIGHT = 4, IHDR_DEPTH = 8, IHDR_COLOUR_TYPE = 9, IHDR_INTERLACE = 12 };

/* ---- the file of a frame --------------------------------------------------------------------
 *
 * Signature, IHDR with the sides of the frame, PLTE and tRNS of the animation, the data of the
 * frame as IDAT, IEND. Palette and transparency are those that libpng has read and checked for the
 * default image. */

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Completes a chunk around its data, which is there already. Returns the byte after it. */
static uint8_t *end_chunk(uint8_t *chunk, const char *type, size_t bytes)
{
    put_u32(chunk, (uint32_t)bytes);
    memcpy(chunk + 4, type, 4);
    put_u32(chunk + CHUNK_HEAD + bytes, png_kernels_fastest()->crc(0, chunk + 4, 4 + bytes));
    return chunk + PNG_CHUNK_OVERHEAD + bytes;
}

/* Returns the byte after the chunk, as the functions put_ below. */
static uint8_t *put_palette(uint8_t *to, const struct png_state *state)
{
    png_colorp colours;
    int count = 0;
    if (png_get_PLTE(state->png, state->info, &colours, &count) == 0)
        return to; /* uncovered: net (tests/coverage/reasons.txt) */
    for (int i = 0; i < count; i++)
        memcpy(to + CHUNK_HEAD + 3 * i,
               (uint8_t[]){colours[i].red, colours[i].green, colours[i].blue}, 3);
    return end_chunk(to, "PLTE", 3 * (size_t)count);
}

/* Writes the transparent colour, 16 bits per sample in any depth, or the alpha of the palette's
 * first colours. */
static uint8_t *put_transparency(uint8_t *to, const struct png_state *state, int type)
{
    png_bytep alpha;
    png_color_16p colour;
    int count = 0;
    uint8_t *data = to + CHUNK_HEAD;
    if (png_get_tRNS(state->png, state->info, &alpha, &count, &colour) == 0 || count == 0)
        return to;
    if (type == PNG_COLOR_TYPE_PALETTE) {
        memcpy(data, alpha, (size_t)count);
        return end_chunk(to, "tRNS", (size_t)count);
    }
    const uint16_t gray[] = {colour->gray}, rgb[] = {colour->red, colour->green, colour->blue};
    bool is_gray = type == PNG_COLOR_TYPE_GRAY;
    const uint16_t *samples = is_gray ? gray : rgb;
    for (int i = 0; i < (is_gray ? 1 : 3); i++) {
        data[2 * i] = (uint8_t)(samples[i] >> 8);
        data[2 * i + 1] = (uint8_t)samples[i];
    }
    return end_chunk(to, "tRNS", is_gray ? 2 : 6);
}

/* Writes all chunks before the pixels once, for all frames. put_file adds the sides of each frame
 * and the CRC of IHDR. The compression and filter methods are 0, the only ones. */
static void put_head(const struct png_state *state, struct apng_state *apng)
{
    uint8_t *to = apng->head, *data = to + IHDR_AT + CHUNK_HEAD;
    int type = png_get_color_type(state->png, state->info);
    memcpy(to, state->bytes, PNG_SIGNATURE_BYTES);
    memset(data, 0, IHDR_BYTES);
    data[IHDR_DEPTH] = png_get_bit_depth(state->png, state->info);
    data[IHDR_COLOUR_TYPE] = (uint8_t)type;
    data[IHDR_INTERLACE] = png_get_interlace_type(state->png, state->info);
    to = data + IHDR_BYTES + CRC_BYTES;
    if (type == PNG_COLOR_TYPE_PALETTE)
        to = put_palette(to, state);
    to = put_transparency(to, state, type);
    apng->head_bytes = (size_t)(to - apng->head);
}

/* Copies the chunks with the frame's data, as IDAT: fdAT without its sequence number. Other chunks
 * may be between them. apng_find_frame has checked their lengths. The deadline is checked once per
 * CODEC_BYTES_PER_CHECK of the file. Returns the byte after the last one; NULL: the deadline has
 * passed. */
static uint8_t *put_data(const struct apng_reader *reader, const struct apng_frame *frame,
                         uint8_t *to)
{
    bool has_numbers = memcmp(frame->data_type, "fdAT", 4) == 0;
    size_t number_bytes = has_numbers ? NUMBER_BYTES : 0, piece = 0;
    for (size_t at = frame->data_at; at < frame->data_end;) {
        const uint8_t *chunk = reader->bytes + at;
        size_t bytes = codec_u32(chunk);
        if (at / CODEC_BYTES_PER_CHECK != piece && codec_late(reader->deadline_ns))
            return NULL; /* uncovered: moment */
        piece = at / CODEC_BYTES_PER_CHECK;
        if (memcmp(chunk + 4, frame->data_type, 4) == 0) {
            memcpy(to + CHUNK_HEAD, chunk + CHUNK_HEAD + number_bytes, bytes - number_bytes);
            to = end_chunk(to, "IDAT", bytes - number_bytes);
        }
        at += PNG_CHUNK_OVERHEAD + bytes;
    }
    return to;
}

/* Writes the frame as a PNG. to: room for apng_frame_bytes. Returns the length of the PNG; 0: the
 * deadline has passed. */
static size_t put_file(struct apng_state *apng, const struct apng_frame *frame, uint8_t *to)
{
    uint8_t *header = apng->head + IHDR_AT + CHUNK_HEAD;
    put_u32(header + IHDR_WIDTH, frame->width);
    put_u32(header + IHDR_HEIGHT, frame->height);
    (void)end_chunk(apng->head + IHDR_AT, "IHDR", IHDR_BYTES);
    memcpy(to, apng->head, apng->head_bytes);
    uint8_t *end = put_data(&apng->reader, frame, to + apng->head_bytes);
    return end ? (size_t)(end_chunk(end, "IEND", 0) - to) : 0;
}

/* ---- the canvas ----------------------------------------------------------------------------- */

/* The rectangle of the canvas in which the frame is drawn; shares the canvas's pixels. */
static struct image place_of(const struct image *canvas, const struct apng_frame *frame)
{
    struct image place = *canvas;
    place.width = frame->width;
    place.height = frame->height;
    place.pixels += frame->y * canvas->stride + (size_t)frame->x * RGBA;
    return place;
}

/* Applies the disposal of the last frame to its rectangle. Before the first frame the canvas is
 * empty, so APNG_RESTORE of that frame clears its rectangle, as the specification demands. */
static void dispose(struct apng_state *apng, const struct image *canvas)
{
    struct image place = place_of(canvas, &apng->last);
    size_t row_bytes = (size_t)place.width * RGBA;
    for (uint32_t y = 0; y < place.height && apng->last.disposal != APNG_KEEP; y++) {
        uint8_t *row = place.pixels + y * place.stride;
        if (apng->under)
            memcpy(row, apng->under + y * row_bytes, row_bytes);
        else
            memset(row, 0, row_bytes);
    }
    free(apng->under);
    apng->under = NULL;
}

/* Copies the pixels that dispose will restore after the frame. false: no memory. */
static bool save(struct apng_state *apng, const struct image *place)
{
    size_t row_bytes = (size_t)place->width * RGBA;
    apng->under = malloc(row_bytes * place->height);
    for (uint32_t y = 0; y < place->height && apng->under; y++)
        memcpy(apng->under + y * row_bytes, place->pixels + y * place->stride, row_bytes);
    return apng->under != NULL;
}

/* Lays a pixel with alpha over another one, rounded to nearest (PNG, "Alpha channel
 * processing"). Colours are not multiplied by alpha. `part` and `rest` are the weights of the two
 * colours, and their sum `alpha` is the alpha of the result, each times 255: at most 255 * 255, and
 * more than 0. */
static void blend_pixel(const uint8_t *over, uint8_t *to)
{
    uint32_t part = over[ALPHA] * UINT8_MAX, rest = to[ALPHA] * (uint32_t)(UINT8_MAX - over[ALPHA]);
    uint32_t alpha = part + rest;
    for (int i = 0; i < ALPHA; i++)
        to[i] = (uint8_t)((over[i] * part + to[i] * rest + alpha / 2) / alpha);
    to[ALPHA] = (uint8_t)((alpha + UINT8_MAX / 2) / UINT8_MAX);
}

/* from: gray, RGB or RGBA. blends: of blend_op OVER; otherwise the pixel replaces the other one. */
static void put_pixel(const uint8_t *from, uint32_t channels, bool blends, uint8_t *to)
{
    if (channels < RGBA) {
        const uint8_t *blue = channels == 1 ? from : from + 2;
        memcpy(to, (uint8_t[RGBA]){from[0], channels == 1 ? from[0] : from[1], *blue, UINT8_MAX},
               RGBA);
    } else if (!blends || from[ALPHA] == UINT8_MAX) {
        memcpy(to, from, RGBA);
    } else if (from[ALPHA] > 0) {
        blend_pixel(from, to);
    }
}

static void put_frame(const struct image *frame, bool blends, const struct image *place)
{
    for (uint32_t y = 0; y < frame->height; y++) {
        const uint8_t *from = frame->pixels + y * frame->stride;
        uint8_t *to = place->pixels + y * place->stride;
        for (uint32_t x = 0; x < frame->width; x++, from += frame->channels, to += RGBA)
            put_pixel(from, frame->channels, blends, to);
    }
}

/* ---- frames --------------------------------------------------------------------------------- */

/* Reads what all frames share, with libpng, and starts at the first chunk of the file. */
static enum status open_frames(struct png_state *state, struct codec_animation *animation,
                               struct error *error)
{
    struct apng_state *apng = &animation->apng;
    *state = (struct png_state){.error = error};
    if (setjmp(state->jump) == 0) {
        png_open_reader(state, animation->bytes, animation->length, &animation->limits, false);
        put_head(state, apng);
        animation->plays = png_count_plays(state);
    }
    png_destroy_read_struct(&state->png, &state->info, NULL);
    apng->channels = animation->info.channels;
    apng_open(&apng->reader, animation->bytes, animation->length, &animation->limits,
              &animation->info);
    return error->status;
}

static enum status no_memory(struct error *error)
{
    return error_set(error, STATUS_OUT_OF_MEMORY, /* uncovered: memory */
                     "no memory for a frame of a PNG");
}

/* Decodes a frame and draws it. memory: room for its pixels, then for its file. */
static enum status draw(struct png_state *state, struct codec_animation *animation,
                        const struct apng_frame *frame, uint8_t *memory, const struct image *place,
                        struct error *error)
{
    struct apng_state *apng = &animation->apng;
    struct error found = {0};
    size_t row_bytes = (size_t)frame->width * apng->channels;
    const struct image pixels = {memory, frame->width, frame->height, apng->channels, row_bytes};
    uint8_t *file = memory + row_bytes * frame->height;
    size_t length = put_file(apng, frame, file);
    if (length == 0) /* uncovered: moment */
        return error_set(error, STATUS_DECODE_LIMIT,
                         "the deadline for decoding passed in frame %u of the PNG",
                         animation->next);
    if (png_decode(state, file, length, NULL, NULL, &animation->limits, &pixels, &found) !=
        STATUS_OK)
        return error_set(error, found.status, "frame %u: %s", animation->next, found.text);
    put_frame(&pixels, frame->blends, place);
    return STATUS_OK;
}

/* In this order: find the chunks of the frame, dispose of the frame before, keep the pixels under
 * this one if its disposal restores them, decode and draw it. Its own disposal waits for the next
 * frame. After an error, the animation cannot go on. */
enum status png_next_frame(void *state, struct codec_animation *animation,
                           const struct image *canvas, struct error *error)
{
    struct apng_state *apng = &animation->apng;
    struct apng_frame frame;
    if (animation->next == 0 && open_frames(state, animation, error) != STATUS_OK)
        return error->status; /* uncovered: memory */
    apng->reader.deadline_ns = animation->limits.deadline_ns;
    if (!apng_find_frame(&apng->reader, &frame, error))
        return error_set(error, STATUS_INTERNAL, /* uncovered: net (tests/coverage/reasons.txt) */
                         "the PNG no longer has a frame %u", animation->next);
    if (animation->next > 0)
        dispose(apng, canvas);
    struct image place = place_of(canvas, &frame);
    if (frame.disposal == APNG_RESTORE && !save(apng, &place)) /* uncovered: memory */
        return no_memory(error);
    uint8_t *memory =
        malloc((size_t)frame.width * frame.height * apng->channels + apng_frame_bytes(&frame));
    if (!memory) /* uncovered: memory */
        return no_memory(error);
    draw(state, animation, &frame, memory, &place, error);
    free(memory);
    apng->last = frame;
    animation->delay_ms = frame.delay_ms;
    return error->status;
}

void apng_clear(struct apng_state *state)
{
    free(state->under);
    state->under = NULL;
}
