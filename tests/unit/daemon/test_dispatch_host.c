/*
 * test_dispatch_host.c - simulates a host with cores and devices, and compares the dispatcher with
 * the best fixed split between them.
 *
 * Service times are those of tests/bench/FIGURES.md: a core decodes 0.1 GP/s. A device runs its
 * jobs side by side. Alone, a job takes its latency; together, they take at least the sum of their
 * work.
 */
#include <math.h>

#include "conf/clock.h"
#include "daemon/pipeline/dispatch.h"
#include "tests/fixtures/gpu/gpu_run.h"
#include "tests/fixtures/process.h"
#include "tests/fixtures/test.h"

#define JOBS     3000
#define JOBS_MAX 6000
#define CORES    DEVICES_MAX /* a place that is no device */
#define PLACES   (DEVICES_MAX + 1)
#define NEVER_NS 1e18
#define LOOP_NS  100e3 /* until the loop has a task that a worker has ended */
#define TICK_NS  1e8 /* the pipeline looks for places, also if nothing happens */

/* ---- the simulated host --------------------------------------------------------------------- */

struct card {
    double work_gp_s[DISPATCH_KINDS]; /* together */
    double slowdown;                  /* of one image alone; 1: H200 */
    double gib;                       /* memory for jobs */
    double stalls_ns, continues_ns;
};

struct host {
    unsigned workers, cards;
    struct card card[2];
    double core_gp_s[DISPATCH_KINDS];
    double progressive, png, other; /* parts of the jobs */
    bool small;                /* images of 256 x 256 */
    bool drawn;                /* PNGs of few bytes, of 12 megapixels */
    size_t jobs;               /* 0: JOBS */
    uint64_t heap_bytes;       /* for decoders on cores; 0: any number */
};

#define H200                                                                                       \
    {                                                                                              \
        .work_gp_s = {70, 23, 5.4}, .slowdown = 1, .gib = 35                                       \
    }
#define SIXTEEN_CORES .workers = 16, .core_gp_s = {0.10, 0.10, 0.14, 0.03}

struct load {
    enum dispatch_kind kind;
    uint64_t pixels, bytes;
    struct dispatch_charge charge;
    unsigned place;
    uint64_t heap_bytes;    /* if a core decodes it */
    double fetched_ns;
    double decode_ns, rest_ns;  /* of workers */
};

struct line {
    struct load *images[JOBS_MAX];
    size_t first, end;
};

enum task { TASK_READ, TASK_DECODE, TASK_WRITE, TASKS };

struct ended_task {
    struct load *load;
    enum task task;
    double at_ns; /* when the loop gets it */
};

struct worker {
    struct load *load; /* NULL: idle */
    enum task task;
    double ends_ns;
};

/* A fixed split: the parts of each kind per place. */
struct split {
    double part[DISPATCH_KINDS][PLACES];
};

/* The jobs that a card runs. */
struct running {
    struct load *images[JOBS_MAX];
    double left_ns[JOBS_MAX]; /* at at_ns, of its time alone on the card */
    double demand[JOBS_MAX];  /* the part of the card that it uses at full speed */
    size_t count, pngs;
    double share, at_ns; /* share_of_card; from at_ns on */
    double ends_ns;      /* when the next one ends */
};

struct simulation {
    const struct host *host;
    const struct split *split; /* NULL: the dispatcher decides */
    struct dispatch dispatch;
    double credit[DISPATCH_KINDS][PLACES];
    struct load images[JOBS_MAX];
    size_t fetched, in_flight, on_cards, done;
    struct line admission, tasks[TASKS], waiting[2];
    struct running running[2];
    uint64_t heap_bytes;
    struct worker workers[64];
    struct ended_task ended[3 * JOBS_MAX]; /* on the way to the loop: those of first_ended to */
    size_t first_ended, all_ended;         /* all_ended */
    double now_ns, longest_ns;
    size_t placed[DISPATCH_KINDS][PLACES];
};

static void push(struct line *line, struct load *load)
{
    line->images[line->end++] = load;
}

static struct load *pop(struct line *line)
{
    return line->first < line->end ? line->images[line->first++] : NULL;
}

static size_t jobs_of(const struct host *host)
{
    return host->jobs > 0 ? host->jobs : JOBS;
}

static bool is_drawn(const struct host *host, const struct load *load)
{
    return host->drawn && load->kind == DISPATCH_PNG;
}

static double work_ns(const struct host *host, unsigned card, const struct load *load)
{
    double times = is_drawn(host, load) ? 1.6 : 1;
    return times * (double)load->pixels / host->card[card].work_gp_s[load->kind];
}

static double alone_ns(const struct host *host, unsigned card, const struct load *load)
{
    double scans = load->kind == DISPATCH_PROGRESSIVE ? 78 * (double)load->bytes : 0;
    double pixel_ns = is_drawn(host, load) ? 27 : load->kind == DISPATCH_PNG ? 15 : 0.018;
    double alone = host->card[card].slowdown * (330e3 + pixel_ns * (double)load->pixels + scans);
    return fmax(alone, work_ns(host, card, load));
}

static bool is_stalled(const struct simulation *s, unsigned card)
{
    const struct card *c = &s->host->card[card];
    return s->now_ns >= c->stalls_ns && s->now_ns < c->continues_ns;
}

/* The part of the card that each job may use: all get the same, unless they need less. */
static double share_of_card(const struct simulation *s, unsigned card)
{
    const struct running *running = &s->running[card];
    double share = 1 / fmax(1, (double)running->count), before = -1;
    for (int rounds = 0; rounds < 2 && share != before; rounds++) {
        double used = 0, others = 0;
        before = share;
        for (size_t i = 0; i < running->count; i++) {
            double needs = running->demand[i];
            used += needs <= share ? needs : 0;
            others += needs <= share ? 0 : 1;
        }
        share = others > 0 ? (1 - used) / others : 1;
    }
    return is_stalled(s, card) ? 0 : share;
}

/* Moves the jobs of the card on to this time. Call it before they change. */
static void move_on(struct simulation *s, unsigned card)
{
    struct running *running = &s->running[card];
    double ns = s->now_ns - running->at_ns, share = running->share;
    for (size_t i = 0; i < running->count; i++) {
        double needs = running->demand[i];
        running->left_ns[i] -= ns * (needs > share ? share / needs : 1);
    }
    running->at_ns = s->now_ns;
}

/* Call it after they have changed. */
static void share_card(struct simulation *s, unsigned card)
{
    struct running *running = &s->running[card];
    double share = running->share = share_of_card(s, card), least = NEVER_NS;
    for (size_t i = 0; i < running->count; i++) {
        double needs = running->demand[i];
        double ns = running->left_ns[i] * (needs > share ? needs : share);
        least = ns < least ? ns : least;
    }
    running->ends_ns = share > 0 ? s->now_ns + least / share : NEVER_NS;
}

static uint64_t clock_of(const struct simulation *s)
{
    return NS_PER_S + (uint64_t)s->now_ns;
}

static void start_load(struct simulation *s, unsigned card, struct load *load)
{
    struct running *running = &s->running[card];
    size_t i = running->count++;
    running->images[i] = load;
    running->left_ns[i] = alone_ns(s->host, card, load);
    running->demand[i] = work_ns(s->host, card, load) / running->left_ns[i];
    running->pngs += load->kind == DISPATCH_PNG;
}

/* A card runs many progressive JPEGs at once, but only some PNGs. */
static void start_long(struct simulation *s, unsigned card)
{
    while (s->running[card].pngs < LONG_STREAMS) {
        struct load *load = pop(&s->waiting[card]);
        if (!load)
            return;
        start_load(s, card, load);
    }
}

static void choose(struct simulation *s, struct load *load)
{
    if (!s->split) {
        const struct dispatch_request request = {.kind = load->kind,
                                                 .pixels = load->pixels,
                                                 .file_bytes = load->bytes,
                                                 .device_bytes = 3 * load->pixels,
                                                 .heap_bytes = load->heap_bytes};
        dispatch_choose(&s->dispatch, &request, clock_of(s), &load->charge);
        load->place = load->charge.on_device ? load->charge.device : CORES;
    } else {
        double *credit = s->credit[load->kind], best = 0;
        for (unsigned p = 0; p < PLACES; p++) {
            credit[p] += s->split->part[load->kind][p];
            if (credit[p] > best) {
                best = credit[p];
                load->place = p;
            }
        }
        credit[load->place]--;
    }
    s->placed[load->kind][load->place]++;
}

/* `inflight` if it is auto, with the places that short jobs get. */
static size_t base(const struct simulation *s)
{
    return 2 * s->host->workers + 8 * s->host->cards + (s->host->small ? INFLIGHT_AHEAD_MAX : 0);
}

static void begin(struct simulation *s, struct load *load)
{
    if (load->place == CORES) {
        push(&s->tasks[TASK_DECODE], load);
        return;
    }
    dispatch_start(&s->dispatch, &load->charge, clock_of(s));
    s->on_cards++;
    assert_true(s->split || s->on_cards <= INFLIGHT_DEVICE_MAX * s->host->cards + base(s));
    move_on(s, load->place);
    if (load->kind == DISPATCH_PNG)
        push(&s->waiting[load->place], load);
    else
        start_load(s, load->place, load);
    start_long(s, load->place);
    share_card(s, load->place);
}

/* As admission.c: no job overtakes one that waits for memory. */
static void admit(struct simulation *s)
{
    uint64_t most = s->host->heap_bytes > 0 && !s->split ? s->host->heap_bytes : UINT64_MAX;
    for (struct line *line = &s->admission; line->first < line->end;) {
        struct load *load = line->images[line->first];
        uint64_t bytes = load->place == CORES ? load->heap_bytes : 0;
        if (s->heap_bytes + bytes > most)
            return;
        s->heap_bytes += bytes;
        begin(s, pop(line));
    }
}

static void end_task(struct simulation *s, struct worker *worker)
{
    if (worker->task == TASK_READ)
        choose(s, worker->load);
    s->ended[s->all_ended++] = (struct ended_task){worker->load, worker->task, s->now_ns + LOOP_NS};
    worker->load = NULL;
}

static void run_loop(struct simulation *s)
{
    const struct ended_task *ended = &s->ended[s->first_ended++];
    struct load *load = ended->load;
    if (ended->task == TASK_READ) {
        push(&s->admission, load);
        admit(s);
    } else if (ended->task == TASK_DECODE) {
        s->heap_bytes -= load->heap_bytes;
        dispatch_decoded(&s->dispatch, &load->charge);
        admit(s);
        push(&s->tasks[TASK_WRITE], load);
    } else {
        dispatch_end(&s->dispatch, &load->charge);
        s->in_flight--;
        s->done++;
        s->longest_ns = fmax(s->longest_ns, s->now_ns - load->fetched_ns);
    }
}

/* As pipeline.c: jobs on cards leave their places to others. */
static void fetch(struct simulation *s)
{
    size_t most = base(s), ahead_max = (size_t)INFLIGHT_DEVICE_MAX * s->host->cards;
    size_t ahead = s->split ? s->on_cards : dispatch_ahead(&s->dispatch, clock_of(s));
    most += ahead < ahead_max ? ahead : ahead_max;
    for (; s->fetched < jobs_of(s->host) && s->in_flight < most; s->in_flight++) {
        s->images[s->fetched].fetched_ns = s->now_ns;
        push(&s->tasks[TASK_READ], &s->images[s->fetched++]);
    }
}

static void start_tasks(struct simulation *s)
{
    for (unsigned w = 0; w < s->host->workers; w++) {
        struct worker *worker = &s->workers[w];
        for (int task = TASKS - 1; task >= 0 && !worker->load; task--) {
            worker->load = pop(&s->tasks[task]);
            worker->task = (enum task)task;
            if (!worker->load)
                continue;
            struct load *load = worker->load;
            worker->ends_ns = s->now_ns +
                              (task == TASK_DECODE ? load->decode_ns : load->rest_ns / 2);
        }
    }
}

static double next_change_ns(struct simulation *s)
{
    double next = (floor(s->now_ns / TICK_NS) + 1) * TICK_NS;
    if (s->first_ended < s->all_ended)
        next = fmin(next, s->ended[s->first_ended].at_ns);
    for (unsigned w = 0; w < s->host->workers; w++)
        if (s->workers[w].load)
            next = fmin(next, s->workers[w].ends_ns);
    for (unsigned c = 0; c < s->host->cards; c++) {
        const struct card *card = &s->host->card[c];
        next = fmin(next, s->running[c].ends_ns);
        if (s->now_ns < card->stalls_ns)
            next = fmin(next, card->stalls_ns);
        else if (s->now_ns < card->continues_ns)
            next = fmin(next, card->continues_ns);
    }
    return next;
}

static void end_on_card(struct simulation *s, unsigned card)
{
    struct running *running = &s->running[card];
    size_t left = 0;
    move_on(s, card);
    for (size_t i = 0; i < running->count; i++) {
        struct load *load = running->images[i];
        if (running->left_ns[i] > 1) {
            running->images[left] = load;
            running->left_ns[left] = running->left_ns[i];
            running->demand[left++] = running->demand[i];
            continue;
        }
        dispatch_return(&s->dispatch, (struct dispatch_charge *[]){&load->charge}, 1);
        running->pngs -= load->kind == DISPATCH_PNG;
        s->on_cards--;
        push(&s->tasks[TASK_WRITE], load);
    }
    running->count = left;
    start_long(s, card);
    share_card(s, card);
}

/* Whether something ends there, or the card stalls or continues. */
static bool card_changes(const struct simulation *s, unsigned card)
{
    const struct card *c = &s->host->card[card];
    return s->now_ns >= s->running[card].ends_ns || s->now_ns == c->stalls_ns ||
           s->now_ns == c->continues_ns;
}

static void fill(struct simulation *s)
{
    uint32_t state = 7;
    for (size_t i = 0; i < jobs_of(s->host); i++) {
        struct load *load = &s->images[i];
        double drawn = test_random(&state) / 8 % 1000 / 1000.0;
        load->pixels = s->host->small ? 256 * 256 : 2000000 + test_random(&state) / 8 % 8000000;
        double png = s->host->progressive + s->host->png, other = png + s->host->other;
        load->kind = drawn < s->host->progressive ? DISPATCH_PROGRESSIVE
                     : drawn < png                ? DISPATCH_PNG
                     : drawn < other              ? DISPATCH_OTHER
                                                  : DISPATCH_SEQUENTIAL;
        load->pixels = is_drawn(s->host, load) ? 12000000 : load->pixels;
        load->bytes = is_drawn(s->host, load) ? load->pixels / 8
                      : load->kind == DISPATCH_PNG
                          ? load->pixels * 3 / 2
                          : load->pixels / (load->kind == DISPATCH_PROGRESSIVE ? 4 : 6);
        load->heap_bytes = load->kind == DISPATCH_PROGRESSIVE ? 6 * load->pixels : 0;
        load->decode_ns = (double)load->pixels / s->host->core_gp_s[load->kind] /
                          (is_drawn(s->host, load) ? 4 : 1);
        load->rest_ns = 100e3 + 0.15 * (double)load->pixels;
    }
}

static struct simulation simulation;

/* Returns the time from the first fetch to the last end, in seconds. Stops after `most_s`, if it is
 * longer. */
static double simulate(const struct host *host, const struct split *split, double most_s)
{
    struct simulation *s = &simulation;
    size_t rooms[2] = {(size_t)(host->card[0].gib * GIB), (size_t)(host->card[1].gib * GIB)};
    memset(s, 0, sizeof *s);
    s->host = host;
    s->split = split;
    fill(s);
    dispatch_open(&s->dispatch, host->workers, host->heap_bytes > 0 ? host->heap_bytes : 64 * GIB,
                  host->cards, rooms);
    for (unsigned c = 0; c < host->cards; c++)
        share_card(s, c);
    while (s->done < jobs_of(host) && s->now_ns < most_s * 1e9) {
        fetch(s);
        start_tasks(s);
        double next = next_change_ns(s);
        assert_true(next < 1000e9); /* else a job waits forever */
        s->now_ns = next;
        for (unsigned c = 0; c < host->cards; c++)
            if (card_changes(s, c))
                end_on_card(s, c);
        for (unsigned w = 0; w < host->workers; w++)
            if (s->workers[w].load && s->workers[w].ends_ns <= next)
                end_task(s, &s->workers[w]);
        while (s->first_ended < s->all_ended && s->ended[s->first_ended].at_ns <= next)
            run_loop(s);
    }
    assert_int_equal(dispatch_ahead(&s->dispatch, clock_of(s)), 0);
    dispatch_close(&s->dispatch); /* asserts that all charges have ended */
    return s->now_ns / 1e9;
}

/* ---- the best fixed split ------------------------------------------------------------------- */

static const double parts[] = {0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1};

static bool has(const struct host *host, int kind)
{
    return kind == DISPATCH_PROGRESSIVE ? host->progressive > 0
           : kind == DISPATCH_PNG       ? host->png > 0
                                        : host->progressive + host->png + host->other < 1;
}

/* Searches one number at a time: the part of a kind on the cores, or the part of the rest on the
 * second card. Progressive files and PNGs begin on the cards, then on the cores. */
static double best_split(const struct host *host)
{
    double chosen[DISPATCH_OTHER][2] = {{0}}; /* kind; cores, second card */
    double best = NEVER_NS;
    int starts =
        host->cards > 1 || has(host, DISPATCH_PROGRESSIVE) || has(host, DISPATCH_PNG) ? 2 : 1;
    for (int start = 0; start < starts; start++) {
        chosen[DISPATCH_PROGRESSIVE][0] = chosen[DISPATCH_PNG][0] = start;
        for (int dial = 0; dial < 2 * DISPATCH_OTHER; dial++) {
            int kind = dial / 2, of_card = dial % 2;
            double kept = chosen[kind][of_card];
            if ((of_card && host->cards == 1) || !has(host, kind))
                continue;
            for (size_t i = 0; i < COUNT_OF(parts); i++) {
                struct split split = {.part[DISPATCH_OTHER][CORES] = 1};
                chosen[kind][of_card] = parts[i];
                for (int k = 0; k < DISPATCH_OTHER; k++) {
                    split.part[k][CORES] = chosen[k][0];
                    split.part[k][0] = (1 - chosen[k][0]) * (1 - chosen[k][1]);
                    split.part[k][1] = (1 - chosen[k][0]) * chosen[k][1];
                }
                double took = simulate(host, &split, best);
                if (took < best) {
                    best = took;
                    kept = parts[i];
                }
            }
            chosen[kind][of_card] = kept;
        }
    }
    return best;
}

/* Checks that the dispatcher takes at most 1 + `more` times as long as the best split. A slow build
 * does not search for the best split: with ThreadSanitizer, it would take minutes. */
static void check_against_best(const char *name, struct host host, double more)
{
    double best = patience(1) > 1 ? INFINITY : best_split(&host);
    double took = simulate(&host, NULL, INFINITY);
    print_message("# %s: %.3f s, best split %.3f s, ratio %.2f; longest job %.0f ms; on the cores "
                  "%zu sequential, %zu progressive, %zu PNG\n",
                  name, took, best, took / best, simulation.longest_ns / 1e6,
                  simulation.placed[DISPATCH_SEQUENTIAL][CORES],
                  simulation.placed[DISPATCH_PROGRESSIVE][CORES],
                  simulation.placed[DISPATCH_PNG][CORES]);
    if (took > best * (1 + more))
        fail_msg("%s: %.3f s; the best split takes %.3f s", name, took, best);
    assert_true(simulation.longest_ns < 5e9);
}

/* All files of the kinds that can go there at one place. */
static double at_one_place(const struct host *host, unsigned place)
{
    struct split split = {.part[DISPATCH_OTHER][CORES] = 1};
    for (int kind = 0; kind < DISPATCH_OTHER; kind++)
        split.part[kind][place] = 1;
    return simulate(host, &split, INFINITY);
}

/* Checks bursts of 1 to 2,000 jobs: they may take 1.5 times as long as at the better place, one
 * alone no longer, and the most jobs `many` times as long. */
static void check_bursts(const char *name, struct host host, double many)
{
    static const size_t counts[] = {1, 4, 16, 40, 64, 200, 600, 2000};
    print_message("# %s: jobs, all on the cores / on the card / chosen, ms:", name);
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        host.jobs = counts[i];
        double cores = at_one_place(&host, CORES), card = at_one_place(&host, 0);
        double took = simulate(&host, NULL, INFINITY), least = fmin(cores, card);
        print_message(" %zu %.0f/%.0f/%.0f", counts[i], cores * 1e3, card * 1e3, took * 1e3);
        double most = counts[i] == 1 ? 1.01 : counts[i] == 2000 ? many : 1.5;
        if (took > least * most)
            fail_msg("%s: %zu jobs took %.3f s, and %.3f s at the better place", name, counts[i],
                     took, least);
    }
    print_message("\n");
}

TEST(bursts)
{
    struct host host = {SIXTEEN_CORES, .cards = 1, .card = {H200}};
    check_bursts("sequential", host, 1.01);
    host.progressive = 1;
    check_bursts("progressive", host, 1.15);
    host = (struct host){SIXTEEN_CORES, .cards = 1, .card = {H200}, .png = 1};
    check_bursts("PNG", host, 0.85);
    host.drawn = true;
    check_bursts("drawn PNG", host, 1.01);
    host.png = 0.25; /* the others are sequential JPEGs */
    check_bursts("25% drawn PNG", host, 0.5);
    host.drawn = false;
    check_bursts("25% PNG", host, 0.9);
}

TEST(one_card)
{
    check_against_best("256 x 256", (struct host){SIXTEEN_CORES, .cards = 1, .card = {H200},
                                                  .small = true}, 0.15);
    check_against_best("sequential", (struct host){SIXTEEN_CORES, .cards = 1, .card = {H200}},
                       0.15);
    check_against_best("30% progressive",
                       (struct host){SIXTEEN_CORES, .cards = 1, .card = {H200}, .progressive = 0.3,
                                     .jobs = JOBS_MAX},
                       0.15);
    check_against_best("progressive", (struct host){SIXTEEN_CORES, .cards = 1, .card = {H200},
                       .progressive = 1}, 0.1);
    check_against_best("PNG", (struct host){SIXTEEN_CORES, .cards = 1, .card = {H200}, .png = 1},
                       0.15);
    check_against_best("50% PNG",
                       (struct host){SIXTEEN_CORES, .cards = 1, .card = {H200}, .png = 0.5}, 0.15);
    check_against_best(
        "30% progressive, 30% WebP",
        (struct host){SIXTEEN_CORES, .cards = 1, .card = {H200}, .progressive = 0.3, .other = 0.3},
        0.05);
    check_against_best("two cores",
                       (struct host){.workers = 2,
                                     .core_gp_s = {0.1, 0.1, 0.1, 0.03},
                                     .cards = 1,
                                     .card = {H200},
                                     .progressive = 0.3},
                       0.15);
}

/* A progressive file without subsampling needs 6 bytes per pixel on a core. The many cores get only
 * those that fit: if one waits for memory, all later jobs wait, too. */
TEST(memory_bounds_the_cores)
{
    struct host host = {.workers = 30,
                        .core_gp_s = {0.1, 0.1, 0.1, 0.03},
                        .cards = 1,
                        .card = {H200},
                        .progressive = 1,
                        .heap_bytes = 800000000};
    check_against_best("many cores, progressive", host, 0.1);
    host.progressive = 0.3;
    check_against_best("many cores, 30% progressive", host, 0.15);
    host.heap_bytes = 200000000;
    check_against_best("the same, little memory", host, 0.15);
}

/* The dispatcher knows nothing of these cards. It only gives them few files at a time. */
TEST(slow_cards)
{
    static const struct card small = {.work_gp_s = {1.5, 0.8, 0.4}, .slowdown = 4, .gib = 4};
    static const struct card tiny = {.work_gp_s = {0.3, 0.2, 0.1}, .slowdown = 10, .gib = 1};
    struct host host = {SIXTEEN_CORES, .cards = 1, .card = {small}};
    check_against_best("small card, sequential", host, 0.1);
    host.progressive = 0.3;
    check_against_best("small card, 30% progressive", host, 0.25);
    host.card[0] = tiny;
    check_against_best("tiny card, 30% progressive", host, 0.25);
}

/* The fast card has memory for 20 progressive files at once. They leave a part of it to others. */
TEST(a_card_with_little_memory)
{
    struct host host = {SIXTEEN_CORES, .cards = 1, .card = {H200}, .progressive = 0.3};
    host.card[0].gib = 0.5;
    double took = simulate(&host, NULL, INFINITY);
    print_message("# little memory, 30%% progressive: %.3f s\n", took);
    assert_true(took < 2.5);
    assert_true(simulation.placed[DISPATCH_SEQUENTIAL][CORES] < JOBS * 0.02);
    assert_in_range(simulation.placed[DISPATCH_PROGRESSIVE][0], JOBS * 0.1, JOBS * 0.3);
}

TEST(slow_cores)
{
    struct host host = {.workers = 16,
                        .core_gp_s = {0.03, 0.03, 0.045, 0.01},
                        .cards = 1,
                        .card = {{.work_gp_s = {1.5, 0.8, 0.4}, .slowdown = 4, .gib = 4}}};
    check_against_best("slow cores, sequential", host, 0.15);
    host.progressive = 0.3;
    check_against_best("slow cores, 30% progressive", host, 0.25);
}

TEST(two_cards)
{
    static const struct card quarter = {.work_gp_s = {17, 6, 1.4}, .slowdown = 4, .gib = 16};
    struct host host = {SIXTEEN_CORES, .cards = 2, .card = {H200, H200}};
    check_against_best("two equal cards", host, 0.1);
    assert_in_range(simulation.placed[DISPATCH_SEQUENTIAL][1], JOBS * 0.4, JOBS * 0.6);
    host.card[1] = quarter;
    check_against_best("two cards, one a quarter as fast", host, 0.1);
    assert_in_range(simulation.placed[DISPATCH_SEQUENTIAL][1], JOBS * 0.1, JOBS * 0.35);
    host.progressive = 0.3;
    host.jobs = JOBS_MAX; /* one of the quarter card takes 0.8 s */
    check_against_best("the same, 30% progressive", host, 0.2);
}

/* A card that stops keeps its jobs. The others end. */
TEST(a_card_that_stalls)
{
    struct host host = {SIXTEEN_CORES, .cards = 1, .card = {H200}};
    host.card[0].stalls_ns = 1e8;
    host.card[0].continues_ns = 1.1e9;
    simulate(&host, NULL, INFINITY);
    /* 250 jobs of 60 ms are what 16 cores do meanwhile. */
    assert_in_range(simulation.placed[DISPATCH_SEQUENTIAL][CORES], 200, 1000);
    host.cards = 2;
    host.card[1] = (struct card)H200;
    assert_true(simulate(&host, NULL, INFINITY) < 1.3);
    assert_in_range(simulation.placed[DISPATCH_SEQUENTIAL][1], JOBS * 0.5, JOBS);
}

/* The device does nothing at first, because it gets memory. It must not look slow for long. */
TEST(a_slow_start_is_made_up_for)
{
    struct host host = {SIXTEEN_CORES, .cards = 1, .card = {H200}, .progressive = 1};
    double took = simulate(&host, NULL, INFINITY);
    host.card[0].continues_ns = 1e9;
    double later = simulate(&host, NULL, INFINITY);
    print_message("# progressive: %.3f s; %.3f s if the card is late by 1 s\n", took, later);
    assert_true(later < took + 1.3);
}

TEST_MAIN()
