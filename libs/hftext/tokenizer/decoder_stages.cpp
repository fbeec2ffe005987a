#include "libs/hftext/tokenizer/decoder_stages.h"

#include <optional>

#include "keel/core/untrusted_text.h"
#include "libs/hftext/characters/search.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/tokenizer/byte_alphabet.h"
#include "libs/hftext/tokenizer/strict_object.h"

namespace keel::text {
namespace {

struct JoinStage : DecoderStage {
  void push(std::string_view token) override {
    if (!first && !per_token) next->push(" ");  // the space is between tokens, so a single one has none
    first = false;
    next->push(token);
  }
  bool first = true;
};

struct ByteLevelStage : DecoderStage {
  void push(std::string_view token) override {
    const std::optional<std::string> decoded = bytes_of_characters(token);
    if (per_token) return next->push(decoded ? std::string_view(*decoded) : token);
    bytes += decoded ? std::string_view(*decoded) : token;  // a token outside the alphabet stays text
  }
  void finish() override {
    next->push(lossy_utf8(bytes));
    next->finish();
  }
  std::string bytes;
};

std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  const int high = token[3] == '+' ? 0 : digit(token[3]);  // Rust parses "+A" as a number, too
  const int low = digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

struct ByteFallbackStage : DecoderStage {
  void push(std::string_view token) override {
    if (const std::optional<char> byte = fallback_byte(token)) {
      if (per_token) return next->push({&*byte, 1});
      bytes.push_back(*byte);
      return;
    }
    flush();
    next->push(token);
  }
  void finish() override {
    flush();
    next->finish();
  }
  void flush() {
    if (bytes.empty()) return;
    if (!first_bad_utf8(bytes)) {
      next->push(bytes);
    } else {
      for (size_t i = 0; i < bytes.size(); ++i) next->push("\uFFFD");
    }
    bytes.clear();
  }
  std::string bytes;
};

struct FuseStage : DecoderStage {
  void push(std::string_view token) override {
    if (per_token) return next->push(token);
    text += token;
  }
  void finish() override {
    next->push(text);
    next->finish();
  }
  std::string text;
};

struct StripStartStage : DecoderStage {
  StripStartStage(const std::string& stripped, size_t max_count) : content(stripped), remaining(max_count) {}
  void push(std::string_view token) override {
    while (remaining > 0 && token.starts_with(content)) {
      token.remove_prefix(content.size());
      --remaining;
    }
    if (!token.empty()) remaining = 0;
    next->push(token);
  }
  std::string content;
  size_t remaining;
};

struct StripStage : DecoderStage {
  StripStage(const std::string& stripped, size_t max_start, size_t max_stop)
      : content(stripped), start(max_start), stop(max_stop) {}
  void push(std::string_view token) override {
    for (size_t i = 0; i < start && token.starts_with(content); ++i) token.remove_prefix(content.size());
    for (size_t i = 0; i < stop && token.ends_with(content); ++i) token.remove_suffix(content.size());
    next->push(token);
  }
  std::string content;
  size_t start, stop;
};

struct ReplaceStage : DecoderStage {
  ReplaceStage(const Pattern& searched, const std::string& substitute, const std::string& file_location)
      : pattern(searched), replacement(substitute), location(file_location) {}
  void push(std::string_view token) override {
    if (per_token && first_bad_utf8(token)) return next->push(token);  // incomplete UTF-8 cannot be searched
    pattern.split(token, spans, budget);
    output_bytes += replaced_size(spans, replacement.size());
    check_growth(*input_bytes, output_bytes, location);
    std::string text;
    for (const Span& span : spans) {
      text += span.match ? std::string_view(replacement) : token.substr(span.begin, span.end - span.begin);
    }
    next->push(text);
  }
  Pattern pattern;
  std::string replacement, location;
  std::vector<Span> spans;
  RegexBudget budget;
  size_t output_bytes = 0;
};

struct MetaspaceStage : DecoderStage {
  MetaspaceStage(const std::string& mark, bool keep_first) : space_mark(mark), keeps_first(keep_first) {}
  void push(std::string_view token) override {
    std::string text(token);
    replace_all(text, space_mark, first && !keeps_first ? "" : " ");
    first = false;
    next->push(text);
  }
  std::string space_mark;  // "▁"
  bool keeps_first, first = true;
};

struct WordPieceStage : DecoderStage {
  WordPieceStage(const std::string& continuation_prefix, bool clean_up)
      : prefix(continuation_prefix), cleanup(clean_up) {}
  void push(std::string_view token) override {
    std::string text(token);
    if (!first) text = token.starts_with(prefix) ? text.substr(prefix.size()) : " " + text;
    first = false;
    if (cleanup) clean(text);
    next->push(text);
  }
  static void clean(std::string& text) {  // mark + 1: without the space
    for (const char* mark : {" .", " ?", " !", " ,"}) replace_all(text, mark, mark + 1);
    replace_all(text, " ' ", "'");
    for (const char* mark : {" n't", " 'm"}) replace_all(text, mark, mark + 1);
    replace_all(text, " do not", " don't");
    for (const char* mark : {" 's", " 've", " 're"}) replace_all(text, mark, mark + 1);
  }
  std::string prefix;
  bool cleanup, first = true;
};

struct SuffixStage : DecoderStage {
  explicit SuffixStage(const std::string& end_of_word) : suffix(end_of_word) {}
  void push(std::string_view token) override {
    emit(" ");
    pending = token;
    if (!per_token) return;
    emit(" ");  // as inside a text
    pending.reset();
  }
  void finish() override {
    emit("");
    pending.reset();
    next->finish();
  }
  void emit(std::string_view replacement) {
    if (!pending) return;
    replace_all(*pending, suffix, replacement);
    next->push(*pending);
  }
  std::string suffix;
  std::optional<std::string> pending;  // held until it is known whether it is the last
};

}  // namespace

StagePointer make_join_stage() { return std::make_unique<JoinStage>(); }
StagePointer make_byte_level_stage() { return std::make_unique<ByteLevelStage>(); }
StagePointer make_byte_fallback_stage() { return std::make_unique<ByteFallbackStage>(); }
StagePointer make_fuse_stage() { return std::make_unique<FuseStage>(); }
StagePointer make_strip_start_stage(const std::string& content, size_t count) {
  return std::make_unique<StripStartStage>(content, count);
}
StagePointer make_strip_stage(const std::string& content, size_t start, size_t stop) {
  return std::make_unique<StripStage>(content, start, stop);
}
StagePointer make_replace_stage(const Pattern& pattern, const std::string& replacement,
                                const std::string& location) {
  return std::make_unique<ReplaceStage>(pattern, replacement, location);
}
StagePointer make_metaspace_stage(const std::string& space_mark, bool keeps_first) {
  return std::make_unique<MetaspaceStage>(space_mark, keeps_first);
}
StagePointer make_word_piece_stage(const std::string& prefix, bool cleanup) {
  return std::make_unique<WordPieceStage>(prefix, cleanup);
}
StagePointer make_suffix_stage(const std::string& suffix) { return std::make_unique<SuffixStage>(suffix); }

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  std::string result;
  size_t covered = 0;
  for (size_t at = find(text, from); at != std::string::npos; at = find(text, from, covered)) {
    result.append(text, covered, at - covered).append(to);
    covered = at + from.size();
  }
  if (covered == 0) return;
  text = result.append(text, covered, std::string::npos);
}

}  // namespace keel::text
