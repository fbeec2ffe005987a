#include "keel/model/formats/gguf/gguf_tokenizer_writer.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/core/untrusted_text.h"
#include "keel/model/formats/gguf/gguf_keys.h"
#include "keel/model/formats/gguf/gguf_pre_tokenizers.h"
#include "keel/model/formats/gguf/gguf_sentencepiece.h"

namespace keel {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

bool is_byte_token(std::string_view token) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return token.size() == 6 && token.starts_with("<0x") && token[5] == '>' && is_hex(token[3]) && is_hex(token[4]);
}

std::string replace_space_marks(std::string text) {
  for (size_t i = 0; (i = text.find(kSpaceMark, i)) != std::string::npos; ++i) text.replace(i, kSpaceMark.size(), " ");
  return text;
}

class TokenizerWriter {
 public:
  TokenizerWriter(const ExportTokenizer& exported, const std::string& location)
      : exported_(exported), tokenizer_(exported.tokenizer), model_(tokenizer_["model"]), location_(location) {}

  void write(GgufWriter& writer) {
    check_model();
    read_tokens();
    byte_level_ = has_step("pre_tokenizer", "ByteLevel");
    if (byte_level_) {
      writer.add_text(gguf::kTokenizerModel, "gpt2");
      writer.add_text(gguf::kTokenizerPre, pre_tokenizer().name);
    } else {
      writer.add_text(gguf::kTokenizerModel, "llama");
      writer.add_text(gguf::kTokenizerPre, "default");
    }
    const std::vector<double> scores = byte_level_ ? std::vector<double>{} : piece_scores();
    const std::vector<int> types = token_types();
    writer.add_texts(gguf::kTokens, tokens_);
    writer.add_types(gguf::kTokenTypes, types);
    if (byte_level_)
      writer.add_texts(gguf::kMerges, merge_texts());
    else
      writer.add_numbers(gguf::kScores, scores);
    for (const auto& [key, id] : {std::pair{gguf::kBos, exported_.bos},
                                  {gguf::kEos, exported_.eos},
                                  {gguf::kEndOfTurn, exported_.end_of_turn},
                                  {gguf::kEndOfMessage, exported_.end_of_message},
                                  {gguf::kPad, exported_.pad},
                                  {gguf::kUnknown, unknown_}})
      if (id) writer.add_count(key, *id);
    writer.add_flag(gguf::kAddBos, exported_.add_bos);
    writer.add_flag(gguf::kAddEos, exported_.add_eos);
    if (!byte_level_) writer.add_flag(gguf::kSpacePrefix, add_prefix_space());
    if (!exported_.chat_template.empty()) writer.add_text(gguf::kChatTemplate, exported_.chat_template);
  }

 private:
  template <class... Parts>
  [[noreturn]] void reject(const Parts&... parts) const {
    fail(ExitCode::kBadInput, location_, ": this tokenizer cannot be written to a GGUF file: ", parts...,
         "; write a Hugging Face folder instead (OUT without .gguf)");
  }

  bool has_step(const char* part, const char* type) const {
    const std::vector<Json> steps = tokenizer_steps(tokenizer_.value(part, Json()));
    return std::any_of(steps.begin(), steps.end(),
                       [&](const Json& step) { return step.value("type", Json()) == type; });
  }

  void check_model() const {
    const Json type = model_.value("type", Json("BPE"));
    if (type != "BPE") reject("its model is ", format_short_json(type), "; GGUF export supports only BPE");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"}) {
      const Json value = model_.value(key, Json());
      if (!value.is_null() && value != "" && value != 0) reject("its model has ", key, " ", format_short_json(value));
    }
  }

  void read_tokens() {
    tokens_.resize(static_cast<size_t>(exported_.embeddings));
    added_.resize(tokens_.size());
    const auto set_token = [&](const std::string& text, int64_t id) {
      if (id < 0 || id >= exported_.embeddings)
        reject("its token ", printable(text), " has the id ", id, ", but the model has only ", exported_.embeddings,
               " embeddings");
      if (text.empty()) reject("its token ", id, " is an empty text, which means no token in GGUF");
      tokens_[static_cast<size_t>(id)] = text;
      return static_cast<size_t>(id);
    };
    for (const auto& [text, id] : exported_.vocabulary) set_token(text, id);
    const Json unknown = model_.value("unk_token", Json());
    for (const Json& token : tokenizer_.value("added_tokens", Json::array())) {
      const std::string text = token["content"];
      for (const char* key : {"lstrip", "rstrip", "single_word"})
        if (token.value(key, false))
          reject("its token ", printable(text), " has ", key, ", which GGUF does not support");
      added_[set_token(text, token["id"].get<int64_t>())] = token.value("special", false) ? kSpecial : kPlain;
    }
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (tokens_[id].empty()) continue;
      ids_.emplace(tokens_[id], static_cast<int64_t>(id));
      if (unknown == tokens_[id]) unknown_ = static_cast<int64_t>(id);
    }
  }

  const GgufPreTokenizer& pre_tokenizer() const {
    if (const GgufPreTokenizer* found = find_pre_tokenizer(tokenizer_)) return *found;
    std::string known;
    for (const GgufPreTokenizer& candidate : gguf_pre_tokenizers())
      known.append(known.empty() ? "" : ", ").append(candidate.name);
    const Json flag = model_.value("ignore_merges", Json(false));
    reject("its pre-tokenization (normalizer ", format_short_json(tokenizer_.value("normalizer", Json())),
           ", pre_tokenizer ", format_short_json(tokenizer_.value("pre_tokenizer", Json())), ", ignore_merges ",
           format_short_json(flag), ") has no name in GGUF; supported: ", known);
  }

  /// Returns whether a space is added before a text, for all variants in tokenizer.json that GGUF supports.
  bool add_prefix_space() const {
    const Json mark(kSpaceMark);
    const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}};
    const Json prepend = {{"type", "Prepend"}, {"prepend", mark}};
    // Has no effect after spaces have been replaced.
    const Json no_split = {
        {"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
    const Json normalizer = tokenizer_.value("normalizer", Json()), pre = tokenizer_.value("pre_tokenizer", Json());
    const std::vector<Json> splits = tokenizer_steps(pre);
    const bool is_unsplit = splits.empty() || has_steps(pre, {no_split});
    if (is_unsplit && has_steps(normalizer, {prepend, replace})) return true;
    if (is_unsplit && has_steps(normalizer, {replace})) return false;
    if (has_steps(normalizer, {}) && splits.size() == 1 && splits[0].value("type", Json()) == "Metaspace" &&
        splits[0].value("replacement", Json()) == mark && splits[0].value("split", Json()) == false)
      return splits[0].value("prepend_scheme", Json("always")) != "never";
    reject("its handling of spaces (normalizer ", format_short_json(normalizer), ", pre_tokenizer ",
           format_short_json(pre), ") is neither that of byte-level BPE nor that of SentencePiece");
  }

  std::vector<double> piece_scores() const {
    if (model_.value("byte_fallback", Json()) != true) reject("it is a character-level BPE without byte_fallback");
    std::vector<TokenMerge> merges;
    merges.reserve(exported_.merges.size());
    for (const auto& [left, right] : exported_.merges) merges.emplace_back(left, right);
    const std::vector<std::string_view> tokens(tokens_.begin(), tokens_.end());
    TokenScores found = scores_from_merges(tokens, ids_, merges);
    if (!found.error.empty()) reject("its merges cannot be expressed as SentencePiece scores: ", found.error);
    return std::move(found.scores);
  }

  /// Returns the token types. Also sets the texts of padding tokens, and replaces space marks in user-defined pieces.
  std::vector<int> token_types() {
    std::vector<bool> is_merged(tokens_.size());
    for (const auto& [left, right] : exported_.merges)
      if (const auto merged = ids_.find(left + right); merged != ids_.end())
        is_merged[static_cast<size_t>(merged->second)] = true;
    std::vector<int> types;
    for (size_t id = 0; id < tokens_.size(); ++id) {
      std::string& text = tokens_[id];
      if (text.empty()) {
        text = "[PAD" + std::to_string(id) + "]";
        types.push_back(gguf::kUnusedToken);
      } else if (unknown_ == static_cast<int64_t>(id)) {
        types.push_back(byte_level_ ? gguf::kControlToken : gguf::kUnknownToken);
      } else if (added_[id] == kSpecial) {
        types.push_back(gguf::kControlToken);
      } else if (added_[id] == kPlain && (byte_level_ || text.find(kSpaceMark) == text.npos)) {
        types.push_back(gguf::kUserDefinedToken);
      } else if (added_[id] == kPlain && !is_merged[id]) {
        types.push_back(gguf::kUserDefinedToken);
        text = replace_space_marks(text);
      } else {  // includes sequences of space marks that merges produce
        types.push_back(!byte_level_ && is_byte_token(text) ? gguf::kByteToken : gguf::kNormalToken);
      }
    }
    return types;
  }

  std::vector<std::string> merge_texts() const {
    std::vector<std::string> texts;
    texts.reserve(exported_.merges.size());
    for (const auto& [left, right] : exported_.merges) texts.push_back(left + " " + right);
    return texts;
  }

  enum Added : char { kNotAdded, kPlain, kSpecial };

  const ExportTokenizer& exported_;
  const Json& tokenizer_;
  const Json& model_;
  const std::string& location_;
  bool byte_level_ = true;
  std::vector<std::string> tokens_;  // by id; empty: no token
  std::vector<Added> added_;         // by id
  TokenIds ids_;
  std::optional<int64_t> unknown_;
};

}  // namespace

void tokenizer_to_gguf(const ExportTokenizer& exported, const std::string& location, GgufWriter& writer) {
  TokenizerWriter(exported, location).write(writer);
}

}  // namespace keel
