// module.cpp - torch_tpu._C: what the Python package asks of the core and of the glue.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/python_headers.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/utils/object_ptr.h>
#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <string>

#include "convert.h"
#include "storage.h"

namespace tpt_glue {

namespace {

PyObject *plugin_resolver = nullptr;  // a callable without arguments that gives a path; owned, for ever
std::atomic<bool> plugin_chosen{false};

PyObject *none() { Py_RETURN_NONE; }
PyObject *number(int64_t value) { return PyLong_FromLongLong(value); }
PyObject *text(const char *value) { return PyUnicode_FromString(value); }
PyObject *truth(bool value) { return PyBool_FromLong(value ? 1 : 0); }

int64_t to_int(PyObject *arg) {
  const long long value = PyLong_AsLongLong(arg);
  if (value == -1 && PyErr_Occurred() != nullptr) throw python_error();
  return value;
}

// Devices in range, with the plugin open. Waiting is done without the GIL.
int to_device(PyObject *arg) {
  const int64_t index = to_int(arg);
  TORCH_CHECK(index >= 0 && index < 128, "tpu: invalid device index ", index);
  pybind11::gil_scoped_release no_gil;
  check_device(c10::Device(kTpu, static_cast<c10::DeviceIndex>(index)));
  check(tpt_runtime_open());
  return static_cast<int>(index);
}

void put(PyObject *dict, const char *key, PyObject *value) {
  if (value == nullptr) throw python_error();
  const int failed = PyDict_SetItemString(dict, key, value);
  Py_DECREF(value);
  if (failed) throw python_error();
}

// A pending Python exception as a C++ one: it may cross threads and code that holds no GIL.
[[noreturn]] void raise_python_error() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const THPObjectPtr owned_type(type), owned_value(value), owned_trace(trace);
  const THPObjectPtr words(value == nullptr ? nullptr : PyObject_Str(value));
  const char *utf8 = words ? PyUnicode_AsUTF8(const_cast<PyObject *>(words.get())) : nullptr;
  PyErr_Clear();
  TORCH_CHECK(false, utf8 == nullptr ? "tpu: no PJRT plugin was found" : utf8);
}

// ---- plugin and devices

PyObject *set_plugin_resolver(PyObject *, PyObject *callable) {
  Py_INCREF(callable);
  Py_XSETREF(plugin_resolver, callable);
  return none();
}

PyObject *recall_open(PyObject *, PyObject *version) {
  HANDLE_TH_ERRORS
  const char *utf8 = PyUnicode_AsUTF8(version);
  if (utf8 == nullptr) throw python_error();
  tpt_recall_open(utf8);
  return none();
  END_HANDLE_TH_ERRORS
}

PyObject *py_device_count(PyObject *, PyObject *) {
  HANDLE_TH_ERRORS
  int count = 0;
  {
    pybind11::gil_scoped_release no_gil;
    count = device_count();
  }
  return number(count);
  END_HANDLE_TH_ERRORS
}

// Opens the plugin and raises if that fails (device_count gives 0 then).
PyObject *open_runtime(PyObject *, PyObject *) {
  HANDLE_TH_ERRORS
  pybind11::gil_scoped_release no_gil;
  check_fork();
  ensure_plugin();
  check(tpt_runtime_open());
  END_HANDLE_TH_ERRORS_RET(nullptr)
  return none();
}

PyObject *is_open(PyObject *, PyObject *) { return truth(tpt_runtime_is_open()); }

PyObject *empty_cache(PyObject *, PyObject *) {
  tpt_runtime_empty_cache();
  Py_RETURN_NONE;
}
PyObject *py_is_forked(PyObject *, PyObject *) { return truth(is_forked()); }
PyObject *py_current_device(PyObject *, PyObject *) { return number(current_device()); }

PyObject *py_set_device(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  set_device(static_cast<int>(to_int(arg)));
  return none();
  END_HANDLE_TH_ERRORS
}

PyObject *synchronize(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  const auto device = static_cast<int>(to_int(arg));
  pybind11::gil_scoped_release no_gil;
  check_fork();
  if (tpt_runtime_is_open()) check(tpt_device_synchronize(device));
  END_HANDLE_TH_ERRORS_RET(nullptr)
  return none();
}

PyObject *platform(PyObject *, PyObject *) {
  HANDLE_TH_ERRORS
  int major = 0, minor = 0;
  tpt_plugin_api_version(&major, &minor);
  THPObjectPtr dict(PyDict_New());
  put(dict, "name", text(tpt_platform_name()));
  put(dict, "version", text(tpt_platform_version()));
  put(dict, "plugin", text(tpt_plugin_path()));
  put(dict, "api_major", number(major));
  put(dict, "api_minor", number(minor));
  return dict.release();
  END_HANDLE_TH_ERRORS
}

PyObject *device_kind(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  return text(tpt_device_kind(to_device(arg)));
  END_HANDLE_TH_ERRORS
}

PyObject *memory_stats(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  tpt_memory_stats_t stats{};
  check(tpt_device_memory(to_device(arg), &stats));
  THPObjectPtr dict(PyDict_New());
  put(dict, "in_use", number(stats.in_use));
  put(dict, "peak", number(stats.peak));
  put(dict, "limit", number(stats.limit));
  put(dict, "allocations", number(stats.allocations));
  put(dict, "largest_free", number(stats.largest_free));
  return dict.release();
  END_HANDLE_TH_ERRORS
}

PyObject *memory_reset_peak(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  tpt_device_memory_reset_peak(to_device(arg));
  return none();
  END_HANDLE_TH_ERRORS
}

// ---- random state

PyObject *py_default_generator(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  return THPGenerator_Wrap(default_generator(static_cast<int>(to_int(arg))));
  END_HANDLE_TH_ERRORS
}

PyObject *py_seed_all(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  // As PyTorch's seeds: negative numbers are taken as their two's complement.
  const uint64_t seed = PyLong_AsUnsignedLongLongMask(arg);
  if (seed == static_cast<uint64_t>(-1) && PyErr_Occurred() != nullptr) throw python_error();
  seed_all(seed);
  return none();
  END_HANDLE_TH_ERRORS
}

// ---- when graphs are cut

PyObject *mode_get(PyObject *, PyObject *) { return number(tpt_mode_get()); }

PyObject *mode_set(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  const int64_t mode = to_int(arg);
  TORCH_CHECK_VALUE(mode >= TPT_MODE_STRICT && mode <= TPT_MODE_FUSED, "unknown mode ", mode);
  set_mode(static_cast<tpt_mode_t>(mode));
  return none();
  END_HANDLE_TH_ERRORS
}

PyObject *defer_push(PyObject *, PyObject *) {
  tpt_defer_push();
  return none();
}

PyObject *defer_pop(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  const auto device = static_cast<int>(to_int(arg));
  pybind11::gil_scoped_release no_gil;
  check(tpt_defer_pop(device));
  END_HANDLE_TH_ERRORS_RET(nullptr)
  return none();
}

PyObject *graph_cut(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  const auto device = static_cast<int>(to_int(arg));
  pybind11::gil_scoped_release no_gil;
  if (tpt_runtime_is_open()) check(tpt_graph_cut(device, TPT_CUT_MODE));
  END_HANDLE_TH_ERRORS_RET(nullptr)
  return none();
}

PyObject *explain_start(PyObject *, PyObject *) {
  tpt_explain_start();
  return none();
}

PyObject *explain_stop(PyObject *, PyObject *) {
  HANDLE_TH_ERRORS
  tpt_explain_stop();
  std::vector<tpt_cut_note_t> notes(TPT_EXPLAIN_NOTES);
  const size_t count = std::min(tpt_explain_notes(notes.data(), notes.size()), notes.size());
  THPObjectPtr list(PyList_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; list && i < count; i++) {
    const tpt_cut_note_t &n = notes[i];
    PyObject *item = Py_BuildValue("(sBLLLLLKiiiiiiiss)", tpt_cut_reason_name(static_cast<tpt_cut_reason_t>(n.why)), n.way, n.when_ns,
                                   n.taken_ns, n.execute_ns, n.result_bytes, n.temporary_bytes, n.program, n.device, n.nodes, n.inputs, n.results, n.donated,
                                   n.gathers, n.views, n.first, n.last);
    if (item == nullptr) throw python_error();
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
  }
  return list.release();
  END_HANDLE_TH_ERRORS
}

// ---- settings, counters, the table of ops

PyObject *precision_get(PyObject *, PyObject *) {
  HANDLE_TH_ERRORS
  note_precision();
  return number(tpt_precision_get());
  END_HANDLE_TH_ERRORS
}

PyObject *precision_chosen(PyObject *, PyObject *) { return number(tpt_precision_chosen()); }

PyObject *precision_set(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  const int64_t precision = to_int(arg);
  TORCH_CHECK_VALUE(precision >= TPT_PRECISION_UNSET && precision <= TPT_PRECISION_HIGHEST, "unknown precision ", precision);
  tpt_precision_set(static_cast<tpt_precision_t>(precision));
  return none();
  END_HANDLE_TH_ERRORS
}

PyObject *index_checks_set(PyObject *, PyObject *arg) {
  HANDLE_TH_ERRORS
  tpt_index_checks_set(to_int(arg) != 0);
  return none();
  END_HANDLE_TH_ERRORS
}

PyObject *counters(PyObject *, PyObject *) {
  HANDLE_TH_ERRORS
  tpt_counters_settle();
  THPObjectPtr dict(PyDict_New());
  for (int i = 0; i < TPT_COUNTER_COUNT; i++) {
    const auto counter = static_cast<tpt_counter_t>(i);
    put(dict, tpt_counter_name(counter), number(tpt_counter_get(counter)));
  }
  return dict.release();
  END_HANDLE_TH_ERRORS
}

PyObject *counters_reset(PyObject *, PyObject *) {
  tpt_counters_settle();
  tpt_counters_reset();
  return none();
}

PyObject *counter_add(PyObject *, PyObject *args) {
  HANDLE_TH_ERRORS
  const char *name = nullptr;
  long long amount = 1;
  if (PyArg_ParseTuple(args, "s|L", &name, &amount) == 0) throw python_error();
  for (int i = 0; i < TPT_COUNTER_COUNT; i++) {
    const auto counter = static_cast<tpt_counter_t>(i);
    if (std::string(name) != tpt_counter_name(counter)) continue;
    tpt_counter_add(counter, amount);
    return none();
  }
  TORCH_CHECK_VALUE(false, "no counter named ", name);
  END_HANDLE_TH_ERRORS
}

PyObject *rows(PyObject *, PyObject *) {
  HANDLE_TH_ERRORS
  THPObjectPtr dict(PyDict_New());
  for (size_t i = 0; i < tpt_row_count(); i++) {
    const tpt_row_t *row = tpt_row_at(i);
    put(dict, tpt_row_name(row), number(tpt_row_flags(row)));
  }
  return dict.release();
  END_HANDLE_TH_ERRORS
}

PyMethodDef methods[] = {
    {"set_plugin_resolver", set_plugin_resolver, METH_O, "Gives the callable that finds the path of the plugin."},
    {"recall_open", recall_open, METH_O, "Says for which version of PyTorch types of results are kept across processes."},
    {"device_count", py_device_count, METH_NOARGS, "Number of devices; 0 when no plugin can be opened."},
    {"open", open_runtime, METH_NOARGS, "Opens the plugin, or raises."},
    {"is_open", is_open, METH_NOARGS, "Has the plugin been opened?"},
    {"empty_cache", empty_cache, METH_NOARGS, "Gives kept memory back to the system."},
    {"is_forked", py_is_forked, METH_NOARGS, "Is this a child, forked after the plugin was opened?"},
    {"current_device", py_current_device, METH_NOARGS, "Index of this thread's current device."},
    {"set_device", py_set_device, METH_O, "Selects this thread's current device."},
    {"synchronize", synchronize, METH_O, "Waits for a device (-1: all) and raises pending errors."},
    {"platform", platform, METH_NOARGS, "Name, version and path of the open plugin."},
    {"device_kind", device_kind, METH_O, "What the plugin calls the device."},
    {"memory_stats", memory_stats, METH_O, "Bytes in use on a device."},
    {"memory_reset_peak", memory_reset_peak, METH_O, "Forgets the highest number of bytes in use."},
    {"default_generator", py_default_generator, METH_O, "The default random generator of a device."},
    {"seed_all", py_seed_all, METH_O, "Seeds all default generators, later ones included."},
    {"mode_get", mode_get, METH_NOARGS, "0 strict, 1 debug, 2 fused."},
    {"mode_set", mode_set, METH_O, "0 strict, 1 debug, 2 fused."},
    {"defer_push", defer_push, METH_NOARGS, "Ops are recorded until the matching defer_pop."},
    {"defer_pop", defer_pop, METH_O, "Ends defer_push; the outermost one runs what was recorded."},
    {"graph_cut", graph_cut, METH_O, "Runs what was recorded for a device."},
    {"explain_start", explain_start, METH_NOARGS, "From now on notes are taken of what is cut."},
    {"explain_stop", explain_stop, METH_NOARGS, "Ends that; the notes as tuples, see torch_tpu/_explain.py."},
    {"precision_get", precision_get, METH_NOARGS, "0 default, 1 high, 2 highest."},
    {"precision_chosen", precision_chosen, METH_NOARGS, "What precision_set was given, or -1."},
    {"precision_set", precision_set, METH_O, "Precision of float32 dots and convolutions."},
    {"index_checks_set", index_checks_set, METH_O, "Turns the check of user-given indices on or off."},
    {"counters", counters, METH_NOARGS, "All counters as a dict."},
    {"counters_reset", counters_reset, METH_NOARGS, "Sets all counters to zero."},
    {"counter_add", counter_add, METH_VARARGS, "Adds to one counter."},
    {"rows", rows, METH_NOARGS, "The table of ops: name to flags."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "torch_tpu._C", "The glue between PyTorch and the C core.", -1, methods,
                          nullptr, nullptr, nullptr, nullptr};

}  // namespace

void ensure_plugin() {
  if (C10_LIKELY(plugin_chosen.load(std::memory_order_acquire))) return;
  pybind11::gil_scoped_acquire gil;
  if (plugin_resolver == nullptr || tpt_runtime_is_open()) return;
  THPObjectPtr path(PyObject_CallNoArgs(plugin_resolver));
  const char *utf8 = path ? PyUnicode_AsUTF8(path) : nullptr;
  if (utf8 == nullptr) raise_python_error();
  check(tpt_plugin_select(utf8, 0));
  check(tpt_runtime_open());  // a path that could not be opened may be mended in the environment
  plugin_chosen.store(true, std::memory_order_release);
}

}  // namespace tpt_glue

// What PyTorch itself multiplies with, where it is built with MKL.
extern "C" {
__attribute__((weak)) std::remove_pointer_t<decltype(tpt_blas_t::sgemm)> sgemm_;
__attribute__((weak)) std::remove_pointer_t<decltype(tpt_blas_t::dgemm)> dgemm_;
__attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);
}

extern "C" __attribute__((visibility("default"))) PyObject *PyInit__C() {
  HANDLE_TH_ERRORS
  tpt_glue::register_rows();
  const tpt_blas_t blas = {&sgemm_, &dgemm_, &MKL_Set_Num_Threads_Local};
  tpt_blas_use(&blas);
  torch::utils::register_fork_handler_for_device_init(tpt_glue::kTpu);
  // After all of Python's own exit functions, which may still use tensors, and before those of C, in which plugins end. Where
  // Python has no room for it (32 of them), the core's own come late: a compile then may meet a plugin half taken apart.
  (void)Py_AtExit(tpt_runtime_end);
  return PyModule_Create(&tpt_glue::definition);
  END_HANDLE_TH_ERRORS
}
