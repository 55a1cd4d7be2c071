/* decode.c - shared code of the codec targets (fuzz.h). */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "codecs/animation.h"
#include "codecs/process/process.h"
#include "codecs/strip.h"

void fuzz_give_file(fuzz_give *give, void *context, const char *name, struct picture_file file)
{
    give(context, name, file.bytes, file.length);
    picture_free(&file);
}

/* ---- memory, by the hooks of sanitizer/allocator_interface.h ---- */

typedef void malloc_hook(const volatile void *memory, size_t bytes);
typedef void free_hook(const volatile void *memory);
__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(malloc_hook *allocated,
                                                                    free_hook *freed);
__attribute__((weak)) size_t __sanitizer_get_allocated_size(const volatile void *memory);

static bool installed, measuring;
static long long held, most; /* negative if memory from before the start is freed */

static void on_malloc(const volatile void *memory, size_t bytes)
{
    if (!measuring)
        return;
    held += (long long)bytes;
    if (held > most)
        most = held;
}

static void on_free(const volatile void *memory)
{
    if (measuring && memory)
        held -= (long long)__sanitizer_get_allocated_size(memory);
}

void memory_peak_start(void)
{
    if (!installed && __sanitizer_install_malloc_and_free_hooks && __sanitizer_get_allocated_size)
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    installed = true;
    held = most = 0;
    measuring = true;
}

size_t memory_peak_end(void)
{
    measuring = false;
    return (size_t)most;
}

/* ---- images ---- */

/* Small limits: an input costs milliseconds, and large images reach no other code. Results up to a
 * side of ENCODED_SIDE_MAX are encoded. */
enum { side_max = 400, pixels_max = 40000, encoded_side_max = 64, guard_bytes = 256 };

/* A destination between guards: the codecs' libraries are not instrumented. */
struct canvas {
    struct image image;
    uint8_t *block;
    size_t bytes;
    uint8_t fill;
};

static void canvas_open(struct canvas *canvas, const struct image_info *info,
                        const struct decode_request *request, uint8_t fill)
{
    struct image *image = &canvas->image;
    image->width = image_scaled(info->width, request->eighths);
    image->height = image_scaled(info->height, request->eighths);
    image->channels = codec_channels(info, request->as);
    image->stride = image_stride(image->width, image->channels) + STRIDE_ALIGN;
    canvas->bytes = image->stride * image->height + 2 * guard_bytes;
    canvas->block = malloc(canvas->bytes);
    FUZZ_MUST(canvas->block != NULL);
    canvas->fill = fill;
    memset(canvas->block, fill, canvas->bytes);
    image->pixels = canvas->block + guard_bytes;
}

static void must_be_filled(const struct canvas *canvas, const uint8_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        FUZZ_MUST(from[i] == canvas->fill);
}

/* Checks that only the rows were written. */
static void canvas_check(const struct canvas *canvas)
{
    const struct image *image = &canvas->image;
    size_t row = (size_t)image->width * image->channels;
    must_be_filled(canvas, canvas->block, guard_bytes);
    must_be_filled(canvas, canvas->block + canvas->bytes - guard_bytes, guard_bytes);
    for (uint32_t y = 0; y < image->height; y++)
        must_be_filled(canvas, image->pixels + y * image->stride + row, image->stride - row);
}

static void must_be_equal(const struct image *a, const struct image *b)
{
    FUZZ_MUST(a->width == b->width && a->height == b->height && a->channels == b->channels);
    for (uint32_t y = 0; y < a->height; y++)
        FUZZ_MUST(memcmp(a->pixels + y * a->stride, b->pixels + y * b->stride,
                         (size_t)a->width * a->channels) == 0);
}

struct codec_context *fuzz_codec(void)
{
    static struct codec_context *context;
    if (context == NULL)
        context = codec_context_create();
    FUZZ_MUST(context != NULL);
    return context;
}

void fuzz_check_error(enum status status, const struct error *error)
{
    FUZZ_MUST(status == error->status);
    FUZZ_MUST(status == STATUS_OK || error->text[0] != '\0');
    FUZZ_MUST(status == STATUS_OK || status == STATUS_UNSUPPORTED_FORMAT ||
              status == STATUS_IMAGE_TOO_LARGE || status == STATUS_DECODE_FAILED ||
              status == STATUS_DECODE_LIMIT);
}

/* ---- encode ---- */

/* A file of at most codec_encoded_bytes and noise_bytes. */
struct sink {
    struct codec_sink base;
    uint8_t *bytes;
    size_t length, capacity;
};

static enum status keep(struct codec_sink *base, size_t used, struct error *error)
{
    struct sink *sink = (struct sink *)base;
    FUZZ_MUST(used <= sink->capacity - sink->length);
    memcpy(sink->bytes + sink->length, base->buffer, used);
    sink->length += used;
    return STATUS_OK;
}

static bool is_same(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes)
{
    return a_bytes == b_bytes && (a_bytes == 0 || memcmp(a, b, a_bytes) == 0);
}

/* Encodes, and checks the memory of encoders that hold more than a few rows. */
static void encode(const struct canvas *canvas, const struct encode_request *request,
                   struct sink *sink)
{
    enum { noise_bytes = 65536 };
    const struct image *image = &canvas->image;
    struct error error = {0};
    size_t metadata = request->icc_bytes + request->exif_bytes + request->xmp_bytes;
    size_t bound = codec_encoder_bytes(request->format, image->width, image->height,
                                      image->channels, &request->encoder, metadata);
    sink->capacity = noise_bytes + codec_encoded_bytes(request->format, image->width,
                                                       image->height, image->channels,
                                                       &request->encoder, metadata);
    sink->bytes = malloc(sink->capacity);
    FUZZ_MUST(sink->bytes != NULL);
    memory_peak_start();
    FUZZ_MUST(codec_encode(fuzz_codec(), image, request, &sink->base, &error) == STATUS_OK);
    FUZZ_MUST(memory_peak_end() <= bound || bound == 0);
}

static bool is_opaque(const struct image *image)
{
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            if (image->pixels[y * image->stride + 4 * x + 3] != 255)
                return false;
    return true;
}

/* Checks that EXIF and XMP are kept, and that RGB pixels keep the profile. libpng and libjxl refuse
 * some. */
static void check_metadata(const struct canvas *canvas, const struct image_info *info,
                           const struct image_info *again)
{
    bool keeps_all = again->format != &formats[FORMAT_png] && again->format != &formats[FORMAT_jxl];
    if (keeps_all && canvas->image.channels >= 3 && image_info_icc_is_rgb(info))
        FUZZ_MUST(is_same(again->icc, again->icc_bytes, info->icc, info->icc_bytes));
    FUZZ_MUST(is_same(again->exif, again->exif_bytes, info->exif, info->exif_bytes));
    FUZZ_MUST(is_same(again->xmp, again->xmp_bytes, info->xmp, info->xmp_bytes));
}

/* Checks that an encoded image can be decoded, that a lossless format keeps the pixels, and that
 * metadata is kept. */
static void check_encoded(const struct canvas *canvas, const struct image_info *info,
                          const struct format *format, const struct codec_limits *given)
{
    struct codec_context *context = fuzz_codec();
    struct codec_limits one_page = *given, *limits = &one_page;
    uint8_t buffer[4096];
    struct error error = {0};
    struct sink sink = {.base = {.buffer = buffer, .capacity = sizeof buffer, .flush = keep}};
    struct encode_request request = {.format = format,
                                     .encoder = {.quality = 85,
                                                 .compression = 1,
                                                 .effort = canvas->image.width / 2 % 2 * 2,
                                                 .lossless = canvas->image.width % 2},
                                     .icc = image_info_icc_is_rgb(info) ? info->icc : NULL,
                                     .icc_bytes = info->icc_bytes,
                                     .exif = info->exif,
                                     .exif_bytes = info->exif_bytes,
                                     .xmp = info->xmp,
                                     .xmp_bytes = info->xmp_bytes};
    uint32_t channels = canvas->image.channels;
    bool is_deep = image_is_deep(channels);
    if (format->becomes || (is_deep && !(format->parameters & TAKES(depth))) ||
        (channels == 4 && !format->alpha) || (channels == 1 && !format->gray) ||
        codec_refusal(format, true) || codec_refusal(format, false))
        return;
    one_page.page = 0;
    encode(canvas, &request, &sink);
    struct image_info again;
    FUZZ_MUST(codec_probe(context, sink.bytes, sink.length, limits, &again, &error) == STATUS_OK);
    check_metadata(canvas, info, &again);
    /* Some libraries omit an opaque alpha. */
    if (again.channels != image_samples(channels)) {
        FUZZ_MUST(again.channels == 3 && channels == 4 && !format->lossless &&
                  is_opaque(&canvas->image));
        image_info_clear(&again);
        free(sink.bytes);
        return;
    }
    FUZZ_MUST(again.deep == is_deep);
    struct decode_request whole = {.as = is_deep ? DECODE_DEEP : DECODE_COLOUR};
    struct canvas back;
    canvas_open(&back, &again, &whole, 0);
    FUZZ_MUST(codec_decode(context, sink.bytes, sink.length, &again, &whole, limits, &back.image,
                           &error) == STATUS_OK);
    if (format->lossless || (format->parameters & TAKES(lossless) && request.encoder.lossless))
        must_be_equal(&canvas->image, &back.image);
    free(back.block);
    image_info_clear(&again);
    free(sink.bytes);
}

/* ---- decode ---- */

/* Decodes twice, over different bytes: a pixel that is not written, or that depends on anything
 * except the file, differs. */
static void check_request(const uint8_t *bytes, size_t length, const struct image_info *info,
                          const struct decode_request *request, const struct codec_limits *limits)
{
    struct codec_context *context = fuzz_codec();
    struct canvas first, second;
    struct error error = {0}, error_again = {0};
    canvas_open(&first, info, request, 0x5A);
    canvas_open(&second, info, request, 0xA5);
    memory_peak_start();
    enum status status =
        codec_decode(context, bytes, length, info, request, limits, &first.image, &error);
    FUZZ_MUST(memory_peak_end() <= info->codec_bytes);
    fuzz_check_error(status, &error);
    enum status again =
        codec_decode(context, bytes, length, info, request, limits, &second.image, &error_again);
    FUZZ_MUST(again == status && strcmp(error.text, error_again.text) == 0);
    canvas_check(&first);
    canvas_check(&second);
    if (status == STATUS_OK) {
        must_be_equal(&first.image, &second.image);
        /* Into its own format, and one other. */
        if (info->width <= encoded_side_max && info->height <= encoded_side_max) {
            check_encoded(&first, info, info->format, limits);
            check_encoded(&first, info, &formats[length % FORMAT_COUNT], limits);
        }
    }
    free(first.block);
    free(second.block);
}

/* Decodes the last page of an animation. */
static void check_last_page(const uint8_t *bytes, size_t length, uint32_t frames,
                            const struct codec_limits *limits)
{
    const struct decode_request colour = {0};
    struct codec_limits last = *limits;
    struct image_info info;
    struct error error = {0};
    last.page = (frames > FRAMES_MAX ? FRAMES_MAX : frames) - 1;
    enum status status = codec_probe(fuzz_codec(), bytes, length, &last, &info, &error);
    fuzz_check_error(status, &error);
    if (status == STATUS_OK) {
        FUZZ_MUST(info.frames == frames);
        check_request(bytes, length, &info, &colour, &last);
    }
    image_info_clear(&info);
}

/* ---- animations ---- */

/* Compares a frame with the page of the same number, if that can be decoded. */
static void check_composed(const struct codec_animation *animation, const struct image *canvas,
                           uint32_t page)
{
    const struct decode_request colour = {0};
    struct codec_limits limits = animation->limits;
    struct image_info info;
    struct canvas decoded;
    struct error error = {0};
    limits.page = page;
    FUZZ_MUST(codec_probe(fuzz_codec(), animation->bytes, animation->length, &limits, &info,
                          &error) != STATUS_OK ||
              info.frames == animation->info.frames);
    if (error.status == STATUS_OK) {
        canvas_open(&decoded, &info, &colour, 0x5A);
        if (codec_decode(fuzz_codec(), animation->bytes, animation->length, &info, &colour, &limits,
                         &decoded.image, &error) == STATUS_OK) {
            const struct image *image = &decoded.image;
            FUZZ_MUST(image->width == canvas->width && image->height == canvas->height);
            for (uint32_t y = 0; y < image->height; y++)
                for (uint32_t x = 0; x < image->width; x++)
                    FUZZ_MUST(
                        memcmp(canvas->pixels + y * canvas->stride + 4 * (size_t)x,
                               image->pixels + y * image->stride + (size_t)x * image->channels,
                               image->channels < 3 ? 1 : image->channels) == 0);
        }
        free(decoded.block);
    }
    image_info_clear(&info);
}

/* Plays some frames. The last one must equal its page. */
static void check_frames(const uint8_t *bytes, size_t length, const struct codec_limits *limits)
{
    enum { frames_max = 6 };
    const struct image_info rgba = {.channels = 4};
    const struct decode_request colour = {0};
    struct codec_animation animation;
    struct image_info info = rgba;
    struct canvas canvas;
    struct error error = {0};
    enum status status = codec_animation_open(&animation, bytes, length, limits, &error);
    if (status == STATUS_OK && codec_is_animation(&animation.info)) {
        uint32_t frames = animation.info.frames < frames_max ? animation.info.frames : frames_max;
        info.width = animation.info.width;
        info.height = animation.info.height;
        canvas_open(&canvas, &info, &colour, 0x5A);
        for (uint32_t y = 0; y < info.height; y++)
            memset(canvas.image.pixels + y * canvas.image.stride, 0, 4 * (size_t)info.width);
        while (animation.next < frames && status == STATUS_OK)
            status = codec_animation_next(&animation, &canvas.image, &error);
        canvas_check(&canvas);
        if (status == STATUS_OK && !animation.info.format->first_only)
            check_composed(&animation, &canvas.image, frames - 1);
        free(canvas.block);
    }
    fuzz_check_error(status, &error);
    codec_animation_close(&animation);
}

/* Draws a strip of three frames. */
static void check_strip(const uint8_t *bytes, size_t length, const struct codec_limits *limits)
{
    const struct decode_request colour = {0};
    struct image_info info;
    struct canvas strip;
    struct error error = {0};
    enum status status = strip_probe(fuzz_codec(), bytes, length, limits, 3, &info, &error);
    if (status == STATUS_OK && info.strip > 0) {
        canvas_open(&strip, &info, &colour, 0x5A);
        status =
            strip_decode(fuzz_codec(), bytes, length, &info, &colour, limits, &strip.image, &error);
        canvas_check(&strip);
        free(strip.block);
    }
    fuzz_check_error(status, &error);
    image_info_clear(&info);
}

/* ---- the file ---- */

/* Decodes in colour, and in another way that depends on the file's length. No codec process may
 * crash: sanitizers end it with an error, too. */
void decode_check(const uint8_t *bytes, size_t length)
{
    struct codec_limits limits = {.pixels_max = pixels_max,
                                  .side_max = side_max,
                                  .jpeg_scans_max = JPEG_SCANS_DEFAULT,
                                  .jpeg_warnings_max = JPEG_WARNINGS_MAX,
                                  .lenient = length % 4 == 0,
                                  .metadata = METADATA_ALL};
    struct image_info info;
    struct error error = {0};
    enum status status = codec_probe(fuzz_codec(), bytes, length, &limits, &info, &error);
    fuzz_check_error(status, &error);
    if (status == STATUS_OK) {
        struct decode_request colour = {0}, other = {.as = (enum decode_as)(length % 4),
                                                     .eighths = 1u << length % 4};
        if (!info.ycc && (other.as == DECODE_YCC || info.channels != 1))
            other.as = DECODE_COLOUR;
        if (info.cmyk != (other.as == DECODE_CMYK))
            other.as = info.cmyk ? DECODE_CMYK : DECODE_COLOUR;
        if (info.deep && length % 8 < 4)
            other.as = DECODE_DEEP;
        if (!info.scales)
            other.eighths = DECODE_EIGHTHS;
        check_request(bytes, length, &info, &colour, &limits);
        check_request(bytes, length, &info, &other, &limits);
        if (info.frames > 1 && !info.format->first_only)
            check_last_page(bytes, length, info.frames, &limits);
        /* An animation has a codec process of its own, whose start takes long. */
        bool is_chosen = !info.format->library || length % 16 == 5;
        if (is_chosen && codec_is_animation(&info)) {
            check_frames(bytes, length, &limits);
            check_strip(bytes, length, &limits);
        }
    }
    image_info_clear(&info);
    FUZZ_MUST(codec_process_replaced(CODEC_REPLACED_CRASHED) == 0);
}
