/* facts.c - small facts that take long to find out, in one file that processes append to: key words to bytes.
 *
 * The file is read once. A record that was torn or damaged is skipped with all that follows it, since its length cannot be
 * trusted; the file is then begun anew by whoever next adds to it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/notice.h"
#include "cache/cache_internal.h"

#define MAGIC UINT32_C(0x52505431)
#define MOST_FILE ((off_t)32 << 20) /* then it is begun anew */
#define MOST_RECORDS (1 << 18)
#define MOST_PART ((uint32_t)1 << 16)

typedef struct head {
    uint32_t magic, key_words, bytes, zero;
    uint64_t sum; /* of key and value */
} head_t;

typedef struct fact {
    uint32_t bytes;
    unsigned char data[];
} fact_t;

static tpt_mutex_t lock = TPT_MUTEX_INIT;
static tpt_map_t facts = {.max = MOST_RECORDS};
static char file_path[TPT_PATH_MAX];
static int file = -1;
static bool opened, anew;

/* Lock held. */
static void add(const uint64_t *key, uint32_t key_words, const void *data, uint32_t bytes) {
    uint64_t hash = tpt_hash64(key, key_words * sizeof *key);
    if (tpt_map_get(&facts, hash, key, key_words) != NULL) return;
    fact_t *fact = tpt_malloc(sizeof *fact + bytes);
    if (fact == NULL) return;
    fact->bytes = bytes;
    if (bytes != 0) memcpy(fact->data, data, bytes);
    tpt_status_t *status = tpt_map_put(&facts, hash, key, key_words, fact);
    if (status != NULL) tpt_free(fact);
    tpt_status_free(status);
}

/* True if all of it made sense. */
static bool parse(const char *data, size_t bytes) {
    size_t at = 0;
    while (bytes - at >= sizeof(head_t)) {
        head_t head;
        memcpy(&head, data + at, sizeof head);
        size_t body = (size_t)head.key_words * sizeof(uint64_t) + ((size_t)head.bytes + 7) / 8 * 8;
        if (head.magic != MAGIC || head.key_words > MOST_PART || head.bytes > MOST_PART || body > bytes - at - sizeof head) return false;
        const char *key = data + at + sizeof head;
        if (tpt_hash64(key, body) != head.sum) return false;
        add((const uint64_t *)(const void *)key, head.key_words, key + head.key_words * sizeof(uint64_t), head.bytes);
        at += sizeof head + body;
    }
    return at == bytes;
}

static void read_all(int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= 0) return;
    anew = info.st_size > MOST_FILE;
    if (anew) return;
    char *data = tpt_malloc((size_t)info.st_size); /* aligned for words, and records are whole words */
    ssize_t got = data == NULL ? -1 : tpt_io_read(fd, data, (size_t)info.st_size);
    if (got >= 0 && !parse(data, (size_t)got)) {
        anew = true;
        tpt_counter_add(TPT_COUNTER_cache_bad_entries, 1);
        tpt_notice(TPT_NOTICE_CACHE_ENTRY, "a file of the compile cache is damaged and begun anew: %s", file_path);
    }
    tpt_free(data);
}

/* Lock held. `name`: whose facts these are; another version of anything has another name. */
static void open_file(const char *name) {
    opened = true;
    int n = snprintf(file_path, sizeof file_path, "%s/facts-%016" PRIx64, tpt_disk_root(), tpt_hash64(name, strlen(name)));
    if (tpt_disk_root()[0] == '\0' || n < 0 || n >= TPT_PATH_MAX) return;
    int fd = tpt_io_open(file_path, O_RDONLY, 0);
    if (fd < 0) return;
    read_all(fd);
    (void)tpt_io_close(fd);
}

static bool append(const void *data, size_t bytes) {
    if (anew) (void)unlink(file_path); /* whoever still writes to the old one writes for nobody */
    anew = false;
    if (file < 0) file = tpt_io_open(file_path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    return file >= 0 && tpt_io_write(file, data, bytes) == (ssize_t)bytes;
}

bool tpt_cache_fact_get(const char *name, const uint64_t *key, uint32_t key_words, void *out, size_t room, size_t *out_bytes) {
    tpt_mutex_lock(&lock);
    if (!opened) open_file(name);
    fact_t *fact = tpt_map_get(&facts, tpt_hash64(key, key_words * sizeof *key), key, key_words);
    bool fits = fact != NULL && fact->bytes <= room;
    if (fits) {
        if (fact->bytes != 0) memcpy(out, fact->data, fact->bytes);
        *out_bytes = fact->bytes;
    }
    tpt_mutex_unlock(&lock);
    return fits;
}

void tpt_cache_fact_put(const char *name, const uint64_t *key, uint32_t key_words, const void *data, size_t bytes) {
    if (key_words > MOST_PART || bytes > MOST_PART || tpt_disk_root()[0] == '\0') return;
    size_t key_bytes = key_words * sizeof *key, padded = (bytes + 7) / 8 * 8, all = sizeof(head_t) + key_bytes + padded;
    char *record = tpt_calloc(1, all);
    if (record == NULL) return;
    head_t head = {.magic = MAGIC, .key_words = key_words, .bytes = (uint32_t)bytes};
    memcpy(record + sizeof head, key, key_bytes);
    if (bytes != 0) memcpy(record + sizeof head + key_bytes, data, bytes);
    head.sum = tpt_hash64(record + sizeof head, key_bytes + padded);
    memcpy(record, &head, sizeof head);
    tpt_mutex_lock(&lock);
    if (!opened) open_file(name);
    if (tpt_map_get(&facts, tpt_hash64(key, key_bytes), key, key_words) == NULL) {
        add(key, key_words, data, (uint32_t)bytes);
        if (!append(record, all) && file >= 0) { /* it may be torn now: end there */
            (void)tpt_io_close(file);
            file = -1;
            anew = true;
        }
    }
    tpt_mutex_unlock(&lock);
    tpt_free(record);
}

static void drop(void *user, const tpt_map_entry_t *entry) {
    (void)user;
    tpt_free(entry->value);
}

void tpt_facts_close(void) {
    tpt_mutex_lock(&lock);
    tpt_map_each(&facts, drop, NULL);
    tpt_map_free(&facts);
    tpt_map_init(&facts, MOST_RECORDS);
    if (file >= 0) (void)tpt_io_close(file);
    file = -1;
    opened = anew = false;
    tpt_mutex_unlock(&lock);
}
