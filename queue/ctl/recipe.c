#include "queue/ctl/recipe.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "conf/suffix.h"
#include "conf/text.h"
#include "queue/ctl/ops.h"
#include "queue/job.h"
#include "queue/json.h"

/* A result that nobody fetches, because this client died, goes away by itself. */
#define OUTPUT_TTL_S 3600

/* ---- from the command line ---------------------------------------------------------------- */

static int read_ops(struct recipe *recipe, struct ctl *ctl)
{
    const char *text = ctl_value(ctl, "ops"), *file = ctl_value(ctl, "ops-file");
    struct error error = {0};
    if (text && file)
        return ctl_usage(ctl, "--ops and --ops-file say both what is to be done");
    if (text)
        recipe->ops = ops_parse(text, &error);
    else if (file)
        recipe->ops = ops_load(file, &error);
    if (error.status == STATUS_INPUT_UNREADABLE) {
        ctl_say("%s", error.text);
        return CTL_NO_INPUT;
    }
    return error.status ? ctl_usage(ctl, "%s", error.text) : CTL_OK;
}

/* --set=key=value, as often as there are keys. */
static int read_extra(struct recipe *recipe, struct ctl *ctl)
{
    struct error ignored;
    recipe->extra = cJSON_CreateObject();
    for (int i = 0; i < ctl->value_count; i++) {
        const char *text = ctl->values[i].value, *equals = strchr(text, '=');
        if (strcmp(ctl->values[i].name, "set") != 0)
            continue;
        if (!equals || equals == text)
            return ctl_usage(ctl, "--set is \"%s\"; it must be a job's key, = and its value", text);
        char *key = strndup(text, (size_t)(equals - text));
        ignored = (struct error){0};
        bool is_json = json_check(equals + 1, strlen(equals + 1), NULL, &ignored) == STATUS_OK;
        cJSON *value = is_json ? cJSON_CreateRaw(equals + 1) : cJSON_CreateString(equals + 1);
        bool ok = key && value && cJSON_AddItemToObject(recipe->extra, key, value);
        free(key);
        if (!ok) {
            cJSON_Delete(value);
            ctl_say("out of memory for --set");
            return CTL_FAULT;
        }
    }
    if (*recipe->reply_to && (cJSON_HasObjectItem(recipe->extra, "meta") ||
                              cJSON_HasObjectItem(recipe->extra, "reply_to")))
        return ctl_usage(ctl, "--wait and --keys have a use of their own for meta and reply_to");
    return CTL_OK;
}

static bool has_picture_suffix(const char *name)
{
    return source_is_picture(source_suffix(name));
}

static int check_format(const struct recipe *recipe, const struct ctl *ctl)
{
    const char *format = recipe->format;
    if (!format || strcmp(format, "jpeg") == 0 || strcmp(format, "png") == 0)
        return CTL_OK;
    return ctl_usage(ctl, "--format is \"%s\"; it must be jpeg or png", format);
}

static int read_out(struct recipe *recipe, struct ctl *ctl)
{
    const char *out = ctl_value(ctl, "out");
    const char *root = recipe->output_root;
    size_t length = strlen(root);
    if (ctl_value(ctl, "no-output"))
        return out ? ctl_usage(ctl, "--out and --no-output say both where results go") : CTL_OK;
    if (!out || !*out)
        return ctl_usage(ctl, "--out is missing: a folder, or a pattern such as edges/%%n.png; "
                              "--no-output where the values of operations are all that you want");
    if (!recipe->keys && *out == '/') {
        if (strncmp(out, root, length) != 0 || out[length] != '/' || !out[length + 1])
            return ctl_usage(ctl, "--out is \"%s\", which is not below output_root (%s); with "
                                  "--keys it may be anywhere", out, root);
        out += length + 1;
    }
    if (suffix_of_others(out) && !recipe->format)
        return ctl_usage(ctl, "--out is \"%s\", which ends in %s; jpg, jpeg and png are written",
                         out, suffix_of_others(out));
    bool pattern = strchr(out, '%') != NULL, folder = !pattern && !has_picture_suffix(out);
    recipe->single = !pattern && !folder;
    const char *slash = folder && out[strlen(out) - 1] != '/' ? "/" : "";
    if (strlen(out) + 20 > sizeof recipe->out)
        return ctl_usage(ctl, "--out is too long");
    if (strcmp(out, ".") == 0 && !recipe->keys)
        strcpy(recipe->out, "%p%n.%e");
    else
        snprintf(recipe->out, sizeof recipe->out, "%s%s%s", out, slash, folder ? "%p%n.%e" : "");
    return CTL_OK;
}

static int read_roots(struct recipe *recipe, struct ctl *ctl)
{
    if (recipe->keys)
        return CTL_OK;
    if (!realpath(ctl->options.input_root, recipe->input_root)) {
        ctl_say("input_root is %s: %s; --keys sends pictures through Redis",
                ctl->options.input_root, strerror(errno));
        return CTL_NO_INPUT;
    }
    if (!realpath(ctl->options.output_root, recipe->output_root)) /* daemons elsewhere may see it */
        text_copy(recipe->output_root, sizeof recipe->output_root, ctl->options.output_root);
    return CTL_OK;
}

/* A name that no other submit has, whatever its host and pid. */
static void name_run(struct recipe *recipe)
{
    uint64_t dice = 0;
    if (getrandom(&dice, sizeof dice, 0) != (ssize_t)sizeof dice)
        dice = (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
    snprintf(recipe->run, sizeof recipe->run, "ctl-%016" PRIx64, dice);
}

int recipe_read(struct recipe *recipe, struct ctl *ctl)
{
    memset(recipe, 0, sizeof *recipe);
    recipe->keys = ctl_value(ctl, "keys") != NULL;
    recipe->ns = ctl->options.namespace;
    recipe->format = ctl_value(ctl, "format");
    recipe->id = ctl_value(ctl, "id");
    name_run(recipe);
    if (recipe->keys || ctl_value(ctl, "wait"))
        snprintf(recipe->reply_to, sizeof recipe->reply_to, "%s:reply:%s", recipe->ns,
                 recipe->run);
    if (!ctl_number(ctl, "quality", 1, 100, &recipe->quality))
        return CTL_USAGE;
    int status = check_format(recipe, ctl);
    status = status ? status : read_ops(recipe, ctl);
    status = status ? status : read_extra(recipe, ctl);
    status = status ? status : read_roots(recipe, ctl);
    return status ? status : read_out(recipe, ctl);
}

void recipe_clear(struct recipe *recipe)
{
    cJSON_Delete(recipe->ops);
    cJSON_Delete(recipe->extra);
    recipe->ops = recipe->extra = NULL;
}

/* ---- patterns ------------------------------------------------------------------------------ */

static bool append(char *to, size_t size, const char *text, size_t length)
{
    size_t at = strlen(to);
    if (at + length + 1 > size)
        return false;
    memcpy(to + at, text, length);
    to[at + length] = '\0';
    return true;
}

static bool expand(const char *pattern, const struct recipe *recipe,
                   const struct source_file *file, uint64_t number, char *to, size_t size)
{
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    const char *suffix = source_suffix(name);
    const char *format = !recipe->format                        ? suffix
                         : strcmp(recipe->format, "jpeg") == 0 ? "jpg"
                                                                : recipe->format;
    size_t stem = strlen(name) - strlen(suffix) - (*suffix ? 1 : 0);
    char digits[24];
    bool ok = true;
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    *to = '\0';
    for (; *pattern && ok; pattern++) {
        if (*pattern == '.' && pattern[1] == '%' && pattern[2] == 'e' && !*format)
            pattern += 2; /* a name without a suffix stays one */
        else if (*pattern != '%')
            ok = append(to, size, pattern, 1);
        else if (*++pattern == 'n')
            ok = append(to, size, name, stem);
        else if (*pattern == 'e')
            ok = append(to, size, format, strlen(format));
        else if (*pattern == 'p')
            ok = append(to, size, file->within, strlen(file->within));
        else if (*pattern == 'i')
            ok = append(to, size, digits, strlen(digits));
        else
            ok = *pattern == '%' && append(to, size, "%", 1);
    }
    return ok;
}

bool recipe_place(const struct recipe *recipe, const struct source_file *file, uint64_t number,
                  char out[PATH_MAX], struct error *error)
{
    *out = '\0';
    if (*recipe->out && !expand(recipe->out, recipe, file, number, out, PATH_MAX)) {
        error_set(error, STATUS_BAD_JOB, "the pattern %s makes no name: it is too long, or a %% "
                  "stands before something other than n, e, p, i and %%", recipe->out);
        return false;
    }
    return true;
}

/* ---- the job ------------------------------------------------------------------------------- */

void recipe_keys(const struct recipe *recipe, uint64_t number, char in[320], char out[320])
{
    snprintf(in, 320, "%s:img:%s:%" PRIu64, recipe->ns, recipe->run, number);
    snprintf(out, 320, "%s:img:%s:%" PRIu64 ":out", recipe->ns, recipe->run, number);
}

/* The file's path below input_root, or false with a sentence. */
static bool below_root(const struct recipe *recipe, const struct source_file *file,
                       char path[PATH_MAX], const char **below, struct error *error)
{
    const char *root = recipe->input_root;
    size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (!realpath(file->path, path)) {
        error_set(error, STATUS_INPUT_MISSING, "%s", strerror(errno));
        return false;
    }
    if (strncmp(path, root, length) != 0 || path[length] != '/') {
        error_set(error, STATUS_PATH_REFUSED,
                  "it is not below input_root (%.120s), where daemons look; copy it there, or send "
                  "it through Redis with --keys", root);
        return false;
    }
    *below = path + length + 1;
    return true;
}

static bool add_input(const struct recipe *recipe, cJSON *job, const char *path, const char *key)
{
    if (!recipe->keys)
        return cJSON_AddStringToObject(job, "input", path) != NULL;
    cJSON *input = cJSON_AddObjectToObject(job, "input");
    return input && cJSON_AddStringToObject(input, "key", key);
}

/* A pattern for a key's format: the key has no suffix that could tell. */
static const char *format_of(const struct recipe *recipe, const char *out)
{
    const char *suffix = source_suffix(out);
    if (recipe->format || !recipe->keys || !source_is_picture(suffix))
        return recipe->format;
    return strcasecmp(suffix, "png") == 0 ? "png" : "jpeg";
}

static bool add_output(const struct recipe *recipe, cJSON *job, const char *out, const char *key)
{
    const char *format = format_of(recipe, out);
    if (!*recipe->out)
        return true;
    if (!recipe->keys && !format && recipe->quality == 0)
        return cJSON_AddStringToObject(job, "output", out) != NULL;
    cJSON *output = cJSON_AddObjectToObject(job, "output");
    return output &&
           cJSON_AddStringToObject(output, recipe->keys ? "key" : "path",
                                   recipe->keys ? key : out) &&
           (!format || cJSON_AddStringToObject(output, "format", format)) &&
           (recipe->quality == 0 ||
            cJSON_AddNumberToObject(output, "quality", recipe->quality)) &&
           (!recipe->keys || cJSON_AddNumberToObject(output, "ttl_s", OUTPUT_TTL_S));
}

/* A name for people; one that is no UTF-8 gets question marks. */
static bool add_meta(cJSON *job, const char *name, uint64_t number)
{
    char shown[PATH_MAX];
    cJSON *meta = cJSON_AddObjectToObject(job, "meta");
    text_copy(shown, sizeof shown, name);
    text_make_printable(shown);
    return meta && cJSON_AddNumberToObject(meta, "n", (double)number) &&
           cJSON_AddStringToObject(meta, "file", shown);
}

static bool add_extra(const struct recipe *recipe, cJSON *job)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, recipe->extra)
    {
        cJSON *copy = cJSON_Duplicate(item, true);
        if (!copy || !cJSON_AddItemToObject(job, item->string, copy)) {
            cJSON_Delete(copy);
            return false;
        }
    }
    return true;
}

static bool add_time(cJSON *job)
{
    char text[32];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(text, sizeof text, "%lld.%03ld", (long long)now.tv_sec, now.tv_nsec / 1000000);
    return cJSON_AddRawToObject(job, "pushed", text) != NULL;
}

static char *write_job(const struct recipe *recipe, const struct source_file *file,
                       uint64_t number, const char *input, const char *out, const char *id)
{
    char in_key[320], out_key[320], *text = NULL;
    recipe_keys(recipe, number, in_key, out_key);
    cJSON *job = cJSON_CreateObject();
    if (job && add_input(recipe, job, input, in_key) && add_output(recipe, job, out, out_key) &&
        (!recipe->ops ||
         cJSON_AddItemReferenceToObject(job, "ops", recipe->ops)) &&
        (!id || cJSON_AddStringToObject(job, "id", id)) &&
        (!*recipe->reply_to ||
         (add_meta(job, file->path, number) &&
          cJSON_AddStringToObject(job, "reply_to", recipe->reply_to))) &&
        (cJSON_HasObjectItem(recipe->extra, "pushed") || add_time(job)) && add_extra(recipe, job))
        text = cJSON_PrintUnformatted(job);
    cJSON_Delete(job);
    return text;
}

char *recipe_job(const struct recipe *recipe, const struct source_file *file, uint64_t number,
                 struct error *error)
{
    char path[PATH_MAX], out[PATH_MAX], id[PATH_MAX];
    const char *input = NULL;
    struct job job;
    /* The time is bounded by the daemon's own option, which need not be this host's. */
    struct job_rules rules = {recipe->ns, 86400};
    if ((!recipe->keys && !below_root(recipe, file, path, &input, error)) ||
        !recipe_place(recipe, file, number, out, error))
        return NULL;
    if (recipe->id && !expand(recipe->id, recipe, file, number, id, sizeof id)) {
        error_set(error, STATUS_BAD_JOB, "the pattern %s makes no id", recipe->id);
        return NULL;
    }
    char *text = write_job(recipe, file, number, input, out, recipe->id ? id : NULL);
    if (!text) {
        error_set(error, STATUS_OUT_OF_MEMORY, "out of memory for a job");
        return NULL;
    }
    enum status status = job_parse(&job, text, strlen(text), &rules, error);
    job_clear(&job);
    if (status == STATUS_OK)
        return text;
    free(text);
    return NULL;
}
