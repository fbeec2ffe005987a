#include "python/op_arguments.h"

#include "keel/objective/checks.h"
#include "keel/objective/methods.h"

namespace keel {

Tensor or_none(const OptionalTensor& tensor) { return tensor.value_or(Tensor()); }

std::vector<int64_t> integers(const char* name, const OptionalTensor& tensor) {
  if (!tensor) return {};
  if (!at::isIntegralType(tensor->scalar_type(), /*includeBool=*/false) || tensor->dim() != 1)
    fail(ExitCode::kBadConfiguration, name, " is ", c10::toString(tensor->scalar_type()), " with ", tensor->dim(),
         " dimensions; expected integers, one per sequence");
  const Tensor values = tensor->to(at::kCPU, at::kLong).contiguous();
  return {values.data_ptr<int64_t>(), values.data_ptr<int64_t>() + values.numel()};
}

Tensor flags(const char* name, const OptionalTensor& given, const Tensor& like) {
  return given ? as_bool_flags(name, *given, like) : Tensor();
}

std::vector<int64_t> lengths_or_one(const OptionalTensor& lengths, int64_t tokens) {
  std::vector<int64_t> result = lengths ? integers("lengths", lengths) : std::vector<int64_t>{tokens};
  check_lengths(result, tokens);
  return result;
}

std::vector<int64_t> groups_or_one(const OptionalTensor& groups, size_t sequences) {
  std::vector<int64_t> result = groups ? integers("groups", groups) : std::vector<int64_t>(sequences, 0);
  if (result.size() != sequences)
    fail(ExitCode::kBadConfiguration, "groups has ", result.size(), " entries; expected one for each of the ",
         sequences, " sequences");
  return result;
}

std::vector<double> numbers_of(const Tensor& tensor) {
  const Tensor values = tensor.to(at::kCPU, at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

std::optional<double> number_of(const OptionalTensor& tensor) {
  return tensor ? std::optional(numbers_of(*tensor).at(0)) : std::nullopt;
}

TrustRegion region_of(const std::string& name, const Names& names, const Tensor& numbers, const Names& word_names,
                      const Names& words) {
  const std::vector<double> values = numbers_of(numbers);
  if (names.size() != values.size() || word_names.size() != words.size())
    fail(ExitCode::kInternal, names.size(), " names of ", values.size(), " numbers, ", word_names.size(), " of ",
         words.size(), " strings");
  Json parameters = Json::object();
  for (size_t i = 0; i < names.size(); ++i) parameters[names[i]] = values[i] == kUnlimited ? Json() : Json(values[i]);
  for (size_t i = 0; i < words.size(); ++i) parameters[word_names[i]] = words[i];
  return make_region(name, parameters);
}

}  // namespace keel
