/* text.c - the operation text: a text that is laid over the image as composite lays an overlay.
 * The text is drawn before the plan is built, by the finder of overlays. */
#include <ctype.h>
#include <string.h>

#include "gpu/ops/composite.h"
#include "gpu/ops/gravity.h"
#include "gpu/plan/op.h"

struct params {
    const char *text, *font;
    int size, width, align, spacing, gravity, x, y;
    struct op_color color;
    double opacity;
    bool tile;
};

/* The values of enum text_align. */
static const char *const align_words[] = {"left", "center", "right", NULL};

static const struct op_param text_params[] = {
    {OP_TEXT(struct params, text), .need = OP_REQUIRED, .min = 1, .max = TEXT_BYTES_MAX,
     .help = "The text. A line feed begins a new line; of other control characters only tabs are "
             "allowed. There is no markup"},
    {OP_TEXT(struct params, font), .need = OP_OPTIONAL, .min = 1, .max = TEXT_FONT_BYTES_MAX,
     .help = "Families of fonts, separated by commas, and words such as Bold, Italic or Condensed, "
             "as Pango describes a font: `Noto Serif, DejaVu Serif Bold`. By default Sans. If a "
             "family is not installed, the next one is used, and at last the one that `fc-match` "
             "names. Characters that the font lacks are taken from other fonts"},
    {OP_INTEGER(struct params, size), .standard = 32, .min = 1, .max = TEXT_SIZE_MAX,
     .help = "The size of the font in pixels (not points): the height of an em"},
    {OP_COLOR(struct params, color), .need = OP_OPTIONAL,
     .help = "By default black. Emoji keep their own colours"},
    {OP_INTEGER(struct params, width), .need = OP_OPTIONAL, .min = 1, .max = SIDE_CEILING,
     .help = "Wraps lines that are longer than this many pixels, between words if possible. By "
             "default lines are not wrapped"},
    {OP_WORD(struct params, align), .words = align_words,
     .help = "The side on which the lines of a text of several lines are even. For paragraphs that "
             "begin with a letter of Arabic, Hebrew or another script that runs to the left, left "
             "and right are exchanged"},
    {OP_INTEGER(struct params, spacing), .min = 0, .max = TEXT_SPACING_MAX,
     .help = "Pixels between two lines, besides the distance that the font asks for"},
    {OP_WORD(struct params, gravity), .words = GRAVITY_WORDS,
     .help = "The part of the image where the text is; northwest if only `x` or `y` is given"},
    {OP_INTEGER(struct params, x), .need = OP_OPTIONAL, .min = -SIDE_CEILING, .max = SIDE_CEILING,
     .help = "As for `composite`: the distance in pixels from the side or corner"},
    {OP_INTEGER(struct params, y), .need = OP_OPTIONAL, .min = -SIDE_CEILING, .max = SIDE_CEILING,
     .help = "The same for rows. Parts outside the image are cut off"},
    {OP_NUMBER(struct params, opacity), .standard = 1, .min = 0, .max = 1,
     .help = "A factor for the alpha of all pixels of the text, also of emoji"},
    {OP_BOOLEAN(struct params, tile), .help = "Repeats the text over the whole image"}};

/* The last word if it is a number, which Pango takes for a size; NULL: it is none. */
static const char *size_in(const char *font)
{
    const char *space = strrchr(font, ' '), *last = space ? space + 1 : font, *at = last;
    while (isdigit((unsigned char)*at) || *at == '.')
        at++;
    return at > last && (*at == '\0' || strcmp(at, "px") == 0) ? last : NULL;
}

static enum status text_check(const struct op_item *item, void *params, struct error *error)
{
    struct params *own = params;
    const char *size = own->font ? size_in(own->font) : NULL;
    own->gravity = composite_gravity(item, own->gravity);
    if (size)
        return op_refuse(item, error,
                         ": font ends with the size \"%.20s\"; it must be without a "
                         "size, which is the parameter size, in pixels (if \"%.20s\" belongs to "
                         "the family, add a comma)",
                         size, size);
    return STATUS_OK;
}

static enum status text_step(const void *params, struct chain *chain)
{
    const struct params *own = params;
    const struct composite_spot spot = {own->gravity, own->x, own->y, own->opacity, own->tile};
    struct plan_text text;
    struct plan_overlay overlay;
    memset(&text, 0, sizeof text); /* also the padding */
    text.text = own->text;
    text.style.size = (uint32_t)own->size;
    text.style.width = (uint32_t)own->width;
    text.style.align = (uint32_t)own->align;
    text.style.spacing = (uint32_t)own->spacing;
    strcpy(text.style.font, own->font ? own->font : "Sans");
    memcpy(text.style.rgba, own->color.given ? own->color.rgba : (uint8_t[]){0, 0, 0, 255}, 4);
    const struct plan_overlay_request request = {.text = &text};
    enum status status = chain_find_overlay(chain, request, &overlay);
    return status ? status : composite_lay(&spot, &overlay, chain);
}

const struct op op_text = {
    .name = "text",
    .help = "Draws text over the image, in any script and with colour emoji",
    .definition =
        "Pango, HarfBuzz, FreeType and cairo draw the text once, on the host, into an image with "
        "alpha, which is then laid over the image as by `composite`. So the pixels are the same "
        "on every engine, but depend on the installed fonts, the versions of these libraries and "
        "the configuration of fontconfig: hosts that share jobs should have the same. The text is "
        "drawn with gray antialiasing, without hinting and at fractions of pixels. Its box is as "
        "wide as the longest line and as high as the lines with the distances that the font asks "
        "for, and larger if letters reach out of it. Directions, ligatures and the forms of "
        "letters follow Unicode and the font. Characters of several writing systems, such as "
        "the Han characters of Chinese and Japanese, look as in the font that `font` names. A "
        "character that no installed font has is an error, bad_op, which names it. A text larger "
        "than the limits of images, wider or higher than 32,767 pixels, or with a line of more "
        "than 1,000,000 pixels before it is wrapped is image_too_large.",
    .flags = OP_LAYS,
    OP_PARAMS(struct params, text_params),
    .check = text_check,
    .step = text_step,
};
