/* kernels.c - C routines that programs call on CPU plugins, by XLA's foreign function interface: tpt_permute, a transposition, and
 * tpt_formula, elementwise arithmetic that is not compiled. A call costs nothing that could be measured beside a fusion, and keeps
 * XLA from fusing across it. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/formula.h"
#include "base/log.h"
#include "base/permute.h"
#include "pjrt/ffi.h"
#include "pjrt/pjrt_internal.h"

#define HELPED_FROM (1 << 20) /* bytes: what is smaller is done before a helper wakes up */
#define HELPERS_MOST 15
#define PIECES_AT_ONCE 8

/* ---- one permutation by several threads -------------------------------------------------------------------------------- */

typedef struct job {
    tpt_permute_t plan;
    void *out;
    const void *in;
    atomic_int_fast64_t next, done; /* pieces handed out and finished */
    atomic_int refs;
} job_t;

static void job_work(job_t *job) {
    for (;;) {
        const int64_t first = atomic_fetch_add(&job->next, PIECES_AT_ONCE);
        if (first >= job->plan.pieces) return;
        const int64_t last = first + PIECES_AT_ONCE < job->plan.pieces ? first + PIECES_AT_ONCE : job->plan.pieces;
        tpt_permute_run(&job->plan, job->out, job->in, first, last);
        atomic_fetch_add(&job->done, last - first);
    }
}

static void job_drop(job_t *job) {
    if (atomic_fetch_sub(&job->refs, 1) == 1) tpt_free(job);
}

static void job_help(void *data) {
    job_work(data);
    job_drop(data);
}

/* Helpers that come late find nothing to do; this thread waits for none that has not begun. */
static void permute_together(const ffi_call_t *call, const tpt_permute_t *plan, void *out, const void *in, int helpers) {
    job_t *job = tpt_malloc(sizeof *job);
    if (job == NULL) {
        tpt_permute_run(plan, out, in, 0, plan->pieces);
        return;
    }
    *job = (job_t){.plan = *plan, .out = out, .in = in};
    atomic_init(&job->refs, 1);
    for (int i = 0; i < helpers; i++) {
        atomic_fetch_add(&job->refs, 1);
        ffi_schedule_args_t args = {.struct_size = sizeof args, .context = call->context, .task = job_help, .data = job};
        if (call->api->schedule(&args) != NULL) {
            job_drop(job); /* no pool to help; the error is the plugin's to free, and never happens twice */
            break;
        }
    }
    job_work(job);
    while (atomic_load(&job->done) < plan->pieces) tpt_cores_pause();
    job_drop(job);
}

/* ---- the handlers ------------------------------------------------------------------------------------------------------ */

static size_t element_size(int dtype) {
    switch (dtype) { /* xla_data.proto's numbers of types */
        case 1: case 2: case 6: case 19: case 20: case 23: case 24: case 25: case 28: case 29: case 33: return 1;
        case 3: case 7: case 10: case 16: return 2;
        case 4: case 8: case 11: return 4;
        case 5: case 9: case 12: case 15: return 8;
        case 18: return 16;
        default: return 0;
    }
}

static ffi_error_t *refuse(const ffi_call_t *call, const char *why) {
    ffi_error_create_args_t args = {.struct_size = sizeof args, .message = why, .code = FFI_INVALID_ARGUMENT};
    return call->api->error_create(&args);
}

/* Asked at its registration what version it is for: the plugin's own, whose layouts have been the same since 0.1. */
static bool told_version(const ffi_call_t *call) {
    if (call->extensions == NULL || call->extensions->type != FFI_METADATA) return false;
    ffi_metadata_t *metadata = ((ffi_metadata_extension_t *)(void *)call->extensions)->metadata;
    metadata->version.major = call->api->version.major;
    metadata->version.minor = call->api->version.minor;
    metadata->traits = 0;
    return true;
}

/* Argument and result: dense arrays. Attribute `perm`: the input's dim of each of the result's. */
static ffi_error_t *permute(ffi_call_t *call) {
    if (told_version(call) || call->stage != FFI_STAGE_EXECUTE) return NULL;
    if (call->args.size != 1 || call->results.size != 1 || call->attrs.size != 1 || call->attrs.types[0] != FFI_ATTR_ARRAY)
        return refuse(call, "tpt_permute takes an array, gives one and has one attribute");
    const ffi_buffer_t *in = call->args.items[0], *out = call->results.items[0];
    const ffi_array_t *perm = call->attrs.items[0];
    tpt_permute_t plan;
    if (perm->dtype != FFI_S64 || (int64_t)perm->size != in->rank || in->rank != out->rank || in->dtype != out->dtype ||
        !tpt_permute_plan(&plan, element_size(in->dtype), (int)in->rank, in->dims, perm->data))
        return refuse(call, "tpt_permute cannot take this array");
    int64_t bytes = (int64_t)plan.size;
    for (int64_t i = 0; i < in->rank; i++) bytes *= in->dims[i];
    const bool has_pool = call->api->struct_size >= sizeof(ffi_api_t) && call->api->schedule != NULL;
    int helpers = has_pool && bytes >= HELPED_FROM ? tpt_cores_count() - 1 : 0;
    if (helpers > HELPERS_MOST) helpers = HELPERS_MOST;
    if (helpers > 0) permute_together(call, &plan, out->data, in->data, helpers);
    else tpt_permute_run(&plan, out->data, in->data, 0, plan.pieces);
    return NULL;
}

/* Attribute `words`: how many formulas, then each (ir/formula.c). Arguments: float32 arrays. Results: one array each. */
#define ARRAYS_MOST 4096

static const char *run_formulas(const ffi_call_t *call, const int64_t *words, size_t nwords) {
    const float *arrays[ARRAYS_MOST];
    float *results[ARRAYS_MOST];
    if (call->args.size > ARRAYS_MOST || call->results.size > ARRAYS_MOST || nwords < 1) return "tpt_formula: too many arrays";
    for (int64_t i = 0; i < call->args.size; i++) arrays[i] = ((const ffi_buffer_t *)call->args.items[i])->data;
    for (int64_t i = 0; i < call->results.size; i++) results[i] = ((const ffi_buffer_t *)call->results.items[i])->data;
    size_t at = 1;
    for (int64_t k = 0; k < words[0]; k++) {
        if (at + 3 > nwords) return "tpt_formula: a formula is cut off";
        tpt_formula_item_t item = {.numel = words[at], .once = words[at + 1], .nsteps = words[at + 2],
                                   .steps = (const tpt_formula_step_t *)(const void *)(words + at + 3)};
        if (item.nsteps < 0 || item.nsteps > TPT_FORMULA_STEPS || at + 3 + 4 * (size_t)item.nsteps > nwords ||
            !tpt_formula_check(&item, call->args.size, call->results.size))
            return "tpt_formula: a formula is wrong";
        tpt_formula_run(&item, arrays, results, 0, item.numel);
        at += 3 + 4 * (size_t)item.nsteps;
    }
    return NULL;
}

static ffi_error_t *formula(ffi_call_t *call) {
    if (told_version(call) || call->stage != FFI_STAGE_EXECUTE) return NULL;
    if (call->attrs.size != 1 || call->attrs.types[0] != FFI_ATTR_ARRAY) return refuse(call, "tpt_formula has one attribute");
    const ffi_array_t *words = call->attrs.items[0];
    const char *why = words->dtype == FFI_S64 ? run_formulas(call, words->data, words->size) : "tpt_formula: other words";
    return why != NULL ? refuse(call, why) : NULL;
}

static bool register_one(const PJRT_Api *api, const ffi_register_extension_t *extension, const char *name, ffi_handler_t *handler) {
    static const char platform[] = "Host";
    ffi_register_args_t args = {.struct_size = sizeof args, .name = name, .name_size = strlen(name), .handler = handler,
                                .platform = platform, .platform_size = sizeof platform - 1};
    tpt_status_t *status = tpt_pjrt_error(api, extension->register_handler(&args));
    if (status == NULL) return true;
    tpt_log(TPT_LOG_INFO, "the plugin takes no C routines: %s", tpt_status_message(status));
    tpt_status_free(status);
    return false;
}

bool tpt_pjrt_kernels_register(const PJRT_Api *api) {
    const PJRT_Extension_Base *at = api->extension_start;
    while (at != NULL && at->type != PJRT_Extension_Type_FFI) at = at->next;
    if (at == NULL || at->struct_size < sizeof(ffi_register_extension_t)) return false;
    const ffi_register_extension_t *extension = (const ffi_register_extension_t *)(const void *)at;
    return register_one(api, extension, "tpt_permute", permute) && register_one(api, extension, "tpt_formula", formula);
}
