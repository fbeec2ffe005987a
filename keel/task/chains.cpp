#include "keel/task/chains.h"

#include <algorithm>
#include <array>

#include "keel/core/error.h"

namespace keel {
namespace {

constexpr std::string_view kPadToken = "<pad>", kBos = "<bos>", kEos = "<eos>", kAnswer = "ANS";
constexpr std::array<char, 3> kChainOperators = {'+', '-', '*'};
constexpr double kCarefulError = 0.01;

// One chain in kHeldOutChains is held out on average, and at least one in 27 at the smallest sizes. kMaxChainDraws
// draws miss all of them with probability 1e-33.
constexpr uint32_t kHeldOutChains = 8;
constexpr int kMaxChainDraws = 2000;

// The first plain words. Further ones are word65, word66, ...
constexpr std::array<std::string_view, 64> kWords = {
    "so",       "then",      "next",        "thus",         "now",         "hence",     "and",        "also",
    "first",    "here",      "well",        "okay",         "again",       "still",     "yet",        "further",
    "besides",  "moreover",  "therefore",   "consequently", "accordingly", "meanwhile", "afterwards", "subsequently",
    "likewise", "similarly", "indeed",      "clearly",      "naturally",   "obviously", "evidently",  "simply",
    "plainly",  "surely",    "truly",       "really",       "actually",    "basically", "generally",  "usually",
    "finally",  "lastly",    "onwards",     "forward",      "presently",   "soon",      "later",      "after",
    "once",     "when",      "since",       "because",      "whence",      "whereupon", "wherefore",  "thereupon",
    "thereby",  "therein",   "furthermore", "additionally", "altogether",  "overall",   "anyway",     "eventually"};
constexpr std::array<std::string_view, 12> kCarefulWords = {"carefully",    "check",       "verify",     "slowly",
                                                            "precisely",    "exactly",     "recount",    "patiently",
                                                            "double-check", "attentively", "rigorously", "thoroughly"};
static_assert(kCarefulWords.size() == ChainsTask::kMaxCareful);

std::string plain_word(int64_t rank) {
  const auto index = static_cast<size_t>(rank);
  return index < kWords.size() ? std::string(kWords[index]) : "word" + std::to_string(rank + 1);
}

void check_range(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return;
  fail(ExitCode::kBadConfiguration, "task.", name, " is ", value, "; chains need ", low, " to ", high);
}

void validate(const TaskOptions& options) {
  check_range("modulus", options.modulus, ChainsTask::kMinModulus, ChainsTask::kMaxModulus);
  check_range("steps", options.steps, 1, ChainsTask::kMaxSteps);
  check_range("words", options.words, 1, ChainsTask::kMaxWords);
  check_range("careful", options.careful, 0, ChainsTask::kMaxCareful);
  if (options.careful >= options.words) {
    fail(ExitCode::kBadConfiguration, "task.careful is ", options.careful, " and task.words is ", options.words,
         ", but there must be fewer careful words than words; lower careful or raise words");
  }
  if (!(options.error >= 0 && options.error <= 1)) {
    fail(ExitCode::kBadConfiguration, "task.error is ", options.error, "; expected a probability between 0 and 1");
  }
}

}  // namespace

int64_t chain_step(int64_t value, Chain::Step step, int64_t modulus) {
  switch (step.op) {
    case '+':
      return (value + step.operand) % modulus;
    case '-':
      return (value - step.operand + modulus) % modulus;
    case '*':
      return (value * step.operand) % modulus;
  }
  fail(ExitCode::kInternal, "chain: '", step.op, "' is not an operator; expected one of + - *");
}

int64_t chain_value(const Chain& chain, int64_t modulus) {
  int64_t value = chain.start;
  for (const Chain::Step& step : chain.steps) value = chain_step(value, step, modulus);
  return value;
}

std::string chain_prompt(const Chain& chain) {
  std::string prompt = std::string(kBos) + " " + std::to_string(chain.start);
  for (const Chain::Step& step : chain.steps) {
    prompt += std::string(" ") + step.op + " " + std::to_string(step.operand);
  }
  return prompt + " =";
}

Split chain_split(const Chain& chain) {
  // The keys are part of published results: another key gives other splits.
  constexpr uint32_t kKey0 = 0x6B65656C, kKey1 = 0x73706C74;
  const auto mix = [](PhiloxBlock state, uint32_t op, int64_t number) {
    state.word[2] = op;
    state.word[3] = static_cast<uint32_t>(number);
    return philox(state, kKey0, kKey1);
  };
  PhiloxBlock state = mix({}, '=', chain.start);
  for (const Chain::Step& step : chain.steps) state = mix(state, static_cast<uint32_t>(step.op), step.operand);
  return state.word[0] % kHeldOutChains == 0 ? Split::kHeldOut : Split::kTrain;
}

ChainsTask::ChainsTask(const TaskOptions& options) : options_(options) {
  validate(options);
  // The careful words have the ranks before the last.
  const int64_t plain = options.words - options.careful;
  for (int64_t rank = 0; rank < plain - 1; ++rank) words_.push_back(plain_word(rank));
  words_.insert(words_.end(), kCarefulWords.begin(), kCarefulWords.begin() + options.careful);
  words_.push_back(plain_word(plain - 1));

  double sum = 0;
  for (int64_t rank = 0; rank < options.words; ++rank) {
    sum += 1.0 / static_cast<double>(rank + 1);
    cumulative_.push_back(sum);
  }
  for (double& value : cumulative_) value /= sum;
}

bool ChainsTask::is_careful(int64_t rank) const {
  const int64_t last = options_.words - 1;
  return rank < last && rank >= last - options_.careful;
}

Chain ChainsTask::draw_chain(RandomSequence& draws) const {
  const auto modulus = static_cast<uint32_t>(options_.modulus);
  Chain chain;
  chain.start = draws.below(modulus);
  for (int64_t step = 0; step < options_.steps; ++step) {
    const char op = kChainOperators[draws.below(kChainOperators.size())];
    chain.steps.push_back({op, draws.below(modulus)});
  }
  return chain;
}

Chain ChainsTask::draw_chain(RandomSequence& draws, Split split) const {
  for (int draw = 0; draw < kMaxChainDraws; ++draw) {
    Chain chain = draw_chain(draws);
    if (chain_split(chain) == split) return chain;
  }
  fail(ExitCode::kBadConfiguration, "task.modulus ", options_.modulus, " and task.steps ", options_.steps,
       " have so few problems that none is ", split == Split::kTrain ? "left for training" : "held out",
       "; raise modulus or steps");
}

int64_t ChainsTask::draw_word(RandomSequence& draws) const {
  const auto found = std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, draws.uniform());
  return found - cumulative_.begin();
}

Problem ChainsTask::problem(uint64_t seed, uint64_t index, Split split) const {
  RandomSequence draws(seed, Stream::kTaskProblems, index);
  const Chain chain = draw_chain(draws, split);
  return {chain_prompt(chain), chain_value(chain, options_.modulus)};
}

Demonstration ChainsTask::demonstrate(uint64_t seed, uint64_t index, bool noisy) const {
  RandomSequence draws(seed, Stream::kDemonstrations, index);
  const Chain chain = draw_chain(draws, Split::kTrain);
  std::string text;
  int64_t value = chain.start;
  bool careful = false;
  for (size_t i = 0; i < chain.steps.size(); ++i) {
    const Chain::Step step = chain.steps[i];
    const int64_t word = draw_word(draws);
    // Always drawn, so that noisy and noise-free demonstrations of an index have the same problem and words.
    const double uniform = draws.uniform();
    const int64_t random_result = draws.below(static_cast<uint32_t>(options_.modulus));
    if (i == 0 || !options_.mode) careful = is_careful(word);
    const double error = careful ? std::min(kCarefulError, options_.error) : options_.error;
    const int64_t result = noisy && uniform < error ? random_result : chain_step(value, step, options_.modulus);
    text += words_[word] + " " + std::to_string(value) + " " + step.op + " " + std::to_string(step.operand) + " = " +
            std::to_string(result) + " ; ";
    value = result;
  }
  text += std::string(kAnswer) + " " + std::to_string(value) + " " + std::string(kEos);
  return {{chain_prompt(chain), chain_value(chain, options_.modulus)}, text};
}

double ChainsTask::check(const Problem& problem, std::string_view completion) const {
  return problem.answer.is_number_integer() && answer(completion) == problem.answer.dump() ? 1 : 0;
}

/// Returns the word between "ANS" and the EOS token, both at the end of the completion.
std::string ChainsTask::answer(std::string_view completion) const {
  if (completion.find(kEos) != completion.size() - std::min(completion.size(), kEos.size())) return "";
  completion.remove_suffix(kEos.size());
  const auto take_word = [&]() -> std::string_view {
    if (!completion.ends_with(' ')) return {};
    completion.remove_suffix(1);
    const size_t begin = completion.rfind(' ') + 1;  // 0 if there is none
    const std::string_view word = completion.substr(begin);
    completion.remove_suffix(word.size());
    return word;
  };
  const std::string_view value = take_word();
  return take_word() == kAnswer ? std::string(value) : "";
}

Tokenizer ChainsTask::tokenizer() const {
  std::vector<std::string> words = {std::string(kPadToken), std::string(kBos), std::string(kEos), "=", ";",
                                    std::string(kAnswer)};
  for (const char op : kChainOperators) words.emplace_back(1, op);
  for (int64_t number = 0; number < options_.modulus; ++number) words.push_back(std::to_string(number));
  words.insert(words.end(), words_.begin(), words_.end());
  return Tokenizer::word_level(words,
                               {.pad = std::string(kPadToken), .bos = std::string(kBos), .eos = std::string(kEos)});
}

}  // namespace keel
