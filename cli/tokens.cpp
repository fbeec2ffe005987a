#include <ATen/ATen.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/methods.h"
#include "cli/text_table.h"
#include "cli/token_output.h"
#include "keel/core/console.h"
#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "keel/record/tokens/token_column_list.h"
#include "keel/record/tools/csv.h"

namespace keel::cli {
namespace {

struct TokensArguments {
  RecordArguments records;
  std::vector<std::string> methods;
  int64_t top = 10;
  std::string each;
};

/// Writes the text, which may contain NUL bytes.
void write_raw(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

/// A CSV field; control characters are escaped on a terminal only.
std::string text_field(const std::string& text, bool on_terminal = isatty(STDOUT_FILENO) == 1) {
  return csv_field(on_terminal ? escape_controls(text) : text);
}

/// Writes every row with the decision of each method as CSV. Float32 numbers have enough digits to be read back
/// exactly.
class TokenCsv {
 public:
  TokenCsv(const std::string& path, const std::vector<MethodSpec>& methods)
      : on_terminal_(path == "-" && isatty(STDOUT_FILENO) == 1) {
    if (path != "-") file_.emplace(path, Existing::kStays);
    std::string header;
    for_each_token_column(
        [&](const char* name, auto, bool) { header += (header.empty() ? "" : ",") + csv_field(name); });
    for (const MethodSpec& method : methods)
      for (const char* field : {" kept", " outside", " coefficient"}) header += "," + csv_field(method.name + field);
    print(header + "\r\n");
  }

  void add(const std::vector<TokenRow>& rows, const std::vector<TokenDecision>& decisions) {
    std::string lines;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::string line;
      for_each_token_column([&](const char*, auto TokenRow::*member, bool) { line += "," + field(rows[i].*member); });
      for (const TokenDecision& decision : decisions)
        line += "," + field(decision.keep.const_data_ptr<bool>()[i]) + "," +
                field(decision.outside.const_data_ptr<bool>()[i]) + "," +
                field(decision.coefficient.const_data_ptr<float>()[i]);
      lines += line.substr(1) + "\r\n";
    }
    print(lines);
  }

  void finish() {
    if (file_) file_->commit();
  }

 private:
  std::string field(const std::string& text) const { return text_field(text, on_terminal_); }
  static std::string field(bool value) { return value ? "true" : "false"; }
  template <class Number>
  static std::string field(Number value) {
    if constexpr (std::is_floating_point_v<Number>)
      if (std::isnan(value)) return "";
    char text[40];
    return {text, std::to_chars(text, text + sizeof(text), value).ptr};
  }
  void print(const std::string& text) {
    if (file_) return file_->write(text);
    write_raw(text);
  }

  const bool on_terminal_;
  std::optional<DurableFile> file_;
};

std::vector<std::string> fraction_cells(const Decisions& decisions) {
  return {percent(decisions.blocked.all.fraction()), percent(decisions.blocked.positive.fraction()),
          percent(decisions.blocked.negative.fraction()), percent(decisions.outside.all.fraction())};
}

void print_methods(Console& console, const TokenComparison& comparison, size_t top) {
  std::vector<std::vector<std::string>> rows = {{"method", "held back", "A > 0", "A < 0", "outside", "both",
                                                 "only the run", "only method", "weight change", "sum", "cosine"}};
  rows.push_back({comparison.method + " (the run)"});
  for (const std::string& cell : fraction_cells(comparison.run_decisions)) rows.back().push_back(cell);
  rows.back().resize(rows[0].size());
  for (const MethodComparison& method : comparison.methods) {
    rows.push_back({method.spec.name});
    for (const std::string& cell : fraction_cells(method.decisions)) rows.back().push_back(cell);
    for (const int64_t count : {method.both, method.only_run, method.only_method})
      rows.back().push_back(format_count(count));
    for (const std::string& cell :
         {percent(method.weight_change), percent(method.sum_change), number_or_dash(method.cosine, 4)})
      rows.back().push_back(cell);
  }
  console.result(text_table(rows, {0}));
  for (const MethodComparison& method : comparison.methods) {
    std::vector<std::vector<std::string>> types = {
        {"token", "tokens", "held back by the run", "by the method", "fraction of the change"}};
    double change = 0;
    for (const TokenTypeDifference& type : method.types) change += type.change;
    for (const TokenTypeDifference& type : method.types) {
      if (types.size() > top || (type.change == 0 && type.blocked_by_run == type.blocked_by_method)) break;
      types.push_back({quote_token(type.token), format_count(type.tokens), format_count(type.blocked_by_run),
                       format_count(type.blocked_by_method), percent(type.change / change)});
    }
    console.result(types.size() == 1 ? method.spec.name + " decides about every token as the run's method does\n"
                                     : method.spec.name + " differs most in\n" + text_table(types, {0}));
  }
}

void print_run_method(Console& console, const TokenComparison& comparison, size_t top) {
  std::vector<std::vector<std::string>> rows = {{"", "all", "A > 0", "A < 0"}};
  const auto add = [&](const char* name, const auto& cell) {
    const BySign &blocked = comparison.run_decisions.blocked, &outside = comparison.run_decisions.outside;
    rows.push_back({name, cell(blocked.all, outside.all), cell(blocked.positive, outside.positive),
                    cell(blocked.negative, outside.negative)});
  };
  add("tokens", [](const TokenFraction& blocked, const TokenFraction&) { return format_count(blocked.tokens); });
  add("held back", [](const TokenFraction& blocked, const TokenFraction&) { return percent(blocked.fraction()); });
  add("outside", [](const TokenFraction&, const TokenFraction& outside) { return percent(outside.fraction()); });
  console.result(text_table(rows, {0}));
  if (comparison.choices.count > 0)
    console.result("Truncated sampling chose from " + number_or_dash(comparison.choices.mean()) +
                   " tokens on average, and from more than one for " + percent(comparison.more_choices.mean()) +
                   " of the tokens\n");
  for (const bool positive : {true, false}) {
    std::vector<std::vector<std::string>> types = {{"token", "outside", "of", "share", "mean mu", "entropy"}};
    for (const RunTokenType& type : comparison.run_types)
      if (type.positive == positive && types.size() <= top)
        types.push_back({quote_token(type.token), format_count(type.outside.count), format_count(type.outside.tokens),
                         percent(type.outside.fraction()), number_or_dash(type.mu.mean()),
                         number_or_dash(type.entropy.mean())});
    const std::string sign = positive ? "A > 0" : "A < 0";
    console.result(types.size() == 1 ? "No token with " + sign + " is outside\n"
                                     : "Most often outside, " + sign + "\n" + text_table(types, {0}));
  }
}

Json json_of_run_method(const TokenComparison& comparison, size_t top) {
  Json types = Json::array();
  std::map<bool, size_t> count;
  for (const RunTokenType& type : comparison.run_types) {
    if (count[type.positive]++ >= top) continue;
    const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
    types.push_back({{"token", type.token},
                     {"sign", type.positive ? 1 : -1},
                     {"tokens", type.outside.tokens},
                     {"outside", type.outside.count},
                     {"mu", number(type.mu.mean())},
                     {"entropy", number(type.entropy.mean())}});
  }
  Json json = {{"method", comparison.method}};
  json.update(json_of(comparison.run_decisions));
  json["types"] = types;
  if (comparison.choices.count > 0)
    json["choices"] = {{"mean", comparison.choices.mean()}, {"more_than_one", comparison.more_choices.mean()}};
  return json;
}

std::string csv_of(const TokenComparison& comparison, bool has_methods) {
  std::string text;
  if (!has_methods) {
    text = "token,sign,tokens,outside,mu,entropy\r\n";
    for (const RunTokenType& type : comparison.run_types)
      text += text_field(type.token) + "," + (type.positive ? "1" : "-1") + "," + std::to_string(type.outside.tokens) +
              "," + std::to_string(type.outside.count) + "," + csv_number(type.mu.mean()) + "," +
              csv_number(type.entropy.mean()) + "\r\n";
    return text;
  }
  text = std::string("method,") + kDecisionFields +
         ",held_back_by_both,held_back_by_run_only,held_back_by_method_only,weight_change,sum_change,cosine\r\n";
  text += "run," + csv_fields(comparison.run_decisions) + ",,,,,,\r\n";
  for (const MethodComparison& method : comparison.methods) {
    text += csv_field(method.spec.name) + "," + csv_fields(method.decisions);
    for (const int64_t count : {method.both, method.only_run, method.only_method}) text += "," + std::to_string(count);
    for (const double number : {method.weight_change, method.sum_change, method.cosine})
      text += "," + csv_number(number);
    text += "\r\n";
  }
  return text;
}

ExitCode tokens_command(const TokensArguments& arguments) {
  const std::vector<std::filesystem::path> files = arguments.records.files();
  ComparisonRequest request;
  request.skip_unsupported = arguments.methods == std::vector<std::string>{"all"};
  request.methods = parse_methods(request.skip_unsupported ? method_names() : arguments.methods);
  std::optional<TokenCsv> token_csv;
  if (!arguments.each.empty()) {
    if (request.skip_unsupported) fail(ExitCode::kBadConfiguration, "--each needs methods by name instead of all");
    token_csv.emplace(arguments.each, request.methods);
    request.on_decisions = [&](const auto& rows, const auto& decisions) { token_csv->add(rows, decisions); };
  }
  const TokenComparison comparison = compare_methods(files, request);
  if (token_csv) token_csv->finish();
  if (arguments.each == "-") return ExitCode::kDone;

  const auto top = static_cast<size_t>(arguments.top);
  const bool has_methods = !request.methods.empty();
  if (arguments.records.csv) {
    write_raw(csv_of(comparison, has_methods));
  } else if (arguments.records.json) {
    Json json = {{"run", arguments.records.run},
                 {"first_step", comparison.first_step},
                 {"last_step", comparison.last_step},
                 {"steps", comparison.steps},
                 {"own", json_of_run_method(comparison, top)},
                 {"methods", Json::array()},
                 {"refused", comparison.refused}};
    for (const MethodComparison& method : comparison.methods) json["methods"].push_back(json_of(method, top));
    std::puts(escape_json_controls(json_line(json)).c_str());
  } else {
    Console console;
    console.result(describe_records(arguments.records.run, comparison) + "\n");
    if (has_methods)
      print_methods(console, comparison, top);
    else
      print_run_method(console, comparison, top);
    for (const std::string& reason : comparison.refused) console.result("not compared: " + reason);
    if (token_csv) console.line(arguments.each);
  }
  return ExitCode::kDone;
}

}  // namespace

CommandHandler add_tokens(CommandLine& line) {
  const auto arguments = std::make_shared<TokensArguments>();
  Command command = line.add("tokens", "Show what the run's method, or others, decide about its recorded tokens");
  arguments->records.add_to(command);
  std::vector<std::string> names = method_names();
  names.insert(names.begin(), "all");
  command
      .option(
          "--method", arguments->methods,
          "Comma-separated methods to compare: NAME, or NAME:PARAMETER=VALUE,...; all: every method that the records "
          "allow (default: the decisions of the run's method)")
      .suggest(names)
      .repeatable();
  command.option("--top", arguments->top, "Number of token texts to print (default: 10)").between(0, 1'000'000);
  command
      .option("--each", arguments->each,
              "Write every recorded token with the decision of each method to this CSV file; - is standard output")
      .files();
  return [arguments] { return tokens_command(*arguments); };
}

}  // namespace keel::cli
