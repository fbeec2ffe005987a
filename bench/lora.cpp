// Sampling with an adapter of rank 16 in bf16 on a GPU: milliseconds per decode step with the adapter and without one.
//
//   build/bench/bin/lora [SHAPE [SEQUENCES]]

#include <cstdio>
#include <cstdlib>

#include "bench/bench_shape.h"
#include "bench/machine_speed.h"
#include "bench/median.h"
#include "keel/core/tensor/device.h"
#include "keel/rollout/engine.h"

namespace {

using namespace keel;

/// Milliseconds per decode step, from two runs of different length.
class AdapterBench {
 public:
  AdapterBench(const ModelConfig& shape, at::Device device, int64_t sequences, bool has_adapter)
      : tokenizer_(bench_vocabulary(shape.vocab_size)),
        prompts_(sequences),
        model_{ModelWeights::random(shape, 1, {device})} {
    if (has_adapter) model_.weights.add_adapter({.rank = 16}, 2);
    model_.masters = model_.weights.set_compute_type(at::kBFloat16);
    for (size_t i = 0; i < prompts_.size(); ++i) {
      prompts_[i].id = i;
      prompts_[i].tokens.assign(128, static_cast<int32_t>(i + 5));
    }
  }

  double milliseconds() const {
    constexpr int64_t kShort = 16, kLong = 144;
    return 1e3 * (seconds(kLong) - seconds(kShort)) / (kLong - kShort);
  }

 private:
  double seconds(int64_t tokens) const {
    return seconds_of([&] {
      RolloutEngine(SamplingModel(model_), tokenizer_)
          .generate(prompts_, {.max_new_tokens = tokens, .stop_at_eos = false});
    });
  }

  Tokenizer tokenizer_;
  std::vector<Prompt> prompts_;
  SamplerWeights model_;
};

}  // namespace

int main(int argc, char** argv) {
  const ModelConfig shape = bench_shape(argc > 1 ? argv[1] : "0.5B");
  const int64_t sequences = argc > 2 ? std::atoi(argv[2]) : 64;
  const at::Device device = open_device("cuda");
  const AdapterBench plain(shape, device, sequences, false), adapted(shape, device, sequences, true);
  constexpr int kRounds = 7;
  std::vector<double> without, with;
  for (int i = 0; i < kRounds + 1; ++i) {
    const double a = plain.milliseconds(), b = adapted.milliseconds();
    if (i > 0) without.push_back(a), with.push_back(b);  // the first round warms up
  }
  std::printf("%s, %lld sequences: %.3f ms without an adapter, %.3f ms with one of rank 16: %.2fx\n",
              describe_device(device).c_str(), static_cast<long long>(sequences), median(without), median(with),
              median(with) / median(without));
}
