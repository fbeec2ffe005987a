#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libs/hftext/jinja/objects/builtins.h"
#include "libs/hftext/jinja/objects/runtime.h"

namespace keel::jinja {

/// Counts the texts among the arguments as work: functions copy and search what they are given.
void step_arguments(Runtime& runtime, const Arguments& arguments);

/// The arguments of a call, put to the parameters of what is called.
class BoundArguments {
 public:
  /// A parameter without a name takes its value by position only; the first `required` must be given.
  BoundArguments(Runtime& runtime, std::string_view function, const Arguments& arguments,
                 std::initializer_list<std::string_view> parameters, size_t required = 0);

  bool has(size_t index) const { return values_[index].has_value(); }
  /// The value; None when it was not given.
  Value at(size_t index) const { return values_[index].value_or(Value(None{})); }
  bool is_true(size_t index) const { return has(index) && jinja::is_true(*values_[index]); }
  int64_t integer(size_t index, int64_t otherwise) const;
  /// A text; None and nothing give nothing.
  std::optional<std::string> text(size_t index) const;

 private:
  Runtime& runtime_;
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace keel::jinja
