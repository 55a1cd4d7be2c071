/* Tests of pool.c: budget, reuse, fragmentation, and that steady use does not call the backend. */
#include <pthread.h>

#include "codecs/image.h"
#include "conf/limits.h"
#include "gpu/engine/pool.h"
#include "tests/fixtures/test.h"

/* A backend that counts its calls and can be limited. */
struct counter {
    unsigned allocs, frees;
    size_t live;
    size_t room; /* refuses beyond this many live bytes */
};

static void *counter_alloc(void *context, size_t bytes)
{
    struct counter *counter = context;
    if (counter->live + bytes > counter->room)
        return NULL;
    counter->allocs++;
    counter->live += bytes;
    return aligned_alloc(BUFFER_ALIGN, bytes);
}

static void counter_free(void *context, void *memory, size_t bytes)
{
    struct counter *counter = context;
    counter->frees++;
    counter->live -= bytes;
    free(memory);
}

static struct counter counter;
static const struct pool_backend backend = {counter_alloc, counter_free, &counter};

static struct pool *open_pool(size_t budget, size_t segment)
{
    counter = (struct counter){.room = SIZE_MAX / 2};
    struct pool *pool = pool_create("test", budget, segment, &backend);
    assert_non_null(pool);
    return pool;
}

TEST(test_blocks_are_aligned_and_apart)
{
    struct pool *pool = open_pool(MIB, 64 * KIB);
    struct pool_block blocks[16];
    for (size_t i = 0; i < 16; i++) {
        assert_true(pool_take(pool, 1 + i * 700, &blocks[i], NULL));
        assert_int_equal((uintptr_t)blocks[i].memory % BUFFER_ALIGN, 0);
        memset(blocks[i].memory, (int)i + 1, 1 + i * 700);
    }
    for (size_t i = 0; i < 16; i++)
        for (size_t k = 0; k < 1 + i * 700; k++)
            assert_int_equal(((uint8_t *)blocks[i].memory)[k], i + 1);
    for (size_t i = 0; i < 16; i++)
        pool_give(pool, &blocks[i]);
    assert_int_equal(pool_usage(pool).used, 0);
    pool_destroy(pool);
    assert_int_equal(counter.live, 0);
}

TEST(test_steady_use_stays_off_the_backend)
{
    struct pool *pool = open_pool(MIB, 256 * KIB);
    struct pool_block blocks[4];
    unsigned after_first = 0;
    for (unsigned round = 0; round < 1000; round++) {
        for (size_t i = 0; i < 4; i++)
            assert_true(pool_take(pool, (i + 1) * 50000 + round % 7, &blocks[i], NULL));
        for (size_t i = 0; i < 4; i++)
            pool_give(pool, &blocks[(i + round) % 4]);
        if (round == 0)
            after_first = counter.allocs;
    }
    assert_int_equal(counter.allocs, after_first);
    assert_int_equal(counter.frees, 0);
    pool_destroy(pool);
}

TEST(test_budget_is_never_passed)
{
    struct pool *pool = open_pool(100 * KIB, 64 * KIB);
    struct pool_block first, second, third;
    bool exhausted;
    assert_true(pool_fits(pool, 100 * KIB));
    assert_false(pool_fits(pool, 100 * KIB + 1));
    assert_false(pool_fits(pool, SIZE_MAX));
    assert_true(pool_take(pool, 60 * KIB, &first, NULL));
    assert_true(pool_take(pool, 36 * KIB, &second, NULL)); /* the rest of the budget */
    assert_true(pool_usage(pool).held <= 100 * KIB);
    assert_false(pool_take(pool, 8 * KIB, &third, &exhausted));
    assert_false(exhausted);
    assert_null(third.memory);
    pool_give(pool, &first);
    assert_true(pool_take(pool, 8 * KIB, &third, &exhausted));
    pool_give(pool, &second);
    pool_give(pool, &third);
    assert_false(pool_take(pool, 101 * KIB, &third, &exhausted));
    assert_true(exhausted);
    pool_destroy(pool);
}

TEST(test_idle_segments_make_room_for_a_larger_one)
{
    struct pool *pool = open_pool(300 * KIB, 64 * KIB);
    struct pool_block blocks[4], large;
    for (size_t i = 0; i < 4; i++)
        assert_true(pool_take(pool, 64 * KIB, &blocks[i], NULL));
    for (size_t i = 1; i < 4; i++)
        pool_give(pool, &blocks[i]);
    assert_false(pool_take(pool, 300 * KIB, &large, NULL)); /* one segment is in use */
    assert_int_equal(counter.frees, 0);                     /* so no segment was freed in vain */
    assert_true(pool_take(pool, 200 * KIB, &large, NULL));
    assert_true(pool_usage(pool).held <= 300 * KIB);
    pool_give(pool, &large);
    pool_give(pool, &blocks[0]);
    assert_true(pool_take(pool, 300 * KIB, &large, NULL));
    assert_int_equal(pool_usage(pool).held, 300 * KIB);
    pool_give(pool, &large);
    pool_destroy(pool);
}

TEST(test_a_gap_is_filled_at_the_lowest_address)
{
    struct pool *pool = open_pool(64 * KIB, 64 * KIB);
    struct pool_block blocks[8], again;
    for (size_t i = 0; i < 8; i++)
        assert_true(pool_take(pool, 8 * KIB, &blocks[i], NULL));
    void *second = blocks[1].memory, *fourth = blocks[3].memory;
    pool_give(pool, &blocks[3]);
    pool_give(pool, &blocks[4]);
    pool_give(pool, &blocks[1]);
    assert_true(pool_take(pool, 16 * KIB, &again, NULL)); /* 3 and 4 are one gap again */
    assert_ptr_equal(again.memory, fourth);
    assert_true(pool_take(pool, 8 * KIB, &blocks[1], NULL));
    assert_ptr_equal(blocks[1].memory, second);
    pool_give(pool, &again);
    for (size_t i = 0; i < 8; i++)
        pool_give(pool, &blocks[i]); /* giving a cleared block is ignored */
    assert_int_equal(pool_usage(pool).used, 0);
    pool_destroy(pool);
}

/* ---- many blocks ----------------------------------------------------------------------------- */

#define UNIT   (8 * MIB) /* too large for shelves */
#define UNITS  4096
#define BLOCKS 600

/* The first of `count` free units in a row; UNITS: there are none. */
static size_t first_fit(const bool *used, size_t count)
{
    size_t run = 0;
    for (size_t i = 0; i < UNITS; i++) {
        run = used[i] ? 0 : run + 1;
        if (run == count)
            return i + 1 - count;
    }
    return UNITS;
}

/* A backend whose memory only has addresses. */
static void *no_memory(void *context, size_t bytes)
{
    return (void *)((uintptr_t)1 << 40);
}

static void no_free(void *context, void *memory, size_t bytes)
{
}

/* Compares each address with that of a search of all units. */
TEST(test_many_blocks_are_at_the_lowest_addresses)
{
    static bool used[UNITS];
    static struct pool_block blocks[BLOCKS];
    const struct pool_backend addresses = {no_memory, no_free, NULL};
    struct pool *pool = pool_create("addresses", UNITS * UNIT, UNITS * UNIT, &addresses);
    struct pool_block whole;
    uint32_t random = 1;
    assert_true(pool_take(pool, UNITS * UNIT, &whole, NULL));
    uint8_t *start = whole.memory;
    pool_give(pool, &whole);
    for (int i = 0; i < 20000; i++) {
        struct pool_block *block = &blocks[(random = random * 1664525u + 1013904223u) >> 8 & 511];
        size_t units = 1 + (random >> 20) % 16, at = first_fit(used, units);
        if (block->memory) {
            size_t from = (size_t)((uint8_t *)block->memory - start) / UNIT;
            memset(used + from, 0, block->bytes / UNIT);
            pool_give(pool, block);
        } else if (at < UNITS) {
            assert_true(pool_has_room(pool, units * UNIT));
            assert_true(pool_take(pool, units * UNIT - 1, block, NULL));
            assert_ptr_equal(block->memory, start + at * UNIT);
            memset(used + at, 1, units);
        } else {
            assert_false(pool_has_room(pool, units * UNIT));
            assert_false(pool_take(pool, units * UNIT, block, NULL));
        }
    }
    for (size_t i = 0; i < BLOCKS; i++)
        pool_give(pool, &blocks[i]);
    assert_true(pool_take(pool, UNITS * UNIT, &whole, NULL)); /* one gap again */
    pool_give(pool, &whole);
    pool_destroy(pool);
}

/* ---- shelves --------------------------------------------------------------------------------- */

TEST(test_a_block_goes_to_the_next_request_of_its_class)
{
    struct pool *pool = open_pool(4 * MIB, 4 * MIB);
    struct pool_block low, high, again;
    assert_true(pool_take(pool, 8 * KIB, &low, NULL));
    assert_true(pool_take(pool, 37 * KIB, &high, NULL));
    assert_int_equal(pool_usage(pool).used, 48 * KIB); /* 40 KiB is the class of 37 */
    void *memory = high.memory;
    pool_give(pool, &low);
    pool_give(pool, &high);
    assert_int_equal(pool_usage(pool).used, 0);
    assert_true(pool_take(pool, 40 * KIB, &again, NULL));
    assert_ptr_equal(again.memory, memory);
    assert_int_equal(pool_usage(pool).used, 40 * KIB);
    pool_give(pool, &again);
    assert_true(pool_take(pool, 36 * KIB, &again, NULL)); /* the next class */
    assert_ptr_not_equal(again.memory, memory);
    assert_int_equal(pool_usage(pool).used, 36 * KIB);
    pool_give(pool, &again);
    pool_destroy(pool);
    assert_int_equal(counter.live, 0);
}

/* No block is larger than its request by more than an eighth, and small ones by less than
 * BUFFER_ALIGN. */
TEST(test_classes_waste_an_eighth_at_most)
{
    struct pool *pool = open_pool(256 * MIB, 8 * MIB);
    struct pool_block block;
    for (size_t bytes = 1; bytes < 6 * MIB; bytes += 1 + bytes / 50) {
        size_t aligned = buffer_align(bytes), spare = aligned > 2 * KIB ? aligned / 8 : 0;
        assert_true(pool_take(pool, bytes, &block, NULL));
        assert_in_range(block.bytes, aligned, aligned + spare);
        if (bytes > 4 * MIB)
            assert_int_equal(block.bytes, aligned);
        pool_give(pool, &block);
    }
    pool_destroy(pool);
}

TEST(test_shelves_hold_an_eighth_of_the_budget)
{
    struct pool *pool = open_pool(4 * MIB, 4 * MIB);
    struct pool_block blocks[9], again;
    for (size_t i = 0; i < 9; i++)
        assert_true(pool_take(pool, 64 * KIB, &blocks[i], NULL));
    void *first = blocks[0].memory, *last = blocks[8].memory;
    for (size_t i = 0; i < 8; i++)
        pool_give(pool, &blocks[8 - i]); /* the shelf has 512 KiB now */
    pool_give(pool, &blocks[0]);
    assert_true(pool_take(pool, 3 * MIB, &again, NULL)); /* beside the shelf */
    pool_give(pool, &again);
    for (size_t i = 0; i < 8; i++) {
        assert_true(pool_take(pool, 64 * KIB, &blocks[i], NULL));
        assert_ptr_not_equal(blocks[i].memory, first);
    }
    assert_ptr_equal(blocks[7].memory, last); /* the first that was given back */
    assert_true(pool_take(pool, 64 * KIB, &blocks[8], NULL));
    assert_ptr_equal(blocks[8].memory, first);
    for (size_t i = 0; i < 9; i++)
        pool_give(pool, &blocks[i]);
    pool_destroy(pool);
}

static void *take_and_give(void *argument)
{
    struct pool_block block;
    assert_true(pool_take(argument, 40 * KIB, &block, NULL));
    pool_give(argument, &block);
    return NULL;
}

TEST(test_memory_on_shelves_is_free)
{
    struct pool *pool = open_pool(4 * MIB, 4 * MIB);
    struct pool_block blocks[6], whole;
    pthread_t thread;
    bool exhausted;
    for (size_t i = 0; i < 6; i++)
        assert_true(pool_take(pool, 40 * KIB, &blocks[i], NULL));
    for (size_t i = 0; i < 5; i++)
        pool_give(pool, &blocks[i]);
    assert_false(pool_take(pool, 4 * MIB, &whole, &exhausted));
    assert_false(exhausted); /* a block is in use */
    pool_give(pool, &blocks[5]);
    assert_int_equal(pthread_create(&thread, NULL, take_and_give, pool), 0);
    pthread_join(thread, NULL);
    assert_true(pool_has_room(pool, 4 * MIB));
    assert_true(pool_take(pool, 4 * MIB, &whole, NULL));
    assert_int_equal(counter.allocs, 1);
    pool_give(pool, &whole);
    assert_false(pool_take(pool, 5 * MIB, &whole, &exhausted));
    assert_true(exhausted);
    pool_destroy(pool);
}

TEST(test_a_backend_without_memory)
{
    struct pool *pool = open_pool(MIB, 256 * KIB);
    struct pool_block first, second;
    bool exhausted;
    counter.room = 100 * KIB;
    assert_true(pool_take(pool, 80 * KIB, &first, NULL)); /* a smaller segment than usual */
    assert_false(pool_take(pool, 80 * KIB, &second, &exhausted));
    assert_false(exhausted); /* the first one will come back */
    pool_give(pool, &first);
    assert_true(pool_take(pool, 90 * KIB, &second, NULL)); /* the idle segment was freed */
    pool_give(pool, &second);
    counter.room = 0;
    assert_false(pool_take(pool, 500 * KIB, &second, &exhausted));
    assert_true(exhausted);
    pool_destroy(pool);
}

TEST(test_nothing_and_pages)
{
    struct pool_block block;
    struct pool *pool = pool_create("pages", 8 * MIB, 4 * MIB, &pool_backend_pages);
    assert_true(pool_take(pool, 0, &block, NULL));
    assert_null(block.memory);
    pool_give(pool, &block);
    assert_true(pool_take(pool, 3 * MIB, &block, NULL));
    memset(block.memory, 7, 3 * MIB);
    pool_give(pool, &block);
    assert_string_equal(pool_name(pool), "pages");
    pool_destroy(pool);
    pool_destroy(NULL);
}

#define THREADS 6

static void *churn(void *argument)
{
    struct pool *pool = argument;
    uint32_t state = (uint32_t)(uintptr_t)&state | 1;
    for (int i = 0; i < 3000; i++) {
        struct pool_block block;
        state = state * 1664525u + 1013904223u;
        size_t bytes = 1 + (state >> 8) % (48 * KIB);
        if (!pool_take(pool, bytes, &block, NULL))
            continue;
        uint8_t *memory = block.memory, mark = (uint8_t)(state >> 3);
        memory[0] = memory[bytes - 1] = mark;
        if (memory[0] != mark || memory[bytes - 1] != mark)
            return argument;
        pool_give(pool, &block);
    }
    return NULL;
}

TEST(test_threads)
{
    struct pool *pool = open_pool(200 * KIB, 64 * KIB);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, pool), 0);
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    assert_int_equal(pool_usage(pool).used, 0);
    pool_destroy(pool);
    assert_int_equal(counter.live, 0);
}

TEST_MAIN()
