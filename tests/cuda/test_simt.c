/* Tests of the host implementation of the subset of CUDA C that the kernels of the codecs use. */
#include "gpu/simt/simt.h"
#include "tests/cuda/simt.h"
#include "tests/fixtures/test.h"

#define THREADS 224
#define BLOCKS 5

struct sums {
    uint32_t *to;
    int active; /* threads that do not return early */
};

/* Every thread writes the sum of 3 * index over all lower threads, plus the total and a count. */
KERNEL(sum_below, THREADS, 1, struct sums)
{
    SHARED uint32_t sums[WARP_LANES];
    uint32_t *values = (uint32_t *)DYNAMIC_SHARED(), total;
    int thread = thread_index();
    values[thread] = (uint32_t)thread * 3;
    uint32_t below = block_scan(values[thread], &total, sums);
    uint32_t odd = warp_ballot(thread & 1);
    int thirds = block_count(thread % 3 == 0);
    uint32_t mirrored = warp_read_xor((uint32_t)lane_index(), WARP_LANES - 1);
    uint32_t quarters = warp_match((uint32_t)lane_index() % 4);
    if (thread >= args.active)
        return;
    block_barrier();
    if (odd == 0xAAAAAAAA && mirrored == (uint32_t)(WARP_LANES - 1 - lane_index()) &&
        quarters == 0x11111111u << lane_index() % 4)
        args.to[block_index() * THREADS + thread] = below + total + (uint32_t)thirds;
}

TEST(threads_of_a_block_exchange_values)
{
    static uint32_t to[BLOCKS * THREADS];
    struct sums args = {to, THREADS};
    assert_int_equal(LAUNCH(sum_below, THREADS, BLOCKS, THREADS * sizeof *to, NULL, args), 0);
    uint32_t total = 3 * THREADS * (THREADS - 1) / 2, thirds = (THREADS + 2) / 3;
    for (uint32_t i = 0; i < BLOCKS * THREADS; i++) {
        uint32_t thread = i % THREADS;
        assert_int_equal(to[i], 3 * thread * (thread - 1) / 2 + total + thirds);
    }
}

TEST(threads_that_have_returned_open_barriers)
{
    static uint32_t to[BLOCKS * THREADS];
    struct sums args = {to, 40};
    assert_int_equal(LAUNCH(sum_below, THREADS, dim3(1, BLOCKS), THREADS * sizeof *to, NULL, args),
                     0);
    assert_true(to[39] != 0 && to[40] == 0);
}

/* Each warp waits for the one with the next higher index. */
KERNEL(wait_in_turn, THREADS, 1, struct sums)
{
    SHARED uint32_t turn;
    uint32_t warp = (uint32_t)(thread_index() / WARP_LANES), warps = THREADS / WARP_LANES;
    if (thread_index() == 0)
        turn = warps;
    block_barrier();
    if (lane_index() == 3)
        while (poll_word(&turn) != warp + 1)
            relax();
    warp_barrier();
    args.to[thread_index()] = turn;
    warp_barrier();
    if (lane_index() == 9)
        publish_word(&turn, warp);
}

/* Each lane notes its turn in its warp. */
KERNEL(note_turns, THREADS, 1, struct sums)
{
    SHARED uint32_t turns[THREADS / WARP_LANES];
    if (lane_index() == 0)
        turns[thread_index() / WARP_LANES] = 0;
    block_barrier();
    args.to[thread_index()] = turns[thread_index() / WARP_LANES]++;
}

TEST(warps_wait_for_each_other)
{
    static uint32_t to[THREADS];
    struct sums args = {to, THREADS};
    for (uint32_t seed = 0; seed < 20; seed++) {
        simt_shuffle(seed);
        memset(to, 0, sizeof to);
        assert_int_equal(LAUNCH(wait_in_turn, THREADS, 1, 0, NULL, args), 0);
        for (uint32_t i = 0; i < THREADS; i++)
            assert_int_equal(to[i], i / WARP_LANES + 1);
    }
    simt_shuffle(0);
}

TEST(lanes_run_in_a_random_order)
{
    static uint32_t to[3][THREADS];
    uint32_t others = 0;
    for (int run = 0; run < 3; run++) {
        struct sums args = {to[run], THREADS};
        simt_shuffle(run < 2 ? 0 : 7);
        assert_int_equal(LAUNCH(note_turns, THREADS, 1, 0, NULL, args), 0);
    }
    simt_shuffle(0);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(to[1][i], to[0][i]);
        others += to[2][i] != to[0][i];
    }
    assert_true(others > THREADS / 2);
}

TEST_MAIN()
