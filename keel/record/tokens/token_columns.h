#pragma once

// The columns of a token record, for whoever writes and reads them; sees Arrow, which may be missing.

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

inline constexpr const char* kTokenFormat = "1";  // of the columns and of what keel.step says

/// A column: its name and type, its values of these rows as an array, and the rows' members from such an array.
struct TokenColumn {
  std::shared_ptr<arrow::Field> field;
  std::function<arrow::Result<std::shared_ptr<arrow::Array>>(std::span<const TokenRow>)> array;
  std::function<void(const arrow::Array&, std::span<TokenRow>)> fill;
};

/// In the order of the file.
const std::vector<TokenColumn>& token_columns();

}  // namespace keel
