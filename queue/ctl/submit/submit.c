/* submit.c - gpuimgctl submit: sends images as jobs, in batches, and reads their results. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "conf/clock.h"
#include "conf/format.h"
#include "conf/text.h"
#include "queue/ctl/ctl.h"
#include "queue/ctl/out.h"
#include "queue/ctl/progress.h"
#include "queue/ctl/screen/overviews.h"
#include "queue/ctl/show.h"
#include "queue/ctl/submit/batch.h"
#include "queue/ctl/submit/key_transfer.h"
#include "queue/ctl/submit/result_reader.h"
#include "queue/ctl/submit/output_file.h"
#include "queue/ctl/submit/job_template.h"
#include "queue/ctl/submit/shard_choice.h"
#include "queue/ctl/submit/source.h"

/* Pause between polls for results, in seconds. While no results arrive, it grows from the first
 * value to the second one. */
#define POLL_FIRST_S 0.005
#define POLL_LAST_S  0.1
/* Seconds without a result before submit checks whether a daemon runs. */
#define QUIET_S 3
/* The most refused images that messages name: a wrong folder may have thousands. */
#define REFUSALS_SHOWN 10

const struct ctl_option ctl_submit_options[] = {
    {"out", 'o', "OUT", "output of each job: a folder, a file or a pattern"},
    {"no-output", 0, NULL, "write no images, only return the values of operations"},
    {"force", 'f', NULL, "with --keys: replace existing files, except images that are sent"},
    {"ops", 0, "OPS", "operations, separated by commas"},
    {"ops-file", 0, "FILE", "file with the operations as a JSON array"},
    {"job-file", 'j', "FILE", "file with a job to use for each image; - is standard input"},
    {"format", 0, "FORMAT", "@names@ (default: by the suffix of OUT)"},
    {"quality", 0, "N", "quality of @quality@"},
    {"set", 0, "KEY=JSON", "set another key of each job, e.g. timeout_s=5 (may be repeated)"},
    {"recursive", 'r', NULL, "send the images (@suffixes@) in folders"},
    {"null", '0', NULL, "names on standard input end with NUL, as from find -print0"},
    {"keys", 'k', NULL, "send images and results through Redis; implies --wait"},
    {"id", 0, "ID", "the job's id, for gpuimgctl result; a pattern for several jobs"},
    {"first", 0, NULL, "put the jobs at the head of their list (RPUSH)"},
    {"priority", 'p', "N", "put the jobs in the list of this priority: 0 to 9 (most urgent)"},
    {"wait", 'w', NULL, "wait for the results and show them as they arrive"},
    {"timeout", 0, "SECONDS", "wait no longer than this"},
    {"verbose", 'v', NULL, "print a line for each job, even on a terminal"},
    {0}};

struct submit {
    struct ctl *ctl;
    struct job_template template;
    struct source source;
    struct key_transfer transfer;
    struct output_names outputs; /* names of the outputs so far */
    struct output_file_rules rules;
    struct result_reader reader;
    struct progress progress;
    bool wait, first, source_ended; /* source_ended: there are no more images */
    double timeout_s;          /* 0: none */
    uint64_t number;           /* the last image's number */
    struct batch batch;
    struct shard_choice choice;
    double quiet_since_s, poll_s;      /* time of the last result; pause before the next poll */
    uint64_t notified_away;            /* bit i: the user was told that shard i is away */
    bool notified_idle;                /* the user was told that no daemon fetches jobs */
    bool shard_lost;           /* jobs were not sent because their shard is away */
    bool output_refused;       /* an image was refused because of its output's name */
    bool scanned;              /* `rules` has all images on the command line */
    bool names_full;           /* `outputs` is full */
    int status;                /* exit status; not 0: the submit is over */
};

/* ---- sending ------------------------------------------------------------------------------ */

static uint64_t bit_of(const struct ctl_shard *shard)
{
    return (uint64_t)1 << shard->index;
}

static bool is_late(const struct submit *submit)
{
    return submit->wait && submit->timeout_s > 0 &&
           clock_now_s() - submit->progress.began_s > submit->timeout_s;
}

/* Tells the user once that the shard in use is away, and that submit waits for it. */
static void on_away(void *context)
{
    struct submit *submit = context;
    struct ctl *ctl = submit->ctl;
    char number[32];
    snprintf(submit->progress.note, sizeof submit->progress.note, "%s is away; trying again",
             ctl_is_sharded(ctl) ? ctl_shard_text(ctl, "shard %u", number) : "Redis");
    submit->quiet_since_s = clock_now_s();
    if (submit->notified_away & bit_of(ctl->shard)) {
        progress_draw(&submit->progress);
        return;
    }
    ctl_say("%s%s; waiting until it is back", ctl_shard_text(ctl, "shard %u is away: ", number),
            client_why(ctl->client));
    submit->notified_away |= bit_of(ctl->shard);
}

/* Call after a push of `count` jobs to the shard in use failed. Returns true if they are to be sent
 * again. After a lost reply they may be in the queue already. A submit that waits may send them
 * twice even so, because result_reader delivers each result once. */
static bool retries_batch(struct submit *submit, size_t count, const redisReply *reply)
{
    if (!submit->wait || !client_is_transient(reply))
        return false;
    on_away(submit);
    if (!reply) /* uncovered: gone */
        ctl_say("Redis did not reply: the last %zu jobs are sent again, and some may run twice",
                count);
    else
        client_pause(submit->ctl->client, POLL_LAST_S);
    return true;
}

/* Without --wait, prints the ids of the shard in use for a later gpuimgctl result. */
static void print_ids(struct submit *submit)
{
    const struct batch_job *job;
    for (size_t at = 0; (job = batch_next(&submit->batch, submit->ctl->shard, &at));) {
        if (submit->ctl->json) {
            cJSON *line = cJSON_CreateObject();
            if (*job->id)
                cJSON_AddStringToObject(line, "id", job->id);
            ctl_add_shard(submit->ctl, line);
            cJSON_AddStringToObject(line, "file", job->file);
            ctl_print_json(submit->ctl, line);
        } else if (*job->id) {
            out_line("%s", job->id);
        }
    }
}

static void say_unsure_ids(struct submit *submit)
{
    const struct ctl_shard *shard = submit->ctl->shard;
    size_t at = 0;
    const struct batch_job *first = batch_next(&submit->batch, shard, &at), *last = first, *job;
    while ((job = batch_next(&submit->batch, shard, &at)))
        last = job;
    if (*first->id)
        ctl_say("the last few have the ids from %s to %s", first->id, last->id);
}

/* Tells the user that a push of `count` jobs to the shard in use failed; without an answer, Redis
 * may have run it. With one shard, this ends the submit. */
static void say_unsure(struct submit *submit, size_t count, bool answered)
{
    struct ctl *ctl = submit->ctl;
    if (ctl_is_sharded(ctl)) { /* uncovered: gone */
        submit->shard_lost = true;
        submit->progress.refused += count;
        ctl_say("the last %zu jobs of shard %u %s", count, ctl->shard->index,
                answered ? "were not sent" : "may or may not be in the queue");
    } else {
        submit->status = CTL_UNAVAILABLE;
        ctl_say("%s", client_why(ctl->client));
        ctl_say("%" PRIu64 " jobs were sent before; %s", submit->progress.sent,
                answered ? "no more are sent"
                         : "Redis went away before it replied, so the last few may or may not be "
                           "in the queue");
    }
    if (!answered)
        say_unsure_ids(submit);
    if (ctl_is_sharded(ctl)) /* uncovered: gone */
        ctl_lose(ctl);
}

/* Sends the push of the jobs of the shard in use. Returns their number. */
static size_t send_jobs(struct submit *submit)
{
    const struct ctl_shard *shard = submit->ctl->shard;
    char list[SUBMIT_KEY_BYTES];
    if (submit->wait && !client_up(shard->client))
        return 0;
    job_template_list(&submit->template, shard, list);
    return batch_send(&submit->batch, shard, submit->first ? "RPUSH" : "LPUSH", list);
}

static void take_push(struct submit *submit, size_t count)
{
    struct ctl *ctl = submit->ctl;
    redisReply *reply = client_take(ctl->client);
    bool sent = client_reply_ok(ctl->client, reply, submit->first ? "RPUSH" : "LPUSH");
    bool again = !sent && retries_batch(submit, count, reply);
    if (sent) {
        submit->progress.sent += count;
        if (!submit->wait)
            print_ids(submit);
    } else if (!again) {
        say_unsure(submit, count, reply != NULL);
    }
    freeReplyObject(reply);
    if (!again)
        batch_clear(&submit->batch, ctl->shard);
}

/* Sends the pushes of all shards before it awaits the first reply, so that the servers work at the
 * same time. */
static void push_batch(struct submit *submit)
{
    struct ctl *ctl = submit->ctl;
    size_t sent[SHARDS_MAX] = {0};
    for (uint32_t i = 0; i < ctl->shard_count && submit->batch.count > 0 && !submit->status; i++)
        if (ctl->shards[i].client) {
            ctl_use(ctl, i);
            sent[i] = send_jobs(submit);
        }
    for (uint32_t i = 0; i < ctl->shard_count; i++)
        if (sent[i] > 0) {
            ctl_use(ctl, i);
            take_push(submit, sent[i]);
        }
}

static void refuse(struct submit *submit, const char *name, const struct error *error)
{
    if (submit->progress.refused < REFUSALS_SHOWN)
        ctl_say("%s%s%s", name ? name : "", name ? ": " : "",
                error ? error->text : submit->source.why);
    else if (submit->progress.refused == REFUSALS_SHOWN)
        ctl_say("and so on; further images that are not sent are only counted");
    submit->progress.refused++;
    /* All jobs come from one template, so an error in the first job is in all of them. */
    if (error && submit->progress.sent == 0 && submit->batch.count == 0 && submit->number == 1 &&
        (error->status == STATUS_BAD_JOB || error->status == STATUS_BAD_JSON))
        ctl_usage(submit->ctl, "nothing was sent");
}

/* Ends the program if the second image has the output or the id of the first one. */
static void require_pattern(struct submit *submit)
{
    const struct job_template *template = &submit->template;
    const char *id = template->id && !strchr(template->id, '%') ? template->id : NULL;
    if (submit->number != 2 || (!template->single && !id))
        return;
    if (template->single)
        ctl_usage(submit->ctl, "all results would be written to %s; a pattern such as "
                  "edges/%%n.png, or a folder, tells them apart", template->single);
    ctl_usage(submit->ctl, "all jobs would have the id %s; a pattern such as %s-%%i tells them "
              "apart", id, id);
}

/* ---- outputs ------------------------------------------------------------------------------- */

/* Returns the path or URL of an output; NULL: it has neither. */
static const char *destination_of(const struct job_image *image, size_t index)
{
    return image->outs[index] ? image->outs[index] : image->urls[index];
}

/* Whether another image has an output with the same name, for example cat.jpg and cat.png, or
 * a/1.png and b/1.png: one of the two outputs would be lost. */
static bool is_output_taken(const struct submit *submit, const struct job_image *image,
                            size_t index, struct error *error)
{
    const char *out = destination_of(image, index),
               *holder = output_names_find(&submit->outputs, out);
    char shown[PATH_MAX];
    text_copy(shown, sizeof shown, out);
    if (image->urls[index])
        text_copy_url(shown, sizeof shown, out);
    if (holder)
        error_set(error, STATUS_PATH_REFUSED, "not sent: %.120s already has the output %.120s; use "
                  "%%i or %%p in --out to distinguish them", holder, shown);
    for (size_t i = 0; i < index; i++)
        if (destination_of(image, i) && strcmp(destination_of(image, i), out) == 0)
            error_set(error, STATUS_PATH_REFUSED, "not sent: two of its outputs are %.200s",
                      shown);
    return error->status != STATUS_OK;
}

/* Adds all images on the command line to `rules`, so that no output replaces an image that is sent
 * later. */
static void add_operands(struct submit *submit)
{
    struct source_file file;
    enum source_result found;
    submit->scanned = true;
    for (int i = 0; i < submit->source.options.count; i++) {
        struct source source = {.options = submit->source.options};
        source.options.names += i;
        source.options.count = strcmp(*source.options.names, "-") != 0;
        while ((found = source_next(&source, &file)) != SOURCE_END)
            if (found == SOURCE_FILE)
                output_file_add_input(&submit->rules, file.path);
    }
}

static bool would_overwrite(struct submit *submit, const char *out, struct error *error)
{
    char path[2 * PATH_MAX];
    struct stat about;
    bool keys = submit->template.keys;
    snprintf(path, sizeof path, "%s%s%s", keys ? "" : submit->template.output_root, keys ? "" : "/",
             out);
    if (lstat(path, &about) != 0)
        return false;
    if (!submit->scanned)
        add_operands(submit);
    /* Without --keys the daemon writes the file, and may replace older results. */
    if (keys || output_file_input(&submit->rules, path))
        output_file_check(&submit->rules, path, error);
    return error->status != STATUS_OK;
}

static bool check_outputs(struct submit *submit, const struct job_image *image,
                          struct error *error)
{
    for (size_t i = 0; i < JOB_OUTPUTS_MAX && !error->status; i++)
        if (destination_of(image, i))
            submit->output_refused |=
                is_output_taken(submit, image, i, error) ||
                (image->outs[i] && would_overwrite(submit, image->outs[i], error));
    return error->status == STATUS_OK;
}

static void add_output_names(struct submit *submit, const struct job_image *image)
{
    for (size_t i = 0; i < JOB_OUTPUTS_MAX && !submit->names_full; i++) {
        const char *place = destination_of(image, i);
        submit->names_full =
            place && !output_names_add(&submit->outputs, place, image->file.name);
        if (submit->names_full)
            ctl_say("after %" PRIu64 " images the table of output names is full: further outputs "
                    "with the same name are not detected", submit->number);
    }
}

/* ---- images -------------------------------------------------------------------------------- */

/* With --keys, uploads the image and the overlays. Returns false if that fails, with `error` set,
 * or without if the user interrupted the submit or --timeout is over. */
static bool upload(struct submit *submit, const struct job_image *image, struct error *error)
{
    struct key_transfer *transfer = &submit->transfer;
    if (!submit->template.keys ||
        (overlay_files_upload(&submit->template.overlays, image->shard, transfer->bytes_max,
                              &transfer->redis_lost, error) &&
         key_transfer_upload(transfer, image, error)))
        return true;
    if (transfer->redis_lost && !client_interrupted() && !is_late(submit))
        ctl_no_answer(submit->ctl); /* uncovered: gone */
    return false;
}

/* Returns the text of an image's job, or NULL with `error` set. */
static char *make_job(struct submit *submit, struct job_image *image, char id[PATH_MAX],
                      struct error *error)
{
    const struct job_template *template = &submit->template;
    if (!job_template_name_outputs(template, image, error) ||
        !check_outputs(submit, image, error) ||
        !job_template_name_id(template, image, id, error))
        return NULL;
    if (!shard_choice_next(&submit->choice, id, error)) {
        submit->shard_lost = true;
        return NULL;
    }
    image->shard = submit->ctl->shard;
    return job_template_fill(template, image, id, error);
}

static void add_image(struct submit *submit, const struct source_file *file)
{
    struct error error = {0};
    struct job_image image = {.file = *file, .number = ++submit->number};
    char *name = strdup(file->name), *job = NULL, id[PATH_MAX];
    output_file_add_input(&submit->rules, file->path);
    require_pattern(submit);
    if (!name)
        error_set(&error, STATUS_OUT_OF_MEMORY, "out of memory for the image's name");
    else
        job = make_job(submit, &image, id, &error);
    if (job && upload(submit, &image, &error)) {
        batch_add(&submit->batch, image.shard, job, name, id);
        add_output_names(submit, &image);
        if (submit->template.keys)
            key_transfer_hold(&submit->transfer, &image);
    } else {
        free(job);
        free(name);
        if (error.status)
            refuse(submit, file->name, &error);
    }
    job_image_clear(&image);
}

static bool is_waiting(const struct submit *submit)
{
    return submit->source_ended || !source_ready(&submit->source) ||
           (submit->template.keys && submit->transfer.used == KEY_TRANSFER_IMAGES);
}

static void send_some(struct submit *submit)
{
    struct source_file file;
    while (!submit->status && !batch_is_full(&submit->batch) && !client_interrupted() &&
           !is_waiting(submit)) {
        enum source_result found = source_next(&submit->source, &file);
        if (found == SOURCE_FILE)
            add_image(submit, &file);
        else if (found == SOURCE_BAD)
            refuse(submit, NULL, NULL);
        else
            submit->source_ended = source_ready(&submit->source);
    }
    push_batch(submit);
}

/* ---- results ------------------------------------------------------------------------------ */

static void say_unwritten(const char *file, const cJSON *unwritten)
{
    const cJSON *item;
    char left[SHOW_BYTES];
    cJSON_ArrayForEach(item, unwritten)
        if (*show_text(item, "key"))
            ctl_say("%s: the result cannot be written: %s; Redis keeps it for another %s under the "
                    "key %s", file, show_text(item, "message"),
                    show_age(show_number(item, "left_s"), left), show_text(item, "key"));
        else
            ctl_say("%s: the result cannot be written: %s", file, show_text(item, "message"));
}

static void on_result(void *context, const cJSON *result, const char *text, uint64_t number,
                      const char *file)
{
    struct submit *submit = context;
    struct key_transfer *transfer = &submit->transfer;
    cJSON *unwritten =
        submit->template.keys ? key_transfer_download(transfer, number, result) : NULL;
    say_unwritten(file, unwritten);
    progress_result(&submit->progress, result, text, file, key_transfer_outs(transfer, number),
                    unwritten);
    if (submit->template.keys)
        key_transfer_end(transfer, number, show_text(result, "status"), unwritten);
    cJSON_Delete(unwritten);
    submit->quiet_since_s = clock_now_s();
    submit->progress.note[0] = '\0';
}

static bool is_over(const struct submit *submit)
{
    return submit->source_ended && submit->batch.count == 0 &&
           (!submit->wait || progress_ended(&submit->progress) >= submit->progress.sent);
}

/* After a long time without results, tells the user if no daemon runs or fetching is paused. */
static void look_for_daemons(struct submit *submit)
{
    struct overviews all;
    const char *why = NULL;
    submit->quiet_since_s = clock_now_s();
    if (!overviews_read(&all, submit->ctl, false, true))
        return; /* uncovered: gone */
    if (all.sum.daemon_count == 0)
        why = "no gpuimgd is running";
    else if (all.sum.paused)
        why = "fetching jobs is paused (gpuimgctl resume)";
    snprintf(submit->progress.note, sizeof submit->progress.note, "%s", why ? why : "");
    if (why && !submit->notified_idle) {
        ctl_say("%s on %s with the namespace %s: the jobs wait, and stay there after Ctrl-C", why,
                show_redis(submit->ctl->options.redis), submit->ctl->options.namespace);
        submit->notified_idle = true;
    }
    overviews_clear(&all);
}

/* Reads the results of the shard in use. With several shards, does nothing if the shard is away. */
static bool read_shard(struct submit *submit, size_t *taken)
{
    struct ctl *ctl = submit->ctl;
    bool is_one = !ctl_is_sharded(ctl);
    char list[SUBMIT_KEY_BYTES];
    job_template_reply_to(&submit->template, ctl->shard, list);
    *taken = 0;
    if ((!is_one && !client_up(ctl->client)) ||
        !result_reader_take(&submit->reader, ctl->client, list, is_one, taken)) {
        if (submit->reader.refused && !is_one)
            ctl_no_answer(ctl); /* uncovered: gone */
        if (!is_one && !ctl->shard->away)
            on_away(submit);
        return false;
    }
    if (submit->notified_away & bit_of(ctl->shard))
        submit->progress.note[0] = '\0';
    submit->notified_away &= ~bit_of(ctl->shard);
    ctl->shard->away = false;
    return true;
}

/* Reads the available results, and pauses if nothing else can be done. */
static void read_results(struct submit *submit)
{
    struct ctl *ctl = submit->ctl;
    size_t taken = 0, each;
    for (uint32_t i = 0; i < ctl->shard_count; i++) {
        if (!ctl->shards[i].client)
            continue;
        ctl_use(ctl, i);
        if (!read_shard(submit, &each) && !ctl_is_sharded(ctl)) {
            if (!client_interrupted() && !is_late(submit)) /* uncovered: gone */
                ctl_no_answer(ctl);
            return;
        }
        taken += each;
    }
    if (taken > 0) {
        submit->poll_s = POLL_FIRST_S;
    } else if (!submit->status && !client_interrupted()) {
        if (clock_now_s() - submit->quiet_since_s > QUIET_S && submit->progress.sent > 0)
            look_for_daemons(submit);
        progress_draw(&submit->progress);
        if (is_waiting(submit) || batch_is_full(&submit->batch)) {
            client_pause(ctl->client, submit->poll_s);
            submit->poll_s = submit->poll_s * 2 < POLL_LAST_S ? submit->poll_s * 2 : POLL_LAST_S;
        }
    }
    progress_draw(&submit->progress);
}

/* ---- the submit --------------------------------------------------------------------------- */

static void say_left(struct submit *submit, const char *why)
{
    uint64_t sent = submit->progress.sent, ended = progress_ended(&submit->progress);
    const char *rest =
        submit->source_ended && submit->batch.count == 0 ? "" : "; further images were not sent";
    char list[SUBMIT_KEY_BYTES];
    const char *others = ctl_is_sharded(submit->ctl) ? " and its like in the other shards" : "";
    if (!submit->wait) { /* uncovered: gone */
        ctl_say("%s: %" PRIu64 " jobs were sent%s", why, sent, rest);
        return;
    }
    ctl_say("%s: %" PRIu64 " of %" PRIu64 " jobs have ended%s", why, ended, sent, rest);
    if (sent <= ended) /* uncovered: gone */
        return;
    job_template_reply_to(&submit->template, submit->ctl->shard, list);
    ctl_say("%" PRIu64 " go on in the background; their results go to the list %s%s and stay "
            "there for %g s; %s",
            sent - ended, list, others, submit->ctl->options.result_ttl_s,
            submit->template.id ? "gpuimgctl result --wait shows them by their ids"
                                : "gpuimgctl status shows how many still wait or run");
    if (submit->template.keys) /* uncovered: gone */
        ctl_say("their images and results are the keys %s:img:%s:*%s, which expire within a day",
                submit->ctl->ns, submit->template.run, others);
}

static void work(struct submit *submit)
{
    while (!submit->status && !is_over(submit)) {
        send_some(submit);
        if (submit->wait && !submit->status)
            read_results(submit);
        else if (!submit->source_ended && !submit->status && !source_ready(&submit->source))
            client_pause(submit->ctl->client, POLL_LAST_S);
        if (client_interrupted()) {
            say_left(submit, "interrupted");
            submit->status = CTL_INTERRUPTED;
        } else if (is_late(submit) && !is_over(submit)) {
            say_left(submit, "the --timeout is over");
            submit->status = CTL_TIMEOUT;
        }
    }
}

/* Returns the number of images for the progress bar; 0 if standard input names some of them. */
static uint64_t count_images(const struct source_options *options)
{
    struct source source = {.options = *options};
    struct source_file file;
    uint64_t count = 0;
    for (int i = 0; i < options->count; i++)
        if (strcmp(options->names[i], "-") == 0) /* uncovered: gone */
            return 0;
    while (source_next(&source, &file) != SOURCE_END)
        count++;
    return count;
}

static int finish(struct submit *submit)
{
    struct progress *progress = &submit->progress;
    char known[FORMAT_LIST_BYTES];
    if (submit->status)
        return submit->status;
    progress_end(progress, submit->wait);
    if (submit->source.left_out > 0)
        ctl_say("%" PRIu64 " files in folders were skipped: their suffix is not %s",
                submit->source.left_out,
                format_list(FORMAT_SUFFIXES, FORMATS_READ, "%s", " or ", known));
    if (submit->shard_lost)
        return CTL_UNAVAILABLE;
    if (progress->refused > 0 && progress->sent == 0)
        return submit->output_refused ? CTL_FAILED : CTL_NO_INPUT;
    if (progress->sent == 0) {
        ctl_say("no image found to send");
        return CTL_NO_INPUT;
    }
    return progress->refused == 0 && progress->ended[PROGRESS_DONE] == progress_ended(progress)
               ? CTL_OK
               : CTL_FAILED;
}

static int run(struct submit *submit, int count, char **operands)
{
    struct ctl *ctl = submit->ctl;
    submit->source.options = (struct source_options){
        .names = operands,
        .count = count,
        .recursive = ctl_value(ctl, "recursive") != NULL,
        .nul = ctl_value(ctl, "null") != NULL,
        .input_root = submit->template.keys ? NULL : submit->template.input_root,
    };
    ctl_connect(ctl);
    submit->choice = shard_choice_begin(ctl, submit->template.made_ids, submit->wait);
    submit->transfer = (struct key_transfer){.template = &submit->template,
                                             .rules = &submit->rules,
                                             .bytes_max = ctl->options.input_bytes_max};
    submit->reader = (struct result_reader){.each = on_result, .context = submit};
    /* With --no-output the values are the result, so print a line for each job. */
    progress_begin(&submit->progress, ctl,
                   ctl_value(ctl, "verbose") || ctl_value(ctl, "no-output"));
    if (submit->progress.bar && submit->wait)
        submit->progress.total = count_images(&submit->source.options);
    submit->quiet_since_s = clock_now_s();
    submit->poll_s = POLL_FIRST_S;
    client_catch_interrupt();
    for (uint32_t i = 0; i < ctl->shard_count; i++)
        if (submit->wait && ctl->shards[i].client)
            client_retry_for(ctl->shards[i].client,
                             submit->timeout_s > 0 ? submit->timeout_s : 1e9, on_away, submit);
    work(submit);
    /* Dead jobs can be retried, and jobs that were not awaited may still run. */
    if (!submit->status && submit->progress.ended[PROGRESS_DEAD] == 0)
        overlay_files_delete(&submit->template.overlays, ctl);
    return finish(submit);
}

static void check_operands(const struct submit *submit, int count, char **operands)
{
    struct ctl *ctl = submit->ctl;
    const char *job = ctl_value(ctl, "job-file");
    if (count == 0)
        ctl_usage(ctl, "FILE is missing: give the images to send");
    if (submit->timeout_s > 0 && !submit->wait)
        ctl_usage(ctl, "--timeout has no effect without --wait or --keys");
    if (submit->rules.force && !ctl_value(ctl, "keys"))
        ctl_usage(ctl, "--force has no effect without --keys: the daemon replaces files");
    for (int i = 0; i < count; i++)
        if (job && strcmp(job, "-") == 0 && strcmp(operands[i], "-") == 0)
            ctl_usage(ctl, "--job-file and FILE are both standard input");
}

int ctl_submit(struct ctl *ctl, int count, char **operands)
{
    struct submit submit = {
        .ctl = ctl,
        .wait = ctl_value(ctl, "wait") || ctl_value(ctl, "keys"),
        .first = ctl_value(ctl, "first") != NULL,
        .rules.force = ctl_value(ctl, "force") != NULL,
        .timeout_s = ctl_number(ctl, "timeout", 0.001, 1e9, 0),
    };
    check_operands(&submit, count, operands);
    job_template_read(&submit.template, ctl);
    int status = run(&submit, count, operands);
    batch_clear(&submit.batch, NULL);
    result_reader_clear(&submit.reader);
    key_transfer_clear(&submit.transfer);
    output_names_clear(&submit.outputs);
    output_names_clear(&submit.rules.inputs);
    source_close(&submit.source);
    job_template_clear(&submit.template);
    return status;
}
