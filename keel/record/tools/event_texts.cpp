#include "keel/record/tools/event_texts.h"

#include <cstdio>

#include "keel/core/console.h"

namespace keel {
namespace {

std::string text_at(const Json& object, const char* key, size_t max_length) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? shorten(found->get_ref<const std::string&>(), max_length) : "";
}

std::string number_at(const Json& object, const char* key, const std::string& fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? shortest_exact(found->get<double>()) : fallback;
}

}  // namespace

ExportedSample make_exported_sample(const Json& row) {
  constexpr size_t kMaxPrompt = 1000, kMaxCompletion = 2000;
  std::string head = "reward " + number_at(row, "reward", "none: unscored");
  if (row.contains("advantage") && row["advantage"].is_number())
    head += ", advantage " + number_at(row, "advantage", "");
  if (text_at(row, "finish", 10) == "length") head += ", truncated";
  return {.phase = row.at("phase"),
          .step = row.at("step"),
          .text = head + "\n" + text_at(row, "prompt", kMaxPrompt) + "\n--> " +
                  text_at(row, "completion", kMaxCompletion) + "\n"};
}

std::string blocked_tokens_text(const Json& tokens) {
  constexpr size_t kMaxToken = 60;
  if (!tokens.is_array() || tokens.empty()) return "";
  std::string text = "blocked    A > 0    A < 0  token\n";
  for (const Json& token : tokens) {
    if (!token.is_object()) return "";
    const auto count = [&](const char* key) {
      const auto found = token.find(key);
      return found != token.end() && found->is_number_integer() ? found->get<int64_t>() : int64_t{0};
    };
    char line[64];
    std::snprintf(line, sizeof(line), "%7ld %8ld %8ld  ", static_cast<long>(count("positive") + count("negative")),
                  static_cast<long>(count("positive")), static_cast<long>(count("negative")));
    text += line + Json(text_at(token, "text", kMaxToken)).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return text;
}

}  // namespace keel
