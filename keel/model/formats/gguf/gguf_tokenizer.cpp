#include "keel/model/formats/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "keel/core/error.h"
#include "keel/core/untrusted_text.h"
#include "keel/model/formats/gguf/gguf_keys.h"
#include "keel/model/formats/gguf/gguf_pre_tokenizers.h"
#include "keel/model/formats/gguf/gguf_sentencepiece.h"

namespace keel {
namespace {

// Far above real tokenizers, but low enough that a malicious file cannot exhaust memory.
constexpr size_t kMaxAddedTokens = 65'536;

template <class... Parts>
[[noreturn]] void reject(const GgufMetadata& metadata, const Parts&... parts) {
  fail(ExitCode::kBadInput, metadata.path(), " has a tokenizer that cannot be used: ", parts...,
       "; convert the model to GGUF again, or use the Hugging Face tokenizer files");
}

/// Returns a metadata list whose elements have one type, or nullptr if the key is missing.
const Json* find_list(const GgufMetadata& metadata, const char* key, bool (*is_kind)(const Json&), const char* kind) {
  const Json* list = metadata.find(key);
  if (list == nullptr) return nullptr;
  if (!list->is_array() || (!list->empty() && !is_kind((*list)[0]))) reject(metadata, key, " is not a list of ", kind);
  return list;  // all elements of a list have the type of the first
}

bool is_text(const Json& value) { return value.is_string(); }
bool is_number(const Json& value) { return value.is_number(); }
bool is_whole(const Json& value) { return value.is_number_integer(); }

/// Converts the metadata. Its string views point into the metadata.
class TokenizerReader {
 public:
  explicit TokenizerReader(const GgufMetadata& metadata) : metadata_(metadata) {}

  GgufTokenizer read() {
    const std::string kind = metadata_.required_text(gguf::kTokenizerModel);
    if (kind != "gpt2" && kind != "llama") {
      reject(metadata_, "tokenizer.ggml.model is ", printable(kind), "; known are \"gpt2\" and \"llama\"");
    }
    byte_level_ = kind == "gpt2";
    read_tokens();
    read_special();
    read_merges();
    pre_tokenizer_ = byte_level_ ? read_pre_tokenizer_type() : GgufPreTokenizer{.name = "", .add_bos = true};
    add_bos_ = bos_ && metadata_.flag(gguf::kAddBos).value_or(pre_tokenizer_.add_bos);
    add_eos_ = eos_ && metadata_.flag(gguf::kAddEos).value_or(false);

    GgufTokenizer result;
    std::tie(result.bos, result.eos, result.pad) = std::tie(bos_, eos_, pad_);
    for (const std::optional<int64_t>& end :
         {eos_, read_token_id(gguf::kEndOfTurn), read_token_id(gguf::kEndOfMessage)}) {
      if (end && std::find(result.stop_ids.begin(), result.stop_ids.end(), *end) == result.stop_ids.end()) {
        result.stop_ids.push_back(*end);
      }
    }
    result.tokenizer = tokenizer_json();
    result.tokenizer_config = config_json();
    return result;
  }

 private:
  std::string_view token(int64_t id) const { return tokens_[static_cast<size_t>(id)]; }
  std::string token_text(int64_t id) const { return std::string(token(id)); }
  int64_t type(size_t id) const { return types_.empty() ? int64_t{gguf::kNormalToken} : types_[id]; }

  /// Padding tokens, with which converters fill the vocabulary up to the embedding size.
  bool is_padding_token(size_t id) const {
    return type(id) == gguf::kUnusedToken && tokens_[id] == "[PAD" + std::to_string(id) + "]";
  }

  void read_tokens() {
    const Json* tokens = find_list(metadata_, gguf::kTokens, is_text, "strings");
    if (tokens == nullptr || tokens->empty()) reject(metadata_, "it has no tokenizer.ggml.tokens");
    for (const Json& text : *tokens) tokens_.push_back(text.get_ref<const std::string&>());
    if (const Json* types = find_list(metadata_, gguf::kTokenTypes, is_whole, "whole numbers")) {
      check_one_per_token(gguf::kTokenTypes, types->size());
      for (const Json& value : *types) types_.push_back(value.get<int64_t>());
    }
    if (const Json* scores = find_list(metadata_, gguf::kScores, is_number, "numbers")) {
      check_one_per_token(gguf::kScores, scores->size());
      for (const Json& value : *scores) scores_.push_back(value.get<double>());
    }
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (is_padding_token(id)) continue;
      const auto [known, is_new] = vocabulary_.emplace(tokens_[id], static_cast<int64_t>(id));
      if (!is_new) {
        reject(metadata_, "the token ", printable(tokens_[id]), " has two ids, ", known->second, " and ", id);
      }
    }
  }

  void check_one_per_token(const char* key, size_t length) const {
    if (length != tokens_.size()) {
      reject(metadata_, key, " has ", length, " elements; expected one per token, ", tokens_.size());
    }
  }

  std::optional<int64_t> read_token_id(const char* key) const {
    const std::optional<int64_t> id = metadata_.integer(key);
    if (!id) return std::nullopt;
    if (*id < 0 || static_cast<size_t>(*id) >= tokens_.size()) {
      reject(metadata_, key, " is ", *id, "; expected the id of a token, 0 to ", tokens_.size() - 1);
    }
    return is_padding_token(static_cast<size_t>(*id)) ? std::nullopt : id;
  }

  void read_special() {
    bos_ = read_token_id(gguf::kBos);
    eos_ = read_token_id(gguf::kEos);
    unk_ = read_token_id(gguf::kUnknown);
    pad_ = read_token_id(gguf::kPad);
  }

  void read_merges() {
    const Json* merges = find_list(metadata_, gguf::kMerges, is_text, "strings");
    if (merges == nullptr) {
      if (byte_level_) reject(metadata_, "it has no tokenizer.ggml.merges");
      if (scores_.empty()) reject(metadata_, "it has neither tokenizer.ggml.merges nor tokenizer.ggml.scores");
      if (std::any_of(scores_.begin(), scores_.end(), [](double score) { return std::isnan(score); })) {
        reject(metadata_, "tokenizer.ggml.scores holds a NaN");
      }
      std::optional<std::vector<TokenMerge>> found = merges_from_scores(tokens_, vocabulary_, scores_);
      if (!found) reject(metadata_, "its scores imply more than ", kMaxTokenMerges, " merges");
      merges_ = std::move(*found);
      return;
    }
    std::string joined;
    for (size_t i = 0; i < merges->size(); ++i) {
      const std::string_view merge = (*merges)[i].get_ref<const std::string&>();
      const size_t space = merge.find(' ', 1);
      if (space == merge.npos || space + 1 == merge.size()) {
        reject(metadata_, "merge ", i, " is ", printable(merge), "; expected two tokens with a space between them");
      }
      const TokenMerge pair = {merge.substr(0, space), merge.substr(space + 1)};
      joined.assign(pair.first).append(pair.second);
      for (const std::string_view part : {pair.first, pair.second, std::string_view(joined)}) {
        if (!vocabulary_.contains(part)) {
          reject(metadata_, "merge ", i, ", ", printable(merge), ", needs the token ", printable(part),
                 ", which tokenizer.ggml.tokens does not have");
        }
      }
      merges_.push_back(pair);
    }
  }

  GgufPreTokenizer read_pre_tokenizer_type() const {
    const std::string architecture = metadata_.text(gguf::kArchitecture).value_or("");
    // Old files do not have the key: qwen models use qwen2, all others the GPT-2 pre-tokenizer.
    const std::string default_name = architecture.starts_with("qwen") ? "qwen2" : "gpt-2";
    const std::string name = metadata_.text(gguf::kTokenizerPre).value_or(default_name);
    std::string known;
    for (const GgufPreTokenizer& each : gguf_pre_tokenizers()) {
      if (each.name == name) return each;
      known.append(known.empty() ? "" : ", ").append(each.name);
    }
    reject(metadata_, "tokenizer.ggml.pre is ", printable(name), "; known are ", known);
  }

  Json added_tokens() const {
    Json list = Json::array();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const auto is_role = [&](const std::optional<int64_t>& role) { return role && static_cast<size_t>(*role) == id; };
      const bool special =
          type(id) == gguf::kControlToken || type(id) == gguf::kUnknownToken || is_role(bos_) || is_role(eos_);
      if ((!special && type(id) != gguf::kUserDefinedToken) || tokens_[id].empty()) continue;
      if (list.size() == kMaxAddedTokens) {
        reject(metadata_, "more than ", kMaxAddedTokens, " tokens have the type control, unknown or user-defined");
      }
      list.push_back({{"id", id},
                      {"content", tokens_[id]},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", special}});
    }
    return list;
  }

  Json pre_tokenizer() const {
    const bool add_prefix_space = metadata_.flag(gguf::kSpacePrefix).value_or(!byte_level_);
    if (!byte_level_) {
      return {{"type", "Metaspace"},
              {"replacement", "\u2581"},
              {"prepend_scheme", add_prefix_space ? "first" : "never"},
              {"split", false}};
    }
    return pre_tokenizer_.pre_tokenizer(add_prefix_space);
  }

  /// The post-processor that adds bos before and eos after a text, if the file requires them.
  Json post_processor() const {
    if (!add_bos_ && !add_eos_) return {};
    Json single = Json::array(), pair = Json::array(), special = Json::object();
    for (const char* part : {"A", "B"}) {
      const int type_id = part[0] == 'A' ? 0 : 1;
      const auto add = [&](const Json& step) {
        if (type_id == 0) single.push_back(step);
        pair.push_back(step);
      };
      const auto add_token = [&](int64_t id) {
        const std::string content = token_text(id);
        special[content] = {{"id", content}, {"ids", Json::array({id})}, {"tokens", Json::array({content})}};
        add({{"SpecialToken", {{"id", content}, {"type_id", type_id}}}});
      };
      if (add_bos_) add_token(*bos_);
      add({{"Sequence", {{"id", part}, {"type_id", type_id}}}});
      if (add_eos_) add_token(*eos_);
    }
    return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
  }

  Json decoder() const {
    if (byte_level_) {
      return {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
    }
    Json steps = Json::array({{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                              {{"type", "ByteFallback"}},
                              {{"type", "Fuse"}}});
    if (metadata_.flag(gguf::kSpacePrefix).value_or(true)) {
      steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
    return {{"type", "Sequence"}, {"decoders", steps}};
  }

  Json model() const {
    // emplace_back avoids key lookups, which are linear in an ordered JSON object.
    Json vocabulary = Json::object();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (!is_padding_token(id)) vocabulary.get_ref<Json::object_t&>().emplace_back(std::string(tokens_[id]), id);
    }
    Json merges = Json::array();
    for (const auto& [left, right] : merges_) merges.push_back(Json::array({left, right}));
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", !byte_level_ && unk_ ? Json(token(*unk_)) : Json()},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", !byte_level_},
            {"byte_fallback", !byte_level_},
            {"ignore_merges", pre_tokenizer_.ignore_merges},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)}};
  }

  Json tokenizer_json() const {
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", added_tokens()},
            {"normalizer", pre_tokenizer_.normalizer()},
            {"pre_tokenizer", pre_tokenizer()},
            {"post_processor", post_processor()},
            {"decoder", decoder()},
            {"model", model()}};
  }

  Json config_json() const {
    Json config = {{"add_bos_token", add_bos_}, {"add_eos_token", add_eos_}, {"added_tokens_decoder", Json::object()}};
    for (Json token : added_tokens()) {
      const auto id = token["id"].get<int64_t>();
      token.erase("id");
      config["added_tokens_decoder"].get_ref<Json::object_t&>().emplace_back(std::to_string(id), std::move(token));
    }
    for (const auto& [role, id] :
         {std::pair{"bos_token", bos_}, {"eos_token", eos_}, {"pad_token", pad_}, {"unk_token", unk_}}) {
      if (id) config[role] = token(*id);
    }
    if (const auto chat = metadata_.text(gguf::kChatTemplate)) config["chat_template"] = *chat;
    config["clean_up_tokenization_spaces"] = false;
    config["model_max_length"] =
        metadata_.integer(metadata_.text(gguf::kArchitecture).value_or("") + "." + gguf::kContextLength).value_or(2048);
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
    return config;
  }

  const GgufMetadata& metadata_;
  bool byte_level_ = true, add_bos_ = false, add_eos_ = false;
  std::vector<std::string_view> tokens_;  // by id
  std::vector<int64_t> types_;            // empty, or one per token
  std::vector<double> scores_;            // empty, or one per token
  TokenIds vocabulary_;
  std::vector<TokenMerge> merges_;
  std::optional<int64_t> bos_, eos_, unk_, pad_;
  GgufPreTokenizer pre_tokenizer_;
};

}  // namespace

GgufTokenizer tokenizer_from_gguf(const GgufMetadata& metadata) { return TokenizerReader(metadata).read(); }

}  // namespace keel
