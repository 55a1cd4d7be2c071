/* encode.c - writes the description from which the kernels encode a batch of images. */
#include "gpu/webp/encode_impl.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#define QUALITIES 101
/* Images are a dimension of the grids of blocks. */
#define IMAGES_MAX 65535
/* The kernels add to offsets in a file in 32 bits. */
#define FILE_BYTES_MAX INT32_MAX

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- tables ---- */

/* libwebp computes these with the same functions in double precision. A device's pow might round
 * differently. */
static struct {
    uint32_t linear[256], gamma[33];
    uint8_t quants[QUALITIES][256];
} tables;

/* Returns the quantiser index of a segment. alpha: its susceptibility to quantisation relative to
 * the others', -127 to 127. */
static uint8_t quant_of(int quality, int alpha)
{
    const double amplitude = 0.9 * 50 / 100. / 128.;
    double fraction = (float)quality / 100.;
    double linear = fraction < 0.75 ? fraction * (2. / 3.) : 2. * fraction - 1.;
    double compression = pow(pow(linear, 1 / 3.), 1. - amplitude * alpha);
    int quant = (int)(127. * (1. - compression));
    return (uint8_t)(quant < 0 ? 0 : quant > 127 ? 127 : quant);
}

static void make_tables(void)
{
    const double gamma = 0.80, scale = 4095;
    for (int i = 0; i < 256; i++)
        tables.linear[i] = (uint16_t)(pow(1. / 255. * i, gamma) * scale + .5);
    for (int i = 0; i < 33; i++)
        tables.gamma[i] =
            (uint32_t)(int)(255. * pow((double)(1 << 7) / scale * i, 1. / gamma) + .5);
    for (int quality = 0; quality < QUALITIES; quality++)
        for (int alpha = -127; alpha <= 127; alpha++)
            tables.quants[quality][alpha + 127] = quant_of(quality, alpha);
}

static void need_tables(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int result = pthread_once(&once, make_tables);
    assert(result == 0);
    (void)result;
}

/* ---- sizes ---- */

static uint64_t macroblocks_of(uint32_t width, uint32_t height)
{
    return divide_up(width, 16) * divide_up(height, 16);
}

/* The work memory has room for this many tokens per pixel of the coefficients. Thumbnails of sharp
 * photographs have up to 2.5 at a quality of 75, 3.4 at 85, 4.1 at 90, 5.2 at 95 and 11.4 at 100.
 * Images with more, which are noise, are declined, unless they are small. */
static uint64_t tokens_per_pixel(int quality)
{
    return quality <= 75 ? 3 : quality <= 85 ? 5 : quality <= 95 ? 7 : 13;
}

size_t webp_encode_capacity(uint32_t width, uint32_t height, int quality, size_t header_bytes,
                            size_t trailer_bytes)
{
    /* base: for the header of the frame, and for small images. A token has about a bit. */
    enum { base = 16384 };
    uint64_t per_macroblock = 32 * (tokens_per_pixel(quality) + 1);
    if (width < 1 || width > WEBP_SIDE_MAX || height < 1 || height > WEBP_SIDE_MAX ||
        header_bytes > FILE_BYTES_MAX || trailer_bytes > FILE_BYTES_MAX)
        return 0;
    uint64_t bytes =
        base + per_macroblock * macroblocks_of(width, height) + header_bytes + trailer_bytes;
    return bytes <= FILE_BYTES_MAX ? bytes : 0;
}

/* ---- work memory ---- */

/* start NULL: only the size is computed. */
struct work {
    uint8_t *start;
    size_t bytes;
};

static void *take(struct work *work, uint64_t bytes)
{
    uint8_t *memory = work->start ? work->start + work->bytes : NULL;
    work->bytes += buffer_align(bytes);
    return memory;
}

static uint64_t chunk_room(uint64_t tokens, uint64_t chunk_tokens)
{
    return divide_up(tokens, chunk_tokens) + 1;
}

static uint64_t code_bytes(uint64_t tokens)
{
    return WEBP_CHUNK_WORD(tokens, chunk_room(tokens, WEBP_CHUNK_TOKENS_MIN)) * sizeof(uint32_t);
}

static uint64_t ranges_bytes(uint64_t tokens)
{
    return chunk_room(tokens, WEBP_CHUNK_TOKENS_MIN) * WEBP_RANGES;
}

/* Places all but the code and the ranges. tokens: the most tokens of the partition. */
static void place_partition(struct work *work, uint64_t tokens, struct webp_partition *partition)
{
    uint64_t chunks = chunk_room(tokens, WEBP_CHUNK_TOKENS_MIN);
    partition->token_room = (uint32_t)tokens;
    /* The coder reads whole units of 8 tokens. */
    partition->tokens = take(work, (tokens + 8) * sizeof *partition->tokens);
    partition->chunks = take(work, chunks * sizeof *partition->chunks);
}

static uint64_t token_room(uint64_t macroblocks, int quality)
{
    uint64_t worst = macroblocks * WEBP_TOKENS_MACROBLOCK;
    uint64_t least = worst < WEBP_TOKENS_SMALL ? worst : WEBP_TOKENS_SMALL;
    uint64_t usual = macroblocks * 256 * tokens_per_pixel(quality);
    return usual > least ? usual : least;
}

static uint64_t mode_token_room(uint64_t macroblocks)
{
    return WEBP_TOKENS_HEADER + macroblocks * WEBP_TOKENS_MODES;
}

/* Each level has 7 tokens at most that are counted. A counter is halved every 2^15 - 1 tokens. */
static uint64_t halving_room(uint64_t macroblocks)
{
    return macroblocks * WEBP_LEVELS * 7 / 32767 + 1;
}

/* Sets the members of *to that point into the image's work memory. columns and rows are set. */
static void place(struct work *work, int quality, struct webp_encode_descriptor *to)
{
    uint64_t macroblocks = (uint64_t)to->columns * to->rows;
    /* The coder needs the ranges and the code of the coefficients' tokens when the planes and the
     * levels are no longer needed. */
    uint64_t tokens = token_room(macroblocks, quality), mode_tokens = mode_token_room(macroblocks);
    uint64_t levels = macroblocks * WEBP_LEVELS * sizeof *to->levels;
    to->y = take(work, most(macroblocks * (256 + 64 + 64), ranges_bytes(tokens)));
    to->u = to->y + macroblocks * 256;
    to->v = to->u + macroblocks * 64;
    to->levels = take(work, most(levels, code_bytes(tokens)));
    to->alphas = take(work, macroblocks);
    to->alpha_counts = take(work, 256 * sizeof *to->alpha_counts);
    to->frame = take(work, sizeof *to->frame);
    to->luma = take(work, macroblocks * sizeof *to->luma);
    to->chroma = take(work, macroblocks * sizeof *to->chroma);
    to->luma_edges = take(work, macroblocks * WEBP_EDGE_WORDS * sizeof *to->luma_edges);
    to->chroma_edges = take(work, macroblocks * WEBP_EDGE_WORDS * sizeof *to->chroma_edges);
    to->token_counts = take(work, macroblocks * sizeof *to->token_counts);
    to->records = take(work, macroblocks * WEBP_LEVELS * sizeof *to->records);
    to->groups = take(work, divide_up(macroblocks, WEBP_GROUP) * sizeof *to->groups);
    to->halvings = take(work, halving_room(macroblocks) * sizeof *to->halvings);
    to->probabilities = take(work, WEBP_PROBABILITIES);
    place_partition(work, mode_tokens, &to->modes);
    to->modes.ranges = take(work, ranges_bytes(mode_tokens));
    to->modes.code = take(work, code_bytes(mode_tokens));
    place_partition(work, tokens, &to->coefficients);
    to->coefficients.ranges = to->y;
    to->coefficients.code = (uint32_t *)to->levels;
}

static void set_size(uint32_t width, uint32_t height, struct webp_encode_descriptor *to)
{
    to->width = width;
    to->height = height;
    to->columns = (uint32_t)divide_up(width, 16);
    to->rows = (uint32_t)divide_up(height, 16);
}

size_t webp_encode_work_bytes(uint32_t width, uint32_t height, int quality)
{
    struct work work = {0};
    struct webp_encode_descriptor descriptor;
    set_size(width, height, &descriptor);
    place(&work, quality, &descriptor);
    return work.bytes;
}

/* ---- description: what the images share, descriptors ---- */

static bool is_valid(const struct webp_encode_image *image)
{
    const struct image *source = &image->source;
    if (source->channels != 1 && source->channels != 3 && source->channels != 4)
        return false;
    size_t capacity = webp_encode_capacity(source->width, source->height, image->quality,
                                           image->header_bytes, image->trailer_bytes);
    return capacity > 0 && image->capacity >= capacity && image->capacity <= FILE_BYTES_MAX &&
           image->header_bytes >= WEBP_RIFF_BYTES && image->quality >= 0 &&
           image->quality < QUALITIES && source->stride % STRIDE_ALIGN == 0 &&
           source->stride <= UINT32_MAX &&
           source->stride >= (size_t)source->width * source->channels &&
           (uintptr_t)source->pixels % WEBP_ENCODE_ALIGN == 0 &&
           (uintptr_t)image->file % WEBP_ENCODE_ALIGN == 0 &&
           (uintptr_t)image->work % BUFFER_ALIGN == 0 &&
           (uintptr_t)image->header % sizeof(uint32_t) == 0;
}

/* Returns the tokens of a chunk in a batch with this number of groups of macroblocks. A group has
 * about 12,000 tokens. Small batches get short chunks, so that all multiprocessors have some. */
static uint32_t chunk_tokens_of(uint64_t groups)
{
    return groups < 512 ? WEBP_CHUNK_TOKENS_MIN : groups < 1536 ? 512 : WEBP_CHUNK_TOKENS_MAX;
}

static uint64_t count_tasks(const struct webp_encode_image *images, uint32_t count,
                            uint32_t chunk_tokens)
{
    uint64_t tasks = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t macroblocks = macroblocks_of(images[i].source.width, images[i].source.height);
        uint64_t modes = chunk_room(mode_token_room(macroblocks), chunk_tokens);
        uint64_t coefficients =
            chunk_room(token_room(macroblocks, images[i].quality), chunk_tokens);
        tasks += WEBP_HEAD_TOKENS / chunk_tokens + divide_up(modes, WEBP_TASK_CHUNKS) +
                 divide_up(coefficients, WEBP_TASK_CHUNKS);
    }
    return tasks;
}

/* Fills *batch. Returns the size of the description, or SIZE_MAX as webp_encode_describe. */
static size_t lay_out(const struct webp_encode_image *images, uint32_t count,
                      struct webp_encode_batch *batch)
{
    if (count > IMAGES_MAX)
        return SIZE_MAX;
    memset(batch, 0, sizeof *batch);
    uint64_t groups = 0, pieces = 0;
    bool searches = false;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_valid(&images[i]))
            return SIZE_MAX;
        struct webp_encode_descriptor size;
        set_size(images[i].source.width, images[i].source.height, &size);
        uint32_t macroblocks = size.columns * size.rows;
        groups += divide_up(macroblocks, WEBP_GROUP);
        pieces += divide_up(images[i].capacity, WEBP_PIECE_BYTES);
        searches |= images[i].bytes_max > 0;
        if (batch->columns_max < size.columns)
            batch->columns_max = size.columns;
        if (batch->rows_max < size.rows)
            batch->rows_max = size.rows;
        if (batch->macroblocks_max < macroblocks)
            batch->macroblocks_max = macroblocks;
    }
    batch->image_count = count;
    batch->chunk_tokens = chunk_tokens_of(groups);
    uint64_t tasks = count_tasks(images, count, batch->chunk_tokens);
    if (groups > INT32_MAX || tasks > INT32_MAX || pieces > INT32_MAX)
        return SIZE_MAX;
    batch->group_count = (uint32_t)groups;
    batch->task_room = (uint32_t)tasks;
    batch->piece_room = (uint32_t)pieces;
    batch->images_at = sizeof(struct webp_encode_common);
    batch->groups_at = batch->images_at + count * sizeof(struct webp_encode_descriptor);
    batch->tasks_at = batch->groups_at + groups * sizeof(struct webp_part);
    batch->pieces_at = batch->tasks_at + tasks * sizeof(struct webp_part);
    size_t bytes = batch->pieces_at + pieces * sizeof(struct webp_part);
    batch->quants_at = searches ? bytes : 0;
    return bytes + (searches ? sizeof tables.quants : 0);
}

static void write_descriptor(const struct webp_encode_image *image,
                             struct webp_encode_descriptor *to)
{
    struct work work = {image->work, 0};
    *to = (struct webp_encode_descriptor){
        .pixels = image->source.pixels,
        .header = image->header,
        .file = image->file,
        .file_bytes = image->file_bytes,
        .stride = (uint32_t)image->source.stride,
        .channels = image->source.channels,
        .quality = image->quality,
        .quality_max = image->quality,
        .bytes_max = image->bytes_max,
        .found_quality = image->found_quality,
        .header_bytes = (uint32_t)image->header_bytes,
        .trailer_bytes = (uint32_t)image->trailer_bytes,
        .capacity = (uint32_t)image->capacity,
    };
    set_size(image->source.width, image->source.height, to);
    place(&work, image->quality, to);
    memcpy(to->quants, tables.quants[image->quality], sizeof to->quants);
}

size_t webp_encode_describe(const struct webp_encode_image *images, uint32_t count,
                            void *description, size_t bytes, struct webp_encode_batch *batch)
{
    size_t needed = lay_out(images, count, batch);
    if (needed > bytes)
        return needed;
    need_tables();
    struct webp_encode_common *common = description;
    memset(common, 0, sizeof *common);
    memcpy(common->linear, tables.linear, sizeof common->linear);
    memcpy(common->gamma, tables.gamma, sizeof common->gamma);
    if (batch->quants_at > 0)
        memcpy((uint8_t *)description + batch->quants_at, tables.quants, sizeof tables.quants);
    struct webp_encode_descriptor *descriptors =
        (struct webp_encode_descriptor *)((uint8_t *)description + batch->images_at);
    struct webp_part *group = (struct webp_part *)((uint8_t *)description + batch->groups_at);
    for (uint32_t i = 0; i < count; i++) {
        write_descriptor(&images[i], &descriptors[i]);
        uint32_t macroblocks = descriptors[i].columns * descriptors[i].rows;
        for (uint32_t first = 0; first < macroblocks; first += WEBP_GROUP)
            *group++ = (struct webp_part){i, first};
    }
    return needed;
}
