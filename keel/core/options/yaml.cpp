#include "keel/core/options/read_config.h"
#include "keel/core/options/tree_builder.h"
#include "keel/core/options/yaml_text.h"

#ifdef KEEL_HAS_YAML
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#endif

namespace keel {

#ifndef KEEL_HAS_YAML

bool can_read_yaml() { return false; }

void read_yaml(std::string_view, TreeBuilder& builder) {
  builder.refuse(0, "this build reads JSON only; install libyaml-cpp-dev and rebuild, or write the file as .json");
}

#else

namespace {

int line_of(const YAML::Mark& mark) { return mark.line + 1; }  // 0 for yaml-cpp's "nowhere"

class YamlEvents : public YAML::EventHandler {
 public:
  explicit YamlEvents(TreeBuilder& builder) : builder_(builder) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      builder_.refuse(line_of(mark), "the document ends before this line; a configuration is one mapping, check the",
                      " indentation and remove further documents");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    if (builder_.expects_key()) builder_.refuse(line_of(mark), "a key is empty; give it a name");
    builder_.scalar(nullptr, line_of(mark));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    if (tag != kQuoted && tag != kUnquoted) refuse_tag(mark, tag);
    const int line = line_of(mark);
    if (builder_.expects_key()) return builder_.key(value, line);
    if (tag == kQuoted) return builder_.scalar(value, line);
    // yaml-cpp trims spaces after an unquoted scalar, but not tabs.
    const std::string plain = value.substr(0, value.find_last_not_of('\t') + 1);
    builder_.scalar(plain_scalar(plain, builder_.place(line)), line);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_container(mark, tag, anchor);
    builder_.begin_list(line_of(mark));
  }
  void OnSequenceEnd() override { builder_.end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_container(mark, tag, anchor);
    builder_.begin_mapping(line_of(mark));
  }
  void OnMapEnd() override { builder_.end(); }

 private:
  // What yaml-cpp calls the tags of scalars that were written without one.
  static constexpr const char* kQuoted = "!";
  static constexpr const char* kUnquoted = "?";

  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) {
    builder_.refuse(line_of(mark), "YAML anchors and aliases (&name, *name) are not read; write the value out");
  }
  [[noreturn]] void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    builder_.refuse(line_of(mark), "YAML tags (", tag, ") are not read; quote the value to make it a string");
  }
  void check_container(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    if (!tag.empty() && tag != kUnquoted) refuse_tag(mark, tag);
    if (builder_.expects_key()) {
      builder_.refuse(line_of(mark),
                      "a key must be a name, not a list or a mapping; quote it if it starts with [ or {");
    }
  }

  TreeBuilder& builder_;
  int documents_ = 0;
};

/// Refuses at the start of lines what yaml-cpp passes over in silence: some tabs, after which it misjudges the
/// indentation, and lines with a %, which it takes for directives anywhere.
void check_line_starts(std::string_view text, const TreeBuilder& builder) {
  for (int line = 1; !text.empty(); ++line) {
    const size_t indentation = std::min(text.find_first_not_of(' '), text.size());
    const char first = indentation < text.size() ? text[indentation] : '\n';
    if (first == '\t') builder.refuse(line, "a tab in the indentation; use spaces");
    if (first == '%' && indentation == 0) builder.refuse(line, "YAML directives (%) are not read; remove the line");
    const size_t newline = text.find('\n');
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
  }
}

/// The text with an explicit end, without which yaml-cpp lets a quote that is never closed swallow the rest of the
/// file.
std::string with_explicit_end(std::string_view text) {
  return std::string(text) + (text.ends_with('\n') ? "...\n" : "\n...\n");
}

}  // namespace

bool can_read_yaml() { return true; }

void read_yaml(std::string_view text, TreeBuilder& builder) {
  check_line_starts(text, builder);
  std::istringstream stream(with_explicit_end(text));
  YamlEvents events(builder);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(events)) {
    }
  } catch (const YAML::Exception& error) {
    const bool is_open = error.msg == YAML::ErrorMsg::EOF_IN_SCALAR || error.msg == YAML::ErrorMsg::DOC_IN_SCALAR;
    builder.refuse(line_of(error.mark), "not valid YAML: ", is_open ? "a quote is never closed" : error.msg);
  }
}

#endif

}  // namespace keel
