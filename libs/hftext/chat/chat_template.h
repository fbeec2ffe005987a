#pragma once

// A conversation to the text a model was trained on. The template comes with the model, in the language Jinja; it is
// rendered as Hugging Face transformers' apply_chat_template renders it, byte for byte, or refused
// (tests/parity/chat_template_parity_test.py).

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
  /// What strftime_now() shows, as std::localtime fills it; without it a template that asks for the date is an Error.
  /// Given by the caller, so that the same conversation can give the same text tomorrow.
  std::optional<std::tm> now = std::nullopt;
  TemplateLimits limits = {};
};

struct RenderedChat {
  std::string text;
  /// [begin, end) in bytes of `text`: what the template's {% generation %} blocks wrote, which is what the model said.
  std::vector<std::pair<size_t, size_t>> generated;
  /// What of `text` came out of the messages, tools and documents: no special token may begin, end or lie there.
  ByteRanges untrusted;
};

class ChatTemplate {
 public:
  /// `place` names the template in errors, for example the path of its file.
  static ChatTemplate parse(std::string source, std::string place);

  /// `messages` is a list of objects with role, content and whatever the template knows; `extra` an object with the
  /// other variables: tools, documents, add_generation_prompt, bos_token, eos_token, enable_thinking ... All but the
  /// first two of these are trusted to write special tokens. What the template refuses (raise_exception), does not find
  /// or cannot do is an Error with the template's line.
  RenderedChat render(const Json& messages, const Json& extra = Json::object(),
                      const RenderOptions& options = {}) const;

  const std::string& source() const { return source_; }
  /// The variables that the template asks for, its functions aside.
  std::set<std::string> variable_names() const;
  bool uses_date() const;

 private:
  ChatTemplate() = default;

  std::string source_, place_;
  std::shared_ptr<const jinja::TemplateTree> tree_;
};

/// The templates of a model, by name; most have one, called "default".
class ChatTemplates {
 public:
  /// As transformers finds them: chat_template.jinja and additional_chat_templates/NAME.jinja in a model folder, or
  /// else "chat_template" in its tokenizer_config.json. Empty when there is none.
  static ChatTemplates load(const std::filesystem::path& folder);
  /// From "chat_template" of a tokenizer_config.json: a text, or a list of {name, template}. Null gives none.
  static ChatTemplates from_json(const Json& chat_template, const std::string& place);

  bool empty() const { return templates_.empty(); }
  const std::map<std::string, ChatTemplate>& all() const { return templates_; }
  /// "tool_use" for a conversation with tools where there is one, else "default"; an Error that lists the names
  /// otherwise.
  const ChatTemplate& choose(bool has_tools) const;

 private:
  std::map<std::string, ChatTemplate> templates_;
  std::string place_;
};

}  // namespace keel
