/* top.c - gpuimgctl top: throughput, stages and daemons, drawn anew each second. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "queue/ctl/ctl.h"
#include "queue/ctl/overview.h"
#include "queue/ctl/rates.h"
#include "queue/ctl/show.h"

#define ENTER_SCREEN "\033[?1049h\033[?25l"
#define LEAVE_SCREEN "\033[?25h\033[?1049l"
#define HOME         "\033[H"
#define CLEAR_LINE   "\033[K"
#define CLEAR_BELOW  "\033[J"

const struct ctl_option ctl_top_options[] = {
    {"interval", 'i', "SECONDS", "between drawings (default 1)"},
    {"count", 'n', "COUNT", "end after so many drawings"},
    {0}};

/* The stages of a job, as PROTOCOL.md has them in what daemons publish. */
static const char *const stages[] = {"read", "admit", "decode", "gpu", "encode", "ack"};
#define MEAN_COLUMNS 9
#define STAGES (sizeof stages / sizeof *stages)

struct top {
    struct ctl *ctl;
    struct rates_memory *rates;
    bool screen;            /* a terminal, which is drawn over */
    bool keys;              /* it has a keyboard */
    struct termios before;  /* its mode, for the end */
    uv_poll_t input;
    bool quit, closed;      /* closed: input has been */
};

/* ---- the terminal -------------------------------------------------------------------------- */

static void on_key(uv_poll_t *input, int status, int events)
{
    struct top *top = input->data;
    char keys[16];
    (void)events;
    ssize_t got = status == 0 ? read(STDIN_FILENO, keys, sizeof keys) : 0;
    for (ssize_t i = 0; i < got; i++)
        top->quit |= keys[i] == 'q' || keys[i] == 'Q';
    if (got <= 0) /* the terminal has gone */
        top->quit = true;
    if (top->quit)
        client_wake(top->ctl->client);
}

static void open_screen(struct top *top)
{
    top->screen = !top->ctl->json && isatty(STDOUT_FILENO);
    top->keys = top->screen && isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &top->before) == 0;
    if (top->keys) {
        struct termios mode = top->before;
        mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &mode);
        uv_poll_init(client_loop(top->ctl->client), &top->input, STDIN_FILENO);
        top->input.data = top;
        uv_poll_start(&top->input, UV_READABLE, on_key);
    }
    if (top->screen)
        fputs(ENTER_SCREEN, stdout);
}

static void on_closed(uv_handle_t *input)
{
    struct top *top = input->data;
    top->closed = true;
}

static void close_screen(struct top *top)
{
    if (top->screen)
        fputs(LEAVE_SCREEN, stdout);
    fflush(stdout);
    if (top->keys) {
        uv_close((uv_handle_t *)&top->input, on_closed);
        while (!top->closed)
            uv_run(client_loop(top->ctl->client), UV_RUN_ONCE);
        tcsetattr(STDIN_FILENO, TCSANOW, &top->before);
    }
}

static void end_line(const struct top *top)
{
    puts(top->screen ? CLEAR_LINE : "");
}

/* ---- the picture --------------------------------------------------------------------------- */

static void draw_queue(const struct top *top, const struct overview *overview)
{
    const struct { const char *name; long long count; } rows[] = {
        {"waiting", overview->waiting}, {"running", overview->leased},
        {"delayed", overview->delayed}, {"alone", overview->alone},
        {"dead", overview->dead},       {"results", overview->results}};
    char text[SHOW_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("%s%s %s", i ? "   " : "", rows[i].name, show_count((double)rows[i].count, text));
    if (overview->paused)
        printf("   PAUSED");
    end_line(top);
}

static void draw_sum(const struct top *top, const struct overview *overview)
{
    struct rates sum = rates_sum(top->rates);
    double done = 0, failed = 0, retried = 0;
    char a[SHOW_BYTES], b[SHOW_BYTES], c[SHOW_BYTES], d[SHOW_BYTES];
    for (size_t i = 0; i < overview->daemon_count; i++) {
        const cJSON *stats = overview->daemons[i].stats;
        done += show_number(stats, "done");
        failed += show_number(stats, "failed") + show_number(stats, "dead");
        retried += show_number(stats, "retried");
    }
    if (sum.known)
        printf("%s images/s   %s MP/s   in %s/s   out %s/s", show_rate(sum.images_s, a),
               show_rate(sum.pixels_s / 1e6, b), show_bytes(sum.bytes_in_s, c),
               show_bytes(sum.bytes_out_s, d));
    else
        printf("images/s: not known yet");
    end_line(top);
    printf("since their start: done %s   failed %s   retried %s", show_count(done, a),
           show_count(failed, b), show_count(retried, c));
    end_line(top);
}

static void draw_stages(const cJSON *stats)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(stats, "stages");
    for (size_t i = 0; i < STAGES; i++)
        printf(" %6.0f",
               show_number(cJSON_GetObjectItemCaseSensitive(list, stages[i]), "now"));
}

static void draw_means(const struct rates *rates)
{
    for (size_t i = 0; i < RATES_STAGES; i++) {
        if (rates->known && rates->stage_ms[i] >= 0)
            printf(" %*.1f", MEAN_COLUMNS, rates->stage_ms[i]);
        else
            printf(" %*s", MEAN_COLUMNS, "-");
    }
}

static void draw_daemon(const struct top *top, const struct overview_daemon *daemon,
                        const struct rates *rates)
{
    const cJSON *stats = daemon->stats;
    char rate[SHOW_BYTES];
    printf("%-22.22s %-8.8s %-9.9s", daemon->name, stats ? show_text(stats, "engine") : "",
           stats ? show_text(stats, "state") : "silent");
    if (stats) {
        double streams = show_number(stats, "streams");
        if (streams > 0)
            printf(" %3.0f/%-4.0f", show_number(stats, "streams_busy"), streams);
        else
            printf("    -    ");
        draw_stages(stats);
        printf(" %8s", rates->known ? show_rate(rates->images_s, rate) : "-");
        draw_means(rates);
    }
    end_line(top);
}

static void draw_daemons(const struct top *top, const struct overview *overview)
{
    if (overview->daemon_count == 0) {
        printf("no gpuimgd is running here");
        end_line(top);
        return;
    }
    printf("%-22s %-8s %-9s %8s", "daemon", "engine", "state", "streams");
    for (size_t i = 0; i < STAGES; i++)
        printf(" %6s", stages[i]);
    printf(" %8s", "images/s");
    for (size_t i = 0; i < RATES_STAGES; i++)
        printf(" %*s ms", MEAN_COLUMNS - 3, rates_stages[i]);
    end_line(top);
    for (size_t i = 0; i < overview->daemon_count; i++)
        draw_daemon(top, &overview->daemons[i], rates_of(top->rates, i));
}

static void draw(const struct top *top, const struct overview *overview)
{
    if (top->screen)
        fputs(HOME, stdout);
    printf("gpuimgctl top: %s, namespace %s%s", client_server(top->ctl->client),
           top->ctl->options.namespace, top->keys ? "   (q ends)" : "");
    end_line(top);
    end_line(top);
    draw_queue(top, overview);
    draw_sum(top, overview);
    end_line(top);
    draw_daemons(top, overview);
    fputs(top->screen ? CLEAR_BELOW : "\n", stdout);
    fflush(stdout);
}

static int print_json(const struct top *top, const struct overview *overview)
{
    struct rates sum = rates_sum(top->rates);
    cJSON *json = overview_json(overview);
    if (json && sum.known) {
        cJSON_AddNumberToObject(json, "images_s", sum.images_s);
        cJSON_AddNumberToObject(json, "mp_s", sum.pixels_s / 1e6);
        cJSON_AddNumberToObject(json, "in_mb_s", sum.bytes_in_s / 1e6);
        cJSON_AddNumberToObject(json, "out_mb_s", sum.bytes_out_s / 1e6);
    }
    int status = ctl_print_json(json);
    fflush(stdout);
    return status;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int turn(struct top *top)
{
    struct overview overview;
    int status = CTL_OK;
    if (!overview_read(&overview, top->ctl->client, top->ctl->options.namespace, true))
        return CTL_UNAVAILABLE;
    if (!rates_update(top->rates, &overview))
        status = CTL_FAULT;
    else if (top->ctl->json)
        status = print_json(top, &overview);
    else
        draw(top, &overview);
    overview_clear(&overview);
    return status;
}

/* Redis may come back: then the screen does. */
static void draw_trouble(const struct top *top)
{
    if (!top->screen)
        return;
    printf(HOME "%s; trying again", client_why(top->ctl->client));
    end_line(top);
    fflush(stdout);
}

int ctl_top(struct ctl *ctl, int count, char **operands)
{
    struct top top = {.ctl = ctl};
    double interval_s = 1, turns = 1e15;
    if (count > 0)
        return ctl_usage(ctl, "top takes no operand, here is \"%s\"", operands[0]);
    if (!ctl_number(ctl, "interval", 0.05, 3600, &interval_s) ||
        !ctl_number(ctl, "count", 1, 1e15, &turns))
        return CTL_USAGE;
    int status = ctl_connect(ctl);
    if (status)
        return status;
    top.rates = rates_create();
    client_catch_interrupt();
    open_screen(&top);
    while (!top.quit && !client_interrupted() && !ferror(stdout)) {
        status = turn(&top);
        if (status == CTL_UNAVAILABLE && top.screen)
            draw_trouble(&top);
        else if (status)
            break;
        if (--turns < 1)
            break;
        client_pause(ctl->client, interval_s);
    }
    close_screen(&top);
    rates_destroy(top.rates);
    if (status == CTL_UNAVAILABLE && !client_interrupted() && !top.quit)
        return ctl_no_answer(ctl);
    return status == CTL_FAULT ? CTL_FAULT : CTL_OK;
}
