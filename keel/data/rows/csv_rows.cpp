#include "keel/data/rows/text_rows.h"

#ifdef KEEL_HAS_ARROW
#include <arrow/csv/parser.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/files/json_file.h"
#include "keel/core/strings.h"
#include "keel/core/untrusted_text.h"
#endif

namespace keel {

#ifdef KEEL_HAS_ARROW
namespace {

struct Value {
  std::string text;
  bool quoted;
};

/// Parses one record at a time with Arrow, so that each keeps its line number and a bad one does not affect others.
class CsvRows final : public TextRows {
 public:
  CsvRows(std::string place, Spool& spool) : place_(std::move(place)), spool_(spool) {
    options_.newlines_in_values = true;
    options_.ignore_empty_lines = false;  // for line numbers
  }

  void add(std::string_view piece) override {
    if (damage_) return;
    text_ += piece;
    if (text_.size() >= min_size_) parse_records(/*last=*/false);
  }

  std::optional<BadRow> finish() override {
    if (!damage_) parse_records(/*last=*/true);
    return damage_;
  }

 private:
  /// Parses the complete records in text_. `last`: no more text follows.
  void parse_records(bool last) {
    constexpr size_t kWindow = size_t{1} << 16;  // the parser's memory grows with its input
    std::string_view rest = text_;
    for (size_t window = kWindow; !rest.empty();) {
      const std::string_view part = rest.substr(0, window);
      arrow::csv::BlockParser parser(options_, /*num_cols=*/-1, /*first_row=*/-1, /*max_num_rows=*/1);
      uint32_t size = 0;
      const bool is_end = last && part.size() == rest.size();
      const arrow::Status status = is_end ? parser.ParseFinal(part, &size) : parser.Parse(part, &size);
      if (status.ok() && parser.num_rows() == 1) {
        write_record(parser, part.substr(0, size));
        rest.remove_prefix(size);
        window = kWindow;
      } else if (part.size() < rest.size()) {
        window *= 4;
      } else {
        break;
      }
    }
    if (rest.size() > kMaxLineBytes)
      damage_ = BadRow(place_ + ":" + std::to_string(line_), "a row of more than " + std::to_string(kMaxLineBytes) +
                                                                 " bytes. Fix: close its quotes, or shorten it");
    text_.erase(0, text_.size() - rest.size());
    min_size_ = 2 * text_.size();
  }

  void write_record(const arrow::csv::BlockParser& parser, std::string_view text) {
    std::vector<Value> values;
    // Arrow 26 passes one more argument.
    (void)parser.VisitLastRow([&](const uint8_t* data, uint32_t size, bool quoted, auto...) {
      values.push_back({std::string(reinterpret_cast<const char*>(data), size), quoted});
      return arrow::Status::OK();
    });
    const uint64_t line = line_;
    line_ += static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
    if (text.empty()) return;
    std::string problem;
    const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
    if (first_bad_utf8(text))
      problem = "the row is not UTF-8. Fix: save the file as UTF-8";
    else if (!is_well_quoted(values, text))
      problem =
          "unbalanced quotes, or text after a closing quote. Fix: put values with commas, "
          "quotes or line breaks in quotes, and double the quotes inside; separate values with commas";
    if (names_.empty()) return read_header(values, line, problem);
    if (problem.empty() && values.size() != names_.size())
      problem = std::to_string(values.size()) + " values (the header names " + std::to_string(names_.size()) +
                " columns). Fix: put values with commas in quotes";
    spool_.write(std::to_string(line) + " " +
                 (problem.empty() ? json_line(make_row(values)) : "!" + std::to_string(lines) + " " + problem) + "\n");
  }

  /// Arrow accepts unbalanced quotes and text after a closing quote, so this formats the values again and compares.
  static bool is_well_quoted(const std::vector<Value>& values, std::string_view text) {
    std::string formatted;
    for (const Value& value : values) {
      if (&value != &values.front()) formatted += ',';
      if (!value.quoted) formatted += value.text;
      if (!value.quoted) continue;
      formatted += '"';
      for (const char c : value.text) formatted.append(c == '"' ? 2 : 1, c);
      formatted += '"';
    }
    return formatted == text;
  }

  void read_header(const std::vector<Value>& values, uint64_t line, const std::string& problem) {
    const std::string place = place_ + ":" + std::to_string(line);
    if (!problem.empty()) fail(ExitCode::kBadInput, place, ": the header: ", problem);
    std::unordered_set<std::string> known;
    for (const Value& value : values) {
      names_.emplace_back(trimmed(value.text));
      const std::string& name = names_.back();
      if (name.empty())
        fail(ExitCode::kBadInput, place, ": a column of the header has no name. Fix: name it (the index that pandas ",
             "writes is left out with to_csv(..., index=False))");
      if (!known.insert(name).second)
        fail(ExitCode::kBadInput, place, ": the header has the column ", printable(name), " twice. Fix: rename one");
    }
  }

  Json make_row(std::vector<Value>& values) const {
    Json row = Json::object();
    auto& members = row.get_ref<Json::object_t&>();  // operator[] would search all members
    for (size_t i = 0; i < names_.size(); ++i) {
      const bool empty = values[i].text.empty() && !values[i].quoted;
      members.emplace_back(names_[i], empty ? Json() : Json(std::move(values[i].text)));
    }
    return row;
  }

  std::string place_;
  Spool& spool_;
  arrow::csv::ParseOptions options_ = arrow::csv::ParseOptions::Defaults();
  std::string text_;     // not parsed yet
  size_t min_size_ = 0;  // size of text_ at which to parse again
  uint64_t line_ = 1;
  std::vector<std::string> names_;
  std::optional<BadRow> damage_;
};

}  // namespace

std::unique_ptr<TextRows> csv_rows(std::string place, Spool& spool) {
  return std::make_unique<CsvRows>(std::move(place), spool);
}

#else

std::unique_ptr<TextRows> csv_rows(std::string place, Spool&) {
  require_arrow(place, "CSV files");
  return nullptr;
}

#endif

}  // namespace keel
