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

/// What the commands that talk with a model ask for alike.
struct GenerationArguments {
  std::string model, adapter, date, device = "cpu", precision = "auto";
  std::optional<std::string> system = {};
  std::optional<std::vector<std::string>> chat_template_kwargs = {};
  int64_t threads = 0;
  GenerationFlags flags;
  std::optional<uint64_t> seed;
};

/// Which model; "--model", or "MODEL" where it has its place.
void add_model_option(Command& command, const char* name, GenerationArguments& arguments);
/// All else.
void add_generation_options(Command& command, GenerationArguments& arguments);

/// What a run renders its conversations with, and ends its completions at.
struct ChatSettings {
  std::string system_prompt;
  std::vector<std::string> stop_strings = {}, chat_template_kwargs = {};
};

/// Those of the run that the model is a checkpoint of, or of any run where nothing else is said.
ChatSettings read_chat_settings(const std::string& model);

/// A model that goes on with prompts, as its generation_config.json and the command line say.
class TextGenerator {
 public:
  TextGenerator(const GenerationArguments& arguments, Console& messages);

  const LoadedModel& loaded() const { return loaded_; }
  /// How it samples, where that was not said: what the model's file says, and the seed that was drawn.
  void print_settings(Console& messages) const;
  /// Nothing where nothing is random.
  std::optional<uint64_t> seed() const { return settings_.temperature > 0 ? std::optional(seed_) : std::nullopt; }

  /// What a conversation begins with: what was asked for, or else the system prompt of the run that the model is a
  /// checkpoint of, which is told. Empty: nothing.
  std::string system_prompt(Console& messages) const;
  /// A conversation through the model's chat template.
  std::vector<int32_t> encode(const Json& messages) const;

  /// Completions of a prompt. `shown` is told what a single one says while it grows, a piece after the other.
  std::vector<Rollout> generate(std::vector<int32_t> prompt, int64_t samples,
                             const std::function<void(std::string_view piece)>& shown = {}) const;

  /// What a completion says: without the token that ended it, or up to the text that did.
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
  TemplateWords template_kwargs_;
};

}  // namespace keel::cli
