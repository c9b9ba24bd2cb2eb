/* A stand-in libnvidia-ml.so.1 whose whole state lives in one mmapped control file.
 *
 * The file is named by NVML_RIG and shared by every process that loads this library and
 * by the Python side (nvml.py mirrors `struct control` field by field). The truth is a
 * tape of piecewise-constant power per GPU; counters, averages and sample buffers are
 * exact integrals of it, shown through the update lattice that a real sensor has.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAX_GPUS 16
#define MAX_FUNCTIONS 64
#define MAX_RULES 256
#define MAX_TAPE 65536
#define MAX_LATTICES 8
#define MAX_MIG 7
#define MAX_FIELDS 512
#define MAGIC 0x4e564d4c52494731LL /* "NVMLRIG1" */

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
       INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15 };
enum { RULE_OFF = 0, RULE_FAIL = 1, RULE_VALUE = 2 };

typedef struct { int64_t time_ns; double watts; double joules; } tape_t;      /* joules up to time_ns */
typedef struct { int64_t from_ns, period_ns, phase_ns, jitter_ns; double skip; } lattice_t;

typedef struct {
    char uuid[96], name[96], bus_id[32], mig_uuid[MAX_MIG][96];
    int32_t arch, virtualization, mig_mode, mig_count;      /* mig_mode < 0: not supported */
    int32_t gpm, lost,                                      /* gpm 2: activity follows power */
            usage_average, sample_clock;         /* sample_clock: 0 epoch, 1 boot */
    int32_t sample_depth, tape_count, lattice_count, utilization, memory_utilization;
    int32_t sm_clock_mhz, memory_clock_mhz, temperature_c, power_limit_mw, pcie_tx_kb, pcie_rx_kb;
    int32_t field_186, field_185;                           /* 0: that field is not supported */
    int64_t event_reasons, memory_total, memory_used, lost_ns, back_ns;
    int64_t sample_spacing_ns, power_period_ns, power_window_ns, lag_ns;
    int64_t counter_offset_mj, reset_ns, fast_read_ns, last_energy_read_ns, shown_mj;
    int64_t second_lag_ns, delay_ns, average_ns, wander_ns, offset_mw, part_from_ns, busy_spacing_ns;
    double counter_gain, fast_read_loss_mj, lost_mj, sm, tensor, dram, cap_w;
    double second_lag_share, part;                          /* part 0 or 1: all of the period */
    lattice_t lattices[MAX_LATTICES];
    tape_t tape[MAX_TAPE];
} gpu_t;

typedef struct { int32_t kind, function, gpu, code; int64_t from_ns, until_ns, after_calls, value; } rule_t;

typedef struct {
    int64_t magic, virtual_ns, latency_ns;
    int32_t gpus, rules, inits, initialised;
    char driver_version[96];
    rule_t rule[MAX_RULES];
    int64_t calls[MAX_FUNCTIONS][MAX_GPUS + 1];             /* last column: no device */
    gpu_t gpu[MAX_GPUS];
} control_t;

#define FUNCTIONS(F) \
    F(nvmlInit_v2) F(nvmlInitWithFlags) F(nvmlShutdown) F(nvmlSystemGetDriverVersion) \
    F(nvmlSystemGetNVMLVersion) F(nvmlDeviceGetCount_v2) F(nvmlDeviceGetHandleByIndex_v2) \
    F(nvmlDeviceGetHandleByUUID) F(nvmlDeviceGetIndex) F(nvmlDeviceGetUUID) F(nvmlDeviceGetName) \
    F(nvmlDeviceGetPciInfo_v3) F(nvmlDeviceGetArchitecture) F(nvmlDeviceGetVirtualizationMode) \
    F(nvmlDeviceGetTotalEnergyConsumption) F(nvmlDeviceGetPowerUsage) \
    F(nvmlDeviceGetEnforcedPowerLimit) F(nvmlDeviceGetPowerManagementLimit) \
    F(nvmlDeviceGetTemperature) F(nvmlDeviceGetTemperatureV) F(nvmlDeviceGetClockInfo) \
    F(nvmlDeviceGetUtilizationRates) F(nvmlDeviceGetMemoryInfo) F(nvmlDeviceGetMemoryInfo_v2) \
    F(nvmlDeviceGetCurrentClocksEventReasons) F(nvmlDeviceGetCurrentClocksThrottleReasons) \
    F(nvmlDeviceGetPcieThroughput) F(nvmlDeviceGetFieldValues) F(nvmlDeviceGetSamples) \
    F(nvmlDeviceGetMigMode) F(nvmlDeviceGetMaxMigDeviceCount) \
    F(nvmlDeviceGetMigDeviceHandleByIndex) F(nvmlDeviceIsMigDeviceHandle) \
    F(nvmlDeviceGetDeviceHandleFromMigDeviceHandle) F(nvmlDeviceGetGpuInstanceId) \
    F(nvmlDeviceGetComputeMode) F(nvmlDeviceGetComputeRunningProcesses_v3) \
    F(nvmlDeviceGetGraphicsRunningProcesses_v3) F(nvmlGpmQueryDeviceSupport) \
    F(nvmlGpmSampleAlloc) F(nvmlGpmSampleFree) F(nvmlGpmSampleGet) F(nvmlGpmMigSampleGet) \
    F(nvmlGpmMetricsGet) F(nvmlDeviceGetViolationStatus)
#define AS_ENUM(name) FN_##name,
#define AS_STRING(name) #name,
enum { FUNCTIONS(AS_ENUM) FUNCTION_COUNT };
static const char *const function_names[] = { FUNCTIONS(AS_STRING) NULL };

static control_t *control;
static char mapped_path[4096];

/* A handle is an address into one of these, so that a wild one is recognised. */
static char gpu_handles[MAX_GPUS], mig_handles[MAX_GPUS * MAX_MIG];

static int map_control(void) {
    const char *path = getenv("NVML_RIG");
    if (!path) return DRIVER_NOT_LOADED;
    if (control && !strcmp(path, mapped_path)) return OK;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return DRIVER_NOT_LOADED;
    void *address = mmap(NULL, sizeof(control_t), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (address == MAP_FAILED || ((control_t *)address)->magic != MAGIC) return DRIVER_NOT_LOADED;
    control = address;                 /* an earlier map stays: another thread may be using it */
    snprintf(mapped_path, sizeof mapped_path, "%s", path);
    return OK;
}

static int64_t now_ns(void) {
    if (control->virtual_ns) return control->virtual_ns;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* The difference between another clock and the monotonic one. */
static int64_t clock_offset_ns(clockid_t id) {
    struct timespec m, o;
    clock_gettime(CLOCK_MONOTONIC, &m);
    clock_gettime(id, &o);
    return (o.tv_sec - m.tv_sec) * 1000000000LL + (o.tv_nsec - m.tv_nsec);
}

static int gpu_of(const void *handle) {
    const char *h = handle;
    if (h >= gpu_handles && h < gpu_handles + MAX_GPUS) return h - gpu_handles;
    if (h >= mig_handles && h < mig_handles + sizeof mig_handles) return (h - mig_handles) / MAX_MIG;
    return -1;
}
static int is_mig(const void *handle) {
    return (const char *)handle >= mig_handles && (const char *)handle < mig_handles + sizeof mig_handles;
}

/* Count the call, wait the latency, and say how it fails; *value is set by a value rule. */
static int enter(int function, int gpu, int64_t *value, int *has_value) {
    int column = gpu < 0 ? MAX_GPUS : gpu;
    int64_t calls = __atomic_add_fetch(&control->calls[function][column], 1, __ATOMIC_RELAXED);
    if (control->latency_ns) {
        if (control->virtual_ns) control->virtual_ns += control->latency_ns;
        else {
            struct timespec t = { 0, control->latency_ns };
            nanosleep(&t, NULL);
        }
    }
    int64_t now = now_ns();
    if (gpu >= 0) {
        gpu_t *g = &control->gpu[gpu];
        if (g->lost && now >= g->lost_ns && (!g->back_ns || now < g->back_ns)) return GPU_IS_LOST;
    }
    for (int i = 0; i < control->rules; i++) {
        rule_t *r = &control->rule[i];
        if (r->kind == RULE_OFF || (r->function >= 0 && r->function != function)) continue;
        if (r->gpu >= 0 && r->gpu != gpu) continue;
        if (now < r->from_ns || (r->until_ns && now >= r->until_ns) || calls <= r->after_calls) continue;
        if (r->kind == RULE_FAIL) return r->code;
        if (value) { *value = r->value; *has_value = 1; }
    }
    return OK;
}

#define BEGIN(fn, handle) \
    if (!control || !control->initialised) return UNINITIALIZED; \
    int gpu = gpu_of(handle); \
    if (gpu < 0 || gpu >= control->gpus) return INVALID_ARGUMENT; \
    int64_t value = 0; int has_value = 0; \
    int code = enter(FN_##fn, gpu, &value, &has_value); \
    if (code) return code; \
    gpu_t *g = &control->gpu[gpu]; (void)g; (void)value; (void)has_value;
#define BEGIN_SYSTEM(fn) \
    if (!control || !control->initialised) return UNINITIALIZED; \
    int code = enter(FN_##fn, -1, NULL, NULL); \
    if (code) return code;

/* ---- truth: the tape and what a sensor shows of it ---- */

/* The last piece that begins at or before t, -1 if none does. */
static int piece_at(const gpu_t *g, int64_t t) {
    int count = __atomic_load_n(&g->tape_count, __ATOMIC_ACQUIRE), low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (g->tape[middle].time_ns <= t) low = middle + 1; else high = middle;
    }
    return low - 1;
}

static double joules_at(const gpu_t *g, int64_t t) {
    int piece = piece_at(g, t);
    if (piece < 0) return 0.0;
    const tape_t *r = &g->tape[piece];
    return r->joules + r->watts * (double)(t - r->time_ns) * 1e-9;
}

static double mean_watts(const gpu_t *g, int64_t end, int64_t window) {
    int64_t first = g->tape_count ? g->tape[0].time_ns : 0;
    if (end - window < first) window = end > first ? end - first : 1;
    return (joules_at(g, end) - joules_at(g, end - window)) / ((double)window * 1e-9);
}

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}
static double uniform(int64_t k, uint64_t salt) { return (double)(mix((uint64_t)k ^ salt) >> 11) / 9007199254740992.0; }

/* Three sines whose periods have no common multiple; their sum has an sd of wander_ns. */
static double wander(const gpu_t *g, int64_t t) {
    const double turns = 2 * M_PI * (double)t * 1e-9 / 13.0;
    if (!g->wander_ns) return 0.0;
    return (double)g->wander_ns * sqrt(2.0 / 3.0) * (sin(turns) + sin(turns / sqrt(2.0)) + sin(turns / sqrt(5.0)));
}

static int64_t instant(const gpu_t *g, const lattice_t *l, int64_t k) {
    int64_t even = l->phase_ns + k * l->period_ns;
    return even + (int64_t)((2 * uniform(k, 0x51) - 1) * (double)l->jitter_ns + wander(g, even));
}

/* The last update instant at or before t, over lattices that may change on the way. */
static int64_t last_update(const gpu_t *g, int64_t t) {
    for (int i = g->lattice_count - 1; i >= 0; i--) {
        const lattice_t *l = &g->lattices[i];
        if (t < l->from_ns && i) continue;
        int64_t k = (t - l->phase_ns + 5 * g->wander_ns / 2) / l->period_ns + 1;
        while (instant(g, l, k) > t || (l->skip > 0 && uniform(k, 0xa7) < l->skip)) k--;
        int64_t u = instant(g, l, k);
        if (u >= l->from_ns || !i) return u;
        t = l->from_ns;                                     /* not yet updated since the change */
    }
    return t;
}

static int64_t period_at(const gpu_t *g, int64_t t) {
    int i = g->lattice_count - 1;
    while (i > 0 && t < g->lattices[i].from_ns) i--;
    return g->lattices[i].period_ns;
}

/* Power as it comes out of a first-order lag at t; before the last 40 tau it had settled. */
static double lagged_watts(const gpu_t *g, int64_t lag_ns, int64_t t) {
    int last = piece_at(g, t), i = last;
    if (last < 0) return 0.0;
    while (i > 0 && t - g->tape[i].time_ns < 40 * lag_ns) i--;
    double watts = g->tape[i].watts;
    for (; i <= last; i++) {
        int64_t end = i < last ? g->tape[i + 1].time_ns : t;
        double decay = exp(-(double)(end - g->tape[i].time_ns) / (double)lag_ns);
        watts = g->tape[i].watts + (watts - g->tape[i].watts) * decay;
    }
    return watts;
}

/* The mean of joules_at over the window that ends at t. */
static double mean_joules(const gpu_t *g, int64_t t, int64_t window) {
    int64_t from = t - window;
    double before = joules_at(g, from), sum = 0.0;
    int last = piece_at(g, t);
    for (int i = piece_at(g, from); i <= last; i++) {
        int64_t end = i < last ? g->tape[i + 1].time_ns : t;
        double seconds = (double)(end - from) * 1e-9, watts = i < 0 ? 0.0 : g->tape[i].watts;
        sum += (joules_at(g, from) - before + watts * seconds / 2) * seconds;
        from = end;
    }
    return before + sum / ((double)window * 1e-9);
}

/* What a lag holds back at t: tau (P filtered), or its mean over a window that ends there. */
static double held_back_joules(const gpu_t *g, int64_t lag_ns, int64_t t, int64_t window) {
    double tau = (double)lag_ns * 1e-9, watts = lagged_watts(g, lag_ns, t);
    if (!window) return tau * watts;
    double in = joules_at(g, t) - joules_at(g, t - window);
    return tau * (in - tau * (watts - lagged_watts(g, lag_ns, t - window))) / ((double)window * 1e-9);
}

/* Energy up to t through lags, moving average and delay. */
static double seen_joules(const gpu_t *g, int64_t t) {
    int64_t window = g->average_ns;
    t -= g->delay_ns;
    double joules = window ? mean_joules(g, t, window) : joules_at(g, t);
    if (g->lag_ns) joules -= (1.0 - g->second_lag_share) * held_back_joules(g, g->lag_ns, t, window);
    if (g->second_lag_ns) joules -= g->second_lag_share * held_back_joules(g, g->second_lag_ns, t, window);
    return joules;
}

/* How far the sum of a part-time counter has come: the same in every thread and process. */
static __thread struct { int64_t from_ns, update_ns; double joules; } summed[MAX_GPUS];

/* What the update at this instant shows. From part_from_ns on the mean power of the last part of
   each period stands for the time since the update before. */
static double counter_joules(const gpu_t *g, int64_t update) {
    int gpu = (int)(g - control->gpu);
    if (g->part <= 0 || g->part >= 1 || update <= g->part_from_ns) return seen_joules(g, update);
    if (summed[gpu].from_ns != g->part_from_ns || summed[gpu].update_ns > update) {
        summed[gpu].from_ns = g->part_from_ns;
        summed[gpu].update_ns = last_update(g, g->part_from_ns);
        summed[gpu].joules = seen_joules(g, summed[gpu].update_ns);
    }
    for (int64_t u = update, before; u > summed[gpu].update_ns; u = before) {
        before = last_update(g, u - 1);
        int64_t width = llround(g->part * (double)period_at(g, u));
        double joules = seen_joules(g, u) - seen_joules(g, u - width);
        summed[gpu].joules += joules * (double)(u - before) / (double)width;
    }
    summed[gpu].update_ns = update;
    return summed[gpu].joules;
}

static int64_t energy_mj(gpu_t *g, int64_t now) {
    if (g->fast_read_ns) {
        if (g->last_energy_read_ns && now - g->last_energy_read_ns < g->fast_read_ns) g->lost_mj += g->fast_read_loss_mj;
        g->last_energy_read_ns = now;
    }
    int64_t u = last_update(g, now);
    int64_t begin = g->tape[0].time_ns, offset = g->counter_offset_mj;
    double joules = counter_joules(g, u);
    if (g->reset_ns && now >= g->reset_ns) {
        begin = g->reset_ns;
        joules = u > begin ? joules - counter_joules(g, g->part > 0 && g->part < 1 ? last_update(g, begin) : begin) : 0.0;
        offset = 1;
    }
    double shown = joules * 1e3 * g->counter_gain - g->lost_mj;
    if (u > begin) shown += (double)g->offset_mw * (double)(u - begin) * 1e-9;
    int64_t value_mj = offset + (int64_t)(shown > 0 ? shown : 0);
    if (g->fast_read_ns) {                                  /* energy is lost, never taken back */
        if (value_mj < g->shown_mj) value_mj = g->shown_mj;
        g->shown_mj = value_mj;
    }
    return value_mj;
}

static double instant_watts(const gpu_t *g, int64_t now) {
    int64_t end = g->power_period_ns ? now - now % g->power_period_ns : now;
    return mean_watts(g, end, g->power_window_ns > 0 ? g->power_window_ns : 1000);
}

/* ---- library ---- */

static int do_init(int function) {
    int code = map_control();
    if (code) return code;
    code = enter(function, -1, NULL, NULL);
    if (code) return code;
    control->initialised++;
    control->inits++;
    return OK;
}
int nvmlInit_v2(void) { return do_init(FN_nvmlInit_v2); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return do_init(FN_nvmlInitWithFlags); }
int nvmlShutdown(void) {
    BEGIN_SYSTEM(nvmlShutdown)
    control->initialised--;
    return OK;
}
const char *nvmlErrorString(int code) {
    static char text[64];
    snprintf(text, sizeof text, "NVML error %d", code);
    return text;
}
static int put(const char *from, char *to, unsigned length) {
    if (strlen(from) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return OK;
}
int nvmlSystemGetDriverVersion(char *v, unsigned n) { BEGIN_SYSTEM(nvmlSystemGetDriverVersion) return put(control->driver_version, v, n); }
int nvmlSystemGetNVMLVersion(char *v, unsigned n) { BEGIN_SYSTEM(nvmlSystemGetNVMLVersion) return put(control->driver_version, v, n); }
int nvmlDeviceGetCount_v2(unsigned *n) { BEGIN_SYSTEM(nvmlDeviceGetCount_v2) *n = control->gpus; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) {
    if (!control || !control->initialised) return UNINITIALIZED;
    int code = enter(FN_nvmlDeviceGetHandleByIndex_v2, i < MAX_GPUS ? (int)i : -1, NULL, NULL);
    if (code) return code;
    if ((int)i >= control->gpus) return INVALID_ARGUMENT;
    *h = &gpu_handles[i];
    return OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **h) {
    BEGIN_SYSTEM(nvmlDeviceGetHandleByUUID)
    for (int i = 0; i < control->gpus; i++) {
        if (!strcmp(uuid, control->gpu[i].uuid)) { *h = &gpu_handles[i]; return OK; }
        for (int m = 0; m < control->gpu[i].mig_count; m++)
            if (!strcmp(uuid, control->gpu[i].mig_uuid[m])) { *h = &mig_handles[i * MAX_MIG + m]; return OK; }
    }
    return NOT_FOUND;
}

/* ---- identity ---- */

int nvmlDeviceGetIndex(void *d, unsigned *i) { BEGIN(nvmlDeviceGetIndex, d) *i = gpu; return OK; }
int nvmlDeviceGetUUID(void *d, char *s, unsigned n) {
    BEGIN(nvmlDeviceGetUUID, d)
    return put(is_mig(d) ? g->mig_uuid[((char *)d - mig_handles) % MAX_MIG] : g->uuid, s, n);
}
int nvmlDeviceGetName(void *d, char *s, unsigned n) { BEGIN(nvmlDeviceGetName, d) return put(g->name, s, n); }
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
int nvmlDeviceGetPciInfo_v3(void *d, pci_t *p) {
    BEGIN(nvmlDeviceGetPciInfo_v3, d)
    memset(p, 0, sizeof *p);
    snprintf(p->bus_id, sizeof p->bus_id, "%s", g->bus_id);
    sscanf(g->bus_id, "%x:%x:%x", &p->domain, &p->bus, &p->device);
    return OK;
}
int nvmlDeviceGetArchitecture(void *d, unsigned *a) { BEGIN(nvmlDeviceGetArchitecture, d) *a = g->arch; return OK; }
int nvmlDeviceGetVirtualizationMode(void *d, unsigned *m) { BEGIN(nvmlDeviceGetVirtualizationMode, d) *m = g->virtualization; return OK; }

/* ---- energy and power ---- */

int nvmlDeviceGetTotalEnergyConsumption(void *d, uint64_t *e) {
    BEGIN(nvmlDeviceGetTotalEnergyConsumption, d)
    if (is_mig(d)) return NOT_SUPPORTED;
    *e = has_value ? (uint64_t)value : (uint64_t)energy_mj(g, now_ns());
    return OK;
}
static unsigned usage_mw(const gpu_t *g, int64_t now) {
    return (unsigned)lround((g->usage_average ? mean_watts(g, now, 1000000000LL) : instant_watts(g, now)) * 1e3);
}
int nvmlDeviceGetPowerUsage(void *d, unsigned *p) {
    BEGIN(nvmlDeviceGetPowerUsage, d)
    *p = has_value ? (unsigned)value : usage_mw(g, now_ns());
    return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *p) { BEGIN(nvmlDeviceGetEnforcedPowerLimit, d) *p = g->power_limit_mw; return OK; }
int nvmlDeviceGetPowerManagementLimit(void *d, unsigned *p) { BEGIN(nvmlDeviceGetPowerManagementLimit, d) *p = g->power_limit_mw; return OK; }

typedef union { double d; unsigned ui; unsigned long ul; uint64_t ull; int64_t sll; int si; unsigned short us; } value_t;
typedef struct { uint32_t field, scope; int64_t timestamp, latency; int type, ret; value_t value; } field_t;
int nvmlDeviceGetFieldValues(void *d, int n, field_t *f) {
    BEGIN(nvmlDeviceGetFieldValues, d)
    int64_t now = now_ns();
    for (int i = 0; i < n; i++) {
        f[i].timestamp = (now + clock_offset_ns(CLOCK_REALTIME)) / 1000;
        f[i].latency = 0; f[i].ret = OK; f[i].type = 1; f[i].value.ull = 0;
        if (f[i].field == 186 && g->field_186) f[i].value.ui = has_value ? (unsigned)value : (unsigned)lround(instant_watts(g, now) * 1e3);
        else if (f[i].field == 185 && g->field_185) f[i].value.ui = has_value ? (unsigned)value : (unsigned)lround(mean_watts(g, now, 1000000000LL) * 1e3);
        else if (f[i].field == 83) { f[i].type = 3; f[i].value.ull = (uint64_t)energy_mj(g, now); }
        else if (f[i].field == 191) f[i].value.ui = g->power_limit_mw;
        else f[i].ret = NOT_SUPPORTED;
    }
    return OK;
}
typedef struct { uint64_t timestamp; value_t value; } sample_t;
int nvmlDeviceGetSamples(void *d, int kind, uint64_t seen, int *type, unsigned *n, sample_t *out) {
    BEGIN(nvmlDeviceGetSamples, d)
    int64_t spacing = kind == 0 ? g->sample_spacing_ns : kind <= 2 ? g->busy_spacing_ns : 0;
    if (!spacing) return NOT_SUPPORTED;
    *type = 1;
    if (!out) { *n = g->sample_depth; return OK; }
    int64_t offset = clock_offset_ns(g->sample_clock ? CLOCK_BOOTTIME : CLOCK_REALTIME);
    int64_t last = now_ns() / spacing;
    unsigned filled = 0;
    for (int64_t k = last - g->sample_depth + 1; k <= last && filled < *n; k++) {
        int64_t t = k * spacing;
        uint64_t stamp = (uint64_t)((t + offset) / 1000);
        if (stamp <= seen) continue;
        out[filled].timestamp = stamp;
        double watts = mean_watts(g, t, spacing);   /* busy: as many percent as 1/10 of the watts, or half */
        double shown = kind == 0 ? watts * 1e3 : fmin(100.0, watts / (kind == 1 ? 10 : 20));
        out[filled++].value.ui = has_value ? (unsigned)value : (unsigned)lround(shown);
    }
    *n = filled;
    return filled ? OK : NOT_FOUND;
}

/* ---- telemetry ---- */

int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *t) { BEGIN(nvmlDeviceGetTemperature, d) (void)sensor; *t = has_value ? (unsigned)value : (unsigned)g->temperature_c; return OK; }
typedef struct { unsigned version; int sensor, celsius; } temperature_t;
int nvmlDeviceGetTemperatureV(void *d, temperature_t *t) { BEGIN(nvmlDeviceGetTemperatureV, d) t->celsius = g->temperature_c; return OK; }
int nvmlDeviceGetClockInfo(void *d, int kind, unsigned *c) { BEGIN(nvmlDeviceGetClockInfo, d) *c = kind == 2 ? g->memory_clock_mhz : g->sm_clock_mhz; return OK; }
typedef struct { unsigned gpu, memory; } rates_t;
int nvmlDeviceGetUtilizationRates(void *d, rates_t *u) {
    BEGIN(nvmlDeviceGetUtilizationRates, d)
    if (g->mig_mode == 1) return NOT_SUPPORTED;
    u->gpu = has_value ? (unsigned)value : (unsigned)g->utilization; u->memory = g->memory_utilization;
    return OK;
}
typedef struct { uint64_t total, free, used; } memory_t;
int nvmlDeviceGetMemoryInfo(void *d, memory_t *m) { BEGIN(nvmlDeviceGetMemoryInfo, d) m->total = g->memory_total; m->used = g->memory_used; m->free = m->total - m->used; return OK; }
typedef struct { unsigned version; uint64_t total, reserved, free, used; } memory2_t;
int nvmlDeviceGetMemoryInfo_v2(void *d, memory2_t *m) { BEGIN(nvmlDeviceGetMemoryInfo_v2, d) m->total = g->memory_total; m->reserved = 0; m->used = g->memory_used; m->free = m->total - m->used; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(void *d, uint64_t *r) { BEGIN(nvmlDeviceGetCurrentClocksEventReasons, d) *r = g->event_reasons; return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, uint64_t *r) { BEGIN(nvmlDeviceGetCurrentClocksThrottleReasons, d) *r = g->event_reasons; return OK; }
int nvmlDeviceGetPcieThroughput(void *d, int counter, unsigned *kb) { BEGIN(nvmlDeviceGetPcieThroughput, d) *kb = counter ? g->pcie_rx_kb : g->pcie_tx_kb; return OK; }
typedef struct { uint64_t reference, violation; } violation_t;
int nvmlDeviceGetViolationStatus(void *d, int policy, violation_t *v) {
    BEGIN(nvmlDeviceGetViolationStatus, d)
    if (policy != 0 || g->cap_w <= 0) return NOT_SUPPORTED;
    int64_t now = now_ns();
    v->reference = (uint64_t)now / 1000; v->violation = 0;
    for (int i = 0, n = g->tape_count; i < n; i++) {
        int64_t end = i + 1 < n ? g->tape[i + 1].time_ns : now;
        if (end > now) end = now;
        if (g->tape[i].watts >= g->cap_w && end > g->tape[i].time_ns) v->violation += (uint64_t)(end - g->tape[i].time_ns);
    }
    return OK;
}
int nvmlDeviceGetComputeMode(void *d, int *mode) { BEGIN(nvmlDeviceGetComputeMode, d) *mode = 0; return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, void *p) { BEGIN(nvmlDeviceGetComputeRunningProcesses_v3, d) (void)p; *n = 0; return OK; }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *n, void *p) { BEGIN(nvmlDeviceGetGraphicsRunningProcesses_v3, d) (void)p; *n = 0; return OK; }

/* ---- MIG ---- */

int nvmlDeviceGetMigMode(void *d, unsigned *current, unsigned *pending) {
    BEGIN(nvmlDeviceGetMigMode, d)
    if (g->mig_mode < 0) return NOT_SUPPORTED;
    *current = *pending = g->mig_mode;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { BEGIN(nvmlDeviceGetMaxMigDeviceCount, d) *n = g->mig_mode < 0 ? 0 : MAX_MIG; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **h) {
    BEGIN(nvmlDeviceGetMigDeviceHandleByIndex, d)
    if ((int)i >= g->mig_count) return NOT_FOUND;
    *h = &mig_handles[gpu * MAX_MIG + i];
    return OK;
}
int nvmlDeviceIsMigDeviceHandle(void *d, unsigned *yes) { BEGIN(nvmlDeviceIsMigDeviceHandle, d) *yes = is_mig(d); return OK; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *d, void **h) { BEGIN(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, d) *h = &gpu_handles[gpu]; return OK; }
int nvmlDeviceGetGpuInstanceId(void *d, unsigned *id) {
    BEGIN(nvmlDeviceGetGpuInstanceId, d)
    if (!is_mig(d)) return NOT_SUPPORTED;
    *id = 1 + ((char *)d - mig_handles) % MAX_MIG;
    return OK;
}

/* ---- GPM ---- */

typedef struct { int gpu; int64_t time_ns; } gpm_sample_t;
typedef struct { unsigned version, supported; } gpm_support_t;
typedef struct { unsigned id; int ret; double value; const char *names[3]; } gpm_metric_t;
typedef struct { unsigned version, count; gpm_sample_t *first, *second; gpm_metric_t metric[]; } gpm_get_t;
int nvmlGpmQueryDeviceSupport(void *d, gpm_support_t *s) { BEGIN(nvmlGpmQueryDeviceSupport, d) s->supported = g->gpm; return OK; }
int nvmlGpmSampleAlloc(gpm_sample_t **s) { BEGIN_SYSTEM(nvmlGpmSampleAlloc) *s = calloc(1, sizeof **s); return OK; }
int nvmlGpmSampleFree(gpm_sample_t *s) { BEGIN_SYSTEM(nvmlGpmSampleFree) free(s); return OK; }
int nvmlGpmSampleGet(void *d, gpm_sample_t *s) {
    BEGIN(nvmlGpmSampleGet, d)
    if (!g->gpm || g->mig_mode == 1) return NOT_SUPPORTED;
    s->gpu = gpu; s->time_ns = now_ns();
    return OK;
}
int nvmlGpmMigSampleGet(void *d, unsigned instance, gpm_sample_t *s) {
    BEGIN(nvmlGpmMigSampleGet, d)
    if (!g->gpm || g->mig_mode != 1 || !instance || (int)instance > g->mig_count) return NOT_SUPPORTED;
    s->gpu = gpu; s->time_ns = now_ns();
    return OK;
}
int nvmlGpmMetricsGet(gpm_get_t *m) {
    if (!control || !control->initialised) return UNINITIALIZED;
    int code = enter(FN_nvmlGpmMetricsGet, m->first ? m->first->gpu : -1, NULL, NULL);
    if (code) return code;
    if (m->second->time_ns - m->first->time_ns < 100000000LL) return INVALID_ARGUMENT;
    gpu_t *g = &control->gpu[m->first->gpu];
    int64_t window = m->second->time_ns - m->first->time_ns;
    double follows = g->gpm == 2 ? mean_watts(g, m->second->time_ns, window) / 1e3 : 1.0;
    for (unsigned i = 0; i < m->count; i++) {
        gpm_metric_t *x = &m->metric[i];
        x->ret = OK;
        switch (x->id) {
        case 2: x->value = 100 * g->sm * follows; break;
        case 5: x->value = 100 * g->tensor * follows; break;
        case 10: x->value = 100 * g->dram * follows; break;
        default: x->ret = NOT_SUPPORTED;
        }
    }
    return OK;
}

/* ---- for the Python side: the layout and the names, so that the mirror is checked ---- */

int64_t rigControlSize(void) { return (int64_t)sizeof(control_t); }
const char *rigFunctionName(int i) { return i >= 0 && i < FUNCTION_COUNT ? function_names[i] : NULL; }
