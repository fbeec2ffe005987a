#include "keel/task/character_tokenizer.h"

#include "keel/task/task.h"

namespace keel {
namespace {

constexpr const char* kPad = "<pad>";

Json added_token(const std::string& content, size_t id, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

}  // namespace

Tokenizer character_tokenizer(const std::vector<std::string>& phrases) {
  const std::string stop(kEosText);
  Json vocabulary = {{kPad, 0}, {stop, 1}, {"\n", 2}};
  for (char c = ' '; c <= '~'; ++c) vocabulary[std::string(1, c)] = vocabulary.size();
  Json added = {added_token(kPad, 0, true), added_token(stop, 1, true)};
  for (const std::string& phrase : phrases)
    added.push_back(added_token(phrase, added.size() + vocabulary.size() - 2, false));
  // BPE without merges: one token per character.
  const Json model = {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}};
  const Json file = {{"version", "1.0"},          {"truncation", nullptr},         {"padding", nullptr},
                     {"added_tokens", added},     {"normalizer", nullptr},         {"pre_tokenizer", nullptr},
                     {"post_processor", nullptr}, {"decoder", {{"type", "Fuse"}}}, {"model", model}};
  const Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"pad_token", kPad},
                       {"eos_token", stop},
                       {"clean_up_tokenization_spaces", false}};
  return Tokenizer::from_json(file, config, "character-level vocabulary");
}

}  // namespace keel
