#include "libs/hftext/regex/regex.h"

#include "keel/core/error.h"
#include "libs/hftext/characters/unicode.h"
#include "libs/hftext/characters/utf8.h"
#include "libs/hftext/regex/regex_dialect.h"
#include "libs/hftext/regex/simple_regex.h"

#ifdef KEEL_HAS_TOKENIZERS
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

namespace keel::text {

#ifdef KEEL_HAS_TOKENIZERS

namespace {

constexpr uint32_t kHeapLimitKib = 256 * 1024;  // for the interpreter, used without JIT
constexpr size_t kJitStackBytes = 1 << 20;

/// Per-thread match state; a JIT stack can serve one match at a time.
struct Scratch {
  Scratch()
      : data(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr)) {
    if (data == nullptr || context == nullptr) throw std::bad_alloc();
    pcre2_set_heap_limit(context, kHeapLimitKib);
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Scratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

/// Step counter of the searches in a text.
struct Progress {
  RegexBudget& budget;
  size_t at;
};

/// PCRE2's own match limit restarts at every start position and does not count the characters of a repeat. This callout
/// runs before every item of the pattern and counts both.
int count_steps(pcre2_callout_block* block, void* data) {
  Progress& progress = *static_cast<Progress*>(data);
  const size_t at = block->current_position;
  const size_t steps = 1 + (at > progress.at ? at - progress.at : progress.at - at);
  progress.at = at;
  if (steps > progress.budget.steps_left()) return PCRE2_ERROR_MATCHLIMIT;
  progress.budget.steps_left() -= steps;
  return 0;
}

std::string message_of(int error) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(error, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

pcre2_code* compile_code(const std::string& pattern, const std::string& location) {
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Ruby's ^ and $ always match at line ends.
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_AUTO_CALLOUT, &error, &offset, context.get());
  if (compiled == nullptr) {
    fail(ExitCode::kBadInput, location, ": the regular expression \"", pattern.substr(0, 200),
         "\" (translated for PCRE2) does not compile: ", message_of(error), " at byte ", offset);
  }
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // if it fails, PCRE2 interprets
  return compiled;
}

}  // namespace

struct Regex::Code {
  ~Code() { pcre2_code_free(compiled); }
  std::optional<SimpleRegex> simple;  // set if SimpleRegex supports the pattern
  pcre2_code* compiled = nullptr;
  std::string pattern_preview, location;  // for errors
};

Regex Regex::compile(std::string_view pattern, const std::string& location) {
  auto code = std::make_shared<Code>();
  code->simple = SimpleRegex::compile(pattern);
  if (!code->simple) code->compiled = compile_code(to_pcre2(pattern, location), location);
  code->pattern_preview = pattern.substr(0, 200);
  code->location = location;
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

Regex Regex::compile_pcre2(const std::string& pattern, const std::string& location) {
  auto code = std::make_shared<Code>();
  code->compiled = compile_code(pattern, location);
  code->pattern_preview = pattern.substr(0, 200);
  code->location = location;
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

std::optional<Regex::Match> Regex::find(std::string_view text, size_t from, RegexBudget& budget) const {
  if (code_->simple) return find_simple(text, from, budget);
  static thread_local const Scratch scratch;
  Progress progress{budget, from};
  pcre2_set_callout(scratch.context, count_steps, &progress);
  const int found = pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
  if (found >= 0) {
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(scratch.data);
    return Match{offsets[0], offsets[1]};
  }
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  fail_search(text, message_of(found));
}

std::optional<Regex::Match> Regex::find_simple(std::string_view text, size_t from, RegexBudget& budget) const {
  for (; from < text.size(); from += code_point_at(text, from).size) {
    const size_t end = code_->simple->match_at(text, from, budget.steps_left());
    if (end == SimpleRegex::kBudgetExceeded) fail_search(text, "match limit exceeded");
    if (end != SimpleRegex::kNoMatch) return Match{from, end};
  }
  return std::nullopt;
}

void Regex::fail_search(std::string_view text, const std::string& why) const {
  fail(ExitCode::kBadInput, code_->location, ": the regular expression \"", code_->pattern_preview,
       "\" gave up on a text of ", text.size(), " bytes: ", why,
       "; shorten the text, or use a tokenizer with a simpler expression");
}

#else

struct Regex::Code {};

Regex Regex::compile(std::string_view pattern, const std::string& location) {
  return compile_pcre2(std::string(pattern), location);
}
Regex Regex::compile_pcre2(const std::string&, const std::string& location) {
  require_unicode_tables("a regular expression", location);
  return {};
}
std::optional<Regex::Match> Regex::find(std::string_view, size_t, RegexBudget&) const { return std::nullopt; }

#endif

std::optional<Regex::Match> Regex::find(std::string_view text) const {
  constexpr size_t kSteps = 20'000'000;
  RegexBudget budget(kSteps);
  budget.grant(text.size());
  return find(text, 0, budget);
}

}  // namespace keel::text
