#pragma once

// The columns of a token record as Arrow arrays. Builds without Arrow do not use this file.

#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/type.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "keel/record/tokens/token_row.h"

namespace keel {

inline constexpr const char* kTokenFormat = "1";  // version of the columns and of keel.step

/// A column: `array` converts rows to an Arrow array, `fill` reads an array into rows.
struct TokenColumn {
  std::shared_ptr<arrow::Field> field;
  std::function<arrow::Result<std::shared_ptr<arrow::Array>>(std::span<const TokenRow>)> array;
  std::function<void(const arrow::Array&, std::span<TokenRow>)> fill;
};

/// All columns in the order of the file.
const std::vector<TokenColumn>& token_columns();

}  // namespace keel
