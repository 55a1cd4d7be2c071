/* timeline_svg.c - writes the SVG image of a timeline (timeline.h). From top to bottom it has a row
 * for each worker and each stream, a row of bars for each job, and two curves. */
#include "daemon/telemetry/timeline.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "conf/clock.h"

/* Lengths are in pixels. */
#define WIDTH     1600
#define LEFT      128
#define RIGHT     16
#define PLOT      (WIDTH - LEFT - RIGHT)
#define HEAD      104
#define ROW       20
#define GAP       3
#define SECTION   26
#define BAR       9 /* height of a row of bars, one bar per job */
#define CURVE     44
#define DIGIT     6.3 /* width of a digit in a slice */
/* Limits of the rows, so that the image fits one or two screens. A line of text says how many more
 * workers, streams or jobs there are. */
#define WORKERS_MAX  32
#define STREAMS_MAX  16
#define BAR_ROWS_MAX 48
/* With more jobs a slice would be narrower than a pixel. */
#define JOBS_MAX 512

#define MS(ns) ((double)(ns) / NS_PER_MS)

struct drawing {
    const struct timeline_scene *scene;
    FILE *ground; /* background: rows and grid */
    FILE *file;   /* foreground: text, slices and curves */
    double y;     /* top of the next row */
    size_t jobs;  /* number of jobs drawn */
    double worker_y, stream_y[DEVICES_MAX], bars_y; /* top of the first row of each kind */
    uint32_t workers, streams, bar_rows;            /* number of rows of each kind */
    uint32_t bar_row_of[JOBS_MAX];                  /* for each job, the row of its bar */
    struct span {
        uint64_t begin_ns, end_ns;
    } spans[JOBS_MAX * TRACE_SLICES_MAX]; /* slices of one device */
    struct point {
        uint64_t at_ns, value;
    } points[2 * JOBS_MAX]; /* samples of one curve */
};

static const char style[] =
    "<style>\n"
    "text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;"
    "font-size:12px;fill:#1f2328}\n"
    ".h{font-size:17px;font-weight:600}.s{font-size:13px;font-weight:600}\n"
    ".d{fill:#59636e}.r{text-anchor:end}.m{text-anchor:middle}\n"
    ".n text{font-size:11px;fill:#fff;pointer-events:none}\n"
    ".bg{fill:#fff}.row{fill:#f3f5f8}.grid{stroke:#d5dbe1;stroke-width:1}\n"
    ".n rect{stroke:#fff;stroke-width:.6}\n"
    ".read{fill:#64748b}.decode{fill:#2b6fc2}.encode{fill:#b85c10}.kernel{fill:#18804b}\n"
    ".H2D{fill:#7c4dcb}.D2H{fill:#c2366b}\n"
    ".device_decode{fill:#1893a6}.device_encode{fill:#8a6d12}\n"
    ".wait{fill:#b4bdc7}.admit{fill:#d9a404}.ack{fill:#2f9c95}\n"
    ".curve{fill:#2b6fc2;fill-opacity:.25;stroke:#2b6fc2;stroke-width:1.2}\n"
    ".all:has(.j:hover) .j:not(:hover){opacity:.25}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#e6edf3}.d{fill:#9da7b3}.bg{fill:#0d1117}.row{fill:#171d25}"
    ".grid{stroke:#2d343d}.n rect{stroke:#0d1117}\n"
    ".read{fill:#74839a}.decode{fill:#3b82d9}.encode{fill:#c96a1c}.kernel{fill:#23955b}"
    ".H2D{fill:#8f63dd}.D2H{fill:#d6497e}.wait{fill:#4b5661}\n"
    ".device_decode{fill:#22a7bc}.device_encode{fill:#a5851f}\n"
    ".curve{fill:#58a0f0;stroke:#58a0f0}\n"
    "}\n"
    "</style>\n";

/* ---- pieces --------------------------------------------------------------------------------- */

static double window_ns(const struct drawing *drawing)
{
    return (double)(drawing->scene->end_ns - drawing->scene->begin_ns);
}

/* The x of a time. */
static double column(const struct drawing *drawing, uint64_t at_ns)
{
    const struct timeline_scene *scene = drawing->scene;
    if (at_ns <= scene->begin_ns)
        return LEFT;
    if (at_ns >= scene->end_ns)
        return LEFT + PLOT;
    return LEFT + PLOT * ((double)(at_ns - scene->begin_ns) / window_ns(drawing));
}

static bool in_window(const struct drawing *drawing, uint64_t begin_ns, uint64_t end_ns)
{
    return end_ns > drawing->scene->begin_ns && begin_ns < drawing->scene->end_ns;
}

static void write_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            fprintf(file, "&#%d;", *text);
        else
            fputc((unsigned char)*text < ' ' || (unsigned char)*text > 0x7e ? '?' : *text, file);
    }
}

/* Writes a text. x: its left end, or its middle (class m) or right end (class r). */
static void put_text(FILE *file, const char *class, double x, double y, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void put_text(FILE *file, const char *class, double x, double y, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(file, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
    write_escaped(file, text);
    fputs("</text>\n", file);
}

static void section(struct drawing *drawing, const char *name)
{
    drawing->y += SECTION;
    put_text(drawing->file, "s", 12, drawing->y - 8, "%s", name);
}

/* Draws the background and the name of the next row; returns the top of the row. percent: shown
 * after the name, unless negative. */
static double row(struct drawing *drawing, double height, const char *name, double percent)
{
    double y = drawing->y;
    fprintf(drawing->ground,
            "<rect class=\"row\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/>\n", LEFT, y,
            PLOT, height);
    put_text(drawing->file, "d r", LEFT - 8, y + height / 2 + 4, percent < 0 ? "%s" : "%s %.0f%%",
             name, percent);
    drawing->y += height + GAP;
    return y;
}

static void more(struct drawing *drawing, uint32_t left, const char *what)
{
    if (left == 0)
        return;
    put_text(drawing->file, "d", LEFT, drawing->y + 11, "and %u more %s", left, what);
    drawing->y += 16;
}

/* Draws a rectangle and returns its width. tip: shown while the mouse is over it. */
static double put_box(struct drawing *drawing, const char *class, uint64_t begin_ns,
                      uint64_t end_ns, double y, double height, const char *tip, ...)
    __attribute__((format(printf, 7, 8)));
static double put_box(struct drawing *drawing, const char *class, uint64_t begin_ns,
                      uint64_t end_ns, double y, double height, const char *tip, ...)
{
    double from = column(drawing, begin_ns), width = column(drawing, end_ns) - from;
    va_list args;
    fprintf(drawing->file,
            "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"><title>",
            class, from, y, width > 0.5 ? width : 0.5, height);
    va_start(args, tip);
    vfprintf(drawing->file, tip, args);
    va_end(args);
    fputs("</title></rect>\n", drawing->file);
    return width;
}

/* ---- slices --------------------------------------------------------------------------------- */

/* Sets *y to the row of a track; false: the track has no row. */
static bool track_y(const struct drawing *drawing, uint16_t track, double *y)
{
    bool stream = TRACE_IS_STREAM(track);
    uint32_t number = stream ? TRACE_STREAM(track) : TRACE_WORKER(track);
    if (number >= (stream ? drawing->streams : drawing->workers))
        return false;
    *y = (stream ? drawing->stream_y[TRACE_DEVICE(track)] : drawing->worker_y) +
         number * (ROW + GAP);
    return true;
}

static double slice_box(struct drawing *drawing, const struct trace_job *job,
                        const struct trace_slice *slice, double y, double height)
{
    char size[32] = "", number[JOB_NAME_BYTES];
    if (job->width > 0)
        snprintf(size, sizeof size, " (%u x %u)", job->width, job->height);
    return put_box(drawing, trace_names[slice->what], slice->begin_ns, slice->end_ns, y, height,
                   "job %s: %s %.3f ms%s", trace_job_name(job, number), trace_names[slice->what],
                   MS(slice->end_ns - slice->begin_ns), size);
}

static void draw_slice(struct drawing *drawing, const struct trace_job *job,
                       const struct trace_slice *slice)
{
    double y;
    if (!in_window(drawing, slice->begin_ns, slice->end_ns) || !track_y(drawing, slice->track, &y))
        return;
    double width = slice_box(drawing, job, slice, y, ROW);
    char label[80], number[JOB_NAME_BYTES];
    int digits = snprintf(label, sizeof label, "%s", trace_job_name(job, number));
    if (width < digits * DIGIT + 4)
        return;
    if (width > digits * DIGIT + 70)
        snprintf(label + digits, sizeof label - (size_t)digits, " &#183; %.1f ms",
                 MS(slice->end_ns - slice->begin_ns));
    fprintf(drawing->file, "<text class=\"m\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
            column(drawing, slice->begin_ns) + width / 2, y + ROW / 2.0 + 4, label);
}

static void draw_bar(struct drawing *drawing, const struct trace_job *job, uint32_t bar_row)
{
    if (bar_row >= drawing->bar_rows)
        return;
    double y = drawing->bars_y + bar_row * (BAR + 1);
    char number[JOB_NAME_BYTES];
    put_box(drawing, "row", job->begin_ns, job->end_ns, y, BAR, "job %s, attempt %u: %s, %.3f ms",
            trace_job_name(job, number), job->attempt, job->end, MS(job->end_ns - job->begin_ns));
    for (uint32_t s = 0; s < job->count; s++)
        if (in_window(drawing, job->slices[s].begin_ns, job->slices[s].end_ns))
            slice_box(drawing, job, &job->slices[s], y, BAR);
}

/* Writes each job as one <g class="j">: while the mouse is over it, the style dims all others. */
static void draw_jobs(struct drawing *drawing)
{
    fputs("<g class=\"all n\">\n", drawing->file);
    for (size_t i = 0; i < drawing->jobs; i++) {
        const struct trace_job *job = drawing->scene->jobs[i];
        fputs("<g class=\"j\">\n", drawing->file);
        for (uint32_t s = 0; s < job->count; s++)
            if (job->slices[s].track != TRACE_OF_JOB)
                draw_slice(drawing, job, &job->slices[s]);
        draw_bar(drawing, job, drawing->bar_row_of[i]);
        fputs("</g>\n", drawing->file);
    }
    fputs("</g>\n", drawing->file);
}

int timeline_by_time(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* ---- a device's copies and kernels together ------------------------------------------------- */

#define KIND(what)  (1u << (what))
#define ALL_KERNELS (KIND(TRACE_DEVICE_DECODE) | KIND(TRACE_KERNEL) | KIND(TRACE_DEVICE_ENCODE))

/* Fills in drawing->spans with the times in which the device worked on slices of these kinds (KIND
 * bits): overlapping slices are united, and all are clipped to the window. Returns the number of
 * spans. */
static size_t unite(struct drawing *drawing, uint32_t device, unsigned kinds)
{
    const struct timeline_scene *scene = drawing->scene;
    struct span *spans = drawing->spans;
    size_t count = 0, united = 0;
    for (size_t i = 0; i < drawing->jobs; i++) {
        for (uint32_t s = 0; s < scene->jobs[i]->count; s++) {
            const struct trace_slice *slice = &scene->jobs[i]->slices[s];
            if (!TRACE_IS_STREAM(slice->track) || TRACE_DEVICE(slice->track) != device ||
                !(kinds & KIND(slice->what)) ||
                !in_window(drawing, slice->begin_ns, slice->end_ns))
                continue;
            uint64_t begin = slice->begin_ns, end = slice->end_ns;
            spans[count++] = (struct span){begin > scene->begin_ns ? begin : scene->begin_ns,
                                           end < scene->end_ns ? end : scene->end_ns};
        }
    }
    qsort(spans, count, sizeof *spans, timeline_by_time);
    for (size_t i = 0; i < count; i++) {
        if (united > 0 && spans[i].begin_ns <= spans[united - 1].end_ns) {
            if (spans[i].end_ns > spans[united - 1].end_ns)
                spans[united - 1].end_ns = spans[i].end_ns;
        } else {
            spans[united++] = spans[i];
        }
    }
    return united;
}

static double sum_ns(const struct span *spans, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)(spans[i].end_ns - spans[i].begin_ns);
    return sum;
}

/* Draws, for each kind of work of the device, a row with all of its slices and their share of the
 * time. */
static void draw_together(struct drawing *drawing, uint32_t device)
{
    static const struct {
        enum trace_what what;
        const char *name;
    } kinds[] = {{TRACE_H2D, "all H2D"},
                 {TRACE_DEVICE_DECODE, "all decoders"},
                 {TRACE_KERNEL, "all kernels"},
                 {TRACE_DEVICE_ENCODE, "all encoders"},
                 {TRACE_D2H, "all D2H"}};
    const unsigned summed[] = {KIND(TRACE_H2D), ALL_KERNELS, KIND(TRACE_D2H)};
    const struct span *spans = drawing->spans;
    double sum = 0;
    drawing->y += GAP;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t count = unite(drawing, device, KIND(kinds[k].what));
        double y =
            row(drawing, BAR + 3, kinds[k].name, 100 * sum_ns(spans, count) / window_ns(drawing));
        for (size_t i = 0; i < count; i++)
            put_box(drawing, trace_names[kinds[k].what], spans[i].begin_ns, spans[i].end_ns, y,
                    BAR + 3, "%s, %.3f ms", kinds[k].name, MS(spans[i].end_ns - spans[i].begin_ns));
    }
    for (size_t i = 0; i < sizeof summed / sizeof *summed; i++)
        sum += sum_ns(spans, unite(drawing, device, summed[i]));
    double any = sum_ns(spans, unite(drawing, device, ~0u));
    put_text(drawing->file, "d", LEFT + 4, drawing->y + 12,
             "busy %.0f%% of the time; overlap %.2f (1: never two at a time, 3: uploads, kernels "
             "and downloads always at once)", 100 * any / window_ns(drawing),
             any > 0 ? sum / any : 0);
    drawing->y += 18;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Draws the row of a worker or a stream, with the share of the window in which it was busy. */
static void track_row(struct drawing *drawing, const char *kind, uint32_t number, uint16_t track)
{
    double sum = 0;
    char name[32];
    for (size_t i = 0; i < drawing->jobs; i++) {
        const struct trace_job *job = drawing->scene->jobs[i];
        for (uint32_t s = 0; s < job->count; s++)
            if (job->slices[s].track == track)
                sum += column(drawing, job->slices[s].end_ns) -
                       column(drawing, job->slices[s].begin_ns);
    }
    snprintf(name, sizeof name, "%s %u ", kind, number);
    row(drawing, ROW, name, 100 * sum / PLOT);
}

static void lay_workers(struct drawing *drawing)
{
    uint32_t all = drawing->scene->config->workers;
    drawing->workers = all < WORKERS_MAX ? all : WORKERS_MAX;
    section(drawing, "Workers");
    drawing->worker_y = drawing->y;
    for (uint32_t i = 0; i < drawing->workers; i++)
        track_row(drawing, "worker", i, TRACE_ON_WORKER(i));
    more(drawing, all - drawing->workers, "workers");
}

static void lay_devices(struct drawing *drawing)
{
    const struct trace_config *config = drawing->scene->config;
    drawing->streams = config->streams < STREAMS_MAX ? config->streams : STREAMS_MAX;
    for (uint32_t d = 0; d < config->devices; d++) {
        section(drawing, config->names[d]);
        drawing->stream_y[d] = drawing->y;
        for (uint32_t s = 0; s < drawing->streams; s++)
            track_row(drawing, "stream", s, TRACE_ON_STREAM(d, s));
        more(drawing, config->streams - drawing->streams, "streams");
        draw_together(drawing, d);
    }
}

/* Gives each job the first row of bars that is free when the job is fetched. */
static void lay_bars(struct drawing *drawing)
{
    const struct timeline_scene *scene = drawing->scene;
    uint64_t free_ns[BAR_ROWS_MAX] = {0};
    uint32_t used = 0, without = 0;
    for (size_t i = 0; i < drawing->jobs; i++) {
        uint32_t bar_row = 0;
        while (bar_row < BAR_ROWS_MAX && free_ns[bar_row] > scene->jobs[i]->begin_ns)
            bar_row++;
        drawing->bar_row_of[i] = bar_row;
        if (bar_row == BAR_ROWS_MAX) {
            without++;
            continue;
        }
        free_ns[bar_row] = scene->jobs[i]->end_ns;
        used = bar_row >= used ? bar_row + 1 : used;
    }
    if (used == 0)
        return;
    section(drawing, "Jobs, from fetch to acknowledgement");
    drawing->bar_rows = used;
    drawing->bars_y = drawing->y;
    drawing->y += used * (BAR + 1) + GAP;
    more(drawing, without, "jobs");
}

/* ---- curves --------------------------------------------------------------------------------- */

/* Draws the pinned bytes, or the jobs in flight: each value lasts until the next sample. */
static void draw_curve(struct drawing *drawing, const char *name, bool pinned)
{
    struct point *points = drawing->points;
    size_t count = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < drawing->jobs; i++) {
        for (size_t s = 0; s < 2; s++) {
            const struct trace_sample *sample = &drawing->scene->jobs[i]->samples[s];
            uint64_t value = pinned ? sample->pinned_bytes : sample->inflight;
            if (sample->at_ns == 0 || sample->at_ns > drawing->scene->end_ns)
                continue;
            points[count++] = (struct point){sample->at_ns, value};
        }
    }
    qsort(points, count, sizeof *points, timeline_by_time);
    /* Keep only the last sample before the window: its value holds when the window begins. */
    for (; count > 1 && points[1].at_ns <= drawing->scene->begin_ns; count--)
        points++;
    for (size_t i = 0; i < count; i++)
        most = points[i].value > most ? points[i].value : most;
    if (most == 0)
        return;
    double y = row(drawing, CURVE, name, -1), floor_y = y + CURVE, last = LEFT + PLOT;
    double scale = (CURVE - 4) / (double)most;
    fprintf(drawing->file, "<path class=\"curve\" d=\"M%.1f %.1f",
            column(drawing, points[0].at_ns), floor_y);
    for (size_t i = 0; i < count; i++)
        fprintf(drawing->file, "V%.1fH%.1f", floor_y - scale * (double)points[i].value,
                i + 1 < count ? column(drawing, points[i + 1].at_ns) : last);
    fprintf(drawing->file, "V%.1fZ\"/>", floor_y);
    if (pinned)
        put_text(drawing->file, "d r", LEFT - 8, y + CURVE / 2.0 + 18, "max: %.1f MB",
                 (double)most / 1e6);
    else
        put_text(drawing->file, "d r", LEFT - 8, y + CURVE / 2.0 + 18, "max: %" PRIu64, most);
}

/* ---- frame ---------------------------------------------------------------------------------- */

static void draw_axis(struct drawing *drawing, double top, double bottom)
{
    static const double multiples[] = {1, 2, 5};
    double whole_ns = window_ns(drawing), step = 100;
    for (int i = 0; whole_ns / step > 14; i++) {
        double power = 100;
        for (int p = 0; p < i / 3; p++)
            power *= 10;
        step = multiples[i % 3] * power;
    }
    double unit = step >= 1e9 ? 1e9 : step >= 1e6 ? 1e6 : 1e3;
    const char *name = step >= 1e9 ? "s" : step >= 1e6 ? "ms" : "us";
    for (double at = 0; at <= whole_ns; at += step) {
        double x = LEFT + PLOT * at / whole_ns;
        fprintf(drawing->ground, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, top, bottom);
        put_text(drawing->ground, "d m", x, top - 5, at == 0 ? "0" : "%g %s", at / unit, name);
    }
}

static void draw_legend(FILE *file, bool devices)
{
    static const struct {
        const char *class, *text;
        int width;
        bool device;
    } entries[] = {
        {"read", "read", 62, false},
        {"decode", "decode", 80, false},
        {"H2D", "copy to the device", 148, true},
        {"device_decode", "decode on the device", 158, true},
        {"kernel", "kernels", 82, false},
        {"device_encode", "encode on the device", 158, true},
        {"D2H", "copy from the device", 164, true},
        {"encode", "encode", 80, false},
        {"admit", "wait for admission", 148, false},
        {"wait", "wait for a worker or stream", 200, false},
        {"ack", "acknowledgement", 140, false},
    };
    int x = LEFT;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (entries[i].device && !devices)
            continue;
        fprintf(file, "<rect class=\"%s\" x=\"%d\" y=\"60\" width=\"12\" height=\"12\"/>",
                entries[i].class, x);
        put_text(file, "", x + 17, 70, "%s", entries[i].text);
        x += entries[i].width;
    }
}

static void draw_title(const struct drawing *drawing)
{
    const struct timeline_scene *scene = drawing->scene;
    const struct trace_config *config = scene->config;
    char chosen[80] = "", undrawn[80] = "";
    put_text(drawing->file, "h", 12, 26, "gpuimgd " GPUIMGD_VERSION " on %s", config->engine);
    if (scene->job_count == 0) {
        put_text(drawing->file, "d", 12, 46, "%s: no job has ended yet", config->daemon);
        return;
    }
    double length_s = MS(scene->end_ns - scene->begin_ns) / 1e3;
    size_t ended = 0;
    for (size_t i = 0; i < scene->job_count; i++)
        ended += scene->jobs[i]->end_ns <= scene->end_ns;
    if (scene->jobs_ended > scene->jobs_kept)
        snprintf(chosen, sizeof chosen, "; chosen among the last %zu of %" PRIu64 " jobs",
                 scene->jobs_kept, scene->jobs_ended);
    if (scene->job_count > drawing->jobs)
        snprintf(undrawn, sizeof undrawn, "; %zu more jobs of the window are not drawn",
                 scene->job_count - drawing->jobs);
    put_text(drawing->file, "d", 12, 46,
             "%s: the busiest %.4g ms, from %.3f s after its start; %zu jobs ended in it, %.1f per "
             "second%s%s", config->daemon, length_s * 1e3,
             MS(scene->begin_ns - config->origin_ns) / 1e3, ended, (double)ended / length_s,
             chosen, undrawn);
}

static void draw_all(struct drawing *drawing)
{
    draw_title(drawing);
    draw_legend(drawing->file, drawing->scene->config->devices > 0);
    lay_workers(drawing);
    lay_devices(drawing);
    lay_bars(drawing);
    drawing->y += GAP;
    draw_curve(drawing, "jobs in flight", false);
    draw_curve(drawing, "pinned memory", true);
    if (drawing->jobs > 0)
        draw_axis(drawing, HEAD - 2, drawing->y);
    draw_jobs(drawing);
}

/* Returns false if the text is incomplete. Takes NULL. */
static bool close_text(FILE *file)
{
    bool whole = file && !ferror(file);
    return (!file || fclose(file) == 0) && whole;
}

/* The first element of an SVG has its height, which is known only at the end. So everything else is
 * written to memory first. */
char *timeline_svg_write(const struct timeline_scene *scene)
{
    char *texts[2] = {NULL, NULL}, *svg = NULL;
    size_t lengths[2];
    struct drawing *drawing = calloc(1, sizeof *drawing);
    if (!drawing) /* uncovered: service (tests/coverage/reasons.txt) */
        return NULL;
    drawing->scene = scene;
    drawing->y = HEAD - SECTION + 8;
    drawing->jobs = scene->job_count < JOBS_MAX ? scene->job_count : JOBS_MAX;
    drawing->ground = open_memstream(&texts[0], &lengths[0]);
    drawing->file = open_memstream(&texts[1], &lengths[1]);
    if (drawing->ground && drawing->file)
        draw_all(drawing);
    bool whole = close_text(drawing->ground);
    double height = drawing->y + 12;
    if (close_text(drawing->file) && whole &&
        asprintf(&svg,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
                 "height=\"%.0f\" role=\"img\">\n<title>gpuimgd: timeline</title>\n%s"
                 "<rect class=\"bg\" width=\"%d\" height=\"%.0f\"/>\n%s%s</svg>\n",
                 WIDTH, height, WIDTH, height, style, WIDTH, height, texts[0], texts[1]) < 0)
        svg = NULL; /* uncovered: service */
    free(texts[0]);
    free(texts[1]);
    free(drawing);
    return svg;
}
