/* Tests of the shards of a namespace: ids, addresses, namespaces, and refused options. */
#include "queue/redis/shard.h"

#include "tests/fixtures/test.h"

static struct options options_with(const char *ns, const char *redis, const char *shards)
{
    struct options options;
    struct error error = {0};
    assert_true(options_init(&options, &error));
    assert_true(options_set(&options, "namespace", ns, &error));
    assert_true(options_set(&options, "redis", redis, &error));
    assert_true(options_set(&options, "shards", shards, &error));
    return options;
}

/* The crc32 values are zlib's. */
TEST(ids_follow_the_crc32_of_zlib)
{
    static const struct {
        const char *id;
        uint32_t crc;
    } cases[] = {
        {"", 0},
        {"a", 0xE8B7BE43},
        {"123456789", 0xCBF43926},
        {"photo-17", 0xA9EB27A0},
        {"Fotografie-\xC3\xA4\xC3\xB6\xC3\xBC", 0x775C9F1E},
        {"The quick brown fox jumps over the lazy dog", 0x414FA339},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (uint32_t shards = 1; shards <= SHARDS_MAX; shards++)
            assert_int_equal(shard_of_id(cases[i].id, strlen(cases[i].id), shards),
                             cases[i].crc % shards);
}

TEST(each_shard_gets_its_share_of_ids)
{
    uint32_t counts[8] = {0};
    for (int i = 0; i < 8000; i++) {
        char id[32];
        int length = snprintf(id, sizeof id, "job-%d", i);
        counts[shard_of_id(id, (size_t)length, 8)]++;
    }
    for (int i = 0; i < 8; i++)
        assert_in_range(counts[i], 800, 1200);
}

TEST(one_shard_has_the_options_unchanged)
{
    static const char *const addresses[] = {"127.0.0.1:6379", "a:1, b:2,c", "unix:/tmp/a b",
                                            "sentinel://m@a:1,b:2"};
    for (size_t i = 0; i < COUNT_OF(addresses); i++) {
        struct options all = options_with("{x}y", addresses[i], "1"), shard;
        struct error error = {0};
        assert_true(shard_check(&all, &error));
        assert_true(shard_options(&shard, &all, 0, &error));
        assert_string_equal(shard.redis, addresses[i]);
        assert_string_equal(shard.namespace, "{x}y");
        assert_ptr_not_equal(shard.results, all.results);
        assert_string_equal(shard.results, all.results);
        options_clear(&shard);
        options_clear(&all);
    }
}

TEST(shards_have_their_namespace_and_address)
{
    static const char *const addresses[] = {"a:1,b:2, c:3", "unix:/tmp/x", "sentinel://m@s:1,t:2"};
    for (int braces = 0; braces < 2; braces++) {
        struct options all = options_with(
            braces ? "{photos}" : "photos", "  a:1,b:2, c:3   unix:/tmp/x sentinel://m@s:1,t:2 ",
            "5");
        struct error error = {0};
        assert_true(shard_check(&all, &error));
        for (uint32_t i = 0; i < 5; i++) {
            struct options shard;
            char ns[32];
            snprintf(ns, sizeof ns, "{photos:%u}", i);
            assert_true(shard_options(&shard, &all, i, &error));
            assert_string_equal(shard.namespace, ns);
            assert_string_equal(shard.redis, addresses[i % 3]);
            assert_int_equal(shard.shards, 5);
            options_clear(&shard);
        }
        options_clear(&all);
    }
}

TEST(bad_options_are_refused)
{
    static const struct {
        const char *ns, *redis, *shards, *says;
    } cases[] = {
        {"n", "a:1 b:2", "1",
         "option redis has 2 addresses, but option shards is 1; each address "
         "needs a shard: set shards to 2 or more"},
        {"n", "a b c d", "3", "option redis has 4 addresses, but option shards is 3"},
        {"n", "a:1 b:0", "2", "\"b:0\" must end in a port from 1 to 65535"},
        {"n", "a:1 http://b", "2", "is another URL"},
        {"n", "a:1 unix:b", "2", "must name an absolute path"},
        {"n", "  ", "2", "it must name a server"},
        {"a{b}", "a:1", "2", "option namespace is \"a{b}\"; with 2 shards it must have no braces"},
        {"{a}{b}", "a:1", "2", "must have no braces, or one pair around all of it"},
        {"{}", "a:1", "2", "must have no braces"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct options all = options_with(cases[i].ns, cases[i].redis, cases[i].shards);
        struct error error = {0};
        assert_false(shard_check(&all, &error));
        assert_non_null(strstr(error.text, cases[i].says));
        options_clear(&all);
    }
}

TEST_MAIN()
