// Renders the rows of a file for tests/parity/chat_template_parity_test.py.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "keel/core/error.h"
#include "libs/hftext/chat/chat_encoding.h"

namespace keel {
namespace {

std::tm fixed_time(const Json& fields) {
  std::tm time{};
  time.tm_year = fields[0].get<int>() - 1900;
  time.tm_mon = fields[1].get<int>() - 1;
  time.tm_mday = fields[2].get<int>();
  time.tm_hour = fields[3].get<int>();
  time.tm_min = fields[4].get<int>();
  time.tm_sec = fields[5].get<int>();
  time.tm_wday = fields[6].get<int>();
  time.tm_yday = fields[7].get<int>();
  return time;
}

/// Each line {template, messages, extra, now} and perhaps tokenizer, a folder; one line {text, spans} or {error} comes
/// out for each, with the ids of the text where there is a tokenizer.
TEST(ChatTemplateParity, RendersTheRowsOfAFile) {
  const char *in = std::getenv("KEEL_TEMPLATE_ROWS"), *out = std::getenv("KEEL_TEMPLATE_RESULTS");
  if (in == nullptr || out == nullptr) GTEST_SKIP() << "driven by tests/parity/chat_template_parity_test.py";
  std::ifstream rows(in);
  std::ofstream results(out);
  ASSERT_TRUE(rows && results);
  for (std::string line; std::getline(rows, line);) {
    const Json row = Json::parse(line);
    Json result;
    try {
      const ChatTemplate parsed = ChatTemplate::parse(row["template"].get<std::string>(), "template");
      const RenderedChat chat = parsed.render(row["messages"], row["extra"], {.now = fixed_time(row["now"])});
      result = {{"text", chat.text}, {"spans", chat.generated}};
      if (row.contains("tokenizer")) {
        const PromptEncoder encoder(Tokenizer::load(row["tokenizer"].get<std::string>()),
                                    ChatTemplates::from_json(row["template"], "template"));
        result["ids"] = encoder.chat(row["messages"], {fixed_time(row["now"])}).tokens;
      }
    } catch (const Error& error) {
      result = {{"error", error.what()}};
    }
    results << result.dump() << "\n";
  }
}

}  // namespace
}  // namespace keel
