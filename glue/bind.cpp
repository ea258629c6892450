// bind.cpp - finds the schemas that a row serves. A row is named like the functional overload; its in-place and out= forms are
// found by signature, since their overload names follow no rule (sum.dim_IntList has sum.IntList_out).
#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "convert.h"

namespace tpt_glue {

namespace {

using NameIndex = std::unordered_map<std::string, std::vector<c10::OperatorName>>;

NameIndex index_names() {
  NameIndex index;
  for (auto& name : c10::Dispatcher::singleton().getAllOpNames()) index[name.name].push_back(name);
  return index;
}

bool kind_of(const c10::TypePtr& type, Kind* out) {
  switch (type->kind()) {
    case c10::TypeKind::OptionalType:
      return kind_of(type->castRaw<c10::OptionalType>()->getElementType(), out);
    case c10::TypeKind::TensorType:
      *out = Kind::Tensor;
      return true;
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      *out = Kind::Number;
      return true;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      *out = Kind::Int;
      return true;
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      *out = Kind::Bool;
      return true;
    case c10::TypeKind::StringType:
      *out = Kind::String;
      return true;
    case c10::TypeKind::ScalarTypeType:
      *out = Kind::DType;
      return true;
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
      *out = Kind::Format;
      return true;
    case c10::TypeKind::DeviceObjType:
      *out = Kind::Device;
      return true;
    case c10::TypeKind::GeneratorType:
      *out = Kind::Generator;
      return true;
    case c10::TypeKind::ListType: {
      Kind item;
      if (!kind_of(type->castRaw<c10::ListType>()->getElementType(), &item)) return false;
      switch (item) {
        case Kind::Tensor:
          *out = Kind::TensorList;
          return true;
        case Kind::Number:
          *out = Kind::NumberList;
          return true;
        case Kind::Int:
          *out = Kind::IntList;
          return true;
        case Kind::Bool:
          *out = Kind::BoolList;
          return true;
        default:
          return false;
      }
    }
    default:
      return false;
  }
}

bool is_option(const std::string& name) {
  return name == "dtype" || name == "layout" || name == "device" || name == "pin_memory";
}

// Same arguments in the same order, out= ones left aside. With `loose`, tensor options too: `zeros` has them, `zeros.out` not.
bool same_signature(const c10::FunctionSchema& a, const c10::FunctionSchema& b, bool loose) {
  const auto list = [loose](const c10::FunctionSchema& schema) {
    std::vector<const c10::Argument*> args;
    for (const auto& arg : schema.arguments()) {
      if (!arg.is_out() && !(loose && is_option(arg.name()))) args.push_back(&arg);
    }
    return args;
  };
  const auto x = list(a), y = list(b);
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); i++) {
    if (x[i]->name() != y[i]->name() || *x[i]->real_type() != *y[i]->real_type()) return false;
  }
  return true;
}

bool has_layout(const c10::FunctionSchema& schema) {
  const auto& args = schema.arguments();
  return std::any_of(args.begin(), args.end(), [](const c10::Argument& arg) { return arg.name() == "layout"; });
}

bool has_out(const c10::FunctionSchema& schema) {
  const auto& args = schema.arguments();
  return std::any_of(args.begin(), args.end(), [](const c10::Argument& arg) { return arg.is_out(); });
}

bool has_write(const c10::FunctionSchema& schema) {
  const auto& args = schema.arguments();
  return std::any_of(args.begin(), args.end(),
                     [](const c10::Argument& arg) { return arg.alias_info() != nullptr && arg.alias_info()->isWrite(); });
}

std::string inplace_name(const std::string& base) {
  const size_t colon = base.rfind(':');
  const std::string space = base.substr(0, colon + 1), name = base.substr(colon + 1);
  // __lshift__ has __ilshift__
  return name.rfind("__", 0) == 0 ? space + "__i" + name.substr(2) : base + "_";
}

std::string text_of(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool fill_slots(Binding* binding, std::string* why) {
  const auto& args = binding->handle.schema().arguments();
  for (size_t i = 0; i < args.size(); i++) {
    Slot slot{};
    if (!kind_of(args[i].real_type(), &slot.kind)) {
      *why = "argument " + args[i].name() + " has a type that the core does not take: " + args[i].real_type()->str();
      return false;
    }
    const int at = static_cast<int>(i);
    if (args[i].name() == "pin_memory") slot.kind = Kind::Ignored;
    if (args[i].name() == "layout") binding->layout_slot = at;
    if (slot.kind == Kind::Device) binding->device_slot = at;
    if (slot.kind == Kind::Generator) binding->generator_slot = at;
    slot.write = args[i].alias_info() != nullptr && args[i].alias_info()->isWrite();
    slot.out = args[i].is_out();
    slot.sizes = slot.kind == Kind::IntList && (args[i].name() == "size" || args[i].name() == "sizes");
    binding->has_out |= slot.out;
    binding->has_write |= slot.write;
    binding->slots.push_back(slot);
  }
  return true;
}

// The argument whose alias set a return shares, or -1.
int aliased_arg(const c10::FunctionSchema& schema, const c10::Argument& ret) {
  if (ret.alias_info() == nullptr) return -1;
  const auto& args = schema.arguments();
  for (size_t i = 0; i < args.size(); i++) {
    if (args[i].alias_info() != nullptr && args[i].alias_info()->beforeSets() == ret.alias_info()->beforeSets()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

bool fill_returns(Binding* binding, std::string* why) {
  const auto& schema = binding->handle.schema();
  int fresh = 0, lists = 0;
  for (const auto& ret : schema.returns()) {
    Kind kind = Kind::Ignored;
    const bool known = kind_of(ret.real_type(), &kind);
    Return item{Return::Value, -1};
    const int arg = aliased_arg(schema, ret);
    if (arg >= 0) {
      if (!binding->slots[static_cast<size_t>(arg)].write) {
        *why = "it returns a view";
        return false;
      }
      item = {Return::Alias, arg};
    } else if (known && kind == Kind::Tensor) {
      item.kind = Return::Fresh;
      fresh++;
    } else if (known && kind == Kind::TensorList) {
      item.kind = Return::FreshList;
      lists++;
    }
    binding->returns.push_back(item);
  }
  const int count = static_cast<int>(binding->returns.size());
  binding->fresh = fresh + lists > 0;
  binding->plain = fresh == count || (lists == 1 && count == 1);
  return true;
}

Before before_of(const std::string& base) {
  if (base == "aten::index" || base == "aten::_unsafe_index") return Before::Index;
  if (base == "aten::index_put" || base == "aten::index_put_" || base == "aten::_index_put_impl_" ||
      base == "aten::_index_put_impl" || base == "aten::_unsafe_index_put") {
    return Before::IndexPut;
  }
  if (base == "aten::unique_dim" || base == "aten::unique_dim_consecutive") return Before::UniqueDim;
  if (base == "aten::unique_consecutive") return Before::Unique;
  if (base == "aten::repeat_interleave") return Before::Repeat;
  if (base == "aten::dot" || base == "aten::vdot") return Before::Dot;
  if (base == "aten::fill_" || base == "aten::zero_") return Before::Fill;
  return Before::Nothing;
}

// Where cpu refuses to write what it reads, even at the same places.
bool must_be_apart(const std::string& base, uint32_t flags) {
  if (base == "aten::masked_scatter" || base == "aten::masked_scatter_") return false;
  return (flags & TPT_ROW_INDEX) != 0 || base == "aten::cat" || base == "aten::stack" || base == "aten::masked_select";
}

tpt_status_t* bind_core(Binding* binding) {
  std::vector<tpt_param_t> params;
  const auto& args = binding->handle.schema().arguments();
  for (size_t i = 0; i < args.size(); i++) params.push_back({args[i].name().c_str(), binding->slots[i].write});
  if (binding->flags & TPT_ROW_RNG) {
    binding->rng_arg = binding->generator_slot;
    if (binding->rng_arg < 0) {
      binding->rng_arg = static_cast<int>(params.size());
      params.push_back({"generator", false});
    }
  }
  params.push_back({"__default_dtype", false});
  binding->nargs = static_cast<int>(params.size());
  return tpt_op_bind(binding->row, binding->name.c_str(), binding->nargs, params.data(), binding->fresh, &binding->op);
}

// Why a schema must not get a kernel of ours, or nullptr.
const char* refusal(const c10::OperatorHandle& handle) {
  if (handle.hasKernelForDispatchKey(kKey)) return "the glue has a kernel of its own";
  if (handle.operator_name().name == "aten::addbmm_") return "it resizes self: composed (_decompose.py)";
  // A backend kernel would hide PyTorch's decomposition from autograd, unless the op has a gradient formula of its own.
  if (handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
      !handle.hasKernelForDispatchKey(c10::DispatchKey::Autograd)) {
    return "PyTorch decomposes it (CompositeImplicit)";
  }
  return nullptr;
}

// Binds one schema of a row; notes the reason when it can't.
Binding* bind_schema(const tpt_row_t* row, const c10::OperatorName& name) {
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  std::string why;
  if (!handle.has_value()) {
    why = "PyTorch has no such op";
  } else if (const char* refused = refusal(*handle)) {
    why = refused;
  } else {
    auto binding = std::make_unique<Binding>(*handle, row);
    binding->name = text_of(name);
    binding->flags = tpt_row_flags(row);
    binding->foreach = name.name.find("::_foreach_") != std::string::npos || name.name.find("::_fused_") != std::string::npos;
    binding->before = before_of(name.name);
    binding->apart = must_be_apart(name.name, binding->flags);
    const bool host = (binding->flags & TPT_ROW_HOST) != 0;  // any argument will do: the core never sees it
    if (host || (fill_slots(binding.get(), &why) && fill_returns(binding.get(), &why))) {
      tpt_status_t* status = host ? nullptr : bind_core(binding.get());
      if (status == nullptr) {
        bindings().push_back(binding.release());
        return bindings().back();
      }
      why = tpt_status_message(status);
      tpt_status_free(status);
    }
  }
  skipped_rows().push_back({text_of(name), why});
  return nullptr;
}

struct Family {
  const tpt_row_t* row;
  c10::OperatorName exact;
};

// The other forms of a row: in-place and out= overloads of equal signature that no row names itself.
void bind_forms(const Family& family, const NameIndex& names, std::unordered_set<std::string>* taken) {
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto exact = dispatcher.findSchema(family.exact);
  if (!exact.has_value() || !exact->hasSchema() || has_out(exact->schema())) return;
  const auto& schema = exact->schema();
  for (const std::string& base : {inplace_name(family.exact.name), family.exact.name}) {
    const auto entry = names.find(base);
    if (entry == names.end()) continue;
    const bool inplace = base != family.exact.name;
    for (const bool loose : {false, true}) {
      if (loose && (inplace || !has_layout(schema))) continue;
      for (const auto& name : entry->second) {
        const auto handle = dispatcher.findSchema(name);
        if (!handle.has_value() || !has_write(handle->schema()) || has_out(handle->schema()) == inplace) continue;
        if (!same_signature(schema, handle->schema(), loose) || !taken->insert(text_of(name)).second) continue;
        Binding* binding = bind_schema(family.row, name);
        if (binding != nullptr && binding->has_out) binding->functional = exact;
      }
    }
  }
}

}  // namespace

std::vector<Binding*>& bindings() {
  static auto* list = new std::vector<Binding*>();
  return *list;
}

std::vector<Skipped>& skipped_rows() {
  static auto* list = new std::vector<Skipped>();
  return *list;
}

void bind_rows() {
  const NameIndex names = index_names();
  std::unordered_set<std::string> taken;
  std::vector<Family> families;
  for (size_t i = 0; i < tpt_row_count(); i++) {
    const tpt_row_t* row = tpt_row_at(i);
    std::string base = tpt_row_name(row), overload;
    const size_t dot = base.find('.');
    if (dot != std::string::npos) {
      overload = base.substr(dot + 1);
      base.resize(dot);
    }
    if (base.find("::") == std::string::npos) base = "aten::" + base;
    families.push_back({row, c10::OperatorName(base, overload)});
  }
  // A schema that a row names itself belongs to that row.
  for (const auto& family : families) {
    if (taken.insert(text_of(family.exact)).second) bind_schema(family.row, family.exact);
  }
  for (const auto& family : families) bind_forms(family, names, &taken);
}

}  // namespace tpt_glue
