/* options.c - writes the few fields of XLA's CompileOptionsProto that we set, in protobuf's wire format.
 *
 *   CompileOptionsProto          3 executable_build_options, 4 compile_portable_executable, 7 env_option_overrides
 *   ExecutableBuildOptionsProto  1 device_ordinal, 4 num_replicas, 5 num_partitions, 9 device_assignment
 *   DeviceAssignmentProto        1 replica_count, 2 computation_count, 3 computation_devices { 1 replica_device_ids }
 *   map<string, OptionOverrideProto>: entry { 1 key, 2 value { 2 bool_field, 3 int_field } } */
#include <string.h>

#include "pjrt/pjrt_internal.h"

/* A message under construction. Each has room for all that is put into it: the caller's sizes are fixed. */
typedef struct wire {
    unsigned char data[TPT_PJRT_OPTIONS_MAX];
    size_t size;
} wire_t;

static void wire_varint(wire_t *wire, uint64_t value) {
    while (value >= 0x80) {
        wire->data[wire->size++] = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    wire->data[wire->size++] = (unsigned char)value;
}

static void wire_int(wire_t *wire, unsigned field, int64_t value) {
    wire_varint(wire, field << 3);
    wire_varint(wire, (uint64_t)value);
}

static void wire_bytes(wire_t *wire, unsigned field, const void *data, size_t size) {
    wire_varint(wire, field << 3 | 2);
    wire_varint(wire, size);
    memcpy(wire->data + wire->size, data, size);
    wire->size += size;
}

/* kind: 2 bool, 3 integer. */
static void wire_override(wire_t *wire, const char *name, unsigned kind, int64_t value) {
    wire_t choice = {.size = 0}, entry = {.size = 0};
    wire_int(&choice, kind, value);
    wire_bytes(&entry, 1, name, strlen(name));
    wire_bytes(&entry, 2, choice.data, choice.size);
    wire_bytes(wire, 7, entry.data, entry.size);
}

static void wire_assignment(wire_t *build, int device_id) {
    wire_t ids = {.size = 0}, computation = {.size = 0}, assignment = {.size = 0};
    wire_varint(&ids, (uint64_t)(int64_t)device_id);
    wire_bytes(&computation, 1, ids.data, ids.size); /* packed */
    wire_int(&assignment, 1, 1);
    wire_int(&assignment, 2, 1);
    wire_bytes(&assignment, 3, computation.data, computation.size);
    wire_bytes(build, 9, assignment.data, assignment.size);
}

/* The compiler flags that we set; plugins know them or not, each by itself. */
static const struct {
    const char *name;
    unsigned kind; /* 2 bool, 3 integer */
    int64_t value;
} flags[TPT_PJRT_FLAG_COUNT] = {
    {"xla_allow_excess_precision", 2, 0},
    {"xla_cpu_enable_fast_min_max", 2, 0},
    /* XLA's choice is 256 bits; where there is AVX-512, erf, exp and tanh take half the time, and nothing takes longer. */
    {"xla_cpu_prefer_vector_width", 3, 512},
    /* Tiny programs: half the compile time, measured; loops would run ten times slower. */
    {"xla_cpu_use_fusion_emitters", 2, 0}, /* of larger programs too, where it was found to be good */
    {"xla_backend_optimization_level", 3, 0},
    {"xla_cpu_parallel_codegen_split_count", 3, 1},
    {"xla_multiheap_size_constraint_per_heap", 3, 24 << 20},
};

enum { EXCESS, MINMAX, WIDTH, EMITTERS, LEVEL, SPLITS, HEAPS };

unsigned tpt_pjrt_flags_named(const char *message) {
    unsigned named = 0;
    for (unsigned i = 0; i < TPT_PJRT_FLAG_COUNT; i++)
        if (strstr(message, flags[i].name) != NULL) named |= 1u << i;
    return named;
}

static bool wanted(const tpt_pjrt_options_t *options, unsigned flag) {
    switch (flag) {
        case EXCESS: return true;
        case MINMAX: return options->fast_minmax_off;
        case WIDTH:
        case HEAPS: return options->is_cpu;
        case EMITTERS: return options->is_cpu && (options->loops.tiny || options->loops.plain);
        default: return options->is_cpu && options->loops.tiny;
    }
}

size_t tpt_pjrt_options_write(const tpt_pjrt_options_t *options, unsigned char out[TPT_PJRT_OPTIONS_MAX]) {
    wire_t all = {.size = 0}, build = {.size = 0};
    wire_int(&build, 1, -1); /* absent reads as ordinal 0, not as "none" */
    wire_int(&build, 4, 1);
    wire_int(&build, 5, 1);
    if (!options->portable) wire_assignment(&build, options->device_id);
    wire_bytes(&all, 3, build.data, build.size);
    if (options->portable) wire_int(&all, 4, 1);
    for (unsigned i = 0; i < TPT_PJRT_FLAG_COUNT; i++) {
        if (!wanted(options, i) || (options->refused >> i & 1)) continue;
        wire_override(&all, flags[i].name, flags[i].kind, i == EXCESS ? options->excess_precision : flags[i].value);
    }
    memcpy(out, all.data, all.size);
    return all.size;
}
