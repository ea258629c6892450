/* execute.c - the hot path: one program on one device. Up to TPT_PJRT_INLINE arguments and outputs it needs no heap. */
#include "base/alloc.h"
#include "pjrt/pjrt_internal.h"

static tpt_status_t *execute_check(const tpt_program_t *program, int device, int nargs, int nouts) {
    if (nouts != program->nouts) {
        return tpt_status_make(TPT_INVALID_ARGUMENT, "program has %d outputs, the caller wants %d", program->nouts, nouts);
    }
    if (nargs < 0) return tpt_status_make(TPT_INVALID_ARGUMENT, "%d arguments", nargs);
    TPT_TRY(tpt_pjrt_check_device(program->client, device));
    bool known = atomic_load_explicit(&program->real, memory_order_relaxed) != NULL;
    if (known && !program->portable && device != program->device) {
        return tpt_status_make(TPT_INVALID_ARGUMENT, "program compiled for device %d cannot run on device %d", program->device,
                               device);
    }
    return NULL;
}

/* Wraps what was made; on failure none is left, nor a stale pointer. */
static tpt_status_t *execute_wrap(tpt_program_t *program, int device, PJRT_Buffer **made, tpt_buffer_t **out_buffers) {
    tpt_status_t *status = NULL;
    int done = 0;
    for (int i = 0; i < program->nouts; i++) {
        int64_t nbytes = program->out_nbytes != NULL ? program->out_nbytes[i] : -1;
        tpt_buffer_t *buffer = NULL;
        tpt_status_t *one = tpt_pjrt_buffer_wrap(program->client, made[i], device, nbytes, &buffer);
        if (one == NULL && status == NULL) {
            out_buffers[done++] = buffer;
        } else {
            tpt_buffer_release(buffer);
            status = tpt_status_join(status, one);
        }
    }
    if (status != NULL) {
        while (done > 0) {
            tpt_buffer_release(out_buffers[--done]);
            out_buffers[done] = NULL;
        }
    }
    return status;
}

static tpt_status_t *execute_run(tpt_program_t *program, int device, int nargs, PJRT_Buffer **args_in, int nkeep,
                                 const int64_t *keep, PJRT_Buffer **made) {
    tpt_client_t *client = program->client;
    PJRT_Buffer *const *arg_list = args_in;
    PJRT_Buffer **out_list = made;
    PJRT_ExecuteOptions options =
        TPT_ARGS(PJRT_ExecuteOptions, .non_donatable_input_indices = keep, .num_non_donatable_input_indices = (size_t)nkeep);
    PJRT_LoadedExecutable_Execute_Args args =
        TPT_ARGS(PJRT_LoadedExecutable_Execute_Args, .executable = program->loaded, .options = &options,
                 .argument_lists = &arg_list, .num_devices = 1, .num_args = (size_t)nargs, .output_lists = &out_list,
                 .execute_device = program->portable ? client->devices[device].handle : NULL);
    return tpt_pjrt_error(&client->api, client->api.PJRT_LoadedExecutable_Execute(&args));
}

tpt_status_t *tpt_pjrt_execute(tpt_program_t *program, int device, int nargs, PJRT_Buffer **args, int nkeep, const int64_t *keep,
                               int nouts, PJRT_Buffer **made) {
    TPT_TRY(execute_check(program, device, nargs, nouts));
    return execute_run(program, device, nargs, args, nkeep, keep, made);
}

tpt_status_t *tpt_program_execute(tpt_program_t *program, int device, int nargs, tpt_buffer_t *const *args, int nkeep,
                                  const int64_t *keep, int nouts, tpt_buffer_t **out_buffers) {
    tpt_program_t *real = atomic_load_explicit(&program->real, memory_order_acquire);
    TPT_TRY(execute_check(real != NULL ? real : program, device, nargs, nouts));
    PJRT_Buffer *inline_list[2 * TPT_PJRT_INLINE];
    PJRT_Buffer **list = inline_list;
    size_t need = (size_t)nargs + (size_t)nouts;
    if (need > sizeof inline_list / sizeof *inline_list) {
        list = tpt_malloc(need * sizeof *list);
        if (list == NULL) return tpt_status_oom(need * sizeof *list);
    }
    tpt_status_t *status = NULL;
    bool late = real == NULL;
    for (int i = 0; i < nargs; i++) {
        if (args[i] == NULL) {
            status = tpt_status_make(TPT_INVALID_ARGUMENT, "argument %d has no buffer", i);
            break;
        }
        list[i] = atomic_load_explicit(&args[i]->handle, memory_order_acquire);
        late = late || list[i] == NULL;
    }
    if (status == NULL && late) status = tpt_pjrt_execute_late(real != NULL ? real : program, device, nargs, args, nkeep, keep, out_buffers);
    if (status == NULL && !late) status = execute_run(real, device, nargs, list, nkeep, keep, list + nargs);
    if (status == NULL && !late) status = execute_wrap(real, device, list + nargs, out_buffers);
    if (list != inline_list) tpt_free(list);
    return status;
}
