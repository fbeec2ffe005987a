#ifdef KEEL_HAS_PARQUET
#include "keel/record/tokens/token_columns.h"

#include <cmath>

namespace keel {
namespace {

template <class Type>
using BuilderOf = typename arrow::TypeTraits<Type>::BuilderType;

template <class Type, class Append, class Set>
TokenColumn column(const char* name, bool nullable, const Append& append, const Set& set) {
  return {arrow::field(name, arrow::TypeTraits<Type>::type_singleton(), nullable),
          [append](std::span<const TokenRow> rows) -> arrow::Result<std::shared_ptr<arrow::Array>> {
            BuilderOf<Type> builder;
            ARROW_RETURN_NOT_OK(builder.Reserve(static_cast<int64_t>(rows.size())));
            for (const TokenRow& row : rows) ARROW_RETURN_NOT_OK(append(builder, row));
            return builder.Finish();
          },
          [set](const arrow::Array& array, std::span<TokenRow> rows) {
            const auto& values = static_cast<const typename arrow::TypeTraits<Type>::ArrayType&>(array);
            for (size_t i = 0; i < rows.size(); ++i) set(rows[i], values, static_cast<int64_t>(i));
          }};
}

template <class Type, class Member>
TokenColumn of(const char* name, Member TokenRow::*member) {
  return column<Type>(
      name, false, [member](BuilderOf<Type>& builder, const TokenRow& row) { return builder.Append(row.*member); },
      [member](TokenRow& row, const auto& values, int64_t i) { row.*member = values.GetView(i); });
}

/// One that may be unknown.
TokenColumn known(const char* name, float TokenRow::*member) {
  return column<arrow::FloatType>(
      name, true,
      [member](arrow::FloatBuilder& builder, const TokenRow& row) {
        return std::isnan(row.*member) ? builder.AppendNull() : builder.Append(row.*member);
      },
      [member](TokenRow& row, const arrow::FloatArray& values, int64_t i) {
        row.*member = values.IsNull(i) ? TokenRow::kUnknown : values.Value(i);
      });
}

}  // namespace

const std::vector<TokenColumn>& token_columns() {
  using Row = TokenRow;
  static const auto integer = of<arrow::Int64Type, int64_t>;
  static const auto number = of<arrow::FloatType, float>;
  static const std::vector<TokenColumn> all = {
      integer("step", &Row::step),
      integer("update", &Row::update),
      integer("prompt", &Row::prompt),
      integer("group", &Row::group),
      integer("rollout", &Row::rollout),
      integer("policy_version", &Row::policy_version),
      of<arrow::Int32Type>("position", &Row::position),
      of<arrow::Int32Type>("token_id", &Row::token_id),
      of<arrow::StringType>("token", &Row::token),
      number("log_mu", &Row::log_mu),
      number("log_pi", &Row::log_pi),
      known("log_other_mu", &Row::log_other_mu),
      known("log_other_pi", &Row::log_other_pi),
      known("log_recomputed", &Row::log_recomputed),
      known("log_other_recomputed", &Row::log_other_recomputed),
      known("log_reference", &Row::log_reference),
      known("topk_tv", &Row::topk_tv),
      known("topk_kl", &Row::topk_kl),
      known("topk_tv_replace_last", &Row::topk_tv_replace_last),
      known("topk_kl_replace_last", &Row::topk_kl_replace_last),
      known("full_tv", &Row::full_tv),
      known("full_kl", &Row::full_kl),
      number("divergence", &Row::divergence),
      number("threshold", &Row::threshold),
      number("ratio", &Row::ratio),
      number("advantage", &Row::advantage),
      number("coefficient", &Row::coefficient),
      number("weight", &Row::weight),
      of<arrow::BooleanType>("kept", &Row::kept),
      of<arrow::BooleanType>("outside", &Row::outside),
      known("entropy", &Row::entropy),
      known("entropy_mu", &Row::entropy_mu),
      of<arrow::DoubleType>("reward", &Row::reward),
  };
  return all;
}

}  // namespace keel
#endif
