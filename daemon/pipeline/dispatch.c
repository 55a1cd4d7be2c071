#include "daemon/pipeline/dispatch.h"

#include <assert.h>
#include <string.h>

#include "conf/clock.h"

/* The reference times, in nanoseconds, are those of an H200 and of a core beside it
 * (tests/bench/FIGURES.md). A slowdown of 1 is this host. */
#define REST_NS           50e3 /* reading and writing a file, without its pixels */
#define REST_PIXEL_NS     1.0
#define LATENCY_NS        300e3 /* launches, copies and the loop */
#define LATENCY_PIXEL_NS  0.02
#define SCANS_BYTE_NS     80.0 /* a progressive file: its longest chain of scans */

static const double decode_pixel_ns[DISPATCH_KINDS] = {
    [DISPATCH_SEQUENTIAL] = 1 / 0.10, /* 0.08 GP/s for RGB, 0.11 for Y */
    [DISPATCH_PROGRESSIVE] = 1 / 0.04,
    [DISPATCH_OTHER] = 1 / 0.06,
};
static const double work_pixel_ns[DISPATCH_KINDS] = {
    [DISPATCH_SEQUENTIAL] = 1 / 30.0,
    [DISPATCH_PROGRESSIVE] = 1 / 10.0, /* 5 GP/s with 100 files at once, 14 with 1,280 */
};

/* Weight of a measurement in a slowdown. After the first one, it may be at most STEP times the
 * slowdown, so that an outlier does little. */
#define WEIGHT (1 / 8.0)
#define STEP   4.0
/* Jobs of a window: at least this, and at least the jobs that run when it begins. */
#define WINDOW_JOBS 16
/* The jobs of a window waited for each other if they took this much longer than alone. */
#define STRETCH 1.3
/* A slowdown that was not measured for FORGET_NS decreases. */
#define FORGET_NS   NS_PER_S
#define FORGET_PART 0.9
/* An unknown device may be slow: it has at most this many jobs of a kind, and this many more for
 * each that it has ended. */
#define FIRST_JOBS   16
#define FIRST_GROWTH 4

/* A device that is so late may have stopped. */
#define STALL_NS 20e6

/* ---- slowdowns ------------------------------------------------------------------------------ */

static void learn(struct dispatch_rate *rate, double slowdown, uint64_t now_ns)
{
    double least = rate->slowdown / STEP, most = rate->slowdown * STEP;
    if (!rate->measured)
        rate->slowdown = slowdown;
    slowdown = slowdown < least ? least : slowdown > most ? most : slowdown;
    rate->slowdown += WEIGHT * (slowdown - rate->slowdown);
    rate->measured = true;
    rate->set_ns = now_ns;
}

static void forget(struct dispatch_rate *rate, uint64_t now_ns)
{
    if (rate->set_ns == 0 || now_ns < rate->set_ns + FORGET_NS)
        return;
    rate->slowdown *= FORGET_PART;
    rate->set_ns = now_ns;
}

/* ---- predictions ---------------------------------------------------------------------------- */

static double pixels_of(const struct dispatch_request *request)
{
    return (double)request->pixels;
}

static double latency_reference(const struct dispatch_request *request)
{
    double scans = request->kind == DISPATCH_PROGRESSIVE ? (double)request->file_bytes : 0;
    return LATENCY_NS + LATENCY_PIXEL_NS * pixels_of(request) + SCANS_BYTE_NS * scans;
}

static double work_reference(const struct dispatch_request *request)
{
    return 1 + work_pixel_ns[request->kind] * pixels_of(request);
}

static double decode_reference(const struct dispatch_request *request)
{
    return 1 + decode_pixel_ns[request->kind] * pixels_of(request);
}

static double rest_reference(const struct dispatch_request *request)
{
    return REST_NS + REST_PIXEL_NS * pixels_of(request);
}

static int64_t core_ns(const struct dispatch *dispatch, const struct dispatch_request *request,
                       bool on_device)
{
    double decode = decode_reference(request) * dispatch->decode[request->kind].slowdown;
    double rest = rest_reference(request) * dispatch->rest[on_device].slowdown;
    return (int64_t)(on_device ? rest : decode + rest);
}

/* Sets the charge's parts for this device. */
static void predict(const struct dispatch_device *device, struct dispatch_charge *charge)
{
    const struct dispatch_request *request = &charge->request;
    double work = work_reference(request) * device->work[request->kind].slowdown;
    double latency = latency_reference(request) * device->latency[request->kind].slowdown;
    if (latency < work)
        latency = work;
    charge->work_ns = (int64_t)work;
    charge->latency_ns = (int64_t)latency;
    charge->demand_ppm = (int64_t)(work / latency * 1e6);
}

/* The end of a job on a device that has this load, from now. */
static double end_among(const struct dispatch_load *load, const struct dispatch_charge *charge)
{
    double latency = (double)charge->latency_ns;
    double demand = (double)(load->demand_ppm + charge->demand_ppm) / 1e6;
    double shared = latency * (demand > 1 ? demand : 1), last = latency + (double)load->work_ns;
    return shared < last ? shared : last;
}

static double late_ns(const struct dispatch_device *device, uint64_t now_ns)
{
    uint64_t due_ns = device->ends_ns > device->ended_ns ? device->ends_ns : device->ended_ns;
    return device->running.jobs > 0 && now_ns > due_ns ? (double)(now_ns - due_ns) : 0;
}

static bool stalls(const struct dispatch_device *device, uint64_t now_ns)
{
    return late_ns(device, now_ns) > STALL_NS;
}

static double end_on_device(const struct dispatch *dispatch, uint32_t index, uint64_t now_ns,
                            struct dispatch_charge *charge)
{
    const struct dispatch_device *device = &dispatch->devices[index];
    predict(device, charge);
    double need = (double)device->sent.bytes + (double)charge->request.device_bytes;
    double rounds = need / (double)device->room_bytes - 1;
    return end_among(&device->sent, charge) +
           (rounds > 0 ? rounds * (double)charge->latency_ns : 0) + late_ns(device, now_ns) +
           (double)core_ns(dispatch, &charge->request, true);
}

static double end_on_cores(const struct dispatch *dispatch, const struct dispatch_request *request)
{
    return (double)dispatch->core_ns / dispatch->workers +
           (double)core_ns(dispatch, request, false);
}

/* ---- loads ---------------------------------------------------------------------------------- */

static void add(struct dispatch_load *load, const struct dispatch_charge *charge, int sign)
{
    load->work_ns += sign * charge->work_ns;
    load->demand_ppm += sign * charge->demand_ppm;
    load->bytes += sign * (int64_t)charge->request.device_bytes;
    load->jobs += sign;
    load->of[charge->request.kind] += sign;
    assert(load->work_ns >= 0 && load->demand_ppm >= 0 && load->bytes >= 0 && load->jobs >= 0);
}

static struct dispatch_device *device_of(struct dispatch *dispatch,
                                         const struct dispatch_charge *charge)
{
    return &dispatch->devices[charge->device];
}

static void charge_place(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    charge->state = DISPATCH_SENT;
    charge->core_ns = core_ns(dispatch, &charge->request, charge->on_device);
    dispatch->core_ns += charge->core_ns;
    dispatch->jobs++;
    if (!charge->on_device)
        return;
    predict(device_of(dispatch, charge), charge);
    add(&device_of(dispatch, charge)->sent, charge, 1);
}

/* Counts the time up to now if the device had a job. */
static void see(struct dispatch_device *device, uint64_t now_ns)
{
    if (device->running.jobs > 0 && now_ns > device->seen_ns)
        device->window.elapsed_ns += (int64_t)(now_ns - device->seen_ns);
    device->seen_ns = now_ns;
}

static void leave_device(struct dispatch *dispatch, struct dispatch_charge *charge,
                         uint64_t now_ns)
{
    if (!charge->on_device || charge->state == DISPATCH_RETURNED)
        return;
    struct dispatch_device *device = device_of(dispatch, charge);
    if (charge->state == DISPATCH_RUNS) {
        see(device, now_ns);
        add(&device->running, charge, -1);
        device->ended_ns = now_ns;
    }
    add(&device->sent, charge, -1);
    charge->state = DISPATCH_RETURNED;
}

static void release(struct dispatch *dispatch, struct dispatch_charge *charge, uint64_t now_ns)
{
    if (charge->state == DISPATCH_NONE)
        return;
    leave_device(dispatch, charge, now_ns);
    dispatch->core_ns -= charge->core_ns;
    dispatch->jobs--;
    assert(dispatch->core_ns >= 0 && dispatch->jobs >= 0);
    *charge = (struct dispatch_charge){0};
}

/* ---- a device's work ------------------------------------------------------------------------ */

static void close_window(struct dispatch_device *device, uint64_t now_ns)
{
    struct dispatch_window *window = &device->window;
    double ratio = (double)window->elapsed_ns / window->work_ns;
    for (int kind = 0; kind < DISPATCH_KINDS; kind++) {
        double took = (double)window->took_ns[kind], alone = (double)window->alone_ns[kind];
        struct dispatch_rate *work = &device->work[kind];
        if (took > 0 && (ratio < 1 || took > STRETCH * alone))
            learn(work, work->slowdown * ratio, now_ns);
    }
    *window = (struct dispatch_window){.jobs_wanted = device->running.jobs};
}

/* The first measurement is the best guess for all that was not measured. */
static void guess(struct dispatch_device *device, double slowdown, uint64_t now_ns)
{
    for (int kind = 0; kind < DISPATCH_KINDS; kind++) {
        struct dispatch_rate *rates[] = {&device->latency[kind], &device->work[kind]};
        for (int i = 0; i < 2; i++)
            if (!rates[i]->measured)
                *rates[i] = (struct dispatch_rate){.slowdown = slowdown, .set_ns = now_ns};
    }
}

static void learn_from(struct dispatch_device *device, const struct dispatch_charge *charge,
                       uint64_t now_ns)
{
    const struct dispatch_request *request = &charge->request;
    struct dispatch_window *window = &device->window;
    struct dispatch_rate *latency = &device->latency[request->kind];
    struct dispatch_rate *work = &device->work[request->kind];
    int64_t took_ns = (int64_t)(now_ns - charge->began_ns);
    bool alone = charge->alone && charge->starts == device->starts;
    double slowdown = (double)took_ns / latency_reference(request);
    if (alone || took_ns < charge->latency_ns) {
        if (!latency->measured)
            guess(device, slowdown, now_ns);
        learn(latency, slowdown, now_ns);
    }
    device->tried[request->kind]++;
    window->work_ns += work_reference(request) * work->slowdown;
    window->took_ns[request->kind] += took_ns;
    window->alone_ns[request->kind] += charge->latency_ns;
    window->jobs++;
    if (window->jobs >= WINDOW_JOBS && window->jobs >= window->jobs_wanted)
        close_window(device, now_ns);
}

/* ---- public --------------------------------------------------------------------------------- */

void dispatch_open(struct dispatch *dispatch, uint32_t workers, uint32_t device_count,
                   const size_t *room_bytes)
{
    assert(workers > 0 && device_count <= DEVICES_MAX);
    memset(dispatch, 0, sizeof *dispatch);
    pthread_mutex_init(&dispatch->lock, NULL);
    dispatch->workers = workers;
    dispatch->device_count = device_count;
    dispatch->rest[0].slowdown = dispatch->rest[1].slowdown = 1;
    for (int kind = 0; kind < DISPATCH_KINDS; kind++)
        dispatch->decode[kind].slowdown = 1;
    for (uint32_t d = 0; d < device_count; d++) {
        struct dispatch_device *device = &dispatch->devices[d];
        device->room_bytes = room_bytes[d] > 0 ? (int64_t)room_bytes[d] : 1;
        for (int kind = 0; kind < DISPATCH_KINDS; kind++)
            device->latency[kind].slowdown = device->work[kind].slowdown = 1;
    }
}

void dispatch_close(struct dispatch *dispatch)
{
    bool idle = dispatch_is_idle(dispatch);
    assert(idle);
    (void)idle;
    pthread_mutex_destroy(&dispatch->lock);
}

/* Whether the device may get the job: it is not full, does not stall, and has ended jobs of this
 * kind before it gets many. */
static bool takes(const struct dispatch_device *device, const struct dispatch_request *request,
                  bool forced, uint64_t now_ns)
{
    int64_t most = FIRST_JOBS + FIRST_GROWTH * device->tried[request->kind];
    return forced || (!stalls(device, now_ns) && device->sent.jobs < INFLIGHT_DEVICE_MAX &&
                      device->sent.of[request->kind] < most);
}

/* The device where the job ends first; false: none takes it. */
static bool best_device(struct dispatch *dispatch, uint64_t now_ns, bool forced,
                        struct dispatch_charge *charge, double *end_ns)
{
    bool found = false;
    for (uint32_t d = 0; d < dispatch->device_count; d++) {
        struct dispatch_device *device = &dispatch->devices[d];
        if (charge->request.out_of_service >> d & 1 ||
            !takes(device, &charge->request, forced, now_ns))
            continue;
        if (device->sent.jobs == 0) {
            forget(&device->latency[charge->request.kind], now_ns);
            forget(&device->work[charge->request.kind], now_ns);
        }
        double end = end_on_device(dispatch, d, now_ns, charge);
        if (found && end >= *end_ns)
            continue;
        found = true;
        charge->device = d;
        *end_ns = end;
    }
    return found;
}

static bool is_full(const struct dispatch_device *device, const struct dispatch_request *request)
{
    return device->sent.bytes + (int64_t)request->device_bytes > device->room_bytes ||
           (request->kind == DISPATCH_PROGRESSIVE &&
            device->sent.of[DISPATCH_PROGRESSIVE] >= PROGRESSIVE_STREAMS);
}

/* Whether a core may get the job. Cores that decode cannot read and write files meanwhile, which
 * all jobs need, so they only help idle hosts, devices that are slower than they are, and devices
 * that could not begin the job now, or that are unknown and have some progressive files. */
static bool cores_help(const struct dispatch *dispatch, const struct dispatch_request *request,
                       uint64_t now_ns)
{
    double rate = 0;
    for (uint32_t d = 0; d < dispatch->device_count; d++) {
        const struct dispatch_device *device = &dispatch->devices[d];
        const struct dispatch_rate *work = &device->work[request->kind];
        bool unknown = request->kind == DISPATCH_PROGRESSIVE && work->set_ns == 0 &&
                       device->sent.of[request->kind] >= FIRST_JOBS;
        if (request->out_of_service >> d & 1 || stalls(device, now_ns) || unknown ||
            is_full(device, request))
            continue;
        rate += 1 / (work_reference(request) * work->slowdown);
    }
    double decode_ns = decode_reference(request) * dispatch->decode[request->kind].slowdown;
    return dispatch->core_ns == 0 || dispatch->workers / decode_ns >= rate;
}

void dispatch_choose(struct dispatch *dispatch, const struct dispatch_request *request,
                     uint64_t now_ns, struct dispatch_charge *charge)
{
    double end_ns = 0;
    if (dispatch->device_count == 0)
        return;
    pthread_mutex_lock(&dispatch->lock);
    release(dispatch, charge, now_ns);
    charge->request = *request;
    bool forced = request->rule == DISPATCH_TO_DEVICE || !cores_help(dispatch, request, now_ns);
    if (request->rule != DISPATCH_TO_CORES && request->kind != DISPATCH_OTHER &&
        (best_device(dispatch, now_ns, request->rule == DISPATCH_TO_DEVICE, charge, &end_ns) ||
         (forced && best_device(dispatch, now_ns, true, charge, &end_ns)))) {
        forget(&dispatch->decode[request->kind], now_ns);
        charge->on_device = forced || end_ns <= end_on_cores(dispatch, request);
    }
    charge_place(dispatch, charge);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_move(struct dispatch *dispatch, struct dispatch_charge *charge, uint32_t device)
{
    if (!charge->on_device || charge->device == device)
        return;
    assert(charge->state == DISPATCH_SENT && device < dispatch->device_count);
    pthread_mutex_lock(&dispatch->lock);
    add(&device_of(dispatch, charge)->sent, charge, -1);
    charge->device = device;
    predict(device_of(dispatch, charge), charge);
    add(&device_of(dispatch, charge)->sent, charge, 1);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_start(struct dispatch *dispatch, struct dispatch_charge *charge, uint64_t now_ns)
{
    if (!charge->on_device)
        return;
    assert(charge->state == DISPATCH_SENT);
    pthread_mutex_lock(&dispatch->lock);
    struct dispatch_device *device = device_of(dispatch, charge);
    see(device, now_ns);
    uint64_t end_ns = now_ns + (uint64_t)end_among(&device->running, charge);
    if (device->running.jobs == 0)
        device->ended_ns = device->ends_ns = now_ns;
    if (device->ends_ns < end_ns)
        device->ends_ns = end_ns;
    add(&device->running, charge, 1);
    charge->state = DISPATCH_RUNS;
    charge->began_ns = now_ns;
    charge->starts = ++device->starts;
    charge->alone = device->running.jobs == 1;
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_return(struct dispatch *dispatch, struct dispatch_charge *charge, uint64_t now_ns,
                     bool learns)
{
    if (!charge->on_device)
        return;
    assert(charge->state == DISPATCH_RUNS);
    pthread_mutex_lock(&dispatch->lock);
    leave_device(dispatch, charge, now_ns);
    if (learns)
        learn_from(device_of(dispatch, charge), charge, now_ns);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_end(struct dispatch *dispatch, struct dispatch_charge *charge, double decode_ms,
                  double rest_ms, uint64_t now_ns)
{
    const struct dispatch_request *request = &charge->request;
    if (charge->state == DISPATCH_NONE)
        return;
    pthread_mutex_lock(&dispatch->lock);
    if (decode_ms >= 0 && rest_ms >= 0) {
        if (!charge->on_device)
            learn(&dispatch->decode[request->kind], decode_ms * 1e6 / decode_reference(request),
                  now_ns);
        learn(&dispatch->rest[charge->on_device], rest_ms * 1e6 / rest_reference(request), now_ns);
    }
    release(dispatch, charge, now_ns);
    pthread_mutex_unlock(&dispatch->lock);
}

size_t dispatch_ahead(struct dispatch *dispatch, uint64_t now_ns)
{
    int64_t jobs = 0;
    pthread_mutex_lock(&dispatch->lock);
    for (uint32_t d = 0; d < dispatch->device_count; d++) {
        const struct dispatch_device *device = &dispatch->devices[d];
        int64_t progressive = device->sent.of[DISPATCH_PROGRESSIVE];
        int64_t others = device->sent.jobs - progressive;
        bool all = others < INFLIGHT_SEQUENTIAL || stalls(device, now_ns);
        jobs += progressive + (all ? others : INFLIGHT_SEQUENTIAL);
    }
    pthread_mutex_unlock(&dispatch->lock);
    return (size_t)jobs;
}

bool dispatch_is_idle(struct dispatch *dispatch)
{
    pthread_mutex_lock(&dispatch->lock);
    bool idle = dispatch->jobs == 0;
    assert(!idle || dispatch->core_ns == 0);
    for (uint32_t d = 0; d < dispatch->device_count; d++) {
        const struct dispatch_load *loads[] = {&dispatch->devices[d].sent,
                                               &dispatch->devices[d].running};
        for (int i = 0; i < 2; i++)
            assert(!idle || (loads[i]->work_ns == 0 && loads[i]->demand_ppm == 0 &&
                             loads[i]->bytes == 0 && loads[i]->jobs == 0));
    }
    pthread_mutex_unlock(&dispatch->lock);
    return idle;
}
