/* entry.c - one entry as bytes: a header, the words of its place, the program's text, the serialized program, a checksum.
 *
 * All numbers are little-endian, as on every machine that this runs on; another byte order reads as another magic. */
#include <string.h>

#include "base/alloc.h"
#include "cache/cache_internal.h"
#include "cache/fingerprint.h"

#define MAGIC UINT64_C(0x0a1a457050546f54) /* "ToTPpE", and bytes that text-mode copies would spoil */
#define MOST ((uint64_t)1 << 40)

typedef struct header {
    uint64_t magic;
    uint32_t format, header_bytes;
    uint64_t lo, hi;
    uint64_t context_bytes, text_bytes, blob_bytes;
    uint64_t created, compile_ns;
    char build[16];
} header_t;

tpt_status_t *tpt_entry_write(const tpt_entry_t *entry, void **out_data, size_t *out_bytes) {
    header_t head = {.magic = MAGIC, .format = TPT_CACHE_FORMAT, .header_bytes = sizeof head, .lo = entry->hash.lo, .hi = entry->hash.hi,
                     .context_bytes = entry->context_bytes, .text_bytes = entry->text_bytes, .blob_bytes = entry->blob_bytes,
                     .created = entry->created, .compile_ns = entry->compile_ns};
    memcpy(head.build, TPT_FINGERPRINT, sizeof head.build);
    size_t bytes = sizeof head + entry->context_bytes + entry->text_bytes + entry->blob_bytes + sizeof(tpt_hash128_t);
    char *data = tpt_malloc(bytes), *at = data;
    if (data == NULL) return tpt_status_oom(bytes);
    memcpy(at, &head, sizeof head);
    memcpy(at += sizeof head, entry->context, entry->context_bytes);
    memcpy(at += entry->context_bytes, entry->text, entry->text_bytes);
    memcpy(at += entry->text_bytes, entry->blob, entry->blob_bytes);
    tpt_hash128_t sum = tpt_hash128(data, bytes - sizeof sum);
    memcpy(at + entry->blob_bytes, &sum, sizeof sum);
    *out_data = data;
    *out_bytes = bytes;
    return NULL;
}

tpt_status_t *tpt_entry_read(const void *data, size_t bytes, tpt_entry_t *out_entry) {
    header_t head;
    tpt_hash128_t sum;
    if (bytes < sizeof head + sizeof sum) return tpt_status_make(TPT_DATA_LOSS, "only %zu bytes long", bytes);
    memcpy(&head, data, sizeof head);
    if (head.magic != MAGIC) return tpt_status_make(TPT_DATA_LOSS, "not an entry of this cache");
    if (head.format != TPT_CACHE_FORMAT || head.header_bytes != sizeof head)
        return tpt_status_make(TPT_DATA_LOSS, "of format %u, this is format %d", (unsigned)head.format, TPT_CACHE_FORMAT);
    if (head.context_bytes > MOST || head.text_bytes > MOST || head.blob_bytes > MOST ||
        head.context_bytes + head.text_bytes + head.blob_bytes != bytes - sizeof head - sizeof sum)
        return tpt_status_make(TPT_DATA_LOSS, "%zu bytes long, its header says otherwise", bytes);
    memcpy(&sum, (const char *)data + bytes - sizeof sum, sizeof sum);
    tpt_hash128_t is = tpt_hash128(data, bytes - sizeof sum);
    if (is.lo != sum.lo || is.hi != sum.hi) return tpt_status_make(TPT_DATA_LOSS, "its checksum is wrong");
    const char *at = (const char *)data + sizeof head;
    *out_entry = (tpt_entry_t){.hash = {.lo = head.lo, .hi = head.hi}, .created = head.created, .compile_ns = head.compile_ns,
                               .context = at, .context_bytes = head.context_bytes, .text = at + head.context_bytes,
                               .text_bytes = head.text_bytes, .blob = at + head.context_bytes + head.text_bytes,
                               .blob_bytes = head.blob_bytes};
    memcpy(out_entry->build, head.build, sizeof head.build);
    return NULL;
}

bool tpt_entry_is(const tpt_entry_t *entry, const tpt_cache_key_t *key) {
    return entry->hash.lo == key->hash.lo && entry->hash.hi == key->hash.hi && entry->context_bytes == key->context_bytes &&
           entry->text_bytes == key->text_bytes && memcmp(entry->context, key->context, key->context_bytes) == 0 &&
           memcmp(entry->text, key->text, key->text_bytes) == 0;
}
