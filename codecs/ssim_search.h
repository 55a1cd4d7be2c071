/*
 * ssim_search.h - searches the lowest quality at which a decoded file has at least a given
 * similarity to its image (ssim.h), for CPUs and GPUs.
 *
 * The search encodes the image with several qualities, decodes the files and compares them. The
 * next quality to try is estimated from the similarities so far: one minus the similarity falls
 * about as the typical curve of sizes rises (quality_search.h). An estimate is only followed as far
 * as the trials that are left suffice to halve what is left. So the result reaches the target, and
 * was found not to do so at the next lower quality. It is the lowest one if files become more
 * similar with the quality, as nearly all do. All arithmetic is in integers.
 */
#pragma once

#include "codecs/quality_search.h"
#include "codecs/ssim.h"

/* The most trials of a search. The caller then encodes the image once more, to write the file. */
#define SSIM_TRIALS_MAX 9
/* The median of photographs as JPEG: a search begins with an estimate from it. */
#define SSIM_TYPICAL_QUALITY 72
#define SSIM_TYPICAL         980000

struct ssim_trial {
    int quality; /* 0: there is no such trial */
    int ssim;    /* in units of 1 / SSIM_ONE */
};

/* At first, the members from `count` on are zero. */
struct ssim_search {
    int target;                /* less than SSIM_ONE */
    int least, most;           /* the qualities that are allowed */
    int count;                 /* of trials so far */
    struct ssim_trial below;   /* the highest quality so far that does not reach the target */
    struct ssim_trial reaches; /* the lowest quality so far that does */
};

/* The logarithm of the distance to SSIM_ONE. */
QUALITY_DEVICE int64_t ssim_log(int ssim)
{
    return quality_log(ssim < SSIM_ONE ? (uint64_t)(SSIM_ONE - ssim) : 1);
}

/* The next quality after trials on one side of the target, or after none: the distance falls by 3/2
 * of what the typical size rises. After two trials, it seems to fall by less. */
QUALITY_DEVICE int ssim_extrapolate(const struct ssim_search *search)
{
    struct ssim_trial from = search->below.quality > 0 ? search->below : search->reaches;
    if (from.quality == 0) {
        from.quality = SSIM_TYPICAL_QUALITY;
        from.ssim = SSIM_TYPICAL;
    }
    int64_t fall = ssim_log(from.ssim) - ssim_log(search->target);
    int64_t rise = search->count < 2 ? fall * 2 / 3 : fall;
    return quality_of(quality_typical(from.quality) + rise, search->least, search->most);
}

/* The next quality between two trials: the typical curve is stretched so that it goes through
 * both. */
QUALITY_DEVICE int ssim_interpolate(const struct ssim_search *search)
{
    const struct ssim_trial *low = &search->below, *high = &search->reaches;
    int64_t from = quality_typical(low->quality), run = quality_typical(high->quality) - from;
    int64_t fall = ssim_log(low->ssim) - ssim_log(high->ssim);
    int64_t way = (ssim_log(low->ssim) - ssim_log(search->target)) * run / (fall > 0 ? fall : 1);
    return quality_of(from + way, low->quality, high->quality) + 1;
}

/* Adds the similarity at a quality, which ssim_search_next has returned. */
QUALITY_DEVICE void ssim_search_add(struct ssim_search *search, int quality, int ssim)
{
    struct ssim_trial trial;
    trial.quality = quality;
    trial.ssim = ssim;
    search->count++;
    if (ssim >= search->target)
        search->reaches = trial;
    else
        search->below = trial;
}

/* Adds a trial without a file: this quality is not allowed. Nor are higher ones, except one that
 * already reaches the target. */
QUALITY_DEVICE void ssim_search_exclude(struct ssim_search *search, int quality)
{
    if (search->reaches.quality > 0) {
        ssim_search_add(search, quality, 0);
    } else {
        search->count++;
        search->most = quality - 1;
    }
}

/* Returns the quality to try next, also before the first trial. 0: the search has ended, and
 * search->reaches has the result. If its quality is 0, even the highest quality does not reach the
 * target: search->below. */
QUALITY_DEVICE int ssim_search_next(const struct ssim_search *search)
{
    int low = search->below.quality > 0 ? search->below.quality : search->least - 1;
    int high = search->reaches.quality > 0 ? search->reaches.quality : search->most + 1;
    if (high - low <= 1)
        return 0;
    /* n trials find one of 2^n - 1 qualities */
    int half = 1 << (SSIM_TRIALS_MAX - search->count - 1);
    int least = high - half > low ? high - half : low + 1;
    int most = low + half < high ? low + half : high - 1;
    int next = search->below.quality > 0 && search->reaches.quality > 0 ? ssim_interpolate(search)
                                                                        : ssim_extrapolate(search);
    return next < least ? least : next > most ? most : next;
}
