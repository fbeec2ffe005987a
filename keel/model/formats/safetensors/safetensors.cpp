#include "keel/model/formats/safetensors/safetensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "keel/core/untrusted_text.h"
#include "keel/model/formats/safetensors/huge_pages.h"
#include "keel/model/formats/safetensors/safetensors_format.h"

namespace keel {
namespace {

using namespace safetensors;

constexpr size_t kMaxTensors = 1'000'000;  // limits the memory that a malicious header can claim

template <class... Parts>
[[noreturn]] void reject_file(const std::filesystem::path& path, const Parts&... parts) {
  fail(ExitCode::kBadInput, path, " is not a valid safetensors file: ", parts...,
       "; fetch it again or write it again with a safetensors library");
}

/// The size in bytes, or nullopt if elements or bytes exceed 2^63-1. Zero dimensions count as one, so that the strides
/// of empty tensors cannot overflow either.
std::optional<uint64_t> checked_bytes(const std::vector<int64_t>& shape, at::ScalarType dtype) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes)) return std::nullopt;
  }
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

/// A SAX parser of the JSON header. It accepts only the structure of the format, so deep nesting fails at once and
/// duplicate keys are detected.
class SafetensorsHeaderReader final : public JsonSaxHandler {
 public:
  explicit SafetensorsHeaderReader(const std::filesystem::path& path) : JsonSaxHandler(kFileDepth), path_(path) {}
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string> metadata;

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(int64_t value) override { unexpected("the negative number ", value); }
  bool number_float(double, const std::string& text) override { unexpected("the number ", printable(text)); }

  bool number_unsigned(uint64_t value) override {
    if (state_ == State::kShape) {
      if (value > uint64_t{std::numeric_limits<int64_t>::max()}) unexpected("the number ", value);
      if (tensor_.shape.size() == kMaxRank)
        reject_file(path_, current_field(), " has more than ", kMaxRank, " dimensions");
      tensor_.shape.push_back(static_cast<int64_t>(value));
    } else if (state_ == State::kOffsets && num_offsets_ < 2) {
      (num_offsets_ == 0 ? tensor_.begin : tensor_.end) = value;
      ++num_offsets_;
    } else {
      unexpected("the number ", value);
    }
    return true;
  }

  bool string(std::string& value) override {
    if (state_ == State::kMetadata) {
      metadata.emplace(key_, std::move(value));
    } else if (state_ == State::kTensor && key_ == "dtype") {
      const auto* known = std::find_if(kDtypes.begin(), kDtypes.end(), [&](auto& d) { return d.name == value; });
      if (known == kDtypes.end()) {
        reject_file(path_, current_field(), " has the dtype ", printable(value),
                    ", which is not supported; expected one of ", known_dtypes());
      }
      tensor_.dtype = known->dtype;
    } else {
      unexpected("the string ", printable(value));
    }
    return true;
  }

  bool begin_object() override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop && key_ == kMetadataKey) {
      if (seen_metadata_) reject_file(path_, "the key \"__metadata__\" appears twice");
      seen_metadata_ = true;
      state_ = State::kMetadata;
    } else if (state_ == State::kTop) {
      start_tensor();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(std::string& key) override {
    key_ = std::move(key);
    if (state_ == State::kMetadata && metadata.contains(key_)) {
      reject_file(path_, "the metadata key ", printable(key_), " appears twice");
    }
    if (state_ == State::kTensor) {
      const auto* field = std::find(kFields.begin(), kFields.end(), key_);
      if (field == kFields.end()) {
        reject_file(path_, "tensor ", printable(tensor_.name), " has an unknown field ", printable(key_),
                    "; expected dtype, shape, data_offsets");
      }
      bool& seen = seen_[static_cast<size_t>(field - kFields.begin())];
      if (seen) reject_file(path_, current_field(), " appears twice");
      seen = true;
    }
    return true;
  }

  bool begin_array() override {
    if (state_ == State::kTensor && key_ == "shape") {
      state_ = State::kShape;
    } else if (state_ == State::kTensor && key_ == "data_offsets") {
      state_ = State::kOffsets;
    } else {
      unexpected("a list");
    }
    return true;
  }

  bool finish_array() override {
    if (state_ == State::kOffsets && num_offsets_ != 2)
      reject_file(path_, current_field(), " needs two numbers; got ", num_offsets_);
    state_ = State::kTensor;
    return true;
  }

  bool finish_object() override {
    if (state_ == State::kTensor) finish_tensor();
    state_ = State::kTop;  // also at the end: the parser checks that nothing follows
    return true;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    reject_file(path_, "the header is not JSON, or is cut short, at its byte ", position);
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const override { reject_file(path_, "the header: ", reason); }

  enum class State { kStart, kTop, kMetadata, kTensor, kShape, kOffsets };
  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

  std::string current_field() const {
    switch (state_) {
      case State::kStart:
        return "the header";
      case State::kTop:
        return "the entry " + printable(key_);
      case State::kMetadata:
        return "the metadata key " + printable(key_);
      default:
        return "tensor " + printable(tensor_.name) + ", " + key_;
    }
  }

  template <class... Parts>
  [[noreturn]] void unexpected(const Parts&... got) const {
    const bool fields = state_ == State::kTensor;
    const char* expected = state_ == State::kStart || state_ == State::kTop ? "an object"
                           : state_ == State::kMetadata                     ? "a string"
                           : state_ == State::kShape                        ? "whole numbers from 0 to 2^63-1"
                           : state_ == State::kOffsets                      ? "two whole numbers from 0 to 2^64-1"
                           : fields && key_ == "dtype"                      ? "a string"
                                                                            : "a list of whole numbers";
    reject_file(path_, current_field(), " holds ", got..., "; expected ", expected);
  }

  void start_tensor() {
    if (const char* error = find_name_error(key_)) reject_file(path_, "the tensor name ", printable(key_), " ", error);
    if (tensors.size() == kMaxTensors) reject_file(path_, "it has more than ", kMaxTensors, " tensors");
    tensor_ = {};
    tensor_.name = key_;
    seen_ = {};
    num_offsets_ = 0;
    state_ = State::kTensor;
  }

  void finish_tensor() {
    for (size_t i = 0; i < kFields.size(); ++i) {
      if (!seen_[i]) reject_file(path_, "tensor ", printable(tensor_.name), " has no ", kFields[i]);
    }
    if (tensor_.end < tensor_.begin) {
      reject_file(path_, "tensor ", printable(tensor_.name), " ends at ", tensor_.end, ", before it begins at ",
                  tensor_.begin);
    }
    const std::optional<uint64_t> bytes = checked_bytes(tensor_.shape, tensor_.dtype);
    if (!bytes) reject_file(path_, "the size of tensor ", printable(tensor_.name), " overflows");
    if (*bytes != tensor_.end - tensor_.begin) {
      reject_file(path_, "tensor ", printable(tensor_.name), " spans ", tensor_.end - tensor_.begin,
                  " bytes, but its shape and dtype need ", *bytes);
    }
    tensors.push_back(std::move(tensor_));
  }

  const std::filesystem::path& path_;
  State state_ = State::kStart;
  std::string key_;  // the last key read, at any level
  bool seen_metadata_ = false;
  TensorInfo tensor_;
  std::array<bool, 3> seen_{};  // which of kFields the current tensor has had
  int num_offsets_ = 0;
};

/// Reads the header. Its length is checked before memory is allocated.
std::string read_header(const InputFile& file) {
  if (file.size() < 8) reject_file(file.path(), "it has ", file.size(), " bytes; the header's length alone takes 8");
  uint64_t length = 0;
  file.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  constexpr std::string_view kPointer = "version https://git-lfs";  // the content of files in a clone without Git LFS
  std::string start(std::min<uint64_t>(file.size(), kPointer.size()), ' ');
  file.read_at(0, std::as_writable_bytes(std::span(start)));
  if (start == kPointer)
    fail(ExitCode::kBadInput, file.path(), " is a Git LFS pointer instead of the weights; download them ",
         "with: git lfs pull");
  if (length > kMaxHeaderBytes) {
    reject_file(file.path(), "its header claims ", length, " bytes; at most ", kMaxHeaderBytes, " are accepted");
  }
  if (length > file.size() - 8) {
    reject_file(file.path(), "its header claims ", length, " bytes, but only ", file.size() - 8, " follow");
  }
  std::string header(length, ' ');
  file.read_at(8, std::as_writable_bytes(std::span(header)));
  if (const auto bad = first_bad_utf8(header)) reject_file(file.path(), "the header is not UTF-8 at its byte ", *bad);
  // The JSON parser treats NUL as the end of input and skips a byte-order mark.
  if (const size_t nul = header.find('\0'); nul != header.npos) {
    reject_file(file.path(), "the header holds a NUL at its byte ", nul, "; it is padded with spaces");
  }
  const size_t first = header.find_first_not_of(" \t\r\n");
  if (first == header.npos || header[first] != '{') reject_file(file.path(), "the header does not begin with {");
  return header;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile result(InputFile::open(path));
  const std::string header = read_header(result.file_);
  result.data_begin_ = 8 + header.size();
  SafetensorsHeaderReader reader(path);
  parse_json_sax(header, reader);
  result.tensors_ = std::move(reader.tensors);
  result.metadata_ = std::move(reader.metadata);
  result.index_names();
  result.check_layout();
  return result;
}

/// Sorts the tensors by offset and builds the index of names.
void SafetensorsFile::index_names() {
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return tensors_[a].name < tensors_[b].name; });
  const auto duplicate = std::adjacent_find(
      by_name_.begin(), by_name_.end(), [&](uint32_t a, uint32_t b) { return tensors_[a].name == tensors_[b].name; });
  if (duplicate != by_name_.end())
    reject_file(file_.path(), "the tensor ", printable(tensors_[*duplicate].name), " appears twice");
}

/// Checks that the tensors cover the data exactly. Unused bytes could hide another file format.
void SafetensorsFile::check_layout() const {
  uint64_t covered = 0;
  for (const TensorInfo& tensor : tensors_) {
    if (tensor.begin != covered) {
      reject_file(file_.path(), "tensor ", printable(tensor.name), " begins at ", tensor.begin,
                  tensor.begin < covered ? ", inside the one before it" : ", after a gap", "; expected ", covered);
    }
    covered = tensor.end;
  }
  const uint64_t present = file_.size() - data_begin_;
  if (covered > present) reject_file(file_.path(), covered - present, " bytes are missing at its end");
  if (covered < present) reject_file(file_.path(), present - covered, " bytes follow the last tensor");
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [&](uint32_t i, std::string_view key) { return tensors_[i].name < key; });
  return found != by_name_.end() && tensors_[*found].name == name ? &tensors_[*found] : nullptr;
}

const TensorInfo& SafetensorsFile::at(std::string_view name) const {
  const TensorInfo* info = find(name);
  if (info == nullptr) {
    fail(ExitCode::kBadInput, file_.path(), " has no tensor ", printable(name), " among its ", tensors_.size(),
         "; check that the file belongs to this model");
  }
  return *info;
}

Tensor SafetensorsFile::read(std::string_view name) const {
  const TensorInfo& info = at(name);
  const Tensor tensor = empty_in_huge_pages(info.shape, info.dtype);
  const std::span bytes(static_cast<std::byte*>(tensor.mutable_data_ptr()), info.end - info.begin);
  parallel_for_huge_pages(static_cast<int64_t>(bytes.size()), [&](int64_t begin, int64_t end) {
    file_.read_at(data_begin_ + info.begin + begin, bytes.subspan(begin, end - begin));
  });
  // Using a C++ bool with another value than 0 or 1 is undefined behaviour.
  if (info.dtype == at::kBool &&
      std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; })) {
    reject_file(file_.path(), "the BOOL tensor ", printable(name), " holds a byte other than 0 and 1");
  }
  return tensor;
}

Tensor SafetensorsFile::read_float32(std::string_view name) const {
  const TensorInfo& info = at(name);
  if (info.dtype == at::kFloat || info.dtype == at::kBool) return read(name).to(at::kFloat);
  const Tensor tensor = empty_in_huge_pages(info.shape, at::kFloat), flat = tensor.view({-1});
  const int64_t width = static_cast<int64_t>(c10::elementSize(info.dtype));
  parallel_for_huge_pages(flat.numel() * sizeof(float), [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_grad;
    constexpr int64_t kPiece = 1 << 16;  // fits into the CPU cache between read and conversion
    const Tensor piece = at::empty({kPiece}, at::TensorOptions().dtype(info.dtype));
    for (int64_t i = begin / sizeof(float), last = end / sizeof(float); i < last; i += kPiece) {
      const int64_t count = std::min(kPiece, last - i);
      file_.read_at(data_begin_ + info.begin + i * width,
                    {static_cast<std::byte*>(piece.mutable_data_ptr()), static_cast<size_t>(count * width)});
      flat.narrow(0, i, count).copy_(piece.narrow(0, 0, count));
    }
  });
  return tensor;
}

}  // namespace keel
