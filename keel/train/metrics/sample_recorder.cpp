#include "keel/train/metrics/sample_recorder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "keel/core/console.h"
#include "keel/core/untrusted_text.h"

namespace keel {

namespace {

/// Returns one number if all tokens have the same, else a list.
Json scalar_or_list(const std::vector<float>& tokens) {
  const bool equal = std::adjacent_find(tokens.begin(), tokens.end(), std::not_equal_to<>()) == tokens.end();
  return equal && !tokens.empty() ? Json(tokens[0]) : Json(tokens);
}

constexpr size_t kMaxAnswer = 2000;  // bytes; unit tests of a program may be megabytes

std::string printable_piece(const std::string& piece, int32_t id, const Tokenizer& tokenizer) {
  return id < tokenizer.size() ? escape_invalid_utf8(piece) : "<id " + std::to_string(id) + ">";
}

/// Returns the reference answer, shortened if it is long.
Json shorten_answer(const Json& answer) {
  const std::string text = answer.is_string() ? answer.get<std::string>() : answer.dump();
  return text.size() <= kMaxAnswer ? answer : Json(shorten(text, kMaxAnswer));
}

}  // namespace

std::string escape_invalid_utf8(std::string_view bytes) {
  std::string text;
  while (const std::optional<size_t> bad = first_bad_utf8(bytes)) {
    char escaped[8];
    snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(bytes[*bad]));
    text.append(bytes.substr(0, *bad)).append(escaped);
    bytes.remove_prefix(*bad + 1);
  }
  return text.append(bytes);
}

std::vector<std::string> token_texts(const Prompt& prompt, const Rollout& rollout, const Tokenizer& tokenizer) {
  const std::optional<int32_t> before =
      prompt.tokens.empty() ? std::nullopt : std::optional<int32_t>(prompt.tokens.back());
  std::vector<std::string> texts;
  for (const std::string& piece : tokenizer.pieces(rollout.tokens.ids, before))
    texts.push_back(printable_piece(piece, rollout.tokens.ids[texts.size()], tokenizer));
  return texts;
}

std::string token_text(const Tokenizer& tokenizer, int32_t id) {
  const int32_t ids[] = {id};
  return printable_piece(tokenizer.pieces(ids, id).front(), id, tokenizer);
}

SampleRecorder::SampleRecorder(std::span<const std::vector<float>> advantages, int64_t count) {
  for (const bool informative : {true, false})
    for (size_t i = 0; i < advantages.size() && static_cast<int64_t>(recorded_.size()) < count; ++i)
      if (std::ranges::any_of(advantages[i], [](float a) { return a != 0; }) == informative)
        recorded_[static_cast<int64_t>(i)];
}

void SampleRecorder::add(const PackedBatch& batch, std::span<const int64_t> rollouts, int64_t begin,
                         const LossInputs& policy, const TokenDecision& decision) {
  const int64_t end = begin + policy.logp.size(0);
  int64_t first = 0;  // target at which the sequence starts
  for (size_t s = 0; s < batch.sequences.size(); first += batch.lengths[s], ++s) {
    const auto found = recorded_.find(rollouts[batch.sequences[s]]);
    if (found == recorded_.end() || first + batch.lengths[s] <= begin || first >= end) continue;
    TokenValues& values = found->second;
    values.keep.resize(batch.lengths[s]);
    const int64_t from = std::max(first, begin), count = std::min(first + batch.lengths[s], end) - from;
    const auto copy = [&](const Tensor& chunk, auto& to) {
      to.resize(batch.lengths[s]);
      const Tensor part = chunk.narrow(0, from - begin, count).to(at::kFloat).cpu().contiguous();
      std::copy_n(part.const_data_ptr<float>(), count, to.begin() + (from - first));
    };
    copy(policy.logp, values.logp);
    copy(decision.coefficient, values.coefficient);
    copy(decision.divergence, values.divergence);
    copy(decision.threshold, values.threshold);
    copy(decision.keep, values.keep);
  }
}

Json sample_row(const char* phase, int64_t step, const Prompt& prompt, const Rollout& rollout,
                const Tokenizer& tokenizer) {
  Json row = {{"phase", phase}, {"step", step}, {"prompt", prompt.text}, {"completion", rollout.text}};
  if (!prompt.answer.is_null()) row["answer"] = shorten_answer(prompt.answer);
  row["reward"] = rollout.reward;
  row["finish"] = finish_name(rollout.finish);
  row["tokens"] = token_texts(prompt, rollout, tokenizer);
  row["token_ids"] = rollout.tokens.ids;
  row["behavior_logp"] = rollout.tokens.behavior_logp;
  return row;
}

std::vector<Json> SampleRecorder::rows(int64_t step, std::span<const Prompt> prompts, std::span<const Rollout> rollouts,
                                       std::span<const std::vector<float>> advantages,
                                       const Tokenizer& tokenizer) const {
  const auto finite = [](const std::vector<float>& values) {
    Json array = Json::array();
    for (const float value : values) array.push_back(std::isfinite(value) ? Json(value) : Json(nullptr));
    return array;
  };
  std::vector<Json> rows;
  for (const auto& [index, values] : recorded_) {
    Json row = sample_row("rl", step, prompts[rollouts[index].prompt], rollouts[index], tokenizer);
    row["advantage"] = scalar_or_list(advantages[index]);
    if (!rollouts[index].tokens.values.empty()) row["value"] = finite(rollouts[index].tokens.values);
    if (!values.logp.empty()) {  // else no update used it
      row["logp"] = finite(values.logp);
      row["coefficient"] = finite(values.coefficient);
      row["kept"] = values.keep;
      row["divergence"] = finite(values.divergence);
      row["threshold"] = finite(values.threshold);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace keel
