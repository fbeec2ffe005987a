#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "keel/core/error.h"
#include "keel/core/foreign_text.h"
#include "keel/core/json.h"
#include "keel/model/formats/safetensors/safetensors.h"
#include "keel/model/formats/safetensors/safetensors_format.h"

namespace keel {
namespace {

using namespace safetensors;

/// One tensor on its way into a file.
struct Outgoing {
  const std::string* name;
  const Tensor* tensor;
  at::ScalarType dtype;
  std::string_view dtype_name;
  uint64_t bytes;
};

Outgoing checked_outgoing(const std::filesystem::path& path, const std::string& name, const Tensor& tensor,
                          const std::optional<WeightDtypes>& dtypes) {
  const auto refuse_to_write = [&](const auto&... fault) {
    fail(ExitCode::kInternal, "cannot write ", path, ": the tensor ", printable(name), " ", fault...);
  };
  if (const char* fault = name_fault(name)) refuse_to_write("has a name that ", fault);
  if (!tensor.defined()) refuse_to_write("is undefined");
  const at::ScalarType written = dtypes ? dtypes->of(name) : tensor.scalar_type();
  const auto* known = std::find_if(kDtypes.begin(), kDtypes.end(), [&](auto& d) { return d.dtype == written; });
  if (known == kDtypes.end()) {
    refuse_to_write("has the dtype ", c10::toString(written), "; expected one of ", known_dtypes());
  }
  if (tensor.dim() > static_cast<int64_t>(kMaxRank)) refuse_to_write("has more than ", kMaxRank, " dimensions");
  const uint64_t bytes = static_cast<uint64_t>(tensor.numel()) * c10::elementSize(written);
  return {&name, &tensor, written, known->name, bytes};
}

/// The tensors in the order of the file.
std::vector<Outgoing> in_file_order(const std::filesystem::path& path,
                                    const std::vector<std::pair<std::string, Tensor>>& tensors,
                                    const std::optional<WeightDtypes>& dtypes) {
  std::vector<Outgoing> order;
  order.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) order.push_back(checked_outgoing(path, name, tensor, dtypes));
  std::sort(order.begin(), order.end(), [](const Outgoing& a, const Outgoing& b) {
    const auto size_a = c10::elementSize(a.dtype), size_b = c10::elementSize(b.dtype);
    return size_a != size_b ? size_a > size_b : *a.name < *b.name;
  });
  std::vector<std::string_view> names;
  for (const Outgoing& out : order) names.push_back(*out.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    fail(ExitCode::kInternal, "cannot write ", path, ": two tensors have the name ", printable(*twice));
  }
  return order;
}

/// The length and the header, padded with spaces so that the data begins at a multiple of eight.
std::string make_header(const std::filesystem::path& path, const std::vector<Outgoing>& order,
                        const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, value] : metadata) {
    if (first_bad_utf8(key) || first_bad_utf8(value)) {
      fail(ExitCode::kInternal, "cannot write ", path, ": the metadata ", printable(key), " is not UTF-8");
    }
  }
  std::string json = "{";
  if (!metadata.empty()) json += "\"__metadata__\":" + Json(metadata).dump();
  uint64_t begin = 0;
  for (const Outgoing& out : order) {
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
         ", so spread the tensors over several files or shorten the metadata");
  }
  const uint64_t length = json.size();
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + json;
}

Tensor as_written(const std::filesystem::path& path, const Outgoing& out) {
  const Tensor tensor = out.tensor->detach().to(at::kCPU, out.dtype).contiguous();
  if (out.dtype == at::kHalf && (tensor.isinf() & out.tensor->detach().cpu().isfinite()).any().item<bool>())
    fail(
        ExitCode::kHealthGuard, "cannot write ", path, ": the tensor ", printable(*out.name),
        " has numbers beyond float16's largest, 65504; start from a bfloat16 or float32 copy (`keel convert --dtype`)");
  return tensor;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata, const std::optional<WeightDtypes>& dtypes) {
  const std::vector<Outgoing> order = in_file_order(path, tensors, dtypes);
  const std::string header = make_header(path, order, metadata);
  DurableFile file(path);
  file.write(header);
  for (const Outgoing& out : order) {
    const Tensor tensor = as_written(path, out);
    file.write(std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), out.bytes));
  }
  file.commit();
}

}  // namespace keel
