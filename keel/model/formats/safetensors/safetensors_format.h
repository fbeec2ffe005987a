#pragma once

// Shared by the reader and the writer of safetensors: dtype names, limits, and the rules for tensor names.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "keel/core/tensor/tensor.h"

namespace keel::safetensors {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian and are not swapped here");

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr size_t kMaxRank = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

struct DtypeName {
  std::string_view name;
  at::ScalarType dtype;
};
constexpr std::array<DtypeName, 12> kDtypes = {{{"F64", at::kDouble},
                                                {"F32", at::kFloat},
                                                {"F16", at::kHalf},
                                                {"BF16", at::kBFloat16},
                                                {"I64", at::kLong},
                                                {"I32", at::kInt},
                                                {"I16", at::kShort},
                                                {"I8", at::kChar},
                                                {"U8", at::kByte},
                                                {"BOOL", at::kBool},
                                                {"F8_E4M3", at::kFloat8_e4m3fn},
                                                {"F8_E5M2", at::kFloat8_e5m2}}};

/// The names of all dtypes, for error messages.
std::string known_dtypes();

/// Returns the error in a tensor name, or nullptr. Names can end up in paths and on terminals.
const char* find_name_error(std::string_view name);

}  // namespace keel::safetensors
