#include "keel/train/config/recipes/shell_commands.h"

#include <algorithm>
#include <map>
#include <optional>

#include "keel/core/error.h"
#include "keel/core/strings.h"

namespace keel {
namespace {

constexpr size_t kNever = std::string_view::npos;

/// Behind the bracket that closes the one at `at`.
size_t end_of_brackets(std::string_view text, size_t at, bool quoted, int depth) {
  const bool counts = text[at] == '(';  // in ${...} a single { says nothing
  const char close = counts ? ')' : '}';
  int opened = counts ? 0 : 1;
  for (size_t i = counts ? at : at + 1; i < text.size();) {
    if (counts && text[i] == '(') ++opened;
    if (text[i] == close && --opened == 0) return i + 1;
    i = end_of_shell_piece(text, i, quoted, depth + 1);
  }
  return kNever;
}

// Words and operators -----------------------------------------------------------------------------------------------

struct Token {
  ShellWord word;  // of an operator its text and line
  bool is_operator = false;
  bool is_beside = false;  // of a redirection
};

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<Token> tokens() {
    while (at_ < text_.size()) next();
    add_operator("\n");
    return std::move(tokens_);
  }

 private:
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void next() {
    const char c = text_[at_];
    if (starts("\\\n")) return skip(2);
    if (c == ' ' || c == '\t') return end_word(), skip(1);
    if (c == '#' && word_.empty()) return skip(std::min(text_.find('\n', at_), text_.size()) - at_);
    if (c == '\n') return end_line();
    if (starts("<(") || starts(">(")) return take_to(end_of_brackets(text_, at_ + 1, false, 0));
    if (c == '<' || c == '>' || starts("&>")) return redirect();
    if (c == '(' && word_.ends_with('=')) return begin_array();
    if (c == '(' && word_.empty() && starts("((")) return take_to(end_of_brackets(text_, at_, false, 0));
    if (c == ')' && array_) return end_array();
    for (const char* sign : {"&&", "||", ";;&", ";;", ";&", "|&", "&", "|", ";", "(", ")"})
      if (starts(sign)) return take_operator(sign);
    if (word_.empty() && (starts("[[ ") || starts("[[\n"))) return take_test();
    take_to(end_of_shell_piece(text_, at_, false));
  }

  [[noreturn]] void refuse(const std::string& what) const {
    fail(ExitCode::kBadConfiguration, file_, ":", line_, ": ", what, kShellWayOut);
  }

  void skip(size_t count) {
    for (; count > 0 && at_ < text_.size(); --count) line_ += text_[at_++] == '\n';
  }
  void take_to(size_t end) {
    if (word_.empty()) word_line_ = line_;
    if (end == kNever || end > text_.size()) refuse("a quote or a bracket is never closed");
    word_ += text_.substr(at_, end - at_);
    skip(end - at_);
  }
  /// [[ ... ]], in which <, && and ( are no operators of the shell's.
  void take_test() {
    size_t end = at_ + 2;
    while (end < text_.size() && !text_.substr(end).starts_with(" ]]")) end = end_of_shell_piece(text_, end, false);
    take_to(end == kNever ? end : end + 3);
  }

  void end_word() {
    if (word_.empty()) return;
    ShellWord word{std::move(word_), word_line_};
    word_.clear();
    if (array_) return array_->elements.push_back(std::move(word));
    tokens_.push_back({std::move(word), false, is_beside_});
    is_beside_ = false;
  }
  void add_operator(const std::string& sign) {
    end_word();
    if (array_) refuse("an array is never closed");
    tokens_.push_back({{sign, line_}, true});
  }
  void take_operator(const std::string& sign) {
    add_operator(sign.starts_with(';') ? ";" : sign == "|&" ? "|" : sign);
    skip(sign.size());
  }
  void begin_array() {
    if (array_) refuse("an array in an array is not read");
    array_ = ShellWord{std::move(word_), word_line_, true};
    word_.clear();
    skip(1);
  }
  void end_array() {
    end_word();
    skip(1);
    tokens_.push_back({std::move(*array_)});
    array_.reset();
  }

  /// A number right before it is a file's; the word behind it is no word of the command's.
  void redirect() {
    if (array_) refuse("a redirection in an array is not read");
    const bool is_file = std::all_of(word_.begin(), word_.end(), is_digit);
    if (is_file)
      word_.clear();
    else
      end_word();
    for (const char* sign : {"<<<", "<<-", "&>>", "<<", "<>", "<&", ">&", ">>", ">|", "&>", "<", ">"}) {
      if (!starts(sign)) continue;
      skip(std::string_view(sign).size());
      if (sign == std::string_view("<<") || sign == std::string_view("<<-")) return note_document(sign);
      break;
    }
    is_beside_ = true;
  }

  void note_document(const std::string& sign) {
    while (starts(" ") || starts("\t")) skip(1);
    std::string end;
    for (; at_ < text_.size() && std::string_view(" \t\n;&|<>()").find(text_[at_]) == kNever; skip(1))
      if (text_[at_] != '\'' && text_[at_] != '"' && text_[at_] != '\\') end += text_[at_];
    documents_.push_back({end, sign == "<<-"});
  }
  void end_line() {
    end_word();
    if (array_) return skip(1);
    std::string documents;
    const int line = line_;
    skip(1);
    for (const auto& [end, without_tabs] : documents_) {
      while (at_ < text_.size()) {
        std::string_view row = text_.substr(at_, text_.find('\n', at_) - at_);
        skip(row.size() + 1);
        documents += std::string(row) + "\n";
        if (without_tabs) row.remove_prefix(std::min(row.find_first_not_of('\t'), row.size()));
        if (row == end) break;
      }
    }
    documents_.clear();
    if (!documents.empty()) tokens_.push_back({{documents, line}, false, true});
    tokens_.push_back({{"\n", line}, true});
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
  int line_ = 1, word_line_ = 1;
  std::string word_;
  bool is_beside_ = false;
  std::optional<ShellWord> array_;
  std::vector<std::pair<std::string, bool>> documents_;  // whose text follows on the next line
  std::vector<Token> tokens_;
};

// What stands inside of what ----------------------------------------------------------------------------------------

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& file) : tokens_(std::move(tokens)), file_(file) {}

  ShellText parse() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      Token& token = tokens_[i];
      line_ = token.word.line;
      if (token.is_beside)
        command_.beside.push_back(std::move(token.word.text));
      else if (!token.is_operator)
        command_.words.push_back(std::move(token.word));
      else if (is_definition(i))
        define_function(command_.words.back().text), ++i;
      else
        take_operator(token.word.text);
    }
    if (!open_.empty()) refuse("`" + open_.back().closes + "` is missing at the end");
    return std::move(result_);
  }

 private:
  struct Open {
    std::string closes;
    bool is_function;
  };

  [[noreturn]] void refuse(const std::string& what) const {
    fail(ExitCode::kBadConfiguration, file_, ":", line_, ": ", what, ", so that the script is not understood",
         kShellWayOut);
  }

  /// NAME ( ), or function NAME ( )
  bool is_definition(size_t i) const {
    const size_t words = command_.words.size();
    return tokens_[i].word.text == "(" && (words == 1 || (words == 2 && command_.words[0].text == "function")) &&
           i + 1 < tokens_.size() && tokens_[i + 1].is_operator && tokens_[i + 1].word.text == ")";
  }
  void define_function(const std::string& name) {
    result_.functions.insert(name);
    command_ = {};
    defines_ = true;
  }

  void take_operator(const std::string& sign) {
    const auto ends_pattern = [&] { return sign == ")" && !open_.empty() && open_.back().closes == "esac"; };
    if (ends_pattern())
      command_ = {};
    else
      end_command(sign);
    if (sign == "(") open(")");
    if (sign == ")" && !ends_pattern()) close(")");
    // The next line belongs to what is begun.
    const bool goes_on = sign == "\n" && (before_ == "&&" || before_ == "||" || before_ == "|") && was_empty_;
    if (!goes_on) before_ = sign;
  }

  void open(const std::string& closes) {
    open_.push_back({closes, defines_});
    defines_ = false;
  }
  void close(const std::string& word) {
    if (open_.empty() || open_.back().closes != word) refuse("`" + word + "` closes nothing");
    open_.pop_back();
  }

  /// The command that ends here, without the words that only make the structure.
  void end_command(const std::string& sign) {
    static const std::map<std::string, std::string> kOpens = {{"if", "fi"},    {"while", "done"},  {"until", "done"},
                                                              {"for", "done"}, {"select", "done"}, {"case", "esac"},
                                                              {"{", "}"}};
    std::vector<ShellWord>& words = command_.words;
    was_empty_ = words.empty() && command_.beside.empty();
    bool set_apart = false;
    while (!words.empty()) {
      const std::string first = words[0].text;
      line_ = words[0].line;
      if (const auto opens = kOpens.find(first); opens != kOpens.end()) {
        open(opens->second);
        if (first == "for" || first == "select" || first == "case") break;  // the rest is no command
      } else if (first == "fi" || first == "done" || first == "esac" || first == "}") {
        close(first);
      } else if (first == "function" && words.size() > 1) {
        result_.functions.insert(words[1].text);
        defines_ = true;
        words.erase(words.begin());
      } else if (first == "!" || first == "coproc") {
        set_apart = true;
      } else if (first != "then" && first != "else" && first != "elif" && first != "do" && first != "time") {
        break;
      }
      words.erase(words.begin());
    }
    command_.before = before_;
    command_.after = sign;
    command_.nested = !open_.empty() || set_apart;
    command_.in_function = std::any_of(open_.begin(), open_.end(), [](const Open& entry) { return entry.is_function; });
    if (!words.empty() || !command_.beside.empty()) result_.commands.push_back(std::move(command_));
    command_ = {};
  }

  std::vector<Token> tokens_;
  const std::string& file_;
  int line_ = 1;
  std::vector<Open> open_;
  bool defines_ = false;  // what is opened next is a function's body
  bool was_empty_ = true;
  std::string before_ = "\n";
  ShellCommand command_;
  ShellText result_;
};

}  // namespace

size_t end_of_shell_piece(std::string_view text, size_t at, bool quoted, int depth) {
  constexpr int kMaxDepth = 64;
  if (depth > kMaxDepth) return kNever;
  const std::string_view rest = text.substr(at);
  if (rest[0] == '\\') return std::min(at + 2, text.size());
  if (rest[0] == '\'' && !quoted) {
    const size_t end = text.find('\'', at + 1);
    return end == kNever ? kNever : end + 1;
  }
  if (rest.starts_with("$'") && !quoted) {  // the only one in which a backslash counts
    for (size_t i = at + 2; i < text.size(); i += text[i] == '\\' ? 2 : 1)
      if (text[i] == '\'') return i + 1;
    return kNever;
  }
  if (rest[0] == '"' || rest[0] == '`') {
    for (size_t i = at + 1; i < text.size(); i = end_of_shell_piece(text, i, /*quoted=*/true, depth + 1))
      if (text[i] == rest[0]) return i + 1;
    return kNever;
  }
  if (rest.starts_with("${")) return end_of_brackets(text, at + 1, quoted, depth);
  if (rest.starts_with("$(")) return end_of_brackets(text, at + 1, false, depth);
  return at + 1;
}

ShellText commands_of_shell(std::string_view text, const std::string& file) {
  return Parser(Lexer(text, file).tokens(), file).parse();
}

}  // namespace keel
