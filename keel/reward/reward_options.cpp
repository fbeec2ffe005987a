#include "keel/reward/reward_options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/nearest.h"
#include "keel/core/options/options.h"
#include "keel/core/parallel.h"
#include "keel/core/shell_words.h"
#include "keel/core/str_cat.h"
#include "keel/core/strings.h"
#include "keel/reward/functions/answer_rewards.h"
#include "keel/reward/functions/code_reward.h"
#include "keel/reward/functions/format_rewards.h"
#include "keel/reward/functions/program_reward.h"
#include "keel/reward/programs/embedded.h"
#include "keel/reward/programs/http_channel.h"
#include "keel/reward/programs/worker_pool.h"
#include "keel/reward/reward_files.h"

namespace keel {

void RewardOptions::describe(OptionTable& table) {
  table.add("functions", functions,
            "Reward functions; the reward is their weighted sum. Each is NAME, NAME:ARGUMENT or NAME:ARGUMENT "
            "@SOURCE,SOURCE (only for prompts from these sources); docs/rewards.md lists them. Default: task for a "
            "built-in task, else math.");
  table.add("weights", weights, "One weight per function. Default: all 1.");
  table.add(
      "overlong_buffer", overlong_buffer,
      "Length of the interval before rollout.max_new_tokens, in tokens, over which the DAPO soft overlong penalty "
      "grows linearly from 0. It is added as one more function, overlong. 0 means no penalty.",
      at_least(0));
  table.add("overlong_penalty", overlong_penalty,
            "Maximum of the overlong penalty (the weight of the function overlong).", above(0));
  table.add("on_error", on_error,
            "What to do when a function fails twice on a completion: stop the run (exit code 5), use 0 for the "
            "function, or skip the function for that completion.",
            one_of({"stop", "zero", "skip"}));
  table.add("timeout", timeout,
            "Timeout of a user program or server for the completions of one prompt, in seconds per attempt.",
            above(0).at_most(86400));
  table.add("workers", workers,
            "Maximum number of scoring threads, and of processes per user program. 0 means one per core, up to 8.",
            at_least(0).at_most(1024));
  table.add("python", python, "Python interpreter for the functions python: and code.", not_empty());
}

size_t RewardOptions::worker_count() const {
  return workers > 0 ? static_cast<size_t>(workers) : std::min<size_t>(thread_count(0), 8);
}

namespace {

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  fail(ExitCode::kBadConfiguration, "reward.functions: \"", text, "\": ", why);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream input(text);
  for (std::string part; std::getline(input, part, separator);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

/// Parses an argument that is `count` positive numbers.
std::vector<double> parse_positive_numbers(const std::string& text, const std::string& argument, size_t count) {
  std::vector<double> result;
  for (const std::string& word : split(argument, ',')) {
    double value = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || rest != word.data() + word.size() || !(value > 0))
      refuse(text, "\"" + word + "\" is not a number above 0");
    result.push_back(value);
  }
  if (result.size() != count)
    refuse(text, "expected " + std::to_string(count) + (count == 1 ? " number" : " comma-separated numbers") +
                     " after the colon");
  return result;
}

std::vector<std::string> list_files(const std::string& function);

/// An entry of reward.functions without its sources, and what its reward is made from.
struct FunctionSpec {
  std::string text, name, argument;
  const RewardOptions& options;
  const RewardFunction& task;
  const AnswerExtractor& extractor;

  std::vector<double> numbers(size_t count) const { return parse_positive_numbers(text, argument, count); }
  /// Returns whether the argument is this flag. Rejects any other argument.
  bool has_flag(const std::string& flag) const {
    if (!argument.empty() && argument != flag)
      refuse(text, "unknown argument \"" + argument + "\" (expected " + (flag.empty() ? "none)" : flag + ")"));
    return !argument.empty();
  }
  WorkerOptions workers(std::vector<std::string> command, bool sends_ready) const {
    return {.command = std::move(command),
            .sends_ready = sends_ready,
            .timeout = options.timeout,
            .workers = options.worker_count(),
            .files = list_files(text)};
  }
};

/// The argument of python: FILE.py or FILE.py:FUNCTION.
struct PythonFunction {
  std::string file, function;

  static PythonFunction parse(const std::string& argument) {
    const size_t colon = argument.rfind(".py:");
    if (colon == std::string::npos) return {argument, ""};
    return {argument.substr(0, colon + 3), argument.substr(colon + 4)};
  }
};

std::unique_ptr<Reward> make_python(const FunctionSpec& f) {
  const auto [file, function] = PythonFunction::parse(f.argument);
  if (!file.ends_with(".py")) refuse(f.text, "expected python:FILE.py or python:FILE.py:FUNCTION");
  std::error_code ignored;  // such as: name too long
  if (!std::filesystem::is_regular_file(file, ignored))
    refuse(f.text, "file " + file + " does not exist (relative to " + std::filesystem::current_path().string() + ")");
  return std::make_unique<ProgramReward>(std::make_unique<WorkerPool>(
      f.workers({f.options.python, "-u", "-c", std::string(python_worker()), file, function}, true)));
}

std::unique_ptr<Reward> make_exec(const FunctionSpec& f) {
  const std::optional<std::vector<std::string>> command = shell_words(f.argument);
  if (!command) refuse(f.text, "unclosed quote");
  if (command->empty()) refuse(f.text, "expected exec:PROGRAM ARGUMENT...");
  return std::make_unique<ProgramReward>(std::make_unique<WorkerPool>(f.workers(*command, false)));
}

std::unique_ptr<Reward> make_http(const FunctionSpec& f) {
  return std::make_unique<ProgramReward>(
      std::make_unique<HttpChannel>(HttpOptions{.url = f.text, .timeout = f.options.timeout}));
}

std::unique_ptr<Reward> make_numeric(const FunctionSpec& f) {
  return numeric_reward(f.argument.empty() ? 1e-6 : f.numbers(1)[0]);
}

std::unique_ptr<Reward> make_overlong(const FunctionSpec& f) {
  const std::vector<double> numbers = f.numbers(2);
  const double max_length = numbers[0], buffer = numbers[1];
  if (buffer > max_length)
    refuse(f.text, "the buffer (second number) is larger than the maximum length (first number)");
  return overlong_reward(max_length, buffer);
}

std::unique_ptr<Reward> make_tags(const FunctionSpec& f) {
  const std::vector<std::string> tags = split(f.argument, ',');
  if (tags.empty() || tags[0] == "*") refuse(f.text, "expected tags:NAME,NAME... or tags:NAME,*");
  return tags_reward(tags);
}

std::unique_ptr<Reward> make_pattern(const FunctionSpec& f) {
  if (f.argument.empty()) refuse(f.text, "expected pattern:REGULAR EXPRESSION");
  return pattern_reward(f.argument);
}

std::unique_ptr<Reward> make_task(const FunctionSpec& f) {
  f.has_flag("");
  if (!f.task) refuse(f.text, "no built-in task is used; name a function that scores the data set, such as math");
  return make_function_reward(f.task, f.extractor);
}

std::unique_ptr<Reward> make_code(const FunctionSpec& f) {
  SandboxLimits limits;
  bool fraction = false;
  for (const std::string& word : split(f.argument, ',')) {
    const std::string name = word.substr(0, word.find('='));
    const auto number = [&](double min, double max) {
      const double value = parse_positive_numbers(f.text, word.substr(std::min(name.size() + 1, word.size())), 1)[0];
      if (value < min || value > max)
        refuse(f.text,
               name + " is out of range (got " + str_cat(value) + ", expected " + str_cat(min, " to ", max) + ")");
      return value;
    };
    if (word == "fraction")
      fraction = true;
    else if (name == "seconds")
      limits.seconds = number(0, 3600);
    else if (name == "memory_mib")
      limits.memory_mib = static_cast<int64_t>(number(64, 1 << 20));
    else
      refuse(f.text, "\"" + word + "\" is unknown (expected fraction, seconds=N or memory_mib=N)");
  }
  return code_reward(f.options.python, limits, fraction);
}

struct RewardEntry {
  std::string name;
  std::unique_ptr<Reward> (*make)(const FunctionSpec&);
  std::string summary;
};

const std::vector<RewardEntry>& reward_table() {
  static const std::vector<RewardEntry> kTable = {
      {"task", make_task, "the reward of the built-in task; the default with one."},
      {"math", [](const FunctionSpec& f) { return f.has_flag(""), math_reward(); },
       "1 if the math verifier finds the final answer equal to the prompt's answer, else 0; the default for data "
       "sets."},
      {"exact", [](const FunctionSpec& f) { return exact_reward(f.has_flag("ignore_case")); },
       "1 if the final answer, or the whole completion, is the text of the prompt's answer; exact:ignore_case."},
      {"numeric", make_numeric,
       "1 if the number in the final answer is the prompt's within a relative tolerance; numeric:0.01."},
      {"choice", [](const FunctionSpec& f) { return f.has_flag(""), choice_reward(); },
       "1 if the final answer is the right letter."},
      {"tags", make_tags, "1 if the completion consists of these tags, each once; tags:think,answer."},
      {"pattern", make_pattern, "1 if the regular expression matches the whole completion; pattern:REGEX."},
      {"stopped", [](const FunctionSpec& f) { return f.has_flag(""), stopped_reward(); },
       "1 if the completion ended with a stop token or string, 0 if it was truncated."},
      {"length", [](const FunctionSpec& f) { return length_reward(f.numbers(1)[0]); },
       "minus the number of tokens divided by the argument; length:1000."},
      {"overlong", make_overlong, "the DAPO soft overlong penalty; overlong:MAX_LENGTH,BUFFER."},
      {"code", make_code,
       "1 if the completion's program passes all tests in a sandbox; code:fraction,seconds=10,memory_mib=512."},
      {"python", make_python, "the reward of your Python function; python:FILE.py:FUNCTION."},
      {"exec", make_exec, "the reward of your program; exec:PROGRAM ARGUMENT..."},
      {"http", make_http, "the reward of your server; http://HOST:PORT/PATH."},
      {"https", make_http, "not supported; use a local proxy with http://."},
  };
  return kTable;
}

/// The parts of NAME[:ARGUMENT] [@SOURCE,SOURCE].
struct FunctionParts {
  std::string name, argument, sources;  // `sources` starts with " @" unless it is empty

  static FunctionParts parse(const std::string& function) {
    const size_t at = std::min(function.rfind(" @"), function.size());
    std::string text = function.substr(0, at);
    if (at < function.size()) text.erase(text.find_last_not_of(' ') + 1);
    const size_t colon = std::min(text.find(':'), text.size());
    return {text.substr(0, colon), colon < text.size() ? text.substr(colon + 1) : "", function.substr(at)};
  }
  std::string text() const { return argument.empty() ? name : name + ":" + argument; }
};

/// Replaces the paths in a function by `rename(path)`.
std::string rename_files(const std::string& function,
                         const std::function<std::string(const std::string& path)>& rename) {
  FunctionParts parts = FunctionParts::parse(function);
  if (parts.name == "python") {
    PythonFunction python = PythonFunction::parse(parts.argument);
    parts.argument = rename(python.file) + (python.function.empty() ? "" : ":" + python.function);
  } else if (parts.name == "exec") {
    const std::optional<std::vector<std::string>> words = shell_words(parts.argument);
    if (!words) return function;
    std::string command;
    for (const std::string& word : *words) command += (command.empty() ? "" : " ") + shell_word(rename(word));
    parts.argument = command;
  } else {
    return function;
  }
  return parts.text() + parts.sources;
}

/// Returns whether an argument is an existing file. A program without a slash is searched in PATH and does not count.
bool is_file(const std::string& word, bool is_program) {
  std::error_code ignored;
  return !(is_program && word.find('/') == std::string::npos) && std::filesystem::is_regular_file(word, ignored);
}

std::vector<std::string> list_files(const std::string& function) {
  std::vector<std::string> files;
  bool is_program = function.starts_with("exec:");
  rename_files(function, [&](const std::string& word) {
    if (is_file(word, std::exchange(is_program, false))) files.push_back(word);
    return word;
  });
  return files;
}

}  // namespace

std::optional<double> soft_penalty_start(const std::string& function) {
  const FunctionParts parts = FunctionParts::parse(function);
  if (parts.name != "overlong") return std::nullopt;
  const std::vector<double> numbers = parse_positive_numbers(parts.text(), parts.argument, 2);
  return numbers[0] - numbers[1];
}

std::string short_name(const std::string& function) {
  return rename_files(function, [](const std::string& file) {
    return file.starts_with("/") ? std::filesystem::path(file).filename().string() : file;
  });
}

namespace {

RewardTerm make_term(const std::string& function, double weight, const RewardOptions& options,
                     const RewardFunction& task, const AnswerExtractor& extractor) {
  RewardTerm term{.name = short_name(function), .weight = weight, .sources = {}, .reward = nullptr};
  const FunctionParts parts = FunctionParts::parse(function);
  if (!parts.sources.empty()) {
    term.sources = split(parts.sources.substr(2), ',');
    if (term.sources.empty()) refuse(function, "there is no source after the @");
  }
  const FunctionSpec spec{parts.text(), parts.name, parts.argument, options, task, extractor};
  std::vector<std::string> names;
  for (const RewardEntry& entry : reward_table()) {
    if (entry.name == spec.name) term.reward = entry.make(spec);
    if (entry.name != "https") names.push_back(entry.name);
  }
  if (term.reward) return term;
  if (spec.name.ends_with(".py")) refuse(function, "did you mean python:" + spec.text + "?");
  const std::optional<std::string> near = nearest_name(spec.name, names);
  refuse(function, near ? "did you mean " + *near + "?" : "unknown function (expected " + joined(names) + ")");
}

class FunctionReward final : public Reward {
 public:
  FunctionReward(RewardFunction function, AnswerExtractor extractor)
      : function_(std::move(function)), extractor_(std::move(extractor)) {}
  Scores operator()(std::span<const RewardSample> samples) const override {
    Scores scores;
    for (const RewardSample& sample : samples)
      scores.rewards.emplace_back(function_(sample.prompt, sample.with_special_tokens));
    return scores;
  }

  std::optional<FinalAnswer> answer(const RewardSample& sample) const override {
    if (!extractor_) return std::nullopt;
    return FinalAnswer{.text = extractor_(sample.with_special_tokens)};
  }
  bool is_binary() const override { return extractor_ != nullptr; }

 private:
  RewardFunction function_;
  AnswerExtractor extractor_;
};

/// Renames repeated names: the second "math" becomes "math (2)".
void make_names_distinct(std::vector<RewardTerm>& terms) {
  std::map<std::string, int> counts;
  for (RewardTerm& term : terms)
    if (const int count = ++counts[term.name]; count > 1) term.name += " (" + std::to_string(count) + ")";
}

}  // namespace

std::vector<BuiltInReward> built_in_rewards() {
  std::vector<BuiltInReward> rewards;
  for (const RewardEntry& entry : reward_table()) rewards.push_back({entry.name, entry.summary});
  return rewards;
}

std::string with_absolute_paths(const std::string& function) {
  std::vector<std::string> paths, absolute, parsed;
  const std::string result = rename_files(function, [&](const std::string& file) {
    const bool is_program = paths.empty() && function.starts_with("exec:");
    paths.push_back(file);
    return absolute.emplace_back(is_file(file, is_program) ? full_path(file) : file);
  });
  rename_files(result, [&](const std::string& file) { return parsed.emplace_back(file); });
  // A folder's name may contain a separator of the syntax; the function then keeps its relative path.
  return absolute != paths && absolute == parsed ? result : function;
}

std::vector<std::string> reward_files(const RewardOptions& options) {
  std::vector<std::string> files;
  for (const std::string& function : options.functions)
    for (const std::string& file : list_files(function))
      if (std::string entry = file + " " + file_fingerprint(file);
          std::find(files.begin(), files.end(), entry) == files.end())  // functions may share a file
        files.push_back(std::move(entry));
  return files;
}

std::unique_ptr<Reward> make_function_reward(RewardFunction function, AnswerExtractor extractor) {
  return std::make_unique<FunctionReward>(std::move(function), std::move(extractor));
}

RewardSum make_reward(const RewardOptions& options, const RewardFunction& task, const AnswerExtractor& extractor,
                      int64_t max_new_tokens) {
  std::vector<std::string> functions = options.functions;
  if (functions.empty()) functions = {task ? "task" : "math"};
  if (!options.weights.empty() && options.weights.size() != functions.size())
    fail(ExitCode::kBadConfiguration, "reward.weights has ", options.weights.size(), " numbers for ", functions.size(),
         " functions; set one weight per function, or none");
  std::vector<RewardTerm> terms;
  for (size_t i = 0; i < functions.size(); ++i)
    terms.push_back(
        make_term(functions[i], options.weights.empty() ? 1 : options.weights[i], options, task, extractor));
  if (options.overlong_buffer > 0) {
    if (max_new_tokens == 0)
      fail(ExitCode::kBadConfiguration, "reward.overlong_buffer is ", options.overlong_buffer,
           ", but completions have no maximum length here; add overlong:MAX_LENGTH,BUFFER to reward.functions");
    const double max_length = static_cast<double>(max_new_tokens),
                 buffer = static_cast<double>(options.overlong_buffer);
    terms.push_back({.name = "overlong",
                     .weight = options.overlong_penalty,
                     .sources = {},
                     .reward = overlong_reward(max_length, buffer),
                     .training_only = true});
  }
  make_names_distinct(terms);
  const OnError on_error = options.on_error == "zero"   ? OnError::kZero
                           : options.on_error == "skip" ? OnError::kSkip
                                                        : OnError::kStop;
  return RewardSum(std::move(terms), on_error);
}

}  // namespace keel
