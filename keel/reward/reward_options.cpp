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
            "The functions whose weighted sum is the reward, as NAME, NAME:ARGUMENT or NAME:ARGUMENT @SOURCE,SOURCE "
            "(only for prompts from these); docs/rewards.md lists them. None: task for a built-in task, else math.");
  table.add("weights", weights, "One weight per function; none: all 1.");
  table.add("overlong_buffer", overlong_buffer,
            "The last tokens before rollout.max_new_tokens, in which DAPO's soft penalty of a completion grows from 0 "
            "in a straight line; it is added as one more function, overlong. 0 means none.",
            at_least(0));
  table.add("overlong_penalty", overlong_penalty, "What that penalty grows to; it is the function's weight.", above(0));
  table.add("on_error", on_error,
            "What happens when a function fails on a completion, after a second try: the run stops (exit code 5), the "
            "function counts as 0, or it is left out for that completion.",
            one_of({"stop", "zero", "skip"}));
  table.add("timeout", timeout,
            "Seconds that a user program or server has for the completions of one prompt, at each try.",
            above(0).at_most(86400));
  table.add("workers", workers,
            "Threads that score, and processes of each user program, at most; 0 means one per core, up to 8.",
            at_least(0).at_most(1024));
  table.add("python", python, "The Python interpreter of python: and code.", not_empty());
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

/// The argument of a function that is so many numbers above 0.
std::vector<double> numbers_in(const std::string& text, const std::string& argument, size_t count) {
  std::vector<double> result;
  for (const std::string& word : split(argument, ',')) {
    double value = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || rest != word.data() + word.size() || !(value > 0))
      refuse(text, "\"" + word + "\" is no number above 0");
    result.push_back(value);
  }
  if (result.size() != count)
    refuse(text, "expected " + std::to_string(count) + (count == 1 ? " number" : " numbers, with a comma between") +
                     " after the colon");
  return result;
}

std::vector<std::string> files_of(const std::string& function);

/// What a text of reward.functions says.
struct Written {
  std::string text, name, argument;
  const RewardOptions& options;
  const RewardFunction& task;
  const AnswerExtractor& reader;

  std::vector<double> numbers(size_t count) const { return numbers_in(text, argument, count); }
  /// Whether the argument is this word; nothing else but none at all is allowed.
  bool has(const std::string& word) const {
    if (!argument.empty() && argument != word)
      refuse(text, "\"" + argument + "\" means nothing here" + (word.empty() ? "" : "; there is " + word));
    return !argument.empty();
  }
  WorkerOptions workers(std::vector<std::string> command, bool says_ready) const {
    return {.command = std::move(command),
            .says_ready = says_ready,
            .timeout = options.timeout,
            .workers = options.worker_count(),
            .files = files_of(text)};
  }
};

/// The argument of python:, FILE.py or FILE.py:FUNCTION.
struct PythonFunction {
  std::string file, function;

  static PythonFunction of(const std::string& argument) {
    const size_t colon = argument.rfind(".py:");
    if (colon == std::string::npos) return {argument, ""};
    return {argument.substr(0, colon + 3), argument.substr(colon + 4)};
  }
};

std::unique_ptr<Reward> make_python(const Written& w) {
  const auto [file, function] = PythonFunction::of(w.argument);
  if (!file.ends_with(".py")) refuse(w.text, "expected python:FILE.py or python:FILE.py:FUNCTION");
  std::error_code unseen;  // of a name too long, say
  if (!std::filesystem::is_regular_file(file, unseen))
    refuse(w.text, "there is no file " + file + " (looked for from " + std::filesystem::current_path().string() + ")");
  return std::make_unique<ProgramReward>(std::make_unique<WorkerPool>(
      w.workers({w.options.python, "-u", "-c", std::string(python_worker()), file, function}, true)));
}

std::unique_ptr<Reward> make_exec(const Written& w) {
  const std::optional<std::vector<std::string>> command = shell_words(w.argument);
  if (!command) refuse(w.text, "a quote is not closed");
  if (command->empty()) refuse(w.text, "expected exec:PROGRAM ARGUMENT...");
  return std::make_unique<ProgramReward>(std::make_unique<WorkerPool>(w.workers(*command, false)));
}

std::unique_ptr<Reward> make_http(const Written& w) {
  return std::make_unique<ProgramReward>(
      std::make_unique<HttpChannel>(HttpOptions{.url = w.text, .timeout = w.options.timeout}));
}

std::unique_ptr<Reward> make_numeric(const Written& w) {
  return numeric_reward(w.argument.empty() ? 1e-6 : w.numbers(1)[0]);
}

std::unique_ptr<Reward> make_overlong(const Written& w) {
  const std::vector<double> numbers = w.numbers(2);
  if (numbers[1] > numbers[0]) refuse(w.text, "the buffer (the second number) is larger than the longest completion");
  return overlong_reward(numbers[0], numbers[1]);
}

std::unique_ptr<Reward> make_tags(const Written& w) {
  const std::vector<std::string> tags = split(w.argument, ',');
  if (tags.empty() || tags[0] == "*") refuse(w.text, "expected tags:NAME,NAME... or tags:NAME,*");
  return tags_reward(tags);
}

std::unique_ptr<Reward> make_pattern(const Written& w) {
  if (w.argument.empty()) refuse(w.text, "expected pattern:REGULAR EXPRESSION");
  return pattern_reward(w.argument);
}

std::unique_ptr<Reward> make_task(const Written& w) {
  w.has("");
  if (!w.task) refuse(w.text, "no built-in task runs here; name a function that judges the data set, such as math");
  return make_function_reward(w.task, w.reader);
}

std::unique_ptr<Reward> make_code(const Written& w) {
  SandboxLimits limits;
  bool fraction = false;
  for (const std::string& word : split(w.argument, ',')) {
    const std::string name = word.substr(0, word.find('='));
    const auto number = [&](double least, double most) {
      const double value = numbers_in(w.text, word.substr(std::min(name.size() + 1, word.size())), 1)[0];
      if (value < least || value > most)
        refuse(w.text,
               name + " is out of range (got " + str_cat(value) + ", expected " + str_cat(least, " to ", most) + ")");
      return value;
    };
    if (word == "fraction")
      fraction = true;
    else if (name == "seconds")
      limits.seconds = number(0, 3600);
    else if (name == "memory_mib")
      limits.memory_mib = static_cast<int64_t>(number(64, 1 << 20));
    else
      refuse(w.text, "\"" + word + "\" is unknown (expected fraction, seconds=N or memory_mib=N)");
  }
  return code_reward(w.options.python, limits, fraction);
}

struct RewardRow {
  std::string name;
  std::unique_ptr<Reward> (*make)(const Written&);
  std::string sentence;
};

const std::vector<RewardRow>& rows() {
  static const std::vector<RewardRow> kRows = {
      {"task", make_task, "what the built-in task says, the default where one runs."},
      {"math", [](const Written& w) { return w.has(""), math_reward(); },
       "1 when the final answer is the prompt's answer by the math verifier, else 0; the default for data sets."},
      {"exact", [](const Written& w) { return exact_reward(w.has("ignore_case")); },
       "1 when the final answer, or the whole completion, is the same text as the prompt's; exact:ignore_case."},
      {"numeric", make_numeric, "1 when the number of the final answer is the prompt's, within numeric:0.01."},
      {"choice", [](const Written& w) { return w.has(""), choice_reward(); },
       "1 when the final answer is the right letter."},
      {"tags", make_tags, "1 when the completion has these tags, each once, and no more; tags:think,answer."},
      {"pattern", make_pattern, "1 when the regular expression matches the whole completion; pattern:REGEX."},
      {"stopped", [](const Written& w) { return w.has(""), stopped_reward(); },
       "1 when the completion ended by itself, 0 when it was cut off."},
      {"length", [](const Written& w) { return length_reward(w.numbers(1)[0]); },
       "minus the number of tokens, divided by the number behind it; length:1000."},
      {"overlong", make_overlong, "DAPO's soft penalty of long completions; overlong:LONGEST,BUFFER."},
      {"code", make_code,
       "1 when the completion's program passes all tests, in a sandbox; code:fraction,seconds=10,memory_mib=512."},
      {"python", make_python, "what your Python function says; python:FILE.py:FUNCTION."},
      {"exec", make_exec, "what your program says; exec:PROGRAM ARGUMENT..."},
      {"http", make_http, "what your server says; http://HOST:PORT/PATH."},
      {"https", make_http, "refused: put a local proxy in front, and name it with http://."},
  };
  return kRows;
}

/// NAME, NAME:ARGUMENT or either @SOURCE,SOURCE.
struct FunctionText {
  std::string name, argument, sources;  // the last with its " @"; empty: none

  static FunctionText of(const std::string& function) {
    const size_t at = std::min(function.rfind(" @"), function.size());
    std::string text = function.substr(0, at);
    if (at < function.size()) text.erase(text.find_last_not_of(' ') + 1);
    const size_t colon = std::min(text.find(':'), text.size());
    return {text.substr(0, colon), colon < text.size() ? text.substr(colon + 1) : "", function.substr(at)};
  }
  std::string text() const { return argument.empty() ? name : name + ":" + argument; }
};

/// The function with its files named in another way; as it is where it has none.
std::string with_files(const std::string& function, const std::function<std::string(const std::string& file)>& named) {
  FunctionText parts = FunctionText::of(function);
  if (parts.name == "python") {
    PythonFunction python = PythonFunction::of(parts.argument);
    parts.argument = named(python.file) + (python.function.empty() ? "" : ":" + python.function);
  } else if (parts.name == "exec") {
    const std::optional<std::vector<std::string>> words = shell_words(parts.argument);
    if (!words) return function;
    std::string command;
    for (const std::string& word : *words) command += (command.empty() ? "" : " ") + shell_word(named(word));
    parts.argument = command;
  } else {
    return function;
  }
  return parts.text() + parts.sources;
}

/// Whether a word of a function is a file: a program without a slash is looked for among the system's, and a word that
/// is no file means something else.
bool is_file(const std::string& word, bool is_program) {
  std::error_code unseen;
  return !(is_program && word.find('/') == std::string::npos) && std::filesystem::is_regular_file(word, unseen);
}

std::vector<std::string> files_of(const std::string& function) {
  std::vector<std::string> files;
  bool first = function.starts_with("exec:");
  with_files(function, [&](const std::string& word) {
    if (is_file(word, std::exchange(first, false))) files.push_back(word);
    return word;
  });
  return files;
}

}  // namespace

std::optional<double> soft_penalty_start(const std::string& function) {
  const FunctionText parts = FunctionText::of(function);
  if (parts.name != "overlong") return std::nullopt;
  const std::vector<double> numbers = numbers_in(parts.text(), parts.argument, 2);
  return numbers[0] - numbers[1];
}

std::string short_name(const std::string& function) {
  return with_files(function, [](const std::string& file) {
    return file.starts_with("/") ? std::filesystem::path(file).filename().string() : file;
  });
}

namespace {

RewardTerm make_term(const std::string& function, double weight, const RewardOptions& options,
                     const RewardFunction& task, const AnswerExtractor& reader) {
  RewardTerm term{.name = short_name(function), .weight = weight, .sources = {}, .reward = nullptr};
  const FunctionText parts = FunctionText::of(function);
  if (!parts.sources.empty()) {
    term.sources = split(parts.sources.substr(2), ',');
    if (term.sources.empty()) refuse(function, "there is no source after the @");
  }
  const Written written{parts.text(), parts.name, parts.argument, options, task, reader};
  std::vector<std::string> names;
  for (const RewardRow& row : rows()) {
    if (row.name == written.name) term.reward = row.make(written);
    if (row.name != "https") names.push_back(row.name);  // for http, whose message says what it wants
  }
  if (term.reward) return term;
  if (written.name.ends_with(".py")) refuse(function, "a file of Python functions is written python:" + written.text);
  const std::optional<std::string> near = nearest_name(written.name, names);
  refuse(function, near ? "did you mean " + *near + "?" : "the functions are " + joined(names));
}

class FunctionReward final : public Reward {
 public:
  FunctionReward(RewardFunction function, AnswerExtractor reader)
      : function_(std::move(function)), reader_(std::move(reader)) {}
  Scores operator()(std::span<const RewardSample> samples) const override {
    Scores scores;
    for (const RewardSample& sample : samples)
      scores.rewards.emplace_back(function_(sample.prompt, sample.with_special_tokens));
    return scores;
  }

  std::optional<FinalAnswer> answer(const RewardSample& sample) const override {
    if (!reader_) return std::nullopt;
    return FinalAnswer{.text = reader_(sample.with_special_tokens)};
  }
  bool is_binary() const override { return reader_ != nullptr; }

 private:
  RewardFunction function_;
  AnswerExtractor reader_;
};

/// The second "math" is "math (2)", so that each has its own line wherever functions are listed.
void make_names_distinct(std::vector<RewardTerm>& terms) {
  std::map<std::string, int> seen;
  for (RewardTerm& term : terms)
    if (const int count = ++seen[term.name]; count > 1) term.name += " (" + std::to_string(count) + ")";
}

}  // namespace

std::vector<BuiltInReward> built_in_rewards() {
  std::vector<BuiltInReward> rewards;
  for (const RewardRow& row : rows()) rewards.push_back({row.name, row.sentence});
  return rewards;
}

std::string with_absolute_paths(const std::string& function) {
  std::vector<std::string> written, meant, read;
  const std::string full = with_files(function, [&](const std::string& file) {
    const bool program = written.empty() && function.starts_with("exec:");
    written.push_back(file);
    return meant.emplace_back(is_file(file, program) ? full_path(file) : file);
  });
  with_files(full, [&](const std::string& file) { return read.emplace_back(file); });
  // A folder's name may hold what separates the parts of a function; such a one is better relative than wrong.
  return meant != written && meant == read ? full : function;
}

std::vector<std::string> reward_files(const RewardOptions& options) {
  std::vector<std::string> files;
  for (const std::string& function : options.functions)
    for (const std::string& file : files_of(function))
      if (std::string used = file + " " + fingerprint_of(file);
          std::find(files.begin(), files.end(), used) == files.end())  // several functions may be of one file
        files.push_back(std::move(used));
  return files;
}

std::unique_ptr<Reward> make_function_reward(RewardFunction function, AnswerExtractor reader) {
  return std::make_unique<FunctionReward>(std::move(function), std::move(reader));
}

RewardSum make_reward(const RewardOptions& options, const RewardFunction& task, const AnswerExtractor& reader,
                      int64_t max_new_tokens) {
  std::vector<std::string> functions = options.functions;
  if (functions.empty()) functions = {task ? "task" : "math"};
  if (!options.weights.empty() && options.weights.size() != functions.size())
    fail(ExitCode::kBadConfiguration, "reward.weights has ", options.weights.size(), " numbers for ", functions.size(),
         " functions; give one weight per function, or none");
  std::vector<RewardTerm> terms;
  for (size_t i = 0; i < functions.size(); ++i)
    terms.push_back(make_term(functions[i], options.weights.empty() ? 1 : options.weights[i], options, task, reader));
  if (options.overlong_buffer > 0) {
    if (max_new_tokens == 0)
      fail(ExitCode::kBadConfiguration, "reward.overlong_buffer is ", options.overlong_buffer,
           ", but there is no longest completion here; write overlong:LONGEST,BUFFER into reward.functions");
    const double longest = static_cast<double>(max_new_tokens), buffer = static_cast<double>(options.overlong_buffer);
    terms.push_back({.name = "overlong",
                     .weight = options.overlong_penalty,
                     .sources = {},
                     .reward = overlong_reward(longest, buffer),
                     .training_only = true});
  }
  make_names_distinct(terms);
  const OnError on_error = options.on_error == "zero"   ? OnError::kZero
                           : options.on_error == "skip" ? OnError::kSkip
                                                        : OnError::kStop;
  return RewardSum(std::move(terms), on_error);
}

}  // namespace keel
