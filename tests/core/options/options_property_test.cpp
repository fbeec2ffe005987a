// Properties of all options, tested with many random examples from a fixed seed.

#include <gtest/gtest.h>

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/options/options.h"
#include "keel/core/options/read_config.h"
#include "keel/core/random.h"
#include "tests/core/options/example_options.h"

namespace keel {
namespace {

using namespace example;

/// Returns random strings and strings that YAML or JSON parsers often misread.
std::string difficult_string(RandomSequence& draws) {
  static const auto kKnown =
      Json::parse(R"(["", " ", "null", "NULL", "~", "true", "False", "yes", "No", "on", "y", "1", "+1",
      "3.", "1e5", "0x1F", "0o7", ".inf", "-.INF", ".nan", "Inf", "1_0", "12:30", "2024-01-01", "-", "- a", "a: b",
      "a:", ": a", "? a", "a #b", "#", "'", "\"", "\\", "\\n", "a\nb", "\n", "\t", "\r\n", " lead", "trail ", "[a]", "{a",
      "a,b", "&a", "*a", "!t", "%d", "@x", "`x", "| x", "> x", "...", "---", "<<", "=", "/a/b-c", "a.b_c-d", "C:\\x",
      "\u0000", "\u0001", "\u0004", "\u001b[", "\u007f", "\u0085", "\u2028", "\ufeff", "\ud83d\ude00"])")
          .get<std::vector<std::string>>();
  if (draws.below(2) == 0) return kKnown[draws.below(static_cast<uint32_t>(kKnown.size()))];
  static const std::string kAlphabet = "ab01.-_:#,[]{}'\"\\ \n\t|>%@&*!?~/=";
  std::string text;
  for (uint32_t n = draws.below(12); n > 0; --n)
    text += kAlphabet[draws.below(static_cast<uint32_t>(kAlphabet.size()))];
  return text;
}

double any_double(RandomSequence& draws) {
  const double sizes[] = {0, 1, 0.1, 1e-6, 1e22, 1e300, 5e-324, 1.7976931348623157e308, 123456789.125};
  return sizes[draws.below(9)] * (draws.below(2) == 0 ? draws.uniform() : 1.0);
}

TEST(Properties, ADumpLoadsToTheSameValues) {
  if (!can_read_yaml()) GTEST_SKIP() << "built without yaml-cpp";
  RandomSequence draws(7, Stream::kShuffle, 0);
  for (int i = 0; i < 2000; ++i) {
    Fixture f;
    f.config.rollout.samples_per_prompt = static_cast<int64_t>(draws.word()) + 1;
    f.config.rollout.temperature = 100 * draws.uniform();
    if (draws.below(2) == 0) f.config.rollout.delta = any_double(draws) + 1e-300;
    for (uint32_t n = draws.below(4); n > 0; --n) f.config.rollout.stop.push_back(difficult_string(draws));
    f.config.rollout.mixture.push_back(any_double(draws));
    f.config.rollout.sizes.push_back(-static_cast<int64_t>(draws.word()) << draws.below(31));
    f.config.train.seed = (uint64_t{draws.word()} << 32) | draws.word();
    f.config.train.name = difficult_string(draws) + "x";
    f.config.train.note = difficult_string(draws);
    f.config.train.shuffle = draws.below(2) == 0;
    const std::string text = f.table.dump_yaml("heading: " + std::to_string(i));
    Fixture g;
    const ConfigTree tree = parse_config(text, "dump.yaml");
    EXPECT_EQ(tree.value, f.table.dump()) << text;
    g.table.load(tree);
    EXPECT_EQ(g.table.dump(), f.table.dump()) << text;
    EXPECT_EQ(g.config.train.seed, f.config.train.seed);  // Json would compare a rounded 1.8e19 equal
    EXPECT_EQ(g.config.train.note, f.config.train.note);
  }
}

TEST(Properties, AMutatedKeyIsAlwaysAnError) {
  const Fixture reference;
  std::vector<std::string> names;
  for (const Option& option : reference.table.options()) names.push_back(option.path);
  const std::string alphabet = "abcdefghijklmnopqrstuvwxyz_-.0A \xC3\"{";
  RandomSequence draws(11, Stream::kShuffle, 0);
  for (int i = 0; i < 5000; ++i) {
    const std::string& original = names[draws.below(static_cast<uint32_t>(names.size()))];
    std::string name = original;
    for (uint32_t n = draws.below(3) + 1; n > 0; --n) {
      const size_t at = draws.below(static_cast<uint32_t>(name.size() + 1));
      const char c = alphabet[draws.below(static_cast<uint32_t>(alphabet.size()))];
      const uint32_t edit = draws.below(3);
      if (edit == 0) name.insert(at, 1, c);
      if (edit == 1 && at < name.size()) name[at] = c;
      if (edit == 2 && at < name.size()) name.erase(at, 1);
    }
    // An override trims the key as a whole, so " key" is the same key.
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    Fixture f;
    EXPECT_THROW(f.load_overrides({name + "=1"}), Error) << original << " became " << name;
  }
}

TEST(Properties, AnyValueIsAssignedOrRejectedForAnyOption) {
  RandomSequence draws(13, Stream::kShuffle, 0);
  int assigned = 0;
  for (int i = 0; i < 5000; ++i) {
    Fixture f;
    const auto& options = f.table.options();
    const std::string path = options[draws.below(static_cast<uint32_t>(options.size()))].path;
    const Json values[] = {
        nullptr, true, draws.word(), -1, any_double(draws), difficult_string(draws), Json::array(), Json::object(),
        Json::array({any_double(draws), 2}), Json::array({difficult_string(draws)})};
    const Json value = values[draws.below(10)];
    ConfigTree tree;
    Json* node = &tree.value;
    for (size_t start = 0; start < path.size();) {
      const size_t dot = std::min(path.find('.', start), path.size());
      node = &(*node)[path.substr(start, dot - start)];
      start = dot + 1;
    }
    *node = value;
    try {
      f.table.load(tree);
      const Json got = f.table.get(path);
      const Json expected = got.is_array() && value.is_string() ? Json::array({value}) : value;  // a list of one
      EXPECT_EQ(got, expected) << path;
      ++assigned;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadConfiguration);
      EXPECT_TRUE(contains(error.what(), ", expected ")) << error.what();
    }
  }
  EXPECT_GT(assigned, 500);
}

}  // namespace
}  // namespace keel
