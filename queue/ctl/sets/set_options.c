#include "queue/ctl/sets/set_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/format.h"
#include "queue/ctl/sets/set_pattern.h"
#include "queue/ctl/submit/source.h"

/* ---- the command line ----------------------------------------------------------------------- */

static const char *one_of(struct ctl *ctl, const char *name, const char *first, const char *second)
{
    const char *value = ctl_value(ctl, name);
    if (value && strcmp(value, first) != 0 && strcmp(value, second) != 0)
        ctl_usage(ctl, "--%s is \"%s\"; it must be %s or %s", name, value, first, second);
    return value;
}

static void read_patterns(struct set_options *set, struct ctl *ctl)
{
    for (int i = 0; i < ctl->value_count; i++) {
        const char *value = ctl->values[i].value;
        size_t bytes = strlen(value);
        if (strcmp(ctl->values[i].name, "pattern") != 0)
            continue;
        if (bytes < 1 || bytes > JOB_PATTERN_BYTES_MAX)
            ctl_usage(ctl, "--pattern has %zu bytes; it must have 1 to %d", bytes,
                      JOB_PATTERN_BYTES_MAX);
        if (set->pattern_count == JOB_PATTERNS_MAX)
            ctl_usage(ctl, "--pattern is given more than %d times", JOB_PATTERNS_MAX);
        set->patterns[set->pattern_count++] = value;
    }
}

/* The options that have no effect, or exclude each other. */
static void check_kind(const struct set_options *set, struct ctl *ctl)
{
    bool archives = set->kind == SET_ARCHIVE, keys = ctl_value(ctl, "keys");
    if (set->kind == SET_LIST && ctl_value(ctl, "shards"))
        ctl_usage(ctl, "--list and --shards exclude each other: a job has a list or an archive");
    if (!archives && set->pattern_count > 0)
        ctl_usage(ctl, "--pattern has no effect without --shards: it chooses members of archives");
    if (!archives && set->kind != SET_LIST && set->on_error)
        ctl_usage(ctl, "--on-error has no effect without --list or --shards");
    if (!set->kind && set->pack)
        ctl_usage(ctl, "--pack has no effect without --list, --shards or --frames=all");
    if (archives && keys)
        ctl_usage(ctl, "--keys does not send archives; copy them below input_root, or give URLs");
    if (set->kind == SET_FRAMES && keys)
        ctl_usage(ctl, "--keys does not send animations with --frames all; copy them below "
                       "input_root, or give URLs");
    if (set->pack && keys)
        ctl_usage(ctl, "--pack writes a file of the daemon, so it excludes --keys");
}

void set_options_read(struct set_options *set, struct ctl *ctl, const char *frames)
{
    bool all = frames && strcmp(frames, "all") == 0;
    *set = (struct set_options){.kind = ctl_value(ctl, "list")     ? SET_LIST
                                        : ctl_value(ctl, "shards") ? SET_ARCHIVE
                                        : all                      ? SET_FRAMES
                                                                   : SET_NONE};
    set->images_max = (size_t)ctl_whole(ctl, "list", 1, JOB_INPUTS_MAX, 1);
    set->pack = one_of(ctl, "pack", "tar", "array");
    set->on_error = one_of(ctl, "on-error", "skip", "fail");
    read_patterns(set, ctl);
    check_kind(set, ctl);
}

cJSON *set_options_frames(const char *text)
{
    static const char prefix[] = "strip:";
    char *end;
    if (strncmp(text, prefix, sizeof prefix - 1) != 0)
        return cJSON_CreateString(text);
    long count = strtol(text + sizeof prefix - 1, &end, 10);
    cJSON *strip = cJSON_CreateObject();
    if (!cJSON_AddNumberToObject(strip, "strip",
                                 *end ? -1 : (double)count)) { /* uncovered: memory */
        cJSON_Delete(strip);
        return NULL;
    }
    return strip;
}

/* ---- outputs -------------------------------------------------------------------------------- */

static bool ends_in_tar(const char *path)
{
    size_t length = strlen(path);
    return length >= 4 && strcasecmp(path + length - 4, ".tar") == 0;
}

/* Whether the daemon writes one animation of all frames. format: its name; NULL: by the suffix. */
static bool is_movie(const struct set_options *set, const char *format, const char *path)
{
    const struct format *of = format ? format_by_name(format) : format_of_path(path);
    return set->kind == SET_FRAMES && of && of->movies && !set_pattern_names_images(path);
}

bool set_options_is_whole(const struct set_options *set, const cJSON *output, const char *place)
{
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(output, "pack");
    bool is_path = output ? cJSON_IsString(output) || cJSON_HasObjectItem(output, "path")
                          : !source_is_url(place);
    const char *format = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(output, "format"));
    return set->kind && is_path &&
           (own || (!output && set->pack) || ends_in_tar(place) || is_movie(set, format, place));
}

/* The name in a folder, with its suffix. */
static const char *name_in_folder(const struct set_options *set, struct ctl *ctl, char name[32])
{
    const char *format = ctl_value(ctl, "format");
    bool array = set->pack && strcmp(set->pack, "array") == 0;
    if (!set->pack && set->kind == SET_LIST)
        return "%p.%e";
    if (!set->pack && set->kind == SET_FRAMES)
        return !format || strcmp(format, "webp") == 0 ? "%a.webp"
               : strcmp(format, "avif") == 0          ? "%a.avif"
                                                      : "%p.%e";
    snprintf(name, 32, "%s.%.8s", set->kind == SET_LIST ? "%i" : "%a", array ? format : "tar");
    return name;
}

static void check_array(const struct set_options *set, struct ctl *ctl, const char *out)
{
    const char *name = ctl_value(ctl, "format");
    const struct format *format = name ? format_by_name(name) : format_of_path(out);
    if (set->pack && strcmp(set->pack, "array") == 0 && (!format || !format->tensor))
        ctl_usage(ctl, "--pack=array needs --format=npy or --format=raw");
}

void set_options_read_out(const struct set_options *set, struct ctl *ctl, const char *out,
                          bool keys, char pattern[PATH_MAX])
{
    char name[32];
    size_t length = strlen(out);
    bool is_url = source_is_url(out);
    if (length + sizeof name > PATH_MAX) /* uncovered: slip */
        ctl_usage(ctl, "--out is too long");
    check_array(set, ctl, out);
    bool folder = !set_pattern_names_images(out) && !ends_in_tar(out) &&
                  (out[length - 1] == '/' || (!strchr(out, '%') && !format_of_path(out)));
    snprintf(pattern, PATH_MAX, "%s%s%s", strcmp(out, ".") == 0 ? "" : out,
             folder && out[length - 1] != '/' && strcmp(out, ".") != 0 ? "/" : "",
             folder ? name_in_folder(set, ctl, name) : "");
    bool tar = ends_in_tar(pattern) || is_movie(set, ctl_value(ctl, "format"), pattern);
    bool whole = set->pack || (tar && !is_url);
    if (whole && (is_url || keys))
        ctl_usage(ctl, "--out is \"%s\"; a tar is written to a path below output_root, not %s", out,
                  is_url ? "to a URL" : "with --keys");
    if (whole && set_pattern_names_images(pattern))
        ctl_usage(ctl,
                  "--out is \"%s\"; a tar or an array holds all images of a job, so its name "
                  "cannot have %%p or %%n; use %s",
                  out,
                  set->kind == SET_ARCHIVE  ? "%a, the archive's name"
                  : set->kind == SET_FRAMES ? "%a, the animation's name"
                                            : "%i, the job's number");
    if (!whole && !set_pattern_names_images(pattern))
        ctl_usage(ctl,
                  "--out is \"%s\", one file for many images; put %%p or %%n into it, end it "
                  "in %s.tar, or give --pack",
                  out, set->kind == SET_FRAMES ? ".webp, .avif or " : "");
}

/* ---- the job -------------------------------------------------------------------------------- */

bool set_options_add_job(const struct set_options *set, cJSON *job)
{
    return !set->on_error || cJSON_AddStringToObject(job, "on_error", set->on_error);
}

bool set_options_add_output(const struct set_options *set, cJSON *output)
{
    return !set->pack || cJSON_AddStringToObject(output, "pack", set->pack);
}
