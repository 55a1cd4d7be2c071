#include "daemon/pipeline/dispatch.h"

#include <assert.h>
#include <string.h>

#include "conf/clock.h"

/* The most sequential JPEGs among the jobs that are sent to one device: a batch for each of eight
 * streams. Smaller batches keep a device waiting for kernels of few blocks of threads. Two batches
 * while the device's jobs need more than half of its memory, and while it has files of other kinds
 * or the cores decode, too: then more jobs would only wait for each other. */
#define INFLIGHT_SEQUENTIAL       128
#define INFLIGHT_SEQUENTIAL_LEAST 32
/* The memory of the progressive JPEGs on one device. When they have enough, the daemon does not
 * fetch more jobs because of them: an H200 decodes 400 photographs of 8 megapixels as fast as more,
 * and half of these are jobs that it fetches anyway. Beyond the maximum, the cores get them. A
 * small device gives them some eighths of its memory, and has the rest for other jobs. */
#define SCANS_BYTES_ENOUGH   (9 * GIB)
#define SCANS_EIGHTHS_ENOUGH 4
#define SCANS_BYTES_MAX      (15 * GIB)
#define SCANS_EIGHTHS_MAX    6

/* The reference times, in nanoseconds, are those of an H200 and of a core beside it
 * (tests/bench/FIGURES.md). A slowdown of 1 is this host. */
#define LATENCY_NS       300e3 /* launches, copies and the loop */
#define LATENCY_PIXEL_NS 0.02
#define SCANS_BYTE_NS    80.0 /* a progressive file: its longest chain of scans */
#define PNG_PIXEL_NS     16.0 /* a PNG: its zlib stream, then its rows */

static const double decode_pixel_ns[DISPATCH_KINDS] = {
    [DISPATCH_SEQUENTIAL] = 1 / 0.10, /* 0.08 GP/s for RGB, 0.11 for Y */
    [DISPATCH_PROGRESSIVE] = 1 / 0.04,
    [DISPATCH_PNG] = 1 / 0.13,
    [DISPATCH_OTHER] = 1 / 0.06,
};
static const double work_pixel_ns[DISPATCH_KINDS] = {
    [DISPATCH_SEQUENTIAL] = 1 / 30.0,
    [DISPATCH_PROGRESSIVE] = 1 / 7.0, /* a guess for all devices: an H200 has 17 */
    [DISPATCH_PNG] = 1 / 10.0,
};

/* A job that shares a device also waits for batches, for workers and for the thread of the
 * device. This is added to its reference: otherwise a small lateness while few jobs run would
 * look as if the device were many times slower, and large files would go to the cores. */
#define SHARED_NS 2e6
#define FIRST_SLOWDOWN 1.5        /* of a device, before it has ended a job of the kind */
#define WEIGHT         (1 / 16.0) /* of a measurement in a slowdown */
/* The slowdown of a device without jobs, also a guess, decreases each second, but not below 1. */
#define FORGET_NS   NS_PER_S
#define FORGET_PART 0.9
/* While tasks wait for a worker, a decode on a core delays others: it counts as often. */
#define BUSY_FACTOR 3.0
/* A device without memory for a job comes after all others, and after the cores. */
#define NO_ROOM_NS 1e12
/* A device stalls if it has ended no job for this time and twice the time that its jobs take. */
#define STALL_NS 20e6

/* ---- predictions ---------------------------------------------------------------------------- */

static void learn(struct dispatch_rate *rate, double slowdown, uint64_t now_ns)
{
    rate->slowdown =
        rate->is_measured ? rate->slowdown + WEIGHT * (slowdown - rate->slowdown) : slowdown;
    rate->is_measured = true;
    rate->set_ns = now_ns;
}

static void forget(struct dispatch_rate *rate, uint64_t now_ns)
{
    if (rate->set_ns == 0)
        rate->set_ns = now_ns;
    if (rate->slowdown <= 1 || now_ns < rate->set_ns + FORGET_NS)
        return;
    rate->slowdown = rate->slowdown * FORGET_PART > 1 ? rate->slowdown * FORGET_PART : 1;
    rate->set_ns = now_ns;
}

static int64_t work_reference(const struct dispatch_request *request)
{
    return (int64_t)(work_pixel_ns[request->kind] * (double)request->pixels);
}

static int64_t latency_reference(const struct dispatch_request *request)
{
    double scans = request->kind == DISPATCH_PROGRESSIVE ? (double)request->file_bytes : 0;
    double pixel_ns = request->kind == DISPATCH_PNG ? PNG_PIXEL_NS : LATENCY_PIXEL_NS;
    return (int64_t)(LATENCY_NS + pixel_ns * (double)request->pixels + SCANS_BYTE_NS * scans);
}

static double decode_reference(const struct dispatch_request *request)
{
    return 1 + decode_pixel_ns[request->kind] * (double)request->pixels;
}

/* Running jobs that are late show that the device is slow: at their end, they will have taken about
 * twice their present age. */
static double slowdown_of(const struct dispatch_backlog *backlog, uint64_t now_ns)
{
    double ages_ns = (double)(backlog->running * now_ns - backlog->began_sum_ns);
    double reference_ns = (double)backlog->reference_sum_ns;
    return 2 * ages_ns > backlog->rate.slowdown * reference_ns ? 2 * ages_ns / reference_ns
                                                               : backlog->rate.slowdown;
}

static int64_t scans_bytes(const struct dispatch_device *device, int eighths, uint64_t most)
{
    int64_t part = device->room_bytes / 8 * eighths;
    return part < (int64_t)most ? part : (int64_t)most;
}

static bool has_room(const struct dispatch_device *device, const struct dispatch_request *request)
{
    int64_t bytes = (int64_t)request->device_bytes;
    int64_t of_kind = device->backlog[request->kind].bytes;
    return device->bytes + bytes <= device->room_bytes &&
           (request->kind != DISPATCH_PROGRESSIVE ||
            of_kind + bytes <= scans_bytes(device, SCANS_EIGHTHS_MAX, SCANS_BYTES_MAX));
}

/* When the device ends the job. */
static double device_ns(const struct dispatch_device *device,
                        const struct dispatch_request *request, uint64_t now_ns)
{
    const struct dispatch_backlog *backlog = &device->backlog[request->kind];
    return slowdown_of(backlog, now_ns) * (double)(latency_reference(request) + backlog->work_ns) +
           (has_room(device, request) ? 0 : NO_ROOM_NS);
}

static double cores_ns(const struct dispatch *dispatch, const struct dispatch_request *request)
{
    double backlog = (double)dispatch->on_cores / dispatch->workers;
    return (1 + backlog) * decode_reference(request) * dispatch->decode[request->kind].slowdown *
           (request->workers_busy ? BUSY_FACTOR : 1);
}

static bool stalls(const struct dispatch_device *device, uint64_t now_ns)
{
    double running = 0, takes_ns = 0; /* together */
    for (int kind = 0; kind < DISPATCH_KINDS; kind++) {
        const struct dispatch_backlog *backlog = &device->backlog[kind];
        running += (double)backlog->running;
        takes_ns += backlog->rate.slowdown * (double)backlog->reference_sum_ns;
    }
    return running > 0 && (double)(now_ns - device->moved_ns) > STALL_NS + 2 * takes_ns / running;
}

/* ---- charges -------------------------------------------------------------------------------- */

static struct dispatch_device *device_of(struct dispatch *dispatch,
                                         const struct dispatch_charge *charge)
{
    return &dispatch->devices[charge->device];
}

static void charge_device(struct dispatch *dispatch, const struct dispatch_charge *charge, int sign)
{
    struct dispatch_device *device = device_of(dispatch, charge);
    struct dispatch_backlog *backlog = &device->backlog[charge->request.kind];
    device->bytes += sign * (int64_t)charge->request.device_bytes;
    backlog->bytes += sign * (int64_t)charge->request.device_bytes;
    backlog->jobs += sign;
    backlog->work_ns += sign * work_reference(&charge->request);
    assert(device->bytes >= backlog->bytes && backlog->bytes >= 0);
    assert(backlog->jobs >= 0 && backlog->work_ns >= 0);
}

static void charge_place(struct dispatch *dispatch, struct dispatch_charge *charge)
{
    charge->state = DISPATCH_SENT;
    dispatch->jobs++;
    if (charge->on_device) {
        charge_device(dispatch, charge, 1);
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
    struct dispatch_backlog *backlog = &device->backlog[charge->request.kind];
    if (charge->state == DISPATCH_RUNS) {
        backlog->running--;
        backlog->began_sum_ns -= charge->began_ns;
        backlog->reference_sum_ns -= charge->reference_ns;
        device->moved_ns = now_ns;
    }
    charge_device(dispatch, charge, -1);
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

/* The device that ends the job first. false: all stall or are out of service. If one must take the
 * job, it may stall. */
static bool best_device(const struct dispatch *dispatch, const struct dispatch_request *request,
                        uint64_t now_ns, bool must, uint32_t *best)
{
    double best_ns = 0;
    bool found = false;
    for (uint32_t d = 0; d < dispatch->device_count; d++) {
        const struct dispatch_device *device = &dispatch->devices[d];
        double end_ns = device_ns(device, request, now_ns);
        if (request->out_of_service >> d & 1 || (stalls(device, now_ns) && !must) ||
            (found && end_ns >= best_ns))
            continue;
        found = true;
        best_ns = end_ns;
        *best = d;
    }
    return found;
}

/* Whether a core gets the job, not this device, which is the best one. */
static bool cores_take(struct dispatch *dispatch, const struct dispatch_request *request,
                       uint64_t now_ns, uint32_t index)
{
    struct dispatch_device *device = &dispatch->devices[index];
    struct dispatch_backlog *backlog = &device->backlog[request->kind];
    if (backlog->jobs == 0)
        forget(&backlog->rate, now_ns);
    return dispatch->heap_bytes + (int64_t)request->heap_bytes <= dispatch->heap_room_bytes &&
           cores_ns(dispatch, request) < device_ns(device, request, now_ns);
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
            device->backlog[kind].rate.slowdown = FIRST_SLOWDOWN;
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
    charge_device(dispatch, charge, -1);
    charge->device = device;
    charge_device(dispatch, charge, 1);
    pthread_mutex_unlock(&dispatch->lock);
}

void dispatch_start(struct dispatch *dispatch, struct dispatch_charge *charge, uint64_t now_ns)
{
    if (!charge->on_device)
        return;
    assert(charge->state == DISPATCH_SENT);
    pthread_mutex_lock(&dispatch->lock);
    struct dispatch_device *device = device_of(dispatch, charge);
    struct dispatch_backlog *backlog = &device->backlog[charge->request.kind];
    if (device->backlog[DISPATCH_SEQUENTIAL].running == 0 &&
        device->backlog[DISPATCH_PROGRESSIVE].running == 0 &&
        device->backlog[DISPATCH_PNG].running == 0)
        device->moved_ns = now_ns;
    charge->state = DISPATCH_RUNS;
    charge->began_ns = now_ns;
    int64_t others_ns = backlog->work_ns - work_reference(&charge->request);
    charge->reference_ns = latency_reference(&charge->request) + others_ns +
                           (others_ns > 0 ? (int64_t)SHARED_NS : 0);
    backlog->running++;
    backlog->began_sum_ns += now_ns;
    backlog->reference_sum_ns += charge->reference_ns;
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
        learn(&device_of(dispatch, charge)->backlog[charge->request.kind].rate,
              (double)(now_ns - charge->began_ns) / (double)charge->reference_ns, now_ns);
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

/* The number of progressive JPEGs on the device; if they are more than enough, the number of those
 * that are enough. */
static int64_t useful_scans(const struct dispatch_device *device)
{
    const struct dispatch_backlog *backlog = &device->backlog[DISPATCH_PROGRESSIVE];
    int64_t enough = scans_bytes(device, SCANS_EIGHTHS_ENOUGH, SCANS_BYTES_ENOUGH);
    return backlog->bytes <= enough
               ? backlog->jobs
               : (int64_t)((double)backlog->jobs * (double)enough / (double)backlog->bytes);
}

static int64_t sequential_most(const struct dispatch *dispatch,
                               const struct dispatch_device *device)
{
    bool fits = 2 * device->bytes <= device->room_bytes;
    bool alone = device->backlog[DISPATCH_PROGRESSIVE].jobs == 0 &&
                 device->backlog[DISPATCH_PNG].jobs == 0 &&
                 4 * dispatch->on_cores <= dispatch->workers;
    return fits && alone ? INFLIGHT_SEQUENTIAL : INFLIGHT_SEQUENTIAL_LEAST;
}

size_t dispatch_ahead(struct dispatch *dispatch, uint64_t now_ns)
{
    int64_t jobs = 0;
    if (dispatch->device_count == 0)
        return 0;
    pthread_mutex_lock(&dispatch->lock);
    for (uint32_t d = 0; d < dispatch->device_count; d++) {
        const struct dispatch_device *device = &dispatch->devices[d];
        int64_t sequential = device->backlog[DISPATCH_SEQUENTIAL].jobs;
        int64_t most = sequential_most(dispatch, device);
        bool all = sequential < most || stalls(device, now_ns);
        jobs +=
            useful_scans(device) + device->backlog[DISPATCH_PNG].jobs + (all ? sequential : most);
    }
    pthread_mutex_unlock(&dispatch->lock);
    return (size_t)jobs;
}

bool dispatch_is_idle(struct dispatch *dispatch)
{
    pthread_mutex_lock(&dispatch->lock);
    bool idle = dispatch->jobs == 0;
    assert(!idle || (dispatch->on_cores == 0 && dispatch->heap_bytes == 0));
    for (uint32_t d = 0; d < dispatch->device_count; d++)
        assert(!idle || dispatch->devices[d].bytes == 0);
    pthread_mutex_unlock(&dispatch->lock);
    return idle;
}
