#include "daemon/pipeline/dispatch.h"

#include <assert.h>
#include <string.h>

#include "conf/clock.h"

/* The reference times, in nanoseconds, are those of an H200 and of a core beside it
 * (tests/bench/FIGURES.md). A slowdown of 1 is this host. */
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
    [DISPATCH_PROGRESSIVE] = 1 / 5.0,
};

/* Weight of a measurement in an average. After the first one, a slowdown changes by at most STEP
 * times itself, so that an outlier does little. */
#define WEIGHT (1 / 8.0)
#define STEP   4.0
/* A slowdown that was not measured for FORGET_NS decreases, but not below the reference: otherwise
 * a place without jobs would look faster and faster. */
#define FORGET_NS   NS_PER_S
#define FORGET_PART 0.9

/* A device is fed if it has this many sequential JPEGs, a batch for each of eight streams; or fewer
 * if they are large. */
#define FED_JOBS       128
#define FED_JOBS_LARGE 8
#define FED_PIXELS     200e6
/* Or work for this time, at its measured rate. It is longer than the latency of a progressive file,
 * so that a device that was measured while it had too little gets more. */
#define FED_NS 1e9
/* An unknown device may be slow: it is fed with this many progressive files, and this many more for
 * each that it has ended. */
#define FIRST_JOBS   32
#define FIRST_GROWTH 4
/* A measurement of a fed device has this many jobs, or a quarter of them if that takes long. */
#define WINDOW_JOBS 32
#define WINDOW_NS   500e6
/* Cores that are slower than this part of the devices do not help. */
static const double help_part[DISPATCH_KINDS] = {
    [DISPATCH_SEQUENTIAL] = 1 / 2.0,
    [DISPATCH_PROGRESSIVE] = 1 / 8.0, /* they occupy a device for long */
};

/* A device stalls if it has ended no job for this time, and twice the time that its jobs take. */
#define STALL_NS 20e6

/* ---- measurements --------------------------------------------------------------------------- */

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
    if (rate->slowdown <= 1 || rate->set_ns == 0 || now_ns < rate->set_ns + FORGET_NS)
        return;
    rate->slowdown = rate->slowdown * FORGET_PART > 1 ? rate->slowdown * FORGET_PART : 1;
    rate->set_ns = now_ns;
}

static double latency_reference(const struct dispatch_request *request)
{
    double scans = request->kind == DISPATCH_PROGRESSIVE ? (double)request->file_bytes : 0;
    return LATENCY_NS + LATENCY_PIXEL_NS * (double)request->pixels + SCANS_BYTE_NS * scans;
}

static double decode_reference(const struct dispatch_request *request)
{
    return 1 + decode_pixel_ns[request->kind] * (double)request->pixels;
}

/* Alone on the device. */
static double latency_ns(const struct dispatch_device *device,
                         const struct dispatch_request *request)
{
    return latency_reference(request) * device->latency[request->kind].slowdown;
}

/* Before the first job of a kind ends: its lateness shows that the device is slow. */
static void guess_latency(struct dispatch_device *device, const struct dispatch_request *request,
                          uint64_t now_ns)
{
    struct dispatch_rate *latency = &device->latency[request->kind];
    if (device->sent.jobs == 0) {
        forget(latency, now_ns);
        device->began_ns[request->kind] = 0;
        latency->slowdown = latency->measured ? latency->slowdown : 1;
    }
    if (latency->measured || device->began_ns[request->kind] == 0)
        return;
    double late_ns = (double)(now_ns - device->began_ns[request->kind]);
    double least = late_ns / latency_reference(request);
    if (latency->slowdown < least)
        latency->slowdown = least;
}

static double decode_ns(const struct dispatch *dispatch, const struct dispatch_request *request)
{
    return decode_reference(request) * dispatch->decode[request->kind].slowdown;
}

/* ---- devices -------------------------------------------------------------------------------- */

static bool stalls(const struct dispatch_device *device, uint64_t now_ns)
{
    return device->running > 0 &&
           (double)(now_ns - device->moved_ns) > STALL_NS + 2 * device->takes_ns;
}

/* Pixels per nanosecond, if it is fed. Until that was measured, a guess from its latency; 0:
 * unknown. */
static double rate_of(const struct dispatch_device *device, enum dispatch_kind kind)
{
    const struct dispatch_rate *latency = &device->latency[kind];
    if (device->rate[kind] > 0 || (!latency->measured && latency->slowdown <= 1))
        return device->rate[kind];
    return 1 / (work_pixel_ns[kind] * latency->slowdown);
}

/* Whether the device has so many jobs of this kind that one more would only wait: `part` of them
 * are enough. */
static bool has_enough(const struct dispatch_device *device, enum dispatch_kind kind, double part)
{
    double jobs = (double)device->sent.of[kind], pixels = (double)device->sent.pixels_of[kind];
    double first = FIRST_JOBS + FIRST_GROWTH * (double)device->ended[kind];
    double rate = rate_of(device, kind);
    if (rate > 0 && jobs >= part * FED_JOBS_LARGE && pixels >= part * rate * FED_NS)
        return true;
    if (kind == DISPATCH_PROGRESSIVE)
        return jobs >= part * (first < PROGRESSIVE_STREAMS ? first : PROGRESSIVE_STREAMS);
    return jobs >= part * FED_JOBS || (jobs >= FED_JOBS_LARGE && pixels >= part * FED_PIXELS);
}

static bool is_fed(const struct dispatch_device *device, const struct dispatch_request *request)
{
    return has_enough(device, DISPATCH_SEQUENTIAL, 1) || has_enough(device, request->kind, 1) ||
           device->sent.bytes + (int64_t)request->device_bytes > device->room_bytes;
}

/* The rate of a device while it is fed. */
static void measure_rate(struct dispatch_device *device, const struct dispatch_request *request,
                         uint64_t now_ns)
{
    struct dispatch_window *window = &device->window[request->kind];
    double *rate = &device->rate[request->kind];
    bool fed = has_enough(device, DISPATCH_SEQUENTIAL, 0.5) ||
               has_enough(device, request->kind, 0.5);
    if (window->since_ns == 0 || !fed) {
        *window = (struct dispatch_window){.since_ns = now_ns};
        return;
    }
    window->jobs++;
    window->pixels += (double)request->pixels;
    double ns = (double)(now_ns - window->since_ns);
    if (ns <= 0 || window->jobs < (ns < WINDOW_NS ? WINDOW_JOBS : WINDOW_JOBS / 4))
        return;
    double measured = window->pixels / ns;
    *rate = *rate > 0 ? (*rate + measured) / 2 : measured;
    *window = (struct dispatch_window){.since_ns = now_ns};
}

/* ---- loads ---------------------------------------------------------------------------------- */

static void add(struct dispatch_load *load, const struct dispatch_request *request, int sign)
{
    load->work_ns += sign * (int64_t)(work_pixel_ns[request->kind] * (double)request->pixels);
    load->bytes += sign * (int64_t)request->device_bytes;
    load->jobs += sign;
    load->of[request->kind] += sign;
    load->pixels_of[request->kind] += sign * (int64_t)request->pixels;
    assert(load->work_ns >= 0 && load->bytes >= 0 && load->jobs >= 0);
}

static struct dispatch_device *device_of(struct dispatch *dispatch,
                                         const struct dispatch_charge *charge)
{
    return &dispatch->devices[charge->device];
}

static void charge_place(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    charge->state = DISPATCH_SENT;
    dispatch->jobs++;
    if (charge->on_device) {
        add(&device_of(dispatch, charge)->sent, &charge->request, 1);
    } else {
        dispatch->on_cores++;
        dispatch->heap_bytes += (int64_t)charge->request.heap_bytes;
    }
}

static void leave_device(struct dispatch *dispatch, struct dispatch_charge *charge,
                         uint64_t now_ns)
{
    if (!charge->on_device || charge->state == DISPATCH_RETURNED)
        return;
    struct dispatch_device *device = device_of(dispatch, charge);
    if (charge->state == DISPATCH_RUNS) {
        device->running--;
        device->moved_ns = now_ns;
    }
    add(&device->sent, &charge->request, -1);
    charge->state = DISPATCH_RETURNED;
}

/* For a job on the cores. */
static void free_heap(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    dispatch->heap_bytes -= (int64_t)charge->request.heap_bytes;
    charge->request.heap_bytes = 0;
}

static void release(struct dispatch *dispatch, struct dispatch_charge *charge, uint64_t now_ns)
{
    if (charge->state == DISPATCH_NONE)
        return;
    leave_device(dispatch, charge, now_ns);
    if (!charge->on_device) {
        free_heap(dispatch, charge);
        dispatch->on_cores--;
    }
    dispatch->jobs--;
    assert(dispatch->on_cores >= 0 && dispatch->heap_bytes >= 0 && dispatch->jobs >= 0);
    *charge = (struct dispatch_charge){0};
}

/* ---- choosing ------------------------------------------------------------------------------- */

/* The device that ends the job first; one that is fed only if all are. false: all stall or are out
 * of service. If one must take the job, it may stall. */
static bool best_device(struct dispatch *dispatch, const struct dispatch_request *request,
                        uint64_t now_ns, bool must, uint32_t *best)
{
    double best_ns = 0;
    bool found = false, best_fed = false;
    for (uint32_t d = 0; d < dispatch->device_count; d++) {
        const struct dispatch_device *device = &dispatch->devices[d];
        double slowdown = device->latency[request->kind].slowdown;
        double end_ns = latency_ns(device, request) + slowdown * (double)device->sent.work_ns;
        bool fed = is_fed(device, request);
        if (request->out_of_service >> d & 1 || (stalls(device, now_ns) && !must) ||
            (found && (fed == best_fed ? end_ns >= best_ns : fed)))
            continue;
        found = true;
        best_fed = fed;
        best_ns = end_ns;
        *best = d;
    }
    return found;
}

/* The number of cores that may decode files of this kind at once, beside devices that are fed. */
static uint32_t cores_allowed(const struct dispatch *dispatch,
                              const struct dispatch_request *request, uint64_t now_ns)
{
    uint32_t all = dispatch->workers, most = all - all / 4; /* the others read and write */
    double rate = 0;
    for (uint32_t d = 0; d < dispatch->device_count; d++) {
        const struct dispatch_device *device = &dispatch->devices[d];
        if (request->out_of_service >> d & 1 || stalls(device, now_ns))
            continue;
        double of_device = rate_of(device, request->kind);
        if (of_device == 0)
            return request->kind == DISPATCH_PROGRESSIVE ? most : 0;
        rate += of_device;
    }
    double cores = all * (double)request->pixels / decode_ns(dispatch, request);
    if (cores >= rate)
        return all;
    return cores >= help_part[request->kind] * rate && !request->workers_busy ? most : 0;
}

/* The time until the other jobs of this kind have ended: on a device, and on the cores. */
static double wait_ns(const struct dispatch_device *device, const struct dispatch_request *request)
{
    double rate = rate_of(device, request->kind);
    return rate > 0 ? (double)device->sent.pixels_of[request->kind] / rate : 0;
}

static double cores_wait_ns(const struct dispatch *dispatch, const struct dispatch_request *request,
                            uint32_t cores)
{
    return (double)dispatch->on_cores / cores * decode_ns(dispatch, request);
}

/* Whether a core gets the job, not this device, which is the best one. */
static bool cores_take(struct dispatch *dispatch, const struct dispatch_request *request,
                       uint64_t now_ns, uint32_t index)
{
    struct dispatch_device *device = &dispatch->devices[index];
    guess_latency(device, request, now_ns);
    forget(&dispatch->decode[request->kind], now_ns);
    if (dispatch->heap_bytes + (int64_t)request->heap_bytes > dispatch->heap_room_bytes)
        return false;
    if (!request->workers_busy && dispatch->jobs < dispatch->workers &&
        decode_ns(dispatch, request) < latency_ns(device, request))
        return true;
    if (!is_fed(device, request))
        return false;
    uint32_t allowed = cores_allowed(dispatch, request, now_ns);
    return dispatch->on_cores < allowed ||
           (allowed > 0 && cores_wait_ns(dispatch, request, allowed) < wait_ns(device, request));
}

/* ---- public --------------------------------------------------------------------------------- */

void dispatch_open(struct dispatch *dispatch, uint32_t workers, size_t heap_room_bytes,
                   uint32_t device_count, const size_t *room_bytes)
{
    assert(workers > 0 && device_count <= DEVICES_MAX);
    memset(dispatch, 0, sizeof *dispatch);
    pthread_mutex_init(&dispatch->lock, NULL);
    dispatch->workers = workers;
    dispatch->heap_room_bytes = (int64_t)heap_room_bytes;
    dispatch->device_count = device_count;
    for (int kind = 0; kind < DISPATCH_KINDS; kind++)
        dispatch->decode[kind].slowdown = 1;
    for (uint32_t d = 0; d < device_count; d++) {
        struct dispatch_device *device = &dispatch->devices[d];
        device->room_bytes = room_bytes[d] > 0 ? (int64_t)room_bytes[d] : 1;
        for (int kind = 0; kind < DISPATCH_KINDS; kind++)
            device->latency[kind].slowdown = 1;
    }
}

void dispatch_close(struct dispatch *dispatch)
{
    bool idle = dispatch_is_idle(dispatch);
    assert(idle);
    (void)idle;
    pthread_mutex_destroy(&dispatch->lock);
}

void dispatch_choose(struct dispatch *dispatch, const struct dispatch_request *request,
                     uint64_t now_ns, struct dispatch_charge *charge)
{
    bool must = request->rule == DISPATCH_TO_DEVICE;
    if (dispatch->device_count == 0)
        return;
    pthread_mutex_lock(&dispatch->lock);
    release(dispatch, charge, now_ns);
    charge->request = *request;
    charge->on_device = request->rule != DISPATCH_TO_CORES && request->kind != DISPATCH_OTHER &&
                        best_device(dispatch, request, now_ns, must, &charge->device) &&
                        (must || !cores_take(dispatch, request, now_ns, charge->device));
    charge_place(dispatch, charge);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_move(struct dispatch *dispatch, struct dispatch_charge *charge, uint32_t device)
{
    if (!charge->on_device || charge->device == device)
        return;
    assert(charge->state == DISPATCH_SENT && device < dispatch->device_count);
    pthread_mutex_lock(&dispatch->lock);
    add(&device_of(dispatch, charge)->sent, &charge->request, -1);
    charge->device = device;
    add(&device_of(dispatch, charge)->sent, &charge->request, 1);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_start(struct dispatch *dispatch, struct dispatch_charge *charge, uint64_t now_ns)
{
    if (!charge->on_device)
        return;
    assert(charge->state == DISPATCH_SENT);
    pthread_mutex_lock(&dispatch->lock);
    struct dispatch_device *device = device_of(dispatch, charge);
    double alone_ns = latency_ns(device, &charge->request);
    if (device->running++ == 0)
        device->moved_ns = now_ns;
    if (device->takes_ns < alone_ns)
        device->takes_ns = alone_ns;
    if (device->began_ns[charge->request.kind] == 0)
        device->began_ns[charge->request.kind] = now_ns;
    charge->state = DISPATCH_RUNS;
    charge->began_ns = now_ns;
    charge->alone = !has_enough(device, charge->request.kind, 0.25);
    pthread_mutex_unlock(&dispatch->lock);
}

static void learn_from(struct dispatch_device *device, const struct dispatch_charge *charge,
                       uint64_t now_ns)
{
    const struct dispatch_request *request = &charge->request;
    double took_ns = (double)(now_ns - charge->began_ns);
    if (charge->alone || took_ns < latency_ns(device, request))
        learn(&device->latency[request->kind], took_ns / latency_reference(request), now_ns);
    device->takes_ns += WEIGHT * (took_ns - device->takes_ns);
    if (device->takes_ns < took_ns)
        device->takes_ns = took_ns;
    device->ended[request->kind]++;
    measure_rate(device, request, now_ns);
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

void dispatch_decoded(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    if (charge->state == DISPATCH_NONE || charge->on_device)
        return;
    pthread_mutex_lock(&dispatch->lock);
    free_heap(dispatch, charge);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_end(struct dispatch *dispatch, struct dispatch_charge *charge, double decode_ms,
                  uint64_t now_ns)
{
    const struct dispatch_request *request = &charge->request;
    if (charge->state == DISPATCH_NONE)
        return;
    pthread_mutex_lock(&dispatch->lock);
    if (decode_ms >= 0 && !charge->on_device)
        learn(&dispatch->decode[request->kind], decode_ms * 1e6 / decode_reference(request),
              now_ns);
    release(dispatch, charge, now_ns);
    pthread_mutex_unlock(&dispatch->lock);
}

size_t dispatch_ahead(struct dispatch *dispatch, uint64_t now_ns)
{
    int64_t jobs = 0;
    if (dispatch->device_count == 0)
        return 0;
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
    assert(!idle || (dispatch->on_cores == 0 && dispatch->heap_bytes == 0));
    for (uint32_t d = 0; d < dispatch->device_count; d++) {
        const struct dispatch_device *device = &dispatch->devices[d];
        assert(!idle || (device->sent.work_ns == 0 && device->sent.bytes == 0 &&
                         device->sent.jobs == 0 && device->running == 0));
    }
    pthread_mutex_unlock(&dispatch->lock);
    return idle;
}
