#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "keel/train/config/recipes/hydra_value.h"

namespace keel {

/// A key=value, and where it stands.
struct ScriptSetting {
  std::string text;
  int line;
  WrittenAs written = WrittenAs::kArgument;
};

/// The settings that a shell script starts a training with, as key=value words: what stands behind
/// `python3 -m verl.trainer.main_ppo`, or the --key value behind `trl grpo` or a Python file; in a text without such a
/// command, all key=value words. Variables are those that the script sets, then those of the environment. Nothing is
/// run: what only running it could tell is refused with its line.
std::vector<ScriptSetting> settings_of_script(std::string_view text, const std::string& file);

}  // namespace keel
