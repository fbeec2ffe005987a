#pragma once

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "keel/core/json.h"

namespace keel {

/// A program and its tests.
struct ProgramCase {
  std::string name, program;
  Json tests = Json::array();
};

/// Reads a file of tests/reward/functions/programs; honest.txt describes the format.
inline std::vector<ProgramCase> program_cases(const std::string& name) {
  std::ifstream file("tests/reward/functions/programs/" + name);
  if (!file) throw std::runtime_error(name + " is not there; run the tests from the repository's root");
  std::vector<ProgramCase> cases;
  std::string test, entry_point, *text = nullptr;
  bool begins = true;
  const auto end_test = [&] {
    if (text == &test && entry_point.empty()) cases.back().tests.push_back(test);
    if (text == &test && !entry_point.empty()) cases.back().tests = {{"test", test}, {"entry_point", entry_point}};
    test.clear(), entry_point.clear(), begins = true;
  };
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ")) {
      if (text != nullptr) end_test();
      cases.push_back({.name = line.substr(4), .program = ""});
      text = &cases.back().program;
    } else if (line.starts_with("--- ")) {
      end_test();
      entry_point = line.starts_with("--- check ") ? line.substr(10) : "";
      text = &test;
    } else if (text != nullptr) {
      *text += (begins ? "" : "\n") + line;
      begins = false;
    }
  }
  end_test();
  return cases;
}

}  // namespace keel
