#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/json.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {

/// Writes a tokenizer's files and rows.json, Keel's encodings of `texts`, for tests/parity/tokenizer_parity.py.
inline void write_parity_folder(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                                const std::vector<std::string>& texts) {
  std::filesystem::create_directories(folder);
  for (const auto& [name, bytes] : tokenizer.files()) std::ofstream(folder / name, std::ios::binary) << bytes;
  Json rows = Json::array();
  for (const std::string& text : texts) {
    try {
      const std::vector<int32_t> ids = tokenizer.encode(text, {.parse_special = true});
      rows.push_back({{"text", text},
                      {"ids", ids},
                      {"decoded", tokenizer.decode(ids)},
                      {"decoded_with_special", tokenizer.decode(ids, false)}});
    } catch (const Error&) {
      rows.push_back({{"text", text}, {"ids", nullptr}});  // rejected here, so the package must reject it, too
    }
  }
  std::ofstream(folder / "rows.json", std::ios::binary) << rows.dump(1) << "\n";
}

}  // namespace keel
