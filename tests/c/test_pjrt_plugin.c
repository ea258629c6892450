/* Wrong plugin paths: each gives one clear sentence. */
#include "test_support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "pjrt/pjrt.h"

static void expect(const char *path, tpt_code_t code, const char *part) {
    tpt_client_t *client = NULL;
    tpt_status_t *status = tpt_client_open(path, NULL, &client);
    assert_null(client);
    assert_non_null(status);
    const char *message = tpt_status_message(status);
    if (tpt_status_code(status) != code || strstr(message, part) == NULL)
        fail_msg("%s: %d %s", path, (int)tpt_status_code(status), message);
    assert_null(strchr(message, '\n')); /* one sentence */
    if (*path != '\0') assert_non_null(strstr(message, path));
    tpt_status_free(status);
}

static char *temporary_file(const char *content) {
    char *path = strdup("/tmp/tpt_plugin_XXXXXX");
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, content, strlen(content)), (ssize_t)strlen(content));
    close(file);
    return path;
}

static void test_pjrt_plugin__no_such_file(void **state) {
    (void)state;
    expect("/nowhere/plugin.so", TPT_NOT_FOUND, "No such file");
    expect("no_such_plugin_of_any_kind.so", TPT_NOT_FOUND, "cannot be loaded");
    expect("", TPT_INVALID_ARGUMENT, "no PJRT plugin is given");
}

static void test_pjrt_plugin__not_a_library(void **state) {
    (void)state;
    char *text = temporary_file("hello, I am a text\n"), *empty = temporary_file(""), *torn = temporary_file("\177ELF torn");
    expect(text, TPT_INVALID_ARGUMENT, "is not a shared library");
    expect(empty, TPT_INVALID_ARGUMENT, "is not a shared library");
    expect(torn, TPT_INVALID_ARGUMENT, "cannot be loaded");
    expect("/tmp", TPT_INVALID_ARGUMENT, "is not a file");
    if (geteuid() != 0) { /* root may read everything */
        assert_int_equal(chmod(text, 0), 0);
        expect(text, TPT_PERMISSION_DENIED, "cannot be read");
    }
    unlink(text);
    unlink(empty);
    unlink(torn);
    free(text);
    free(empty);
    free(torn);
}

static void test_pjrt_plugin__no_entry(void **state) {
    (void)state;
    expect("libm.so.6", TPT_INVALID_ARGUMENT, "has no function GetPjrtApi");
}

static void test_pjrt_plugin__wrong_major(void **state) {
    (void)state;
    expect(TPT_TEST_WRONG_MAJOR, TPT_FAILED_PRECONDITION, "has API version 7.3; this build needs major version 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pjrt_plugin__no_such_file),
        cmocka_unit_test(test_pjrt_plugin__not_a_library),
        cmocka_unit_test(test_pjrt_plugin__no_entry),
        cmocka_unit_test(test_pjrt_plugin__wrong_major),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
