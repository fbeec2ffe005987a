#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/generation_settings.h"
#include "keel/core/console.h"
#include "keel/core/tensor/rollout.h"
#include "keel/model/loaded_model.h"

namespace keel::cli {

/// The options that `keel generate` and `keel chat` share.
struct GenerationArguments {
  std::string model, adapter, device = "auto", precision = "auto";
  std::string date;  // that chat templates show, YYYY-MM-DD
  std::optional<std::string> system = {};
  std::optional<std::vector<std::string>> chat_template_kwargs = {};
  int64_t threads = 0;
  GenerationFlags flags;
  std::optional<uint64_t> seed;
};

/// Adds the model as an option ("--model") or as a positional argument ("MODEL").
void add_model_option(Command& command, const char* name, GenerationArguments& arguments);
/// Adds the other shared options.
void add_generation_options(Command& command, GenerationArguments& arguments);

/// A run's system prompt, stop strings and chat template variables.
struct ChatSettings {
  std::string system_prompt;
  std::vector<std::string> stop_strings = {}, chat_template_kwargs = {};
};

/// Returns the chat settings of the run that saved this checkpoint; the defaults for other models.
ChatSettings read_chat_settings(const std::string& model);

/// Samples from a model with the settings of its generation_config.json and the command line.
class TextGenerator {
 public:
  TextGenerator(const GenerationArguments& arguments, Console& messages);

  const LoadedModel& loaded() const { return loaded_; }
  /// Prints the sampling settings that the command line leaves open: those of generation_config.json, and the seed.
  void print_settings(Console& messages) const;
  /// The seed; std::nullopt if sampling is greedy.
  std::optional<uint64_t> seed() const { return settings_.temperature > 0 ? std::optional(seed_) : std::nullopt; }

  /// The system prompt of the command line, else of the model's run (then it prints a note). Empty: none.
  std::string system_prompt(Console& messages) const;
  /// Encodes a conversation with the model's chat template.
  std::vector<int32_t> encode(const Json& messages) const;

  /// Samples completions of a prompt. With one sample, `on_text` receives its text piece by piece.
  std::vector<Rollout> generate(std::vector<int32_t> prompt, int64_t samples,
                                const std::function<void(std::string_view piece)>& on_text = {}) const;

  /// Decodes a completion without its stop token or stop string.
  std::string completion_text(const Rollout& rollout) const;

 private:
  int64_t resolve_max_new_tokens(size_t prompt_tokens) const;

  std::string name_;
  std::optional<int64_t> max_new_tokens_flag_;
  std::optional<std::string> system_flag_;
  bool has_seed_flag_;
  ChatSettings run_chat_settings_;
  LoadedModel loaded_;
  GenerationSettings settings_;
  uint64_t seed_;
  TemplateVariables template_kwargs_;
};

}  // namespace keel::cli
