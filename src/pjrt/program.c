/* program.c - compiling, loading and keeping programs. Running them is in execute.c. */
#include <string.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/log.h"
#include "pjrt/pjrt_internal.h"

/* Most outputs of one program. */
#define MAX_OUTPUTS 65536

static size_t program_options(const tpt_client_t *client, const tpt_compile_options_t *options, bool portable,
                              unsigned refused, unsigned char out[TPT_PJRT_OPTIONS_MAX]) {
    tpt_pjrt_options_t all = {
        .portable = portable,
        .device_id = client->devices[options->device].id,
        .refused = refused,
        .excess_precision = options->excess_precision,
        .fast_minmax_off = options->exact_minmax && client->is_cpu,
        .is_cpu = client->is_cpu,
        .loops = options->loops,
    };
    return tpt_pjrt_options_write(&all, out);
}

static unsigned flags_refused(const tpt_client_t *client) { return atomic_load_explicit(&client->refused, memory_order_relaxed); }

/* A plugin that does not know one of our flags names it in its error: the flag is left out from then on. `sent`: those that this
 * compile left out; another thread's may have learned more meanwhile. True: try again. */
static bool flags_learn(tpt_client_t *client, tpt_status_t *status, unsigned sent) {
    unsigned named = tpt_pjrt_flags_named(tpt_status_message(status));
    atomic_fetch_or_explicit(&client->refused, named, memory_order_relaxed);
    if ((named & ~sent) == 0) return false;
    tpt_log(TPT_LOG_INFO, "the plugin does not know a compiler flag, going on without it: %s", tpt_status_message(status));
    tpt_status_free(status);
    return true;
}

static tpt_status_t *program_compile_once(tpt_client_t *client, const char *text, size_t bytes,
                                          const tpt_compile_options_t *options, bool portable, unsigned refused,
                                          PJRT_LoadedExecutable **out_loaded) {
    static const char format[] = "mlir";
    unsigned char packed[TPT_PJRT_OPTIONS_MAX];
    PJRT_Program program = TPT_ARGS(PJRT_Program, .code = (char *)(uintptr_t)text, .code_size = bytes, .format = format,
                                    .format_size = sizeof format - 1);
    PJRT_Client_Compile_Args args = TPT_ARGS(PJRT_Client_Compile_Args, .client = client->handle, .program = &program,
                                             .compile_options = (const char *)packed,
                                             .compile_options_size = program_options(client, options, portable, refused, packed));
    /* XLA's CPU compiler splits loops among the cores that the compiling thread may run on. Its own threads are made with the
     * first program and inherit what that one's thread may: it gets all cores. */
    tpt_cores_t cores;
    const bool later = atomic_load_explicit(&client->has_compiled, memory_order_relaxed);
    const bool one = client->is_cpu && options->loops.one_core && later && tpt_cores_keep_one(&cores);
    tpt_status_t *status = tpt_pjrt_error(&client->api, client->api.PJRT_Client_Compile(&args));
    if (one) tpt_cores_restore(&cores);
    if (!later) atomic_store_explicit(&client->has_compiled, true, memory_order_relaxed);
    *out_loaded = args.executable;
    return status;
}

static tpt_status_t *program_compile(tpt_client_t *client, const char *text, size_t bytes, const tpt_compile_options_t *options,
                                     bool portable, PJRT_LoadedExecutable **out_loaded) {
    for (;;) {
        const unsigned refused = flags_refused(client);
        tpt_status_t *status = program_compile_once(client, text, bytes, options, portable, refused, out_loaded);
        if (status == NULL || !flags_learn(client, status, refused)) return status;
    }
}

/* ---- wrapping ------------------------------------------------------------------------------------------------------ */

/* Sizes of the outputs, asked once so that execute need not ask each buffer. Not every plugin tells: then out_nbytes is NULL.
 */
static tpt_status_t *program_read_sizes(tpt_program_t *program) {
    const PJRT_Api *api = &program->client->api;
    if (api->PJRT_Executable_OutputElementTypes == NULL || api->PJRT_Executable_OutputDimensions == NULL) return NULL;
    PJRT_Executable_OutputElementTypes_Args types =
        TPT_ARGS(PJRT_Executable_OutputElementTypes_Args, .executable = program->executable);
    PJRT_Executable_OutputDimensions_Args dims =
        TPT_ARGS(PJRT_Executable_OutputDimensions_Args, .executable = program->executable);
    tpt_status_t *status = tpt_pjrt_error(api, api->PJRT_Executable_OutputElementTypes(&types));
    if (status == NULL) status = tpt_pjrt_error(api, api->PJRT_Executable_OutputDimensions(&dims));
    size_t count = (size_t)program->nouts;
    if (status != NULL || types.num_output_types != count || dims.num_outputs != count) {
        tpt_status_free(status);
        return NULL;
    }
    int64_t *sizes = tpt_malloc(count * sizeof *sizes);
    if (sizes == NULL) return tpt_status_oom(count * sizeof *sizes);
    const int64_t *dim = dims.dims;
    for (size_t i = 0; i < count; i++) {
        sizes[i] = (int64_t)tpt_pjrt_type_size(types.output_types[i]);
        for (size_t k = 0; k < dims.dim_sizes[i]; k++) sizes[i] *= *dim++;
    }
    program->out_nbytes = sizes;
    return NULL;
}

static tpt_status_t *program_read(tpt_program_t *program) {
    const PJRT_Api *api = &program->client->api;
    PJRT_LoadedExecutable_GetExecutable_Args get =
        TPT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, .loaded_executable = program->loaded);
    TPT_TRY(tpt_pjrt_error(api, api->PJRT_LoadedExecutable_GetExecutable(&get)));
    program->executable = get.executable;
    PJRT_Executable_NumOutputs_Args outs = TPT_ARGS(PJRT_Executable_NumOutputs_Args, .executable = program->executable);
    TPT_TRY(tpt_pjrt_error(api, api->PJRT_Executable_NumOutputs(&outs)));
    if (outs.num_outputs > MAX_OUTPUTS)
        return tpt_status_make(TPT_RESOURCE_EXHAUSTED, "program with %zu outputs", outs.num_outputs);
    program->nouts = (int)outs.num_outputs;
    return program_read_sizes(program);
}

static void program_destroy_loaded(const PJRT_Api *api, PJRT_LoadedExecutable *loaded) {
    PJRT_LoadedExecutable_Destroy_Args args = TPT_ARGS(PJRT_LoadedExecutable_Destroy_Args, .executable = loaded);
    tpt_status_free(tpt_pjrt_error(api, api->PJRT_LoadedExecutable_Destroy(&args)));
}

/* Takes `loaded` over, on failure too. */
static tpt_status_t *program_wrap(tpt_client_t *client, PJRT_LoadedExecutable *loaded, int device, bool portable,
                                  tpt_program_t **out_program) {
    tpt_program_t *program = tpt_calloc(1, sizeof *program);
    if (program == NULL) {
        program_destroy_loaded(&client->api, loaded);
        return tpt_status_oom(sizeof *program);
    }
    atomic_init(&program->refs, 1);
    program->device = device;
    program->portable = portable;
    program->loaded = loaded;
    program->client = client;
    atomic_init(&program->real, program);
    atomic_init(&program->broken, NULL);
    tpt_pjrt_client_retain(client);
    tpt_status_t *status = program_read(program);
    if (status != NULL) {
        tpt_program_release(program);
        return status;
    }
    *out_program = program;
    return NULL;
}

void tpt_program_retain(tpt_program_t *program) { atomic_fetch_add_explicit(&program->refs, 1, memory_order_relaxed); }

void tpt_program_release(tpt_program_t *program) {
    if (program == NULL || atomic_fetch_sub_explicit(&program->refs, 1, memory_order_acq_rel) != 1) return;
    tpt_client_t *client = program->client;
    if (program->executable != NULL) {
        PJRT_Executable_Destroy_Args args = TPT_ARGS(PJRT_Executable_Destroy_Args, .executable = program->executable);
        tpt_status_free(tpt_pjrt_error(&client->api, client->api.PJRT_Executable_Destroy(&args)));
    }
    if (program->loaded != NULL) program_destroy_loaded(&client->api, program->loaded);
    tpt_program_t *real = atomic_load(&program->real);
    if (real != program) tpt_program_release(real);
    tpt_status_free(atomic_load(&program->broken));
    tpt_free(program->out_nbytes);
    tpt_free(program);
    tpt_pjrt_client_release(client);
}

int tpt_program_nouts(const tpt_program_t *program) { return program->nouts; }

/* ---- one program for all devices ----------------------------------------------------------------------------------- */

/* 1: works, 0: does not, -1: no memory to find out. */
static int portable_try(tpt_client_t *client) {
    static const char text[] =
        "module @probe {\n  func.func public @main(%arg0: tensor<1xf32>) -> tensor<1xf32> {\n"
        "    %0 = stablehlo.add %arg0, %arg0 : tensor<1xf32>\n    return %0 : tensor<1xf32>\n  }\n}\n";
    static const int64_t dims[1] = {1};
    static const float one = 1;
    int last = client->ndevices - 1;
    const tpt_compile_options_t options = {.device = 0};
    PJRT_LoadedExecutable *loaded = NULL;
    tpt_program_t *program = NULL;
    tpt_buffer_t *in = NULL, *out = NULL;
    float two = 0;
    tpt_status_t *status = program_compile(client, text, sizeof text - 1, &options, true, &loaded);
    if (status == NULL) status = program_wrap(client, loaded, 0, true, &program);
    if (status == NULL) status = tpt_buffer_from_host(client, last, TPT_F32, 1, dims, &one, &in);
    if (status == NULL) status = tpt_program_execute(program, last, 1, &in, 0, NULL, 1, &out);
    if (status == NULL) status = tpt_buffer_to_host(out, 0, sizeof two, &two);
    tpt_buffer_release(in);
    tpt_buffer_release(out);
    tpt_program_release(program);
    int works = status == NULL ? 1 : tpt_status_code(status) == TPT_RESOURCE_EXHAUSTED ? -1 : 0;
    if (works != 1) tpt_log(TPT_LOG_INFO, "no portable programs, compiling for each device: %s", tpt_status_message(status));
    tpt_status_free(status);
    return works;
}

bool tpt_client_portable(tpt_client_t *client) {
    int known = atomic_load_explicit(&client->portable, memory_order_acquire);
    if (known >= 0) return known != 0;
    if (client->ndevices == 1) return false; /* nothing to gain */
    tpt_mutex_lock(&client->probe_lock);
    known = atomic_load_explicit(&client->portable, memory_order_relaxed);
    if (known < 0) {
        known = portable_try(client);
        atomic_store_explicit(&client->portable, known, memory_order_release);
    }
    tpt_mutex_unlock(&client->probe_lock);
    return known > 0;
}

/* ---- the door ------------------------------------------------------------------------------------------------------ */

tpt_status_t *tpt_program_compile(tpt_client_t *client, const char *text, size_t bytes, const tpt_compile_options_t *options,
                                  tpt_program_t **out_program) {
    TPT_TRY(tpt_pjrt_check_device(client, options->device));
    bool portable = tpt_client_portable(client);
    PJRT_LoadedExecutable *loaded = NULL;
    TPT_TRY(program_compile(client, text, bytes, options, portable, &loaded));
    return program_wrap(client, loaded, options->device, portable, out_program);
}

tpt_status_t *tpt_program_serialize(tpt_program_t *program, void **out_data, size_t *out_bytes) {
    const PJRT_Api *api = &program->client->api;
    TPT_TRY(tpt_pjrt_program_settle(program, &program));
    if (api->PJRT_Executable_Serialize == NULL)
        return tpt_status_make(TPT_UNIMPLEMENTED, "the plugin cannot serialize programs");
    PJRT_Executable_Serialize_Args args = TPT_ARGS(PJRT_Executable_Serialize_Args, .executable = program->executable);
    TPT_TRY(tpt_pjrt_error(api, api->PJRT_Executable_Serialize(&args)));
    void *copy = tpt_malloc(args.serialized_bytes_size);
    if (copy != NULL) memcpy(copy, args.serialized_bytes, args.serialized_bytes_size);
    size_t bytes = args.serialized_bytes_size;
    if (args.serialized_executable_deleter != NULL) args.serialized_executable_deleter(args.serialized_executable);
    if (copy == NULL) return tpt_status_oom(bytes);
    *out_data = copy;
    *out_bytes = bytes;
    return NULL;
}

tpt_status_t *tpt_program_load(tpt_client_t *client, const void *data, size_t bytes, const tpt_compile_options_t *options,
                               tpt_program_t **out_program) {
    const PJRT_Api *api = &client->api;
    TPT_TRY(tpt_pjrt_check_device(client, options->device));
    if (api->PJRT_Executable_DeserializeAndLoad == NULL) {
        return tpt_status_make(TPT_UNIMPLEMENTED, "the plugin cannot load serialized programs");
    }
    bool portable = tpt_client_portable(client);
    for (;;) {
        unsigned char packed[TPT_PJRT_OPTIONS_MAX];
        const unsigned refused = flags_refused(client);
        PJRT_Executable_DeserializeAndLoad_Args args =
            TPT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, .client = client->handle, .serialized_executable = data,
                     .serialized_executable_size = bytes, .overridden_serialized_compile_options = (const char *)packed,
                     .overridden_serialized_compile_options_size = program_options(client, options, portable, refused, packed));
        tpt_status_t *status = tpt_pjrt_error(api, api->PJRT_Executable_DeserializeAndLoad(&args));
        if (status == NULL) return program_wrap(client, args.loaded_executable, options->device, portable, out_program);
        if (!flags_learn(client, status, refused)) return status;
    }
}

size_t tpt_program_options(tpt_client_t *client, const tpt_compile_options_t *options, unsigned char out[TPT_OPTIONS_MAX]) {
    if (options->device < 0 || options->device >= client->ndevices) return 0;
    return program_options(client, options, tpt_client_portable(client), 0, out);
}

tpt_status_t *tpt_program_memory(tpt_program_t *program, tpt_program_memory_t *out_memory) {
    const PJRT_Api *api = &program->client->api;
    TPT_TRY(tpt_pjrt_program_settle(program, &program));
    if (api->PJRT_Executable_GetCompiledMemoryStats == NULL) {
        return tpt_status_make(TPT_UNIMPLEMENTED, "the plugin does not tell a program's memory");
    }
    PJRT_Executable_GetCompiledMemoryStats_Args args =
        TPT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, .executable = program->executable);
    TPT_TRY(tpt_pjrt_error(api, api->PJRT_Executable_GetCompiledMemoryStats(&args)));
    *out_memory = (tpt_program_memory_t){
        .arguments = args.argument_size_in_bytes,
        .outputs = args.output_size_in_bytes,
        .aliased = args.alias_size_in_bytes,
        .temporary = args.temp_size_in_bytes,
        .code = args.generated_code_size_in_bytes,
    };
    return NULL;
}
