#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libs/hftext/jinja/objects/builtins.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {

/// Charges steps for strings among the arguments, because functions copy and search them.
void step_arguments(Runtime& runtime, const Arguments& arguments);

/// Arguments of a call bound to parameters.
class BoundArguments {
 public:
  /// A parameter with an empty name is positional-only. The first `required` parameters are mandatory.
  BoundArguments(Runtime& runtime, std::string_view function, const Arguments& arguments,
                 std::initializer_list<std::string_view> parameters, size_t required = 0);

  bool has(size_t index) const { return values_[index].has_value(); }
  Value at(size_t index) const { return values_[index].value_or(Value(None{})); }
  bool is_true(size_t index) const { return has(index) && jinja::is_true(*values_[index]); }
  int64_t integer(size_t index, int64_t default_value) const;
  /// A string, or nullopt if it is None or was not passed.
  std::optional<std::string> text(size_t index) const;

 private:
  Runtime& runtime_;
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace keel::jinja
