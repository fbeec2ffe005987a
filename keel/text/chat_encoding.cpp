#include "keel/text/chat_encoding.h"

#include <algorithm>

#include "keel/core/error.h"
#include "keel/text/utf8.h"

namespace keel {
namespace {

// What stands for a special token that a message spells out, until the template has been rendered: its number between
// two characters that Unicode leaves to private use.
const std::string kOpen = "\xee\xbf\xb0", kClose = "\xee\xbf\xb1";  // U+EFF0, U+EFF1

std::string token_text(const Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? tokenizer.token(*id) : std::string();
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Calls `change` with every text in the tree.
template <class Change>
void change_texts(Json& tree, const Change& change) {
  if (tree.is_string()) return change(tree.get_ref<std::string&>());
  if (tree.is_structured())
    for (Json& child : tree) change_texts(child, change);
}

}  // namespace

PromptEncoder::PromptEncoder(Tokenizer tokenizer, ChatTemplates templates)
    : tokenizer_(std::move(tokenizer)), templates_(std::move(templates)) {
  for (int32_t id = 0; id < tokenizer_.size(); ++id) {
    if (!tokenizer_.is_special(id) || tokenizer_.token(id).empty()) continue;
    specials_.push_back({tokenizer_.token(id), kOpen + std::to_string(id) + kClose});
  }
  std::stable_sort(specials_.begin(), specials_.end(),
                   [](const Special& a, const Special& b) { return a.text.size() > b.text.size(); });
}

EncodedPrompt PromptEncoder::text(const std::string& text, bool parse_special) const {
  return {text, tokenizer_.encode(text, {.add_special_tokens = true, .parse_special = parse_special})};
}

EncodedPrompt PromptEncoder::chat(const Json& messages, const std::tm& now) const {
  if (templates_.empty()) fail(ExitCode::kBadInput, "the model has no chat template; give a plain text");
  const Json variables = {{"add_generation_prompt", true},
                          {"bos_token", token_text(tokenizer_, tokenizer_.bos_id())},
                          {"eos_token", token_text(tokenizer_, tokenizer_.eos_id())}};
  std::string text = templates_.choose(/*has_tools=*/false).render(shielded(messages), variables, {.now = now}).text;
  std::vector<int32_t> tokens = encode_shielded(text);
  return {std::move(text), std::move(tokens)};
}

/// The messages with a stand-in for each special token they spell out.
Json PromptEncoder::shielded(const Json& messages) const {
  Json result = messages;
  change_texts(result, [&](std::string& text) {
    if (text.find(kOpen) != std::string::npos)
      fail(ExitCode::kBadInput, "a message has the character U+EFF0, which Keel keeps for itself; remove it");
    for (const Special& special : specials_) replace_all(text, special.text, special.stand_in);
  });
  return result;
}

/// Token ids of what a template wrote, with its special tokens; those behind stand-ins are encoded as text and put
/// back.
std::vector<int32_t> PromptEncoder::encode_shielded(std::string& text) const {
  std::vector<int32_t> ids;
  std::string plain;
  const auto add = [&](std::string_view part, bool parse_special) {
    const std::vector<int32_t> more =
        tokenizer_.encode(part, {.add_special_tokens = false, .parse_special = parse_special});
    ids.insert(ids.end(), more.begin(), more.end());
    plain += part;
  };
  size_t done = 0;
  for (size_t open = text.find(kOpen); open != std::string::npos; open = text.find(kOpen, done)) {
    const size_t close = text.find(kClose, open);
    if (close == std::string::npos)
      fail(ExitCode::kBadInput,
           "a message spells out a special token, and the chat template cuts it in two; remove it");
    const std::string stand_in = text.substr(open, close + kClose.size() - open);
    const auto special =
        std::find_if(specials_.begin(), specials_.end(), [&](const Special& s) { return s.stand_in == stand_in; });
    if (special == specials_.end())
      fail(ExitCode::kBadInput, "a message spells out a special token, and the chat template changes it; remove it");
    if (open > done) add(std::string_view(text).substr(done, open - done), /*parse_special=*/true);
    add(special->text, /*parse_special=*/false);
    done = close + kClose.size();
  }
  if (done < text.size() || text.empty()) add(std::string_view(text).substr(done), /*parse_special=*/true);
  text = std::move(plain);
  return ids;
}

}  // namespace keel
