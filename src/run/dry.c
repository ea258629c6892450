/* dry.c - compile-only mode: programs are compiled (and kept in the cache), and instead of running them their results are
 * zeros of the right types. A script that fills the cache this way needs no time for its computations. */
#include "run_internal.h"

#define MAX_TYPES (1 << 14)

/* One buffer of zeros a type and device serves all: values never change. Its key: device and dtype, dims. */
static tpt_mutex_t lock = TPT_MUTEX_INIT;
static tpt_map_t zeros = {.max = MAX_TYPES};

bool tpt_dry_on(void) {
    static atomic_int on = -1;
    int now = atomic_load_explicit(&on, memory_order_relaxed);
    if (now < 0) atomic_store(&on, now = tpt_env_flag(TPT_ENV_COMPILE_ONLY));
    return now != 0;
}

static tpt_status_t *make(int device, const tpt_type_t *type, tpt_buffer_t **out) {
    size_t bytes = (size_t)tpt_type_numel(type) * tpt_dtype_size((tpt_dtype_t)type->dtype);
    void *data = tpt_calloc(1, bytes + 1);
    if (!data) return tpt_status_oom(bytes);
    tpt_status_t *status = tpt_buffer_from_host(tpt_runtime_client(), device, (tpt_dtype_t)type->dtype, type->rank, type->dims, data, out);
    tpt_free(data);
    return status;
}

static tpt_status_t *zeros_of(int device, const tpt_type_t *type, tpt_buffer_t **out) {
    uint64_t key[1 + TPT_MAX_RANK] = {(uint64_t)device << 8 | type->dtype};
    uint32_t words = 1 + (uint32_t)type->rank;
    for (int i = 0; i < type->rank; i++) key[1 + i] = (uint64_t)type->dims[i];
    uint64_t hash = tpt_hash64(key, words * sizeof *key);
    tpt_status_t *status = NULL;
    tpt_mutex_lock(&lock);
    *out = tpt_map_get(&zeros, hash, key, words);
    if (!*out) {
        status = make(device, type, out);
        if (!status) status = tpt_map_put(&zeros, hash, key, words, *out);
    }
    if (!status) tpt_buffer_retain(*out);
    tpt_mutex_unlock(&lock);
    return status;
}

tpt_status_t *tpt_dry_outputs(const tpt_dev_t *dev, const tpt_graph_t *g, const tpt_cut_t *cut, const tpt_prog_t *prog, tpt_buffer_t **outs) {
    tpt_status_t *status = NULL;
    int made = 0;
    for (; !status && made < cut->nlive; made += !status) status = zeros_of(dev->index, g->values[cut->live[made]].type, &outs[made]);
    if (!status && prog->flagged) {
        const tpt_type_t word = tpt_type_make(TPT_I32, 0, NULL);
        status = zeros_of(dev->index, &word, &outs[made]);
    }
    while (status && made > 0) tpt_buffer_release(outs[--made]);
    return status;
}

static void drop(void *user, const tpt_map_entry_t *entry) {
    (void)user;
    tpt_buffer_release(entry->value);
}

void tpt_dry_clear(void) {
    tpt_mutex_lock(&lock);
    tpt_map_each(&zeros, drop, NULL);
    tpt_map_free(&zeros);
    tpt_map_init(&zeros, MAX_TYPES);
    tpt_mutex_unlock(&lock);
}
