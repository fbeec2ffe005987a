#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "libs/hftext/tokenizer/tokenizer.h"

namespace keel {
namespace {

Json encoded(const Tokenizer& tokenizer, const std::string& text) {
  try {
    const std::vector<int32_t> plain = tokenizer.encode(text);
    const std::vector<int32_t> parsed = tokenizer.encode(text, {.parse_special = true});
    const std::vector<int32_t> wrapped = tokenizer.encode(text, {.add_special_tokens = true, .parse_special = true});
    return {plain, parsed, wrapped, tokenizer.decode(parsed), tokenizer.decode(wrapped, /*skip_special=*/false)};
  } catch (const Error& error) {
    return error.what();
  }
}

/// One line per text, then one per list of ids; a single line with a string if the tokenizer is rejected.
void answer(const Json& request) {
  std::ofstream answers(request.at("answers").get<std::string>(), std::ios::binary);
  const Json work = Json::parse(read_file(request.at("work").get<std::string>()));
  try {
    const Tokenizer tokenizer = Tokenizer::load(request.at("folder").get<std::string>());
    for (const Json& text : work.at("texts")) answers << encoded(tokenizer, text.get<std::string>()).dump() << "\n";
    for (const Json& list : work.at("ids")) {
      const auto ids = list.get<std::vector<int32_t>>();
      answers << Json{tokenizer.decode(ids), tokenizer.decode(ids, /*skip_special=*/false)}.dump() << "\n";
    }
  } catch (const Error& error) {
    answers << Json(error.what()).dump() << "\n";
  }
}

// Run by tests/parity/tokenizer_parity_test.py, which checks the output.
TEST(TokenizerRequests, AreAnsweredForTheParityScript) {
  const char* path = std::getenv("KEEL_TOKENIZER_REQUESTS");
  if (path == nullptr) GTEST_SKIP() << "KEEL_TOKENIZER_REQUESTS is not set";
  for (const Json& request : Json::parse(read_file(path))) answer(request);
}

}  // namespace
}  // namespace keel
