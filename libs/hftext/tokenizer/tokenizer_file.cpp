#include "libs/hftext/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "keel/core/error.h"
#include "keel/core/json_reader.h"
#include "libs/hftext/tokenizer/strict_object.h"

namespace keel::text {
namespace {

constexpr size_t kMaxToken = 16384;  // bytes; the longest known tokens have a few hundred

/// The double nearest to 10^exponent, for exponents from 0 to 308.
double power_of_ten(int exponent) {
  const std::string text = "1e" + std::to_string(exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Parses a JSON number with a point or exponent as the tokenizers package does: the digits that fit into 64 bits,
/// multiplied or divided by a power of ten. The result is not always the nearest double, and its last bit decides
/// between segmentations of equal score.
double package_double(std::string_view text) {
  const bool negative = text.starts_with('-');
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool overflowed = false, after_point = false;
  size_t position = negative ? 1 : 0;
  for (; position < text.size() && text[position] != 'e' && text[position] != 'E'; ++position) {
    if (text[position] == '.') {
      after_point = true;
      overflowed = false;  // a later digit may still fit
      continue;
    }
    const auto digit = static_cast<uint64_t>(text[position] - '0');
    overflowed = overflowed || digits > UINT64_MAX / 10 || (digits == UINT64_MAX / 10 && digit > UINT64_MAX % 10);
    if (!overflowed) digits = digits * 10 + digit;
    if (overflowed != after_point) exponent += overflowed ? 1 : -1;
  }
  if (position < text.size()) {
    position += text.substr(position + 1).starts_with('+') ? 2 : 1;
    int32_t written_exponent = 0;
    if (std::from_chars(text.data() + position, text.data() + text.size(), written_exponent).ec != std::errc())
      written_exponent = text[position] == '-' ? INT32_MIN / 2 : INT32_MAX / 2;
    exponent += written_exponent;
  }
  double value = static_cast<double>(digits);
  for (; exponent < -308 && value != 0; exponent += 308) value /= 1e308;
  if (value != 0) {
    const double power = power_of_ten(static_cast<int>(std::min<int64_t>(std::abs(exponent), 308)));
    value = exponent < 0 ? value / power : value * power;
  }
  return negative ? -value : value;
}

/// Handles the parser's events. A JSON tree of the vocabulary would take ten times its size and quadratic time, since
/// each insertion searches all keys.
class Reader final : public JsonSaxHandler {
 public:
  Reader(const std::string& location, TokenizerFile& file)
      : JsonSaxHandler(kFileDepth), location_(location), file_(file) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override {
    return part_ == Part::kTree ? add(value) : number(value, static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (part_ == Part::kTree) return add(value);
    return number(value > INT64_MAX ? INT64_MAX : static_cast<int64_t>(value), static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t& written) override {
    if (part_ == Part::kVocabulary) fail_entry("model.vocab must map tokens to integers");
    return part_ == Part::kTree ? add(value) : number(0, package_double(written));
  }
  bool string(string_t& value) override;
  bool key(string_t& name) override;

  Json take() { return std::move(root_); }

 private:
  enum class Part { kTree, kVocabulary, kPieces, kMerges };

  bool begin_object() override { return open(Json::object()); }
  bool begin_array() override { return open(Json::array()); }
  bool finish_object() override { return close(); }
  bool finish_array() override { return close(); }
  [[noreturn]] void refuse(const std::string& reason) const override {
    fail(ExitCode::kBadInput, location_, ":", line(), ": ", reason);
  }

  bool add(Json value);
  bool open(Json empty);
  bool close();
  bool open_part(bool is_object);
  bool number(int64_t integer, double real);
  void add_token(std::string& text);
  [[noreturn]] void fail_entry(const char* what) const {
    fail(ExitCode::kBadInput, location_, ": ", what, "; the last token read is \"", preview_text(entry_), "\"");
  }

  const std::string& location_;
  TokenizerFile& file_;
  Json root_;
  std::vector<Json*> open_;  // enclosing objects and arrays
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_, root_key_;
  Part part_ = Part::kTree;
  bool in_entry_ = false;          // inside one [piece, score] or [left, right]
  int strings_ = 0, numbers_ = 0;  // counts in this entry
  std::string entry_, second_;     // its strings; also the token of the last key
  double score_ = 0;
};

bool Reader::add(Json value) {
  if (part_ != Part::kTree) fail_entry("model.vocab and model.merges must hold tokens, numbers and pairs only");
  if (open_.empty()) {
    root_ = std::move(value);
  } else if (open_.back()->is_array()) {
    open_.back()->push_back(std::move(value));
  } else {
    open_.back()->get_ref<Json::object_t&>().emplace_back(key_, std::move(value));
  }
  return true;
}

bool Reader::open(Json empty) {
  if (part_ != Part::kTree) {
    const bool pair = empty.is_array() && !in_entry_ && part_ != Part::kVocabulary;
    if (!pair) fail_entry("model.vocab and model.merges must hold tokens, numbers and pairs only");
    in_entry_ = true;
    strings_ = numbers_ = 0;
    return true;
  }
  if (open_.size() == 2 && root_key_ == "model" && (key_ == "vocab" || key_ == "merges")) {
    return open_part(empty.is_object());
  }
  add(std::move(empty));
  Json* opened = open_.empty()              ? &root_
                 : open_.back()->is_array() ? &open_.back()->back()
                                            : &open_.back()->get_ref<Json::object_t&>().back().second;
  open_.push_back(opened);
  keys_.emplace_back();
  return true;
}

bool Reader::open_part(bool is_object) {
  entry_.clear();
  if (key_ == "merges") {
    if (is_object) fail(ExitCode::kBadInput, location_, ": model.merges is an object; it must be an array of pairs");
    part_ = Part::kMerges;
    file_.has_merges = true;
  } else if (is_object) {
    part_ = Part::kVocabulary;
    file_.has_vocabulary = true;
  } else {
    part_ = Part::kPieces;
    file_.has_pieces = true;
  }
  return true;
}

bool Reader::close() {
  if (part_ == Part::kTree) {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }
  if (!in_entry_) {
    part_ = Part::kTree;
    entry_.clear();
    return true;
  }
  in_entry_ = false;
  if (part_ == Part::kMerges) {
    if (strings_ != 2 || numbers_ != 0) fail_entry("a merge of model.merges must be two tokens");
    file_.merges.emplace_back(entry_, second_);
  } else {
    if (strings_ != 1 || numbers_ != 1) fail_entry("an entry of model.vocab must be a piece and its score");
    file_.pieces.emplace_back(entry_, score_);
  }
  return true;
}

bool Reader::key(string_t& name) {
  if (part_ == Part::kVocabulary) {
    add_token(name);
    return true;
  }
  if (!keys_.back().insert(name).second) {
    fail(ExitCode::kBadInput, location_, ": the key \"", preview_text(name), "\" occurs twice in one object");
  }
  if (open_.size() == 1) root_key_ = name;
  key_ = std::move(name);
  return true;
}

void Reader::add_token(std::string& text) {
  if (text.size() > kMaxToken) {
    fail(ExitCode::kBadInput, location_, ": a token of ", text.size(), " bytes, \"", preview_text(text), "\"; at most ",
         kMaxToken, " are allowed");
  }
  const bool is_second = part_ != Part::kVocabulary && strings_ > 0;
  (is_second ? second_ : entry_) = std::move(text);
  ++strings_;
}

bool Reader::string(string_t& value) {
  if (part_ == Part::kTree) return add(std::move(value));
  if (in_entry_) {
    add_token(value);
    return true;
  }
  if (part_ != Part::kMerges) fail_entry("model.vocab must map tokens to numbers");
  if (value.starts_with("#version")) return true;  // the first line of GPT-2's merges.txt
  const size_t space = value.find(' ');
  if (space == std::string::npos || value.find(' ', space + 1) != std::string::npos) {
    fail(ExitCode::kBadInput, location_, ": the merge \"", preview_text(value),
         "\" must be two tokens with one space between");
  }
  if (value.size() > 2 * kMaxToken) {
    fail(ExitCode::kBadInput, location_, ": a merge of ", value.size(), " bytes; at most ", 2 * kMaxToken,
         " are allowed");
  }
  file_.merges.emplace_back(value.substr(0, space), value.substr(space + 1));
  return true;
}

bool Reader::number(int64_t integer, double real) {
  if (part_ == Part::kVocabulary) {
    file_.vocabulary.emplace_back(entry_, integer);
  } else if (part_ == Part::kPieces && in_entry_) {
    ++numbers_;
    score_ = real;
  } else {
    fail_entry("model.merges must hold tokens only");
  }
  return true;
}

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view bytes, const std::string& location) {
  TokenizerFile file;
  Reader reader(location, file);
  parse_json_sax(bytes, reader);
  file.tree = reader.take();
  return file;
}

}  // namespace keel::text
