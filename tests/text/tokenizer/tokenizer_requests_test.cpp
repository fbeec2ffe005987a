#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/foreign_text.h"
#include "keel/text/characters/utf8.h"
#include "keel/text/tokenizer/tokenizer.h"

namespace keel {
namespace {

/// What a stream gives for these ids; every part must be whole characters.
std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string text;
  const auto add = [&](const std::string& part) {
    EXPECT_EQ(first_bad_utf8(part), std::nullopt);
    text += part;
  };
  for (const int32_t id : ids) add(decoder.push(id));
  add(decoder.finish());
  return text;
}

std::string decoded(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  const std::string text = tokenizer.decode(ids, skip_special);
  EXPECT_EQ(streamed(tokenizer, ids, skip_special), text);
  return text;
}

Json encoded(const Tokenizer& tokenizer, const std::string& text) {
  try {
    const std::vector<int32_t> plain = tokenizer.encode(text);
    const std::vector<int32_t> parsed = tokenizer.encode(text, {.parse_special = true});
    const std::vector<int32_t> wrapped = tokenizer.encode(text, {.add_special_tokens = true, .parse_special = true});
    return {plain, parsed, wrapped, decoded(tokenizer, parsed, true), decoded(tokenizer, wrapped, false)};
  } catch (const Error& error) {
    return error.what();
  }
}

/// One line per text, then one per list of ids; a single line with a string when the tokenizer is refused.
void answer(const Json& request) {
  std::ofstream answers(request.at("answers").get<std::string>(), std::ios::binary);
  const Json work = Json::parse(read_file(request.at("work").get<std::string>()));
  try {
    const Tokenizer tokenizer = Tokenizer::load(request.at("folder").get<std::string>());
    for (const Json& text : work.at("texts")) answers << encoded(tokenizer, text.get<std::string>()).dump() << "\n";
    for (const Json& list : work.at("ids")) {
      const auto ids = list.get<std::vector<int32_t>>();
      answers << Json{decoded(tokenizer, ids, true), decoded(tokenizer, ids, false)}.dump() << "\n";
    }
  } catch (const Error& error) {
    answers << Json(error.what()).dump() << "\n";
  }
}

// Run by tests/parity/tokenizer_parity_test.py, which judges the answers.
TEST(TokenizerRequests, AreAnsweredForTheParityScript) {
  const char* path = std::getenv("KEEL_TOKENIZER_REQUESTS");
  if (path == nullptr) GTEST_SKIP() << "KEEL_TOKENIZER_REQUESTS is not set";
  for (const Json& request : Json::parse(read_file(path))) answer(request);
}

}  // namespace
}  // namespace keel
