/* top.c - gpuimgctl top: throughput, stages and daemons, redrawn every second. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/screen/overviews.h"
#include "queue/ctl/screen/rates.h"
#include "queue/ctl/screen/running_sets.h"
#include "queue/ctl/show.h"

#define ENTER_SCREEN "\033[?1049h\033[?25l"
#define LEAVE_SCREEN "\033[?25h\033[?1049l"
#define HOME         "\033[H"
#define CLEAR_LINE   "\033[K"
#define CLEAR_BELOW  "\033[J"

const struct ctl_option ctl_top_options[] = {
    {"interval", 'i', "SECONDS", "time between updates (default 1)"},
    {"count", 'n', "COUNT", "quit after COUNT updates"},
    {0}};

/* The stages of a job in the published statistics (PROTOCOL.md). */
static const char *const stages[] = {"ask", "read", "admit", "decode", "gpu", "encode", "upload",
                                     "ack"};
/* Lines of the screen above the list of daemons. */
#define LINES_ABOVE 13
#define SHARDS_PER_LINE 4
/* The most jobs with many images on the screen. */
#define SETS_SHOWN_MAX 6
/* Width of a daemon's line without its name and without the column "up", which only screens with at
 * least WIDE_COLUMNS show. */
#define OTHER_COLUMNS 60
#define WIDE_COLUMNS  100
#define STAGES (sizeof stages / sizeof *stages)

struct top {
    struct ctl *ctl;
    bool screen;            /* standard output is a terminal and is redrawn */
    int keys;               /* descriptor of the keyboard; -1: none */
    struct termios before;  /* the terminal's mode, restored at the end */
    uv_poll_t input;
    bool wide;              /* the screen has at least WIDE_COLUMNS */
    int name_columns;       /* width of the daemon's name */
    bool quit;
};

/* ---- the terminal -------------------------------------------------------------------------- */

static void on_key(uv_poll_t *input, int status, int events)
{
    struct top *top = input->data;
    char keys[16];
    (void)events;
    ssize_t got = status == 0 ? read(top->keys, keys, sizeof keys) : 0;
    for (ssize_t i = 0; i < got; i++)
        top->quit |= keys[i] == 'q' || keys[i] == 'Q';
    if (got <= 0) /* the terminal has gone */
        top->quit = true; /* uncovered: screen */
    if (top->quit)
        client_wake(top->ctl->client);
}

/* Opens the terminal for reading keys. Polling standard input would not do: libuv makes a polled
 * file non-blocking, and standard input, standard output and the shell usually share one open file.
 */
static int open_keyboard(struct top *top)
{
    const char *name = ttyname(STDIN_FILENO);
    if (!name || tcgetattr(STDIN_FILENO, &top->before) != 0) /* uncovered: screen */
        return -1;
    return open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void open_screen(struct top *top)
{
    top->screen = !top->ctl->json && isatty(STDOUT_FILENO);
    top->keys = top->screen ? open_keyboard(top) : -1;
    if (top->keys >= 0) {
        struct termios mode = top->before;
        mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &mode);
        uv_poll_init(client_loop(), &top->input, top->keys);
        top->input.data = top;
        uv_poll_start(&top->input, UV_READABLE, on_key);
    }
    if (top->screen) {
        out_hold(true); /* one write per update avoids flicker */
        out_raw(ENTER_SCREEN);
    }
}

static void close_screen(struct top *top)
{
    if (top->screen)
        out_raw(LEAVE_SCREEN);
    out_hold(false);
    if (top->keys >= 0) {
        uv_poll_stop(&top->input); /* client_close closes the handle later */
        close(top->keys);
        tcsetattr(STDIN_FILENO, TCSANOW, &top->before);
    }
}

static void end_line(const struct top *top)
{
    if (top->screen)
        out_raw(CLEAR_LINE);
    out_end();
}

static void show(const struct top *top)
{
    out_hold(false);
    out_hold(top->screen);
}

/* ---- drawing ------------------------------------------------------------------------------- */

static void draw_queue(const struct top *top, const struct overview *overview)
{
    static const char *const names[OVERVIEW_COUNTS] = {
        "waiting", "running", NULL, "delayed", "alone", "dead", "results"};
    char text[SHOW_BYTES];
    int first = 0;
    for (size_t i = 0; i < OVERVIEW_COUNTS; i++)
        if (names[i])
            out_put("%s%s %s", i ? "   " : "", names[i],
                    show_count((double)overview->counts[i], text));
    if (overview->counts[OVERVIEW_WAITING] > 0 && overview->queue_oldest_s > 0)
        out_put("   oldest <= %s", show_age(overview->queue_oldest_s, text));
    if (overview->paused)
        out_put("   PAUSED");
    end_line(top);
    for (int i = JOB_PRIORITIES - 1; i >= 0; i--)
        if (overview->waiting[i] > 0)
            out_put("%spriority %d: %s", first++ ? "   " : "waiting, ", i,
                    show_count((double)overview->waiting[i], text));
    end_line(top);
}

/* Each shard with its waiting and running jobs: "0: 12 + 3". Returns the number of lines. */
static size_t draw_shards(const struct top *top, const struct overviews *all)
{
    const struct ctl *ctl = top->ctl;
    char waiting[SHOW_BYTES], running[SHOW_BYTES];
    size_t shown = 0;
    for (uint32_t i = 0; i < ctl->shard_count && ctl_is_sharded(ctl); i++) {
        const struct overview *part = &all->parts[i];
        if (!ctl->shards[i].client)
            continue;
        if (shown > 0 && shown % SHARDS_PER_LINE == 0)
            end_line(top);
        out_put("%s", shown % SHARDS_PER_LINE ? "   " : shown ? "        " : "shards  ");
        shown++;
        if (all->read[i])
            out_put("%u: %s + %s%s", i, show_count((double)part->counts[OVERVIEW_WAITING], waiting),
                    show_count((double)part->counts[OVERVIEW_LEASED], running),
                    part->paused ? " PAUSED" : "");
        else
            out_put("%u: AWAY", i);
    }
    if (shown > 0)
        end_line(top);
    return (shown + SHARDS_PER_LINE - 1) / SHARDS_PER_LINE;
}

/* Draws the megapixels per second that workers and devices decode and encode. */
static void draw_codecs(const struct top *top, const struct rates *sum)
{
    char a[SHOW_BYTES], b[SHOW_BYTES], c[SHOW_BYTES], d[SHOW_BYTES];
    if (sum->known)
        out_put("decode: host %s MP/s, device %s   encode: host %s, device %s",
                show_rate(sum->of[RATES_DECODE_HOST] / 1e6, a),
                show_rate(sum->of[RATES_DECODE_DEVICE] / 1e6, b),
                show_rate(sum->of[RATES_ENCODE_HOST] / 1e6, c),
                show_rate(sum->of[RATES_ENCODE_DEVICE] / 1e6, d));
    end_line(top);
}

static void draw_sum(const struct top *top, const struct overview *overview)
{
    struct rates sum = rates_sum();
    double done = 0, failed = 0, retried = 0;
    char a[SHOW_BYTES], b[SHOW_BYTES], c[SHOW_BYTES], d[SHOW_BYTES];
    for (size_t i = 0; i < overview->daemon_count; i++) {
        const cJSON *stats = overview->daemons[i].stats;
        done += show_number(stats, "done");
        failed += show_number(stats, "failed") + show_number(stats, "dead");
        retried += show_number(stats, "retried");
    }
    if (sum.known)
        out_put("%s images/s   %s MP/s   in %s/s   out %s/s", show_rate(sum.of[RATES_IMAGES], a),
                show_rate(sum.of[RATES_PIXELS] / 1e6, b), show_bytes(sum.of[RATES_BYTES_IN], c),
                show_bytes(sum.of[RATES_BYTES_OUT], d));
    else
        out_put("images/s: not known yet");
    end_line(top);
    draw_codecs(top, &sum);
    out_put("since daemon start: done %s   failed %s   retried %s", show_count(done, a),
            show_count(failed, b), show_count(retried, c));
    end_line(top);
}

static double in_stage(const struct overview *overview, const char *name)
{
    double sum = 0;
    for (size_t i = 0; i < overview->daemon_count; i++) {
        const cJSON *list =
            cJSON_GetObjectItemCaseSensitive(overview->daemons[i].stats, "stages");
        sum += show_number(cJSON_GetObjectItemCaseSensitive(list, name), "now");
    }
    return sum;
}

static void draw_mean(const struct rates *sum, const char *name)
{
    for (size_t i = 0; i < RATES_STAGES; i++) {
        double jobs = sum->of[RATES_STAGE_JOBS + i];
        if (strcmp(rates_stages[i], name) == 0 && jobs > 0) {
            out_put(" %8.1f", sum->of[RATES_STAGE_MS + i] / jobs);
            return;
        }
    }
    out_put(" %8s", "-");
}

static void draw_stages(const struct top *top, const struct overview *overview)
{
    struct rates sum = rates_sum();
    out_put("%-8s", "stage");
    for (size_t i = 0; i < STAGES; i++)
        out_put(" %8s", stages[i]);
    end_line(top);
    out_put("%-8s", "jobs");
    for (size_t i = 0; i < STAGES; i++)
        out_put(" %8.0f", in_stage(overview, stages[i]));
    end_line(top);
    out_put("%-8s", "mean ms");
    for (size_t i = 0; i < STAGES; i++)
        draw_mean(&sum, stages[i]);
    end_line(top);
}

static void draw_device(bool known, struct rates_device device)
{
    char overlap[SHOW_BYTES] = "-";
    if (device.overlap > 0)
        snprintf(overlap, sizeof overlap, "%.2f", device.overlap);
    if (known)
        out_put(" %3.0f%% %7s", 100 * device.busy, overlap);
    else
        out_put(" %4s %7s", "-", "-");
}

static void draw_daemon(const struct top *top, const struct overview_daemon *daemon,
                        const struct rates *rates)
{
    const cJSON *stats = daemon->stats;
    double all = show_number(stats, "streams");
    char streams[32] = "-", images[SHOW_BYTES] = "-", pixels[SHOW_BYTES] = "-", up[SHOW_BYTES];
    char engine[SHOW_BYTES], state[SHOW_BYTES];
    show_word(stats, "engine", engine, sizeof engine);
    show_state(stats, state);
    if (all > 0) /* uncovered: screen */
        snprintf(streams, sizeof streams, "%.0f/%.0f", show_number(stats, "streams_busy"), all);
    if (rates->known) {
        show_rate(rates->of[RATES_IMAGES], images);
        show_rate(rates->of[RATES_PIXELS] / 1e6, pixels);
    }
    out_put("%-*.*s %-7.7s %-8.8s %5lld", top->name_columns, top->name_columns, daemon->name,
            engine, stats ? state : "silent", daemon->leases);
    if (stats) {
        out_put(" %7s %8s %6s", streams, images, pixels);
        draw_device(rates->device_count > 0, rates_all_devices(rates));
    }
    if (stats && top->wide)
        out_put(" %7s", show_age(show_number(stats, "up_s"), up));
    end_line(top);
}

static void draw_devices(const struct top *top, const struct rates *rates)
{
    size_t fit = top->wide ? 5 : 3;
    out_put(" ");
    for (size_t i = 0; i < rates->device_count && i < fit; i++) {
        out_put(" %s", rates->devices[i].name);
        draw_device(true, rates->devices[i]);
    }
    if (rates->device_count > fit) /* uncovered: screen */
        out_put(" ...");
    end_line(top);
}

/* Sets the widths for the current screen. Returns the number of lines left for daemons. */
static size_t measure(struct top *top)
{
    struct winsize size = {0};
    bool known = top->screen && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    int columns = known && size.ws_col > 0 ? size.ws_col : 120;
    top->wide = columns >= WIDE_COLUMNS;
    int left = columns - (top->wide ? OTHER_COLUMNS + 8 : OTHER_COLUMNS);
    top->name_columns = left < 8 ? 8 : left > 40 ? 40 : left;
    if (!known || size.ws_row == 0)
        return SIZE_MAX;
    return size.ws_row > LINES_ABOVE + 2 ? size.ws_row - LINES_ABOVE - 2u : 1;
}

static void draw_daemons(struct top *top, const struct overview *overview, size_t more_above)
{
    size_t count = overview->daemon_count, left = measure(top), shown = 0;
    left = left > more_above ? left - more_above : 1;
    if (count == 0) {
        out_put("no gpuimgd is running in this namespace");
        end_line(top);
        return;
    }
    out_put("%-*s %-7s %-8s %5s %7s %8s %6s %4s %7s%s", top->name_columns, "daemon", "engine",
            "state", "jobs", "streams", "images/s", "MP/s", "busy", "overlap",
            top->wide ? "      up" : "");
    end_line(top);
    for (; shown < count; shown++) {
        const struct rates *rates = rates_of(shown);
        size_t lines = rates->device_count > 1 ? 2 : 1;
        if (lines > left) /* uncovered: screen */
            break;
        left -= lines;
        draw_daemon(top, &overview->daemons[shown], rates);
        if (lines > 1)
            draw_devices(top, rates);
    }
    if (shown < count) { /* uncovered: screen */
        out_put("and %zu more", count - shown);
        end_line(top);
    }
}

/* Draws the jobs with many images. Returns the number of lines. */
static size_t draw_sets(const struct top *top, const struct overview *overview)
{
    size_t count = running_sets_count(overview);
    size_t shown = count < SETS_SHOWN_MAX ? count : SETS_SHOWN_MAX;
    if (count == 0)
        return 0;
    running_sets_put_titles();
    end_line(top);
    for (size_t i = 0; i < shown; i++) {
        running_sets_put(overview, i);
        end_line(top);
    }
    if (shown < count) {
        out_put("and %zu more jobs with many images", count - shown);
        end_line(top);
    }
    end_line(top);
    return shown + 2 + (shown < count);
}

static void draw(struct top *top, const struct overviews *all)
{
    const struct overview *overview = &all->sum;
    if (top->screen)
        out_raw(HOME);
    out_put("gpuimgctl top: %s, namespace %s%s", show_redis(top->ctl->options.redis),
            top->ctl->options.namespace, top->keys >= 0 ? "   (q ends)" : "");
    end_line(top);
    end_line(top);
    draw_queue(top, overview);
    size_t lines = draw_shards(top, all);
    draw_sum(top, overview);
    end_line(top);
    draw_stages(top, overview);
    end_line(top);
    lines += draw_sets(top, overview);
    draw_daemons(top, overview, lines);
    if (top->screen)
        out_raw(CLEAR_BELOW);
    else
        out_end();
    show(top);
}

static void print_json(const struct top *top, const struct overviews *all)
{
    struct rates sum = rates_sum();
    cJSON *json = overviews_json(all, top->ctl);
    if (json && sum.known) {
        cJSON_AddNumberToObject(json, "images_s", sum.of[RATES_IMAGES]);
        cJSON_AddNumberToObject(json, "mp_s", sum.of[RATES_PIXELS] / 1e6);
        cJSON_AddNumberToObject(json, "in_mb_s", sum.of[RATES_BYTES_IN] / 1e6);
        cJSON_AddNumberToObject(json, "out_mb_s", sum.of[RATES_BYTES_OUT] / 1e6);
        cJSON_AddNumberToObject(json, "decode_host_mp_s", sum.of[RATES_DECODE_HOST] / 1e6);
        cJSON_AddNumberToObject(json, "decode_device_mp_s", sum.of[RATES_DECODE_DEVICE] / 1e6);
        cJSON_AddNumberToObject(json, "encode_host_mp_s", sum.of[RATES_ENCODE_HOST] / 1e6);
        cJSON_AddNumberToObject(json, "encode_device_mp_s", sum.of[RATES_ENCODE_DEVICE] / 1e6);
    }
    struct rates_device devices = rates_all_devices(&sum);
    if (json && sum.device_count > 0) {
        cJSON_AddNumberToObject(json, "gpu_busy", devices.busy);
        if (devices.overlap > 0)
            cJSON_AddNumberToObject(json, "overlap", devices.overlap);
    }
    ctl_print_json(top->ctl, json);
}

/* ---- the main loop ------------------------------------------------------------------------- */

static bool turn(struct top *top)
{
    struct overviews all;
    if (!overviews_read(&all, top->ctl, true, top->screen || top->ctl->json))
        return false;
    if (!rates_update(&all.sum)) { /* uncovered: screen */
        close_screen(top);
        ctl_out_of_memory(top->ctl, "the rates");
    }
    if (top->ctl->json)
        print_json(top, &all);
    else
        draw(top, &all);
    overviews_clear(&all);
    return true;
}

static void draw_trouble(const struct top *top)
{
    out_raw(HOME);
    out_put("%s; trying again", client_why(top->ctl->client));
    end_line(top);
    show(top);
}

int ctl_top(struct ctl *ctl, int count, char **operands)
{
    (void)count, (void)operands; /* none */
    static struct top top; /* static, because client_close uses its handle after this function */
    double interval_s = ctl_number(ctl, "interval", 0.05, 3600, 1);
    long long turns = ctl_whole(ctl, "count", 1, 1e15, 1e15);
    bool there = true;
    top.ctl = ctl;
    ctl_connect(ctl);
    client_catch_interrupt();
    open_screen(&top);
    while (!top.quit && !client_interrupted() && !out_failed()) {
        there = turn(&top);
        if (!there && top.screen)
            draw_trouble(&top);
        if ((!there && !top.screen) || --turns < 1)
            break;
        client_pause(ctl->client, interval_s);
    }
    close_screen(&top);
    if (!there && !client_interrupted() && !top.quit) /* uncovered: gone */
        ctl_no_answer(ctl);
    return ctl_worst(ctl, CTL_OK);
}
