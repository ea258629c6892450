/* null_program.c - the fake plugin's programs: a signature, and zeros as results. */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "pjrt/null/null_internal.h"
#include "pjrt/pjrt_internal.h"

/* Starts a serialized program; the text follows. */
static const char magic[] = "TPTNULL1";

static PJRT_Error *no_memory(void) {
    return null_error(PJRT_Error_Code_RESOURCE_EXHAUSTED, "null plugin: host memory exhausted");
}

static void executable_release(PJRT_Executable *executable) {
    if (atomic_fetch_sub(&executable->refs, 1) != 1) return;
    null_signature_free(&executable->signature);
    tpt_free(executable->text);
    tpt_free(executable->out_types);
    tpt_free(executable->out_dims);
    tpt_free(executable->out_ranks);
    tpt_free(executable);
    atomic_fetch_sub(&null_state.programs, 1);
}

/* Arrays for the queries about outputs. */
static bool executable_describe(PJRT_Executable *executable) {
    const null_signature_t *signature = &executable->signature;
    size_t dims = 0;
    for (size_t i = 0; i < signature->nouts; i++) dims += signature->outs[i].rank;
    executable->out_types = tpt_calloc(signature->nouts, sizeof *executable->out_types);
    executable->out_ranks = tpt_calloc(signature->nouts, sizeof *executable->out_ranks);
    executable->out_dims = tpt_calloc(dims, sizeof *executable->out_dims);
    if (executable->out_types == NULL || executable->out_ranks == NULL || executable->out_dims == NULL) return false;
    dims = 0;
    for (size_t i = 0; i < signature->nouts; i++) {
        const null_type_t *out = &signature->outs[i];
        executable->out_types[i] = out->type;
        executable->out_ranks[i] = out->rank;
        for (size_t k = 0; k < out->rank; k++) executable->out_dims[dims++] = out->dims[k];
    }
    return true;
}

static PJRT_Error *loaded_make(PJRT_Client *client, const char *text, size_t bytes, PJRT_LoadedExecutable **out_loaded) {
    null_signature_t signature;
    const char *why = null_signature_parse(text, bytes, &signature);
    if (why == null_why_memory) return no_memory();
    if (why != NULL) return null_error(PJRT_Error_Code_INVALID_ARGUMENT, "null plugin: bad program: %s", why);
    PJRT_Executable *executable = tpt_calloc(1, sizeof *executable);
    if (executable == NULL) {
        null_signature_free(&signature);
        return no_memory();
    }
    atomic_init(&executable->refs, 1);
    atomic_fetch_add(&null_state.programs, 1);
    executable->signature = signature;
    executable->text = tpt_malloc(bytes);
    executable->text_bytes = bytes;
    PJRT_LoadedExecutable *loaded = tpt_malloc(sizeof *loaded);
    if (executable->text == NULL || loaded == NULL || !executable_describe(executable)) {
        tpt_free(loaded);
        executable_release(executable);
        return no_memory();
    }
    memcpy(executable->text, text, bytes);
    loaded->executable = executable;
    loaded->client = client;
    *out_loaded = loaded;
    return NULL;
}

static PJRT_Error *compile(PJRT_Client_Compile_Args *args) {
    PJRT_Error *error = null_injected(TPT_NULL_COMPILE);
    const int64_t taken = atomic_load(&null_state.compile_time);
    const struct timespec time = {.tv_sec = (time_t)(taken / 1000000000), .tv_nsec = (long)(taken % 1000000000)};
    if (taken > 0) (void)nanosleep(&time, NULL);
    if (error == NULL) error = loaded_make(args->client, args->program->code, args->program->code_size, &args->executable);
    if (error == NULL) atomic_fetch_add(&null_state.compiles, 1);
    return error;
}

static void serialized_free(PJRT_SerializedExecutable *serialized) {
    tpt_free(serialized->bytes);
    tpt_free(serialized);
}

static PJRT_Error *serialize(PJRT_Executable_Serialize_Args *args) {
    PJRT_Error *error = null_injected(TPT_NULL_SERIALIZE);
    if (error != NULL) return error;
    size_t head = sizeof magic - 1, size = head + args->executable->text_bytes;
    PJRT_SerializedExecutable *serialized = tpt_malloc(sizeof *serialized);
    char *bytes = tpt_malloc(size);
    if (serialized == NULL || bytes == NULL) {
        tpt_free(serialized);
        tpt_free(bytes);
        return no_memory();
    }
    memcpy(bytes, magic, head);
    memcpy(bytes + head, args->executable->text, args->executable->text_bytes);
    serialized->bytes = bytes;
    args->serialized_bytes = bytes;
    args->serialized_bytes_size = size;
    args->serialized_executable = serialized;
    args->serialized_executable_deleter = serialized_free;
    return NULL;
}

static PJRT_Error *load(PJRT_Executable_DeserializeAndLoad_Args *args) {
    PJRT_Error *error = null_injected(TPT_NULL_LOAD);
    if (error != NULL) return error;
    size_t head = sizeof magic - 1;
    if (args->serialized_executable_size < head || memcmp(args->serialized_executable, magic, head) != 0) {
        return null_error(PJRT_Error_Code_INVALID_ARGUMENT, "null plugin: not a serialized program");
    }
    error = loaded_make(args->client, args->serialized_executable + head, args->serialized_executable_size - head,
                        &args->loaded_executable);
    if (error == NULL) atomic_fetch_add(&null_state.loads, 1);
    return error;
}

/* ---- queries ------------------------------------------------------------------------------------------------------- */

static PJRT_Error *loaded_destroy(PJRT_LoadedExecutable_Destroy_Args *args) {
    executable_release(args->executable->executable);
    tpt_free(args->executable);
    return NULL;
}

static PJRT_Error *executable_destroy(PJRT_Executable_Destroy_Args *args) {
    executable_release(args->executable);
    return NULL;
}

static PJRT_Error *get_executable(PJRT_LoadedExecutable_GetExecutable_Args *args) {
    args->executable = args->loaded_executable->executable;
    atomic_fetch_add(&args->executable->refs, 1);
    return NULL;
}

static PJRT_Error *num_outputs(PJRT_Executable_NumOutputs_Args *args) {
    args->num_outputs = args->executable->signature.nouts;
    return NULL;
}

static PJRT_Error *output_types(PJRT_Executable_OutputElementTypes_Args *args) {
    args->output_types = args->executable->out_types;
    args->num_output_types = args->executable->signature.nouts;
    return NULL;
}

static PJRT_Error *output_dimensions(PJRT_Executable_OutputDimensions_Args *args) {
    args->num_outputs = args->executable->signature.nouts;
    args->dims = args->executable->out_dims;
    args->dim_sizes = args->executable->out_ranks;
    return NULL;
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

static bool type_same(const null_type_t *a, const null_type_t *b) {
    return a->type == b->type && a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

static bool is_kept(const PJRT_ExecuteOptions *options, size_t index) {
    for (size_t i = 0; options != NULL && i < options->num_non_donatable_input_indices; i++) {
        if (options->non_donatable_input_indices[i] == (int64_t)index) return true;
    }
    return false;
}

static PJRT_Error *check_argument(const null_signature_t *signature, PJRT_Buffer *const *in, size_t i, PJRT_Device *device) {
    PJRT_Error *error = null_buffer_alive(in[i]);
    if (error != NULL) return error;
    if (!type_same(&in[i]->type, &signature->params[i])) {
        return null_error(PJRT_Error_Code_INVALID_ARGUMENT,
                          "null plugin: argument %zu has %lld bytes of type %d and rank %zu, not %lld of %d and %zu", i,
                          (long long)in[i]->nbytes, (int)in[i]->type.type, in[i]->type.rank,
                          (long long)null_type_bytes(&signature->params[i]), (int)signature->params[i].type,
                          signature->params[i].rank);
    }
    if (in[i]->device != device) {
        return null_error(PJRT_Error_Code_INVALID_ARGUMENT, "null plugin: argument %zu is on device %d, the program on %d", i,
                          in[i]->device->description.id, device->description.id);
    }
    return NULL;
}

static PJRT_Error *check_donation(PJRT_Buffer *const *in, size_t nparams, size_t i) {
    if (atomic_load(&null_state.reject_donation)) {
        return null_error(PJRT_Error_Code_INVALID_ARGUMENT, "null plugin: donation of argument %zu is rejected", i);
    }
    for (size_t k = 0; k < nparams; k++) {
        if (k != i && in[k] == in[i]) {
            return null_error(PJRT_Error_Code_INVALID_ARGUMENT, "null plugin: argument %zu is donated and also argument %zu", i,
                              k);
        }
    }
    return NULL;
}

static PJRT_Error *check_call(PJRT_LoadedExecutable_Execute_Args *args, PJRT_Device *device) {
    const null_signature_t *signature = &args->executable->executable->signature;
    if (args->num_devices != 1 || args->num_args != signature->nparams) {
        return null_error(PJRT_Error_Code_INVALID_ARGUMENT, "null plugin: %zu arguments for %zu parameters", args->num_args,
                          signature->nparams);
    }
    for (size_t i = 0; i < args->options->num_non_donatable_input_indices; i++) {
        int64_t index = args->options->non_donatable_input_indices[i];
        if (index < 0 || index >= (int64_t)signature->nparams ||
            (i > 0 && index <= args->options->non_donatable_input_indices[i - 1])) {
            return null_error(PJRT_Error_Code_INVALID_ARGUMENT,
                              "null plugin: the list of kept arguments is not sorted or out of range");
        }
    }
    PJRT_Buffer *const *in = args->argument_lists[0];
    PJRT_Error *error = NULL;
    for (size_t i = 0; i < signature->nparams && error == NULL; i++) {
        error = check_argument(signature, in, i, device);
        if (error == NULL && signature->params[i].alias >= 0 && !is_kept(args->options, i)) {
            error = check_donation(in, signature->nparams, i);
        }
    }
    return error;
}

static PJRT_Error *execute(PJRT_LoadedExecutable_Execute_Args *args) {
    const null_signature_t *signature = &args->executable->executable->signature;
    PJRT_Device *device = args->execute_device != NULL ? args->execute_device : &args->executable->client->devices[0];
    if (args->execute_device == NULL && args->num_args != 0) device = args->argument_lists[0][0]->device;
    PJRT_Error *error = null_injected(TPT_NULL_EXECUTE);
    if (error == NULL) error = check_call(args, device);
    if (error != NULL) return error;
    int64_t delay = atomic_load(&null_state.delay), ready_at = delay == 0 ? 0 : null_now() + delay;
    PJRT_Error_Code code = (PJRT_Error_Code)atomic_exchange(&null_state.fail[TPT_NULL_RESULT], 0);
    PJRT_Buffer *const *in = args->argument_lists[0];
    PJRT_Buffer **outs = args->output_lists[0];
    for (size_t i = 0; i < signature->nparams; i++) { /* late arguments make late results, broken ones broken results */
        if (in[i]->ready_at > ready_at - delay) ready_at = in[i]->ready_at + delay;
        if (code == PJRT_Error_Code_OK) code = in[i]->code;
    }
    for (size_t made = 0; made < signature->nouts; made++) {
        error = null_buffer_make(device, &signature->outs[made], &outs[made]);
        if (error != NULL) {
            while (made > 0) {
                PJRT_Buffer_Destroy_Args drop = TPT_ARGS(PJRT_Buffer_Destroy_Args, .buffer = outs[--made]);
                tpt_null_api()->PJRT_Buffer_Destroy(&drop);
            }
            return error;
        }
        outs[made]->ready_at = ready_at;
        outs[made]->code = code;
    }
    for (size_t i = 0; i < signature->nparams; i++) {
        if (signature->params[i].alias < 0 || is_kept(args->options, i)) continue;
        tpt_free(in[i]->bytes);
        in[i]->bytes = NULL;
        atomic_fetch_add(&null_state.donations, 1);
    }
    atomic_fetch_add(&null_state.executes, 1);
    return NULL;
}

void null_program_table(PJRT_Api *api) {
    api->PJRT_Client_Compile = compile;
    api->PJRT_Executable_Serialize = serialize;
    api->PJRT_Executable_DeserializeAndLoad = load;
    api->PJRT_Executable_Destroy = executable_destroy;
    api->PJRT_Executable_NumOutputs = num_outputs;
    api->PJRT_Executable_OutputElementTypes = output_types;
    api->PJRT_Executable_OutputDimensions = output_dimensions;
    api->PJRT_LoadedExecutable_Destroy = loaded_destroy;
    api->PJRT_LoadedExecutable_GetExecutable = get_executable;
    api->PJRT_LoadedExecutable_Execute = execute;
}
