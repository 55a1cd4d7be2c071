/* Tests of single decisions of the dispatcher: places, memory, service, and what it learns. */
#include "conf/clock.h"
#include "daemon/pipeline/dispatch.h"
#include "tests/fixtures/test.h"

#define MS 1000000ull

static struct dispatch alone;

static const struct dispatch_request photograph = {
    .kind = DISPATCH_SEQUENTIAL, .pixels = 6000000, .file_bytes = 1000000,
    .device_bytes = 20000000};

static void open_alone(uint32_t devices, size_t room)
{
    const size_t rooms[2] = {room, room};
    dispatch_open(&alone, 16, 100 * MIB, devices, rooms);
}

static struct dispatch_charge sent_at(struct dispatch_request request, uint64_t now_ns)
{
    struct dispatch_charge charge = {0};
    dispatch_choose(&alone, &request, now_ns, &charge);
    return charge;
}

/* Runs a job alone. Returns whether a device decoded it. */
static bool run_at(struct dispatch_request request, uint64_t now_ns)
{
    struct dispatch_charge charge = sent_at(request, now_ns);
    bool on_device = charge.on_device;
    dispatch_start(&alone, &charge, now_ns);
    dispatch_return(&alone, (struct dispatch_charge *[]){&charge}, 1);
    dispatch_end(&alone, &charge);
    return on_device;
}

TEST(a_lone_job_takes_the_faster_place)
{
    struct dispatch_request progressive = photograph, png = photograph;
    progressive.kind = DISPATCH_PROGRESSIVE;
    png.kind = DISPATCH_PNG;
    open_alone(1, GIB);
    assert_true(run_at(photograph, NS_PER_S));
    assert_false(run_at(progressive, 2 * NS_PER_S));
    assert_false(run_at(png, 3 * NS_PER_S));
    dispatch_close(&alone);
}

/* Batches of AVIFs are large and take long, so a device gets many of these jobs, until they need
 * much of its memory. */
TEST(a_device_gets_many_jobs_for_avifs)
{
    enum { AVIFS = 600 };
    static struct dispatch_charge charges[AVIFS];
    struct dispatch_request avif = photograph;
    avif.kind = DISPATCH_AVIF;
    open_alone(1, 100 * GIB);
    for (size_t i = 0; i < AVIFS; i++) {
        assert_int_equal(dispatch_ahead(&alone, NS_PER_S), i < 512 ? i : 512);
        charges[i] = sent_at(avif, NS_PER_S);
        assert_true(charges[i].on_device);
        dispatch_start(&alone, &charges[i], NS_PER_S);
    }
    assert_true(run_at(avif, NS_PER_S + 500 * MS));
    assert_false(
        run_at(avif, NS_PER_S + 600 * MS)); /* 0.2 s and 60 ns for each of 6,000,000 pixels */
    assert_int_equal(dispatch_ahead(&alone, NS_PER_S + 600 * MS), AVIFS);
    for (size_t i = 0; i < AVIFS; i++)
        dispatch_end(&alone, &charges[i]);
    dispatch_close(&alone);
    open_alone(1, 1600000000); /* 50 files need five eighths of it */
    for (size_t i = 0; i < 70; i++) {
        assert_int_equal(dispatch_ahead(&alone, NS_PER_S), i < 50 ? i : 50);
        charges[i] = sent_at(avif, NS_PER_S);
    }
    for (size_t i = 0; i < 70; i++)
        dispatch_end(&alone, &charges[i]);
    dispatch_close(&alone);
}

/* The job remains with the device, where it counts as a job without an AVIF. */
TEST(a_job_without_an_avif_after_all)
{
    struct dispatch_request avif = photograph;
    avif.kind = DISPATCH_AVIF;
    open_alone(1, 1600000000);
    struct dispatch_charge charge = sent_at(avif, NS_PER_S), other = sent_at(avif, NS_PER_S);
    assert_int_equal(dispatch_ahead(&alone, NS_PER_S), 2);
    dispatch_forget_avif(&alone, &charge);
    assert_int_equal(charge.request.kind, DISPATCH_SEQUENTIAL);
    assert_int_equal(alone.devices[0].backlog[DISPATCH_AVIF].jobs, 1);
    assert_int_equal(alone.devices[0].backlog[DISPATCH_AVIF].bytes, avif.device_bytes);
    assert_int_equal(alone.devices[0].backlog[DISPATCH_SEQUENTIAL].jobs, 1);
    assert_int_equal(alone.devices[0].backlog[DISPATCH_SEQUENTIAL].bytes, avif.device_bytes);
    assert_int_equal(alone.devices[0].bytes, 2 * avif.device_bytes);
    dispatch_forget_avif(&alone, &charge); /* does nothing */
    dispatch_start(&alone, &charge, NS_PER_S);
    dispatch_return(&alone, (struct dispatch_charge *[]){&charge}, 1);
    dispatch_end(&alone, &charge);
    dispatch_end(&alone, &other);
    assert_int_equal(alone.devices[0].bytes, 0);
    dispatch_close(&alone);
}

TEST(a_stuck_job_keeps_others_away)
{
    open_alone(1, GIB);
    struct dispatch_charge stuck = sent_at(photograph, NS_PER_S);
    assert_true(stuck.on_device);
    dispatch_start(&alone, &stuck, NS_PER_S);
    struct dispatch_charge next = sent_at(photograph, NS_PER_S + MS);
    assert_true(next.on_device);
    dispatch_end(&alone, &next);
    assert_false(run_at(photograph, 2 * NS_PER_S));
    dispatch_end(&alone, &stuck); /* a zombie that came back */
    assert_true(run_at(photograph, 3 * NS_PER_S));
    dispatch_close(&alone);
}

TEST(rules_and_service)
{
    struct dispatch_request forced = photograph, never = photograph, png = photograph;
    forced.rule = DISPATCH_TO_DEVICE;
    never.rule = DISPATCH_TO_CORES;
    png.kind = DISPATCH_OTHER;
    open_alone(2, GIB);
    assert_false(run_at(never, NS_PER_S));
    assert_false(run_at(png, NS_PER_S));
    for (int i = 0; i < 20; i++)
        assert_true(run_at(forced, (2 + i) * NS_PER_S));
    forced.out_of_service = 1;
    struct dispatch_charge charge = sent_at(forced, 30 * NS_PER_S);
    assert_true(charge.on_device);
    assert_int_equal(charge.device, 1);
    forced.out_of_service = 3;
    dispatch_choose(&alone, &forced, 31 * NS_PER_S, &charge); /* instead of the first charge */
    assert_false(charge.on_device);
    dispatch_end(&alone, &charge);
    dispatch_end(&alone, &charge);
    dispatch_close(&alone);
}

TEST(full_devices_share_what_they_must_take)
{
    struct dispatch_request forced = photograph;
    struct dispatch_charge charges[8];
    forced.rule = DISPATCH_TO_DEVICE;
    forced.device_bytes = 2 * GIB;
    open_alone(2, GIB);
    for (size_t i = 0; i < COUNT_OF(charges); i++)
        charges[i] = sent_at(forced, NS_PER_S);
    assert_int_equal(alone.devices[0].backlog[forced.kind].jobs, COUNT_OF(charges) / 2);
    for (size_t i = 0; i < COUNT_OF(charges); i++)
        dispatch_end(&alone, &charges[i]);
    dispatch_close(&alone);
}

/* The cores get jobs that do not fit into the device's memory. */
TEST(memory_bounds_a_device)
{
    struct dispatch_request large = photograph;
    struct dispatch_charge charges[8];
    size_t on_device = 0;
    large.device_bytes = 300 * MIB;
    open_alone(1, GIB);
    for (size_t i = 0; i < COUNT_OF(charges); i++) {
        charges[i] = sent_at(large, NS_PER_S);
        on_device += charges[i].on_device;
    }
    assert_int_equal(on_device, 3);
    for (size_t i = 0; i < COUNT_OF(charges); i++)
        dispatch_end(&alone, &charges[i]);
    dispatch_close(&alone);
}

static const struct dispatch_request png = {
    .kind = DISPATCH_PNG, .pixels = 5000000, .file_bytes = 8000000, .device_bytes = 20000000};

/* As many long files as workers go to the cores, and then one for each that ends. */
TEST(few_long_files_go_to_the_cores)
{
    struct dispatch_request drawn = png, sequential = photograph, other = png;
    struct dispatch_charge charges[24];
    drawn.pixels = 12000000;
    other.kind = DISPATCH_OTHER;
    open_alone(1, GIB);
    for (size_t i = 0; i < COUNT_OF(charges); i++) {
        charges[i] = sent_at(i == 3 ? other : i == 5 ? sequential : png, NS_PER_S);
        assert_int_equal(charges[i].on_device, i == 5 || i > 16);
    }
    struct dispatch_charge charge = sent_at(drawn, NS_PER_S);
    assert_true(charge.on_device); /* it has two thirds of a byte per pixel */
    drawn.file_bytes /= 2;
    dispatch_choose(&alone, &drawn, NS_PER_S, &charge);
    assert_false(charge.on_device);
    drawn.pixels = 8000000;
    dispatch_choose(&alone, &drawn, NS_PER_S, &charge);
    assert_true(charge.on_device);
    dispatch_end(&alone, &charge);
    for (size_t i = 0; i < COUNT_OF(charges); i++) {
        dispatch_end(&alone, &charges[i]);
        assert_int_equal(run_at(png, NS_PER_S), i < 8);
    }
    dispatch_close(&alone);
}

/* As many as it decodes at once, and some that wait. The cores get the others. */
TEST(a_device_has_a_number_of_pngs)
{
    static struct dispatch_charge charges[LONG_STREAMS + 40];
    struct dispatch_request forced = png;
    size_t on_device = 0;
    open_alone(1, 64 * GIB);
    forced.rule = DISPATCH_TO_DEVICE;
    for (size_t i = 0; i < COUNT_OF(charges); i++) {
        charges[i] = sent_at(png, NS_PER_S);
        on_device += charges[i].on_device;
    }
    assert_int_equal(on_device, LONG_STREAMS + 16);
    assert_false(charges[COUNT_OF(charges) - 1].on_device);
    struct dispatch_charge charge = sent_at(forced, 100 * NS_PER_S);
    assert_true(charge.on_device);
    dispatch_end(&alone, &charge);
    for (size_t i = 0; i < COUNT_OF(charges); i++)
        dispatch_end(&alone, &charges[i]);
    dispatch_close(&alone);
}

/* Six eighths of the memory are for progressive files, and the rest for others. */
TEST(progressive_files_leave_memory_to_others)
{
    struct dispatch_request scans = photograph, other = photograph, never = photograph;
    struct dispatch_charge charges[9], busy[16];
    scans.kind = DISPATCH_PROGRESSIVE;
    never.rule = DISPATCH_TO_CORES;
    scans.device_bytes = other.device_bytes = 100 * MIB;
    open_alone(1, GIB);
    for (size_t i = 0; i < COUNT_OF(busy); i++)
        busy[i] = sent_at(never, NS_PER_S);
    for (size_t i = 0; i < COUNT_OF(charges); i++) {
        charges[i] = sent_at(scans, NS_PER_S);
        assert_int_equal(charges[i].on_device, i < 7);
    }
    struct dispatch_charge beside = sent_at(other, NS_PER_S);
    assert_true(beside.on_device);
    dispatch_end(&alone, &beside);
    for (size_t i = 0; i < COUNT_OF(busy); i++)
        dispatch_end(&alone, &busy[i]);
    for (size_t i = 0; i < COUNT_OF(charges); i++)
        dispatch_end(&alone, &charges[i]);
    dispatch_close(&alone);
}

/* The daemon holds more and more of them, until they take 9 GiB, or half of less. */
TEST(progressive_files_are_held_by_memory)
{
    static const struct {
        size_t room, ahead;
    } rows[] = {{64 * GIB, 92}, {8 * GIB, 40}};
    static struct dispatch_charge charges[160];
    struct dispatch_request scans = photograph;
    scans.kind = DISPATCH_PROGRESSIVE;
    scans.rule = DISPATCH_TO_DEVICE;
    scans.device_bytes = 100 * MIB;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_alone(1, rows[i].room);
        for (size_t j = 0; j < COUNT_OF(charges); j++) {
            charges[j] = sent_at(scans, NS_PER_S);
            size_t ahead = dispatch_ahead(&alone, NS_PER_S);
            assert_in_range(ahead, (j < rows[i].ahead ? j + 1 : rows[i].ahead) - 1,
                            j < rows[i].ahead ? j + 1 : rows[i].ahead);
        }
        for (size_t j = 0; j < COUNT_OF(charges); j++)
            dispatch_end(&alone, &charges[j]);
        memset(charges, 0, sizeof charges);
        dispatch_close(&alone);
    }
}

/* Cores would decode these files first, but have heap for two of them. */
TEST(heap_bounds_the_cores)
{
    struct dispatch_request scans = photograph;
    struct dispatch_charge charges[5];
    scans.kind = DISPATCH_PROGRESSIVE;
    scans.pixels = 100000;
    scans.file_bytes = 10000000;
    scans.heap_bytes = 48 * MIB;
    open_alone(1, GIB); /* and 100 MiB of heap */
    for (size_t i = 0; i < COUNT_OF(charges); i++) {
        if (i == 3) { /* twice, but the heap of one file is free */
            dispatch_decoded(&alone, &charges[0]);
            dispatch_decoded(&alone, &charges[0]);
        }
        charges[i] = sent_at(scans, NS_PER_S);
        assert_int_equal(charges[i].on_device, i == 2 || i == 4);
    }
    for (size_t i = 0; i < COUNT_OF(charges); i++)
        dispatch_end(&alone, &charges[i]);
    assert_true(dispatch_is_idle(&alone));
    dispatch_close(&alone);
}

/* A declined file is charged to the cores. */
TEST(a_declined_job_goes_to_the_cores)
{
    struct dispatch_request cores = photograph;
    cores.rule = DISPATCH_TO_CORES;
    open_alone(2, GIB);
    struct dispatch_charge charge = sent_at(photograph, NS_PER_S);
    struct dispatch_device before = alone.devices[1];
    dispatch_move(&alone, &charge, 1);
    assert_int_equal(alone.devices[0].backlog[DISPATCH_SEQUENTIAL].jobs, 0);
    assert_int_equal(alone.devices[1].backlog[DISPATCH_SEQUENTIAL].jobs, 1);
    dispatch_start(&alone, &charge, NS_PER_S);
    dispatch_return(&alone, (struct dispatch_charge *[]){&charge}, 1);
    assert_int_equal(dispatch_ahead(&alone, 2 * NS_PER_S), 0);
    assert_false(dispatch_is_idle(&alone));
    dispatch_choose(&alone, &cores, 2 * NS_PER_S, &charge);
    assert_false(charge.on_device);
    assert_memory_equal(&before.backlog, &alone.devices[1].backlog, sizeof before.backlog);
    dispatch_end(&alone, &charge);
    assert_true(dispatch_is_idle(&alone));
    dispatch_close(&alone);
}

TEST_MAIN()
