#ifdef KEEL_HAS_ARROW
#include "keel/record/tokens/token_columns.h"

#include <cmath>
#include <type_traits>

#include "keel/record/tokens/token_column_list.h"

namespace keel {
namespace {

template <class Value>
arrow::Status append(typename arrow::CTypeTraits<Value>::BuilderType& builder, const Value& value, bool nullable) {
  if constexpr (std::is_same_v<Value, float>)
    if (nullable && std::isnan(value)) return builder.AppendNull();
  return builder.Append(value);
}

template <class Value>
TokenColumn column(const char* name, Value TokenRow::*member, bool nullable) {
  using Traits = arrow::CTypeTraits<Value>;
  return {arrow::field(name, Traits::type_singleton(), nullable),
          [=](std::span<const TokenRow> rows) -> arrow::Result<std::shared_ptr<arrow::Array>> {
            typename Traits::BuilderType builder;
            ARROW_RETURN_NOT_OK(builder.Reserve(static_cast<int64_t>(rows.size())));
            for (const TokenRow& row : rows) ARROW_RETURN_NOT_OK(append<Value>(builder, row.*member, nullable));
            return builder.Finish();
          },
          [=](const arrow::Array& array, std::span<TokenRow> rows) {
            const auto& values = static_cast<const typename Traits::ArrayType&>(array);
            for (size_t i = 0; i < rows.size(); ++i)
              if (!values.IsNull(static_cast<int64_t>(i))) rows[i].*member = values.GetView(static_cast<int64_t>(i));
          }};
}

}  // namespace

const std::vector<TokenColumn>& token_columns() {
  static const std::vector<TokenColumn> all = [] {
    std::vector<TokenColumn> columns;
    for_each_token_column([&](const char* name, auto TokenRow::*member, bool nullable) {
      columns.push_back(column(name, member, nullable));
    });
    return columns;
  }();
  return all;
}

}  // namespace keel
#endif
