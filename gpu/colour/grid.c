/*
 * grid.c - computes a grid of sRGB colours for a profile that has tables itself, with lcms2.
 *
 * For 8-bit pixels, lcms2 reduces a conversion from RGB to a curve per channel and a grid of 33
 * nodes per axis, between which it interpolates. This file copies lcms2's curves and nodes, so that
 * our results differ from lcms2's only in rounding. For CMYK, it evaluates lcms2's conversion at
 * each node of a grid of 17 nodes per axis, without curves.
 *
 * The profile may be hostile. lcms2 therefore gets a copy that has only the tags that it needs.
 * Evaluating these takes bounded time per node. lcms2's memory is limited.
 */
#include "gpu/colour/build.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "conf/limits.h"

#ifndef GPUIMGD_LCMS

enum status colour_build_grid(const struct icc *icc, enum colour_intent intent,
                              struct colour **colour, struct error *error)
{
    (void)icc, (void)intent, (void)colour;
    return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                     "it has tables, which only lcms2 reads, and gpuimgd was built without lcms2; "
                     "omit to_srgb, or install liblcms2-dev and build again");
}

#else

#include <lcms2_plugin.h>

/* ---- memory ---- */

/* The state of the build that runs on this thread. lcms2 passes no argument of the caller to its
 * allocation and error functions. */
static _Thread_local struct {
    size_t bytes;   /* allocated by lcms2 now */
    bool exhausted; /* an allocation would have exceeded COLOUR_BUILD_BYTES_MAX */
    char text[160]; /* lcms2's first error message */
} own;

/* Precedes each allocation of lcms2. */
struct block {
    alignas(max_align_t) size_t bytes;
};

static void *resize(cmsContext context, void *at, cmsUInt32Number bytes)
{
    (void)context;
    struct block *block = at ? (struct block *)at - 1 : NULL;
    size_t before = block ? block->bytes : 0;
    if (own.bytes - before + bytes > COLOUR_BUILD_BYTES_MAX) {
        own.exhausted = true;
        return NULL;
    }
    block = realloc(block, sizeof(*block) + bytes);
    if (!block)
        return NULL;
    own.bytes = own.bytes - before + bytes;
    block->bytes = bytes;
    return block + 1;
}

static void *allocate(cmsContext context, cmsUInt32Number bytes)
{
    return resize(context, NULL, bytes);
}

static void release(cmsContext context, void *at)
{
    (void)context;
    if (!at)
        return;
    struct block *block = (struct block *)at - 1;
    own.bytes -= block->bytes;
    free(block);
}

static cmsPluginMemHandler memory = {
    .base = {.Magic = cmsPluginMagicNumber,
             .ExpectedVersion = 2000,
             .Type = cmsPluginMemHandlerSig},
    .MallocPtr = allocate,
    .FreePtr = release,
    .ReallocPtr = resize,
};

static void on_error(cmsContext context, cmsUInt32Number code, const char *text)
{
    (void)context, (void)code;
    if (!own.text[0])
        strncpy(own.text, text, sizeof(own.text) - 1);
}

/* ---- the profile ---- */

/* The tags that lcms2 may read. Each is evaluated in a fixed number of stages. Other tags that
 * lcms2 would use, for example D2B0, may have any number of stages, so they could take any time. */
static bool is_needed(const uint8_t *name)
{
    static const char names[][5] = {"A2B0", "A2B1", "B2A0", "kTRC", "wtpt", "bkpt", "chad"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (memcmp(name, names[i], 4) == 0)
            return true;
    return false;
}

/* Opens a copy of the profile in which lcms2 does not find the tags that it does not need, or that
 * have the name of an earlier tag: each of them gets its number as its name. */
static cmsHPROFILE open_profile(cmsContext context, const struct icc *icc)
{
    uint8_t *copy = malloc(icc->length);
    if (!copy)
        return NULL;
    memcpy(copy, icc->bytes, icc->length);
    uint8_t *table = copy + ICC_HEADER_BYTES + 4;
    for (uint32_t i = 0; i < icc->tag_count; i++) {
        bool unique = true;
        for (uint32_t j = 0; j < i; j++)
            unique &= memcmp(table + 12 * i, table + 12 * j, 4) != 0;
        if (!unique || !is_needed(table + 12 * i))
            memcpy(table + 12 * i, (const uint8_t[]){0, 0, 0, (uint8_t)(i + 1)}, 4);
    }
    cmsHPROFILE profile = cmsOpenProfileFromMemTHR(context, copy, (cmsUInt32Number)icc->length);
    free(copy);
    return profile;
}

struct conversion {
    enum colour_kind kind;
    cmsUInt32Number from, to; /* formats of pixels */
    cmsUInt32Number flags, intent;
};

/* Always with black point compensation, because lcms2 forces it for some profiles, and simple.c
 * does it, too. */
static cmsHTRANSFORM open_transform(cmsContext context, const struct icc *icc,
                                    const struct conversion *conversion)
{
    cmsUInt32Number flags =
        conversion->flags | cmsFLAGS_BLACKPOINTCOMPENSATION | cmsFLAGS_NOCACHE;
    cmsHPROFILE from = open_profile(context, icc), to = cmsCreate_sRGBProfileTHR(context);
    cmsHTRANSFORM transform = NULL;
    if (from && to)
        transform = cmsCreateTransformTHR(context, from, conversion->from, to, conversion->to,
                                          conversion->intent, flags);
    if (from)
        cmsCloseProfile(from);
    if (to)
        cmsCloseProfile(to);
    return transform;
}

/* ---- tables ---- */

/* The position of a 16-bit value on an axis of `side` nodes, as tables.h defines it. */
static uint32_t position(uint32_t value, uint32_t side)
{
    uint64_t scaled = (uint64_t)value * (side - 1) * COLOUR_STEP;
    uint32_t place = (uint32_t)((scaled + 32767) / 65535);
    uint32_t index = place >> COLOUR_STEP_BITS;
    if (index == side - 1)
        index--;
    return index << 16 | (place - (index << COLOUR_STEP_BITS));
}

static void write_positions(uint32_t *positions, cmsToneCurve **curves, uint32_t side)
{
    for (uint32_t v = 0; v < 256; v++) {
        uint32_t value = v * 257;
        positions[v] = position(curves ? cmsEvalToneCurve16(*curves, (uint16_t)value) : value,
                                side);
    }
}

/* The curves and the nodes to which lcms2 has reduced a conversion. Both are NULL if it has chosen
 * another form, or a grid of another size. */
struct optimized {
    cmsToneCurve **curves;
    const uint16_t *nodes;
};

static struct optimized find_optimized(cmsHPROFILE link)
{
    struct optimized found = {NULL, NULL};
    cmsPipeline *pipeline = cmsReadTag(link, cmsSigAToB0Tag);
    cmsStage *first = pipeline ? cmsPipelineGetPtrToFirstStage(pipeline) : NULL;
    cmsStage *second = first ? cmsStageNext(first) : NULL;
    if (!second || cmsStageNext(second) || cmsStageType(first) != cmsSigCurveSetElemType ||
        cmsStageType(second) != cmsSigCLutElemType)
        return found;
    const _cmsStageToneCurvesData *curves = cmsStageData(first);
    const _cmsStageCLutData *grid = cmsStageData(second);
    if (curves->nCurves != 3 || grid->HasFloatValues ||
        grid->nEntries != 3 * COLOUR_CUBE_NODES ||
        grid->Params->nSamples[0] != COLOUR_CUBE_SIDE ||
        grid->Params->nSamples[1] != COLOUR_CUBE_SIDE)
        return found;
    found.curves = curves->TheCurves;
    found.nodes = grid->Tab.T;
    return found;
}

static bool take_optimized(cmsHTRANSFORM transform, struct colour_cube *cube)
{
    cmsHPROFILE link = cmsTransform2DeviceLink(transform, 2.1, 0);
    if (!link)
        return false;
    struct optimized found = find_optimized(link);
    for (int c = 0; found.nodes && c < 3; c++)
        write_positions(cube->positions[c], &found.curves[c], COLOUR_CUBE_SIDE);
    for (size_t i = 0; found.nodes && i < COLOUR_CUBE_NODES; i++)
        memcpy(cube->nodes[i].rgb, found.nodes + 3 * i, 3 * sizeof(uint16_t));
    cmsCloseProfile(link);
    return found.nodes != NULL;
}

/* Evaluates the conversion at all `count` nodes of a grid. axes: 3 or 4. */
static void sample(cmsHTRANSFORM transform, int axes, uint32_t side, struct colour_node *nodes,
                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t from[4];
        size_t rest = i;
        for (int axis = axes - 1; axis >= 0; axis--, rest /= side)
            from[axis] = (uint16_t)((rest % side * 65535 + (side - 1) / 2) / (side - 1));
        cmsDoTransform(transform, from, nodes[i].rgb, 1);
    }
}

/* Copies lcms2's own grid, or evaluates the exact conversion at each node if there is none. false:
 * out of memory. */
static bool fill_cube(cmsContext context, const struct icc *icc, cmsHTRANSFORM transform,
                      cmsUInt32Number intent, struct colour_cube *cube)
{
    const struct conversion exact = {COLOUR_CUBE, TYPE_RGB_16, TYPE_RGB_16, cmsFLAGS_NOOPTIMIZE,
                                     intent};
    if (take_optimized(transform, cube))
        return true;
    for (int c = 0; c < 3; c++)
        write_positions(cube->positions[c], NULL, COLOUR_CUBE_SIDE);
    cmsHTRANSFORM wide = open_transform(context, icc, &exact);
    if (!wide)
        return false;
    sample(wide, 3, COLOUR_CUBE_SIDE, cube->nodes, COLOUR_CUBE_NODES);
    cmsDeleteTransform(wide);
    return true;
}

static void fill_gray(cmsHTRANSFORM transform, uint8_t gray[256])
{
    for (int v = 0; v < 256; v++) {
        uint8_t from = (uint8_t)v, rgb[3];
        cmsDoTransform(transform, &from, rgb, 1);
        gray[v] = rgb[1];
    }
}

static void fill_inks(cmsHTRANSFORM transform, struct colour_inks *inks)
{
    for (int c = 0; c < 4; c++)
        write_positions(inks->positions[c], NULL, COLOUR_INKS_SIDE);
    sample(transform, 4, COLOUR_INKS_SIDE, inks->nodes, COLOUR_INKS_NODES);
}

/* false: out of memory. */
static bool fill(cmsContext context, const struct icc *icc, cmsHTRANSFORM transform,
                 const struct conversion *conversion, struct colour *colour)
{
    if (colour->kind == COLOUR_CUBE)
        return fill_cube(context, icc, transform, conversion->intent, colour->tables);
    if (colour->kind == COLOUR_GRAY)
        fill_gray(transform, colour->gray);
    else
        fill_inks(transform, colour->tables);
    return true;
}

static bool choose(const struct icc *icc, struct conversion *conversion)
{
    switch (icc->space) {
    case ICC_SPACE_GRAY:
        *conversion = (struct conversion){COLOUR_GRAY, TYPE_GRAY_8, TYPE_RGB_8, 0, 0};
        return true;
    case ICC_SPACE_RGB:
        *conversion = (struct conversion){COLOUR_CUBE, TYPE_RGB_8, TYPE_RGB_8, 0, 0};
        return true;
    case ICC_SPACE_CMYK:
        *conversion = (struct conversion){COLOUR_INKS, TYPE_CMYK_16_REV, TYPE_RGB_16,
                                           cmsFLAGS_NOOPTIMIZE, 0};
        return true;
    default: return false;
    }
}

static enum status build(cmsContext context, const struct icc *icc,
                         const struct conversion *conversion, struct colour **colour,
                         struct error *error)
{
    static const size_t bytes[] = {[COLOUR_GRAY] = 0, [COLOUR_CUBE] = sizeof(struct colour_cube),
                                   [COLOUR_INKS] = sizeof(struct colour_inks)};
    cmsHTRANSFORM transform = open_transform(context, icc, conversion);
    if (!transform && own.exhausted)
        return error_set(error, STATUS_UNSUPPORTED_FORMAT,
                         "lcms2 needs more than %llu bytes for it", COLOUR_BUILD_BYTES_MAX);
    if (!transform)
        return error_set(error, STATUS_DECODE_FAILED, "lcms2 refuses it: %s",
                         own.text[0] ? own.text : "its tags are damaged or missing");
    *colour = colour_create(conversion->kind, bytes[conversion->kind]);
    bool filled = *colour && fill(context, icc, transform, conversion, *colour);
    cmsDeleteTransform(transform);
    if (filled)
        return STATUS_OK;
    return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for the tables of a profile");
}

enum status colour_build_grid(const struct icc *icc, enum colour_intent intent,
                              struct colour **colour, struct error *error)
{
    struct conversion conversion;
    if (!choose(icc, &conversion))
        return error_set(error, STATUS_DECODE_FAILED, "it is neither for gray, RGB nor CMYK");
    conversion.intent = intent == COLOUR_RELATIVE ? INTENT_RELATIVE_COLORIMETRIC
                                                  : INTENT_PERCEPTUAL;
    memset(&own, 0, sizeof(own));
    cmsContext context = cmsCreateContext(&memory, NULL);
    if (!context)
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for lcms2");
    cmsSetLogErrorHandlerTHR(context, on_error);
    enum status status = build(context, icc, &conversion, colour, error);
    cmsDeleteContext(context);
    return status;
}

#endif
