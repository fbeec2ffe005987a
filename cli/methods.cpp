#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "keel/objective/methods.h"

namespace keel::cli {
namespace {

void print_method(const Method& method) {
  std::printf("%s: %s\n\n  %s\n\n  advantage    %s\n  aggregation  %s\n", method.name.c_str(), method.sentence.c_str(),
              method.equation.c_str(), method.advantage.c_str(), method.aggregation.c_str());
  for (const auto& [name, value] : parameters(method.region)) {
    if (std::isinf(value))
      std::printf("  %-12s none\n", name.c_str());
    else
      std::printf("  %-12s %g\n", name.c_str(), value);
  }
  for (const auto& [name, word] : word_parameters(method.region))
    std::printf("  %-12s %s\n", name.c_str(), word.c_str());
  std::printf("  source       %s\n", method.source.c_str());
}

}  // namespace

Action add_methods(CommandLine& line) {
  const auto name = std::make_shared<std::string>();
  Command command = line.add("methods", "The table of objectives: equation, defaults, source");
  command.option("NAME", *name, "One method in full");
  return [name] {
    if (!name->empty()) print_method(method_named(*name, "no method"));
    for (const Method& method : methods())
      if (name->empty()) std::printf("%-18s %s\n", method.name.c_str(), method.sentence.c_str());
    return ExitCode::kDone;
  };
}

}  // namespace keel::cli
