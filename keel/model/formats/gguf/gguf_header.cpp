#include "keel/model/formats/gguf/gguf_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <ostream>
#include <span>
#include <unordered_set>

#include "keel/core/error.h"
#include "keel/core/untrusted_text.h"
#include "keel/model/formats/gguf/gguf_keys.h"

namespace keel {
namespace {

// Far above real models, but low enough that a 14 MB file cannot claim a gigabyte of memory.
constexpr uint64_t kMaxGgufTensors = 65'536, kMaxGgufKeys = 65'536;
constexpr uint64_t kMaxKeyBytes = 65'535, kMaxNameBytes = 64;  // limits of the format
constexpr uint64_t kMaxTextBytes = uint64_t{1} << 24;
constexpr uint64_t kMaxElements = uint64_t{1} << 22;  // over all lists
constexpr int kMaxListDepth = 4;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kDefaultAlignment = 32, kMinAlignment = 8, kMaxAlignment = uint64_t{1} << 20;
constexpr uint64_t kMaxInt64 = uint64_t{std::numeric_limits<int64_t>::max()};

// Minimum sizes of entries, to reject counts that do not fit into the file.
constexpr uint64_t kMinKeyEntryBytes = 8 + 1 + 4 + 1, kMinTensorEntryBytes = 8 + 1 + 4 + 8 + 4 + 8;

using enum gguf::ValueType;
constexpr std::array<uint64_t, 13> kMinValueBytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

template <class... Parts>
[[noreturn]] void reject(const std::filesystem::path& path, const Parts&... parts) {
  fail(ExitCode::kBadInput, path, " is not a valid GGUF file: ", parts...,
       "; fetch it again or write it again with a GGUF library");
}

/// A name in an error message; it is made printable only when the error is formatted.
struct Quoted {
  std::string_view text, prefix = "";
};
std::ostream& operator<<(std::ostream& out, const Quoted& quoted) {
  return out << quoted.prefix << printable(quoted.text);
}

/// Rounds `value` up to a multiple of `alignment` (a power of two), or returns nullopt above 2^63-1.
std::optional<uint64_t> align_up(uint64_t value, uint64_t alignment) {
  if (value > kMaxInt64 - (alignment - 1)) return std::nullopt;
  return (value + alignment - 1) & ~(alignment - 1);
}

double shortest_decimal(float value) {
  if (!std::isfinite(value)) return value;
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  double result = value;
  std::from_chars(text.data(), written.ptr, result);
  return result;
}

/// Reads the file sequentially through a buffer.
class Cursor {
 public:
  explicit Cursor(const InputFile& file) : file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return file_.size() - position_; }

  template <class... What>
  void require(uint64_t bytes, const What&... what) const {
    if (bytes > remaining()) {
      reject(file_.path(), "it ends at byte ", file_.size(), ", inside ", what..., ", which needs ", bytes,
             " bytes from byte ", position_);
    }
  }

  template <class T, class... What>
  T number(const What&... what) {
    require(sizeof(T), what...);
    T value;
    take(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  /// Reads a length and a UTF-8 string of this length.
  template <class... What>
  std::string text(uint64_t max_bytes, const What&... what) {
    const auto length = number<uint64_t>("the length of ", what...);
    if (length > max_bytes)
      reject(file_.path(), what..., " claims ", length, " bytes; at most ", max_bytes, " are accepted");
    require(length, what...);
    std::string value(length, '\0');
    take(std::as_writable_bytes(std::span(value)));
    if (const auto bad = first_bad_utf8(value)) reject(file_.path(), what..., " is not UTF-8 at its byte ", *bad);
    return value;
  }

 private:
  void take(std::span<std::byte> to) {
    constexpr uint64_t kWindow = 64 * 1024;
    while (!to.empty()) {
      if (position_ < window_begin_ || position_ >= window_begin_ + window_.size()) {
        if (to.size() >= kWindow) {
          file_.read_at(position_, to);
          position_ += to.size();
          return;
        }
        window_begin_ = position_;
        window_.resize(std::min(kWindow, remaining()));
        file_.read_at(window_begin_, window_);
      }
      const auto from = std::span(window_).subspan(position_ - window_begin_);
      const size_t count = std::min(from.size(), to.size());
      std::copy_n(from.begin(), count, to.begin());
      to = to.subspan(count);
      position_ += count;
    }
  }

  const InputFile& file_;
  uint64_t position_ = 0, window_begin_ = 0;
  std::vector<std::byte> window_;
};

class GgufHeaderReader {
 public:
  explicit GgufHeaderReader(const InputFile& file) : file_(file), path_(file.path()), cursor_(file) {}

  GgufHeader read() {
    read_counts();
    read_metadata();
    header_.tensors.reserve(tensor_count_);
    for (uint64_t i = 0; i < tensor_count_; ++i) header_.tensors.push_back(read_tensor(i));
    locate_tensors();
    return std::move(header_);
  }

 private:
  void read_counts() {
    const auto magic = cursor_.number<std::array<char, 4>>("the magic number");
    if (const std::string_view got(magic.data(), 4); got != "GGUF") {
      reject(path_, "it begins with ", printable(got), "; expected \"GGUF\"");
    }
    const auto version = cursor_.number<uint32_t>("the version");
    if (version != 0 && (version & 0xffff) == 0) {
      reject(path_, "its version is ", version,
             ": the bytes of a big-endian file; only little-endian files are supported");
    }
    if (version != 2 && version != 3) reject(path_, "its version is ", version, "; versions 2 and 3 are supported");
    header_.version = version;
    tensor_count_ = read_count("tensors", kMaxGgufTensors, kMinTensorEntryBytes);
    key_count_ = read_count("keys", kMaxGgufKeys, kMinKeyEntryBytes);
  }

  uint64_t read_count(const char* what, uint64_t max_count, uint64_t min_bytes) {
    const auto count = cursor_.number<uint64_t>("the number of ", what);
    if (count > max_count) reject(path_, "it claims ", count, " ", what, "; at most ", max_count, " are accepted");
    if (count > cursor_.remaining() / min_bytes) {
      reject(path_, "it claims ", count, " ", what, ", but only ", cursor_.remaining(), " bytes follow");
    }
    return count;
  }

  void read_metadata() {
    Json tree = Json::object();
    auto& members = tree.get_ref<Json::object_t&>();
    std::unordered_set<std::string> seen;
    for (uint64_t i = 0; i < key_count_; ++i) {
      std::string key = cursor_.text(kMaxKeyBytes, "key ", i);
      if (key.empty()) reject(path_, "key ", i, " is empty");
      // Also rejects spaces: keys are words joined by dots, and errors print them on terminals.
      if (std::any_of(key.begin(), key.end(), [](char c) { return c <= ' ' || c > '~'; })) {
        reject(path_, "key ", i, ", ", Quoted{key}, ", has characters other than visible ASCII");
      }
      if (!seen.insert(key).second) reject(path_, "the key ", Quoted{key}, " appears twice");
      const auto type = cursor_.number<uint32_t>("the type of ", Quoted{key});
      if (key == "general.alignment") check_alignment_type(type);
      Json value = read_value(type, key, 0);
      if (key == "general.alignment") set_alignment(value.get<uint64_t>());
      members.emplace_back(std::move(key), std::move(value));
    }
    header_.metadata = GgufMetadata(path_, std::move(tree));
  }

  Json read_value(uint32_t type, const std::string& key, int depth) {
    const auto scalar = [&]<class T>(T) { return cursor_.number<T>("the value of ", Quoted{key}); };
    switch (type) {
      case kUint8:
        return scalar(uint8_t{});
      case kInt8:
        return scalar(int8_t{});
      case kUint16:
        return scalar(uint16_t{});
      case kInt16:
        return scalar(int16_t{});
      case kUint32:
        return scalar(uint32_t{});
      case kInt32:
        return scalar(int32_t{});
      case kFloat32:
        return shortest_decimal(scalar(float{}));
      case kBool: {
        const uint8_t byte = scalar(uint8_t{});
        if (byte > 1) reject(path_, "the value of ", Quoted{key}, " is a boolean of ", int{byte}, "; expected 0 or 1");
        return byte == 1;
      }
      case kText:
        return cursor_.text(kMaxTextBytes, "the value of ", Quoted{key});
      case kList:
        return read_list(key, depth + 1);
      case kUint64:
        return scalar(uint64_t{});
      case kInt64:
        return scalar(int64_t{});
      case kFloat64:
        return scalar(double{});
      default:
        reject(path_, "the value of ", Quoted{key}, " has the type ", type, "; expected 0 to 12");
    }
  }

  Json read_list(const std::string& key, int depth) {
    if (depth > kMaxListDepth) {
      reject(path_, "the value of ", Quoted{key}, " is nested in more than ", kMaxListDepth, " lists");
    }
    const auto type = cursor_.number<uint32_t>("the type of the list ", Quoted{key});
    const auto count = cursor_.number<uint64_t>("the length of the list ", Quoted{key});
    if (type >= kMinValueBytes.size()) {
      reject(path_, "the list ", Quoted{key}, " has elements of the type ", type, "; expected 0 to 12");
    }
    if (count > kMaxElements - list_elements_) {
      reject(path_, "the list ", Quoted{key}, " claims ", count, " elements; at most ", kMaxElements,
             " are accepted in all lists together");
    }
    list_elements_ += count;
    if (count > cursor_.remaining() / kMinValueBytes[type]) {
      reject(path_, "the list ", Quoted{key}, " claims ", count, " elements, but only ", cursor_.remaining(),
             " bytes follow");
    }
    Json list = Json::array();
    list.get_ref<Json::array_t&>().reserve(count);
    for (uint64_t i = 0; i < count; ++i) list.push_back(read_value(type, key, depth));
    return list;
  }

  void check_alignment_type(uint32_t type) const {
    if (type != kUint32) reject(path_, "general.alignment has the value type ", type, "; expected 4 (uint32)");
  }

  void set_alignment(uint64_t alignment) {
    if (!std::has_single_bit(alignment) || alignment < kMinAlignment || alignment > kMaxAlignment) {
      reject(path_, "general.alignment is ", alignment, "; expected a power of two from ", kMinAlignment, " to ",
             kMaxAlignment);
    }
    header_.alignment = alignment;
  }

  /// Returns the error in a tensor name, or nullptr. Names can end up in paths and on terminals.
  static const char* find_name_error(std::string_view name) {
    if (name.empty()) return "is empty";
    if (name.find('/') != name.npos || name.find('\\') != name.npos) return "holds a slash";
    if (name.find("..") != name.npos) return "holds \"..\"";
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (std::any_of(name.begin(), name.end(), is_control)) return "holds a control character";
    return nullptr;
  }

  /// `begin` and `end` are relative to the start of the data until locate_tensors().
  GgufTensor read_tensor(uint64_t index) {
    GgufTensor tensor;
    tensor.name = cursor_.text(kMaxNameBytes, "the name of tensor ", index);
    if (const char* error = find_name_error(tensor.name)) {
      reject(path_, "the name of tensor ", index, ", ", Quoted{tensor.name}, ", ", error);
    }
    const Quoted label{tensor.name, "tensor "};
    const auto dimensions = cursor_.number<uint32_t>("the number of dimensions of ", label);
    if (dimensions < 1 || dimensions > kMaxDimensions) {
      reject(path_, label, " has ", dimensions, " dimensions; expected 1 to ", kMaxDimensions);
    }
    for (uint32_t i = 0; i < dimensions; ++i) {
      const auto size = cursor_.number<uint64_t>("the shape of ", label);
      if (size < 1 || size > kMaxInt64) reject(path_, label, " has a dimension of ", size, "; expected 1 to 2^63-1");
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    const auto type = cursor_.number<uint32_t>("the type of ", label);
    tensor.format = find_gguf_format(type);
    if (tensor.format == nullptr) {
      fail(ExitCode::kBadInput, path_, ": ", label, " has the type ", type, " (", gguf_format_name(type),
           "), which is not supported; expected one of ", known_gguf_formats(),
           ": use a file of the model in one of them (Q4_K_M, Q8_0), or its folder");
    }
    tensor.begin = cursor_.number<uint64_t>("the offset of ", label);
    if (tensor.begin % header_.alignment != 0) {
      reject(path_, label, " begins at ", tensor.begin, " of the data, which is not a multiple of the alignment ",
             header_.alignment);
    }
    if (__builtin_add_overflow(tensor.begin, checked_bytes(tensor, label), &tensor.end)) {
      reject(path_, label, " begins at ", tensor.begin, " of the data, and its end overflows");
    }
    return tensor;
  }

  uint64_t checked_bytes(const GgufTensor& tensor, const Quoted& label) const {
    const uint64_t row = static_cast<uint64_t>(tensor.shape.back()), block = tensor.format->block_elements;
    if (row % block != 0) {
      reject(path_, label, " has rows of ", row, " elements; ", tensor.format->name, " comes in blocks of ", block);
    }
    // Elements are checked separately: a block can have fewer bytes than elements.
    int64_t elements = 1, bytes = tensor.format->block_bytes;
    for (const int64_t size : tensor.shape) {
      if (__builtin_mul_overflow(elements, size, &elements))
        reject(path_, "the number of elements of ", label, " overflows");
    }
    if (__builtin_mul_overflow(bytes, elements / static_cast<int64_t>(block), &bytes)) {
      reject(path_, "the size of ", label, " overflows");
    }
    return static_cast<uint64_t>(bytes);
  }

  /// Checks that the tensors and the padding between them cover the data. Unused bytes could hide another file format.
  void locate_tensors() {
    const std::optional<uint64_t> data_begin = align_up(cursor_.position(), header_.alignment);
    if (!data_begin) reject(path_, "the offset of its data overflows");
    header_.data_begin = *data_begin;
    std::vector<uint32_t> order(header_.tensors.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return header_.tensors[a].begin < header_.tensors[b].begin; });
    const uint64_t data_bytes = file_.size() - std::min(file_.size(), *data_begin);
    uint64_t expected_begin = 0;
    for (const uint32_t i : order) {
      GgufTensor& tensor = header_.tensors[i];
      const Quoted label{tensor.name, "tensor "};
      if (tensor.begin != expected_begin) {
        reject(path_, label, " begins at ", tensor.begin, " of the data, ",
               tensor.begin < expected_begin ? "inside the one before it" : "after a gap", "; expected ",
               expected_begin);
      }
      if (tensor.end > data_bytes) {
        reject(path_, label, " ends at ", tensor.end, " of the data, of which the file holds only ", data_bytes,
               " bytes");
      }
      const std::optional<uint64_t> padded = align_up(tensor.end, header_.alignment);
      if (!padded) reject(path_, "the end of ", label, " overflows");
      expected_begin = *padded;
      tensor.begin += *data_begin;
      tensor.end += *data_begin;
    }
    if (data_bytes > expected_begin) reject(path_, data_bytes - expected_begin, " bytes follow the last tensor");
    check_names();
  }

  void check_names() const {
    std::unordered_set<std::string_view> seen;
    for (const GgufTensor& tensor : header_.tensors) {
      if (!seen.insert(tensor.name).second) reject(path_, "the tensor ", printable(tensor.name), " appears twice");
    }
  }

  const InputFile& file_;
  const std::filesystem::path& path_;
  Cursor cursor_;
  GgufHeader header_;
  uint64_t tensor_count_ = 0, key_count_ = 0;
  uint64_t list_elements_ = 0;  // in all lists so far
};

std::string describe_value(const Json& value) {
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  if (value.is_string()) return "the string " + printable(value.get_ref<const std::string&>());
  return value.dump();
}

}  // namespace

int64_t GgufTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

GgufHeader read_gguf_header(const InputFile& file) { return GgufHeaderReader(file).read(); }

const Json* GgufMetadata::find(std::string_view key) const {
  const auto found = tree_.find(key);
  return found != tree_.end() ? &*found : nullptr;
}

void GgufMetadata::reject_type(std::string_view key, const Json& got, const char* expected) const {
  fail(ExitCode::kBadInput, path_, ": the key ", printable(key), " is ", describe_value(got), "; expected ", expected,
       "; convert the model to GGUF again");
}

void GgufMetadata::reject_missing(std::string_view key, const char* expected) const {
  fail(ExitCode::kBadInput, path_, " has no key ", printable(key), "; expected ", expected,
       "; is this a complete model of this architecture?");
}

std::optional<int64_t> GgufMetadata::integer(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_integer() && !(value->is_number_unsigned() && value->get<uint64_t>() > kMaxInt64);
  if (!fits) reject_type(key, *value, "a whole number below 2^63");
  return value->get<int64_t>();
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) reject_type(key, *value, "a finite number");
  return value->get<double>();
}

std::optional<bool> GgufMetadata::flag(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) reject_type(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> GgufMetadata::text(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) reject_type(key, *value, "a string");
  return value->get<std::string>();
}

int64_t GgufMetadata::required_integer(std::string_view key) const {
  const auto value = integer(key);
  if (!value) reject_missing(key, "a whole number");
  return *value;
}

double GgufMetadata::required_number(std::string_view key) const {
  const auto value = number(key);
  if (!value) reject_missing(key, "a number");
  return *value;
}

std::string GgufMetadata::required_text(std::string_view key) const {
  const auto value = text(key);
  if (!value) reject_missing(key, "a string");
  return *value;
}

}  // namespace keel
