#include "keel/data/rows/text_rows.h"

#include <unordered_set>
#include <utility>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/core/foreign_text.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

constexpr std::string_view kTextMark = "\xef\xbb\xbf";

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// Shared by the two: where a row starts, how long it is, and what becomes of it.
class RowCutter : public TextRows {
 public:
  RowCutter(std::string place, Spool& spool) : place_(std::move(place)), spool_(spool) {}

  void add(std::string_view piece) final {
    for (const char c : piece) {
      if (mark_ < kTextMark.size() && c == kTextMark[mark_]) {
        ++mark_;
        continue;
      }
      mark_ = kTextMark.size();
      take(c);
      line_ += c == '\n' ? 1 : 0;
    }
  }

 protected:
  virtual void take(char c) = 0;

  void write_row(uint64_t line, std::string_view row) {
    spool_.write(std::to_string(line) + " ");
    spool_.write(row);
    spool_.write("\n");
  }
  void write_bad(uint64_t line, const std::string& reason) { write_row(line, "!1 " + reason); }
  /// Of a row of so many bytes: whether it is read at all.
  static bool too_long(uint64_t bytes) { return bytes > kMaxLineBytes; }
  static std::string length_complaint(uint64_t bytes) {
    return "a row of " + std::to_string(bytes) + " bytes; at most " + std::to_string(kMaxLineBytes) + " are read";
  }
  BadRow damage(const std::string& what) const { return BadRow(place_ + ":" + std::to_string(line_), what); }

  std::string place_;
  uint64_t line_ = 1;  // of the text, where the next character stands

 private:
  Spool& spool_;
  size_t mark_ = 0;  // bytes of a byte order mark that were passed over
};

/// Cuts the elements of a list apart. Whether each is a sound object is found out when it is read.
class JsonList final : public RowCutter {
 public:
  using RowCutter::RowCutter;

  std::optional<BadRow> finish() override {
    if (depth_ == 0 && closed_ && trailing_line_ == 0) return std::nullopt;
    if (trailing_line_ > 0)
      return BadRow(place_ + ":" + std::to_string(trailing_line_), "something follows the end of the list; remove it");
    return damage("the file ends before its list of rows does; get it again");
  }

 private:
  void take(char c) override {
    if (closed_) {
      if (!is_blank(c) && trailing_line_ == 0) trailing_line_ = line_;
    } else if (depth_ == 0) {
      if (c == '[') depth_ = 1;  // nothing but blanks comes before it: it is what the format is known by
    } else if (depth_ == 1 && bytes_ == 0) {
      between(c);
    } else {
      inside(c);
    }
  }

  /// Between two elements.
  void between(char c) {
    if (is_blank(c)) return;
    if (c == ']') {
      closed_ = true, depth_ = 0;
    } else if (c == ',') {
      if (!comma_wanted_) write_bad(line_, "there is nothing between two commas of the list; remove one of them");
      comma_wanted_ = false;
    } else {
      first_line_ = line_;
      fault_ = comma_wanted_ ? "a comma is missing before this row" : "";
      inside(c);
    }
  }

  void inside(char c) {
    if (depth_ == 1 && !in_string_ && bytes_ > 0 && (c == ',' || c == ']')) {  // the end of a number or a word
      end_row();
      return between(c);
    }
    keep(c);
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
      return;
    }
    in_string_ = c == '"';
    if (c == '{' || c == '[') ++depth_;
    if ((c == '}' || c == ']') && --depth_ == 1) end_row();
  }

  void keep(char c) {
    ++bytes_;
    if (c == '\n' && in_string_) fault_ = "a line break inside a string; write it as \\n";
    if (!too_long(bytes_)) row_ += c == '\n' || c == '\r' ? ' ' : c;
  }

  void end_row() {
    if (too_long(bytes_)) fault_ = length_complaint(bytes_);
    if (fault_.empty())
      write_row(first_line_, row_);
    else
      write_bad(first_line_, fault_);
    row_.clear();
    bytes_ = 0;
    in_string_ = escaped_ = false;
    comma_wanted_ = true;
  }

  size_t depth_ = 0;  // of brackets that are open; the list itself is the first
  bool closed_ = false, comma_wanted_ = false, in_string_ = false, escaped_ = false;
  uint64_t bytes_ = 0, first_line_ = 0, trailing_line_ = 0;
  std::string row_, fault_;
};

/// CSV as RFC 4180 has it: commas, quotes that are doubled inside quotes, line breaks inside quotes. The first record
/// names the columns. Every value is a text; an empty one without quotes is null.
class Csv final : public RowCutter {
 public:
  using RowCutter::RowCutter;

  std::optional<BadRow> finish() override {
    if (state_ == State::kQuoted) return damage("the file ends inside quotes; get it again, or close them");
    if (!fields_.empty() || bytes_ > 0) end_record();
    return std::nullopt;
  }

 private:
  enum class State { kFieldBegins, kPlain, kQuoted, kAfterQuote };

  void take(char c) override {
    if (bytes_ == 0 && fields_.empty()) first_line_ = line_;
    ++bytes_;
    switch (state_) {
      case State::kFieldBegins:
        if (c == '"') {
          quoted_ = true;
          state_ = State::kQuoted;
          return;
        }
        state_ = State::kPlain;
        return plain(c);
      case State::kPlain:
        return plain(c);
      case State::kQuoted:
        if (c == '"')
          state_ = State::kAfterQuote;
        else
          keep(c);
        return;
      case State::kAfterQuote:
        if (c == '"') {
          keep(c);
          state_ = State::kQuoted;
        } else {
          if (c != ',' && c != '\n' && c != '\r')
            fault_ = c == ';' || c == '\t'
                         ? "a semicolon or a tab follows a closing quote; write the file with commas between its values"
                         : "something follows a closing quote; quotes inside a value are doubled";
          state_ = State::kPlain;
          plain(c);
        }
    }
  }

  void plain(char c) {
    const bool after_return = std::exchange(return_, c == '\r');
    if (c == '\n') return end_record();
    if (after_return) keep('\r');  // it was no part of a line's end
    if (c == ',') return end_field();
    if (c != '\r') keep(c);
  }

  void keep(char c) {
    if (!too_long(bytes_)) field_ += c;
  }

  void end_field() {
    if (!too_long(bytes_)) fields_.push_back(field_.empty() && !quoted_ ? Json() : Json(std::move(field_)));
    field_.clear();
    quoted_ = false;
    state_ = State::kFieldBegins;
  }

  void end_record() {
    end_field();
    const bool is_empty_line = fields_.size() == 1 && fields_[0].is_null() && !too_long(bytes_);
    if (!is_empty_line && names_.empty())
      read_header();
    else if (!is_empty_line)
      write_record();
    fields_.clear();
    fault_.clear();
    bytes_ = 0;
  }

  void read_header() {
    if (too_long(bytes_))
      fail(ExitCode::kBadInput, place_, ": its first line is no header: ", length_complaint(bytes_));
    std::unordered_set<std::string> known;
    for (const Json& field : fields_) {
      const std::string name(field.is_null() ? "" : trimmed(field.get_ref<const std::string&>()));
      if (name.empty() || !known.insert(name).second || first_bad_utf8(name))
        fail(ExitCode::kBadInput, place_, ":", first_line_, ": the header has the column ", printable(name),
             name.empty() ? "" : " twice, or not as UTF-8", "; wanted a name of its own for each column",
             name.empty() ? " (pandas' index has none: write it with to_csv(..., index=False))" : "");
      names_.push_back(name);
    }
  }

  void write_record() {
    if (too_long(bytes_)) fault_ = length_complaint(bytes_);
    if (fault_.empty() && fields_.size() != names_.size())
      fault_ = std::to_string(fields_.size()) + " values, and the header names " + std::to_string(names_.size()) +
               " columns; put values with commas in quotes";
    Json row = Json::object();
    auto& members = row.get_ref<Json::object_t&>();  // [] would look through all that are there, and names differ
    for (size_t i = 0; fault_.empty() && i < names_.size(); ++i) {
      if (fields_[i].is_string() && first_bad_utf8(fields_[i].get_ref<const std::string&>()))
        fault_ = "column " + printable(names_[i]) + " is not UTF-8; save the file as UTF-8";
      members.emplace_back(names_[i], std::move(fields_[i]));
    }
    if (fault_.empty())
      write_row(first_line_, json_line(row));
    else
      write_bad(first_line_, fault_);
  }

  State state_ = State::kFieldBegins;
  bool quoted_ = false, return_ = false;  // the field is in quotes; the last character was \r
  uint64_t bytes_ = 0, first_line_ = 1;
  std::string field_, fault_;
  std::vector<Json> fields_;
  std::vector<std::string> names_;
};

/// "rows.csv" of "rows.csv.gz".
std::filesystem::path without_packing(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".gz" || ending == ".zst" ? path.stem() : path.filename();
}

}  // namespace

TextFormat text_format(const std::filesystem::path& path, std::string_view beginning) {
  if (beginning.starts_with(kTextMark)) beginning.remove_prefix(kTextMark.size());
  const size_t first = beginning.find_first_not_of(" \t\r\n");
  const char opening = first == std::string_view::npos ? ' ' : beginning[first];
  std::string ending = without_packing(path).extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const char* table : {".tsv", ".xlsx", ".xls", ".arrow", ".feather"})
    if (ending == table && opening != '{' && opening != '[')
      fail(ExitCode::kBadInput, path.string(), ": files of the kind ", table,
           " are not read; save it as JSON lines, CSV or Parquet");
  if (ending == ".csv" && (opening == '{' || opening == '['))
    fail(ExitCode::kBadInput, path.string(), ": its name ends in .csv, but it holds JSON; rename it to .jsonl");
  if (opening == '[') return TextFormat::kJsonList;
  return ending == ".csv" ? TextFormat::kCsv : TextFormat::kJsonLines;
}

std::unique_ptr<TextRows> text_rows(TextFormat format, std::string place, Spool& spool) {
  if (format == TextFormat::kCsv) return std::make_unique<Csv>(std::move(place), spool);
  return std::make_unique<JsonList>(std::move(place), spool);
}

}  // namespace keel
