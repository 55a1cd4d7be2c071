#include "conf/op_hints.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const struct op_hint op_hints[] = {
    {"gaussian", NULL, "blur gaussianblur gaussblur boxblur smooth soften"},
    {"unsharp", NULL, "sharpen sharp unsharpmask"},
    {"composite", NULL, "watermark overlay blend logo stamp paste"},
    {"text", NULL, "caption label annotate title watermarktext drawtext"},
    {"resize", NULL,
     "thumbnail thumb scale rescale resample resizefit fit contain shrink reduce downscale "
     "downsample upscale enlarge"},
    {"resize", " with \"fit\": \"cover\"", "cover fill resizefill"},
    {"resize", " with \"fit\": \"cover\" and \"gravity\": \"attention\"",
     "smartcrop attention entropy"},
    {"crop", NULL, "extract extractarea cut chop"},
    {"pad", NULL, "border addborder expand extend extent embed canvas frame letterbox"},
    {"rotate", NULL, "rot turn rotate90 rotate180 rotate270 rot90 rot180 rot270"},
    {"flip", NULL, "mirror flop hflip vflip"},
    {"grayscale", NULL,
     "greyscale gray grey togray tograyscale monochrome mono desaturate blackwhite bw"},
    {"threshold", NULL, "binarize binarise bilevel"},
    {"invert", NULL, "negate negative inverse"},
    {"levels", NULL, "brightness brighten darken contrast exposure linear modulate stretch"},
    {"equalize", NULL,
     "normalize normalise equalise equalizehist histeq clahe autocontrast autolevel autolevels"},
    {"color_matrix", NULL,
     "colourmatrix sepia saturation saturate hue tint colorize colourize recolor recomb"},
    {"to_srgb", NULL,
     "srgb icc iccprofile icctransform profile colorspace colourspace tocolorspace"},
    {"sobel", NULL, "edge edges edgedetect findedges outline"},
    {"convolve", NULL, "conv convolution kernel filter filter2d emboss"},
    {"median", NULL, "denoise despeckle medianblur"},
    {"histogram", NULL, "hist"},
    {"stats", NULL, "mean average averagecolor averagecolour statistics"},
    {"palette", NULL,
     "dominant dominantcolor dominantcolors dominantcolour dominantcolours colors colours "
     "colorthief vibrant"},
    {"phash", NULL, "hash imagehash perceptualhash ahash dhash"},
    {"blurhash", NULL, "placeholder lqip"},
    {NULL, "images are turned upright by their EXIF unless the job has \"orient\": false",
     "orient autoorient autorotate exiftranspose"},
    {NULL, "the key metadata of an output selects what it keeps",
     "strip stripmetadata metadata withmetadata keepmetadata"},
    {NULL, "the suffix or the key format of an output selects its format",
     "convert format toformat encode save jpeg jpg png webp avif jxl"},
    {NULL, "it is a key of an output: {\"path\": ..., \"quality\": ...}", "quality compress"},
    {NULL, "the key background of the job is the colour below transparent pixels",
     "background flatten removealpha"},
};
const size_t op_hint_count = sizeof op_hints / sizeof *op_hints;

/* Whether `plain` is one of the words in `names`. */
static bool lists(const char *names, const char *plain)
{
    size_t length = strlen(plain);
    for (const char *at = names; length > 0 && (at = strstr(at, plain)); at += length)
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

bool op_hint_find(const char *name, char text[OP_HINT_BYTES])
{
    char plain[32];
    size_t length = 0;
    for (; *name && length < sizeof plain - 1; name++)
        if (*name != '-' && *name != '_')
            plain[length++] = (char)tolower((unsigned char)*name);
    plain[length] = '\0';
    for (size_t i = 0; i < op_hint_count && !*name && !strchr(plain, ' '); i++) {
        const struct op_hint *hint = &op_hints[i];
        if (!lists(hint->names, plain))
            continue;
        if (hint->operation)
            snprintf(text, OP_HINT_BYTES, "did you mean \"%s\"%s?", hint->operation,
                     hint->text ? hint->text : "");
        else
            snprintf(text, OP_HINT_BYTES, "%s", hint->text);
        return true;
    }
    return false;
}
