/* null.c - the fake plugin's table: errors, events, client, devices; and the switches of tests. */
#include "pjrt/null/null.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "pjrt/null/null_internal.h"

null_state_t null_state;

static const char *const step_names[TPT_NULL_STEP_COUNT] = {
    [TPT_NULL_CREATE] = "create",       [TPT_NULL_COMPILE] = "compile",     [TPT_NULL_EXECUTE] = "execute",
    [TPT_NULL_RESULT] = "result",       [TPT_NULL_FROM_HOST] = "from_host", [TPT_NULL_TO_HOST] = "to_host",
    [TPT_NULL_SERIALIZE] = "serialize", [TPT_NULL_LOAD] = "load",
};

/* ---- switches ------------------------------------------------------------------------------------------------------ */

void tpt_null_fail_next(tpt_null_step_t step, int code) {
    if ((unsigned)step < TPT_NULL_STEP_COUNT) atomic_store(&null_state.fail[step], code);
}

void tpt_null_reject_donation(bool on) { atomic_store(&null_state.reject_donation, on); }

void tpt_null_set_delay(int64_t nanoseconds) { atomic_store(&null_state.delay, nanoseconds); }
void tpt_null_set_compile_time(int64_t nanoseconds) { atomic_store(&null_state.compile_time, nanoseconds); }

void tpt_null_set_host_memory(bool on) { atomic_store(&null_state.device_memory, !on); }

void tpt_null_reset(void) {
    for (int step = 0; step < TPT_NULL_STEP_COUNT; step++) atomic_store(&null_state.fail[step], 0);
    tpt_null_reject_donation(false);
    tpt_null_set_delay(0);
    tpt_null_set_compile_time(0);
    tpt_null_set_host_memory(true);
    atomic_store(&null_state.compiles, 0);
    atomic_store(&null_state.loads, 0);
    atomic_store(&null_state.executes, 0);
    atomic_store(&null_state.donations, 0);
}

tpt_null_counts_t tpt_null_counts(void) {
    return (tpt_null_counts_t){
        .compiles = null_state.compiles,
        .loads = null_state.loads,
        .executes = null_state.executes,
        .donations = null_state.donations,
        .clients = null_state.clients,
        .buffers = null_state.buffers,
        .programs = null_state.programs,
        .events = null_state.events,
    };
}

static void read_environment(void) {
    const char *text = getenv("TPT_NULL_FAIL");
    if (text == NULL) return;
    for (int step = 0; step < TPT_NULL_STEP_COUNT; step++) {
        size_t n = strlen(step_names[step]);
        if (strncmp(text, step_names[step], n) == 0 && text[n] == '=')
            tpt_null_fail_next((tpt_null_step_t)step, atoi(text + n + 1));
    }
}

PJRT_Error *null_injected(tpt_null_step_t step) {
    int code = atomic_exchange(&null_state.fail[step], 0);
    return code == 0 ? NULL : null_error((PJRT_Error_Code)code, "null plugin: %s was told to fail", step_names[step]);
}

int64_t null_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- errors and events --------------------------------------------------------------------------------------------- */

/* Without memory for an error this one is given; it is never freed. */
static PJRT_Error error_no_memory = {PJRT_Error_Code_RESOURCE_EXHAUSTED, "null plugin: host memory exhausted"};

PJRT_Error *null_error(PJRT_Error_Code code, const char *fmt, ...) {
    PJRT_Error *error = tpt_malloc(sizeof *error);
    if (error == NULL) return &error_no_memory;
    error->code = code;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(error->message, sizeof error->message, fmt, args);
    va_end(args);
    return error;
}

static void error_destroy(PJRT_Error_Destroy_Args *args) {
    if (args->error != &error_no_memory) tpt_free(args->error);
}

static void error_message(PJRT_Error_Message_Args *args) {
    args->message = args->error->message;
    args->message_size = strlen(args->error->message);
}

static PJRT_Error *error_code(PJRT_Error_GetCode_Args *args) {
    args->code = args->error->code;
    return NULL;
}

static PJRT_Error *event_destroy(PJRT_Event_Destroy_Args *args) {
    if (args->event != NULL) atomic_fetch_sub(&null_state.events, 1);
    tpt_free(args->event);
    return NULL;
}

static PJRT_Error *event_is_ready(PJRT_Event_IsReady_Args *args) {
    args->is_ready = null_now() >= args->event->ready_at;
    return NULL;
}

static PJRT_Error *event_status(const PJRT_Event *event) {
    return event->code == PJRT_Error_Code_OK ? NULL : null_error(event->code, "null plugin: result was told to fail");
}

static PJRT_Error *event_error(PJRT_Event_Error_Args *args) { return event_status(args->event); }

static PJRT_Error *event_await(PJRT_Event_Await_Args *args) {
    struct timespec until = {.tv_sec = args->event->ready_at / 1000000000, .tv_nsec = args->event->ready_at % 1000000000};
    while (args->event->ready_at > null_now() && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
    return event_status(args->event);
}

/* ---- client and devices -------------------------------------------------------------------------------------------- */

static PJRT_Error *plugin_initialize(PJRT_Plugin_Initialize_Args *args) {
    (void)args;
    return NULL;
}

static PJRT_Error *client_create(PJRT_Client_Create_Args *args) {
    int64_t count = 1;
    read_environment();
    PJRT_Error *injected = null_injected(TPT_NULL_CREATE);
    if (injected != NULL) return injected;
    for (size_t i = 0; i < args->num_options; i++) {
        const PJRT_NamedValue *option = &args->create_options[i];
        if (strncmp(option->name, "cpu_device_count", option->name_size) == 0) count = option->int64_value;
    }
    if (count < 1 || count > NULL_MAX_DEVICES)
        return null_error(PJRT_Error_Code_INVALID_ARGUMENT, "null plugin: bad cpu_device_count");
    PJRT_Client *client = tpt_calloc(1, sizeof *client);
    if (client == NULL) return null_error(PJRT_Error_Code_RESOURCE_EXHAUSTED, "null plugin: host memory exhausted");
    client->ndevices = (size_t)count;
    client->host_memory = !atomic_load(&null_state.device_memory);
    for (int i = 0; i < (int)count; i++) {
        client->devices[i].description.id = i;
        client->devices[i].client = client;
        client->list[i] = &client->devices[i];
    }
    atomic_fetch_add(&null_state.clients, 1);
    args->client = client;
    return NULL;
}

static PJRT_Error *client_destroy(PJRT_Client_Destroy_Args *args) {
    atomic_fetch_sub(&null_state.clients, 1);
    tpt_free(args->client);
    return NULL;
}

static PJRT_Error *client_platform_name(PJRT_Client_PlatformName_Args *args) {
    args->platform_name = "null";
    args->platform_name_size = 4;
    return NULL;
}

static PJRT_Error *client_platform_version(PJRT_Client_PlatformVersion_Args *args) {
    args->platform_version = "null 1";
    args->platform_version_size = 6;
    return NULL;
}

static PJRT_Error *client_devices(PJRT_Client_Devices_Args *args) {
    args->devices = args->client->list;
    args->num_devices = args->client->ndevices;
    return NULL;
}

static PJRT_Error *client_addressable_devices(PJRT_Client_AddressableDevices_Args *args) {
    args->addressable_devices = args->client->list;
    args->num_addressable_devices = args->client->ndevices;
    return NULL;
}

static PJRT_Error *device_description(PJRT_Device_GetDescription_Args *args) {
    args->device_description = &args->device->description;
    return NULL;
}

static PJRT_Error *description_id(PJRT_DeviceDescription_Id_Args *args) {
    args->id = args->device_description->id;
    return NULL;
}

static PJRT_Error *description_kind(PJRT_DeviceDescription_Kind_Args *args) {
    args->device_kind = "null";
    args->device_kind_size = 4;
    return NULL;
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */

static PJRT_Api null_table;

static void make_table(void) {
    null_table = (PJRT_Api){
        .struct_size = PJRT_Api_STRUCT_SIZE,
        .pjrt_api_version = {.struct_size = PJRT_Api_Version_STRUCT_SIZE,
                             .major_version = PJRT_API_MAJOR,
                             .minor_version = PJRT_API_MINOR},
        .PJRT_Error_Destroy = error_destroy,
        .PJRT_Error_Message = error_message,
        .PJRT_Error_GetCode = error_code,
        .PJRT_Plugin_Initialize = plugin_initialize,
        .PJRT_Event_Destroy = event_destroy,
        .PJRT_Event_IsReady = event_is_ready,
        .PJRT_Event_Error = event_error,
        .PJRT_Event_Await = event_await,
        .PJRT_Client_Create = client_create,
        .PJRT_Client_Destroy = client_destroy,
        .PJRT_Client_PlatformName = client_platform_name,
        .PJRT_Client_PlatformVersion = client_platform_version,
        .PJRT_Client_Devices = client_devices,
        .PJRT_Client_AddressableDevices = client_addressable_devices,
        .PJRT_Device_GetDescription = device_description,
        .PJRT_DeviceDescription_Id = description_id,
        .PJRT_DeviceDescription_Kind = description_kind,
    };
    null_buffer_table(&null_table);
    null_program_table(&null_table);
}

const PJRT_Api *tpt_null_api(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_table);
    return &null_table;
}
