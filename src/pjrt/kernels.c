/* kernels.c - C routines that programs call on CPU plugins, by XLA's foreign function interface: tpt_permute, a transposition;
 * tpt_gemm, products of matrices by the host's BLAS; tpt_formula, elementwise arithmetic that is not compiled. A call costs nothing
 * that could be measured beside a fusion, and keeps XLA from fusing across it. */
#include <string.h>

#include "base/alloc.h"
#include "base/crew.h"
#include "base/formula.h"
#include "base/gemm.h"
#include "base/log.h"
#include "base/permute.h"
#include "pjrt/ffi.h"
#include "pjrt/pjrt_internal.h"

#define HELPED_FROM (1 << 20) /* bytes: what is smaller is done before a helper wakes up */
#define PIECES_AT_ONCE 8

typedef struct work {
    union {
        tpt_permute_t permute;
        tpt_gemm_plan_t gemm;
    } plan;
    void *arrays[TPT_GEMM_ARRAYS]; /* tpt_permute: its input and its output */
} work_t;

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

static void run_permute(const void *data, int64_t first, int64_t last) {
    const work_t *work = data;
    tpt_permute_run(&work->plan.permute, work->arrays[1], work->arrays[0], first, last);
}

/* Argument and result: dense arrays. Attribute `perm`: the input's dim of each of the result's. */
static ffi_error_t *permute(ffi_call_t *call) {
    if (told_version(call) || call->stage != FFI_STAGE_EXECUTE) return NULL;
    if (call->args.size != 1 || call->results.size != 1 || call->attrs.size != 1 || call->attrs.types[0] != FFI_ATTR_ARRAY)
        return refuse(call, "tpt_permute takes an array, gives one and has one attribute");
    const ffi_buffer_t *in = call->args.items[0], *out = call->results.items[0];
    const ffi_array_t *perm = call->attrs.items[0];
    work_t work = {.arrays = {in->data, out->data}};
    if (perm->dtype != FFI_S64 || (int64_t)perm->size != in->rank || in->rank != out->rank || in->dtype != out->dtype ||
        !tpt_permute_plan(&work.plan.permute, element_size(in->dtype), (int)in->rank, in->dims, perm->data))
        return refuse(call, "tpt_permute cannot take this array");
    int64_t bytes = (int64_t)work.plan.permute.size;
    for (int64_t i = 0; i < in->rank; i++) bytes *= in->dims[i];
    const int64_t pieces = work.plan.permute.pieces;
    tpt_crew_run(&(tpt_crew_job_t){.run = run_permute, .work = &work, .pieces = pieces, .at_once = bytes >= HELPED_FROM ? PIECES_AT_ONCE : pieces});
    return NULL;
}

/* ---- tpt_gemm ---------------------------------------------------------------------------------------------------------- */

static void run_gemm(const void *data, int64_t first, int64_t last) {
    const work_t *work = data;
    tpt_gemm_run(&work->plan.gemm, work->arrays, first, last);
}

/* The words, a tpt_gemm_t with as many loops as it says, and the arrays, all of one dtype. */
static bool read_gemm(const ffi_call_t *call, tpt_gemm_t *g, void **arrays, int64_t *numels, int *out_dtype) {
    const ffi_array_t *words = call->attrs.items[0];
    const size_t least = offsetof(tpt_gemm_t, loops) / sizeof(int64_t);
    if (words->dtype != FFI_S64 || words->size < least || words->size > sizeof *g / sizeof(int64_t)) return false;
    memcpy(g, words->data, words->size * sizeof(int64_t));
    if (g->nloops < 0 || words->size != least + 4 * (size_t)g->nloops) return false;
    const int nargs = g->adds != 0 ? TPT_GEMM_C : TPT_GEMM_D;
    if (call->args.size < nargs || call->args.size > nargs + 1 || call->results.size != 1) return false;
    for (int i = 0; i <= nargs; i++) {
        const int place = i < nargs ? i : TPT_GEMM_C;
        const ffi_buffer_t *array = i < nargs ? call->args.items[i] : call->results.items[0];
        if (i == 0) *out_dtype = array->dtype;
        if (array->dtype != *out_dtype || (array->dtype != FFI_F32 && array->dtype != FFI_F64)) return false;
        arrays[place] = array->data;
        numels[place] = 1;
        for (int64_t d = 0; d < array->rank; d++) numels[place] *= array->dims[d];
    }
    return true;
}

/* Arguments and result: the arrays of base/gemm.h; one more argument is not looked at. Attribute `words`: a tpt_gemm_t. */
static ffi_error_t *gemm(ffi_call_t *call) {
    if (told_version(call) || call->stage != FFI_STAGE_EXECUTE) return NULL;
    if (call->attrs.size != 1 || call->attrs.types[0] != FFI_ATTR_ARRAY) return refuse(call, "tpt_gemm has one attribute");
    if (tpt_blas() == NULL) return refuse(call, "tpt_gemm: this process has no BLAS to call");
    work_t work;
    tpt_gemm_t g = {0};
    int64_t numels[TPT_GEMM_ARRAYS] = {0};
    int dtype = 0;
    if (!read_gemm(call, &g, work.arrays, numels, &dtype) ||
        !tpt_gemm_plan(&work.plan.gemm, &g, element_size(dtype), numels, tpt_crew_size()))
        return refuse(call, "tpt_gemm cannot take these arrays");
    tpt_crew_run(&(tpt_crew_job_t){.run = run_gemm, .work = &work, .pieces = work.plan.gemm.pieces, .at_once = 1});
    return NULL;
}

/* ---- tpt_formula ------------------------------------------------------------------------------------------------------- */

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
    return register_one(api, extension, "tpt_permute", permute) && register_one(api, extension, "tpt_gemm", gemm) &&
           register_one(api, extension, "tpt_formula", formula);
}
