/* storage.c - what a PyTorch storage is on the device: one immutable buffer that is swapped, or a pending value. */
#include <string.h>

#include "run_internal.h"

/* Addresses that no machine maps: unique, with offsets that add up, and a fault when anyone reads through them. On 64-bit
 * machines these are non-canonical; they are never reused, 2^58 bytes last longer than any process. */
static atomic_uint_fast64_t next_address = UINT64_C(1) << 60;

static void *new_address(int64_t nbytes) {
    uint64_t room = ((uint64_t)nbytes + 127) & ~(uint64_t)63;
    return (void *)(uintptr_t)atomic_fetch_add(&next_address, room);
}

tpt_status_t *tpt_storage_make(tpt_dev_t *dev, const tpt_type_t *type, tpt_storage_t **out_storage) {
    tpt_storage_t *s = tpt_malloc(sizeof *s);
    if (!s) return tpt_status_oom(sizeof *s);
    atomic_init(&s->refs, 1);
    s->device = dev->index;
    s->type = *type;
    s->nbytes = tpt_type_numel(type) * (int64_t)tpt_dtype_size((tpt_dtype_t)type->dtype);
    s->address = new_address(s->nbytes);
    s->buffer = NULL;
    s->epoch = 0;
    s->value = -1;
    s->pending = false;
    s->flag = 0;
    s->error = NULL;
    s->prev = NULL;
    s->next = dev->storages;
    if (s->next) s->next->prev = s;
    dev->storages = s;
    *out_storage = s;
    return NULL;
}

void tpt_storage_drop(tpt_dev_t *dev, tpt_storage_t *s) {
    tpt_graph_forget(&dev->graph, s);
    if (s->prev) s->prev->next = s->next;
    else dev->storages = s->next;
    if (s->next) s->next->prev = s->prev;
    tpt_buffer_drop(s->buffer);
    tpt_status_free(s->error);
    tpt_free(s);
}

tpt_status_t *tpt_storage_new(int device, tpt_dtype_t dtype, int rank, const int64_t *dims, tpt_storage_t **out_storage) {
    tpt_dev_t *dev;
    TPT_TRY(tpt_dev_get(device, &dev));
    if (rank > TPT_MAX_RANK)
        return tpt_status_make(TPT_UNIMPLEMENTED, "tensors of more than %d dimensions are not supported on tpu (got %d)", TPT_MAX_RANK, rank);
    tpt_type_t type = tpt_type_make(dtype, rank, dims);
    tpt_mutex_lock(&dev->lock);
    tpt_status_t *status = tpt_storage_make(dev, &type, out_storage);
    tpt_mutex_unlock(&dev->lock);
    return status;
}

void tpt_storage_retain(tpt_storage_t *s) { atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed); }

void tpt_storage_release(tpt_storage_t *s) {
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    if (!tpt_runtime_is_open()) return; /* in a forked child: neither its locks nor the plugin may be touched */
    tpt_dev_t *dev = tpt_dev(s->device);
    tpt_mutex_lock(&dev->lock);
    tpt_storage_drop(dev, s);
    tpt_mutex_unlock(&dev->lock);
}

void *tpt_storage_address(const tpt_storage_t *s) { return s->address; }
int64_t tpt_storage_nbytes(const tpt_storage_t *s) { return s->nbytes; }
int tpt_storage_device(const tpt_storage_t *s) { return s->device; }

tpt_storage_t *tpt_storage_find(const void *address) {
    tpt_storage_t *found = NULL;
    for (int i = 0; !found && i < tpt_runtime_devices(); i++) {
        tpt_dev_t *dev = tpt_dev(i);
        tpt_mutex_lock(&dev->lock);
        for (found = dev->storages; found && found->address != address;) found = found->next;
        tpt_mutex_unlock(&dev->lock);
    }
    return found;
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

static tpt_status_t *make_zeros(tpt_dev_t *dev, tpt_storage_t *s) {
    void *zeros = tpt_calloc(1, (size_t)s->nbytes + 1);
    if (!zeros) return tpt_status_oom((size_t)s->nbytes);
    tpt_status_t *status = tpt_buffer_from_host(tpt_runtime_client(), dev->index, (tpt_dtype_t)s->type.dtype, s->type.rank,
                                                s->type.dims, zeros, &s->buffer);
    tpt_free(zeros);
    return status;
}

tpt_status_t *tpt_storage_settle(tpt_dev_t *dev, tpt_storage_t *s) {
    if (s->pending) tpt_pace_read(dev, dev->graph.values[s->value].node);
    if (s->pending || tpt_pace_cuts(dev)) TPT_TRY(tpt_graph_run(dev, TPT_CUT_HOST_READ));
    if (s->error) return tpt_status_copy(s->error);
    if (!s->buffer) {
        tpt_graph_forget(&dev->graph, s);
        TPT_TRY(make_zeros(dev, s));
    }
    return NULL;
}

/* The storage's value is replaced by `buffer` (the reference moves in). */
static void replace(tpt_dev_t *dev, tpt_storage_t *s, tpt_buffer_t *buffer, const tpt_type_t *type) {
    tpt_graph_forget(&dev->graph, s);
    tpt_buffer_release(s->buffer);
    tpt_status_free(s->error);
    s->buffer = buffer;
    s->error = NULL;
    s->flag = 0;
    s->type = *type;
}

tpt_status_t *tpt_storage_from_host(tpt_storage_t *s, tpt_dtype_t dtype, int rank, const int64_t *dims, const void *data) {
    tpt_dev_t *dev;
    TPT_TRY(tpt_dev_get(s->device, &dev));
    tpt_type_t type = tpt_type_make(dtype, rank, dims);
    if (rank > TPT_MAX_RANK || tpt_type_numel(&type) * (int64_t)tpt_dtype_size(dtype) != s->nbytes)
        return tpt_status_make(TPT_INVALID_ARGUMENT, "host data does not fill the storage of %lld bytes", (long long)s->nbytes);
    tpt_buffer_t *buffer;
    TPT_TRY_MSG(tpt_buffer_from_host(tpt_runtime_client(), s->device, dtype, rank, dims, data, &buffer),
                "copying %lld bytes to tpu:%d", (long long)s->nbytes, s->device);
    tpt_mutex_lock(&dev->lock);
    replace(dev, s, buffer, &type);
    tpt_mutex_unlock(&dev->lock);
    return NULL;
}

/* Bad indices found so far are reported at any host read; a value that depends on one is refused for ever. */
static tpt_status_t *check_flags(tpt_dev_t *dev, const tpt_storage_t *s) {
    if (dev->nflags) TPT_TRY(tpt_flags_check(dev, true));
    return tpt_flag_refuse(dev, s->flag);
}

bool tpt_storage_give_back(tpt_dev_t *dev, tpt_storage_t *s) {
    tpt_buffer_t *before = s->pending || !s->buffer ? NULL : tpt_buffer_get_before(s->buffer);
    if (!before) return false;
    tpt_graph_forget(&dev->graph, s); /* what was recorded already reads the update, and gets its error */
    tpt_buffer_release(s->buffer);
    s->buffer = before;
    s->flag = 0;
    return true;
}

tpt_status_t *tpt_storage_to_host(tpt_storage_t *s, int64_t offset, int64_t nbytes, void *dst) {
    tpt_dev_t *dev;
    TPT_TRY(tpt_dev_get(s->device, &dev));
    if (offset < 0 || nbytes < 0 || offset + nbytes > s->nbytes)
        return tpt_status_make(TPT_INVALID_ARGUMENT, "bytes [%lld, %lld) are outside a storage of %lld bytes", (long long)offset,
                               (long long)(offset + nbytes), (long long)s->nbytes);
    tpt_counter_add(TPT_COUNTER_host_waits, 1);
    if (nbytes == 0) return NULL;
    tpt_mutex_lock(&dev->lock);
    tpt_buffer_t *buffer = NULL;
    tpt_status_t *status = tpt_storage_settle(dev, s);
    if (!status) status = check_flags(dev, s);
    if (!status) {
        buffer = s->buffer;
        tpt_buffer_retain(buffer);
    }
    tpt_mutex_unlock(&dev->lock);
    if (status) return status;
    status = tpt_buffer_to_host(buffer, offset, nbytes, dst);
    if (status) {
        tpt_mutex_lock(&dev->lock);
        if (s->buffer == buffer) (void)tpt_storage_give_back(dev, s);
        tpt_mutex_unlock(&dev->lock);
    }
    tpt_buffer_release(buffer);
    tpt_dev_idle(dev);
    return status;
}

tpt_status_t *tpt_storage_resize(tpt_storage_t *s, int64_t nbytes) {
    tpt_dev_t *dev;
    TPT_TRY(tpt_dev_get(s->device, &dev));
    if (nbytes == s->nbytes) return NULL;
    if (nbytes < 0) return tpt_status_make(TPT_INVALID_ARGUMENT, "a storage cannot have %lld bytes", (long long)nbytes);
    tpt_dtype_t dtype = (tpt_dtype_t)s->type.dtype;
    if (nbytes % (int64_t)tpt_dtype_size(dtype) != 0) dtype = TPT_U8;
    int64_t n = nbytes / (int64_t)tpt_dtype_size(dtype), kept = nbytes < s->nbytes ? nbytes : s->nbytes;
    tpt_type_t type = tpt_type_make(dtype, 1, &n);
    tpt_buffer_t *buffer = NULL;
    if (kept > 0 && (s->pending || s->buffer)) { /* through the host: rare, and any two sizes work */
        char *bytes = tpt_calloc(1, (size_t)nbytes);
        if (!bytes) return tpt_status_oom((size_t)nbytes);
        tpt_status_t *status = tpt_storage_to_host(s, 0, kept, bytes);
        if (!status) status = tpt_buffer_from_host(tpt_runtime_client(), s->device, dtype, 1, &n, bytes, &buffer);
        tpt_free(bytes);
        TPT_TRY(status);
    }
    tpt_mutex_lock(&dev->lock);
    replace(dev, s, buffer, &type);
    s->nbytes = nbytes;
    s->address = new_address(nbytes);
    tpt_mutex_unlock(&dev->lock);
    return NULL;
}

tpt_status_t *tpt_storage_copy(tpt_storage_t *dst, tpt_storage_t *src) {
    if (dst == src) return NULL;
    tpt_dev_t *from, *to;
    TPT_TRY(tpt_dev_get(src->device, &from));
    TPT_TRY(tpt_dev_get(dst->device, &to));
    if (dst->nbytes != src->nbytes)
        return tpt_status_make(TPT_INVALID_ARGUMENT, "a storage of %lld bytes cannot take the value of one of %lld", (long long)dst->nbytes,
                               (long long)src->nbytes);
    tpt_mutex_lock(&from->lock);
    tpt_status_t *status = tpt_storage_settle(from, src);
    tpt_buffer_t *buffer = src->buffer;
    tpt_type_t type = src->type;
    uint64_t flag = from == to ? src->flag : 0;
    if (!status && from != to) status = check_flags(from, src);
    if (!status && from == to) tpt_buffer_set_before(buffer, NULL); /* it is no longer the update of one storage alone */
    if (!status) tpt_buffer_retain(buffer);
    tpt_mutex_unlock(&from->lock);
    TPT_TRY(status);
    if (from != to) {
        tpt_buffer_t *moved = NULL;
        status = tpt_buffer_copy_to_device(buffer, dst->device, &moved);
        tpt_buffer_release(buffer);
        TPT_TRY(status);
        buffer = moved;
    }
    tpt_mutex_lock(&to->lock); /* on one device both share the buffer until one of them is written */
    replace(to, dst, buffer, &type);
    dst->flag = flag;
    tpt_mutex_unlock(&to->lock);
    return NULL;
}
