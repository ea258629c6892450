/* buffer.c - device buffers: made from host data, counted, read back. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/crew.h"
#include "pjrt/pjrt_internal.h"

/* Up to here a plugin copies host data during the call; above, waiting for the transfer saves it a copy. */
#define SMALL_UPLOAD ((int64_t)1 << 16)
#define HELP_NS 2000000 /* that a waiting thread stays awake */

/* ---- element types ------------------------------------------------------------------------------------------------- */

static const PJRT_Buffer_Type type_table[TPT_DTYPE_COUNT] = {
    [TPT_BOOL] = PJRT_Buffer_Type_PRED,
    [TPT_U8] = PJRT_Buffer_Type_U8,
    [TPT_I8] = PJRT_Buffer_Type_S8,
    [TPT_I16] = PJRT_Buffer_Type_S16,
    [TPT_I32] = PJRT_Buffer_Type_S32,
    [TPT_I64] = PJRT_Buffer_Type_S64,
    [TPT_U16] = PJRT_Buffer_Type_U16,
    [TPT_U32] = PJRT_Buffer_Type_U32,
    [TPT_U64] = PJRT_Buffer_Type_U64,
    [TPT_F16] = PJRT_Buffer_Type_F16,
    [TPT_BF16] = PJRT_Buffer_Type_BF16,
    [TPT_F32] = PJRT_Buffer_Type_F32,
    [TPT_F64] = PJRT_Buffer_Type_F64,
    [TPT_C64] = PJRT_Buffer_Type_C64,
    [TPT_C128] = PJRT_Buffer_Type_C128,
    [TPT_F8E4M3FN] = PJRT_Buffer_Type_F8E4M3FN,
    [TPT_F8E5M2] = PJRT_Buffer_Type_F8E5M2,
    [TPT_F8E4M3FNUZ] = PJRT_Buffer_Type_F8E4M3FNUZ,
    [TPT_F8E5M2FNUZ] = PJRT_Buffer_Type_F8E5M2FNUZ,
};

PJRT_Buffer_Type tpt_pjrt_type(tpt_dtype_t dtype) {
    return (unsigned)dtype < TPT_DTYPE_COUNT ? type_table[dtype] : PJRT_Buffer_Type_INVALID;
}

static tpt_dtype_t type_to_dtype(PJRT_Buffer_Type type) {
    for (int dtype = TPT_DTYPE_NONE + 1; dtype < TPT_DTYPE_COUNT; dtype++) {
        if (type_table[dtype] == type) return (tpt_dtype_t)dtype;
    }
    return TPT_DTYPE_NONE;
}

size_t tpt_pjrt_type_size(PJRT_Buffer_Type type) { return tpt_dtype_size(type_to_dtype(type)); }

/* ---- live bytes ---------------------------------------------------------------------------------------------------- */

static struct {
    _Alignas(64) _Atomic int64_t live; /* a cache line each: devices are driven by different threads */
    _Atomic int64_t peak, high; /* the user's and tpt_buffer_high_bytes' */
} live_bytes[TPT_PJRT_MAX_DEVICES];

static void raise_to(_Atomic int64_t *most, int64_t now) {
    int64_t before = atomic_load_explicit(most, memory_order_relaxed);
    while (now > before &&
           !atomic_compare_exchange_weak_explicit(most, &before, now, memory_order_relaxed, memory_order_relaxed)) {
    }
}

static void live_add(int device, int64_t bytes) {
    const int64_t now = atomic_fetch_add_explicit(&live_bytes[device].live, bytes, memory_order_relaxed) + bytes;
    raise_to(&live_bytes[device].peak, now);
    raise_to(&live_bytes[device].high, now);
}

int64_t tpt_buffer_live_bytes(int device, int64_t *out_peak) {
    bool known = device >= 0 && device < TPT_PJRT_MAX_DEVICES;
    if (out_peak != NULL) *out_peak = known ? atomic_load_explicit(&live_bytes[device].peak, memory_order_relaxed) : 0;
    return known ? atomic_load_explicit(&live_bytes[device].live, memory_order_relaxed) : 0;
}

void tpt_buffer_reset_peak(int device) {
    if (device < 0 || device >= TPT_PJRT_MAX_DEVICES) return;
    int64_t live = atomic_load_explicit(&live_bytes[device].live, memory_order_relaxed);
    atomic_store_explicit(&live_bytes[device].peak, live, memory_order_relaxed);
}

int64_t tpt_buffer_high_bytes(int device) {
    const int64_t live = atomic_load_explicit(&live_bytes[device].live, memory_order_relaxed);
    return atomic_exchange_explicit(&live_bytes[device].high, live, memory_order_relaxed);
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

static void handle_destroy(const PJRT_Api *api, PJRT_Buffer *handle) {
    PJRT_Buffer_Destroy_Args args = TPT_ARGS(PJRT_Buffer_Destroy_Args, .buffer = handle);
    tpt_status_free(tpt_pjrt_error(api, api->PJRT_Buffer_Destroy(&args)));
}

static tpt_status_t *handle_shape(const PJRT_Api *api, PJRT_Buffer *handle, PJRT_Buffer_Type *out_type,
                                  const int64_t **out_dims, size_t *out_rank) {
    if (api->PJRT_Buffer_ElementType == NULL || api->PJRT_Buffer_Dimensions == NULL) {
        return tpt_status_make(TPT_UNIMPLEMENTED, "the plugin does not tell a buffer's shape");
    }
    PJRT_Buffer_ElementType_Args type = TPT_ARGS(PJRT_Buffer_ElementType_Args, .buffer = handle);
    TPT_TRY(tpt_pjrt_error(api, api->PJRT_Buffer_ElementType(&type)));
    PJRT_Buffer_Dimensions_Args dims = TPT_ARGS(PJRT_Buffer_Dimensions_Args, .buffer = handle);
    TPT_TRY(tpt_pjrt_error(api, api->PJRT_Buffer_Dimensions(&dims)));
    *out_type = type.type;
    *out_dims = dims.dims;
    *out_rank = dims.num_dims;
    return NULL;
}

tpt_status_t *tpt_pjrt_buffer_wrap(tpt_client_t *client, PJRT_Buffer *handle, int device, int64_t nbytes,
                                   tpt_buffer_t **out_buffer) {
    tpt_status_t *status = NULL;
    if (nbytes < 0) {
        PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
        const int64_t *dims = NULL;
        size_t rank = 0;
        status = handle_shape(&client->api, handle, &type, &dims, &rank);
        nbytes = (int64_t)tpt_pjrt_type_size(type);
        for (size_t i = 0; i < rank; i++) nbytes *= dims[i];
    }
    /* The C library keeps freed blocks of this size per thread, which beats a free list of our own with its lock. */
    tpt_buffer_t *buffer = status == NULL ? tpt_malloc(sizeof *buffer) : NULL;
    if (buffer == NULL) {
        handle_destroy(&client->api, handle);
        return status != NULL ? status : tpt_status_oom(sizeof *buffer);
    }
    atomic_init(&buffer->refs, 1);
    atomic_init(&buffer->given, false);
    atomic_init(&buffer->uncounted, false);
    atomic_init(&buffer->dropped, false);
    atomic_init(&buffer->last_use, 0);
    buffer->device = device;
    buffer->nbytes = nbytes;
    atomic_init(&buffer->handle, handle);
    atomic_init(&buffer->broken, NULL);
    buffer->before = NULL;
    buffer->client = client;
    tpt_pjrt_client_retain(client);
    live_add(device, nbytes);
    *out_buffer = buffer;
    return NULL;
}

tpt_status_t *tpt_pjrt_buffer_promise(tpt_client_t *client, int device, int64_t nbytes, tpt_buffer_t **out_buffer) {
    tpt_buffer_t *buffer = tpt_malloc(sizeof *buffer);
    if (buffer == NULL) return tpt_status_oom(sizeof *buffer);
    atomic_init(&buffer->refs, 1);
    atomic_init(&buffer->given, false);
    atomic_init(&buffer->uncounted, false);
    atomic_init(&buffer->dropped, false);
    atomic_init(&buffer->last_use, 0);
    buffer->device = device;
    buffer->nbytes = nbytes;
    atomic_init(&buffer->handle, NULL);
    atomic_init(&buffer->broken, NULL);
    buffer->before = NULL;
    buffer->client = client;
    tpt_pjrt_client_retain(client);
    live_add(device, nbytes);
    *out_buffer = buffer;
    return NULL;
}

/* Destroying the handle of a buffer that was given away can wait until the program that took it has run. So it is put away, and
 * that of long ago is destroyed in its place. */
static void shell_put_away(tpt_client_t *client, int device, PJRT_Buffer *handle) {
    tpt_pjrt_device_t *d = &client->devices[device];
    const unsigned place = atomic_fetch_add_explicit(&d->nshells, 1, memory_order_relaxed) % TPT_PJRT_SHELLS;
    PJRT_Buffer *eldest = atomic_exchange(&d->shells[place], handle);
    if (eldest != NULL) handle_destroy(&client->api, eldest);
}

/* Has it indeed been given away? The program may have failed, or never come. */
static bool is_shell(const PJRT_Api *api, PJRT_Buffer *handle) {
    PJRT_Buffer_IsDeleted_Args args = TPT_ARGS(PJRT_Buffer_IsDeleted_Args, .buffer = handle);
    if (api->PJRT_Buffer_IsDeleted == NULL) return false;
    tpt_status_t *status = tpt_pjrt_error(api, api->PJRT_Buffer_IsDeleted(&args));
    const bool deleted = status == NULL && args.is_deleted;
    tpt_status_free(status);
    return deleted;
}

void tpt_pjrt_shells_destroy(tpt_client_t *client) {
    for (int i = 0; i < client->ndevices; i++) {
        for (int k = 0; k < TPT_PJRT_SHELLS; k++) {
            PJRT_Buffer *handle = atomic_exchange(&client->devices[i].shells[k], NULL);
            if (handle != NULL) handle_destroy(&client->api, handle);
        }
    }
}

void tpt_pjrt_buffer_uncount(tpt_buffer_t *buffer) {
    if (atomic_load_explicit(&buffer->uncounted, memory_order_relaxed)) return;
    atomic_store_explicit(&buffer->uncounted, true, memory_order_relaxed);
    live_add(buffer->device, -buffer->nbytes);
}

void tpt_buffer_note_given(tpt_buffer_t *buffer) { atomic_store_explicit(&buffer->given, true, memory_order_relaxed); }

void tpt_buffer_retain(tpt_buffer_t *buffer) { atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed); }

void tpt_buffer_release(tpt_buffer_t *buffer) {
    if (buffer == NULL || atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) != 1) return;
    tpt_client_t *client = buffer->client;
    PJRT_Buffer *handle = atomic_load_explicit(&buffer->handle, memory_order_relaxed);
    if (handle != NULL && atomic_load_explicit(&buffer->given, memory_order_relaxed) && is_shell(&client->api, handle))
        shell_put_away(client, buffer->device, handle);
    else if (handle != NULL) handle_destroy(&client->api, handle);
    else tpt_status_free(atomic_load(&buffer->broken));
    tpt_buffer_release(buffer->before);
    tpt_pjrt_buffer_uncount(buffer);
    tpt_free(buffer);
    tpt_pjrt_client_release(client);
}

int tpt_buffer_refs(const tpt_buffer_t *buffer) { return atomic_load_explicit(&buffer->refs, memory_order_acquire); }

void tpt_buffer_note_use(tpt_buffer_t *buffer, uint64_t time) { atomic_store_explicit(&buffer->last_use, time, memory_order_relaxed); }
uint64_t tpt_buffer_last_use(const tpt_buffer_t *buffer) { return atomic_load_explicit(&buffer->last_use, memory_order_relaxed); }

int64_t tpt_buffer_nbytes(const tpt_buffer_t *buffer) { return buffer->nbytes; }

int tpt_buffer_device(const tpt_buffer_t *buffer) { return buffer->device; }

/* ---- waiting ------------------------------------------------------------------------------------------------------- */

tpt_status_t *tpt_pjrt_buffer_event(tpt_buffer_t *buffer, PJRT_Event **out_event) {
    TPT_TRY(tpt_pjrt_buffer_settle(buffer));
    PJRT_Buffer_ReadyEvent_Args args = TPT_ARGS(PJRT_Buffer_ReadyEvent_Args, .buffer = buffer->handle);
    TPT_TRY(tpt_pjrt_error(&buffer->client->api, buffer->client->api.PJRT_Buffer_ReadyEvent(&args)));
    *out_event = args.event;
    return NULL;
}

/* On a processor a thread that waits helps with what it waits for, and need not be woken when that is soon done. */
static void help(const PJRT_Api *api, PJRT_Event *event) {
    const int64_t start = tpt_now_ns();
    do {
        if (tpt_pjrt_event_is_ready(api, event)) return;
        if (!tpt_crew_help()) tpt_cores_pause();
    } while (tpt_now_ns() - start < HELP_NS);
}

tpt_status_t *tpt_buffer_await(tpt_buffer_t *buffer) {
    PJRT_Event *event = NULL;
    TPT_TRY(tpt_pjrt_buffer_event(buffer, &event));
    const PJRT_Api *api = &buffer->client->api;
    if (event != NULL && buffer->client->is_cpu && api->PJRT_Event_IsReady != NULL) help(api, event);
    return tpt_pjrt_event_finish(&buffer->client->api, event);
}

bool tpt_buffer_is_made(const tpt_buffer_t *buffer) { return atomic_load(&buffer->handle) != NULL || atomic_load(&buffer->broken) != NULL; }

bool tpt_buffer_is_broken(const tpt_buffer_t *buffer) { return atomic_load(&buffer->broken) != NULL; }

bool tpt_buffer_is_ready(tpt_buffer_t *buffer) {
    const PJRT_Api *api = &buffer->client->api;
    PJRT_Event *event = NULL;
    if (!tpt_buffer_is_made(buffer)) return false;
    tpt_status_t *status = tpt_pjrt_buffer_event(buffer, &event);
    const bool ready = status != NULL || tpt_pjrt_event_is_ready(api, event);
    tpt_pjrt_event_drop(api, event);
    tpt_status_free(status);
    return ready;
}

/* ---- host to device ------------------------------------------------------------------------------------------------ */

static tpt_status_t *count_bytes(tpt_dtype_t dtype, int rank, const int64_t *dims, int64_t *out_nbytes) {
    int64_t nbytes = (int64_t)tpt_dtype_size(dtype);
    if (rank < 0 || rank > TPT_MAX_RANK) {
        return tpt_status_make(TPT_INVALID_ARGUMENT, "rank %d is outside 0..%d", rank, TPT_MAX_RANK);
    }
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) return tpt_status_make(TPT_INVALID_ARGUMENT, "dimension %d is negative", i);
        if (__builtin_mul_overflow(nbytes, dims[i], &nbytes)) {
            return tpt_status_make(TPT_RESOURCE_EXHAUSTED, "a buffer of this shape is larger than any memory");
        }
    }
    *out_nbytes = nbytes;
    return NULL;
}

tpt_status_t *tpt_buffer_from_host(tpt_client_t *client, int device, tpt_dtype_t dtype, int rank, const int64_t *dims,
                                   const void *data, tpt_buffer_t **out_buffer) {
    const PJRT_Api *api = &client->api;
    TPT_TRY(tpt_pjrt_check_device(client, device));
    PJRT_Buffer_Type type = tpt_pjrt_type(dtype);
    if (type == PJRT_Buffer_Type_INVALID) {
        return tpt_status_make(TPT_INVALID_ARGUMENT, "devices know no element type %s", tpt_dtype_name(dtype));
    }
    int64_t nbytes = 0;
    TPT_TRY(count_bytes(dtype, rank, dims, &nbytes));
    bool during_call = client->host_memory || nbytes <= SMALL_UPLOAD;
    PJRT_Client_BufferFromHostBuffer_Args args =
        TPT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, .client = client->handle, .data = data != NULL ? data : "",
                 .type = type, .dims = dims, .num_dims = (size_t)rank, .device = client->devices[device].handle,
                 .host_buffer_semantics = during_call ? PJRT_HostBufferSemantics_kImmutableOnlyDuringCall
                                                      : PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
    TPT_TRY(tpt_pjrt_error(api, api->PJRT_Client_BufferFromHostBuffer(&args)));
    tpt_status_t *status = NULL;
    if (during_call) {
        tpt_pjrt_event_drop(api, args.done_with_host_buffer);
    } else {
        status = tpt_pjrt_event_finish(api, args.done_with_host_buffer);
    }
    if (status != NULL) {
        handle_destroy(api, args.buffer);
        return status;
    }
    TPT_TRY(tpt_pjrt_buffer_wrap(client, args.buffer, device, nbytes, out_buffer));
    tpt_counter_add(TPT_COUNTER_h2d_bytes, nbytes);
    tpt_counter_add(TPT_COUNTER_h2d_copies, 1);
    return NULL;
}

/* ---- device to host ------------------------------------------------------------------------------------------------ */

static tpt_status_t *read_pointer(tpt_buffer_t *buffer, int64_t offset, int64_t nbytes, void *dst) {
    PJRT_Buffer_UnsafePointer_Args args = TPT_ARGS(PJRT_Buffer_UnsafePointer_Args, .buffer = buffer->handle);
    TPT_TRY(tpt_pjrt_error(&buffer->client->api, buffer->client->api.PJRT_Buffer_UnsafePointer(&args)));
    memcpy(dst, (const char *)args.buffer_pointer + offset, (size_t)nbytes);
    return NULL;
}

/* The whole buffer, row-major: a device may hold it tiled or transposed. */
static tpt_status_t *read_whole(tpt_buffer_t *buffer, void *dst) {
    const PJRT_Api *api = &buffer->client->api;
    PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
    const int64_t *dims = NULL;
    size_t rank = 0;
    TPT_TRY(handle_shape(api, buffer->handle, &type, &dims, &rank));
    if (rank > TPT_MAX_RANK) return tpt_status_make(TPT_INTERNAL, "buffer of rank %zu", rank);
    int64_t minor_to_major[TPT_MAX_RANK];
    for (size_t i = 0; i < rank; i++) minor_to_major[i] = (int64_t)(rank - 1 - i);
    PJRT_Buffer_MemoryLayout layout = TPT_ARGS(PJRT_Buffer_MemoryLayout, .type = PJRT_Buffer_MemoryLayout_Type_Tiled);
    layout.tiled = (PJRT_Buffer_MemoryLayout_Tiled)TPT_ARGS(PJRT_Buffer_MemoryLayout_Tiled, .minor_to_major = minor_to_major,
                                                            .minor_to_major_size = rank);
    PJRT_Buffer_ToHostBuffer_Args args = TPT_ARGS(PJRT_Buffer_ToHostBuffer_Args, .src = buffer->handle, .host_layout = &layout,
                                                  .dst = dst, .dst_size = (size_t)buffer->nbytes);
    TPT_TRY(tpt_pjrt_error(api, api->PJRT_Buffer_ToHostBuffer(&args)));
    return tpt_pjrt_event_finish(api, args.event);
}

static tpt_status_t *read_part(tpt_buffer_t *buffer, int64_t offset, int64_t nbytes, void *dst) {
    if (nbytes == buffer->nbytes) return read_whole(buffer, dst);
    char *whole = tpt_malloc((size_t)buffer->nbytes);
    if (whole == NULL) return tpt_status_oom((size_t)buffer->nbytes);
    tpt_status_t *status = read_whole(buffer, whole);
    if (status == NULL) memcpy(dst, whole + offset, (size_t)nbytes);
    tpt_free(whole);
    return status;
}

tpt_status_t *tpt_buffer_to_host(tpt_buffer_t *buffer, int64_t offset, int64_t nbytes, void *dst) {
    if (offset < 0 || nbytes < 0 || offset > buffer->nbytes || nbytes > buffer->nbytes - offset) {
        return tpt_status_make(TPT_OUT_OF_RANGE, "%lld bytes from %lld on are not inside of a buffer of %lld",
                               (long long)nbytes, (long long)offset, (long long)buffer->nbytes);
    }
    TPT_TRY(tpt_buffer_await(buffer));
    if (nbytes != 0) {
        if (buffer->client->host_memory) {
            TPT_TRY(read_pointer(buffer, offset, nbytes, dst));
        } else {
            TPT_TRY(read_part(buffer, offset, nbytes, dst));
        }
    }
    tpt_counter_add(TPT_COUNTER_d2h_bytes, nbytes);
    tpt_counter_add(TPT_COUNTER_d2h_copies, 1);
    return NULL;
}

/* ---- device to device ---------------------------------------------------------------------------------------------- */

static tpt_status_t *copy_through_host(tpt_buffer_t *buffer, int device, tpt_buffer_t **out_buffer) {
    PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
    const int64_t *dims = NULL;
    size_t rank = 0;
    TPT_TRY(handle_shape(&buffer->client->api, buffer->handle, &type, &dims, &rank));
    void *host = tpt_malloc((size_t)buffer->nbytes);
    if (host == NULL) return tpt_status_oom((size_t)buffer->nbytes);
    tpt_status_t *status = tpt_buffer_to_host(buffer, 0, buffer->nbytes, host);
    if (status == NULL) {
        status = tpt_buffer_from_host(buffer->client, device, type_to_dtype(type), (int)rank, dims, host, out_buffer);
    }
    tpt_free(host);
    return status;
}

tpt_status_t *tpt_buffer_copy_to_device(tpt_buffer_t *buffer, int device, tpt_buffer_t **out_buffer) {
    tpt_client_t *client = buffer->client;
    TPT_TRY(tpt_pjrt_check_device(client, device));
    if (device == buffer->device) { /* values never change, so a second owner is as good as a copy */
        tpt_buffer_retain(buffer);
        *out_buffer = buffer;
        return NULL;
    }
    TPT_TRY(tpt_pjrt_buffer_settle(buffer));
    if (client->api.PJRT_Buffer_CopyToDevice == NULL) return copy_through_host(buffer, device, out_buffer);
    PJRT_Buffer_CopyToDevice_Args args =
        TPT_ARGS(PJRT_Buffer_CopyToDevice_Args, .buffer = buffer->handle, .dst_device = client->devices[device].handle);
    tpt_status_t *status = tpt_pjrt_error(&client->api, client->api.PJRT_Buffer_CopyToDevice(&args));
    if (tpt_status_code(status) == TPT_UNIMPLEMENTED) {
        tpt_status_free(status);
        return copy_through_host(buffer, device, out_buffer);
    }
    TPT_TRY(status);
    return tpt_pjrt_buffer_wrap(client, args.dst_buffer, device, buffer->nbytes, out_buffer);
}
