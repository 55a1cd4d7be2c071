/*
 * ctl_world.h - what tests of gpuimgctl share: a world with some pictures, a daemon to be started,
 * and a look into the queue.
 */
#ifndef GPUIMGD_TESTS_E2E_CTL_WORLD_H
#define GPUIMGD_TESTS_E2E_CTL_WORLD_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/text.h"
#include "tests/fixtures/ctl.h"

static struct world world;
static struct world *const w = &world;
static struct process *daemon_0;

static inline void put_small(const char *name, uint32_t seed)
{
    world_put_picture(w, name, picture_png(&(struct picture_png){
                                   .width = 8, .height = 8, .colour_type = 2, .seed = seed}));
}

static inline int open_world(void **state)
{
    (void)state;
    world_open(w, redis_server_start(NULL));
    world_put_photo(w, "cat.jpg", 160, 120);
    put_small("one.png", 1);
    put_small("album/a.png", 2);
    put_small("album/deep/b.PNG", 3);
    world_put(w, "album/notes.txt", "none", 4);
    world_put(w, "broken.jpg", "hello\n", 6);
    return 0;
}

static inline int close_world(void **state)
{
    (void)state;
    world_close(w);
    return 0;
}

/* Files' modes count for it, as for any user. */
static inline void start(void)
{
    daemon_0 = world_start_with(w, 0, &(struct process_options){.unprivileged = true}, NULL);
    check_ready(daemon_0);
}

static inline void stop(void)
{
    process_signal(daemon_0, SIGTERM);
    assert_int_equal(process_wait(daemon_0, patience(30)), 0);
    process_clear(daemon_0);
}

/* Without a daemon each test has the queue to itself. */
static inline int forget(void **state)
{
    (void)state;
    process_clear(&w->daemons[0]); /* of a test that failed */
    freeReplyObject(redis_command(w->client, "FLUSHALL"));
    return 0;
}

/* The jobs in the queue, oldest first, as one text. */
static inline char *queued(void)
{
    redisReply *reply = redis_command(w->client, "LRANGE %s:jobs 0 -1", w->ns);
    char *text = calloc(1, 1);
    for (size_t i = reply->elements; i-- > 0;) {
        text = realloc(text, strlen(text) + reply->element[i]->len + 2);
        strcat(strcat(text, reply->element[i]->str), "\n");
    }
    freeReplyObject(reply);
    freeReplyObject(redis_command(w->client, "DEL %s:jobs", w->ns));
    return text;
}

/* In `evil` each of these is a terminal's command, the end of a line, or a character that turns the
 * rest of a line around; the last byte is no UTF-8. */
#define EVIL_BYTES "\033]0;title\007\n\302\2332J\342\200\256gpj.\342\201\246\330\234\377"

/* Runs a line, to this exit status or any (-1): of what it prints nothing is a control character
 * but the ends of its lines, and all is UTF-8. */
static inline void check_plain(int status, const char *line)
{
    struct ctl_run run = ctl_run(w, "%s", line);
    const char *texts[] = {run.out, run.err};
    if (status >= 0 && run.status != status)
        fail_msg("%s: exit status %d, not %d\n%s%s", line, run.status, status, run.out, run.err);
    for (size_t i = 0; i < 2; i++) {
        if (strstr(texts[i], "\342\200\256") || strstr(texts[i], "\342\201\246") ||
            strstr(texts[i], "\330\234"))
            fail_msg("%s: a mark of direction in\n%s", line, texts[i]);
        for (const unsigned char *at = (const unsigned char *)texts[i]; *at;) {
            size_t count = text_utf8_sequence(at, strlen((const char *)at));
            if (count == 0 || (*at != '\n' && text_is_control(at)))
                fail_msg("%s: byte %#x in\n%s", line, *at, texts[i]);
            at += count;
        }
    }
    ctl_clear(&run);
}

#endif
