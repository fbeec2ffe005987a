#ifdef KEEL_HAS_PARQUET

#include "keel/data/rows/arrow_json.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/util/float16.h>

#include <cmath>
#include <stdexcept>

#include "keel/core/foreign_text.h"

namespace keel {
namespace {

template <class ArrayType>
auto value_of(const arrow::Array& array, int64_t index) {
  return static_cast<const ArrayType&>(array).Value(index);
}

void take(int64_t& room, size_t bytes) {
  if (static_cast<uint64_t>(room) < bytes) throw RowTooLarge();
  room -= static_cast<int64_t>(bytes);
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

template <class ArrayType>
Json text_of(const arrow::Array& array, int64_t index, int64_t& room) {
  const std::string_view text = static_cast<const ArrayType&>(array).GetView(index);
  take(room, text.size());
  return std::string(text);
}

/// Bytes are text where they can be (older writers did not say so); other bytes Json cannot hold.
template <class ArrayType>
Json bytes_of(const arrow::Array& array, int64_t index, int64_t& room) {
  const std::string_view bytes = static_cast<const ArrayType&>(array).GetView(index);
  take(room, bytes.size());
  return first_bad_utf8(bytes) || bytes.find('\0') != std::string_view::npos ? Json() : Json(std::string(bytes));
}

Json half_of(const arrow::Array& array, int64_t index) {
  const uint16_t bits = value_of<arrow::HalfFloatArray>(array, index);
  return finite_or_null(arrow::util::Float16::FromBits(bits).ToDouble());
}

/// In seconds.
Json duration_of(const arrow::DurationArray& array, int64_t index) {
  constexpr double kPerSecond[] = {1, 1e3, 1e6, 1e9};  // by arrow::TimeUnit
  return static_cast<double>(array.Value(index)) /
         kPerSecond[static_cast<const arrow::DurationType&>(*array.type()).unit()];
}

/// What Arrow prints for a date, a time or a decimal.
Json printed(const arrow::Array& array, int64_t index) {
  const auto scalar = array.GetScalar(index);
  if (!scalar.ok()) throw std::runtime_error(scalar.status().message());
  return (*scalar)->ToString();
}

/// As 01234567-89ab-cdef-0123-456789abcdef.
Json uuid_of(const arrow::FixedSizeBinaryArray& array, int64_t index) {
  std::string text;
  for (const char byte : array.GetView(index)) {
    if (text.size() == 8 || text.size() == 13 || text.size() == 18 || text.size() == 23) text += '-';
    for (const int shift : {4, 0}) text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> shift & 0xf];
  }
  return text;
}

Json extension_of(const arrow::ExtensionArray& array, int64_t index, int64_t& room) {
  const bool is_uuid = static_cast<const arrow::ExtensionType&>(*array.type()).extension_name() == "arrow.uuid";
  if (is_uuid) return uuid_of(static_cast<const arrow::FixedSizeBinaryArray&>(*array.storage()), index);
  return json_of(*array.storage(), index, room);
}

template <class ArrayType>
Json list_of(const arrow::Array& array, int64_t index, int64_t& room) {
  const auto& list = static_cast<const ArrayType&>(array);
  Json result = Json::array();
  const int64_t begin = list.value_offset(index), end = begin + list.value_length(index);
  for (int64_t i = begin; i < end; ++i) result.push_back(json_of(*list.values(), i, room));
  return result;
}

Json struct_of(const arrow::StructArray& array, int64_t index, int64_t& room) {
  Json result = Json::object();
  auto& entries = result.get_ref<Json::object_t&>();
  for (int i = 0; i < array.num_fields(); ++i) {
    const std::string& name = array.type()->field(i)->name();
    take(room, name.size());
    entries.emplace_back(name, json_of(*array.field(i), index, room));
  }
  return result;
}

/// Pairs, as pyarrow gives them: a map's keys need not be strings, nor differ.
Json map_of(const arrow::MapArray& array, int64_t index, int64_t& room) {
  Json result = Json::array();
  const int64_t begin = array.value_offset(index), end = begin + array.value_length(index);
  for (int64_t i = begin; i < end; ++i)
    result.push_back(Json::array({json_of(*array.keys(), i, room), json_of(*array.items(), i, room)}));
  return result;
}

Json dictionary_value_of(const arrow::DictionaryArray& array, int64_t index, int64_t& room) {
  return json_of(*array.dictionary(), array.GetValueIndex(index), room);
}

}  // namespace

Json json_of(const arrow::Array& array, int64_t index, int64_t& room) {
  take(room, 2);  // the least: a digit and a comma
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
    case arrow::Type::HALF_FLOAT:
      return half_of(array, index);
    case arrow::Type::FLOAT:
      return finite_or_null(value_of<arrow::FloatArray>(array, index));
    case arrow::Type::DOUBLE:
      return finite_or_null(value_of<arrow::DoubleArray>(array, index));
    case arrow::Type::STRING:
      return text_of<arrow::StringArray>(array, index, room);
    case arrow::Type::LARGE_STRING:
      return text_of<arrow::LargeStringArray>(array, index, room);
    case arrow::Type::STRING_VIEW:
      return text_of<arrow::StringViewArray>(array, index, room);
    case arrow::Type::BINARY:
      return bytes_of<arrow::BinaryArray>(array, index, room);
    case arrow::Type::LARGE_BINARY:
      return bytes_of<arrow::LargeBinaryArray>(array, index, room);
    case arrow::Type::BINARY_VIEW:
      return bytes_of<arrow::BinaryViewArray>(array, index, room);
    case arrow::Type::FIXED_SIZE_BINARY:
      return bytes_of<arrow::FixedSizeBinaryArray>(array, index, room);
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
    case arrow::Type::TIME32:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DECIMAL32:
    case arrow::Type::DECIMAL64:
    case arrow::Type::DECIMAL128:
    case arrow::Type::DECIMAL256:
      return printed(array, index);
    case arrow::Type::DURATION:
      return duration_of(static_cast<const arrow::DurationArray&>(array), index);
    case arrow::Type::LIST:
      return list_of<arrow::ListArray>(array, index, room);
    case arrow::Type::LARGE_LIST:
      return list_of<arrow::LargeListArray>(array, index, room);
    case arrow::Type::LIST_VIEW:
      return list_of<arrow::ListViewArray>(array, index, room);
    case arrow::Type::LARGE_LIST_VIEW:
      return list_of<arrow::LargeListViewArray>(array, index, room);
    case arrow::Type::FIXED_SIZE_LIST:
      return list_of<arrow::FixedSizeListArray>(array, index, room);
    case arrow::Type::STRUCT:
      return struct_of(static_cast<const arrow::StructArray&>(array), index, room);
    case arrow::Type::MAP:
      return map_of(static_cast<const arrow::MapArray&>(array), index, room);
    case arrow::Type::DICTIONARY:
      return dictionary_value_of(static_cast<const arrow::DictionaryArray&>(array), index, room);
    case arrow::Type::EXTENSION:
      return extension_of(static_cast<const arrow::ExtensionArray&>(array), index, room);
    default:  // none of the types that Parquet files are known to have
      throw std::runtime_error("values of the Arrow type " + array.type()->ToString() +
                               " have no form in JSON; write the column as another type");
  }
}

}  // namespace keel

#endif
