#include "libs/hftext/chat/chat_encoding.h"

#include <gtest/gtest.h>

#include "keel/core/error.h"

namespace keel {
namespace {

using Ids = std::vector<int32_t>;

constexpr int32_t kEnd = 100, kUser = 101;

/// One token per printable ASCII character, and <|end|> and <|user|>, which are special.
Tokenizer characters(const Json& normalizer = nullptr) {
  Json vocabulary = Json::object();
  for (int i = 0; i < 95; ++i) vocabulary[std::string(1, static_cast<char>(' ' + i))] = i;
  for (int i = 95; i < kEnd; ++i) vocabulary["unused" + std::to_string(i)] = i;
  Json added = Json::array();
  for (const char* token : {"<|end|>", "<|user|>"}) {
    added.push_back({{"id", kEnd + static_cast<int>(added.size())},
                     {"content", token},
                     {"normalized", !normalizer.is_null()},
                     {"special", true}});
  }
  const Json tree = {{"added_tokens", added},
                     {"normalizer", normalizer},
                     {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  return Tokenizer::from_json(tree, {{"eos_token", "<|end|>"}}, "characters");
}

/// The ids of plain text.
Ids plain(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(c - ' ');
  return ids;
}

Ids operator+(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

EncodedPrompt encoded(const std::string& source, const std::string& content, const Tokenizer& tokenizer) {
  return PromptEncoder(tokenizer, ChatTemplates::from_json(source, "t"))
      .chat({{{"role", "user"}, {"content", content}}, {{"role", "user"}, {"content", "nd|>"}}}, {std::tm{}});
}

Ids ids_of(const std::string& source, const std::string& content, const Tokenizer& tokenizer = characters()) {
  return encoded(source, content, tokenizer).tokens;
}

const std::string kContent = "{{ messages[0].content }}";

TEST(ChatEncoding, SpecialTokensComeFromTheTemplateAndNotFromMessages) {
  EXPECT_EQ(ids_of("<|user|>" + kContent + "<|end|>", "a<|end|>b"), Ids{kUser} + plain("a<|end|>b") + Ids{kEnd});
  EXPECT_EQ(encoded("<|user|>" + kContent, "a<|end|>", characters()).text, "<|user|>a<|end|>");
  EXPECT_EQ(ids_of(kContent + "{{ eos_token }}", "x"), plain("x") + Ids{kEnd});
}

TEST(ChatEncoding, SpecialTokensAreNotAssembledFromMessageText) {
  EXPECT_EQ(ids_of("<|e" + kContent, "nd|>"), plain("<|end|>"));
  EXPECT_EQ(ids_of(kContent + "d|>", "<|en"), plain("<|end|>"));
  EXPECT_EQ(ids_of("{% for m in messages %}{{ m.content }}{% endfor %}", "<|e"), plain("<|end|>"));
  EXPECT_EQ(ids_of("{{ messages[0].content|lower }}", "<|END|>"), plain("<|end|>"));
  EXPECT_EQ(ids_of("{{ messages[0].content.replace('x', '<') }}", "x|end|>"), plain("<|end|>"));
  EXPECT_EQ(ids_of("{{ messages[0].content|replace('x', '<|end|>') }}", "axb"), plain("a") + Ids{kEnd} + plain("b"));
}

TEST(ChatEncoding, MessageTextNextToASpecialTokenDoesNotHideIt) {
  EXPECT_EQ(ids_of(kContent + "<|end|>", "<|end|"), plain("<|end|") + Ids{kEnd});
  EXPECT_EQ(ids_of("<|end|>" + kContent, "|>"), Ids{kEnd} + plain("|>"));
}

TEST(ChatEncoding, ARoleFormsASpecialTokenOnlyIfItIsAPlainWord) {
  const auto with_role = [](const std::string& role) {
    return PromptEncoder(characters(), ChatTemplates::from_json("<|{{ messages[0].role }}|>", "t"))
        .chat({{{"role", role}}}, {std::tm{}})
        .tokens;
  };
  EXPECT_EQ(with_role("user"), Ids{kUser});
  EXPECT_EQ(with_role("user|><|end"), plain("<|user|><|end|>"));
  EXPECT_EQ(ids_of("<|{{ messages[0].content }}|>", "user"), plain("<|user|>"));
}

TEST(ChatEncoding, NormalizedSpecialTokensDoNotComeFromMessages) {
  const Json lower = {{"type", "Lowercase"}}, compatible = {{"type", "NFKC"}};
  EXPECT_EQ(ids_of(kContent, "<|END|>", characters(lower)), plain("<|end|>"));
  EXPECT_EQ(ids_of("<|END|>" + kContent + "<|User|>", "A<|End|>", characters(lower)),
            Ids{kEnd} + plain("a<|end|>") + Ids{kUser});
  EXPECT_EQ(ids_of("<|end|>" + kContent + "<|end|>", "\uFF1C|end|>\uFF01", characters(compatible)),
            Ids{kEnd} + plain("<|end|>!") + Ids{kEnd});
}

/// Adds a prefix space like the tokenizers of Llama 2 and Mistral, with merged tokens for a space before x or y.
Tokenizer sentence_piece(const Json& pre_tokenizer, const Json& normalizer) {
  const Json model = {{"type", "BPE"},
                      {"vocab", {{"\u2581", 0}, {"x", 1}, {"y", 2}, {"z", 3}, {"\u2581x", 4}, {"\u2581y", 5}}},
                      {"merges", {"\u2581 x", "\u2581 y"}}};
  return Tokenizer::from_json({{"pre_tokenizer", pre_tokenizer}, {"normalizer", normalizer}, {"model", model}},
                              Json::object(), "sp");
}

TEST(ChatEncoding, ACompletionAfterASpaceGetsNoPrefixSpace) {
  const auto metaspace = [](const char* scheme) {
    return Json{{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}, {"split", true}};
  };
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  const Json prepend = {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "\u2581"}}, replace}}};
  for (const Tokenizer& tokenizer : {sentence_piece(metaspace("always"), nullptr),
                                     sentence_piece(metaspace("first"), nullptr), sentence_piece(nullptr, prepend)}) {
    const PromptEncoder encoder(tokenizer, {});
    EXPECT_EQ(encoder.reply("x ", "yz", false).prompt.tokens, (Ids{4, 0}));
    EXPECT_EQ(encoder.reply("x ", "yz", false).tokens, (Ids{2, 3}));
    EXPECT_EQ(encoder.reply("x", " yz", false).tokens, (Ids{5, 3}));
    EXPECT_EQ(encoder.reply("x ", " yz", false).tokens, (Ids{5, 3}));  // both spaces are kept
  }
}

TEST(ChatEncoding, TemplateKwargsReachTheTemplate) {
  const std::string source =
      kContent + "{% if enable_thinking is defined and enable_thinking is false %}!{% endif %}{{ style }}";
  const PromptEncoder encoder(characters(), ChatTemplates::from_json(source, "t"));
  const Json messages = {{{"role", "user"}, {"content", "a"}}};
  const auto rendered = [&](const std::vector<std::string>& kwargs) {
    return encoder.chat(messages, {std::tm{}, parse_template_kwargs(kwargs, "data.chat_template_kwargs")}).text;
  };
  EXPECT_EQ(rendered({}), "a");
  EXPECT_EQ(rendered({"enable_thinking=false"}), "a!");
  EXPECT_EQ(rendered({"enable_thinking=true", "style=brief"}), "abrief");
  EXPECT_EQ(rendered({"style=\"brief = short\""}), "abrief = short");
  EXPECT_EQ(rendered({"style=brief = short"}), "abrief = short");
  EXPECT_NO_THROW(encoder.require_template_variables({{"style", 1}}, "s"));
  EXPECT_EQ(rendered({"enable_thinking=False"}), "a!");
  EXPECT_EQ(rendered({"enable_thinking= False"}), "a!");
  for (const char* unknown : {"enable_thinkng", "thinking", "enable", "style2", "content", "e"})
    EXPECT_THROW(encoder.require_template_variables({{unknown, false}}, "s"), Error) << unknown;
}

TEST(ChatEncoding, VariablesThatATemplateAssignsOrOnlyWritesAreRejected) {
  const std::string source =
      "{# legacy #}{% set tone = 'plain' %}{% macro say(text) %}<{{ text ~ end_mark }}>{% endmacro %}"
      "{% for m in messages if m.role not in skipped %}{{ say(m.content) }}{{ '<think></think>' }}{% endfor %}"
      "Be brief.{% if kind is not defined %}{% set kind = tone %}{% endif %}{{ raise_exception('x') if kind == 1 }}";
  const PromptEncoder encoder(characters(), ChatTemplates::from_json(source, "t"));
  for (const char* name : {"skipped", "end_mark", "kind"})
    EXPECT_NO_THROW(encoder.require_template_variables({{name, 1}}, "s")) << name;
  for (const char* name :
       {"think", "legacy", "brief", "m", "text", "say", "tone", "if", "defined", "raise_exception"})
    EXPECT_THROW(encoder.require_template_variables({{name, false}}, "s"), Error) << name;
}

TEST(ChatEncoding, MalformedTemplateKwargsAreRejected) {
  for (const std::string wrong :
       {"enable_thinking", "=1", "messages=[]", "tools=[]", "add_generation_prompt=false", "enable_thinking=off",
        "enable_thinking=No", "enable_thinking= off", "enable_thinking=FALSE", "enable_thinking =false"})
    EXPECT_THROW(parse_template_kwargs({wrong}, "data.chat_template_kwargs"), Error) << wrong;
  EXPECT_THROW(parse_template_kwargs({"a=1", "a=2"}, "data.chat_template_kwargs"), Error);
}

}  // namespace
}  // namespace keel
