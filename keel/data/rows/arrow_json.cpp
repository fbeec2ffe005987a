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

/// As 01234567-89ab-cdef-0123-456789abcdef.
Json uuid_of(std::string_view bytes) {
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

  void take(size_t bytes) {
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
      take(bytes.size());
      // Bytes are text where they can be (older writers did not say so); Json cannot hold others.
      const bool text = arrow::is_string_type<Type>::value || Type::type_id == arrow::Type::STRING_VIEW ||
                        (!first_bad_utf8(bytes) && bytes.find('\0') == std::string_view::npos);
      return text ? Json(std::string(bytes)) : Json();
    } else if constexpr (std::is_same_v<Type, arrow::MapType>) {
      // Pairs, as pyarrow gives them: a map's keys need not be strings, nor differ.
      Json pairs = Json::array();
      const int64_t begin = array.value_offset(index), end = begin + array.value_length(index);
      for (int64_t i = begin; i < end; ++i)
        pairs.push_back(Json::array({json_of(*array.keys(), i, budget), json_of(*array.items(), i, budget)}));
      return pairs;
    } else if constexpr (arrow::is_list_like_type<Type>::value || arrow::is_list_view_type<Type>::value) {
      Json list = Json::array();
      const int64_t begin = array.value_offset(index), end = begin + array.value_length(index);
      for (int64_t i = begin; i < end; ++i) list.push_back(json_of(*array.values(), i, budget));
      return list;
    } else if constexpr (arrow::is_struct_type<Type>::value) {
      Json object = Json::object();
      auto& entries = object.get_ref<Json::object_t&>();
      for (int i = 0; i < array.num_fields(); ++i) {
        const std::string& name = array.type()->field(i)->name();
        take(name.size());
        entries.emplace_back(name, json_of(*array.field(i), index, budget));
      }
      return object;
    } else if constexpr (arrow::is_dictionary_type<Type>::value) {
      return json_of(*array.dictionary(), array.GetValueIndex(index), budget);
    } else if constexpr (arrow::is_extension_type<Type>::value) {
      const auto& type = static_cast<const arrow::ExtensionType&>(*array.type());
      if (type.extension_name() != "arrow.uuid") return json_of(*array.storage(), index, budget);
      return uuid_of(static_cast<const arrow::FixedSizeBinaryArray&>(*array.storage()).GetView(index));
    } else {  // none of the types that Parquet files are known to have
      throw std::runtime_error("values of the Arrow type " + array.type()->ToString() +
                               " have no form in JSON. Fix: write the column as another type");
    }
  }
};

}  // namespace

Json json_of(const arrow::Array& array, int64_t index, int64_t& budget) {
  ValueVisitor visitor{index, budget};
  visitor.take(2);  // the least: a digit and a comma
  if (array.IsNull(index)) return nullptr;
  const arrow::Status status = arrow::VisitArrayInline(array, &visitor);
  if (!status.ok()) throw std::runtime_error(status.message());
  return std::move(visitor.value);
}

}  // namespace keel

#endif
