#include "libs/hftext/tokenizer/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "libs/hftext/tests/expect_error.h"
#include "libs/hftext/tests/parity_rows.h"
#include "tests/support/test_folder.h"

namespace keel {
namespace {

using Ids = std::vector<int32_t>;

Tokenizer colours() {
  return Tokenizer::word_level({"<pad>", "<bos>", "<eos>", "red", "green", "blau", "größe", "=", "a<b"},
                               {.pad = "<pad>", .bos = "<bos>", .eos = "<eos>"});
}

Json tokenizer_tree() { return Json::parse(colours().files().at("tokenizer.json")); }
Json config_tree() { return Json::parse(colours().files().at("tokenizer_config.json")); }

TEST(Tokenizer, NumbersWordsInOrder) {
  const Tokenizer tokenizer = colours();
  EXPECT_EQ(tokenizer.size(), 9);
  EXPECT_EQ(tokenizer.encode("<bos> green red = größe <eos>"), (Ids{1, 4, 3, 7, 6, 2}));
  EXPECT_EQ(tokenizer.token(5), "blau");
  EXPECT_EQ(tokenizer.pad_id(), 0);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
}

TEST(Tokenizer, JoinsWordsByOneSpaceAndSkipsSpecialTokensByDefault) {
  const Tokenizer tokenizer = colours();
  EXPECT_EQ(tokenizer.decode(Ids{1, 4, 3, 2, 0}), "green red");
  EXPECT_EQ(tokenizer.decode(Ids{1, 4, 3, 2, 0}, /*skip_special=*/false), "<bos> green red <eos> <pad>");
  EXPECT_EQ(tokenizer.decode(Ids{}), "");
}

TEST(Tokenizer, SplitsOnEveryUnicodeSpace) {
  EXPECT_EQ(colours().encode("\t red \n\ngreen\u00A0blau\u3000red\u2009red\u200A\u0085="), (Ids{3, 4, 5, 3, 3, 7}));
  EXPECT_EQ(colours().encode(""), Ids{});
  EXPECT_EQ(colours().encode("  \u2028 "), Ids{});
  EXPECT_THROW(colours().encode("red\u200Bred"), Error);  // the zero-width space is not white space
}

TEST(Tokenizer, FindsSpecialTokensInsideWordsWithParseSpecial) {
  EXPECT_EQ(colours().encode("<bos>red<eos><eos>green", {.parse_special = true}), (Ids{1, 3, 2, 2, 4}));
  EXPECT_EQ(colours().encode("a<b", {.parse_special = true}), Ids{8});
}

TEST(Tokenizer, PrefersTheLongestSpecialToken) {
  const Tokenizer tokenizer =
      Tokenizer::word_level({"<e", "<e>", "<e>>", "x"}, {.pad = "<e", .bos = "<e>>", .eos = "<e>"});
  EXPECT_EQ(tokenizer.encode("x<e>>x<e>x<ex", {.parse_special = true}), (Ids{3, 2, 3, 1, 3, 0, 3}));
}

TEST(Tokenizer, NamesAnUnknownWordInItsError) {
  expect_error(ExitCode::kBadInput, {"\"purple\"", "9 tokens"}, [] { colours().encode("red purple green"); });
}

TEST(Tokenizer, UsesTheUnknownTokenWhenTheFileHasOne) {
  Json tree = tokenizer_tree();
  tree["model"]["unk_token"] = "blau";
  EXPECT_EQ(Tokenizer::from_json(tree, config_tree(), "test").encode("red purple"), (Ids{3, 5}));
}

TEST(Tokenizer, SkipsIdsWithoutATokenWhenDecoding) {
  EXPECT_EQ(colours().decode(Ids{3, 9, -1, 100000, 4}), "red green");
  expect_error(ExitCode::kBadInput, {"id 9", "0 to 8"}, [] { colours().token(9); });
  EXPECT_THROW(colours().token(-1), Error);
}

TEST(Tokenizer, HasOnlyTheGivenRoles) {
  const Tokenizer tokenizer = Tokenizer::word_level({"a", "end"}, {.pad = "", .bos = "", .eos = "end"});
  EXPECT_EQ(tokenizer.pad_id(), std::nullopt);
  EXPECT_EQ(tokenizer.bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer.eos_id(), 1);
  EXPECT_EQ(Json::parse(tokenizer.files().at("special_tokens_map.json")), (Json{{"eos_token", "end"}}));
}

TEST(Tokenizer, RejectsAVocabularyThatCannotRoundTrip) {
  const auto make = [](std::vector<std::string> words, SpecialTokens special) {
    return [=] { Tokenizer::word_level(words, special); };
  };
  expect_error(ExitCode::kBadConfiguration, {"\"b\"", "twice"}, make({"a", "b", "b"}, {}));
  expect_error(ExitCode::kBadConfiguration, {"\"a b\""}, make({"a b"}, {}));
  expect_error(ExitCode::kBadConfiguration, {"non-empty"}, make({"a", ""}, {}));
  expect_error(ExitCode::kBadConfiguration, {"pad_token", "\"<pad>\""},
               make({"a"}, {.pad = "<pad>", .bos = "", .eos = ""}));
}

TEST(Tokenizer, RoundTripsThroughItsFiles) {
  const TestFolder folder;
  for (const auto& [name, bytes] : colours().files()) folder.write(name, bytes);
  // The exact bytes, including an extra space, must survive.
  folder.write("tokenizer_config.json", " " + colours().files().at("tokenizer_config.json"));
  const Tokenizer loaded = Tokenizer::load(folder.path);
  EXPECT_EQ(loaded.encode("<bos> größe a<b <eos>"), (Ids{1, 6, 8, 2}));
  EXPECT_EQ(loaded.decode(Ids{1, 6, 2}), "größe");
  EXPECT_EQ(loaded.eos_id(), 2);
  EXPECT_EQ(loaded.files().at("tokenizer.json"), colours().files().at("tokenizer.json"));
  EXPECT_EQ(loaded.files().at("tokenizer_config.json"), " " + colours().files().at("tokenizer_config.json"));
  EXPECT_EQ(loaded.files().size(), 3u);
}

// transformers writes this after a call with padding=True and truncation=True.
TEST(Tokenizer, IgnoresTruncationAndPaddingButWritesThemBack) {
  Json tree = tokenizer_tree();
  tree["truncation"] = {{"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  tree["padding"] = {
      {"strategy", {{"Fixed", 8}}}, {"direction", "Left"}, {"pad_to_multiple_of", nullptr}, {"pad_id", 0},
      {"pad_type_id", 0},           {"pad_token", "<pad>"}};
  const Tokenizer tokenizer = Tokenizer::from_json(tree, config_tree(), "test");
  EXPECT_EQ(tokenizer.encode("red green blau"), (Ids{3, 4, 5}));
  EXPECT_EQ(Json::parse(tokenizer.files().at("tokenizer.json")), tree);
}

TEST(Tokenizer, NamesTheFileThatIsMissingOrBroken) {
  const TestFolder folder;
  expect_error(ExitCode::kBadInput, {"tokenizer.json"}, [&] { Tokenizer::load(folder.path); });
  folder.write("tokenizer.json", "{\n\"model\": }");
  folder.write("tokenizer_config.json", "{}");
  expect_error(ExitCode::kBadInput, {"tokenizer.json:2: "}, [&] { Tokenizer::load(folder.path); });
}

TEST(Tokenizer, RejectsIdsThatAreNotOneToOne) {
  const auto with_vocabulary = [](Json vocabulary) {
    Json tree = tokenizer_tree();
    tree["added_tokens"] = Json::array();
    tree["model"]["vocab"] = std::move(vocabulary);
    return [tree] { Tokenizer::from_json(tree, Json::object(), "folder"); };
  };
  expect_error(ExitCode::kBadInput, {"\"b\"", "the id 2"}, with_vocabulary({{"a", 0}, {"b", 2}}));
  expect_error(ExitCode::kBadInput, {"\"b\"", "the id 0"}, with_vocabulary({{"a", 0}, {"b", 0}}));
  expect_error(ExitCode::kBadInput, {"\"b\"", "numbers"}, with_vocabulary({{"a", 0}, {"b", "1"}}));
  expect_error(ExitCode::kBadInput, {"model.vocab"}, with_vocabulary(Json::object()));
  expect_error(ExitCode::kBadInput, {"model.vocab"}, with_vocabulary(Json::array({"a"})));
}

TEST(Tokenizer, ReadsRolesWrittenAsObjectsAndRejectsRolesWithoutAToken) {
  Json config = config_tree();
  config["eos_token"] = {{"content", "red"}, {"special", true}};
  config["pad_token"] = nullptr;
  const Tokenizer tokenizer = Tokenizer::from_json(tokenizer_tree(), config, "test");
  EXPECT_EQ(tokenizer.eos_id(), 3);
  EXPECT_EQ(tokenizer.pad_id(), std::nullopt);
  EXPECT_EQ(tokenizer.decode(Ids{3, 4}), "green");  // a word with a role is special

  config["eos_token"] = "</s>";
  const auto read = [&] { Tokenizer::from_json(tokenizer_tree(), config, "test"); };
  expect_error(ExitCode::kBadInput, {"eos_token", "\"</s>\""}, read);
  config["eos_token"] = 2;
  expect_error(ExitCode::kBadInput, {"eos_token", "2"}, read);
}

TEST(Tokenizer, AppendsAddedTokensThatTheModelDoesNotHave) {
  Json tree = tokenizer_tree();
  tree["added_tokens"].push_back({{"id", 9}, {"content", "<tool>"}, {"special", false}});
  const Tokenizer tokenizer = Tokenizer::from_json(tree, config_tree(), "test");
  EXPECT_EQ(tokenizer.size(), 10);
  EXPECT_EQ(tokenizer.encode("red<tool>red"), (Ids{3, 9, 3}));
  EXPECT_EQ(tokenizer.decode(Ids{3, 9, 2}), "red <tool>");
}

TEST(Tokenizer, LoadsAVocabularyOfAHundredThousandWords) {
  std::vector<std::string> words;
  for (int i = 0; i < 100000; ++i) words.push_back("w" + std::to_string(i));
  const TestFolder folder;
  for (const auto& [name, bytes] : Tokenizer::word_level(words, {}).files()) folder.write(name, bytes);
  EXPECT_EQ(Tokenizer::load(folder.path).encode("w0 w99999 w4711"), (Ids{0, 99999, 4711}));
}

// Run with KEEL_PARITY_FOLDER set, then: tests/parity/tokenizer_parity.py FOLDER/plain, and the same for the others.
TEST(TokenizerParity, WritesFoldersForTheParityScript) {
  const char* folder = std::getenv("KEEL_PARITY_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "KEEL_PARITY_FOLDER is not set";
  const std::vector<std::string> texts = {"",
                                          "red",
                                          "<bos> green red = größe <eos>",
                                          "<bos>red<eos><eos>green<pad>",
                                          "a<b red <bosred",
                                          "\t red \n\ngreen\u00A0blau\u3000red\u2009red\u200A\u0085= ",
                                          "red\u200Bred",
                                          "red purple green",
                                          "red<tool>red < bos > blau",
                                          "<b<bos>os>",
                                          "\u1680red\u2000red\u2028red\u2029red\u202Fred\u205Fred\vred\fred\r"};
  const std::filesystem::path base = folder;
  write_parity_folder(base / "overlap",
                      Tokenizer::word_level({"<e", "<e>", "<e>>", "x"}, {.pad = "<e", .bos = "<e>>", .eos = "<e>"}),
                      {"x<e>>x<e>x<ex", "<<e>>>", "<e><e<e>>x x"});
  write_parity_folder(base / "plain", colours(), texts);

  Json tree = tokenizer_tree();
  tree["model"]["unk_token"] = "blau";
  tree["added_tokens"].push_back({{"id", 9},
                                  {"content", "<tool>"},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", false}});
  write_parity_folder(base / "unknown", Tokenizer::from_json(tree, config_tree(), "test"), texts);
}

}  // namespace
}  // namespace keel
