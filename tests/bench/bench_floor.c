/*
 * bench_floor - runs the codec floor (floor.h) as a program, so that peers.py can compare with it.
 *
 *     bench_floor --threads N --ops JSON --folder F NAME...
 *
 * Prints "ready" after it has read the headers. Then each line of standard input is a number of
 * repeats of all files; the answer is a line "WALL_S CPU_S". The program ends with its input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tests/bench/floor.h"
#include "tests/fixtures/arguments.h"

static struct floor all;

static bool take_all(char **names, size_t count, const cJSON *ops)
{
    for (size_t i = 0; i < count; i++) {
        struct floor_photo *photo = &all.photos[i];
        const char *suffix = strrchr(names[i], '.');
        struct error error = {0};
        photo->name = strdup(names[i]);
        photo->png = suffix && !strcasecmp(suffix, ".png");
        all.count++;
        if (!floor_take(&all, photo, ops, &error)) {
            fprintf(stderr, "bench_floor: %s: %s\n", names[i], error.text);
            return false;
        }
    }
    return true;
}

static bool take_turns(void)
{
    unsigned repeats;
    printf("ready\n");
    while (scanf("%u", &repeats) == 1) {
        struct floor_turn turn = floor_run(&all, (unsigned)all.count * repeats);
        if (all.failed) {
            fprintf(stderr, "bench_floor: %u images failed\n", all.failed);
            return false;
        }
        printf("%.6f %.6f\n", turn.wall_s, turn.cpu_s);
    }
    return true;
}

int main(int argc, char **argv)
{
    const char *ops_text = "", *folder = ".";
    unsigned threads = 0;
    const struct argument options[] = {{"threads", .number = &threads}, {"ops", .text = &ops_text},
                                       {"folder", .text = &folder}, {.name = NULL}};
    int first = arguments_read(argc, argv, options);
    size_t count = (size_t)(argc - first);
    cJSON *ops = cJSON_Parse(ops_text);
    all.photos = calloc(count + 1, sizeof *all.photos);
    if (first < 0 || threads < 1 || !ops || count == 0 || !all.photos) {
        fprintf(stderr, "usage: bench_floor --threads N --ops JSON [--folder F] NAME...\n");
        return 64;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    floor_open(&all, folder, threads);
    bool good = take_all(argv + first, count, ops) && take_turns();
    floor_close(&all);
    free(all.photos);
    cJSON_Delete(ops);
    return good ? 0 : 1;
}
