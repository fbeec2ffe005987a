#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "keel/core/error.h"
#include "keel/core/json.h"
#include "keel/core/untrusted_text.h"
#include "keel/model/formats/safetensors/safetensors.h"
#include "keel/model/formats/safetensors/safetensors_format.h"

namespace keel {
namespace {

using namespace safetensors;

/// A tensor to write.
struct PendingTensor {
  const std::string* name;
  const Tensor* tensor;
  at::ScalarType dtype;
  std::string_view dtype_name;
  uint64_t bytes;
};

PendingTensor make_pending_tensor(const std::filesystem::path& path, const std::string& name, const Tensor& tensor,
                                  const std::optional<WeightDtypes>& dtypes) {
  const auto reject_tensor = [&](const auto&... fault) {
    fail(ExitCode::kInternal, "cannot write ", path, ": the tensor ", printable(name), " ", fault...);
  };
  if (const char* error = find_name_error(name)) reject_tensor("has a name that ", error);
  if (!tensor.defined()) reject_tensor("is undefined");
  const at::ScalarType dtype = dtypes ? dtypes->get(name) : tensor.scalar_type();
  const auto* known = std::find_if(kDtypes.begin(), kDtypes.end(), [&](auto& d) { return d.dtype == dtype; });
  if (known == kDtypes.end()) {
    reject_tensor("has the dtype ", c10::toString(dtype), "; expected one of ", known_dtypes());
  }
  if (tensor.dim() > static_cast<int64_t>(kMaxRank)) reject_tensor("has more than ", kMaxRank, " dimensions");
  const uint64_t bytes = static_cast<uint64_t>(tensor.numel()) * c10::elementSize(dtype);
  return {&name, &tensor, dtype, known->name, bytes};
}

/// Sorts the tensors into the order of the file.
std::vector<PendingTensor> sort_for_file(const std::filesystem::path& path,
                                         const std::vector<std::pair<std::string, Tensor>>& tensors,
                                         const std::optional<WeightDtypes>& dtypes) {
  std::vector<PendingTensor> order;
  order.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) order.push_back(make_pending_tensor(path, name, tensor, dtypes));
  std::sort(order.begin(), order.end(), [](const PendingTensor& a, const PendingTensor& b) {
    const auto size_a = c10::elementSize(a.dtype), size_b = c10::elementSize(b.dtype);
    return size_a != size_b ? size_a > size_b : *a.name < *b.name;
  });
  std::vector<std::string_view> names;
  for (const PendingTensor& out : order) names.push_back(*out.name);
  std::sort(names.begin(), names.end());
  const auto duplicate = std::adjacent_find(names.begin(), names.end());
  if (duplicate != names.end()) {
    fail(ExitCode::kInternal, "cannot write ", path, ": two tensors have the name ", printable(*duplicate));
  }
  return order;
}

/// Builds the length and the header, padded with spaces so that the data is 8-byte aligned.
std::string make_header(const std::filesystem::path& path, const std::vector<PendingTensor>& order,
                        const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, value] : metadata) {
    if (first_bad_utf8(key) || first_bad_utf8(value)) {
      fail(ExitCode::kInternal, "cannot write ", path, ": the metadata ", printable(key), " is not UTF-8");
    }
  }
  std::string json = "{";
  if (!metadata.empty()) json += "\"__metadata__\":" + Json(metadata).dump();
  uint64_t begin = 0;
  for (const PendingTensor& out : order) {
    const Json entry = {
        {"dtype", out.dtype_name}, {"shape", out.tensor->sizes().vec()}, {"data_offsets", {begin, begin + out.bytes}}};
    json += (json.size() > 1 ? "," : "") + Json(*out.name).dump() + ":" + entry.dump();
    begin += out.bytes;
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxHeaderBytes) {
    fail(ExitCode::kInternal, "cannot write ", path, ": its header has ", json.size(),
         " bytes; readers accept at most ", kMaxHeaderBytes,
         ", so split the tensors into several files or shorten the metadata");
  }
  const uint64_t length = json.size();
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + json;
}

Tensor convert_for_file(const std::filesystem::path& path, const PendingTensor& out) {
  const Tensor tensor = out.tensor->detach().to(at::kCPU, out.dtype).contiguous();
  if (out.dtype == at::kHalf && (tensor.isinf() & out.tensor->detach().cpu().isfinite()).any().item<bool>())
    fail(
        ExitCode::kHealthGuard, "cannot write ", path, ": the tensor ", printable(*out.name),
        " has values above the float16 maximum, 65504; start from a bfloat16 or float32 copy (`keel convert --dtype`)");
  return tensor;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata, const std::optional<WeightDtypes>& dtypes) {
  const std::vector<PendingTensor> order = sort_for_file(path, tensors, dtypes);
  const std::string header = make_header(path, order, metadata);
  DurableFile file(path);
  file.write(header);
  for (const PendingTensor& out : order) {
    const Tensor tensor = convert_for_file(path, out);
    file.write(std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), out.bytes));
  }
  file.commit();
}

}  // namespace keel
