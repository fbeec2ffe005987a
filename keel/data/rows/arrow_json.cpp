#ifdef KEEL_HAS_ARROW

#include "keel/data/rows/arrow_json.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/scalar.h>
#include <arrow/type_traits.h>
#include <arrow/util/float16.h>
#include <arrow/visit_array_inline.h>

#include <cmath>
#include <stdexcept>

#include "keel/core/untrusted_text.h"

namespace keel {
namespace {

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

/// Formats 16 bytes as 01234567-89ab-cdef-0123-456789abcdef.
Json format_uuid(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    if (text.size() == 8 || text.size() == 13 || text.size() == 18 || text.size() == 23) text += '-';
    for (const int shift : {4, 0}) text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> shift & 0xf];
  }
  return text;
}

/// The value at an index of an array of any type.
struct ValueVisitor {
  int64_t index;
  int64_t& budget;
  Json value = {};

  void spend_budget(size_t bytes) {
    if (static_cast<uint64_t>(budget) < bytes) throw RowTooLarge();
    budget -= static_cast<int64_t>(bytes);
  }

  template <class Array>
  arrow::Status Visit(const Array& array) {
    value = read(array);
    return arrow::Status::OK();
  }

  template <class Array>
  Json read(const Array& array) {
    using Type = typename Array::TypeClass;
    if constexpr (arrow::is_null_type<Type>::value) {
      return nullptr;
    } else if constexpr (arrow::is_half_float_type<Type>::value) {
      return finite_or_null(arrow::util::Float16::FromBits(array.Value(index)).ToDouble());
    } else if constexpr (arrow::is_floating_type<Type>::value) {
      return finite_or_null(array.Value(index));
    } else if constexpr (arrow::is_integer_type<Type>::value || arrow::is_boolean_type<Type>::value) {
      return array.Value(index);
    } else if constexpr (arrow::is_duration_type<Type>::value) {  // in seconds
      constexpr double kPerSecond[] = {1, 1e3, 1e6, 1e9};         // by arrow::TimeUnit
      return static_cast<double>(array.Value(index)) / kPerSecond[static_cast<const Type&>(*array.type()).unit()];
    } else if constexpr (arrow::is_temporal_type<Type>::value || arrow::is_decimal_type<Type>::value) {
      const auto scalar = array.GetScalar(index);
      if (!scalar.ok()) throw std::runtime_error(scalar.status().message());
      return (*scalar)->ToString();
    } else if constexpr (arrow::is_base_binary_type<Type>::value || arrow::is_binary_view_like_type<Type>::value ||
                         arrow::is_fixed_size_binary_type<Type>::value) {
      const std::string_view bytes = array.GetView(index);
      spend_budget(bytes.size());
      // Older writers do not mark text, so valid UTF-8 without NUL is text. Json cannot hold other bytes.
      const bool is_text = arrow::is_string_type<Type>::value || Type::type_id == arrow::Type::STRING_VIEW ||
                           (!first_bad_utf8(bytes) && bytes.find('\0') == std::string_view::npos);
      return is_text ? Json(std::string(bytes)) : Json();
    } else if constexpr (std::is_same_v<Type, arrow::MapType>) {
      // A list of pairs, as in pyarrow: the keys of a map need not be distinct strings.
      Json pairs = Json::array();
      const int64_t begin = array.value_offset(index), end = begin + array.value_length(index);
      for (int64_t i = begin; i < end; ++i)
        pairs.push_back(
            Json::array({arrow_to_json(*array.keys(), i, budget), arrow_to_json(*array.items(), i, budget)}));
      return pairs;
    } else if constexpr (arrow::is_list_like_type<Type>::value || arrow::is_list_view_type<Type>::value) {
      Json list = Json::array();
      const int64_t begin = array.value_offset(index), end = begin + array.value_length(index);
      for (int64_t i = begin; i < end; ++i) list.push_back(arrow_to_json(*array.values(), i, budget));
      return list;
    } else if constexpr (arrow::is_struct_type<Type>::value) {
      Json object = Json::object();
      auto& entries = object.get_ref<Json::object_t&>();
      for (int i = 0; i < array.num_fields(); ++i) {
        const std::string& name = array.type()->field(i)->name();
        spend_budget(name.size());
        entries.emplace_back(name, arrow_to_json(*array.field(i), index, budget));
      }
      return object;
    } else if constexpr (arrow::is_dictionary_type<Type>::value) {
      return arrow_to_json(*array.dictionary(), array.GetValueIndex(index), budget);
    } else if constexpr (arrow::is_extension_type<Type>::value) {
      const auto& type = static_cast<const arrow::ExtensionType&>(*array.type());
      if (type.extension_name() != "arrow.uuid") return arrow_to_json(*array.storage(), index, budget);
      return format_uuid(static_cast<const arrow::FixedSizeBinaryArray&>(*array.storage()).GetView(index));
    } else {  // a type that is not known to occur in Parquet files
      throw std::runtime_error("values of the Arrow type " + array.type()->ToString() +
                               " cannot be converted to JSON. Fix: write the column as another type");
    }
  }
};

}  // namespace

Json arrow_to_json(const arrow::Array& array, int64_t index, int64_t& budget) {
  ValueVisitor visitor{index, budget};
  visitor.spend_budget(2);  // the minimum: a digit and a comma
  if (array.IsNull(index)) return nullptr;
  const arrow::Status status = arrow::VisitArrayInline(array, &visitor);
  if (!status.ok()) throw std::runtime_error(status.message());
  return std::move(visitor.value);
}

}  // namespace keel

#endif
