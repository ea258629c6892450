/* client.c - one plugin's client and its devices. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "pjrt/pjrt_internal.h"

static tpt_status_t *client_text(const char *text, size_t size, char **out_text) {
    char *copy = tpt_malloc(size + 1);
    if (copy == NULL) return tpt_status_oom(size + 1);
    if (size != 0) memcpy(copy, text, size);
    copy[size] = '\0';
    *out_text = copy;
    return NULL;
}

/* Only the names tell before a client exists. The file's own name decides; its folder only when that says nothing. */
static bool client_path_is_cpu(const char *path) {
    if (strcmp(path, "null") == 0) return true;
    const char *slash = strrchr(path, '/'), *base = slash == NULL ? path : slash + 1;
    if (strcasestr(base, "cpu") != NULL) return true;
    if (strcasestr(base, "tpu") != NULL || strcasestr(base, "cuda") != NULL || strcasestr(base, "gpu") != NULL) return false;
    return strcasestr(path, "pjrt_cpu") != NULL || strcasestr(path, "cpu_pjrt") != NULL;
}

static tpt_status_t *client_create(tpt_client_t *client, int num_devices) {
    static const char option_name[] = "cpu_device_count";
    PJRT_NamedValue option = TPT_ARGS(PJRT_NamedValue, .name = option_name, .name_size = sizeof option_name - 1,
                                      .type = PJRT_NamedValue_kInt64, .int64_value = num_devices, .value_size = 1);
    PJRT_Client_Create_Args args = TPT_ARGS(PJRT_Client_Create_Args, .create_options = &option, .num_options = 1);
    tpt_status_t *status = NULL;
    if (num_devices > 0 && client_path_is_cpu(client->path)) {
        status = tpt_pjrt_error(&client->api, client->api.PJRT_Client_Create(&args));
        if (status == NULL) {
            client->handle = args.client;
            return NULL;
        }
        if (tpt_status_code(status) == TPT_RESOURCE_EXHAUSTED) return status; /* not the option's fault */
        tpt_log(TPT_LOG_INFO, "plugin refused cpu_device_count: %s", tpt_status_message(status));
        tpt_status_free(status);
    }
    args.create_options = NULL;
    args.num_options = 0;
    status = tpt_pjrt_error(&client->api, client->api.PJRT_Client_Create(&args));
    if (status == NULL) {
        client->handle = args.client;
        return NULL;
    }
    const char *message = tpt_status_message(status);
    if (strcasestr(message, "already in use") != NULL || strcasestr(message, "is in use by") != NULL) {
        tpt_status_t *held = tpt_status_make(
            TPT_FAILED_PRECONDITION, "the device of PJRT plugin '%s' is held by another process: %s", client->path, message);
        tpt_status_free(status);
        return held;
    }
    return tpt_status_annotate(status, "making a client of PJRT plugin '%s'", client->path);
}

static tpt_status_t *client_read_names(tpt_client_t *client) {
    const PJRT_Api *api = &client->api;
    const char *name = "unknown", *version = "";
    size_t name_size = strlen(name), version_size = 0;
    if (api->PJRT_Client_PlatformName != NULL) {
        PJRT_Client_PlatformName_Args args = TPT_ARGS(PJRT_Client_PlatformName_Args, .client = client->handle);
        TPT_TRY(tpt_pjrt_error(api, api->PJRT_Client_PlatformName(&args)));
        name = args.platform_name;
        name_size = args.platform_name_size;
    }
    if (api->PJRT_Client_PlatformVersion != NULL) {
        PJRT_Client_PlatformVersion_Args args = TPT_ARGS(PJRT_Client_PlatformVersion_Args, .client = client->handle);
        TPT_TRY(tpt_pjrt_error(api, api->PJRT_Client_PlatformVersion(&args)));
        version = args.platform_version;
        version_size = args.platform_version_size;
    }
    TPT_TRY(client_text(name, name_size, &client->platform));
    for (char *c = client->platform; *c != '\0'; c++) *c = (char)tolower((unsigned char)*c);
    client->is_cpu = strcmp(client->platform, "cpu") == 0 || strcmp(client->platform, "host") == 0;
    client->has_kernels = client->is_cpu && tpt_pjrt_kernels_register(api);
    return client_text(version, version_size, &client->version);
}

static tpt_status_t *client_read_device(tpt_client_t *client, int i) {
    const PJRT_Api *api = &client->api;
    tpt_pjrt_device_t *device = &client->devices[i];
    device->id = i;
    if (api->PJRT_Device_GetDescription == NULL) return client_text(client->platform, strlen(client->platform), &device->kind);
    PJRT_Device_GetDescription_Args get = TPT_ARGS(PJRT_Device_GetDescription_Args, .device = device->handle);
    TPT_TRY(tpt_pjrt_error(api, api->PJRT_Device_GetDescription(&get)));
    if (api->PJRT_DeviceDescription_Id != NULL) {
        PJRT_DeviceDescription_Id_Args id =
            TPT_ARGS(PJRT_DeviceDescription_Id_Args, .device_description = get.device_description);
        TPT_TRY(tpt_pjrt_error(api, api->PJRT_DeviceDescription_Id(&id)));
        device->id = id.id;
    }
    const char *kind = client->platform;
    size_t size = strlen(kind);
    if (api->PJRT_DeviceDescription_Kind != NULL) {
        PJRT_DeviceDescription_Kind_Args args =
            TPT_ARGS(PJRT_DeviceDescription_Kind_Args, .device_description = get.device_description);
        TPT_TRY(tpt_pjrt_error(api, api->PJRT_DeviceDescription_Kind(&args)));
        kind = args.device_kind;
        size = args.device_kind_size;
    }
    return client_text(kind, size, &device->kind);
}

static tpt_status_t *client_read_devices(tpt_client_t *client, int wanted) {
    PJRT_Client_AddressableDevices_Args args = TPT_ARGS(PJRT_Client_AddressableDevices_Args, .client = client->handle);
    TPT_TRY(tpt_pjrt_error(&client->api, client->api.PJRT_Client_AddressableDevices(&args)));
    size_t count = args.num_addressable_devices;
    if (count == 0) return tpt_status_make(TPT_NOT_FOUND, "PJRT plugin '%s' shows no device", client->path);
    if (count > TPT_PJRT_MAX_DEVICES) {
        return tpt_status_make(TPT_RESOURCE_EXHAUSTED, "PJRT plugin '%s' shows %zu devices; at most %d are taken", client->path,
                               count, TPT_PJRT_MAX_DEVICES);
    }
    if (client->is_cpu && wanted > 0) {
        if ((size_t)wanted > count) tpt_log(TPT_LOG_WARN, "%d devices asked for, the plugin has %zu", wanted, count);
        if ((size_t)wanted < count) count = (size_t)wanted; /* a plugin that knows no such option makes its own number */
    }
    client->devices = tpt_calloc(count, sizeof *client->devices);
    if (client->devices == NULL) return tpt_status_oom(count * sizeof *client->devices);
    client->ndevices = (int)count;
    for (size_t i = 0; i < count; i++) client->devices[i].handle = args.addressable_devices[i];
    for (size_t i = 0; i < count; i++) TPT_TRY(client_read_device(client, (int)i));
    return NULL;
}

/* Asks a one-byte buffer whether it lies in plain memory that we may read by its pointer. */
static tpt_status_t *client_probe_memory(tpt_client_t *client) {
    const PJRT_Api *api = &client->api;
    if (api->PJRT_Buffer_UnsafePointer == NULL) return NULL;
    if (api->PJRT_Buffer_IsOnCpu == NULL) {
        client->host_memory = client->is_cpu;
        return NULL;
    }
    const int64_t dims[1] = {1};
    const unsigned char byte = 0;
    tpt_buffer_t *buffer = NULL;
    TPT_TRY_MSG(tpt_buffer_from_host(client, 0, TPT_U8, 1, dims, &byte, &buffer), "trying the device of PJRT plugin '%s'",
                client->path);
    PJRT_Buffer_IsOnCpu_Args args = TPT_ARGS(PJRT_Buffer_IsOnCpu_Args, .buffer = buffer->handle);
    tpt_status_t *status = tpt_pjrt_error(api, api->PJRT_Buffer_IsOnCpu(&args));
    client->host_memory = status == NULL && args.is_on_cpu;
    tpt_status_free(status);
    tpt_buffer_release(buffer);
    return NULL;
}

tpt_status_t *tpt_client_open(const char *path, const tpt_client_options_t *options, tpt_client_t **out_client) {
    const tpt_client_options_t defaults = {.num_devices = 0};
    if (options == NULL) options = &defaults;
    tpt_client_t *client = tpt_calloc(1, sizeof *client);
    if (client == NULL) return tpt_status_oom(sizeof *client);
    atomic_init(&client->refs, 1);
    atomic_init(&client->portable, -1);
    (void)pthread_mutex_init(&client->probe_lock, NULL);
    tpt_status_t *status = tpt_pjrt_plugin_load(path, options->show_plugin_log, &client->api, &client->path);
    if (status == NULL) status = client_create(client, options->num_devices);
    if (status == NULL) status = client_read_names(client);
    if (status == NULL) status = client_read_devices(client, options->num_devices);
    if (status == NULL) status = client_probe_memory(client);
    if (status != NULL) {
        tpt_client_close(client);
        return status;
    }
    tpt_log(TPT_LOG_INFO, "plugin %s: platform %s, API %d.%d, %d device(s)", client->path, client->platform,
            client->api.pjrt_api_version.major_version, client->api.pjrt_api_version.minor_version, client->ndevices);
    *out_client = client;
    return NULL;
}

void tpt_pjrt_client_retain(tpt_client_t *client) { atomic_fetch_add_explicit(&client->refs, 1, memory_order_relaxed); }

void tpt_pjrt_client_release(tpt_client_t *client) {
    if (atomic_fetch_sub_explicit(&client->refs, 1, memory_order_acq_rel) != 1) return;
    if (client->handle != NULL) {
        tpt_pjrt_dropped_destroy(client);
        tpt_pjrt_shells_destroy(client);
        PJRT_Client_Destroy_Args args = TPT_ARGS(PJRT_Client_Destroy_Args, .client = client->handle);
        tpt_status_free(tpt_pjrt_error(&client->api, client->api.PJRT_Client_Destroy(&args)));
    }
    for (int i = 0; i < client->ndevices; i++) tpt_free(client->devices[i].kind);
    tpt_free(client->devices);
    tpt_free(client->platform);
    tpt_free(client->version);
    tpt_free(client->path);
    (void)pthread_mutex_destroy(&client->probe_lock);
    tpt_free(client);
}

void tpt_client_close(tpt_client_t *client) {
    if (client != NULL) tpt_pjrt_client_release(client); /* the last live buffer or program ends it */
}

tpt_status_t *tpt_pjrt_check_device(const tpt_client_t *client, int device) {
    if (device >= 0 && device < client->ndevices) return NULL;
    return tpt_status_make(TPT_INVALID_ARGUMENT, "no device %d: the client has %d device(s)", device, client->ndevices);
}

int tpt_client_device_count(const tpt_client_t *client) { return client->ndevices; }

const char *tpt_client_device_kind(const tpt_client_t *client, int device) {
    return device >= 0 && device < client->ndevices ? client->devices[device].kind : "";
}

const char *tpt_client_platform(const tpt_client_t *client) { return client->platform; }

const char *tpt_client_platform_version(const tpt_client_t *client) { return client->version; }

void tpt_client_api_version(const tpt_client_t *client, int *out_major, int *out_minor) {
    *out_major = client->api.pjrt_api_version.major_version;
    *out_minor = client->api.pjrt_api_version.minor_version;
}

/* Measured: XLA's CPU plugin of API 0.81 keeps NaN with exact_minmax, that of 0.115 does not in reductions. */
bool tpt_client_reduce_keeps_nan(const tpt_client_t *client) {
    int major, minor;
    tpt_client_api_version(client, &major, &minor);
    return !client->is_cpu || minor <= 81;
}

/* XLA's CPU plugin of API 0.81 does; 0.115 doesn't. */
bool tpt_client_donation_waits(const tpt_client_t *client) {
    int major, minor;
    tpt_client_api_version(client, &major, &minor);
    return client->is_cpu && minor <= 81;
}

const char *tpt_client_path(const tpt_client_t *client) { return client->path; }

bool tpt_client_host_code(const tpt_client_t *client) { return client->is_cpu; }

bool tpt_client_has_kernels(const tpt_client_t *client) { return client->has_kernels; }

tpt_status_t *tpt_client_topology(const tpt_client_t *client, char **out_text) {
    const PJRT_Api *api = &client->api;
    tpt_str_t text;
    tpt_str_init(&text, 1 << 20);
    PJRT_Client_Devices_Args all = TPT_ARGS(PJRT_Client_Devices_Args, .client = client->handle);
    tpt_status_t *status = api->PJRT_Client_Devices == NULL ? NULL : tpt_pjrt_error(api, api->PJRT_Client_Devices(&all));
    for (size_t i = 0; status == NULL && i < all.num_devices; i++) {
        if (api->PJRT_Device_GetDescription == NULL || api->PJRT_DeviceDescription_DebugString == NULL) break;
        PJRT_Device_GetDescription_Args get = TPT_ARGS(PJRT_Device_GetDescription_Args, .device = all.devices[i]);
        status = tpt_pjrt_error(api, api->PJRT_Device_GetDescription(&get));
        if (status != NULL) break;
        PJRT_DeviceDescription_DebugString_Args words = TPT_ARGS(PJRT_DeviceDescription_DebugString_Args, .device_description = get.device_description);
        status = tpt_pjrt_error(api, api->PJRT_DeviceDescription_DebugString(&words));
        if (status == NULL) tpt_str_addn(&text, words.debug_string, words.debug_string_size);
        tpt_str_add(&text, ";");
    }
    for (int i = 0; i < client->ndevices; i++) tpt_str_addf(&text, " %d=%s", client->devices[i].id, client->devices[i].kind);
    if (status == NULL) *out_text = tpt_str_take(&text);
    tpt_str_free(&text);
    return status == NULL && *out_text == NULL ? tpt_status_oom(1) : status;
}

bool tpt_client_host_memory(const tpt_client_t *client) { return client->host_memory; }

tpt_status_t *tpt_client_memory(tpt_client_t *client, int device, tpt_memory_stats_t *out_stats) {
    TPT_TRY(tpt_pjrt_check_device(client, device));
    if (client->api.PJRT_Device_MemoryStats == NULL) {
        return tpt_status_make(TPT_UNIMPLEMENTED, "the plugin keeps no memory statistics");
    }
    PJRT_Device_MemoryStats_Args args = TPT_ARGS(PJRT_Device_MemoryStats_Args, .device = client->devices[device].handle);
    tpt_status_t *status = tpt_pjrt_error(&client->api, client->api.PJRT_Device_MemoryStats(&args));
    if (status != NULL) { /* plugins differ in the code by which they say "none here" */
        tpt_status_t *none = tpt_status_make(TPT_UNIMPLEMENTED, "no memory statistics: %s", tpt_status_message(status));
        tpt_status_free(status);
        return none;
    }
    *out_stats = (tpt_memory_stats_t){
        .in_use = args.bytes_in_use,
        .peak = args.peak_bytes_in_use_is_set ? args.peak_bytes_in_use : 0,
        .limit = args.bytes_limit_is_set ? args.bytes_limit : 0,
        .allocations = args.num_allocs_is_set ? args.num_allocs : 0,
        .largest_free = args.largest_free_block_bytes_is_set ? args.largest_free_block_bytes : 0,
    };
    return NULL;
}
