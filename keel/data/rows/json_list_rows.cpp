#include "keel/data/rows/text_rows.h"

namespace keel {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// Splits a JSON list at its commas. The elements are validated when they are read.
class JsonListRows final : public TextRows {
 public:
  JsonListRows(std::string place, Spool& spool) : place_(std::move(place)), spool_(spool) {}

  void add(std::string_view piece) override {
    for (const char c : piece) {
      scan(c);
      line_ += c == '\n' ? 1 : 0;
    }
  }

  std::optional<BadRow> finish() override {
    const std::string place = place_ + ":" + std::to_string(trailing_line_ > 0 ? trailing_line_ : line_);
    if (trailing_line_ > 0) return BadRow(place, "there is text after the end of the list. Fix: remove it");
    if (closed_) return std::nullopt;
    return BadRow(place, "the file ends within the list of rows. Fix: download it again");
  }

 private:
  void scan(char c) {
    if (closed_) {
      if (!is_blank(c) && trailing_line_ == 0) trailing_line_ = line_;
    } else if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
      append(c);
    } else if (depth_ == 0) {
      depth_ += c == '[' ? 1 : 0;  // only blanks precede it
    } else if (depth_ == 1 && (c == ',' || c == ']')) {
      closed_ = c == ']';
      if (!closed_ || !row_.empty()) end_row();
    } else if (!row_.empty() || !is_blank(c)) {
      if (row_.empty()) first_line_ = line_;
      in_string_ = c == '"';
      if (c == '{' || c == '[') ++depth_;
      if (c == '}' || c == ']') --depth_;
      append(c);
    }
  }

  /// A row is one line of the spool, so a line feed becomes a carriage return. JSON allows both between values and
  /// neither inside strings.
  void append(char c) {
    if (row_.size() <= kMaxLineBytes) row_ += c == '\n' ? '\r' : c;
  }

  void end_row() {
    spool_.write(std::to_string(row_.empty() ? line_ : first_line_) + " " + row_ + "\n");
    row_.clear();
  }

  std::string place_;
  Spool& spool_;
  uint64_t line_ = 1, first_line_ = 0, trailing_line_ = 0;
  size_t depth_ = 0;  // of open brackets, including the list
  bool closed_ = false, in_string_ = false, escaped_ = false;
  std::string row_;
};

}  // namespace

std::unique_ptr<TextRows> json_list_rows(std::string place, Spool& spool) {
  return std::make_unique<JsonListRows>(std::move(place), spool);
}

}  // namespace keel
