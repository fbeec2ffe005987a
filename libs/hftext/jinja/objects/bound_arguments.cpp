#include "libs/hftext/jinja/objects/bound_arguments.h"

#include <algorithm>

namespace keel::jinja {

Value name_of(Runtime& runtime, const Arguments& arguments, const std::string& name) {
  return runtime.text(TracedText(name, arguments.untrusted_names));
}

void step_arguments(Runtime& runtime, const Arguments& arguments) {
  for (const Value& value : arguments.positional)
    if (value.is_text()) runtime.step_search(value.text().size());
  for (const auto& [name, value] : arguments.named)
    if (value.is_text()) runtime.step_search(value.text().size());
}

BoundArguments::BoundArguments(Runtime& runtime, std::string_view function, const Arguments& arguments,
                               std::initializer_list<std::string_view> parameters, size_t required)
    : runtime_(runtime), function_(function), names_(parameters), values_(parameters.size()) {
  if (arguments.positional.size() > names_.size()) {
    runtime.fail("'", function, "' takes at most ", names_.size(), " arguments, got ", arguments.positional.size());
  }
  std::copy(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end() || name.empty()) runtime.fail("'", function, "' has no argument called '", name, "'");
    std::optional<Value>& slot = values_[static_cast<size_t>(found - names_.begin())];
    if (slot) runtime.fail("the argument '", name, "' of '", function, "' is given twice");
    slot = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!values_[i]) runtime.fail("'", function, "' needs ", required, " arguments, got ", arguments.positional.size());
  }
}

int64_t BoundArguments::integer(size_t index, int64_t default_value) const {
  if (!has(index)) return default_value;
  const Value& value = *values_[index];
  if (value.is_undefined()) runtime_.fail_undefined(value);
  if (!value.is_integer()) {
    runtime_.fail("argument ", index + 1, " of '", function_, "' is ", type_name(value), "; it must be an integer");
  }
  return value.integer();
}

std::optional<std::string> BoundArguments::text(size_t index) const {
  if (!has(index) || values_[index]->is_none()) return std::nullopt;
  const Value& value = *values_[index];
  if (value.is_undefined()) runtime_.fail_undefined(value);
  if (!value.is_text()) {
    runtime_.fail("argument ", index + 1, " of '", function_, "' is ", type_name(value), "; it must be a string");
  }
  return value.text();
}

}  // namespace keel::jinja
