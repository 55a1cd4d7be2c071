/*
 * test_hostile.c - attacks on a running daemon, one per row: each is answered in time with the
 * right code. Hundreds of them leave the memory, the descriptors and the daemon unchanged.
 *
 * test_bad.c has the mistakes of users. Below the table are attacks with files that change while
 * they are read.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf/status.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

/* No attack may keep its worker for longer than ANSWER_S: decode_timeout_s is 10. */
/* With sanitizers the slowest attack takes eleven times as long. They keep freed memory, so only
 * descriptors are counted. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ANSWER_S 18
#define MEMORY_COUNTS 0
#define ROUNDS 2
#define ROUNDS_TO_WARM_UP 1
#else
#define ANSWER_S 5
#define MEMORY_COUNTS 1
#define ROUNDS 8
#define ROUNDS_TO_WARM_UP 3
#endif
/* Jobs per batch while a rival changes files. */
#define RACE_BATCH 50
#define RACE_BATCHES_MAX 40

static pid_t rival; /* the process that changes files; 0: none */

static int end_rival(void **state)
{
    if (rival > 0) {
        kill(rival, SIGKILL);
        waitpid(rival, NULL, 0);
    }
    rival = 0;
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The job is {"input":INPUT,"output":OUTPUT,...}; single quotes become double quotes. */
struct attack {
    const char *input, *output, *more;
    const char *code; /* NULL: harmless, the job is done */
};

/* Filled in when the tests begin. */
static char name_255[260], name_256[260], path_2049[2060], key_513[560], many_resizes[40000],
    kernel[1024];

static const struct attack attacks[] = {
    /* images */
    {"'huge.png'", "'x.png'", "", "image_too_large"},
    {"'huge.jpg'", "'x.png'", "", "image_too_large"},
    {"'scans.jpg'", "'x.png'", "", "decode_limit"},
    {"'segments.jpg'", "'x.png'", "", "decode_limit"},
    {"'lie.jpg'", "'x.png'", "", "decode_failed"},
    {"'lie.png'", "'x.png'", "", "decode_failed"},
    {"'text-bomb.png'", "'x.png'", "", NULL},
    {"'profile-bomb.png'", "'x.png'", "", NULL},
    {"'crc.png'", "'x.png'", "", "decode_failed"},
    {"{'key':'gpuimgd:img:garbage'}", "'x.png'", "", "decode_failed"},
    {"{'key':'gpuimgd:img:huge'}", "'x.png'", "", "image_too_large"},
    /* endless work */
    {"'wide.png'", NULL, many_resizes, "over_budget"},
    {"'good.jpg'", "'x.png'", kernel, "timeout"},
    {"'good.jpg'", "'x.png'", ",'ops':[{'op':'resize','width':65500,'enlarge':true}]",
     "image_too_large"},
    /* special files */
    {"'fifo.jpg'", "'x.png'", "", "path_refused"},
    {"'device.jpg'", "'x.png'", "", "path_refused"},
    {"'folder'", "'x.png'", "", "path_refused"},
    /* ways out of the root */
    {"'/etc/passwd'", "'x.png'", "", "path_refused"},
    {"'/proc/self/environ'", "'x.png'", "", "path_refused"},
    {"'/dev/zero'", "'x.png'", "", "path_refused"},
    {"'proc/self/environ'", "'x.png'", "", "path_refused"},
    {"'proc/self/cwd/etc/passwd'", "'x.png'", "", "path_refused"},
    {"'environ'", "'x.png'", "", "path_refused"},
    {"'loop'", "'x.png'", "", "path_refused"},
    {"'../secret.png'", "'x.png'", "", "path_refused"},
    {"'folder/../../secret.png'", "'x.png'", "", "path_refused"},
    {"'folder/..'", "'x.png'", "", "path_refused"},
    {"'\\u002e\\u002e/secret.png'", "'x.png'", "", "path_refused"},
    {"'..\\\\secret.png'", "'x.png'", "", "input_missing"},
    {"'%2e%2e/secret.png'", "'x.png'", "", "input_missing"},
    {"'good.jpg'", "'/tmp/x.png'", "", "path_refused"},
    {"'good.jpg'", "'../x.png'", "", "path_refused"},
    {"'good.jpg'", "'proc/self/x.png'", "", "path_refused"},
    {"'good.jpg'", "'.gpuimgd/x.png'", "", "path_refused"},
    {"'good.jpg'", "'folder/../../x.png'", "", "path_refused"},
    {"'good.jpg'", NULL, "'outputs':[{'output':'x.png'},{'output':'../y.png'}]", "path_refused"},
    /* names */
    {"'good.jpg\\u0000.png'", "'x.png'", "", "bad_json"},
    {"'good.jpg\\n'", "'x.png'", "", "path_refused"},
    {"''", "'x.png'", "", "path_refused"},
    {name_256, "'x.png'", "", "path_refused"},
    {name_255, "'x.png'", "", "input_missing"},
    {path_2049, "'x.png'", "", "path_refused"},
    {"'good.jpg'", name_256, "", "path_refused"},
    {"'good.jpg'", path_2049, "", "path_refused"},
    /* the protocol's own keys */
    {"{'key':'gpuimgd:jobs'}", "'x.png'", "", "path_refused"},
    {"{'key':'gpuimgd:img:'}", "'x.png'", "", "path_refused"},
    {"{'key':'other:img:x'}", "'x.png'", "", "path_refused"},
    {"{'key':'GPUIMGD:img:x'}", "'x.png'", "", "path_refused"},
    {"{'key':'gpuimgd:img:\\u0000'}", "'x.png'", "", "bad_json"},
    {key_513, "'x.png'", "", "path_refused"},
    {"'good.jpg'", "{'key':'gpuimgd:lease'}", "", "path_refused"},
    {"'good.jpg'", "{'key':'gpuimgd:result:x'}", "", "path_refused"},
    {"'good.jpg'", "{'key':'gpuimgd:img:','format':'png'}", "", "path_refused"},
    {"'good.jpg'", "{'key':'other:img:x','format':'png'}", "", "path_refused"},
    {"'good.jpg'", "'x.png'", ",'reply_to':'gpuimgd:jobs'", "path_refused"},
    {"'good.jpg'", "'x.png'", ",'reply_to':'gpuimgd:results'", "path_refused"},
    {"'good.jpg'", "'x.png'", ",'reply_to':'other:reply:x'", "path_refused"},
    {"'good.jpg'", "'x.png'", ",'reply_to':'gpuimgd:reply:'", "path_refused"},
    {"'good.jpg'", "'x.png'", ",'reply_to':'gpuimgd:img:x'", "path_refused"},
    {"'good.jpg'", "'x.png'", ",'reply_to':'gpuimgd:reply:\\u0000'", "bad_json"},
};
enum { attack_count = sizeof attacks / sizeof attacks[0] };

/* Writes head, `count` letters, and tail. */
static void fill(char *text, const char *head, size_t count, const char *tail)
{
    size_t start = strlen(head);
    strcpy(text, head);
    memset(text + start, 'n', count);
    strcpy(text + start + count, tail);
}

static void make_long_names(void)
{
    fill(name_255, "'", 255, "'");
    fill(name_256, "'", 256, "'");
    fill(path_2049, "'", 2049, "'");
    for (size_t i = 2; i < 2049; i += 2)
        path_2049[i] = '/';
    fill(key_513, "{'key':'gpuimgd:img:", 513 - strlen("gpuimgd:img:"), "'}");
}

/* 16 outputs of 32 operations whose tables would need half a gigabyte, and 225 weights per pixel
 * with a timeout that is too short. */
static void make_long_works(void)
{
    char ops[2048] = "";
    size_t used = (size_t)sprintf(many_resizes, "'outputs':[");
    for (int i = 0; i < 32; i++)
        sprintf(ops + strlen(ops), "%s{'op':'resize','width':%d,'enlarge':true}", i ? "," : "",
                16384 - i % 2);
    for (int i = 0; i < 16; i++)
        used += (size_t)sprintf(many_resizes + used, "%s{'output':'%d.png','ops':[%s]}",
                                i ? "," : "", i, ops);
    sprintf(many_resizes + used, "]");
    sprintf(kernel, ",'timeout_s':0.1,'ops':['grayscale',{'op':'resize','width':6000,'height':6000,"
                    "'fit':'exact','filter':'nearest'},{'op':'convolve','kernel':[");
    for (int y = 0; y < 15; y++)
        strcat(kernel, y ? ",[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]" : "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]");
    strcat(kernel, "]}]");
}

/* Creates a JPEG with this many empty segments of one kind. */
static void put_segments(const char *name, uint8_t marker, size_t segments)
{
    enum { segment_bytes = 4 };
    const uint8_t segment[segment_bytes] = {0xFF, marker, 0, 2};
    struct picture_file file = make_jpeg(.width = 9, .height = 7);
    uint8_t *empty = malloc(segments * segment_bytes);
    assert_non_null(empty);
    for (size_t i = 0; i < segments; i++)
        memcpy(empty + i * segment_bytes, segment, segment_bytes);
    picture_insert(&file, 2, empty, segments * segment_bytes);
    free(empty);
    world_put_picture(w, name, file);
}

static void put_pictures(void)
{
    world_put_picture(w, "huge.png", picture_png_huge(50000, 50000));
    world_put_picture(w, "huge.jpg", picture_jpeg_huge(65500, 65500));
    put_jpeg("scans.jpg", .width = 300, .height = 200, .scans = 1000);
    put_segments("segments.jpg", 0xE5, 100000);
    struct picture_file file = make_jpeg(.width = 30, .height = 20, .progressive = true);
    picture_jpeg_set_size(&file, 3000, 3000);
    world_put_picture(w, "lie.jpg", file);
    world_put_picture(w, "lie.png", picture_png_huge(4000, 3000));
    world_put_picture(w, "text-bomb.png", picture_png_ztxt_bomb());
    world_put_picture(w, "profile-bomb.png", picture_png_iccp_bomb());
    file = make_png(.width = 30, .height = 20, .colour_type = 2);
    picture_png_break_crc(&file, "IDAT");
    world_put_picture(w, "crc.png", file);
    put_png("wide.png", .width = 16384, .height = 40);
    redis_integer(w->client, "SET gpuimgd:img:garbage %b", "\xFF\xD8\xFF\xE0garbage", (size_t)11);
    file = picture_png_huge(50000, 50000);
    redis_integer(w->client, "SET gpuimgd:img:huge %b", file.bytes, file.length);
    picture_free(&file);
}

static void put_link(const char *to, const char *folder, const char *name)
{
    assert_int_equal(symlink(to, text_of("%s/%s", folder, name)), 0);
}

static void put_places(void)
{
    const char *device = in_path("device.jpg");
    world_put(w, "folder/file", "", 0);
    put_png("../secret.png", .width = 33, .height = 22);
    assert_int_equal(mkfifo(in_path("fifo.jpg"), 0644), 0);
    if (mknod(device, S_IFCHR | 0666, makedev(1, 5)) != 0) { /* /dev/zero */
        print_message("cannot create a device node (%s): using a FIFO\n",
                      strerror(errno));
        assert_int_equal(mkfifo(device, 0644), 0);
    }
    put_link("/proc", w->in, "proc");
    put_link("/proc/self/environ", w->in, "environ");
    put_link("loop", w->in, "loop");
    put_link("/proc", w->out, "proc");
}

static void push_attack(size_t row)
{
    const struct attack *attack = &attacks[row];
    if (attack->output)
        world_push(w, "{'id':'%zu','input':%s,'output':%s%s}", row, attack->input, attack->output,
                   attack->more);
    else
        world_push(w, "{'id':'%zu','input':%s,%s}", row, attack->input, attack->more);
}

/* A result with bad_json has no id, because the job's text is invalid. */
static void check_attack(cJSON *result, size_t row)
{
    const struct attack *attack = &attacks[row];
    const char *got = json_text(result, "error.code");
    bool done = strcmp(json_text(result, "status"), "done") == 0;
    if (attack->code ? strcmp(got, attack->code) != 0 : !done)
        print_error("input %.60s, output %.60s%.60s: %s\n", attack->input,
                    attack->output ? attack->output : "none", attack->more,
                    json_text(result, "error.message"));
    assert_true(json_number(result, "attempt") == 1);
    assert_true(json_number(result, "ms.total") < patience(ANSWER_S) * 1000);
    if (attack->code)
        check_failed(result, attack->code, NULL);
    else
        check_done(result);
}

static void test_each_is_refused(void **state)
{
    make_long_names();
    make_long_works();
    put_pictures();
    put_places();
    for (size_t row = 0; row < attack_count; row++) {
        push_attack(row);
        check_attack(check_next(w), row);
    }
}

/* ---- hundreds of attacks --------------------------------------------------------------------- */

/* "bad_json" of a result; "" of one that is done. */
static void count_code(const char *code, int step, int counts[STATUS_COUNT])
{
    int status = STATUS_OK;
    while (*code && strcmp(status_name((enum status)status), code) != 0)
        assert_true(++status < STATUS_COUNT);
    counts[status] += step;
}

static void run_round(void)
{
    int counts[STATUS_COUNT] = {0};
    for (size_t row = 0; row < attack_count; row++) {
        push_attack(row);
        count_code(attacks[row].code ? attacks[row].code : "", 1, counts);
    }
    for (size_t row = 0; row < attack_count; row++) {
        cJSON *result = check_next(w);
        count_code(json_text(result, "error.code"), -1, counts);
        cJSON_Delete(result);
    }
    for (int status = 0; status < STATUS_COUNT; status++) {
        if (counts[status] != 0)
            print_error("%s is missing %d times\n", status_name((enum status)status),
                        counts[status]);
        assert_int_equal(counts[status], 0);
    }
}

/* A leak grows in every round. In a single round a pool may grow once, if more attacks than before
 * are in flight at the same time. */
static void test_nothing_piles_up(void **state)
{
    struct process *daemon = &w->daemons[0];
    size_t warm = 0, peak = 0, descriptors = 0, before = 0, least_growth = SIZE_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        run_round();
        size_t rss = process_rss_kib(daemon);
        size_t growth = rss > before ? rss - before : 0;
        before = rss;
        if (round + 1 == ROUNDS_TO_WARM_UP) {
            warm = rss;
            peak = process_peak_kib(daemon);
            descriptors = process_descriptors(daemon);
        } else if (round + 1 > ROUNDS_TO_WARM_UP && growth < least_growth) {
            least_growth = growth;
        }
    }
    print_message("resident KiB after %d and %d attacks: %zu and %zu, at most %zu and %zu; "
                  "a round adds %zu or more\n",
                  ROUNDS_TO_WARM_UP * attack_count, ROUNDS * attack_count, warm, before, peak,
                  process_peak_kib(daemon), least_growth);
    assert_int_equal(process_descriptors(daemon), descriptors);
    if (MEMORY_COUNTS) {
        size_t piece = POOL_SEGMENT_BYTES / KIB;
        assert_true(least_growth <= warm / 100);
        assert_true(before <= warm + warm / 20 + piece);
        assert_true(process_peak_kib(daemon) <= peak + peak / 10 + piece);
    }
}

/* ---- a header that takes longer than the job's timeout --------------------------------------- */

static void test_long_header(void **state)
{
    put_segments("long-header.jpg", 0xE0, 5000000);
    world_push(w, "{'id':'h','input':'long-header.jpg','output':'x.png','timeout_s':0.02}");
    check_failed(check_next(w), "timeout", NULL);
}

/* ---- files truncated at each hundredth ------------------------------------------------------- */

static void test_cut_anywhere(void **state)
{
    struct picture_file files[] = {
        make_jpeg(.width = 200, .height = 150),
        make_png(.width = 200, .height = 150, .colour_type = 2)};
    for (int percent = 1; percent < 100; percent++)
        for (int i = 0; i < 2; i++) {
            const char *name = text_of("cut/%d-%d", percent, i);
            world_put_picture(w, name, picture_cut_at(&files[i], percent / 100.0));
            world_push(w, "{'id':'%s','input':'%s','output':'x.png'}", name, name);
        }
    for (int i = 0; i < 2 * 99; i++)
        check_failed(check_next(w), "decode_failed", NULL);
    picture_free(&files[0]);
    picture_free(&files[1]);
}

/* ---- a rival process that changes files ------------------------------------------------------ */

/* Forks the rival; returns false in it. */
static bool fork_rival(void)
{
    fflush(NULL);
    rival = fork();
    assert_true(rival >= 0);
    if (rival == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return rival > 0;
}

/* Starts a rival that swaps two names in a folder again and again. */
static void start_swapping(const char *folder, const char *a, const char *b)
{
    if (fork_rival())
        return;
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    while (renameat2(fd, a, fd, b, RENAME_EXCHANGE) == 0)
        process_sleep(20e-6);
    _exit(1);
}

/* The results of a batch of jobs. */
struct tally {
    int done, refused, retried;
};

/* job: a format with a %d. */
static void race(struct tally *tally, const char *job)
{
    for (int i = 0; i < RACE_BATCH; i++)
        world_push(w, job, tally->done + tally->refused + i);
    for (int i = 0; i < RACE_BATCH; i++) {
        cJSON *result = check_next(w);
        bool done = strcmp(json_text(result, "status"), "done") == 0;
        /* Only the image in the folder may be read, never the link's target. */
        assert_true(!done || json_number(result, "input.width") == 50);
        tally->done += done;
        tally->refused += !done;
        tally->retried += json_number(result, "attempt") > 1;
        if (!done)
            assert_true(strcmp(json_text(result, "error.code"), "path_refused") == 0 ||
                        strcmp(json_text(result, "error.code"), "input_unreadable") == 0);
        cJSON_Delete(result);
    }
}

/* Runs batches until the rival has won and lost at least once. */
static struct tally race_until_mixed(const char *job)
{
    struct tally tally = {0, 0, 0};
    for (int batch = 0; batch < RACE_BATCHES_MAX; batch++) {
        race(&tally, job);
        if (tally.done > 0 && tally.refused + tally.retried > 0)
            break;
    }
    print_message("%d done, %d refused, %d retried\n", tally.done, tally.refused,
                  tally.retried);
    assert_true(tally.done > 0 && tally.refused + tally.retried > 0);
    assert_true(process_running(&w->daemons[0]));
    return tally;
}

static void test_input_becomes_a_link(void **state)
{
    world_put_photo(w, "swapped.jpg", 50, 40);
    put_link("../secret.png", w->in, "swapped-link");
    start_swapping(w->in, "swapped.jpg", "swapped-link");
    race_until_mixed("{'input':'swapped.jpg','output':'race/%d.png'}");
}

static void test_folder_becomes_a_link(void **state)
{
    world_put_photo(w, "swapped/secret.png", 50, 40);
    put_link("..", w->in, "swapped-out");
    start_swapping(w->in, "swapped", "swapped-out");
    race_until_mixed("{'input':'swapped/secret.png','output':'race/%d.png'}");
}

/* Outputs are written inside the folder or not at all. */
static void test_output_folder_becomes_a_link(void **state)
{
    const char *elsewhere = text_of("%s/elsewhere", w->folder);
    assert_int_equal(mkdir(elsewhere, 0755), 0);
    assert_int_equal(mkdir(out_path("swapped"), 0755), 0);
    put_link("../elsewhere", w->out, "swapped-link");
    start_swapping(w->out, "swapped", "swapped-link");
    struct tally tally = race_until_mixed("{'input':'good.jpg','output':'swapped/race-%d.png'}");
    end_rival(state); /* during swaps a directory walk may see a file twice */
    assert_int_equal(text_file_count(elsewhere, ""), 0);
    assert_int_equal(text_file_count(w->out, "/race-"), tally.done);
}

/* The image is at the start of a file that is truncated to half its length and extended again. */
static void test_input_shrinks_and_grows(void **state)
{
    enum { whole_bytes = 8 << 20 };
    const char *path = in_path("shrinking.jpg");
    world_put_photo(w, "shrinking.jpg", 50, 40);
    assert_int_equal(truncate(path, whole_bytes), 0);
    if (!fork_rival()) {
        uint32_t random = 7;
        for (;; process_sleep(picture_random(&random) % 4000 * 1e-6))
            if (truncate(path, whole_bytes / 2) != 0 || truncate(path, whole_bytes) != 0)
                _exit(1);
    }
    race_until_mixed("{'input':'shrinking.jpg','output':'race/%d.png'}");
}

/* ---- end ------------------------------------------------------------------------------------- */

static void test_stop(void **state)
{
    struct process *daemon = &w->daemons[0];
    check_done(check_answer(w, "{'input':'good.jpg','output':'good.png','ops':['sobel']}"));
    assert_int_equal(process_log_count(daemon, 0, "hangs"), 0);
    check_stop(daemon);
    assert_int_equal(redis_integer(w->client, "LLEN gpuimgd:results"), 0);
    check_clean(w);
}

#define SETTLED(name) cmocka_unit_test_setup(name, settle_world)
#define RACE(name) cmocka_unit_test_setup_teardown(name, settle_world, end_rival)

int main(void)
{
    cmocka_set_test_filter(getenv("GPUIMGD_TEST_ONLY")); /* a pattern such as test_input* */
    const struct CMUnitTest tests[] = {
        SETTLED(test_each_is_refused),
        SETTLED(test_nothing_piles_up),
        SETTLED(test_long_header),
        SETTLED(test_cut_anywhere),
        RACE(test_input_becomes_a_link),
        RACE(test_folder_becomes_a_link),
        RACE(test_output_folder_becomes_a_link),
        RACE(test_input_shrinks_and_grows),
        SETTLED(test_stop),
    };
    const struct CMUnitTest on_foot[] = {
        SETTLED(test_each_is_refused),
        RACE(test_input_becomes_a_link),
        RACE(test_folder_becomes_a_link),
        RACE(test_output_folder_becomes_a_link),
        SETTLED(test_stop),
    };
    const char *grace = text_of("--hang_grace_s=%g", patience(5));
    struct world_options options = {
        .photo = {"good.jpg", 50, 40}, .start = true, .unprivileged = true,
        .daemon = {"--inflight=8", "--workers=2", "--pinned_bytes=256M", grace}};
    world_options = &options;
    int failed = cmocka_run_group_tests(tests, open_world, close_world);
    options.no_openat2 = true;
    return failed + cmocka_run_group_tests(on_foot, open_world, close_world);
}
