#include "keel/model/formats/gguf/gguf_tokenizer_writer.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/core/foreign_text.h"
#include "keel/model/formats/gguf/gguf_keys.h"
#include "keel/model/formats/gguf/gguf_sentencepiece.h"
#include "keel/model/formats/gguf/gguf_word_splits.h"

namespace keel {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

bool is_byte_token(std::string_view token) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return token.size() == 6 && token.starts_with("<0x") && token[5] == '>' && is_hex(token[3]) && is_hex(token[4]);
}

std::string with_spaces(std::string text) {
  for (size_t at = 0; (at = text.find(kSpaceMark, at)) != std::string::npos; ++at)
    text.replace(at, kSpaceMark.size(), " ");
  return text;
}

class TokenizerWriter {
 public:
  TokenizerWriter(const OutgoingTokenizer& outgoing, const std::string& place)
      : outgoing_(outgoing), tokenizer_(outgoing.tokenizer), model_(tokenizer_["model"]), place_(place) {}

  void write(GgufWriter& writer) {
    check_model();
    read_tokens();
    byte_level_ = has_step("pre_tokenizer", "ByteLevel");
    if (byte_level_) {
      writer.add_text(gguf::kTokenizerModel, "gpt2");
      writer.add_text(gguf::kTokenizerPre, split().name);
    } else {
      writer.add_text(gguf::kTokenizerModel, "llama");
      writer.add_text(gguf::kTokenizerPre, "default");
    }
    const std::vector<double> scores = byte_level_ ? std::vector<double>{} : scores_of_pieces();
    const std::vector<int> types = types_of_tokens();
    writer.add_texts(gguf::kTokens, tokens_);
    writer.add_types(gguf::kTokenTypes, types);
    if (byte_level_)
      writer.add_texts(gguf::kMerges, merge_texts());
    else
      writer.add_numbers(gguf::kScores, scores);
    for (const auto& [key, id] : {std::pair{gguf::kBos, outgoing_.bos},
                                  {gguf::kEos, outgoing_.eos},
                                  {gguf::kEndOfTurn, outgoing_.end_of_turn},
                                  {gguf::kEndOfMessage, outgoing_.end_of_message},
                                  {gguf::kPad, outgoing_.pad},
                                  {gguf::kUnknown, unknown_}})
      if (id) writer.add_count(key, *id);
    writer.add_flag(gguf::kAddBos, outgoing_.add_bos);
    writer.add_flag(gguf::kAddEos, outgoing_.add_eos);
    if (!byte_level_) writer.add_flag(gguf::kSpacePrefix, space_first());
    if (!outgoing_.chat_template.empty()) writer.add_text(gguf::kChatTemplate, outgoing_.chat_template);
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ExitCode::kBadInput, place_, ": this tokenizer cannot be written to a GGUF file: ", parts...,
         "; write a Hugging Face folder instead (OUT without .gguf)");
  }

  bool has_step(const char* part, const char* type) const {
    const std::vector<Json> steps = tokenizer_steps(tokenizer_.value(part, Json()));
    return std::any_of(steps.begin(), steps.end(),
                       [&](const Json& step) { return step.value("type", Json()) == type; });
  }

  void check_model() const {
    const Json type = model_.value("type", Json("BPE"));
    if (type != "BPE") refuse("its model is ", shown_json(type), "; GGUF files have names for BPE alone");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"}) {
      const Json value = model_.value(key, Json());
      if (!value.is_null() && value != "" && value != 0) refuse("its model has ", key, " ", shown_json(value));
    }
  }

  void read_tokens() {
    tokens_.resize(static_cast<size_t>(outgoing_.embeddings));
    added_.resize(tokens_.size());
    const auto put = [&](const std::string& text, int64_t id) {
      if (id < 0 || id >= outgoing_.embeddings)
        refuse("its token ", printable(text), " has the id ", id, ", and the model only ", outgoing_.embeddings,
               " embeddings");
      if (text.empty()) refuse("its token ", id, " is an empty text, which stands for none there");
      tokens_[static_cast<size_t>(id)] = text;
      return static_cast<size_t>(id);
    };
    for (const auto& [text, id] : outgoing_.vocabulary) put(text, id);
    const Json unknown = model_.value("unk_token", Json());
    for (const Json& token : tokenizer_.value("added_tokens", Json::array())) {
      const std::string text = token["content"];
      for (const char* key : {"lstrip", "rstrip", "single_word"})
        if (token.value(key, false))
          refuse("its token ", printable(text), " has ", key, ", which takes in the white space or words around it");
      added_[put(text, token["id"].get<int64_t>())] = token.value("special", false) ? kSpecial : kPlain;
    }
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (tokens_[id].empty()) continue;
      ids_.emplace(tokens_[id], static_cast<int64_t>(id));
      if (unknown == tokens_[id]) unknown_ = static_cast<int64_t>(id);
    }
  }

  const WordSplit& split() const {
    if (const WordSplit* found = word_split_of(tokenizer_)) return *found;
    std::string known;
    for (const WordSplit& each : gguf_word_splits()) known.append(known.empty() ? "" : ", ").append(each.name);
    const Json flag = model_.value("ignore_merges", Json(false));
    refuse("how it cuts text into words (normalizer ", shown_json(tokenizer_.value("normalizer", Json())),
           ", pre_tokenizer ", shown_json(tokenizer_.value("pre_tokenizer", Json())), ", ignore_merges ",
           shown_json(flag), ") has no name; those of ", known, " have one");
  }

  /// Whether a text begins with a space that nobody wrote. All ways to say it in tokenizer.json that GGUF files know.
  bool space_first() const {
    const Json mark(kSpaceMark);
    const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}};
    const Json prepend = {{"type", "Prepend"}, {"prepend", mark}};
    // After spaces were replaced there are none to cut at.
    const Json no_cut = {
        {"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
    const Json normalizer = tokenizer_.value("normalizer", Json()), pre = tokenizer_.value("pre_tokenizer", Json());
    const std::vector<Json> cuts = tokenizer_steps(pre);
    const bool one_piece = cuts.empty() || has_steps(pre, {no_cut});
    if (one_piece && has_steps(normalizer, {prepend, replace})) return true;
    if (one_piece && has_steps(normalizer, {replace})) return false;
    if (has_steps(normalizer, {}) && cuts.size() == 1 && cuts[0].value("type", Json()) == "Metaspace" &&
        cuts[0].value("replacement", Json()) == mark && cuts[0].value("split", Json()) == false)
      return cuts[0].value("prepend_scheme", Json("always")) != "never";
    refuse("how it treats spaces (normalizer ", shown_json(normalizer), ", pre_tokenizer ", shown_json(pre),
           ") is neither byte-level nor SentencePiece's");
  }

  std::vector<double> scores_of_pieces() const {
    if (model_.value("byte_fallback", Json()) != true)
      refuse("it is a BPE of characters that neither has the bytes as tokens nor works on bytes");
    std::vector<TokenMerge> merges;
    merges.reserve(outgoing_.merges.size());
    for (const auto& [left, right] : outgoing_.merges) merges.emplace_back(left, right);
    const std::vector<std::string_view> tokens(tokens_.begin(), tokens_.end());
    TokenScores found = scores_from_merges(tokens, ids_, merges);
    if (!found.fault.empty())
      refuse("its merges are not SentencePiece's, whose tokens have a score each: ", found.fault);
    return std::move(found.scores);
  }

  /// Also gives tokens the texts that files have: fillers, and user-defined pieces with spaces in place of their mark.
  std::vector<int> types_of_tokens() {
    std::vector<bool> is_made(tokens_.size());
    for (const auto& [left, right] : outgoing_.merges)
      if (const auto made = ids_.find(left + right); made != ids_.end())
        is_made[static_cast<size_t>(made->second)] = true;
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
      } else if (added_[id] == kPlain && !is_made[id]) {
        types.push_back(gguf::kUserDefinedToken);
        text = with_spaces(text);
      } else {  // a run of marks that merges make as well, from spaces, is left to them
        types.push_back(!byte_level_ && is_byte_token(text) ? gguf::kByteToken : gguf::kNormalToken);
      }
    }
    return types;
  }

  std::vector<std::string> merge_texts() const {
    std::vector<std::string> texts;
    texts.reserve(outgoing_.merges.size());
    for (const auto& [left, right] : outgoing_.merges) texts.push_back(left + " " + right);
    return texts;
  }

  enum Added : char { kNot, kPlain, kSpecial };

  const OutgoingTokenizer& outgoing_;
  const Json& tokenizer_;
  const Json& model_;
  const std::string& place_;
  bool byte_level_ = true;
  std::vector<std::string> tokens_;  // by id; empty where there is none
  std::vector<Added> added_;         // by id
  TokenIds ids_;
  std::optional<int64_t> unknown_;
};

}  // namespace

void tokenizer_to_gguf(const OutgoingTokenizer& outgoing, const std::string& place, GgufWriter& writer) {
  TokenizerWriter(outgoing, place).write(writer);
}

}  // namespace keel
