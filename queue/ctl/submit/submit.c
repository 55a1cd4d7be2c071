/* submit.c - gpuimgctl submit: sends images as jobs, in batches, and reads their results. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/clock.h"
#include "conf/format.h"
#include "conf/text.h"
#include "queue/ctl/out.h"
#include "queue/ctl/screen/overviews.h"
#include "queue/ctl/sets/archives.h"
#include "queue/ctl/show.h"
#include "queue/ctl/submit/submit.h"

/* Seconds without a result before submit checks whether a daemon runs. */
#define QUIET_S 3

const struct ctl_option ctl_submit_options[] = {
    {"out", 'o', "OUT", "output of each job: a folder, a file or a pattern"},
    {"no-output", 0, NULL, "write no images, only return the values of operations"},
    {"force", 'f', NULL, "with --keys: replace existing files, except images that are sent"},
    {"ops", 0, "OPS", "operations, separated by commas"},
    {"ops-file", 0, "FILE", "file with the operations as a JSON array"},
    {"job-file", 'j', "FILE", "file with a job to use for each image; - is standard input"},
    {"format", 0, "FORMAT", "@names@ (default: by the suffix of OUT)"},
    {"quality", 0, "N", "quality of @quality@"},
    {"recompress", 0, NULL, "make JPEG XLs of JPEGs, or again these JPEGs, without loss"},
    {"page", 0, "N", "the frame of an animation, or the page, to read, from 0"},
    {"frames", 0, "WORD",
     "of several frames: first (default), all, refuse, strip:N (side by side)"},
    {"set", 0, "KEY=JSON", "set another key of each job, or of its output: output.effort=4"},
    {"list", 0, "N", "send jobs of up to N images each, 1 to 1024, instead of one"},
    {"shards", 0, "ARCHIVE", "send a job for each archive (tar, zip); FILEs are archives, too"},
    {"pattern", 0, "GLOB", "members of archives to process, e.g. '*.jpg' (may be repeated)"},
    {"on-error", 0, "skip|fail", "an image that fails is left out (default), or fails its job"},
    {"pack", 0, "tar|array", "write all images of a job to a tar, or to one array (npy, raw)"},
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
    if (transfer->redis_lost && !client_interrupted() && !submit_is_late(submit))
        ctl_no_answer(submit->ctl); /* uncovered: gone */
    return false;
}

/* Returns the text of an image's job, or NULL with `error` set. */
static char *make_job(struct submit *submit, struct job_image *image, char id[PATH_MAX],
                      struct error *error)
{
    const struct job_template *template = &submit->template;
    if (!job_template_name_outputs(template, image, error) ||
        !output_checks_try_all(&submit->checks, image, error) ||
        !job_template_name_id(template, image, id, error))
        return NULL;
    if (!shard_choice_next(&submit->choice, id, error)) {
        submit->shard_lost = true;
        return NULL;
    }
    image->shard = submit->ctl->shard;
    return job_template_fill(template, image, id, error);
}

/* Remembers the job of an archive, whose progress the daemons publish. Without memory it has none.
 */
static void hold_archive(struct submit *submit, const struct job_image *image, const char *id)
{
    struct image_list *list = submit->wait ? image_list_new(0) : NULL;
    if (!list)
        return;
    list->image.number = image->number;
    list->image.shard = image->shard;
    text_copy(list->id, sizeof list->id, id);
    image_list_close(list);
    if (!set_jobs_hold(&submit->sets, list)) /* uncovered: memory */
        image_list_free(list);
}

static void add_image(struct submit *submit, const struct source_file *file)
{
    struct error error = {0};
    struct job_image image = {.file = *file, .number = ++submit->number};
    char *name = strdup(file->name), *job = NULL, id[PATH_MAX];
    output_file_add_input(&submit->checks.rules, file->path);
    submit_require_pattern(submit, submit->number);
    if (!name)
        error_set(&error, STATUS_OUT_OF_MEMORY, "out of memory for the image's name");
    else
        job = make_job(submit, &image, id, &error);
    if (job && upload(submit, &image, &error)) {
        batch_add(&submit->batch, image.shard, job, name, id);
        output_checks_add_all(&submit->checks, &image);
        if (submit->template.set.kind)
            hold_archive(submit, &image, id);
        if (submit->template.keys)
            key_transfer_hold(&submit->transfer, &image);
    } else {
        free(job);
        free(name);
        if (error.status)
            submit_refuse(submit, file->name, &error);
    }
    job_image_clear(&image);
}

/* Whether no further image can be sent now. */
static bool is_waiting(const struct submit *submit)
{
    return submit->source_ended || !source_ready(&submit->source) || lists_are_held(submit) ||
           (submit->template.keys && submit->transfer.used == KEY_TRANSFER_IMAGES);
}

/* Whether lists that are not full are sent: no image comes that could fill them. */
static bool ends_lists(const struct submit *submit)
{
    return submit->open_count > 0 && (submit->source_ended || lists_are_held(submit));
}

static void send_some(struct submit *submit)
{
    struct source_file file;
    while (!submit->status && !batch_is_full(&submit->batch) && !client_interrupted() &&
           !is_waiting(submit)) {
        enum source_result found = source_next(&submit->source, &file);
        if (found == SOURCE_FILE)
            (submit->template.set.kind == SET_LIST ? lists_add : add_image)(submit, &file);
        else if (found == SOURCE_BAD)
            submit_refuse(submit, NULL, NULL);
        else
            submit->source_ended = source_ready(&submit->source);
    }
    while (!submit->status && !batch_is_full(&submit->batch) && !client_interrupted() &&
           ends_lists(submit))
        lists_end_oldest(submit);
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

static void take_image(struct submit *submit, const cJSON *result, const char *text,
                       uint64_t number, struct progress_job *job)
{
    struct key_transfer *transfer = &submit->transfer;
    cJSON *unwritten =
        submit->template.keys ? key_transfer_download(transfer, number, result) : NULL;
    say_unwritten(job->name, unwritten);
    job->files = key_transfer_outs(transfer, number);
    job->unwritten = unwritten;
    progress_result(&submit->progress, result, text, job);
    if (submit->template.keys)
        key_transfer_end(transfer, number, show_text(result, "status"), unwritten);
    cJSON_Delete(unwritten);
}

static void take_set(struct submit *submit, const cJSON *result, const char *text, uint64_t number,
                     struct progress_job *job)
{
    const struct job_template *template = &submit->template;
    const struct image_list *list = set_jobs_find(&submit->sets, number);
    cJSON *unwritten = NULL;
    job->is_set = true;
    if (list) {
        job->names = list->names;
        job->images = list->count;
    }
    if (list && template->keys) {
        unwritten = set_jobs_download(template, &submit->checks.rules, list, result);
        job->files = (const char *const *)list->image.outs;
    }
    say_unwritten(job->name, unwritten);
    job->unwritten = unwritten;
    progress_result(&submit->progress, result, text, job);
    if (list && template->keys && strcmp(show_text(result, "status"), "dead") != 0)
        set_jobs_delete_keys(template, list, unwritten);
    set_jobs_end(&submit->sets, number);
    cJSON_Delete(unwritten);
}

static void on_result(void *context, const cJSON *result, const char *text, uint64_t number,
                      const char *file)
{
    struct submit *submit = context;
    struct progress_job job = {.name = file};
    (submit->template.set.kind ? take_set : take_image)(submit, result, text, number, &job);
    submit->quiet_since_s = clock_now_s();
    submit->progress.note[0] = '\0';
}

static bool is_over(const struct submit *submit)
{
    const struct progress *progress = &submit->progress;
    return submit->source_ended && submit->batch.count == 0 && submit->open_count == 0 &&
           (!submit->wait || progress->jobs_ended >= progress->jobs_sent);
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
            push_say_away(submit);
        return false;
    }
    if (submit->notified_away & push_bit(ctl->shard))
        submit->progress.note[0] = '\0';
    submit->notified_away &= ~push_bit(ctl->shard);
    ctl->shard->away = false;
    return true;
}

/* Draws the progress. Only that needs the daemons' heartbeats. */
static void read_progress(struct submit *submit)
{
    struct progress *progress = &submit->progress;
    if (progress_is_shown(progress) &&
        heartbeats_read(&submit->heartbeats, submit->ctl, &submit->sets)) {
        submit->quiet_since_s = clock_now_s();
        progress->note[0] = '\0';
    }
    progress_draw(progress);
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
            if (!client_interrupted() && !submit_is_late(submit)) /* uncovered: gone */
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
        read_progress(submit);
        if (is_waiting(submit) || batch_is_full(&submit->batch)) {
            client_pause(ctl->client, submit->poll_s);
            submit->poll_s = submit->poll_s * 2 < POLL_LAST_S ? submit->poll_s * 2 : POLL_LAST_S;
        }
    }
    read_progress(submit);
}

/* ---- the submit --------------------------------------------------------------------------- */

static void say_left(struct submit *submit, const char *why)
{
    uint64_t sent = submit->progress.jobs_sent, ended = submit->progress.jobs_ended;
    const char *rest = submit->source_ended && submit->batch.count + submit->open_count == 0
                           ? ""
                           : "; further images were not sent";
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
        } else if (submit_is_late(submit) && !is_over(submit)) {
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
                submit->source.options.archives
                    ? "tar or zip"
                    : format_list(FORMAT_SUFFIXES, FORMATS_READ, "%s", " or ", known));
    if (submit->source.special > 0)
        ctl_say("%" PRIu64 " links and special files in folders were skipped",
                submit->source.special);
    if (submit->shard_lost)
        return CTL_UNAVAILABLE;
    if (progress->refused > 0 && progress->sent == 0)
        return submit->checks.refused ? CTL_FAILED : CTL_NO_INPUT;
    if (progress->sent == 0) {
        ctl_say("no %s found to send",
                submit->template.set.kind == SET_ARCHIVE ? "archive" : "image");
        return CTL_NO_INPUT;
    }
    return progress->refused == 0 && progress_is_good(progress) ? CTL_OK : CTL_FAILED;
}

static int run(struct submit *submit, int count, char **operands)
{
    struct ctl *ctl = submit->ctl;
    submit->source.options = (struct source_options){
        .names = operands,
        .count = count,
        .recursive = ctl_value(ctl, "recursive") != NULL,
        .archives = submit->template.set.kind == SET_ARCHIVE,
        .nul = ctl_value(ctl, "null") != NULL,
        .input_root = submit->template.keys ? NULL : submit->template.input_root,
    };
    ctl_connect(ctl);
    submit->choice = shard_choice_begin(ctl, submit->template.made_ids, submit->wait);
    submit->transfer = (struct key_transfer){.template = &submit->template,
                                             .rules = &submit->checks.rules,
                                             .bytes_max = ctl->options.input_bytes_max};
    submit->reader = (struct result_reader){.each = on_result, .context = submit};
    submit->checks.template = &submit->template;
    submit->checks.options = &submit->source.options;
    /* With --no-output the values are the result, so print a line for each job. */
    progress_begin(&submit->progress, ctl,
                   ctl_value(ctl, "verbose") || ctl_value(ctl, "no-output"));
    if (submit->template.set.kind)
        progress_use_sets(&submit->progress, &submit->sets,
                          submit->template.set.kind == SET_ARCHIVE);
    if (progress_is_shown(&submit->progress) && submit->wait)
        submit->progress.total = count_images(&submit->source.options);
    submit->quiet_since_s = clock_now_s();
    submit->poll_s = POLL_FIRST_S;
    client_catch_interrupt();
    for (uint32_t i = 0; i < ctl->shard_count; i++)
        if (submit->wait && ctl->shards[i].client)
            client_retry_for(ctl->shards[i].client, submit->timeout_s > 0 ? submit->timeout_s : 1e9,
                             push_say_away, submit);
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
    if (count == 0 && !ctl_value(ctl, "shards"))
        ctl_usage(ctl, "FILE is missing: give the images to send");
    if (submit->timeout_s > 0 && !submit->wait)
        ctl_usage(ctl, "--timeout has no effect without --wait or --keys");
    if (submit->checks.rules.force && !ctl_value(ctl, "keys"))
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
        .checks.rules.force = ctl_value(ctl, "force") != NULL,
        .timeout_s = ctl_number(ctl, "timeout", 0.001, 1e9, 0),
    };
    check_operands(&submit, count, operands);
    job_template_read(&submit.template, ctl);
    struct archive_names archives = {0};
    if (submit.template.set.kind == SET_ARCHIVE) {
        archives = archives_find(ctl, count, operands, submit.template.input_root);
        operands = archives.names;
        count = archives.count;
    }
    int status = run(&submit, count, operands);
    archives_clear(&archives);
    batch_clear(&submit.batch, NULL);
    result_reader_clear(&submit.reader);
    key_transfer_clear(&submit.transfer);
    lists_clear(&submit);
    set_jobs_clear(&submit.sets);
    output_checks_clear(&submit.checks);
    source_close(&submit.source);
    job_template_clear(&submit.template);
    return status;
}
