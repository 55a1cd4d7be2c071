/*
 * statistics.h - counts tokens per probability, and chooses the probabilities, as libwebp does.
 *
 * libwebp counts the tokens of each probability, and those of them that are 1, in two halves of a
 * word: a counter. When the first half is full, it halves both. So the result depends on how many
 * of the tokens before each halving are 1, and the kernel must find the token at which it happens.
 */
#pragma once

#include "gpu/webp/records.h"
#include "gpu/webp/tables.h"

#define COUNT_FULL 0xFFFEu
#define COUNT_HALF (COUNT_FULL / 2)

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

/* Records of a macroblock that a lane has loaded, from number `first` on. */
#define RECORDS_AHEAD 4
struct record_lanes {
    uint32_t macroblock, first, count; /* count: of the macroblock */
    uint32_t bits[RECORDS_AHEAD];
};

SIMT void load_records(struct record_lanes *to, const struct webp_encode_descriptor *image)
{
    const uint16_t *records = image->records + (size_t)to->macroblock * WEBP_LEVELS;
    uint32_t own = to->first + (uint32_t)lane_index();
    UNROLL
    for (uint32_t i = 0; i < RECORDS_AHEAD; i++)
        to->bits[i] = own + i * WARP_LANES < to->count ? records[own + i * WARP_LANES] : 0;
}

/* Returns how many of the first *left tokens with the probability are 1, and subtracts these tokens
 * from *left. */
SIMT uint32_t ones_of_records(const struct record_lanes *from,
                              const struct webp_encode_descriptor *image,
                              const struct token_classes *probability, uint32_t *left)
{
    uint32_t ones = 0, own = from->first + (uint32_t)lane_index();
    UNROLL
    for (uint32_t i = 0; i < RECORDS_AHEAD; i++) {
        struct record of = read_record(image, from->macroblock, from->bits[i]);
        uint32_t bit = 1u << class_of_record(&of);
        bool counts = own + i * WARP_LANES < from->count && of.cell == probability->cell &&
                      (probability->all & bit) != 0;
        uint32_t all = warp_ballot(counts), total = (uint32_t)count_bits(all);
        uint32_t below = (uint32_t)count_bits(all & ((1u << lane_index()) - 1));
        bool is_one = counts && (probability->ones & bit) != 0 && below < *left;
        ones += (uint32_t)count_bits(warp_ballot(is_one));
        *left -= total < *left ? total : *left;
    }
    return ones;
}

/* Sets the macroblock of which records are loaded next: number `index` of the group. counts: of
 * the records of two macroblocks per lane */
SIMT void next_macroblock(struct record_lanes *to, const struct webp_encode_descriptor *image,
                          uint32_t group, uint32_t index, const uint32_t counts[2])
{
    uint32_t own = index < WARP_LANES ? counts[0] : counts[1];
    to->macroblock = group * WEBP_GROUP + index;
    to->first = 0;
    to->count = index < WEBP_GROUP ? record_count_of(warp_read(own, (int)(index % WARP_LANES))) : 0;
    load_records(to, image);
}

/* Returns how many of the first `left` tokens with the probability in a group are 1. */
SIMT uint32_t ones_of_group(const struct webp_encode_descriptor *image, uint32_t group,
                            uint32_t probability, uint32_t left)
{
    struct token_classes classes = token_classes_of(probability);
    struct record_lanes ahead, here;
    uint32_t end = image->columns * image->rows, ones = 0, counts[2];
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t own = group * WEBP_GROUP + i * WARP_LANES + (uint32_t)lane_index();
        counts[i] = own < end ? image->token_counts[own] : 0;
    }
    next_macroblock(&ahead, image, group, 0, counts);
    for (uint32_t i = 0; i < WEBP_GROUP && left > 0; i++) {
        here = ahead;
        next_macroblock(&ahead, image, group, i + 1, counts);
        ones += ones_of_records(&here, image, &classes, &left);
        for (here.first += RECORDS_AHEAD * WARP_LANES; here.first < here.count && left > 0;
             here.first += RECORDS_AHEAD * WARP_LANES) {
            load_records(&here, image);
            ones += ones_of_records(&here, image, &classes, &left);
        }
    }
    return ones;
}

/* How often a counter is halved: before the token that follows when it is full. Then it has
 * COUNT_HALF of them. */
DEVICE uint32_t halvings_of(uint32_t total)
{
    return total > COUNT_FULL ? (total - COUNT_FULL - 1) / COUNT_HALF + 1 : 0;
}

/* Groups whose counts a thread loads at a time. */
#define GROUPS_AHEAD 8

/* Loads the counts of some groups; 0 for those from `groups` on. */
SIMT void load_counts(const struct webp_encode_descriptor *image, uint32_t first, uint32_t groups,
                      uint32_t probability, uint32_t counts[GROUPS_AHEAD])
{
    UNROLL
    for (uint32_t i = 0; i < GROUPS_AHEAD; i++)
        counts[i] = first + i < groups ? image->groups[first + i].of[probability] : 0;
}

/* Lists the halvings of a counter. Their `ones` do not yet have the tokens of the halving's group:
 * ones_of_group counts these. */
SIMT void list_halvings(const struct webp_encode_descriptor *image, uint32_t groups,
                        uint32_t probability, struct webp_halving *to)
{
    uint32_t total = 0, ones = 0, full = COUNT_FULL, counts[GROUPS_AHEAD];
    for (uint32_t first = 0; first < groups; first += GROUPS_AHEAD) {
        load_counts(image, first, groups, probability, counts);
        UNROLL
        for (uint32_t i = 0; i < GROUPS_AHEAD; i++) {
            if (total + (counts[i] >> 16) > full) {
                to->probability = probability;
                to->group = first + i;
                to->left = full - total;
                to->ones = ones;
                to++;
                full += COUNT_HALF;
            }
            total += counts[i] >> 16;
            ones += counts[i] & 0xFFFF;
        }
    }
}

/* Returns the lower half of a counter after all halvings. ones: tokens that are 1 */
SIMT uint32_t halved_ones(const struct webp_halving *halvings, uint32_t count, uint32_t ones)
{
    uint32_t counter = 0, before = 0;
    for (uint32_t i = 0; i < count; i++) {
        counter = (counter + halvings[i].ones - before + 1) / 2;
        before = halvings[i].ones;
    }
    return counter + ones - before;
}

/* ---- probabilities ---- */

/* The tokens with each probability, those that are 1, and the first of the counter's halvings. */
struct counter_sums {
    uint32_t halvings;
    uint32_t totals[WEBP_PROBABILITIES], ones[WEBP_PROBABILITIES], first[WEBP_PROBABILITIES];
};

/* The cost of `ones` bits that are 1 and `zeros` that are 0. */
SIMT int bits_cost(int ones, int zeros, int probability)
{
    return ones * bit_costs[255 - probability] + zeros * bit_costs[probability];
}

/* Returns the probability of a counter: a new one only if it saves more than its own bits. */
SIMT uint8_t choose_probability(uint32_t index, int ones, int total)
{
    int old = token_probabilities[index], update = update_probabilities[index];
    int best = ones > 0 ? 255 - ones * 255 / total : 255;
    int old_cost = bits_cost(ones, total - ones, old) + bits_cost(0, 1, update);
    int new_cost = bits_cost(ones, total - ones, best) + bits_cost(1, 0, update) + 8 * 256;
    return (uint8_t)(old_cost > new_cost ? best : old);
}

/* Adds up the tokens of a probability, and those that are 1. */
SIMT void add_groups(const struct webp_encode_descriptor *image, uint32_t groups,
                     uint32_t probability, struct counter_sums *sums)
{
    uint32_t total = 0, ones = 0, counts[GROUPS_AHEAD];
    for (uint32_t first = 0; first < groups; first += GROUPS_AHEAD) {
        load_counts(image, first, groups, probability, counts);
        UNROLL
        for (uint32_t i = 0; i < GROUPS_AHEAD; i++) {
            total += counts[i] >> 16;
            ones += counts[i] & 0xFFFF;
        }
    }
    sums->totals[probability] = total;
    sums->ones[probability] = ones;
}

/* Counts the tokens of all groups of the image: a block of threads. */
SIMT void add_counters(const struct webp_encode_descriptor *image, uint32_t groups,
                       struct counter_sums *sums)
{
    uint32_t thread = (uint32_t)thread_index(), threads = (uint32_t)block_threads();
    if (thread == 0)
        sums->halvings = 0;
    block_barrier();
    for (uint32_t i = thread; i < WEBP_PROBABILITIES; i += threads) {
        add_groups(image, groups, i, sums);
        uint32_t halvings = halvings_of(sums->totals[i]);
        sums->first[i] = 0;
        if (halvings > 0) {
            sums->first[i] = atomic_add(&sums->halvings, halvings);
            list_halvings(image, groups, i, image->halvings + sums->first[i]);
        }
    }
    block_barrier();
    for (uint32_t i = thread / WARP_LANES; i < sums->halvings; i += threads / WARP_LANES) {
        struct webp_halving *of = image->halvings + i;
        uint32_t ones = ones_of_group(image, of->group, of->probability, of->left);
        warp_barrier();
        if (lane_index() == 0)
            of->ones += ones;
    }
    block_barrier();
}

/* Sets the probabilities of an image: a block of threads. */
SIMT void choose_probabilities(struct webp_encode_descriptor *image, uint32_t groups,
                               struct counter_sums *sums)
{
    uint32_t thread = (uint32_t)thread_index(), threads = (uint32_t)block_threads();
    /* Without statistics all counters stay 0. */
    add_counters(image, image->frame->uses_statistics ? groups : 0, sums);
    for (uint32_t i = thread; i < WEBP_PROBABILITIES; i += threads) {
        uint32_t total = sums->totals[i], halvings = halvings_of(total);
        uint32_t ones = halved_ones(image->halvings + sums->first[i], halvings, sums->ones[i]);
        total -= halvings * COUNT_HALF;
        image->probabilities[i] = choose_probability(i, (int)ones, (int)total);
    }
    block_barrier();
}
