/*
 * segments.h - groups the macroblocks of an image into segments by their alphas, and chooses the
 * quantisers of the segments.
 *
 * A warp has an image: k-means in one dimension, on the counts of the 256 alphas. Each lane has 8
 * of the counts.
 */
#pragma once

#include "gpu/webp/tables.h"
#include "gpu/webp/transform.h"

#define LANE_ALPHAS      (256 / WARP_LANES)
#define KMEANS_STEPS_MAX 6
/* The centers have converged if the sum of their movements is less. */
#define KMEANS_MOVEMENT 5
#define ALPHA_NONE      256

struct clusters {
    int centers[WEBP_SEGMENTS];
    int counts[WEBP_SEGMENTS]; /* of macroblocks */
    int first[WEBP_SEGMENTS];  /* the cluster begins at this alpha */
    int mean;                  /* of all macroblocks */
};

/* Returns the first alpha from `from` on that macroblocks have, or ALPHA_NONE. used: bit i: the
 * lane's count i is not 0. */
SIMT int next_alpha(uint32_t used, int from)
{
    int skip = from - lane_index() * LANE_ALPHAS;
    if (skip > 0)
        used = skip < LANE_ALPHAS ? used >> skip << skip : 0;
    int lane = lowest_bit(warp_ballot(used != 0));
    int alpha =
        (lane < 0 ? 0 : lane) * LANE_ALPHAS + lowest_bit(warp_read(used, lane < 0 ? 0 : lane));
    return lane < 0 ? ALPHA_NONE : alpha;
}

/* Sets where each cluster begins. libwebp goes through the alphas from the least on. At each alpha
 * it goes on to the next cluster while that one's center is strictly closer. So a cluster whose
 * center equals the next one's gets all further alphas. */
SIMT void bound_clusters(struct clusters *clusters, uint32_t used)
{
    clusters->first[0] = 0;
    UNROLL
    for (int i = 1; i < WEBP_SEGMENTS; i++) {
        int before = clusters->centers[i - 1], center = clusters->centers[i];
        int alpha = next_alpha(used, clusters->first[i - 1]);
        if (center > before)
            alpha = (before + center) / 2 + 1;
        else if (center == before || 2 * alpha >= before + center)
            alpha = ALPHA_NONE;
        clusters->first[i] = alpha > clusters->first[i - 1] ? alpha : clusters->first[i - 1];
    }
}

SIMT int cluster_of(const struct clusters *clusters, int alpha)
{
    return (alpha >= clusters->first[1]) + (alpha >= clusters->first[2]) +
           (alpha >= clusters->first[3]);
}

/* Moves the centers to the means of their clusters. Returns by how much in all. */
SIMT int move_centers(struct clusters *clusters, const uint32_t counts[LANE_ALPHAS])
{
    int moved = 0, total = 0, weighted = 0;
    UNROLL
    for (int i = 0; i < WEBP_SEGMENTS; i++) {
        uint32_t count = 0, sum = 0;
        UNROLL
        for (int k = 0; k < LANE_ALPHAS; k++) {
            int alpha = lane_index() * LANE_ALPHAS + k;
            uint32_t own = cluster_of(clusters, alpha) == i ? counts[k] : 0;
            count += own;
            sum += own * (uint32_t)alpha;
        }
        count = warp_sum(count);
        sum = warp_sum(sum);
        clusters->counts[i] = (int)count;
        if (count == 0)
            continue;
        int center = (int)((sum + count / 2) / count), by = clusters->centers[i] - center;
        moved += by < 0 ? -by : by;
        clusters->centers[i] = center;
        weighted += center * (int)count;
        total += (int)count;
    }
    clusters->mean = (weighted + total / 2) / total;
    return moved;
}

SIMT void find_clusters(struct clusters *clusters, const uint32_t counts[LANE_ALPHAS])
{
    uint32_t used = 0;
    UNROLL
    for (int i = 0; i < LANE_ALPHAS; i++)
        used |= (uint32_t)(counts[i] > 0) << i;
    int last_lane = highest_bit(warp_ballot(used != 0)), least = next_alpha(used, 0);
    int most = last_lane * LANE_ALPHAS + highest_bit(warp_read(used, last_lane));
    UNROLL
    for (int i = 0; i < WEBP_SEGMENTS; i++)
        clusters->centers[i] = least + (2 * i + 1) * (most - least) / (2 * WEBP_SEGMENTS);
    for (int step = 0; step < KMEANS_STEPS_MAX; step++) {
        bound_clusters(clusters, used);
        if (move_centers(clusters, counts) < KMEANS_MOVEMENT)
            break;
    }
}

/* ---- quantisers ---- */

DEVICE int clip_between(int value, int least, int most)
{
    return value < least ? least : value > most ? most : value;
}

DEVICE void set_quantiser(struct webp_quantiser *to, int dc, int ac, int bias_dc, int bias_ac)
{
    to->step[0] = dc;
    to->step[1] = ac;
    to->reciprocal[0] = (1 << QUANTISER_BITS) / dc;
    to->reciprocal[1] = (1 << QUANTISER_BITS) / ac;
    to->bias[0] = bias_dc << (QUANTISER_BITS - 8);
    to->bias[1] = bias_ac << (QUANTISER_BITS - 8);
}

/* Sets the quantisers of a segment with this quantiser index. */
SIMT void set_segment(struct webp_segment *segment, const struct webp_frame *frame)
{
    int quant = segment->quant;
    int y2_ac = ac_steps[quant] * 155 / 100;
    set_quantiser(&segment->y1, dc_steps[quant], ac_steps[quant], 96, 110);
    set_quantiser(&segment->y2, dc_steps[quant] * 2, y2_ac < 8 ? 8 : y2_ac, 96, 108);
    set_quantiser(&segment->uv, dc_steps[clip_between(quant + frame->uv_dc_delta, 0, 117)],
                  ac_steps[clip_between(quant + frame->uv_ac_delta, 0, 127)], 110, 115);
    for (int i = 0; i < 16; i++) {
        /* 0 for the DC, 30 per step to the right or down, 90 at most. */
        int frequency = i / 4 + i % 4, sharpening = frequency < 3 ? 30 * frequency : 90;
        segment->sharpen[i] = (sharpening * segment->y1.step[i > 0]) >> 11;
    }
    int mean = (segment->y1.step[0] + 15 * segment->y1.step[1] + 8) >> 4;
    segment->penalty_4x4 = 1000u * (uint32_t)(mean * mean);
}

/* The strength of the loop filter of a segment. beta: how far its alpha is above the least. */
SIMT int filter_of(int quant, int beta)
{
    int step = ac_steps[quant] >> 2, strength = (step < 63 ? step : 63) * 300 / (256 + beta);
    return strength < 2 ? 0 : strength > 63 ? 63 : strength;
}

/* In lanes 0 to 3: sets quant and filter of the segment of the lane's cluster. */
SIMT void set_quant(struct webp_segment *segment, const struct clusters *clusters,
                    const uint8_t quants[256])
{
    int least = clusters->centers[0], most = least, own = least;
    UNROLL
    for (int i = 1; i < WEBP_SEGMENTS; i++) {
        int center = clusters->centers[i];
        least = center < least ? center : least;
        most = center > most ? center : most;
        own = lane_index() == i ? center : own;
    }
    int range = most == least ? 1 : most - least;
    int alpha = clip_between(255 * (own - clusters->mean) / range, -127, 127);
    int beta = clip_between(255 * (own - least) / range, 0, 255);
    segment->quant = quants[alpha + 127];
    segment->filter = filter_of(segment->quant, beta);
}

/* Merges segments with the same quant and filter. Sets map[] to the new segment of each. */
SIMT void merge_segments(struct webp_frame *frame, uint32_t map[WEBP_SEGMENTS])
{
    uint32_t count = 1;
    map[0] = 0;
    for (uint32_t i = 1; i < WEBP_SEGMENTS; i++) {
        struct webp_segment *segment = &frame->segments[i];
        uint32_t same = 0;
        while (same < count && (frame->segments[same].quant != segment->quant ||
                                frame->segments[same].filter != segment->filter))
            same++;
        map[i] = same;
        if (same < count)
            continue;
        frame->segments[count].quant = segment->quant;
        frame->segments[count].filter = segment->filter;
        count++;
    }
    frame->segment_count = count;
    for (uint32_t i = count; i < WEBP_SEGMENTS; i++) {
        frame->segments[i].quant = frame->segments[count - 1].quant;
        frame->segments[i].filter = frame->segments[count - 1].filter;
    }
}

DEVICE uint32_t probability_of(uint32_t zeros, uint32_t ones)
{
    uint32_t total = zeros + ones;
    return total == 0 ? 255 : (255 * zeros + total / 2) / total;
}

/* Sets how the header codes the segments. counts: macroblocks of each segment. */
SIMT void set_segment_probabilities(struct webp_frame *frame, const uint32_t counts[WEBP_SEGMENTS])
{
    uint32_t *to = frame->segment_probabilities;
    to[0] = to[1] = to[2] = 255;
    if (frame->segment_count > 1) {
        to[0] = probability_of(counts[0] + counts[1], counts[2] + counts[3]);
        to[1] = probability_of(counts[0], counts[1]);
        to[2] = probability_of(counts[2], counts[3]);
    }
    frame->updates_map = to[0] != 255 || to[1] != 255 || to[2] != 255;
    /* If there is one segment, libwebp takes the size of its map, 0, for a failure, and drops the
     * statistics of the tokens. */
    frame->uses_statistics = frame->segment_count > 1;
}

/* In one lane, after set_quant: sets all of the frame but segment_of and the quantisers of the
 * segments. Sets map[] to the segment of each cluster. */
SIMT void set_frame(struct webp_frame *frame, const struct clusters *clusters,
                    uint32_t uv_alpha_sum, uint32_t macroblocks, uint32_t map[WEBP_SEGMENTS])
{
    uint32_t counts[WEBP_SEGMENTS] = {0, 0, 0, 0};
    frame->base_quant = frame->segments[0].quant;
    int uv_alpha = (int)(uv_alpha_sum / macroblocks);
    frame->uv_ac_delta = clip_between((uv_alpha - 64) * 10 / 70 * 50 / 100, -4, 6);
    frame->uv_dc_delta = -2;
    merge_segments(frame, map);
    UNROLL
    for (uint32_t i = 0; i < WEBP_SEGMENTS; i++)
        UNROLL
    for (uint32_t k = 0; k < WEBP_SEGMENTS; k++)
        counts[k] += map[i] == k ? (uint32_t)clusters->counts[i] : 0;
    set_segment_probabilities(frame, counts);
    frame->filter_level = 0;
    for (int i = 0; i < WEBP_SEGMENTS; i++) {
        int filter = frame->segments[i].filter;
        frame->filter_level = filter > frame->filter_level ? filter : frame->filter_level;
        map[i] = frame->updates_map ? map[i] : 0;
    }
    /* libwebp's bound of the first partition, 510 KiB, in 1/256 bit. */
    uint64_t bits = 256ull * 510 * 8 * 1024 / macroblocks;
    frame->header_bits_max = bits < INT32_MAX ? (int)bits : INT32_MAX;
}
