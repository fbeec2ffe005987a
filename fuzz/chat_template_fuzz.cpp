// libFuzzer target: any bytes as a chat template with any JSON as its variables. The result is a text or an Error,
// within the limits. Build and run: fuzz/README.md.
//
// The input is the template, a NUL byte and {"messages": [...], ...}, by default a small conversation.

#include <cstdint>
#include <string>

#include "keel/core/error.h"
#include "libs/hftext/chat/chat_template.h"

namespace {

const keel::Json& small_conversation() {
  static const keel::Json tree = keel::Json::parse(R"({
    "messages": [{"role": "user", "content": "größe 🙂\n", "n": 1.5},
                 {"role": "assistant", "content": null, "tool_calls": [{"name": "f", "arguments": {"x": [1, true]}}]}],
    "extra": {"add_generation_prompt": true, "bos_token": "<s>"}})");
  return tree;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  static const keel::Json small_messages = small_conversation()["messages"],
                          small_extra = small_conversation()["extra"];
  keel::Json messages, extra;
  const keel::Json *the_messages = &small_messages, *the_extra = &small_extra;
  if (zero != std::string::npos) {
    extra = keel::Json::parse(input.substr(zero + 1), nullptr, /*allow_exceptions=*/false);
    if (extra.is_object() && extra.contains("messages")) {
      messages = extra["messages"];
      extra.erase("messages");
      the_messages = &messages, the_extra = &extra;
    }
  }
  keel::RenderOptions options;
  options.limits = {.steps = 4'000, .depth = 300, .output_bytes = 1 << 14, .memory_bytes = 1 << 20};
  options.now = std::tm{};
  options.now->tm_mday = 1;
  try {
    keel::ChatTemplate::parse(input.substr(0, zero), "fuzz").render(*the_messages, *the_extra, options);
  } catch (const keel::Error&) {
    // an Error is a valid result
  }
  return 0;
}
