/*
 * test_sets.c - jobs with many images: their files, tars, arrays and values are those of the same
 * images as single jobs, and images that fail are left out of all of them.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fixtures/shard.h"
#include "tests/fixtures/test_world.h"
#include "tests/fixtures/text_file.h"

#define COLOURS 5 /* images of the same size */

/* An archive of the colour images, with a text beside each, as img/0.seg.jpg and img/0.txt. */
static struct picture_file make_archive(struct picture_file (*make)(const struct shard_member *,
                                                                    size_t))
{
    struct shard_member members[2 * COLOURS];
    struct picture_file files[COLOURS];
    for (size_t i = 0; i < COLOURS; i++) {
        files[i] = picture_load(in_path(text_of("c/%zu.jpg", i)));
        members[2 * i] =
            (struct shard_member){text_of("img/%zu.seg.jpg", i), files[i].bytes, files[i].length};
        members[2 * i + 1] = (struct shard_member){text_of("img/%zu.txt", i), "label", i};
    }
    struct picture_file archive = make(members, 2 * COLOURS);
    for (size_t i = 0; i < COLOURS; i++)
        picture_free(&files[i]);
    return archive;
}

static struct picture_file make_shard(void)
{
    return make_archive(shard_make);
}

static void fill(void)
{
    for (uint32_t i = 0; i < COLOURS; i++)
        put_jpeg(text_of("c/%u.jpg", i), .width = 90, .height = 61, .seed = i + 1);
    put_png("c/5.png", .width = 33, .height = 20, .colour_type = 6);
    put_jpeg("other.jpg", .width = 20, .height = 20);
    world_put(w, "c/notes.txt", "no image", 8);
    world_put(w, "broken.jpg", "\xFF\xD8\xFF\xE0", 4);
    world_put_picture(w, "bomb.png", picture_png_huge(30000, 30000));
    assert_int_equal(mkdir(in_path("empty"), 0755), 0);
    struct picture_file shard = make_shard();
    picture_save(&shard, in_path("shard.tar"));
    picture_free(&shard);
}

/* ---- comparisons ---------------------------------------------------------------------------- */

static struct picture_file load_out(const char *name)
{
    struct picture_file file = picture_load(out_path(name));
    assert_true(file.length > 0);
    return file;
}

static void check_same(const char *what, const void *bytes, size_t length, const char *reference)
{
    struct picture_file want = load_out(reference);
    if (length != want.length || memcmp(bytes, want.bytes, length) != 0)
        fail_msg("%s is not %s: %zu bytes, not %zu", what, reference, length, want.length);
    picture_free(&want);
}

static void check_file(const char *name, const char *reference)
{
    struct picture_file file = load_out(name);
    check_same(name, file.bytes, file.length, reference);
    picture_free(&file);
}

#define OPS "'ops':[{'op':'resize','width':40,'height':40,'fit':'exact'},'invert']"

/* Runs the colour images as single jobs: ref/0.FORMAT and so on. */
static void make_references(const char *format)
{
    for (int i = 0; i < COLOURS; i++)
        check_done(
            check_answer(w, "{'input':'c/%d.jpg','output':'ref/%d.%s'," OPS "}", i, i, format));
}

/* The tar must have these members: each a name, a blank, and a file of the single jobs, or "=" and
 * the contents. */
static void check_tar(const char *name, const char *const *members)
{
    struct picture_file tar = load_out(name);
    struct shard_member member;
    size_t offset = 0;
    for (; *members; members++) {
        const char *blank = strchr(*members, ' ');
        if (!shard_next(&tar, &offset, &member))
            fail_msg("%s ends before %s", name, *members);
        assert_string_equal(member.name, text_of("%.*s", (int)(blank - *members), *members));
        if (blank[1] == '=')
            assert_int_equal(member.length, strlen(blank + 2));
        else
            check_same(member.name, member.bytes, member.length, blank + 1);
    }
    assert_false(shard_next(&tar, &offset, &member));
    assert_true(tar.length >= offset + 2 * SHARD_BLOCK);
    picture_free(&tar);
}

/* The array must have the colour images with these numbers, as the raw files of single jobs. */
static void check_array(const char *name, const char *numbers)
{
    struct picture_file array = load_out(name);
    size_t count = strlen(numbers), one = 40 * 40 * 3;
    assert_true(shard_npy_has(&array, text_of("'shape': (%zu, 40, 40, 3)", count)));
    struct shard_member data = shard_npy_data(&array);
    assert_int_equal(data.length, count * one);
    for (size_t i = 0; i < count; i++)
        check_same(name, (const uint8_t *)data.bytes + i * one, one,
                   text_of("ref/%c.raw", numbers[i]));
    picture_free(&array);
}

/* ---- sources and outputs -------------------------------------------------------------------- */

TEST(test_list_to_files)
{
    make_references("jpg");
    cJSON *result = check_answer(w, "{'inputs':['c/0.jpg','c/1.jpg'],"
                                    "'outputs':[{'output':'l/%%p.jpg'," OPS "},"
                                    "{'output':'l/%%n-%%%%.jpg'," OPS "}]}");
    check_has(result, "{'images':{'count':2,'done':2,'failed':0,'copied':0,'pixels':10980},"
                      "'outputs.0.images':2,'outputs.1.path':'l/%%n-%%%%.jpg','input':null}");
    check_done(result);
    check_file("l/c/0.jpg", "ref/0.jpg");
    check_file("l/c/1.jpg", "ref/1.jpg");
    for (int i = 0; i < 2; i++)
        check_file(text_of("l/00000%d-%%.jpg", i), text_of("ref/%d.jpg", i));
}

/* The later one of two images with the same output fails. */
TEST(test_equal_names)
{
    make_references("jpg");
    cJSON *result = check_answer(w, "{'inputs':['c/0.jpg','c/1.jpg','c/0.jpg'],"
                                    "'output':'e/%%p.jpg'," OPS "}");
    check_has(result, "{'images.count':3,'images.done':2,'images.failed':1,"
                      "'images.errors.0.image':2,'images.errors.0.error.code':'bad_job',"
                      "'outputs.0.images':2}");
    cJSON_Delete(result);
    check_file("e/c/0.jpg", "ref/0.jpg");
}

TEST(test_list_of_keys)
{
    make_references("jpg");
    for (uint32_t i = 0; i < COLOURS; i++)
        world_set_picture(w, text_of("gpuimgd:img:k%u", i),
                          make_jpeg(.width = 90, .height = 61, .seed = i + 1));
    cJSON *result = check_answer(w, "{'inputs':[{'key':'gpuimgd:img:k3'},{'key':'gpuimgd:img:no'},"
                                    "'c/2.jpg'],'output':'k/%%p.jpg'," OPS "}");
    check_has(result, "{'images.done':2,'images.failed':1,'images.errors.0.image':1,"
                      "'images.errors.0.name':'gpuimgd:img:no',"
                      "'images.errors.0.error.code':'input_missing'}");
    check_done(result);
    check_file("k/k3.jpg", "ref/3.jpg");
    check_file("k/c/2.jpg", "ref/2.jpg");
}

/* In the order of the names' bytes; by default only names of images. */
TEST(test_folder)
{
    make_references("jpg");
    cJSON *result = check_answer(w, "{'inputs':{'folder':'c'},'output':'f/%%n.jpg'," OPS "}");
    check_has(result, "{'input':{'folder':'c'},'images.count':6,'images.done':6}");
    check_done(result);
    for (int i = 0; i < COLOURS; i++)
        check_file(text_of("f/00000%d.jpg", i), text_of("ref/%d.jpg", i));
    result = check_answer(w, "{'inputs':{'folder':'c','pattern':['[0-9].jpg','?.jp*','5.png']},"
                             "'output':{'path':'f.tar','format':'jpeg'}," OPS "}");
    check_has(result, "{'images.count':6}");
    check_done(result);
    result = check_answer(w, "{'inputs':{'folder':'c','pattern':'[23].jpg'},'ops':['stats']}");
    check_has(result, "{'images.count':0,'images.done':0,'images.failed':0,'images.copied':0}");
    check_done(result);
}

/* A tar keeps what is no image, and is the same after each run. */
static void check_shard(const char *place, const char *format)
{
    static const char *const members[] = {"img/0.seg.jpg ref/0.jpg",
                                          "img/0.txt =",
                                          "img/1.seg.jpg ref/1.jpg",
                                          "img/1.txt =l",
                                          "img/2.seg.jpg ref/2.jpg",
                                          "img/2.txt =la",
                                          "img/3.seg.jpg ref/3.jpg",
                                          "img/3.txt =lab",
                                          "img/4.seg.jpg ref/4.jpg",
                                          "img/4.txt =labe",
                                          NULL};
    cJSON *result = check_answer(w,
                                 "{'inputs':{'archive':%s},'outputs':["
                                 "{'output':'a/out.tar'," OPS "},"
                                 "{'output':'a/%%p.jpg'," OPS "},"
                                 "{'output':{'path':'a/out.npy','pack':'array'}," OPS "},"
                                 "{'ops':['stats']}]}",
                                 place);
    assert_string_equal(json_text(result, "input.format"), format);
    check_has(result, "{'images.count':5,'images.done':5,'images.copied':5,"
                      "'images.values.4.image':4,'images.values.4.output':3,"
                      "'outputs.2.shape':[5,40,40,3],'outputs.2.dtype':'uint8'}");
    check_done(result);
    check_tar("a/out.tar", members);
    check_array("a/out.npy", "01234");
    for (int i = 0; i < COLOURS; i++)
        check_file(text_of("a/img/%d.seg.jpg", i), text_of("ref/%d.jpg", i));
}

TEST(test_archives)
{
    make_references("jpg");
    make_references("raw");
    world_set_picture(w, "gpuimgd:img:shard", make_shard());
    check_shard("'shard.tar'", "tar");
    assert_int_equal(rename(out_path("a/out.tar"), out_path("first.tar")), 0);
    check_shard("{'key':'gpuimgd:img:shard'}", "tar");
    check_file("a/out.tar", "first.tar");
    world_put_picture(w, "shard.zip", make_archive(shard_zip));
    check_shard("'shard.zip'", "zip");
}

/* Whether a descriptor of the daemon refers to the file. */
static bool is_open(const char *path)
{
    const char *folder = text_of("/proc/%d/fd", (int)w->daemons[0].pid);
    struct stat file, other;
    bool found = false;
    assert_int_equal(stat(path, &file), 0);
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && !found && (entry = readdir(list));)
        found = stat(text_of("%s/%s", folder, entry->d_name), &other) == 0 &&
                other.st_dev == file.st_dev && other.st_ino == file.st_ino;
    assert_non_null(list);
    closedir(list);
    return found;
}

/* Who gets the result may delete the files. The daemon's loop must not be the one that frees them.
 */
TEST(test_files_are_closed_before_the_result)
{
    for (int i = 0; i < 20; i++) {
        check_done(check_answer(w, "{'inputs':{'archive':'shard.tar'},'output':'closed.tar'}"));
        assert_false(is_open(out_path("closed.tar")));
        assert_false(is_open(in_path("shard.tar")));
    }
}

/* The overlay is read while the member is open in its archive, which is then read again. */
TEST(test_overlays_of_members)
{
    world_set_picture(w, "gpuimgd:img:overlay", picture_load(in_path("c/5.png")));
    const char *ops = "'ops':[{'op':'composite','input':{'key':'gpuimgd:img:overlay'}}]";
    check_done(check_answer(w, "{'inputs':{'archive':'shard.tar'},'output':'ov/%%n.jpg',%s}", ops));
    for (int i = 0; i < COLOURS; i++) {
        check_done(check_answer(w, "{'input':'c/%d.jpg','output':'ov/single.jpg',%s}", i, ops));
        check_file(text_of("ov/00000%d.jpg", i), "ov/single.jpg");
    }
}

/* Readers other than libarchive and this test's. */
TEST(test_python_reads)
{
    if (system("python3 -c 'import tarfile' 2>/dev/null") != 0)
        skip();
    check_done(
        check_answer(w, "{'inputs':{'archive':'shard.tar'},'output':'p.tar','ops':['invert']}"));
    const char *program = "import sys,tarfile; t=tarfile.open(sys.argv[1]); "
                          "sys.exit([(m.name,m.mtime,m.mode) for m in t if m.isfile()][::2]!="
                          "[(\"img/%d.seg.jpg\"%i,1699950848,0o644) for i in range(5)])";
    assert_int_equal(system(text_of("python3 -c '%s' %s", program, out_path("p.tar"))), 0);
}

/* Pushes a job for a tar of `count` broken images, with JOB_OUTPUTS_MAX outputs for each. */
static void push_broken(size_t count, const char *template)
{
    struct shard_member *members = calloc(count, sizeof *members);
    char outputs[1024] = "";
    for (size_t i = 0; i < count; i++)
        members[i] = (struct shard_member){text_of("%zu.jpg", i), "x", 1};
    struct picture_file shard = shard_make(members, count);
    picture_save(&shard, in_path("broken.tar"));
    picture_free(&shard);
    free(members);
    for (size_t i = 0, end = 0; i < JOB_OUTPUTS_MAX; i++)
        end += (size_t)snprintf(outputs + end, sizeof outputs - end, "%s{'output':'o%zu/%s'}",
                                i ? "," : "", i, template);
    world_push(w, "{'inputs':{'archive':'broken.tar'},'outputs':[%s]}", outputs);
}

/* No output replaces one whose name is not compared any more. */
TEST(test_very_many_names)
{
    enum { COUNT = SET_NAMES_MAX / JOB_OUTPUTS_MAX + 100 };
    push_broken(COUNT, "%p.png");
    check_failed(check_next(w), "bad_job", "more than 262144 outputs of images",
                 "put %n into \"o0/%p.png\"", NULL);
    push_broken(COUNT, "%n.png");
    cJSON *result = check_next(w);
    check_has(result, "{'status':'failed','error.code':'unsupported_format','images.failed':%d}",
              COUNT);
    cJSON_Delete(result);
}

TEST(test_many)
{
    make_references("raw");
    char *inputs = malloc(1024 * 12), *end = inputs;
    for (int i = 0; i < 1024; i++)
        end += sprintf(end, "%s'c/%d.jpg'", i ? "," : "", i % COLOURS);
    cJSON *result = check_answer(
        w, "{'inputs':[%s],'output':{'path':'many.npy','pack':'array'}," OPS "}", inputs);
    check_has(result, "{'images.done':1024,'outputs.0.shape':[1024,40,40,3]}");
    check_done(result);
    struct picture_file array = load_out("many.npy");
    struct shard_member data = shard_npy_data(&array);
    assert_int_equal(data.length, 1024 * 4800);
    for (size_t i = 0; i < 1024; i++)
        check_same("many.npy", (const uint8_t *)data.bytes + i * 4800, 4800,
                   text_of("ref/%zu.raw", i % COLOURS));
    picture_free(&array);
    free(inputs);
}

/* A tar and an array of no images are valid, too. */
TEST(test_none)
{
    static const char *const none[] = {NULL};
    cJSON *result = check_answer(w, "{'inputs':{'folder':'empty'},'outputs':[{'output':'none.tar'},"
                                    "{'output':'none/%%p.jpg'},"
                                    "{'output':{'path':'none.npy','pack':'array'}}]}");
    check_has(result, "{'images.count':0,'images.errors':null,'images.values':null}");
    check_done(result);
    check_tar("none.tar", none);
    struct picture_file array = load_out("none.npy");
    assert_int_equal(shard_npy_data(&array).length, 0);
    picture_free(&array);
}

/* ---- images that fail ----------------------------------------------------------------------- */

#define BAD                                                                                        \
    "'inputs':['no.jpg','c/0.jpg','broken.jpg','bomb.png','c/notes.txt','c/1.jpg','no2.jpg']"

/* Also the first and the last one. */
TEST(test_bad_images_are_skipped)
{
    static const char *const members[] = {"c/0.jpg ref/0.jpg", "c/1.jpg ref/1.jpg", NULL};
    make_references("jpg");
    make_references("raw");
    cJSON *result = check_answer(w, "{" BAD ",'outputs':[{'output':'bad.tar'," OPS "},"
                                    "{'output':'bad/%%n.jpg'," OPS "},"
                                    "{'output':{'path':'bad.npy','pack':'array'}," OPS "}]}");
    check_has(result, "{'images.count':7,'images.done':2,'images.failed':5,'outputs.0.images':2,"
                      "'outputs.1.images':2,'outputs.2.images':2}");
    bool seen[7] = {0};
    const cJSON *item;
    cJSON_ArrayForEach(item, json_at(result, "images.errors"))
    {
        seen[(int)json_number(item, "image")] = true;
        assert_true(strlen(json_text(item, "error.code")) > 0);
    }
    assert_true(seen[0] && !seen[1] && seen[2] && seen[3] && seen[4] && !seen[5] && seen[6]);
    check_done(result);
    check_tar("bad.tar", members);
    check_array("bad.npy", "01");
    check_file("bad/000001.jpg", "ref/0.jpg");
    check_file("bad/000005.jpg", "ref/1.jpg");
}

TEST(test_a_bad_image_fails_the_job)
{
    check_failed(check_answer(w, "{" BAD ",'on_error':'fail','output':'fail.tar'}"),
                 "input_missing", "no.jpg", NULL);
    check_failed(check_answer(w, "{'inputs':['c/0.jpg','broken.jpg'],'on_error':'fail',"
                                 "'outputs':[{'output':'fail.tar'},{'output':{'path':'fail.npy',"
                                 "'pack':'array'}}]}"),
                 "decode_failed", NULL);
    assert_int_equal(mkdir(out_path("folder.tar"), 0755), 0);
    cJSON *result = check_answer(w, "{'inputs':['c/0.jpg'],'outputs':[{'output':'f.jpg/%%n.jpg'},"
                                    "{'output':'folder.tar'}]}");
    check_has(result, "{'outputs.0.images':1,'outputs.1.images':0,'outputs.1.bytes':null}");
    check_failed(result, "path_refused", "folder.tar", NULL);
    check_failed(check_answer(w, "{'inputs':['broken.jpg','no.jpg'],'output':'fail.tar'}"),
                 "decode_failed", NULL);
    assert_int_equal(access(out_path("fail.tar"), F_OK), -1);
    assert_int_equal(access(out_path("fail.npy"), F_OK), -1);
    /* Temporary files stay until the last image of the job has ended. */
    double end = process_now() + patience(5);
    while (text_file_count(w->out, ".tmp") > 0 && process_now() < end)
        process_sleep(0.01);
    assert_int_equal(text_file_count(w->out, ".tmp"), 0);
}

/* An image that the tar refuses, because its name is taken, is not in the array; and one that the
 * array refuses, because of its shape, is not in the tar. In any order of the outputs. */
TEST(test_in_all_or_none)
{
    static const char *const members[] = {"s/a.jpg ref/0.jpg", "s/b.jpg ref/2.jpg", NULL};
    static const char tar[] = "{'output':'all.tar'," OPS "}";
    static const char array[] = "{'output':{'path':'all.npy','pack':'array'},'ops':["
                                "{'op':'resize','width':40,'height':40,'fit':'inside'},'invert']}";
    make_references("jpg");
    put_jpeg("s/a.jpg", .width = 90, .height = 90, .seed = 1);
    put_jpeg("s/b.jpg", .width = 90, .height = 90, .seed = 2);
    put_jpeg("s/c.jpg", .width = 90, .height = 40, .seed = 3);
    for (int i = 0; i < 2; i++) {
        check_done(check_answer(w, "{'input':'s/a.jpg','output':'ref/0.jpg'," OPS "}"));
        check_done(check_answer(w, "{'input':'s/b.jpg','output':'ref/2.jpg'," OPS "}"));
        cJSON *result = check_answer(w,
                                     "{'inputs':['s/a.jpg','s/a.jpg','s/c.jpg','s/b.jpg'],"
                                     "'outputs':[%s,%s]}",
                                     i ? array : tar, i ? tar : array);
        check_has(result, "{'images.done':2,'images.failed':2,'images.errors.0.image':1,"
                          "'images.errors.1.image':2,'outputs.0.images':2,'outputs.1.images':2}");
        check_done(result);
        check_tar("all.tar", members);
        struct picture_file npy = load_out("all.npy");
        assert_true(shard_npy_has(&npy, "'shape': (2, 40, 40, 3)"));
        assert_int_equal(shard_npy_data(&npy).length, 2 * 40 * 40 * 3);
        picture_free(&npy);
    }
}

/* Damages one byte in the middle of the member, whose name is in the zip twice: first before its
 * contents. */
static void put_damaged_zip(const char *member)
{
    struct picture_file zip = make_archive(shard_zip);
    uint8_t *at = memmem(zip.bytes, zip.length, member, strlen(member));
    assert_non_null(at);
    at[strlen(member) + 2] ^= 1;
    world_put_picture(w, "damaged.zip", zip);
}

/* An image whose bytes in a zip are damaged fails alone; a text that would be copied fails the job.
 */
TEST(test_damaged_members_of_a_zip)
{
    static const char job[] =
        "{'inputs':{'archive':'damaged.zip'},'output':'damaged.tar'," OPS ",'on_error':'%s'}";
    static const char *const members[] = {"img/0.seg.jpg ref/0.jpg", "img/0.txt =",
                                          "img/1.seg.jpg ref/1.jpg", "img/1.txt =l",
                                          "img/2.txt =la",           "img/3.seg.jpg ref/3.jpg",
                                          "img/3.txt =lab",          "img/4.seg.jpg ref/4.jpg",
                                          "img/4.txt =labe",         NULL};
    make_references("jpg");
    put_damaged_zip("img/2.seg.jpg");
    cJSON *result = check_answer(w, job, "skip");
    check_has(result, "{'images.done':4,'images.failed':1,'images.copied':5,"
                      "'images.errors.0.image':2,'images.errors.0.error.code':'bad_archive'}");
    check_done(result);
    check_tar("damaged.tar", members);
    check_failed(check_answer(w, job, "fail"), "bad_archive", "img/2.seg.jpg", "CRC", NULL);
    put_damaged_zip("img/4.txt");
    check_failed(check_answer(w, job, "skip"), "bad_archive", "img/4.txt", "CRC", NULL);
}

/* A tar without all of its bytes fails the job, wherever it is cut; also between two members. */
TEST(test_cut_archives)
{
    struct picture_file shard = make_shard();
    struct shard_member member;
    size_t offset = 0, end = 0;
    while (shard_next(&shard, &offset, &member))
        end = offset;
    for (size_t cut = 0; cut <= end; cut += cut + 1500 > end && cut < end ? end - cut : 1500) {
        world_put(w, "cut.tar", shard.bytes, cut);
        check_failed(check_answer(w, "{'inputs':{'archive':'cut.tar'},'output':'cut-out.tar'}"),
                     "bad_archive", NULL);
    }
    for (offset = 0; shard_next(&shard, &offset, &member);) {
        world_put(w, "cut.tar", shard.bytes, offset);
        check_failed(check_answer(w, "{'inputs':{'archive':'cut.tar'},'output':'cut-out.tar'}"),
                     "bad_archive", "truncated", NULL);
    }
    assert_int_equal(access(out_path("cut-out.tar"), F_OK), -1);
    picture_free(&shard);
}

WORLD_MAIN(ONE_WORLD, .fill = fill, .start = true, .daemon = {"--workers=2", "--inflight=1"})
