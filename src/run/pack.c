/* pack.c - run-time numbers on their way to the device: one small vector a dtype and program, cached by content. */
#include <math.h>
#include <string.h>

#include "run_internal.h"

#define MAX_CONSTANTS 4096   /* cached vectors of a device */
#define MAX_CACHED_LENGTH 256

tpt_dtype_t tpt_pack_dtype(int pack) {
    static const tpt_dtype_t dtypes[TPT_PACK_COUNT] = {TPT_F32, TPT_F64, TPT_I32, TPT_I64, TPT_U64};
    return dtypes[pack];
}

typedef struct number {
    bool is_int;
    int64_t i;
    double f;
} number_t;

static number_t load(const uint64_t *words, tpt_dtype_t source, uint8_t fn) {
    number_t n = {0};
    n.is_int = !tpt_dtype_is_float(source) && !tpt_dtype_is_complex(source);
    if (n.is_int) {
        n.i = (int64_t)words[0];
        n.f = source == TPT_U64 ? (double)words[0] : (double)n.i;
    } else {
        memcpy(&n.f, fn == TPT_NUM_IMAG ? words + 1 : words, sizeof n.f);
    }
    if (fn == TPT_NUM_IMAG && n.is_int) n.i = 0, n.f = 0;
    return n;
}

static number_t apply(number_t n, uint8_t fn) {
    if (fn == TPT_NUM_ID || fn == TPT_NUM_IMAG) return n;
    if (fn == TPT_NUM_NEG && n.is_int) {
        n.i = (int64_t)(0 - (uint64_t)n.i);
        n.f = -n.f;
        return n;
    }
    if (fn == TPT_NUM_ONE_MINUS && n.is_int) {
        n.i = (int64_t)(1 - (uint64_t)n.i);
        n.f = 1 - n.f;
        return n;
    }
    n.is_int = false;
    switch (fn) {
        case TPT_NUM_NEG: n.f = -n.f; break;
        case TPT_NUM_ONE_MINUS: n.f = 1 - n.f; break;
        case TPT_NUM_RECIP: n.f = 1 / n.f; break;
        case TPT_NUM_RECIP_ONE_MINUS: n.f = n.f == 1 ? 0 : 1 / (1 - n.f); break;
        case TPT_NUM_SQRT: n.f = sqrt(n.f); break;
        default: break;
    }
    return n;
}

/* C's double -> integer conversion is undefined out of range; saturate, NaN becomes 0. */
static int64_t to_int(number_t n) {
    if (n.is_int) return n.i;
    if (isnan(n.f)) return 0;
    if (n.f >= 9223372036854775807.0) return INT64_MAX;
    if (n.f <= -9223372036854775808.0) return INT64_MIN;
    return (int64_t)n.f;
}

static void store(void *to, int kind, uint32_t place, number_t n) {
    switch (kind) {
        case TPT_PACK_F32: ((float *)to)[place] = (float)n.f; break;
        case TPT_PACK_F64: ((double *)to)[place] = n.f; break;
        case TPT_PACK_I32: ((int32_t *)to)[place] = (int32_t)(uint32_t)(uint64_t)to_int(n); break;
        default: ((int64_t *)to)[place] = to_int(n); break;
    }
}

static void fill(const tpt_pack_t *pack, int kind, const tpt_graph_t *graph, void *to) {
    for (size_t i = 0; i < pack->nentries; i++) {
        const tpt_pack_entry_t *e = &pack->entries[i];
        const uint64_t *words = graph->slots + 2 * ((size_t)graph->nodes[e->node].first_slot + e->slot);
        if (kind == TPT_PACK_U64) memcpy((uint64_t *)to + e->place, words, 2 * sizeof *words);
        else store(to, kind, e->place, apply(load(words, (tpt_dtype_t)e->source, e->fn), e->fn));
    }
}

static void release_constant(void *user, const tpt_map_entry_t *entry) {
    (void)user;
    tpt_buffer_release(entry->value);
}

void tpt_constants_clear(tpt_dev_t *dev) {
    tpt_map_each(&dev->constants, release_constant, NULL);
    tpt_map_clear(&dev->constants);
}

static tpt_status_t *upload(tpt_dev_t *dev, int kind, uint32_t n, const void *data, tpt_buffer_t **out_buffer) {
    int64_t dims = n;
    tpt_counter_add(TPT_COUNTER_number_uploads, 1);
    return tpt_buffer_from_host(tpt_runtime_client(), dev->index, tpt_pack_dtype(kind), 1, &dims, data, out_buffer);
}

/* Content is the key, so numbers that repeat (almost all) cost a look-up and no transfer. */
static tpt_status_t *cached(tpt_dev_t *dev, const tpt_pack_t *pack, int kind, uint64_t *words, size_t bytes, tpt_buffer_t **out_buffer) {
    uint32_t nwords = 1 + (uint32_t)((bytes + 7) / 8);
    words[0] = (uint64_t)kind << 32 | pack->length;
    uint64_t hash = tpt_hash64(words, nwords * sizeof *words);
    tpt_buffer_t *found = tpt_map_get(&dev->constants, hash, words, nwords);
    if (found) {
        tpt_buffer_retain(found);
        *out_buffer = found;
        return NULL;
    }
    TPT_TRY(upload(dev, kind, pack->length, words + 1, out_buffer));
    if (dev->constants.count >= MAX_CONSTANTS) tpt_constants_clear(dev);
    tpt_status_t *full = tpt_map_put(&dev->constants, hash, words, nwords, *out_buffer);
    if (full) tpt_status_free(full); /* only a cache */
    else tpt_buffer_retain(*out_buffer);
    return NULL;
}

tpt_status_t *tpt_pack_buffer(tpt_dev_t *dev, const tpt_pack_t *pack, int kind, const tpt_graph_t *graph, tpt_buffer_t **out_buffer) {
    size_t bytes = pack->length * tpt_dtype_size(tpt_pack_dtype(kind));
    if (pack->length <= MAX_CACHED_LENGTH) {
        uint64_t words[MAX_CACHED_LENGTH + 1];
        words[(bytes + 7) / 8] = 0; /* the tail of the last word */
        fill(pack, kind, graph, words + 1);
        if (kind != TPT_PACK_U64) return cached(dev, pack, kind, words, bytes, out_buffer);
        return upload(dev, kind, pack->length, words + 1, out_buffer); /* random state never repeats */
    }
    void *data = tpt_malloc(bytes);
    if (!data) return tpt_status_oom(bytes);
    fill(pack, kind, graph, data);
    tpt_status_t *status = upload(dev, kind, pack->length, data, out_buffer);
    tpt_free(data);
    return status;
}
