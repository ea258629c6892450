/* env.c - environment variables, read at each call so that a test or a notebook can change them. */
#include "base/env.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <strings.h>

#include "base/log.h"

static const struct {
    const char *name, *def;
} env_table[] = {
#define ENV_ROW(id, name, def, help) {name, def},
    TPT_ENV_TABLE(ENV_ROW)
#undef ENV_ROW
};

const char *tpt_env_name(tpt_env_t var) { return env_table[var].name; }

const char *tpt_env_get(tpt_env_t var) {
    const char *text = getenv(env_table[var].name);
    return text == NULL ? env_table[var].def : text;
}

bool tpt_env_flag(tpt_env_t var) {
    static const char *const no[] = {"", "0", "false", "off", "no"};
    const char *text = tpt_env_get(var);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        if (strcasecmp(text, no[i]) == 0) return false;
    }
    return true;
}

static bool env_parse(const char *text, int64_t *out_value) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *out_value = value;
    return errno == 0 && end != text && *end == '\0';
}

int64_t tpt_env_int(tpt_env_t var, int64_t lowest, int64_t highest) {
    const char *text = tpt_env_get(var);
    int64_t value = 0;
    if (!env_parse(text, &value)) {
        if (*text != '\0') {
            tpt_log(TPT_LOG_WARN, "%s=%s is not a whole number; taking %s", tpt_env_name(var), text, env_table[var].def);
        }
        if (!env_parse(env_table[var].def, &value)) value = 0;
    }
    if (value < lowest || value > highest) {
        tpt_log(TPT_LOG_WARN, "%s=%" PRId64 " is outside %" PRId64 "..%" PRId64, tpt_env_name(var), value, lowest, highest);
    }
    return value < lowest ? lowest : value > highest ? highest : value;
}

tpt_status_t *tpt_env_whole(tpt_env_t var, int64_t lowest, int64_t highest, int64_t *out_value) {
    const char *text = tpt_env_get(var);
    if (*text == '\0') text = env_table[var].def;
    if (env_parse(text, out_value) && *out_value >= lowest && *out_value <= highest) return NULL;
    return tpt_status_make(TPT_INVALID_ARGUMENT, "%s must be a whole number from %" PRId64 " to %" PRId64 ", not '%s'", tpt_env_name(var),
                           lowest, highest, text);
}
