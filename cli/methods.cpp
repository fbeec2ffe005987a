#include "cli/methods.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/run_description.h"

namespace keel::cli {
namespace {

constexpr std::array kRecommended{"dppo_tv", "dppo_kl", "drpo", "grpo", "grpo_clip_higher"};

void print_methods() {
  std::printf("The five marked * are the ones to start with. keel methods NAME shows one in detail.\n");
  std::string group;
  for (const Method& method : methods()) {
    if (method.group != group) std::printf("\n%s\n", method.group.c_str());
    group = method.group;
    const bool recommended = std::ranges::find(kRecommended, method.name) != kRecommended.end();
    std::printf("%c %-21s %s\n", recommended ? '*' : ' ', method.name.c_str(), method.summary.c_str());
  }
}

}  // namespace

std::string describe(const Method& method) {
  std::string text = method.name + ": " + method.summary + "\n\n  " + method.equation + "\n\n";
  const auto add = [&](std::string name, const std::string& value) {
    name.resize(std::max<size_t>(name.size(), 12), ' ');
    text += "  " + name + " " + value + "\n";
  };
  add("advantage", method.advantage);
  add("aggregation", method.aggregation);
  for (const auto& [name, value] : number_parameters(method.region))
    if (has_effect(method.region, name)) add(name, std::isinf(value) ? "none" : short_number(value));
  for (const auto& [name, choice] : choice_parameters(method.region))
    if (has_effect(method.region, name)) add(name, choice);
  add("source", method.source);
  return text;
}

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const Method& method : methods()) names.push_back(method.name);
  return names;
}

CommandHandler add_methods(CommandLine& line) {
  const auto name = std::make_shared<std::string>();
  Command command = line.add("methods", "List the methods; with NAME: equation, defaults, source");
  command.option("NAME", *name, "Print one method in detail").suggest(method_names());
  return [name] {
    if (name->empty())
      print_methods();
    else
      std::fputs(describe(find_method(*name, /*what=*/"no method")).c_str(), stdout);
    return ExitCode::kDone;
  };
}

}  // namespace keel::cli
