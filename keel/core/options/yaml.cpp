#include "keel/core/options/read_config.h"
#include "keel/core/options/tree_builder.h"
#include "keel/core/options/yaml_text.h"

#ifdef KEEL_HAS_YAML
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>
#endif

namespace keel {

#ifndef KEEL_HAS_YAML

bool can_read_yaml() { return false; }

void read_yaml(std::string_view, TreeBuilder& builder, Anchors) {
  builder.refuse(0, "this build reads JSON only; install libyaml-cpp-dev and rebuild, or write the file as .json");
}

#else

namespace {

int line_of(const YAML::Mark& mark) { return mark.line + 1; }  // 0 for yaml-cpp's "nowhere"

class YamlEvents : public YAML::EventHandler {
 public:
  YamlEvents(TreeBuilder& builder, Anchors anchors)
      : builder_(builder), resolves_aliases_(anchors == Anchors::kResolved) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      builder_.refuse(line_of(mark), "the document ends before this line; a configuration is one mapping, check the",
                      " indentation and remove further documents");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    begin_anchor(mark, anchor);
    add_event({Event::kNull, "", line_of(mark)});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!resolves_aliases_) refuse_anchor(mark);
    replay(anchors_.at(anchor), line_of(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    begin_anchor(mark, anchor);
    if (tag != kQuoted && tag != kUnquoted) refuse_tag(mark, tag);
    add_event({tag == kQuoted ? Event::kQuotedScalar : Event::kPlainScalar, value, line_of(mark)});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_container(mark, tag, anchor);
    add_event({Event::kList, "", line_of(mark)});
  }
  void OnSequenceEnd() override { add_event({Event::kEnd, "", 0}); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_container(mark, tag, anchor);
    add_event({Event::kMapping, "", line_of(mark)});
  }
  void OnMapEnd() override { add_event({Event::kEnd, "", 0}); }

 private:
  struct Event {
    enum Kind { kNull, kPlainScalar, kQuotedScalar, kList, kMapping, kEnd } kind;
    std::string value;
    int line;
  };

  // yaml-cpp's tags for scalars without an explicit tag.
  static constexpr const char* kQuoted = "!";
  static constexpr const char* kUnquoted = "?";
  static constexpr size_t kMaxEvents = 100'000;  // nested aliases can grow exponentially
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  void add_event(Event event) {
    const int line = event.line;
    switch (event.kind) {
      case Event::kNull:
        if (builder_.expects_key()) builder_.refuse(line, "a key is empty; give it a name");
        builder_.scalar(nullptr, line);
        break;
      case Event::kPlainScalar:
      case Event::kQuotedScalar:
        add_scalar(event);
        break;
      case Event::kList:
      case Event::kMapping:
        if (builder_.expects_key()) {
          builder_.refuse(line, "a key must be a name, not a list or a mapping; quote it if it starts with [ or {");
        }
        event.kind == Event::kList ? builder_.begin_list(line) : builder_.begin_mapping(line);
        break;
      case Event::kEnd:
        builder_.end();
    }
    if (!resolves_aliases_) return;
    bytes_ += event.value.size();
    if (events_.size() >= kMaxEvents || bytes_ > kMaxBytes)
      builder_.refuse(line, "the aliases (*name) make this too large; write it out");
    events_.push_back(std::move(event));
  }

  void add_scalar(const Event& event) {
    if (builder_.expects_key()) {
      if (resolves_aliases_ && event.value == "<<") {
        builder_.refuse(event.line, "YAML's merge key (<<) is not read; write the keys out");
      }
      return builder_.key(event.value, event.line);
    }
    if (event.kind == Event::kQuotedScalar) return builder_.scalar(event.value, event.line);
    // yaml-cpp trims spaces after an unquoted scalar, but not tabs.
    const std::string plain = event.value.substr(0, event.value.find_last_not_of('\t') + 1);
    builder_.scalar(plain_scalar(plain, builder_.location(event.line)), event.line);
  }

  /// Repeats the events of the node that starts at event `first`, for an alias.
  void replay(size_t first, int line) {
    int depth = 0;
    for (size_t i = first;; ++i) {
      if (i >= events_.size()) builder_.refuse(line, "an alias (*name) is inside its own anchor; write it out");
      Event event = events_[i];
      depth += event.kind == Event::kEnd ? -1 : event.kind == Event::kList || event.kind == Event::kMapping ? 1 : 0;
      event.line = line;
      add_event(std::move(event));
      if (depth == 0) return;
    }
  }

  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) {
    builder_.refuse(line_of(mark), "YAML anchors and aliases (&name, *name) are not read; write the value out");
  }
  [[noreturn]] void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    builder_.refuse(line_of(mark), "YAML tags (", tag, ") are not read; quote the value to make it a string");
  }
  void begin_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor == YAML::NullAnchor) return;
    if (!resolves_aliases_) refuse_anchor(mark);
    anchors_[anchor] = events_.size();
  }
  void check_container(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    begin_anchor(mark, anchor);
    if (!tag.empty() && tag != kUnquoted) refuse_tag(mark, tag);
  }

  TreeBuilder& builder_;
  bool resolves_aliases_;
  int documents_ = 0;
  std::vector<Event> events_;  // all so far, if aliases are resolved
  size_t bytes_ = 0;
  std::map<YAML::anchor_t, size_t> anchors_;  // index of the anchor's first event
};

/// Rejects what yaml-cpp silently misreads at the start of lines: tabs, which confuse its indentation, and %, which it
/// treats as a directive anywhere.
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

/// Adds an explicit document end. Without it, yaml-cpp accepts an unclosed quote that extends to the end of the file.
std::string with_explicit_end(std::string_view text) {
  return std::string(text) + (text.ends_with('\n') ? "...\n" : "\n...\n");
}

}  // namespace

bool can_read_yaml() { return true; }

void read_yaml(std::string_view text, TreeBuilder& builder, Anchors anchors) {
  check_line_starts(text, builder);
  std::istringstream stream(with_explicit_end(text));
  YamlEvents events(builder, anchors);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(events)) {
    }
  } catch (const YAML::Exception& error) {
    const bool is_unclosed = error.msg == YAML::ErrorMsg::EOF_IN_SCALAR || error.msg == YAML::ErrorMsg::DOC_IN_SCALAR;
    builder.refuse(line_of(error.mark), "not valid YAML: ", is_unclosed ? "a quote is never closed" : error.msg);
  }
}

#endif

}  // namespace keel
