#include "tests/bench/png_plot.h"

#include <stdio.h>

#define PLOT_WIDTH  460
#define PLOT_HEIGHT 340
#define PLOT_TOP    70
#define MS_MAX      160.0

static const char *const colours[FILTERS] = {"#6b7785", "#2b6fc2", "#18804b",
                                             "#b08800", "#7c4dcb", "#c2366b"};

static double plot_x(size_t s, double seconds)
{
    double ms = seconds * 1e3 < MS_MAX ? seconds * 1e3 : MS_MAX;
    return 60 + (double)s * (PLOT_WIDTH + 70) + PLOT_WIDTH * ms / MS_MAX;
}

/* What is beside the axes is drawn at their ends. */
static const struct {
    double low, high;
} axes[SETS] = {{1.4, 2.2}, {0.64, 0.8}};

static double plot_y(double bytes, size_t s)
{
    double share = (bytes - axes[s].low) / (axes[s].high - axes[s].low);
    return PLOT_TOP + PLOT_HEIGHT * (1 - (share < 0 ? 0 : share > 1 ? 1 : share));
}

static void draw_axes(FILE *file, const struct curve *curve, size_t s)
{
    double left = plot_x(s, 0), high = axes[s].high;
    int bottom = PLOT_TOP + PLOT_HEIGHT;
    fprintf(file, "<text class=\"h\" x=\"%.0f\" y=\"%d\">%s</text>\n", left, PLOT_TOP - 14,
            curve->set->name);
    for (int i = 0; i <= 8; i++) {
        double x = left + PLOT_WIDTH * i / 8.0, y = PLOT_TOP + PLOT_HEIGHT * i / 8.0;
        fprintf(file,
                "<path class=\"g\" d=\"M%.1f %dV%dM%.1f %.1fh%d\"/>"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n",
                x, PLOT_TOP, bottom, left, y, PLOT_WIDTH, x, bottom + 16, MS_MAX * i / 8,
                left - 6, y + 4, high - (high - axes[s].low) * i / 8);
    }
}

/* The line is of the strategies that libpng takes by itself. */
static void draw_filter(FILE *file, const struct curve *curve, size_t s, size_t f)
{
    size_t strategy = f == FILTER_NONE ? STRATEGY_DEFAULT : STRATEGY_FILTERED;
    fprintf(file, "<polyline stroke=\"%s\" points=\"", colours[f]);
    for (int level = 1; level < LEVELS; level++)
        fprintf(file, "%.1f,%.1f ", plot_x(s, curve->points[f][strategy][level].seconds),
                plot_y(curve->points[f][strategy][level].bytes, s));
    fputs("\"/>\n", file);
    for (int level = 1; level < LEVELS; level++) {
        const struct point *point = &curve->points[f][strategy][level];
        fprintf(file,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>%s, level %d: "
                "%.1f ms a megapixel, %.3f bytes a pixel</title></circle>\n",
                plot_x(s, point->seconds), plot_y(point->bytes, s), colours[f],
                curve_filter_names[f], level, point->seconds * 1e3, point->bytes);
    }
    const struct point *runs = &curve->points[f][STRATEGY_RLE][1];
    double x = plot_x(s, runs->seconds), y = plot_y(runs->bytes, s);
    fprintf(file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\" style=\"fill:%s\"><title>"
                  "%s, runs alone: %.1f ms a megapixel, %.3f bytes a pixel</title></rect>\n",
            x - 4.5, y - 4.5, colours[f], curve_filter_names[f], runs->seconds * 1e3, runs->bytes);
    if (f == FILTER_PAETH)
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"11\" fill=\"none\" stroke=\"%s\" "
                      "stroke-width=\"2\"/>\n", x, y, colours[f]);
}

void plot_write(const struct curve curves[SETS], const char *path)
{
    FILE *file = fopen(path, "w");
    need(file != NULL, path);
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1070 480\" width=\"1070\" "
          "height=\"480\">\n<style>text{font-family:system-ui,'DejaVu Sans',sans-serif;"
          "font-size:12px;fill:#1f2328}.h{font-size:15px;font-weight:600}.g{stroke:#d5dbe1}"
          "polyline{fill:none;stroke-width:1.5}rect{fill:#fff}"
          "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.g{stroke:#2d343d}"
          "rect{fill:#0d1117}}</style>\n<rect width=\"1070\" height=\"480\"/>\n"
          "<text class=\"h\" x=\"60\" y=\"26\">PNG: bytes a pixel over ms of CPU a megapixel</text>"
          "<text x=\"560\" y=\"460\">lines: zlib's levels 1 to 9, from left to right; squares: "
          "runs alone; ring: the default</text>\n", file);
    for (size_t s = 0; s < SETS; s++) {
        draw_axes(file, &curves[s], s);
        for (size_t f = 0; f < FILTERS; f++)
            draw_filter(file, &curves[s], s, f);
    }
    for (size_t f = 0; f < FILTERS; f++)
        fprintf(file, "<circle cx=\"%zu\" cy=\"456\" r=\"5\" fill=\"%s\"/><text x=\"%zu\" "
                      "y=\"460\">%s</text>\n", 66 + 80 * f, colours[f], 76 + 80 * f,
                curve_filter_names[f]);
    fputs("</svg>\n", file);
    need(fclose(file) == 0, path);
}
