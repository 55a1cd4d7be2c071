/*
 * statistics.h - counts tokens per probability, and chooses the probabilities, as libwebp does.
 *
 * libwebp counts the tokens of each probability, and those of them that are 1, in two halves of a
 * word. When the first count is full, it halves both. So the result depends on the order of the
 * tokens: then the exact token must be found.
 */
#pragma once

#include "gpu/webp/records.h"
#include "gpu/webp/tables.h"

#define COUNT_FULL 0xFFFEu

/* ---- counting ---- */

/* Writes the counts of the tokens in a cell: 11. Each has the number of tokens in the upper half,
 * and of those that are 1 in the lower half. */
DEVICE void count_tokens_of_cell(const struct record_tables *tables, uint32_t cell, uint32_t *to)
{
    uint32_t counts[CLASSES], from[CLASSES]; /* from: levels from a class on */
    for (int i = 0; i < CLASSES; i++) {
        counts[i] = 0;
        for (int j = 0; j < COUNT_COPIES; j++)
            counts[i] += tables->counts[j][cell * CLASSES + (uint32_t)i];
    }
    from[CLASS_END] = 0;
    for (int i = CLASS_END - 1; i >= 0; i--)
        from[i] = from[i + 1] + counts[i];
    uint32_t checks = cell_has_check(cell) ? from[0] : 0, large = counts[3] + counts[4];
    to[0] = (checks + counts[CLASS_END]) << 16 | checks;
    to[1] = from[0] << 16 | from[1];
    to[2] = from[1] << 16 | from[2];
    to[3] = from[2] << 16 | from[CLASS_5];
    to[4] = (from[2] - from[CLASS_5]) << 16 | large;
    to[5] = large << 16 | counts[4];
    to[6] = from[CLASS_5] << 16 | from[CLASS_11];
    to[7] = (counts[CLASS_5] + counts[CLASS_7]) << 16 | counts[CLASS_7];
    to[8] = from[CLASS_11] << 16 | from[CLASS_35];
    to[9] = (counts[CLASS_11] + counts[CLASS_11 + 1]) << 16 | counts[CLASS_11 + 1];
    to[10] = from[CLASS_35] << 16 | counts[CLASS_35 + 1];
}

/* ---- halving ---- */

/* A probability of a cell: which classes have a token with it, and which of them a 1. */
struct token_classes {
    uint32_t cell, all, ones;
};

DEVICE struct token_classes token_classes_of(uint32_t probability)
{
    struct token_classes of;
    uint32_t index = probability % CELL_PROBABILITIES;
    of.cell = probability / CELL_PROBABILITIES;
    uint32_t levels = cell_has_check(of.cell) ? 0x7FFu : 0;
    of.all = index == 0   ? levels
             : index == 1 ? 0x7FFu
             : index == 2 ? 0x7FEu
             : index == 3 ? 0x7FCu
             : index == 4 ? 0x01Cu
             : index == 5 ? 0x018u
             : index == 6 ? 0x7E0u
             : index == 7 ? 0x060u
             : index == 8 ? 0x780u
             : index == 9 ? 0x180u
                          : 0x600u;
    of.ones = index == 0   ? levels
              : index == 1 ? 0x7FEu
              : index == 2 ? 0x7FCu
              : index == 3 ? 0x7E0u
              : index == 4 ? 0x018u
              : index == 5 ? 0x010u
              : index == 6 ? 0x780u
              : index == 7 ? 0x040u
              : index == 8 ? 0x600u
              : index == 9 ? 0x100u
                           : 0x400u;
    if (index == 0)
        of.all |= 1u << CLASS_END;
    return of;
}

DEVICE uint32_t class_of_record(const struct record *of)
{
    if (of->level != 0)
        return class_of((uint32_t)(of->level < 0 ? -of->level : of->level));
    uint32_t code = of->code % CODE_NEGATIVE;
    return code == CODE_END ? CLASS_END : class_of(code);
}

/* Returns how many of the first *left tokens with the probability in a macroblock are 1, and
 * subtracts these tokens from *left. */
SIMT uint32_t ones_of_macroblock(const struct webp_encode_descriptor *image, uint32_t macroblock,
                                 const struct token_classes *probability, uint32_t *left)
{
    const uint16_t *records = image->records + (size_t)macroblock * WEBP_LEVELS;
    uint32_t count = record_count_of(image->token_counts[macroblock]), ones = 0;
    for (uint32_t first = 0; first<count && * left> 0; first += WARP_LANES) {
        uint32_t i = first + (uint32_t)lane_index();
        struct record of = read_record(image, macroblock, i < count ? records[i] : 0);
        uint32_t bit = 1u << class_of_record(&of);
        bool counts = i < count && of.cell == probability->cell && (probability->all & bit) != 0;
        uint32_t all = warp_ballot(counts), total = (uint32_t)count_bits(all);
        uint32_t below = (uint32_t)count_bits(all & ((1u << lane_index()) - 1));
        bool is_one = counts && (probability->ones & bit) != 0 && below < *left;
        ones += (uint32_t)count_bits(warp_ballot(is_one));
        *left -= total < *left ? total : *left;
    }
    return ones;
}

/* Returns how many of the first `left` tokens with the probability in a group are 1. */
SIMT uint32_t ones_of_group(const struct webp_encode_descriptor *image, uint32_t group,
                            uint32_t probability, uint32_t left)
{
    struct token_classes classes = token_classes_of(probability);
    uint32_t ones = 0;
    for (uint32_t i = group * WEBP_GROUP; left > 0; i++)
        ones += ones_of_macroblock(image, i, &classes, &left);
    return ones;
}

/* Adds the counts of a group to a full counter: a warp. */
SIMT uint32_t add_halved(const struct webp_encode_descriptor *image, uint32_t group,
                         uint32_t probability, uint32_t counter, uint32_t counts)
{
    uint32_t before = COUNT_FULL - (counter >> 16);
    uint32_t ones = ones_of_group(image, group, probability, before);
    uint32_t halved = ((counter & 0xFFFF) + ones + 1) / 2;
    uint32_t total = COUNT_FULL / 2 + (counts >> 16) - before;
    return total << 16 | (halved + (counts & 0xFFFF) - ones);
}

DEVICE bool is_filled(uint32_t counter, uint32_t counts)
{
    return (counter >> 16) + (counts >> 16) > COUNT_FULL;
}

/* ---- probabilities ---- */

/* Counters that become full, and the group of macroblocks with which they do. */
struct full_counters {
    uint32_t count;
    uint16_t of[WEBP_PROBABILITIES];
    uint32_t groups[WEBP_PROBABILITIES];
    uint32_t counters[WEBP_PROBABILITIES];
};

/* The cost of `ones` bits that are 1 and `zeros` that are 0. */
SIMT int bits_cost(int ones, int zeros, int probability)
{
    return ones * bit_costs[255 - probability] + zeros * bit_costs[probability];
}

/* Returns the probability of a counter: a new one only if it saves more than its own bits. */
SIMT uint8_t choose_probability(uint32_t index, uint32_t counter)
{
    int ones = (int)(counter & 0xFFFF), total = (int)(counter >> 16);
    int old = token_probabilities[index], update = update_probabilities[index];
    int best = ones > 0 ? 255 - ones * 255 / total : 255;
    int old_cost = bits_cost(ones, total - ones, old) + bits_cost(0, 1, update);
    int new_cost = bits_cost(ones, total - ones, best) + bits_cost(1, 0, update) + 8 * 256;
    return (uint8_t)(old_cost > new_cost ? best : old);
}

/* Groups whose counts a thread loads at a time. */
#define GROUPS_AHEAD 8

/* Adds the counts of a probability up, from the first group on, until the counter is full. Returns
 * the first group that is not added. */
SIMT uint32_t add_groups(const struct webp_encode_descriptor *image, uint32_t groups,
                         uint32_t probability, uint32_t *counter)
{
    for (uint32_t first = 0; first < groups; first += GROUPS_AHEAD) {
        uint32_t counts[GROUPS_AHEAD];
        UNROLL
        for (uint32_t i = 0; i < GROUPS_AHEAD; i++)
            counts[i] = first + i < groups ? image->groups[first + i].of[probability] : 0;
        UNROLL
        for (uint32_t i = 0; i < GROUPS_AHEAD; i++) {
            if (is_filled(*counter, counts[i]))
                return first + i;
            *counter += counts[i];
        }
    }
    return groups;
}

/* Counts all groups of the image, and sets its probabilities: a block of threads. */
SIMT void choose_probabilities(struct webp_encode_descriptor *image, uint32_t groups,
                               struct full_counters *full)
{
    if (thread_index() == 0)
        full->count = 0;
    groups = image->frame->uses_statistics ? groups : 0; /* all counters stay 0 */
    block_barrier();
    for (uint32_t i = (uint32_t)thread_index(); i < WEBP_PROBABILITIES;
         i += (uint32_t)block_threads()) {
        uint32_t counter = 0, group = add_groups(image, groups, i, &counter);
        if (group < groups) {
            uint32_t at = atomic_add(&full->count, 1);
            full->of[at] = (uint16_t)i;
            full->groups[at] = group;
            full->counters[at] = counter;
        } else {
            image->probabilities[i] = choose_probability(i, counter);
        }
    }
    block_barrier();
    uint32_t warps = (uint32_t)(block_threads() / WARP_LANES);
    for (uint32_t i = (uint32_t)(thread_index() / WARP_LANES); i < full->count; i += warps) {
        uint32_t index = full->of[i], counter = full->counters[i];
        for (uint32_t group = full->groups[i]; group < groups; group++) {
            uint32_t counts = image->groups[group].of[index];
            counter = is_filled(counter, counts) ? add_halved(image, group, index, counter, counts)
                                                 : counter + counts;
        }
        if (lane_index() == 0)
            image->probabilities[index] = choose_probability(index, counter);
    }
    block_barrier();
}
