#include "libs/mathverify/parse/boxes.h"

#include <utility>
#include <vector>

#include "libs/mathverify/parse/characters.h"

namespace keel::math {
namespace {

/// The content of \boxed 5 or \boxed5, up to the next space or dollar sign.
std::string_view unbraced_box(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  text = text.substr(0, text.find_first_of(" $\n"));
  while (text.ends_with('.') || text.ends_with(',')) text.remove_suffix(1);
  return text;
}

/// Returns the separator between two boxes, ", " or " or "; empty if they are unrelated.
std::string_view separator_between(std::string_view between) {
  constexpr size_t kMaxBetween = 60;
  if (between.size() > kMaxBetween) return "";
  std::string_view result;
  while (!between.empty()) {
    size_t length = 0;
    for (const std::string_view layout : {" ", "$", "\\(", "\\)", "\\quad", "\\qquad", "\\,", "\\ ", "\\text{", "}"})
      if (length == 0 && between.starts_with(layout)) length = layout.size();
    for (const std::string_view word : {",", "and", "or"})
      if (length == 0 && between.starts_with(word)) {
        length = word.size();
        result = word == "or" ? " or " : ", ";
      }
    if (length == 0) return "";
    between.remove_prefix(length);
  }
  return result;
}

/// Reads all boxes in one pass: each open brace records whether it starts a box.
class BoxReader {
 public:
  explicit BoxReader(std::string_view text) : text_(text) {}

  std::optional<std::string> run() {
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '\\') {
        i = skip_command(i);
      } else if (text_[i] == '{') {
        open_.push_back({.brace = i});
      } else if (text_[i] == '}' && !open_.empty()) {
        const Open box = open_.back();
        open_.pop_back();
        // The outer of nested boxes wins, because it closes last.
        if (box.is_box) add(text_.substr(box.brace + 1, i - box.brace - 1), box.command, i + 1);
      }
    }
    if (boxes_.empty()) return std::nullopt;
    std::string answer;
    for (const auto& [separator, content] : boxes_) answer.append(separator).append(content);
    return answer;
  }

 private:
  struct Open {
    size_t brace = 0, command = 0;
    bool is_box = false;
  };

  /// Skips a command. Returns its last byte, or the brace that opens a box.
  size_t skip_command(size_t at) {
    for (const std::string_view command : {"\\boxed", "\\fbox"}) {
      if (!text_.substr(at).starts_with(command)) continue;
      size_t brace = at + command.size();
      while (brace < text_.size() && (text_[brace] == ' ' || text_[brace] == '\n')) ++brace;
      const char next = brace < text_.size() ? text_[brace] : ' ';
      if (is_digit(next) || next == '-') {
        const std::string_view content = unbraced_box(text_.substr(at + command.size()));
        add(content, at, brace + content.size());
      }
      if (next != '{') break;
      open_.push_back({.brace = brace, .command = at, .is_box = true});
      return brace;
    }
    return at + 1;  // skips \{ and \}
  }

  void add(std::string_view content, size_t begin, size_t end) {
    const std::string_view separator =
        !boxes_.empty() && begin >= end_ ? separator_between(text_.substr(end_, begin - end_)) : "";
    if (separator.empty()) boxes_.clear();
    boxes_.push_back({separator, content});
    end_ = end;
  }

  std::string_view text_;
  std::vector<Open> open_{};
  struct Box {
    std::string_view separator, content;  // the separator joins it to the previous box
  };
  std::vector<Box> boxes_{};
  size_t end_ = 0;  // end of the last box
};

}  // namespace

std::optional<std::string> last_boxed_answer(std::string_view text) { return BoxReader(text).run(); }

}  // namespace keel::math
