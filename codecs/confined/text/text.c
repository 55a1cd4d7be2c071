/* text.c - draws texts with Pango and cairo. A text is the file of a call (struct text_style, then
 * the text): a probe measures it, and a decode draws it as RGBA. */
#ifdef GPUIMGD_TEXT

#include <errno.h>
#include <pango/pangocairo.h>
#include <pango/pangofc-font.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "codecs/confined/confine.h"
#include "codecs/confined/confined.h"
#include "codecs/confined/text/fonts.h"
#include "conf/text_style.h"

/* NULL: there are no fonts. */
static PangoContext *context;
static bool is_broken; /* fontconfig cannot be used */

/* ---- layout --------------------------------------------------------------------------------- */

/* A text whose size is known. Its origin is at (left, top) of its image, in pixels. */
struct drawing {
    PangoLayout *layout;
    double left, top;
    uint32_t width, height;
};

static void set_font(PangoLayout *layout, const struct text_style *style, uint32_t size)
{
    PangoFontDescription *font = pango_font_description_from_string(style->font);
    pango_font_description_set_absolute_size(font, (double)size * PANGO_SCALE);
    pango_layout_set_font_description(layout, font);
    pango_font_description_free(font);
}

/* Wraps the lines, without hyphens: a line that has no place for a whole word has none for a
 * hyphen, too. */
static void set_lines(PangoLayout *layout, const struct text_style *style)
{
    PangoAttrList *attributes = pango_attr_list_new();
    pango_attr_list_insert(attributes, pango_attr_insert_hyphens_new(FALSE));
    pango_layout_set_attributes(layout, attributes);
    pango_attr_list_unref(attributes);
    pango_layout_set_wrap(layout, PANGO_WRAP_WORD_CHAR);
    pango_layout_set_width(layout, style->width > 0 ? (int)(style->width * PANGO_SCALE) : -1);
    pango_layout_set_spacing(layout, (int)(style->spacing * PANGO_SCALE));
}

static PangoLayout *lay_out(const struct text_style *style, const char *text, size_t bytes,
                            uint32_t size)
{
    static const PangoAlignment aligns[] = {[TEXT_LEFT] = PANGO_ALIGN_LEFT,
                                            [TEXT_CENTER] = PANGO_ALIGN_CENTER,
                                            [TEXT_RIGHT] = PANGO_ALIGN_RIGHT};
    PangoLayout *layout = pango_layout_new(context);
    set_font(layout, style, size);
    pango_layout_set_alignment(layout, aligns[style->align]);
    pango_layout_set_text(layout, text, (int)bytes);
    return layout;
}

/* The memory that the daemon allows did not suffice for a font or the pixels. */
static bool lack_memory(struct codec_reply *reply)
{
    confined_fail(reply, STATUS_OUT_OF_MEMORY, "no memory to draw a text");
    errno = ENOMEM;
    return false;
}

/* Whether the process is near its limits. errno does not tell it: after an allocation that failed,
 * FreeType closes the font, which the kernel refuses. */
static bool is_short(void)
{
    enum { table = 8 * MIB, file = 64 * MIB };
    void *some = malloc(table);
    void *place = mmap(NULL, file, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool has_both = some && place != MAP_FAILED;
    free(some);
    if (place != MAP_FAILED)
        munmap(place, file);
    return !has_both;
}

static bool lack_font(PangoFont *font, struct codec_reply *reply)
{
    PangoFontDescription *description = pango_font_describe(font);
    confined_fail(reply, STATUS_BAD_OP, "the installed font %s cannot be read; repair or remove it",
                  pango_font_description_get_family(description));
    pango_font_description_free(description);
    errno = 0; /* cairo reports a lack of memory */
    return false;
}

/* Checks that each character of a run has a glyph. If a font could not be read, Pango draws boxes
 * without an error. */
static bool check_run(const PangoGlyphItem *run, struct codec_reply *reply)
{
    cairo_scaled_font_t *font =
        pango_cairo_font_get_scaled_font((PangoCairoFont *)run->item->analysis.font);
    if (!font || cairo_scaled_font_status(font) != CAIRO_STATUS_SUCCESS)
        return is_short() ? lack_memory(reply) : lack_font(run->item->analysis.font, reply);
    for (int i = 0; i < run->glyphs->num_glyphs; i++) {
        PangoGlyph glyph = run->glyphs->glyphs[i].glyph;
        uint32_t character = glyph & ~PANGO_GLYPH_UNKNOWN_FLAG;
        if (glyph == PANGO_GLYPH_EMPTY || !(glyph & PANGO_GLYPH_UNKNOWN_FLAG))
            continue;
        bool is_known = fonts_have(character);
        if (is_known && is_short())
            return lack_memory(reply);
        errno = 0; /* of a library's attempt */
        confined_fail(reply, STATUS_BAD_OP,
                      "no installed font %s the character U+%04X; install one that has it, or "
                      "leave the character out",
                      is_known ? "can draw" : "has", (unsigned)character);
        return false;
    }
    return true;
}

static bool check_glyphs(PangoLayout *layout, struct codec_reply *reply)
{
    for (GSList *line = pango_layout_get_lines_readonly(layout); line; line = line->next)
        for (GSList *run = ((PangoLayoutLine *)line->data)->runs; run; run = run->next)
            if (!check_run(run->data, reply))
                return false;
    return true;
}

/* Pango's numbers have 31 bits, in units of 1/1024 pixels, and it does not check them. So a text is
 * first laid out with this size, with which the longest text of the widest letters fits. */
#define TRIAL_SIZE 64
#define PIXELS_MAX 1000000
#define SIDE_MAX   32767 /* of cairo's images */

/* Checks the lines before they are wrapped, laid out with TRIAL_SIZE or the size of the style. */
static bool check_length(PangoLayout *layout, const struct text_style *style, uint32_t size,
                         struct codec_reply *reply)
{
    int width;
    pango_layout_get_size(layout, &width, NULL);
    uint64_t pixels = (uint64_t)width / PANGO_SCALE * style->size / size;
    if (pixels <= PIXELS_MAX)
        return true;
    confined_fail(reply, STATUS_IMAGE_TOO_LARGE,
                  "a line is %llu pixels long; at most %u are allowed before it is wrapped",
                  (unsigned long long)pixels, PIXELS_MAX);
    return false;
}

static bool check_height(PangoLayout *layout, const struct text_style *style,
                         struct codec_reply *reply)
{
    uint64_t lines = (uint64_t)pango_layout_get_line_count(layout);
    uint64_t pixels = lines * style->size + (lines - 1) * style->spacing;
    if (pixels <= 2 * SIDE_CEILING)
        return true;
    confined_fail(reply, STATUS_IMAGE_TOO_LARGE,
                  "the text has %llu lines and is %llu pixels high; a side may have at most %u",
                  (unsigned long long)lines, (unsigned long long)pixels, SIDE_CEILING);
    return false;
}

/* Rounds up. */
static int64_t pixels_of(int64_t units)
{
    return units > 0 ? (units + PANGO_SCALE - 1) / PANGO_SCALE : 0;
}

/* One side of the box: the lines from `at` on, and whole pixels more where ink reaches out of them.
 * So the lines begin at a whole pixel. Sets the place of the layout's origin. */
static uint32_t measure_side(int at, int length, int ink_at, int ink_length, double *origin)
{
    int64_t before = ink_length > 0 ? pixels_of((int64_t)at - ink_at) : 0, end = length;
    int64_t ink_end = (int64_t)ink_at + ink_length - at;
    if (ink_length > 0 && ink_end > end)
        end = ink_end;
    *origin = (double)before - (double)at / PANGO_SCALE;
    int64_t pixels = before + pixels_of(end);
    return pixels > 0 ? (uint32_t)pixels : 1; /* at least one, also for spaces */
}

static void measure(struct drawing *drawing)
{
    PangoRectangle ink, lines;
    pango_layout_get_extents(drawing->layout, &ink, &lines);
    ink.width += ink.width > 0 ? PANGO_SCALE / 2 : 0; /* cairo moves letters to whole pixels */
    drawing->width = measure_side(lines.x, lines.width, ink.x, ink.width, &drawing->left);
    drawing->height = measure_side(lines.y, lines.height, ink.y, ink.height, &drawing->top);
}

/* false: the reply has the error. The caller frees the layout in any case. */
static bool open_drawing(struct drawing *drawing, const struct codec_call *call,
                         const uint8_t *region, struct text_style *style, struct codec_reply *reply)
{
    struct confined_source source = confined_open(call, region, UINT64_MAX);
    *drawing = (struct drawing){0};
    memcpy(style, source.bytes, sizeof *style);
    if (!context) {
        confined_fail(reply, STATUS_BAD_OP, "%s",
                      is_broken
                          ? "fontconfig cannot read its configuration or the fonts"
                          : "no font is installed on this host; install one, such as Debian's "
                            "fonts-dejavu-core");
        return false;
    }
    uint32_t size = style->size < TRIAL_SIZE ? style->size : TRIAL_SIZE;
    drawing->layout = lay_out(style, (const char *)source.bytes + sizeof *style,
                              (size_t)(source.size - sizeof *style), size);
    if (!check_length(drawing->layout, style, size, reply))
        return false;
    set_font(drawing->layout, style, style->size);
    set_lines(drawing->layout, style);
    if (!check_height(drawing->layout, style, reply) || !check_glyphs(drawing->layout, reply))
        return false;
    measure(drawing);
    if (drawing->width <= SIDE_MAX && drawing->height <= SIDE_MAX)
        return true;
    confined_fail(reply, STATUS_IMAGE_TOO_LARGE,
                  "the text is %u x %u pixels; a side of a text may have at most %u",
                  drawing->width, drawing->height, SIDE_MAX);
    return false;
}

static void close_drawing(struct drawing *drawing)
{
    if (drawing->layout)
        g_object_unref(drawing->layout);
}

/* ---- tasks ---------------------------------------------------------------------------------- */

static void text_probe(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct drawing drawing;
    struct text_style style;
    if (open_drawing(&drawing, call, region, &style, reply)) {
        reply->width = drawing.width;
        reply->height = drawing.height;
        reply->channels = 4;
        reply->orientation = 1;
        reply->frames = 1;
        reply->decode_bytes = TEXT_WORK_BYTES + 4ull * drawing.width * drawing.height;
    }
    close_drawing(&drawing);
}

/* cairo keeps the pixels of each glyph that it shows, twice. So those above this size are filled as
 * paths, which need a hundredth of the memory. */
#define SHOWN_SIZE_MAX 200

/* Emoji and the like have no path. */
static bool has_path(PangoFont *font)
{
    FcPattern *pattern = pango_fc_font_get_pattern((PangoFcFont *)font);
    FcBool is_outline, is_coloured;
    return FcPatternGetBool(pattern, FC_OUTLINE, 0, &is_outline) == FcResultMatch && is_outline &&
           (FcPatternGetBool(pattern, FC_COLOR, 0, &is_coloured) != FcResultMatch || !is_coloured);
}

/* Glyph by glyph: the path of a whole line could be large. */
static void fill_run(cairo_t *cairo, const PangoGlyphItem *run, double x, double y)
{
    PangoFont *font = run->item->analysis.font;
    for (int i = 0; i < run->glyphs->num_glyphs; i++) {
        PangoGlyphInfo *glyph = &run->glyphs->glyphs[i];
        PangoGlyphString one = {.num_glyphs = 1, .glyphs = glyph};
        cairo_move_to(cairo, x, y);
        pango_cairo_glyph_string_path(cairo, font, &one);
        cairo_fill(cairo);
        x += (double)glyph->geometry.width / PANGO_SCALE;
    }
}

/* paths: fills the runs that have paths, else shows the others. */
static void fill_layout(cairo_t *cairo, PangoLayout *layout, bool paths)
{
    PangoLayoutIter *at = pango_layout_get_iter(layout);
    do {
        PangoLayoutRun *run = pango_layout_iter_get_run_readonly(at);
        PangoRectangle box;
        if (!run || has_path(run->item->analysis.font) != paths)
            continue;
        pango_layout_iter_get_run_extents(at, NULL, &box);
        double x = (double)box.x / PANGO_SCALE;
        double y = (double)pango_layout_iter_get_baseline(at) / PANGO_SCALE;
        if (paths) {
            fill_run(cairo, run, x, y);
        } else {
            cairo_move_to(cairo, x, y);
            pango_cairo_show_glyph_string(cairo, run->item->analysis.font, run->glyphs);
        }
    } while (pango_layout_iter_next_run(at));
    pango_layout_iter_free(at);
}

/* Makes all pixels translucent. */
static void fade(cairo_surface_t *surface, uint32_t alpha)
{
    cairo_surface_flush(surface);
    uint8_t *bytes = cairo_image_surface_get_data(surface);
    size_t count = (size_t)cairo_image_surface_get_stride(surface) *
                   (size_t)cairo_image_surface_get_height(surface);
    for (size_t i = 0; bytes && alpha < 255 && i < count; i++)
        bytes[i] = (uint8_t)((bytes[i] * alpha + 127) / 255);
    cairo_surface_mark_dirty(surface);
}

/* Letters that are filled one after the other may overlap, so they are opaque at first. Emoji keep
 * their colours and their alpha. */
static void draw_large(cairo_t *cairo, const struct drawing *drawing, const uint8_t rgba[4])
{
    cairo_set_source_rgb(cairo, rgba[0] / 255.0, rgba[1] / 255.0, rgba[2] / 255.0);
    fill_layout(cairo, drawing->layout, true);
    fade(cairo_get_target(cairo), rgba[3]);
    fill_layout(cairo, drawing->layout, false);
}

static cairo_surface_t *draw(const struct drawing *drawing, const struct text_style *style)
{
    const uint8_t *rgba = style->rgba;
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_ARGB32, (int)drawing->width, (int)drawing->height);
    cairo_t *cairo = cairo_create(surface);
    cairo_translate(cairo, drawing->left, drawing->top);
    cairo_set_source_rgba(cairo, rgba[0] / 255.0, rgba[1] / 255.0, rgba[2] / 255.0,
                          rgba[3] / 255.0);
    if (style->size > SHOWN_SIZE_MAX)
        draw_large(cairo, drawing, rgba);
    else
        pango_cairo_show_layout(cairo, drawing->layout);
    bool failed = cairo_status(cairo) != CAIRO_STATUS_SUCCESS;
    cairo_destroy(cairo);
    cairo_surface_flush(surface);
    if (!failed && cairo_surface_status(surface) == CAIRO_STATUS_SUCCESS)
        return surface;
    cairo_surface_destroy(surface);
    return NULL;
}

/* From cairo's pixels, which are multiplied by alpha and in the order of the host's bytes. */
static void put_row(const uint32_t *from, uint32_t width, uint8_t *to)
{
    for (uint32_t x = 0; x < width; x++, to += 4) {
        uint32_t pixel = from[x], alpha = pixel >> 24;
        for (uint32_t c = 0; c < 3; c++) {
            uint32_t value = pixel >> (16 - 8 * c) & 255;
            to[c] = (uint8_t)(alpha > 0 ? (value * 255 + alpha / 2) / alpha : 0);
        }
        to[3] = (uint8_t)alpha;
    }
}

static void send_rows(cairo_surface_t *surface, uint32_t width, uint32_t height, uint8_t *window,
                      struct codec_reply *reply)
{
    const uint8_t *pixels = cairo_image_surface_get_data(surface);
    size_t stride = (size_t)cairo_image_surface_get_stride(surface);
    uint32_t most = confined_band_rows(width, 4);
    for (uint32_t row = 0, rows; row < height; row += rows) {
        rows = height - row < most ? height - row : most;
        for (uint32_t y = 0; y < rows; y++)
            put_row((const uint32_t *)(const void *)(pixels + (row + y) * stride), width,
                    window + (size_t)y * width * 4);
        confined_offer(reply, rows, 0, row + rows == height);
    }
}

static void text_decode(const struct codec_call *call, uint8_t *region, struct codec_reply *reply)
{
    struct drawing drawing;
    struct text_style style;
    if (open_drawing(&drawing, call, region, &style, reply)) {
        cairo_surface_t *surface = NULL;
        if (drawing.width != call->width || drawing.height != call->height)
            confined_fail(reply, STATUS_DECODE_FAILED, "the text is %u x %u pixels, not %u x %u",
                          drawing.width, drawing.height, call->width, call->height);
        else if (!(surface = draw(&drawing, &style)))
            (void)lack_memory(reply);
        if (surface) {
            send_rows(surface, call->width, call->height, region, reply);
            cairo_surface_destroy(surface);
        }
    }
    close_drawing(&drawing);
}

/* ---- begin ---------------------------------------------------------------------------------- */

/* Draws a text, so that the libraries read all files that they need besides fonts. The second
 * letter is Thai, for which libthai reads a dictionary. */
static void draw_first(void)
{
    struct text_style style = {.font = "Sans", .size = 8};
    struct drawing drawing = {.layout = lay_out(&style, "A\u0e01\u0e02", 7, style.size)};
    measure(&drawing);
    cairo_surface_t *surface = draw(&drawing, &style);
    if (surface)
        cairo_surface_destroy(surface);
    close_drawing(&drawing);
}

static void limit_start(void)
{
    struct rlimit limit;
    if (CONFINE_WITHOUT_LIMITS || getrlimit(RLIMIT_DATA, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max < TEXT_START_BYTES ? limit.rlim_max : TEXT_START_BYTES;
    setrlimit(RLIMIT_DATA, &limit);
}

static void text_begin(void)
{
    limit_start();
    int count = fonts_open();
    is_broken = count < 0;
    if (count <= 0)
        return;
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_ON); /* of lines only */
    context = pango_font_map_create_context(pango_cairo_font_map_get_default());
    pango_context_set_round_glyph_positions(context, FALSE);
    pango_cairo_context_set_font_options(context, options);
    cairo_font_options_destroy(options);
    draw_first();
    fonts_close_rest();
}

static bool can(bool writes)
{
    return !writes;
}

const struct confined_codec confined_text = {
    .begin = text_begin, .can = can, .probe = text_probe, .decode = text_decode};

#endif
