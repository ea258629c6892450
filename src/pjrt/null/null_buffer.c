/* null_buffer.c - the fake plugin's buffers: plain host bytes. */
#include <string.h>

#include "base/alloc.h"
#include "pjrt/null/null_internal.h"
#include "pjrt/pjrt_internal.h"

#define MOST_BYTES ((int64_t)1 << 40) /* of one buffer: more is refused as any device would */

PJRT_Error *null_buffer_make(PJRT_Device *device, const null_type_t *type, PJRT_Buffer **out_buffer) {
    int64_t nbytes = null_type_bytes(type);
    PJRT_Buffer *buffer = tpt_calloc(1, sizeof *buffer);
    unsigned char *bytes = nbytes <= MOST_BYTES && buffer != NULL ? tpt_calloc((size_t)nbytes + 1, 1) : NULL;
    if (bytes == NULL) {
        tpt_free(buffer);
        return null_error(PJRT_Error_Code_RESOURCE_EXHAUSTED, "null plugin: out of memory allocating %lld bytes",
                          (long long)nbytes);
    }
    buffer->device = device;
    buffer->type = *type;
    buffer->nbytes = nbytes;
    buffer->bytes = bytes;
    atomic_fetch_add(&null_state.buffers, 1);
    *out_buffer = buffer;
    return NULL;
}

PJRT_Error *null_buffer_alive(const PJRT_Buffer *buffer) {
    if (buffer->bytes != NULL) return NULL;
    return null_error(PJRT_Error_Code_INVALID_ARGUMENT, "null plugin: buffer has been deleted or donated");
}

static PJRT_Error *event_make(int64_t ready_at, PJRT_Error_Code code, PJRT_Event **out_event) {
    PJRT_Event *event = tpt_malloc(sizeof *event);
    if (event == NULL) return null_error(PJRT_Error_Code_RESOURCE_EXHAUSTED, "null plugin: host memory exhausted");
    event->ready_at = ready_at;
    event->code = code;
    atomic_fetch_add(&null_state.events, 1);
    *out_event = event;
    return NULL;
}

static void buffer_free(PJRT_Buffer *buffer) {
    tpt_free(buffer->bytes);
    tpt_free(buffer);
    atomic_fetch_sub(&null_state.buffers, 1);
}

static PJRT_Error *from_host(PJRT_Client_BufferFromHostBuffer_Args *args) {
    PJRT_Error *error = null_injected(TPT_NULL_FROM_HOST);
    if (error != NULL) return error;
    if (args->num_dims > NULL_MAX_RANK || args->num_byte_strides != 0) {
        return null_error(PJRT_Error_Code_UNIMPLEMENTED, "null plugin: only dense data of rank up to %d", NULL_MAX_RANK);
    }
    null_type_t type = {.type = args->type, .rank = args->num_dims, .alias = -1};
    if (args->num_dims != 0) memcpy(type.dims, args->dims, args->num_dims * sizeof *args->dims);
    error = null_buffer_make(args->device, &type, &args->buffer);
    if (error != NULL) return error;
    error = event_make(0, PJRT_Error_Code_OK, &args->done_with_host_buffer);
    if (error != NULL) {
        buffer_free(args->buffer);
        return error;
    }
    memcpy(args->buffer->bytes, args->data, (size_t)args->buffer->nbytes);
    return NULL;
}

static PJRT_Error *buffer_destroy(PJRT_Buffer_Destroy_Args *args) {
    buffer_free(args->buffer);
    return NULL;
}

static PJRT_Error *element_type(PJRT_Buffer_ElementType_Args *args) {
    args->type = args->buffer->type.type;
    return NULL;
}

static PJRT_Error *dimensions(PJRT_Buffer_Dimensions_Args *args) {
    args->dims = args->buffer->type.dims;
    args->num_dims = args->buffer->type.rank;
    return NULL;
}

static PJRT_Error *is_on_cpu(PJRT_Buffer_IsOnCpu_Args *args) {
    args->is_on_cpu = args->buffer->device->client->host_memory;
    return NULL;
}

static PJRT_Error *is_deleted(PJRT_Buffer_IsDeleted_Args *args) {
    args->is_deleted = args->buffer->bytes == NULL;
    return NULL;
}

static PJRT_Error *ready_event(PJRT_Buffer_ReadyEvent_Args *args) {
    PJRT_Error *error = null_buffer_alive(args->buffer);
    return error != NULL ? error : event_make(args->buffer->ready_at, args->buffer->code, &args->event);
}

static PJRT_Error *unsafe_pointer(PJRT_Buffer_UnsafePointer_Args *args) {
    PJRT_Error *error = null_injected(TPT_NULL_TO_HOST);
    if (error == NULL) error = null_buffer_alive(args->buffer);
    if (error == NULL && args->buffer->ready_at > null_now()) {
        error = null_error(PJRT_Error_Code_FAILED_PRECONDITION, "null plugin: buffer is read before it is ready");
    }
    if (error == NULL) args->buffer_pointer = (uintptr_t)args->buffer->bytes;
    return error;
}

static PJRT_Error *to_host(PJRT_Buffer_ToHostBuffer_Args *args) {
    PJRT_Error *error = null_injected(TPT_NULL_TO_HOST);
    if (error == NULL) error = null_buffer_alive(args->src);
    if (error != NULL) return error;
    if (args->dst == NULL) {
        args->dst_size = (size_t)args->src->nbytes;
        return NULL;
    }
    if (args->dst_size < (size_t)args->src->nbytes) {
        return null_error(PJRT_Error_Code_INVALID_ARGUMENT, "null plugin: room for %zu bytes of %lld", args->dst_size,
                          (long long)args->src->nbytes);
    }
    error = event_make(args->src->ready_at, args->src->code, &args->event);
    if (error == NULL) memcpy(args->dst, args->src->bytes, (size_t)args->src->nbytes);
    return error;
}

static PJRT_Error *copy_to_device(PJRT_Buffer_CopyToDevice_Args *args) {
    PJRT_Error *error = null_buffer_alive(args->buffer);
    if (error == NULL) error = null_buffer_make(args->dst_device, &args->buffer->type, &args->dst_buffer);
    if (error != NULL) return error;
    memcpy(args->dst_buffer->bytes, args->buffer->bytes, (size_t)args->buffer->nbytes);
    args->dst_buffer->ready_at = args->buffer->ready_at;
    args->dst_buffer->code = args->buffer->code;
    return NULL;
}

void null_buffer_table(PJRT_Api *api) {
    api->PJRT_Client_BufferFromHostBuffer = from_host;
    api->PJRT_Buffer_Destroy = buffer_destroy;
    api->PJRT_Buffer_ElementType = element_type;
    api->PJRT_Buffer_Dimensions = dimensions;
    api->PJRT_Buffer_IsOnCpu = is_on_cpu;
    api->PJRT_Buffer_IsDeleted = is_deleted;
    api->PJRT_Buffer_ReadyEvent = ready_event;
    api->PJRT_Buffer_UnsafePointer = unsafe_pointer;
    api->PJRT_Buffer_ToHostBuffer = to_host;
    api->PJRT_Buffer_CopyToDevice = copy_to_device;
}
