#include "libs/hftext/chat/chat_template.h"

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/files/json_file.h"
#include "libs/hftext/jinja/objects/builtins.h"
#include "libs/hftext/jinja/objects/from_json.h"
#include "libs/hftext/jinja/objects/runtime.h"
#include "libs/hftext/jinja/renderer.h"
#include "libs/hftext/jinja/syntax/parser.h"
#include "libs/hftext/jinja/syntax/scopes.h"

namespace keel {
namespace {

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kTemplateFolder = "additional_chat_templates";
constexpr const char* kConfigFile = "tokenizer_config.json";

void check_objects(const Json& list, const char* what, const std::string& location) {
  if (!list.is_array()) {
    fail(ExitCode::kBadInput, location, ": ", what, " must be a list of objects, got ", list.type_name());
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_object()) continue;
    fail(ExitCode::kBadInput, location, ": ", what, "[", i, "] must be an object, got ", list[i].type_name());
  }
}

/// Reasoning has three key names; templates read the first or the second. Returns nullopt if there is no reasoning.
std::optional<Json> with_reasoning(const Json& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found == message.end() || found->is_null()) continue;
    const Json reasoning = *found;
    Json result = {{"thinking", reasoning}};
    for (const auto& [key, value] : message.items()) result[key] = value;
    result["reasoning_content"] = reasoning;
    return result;
  }
  return std::nullopt;
}

/// Templates write tokens such as <|user|> from a role, so a role that is a plain word counts as trusted.
jinja::Value message_value(jinja::Runtime& runtime, const Json& message) {
  const jinja::Value value = jinja::from_json(runtime, message, /*untrusted=*/true);
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) return value;
  constexpr const char* kWordCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  const std::string& name = role->get_ref<const std::string&>();
  if (name.find_first_not_of(kWordCharacters) == std::string::npos)
    value.as<jinja::Dict>()->set(runtime, runtime.literal("role"), runtime.literal(name));
  return value;
}

jinja::Variables variables(jinja::Runtime& runtime, const Json& messages, const Json& extra,
                           const std::string& location) {
  check_objects(messages, "messages", location);
  if (messages.empty())
    fail(ExitCode::kBadInput, location, ": messages is empty; a conversation needs at least one message");
  if (!extra.is_object()) {
    fail(ExitCode::kBadInput, location, ": the variables of a template must be an object, got ", extra.type_name());
  }
  for (const char* list : {"tools", "documents"}) {
    if (extra.contains(list) && !extra[list].is_null()) check_objects(extra[list], list, location);
  }
  jinja::Variables result;
  for (std::string_view name : jinja::function_names()) result[std::string(name)] = runtime.make<jinja::Function>(name);
  result["tools"] = result["documents"] = jinja::None{};
  result["add_generation_prompt"] = false;
  for (const auto& [name, value] : extra.items()) {
    if (name == "messages") fail(ExitCode::kBadInput, location, ": messages is given twice");
    result[name] = jinja::from_json(runtime, value, /*untrusted=*/name == "tools" || name == "documents");
  }
  std::vector<jinja::Value> chat;
  for (const Json& message : messages) {
    const std::optional<Json> changed = with_reasoning(message);
    chat.push_back(message_value(runtime, changed ? *changed : message));
  }
  result["messages"] = runtime.list(std::move(chat));
  return result;
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string source, std::string location) {
  ChatTemplate result;
  result.tree_ = std::make_shared<const jinja::TemplateTree>(jinja::parse_template(source, location));
  result.source_ = std::move(source);
  result.location_ = std::move(location);
  return result;
}

RenderedChat ChatTemplate::render(const Json& messages, const Json& extra, const RenderOptions& options) const {
  jinja::Runtime runtime(location_, options.limits, options.now);
  jinja::Renderer renderer(runtime, *tree_, variables(runtime, messages, extra, location_));
  const TracedText text = renderer.render();
  return {text.bytes(), renderer.generation_spans(text.bytes()), text.untrusted()};
}

bool ChatTemplate::uses_date() const { return jinja::context_names(*tree_).contains("strftime_now"); }

std::set<std::string> ChatTemplate::variable_names() const {
  std::set<std::string> names = jinja::context_names(*tree_);
  for (std::string_view name : jinja::function_names()) names.erase(std::string(name));
  return names;
}

ChatTemplates ChatTemplates::from_json(const Json& chat_template, const std::string& location) {
  ChatTemplates result;
  result.location_ = location;
  const auto reject = [&] {
    fail(ExitCode::kBadInput, location, ": \"chat_template\" must be a string or a list of {\"name\", \"template\"}");
  };
  const auto add = [&](const Json& name, const Json& source) {
    if (!name.is_string() || !source.is_string()) reject();
    const std::string label = location + ": chat_template \"" + name.get<std::string>() + "\"";
    result.templates_.insert_or_assign(name.get<std::string>(), ChatTemplate::parse(source.get<std::string>(), label));
  };
  if (chat_template.is_null()) return result;
  if (chat_template.is_string()) {
    add("default", chat_template);
  } else if (chat_template.is_array()) {
    for (const Json& row : chat_template) {
      if (!row.is_object() || !row.contains("name") || !row.contains("template")) reject();
      add(row["name"], row["template"]);
    }
  } else if (chat_template.is_object()) {
    for (const auto& [name, source] : chat_template.items()) add(name, source);
  } else {
    reject();
  }
  return result;
}

ChatTemplates ChatTemplates::load(const std::filesystem::path& folder) {
  ChatTemplates result;
  result.location_ = folder.string();
  const auto add = [&](const std::string& name, const std::filesystem::path& path) {
    result.templates_.insert_or_assign(name, ChatTemplate::parse(read_file(path, kMaxTemplateBytes), path.string()));
  };
  if (path_exists(folder / kTemplateFile)) add("default", folder / kTemplateFile);
  if (is_folder(folder / kTemplateFolder)) {
    for (const std::string& name : list_directory(folder / kTemplateFolder)) {
      const std::filesystem::path path = folder / kTemplateFolder / name;
      if (path.extension() == ".jinja") add(path.stem().string(), path);
    }
  }
  const std::filesystem::path config = folder / kConfigFile;
  if (!result.empty() || !path_exists(config)) return result;
  const Json tree = read_json_file(config);
  if (!tree.is_object() || !tree.contains("chat_template")) return result;
  return from_json(tree["chat_template"], config.string());
}

const ChatTemplate& ChatTemplates::choose(bool has_tools) const {
  for (const char* name : {"tool_use", "default"}) {
    const auto found = templates_.find(name);
    if (found != templates_.end() && (has_tools || found->first == "default")) return found->second;
  }
  std::string names;
  for (const auto& [name, unused] : templates_) names += (names.empty() ? "" : ", ") + name;
  fail(
      ExitCode::kBadInput, location_, ": ",
      templates_.empty() ? "the model has no chat template" : "no chat template is called \"default\"",
      templates_.empty() ? "; add a chat_template.jinja to its folder, or use plain prompts" : "; there are: " + names);
}

}  // namespace keel
