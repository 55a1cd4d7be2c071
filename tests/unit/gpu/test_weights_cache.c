/* test_weights_cache.c - the tables of weights that are kept from one job to the next. */
#include "gpu/ops/weights_cache.h"

#include <pthread.h>
#include <stdlib.h>

#include "conf/limits.h"
#include "tests/fixtures/test.h"

/* So many tables do not fit together. */
#define TABLES  400
#define BYTES   (64 * KIB)
#define THREADS 4

static struct weights_key key_of(uint32_t number)
{
    return (struct weights_key){
        .end = 100 + number, .outputs = 10, .inputs = 100 + number, .taps = 8};
}

static void fill(uint32_t number, uint8_t *table)
{
    memset(table, (int)number * 7 % 251, BYTES);
}

/* Returns whether the cache has the table. Fails if it has another one for the key. */
static bool is_kept(uint32_t number)
{
    static _Thread_local uint8_t got[BYTES], expected[BYTES];
    struct weights_key key = key_of(number);
    if (!weights_cache_get(&key, got, BYTES))
        return false;
    fill(number, expected);
    assert_memory_equal(got, expected, BYTES);
    return true;
}

static void keep(uint32_t number)
{
    static _Thread_local uint8_t table[BYTES];
    struct weights_key key = key_of(number);
    fill(number, table);
    weights_cache_put(&key, table, BYTES);
}

TEST(tables_not_used_for_longest_leave)
{
    for (uint32_t i = 0; i < TABLES; i++) {
        keep(i);
        assert_true(is_kept(i));
        assert_true(is_kept(0)); /* so that it stays */
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < TABLES; i++)
        kept += is_kept(i);
    assert_int_equal(kept, WEIGHTS_CACHE_BYTES / BYTES);
    assert_true(is_kept(TABLES - 1));
    assert_false(is_kept(1));
}

TEST(each_part_of_the_key_counts)
{
    struct weights_key key = key_of(TABLES - 1), others[10];
    uint8_t *table = malloc(BYTES);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        others[i] = key;
    others[0].start = 0.125;
    others[1].end -= 0.125;
    others[2].outputs++;
    others[3].origin++;
    others[4].inputs++;
    others[5].taps += 8;
    others[6].filter++;
    others[7].at++;
    others[8].total++;
    others[9].cut++;
    keep(TABLES - 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(weights_cache_get(&others[i], table, BYTES));
    free(table);
}

TEST(large_tables_are_not_kept)
{
    struct weights_key key = {.outputs = 1};
    size_t bytes = WEIGHTS_CACHE_BYTES / 2;
    uint8_t *table = calloc(1, bytes);
    weights_cache_put(&key, table, bytes);
    assert_false(weights_cache_get(&key, table, bytes));
    free(table);
}

static void *use(void *argument)
{
    uint32_t first = *(uint32_t *)argument;
    for (uint32_t i = 0; i < TABLES; i++)
        if (!is_kept(first + i % 100))
            keep(first + i % 100);
    return NULL;
}

TEST(threads_get_whole_tables)
{
    pthread_t threads[THREADS];
    uint32_t first[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        first[i] = i * 20;
        assert_int_equal(pthread_create(&threads[i], NULL, use, &first[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

TEST_MAIN()
