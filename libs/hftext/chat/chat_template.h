#pragma once

// Renders a conversation with the Jinja chat template of a model. The result equals transformers' apply_chat_template
// byte for byte, or an Error is thrown (tests/parity/chat_template_parity_test.py).

#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/json.h"
#include "libs/hftext/characters/traced_text.h"
#include "libs/hftext/jinja/objects/template_limits.h"

namespace keel {

namespace jinja {
struct TemplateTree;
}

struct RenderOptions {
  /// The time for strftime_now(), as std::localtime fills it. Without it, strftime_now() is an Error. The caller sets
  /// it, so that the same conversation always gives the same text.
  std::optional<std::tm> now = std::nullopt;
  TemplateLimits limits = {};
};

struct RenderedChat {
  std::string text;
  /// Byte ranges [begin, end) of `text` that {% generation %} blocks wrote: the assistant's tokens.
  std::vector<std::pair<size_t, size_t>> generated;
  /// Ranges of `text` that come from messages, tools and documents. They are never part of a special token.
  ByteRanges untrusted;
};

class ChatTemplate {
 public:
  /// `location` names the template in errors, for example the path of its file.
  static ChatTemplate parse(std::string source, std::string location);

  /// `messages` is a list of objects with role, content and further keys of the template. `extra` is an object with the
  /// other variables: tools, documents, add_generation_prompt, bos_token, eos_token, enable_thinking ... Everything but
  /// messages, tools and documents is trusted to write special tokens. raise_exception() and failures in the template
  /// are Errors with its line.
  RenderedChat render(const Json& messages, const Json& extra = Json::object(),
                      const RenderOptions& options = {}) const;

  const std::string& source() const { return source_; }
  /// Names of the variables that the template reads, without functions.
  std::set<std::string> variable_names() const;
  bool uses_date() const;

 private:
  ChatTemplate() = default;

  std::string source_, location_;
  std::shared_ptr<const jinja::TemplateTree> tree_;
};

/// The templates of a model, by name; most have one, called "default".
class ChatTemplates {
 public:
  /// Looks where transformers looks: chat_template.jinja and additional_chat_templates/NAME.jinja in a model folder,
  /// then "chat_template" in its tokenizer_config.json. Empty when there is none.
  static ChatTemplates load(const std::filesystem::path& folder);
  /// Parses "chat_template" of tokenizer_config.json: a string, a list of {name, template}, or null for none.
  static ChatTemplates from_json(const Json& chat_template, const std::string& location);

  bool empty() const { return templates_.empty(); }
  const std::map<std::string, ChatTemplate>& all() const { return templates_; }
  /// Returns "tool_use" if there are tools and such a template, else "default". Throws an Error if neither exists.
  const ChatTemplate& choose(bool has_tools) const;

 private:
  std::map<std::string, ChatTemplate> templates_;
  std::string location_;
};

}  // namespace keel
