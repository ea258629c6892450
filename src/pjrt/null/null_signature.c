/* null_signature.c - the types of a program's main function, read from its StableHLO text. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "pjrt/null/null_internal.h"
#include "pjrt/pjrt_internal.h"

#define MAX_TYPES 65536

const char null_why_memory[] = "host memory exhausted";

typedef struct reader {
    const char *at, *end;
    const char *why; /* the first failure */
} reader_t;

static const struct {
    const char *name;
    PJRT_Buffer_Type type;
} element_types[] = {
    {"i1", PJRT_Buffer_Type_PRED},
    {"i8", PJRT_Buffer_Type_S8},
    {"i16", PJRT_Buffer_Type_S16},
    {"i32", PJRT_Buffer_Type_S32},
    {"i64", PJRT_Buffer_Type_S64},
    {"ui8", PJRT_Buffer_Type_U8},
    {"ui16", PJRT_Buffer_Type_U16},
    {"ui32", PJRT_Buffer_Type_U32},
    {"ui64", PJRT_Buffer_Type_U64},
    {"f16", PJRT_Buffer_Type_F16},
    {"bf16", PJRT_Buffer_Type_BF16},
    {"f32", PJRT_Buffer_Type_F32},
    {"f64", PJRT_Buffer_Type_F64},
    {"complex<f32>", PJRT_Buffer_Type_C64},
    {"complex<f64>", PJRT_Buffer_Type_C128},
    {"f8E4M3FN", PJRT_Buffer_Type_F8E4M3FN},
    {"f8E5M2", PJRT_Buffer_Type_F8E5M2},
    {"f8E4M3FNUZ", PJRT_Buffer_Type_F8E4M3FNUZ},
    {"f8E5M2FNUZ", PJRT_Buffer_Type_F8E5M2FNUZ},
};

static void read_space(reader_t *reader) {
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) != NULL && *reader->at != '\0') reader->at++;
}

static bool read_word(reader_t *reader, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(reader->end - reader->at) < n || memcmp(reader->at, word, n) != 0) return false;
    reader->at += n;
    return true;
}

static bool read_fail(reader_t *reader, const char *why) {
    if (reader->why == NULL) reader->why = why;
    return false;
}

static bool read_number(reader_t *reader, int64_t *out_value) {
    const char *start = reader->at;
    int64_t value = 0;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        if (value > (INT64_MAX - 9) / 10) return read_fail(reader, "a number is too large");
        value = value * 10 + (*reader->at++ - '0');
    }
    *out_value = value;
    return reader->at != start;
}

/* `tensor<2x3xf32>` */
static bool read_type(reader_t *reader, null_type_t *type) {
    *type = (null_type_t){.alias = -1};
    if (!read_word(reader, "tensor<")) return read_fail(reader, "a tensor type is expected");
    for (;;) {
        const char *start = reader->at;
        int64_t dim = 0;
        if (!read_number(reader, &dim)) break;
        if (!read_word(reader, "x")) {
            reader->at = start;
            break;
        }
        if (type->rank == NULL_MAX_RANK) return read_fail(reader, "a type has too many dimensions");
        type->dims[type->rank++] = dim;
    }
    for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++) {
        const char *start = reader->at;
        if (read_word(reader, element_types[i].name) && read_word(reader, ">")) {
            type->type = element_types[i].type;
            return true;
        }
        reader->at = start;
    }
    return read_fail(reader, "an element type is unknown or a dimension is not static");
}

/* Skips a `{...}` attribute list; *out_alias gets the value of tf.aliasing_output. */
static bool read_attributes(reader_t *reader, int *out_alias) {
    int depth = 0;
    bool quoted = false;
    while (reader->at < reader->end) {
        if (!quoted && read_word(reader, "tf.aliasing_output = ")) {
            int64_t alias = 0;
            if (!read_number(reader, &alias) || alias >= MAX_TYPES) return read_fail(reader, "tf.aliasing_output is no number");
            *out_alias = (int)alias;
            continue;
        }
        char c = *reader->at++;
        if (c == '"') quoted = !quoted;
        if (quoted) {
            if (c == '\\' && reader->at < reader->end) reader->at++;
            continue;
        }
        if (c == '{') depth++;
        if (c == '}' && --depth == 0) return true;
    }
    return read_fail(reader, "an attribute list does not end");
}

static bool types_add(reader_t *reader, null_type_t **types, size_t *count, size_t *capacity, const null_type_t *type) {
    tpt_status_t *status = tpt_vec_reserve(types, capacity, *count + 1, sizeof **types, MAX_TYPES);
    if (status != NULL) {
        tpt_status_free(status);
        return read_fail(reader, *count < MAX_TYPES ? null_why_memory : "it has too many types");
    }
    (*types)[(*count)++] = *type;
    return true;
}

/* What follows an opening parenthesis, up to the closing one. Parameters have names. */
static bool read_list(reader_t *reader, bool named, null_type_t **types, size_t *count, size_t *capacity) {
    read_space(reader);
    if (read_word(reader, ")")) return true;
    for (;;) {
        null_type_t type;
        read_space(reader);
        if (named) {
            while (reader->at < reader->end && *reader->at != ':' && *reader->at != ')') reader->at++;
            if (!read_word(reader, ":")) return read_fail(reader, "a parameter has no type");
            read_space(reader);
        }
        if (!read_type(reader, &type)) return false;
        read_space(reader);
        if (reader->at < reader->end && *reader->at == '{' && !read_attributes(reader, &type.alias)) return false;
        if (!types_add(reader, types, count, capacity, &type)) return false;
        read_space(reader);
        if (read_word(reader, ")")) return true;
        if (!read_word(reader, ",")) return read_fail(reader, "a comma or parenthesis is expected in the list of types");
    }
}

static bool read_signature(reader_t *reader, null_signature_t *signature) {
    static const char head[] = "@main(";
    const char *found = memmem(reader->at, (size_t)(reader->end - reader->at), head, sizeof head - 1);
    size_t capacity = 0;
    if (found == NULL) return read_fail(reader, "there is no function @main");
    reader->at = found + sizeof head - 1;
    if (!read_list(reader, true, &signature->params, &signature->nparams, &capacity)) return false;
    read_space(reader);
    capacity = 0;
    if (read_word(reader, "->")) {
        read_space(reader);
        if (read_word(reader, "(")) {
            if (!read_list(reader, false, &signature->outs, &signature->nouts, &capacity)) return false;
        } else {
            null_type_t type;
            if (!read_type(reader, &type)) return false;
            if (!types_add(reader, &signature->outs, &signature->nouts, &capacity, &type)) return false;
        }
    }
    for (size_t i = 0; i < signature->nparams; i++) {
        if (signature->params[i].alias >= (int)signature->nouts) return read_fail(reader, "tf.aliasing_output names no output");
    }
    read_space(reader);
    if (reader->at == reader->end || (*reader->at != '{' && *reader->at != 'a')) return read_fail(reader, "@main has no body");
    return true;
}

const char *null_signature_parse(const char *text, size_t bytes, null_signature_t *out_signature) {
    reader_t reader = {.at = text, .end = text + bytes};
    *out_signature = (null_signature_t){.nparams = 0};
    if (read_signature(&reader, out_signature)) return NULL;
    null_signature_free(out_signature);
    return reader.why;
}

void null_signature_free(null_signature_t *signature) {
    tpt_free(signature->params);
    tpt_free(signature->outs);
    *signature = (null_signature_t){.nparams = 0};
}

int64_t null_type_bytes(const null_type_t *type) {
    int64_t bytes = (int64_t)tpt_pjrt_type_size(type->type);
    for (size_t i = 0; i < type->rank; i++) {
        if (__builtin_mul_overflow(bytes, type->dims[i], &bytes)) return INT64_MAX;
    }
    return bytes;
}
