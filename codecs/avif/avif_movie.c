#include "codecs/avif/avif_movie.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/avif/avif_parts.h"
#include "codecs/avif/boxes.h"
#include "codecs/codec_impl.h"

/* The times of the sequence are in milliseconds. A sample must last: a frame without a delay has
 * the shortest one. Browsers show both for 100 ms. */
#define TIMESCALE    1000
#define DELAY_MIN    1
#define FOR_EVER     UINT64_MAX /* a track of unknown length repeats for ever */
#define FRACTION     16         /* bits of a side after the point */
#define MOVIE_MATRIX "\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x40\0\0\0"
#define ALPHA_URN    "urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"
#define IMAGE_ITEM   1 /* and the item of its alpha; the ids of the tracks, too */
#define ALPHA_ITEM   2
#define ESSENTIAL    0x80
#define BOXES_BYTES  2048 /* of the head, but the tables and the colours: 1,700 bytes */
#define PER_SAMPLE   20   /* bytes in the tables of a track: stts, stss, stsz and stco */

_Static_assert(sizeof MOVIE_MATRIX == 37, "nine numbers of 32 bits");

struct avif_sample {
    uint32_t delay_ms, bytes[AVIF_PLANES];
};

/* The tables are some MiB at most: a GIF has up to 65,536 frames. */
struct avif_tracks {
    struct avif_parts first; /* of the first frame, with its colours */
    uint32_t plays, count, room;
    uint64_t duration;
    struct avif_sample samples[];
};

static int planes_of(const struct movie *movie)
{
    return movie->has_alpha ? AVIF_PLANES : 1;
}

/* ---- frames --------------------------------------------------------------------------------- */

size_t avif_movie_head_bytes(const struct movie *movie)
{
    const struct avif_tracks *tracks = movie->tracks;
    return BOXES_BYTES + 2 * tracks->first.colours_bytes + /* of the image, and of the track */
           (size_t)tracks->room * PER_SAMPLE * (unsigned)planes_of(movie);
}

bool avif_movie_takes(uint32_t frames, struct error *error)
{
    if (frames > AVIF_IMAGES_MAX)
        error_set(error, STATUS_ENCODE_FAILED,
                  "an AVIF has at most %d images, but the animation has %u frames; use webp, or "
                  "\"frames\": {\"strip\": N}",
                  AVIF_IMAGES_MAX, frames);
    return error->status == STATUS_OK;
}

/* Makes room for the head. It takes the colours of the first frame. */
static enum status begin(struct movie *movie, const struct movie_frame *frame,
                         struct avif_parts *parts, movie_write_fn *write, void *context,
                         struct error *error)
{
    static const uint8_t zeros[4096];
    if (!avif_movie_takes(frame->frames, error))
        return error->status;
    struct avif_tracks *tracks = malloc(sizeof *tracks + frame->frames * sizeof *tracks->samples);
    if (!tracks) /* uncovered: memory (tests/coverage/reasons.txt) */
        return error_set(error, STATUS_OUT_OF_MEMORY, "no memory for an animation of %u frames",
                         frame->frames);
    *tracks = (struct avif_tracks){.first = *parts, .plays = frame->plays, .room = frame->frames};
    parts->colours = NULL;
    movie->tracks = tracks;
    movie->has_alpha = parts->planes[AVIF_ALPHA].bytes > 0;
    for (size_t left = avif_movie_head_bytes(movie), part; left > 0; left -= part) {
        part = left < sizeof zeros ? left : sizeof zeros;
        if (movie_put(movie, zeros, part, write, context, error) != STATUS_OK)
            return error->status;
    }
    return STATUS_OK;
}

/* The part of byte 1 of an av1C that is the level of the stream. */
enum { LEVEL_MASK = 0x1F };

/* Whether one track can have the frame. Its level may differ: gpuimgd's encoder and libaom give
 * images of less than 16 rows or columns other ones, and the quality of a frame may decide which of
 * them encodes it. The track has the highest level. */
static bool take_kind(struct avif_parts *track, const struct avif_parts *frame)
{
    for (int i = 0; i < AVIF_PLANES; i++) {
        uint8_t *has = track->planes[i].av1c, got[AV1C_BYTES];
        memcpy(got, frame->planes[i].av1c, AV1C_BYTES);
        uint8_t level = got[1] & LEVEL_MASK, highest = has[1] & LEVEL_MASK;
        got[1] = (uint8_t)((got[1] & ~LEVEL_MASK) | highest);
        if ((track->planes[i].bytes > 0) != (frame->planes[i].bytes > 0) ||
            memcmp(has, got, AV1C_BYTES) != 0)
            return false;
        if (level > highest)
            has[1] = (uint8_t)((has[1] & ~LEVEL_MASK) | level);
    }
    return true;
}

static enum status add_sample(struct movie *movie, const struct movie_frame *frame,
                              const struct avif_parts *parts, movie_write_fn *write, void *context,
                              struct error *error)
{
    struct avif_tracks *tracks = movie->tracks;
    if (!take_kind(&tracks->first, parts) || tracks->count >= tracks->room) /* uncovered: net */
        return error_set(error, STATUS_ENCODE_FAILED,
                         "frame %u of the animation is coded differently than those before it",
                         tracks->count);
    struct avif_sample *sample = &tracks->samples[tracks->count++];
    *sample = (struct avif_sample){frame->delay_ms > DELAY_MIN ? frame->delay_ms : DELAY_MIN, {0}};
    tracks->duration += sample->delay_ms;
    for (int i = 0; i < planes_of(movie); i++) {
        sample->bytes[i] = (uint32_t)parts->planes[i].bytes;
        if (movie_put_part(movie, frame, parts->planes[i].at, sample->bytes[i], write, context,
                           error) != STATUS_OK)
            return error->status;
    }
    return STATUS_OK;
}

enum status avif_movie_add(struct movie *movie, const struct movie_frame *frame,
                           movie_write_fn *write, void *context, struct error *error)
{
    struct avif_parts parts;
    if (avif_find_parts(frame, &parts, error) == STATUS_OK &&
        movie_check_size(movie, frame->length, error) == STATUS_OK &&
        (movie->tracks || begin(movie, frame, &parts, write, context, error) == STATUS_OK))
        (void)!add_sample(movie, frame, &parts, write, context, error);
    free(parts.colours);
    return error->status;
}

/* ---- the still image ------------------------------------------------------------------------ */

static void put_type(struct boxes *out, const struct avif_tracks *tracks)
{
    enum { level_5_1 = 13 };
    static const char brands[] = "avisaviomsf1iso8avifmif1miafMA1B";
    bool baseline = (tracks->first.planes[AVIF_COLOURS].av1c[1] & LEVEL_MASK) <= level_5_1;
    size_t box = box_begin(out, "ftyp");
    box_put(out, "avis\0\0\0\0", 8);
    box_put(out, brands, sizeof brands - 1 - (baseline ? 0 : 4));
    box_end(out, box);
}

static void put_handler(struct boxes *out, const char *type)
{
    size_t box = box_begin_full(out, "hdlr", 0, 0);
    box_number(out, 0, 4);
    box_put(out, type, 4);
    box_put(out, "\0\0\0\0\0\0\0\0\0\0\0\0", 13); /* without a name */
    box_end(out, box);
}

static void put_locations(struct boxes *out, const struct movie *movie)
{
    size_t box = box_begin_full(out, "iloc", 0, 0);
    uint64_t at = avif_movie_head_bytes(movie);
    box_number(out, 0x4400, 2);
    box_number(out, (unsigned)planes_of(movie), 2);
    for (int i = 0; i < planes_of(movie); i++) {
        uint32_t bytes = movie->tracks->samples[0].bytes[i];
        box_number(out, IMAGE_ITEM + (unsigned)i, 2);
        box_number(out, 0, 2); /* in this file */
        box_number(out, 1, 2); /* extent */
        box_number(out, at, 4);
        box_number(out, bytes, 4);
        at += bytes;
    }
    box_end(out, box);
}

static void put_infos(struct boxes *out, const struct movie *movie)
{
    size_t box = box_begin_full(out, "iinf", 0, 0);
    box_number(out, (unsigned)planes_of(movie), 2);
    for (int i = 0; i < planes_of(movie); i++) {
        size_t entry = box_begin_full(out, "infe", 2, 0);
        box_number(out, IMAGE_ITEM + (unsigned)i, 2);
        box_number(out, 0, 2); /* not protected */
        box_put(out, i == AVIF_COLOURS ? "av01Color" : "av01Alpha", 10);
        box_end(out, entry);
    }
    box_end(out, box);
    if (!movie->has_alpha)
        return;
    box = box_begin_full(out, "iref", 0, 0);
    size_t reference = box_begin(out, "auxl");
    box_number(out, ALPHA_ITEM, 2);
    box_number(out, 1, 2);
    box_number(out, IMAGE_ITEM, 2);
    box_end(out, reference);
    box_end(out, box);
}

static void put_config(struct boxes *out, const struct avif_tracks *tracks, int plane)
{
    size_t box = box_begin(out, "av1C");
    box_put(out, tracks->first.planes[plane].av1c, AV1C_BYTES);
    box_end(out, box);
}

static void put_depth(struct boxes *out, const struct avif_tracks *tracks, int plane)
{
    enum { monochrome = 0x10 };
    unsigned channels = tracks->first.planes[plane].av1c[2] & monochrome ? 1 : 3;
    size_t box = box_begin_full(out, "pixi", 0, 0);
    box_number(out, channels, 1);
    for (unsigned i = 0; i < channels; i++)
        box_number(out, 8, 1);
    box_end(out, box);
}

/* Returns the number of boxes colr. */
static unsigned count_colours(const struct avif_tracks *tracks)
{
    unsigned count = 0;
    for (size_t at = 0; at < tracks->first.colours_bytes; count++)
        at += codec_u32(tracks->first.colours + at);
    return count;
}

/* Both items have the sides, the first of the properties. */
static void put_properties(struct boxes *out, const struct movie *movie)
{
    const struct avif_tracks *tracks = movie->tracks;
    unsigned colours = count_colours(tracks), number = 1;
    size_t box = box_begin(out, "iprp"), container = box_begin(out, "ipco");
    size_t sides = box_begin_full(out, "ispe", 0, 0);
    box_number(out, movie->width, 4);
    box_number(out, movie->height, 4);
    box_end(out, sides);
    for (int i = 0; i < planes_of(movie); i++) {
        put_config(out, tracks, i);
        put_depth(out, tracks, i);
        box_put(out, tracks->first.colours, i == AVIF_COLOURS ? tracks->first.colours_bytes : 0);
    }
    if (movie->has_alpha) {
        size_t kind = box_begin_full(out, "auxC", 0, 0);
        box_put(out, ALPHA_URN, sizeof ALPHA_URN);
        box_end(out, kind);
    }
    box_end(out, container);
    size_t association = box_begin_full(out, "ipma", 0, 0);
    box_number(out, (unsigned)planes_of(movie), 4);
    for (int i = 0; i < planes_of(movie); i++) {
        unsigned more = i == AVIF_COLOURS ? colours : 1;
        box_number(out, IMAGE_ITEM + (unsigned)i, 2);
        box_number(out, 3 + more, 1);
        box_number(out, 1, 1);
        box_number(out, ESSENTIAL | ++number, 1);
        for (unsigned j = 0; j <= more; j++)
            box_number(out, ++number, 1);
    }
    box_end(out, association);
    box_end(out, box);
}

static void put_still(struct boxes *out, const struct movie *movie)
{
    size_t meta = box_begin_full(out, "meta", 0, 0);
    put_handler(out, "pict");
    size_t box = box_begin_full(out, "pitm", 0, 0);
    box_number(out, IMAGE_ITEM, 2);
    box_end(out, box);
    put_locations(out, movie);
    put_infos(out, movie);
    put_properties(out, movie);
    box_end(out, meta);
}

/* ---- tracks --------------------------------------------------------------------------------- */

/* With all repetitions. */
static uint64_t duration_of(const struct avif_tracks *tracks)
{
    bool has_end = tracks->plays > 0 && tracks->plays < FOR_EVER / tracks->duration;
    return has_end ? tracks->duration * tracks->plays : FOR_EVER;
}

static void put_times(struct boxes *out)
{
    box_number(out, 0, 8); /* created */
    box_number(out, 0, 8); /* modified */
}

static void put_movie_header(struct boxes *out, const struct movie *movie)
{
    size_t box = box_begin_full(out, "mvhd", 1, 0);
    put_times(out);
    box_number(out, TIMESCALE, 4);
    box_number(out, duration_of(movie->tracks), 8);
    box_number(out, 1u << FRACTION, 4); /* rate */
    box_number(out, 0x0100, 2);         /* volume */
    box_number(out, 0, 2);
    box_number(out, 0, 8);
    box_put(out, MOVIE_MATRIX, 36);
    for (int i = 0; i < 6; i++)
        box_number(out, 0, 4);
    box_number(out, 1 + (unsigned)planes_of(movie), 4); /* the next track */
    box_end(out, box);
}

static void put_track_header(struct boxes *out, const struct movie *movie, int plane)
{
    enum { enabled = 1, in_movie = 2 };
    size_t box = box_begin_full(out, "tkhd", 1, enabled | in_movie);
    put_times(out);
    box_number(out, IMAGE_ITEM + (unsigned)plane, 4);
    box_number(out, 0, 4);
    box_number(out, duration_of(movie->tracks), 8);
    box_number(out, 0, 8);
    box_number(out, 0, 8); /* layer, group, volume */
    box_put(out, MOVIE_MATRIX, 36);
    box_number(out, (uint64_t)movie->width << FRACTION, 4);
    box_number(out, (uint64_t)movie->height << FRACTION, 4);
    box_end(out, box);
    if (plane == AVIF_COLOURS)
        return;
    box = box_begin(out, "tref");
    size_t reference = box_begin(out, "auxl");
    box_number(out, IMAGE_ITEM, 4);
    box_end(out, reference);
    box_end(out, box);
}

/* The edit list says whether the track is repeated, and its header for how long. */
static void put_edits(struct boxes *out, const struct avif_tracks *tracks)
{
    size_t box = box_begin(out, "edts");
    size_t list = box_begin_full(out, "elst", 1, tracks->plays != 1);
    box_number(out, 1, 4);
    box_number(out, tracks->duration, 8);
    box_number(out, 0, 8);              /* from the first frame on */
    box_number(out, 1u << FRACTION, 4); /* rate */
    box_end(out, list);
    box_end(out, box);
}

/* How the samples are coded. */
static void put_description(struct boxes *out, const struct movie *movie, int plane)
{
    const struct avif_tracks *tracks = movie->tracks;
    size_t box = box_begin_full(out, "stsd", 0, 0);
    box_number(out, 1, 4);
    size_t entry = box_begin(out, "av01");
    box_number(out, 0, 6);
    box_number(out, 1, 2); /* the data is in this file */
    box_number(out, 0, 8);
    box_number(out, 0, 8);
    box_number(out, movie->width, 2);
    box_number(out, movie->height, 2);
    box_number(out, 72u << FRACTION, 4); /* pixels per inch, which readers ignore */
    box_number(out, 72u << FRACTION, 4);
    box_number(out, 0, 4);
    box_number(out, 1, 2); /* frame per sample */
    for (int i = 0; i < 32; i++)
        box_number(out, 0, 1); /* the name of the encoder */
    box_number(out, 24, 2);    /* bits */
    box_number(out, 0xFFFF, 2);
    put_config(out, tracks, plane);
    put_depth(out, tracks, plane);
    box_put(out, tracks->first.colours, plane == AVIF_COLOURS ? tracks->first.colours_bytes : 0);
    size_t constraints = box_begin_full(out, "ccst", 0, 0);
    box_number(out, 0xC0000000, 4); /* no frame refers to another one; blocks within it do */
    box_end(out, constraints);
    if (plane == AVIF_ALPHA) {
        size_t kind = box_begin_full(out, "auxi", 0, 0);
        box_put(out, ALPHA_URN, sizeof ALPHA_URN);
        box_end(out, kind);
    }
    box_end(out, entry);
    box_end(out, box);
}

/* Begins a table with a row per sample. */
static size_t begin_table(struct boxes *out, const char *type, const struct avif_tracks *tracks)
{
    size_t box = box_begin_full(out, type, 0, 0);
    if (strcmp(type, "stsz") == 0)
        box_number(out, 0, 4); /* their sizes differ */
    box_number(out, tracks->count, 4);
    return box;
}

/* The delays, the key frames, the sizes and the places. Each sample is a chunk of its own. */
static void put_samples(struct boxes *out, const struct movie *movie, int plane)
{
    const struct avif_tracks *tracks = movie->tracks;
    uint64_t at = avif_movie_head_bytes(movie);
    size_t box = begin_table(out, "stts", tracks);
    for (uint32_t i = 0; i < tracks->count; i++) {
        box_number(out, 1, 4);
        box_number(out, tracks->samples[i].delay_ms, 4);
    }
    box_end(out, box);
    box = begin_table(out, "stss", tracks);
    for (uint32_t i = 0; i < tracks->count; i++)
        box_number(out, i + 1, 4);
    box_end(out, box);
    box = box_begin_full(out, "stsc", 0, 0);
    for (int i = 0; i < 4; i++)
        box_number(out, 1, 4); /* row: from chunk 1 on, 1 sample each, of the first description */
    box_end(out, box);
    box = begin_table(out, "stsz", tracks);
    for (uint32_t i = 0; i < tracks->count; i++)
        box_number(out, tracks->samples[i].bytes[plane], 4);
    box_end(out, box);
    box = begin_table(out, "stco", tracks);
    for (uint32_t i = 0; i < tracks->count; i++) {
        const struct avif_sample *sample = &tracks->samples[i];
        box_number(out, at + (plane == AVIF_ALPHA ? sample->bytes[AVIF_COLOURS] : 0), 4);
        at += (uint64_t)sample->bytes[AVIF_COLOURS] + sample->bytes[AVIF_ALPHA];
    }
    box_end(out, box);
}

static void put_media(struct boxes *out, const struct movie *movie, int plane)
{
    size_t media = box_begin(out, "mdia"), box = box_begin_full(out, "mdhd", 1, 0);
    put_times(out);
    box_number(out, TIMESCALE, 4);
    box_number(out, movie->tracks->duration, 8);
    box_number(out, 0x55C4, 2); /* no language: "und" */
    box_number(out, 0, 2);
    box_end(out, box);
    put_handler(out, plane == AVIF_COLOURS ? "pict" : "auxv");
    size_t info = box_begin(out, "minf");
    box = box_begin_full(out, "vmhd", 0, 1);
    box_number(out, 0, 8);
    box_end(out, box);
    box = box_begin(out, "dinf");
    size_t references = box_begin_full(out, "dref", 0, 0);
    box_number(out, 1, 4);
    box_end(out, box_begin_full(out, "url ", 0, 1)); /* in this file */
    box_end(out, references);
    box_end(out, box);
    box = box_begin(out, "stbl");
    put_description(out, movie, plane);
    put_samples(out, movie, plane);
    box_end(out, box);
    box_end(out, info);
    box_end(out, media);
}

static void put_tracks(struct boxes *out, const struct movie *movie)
{
    size_t box = box_begin(out, "moov");
    put_movie_header(out, movie);
    for (int plane = 0; plane < planes_of(movie); plane++) {
        size_t track = box_begin(out, "trak");
        put_track_header(out, movie, plane);
        put_edits(out, movie->tracks);
        put_media(out, movie, plane);
        box_end(out, track);
    }
    box_end(out, box);
}

/* The rest of the head is a box that readers skip. */
size_t avif_movie_head(const struct movie *movie, uint8_t *to)
{
    enum { box_bytes = 8 };
    struct boxes out = {.file = to};
    size_t bytes = avif_movie_head_bytes(movie);
    put_type(&out, movie->tracks);
    put_still(&out, movie);
    put_tracks(&out, movie);
    assert(out.length + 2 * box_bytes <= bytes);
    size_t free_bytes = bytes - box_bytes - out.length;
    memset(to + out.length, 0, free_bytes);
    avif_put_u32(to + out.length, (uint32_t)free_bytes);
    memcpy(to + out.length + 4, "free", 4);
    out.length += free_bytes;
    box_number(&out, movie->bytes - out.length, 4);
    box_put(&out, "mdat", 4);
    return out.length;
}

void avif_movie_clear(struct movie *movie)
{
    if (movie->tracks)
        free(movie->tracks->first.colours);
    free(movie->tracks);
    movie->tracks = NULL;
}
