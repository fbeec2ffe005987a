#include "keel/train/config/recipes/shell_script.h"

#include <algorithm>
#include <optional>
#include <set>

#include "keel/core/error.h"
#include "keel/core/json.h"
#include "keel/core/options/yaml_text.h"
#include "keel/train/config/foreign_names.h"
#include "keel/train/config/recipes/shell_commands.h"
#include "keel/train/config/recipes/shell_variables.h"

namespace keel {
namespace {

using Words = std::vector<ShellWord>;

bool is_one_of(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_setting(const std::string& word) {
  const bool leaves_out = word.starts_with('~') && word.size() > 1 && word[1] != '/';  // Hydra's ~key
  return leaves_out || (word.find('=') != std::string::npos && !word.starts_with('-') && !word.starts_with('='));
}

/// Of another program, which bash itself would take for the name of a command.
bool is_dotted_setting(const std::string& word) {
  const std::string key = word.substr(0, word.find('='));
  return is_setting(word) && key.find('.') != std::string::npos && key.find_first_of("/$ ") == std::string::npos;
}

// The command that trains -------------------------------------------------------------------------------------------

enum class Trainer { kNone, kAnyFile, kTrlFile, kTrl, kVerl };

/// What a command starts, and behind which word the settings begin.
struct Training {
  Trainer trainer = Trainer::kNone;
  size_t first = 0;
  std::string arguments = {};  // the class of TRL's that takes them, where that is said
};

bool is_module_of_verl(const std::string& module) {
  const std::string last = module.substr(module.find_last_of('.') + 1);
  return (module.starts_with("verl.") || module.starts_with("recipe.")) && last.starts_with("main") &&
         !last.starts_with("main_eval") && !last.starts_with("main_generation");
}

Training training_of(const Words& words) {
  if (words.empty() || is_one_of(words[0].text, {"echo", "printf"})) return {};
  bool launches = false;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string &word = words[i].text, &next = words[i + 1].text;
    const std::string program = word.substr(word.find_last_of('/') + 1);
    if (word == "-m" && is_module_of_verl(next)) return {Trainer::kVerl, i + 2};
    if ((word == "-m" || word == "--module") && (next == "trl.scripts.grpo" || next == "trl.scripts.sft"))
      return {Trainer::kTrlFile, i + 2, next.ends_with("sft") ? kSftArguments : kGrpoArguments};
    if (word == "trl" && (next == "grpo" || next == "sft"))
      return {Trainer::kTrl, i + 2, next == "sft" ? kSftArguments : kGrpoArguments};
    if (launches && word.ends_with(".py") && next.starts_with("--")) {
      const bool grpo = program.find("grpo") != std::string::npos, sft = program.starts_with("sft");
      if (!grpo && !sft) return {Trainer::kAnyFile, i + 1};
      return {Trainer::kTrlFile, i + 1, grpo ? kGrpoArguments : kSftArguments};
    }
    launches = launches || program.starts_with("python") || is_one_of(program, {"accelerate", "torchrun", "deepspeed"});
  }
  return {};
}

/// On how many devices the words in front of a Python file start it; nothing where they do not say it.
std::optional<ScriptSetting> processes_of(const Words& words, size_t first, ShellVariables& variables,
                                          const std::string& file) {
  static const std::vector<std::string> kCounts = {"--num_processes", "--nproc_per_node", "--nnodes", "--num_gpus",
                                                   "--num_nodes"};
  constexpr int64_t kMost = 1 << 16;
  int64_t processes = 1;
  int line = 0;
  for (size_t i = 0; i < first; ++i) {
    std::string name = words[i].text.substr(0, words[i].text.find('='));
    std::replace(name.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(2, name.size())), name.end(), '-', '_');
    const bool hides = words[i].text.find("[@]") != std::string::npos;
    if (hides) variables.words(words[i]);  // refuses an array that is not known
    if (!is_one_of(name, kCounts)) continue;
    const bool joined = words[i].text.size() > name.size();
    const Words values = variables.words(words[joined ? i : std::min(i + 1, first)]);
    const std::string value = values.size() != 1 ? ""
                              : joined           ? values[0].text.substr(name.size() + 1)
                                                 : values[0].text;
    int64_t count = 0;
    for (const char c : value)
      count = c >= '0' && c <= '9' && count >= 0 && count < kMost ? count * 10 + (c - '0') : -1;
    if (count < 1 || count > kMost)
      fail(ExitCode::kBadConfiguration, file, ":", words[i].line, ": ", name, " \"", value,
           "\" is no number of processes, by which the batch is multiplied", kShellWayOut);
    processes = std::min(processes * count, kMost);
    line = words[i].line;
  }
  return line == 0 ? std::nullopt : std::optional(ScriptSetting{"num_processes=" + std::to_string(processes), line});
}

/// Whether Hydra is told to read what verl has anyway: its own defaults.
bool names_own_defaults(const std::string& key, const std::string& value) {
  if (key == "config-name")
    return is_one_of(value.substr(0, value.find(".yaml")), {"ppo_trainer", "ppo_megatron_trainer"});
  return key == "config-path" && (is_one_of(value, {"config", "./config"}) || value.ends_with("verl/trainer/config"));
}

/// --key value value as key=value: none is true, several are a list.
std::vector<ScriptSetting> with_equals(const Words& words, Trainer trainer, const std::string& file) {
  const bool of_trl = trainer != Trainer::kVerl && trainer != Trainer::kNone;
  std::vector<ScriptSetting> settings;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const int line = words[i].line;
    if (!word.starts_with("--")) {
      if (is_setting(word)) settings.push_back({word, line, WrittenAs::kHydra});
      continue;
    }
    const size_t equals = word.find('=');
    std::string key = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::vector<std::string> values;
    if (equals != std::string::npos) values.push_back(word.substr(equals + 1));
    while (equals == std::string::npos && i + 1 < words.size() && !words[i + 1].text.starts_with("--") &&
           (of_trl || !is_setting(words[i + 1].text)))
      values.push_back(words[++i].text);
    const std::string first = values.empty() ? "true" : values[0];
    if (names_own_defaults(key, first)) continue;
    if (key == "config" || key == "config-name" || key == "config-path")
      fail(ExitCode::kBadConfiguration, file, ":", line, ": --", key, " ", first,
           " names a file of further settings; import that file, with the others behind it: keel import FILE ",
           "key=value ...");
    std::replace(key.begin(), key.end(), '-', '_');
    const bool denies = of_trl && values.empty() && key.starts_with("no_") && key != "no_cuda";  // HfArgumentParser's
    if (denies) key.erase(0, 3);
    Json list = Json::array();
    for (std::string& value : values) {
      if (values.size() > 1 && value.ends_with(',')) value.pop_back();  // as in "q_proj", "v_proj"
      if (values.size() > 1) list.push_back(plain_scalar(value, file + ":" + std::to_string(line)));
    }
    settings.push_back({key + "=" + (values.size() > 1 ? list.dump() : denies ? "false" : first), line});
  }
  return settings;
}

// What a command does to the variables ------------------------------------------------------------------------------

struct Effects {
  std::set<std::string> names;
  bool all = false, arguments = false;  // $1 and "$@"

  void add(const Effects& others) {
    names.insert(others.names.begin(), others.names.end());
    all = all || others.all;
    arguments = arguments || others.arguments;
  }
  /// Every name in a text may be one that is set.
  void add_names_in(std::string_view text) {
    all = all || text.starts_with('$') || text.starts_with("\"$");
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && is_shell_name_part(text[end])) ++end;
      if (end > i && is_shell_name_start(text[i])) names.emplace(text.substr(i, end - i));
      i = std::max(end, i + 1);
    }
  }
  /// ${NAME:=text} and $((NAME = 1)) set a variable in whatever command they stand.
  void add_hidden(std::string_view text) {
    for (size_t at = text.find("${"); at != std::string_view::npos; at = text.find("${", at + 2)) {
      size_t end = at + 2;
      while (end < text.size() && is_shell_name_part(text[end])) ++end;
      const std::string_view behind = text.substr(end);
      if (behind.starts_with(":=") || behind.starts_with('=')) names.emplace(text.substr(at + 2, end - at - 2));
      const bool is_sum = behind.starts_with('[') || (behind.starts_with(':') && behind.find_first_of("-=+?") != 1);
      if (is_sum) add_sum(behind.substr(0, behind.find('}')));
    }
    for (size_t at = text.find("$("); at != std::string_view::npos; at = text.find("$(", at + 2))
      if (text.substr(at).starts_with("$((")) add_sum(text.substr(at, end_of_shell_piece(text, at, false) - at));
    if (const size_t at = text.find("$["); at != std::string_view::npos) add_sum(text.substr(at));
  }
  void add_sum(std::string_view text) {
    for (const char* sign : {"++", "--", "="})
      if (text.find(sign) != std::string_view::npos) return add_names_in(text);
  }
};

/// Words that only say how bash goes on: set -euxo pipefail.
bool is_plain_set(const Words& words) {
  static const std::vector<std::string> kOptions = {"pipefail", "errexit",   "nounset", "xtrace",
                                                    "verbose",  "allexport", "errtrace"};
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const bool is_flag = word.size() > 1 && (word[0] == '-' || word[0] == '+') &&
                         word.find_first_not_of("euxvaEbhCmfo", 1) == std::string::npos;
    if (!is_flag) return false;
    if (word.ends_with('o') && (++i == words.size() || !is_one_of(words[i].text, kOptions))) return false;
  }
  return true;
}

/// A file or a text that only makes an environment of Python's, or a device, usable.
bool is_harmless_source(const Words& words) {
  if (words.size() < 2) return false;
  const std::string& text = words[1].text;
  const std::string file = text.substr(text.find_last_of('/') + 1);
  if (words[0].text == "eval") return text.find("conda") != std::string::npos && text.find("hook") != std::string::npos;
  return text.find("/Ascend/") != std::string::npos ||
         is_one_of(file, {"activate", "activate\"", "conda.sh", "conda.sh\""});
}

// The script --------------------------------------------------------------------------------------------------------

class Reader {
 public:
  Reader(std::string_view text, const std::string& file)
      : text_(commands_of_shell(text, file)), file_(file), variables_(file) {}

  std::vector<ScriptSetting> settings() {
    for (const ShellCommand& command : text_.commands)
      trainer_ = std::max(trainer_, training_of(own_words(command)).trainer);
    for (const ShellCommand& command : text_.commands) read(command);
    std::vector<ScriptSetting> settings = with_equals(words_, trainer_, file_);
    if (settings.empty())
      fail(ExitCode::kBadConfiguration, file_, ": there is no training in this script: no settings (key=value) behind ",
           "`python3 -m verl.trainer.main_ppo`, and no --key value behind `trl grpo`, `trl sft` or a Python file");
    const bool says_processes = std::any_of(settings.begin(), settings.end(), [](const ScriptSetting& setting) {
      return setting.text.starts_with("num_processes=");
    });
    if (processes_ && !says_processes) settings.push_back(*processes_);
    if (!arguments_.empty()) settings.push_back({arguments_ + "={}", found_on_, WrittenAs::kHydra});
    return settings;
  }

 private:
  /// Without the assignments that hold for the command alone, and words that only lead to it.
  static Words own_words(const ShellCommand& command) {
    auto first = command.words.begin();
    while (first != command.words.end() && !name_assigned(first->text).empty()) ++first;
    if (first == command.words.end()) return command.words;
    while (first + 1 < command.words.end() && is_one_of(first->text, {"command", "builtin"})) ++first;
    return {first, command.words.end()};
  }

  [[noreturn]] void refuse(int line, const std::string& what) const {
    fail(ExitCode::kBadConfiguration, file_, ":", line, ": ", what, kShellWayOut);
  }

  void read(const ShellCommand& command) {
    const Words words = own_words(command);
    Effects effects = hidden_effects(command);
    const bool in_order = command.before == "\n" || command.before == ";";
    const bool reached = !command.nested && in_order;
    const bool counts = reached && command.after != "|" && command.after != "&";
    const Training training = training_of(words);
    const bool is_known = training.trainer >= Trainer::kTrl;
    if (training.trainer != Trainer::kNone && (is_known || training.trainer == trainer_))
      take_training(words, training, reached || (!command.nested && command.before == "&&" && leads_on_));
    std::optional<Words> assigned = assignments(words);
    if (!assigned) effects.add(effects_of(words));
    if (assigned && !counts)
      for (const ShellWord& word : *assigned) effects.names.insert(name_assigned(word.text));
    const int line = command.words.empty() ? 0 : command.words[0].line;
    if (command.in_function)
      of_functions_.add(effects);
    else
      apply(effects, line);
    if (assigned && counts) {
      for (const ShellWord& word : *assigned) variables_.assign(word);
      const bool for_ever = words[0].text == "readonly" ||
                            std::any_of(words.begin(), words.end(), [](const ShellWord& w) { return w.text == "-r"; });
      for (size_t k = 1; for_ever && k < words.size(); ++k) {
        const std::string name = name_assigned(words[k].text);
        variables_.make_constant(name.empty() ? words[k].text : name);
      }
    }
    if (words.empty()) return;
    const std::string& name = words[0].text;
    if (counts && (is_one_of(name, {"exit", "return"}) || (name == "exec" && words.size() > 1)) && found_on_ == 0)
      stopped_ = {line, "the script ends on line "};
    leads_on_ = (reached || (leads_on_ && command.before == "&&")) && !command.nested &&
                (assigned || is_one_of(name, {"cd", "mkdir", "echo", "export", "set", "source"}));
    if (trainer_ == Trainer::kNone && !assigned) take_bare_settings(words, counts);
    if (trainer_ != Trainer::kNone && is_dotted_setting(name))
      refuse(line, name +
                       " stands alone, and bash would hand it to no program (a line with # ends a command that goes " +
                       "on over lines); put it into the command, or remove it");
  }

  void take_training(const Words& words, const Training& training, bool reached) {
    const int line = words[0].line;
    if (found_on_ > 0)
      fail(ExitCode::kBadConfiguration, file_, ":", line, ": a second training, after the one on line ", found_on_,
           "; keep one of them");
    if (text_.functions.contains(words[0].text)) refuse(line, words[0].text + " is a function of the script's");
    if (!reached)
      refuse(line,
             "the training is behind && or ||, or inside of an if, a loop, a group or a function, so that only "
             "running the script could tell whether it is started");
    if (stopped_.first > 0) refuse(line, stopped_.second + std::to_string(stopped_.first));
    found_on_ = line;
    arguments_ = training.arguments;
    for (size_t i = training.first; i < words.size(); ++i) take(words[i]);
    if (trainer_ != Trainer::kVerl) processes_ = processes_of(words, training.first, variables_, file_);
  }

  /// A text of nothing but settings.
  void take_bare_settings(const Words& words, bool counts) {
    const std::string& name = words[0].text;
    if (!is_setting(name) && !name.starts_with("--")) return;
    if (!counts) refuse(words[0].line, "only running the script could tell whether this is read");
    for (const ShellWord& word : words) take(word);
  }

  void take(const ShellWord& raw) {
    for (ShellWord& word : variables_.words(raw)) words_.push_back(std::move(word));
  }

  /// What a command surely sets, where it is one that does nothing else.
  std::optional<Words> assignments(const Words& words) const {
    if (words.empty()) return std::nullopt;
    size_t first = 0;
    if (is_one_of(words[0].text, {"export", "readonly", "declare", "typeset"})) {
      first = 1;
      while (first < words.size() && is_one_of(words[first].text, {"-x", "-a", "-r", "-g", "-ax", "-gx", "--"}))
        ++first;
    }
    Words assigned;
    for (size_t i = first; i < words.size(); ++i) {
      const std::string& text = words[i].text;
      const bool is_name = first > 0 && !text.empty() && is_shell_name_start(text[0]) &&
                           std::all_of(text.begin(), text.end(), is_shell_name_part);
      if (!name_assigned(text).empty())
        assigned.push_back(words[i]);
      else if (!is_name)
        return std::nullopt;
    }
    // Unlike N=1 M=$N, which goes from left to right, export N=1 M=$N sets M to what N was.
    const auto depends = [](const ShellWord& word) { return word.text.find('$') != std::string::npos; };
    if (first > 0 && assigned.size() > 1 && std::any_of(assigned.begin(), assigned.end(), depends)) return std::nullopt;
    return assigned;
  }

  Effects hidden_effects(const ShellCommand& command) const {
    Effects effects;
    for (const std::string& text : command.beside) effects.add_hidden(text);
    for (const ShellWord& word : command.words) {
      effects.add_hidden(word.text);
      for (const ShellWord& element : word.elements) effects.add_hidden(element.text);
    }
    return effects;
  }

  Effects effects_of(const Words& words) {
    static const std::vector<std::string> kSetters = {"read",    "readarray", "mapfile", "let",     "unset",  "local",
                                                      "getopts", "readonly",  "declare", "typeset", "export", "coproc"};
    Effects effects;
    if (words.empty()) return effects;
    const std::string name = command_name(words[0]);
    const auto add_names = [&] {
      for (size_t i = 1; i < words.size(); ++i) effects.add_names_in(words[i].text);
    };
    if (text_.functions.contains(name)) effects.add(of_functions_);
    if (name.empty()) effects.all = true;
    if (name.starts_with("((")) effects.add_sum(name);
    if (name.starts_with("[[") && name.find("++") != std::string::npos) effects.add_names_in(name);
    if (is_one_of(name, kSetters)) add_names();
    if (is_one_of(name, {"printf", "wait"}) && words.size() > 1 && words[1].text.starts_with('-')) add_names();
    if (is_one_of(name, {"for", "select"}) && words.size() > 1) effects.add_names_in(words[1].text);
    if (is_one_of(name, {"cd", "pushd", "popd"})) effects.names.insert({"PWD", "OLDPWD"});
    if (is_one_of(name, {"source", ".", "eval"}) && !is_harmless_source(words)) effects.all = true;
    if (name == "set" && !is_plain_set(words)) effects.arguments = true;
    const bool changes_reading =
        name == "alias" || name == "enable" ||
        (name == "set" && !is_plain_set(words) && words[1].text.find_first_of("-+") == 0 && words[1].text != "--") ||
        (name == "trap" && is_one_of(words.back().text, {"DEBUG", "ERR", "RETURN"}));
    if (changes_reading && found_on_ == 0) stopped_ = {words[0].line, "other lines are run than stand here, by line "};
    return effects;
  }

  /// Of a variable that names the command the value; empty where that is not known.
  std::string command_name(const ShellWord& word) {
    if (word.text.find('$') == std::string::npos || word.text.starts_with("((") || word.text.starts_with("[["))
      return word.text;
    try {
      const Words words = variables_.words(word);
      // A variable that stands for a command of the shell's own is not followed.
      const bool is_program = !words.empty() && !is_one_of(words[0].text, {"eval", "source", ".", "export", "read"});
      return is_program ? words[0].text : "";
    } catch (const Error&) {
      return "";
    }
  }

  void apply(const Effects& effects, int line) {
    if (effects.all) variables_.make_all_uncertain(line);
    if (effects.arguments) variables_.make_arguments_uncertain(line);
    for (const std::string& name : effects.names) variables_.make_uncertain(name, line);
  }

  ShellText text_;
  const std::string& file_;
  ShellVariables variables_;
  Trainer trainer_ = Trainer::kNone;  // the surest that the script has: other programs with arguments are none
  Words words_;                       // of the training, with their variables' values
  std::optional<ScriptSetting> processes_;
  Effects of_functions_;                 // of all functions together, where one of them is called
  std::pair<int, std::string> stopped_;  // where what follows is not what is run, and why
  bool leads_on_ = false;                // what stands behind && after it is run
  int found_on_ = 0;
  std::string arguments_;  // SFTConfig or GRPOConfig, where it is known to be a training of TRL's
};

}  // namespace

std::vector<ScriptSetting> settings_of_script(std::string_view text, const std::string& file) {
  std::string lines;  // as an editor of Windows' ends them, too
  for (size_t i = 0; i < text.size(); ++i)
    if (!text.substr(i).starts_with("\r\n")) lines += text[i];
  return Reader(lines, file).settings();
}

}  // namespace keel
