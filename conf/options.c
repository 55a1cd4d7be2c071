#include "conf/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "conf/log.h"
#include "conf/mask.h"
#include "conf/text.h"

/* `auto` of pinned_bytes and host_bytes is an eighth of the memory, but at most this for each CPU.
 * Fewer than AUTO_MEMORY_CPUS CPUs count as that many. A progressive JPEG of 8 megapixels without
 * subsampling needs 48 MiB for its decoder, three eighths of one CPU's part of host_bytes. */
#define AUTO_MEMORY_CPUS      16
#define AUTO_PINNED_BYTES_CPU (512 * MIB)
#define AUTO_HOST_BYTES_CPU   (128 * MIB)
/* With fewer CPUs, no worker pauses: one worker less would cost more than the loop and Redis lose
 * when they wait for a CPU. */
#define PAUSING_CPUS 8
/* Memory of the CUDA driver on the host, about, which the options leave to it. */
#define CUDA_HOST_BYTES (1 * GIB)
/* Descriptors that may be open at once, besides inputs that wait for a worker, which get the other
 * half of the process's limit. Daemon: the loop, the roots, the log, the trace, lookups of names
 * and the files of the configuration. Worker: an input and an overlay; an output, its folder, the
 * next folder of its path and the file that it replaces; the socket and the memory of the codec
 * process, and one more of each while that process starts; and those of the process of an
 * animation. Job with many images that runs: its archive, a file for images that wait, the folders
 * of the last input and output, and a tar with its folder. The outputs of such jobs: further tars
 * with their folders. Shard: two connections and their successors. Transfer: its connection and the
 * lookup. Device: those of the CUDA driver, about. */
#define DESCRIPTORS_BASE     48
#define DESCRIPTORS_WORKER   12
#define DESCRIPTORS_SET      6
#define DESCRIPTORS_PACKS    (2 * SET_PACKS_MORE)
#define DESCRIPTORS_SHARD    4
#define DESCRIPTORS_TRANSFER 2
#define DESCRIPTORS_DEVICE   64

enum kind { TEXT, SECONDS, COUNT, BYTES, BOOL };
enum reload { FIXED, RELOADABLE };

static const struct row {
    const char *name;
    enum kind kind;
    const char *standard;
    double min, max;
    enum reload reload;
    const char *help;
    size_t offset, size; /* in struct options */
} rows[] = {
#define OPTION(kind, name, standard, min, max, reload, help)                                       \
    {#name, kind, standard, (double)(min), (double)(max), reload, help,                            \
     offsetof(struct options, name), sizeof(OPTION_TYPE_##kind)},
#include "conf/options.def"
#undef OPTION
};

#define ROWS (sizeof rows / sizeof rows[0])
#define each_row(row) for (const struct row *row = rows; row < rows + ROWS; row++)

static void *field(const struct row *row, const struct options *options)
{
    return (char *)options + row->offset;
}

static const struct row *find_row(const char *name)
{
    each_row (row)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

static bool fail(struct error *error, const struct row *row, const char *value, const char *must)
{
    char masked[2 * OPTION_SHOWN_BYTES], shown[OPTION_SHOWN_BYTES];
    mask_copy(masked, sizeof masked, value);
    text_escape(shown, sizeof shown, masked, strlen(masked));
    return error_refuse(error, "option %s is \"%s\"; it must be %s", row->name, shown, must);
}

static bool set_text(const struct row *row, struct options *options, const char *value,
                     struct error *error)
{
    size_t length = strlen(value);
    if (length < (size_t)row->min)
        return fail(error, row, value, "set");
    if (length > (size_t)row->max)
        return error_refuse(error, "option %s has %zu bytes; it must have at most %.0f", row->name,
                            length, row->max);
    char *copy = strdup(value);
    if (!copy) /* uncovered: memory */
        return error_refuse(error, "out of memory for option %s", row->name);
    char **slot = field(row, options);
    free(*slot);
    *slot = copy;
    return true;
}

static bool set_bool(const struct row *row, struct options *options, const char *value,
                     struct error *error)
{
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (strcasecmp(value, yes[i]) == 0 || strcasecmp(value, no[i]) == 0) {
            *(bool *)field(row, options) = strcasecmp(value, yes[i]) == 0;
            return true;
        }
    }
    return fail(error, row, value, "yes or no");
}

/* Parses a number with the suffix of a BYTES value. Any other text after the number is an error. */
static bool parse_number(const struct row *row, const char *value, double *number)
{
    char *end;
    errno = 0;
    *number = strtod(value, &end);
    if (end == value || errno || !isfinite(*number))
        return false;
    if (row->kind == BYTES && *end) {
        static const char suffixes[] = "KMGT";
        const char *at = strchr(suffixes, *end >= 'a' ? *end - 'a' + 'A' : *end);
        if (!at)
            return false;
        *number *= (double)(1ull << (10 * (at - suffixes + 1)));
        end++;
        if (*end == 'i')
            end++;
        if (*end == 'B')
            end++;
    }
    return *end == '\0' && (row->kind == SECONDS || *number == floor(*number));
}

static const char *bound_text(const struct row *row, double bound, char text[32])
{
    bool whole_mib = row->kind == BYTES && bound >= (double)MIB;
    snprintf(text, 32, whole_mib ? "%.15gM" : "%.15g", whole_mib ? bound / (double)MIB : bound);
    return text;
}

static bool set_number(const struct row *row, struct options *options, const char *value,
                       struct error *error)
{
    bool may_be_auto = strcmp(row->standard, "auto") == 0;
    double number = 0;
    if (may_be_auto && strcmp(value, "auto") == 0) {
        *(uint64_t *)field(row, options) = 0;
        return true;
    }
    if (!parse_number(row, value, &number) || number < row->min || number > row->max) {
        char must[160], min[32], max[32];
        snprintf(must, sizeof must, "%s%s from %s to %s", may_be_auto ? "auto, or " : "",
                 row->kind == SECONDS ? "a number of seconds, without a unit,"
                 : row->kind == BYTES ? "bytes, such as 512M or 2G,"
                                      : "a whole number",
                 bound_text(row, row->min, min), bound_text(row, row->max, max));
        return fail(error, row, value, must);
    }
    if (row->kind == SECONDS)
        *(double *)field(row, options) = number;
    else
        *(uint64_t *)field(row, options) = (uint64_t)number;
    return true;
}

static bool set_row(const struct row *row, struct options *options, const char *value,
                    struct error *error)
{
    switch (row->kind) {
    case TEXT:
        return set_text(row, options, value, error);
    case BOOL:
        return set_bool(row, options, value, error);
    default:
        return set_number(row, options, value, error);
    }
}

bool options_init(struct options *options, struct error *error)
{
    memset(options, 0, sizeof *options);
    each_row (row)
        if (!set_row(row, options, row->standard, error)) /* uncovered: memory */
            return false;
    return true;
}

void options_clear(struct options *options)
{
    each_row (row) {
        if (row->kind == TEXT) {
            char **slot = field(row, options);
            free(*slot);
            *slot = NULL;
        }
    }
}

bool options_copy(struct options *copy, const struct options *from, struct error *error)
{
    *copy = *from;
    each_row (row)
        if (row->kind == TEXT)
            *(char **)field(row, copy) = NULL;
    each_row (row) {
        if (row->kind != TEXT)
            continue;
        char **slot = field(row, copy);
        *slot = strdup(*(char **)field(row, from));
        if (!*slot) /* uncovered: memory */
            return error_refuse(error, "out of memory for option %s", row->name);
    }
    return true;
}

bool options_follow(struct options *copy, const struct options *from, struct error *error)
{
    bool whole = true;
    each_row (row) {
        if (row->reload != RELOADABLE)
            continue;
        if (row->kind != TEXT)
            memcpy(field(row, copy), field(row, from), row->size);
        else if (!set_text(row, copy, *(char **)field(row, from), error)) /* uncovered: memory */
            whole = false;
    }
    return whole;
}

bool options_has(const char *name)
{
    return find_row(name) != NULL;
}

bool options_set(struct options *options, const char *name, const char *value, struct error *error)
{
    const struct row *row = find_row(name);
    const char *names[ROWS];
    if (row)
        return set_row(row, options, value, error);
    for (size_t i = 0; i < ROWS; i++)
        names[i] = rows[i].name;
    const char *near = text_nearest(name, names, ROWS);
    return error_refuse(error, "there is no option \"%s\"%s%s%s", name,
                        near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* ---- checks ------------------------------------------------------------------------------- */

static bool are_numbers(const char *text)
{
    for (;; text++) {
        size_t digits = strspn(text, "0123456789");
        text += digits;
        if (digits == 0 || digits > 3 || *text != ',')
            return digits > 0 && digits <= 3 && !*text;
    }
}

/* Whether the text is a list of UUIDs of devices. "MIG-GPU-UUID/1/0" is the form of drivers before
 * 470. Only CUDA can tell if such a device exists. */
static bool are_uuids(const char *text)
{
    for (;; text++) {
        if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0)
            return false;
        size_t length = strspn(text + 4, "0123456789abcdefABCDEF-/GPU");
        text += 4 + length;
        if (length == 0 || *text != ',')
            return length > 0 && !*text;
    }
}

static bool are_devices(const char *text)
{
    return strcmp(text, "all") == 0 || are_numbers(text) || are_uuids(text);
}

static bool is_engine(const char *text)
{
    return strcmp(text, "auto") == 0 || strcmp(text, "cuda") == 0 || strcmp(text, "cpu") == 0;
}

static bool is_place_of_results(const char *text)
{
    return strcmp(text, "list") == 0 || strcmp(text, "stream") == 0 || strcmp(text, "id") == 0 ||
           strcmp(text, "none") == 0;
}

/* Adds an error unless `good`. must: what the value must be, for the message. */
static void check_text(struct errors *errors, const char *name, const char *value, bool good,
                       const char *must)
{
    struct error error = {0};
    if (good)
        return;
    fail(&error, find_row(name), value, must);
    errors_add(errors, &error);
}

static bool is_printable(const char *text)
{
    while (*text > ' ' && *text < 0x7F)
        text++;
    return !*text;
}

bool options_check(const struct options *options, struct errors *errors)
{
    uint32_t before = errors->count;
    check_text(errors, "engine", options->engine, is_engine(options->engine), "auto, cuda or cpu");
    check_text(errors, "jpeg", options->jpeg, is_engine(options->jpeg), "auto, cuda or cpu");
    check_text(errors, "png", options->png, is_engine(options->png), "auto, cuda or cpu");
    check_text(errors, "webp", options->webp, is_engine(options->webp), "auto, cuda or cpu");
    check_text(errors, "avif", options->avif, is_engine(options->avif), "auto, cuda or cpu");
    check_text(errors, "results", options->results, is_place_of_results(options->results),
               "list, stream, id or none");
    check_text(errors, "devices", options->devices, are_devices(options->devices),
               "all, a list like 0,2, or UUIDs (GPU-..., MIG-...) separated by commas");
    check_text(errors, "log_level", options->log_level, log_level_parse(options->log_level) != 0,
               "error, warning, info or debug");
    check_text(errors, "namespace", options->namespace, is_printable(options->namespace),
               "printable ASCII without spaces");
    if (!*options->redis_tls_cert_file != !*options->redis_tls_key_file)
        errors_addf(errors, "options redis_tls_cert_file and redis_tls_key_file must both be set, "
                            "or neither");
    if (options->renew_s > options->lease_s / 3)
        errors_addf(errors,
                    "option renew_s is %g; it must be at most a third of lease_s, which "
                    "is %g",
                    options->renew_s, options->lease_s);
    if (options->host_bytes && options->input_bytes_max > options->host_bytes / 2)
        errors_addf(errors,
                    "option input_bytes_max is %" PRIu64 "; it must be at most half of "
                    "host_bytes, which is %" PRIu64,
                    options->input_bytes_max, options->host_bytes);
    return errors->count == before;
}

/* ---- auto --------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns an `auto` of pinned_bytes or host_bytes. At least 1, because 0 means auto. */
static uint64_t memory_share(uint64_t memory_bytes, uint64_t cpus, uint64_t per_cpu)
{
    uint64_t at_most = per_cpu * (cpus > AUTO_MEMORY_CPUS ? cpus : AUTO_MEMORY_CPUS);
    uint64_t share = least(memory_bytes / 8, at_most);
    return share > MIB ? share : MIB;
}

void options_resolve(struct options *options, uint64_t memory_bytes, uint64_t cpus)
{
    if (options->pinned_bytes == 0)
        options->pinned_bytes = memory_share(memory_bytes, cpus, AUTO_PINNED_BYTES_CPU);
    if (options->host_bytes == 0) {
        options->host_bytes = memory_share(memory_bytes, cpus, AUTO_HOST_BYTES_CPU);
        if (options->host_bytes < 2 * options->input_bytes_max)
            options->host_bytes = 2 * options->input_bytes_max;
    }
}

uint64_t options_host_mib(uint64_t bytes, uint64_t part, uint64_t parts)
{
    return (bytes / part + 1) * parts / MIB + 1;
}

static uint64_t auto_inflight(uint64_t workers, uint32_t slots)
{
    return least(2 * workers + slots, INFLIGHT_CEILING);
}

uint32_t options_sets(const struct options *options, bool has_devices)
{
    return (uint32_t)least((has_devices ? 2 : 1) * options->workers, SETS_MAX);
}

uint64_t options_memory_max(const struct options *options, const struct options_host *host)
{
    uint64_t jobs = options->inflight ? options->inflight
                                      : auto_inflight(options->workers, host->slots);
    uint64_t sum = options->pinned_bytes + options->host_bytes + HEAP_BASE_BYTES +
                   options->workers * WORKER_BYTES + (jobs + host->ahead) * HEAP_JOB_BYTES;
    if (options->shards > 1)
        sum += options->shards * HEAP_SHARD_BYTES + jobs * HEAP_JOB_BYTES;
    if (options->input_bytes_max > READS_LARGE_BYTES)
        sum += 2 * options->input_bytes_max;
    if (*options->url_prefixes)
        sum += options->url_bytes + options->input_bytes_max +
               options->url_connections * TRANSFER_BYTES;
    if (host->devices > 0)
        sum += CUDA_HOST_BYTES + host->slots * STREAM_CODEC_BYTES +
               host->devices * LONG_STREAMS * LONG_CODEC_BYTES +
               (options_sets(options, true) - options_sets(options, false)) * HEAP_SET_BYTES;
    return sum;
}

uint64_t options_descriptors_min(const struct options *options, uint32_t devices)
{
    uint64_t sum = DESCRIPTORS_BASE + DESCRIPTORS_PACKS + devices * DESCRIPTORS_DEVICE +
                   (options->workers ? options->workers : 1) * DESCRIPTORS_WORKER +
                   options_sets(options, devices > 0) * DESCRIPTORS_SET +
                   options->shards * DESCRIPTORS_SHARD;
    if (*options->metrics_listen)
        sum += HTTP_CONNECTIONS_MAX;
    if (*options->url_prefixes)
        sum += options->url_connections * DESCRIPTORS_TRANSFER;
    return 2 * sum;
}

uint32_t options_resolve_workers(struct options *options, const struct options_host *host)
{
    if (options->workers > 0)
        return 0;
    uint64_t others = options_memory_max(options, host);
    uint64_t job = (options->shards > 1 ? 2 : 1) * HEAP_JOB_BYTES;
    uint64_t worker = WORKER_BYTES + (options->inflight ? 0 : 2 * job) +
                      (host->devices > 0 ? HEAP_SET_BYTES : 0);
    uint64_t fit = host->memory_bytes > others ? (host->memory_bytes - others) / worker : 0;
    options->workers = least(least(host->cpus, WORKERS_CEILING), fit > 0 ? fit : 1);
    uint64_t threads = options->workers + host->others;
    return host->cpus >= PAUSING_CPUS && threads > host->cpus ? (uint32_t)(threads - host->cpus)
                                                              : 0;
}

void options_resolve_inflight(struct options *options, uint32_t slots)
{
    if (options->inflight == 0)
        options->inflight = auto_inflight(options->workers, slots);
}

/* ---- reload ------------------------------------------------------------------------------- */

static void print_value(const struct row *row, const struct options *options, char *text,
                        size_t size)
{
    switch (row->kind) {
    case TEXT:
        mask_copy(text, size, *(char **)field(row, options));
        break;
    case BOOL:
        snprintf(text, size, "%s", *(bool *)field(row, options) ? "yes" : "no");
        break;
    case SECONDS:
        snprintf(text, size, "%.15g", *(double *)field(row, options));
        break;
    default:
        snprintf(text, size, "%" PRIu64, *(uint64_t *)field(row, options));
    }
}

static bool same_value(const struct row *row, const struct options *a, const struct options *b)
{
    if (row->kind == TEXT)
        return strcmp(*(char **)field(row, a), *(char **)field(row, b)) == 0;
    return memcmp(field(row, a), field(row, b), row->size) == 0;
}

/* Moves a value from `fresh` to `live`. Texts are exchanged, so that options_clear of `fresh` frees
 * the old one. */
static void adopt_value(const struct row *row, struct options *live, struct options *fresh)
{
    char *old = row->kind == TEXT ? *(char **)field(row, live) : NULL;
    memcpy(field(row, live), field(row, fresh), row->size);
    if (row->kind == TEXT)
        *(char **)field(row, fresh) = old;
}

void options_adopt(struct options *live, struct options *fresh)
{
    each_row (row) {
        if (same_value(row, live, fresh))
            continue;
        bool automatic = strcmp(row->standard, "auto") == 0;
        if (automatic && *(uint64_t *)field(row, fresh) == 0)
            continue; /* the option is auto as before: keep the number that replaced it */
        char before[256], after[256];
        print_value(row, live, before, sizeof before);
        print_value(row, fresh, after, sizeof after);
        if (row->reload == FIXED) {
            log_warning("option %s: \"%s\" stays until a restart; the file now says \"%s\"",
                        row->name, before, after);
            continue;
        }
        adopt_value(row, live, fresh);
        log_info("option %s: \"%s\" is now \"%s\"", row->name, before, after);
    }
}

/* ---- printing ----------------------------------------------------------------------------- */

/* Prints words in lines of at most `width` columns, beginning at `column`. Each new line begins
 * with the margin. sentences: each sentence begins a new line. Returns the column after the last
 * word. */
static size_t print_words(FILE *out, const char *text, const char *margin, size_t column,
                          size_t width, bool sentences)
{
    char last = '\0';
    for (const char *word = text + strspn(text, " "); *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        if (column + 1 + length > width || (sentences && last == '.')) {
            fprintf(out, "\n%s", margin);
            column = strlen(margin);
        } else if (word != text) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)length, word);
        column += length;
        word += length;
        last = word[-1];
    }
    return column;
}

void options_print_help(FILE *out)
{
    static const char margin[] = "                           ";
    each_row (row) {
        int length = fprintf(out, "  --%-22s ", row->name);
        char end[64];
        snprintf(end, sizeof end, " (%s%s)", *row->standard ? row->standard : "empty",
                 row->reload == RELOADABLE ? ", reloadable" : "");
        size_t column = print_words(out, row->help, margin, (size_t)length, 100, false);
        print_words(out, end, margin, column, 100, false);
        fputc('\n', out);
    }
}

void options_print_sample(FILE *out)
{
    fputs("# gpuimgd.conf - every option with its default. Made by `gpuimgd --sample`.\n"
          "#\n"
          "# The files conf.d/*.conf in this folder are read after it, in the order of their\n"
          "# names; --name=value comes last. `gpuimgd -c FILE -t` checks a file.\n"
          "# `systemctl reload gpuimgd` applies options marked (reload); others need a restart.\n",
          out);
    each_row (row) {
        fputs("\n# ", out);
        size_t column = print_words(out, row->help, "# ", 2, 80, false);
        print_words(out, row->reload == RELOADABLE ? " (reload)" : "", "# ", column, 80, false);
        fprintf(out, "\n#%s = %s\n", row->name, row->standard);
    }
}

static void print_bounds(FILE *out, const struct row *row)
{
    if (row->kind == BOOL) {
        fputs("Yes or no", out);
    } else if (row->kind == TEXT) {
        fprintf(out, "At most %.0f bytes", row->max);
    } else {
        fputs(row->kind == SECONDS ? "Seconds from"
              : row->kind == BYTES ? "Bytes from"
                                   : "A number from", out);
        char min[32], max[32];
        fprintf(out, " %s to %s", bound_text(row, row->min, min), bound_text(row, row->max, max));
        if (strcmp(row->standard, "auto") == 0)
            fputs(", or auto", out);
    }
    fputs(row->reload == RELOADABLE ? "; reloadable.\n" : ".\n", out);
}

void options_print_mdoc(FILE *out)
{
    each_row (row) {
        fprintf(out, ".It Ic %s No =%s%s\n", row->name, *row->standard ? " " : "", row->standard);
        print_words(out, row->help, "", 0, 78, true); /* as mdoc requires */
        fputs(row->help[strlen(row->help) - 1] == '.' ? "\n" : ".\n", out);
        print_bounds(out, row);
    }
}
