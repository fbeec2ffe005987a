#include "keel/record/report/embedded_tokens.h"

#include <gtest/gtest.h>

#include "keel/core/json_reader.h"

namespace keel {
namespace {

RecordedTokens two_completions() {
  RecordedTokens tokens;
  tokens.tokens = 3;
  tokens.steps = {{4, 3, "dppo_tv", {{"low", 0.15}, {"high", 0.15}}, true, {}}};
  tokens.rows.completions = {{4, 0, 1, 10, 1.0, 0, 2, 2},
                             {4, 1, 1, 11, std::numeric_limits<double>::quiet_NaN(), 2, 1, 9}};
  tokens.rows.columns = {{"log_mu", {-1, -2, -0.5}}, {"advantage", {0.25, 0.25, -0.25}}};
  tokens.rows.text = {0, 1, 0};
  tokens.rows.kept = {true, false, true};
  tokens.rows.outside = {false, true, true};
  tokens.rows.texts = {"a", "</script><b>&"};
  tokens.rows.completions[1].prompt_index = 0;
  tokens.rows.prompts = {"</script>&"};
  return tokens;
}

// Expected bytes: -1 is 0xbf800000, -2 0xc0000000, -0.5 0xbf000000; 0.25 is 0x3e800000; the lowest byte comes first.
TEST(EmbeddedTokens, AreLittleEndianBase64) {
  const Json json = parse_json(embedded_tokens(two_completions()));
  EXPECT_EQ(json["columns"]["log_mu"]["each"], "token");
  EXPECT_EQ(json["columns"]["log_mu"]["data"], "AACAvwAAAMAAAAC/");
  EXPECT_EQ(json["columns"]["advantage"]["each"], "completion");  // constant within each completion
  EXPECT_EQ(json["columns"]["advantage"]["data"], "AACAPgAAgL4=");
  EXPECT_EQ(json["text"]["bits"], 16);
  EXPECT_EQ(json["text"]["data"], "AAABAAAA");
  EXPECT_EQ(json["flags"], "AQID");  // kept; outside; both
  EXPECT_EQ(json["completions"]["rows"], Json({2, 1}));
  EXPECT_EQ(json["completions"]["tokens"], Json({2, 9}));
  EXPECT_EQ(json["completions"]["reward"], Json({1.0, nullptr}));
  EXPECT_EQ(json["completions"]["prompt_text"], Json({-1, 0}));
  EXPECT_EQ(json["prompts"], Json({"</script>&"}));
  EXPECT_EQ(json["regions"].size(), 1u);
  EXPECT_EQ(json["region_of_step"]["4"], 0);
}

TEST(EmbeddedTokens, CannotCloseTheScriptElement) {
  const std::string text = embedded_tokens(two_completions());
  EXPECT_EQ(text.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(parse_json(text)["texts"][1], "</script><b>&");
}

}  // namespace
}  // namespace keel
