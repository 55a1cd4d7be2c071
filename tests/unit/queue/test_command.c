/* Tests that commands are formatted like hiredis formats them, byte for byte. */
#include <hiredis/hiredis.h>

#include "queue/redis/command.h"
#include "tests/fixtures/test.h"

static void check(size_t count, const char **words, const size_t *lengths)
{
    char *wanted = NULL;
    long long bytes = redisFormatCommandArgv(&wanted, (int)count, words, lengths);
    assert_true(bytes > 0);
    struct command made = {0};
    command_begin(&made, count);
    for (size_t i = 0; i < count; i++)
        command_add(&made, words[i], lengths[i]);
    assert_false(made.failed);
    assert_int_equal(made.length, bytes);
    assert_memory_equal(made.text, wanted, (size_t)bytes);
    free(made.text);
    redisFreeCommand(wanted);
}

/* Lengths around each change in the number of digits, and length 0. */
TEST(test_lengths)
{
    static const size_t around[] = {0, 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
    char *text = malloc(10000001);
    for (size_t i = 0; i < 10000001; i++)
        text[i] = (char)(i * 2654435761u >> 24);
    for (size_t i = 0; i < sizeof around / sizeof *around; i++)
        for (size_t more = 0; more < 3; more++) {
            size_t length = around[i] + more > 0 ? around[i] + more - 1 : 0;
            check(1, (const char *[]){text}, &length);
        }
    free(text);
}

TEST(test_counts)
{
    enum { most = 1001 };
    static const char bytes[] = "a\0b\r\n$3\r\n*1\r\n\xff\x80";
    const char *words[most];
    size_t lengths[most];
    for (size_t i = 0; i < most; i++) {
        words[i] = bytes + i % 3;
        lengths[i] = i * 7 % (sizeof bytes - 3);
    }
    for (size_t count = 1; count <= most; count += count < 120 ? 1 : 97)
        check(count, words, lengths);
}

TEST_MAIN()
