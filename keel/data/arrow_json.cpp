#ifdef KEEL_HAS_PARQUET

#include "keel/data/arrow_json.h"

#include <arrow/api.h>

#include <cmath>

#include "keel/core/foreign_text.h"

namespace keel {
namespace {

template <class ArrayType>
auto value_of(const arrow::Array& array, int64_t index) {
  return static_cast<const ArrayType&>(array).Value(index);
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

/// Bytes are text where they are UTF-8 (older writers did not say so); other bytes Json cannot hold.
template <class ArrayType>
Json text_of(const arrow::Array& array, int64_t index) {
  const std::string_view bytes = static_cast<const ArrayType&>(array).GetView(index);
  return first_bad_utf8(bytes) ? Json() : Json(std::string(bytes));
}

template <class ArrayType>
Json list_of(const arrow::Array& array, int64_t index) {
  const auto& list = static_cast<const ArrayType&>(array);
  Json result = Json::array();
  const int64_t begin = list.value_offset(index), end = begin + list.value_length(index);
  for (int64_t i = begin; i < end; ++i) result.push_back(json_of(*list.values(), i));
  return result;
}

Json struct_of(const arrow::StructArray& array, int64_t index) {
  Json result = Json::object();
  auto& entries = result.get_ref<Json::object_t&>();
  for (int i = 0; i < array.num_fields(); ++i)
    entries.emplace_back(array.type()->field(i)->name(), json_of(*array.field(i), index));
  return result;
}

/// Pairs, as pyarrow gives them: a map's keys need not be strings, nor differ.
Json map_of(const arrow::MapArray& array, int64_t index) {
  Json result = Json::array();
  const int64_t begin = array.value_offset(index), end = begin + array.value_length(index);
  for (int64_t i = begin; i < end; ++i)
    result.push_back(Json::array({json_of(*array.keys(), i), json_of(*array.items(), i)}));
  return result;
}

Json dictionary_value_of(const arrow::DictionaryArray& array, int64_t index) {
  return json_of(*array.dictionary(), array.GetValueIndex(index));
}

}  // namespace

Json json_of(const arrow::Array& array, int64_t index) {
  if (array.IsNull(index)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::NA:
      return nullptr;
    case arrow::Type::BOOL:
      return value_of<arrow::BooleanArray>(array, index);
    case arrow::Type::INT8:
      return value_of<arrow::Int8Array>(array, index);
    case arrow::Type::INT16:
      return value_of<arrow::Int16Array>(array, index);
    case arrow::Type::INT32:
      return value_of<arrow::Int32Array>(array, index);
    case arrow::Type::INT64:
      return value_of<arrow::Int64Array>(array, index);
    case arrow::Type::UINT8:
      return value_of<arrow::UInt8Array>(array, index);
    case arrow::Type::UINT16:
      return value_of<arrow::UInt16Array>(array, index);
    case arrow::Type::UINT32:
      return value_of<arrow::UInt32Array>(array, index);
    case arrow::Type::UINT64:
      return value_of<arrow::UInt64Array>(array, index);
    case arrow::Type::FLOAT:
      return finite_or_null(value_of<arrow::FloatArray>(array, index));
    case arrow::Type::DOUBLE:
      return finite_or_null(value_of<arrow::DoubleArray>(array, index));
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return text_of<arrow::BinaryArray>(array, index);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return text_of<arrow::LargeBinaryArray>(array, index);
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return text_of<arrow::BinaryViewArray>(array, index);
    case arrow::Type::LIST:
      return list_of<arrow::ListArray>(array, index);
    case arrow::Type::LARGE_LIST:
      return list_of<arrow::LargeListArray>(array, index);
    case arrow::Type::FIXED_SIZE_LIST:
      return list_of<arrow::FixedSizeListArray>(array, index);
    case arrow::Type::STRUCT:
      return struct_of(static_cast<const arrow::StructArray&>(array), index);
    case arrow::Type::MAP:
      return map_of(static_cast<const arrow::MapArray&>(array), index);
    case arrow::Type::DICTIONARY:
      return dictionary_value_of(static_cast<const arrow::DictionaryArray&>(array), index);
    case arrow::Type::EXTENSION:
      return json_of(*static_cast<const arrow::ExtensionArray&>(array).storage(), index);
    default: {  // dates, times, decimals, half floats
      const auto scalar = array.GetScalar(index);
      return scalar.ok() ? Json((*scalar)->ToString()) : Json();
    }
  }
}

}  // namespace keel

#endif
