/*
 * avif_plays.c - how often an AVIF sequence is shown (avif.h).
 *
 * libavif reports it from version 1.0 on, so the boxes are read here: the edit list of the track
 * says whether it repeats, and how long it is; the header of the track, how long all of its
 * repetitions are (ISO/IEC 14496-12, 8.6.6, and ISO/IEC 23008-12, 7.5.2.3).
 */
#ifdef GPUIMGD_AVIF

#include <string.h>

#include "codecs/confined/avif/avif.h"

/* Bytes of the file, or the content of a box. */
struct span {
    uint64_t at, end;
};

static uint64_t read_number(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* Reads the header of the box at in->at, and steps over the box. false: there is no more. */
static bool next_box(struct confined_source *source, struct span *in, char type[4],
                     struct span *content)
{
    enum { head_bytes = 8, large_bytes = 16 };
    size_t head = large_bytes;
    const uint8_t *bytes = in->at < in->end ? confined_read(source, in->at, &head) : NULL;
    if (!bytes || head < head_bytes)
        return false;
    uint64_t length = read_number(bytes, 4), skipped = head_bytes, left = in->end - in->at;
    if (length == 1 && head == large_bytes) {
        length = read_number(bytes + head_bytes, 8);
        skipped = large_bytes;
    } else if (length == 0) {
        length = left; /* up to the end */
    }
    if (length < skipped || length > left)
        return false;
    memcpy(type, bytes + 4, 4);
    *content = (struct span){in->at + skipped, in->at + length};
    in->at += length;
    return true;
}

/* The first box of the type. */
static bool find(struct confined_source *source, struct span in, const char *wanted,
                 struct span *content)
{
    char type[4];
    while (next_box(source, &in, type, content))
        if (memcmp(type, wanted, sizeof type) == 0)
            return true;
    return false;
}

/* Reads a full box of at most 64 bytes. Returns them; NULL: it is shorter. */
static const uint8_t *read_box(struct confined_source *source, struct span in, const char *type,
                               size_t bytes)
{
    struct span box;
    size_t count = bytes;
    if (!find(source, in, type, &box) || box.end - box.at < bytes)
        return NULL;
    const uint8_t *at = confined_read(source, box.at, &count);
    return at && count == bytes ? at : NULL;
}

/* The duration of the track with all repetitions; UINT64_MAX: without end. */
static uint64_t track_duration(struct confined_source *source, struct span track)
{
    enum { bytes = 24, at = 20, large_bytes = 36, large_at = 28 };
    const uint8_t *box = read_box(source, track, "tkhd", bytes);
    if (!box)
        return 0;
    if (box[0] == 0) {
        uint64_t duration = read_number(box + at, 4);
        return duration == UINT32_MAX ? UINT64_MAX : duration;
    }
    box = read_box(source, track, "tkhd", large_bytes);
    return box ? read_number(box + large_at, 8) : 0;
}

/* Of the track's edit list: whether it repeats, and how long it is. */
static bool read_edits(struct confined_source *source, struct span track, bool *repeats,
                       uint64_t *duration)
{
    enum { bytes = 16, flags_at = 3, duration_at = 8 };
    struct span edits;
    const uint8_t *box = NULL;
    if (find(source, track, "edts", &edits))
        box = read_box(source, edits, "elst", bytes);
    if (!box)
        return false;
    *repeats = box[flags_at] & 1;
    *duration = read_number(box + duration_at, box[0] == 0 ? 4 : 8);
    return true;
}

uint32_t avif_plays(const struct codec_call *call, const uint8_t *region)
{
    enum { for_ever };
    struct confined_source source = confined_open(call, region, UINT64_MAX);
    struct span movie, track;
    bool repeats = false;
    uint64_t once = 0;
    if (!find(&source, (struct span){0, call->file_bytes}, "moov", &movie) ||
        !find(&source, movie, "trak", &track) || !read_edits(&source, track, &repeats, &once))
        return for_ever; /* as in browsers */
    uint64_t all = track_duration(&source, track);
    if (!repeats || once == 0)
        return 1;
    uint64_t plays = all / once + (all % once > 0);
    return all == UINT64_MAX || plays > UINT32_MAX ? for_ever : plays > 1 ? (uint32_t)plays : 1;
}

#endif
