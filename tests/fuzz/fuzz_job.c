/*
 * fuzz_job.c - any bytes as a job: parses it, checks its operations, plans it for an image, and
 * runs it on the CPU engine if the image is small.
 *
 * The first four bytes choose the image: width, height, channels and JPEG or not, orientation. The
 * rest is the job.
 */
#include <string.h>

#include "conf/text.h"
#include "gpu/engine/engine.h"
#include "gpu/plan/op.h"
#include "gpu/plan/op_list.h"
#include "gpu/plan/pass.h"
#include "gpu/plan/plan_values.h"
#include "queue/job/job.h"
#include "queue/job/json.h"
#include "queue/job/member_name.h"
#include "queue/job/result.h"
#include "tests/fuzz/fuzz.h"

#define NS "ns"

static bool ends_well(const struct error *error, enum status status)
{
    return status == error->status && (status == STATUS_OK) == (error->text[0] == '\0');
}

static void must_be_printable(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    for (size_t left = strlen(text), count; left > 0; at += count, left -= count) {
        count = text_utf8_sequence(at, left);
        FUZZ_MUST(count > 0 && *at >= 0x20 && *at != 0x7F);
    }
}

/* ---- checks of the parsed job ---- */

static void check_path(const char *path)
{
    FUZZ_MUST(strlen(path) >= 1 && strlen(path) <= JOB_PATH_BYTES_MAX);
    must_be_printable(path);
    for (const char *part = path;; part++) {
        size_t length = strcspn(part, "/");
        FUZZ_MUST(length > 0);
        FUZZ_MUST(length > 2 || strspn(part, ".") < length);
        part += length;
        if (*part == '\0')
            return;
    }
}

static void check_key(const char *key, const char *start)
{
    FUZZ_MUST(strncmp(key, start, strlen(start)) == 0 && strlen(key) > strlen(start));
    FUZZ_MUST(strlen(key) <= JOB_KEY_BYTES_MAX);
    must_be_printable(key);
}

/* What logs and results show of a URL has neither query nor fragment. */
static void check_url(const char *url)
{
    char shown[JOB_URL_BYTES_MAX + 1];
    FUZZ_MUST(strlen(url) <= JOB_URL_BYTES_MAX && strstr(url, "://"));
    must_be_printable(url);
    FUZZ_MUST(text_copy_url(shown, sizeof shown, url));
    FUZZ_MUST(strcspn(shown, "?#") == strlen(shown));
}

static void check_place(const struct job_place *place, bool needed)
{
    FUZZ_MUST(!!place->path + !!place->key + !!place->url <= 1);
    FUZZ_MUST(!needed || job_place_is_given(place));
    if (place->path)
        check_path(place->path);
    if (place->key)
        check_key(place->key, NS ":img:");
    if (place->url)
        check_url(place->url);
}

static void check_inputs(const struct job *job)
{
    check_place(&job->input, job->source != JOB_LIST);
    FUZZ_MUST(job->source != JOB_LIST || !job_place_is_given(&job->input));
    FUZZ_MUST(job->source != JOB_FOLDER || job->input.path);
    FUZZ_MUST((job->input_count > 0) == (job->source == JOB_LIST));
    FUZZ_MUST(job->input_count <= JOB_INPUTS_MAX && job->pattern_count <= JOB_PATTERNS_MAX);
    FUZZ_MUST(job_is_set(job) || !job->fails_on_error);
    FUZZ_MUST((job->source == JOB_ANIMATION) == (job->frames == JOB_FRAMES_ALL));
    FUZZ_MUST((job->strip > 0) == (job->frames == JOB_FRAMES_STRIP) && job->strip != 1);
    FUZZ_MUST(job->strip <= JOB_STRIP_MAX && job->page <= JOB_PAGE_MAX);
    FUZZ_MUST(!job->trim.wanted || job->frames != JOB_FRAMES_ALL);
    for (size_t i = 0; i < job->input_count; i++)
        check_place(&job->inputs[i], true);
    for (size_t i = 0; i < job->pattern_count; i++)
        FUZZ_MUST(strlen(job->patterns[i]) - 1 < JOB_PATTERN_BYTES_MAX);
    (void)member_matches(job->id ? job->id : "a/b.jpg", job->patterns, job->pattern_count);
}

/* Fills in the template of an output, with the id as a hostile name. Either the place has the rules
 * of an output, or it is refused. */
static void check_template(const struct job *job, const struct job_output *output)
{
    char text[JOB_URL_BYTES_MAX + 1];
    struct job_place place;
    struct error error = {0};
    FUZZ_MUST(output->pack == JOB_FILES || (job_is_set(job) && output->place.path));
    if (!job_is_set(job) || output->pack != JOB_FILES || !job_place_is_given(&output->place))
        return;
    enum status status = member_output(&output->place, job->id ? job->id : "../a.png", false,
                                       1234567, NS, text, &place, &error);
    FUZZ_MUST(ends_well(&error, status));
    FUZZ_MUST(status == STATUS_OK || status == STATUS_PATH_REFUSED);
    must_be_printable(error.text);
    if (status == STATUS_OK)
        check_place(&place, true);
}

static void check_job(const struct job *job, const struct job_rules *rules)
{
    check_inputs(job);
    FUZZ_MUST(job->output_count >= 1 && job->output_count <= JOB_OUTPUTS_MAX);
    FUZZ_MUST(job->timeout_s > 0 && job->timeout_s <= rules->timeout_s && job->pushed >= 0);
    FUZZ_MUST(!job->unique || job->id);
    FUZZ_MUST(!job->tag || (*job->tag && strlen(job->tag) <= JOB_TAG_BYTES_MAX));
    FUZZ_MUST(!job->tracestate || job->traceparent);
    FUZZ_MUST(job->priority < JOB_PRIORITIES && (job->prioritized || job->priority == 0));
    FUZZ_MUST(job->expires.seconds == 0 || job->not_before.seconds == 0 ||
              job->expires.relative != job->not_before.relative ||
              job->expires.seconds > job->not_before.seconds);
    for (size_t i = 0; i < job->output_count; i++) {
        const struct job_output *output = &job->outputs[i];
        check_place(&output->place, false);
        FUZZ_MUST(!output->place.path || strncmp(output->place.path, ".gpuimgd/", 9) != 0);
        check_template(job, output);
        struct encoder_settings encoder = output->encoder;
        FUZZ_MUST(encoder.ssim >= 0 && encoder.ssim < SSIM_ONE);
        FUZZ_MUST(encoder.ssim > 0 || !output->formats);
        FUZZ_MUST(encoder.ssim == 0 ||
                  (encoder.quality_min >= 1 && encoder.quality_min <= encoder.quality));
        for (unsigned p = 0; p < PARAMETER_COUNT; p++) {
            int value = *encoder_setting(&encoder, p);
            bool is_either = encoder_parameters[p].kind == PARAMETER_IS_EITHER;
            FUZZ_MUST(!is_either || value == encoder_parameters[p].min ||
                      value == encoder_parameters[p].max);
            if (output->given >> p & 1)
                FUZZ_MUST(value >= encoder_parameters[p].min && value <= encoder_parameters[p].max);
            else
                FUZZ_MUST(value == encoder_parameters[p].standard);
        }
        FUZZ_MUST(!output->ops || cJSON_IsArray(output->ops));
        FUZZ_MUST(cJSON_GetArraySize(output->ops) <= JOB_OPS_MAX);
    }
}

/* The result of any job is one line of strict JSON, with the job's id and meta. */
static void check_result(const struct job *job, const struct error *error)
{
    struct error strict = {0};
    struct result_output outputs[JOB_OUTPUTS_MAX];
    struct result result = {.job = job, .number = 7, .status = "failed", .error = error,
                            .outputs = outputs, .output_count = job->output_count, .attempt = 1,
                            .daemon = "host:1", .ms.total = 1.5};
    char *image = result_image_error(1, job->id, error);
    char *list = NULL;
    FUZZ_MUST(image && asprintf(&list, "[%s]", image) > 0);
    const struct result_images images = {.count = 2, .failed = 1, .errors = list};
    if (job_is_set(job))
        result.images = &images;
    for (size_t i = 0; i < job->output_count; i++)
        outputs[i] = (struct result_output){.place = &job->outputs[i].place, .error = error};
    char *text = result_write(&result);
    FUZZ_MUST(text != NULL && strchr(text, '\n') == NULL);
    FUZZ_MUST(json_check(text, strlen(text), &strict) == STATUS_OK);
    cJSON *back = cJSON_Parse(text);
    FUZZ_MUST(back != NULL);
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(back, "id");
    FUZZ_MUST(!job->id == !id && (!id || strcmp(id->valuestring, job->id) == 0));
    FUZZ_MUST(!job->meta == !cJSON_GetObjectItemCaseSensitive(back, "meta"));
    cJSON_Delete(back);
    free(text);
    free(list);
    free(image);
}

/* ---- its operations ---- */

static struct plan_source choose_source(const uint8_t *bytes, bool *jpeg)
{
    static const uint32_t channels[] = {1, 3, 4}; /* deep: twice as many */
    uint32_t depth = bytes[2] / 3 % 4 == 2 ? 2 : 1;
    *jpeg = bytes[2] / 3 % 2 != 0;
    return (struct plan_source){.width = 1 + bytes[0] % 64u,
                                .height = 1 + bytes[1] % 64u,
                                .channels = *jpeg ? 3 : depth * channels[bytes[2] % 3],
                                .orientation = 1 + bytes[3] % ORIENTATION_MAX};
}

/* Makes the targets of the outputs with valid operations, as the daemon does. */
/* Any name is an overlay of at most 64 x 64 pixels. */
static enum status find_overlay(void *context, const struct plan_overlay_request *request,
                                struct plan_overlay *overlay, struct error *error)
{
    enum { side = 64 };
    static uint8_t pixels[side * side * 4];
    const char *name = request->text         ? request->text->text
                       : request->place.path ? request->place.path
                                             : request->place.key;
    size_t length = strlen(name);
    (void)context, (void)error;
    FUZZ_MUST(!request->place.path + !request->place.key + !request->text == 2);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 29 + i / 977);
    overlay->image = (struct image){pixels, 1 + (uint32_t)(length * 7) % side,
                                    1 + (uint8_t)name[0] % side, 4, side * 4};
    if (request->width > 0)
        overlay->image.width = request->width < side ? request->width : side;
    overlay->gray = length % 2;
    return STATUS_OK;
}

static size_t make_targets(struct job *job, size_t length, struct op_item **ops,
                           struct plan_target *targets)
{
    static const struct plan_overlays overlays = {.find = find_overlay};
    size_t count = 0, bytes = length;
    for (size_t i = 0; i < job->output_count; i++) {
        const struct job_output *output = &job->outputs[i];
        struct error error = {0};
        bool picture = job_place_is_given(&output->place);
        bool gray = picture && output->encoder.subsampling == SUBSAMPLING_GRAY;
        const struct format *format =
            picture && output->format ? format_by_name(output->format) : NULL;
        bool floats = output->encoder.type != TENSOR_U8;
        enum status status = op_list_parse(&ops[i], output->ops, (int)i, &error);
        if (status == STATUS_OK && output->encoder.depth == 16)
            status = op_list_check_deep(ops[i], &error);
        FUZZ_MUST(ends_well(&error, status));
        FUZZ_MUST(status == STATUS_OK || status == STATUS_UNKNOWN_OP || status == STATUS_BAD_OP);
        must_be_printable(error.text);
        bytes += op_list_bytes(ops[i]);
        if (status == STATUS_OK && (picture || op_list_gives_values(ops[i])))
            targets[count++] = (struct plan_target){
                .ops = ops[i],
                .overlays = &overlays,
                .opaque = output->encoder.quality % 2 == 0,
                .gray = gray,
                .deep = picture && output->encoder.depth == 16,
                .no_picture = !picture,
                .tensor = {.wanted = format && format->tensor,
                           .type = (enum tensor_type)output->encoder.type,
                           .layout = (enum tensor_layout)output->encoder.layout,
                           .rgb = output->encoder.channels == TENSOR_RGB,
                           .normalize = floats ? &output->normalize : NULL},
                .number = job->listed ? (unsigned)i + 1 : 0};
    }
    FUZZ_MUST(job_drop_tree(job));
    FUZZ_MUST(job->bytes + bytes <= 5 * length + job->output_count * JOB_OPS_MAX * OP_BYTES_MORE +
                                        job->input_count * JOB_PLACE_BYTES);
    return count;
}

/* ---- the plan: its layout, and buffers of exactly the promised sizes ---- */

/* The range of bytes that a pass touches in one of the three buffers. */
struct extent {
    enum pass_buffer buffer;
    size_t from, to;
};

static struct extent extent_of(const struct plan *plan, struct pass_place place, size_t bytes)
{
    struct extent extent = {place.buffer, place.offset, place.offset + bytes};
    size_t room = place.buffer == PASS_INPUT    ? plan->input_bytes
                  : place.buffer == PASS_OUTPUT ? plan->output_bytes
                                                : plan->scratch_bytes;
    FUZZ_MUST(place.offset % BUFFER_ALIGN == 0);
    FUZZ_MUST(bytes == 0 || (extent.to > extent.from && extent.to <= room));
    return extent;
}

static bool overlap(struct extent a, struct extent b)
{
    return a.buffer == b.buffer && a.from < b.to && b.from < a.to;
}

static void check_pass(const struct plan *plan, const struct pass *pass,
                       const struct plan_limits *limits)
{
    const struct pass_window *window = &pass->window;
    struct pass_shape from = pass->from, to = pass->to;
    size_t read = image_bytes(window->width, window->height, from.channels);
    size_t written = pass->looks ? 0 : pass_written_bytes(pass);
    FUZZ_MUST(from.width >= 1 && window->x + from.width <= window->width);
    FUZZ_MUST(from.height >= 1 && window->y + from.height <= window->height);
    FUZZ_MUST(to.width >= 1 && to.height >= 1);
    FUZZ_MUST(pass->aside || (to.width <= limits->side_max && to.height <= limits->side_max));
    uint32_t samples = image_samples(to.channels);
    FUZZ_MUST(samples == 1 || samples == 3 || samples == 4);
    struct extent in = extent_of(plan, pass->from_place, read);
    struct extent out = extent_of(plan, pass->to_place, written);
    struct extent work = extent_of(plan, pass->work_place, pass->work_bytes);
    FUZZ_MUST(pass->tensor_bytes == 0 || out.from >= BUFFER_ALIGN); /* a header has room */
    FUZZ_MUST(!written || (!overlap(in, out) && out.buffer != PASS_INPUT));
    FUZZ_MUST(!pass->work_bytes || (!overlap(work, in) && (!written || !overlap(work, out))));
    FUZZ_MUST(pass->constants_at + pass->constants_bytes <= plan->constants_bytes);
    FUZZ_MUST((pass->fill != NULL) == (pass->constants_bytes > 0));
}

/* Each pass must stay inside the buffers, not overlap its input with its output, and give an image
 * within the limits. */
static void check_layout(const struct plan *plan, const struct plan_limits *limits)
{
    FUZZ_MUST(plan->constants_at + plan->constants_bytes <= plan->input_bytes);
    for (uint32_t v = 0; v < plan->variant_count; v++) {
        const struct plan_variant *variant = &plan->variants[v];
        for (uint32_t p = 0; p < variant->pass_count; p++) {
            const struct pass *pass = &variant->passes[p];
            const struct pass *runs = pass->same ? pass->same : pass;
            if (runs->deferred)
                FUZZ_MUST(pass->work_place.offset + pass->work_bytes <= plan->output_bytes);
            else
                check_pass(plan, pass, limits);
        }
        FUZZ_MUST((uint64_t)variant->width * variant->height <= limits->pixels_max);
        FUZZ_MUST(variant->width <= limits->side_max && variant->height <= limits->side_max);
    }
}

static uint8_t *allocate(size_t bytes, uint8_t fill)
{
    void *memory = NULL;
    FUZZ_MUST(posix_memalign(&memory, BUFFER_ALIGN, bytes > 0 ? bytes : 1) == 0);
    memset(memory, fill, bytes);
    return memory;
}

/* Fills the decoded image with the same pixels in each run, except for the padding. */
static void draw(const struct plan *plan, uint8_t *input)
{
    struct image image = plan_input(plan, input);
    for (uint32_t y = 0; y < image.height; y++)
        for (size_t x = 0; x < (size_t)image.width * image.channels; x++)
            image.pixels[y * image.stride + x] = (uint8_t)(x * 37 + y * y * 11 + x * y);
}

static struct engine_memory run_once(struct engine *engine, const struct plan *plan, uint8_t fill)
{
    struct engine_memory memory = {.input = allocate(plan->input_bytes, fill),
                                   .output = allocate(plan->output_bytes, fill),
                                   .scratch = allocate(plan->scratch_bytes, fill)};
    struct engine_task task = {.plan = plan, .memory = &memory};
    draw(plan, memory.input);
    plan_put_constants(plan, memory.input);
    engine_run(engine, &task);
    FUZZ_MUST(task.error.status == STATUS_OK);
    return memory;
}

static void release(struct engine_memory *memory)
{
    free(memory->input);
    free(memory->output);
    free(memory->scratch);
}

static void compare_pictures(const struct plan *plan, size_t variant,
                             const struct engine_memory *a, const struct engine_memory *b)
{
    size_t bytes = plan->variants[variant].tensor_bytes;
    if (bytes > 0) {
        FUZZ_MUST(memcmp(plan_tensor(plan, variant, a->output),
                         plan_tensor(plan, variant, b->output), bytes) == 0);
        return;
    }
    struct image one = plan_result(plan, variant, a->input, a->output);
    struct image two = plan_result(plan, variant, b->input, b->output);
    for (uint32_t y = 0; y < one.height; y++)
        FUZZ_MUST(memcmp(one.pixels + y * one.stride, two.pixels + y * two.stride,
                         (size_t)one.width * one.channels) == 0);
}

static void compare_values(const struct plan *plan, size_t variant,
                           const struct engine_memory *a, const struct engine_memory *b)
{
    cJSON *one = plan_values(plan, variant, a->output);
    cJSON *two = plan_values(plan, variant, b->output);
    FUZZ_MUST(one != NULL && two != NULL && cJSON_Compare(one, two, true));
    cJSON_Delete(one);
    cJSON_Delete(two);
}

/* Runs the plan twice, over memory with different bytes: the results must be equal. */
static void run_twice(const struct plan *plan)
{
    static struct engine *engine;
    struct engine_config config = {.kind = "cpu", .pinned_bytes = MIB};
    struct error error = {0};
    if (engine == NULL)
        FUZZ_MUST(engine_open(&config, &engine, &error) == STATUS_OK);
    struct engine_memory a = run_once(engine, plan, 0x5A), b = run_once(engine, plan, 0xA5);
    for (size_t v = 0; v < plan->variant_count; v++) {
        if (!plan->variants[v].no_picture)
            compare_pictures(plan, v, &a, &b);
        if (plan_has_values(plan, v))
            compare_values(plan, v, &a, &b);
    }
    release(&a);
    release(&b);
}

/* A deep image is decoded as one of 8 bits if no output is deep. */
static void fit_depth(struct plan_source *source, const struct plan_target *targets, size_t count)
{
    bool is_deep = false;
    for (size_t i = 0; i < count; i++)
        is_deep |= targets[i].deep;
    if (!is_deep)
        source->channels = image_samples(source->channels);
}

/* A target without a number is the job's only one. */
static void build(const struct plan_source *wanted, bool jpeg, const struct plan_target *targets,
                  size_t count, const struct plan_limits *limits, bool run)
{
    enum decode_as as = jpeg ? plan_decode_as(targets, count) : DECODE_COLOUR;
    struct plan plan;
    struct error error = {0};
    struct plan_source source = *wanted;
    fit_depth(&source, targets, count);
    if (as == DECODE_LUMA)
        source.channels = 1;
    source.ycc = as == DECODE_YCC;
    source.eighths = jpeg && targets[0].number == 0 ? plan_eighths(&source, targets[0].ops)
                                                    : DECODE_EIGHTHS;
    enum status status = plan_build(&plan, &source, targets, count, limits, &error);
    FUZZ_MUST(ends_well(&error, status));
    FUZZ_MUST(status == STATUS_OK || status == STATUS_BAD_OP || status == STATUS_BAD_JOB ||
              status == STATUS_IMAGE_TOO_LARGE || status == STATUS_OVER_BUDGET);
    must_be_printable(error.text);
    if (status == STATUS_OK) {
        check_layout(&plan, limits);
        if (run)
            run_twice(&plan);
    }
    plan_clear(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    enum { head_bytes = 4 };
    const struct job_rules rules = {NS, 60};
    const struct plan_limits small = {1 << 14, 512}, standard = {PIXELS_DEFAULT, SIDE_DEFAULT};
    struct plan_target targets[JOB_OUTPUTS_MAX];
    struct op_item *ops[JOB_OUTPUTS_MAX] = {NULL};
    struct job job;
    struct error error = {0};
    bool jpeg;
    if (length < head_bytes)
        return 0;
    enum status status =
        job_parse(&job, (const char *)bytes + head_bytes, length - head_bytes, &rules, &error);
    FUZZ_MUST(ends_well(&error, status));
    FUZZ_MUST(status == STATUS_OK || status == STATUS_BAD_JSON || status == STATUS_BAD_JOB ||
              status == STATUS_PATH_REFUSED);
    must_be_printable(error.text);
    check_result(&job, &error);
    size_t count = 0;
    if (status == STATUS_OK) {
        check_job(&job, &rules);
        count = make_targets(&job, length - head_bytes, ops, targets);
    }
    if (count > 0) {
        struct plan_source source = choose_source(bytes, &jpeg);
        build(&source, jpeg, targets, count, &small, true);
        source.width *= 97;
        source.height *= 101;
        build(&source, jpeg, targets, count, &standard, false);
    }
    for (size_t i = 0; i < JOB_OUTPUTS_MAX; i++)
        op_list_free(ops[i]);
    job_clear(&job);
    return 0;
}

/* ---- seeds ---- */

static void give_job(fuzz_give *give, void *context, const char *name, const char *text)
{
    char bytes[4096];
    int length = snprintf(bytes, sizeof bytes, "%s", text);
    for (char *at = bytes; *at; at++)
        if (*at == '\'')
            *at = '"';
    give(context, name, bytes, (size_t)length);
}

static bool good(const char *text)
{
    struct error error = {0};
    cJSON *list = cJSON_Parse(text);
    FUZZ_MUST(list != NULL);
    struct op_item *ops;
    bool ok = op_list_parse(&ops, list, -1, &error) == STATUS_OK;
    op_list_free(ops);
    cJSON_Delete(list);
    return ok;
}

/* Each operation must be a valid seed by its name alone or occur in one of these lists, and all
 * lists must be valid: an invalid seed would go unnoticed. */
static void check_ops(const char *const *ops, size_t count)
{
    char text[2048], name[40];
    for (size_t op = 0; op < op_count; op++) {
        snprintf(name, sizeof name, "[\"%s\"]", op_table[op]->name);
        bool used = good(name);
        snprintf(name, sizeof name, "'%s'", op_table[op]->name);
        for (size_t i = 0; i < count; i++)
            used = used || strstr(ops[i], name);
        if (!used)
            fprintf(stderr, "no seed has %s with valid parameters\n", name);
        FUZZ_MUST(used);
    }
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "[%s]", ops[i]);
        for (char *at = text; *at; at++)
            *at = *at == '\'' ? '"' : *at;
        FUZZ_MUST(good(text));
    }
}

/* Jobs that together have each operation with valid parameters. */
static void give_ops(fuzz_give *give, void *context)
{
    static const char *const ops[] = {
        "'grayscale','sobel','invert','transpose','histogram','stats','otsu','equalize'",
        "{'op':'grayscale','weights':[20000,40000,5536]},{'op':'sobel','magnitude':'l2',"
        "'border':'zero'}",
        "{'op':'gamma','gamma':2.2},{'op':'levels','in_black':10,'in_white':200,'gamma':0.5,"
        "'out_black':255,'out_white':0},{'op':'threshold','value':9,'invert':true}",
        "{'op':'color_matrix','matrix':[[1,0.5,-0.25,8],[0,1,0,0],[0.1,0.1,0.1,-4096]]}",
        "{'op':'rotate','angle':270,'clockwise':false},{'op':'flip','axis':'vertical'},"
        "{'op':'crop','width':3,'height':2,'x':1,'y':1}",
        "{'op':'crop','width':5,'height':5,'gravity':'southeast'},'transpose','sobel'",
        "{'op':'rotate','angle':-12.5,'expand':false,'background':[1,2,3,4]},{'op':'pad',"
        "'width':300,'height':200,'gravity':'north','color':'transparent'}",
        "{'op':'pad','left':1,'top':2,'right':3,'bottom':4,'color':[9,8,7]},{'op':'resize',"
        "'width':40,'height':30,'fit':'contain','gravity':'east','color':[0,0,0,0]}",
        "{'op':'resize','width':9,'height':5,'fit':'cover','filter':'bicubic','enlarge':false}",
        "{'op':'resize','width':200,'fit':'inside','enlarge':true},{'op':'resize','height':3,"
        "'filter':'nearest','fast_shrink':false},{'op':'resize','width':1,'height':1,"
        "'fit':'exact','filter':'box'}",
        "{'op':'gaussian','ksize':31,'sigma':0.3},{'op':'unsharp','amount':16,'ksize':7,"
        "'sigma':1000}",
        "{'op':'convolve','kernel':[[0,1,0],[1,-4,1],[0,1,0]],'scale':1,'offset':-255,"
        "'border':'replicate'},{'op':'median','size':5}",
        "{'op':'canny','low':20.5,'high':1530},'canny'",
        "'phash',{'op':'crop','width':3,'height':4,'x':1,'y':0},'phash','flip'",
        "{'op':'composite','input':'gray-3x2','x':-1,'y':-500,'tile':true,'opacity':0.5},"
        "{'op':'composite','input':{'key':'ns:img:a'},'gravity':'southeast','scale':0.25}",
        "{'op':'text','text':'a \xe4\xbd\xa0','font':'Sans Bold','size':9,'width':200,'align':"
        "'right','color':[1,2,3,4],'y':3}",
        "'thumbhash',{'op':'blurhash','components':[9,1]},{'op':'resize','width':4,'height':3,"
        "'fit':'cover','gravity':'attention'},'thumbhash'",
        "{'op':'resize','width':4,'height':9,'fit':'cover','focus':[0.25,1]},'blurhash'",
    };
    char text[2048], name[32];
    check_ops(ops, sizeof ops / sizeof ops[0]);
    for (size_t op = 0; op < op_count; op++) {
        snprintf(text, sizeof text, "0010{'input':'a.jpg','output':'b.png','ops':['invert','%s']}",
                 op_table[op]->name);
        give_job(give, context, op_table[op]->name, text);
    }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        snprintf(text, sizeof text, "%c%c%c%c{'input':'a/b.jpg','output':{'path':'c.png',"
                 "'quality':%zu},'ops':[%s]}", (int)('A' + i * 3), (int)('5' + i), (int)('0' + i),
                 (int)('0' + i % 8), 85 + i, ops[i]);
        snprintf(name, sizeof name, "ops-%02zu", i);
        give_job(give, context, name, text);
    }
}

void fuzz_seeds(fuzz_give *give, void *context)
{
    give_ops(give, context);
    give_job(give, context, "everything",
             "KHC0{'input':{'key':'ns:img:a'},'output':{'key':'ns:img:b','format':'png',"
             "'compression':9,'ttl_s':60},'id':'\xC3\xA4 \\u00e4','timeout_s':1.5,"
             "'unique':true,'priority':9,'tag':'web/7','tracestate':'a=1, b@c=2',"
             "'traceparent':'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',"
             "'not_before':'+5','expires':1700000000.5,"
             "'background':[1,2,3],'orient':false,'trim':{'threshold':9},"
             "'meta':{'a':[1e2,null,true,'\\ud83d\\ude00']},"
             "'reply_to':'ns:reply:me','pushed':1700000000.25,'ops':[]}");
    give_job(give, context, "headers",
             "KHC0{'input':'a.jpg','output':{'url':'https://h/b.png','headers':{'cache_control':"
             "'no-store','content_disposition':'inline','metadata':{'a':'b','a-b':'c'}}}}");
    give_job(give, context, "variants",
             "~~D3{'input':'a.jpg','outputs':[{'output':'b.png','ops':[{'op':'resize',"
             "'width':8}]},{'output':{'path':'c.jpg','progressive':true,'quality':50},'ops':["
             "'grayscale',{'op':'resize','height':4}]},{'ops':['histogram','phash','histogram',"
             "'phash','stats']},{'output':'e.png','ops':['phash']},{'output':'d','ops':"
             "[{'op':'crop','width':2,'height':2},'sobel']}]}");
    give_job(give, context, "deep",
             "~~C3{'input':'a.png','outputs':[{'output':{'path':'b.png','depth':16},'ops':[{'op':"
             "'resize','width':9},{'op':'crop','width':8,'height':4},'transpose']},{'output':"
             "'c.png','ops':['sobel']},{'output':{'path':'d.png','depth':16}}]}");
    give_job(give, context, "similar",
             "KHC0{'input':'a','outputs':[{'output':{'path':'b','format':['webp','jpeg'],'quality'"
             ":{'ssim':0.98,'min':30,'max':90}}},{'output':{'path':'c','format':'auto','quality':"
             "{'ssim':0.9}}},{'output':{'path':'d.jpg','quality':{'ssim':0.999999}}}]}");
    give_job(give, context, "all-frames",
             "KHC0{'input':'a.gif','frames':'all','outputs':[{'output':'b.webp'},{'output':"
             "{'path':'c%n','format':'avif','effort':1}},{'output':'d.avif','ops':[{'op':'text',"
             "'text':'e','font':'Sans','size':9}]}]}");
    give_job(give, context, "strip",
             "KHC0{'inputs':['a','b'],'frames':{'strip':3},'trim':{'color':[1,2,3]},'output':"
             "'%n.png','ops':[{'op':'text','text':'\xD8\xA7 \xF0\x9F\x98\x80','width':20,'align':"
             "'right'}]}");
    give_job(give, context, "page", "KHC0{'input':'a','page':3,'frames':'first','output':'b'}");
    give_job(give, context, "tensors",
             "~~D3{'input':'a.jpg','outputs':[{'output':{'path':'b.npy','format':'npy','type':"
             "'f16','layout':'chw','channels':'rgb','normalize':{'mean':[0.5,0.4,0.3],'std':[0.2]"
             "}},'ops':[{'op':'resize','width':9,'height':9,'fit':'outside'}]},{'output':{'path':"
             "'c.raw','format':'raw','type':'f32','channels':'gray'}},{'output':{'path':'d.npy',"
             "'format':'npy'}}]}");
    give_job(give, context, "list",
             "0000{'id':'a/../b','inputs':['a.jpg',{'path':'b'},{'key':'ns:img:c'},{'url':"
             "'https://h/d.png'}],'on_error':'fail','outputs':[{'output':'e/%p-%n.jpg','ops':["
             "'sobel']},{'output':'f.tar'},{'output':{'path':'g%','pack':'array','format':'npy'}},"
             "{'output':{'key':'ns:img:%%%p'}},{'output':{'url':'https://h/%p'}}]}");
    give_job(give, context, "folder",
             "0000{'inputs':{'folder':'a/b','pattern':'*.jp?g'},'output':'%p','on_error':'skip'}");
    give_job(give, context, "archive",
             "0000{'inputs':{'archive':{'key':'ns:img:a'},'pattern':['*','?*.png']},'output':"
             "{'path':'b','pack':'tar','format':'webp'}}");
    give_job(give, context, "one-name", "0000{'inputs':['a'],'output':'b.png'}");
    give_job(give, context, "bad-template", "0000{'inputs':['a'],'output':'%q.png'}");
    give_job(give, context, "values", "0000{'input':'a','ops':['otsu']}");
    give_job(give, context, "refused-path", "0000{'input':'../a','output':'b'}");
    give_job(give, context, "refused-key", "0000{'input':{'key':'ns:jobs'},'output':'b'}");
    give_job(give, context, "refused-reply", "0000{'input':'a','output':'b','reply_to':'x'}");
    give_job(give, context, "unknown-op", "0000{'input':'a','output':'b','ops':['sobell']}");
    give_job(give, context, "close-key", "0000{'input':'a','outptu':'b'}");
    give_job(give, context, "twice", "0000{'input':'a','input':'b'}");
    give_job(give, context, "nul", "0000{'input':'a\\u0000b','output':'b'}");
}
