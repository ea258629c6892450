/* The levels of src/cache, its directory, and everything that can be wrong with a file. */
#include "test_cache_support.h"

static void test_cache__levels(void **state) {
    (void)state;
    assert_int_equal(use("a"), TPT_CACHE_MISS);
    assert_int_equal(use("a"), TPT_CACHE_MEMORY);
    assert_int_equal(use("b"), TPT_CACHE_MISS);
    cache_again();
    assert_int_equal(use("a"), TPT_CACHE_DISK);
    assert_int_equal(use("a"), TPT_CACHE_MEMORY);
    assert_int_equal(use("b"), TPT_CACHE_DISK);
    assert_int_equal(count(TPT_COUNTER_cache_hits_disk), 2);
    assert_int_equal(count(TPT_COUNTER_cache_hits_memory), 2);
    assert_int_equal(count(TPT_COUNTER_cache_writes), 2);
    assert_int_equal(count(TPT_COUNTER_cache_bad_entries), 0);
}

static void test_cache__another_place_is_another_key(void **state) {
    (void)state;
    assert_int_equal(use("a"), TPT_CACHE_MISS);
    tpt_cache_place_t other = place_of("2");
    tpt_cache_open(&other, &fake_hooks);
    assert_int_equal(use("a"), TPT_CACHE_MISS);
    other = place_of("1");
    other.devices = "two";
    tpt_cache_open(&other, &fake_hooks);
    assert_int_equal(use("a"), TPT_CACHE_MISS);
    (void)setenv("XLA_FLAGS", "--xla_something=1", 1);
    cache_again();
    assert_int_equal(use("a"), TPT_CACHE_MISS);
    (void)unsetenv("XLA_FLAGS");
    cache_again();
    assert_int_equal(use("a"), TPT_CACHE_DISK);
}

static void test_cache__options_are_part_of_the_key(void **state) {
    (void)state;
    tpt_cache_key_t a, b;
    tpt_cache_key_make("x", 1, "text", 4, &a);
    tpt_cache_key_make("y", 1, "text", 4, &b);
    assert_true(a.hash.lo != b.hash.lo || a.hash.hi != b.hash.hi);
    tpt_cache_key_free(&a);
    tpt_cache_key_free(&b);
}

static void test_cache__off(void **state) {
    (void)state;
    (void)setenv("TORCH_TPU_CACHE", "0", 1);
    cache_again();
    assert_int_equal(use("a"), TPT_CACHE_MISS);
    assert_int_equal(use("a"), TPT_CACHE_MEMORY);
    cache_again();
    assert_int_equal(use("a"), TPT_CACHE_MISS);
    assert_int_equal(count(TPT_COUNTER_cache_writes), 0);
    assert_string_equal(tpt_cache_dir(), "");
}

/* ---- bad files ------------------------------------------------------------------------------------------------------- */

static size_t slurp(const char *path, char *out, size_t room) {
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t got = read(fd, out, room);
    close(fd);
    assert_true(got > 0 && (size_t)got < room);
    return (size_t)got;
}

static void spill(const char *path, const char *data, size_t bytes) {
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    close(fd);
}

static void expect_replaced(const char *path) {
    cache_again();
    int64_t bad = count(TPT_COUNTER_cache_bad_entries);
    assert_int_equal(use("program"), TPT_CACHE_MISS);
    assert_true(count(TPT_COUNTER_cache_bad_entries) > bad);
    cache_again();
    assert_int_equal(use("program"), TPT_CACHE_DISK);
    assert_int_equal(access(path, F_OK), 0);
}

static void test_cache__any_wrong_byte_is_seen(void **state) {
    (void)state;
    char path[TPT_PATH_MAX], good[4096], bad[4096];
    assert_int_equal(use("program"), TPT_CACHE_MISS);
    tpt_cache_write_all();
    path_of("program", path);
    size_t bytes = slurp(path, good, sizeof good);
    for (size_t i = 0; i < bytes; i++) {
        tpt_entry_t entry;
        memcpy(bad, good, bytes);
        bad[i] ^= 0x10;
        assert_fails(tpt_entry_read(bad, bytes, &entry), TPT_DATA_LOSS, "");
    }
    for (size_t n = 0; n < bytes; n++) {
        tpt_entry_t entry;
        assert_fails(tpt_entry_read(good, n, &entry), TPT_DATA_LOSS, "");
    }
    bad[bytes - 20] ^= 1; /* one through all levels */
    spill(path, bad, bytes);
    expect_replaced(path);
}

static void test_cache__torn_empty_and_foreign_files_are_replaced(void **state) {
    (void)state;
    char path[TPT_PATH_MAX], data[4096], text[600];
    assert_int_equal(use("program"), TPT_CACHE_MISS);
    tpt_cache_write_all();
    path_of("program", path);
    size_t bytes = slurp(path, data, sizeof data);
    spill(path, data, bytes / 2);
    expect_replaced(path);
    spill(path, "", 0);
    expect_replaced(path);
    spill(path, "hello", 5);
    expect_replaced(path);
    char longer[4097];
    memcpy(longer, data, bytes);
    longer[bytes] = 0;
    spill(path, longer, bytes + 1);
    expect_replaced(path);
    memcpy(longer, data, bytes); /* of another format */
    longer[8]++;
    spill(path, longer, bytes);
    expect_replaced(path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0); /* no file at all: cannot be replaced, work goes on */
    cache_again();
    assert_int_equal(use("program"), TPT_CACHE_MISS);
    assert_int_equal(unlink(path) == 0 || rmdir(path) == 0, 1);
    assert_true(tpt_notice_take(text, sizeof text)); /* one warning, though there were many */
    assert_non_null(strstr(text, "ignored and replaced"));
}

/* The file of a key holds another program's entry, whole and sound: what a hash collision would look like. */
static void test_cache__collision_never_gives_the_wrong_program(void **state) {
    (void)state;
    char a[TPT_PATH_MAX], b[TPT_PATH_MAX], data[4096];
    assert_int_equal(use("program"), TPT_CACHE_MISS);
    assert_int_equal(use("other"), TPT_CACHE_MISS);
    tpt_cache_write_all();
    path_of("program", a);
    path_of("other", b);
    size_t bytes = slurp(b, data, sizeof data);
    spill(a, data, bytes);
    expect_replaced(a);
    tpt_cache_key_t mine = key_of("program"), theirs = key_of("other");
    theirs.hash = mine.hash; /* in memory too */
    tpt_memory_clear(&fake_hooks);
    fake_t *program = fake_new("program");
    tpt_memory_put(&mine, program, &fake_hooks);
    assert_null(tpt_memory_get(&theirs, &fake_hooks));
    fake_release(program);
    tpt_cache_key_free(&mine);
    tpt_cache_key_free(&theirs);
}

static void test_cache__rejected_program_is_compiled_anew(void **state) {
    (void)state;
    assert_int_equal(use("program"), TPT_CACHE_MISS);
    cache_again();
    tpt_cache_key_t key = key_of("program");
    tpt_cache_find_t find;
    tpt_cache_find(&key, &find);
    assert_int_equal(find.level, TPT_CACHE_DISK);
    tpt_status_t *why = tpt_status_make(TPT_INTERNAL, "the plugin does not like it");
    tpt_cache_reject(&key, &find, why);
    tpt_status_free(why);
    assert_int_equal(find.level, TPT_CACHE_MISS);
    assert_true(find.lock >= 0);
    tpt_cache_done(&find);
    tpt_cache_key_free(&key);
    assert_int_equal(use("program"), TPT_CACHE_MISS);
    cache_again();
    assert_int_equal(use("program"), TPT_CACHE_DISK);
}

/* ---- directories that fail -------------------------------------------------------------------------------------------- */

static void test_cache__no_directory_to_be_had(void **state) {
    (void)state;
    char file[300], text[600];
    (void)snprintf(file, sizeof file, "%s/a_file", the_dir);
    spill(file, "x", 1);
    (void)setenv("TORCH_TPU_CACHE_DIR", file, 1);
    cache_again();
    assert_int_equal(use("a"), TPT_CACHE_MISS);
    assert_int_equal(use("a"), TPT_CACHE_MEMORY);
    assert_true(tpt_notice_take(text, sizeof text));
    assert_non_null(strstr(text, "cannot be made"));
    assert_false(tpt_notice_take(text, sizeof text));
}

/* Each system call of a store or a read fails once, with each of the usual reasons. */
static void test_cache__every_failing_call(void **state) {
    (void)state;
    static const int errors[] = {ENOSPC, EIO, EROFS, EACCES, EMFILE};
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
        for (size_t nth = 1; nth < 40; nth++) {
            char text[64];
            (void)snprintf(text, sizeof text, "program %zu %zu", e, nth);
            (void)tpt_fault_io_arm(nth, errors[e]);
            (void)use(text);
            cache_again();
            tpt_writer_forgive();
            (void)use(text);
            size_t seen = tpt_fault_io_arm(0, 0);
            cache_again();
            (void)use(text);
            cache_again();
            assert_int_equal(use(text), TPT_CACHE_DISK);
            if (seen < nth) break;
        }
    }
}

static void test_cache__every_failing_allocation(void **state) {
    (void)state;
    for (size_t nth = 1; nth < 200; nth++) {
        char text[64];
        (void)snprintf(text, sizeof text, "program %zu", nth);
        (void)tpt_fault_alloc_arm(nth);
        (void)use(text);
        cache_again();
        (void)use(text);
        size_t seen = tpt_fault_alloc_arm(0);
        tpt_writer_forgive();
        cache_again();
        (void)use(text);
        cache_again();
        assert_int_equal(use(text), TPT_CACHE_DISK);
        if (seen < nth) return;
    }
    fail_msg("never got through");
}

static void test_cache__program_that_cannot_be_serialized(void **state) {
    (void)state;
    cannot_serialize = true;
    assert_int_equal(use("a"), TPT_CACHE_MISS);
    cache_again();
    assert_int_equal(use("a"), TPT_CACHE_MISS);
    assert_int_equal(count(TPT_COUNTER_cache_writes), 0);
}

static void test_cache__library_hash_is_remembered_until_it_changes(void **state) {
    (void)state;
    char file[300];
    (void)snprintf(file, sizeof file, "%s/plugin.so", the_dir);
    spill(file, "first", 5);
    tpt_cache_place_t place = place_of("1");
    place.plugin_path = file;
    tpt_str_t words[3];
    for (int i = 0; i < 3; i++) tpt_str_init(&words[i], 1 << 16);
    tpt_place_text(&place, &words[0]);
    tpt_place_text(&place, &words[1]);
    spill(file, "other", 5);
    tpt_place_text(&place, &words[2]);
    assert_string_equal(tpt_str_text(&words[0]), tpt_str_text(&words[1]));
    assert_string_not_equal(tpt_str_text(&words[0]), tpt_str_text(&words[2]));
    for (int i = 0; i < 3; i++) tpt_str_free(&words[i]);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, cache_start, cache_end)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_cache__levels),
        TEST(test_cache__another_place_is_another_key),
        TEST(test_cache__options_are_part_of_the_key),
        TEST(test_cache__off),
        TEST(test_cache__any_wrong_byte_is_seen),
        TEST(test_cache__torn_empty_and_foreign_files_are_replaced),
        TEST(test_cache__collision_never_gives_the_wrong_program),
        TEST(test_cache__rejected_program_is_compiled_anew),
        TEST(test_cache__no_directory_to_be_had),
        TEST(test_cache__every_failing_call),
        TEST(test_cache__every_failing_allocation),
        TEST(test_cache__program_that_cannot_be_serialized),
        TEST(test_cache__library_hash_is_remembered_until_it_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
