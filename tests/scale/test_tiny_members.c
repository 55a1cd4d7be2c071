/*
 * test_tiny_members.c - archives of very many tiny images: the memory of a daemon does not grow
 * with the number of members, and single jobs still run beside the archives.
 *
 * GPUIMGD_SCALE=full: 64 archives of 100,000 members.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fixtures/shard.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

/* Of the daemon, in MB. */
#define RSS_MAX 250

static void put_shard(size_t count)
{
    struct shard_member *members = calloc(count, sizeof *members);
    char(*names)[32] = calloc(count, sizeof *names);
    struct picture_file photo = make_jpeg(.width = 16, .height = 16);
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "%07zu.jpg", i);
        members[i] = (struct shard_member){names[i], photo.bytes, photo.length};
    }
    struct picture_file shard = shard_make(members, count);
    world_put_picture(w, "tiny.tar", shard);
    world_put_picture(w, "tiny.jpg", photo);
    free(names);
    free(members);
}

static double rss_mb(const struct process *daemon)
{
    char *text = text_file_read(text_of("/proc/%d/status", (int)daemon->pid));
    const char *line = strstr(text, "VmHWM:");
    double kb = line ? strtod(line + 6, NULL) : 1e9;
    free(text);
    return kb / 1024;
}

TEST(test_memory_is_bounded)
{
    unsigned jobs = scale_full() ? 64 : 3, members = scale_full() ? 100000 : 4000;
    put_shard(members);
    struct process *daemon =
        start_ready(0, "--host_bytes=256M", "--pinned_bytes=64M", "--workers=2", "--inflight=8");
    for (unsigned i = 0; i < jobs; i++)
        world_push(w,
                   "{'inputs':{'archive':'tiny.tar'},'outputs':[{'output':'t%u.tar',"
                   "'ops':['invert']},{'ops':['stats']}]}",
                   i % 4);
    world_push(w, "{'input':'tiny.jpg','output':'single.png'}");
    for (unsigned i = 0; i < jobs + 1; i++) {
        cJSON *result = world_result(w, 120);
        assert_non_null(result);
        if (json_at(result, "images"))
            check_has(result, "{'images.count':%u,'images.done':%u}", members, members);
        check_done(result);
    }
    double rss = rss_mb(daemon);
    print_message("# %u archives of %u members: %.0f MB\n", jobs, members, rss);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(rss < RSS_MAX);
#endif
    check_stop(daemon);
}

WORLD_MAIN(OWN_WORLDS, .slow = false)
