#include "keel/core/options/read_config.h"

#include <algorithm>
#include <istream>
#include <vector>

#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/json_reader.h"
#include "keel/core/options/tree_builder.h"
#include "keel/core/options/yaml_text.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;

/// Returns the length of the UTF-8 character at the start of `text`; 0 if it is invalid, overlong or a surrogate.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) -> unsigned { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  const unsigned lead = byte(0);
  const size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool out_of_range = (lead == 0xED && second >= 0xA0) || (lead == 0xF4 && second >= 0x90);
  return overlong || out_of_range ? 0 : length;
}

/// Rejects invalid UTF-8 and control characters: yaml-cpp treats byte 4 as the end of the file and text with zero bytes
/// as UTF-16.
void check_characters(std::string_view text, const TreeBuilder& builder, int line) {
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) builder.refuse(line, "not UTF-8; save it as UTF-8");
    const char c = text[0];
    const bool is_control = static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
    if (is_control) builder.refuse(line, "a control character (code ", int{c}, "); remove it");
    if (c == '\n' && line > 0) ++line;
    text.remove_prefix(length);
  }
}

/// Unquotes 'it''s'. JSON has only double quotes.
std::string unquote_single(std::string_view text, const TreeBuilder& builder) {
  std::string value;
  for (size_t i = 1; i < text.size(); ++i) {
    const bool is_last = i + 1 == text.size();
    if (text[i] == '\'' && is_last) return value;
    if (text[i] == '\'' && text[++i] != '\'') builder.refuse(0, "a single quote inside single quotes is written ''");
    value += text[i];
  }
  builder.refuse(0, "the closing quote is missing");
}

/// Returns whether the text is a list without quotes ([a.jsonl, 3]), which is YAML but not JSON.
bool is_plain_list(std::string_view text) {
  return text.size() >= 2 && text.front() == '[' && text.back() == ']' &&
         text.substr(1, text.size() - 2).find_first_of("\"'[]{}") == std::string_view::npos;
}

void read_plain_list(std::string_view text, TreeBuilder& builder) {
  builder.begin_list(0);
  text = trimmed(text.substr(1, text.size() - 2));
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = trimmed(text.substr(0, comma));
    if (item.empty()) builder.refuse(0, "an element of the list is empty");
    builder.scalar(plain_scalar(item, builder.location(0)), 0);
    text = trimmed(text.substr(std::min(comma + 1, text.size())));
  }
  builder.end();
}

void erase_lines_below(ConfigTree& tree, const std::string& path) {
  const auto first = tree.lines.lower_bound(path + ".");
  auto last = first;
  while (last != tree.lines.end() && last->first.starts_with(path + ".")) ++last;
  tree.lines.erase(first, last);
}

/// Returns the mapping that contains the last part of `parts`. Creates missing mappings.
Json& parent_mapping(ConfigTree& tree, const std::vector<std::string>& parts, const TreeBuilder& builder) {
  Json* node = &tree.value;
  std::string path;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    path += (i > 0 ? "." : "") + parts[i];
    Json& child = (*node)[parts[i]];
    if (child.is_null()) {  // missing, or a section that was left empty
      child = Json::object();
      tree.lines.emplace(path, 0);
    } else if (!child.is_object()) {
      builder.refuse(0, path, " is not a section: it is ", yaml_inline(child), " (", location_of(tree, path), ")");
    }
    node = &child;
  }
  return *node;
}

/// Parses JSON. Adds to an error that YAML is not accepted here.
void read_typed_mapping(std::string_view text, TreeBuilder& builder) {
  try {
    read_json(text, 0, builder);
  } catch (const Error& error) {
    if (try_parse_json(text, {.depth = kDataDepth})) throw;
    fail(error.code(), error.what(),
         "; write a mapping as JSON, with its keys and strings in double quotes: {\"enable_thinking\": false}");
  }
}

/// Reads the file. Every error has exit code kBadConfiguration.
std::string read_config_bytes(const std::filesystem::path& path) {
  try {
    const InputFile file = InputFile::open(path);
    // One byte more than allowed is enough to detect a file that is too large.
    std::string text(std::min<uint64_t>(file.size(), kMaxConfigBytes + 1), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(text)));
    return text;
  } catch (const Error& error) {
    fail(ExitCode::kBadConfiguration, error.what());
  }
}

}  // namespace

ConfigTree read_config(const std::filesystem::path& path) {
  return parse_config(read_config_text(path), path.string());
}

std::string read_config_text(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const bool is_run = std::filesystem::exists(path / "config.yaml", ignored);
    fail(ExitCode::kBadConfiguration, name, ": is a folder; give a configuration file",
         is_run ? ": this run's is " + (path / "config.yaml").string() : "");
  }
  if (std::filesystem::is_other(std::filesystem::status(path, ignored)))
    fail(ExitCode::kBadConfiguration, name, ": is a pipe or a device; give a configuration file");
  const bool exists = std::filesystem::exists(path, ignored);
  if (!exists && name.find('=') != std::string::npos)
    fail(ExitCode::kBadConfiguration, name, ": this is a setting, not a file; the configuration file comes first and ",
         "the settings after it: CONFIG ", name);
  if (!exists) fail(ExitCode::kBadConfiguration, name, ": cannot be opened; does the file exist?");
  for (const char* ending : {".jsonl", ".parquet", ".gz", ".zst", ".gguf", ".safetensors"})
    if (name.ends_with(ending))
      fail(ExitCode::kBadConfiguration, name, ": this is data or a model, not a configuration; set it in a ",
           "configuration file as data.files or model.path");
  return read_config_bytes(path);
}

std::string read_config_text(std::istream& stream) {
  std::string text(kMaxConfigBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

void check_config_text(std::string_view text, const std::string& file_name) {
  const TreeBuilder builder(file_name);
  if (text.size() > kMaxConfigBytes) builder.refuse(0, "larger than 1 MiB; this is not a configuration");
  check_characters(text, builder, 1);
}

ConfigTree parse_config(std::string_view text, const std::string& file_name, Anchors anchors) {
  TreeBuilder builder(file_name);
  check_config_text(text, file_name);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // the byte order mark some editors write
  if (file_name.ends_with(".json")) {
    read_json(text, 1, builder);
  } else {
    read_yaml(text, builder, anchors);
  }
  ConfigTree tree = std::move(builder).finish();
  if (tree.value.is_object()) return tree;
  if (tree.value.is_null()) fail(ExitCode::kBadConfiguration, file_name, ": is empty; write at least one section");
  fail(ExitCode::kBadConfiguration, file_name, ": got ", tree.value.is_array() ? "a list" : "a single value",
       ", expected a mapping such as \"rollout: {temperature: 1.0}\"; is there a space after each colon?");
}

void read_typed_value(std::string_view typed, TreeBuilder& builder) {
  const std::string_view text = trimmed(typed);
  const char first = text.empty() ? ' ' : text[0];
  if (is_plain_list(text)) {
    read_plain_list(text, builder);
  } else if (first == '[' && text.back() != ']') {
    builder.refuse(0, "the list is not closed; expected ] at its end, as in [a.jsonl,b.jsonl]");
  } else if (first == '{') {
    read_typed_mapping(text, builder);
  } else if (first == '[' || first == '"') {
    read_json(text, 0, builder);
  } else if (first == '\'') {
    builder.scalar(unquote_single(text, builder), 0);
  } else {
    const Json value = plain_scalar(text, builder.location(0));
    builder.scalar(value.is_string() ? Json(typed) : value, 0);  // keeps the spaces that a shell's quotes kept
  }
}

void apply_override(ConfigTree& tree, std::string_view assignment, const ValueReader& read) {
  const TreeBuilder builder(std::string(kCommandLine) + ": " + std::string(assignment));
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) builder.refuse(0, "expected key=value");
  check_characters(assignment.substr(0, equals), builder, 0);
  const std::string path(trimmed(assignment.substr(0, equals)));
  if (path.starts_with('+') || path.starts_with('~'))
    builder.refuse(0, "Hydra's + and ~ are not supported; expected key=value");
  const std::vector<std::string> parts = split_path(path);
  for (const std::string& part : parts) {
    if (part.empty())
      builder.refuse(0, "a part of the key is empty; expected key=value, such as rollout.temperature=1.0");
  }
  check_characters(assignment.substr(equals + 1), builder, 0);
  TreeBuilder value_builder = builder;  // paths in it are relative
  read(assignment.substr(equals + 1), value_builder);
  ConfigTree value = std::move(value_builder).finish();
  parent_mapping(tree, parts, builder)[parts.back()] = std::move(value.value);
  erase_lines_below(tree, path);
  tree.lines[path] = 0;
  for (const auto& entry : value.lines) tree.lines[path + "." + entry.first] = 0;
}

}  // namespace keel
