/*
 * on_engines.h - the world of a group of tests, once on the CPU engine and once on CUDA.
 *
 * The file that includes it says how a world is opened; groups of cmocka take open_cpu or open_cuda
 * and close_world, and each test begins with need_engine.
 */
#ifndef GPUIMGD_TESTS_E2E_ON_ENGINES_H
#define GPUIMGD_TESTS_E2E_ON_ENGINES_H

#include "tests/fixtures/check.h"

static struct world world;
static struct world *const w = &world;
static const char *engine; /* "cpu" or "cuda" */

/* Starts a Redis, and a daemon with this option, "--engine=" and the engine's name. */
static void start_world(const char *option);

static int open_engine(const char *name)
{
    char option[32];
    engine = name;
    snprintf(option, sizeof option, "--engine=%s", engine);
    start_world(option);
    return world_ready(&w->daemons[0]) ? 0 : -1;
}

static int open_cpu(void **state)
{
    (void)state;
    return open_engine("cpu");
}

/* Opens nothing where there is no device: the tests then skip themselves. */
static int open_cuda(void **state)
{
    (void)state;
    if (world_has_cuda())
        return open_engine("cuda");
    print_error("skipped: no CUDA device here, or a daemon built without CUDA\n");
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close(w);
    return 0;
}

static void need_engine(void)
{
    if (!w->folder[0])
        skip();
    assert_true(process_running(&w->daemons[0]));
    assert_true(world_settle(w));
}

#endif
