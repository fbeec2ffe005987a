// Updates on a GPU in bf16 with the shape of Qwen2.5-0.5B: the LM head, also with score centering; forward, backward,
// clipping and AdamW over 16 sequences of 1,024 tokens; groups of completions whose prompt is computed once or for
// each.
//
//   build/bench/bin/gpu_update [head [ROWS] | step [bitwise | deterministic] | long | groups]: only one of them, for a
//   profiler. ROWS is the number of rows per chunk of logits; bitwise and deterministic are the settings of that name.

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include <cstdio>
#include <cstdlib>

#include "bench/bench_shape.h"
#include "bench/machine_speed.h"
#include "keel/core/tensor/device.h"
#include "keel/model/network/packed_forward.h"
#include "keel/objective/centering.h"
#include "keel/objective/methods.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/optimizer.h"

namespace {

using namespace keel;

struct Cost {
  double seconds, peak_gib;  // median; peak above the memory before
};

template <class Work>
Cost cost_of(at::Device device, int times, const Work& work) {
  const auto bytes = [&] { return at::accelerator::getDeviceStats(device.index()).allocated_bytes[0]; };
  work();
  synchronize(device);
  at::accelerator::resetPeakStats(device.index());
  const int64_t before = bytes().current;
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i)
    seconds.push_back(seconds_of([&] {
      work();
      synchronize(device);
    }));
  return {median(seconds), static_cast<double>(bytes().peak - before) / (1 << 30)};
}

HeadCoefficients all_one(const TokenStats& stats, int64_t, int64_t) { return {at::ones_like(stats.logp), {}}; }

void measure_head(at::Device device, int64_t chunk_rows) {
  constexpr int64_t kRows = 16384, kWidth = 896, kVocab = 151936, kTopK = 20;
  const auto random = [&](std::vector<int64_t> shape, double scale) {
    return at::randn(shape, at::TensorOptions(at::kFloat).device(device)) * scale;
  };
  const Weight weight(random({kVocab, kWidth}, 0.02).to(at::kBFloat16));
  const Tensor hidden = random({kRows, kWidth}, 1).to(at::kBFloat16),
               theirs = hidden + 0.1 * random({kRows, kWidth}, 1);
  const Tensor targets = at::randint(kVocab, {kRows}, at::TensorOptions(at::kLong).device(device));
  const Tensor likeliest = at::randint(kVocab, {kRows, kTopK}, targets.options());
  const BehaviorRows top_k{.topk_ids = likeliest}, whole{.hidden = theirs.to(at::kBFloat16), .weight = weight.value()};
  const LmHead head(weight, {.chunk_rows = chunk_rows});
  const GradientSinks gradients({{"weight", weight}});
  const auto statistics = [&](const BehaviorRows& behavior) { head.statistics(hidden, targets, behavior); };
  const auto backward = [&](const BehaviorRows& behavior) {
    gradients.clear();
    head.backward(hidden, targets, Scope::kToken, all_one, behavior);
  };
  const TrustRegion region = make_region("dppo_tv", {});
  const Tensor topk_behavior_logp = at::full({kRows, kCenteringTopK}, -7.0, hidden.options().dtype(at::kFloat));
  const auto centered = [&](const TokenStats& stats, int64_t begin, int64_t end) {
    HeadCoefficients result = all_one(stats, begin, end);
    result.centering.advantages = result.coefficient;
    if (!stats.topk_logp.defined()) return result;
    const TopKCentering topk =
        topk_centering(region, result.coefficient, stats.topk_logp, topk_behavior_logp.narrow(0, begin, end - begin));
    result.centering.masses = topk.masses.to(at::kFloat), result.centering.others = topk.others.to(at::kFloat);
    result.centering.totals = topk.totals.to(at::kFloat);
    return result;
  };
  const auto centered_backward = [&](const BehaviorRows& behavior) {
    const bool centers = behavior.topk_ids.defined() || behavior.weights;
    gradients.clear();
    head.backward(hidden, targets, Scope::kToken, centers ? CoefficientFunction(centered) : all_one, behavior);
  };
  // GPU clocks drop with heat, so the variants alternate.
  const auto compare = [&](const char* name, const auto& work, const char* extra, const BehaviorRows& behavior) {
    std::vector<double> plain, with_extra;
    Cost cost{}, cost_with_extra{};
    for (int i = 0; i < 5; ++i) {
      plain.push_back((cost = cost_of(device, 3, [&] { work(BehaviorRows{}); })).seconds);
      with_extra.push_back((cost_with_extra = cost_of(device, 3, [&] { work(behavior); })).seconds);
    }
    std::printf(
        "head, %s: %.1f ms, %.2f GiB above inputs and the weight's gradient; with %s %.1f ms (%.2f times), %.2f GiB\n",
        name, 1e3 * median(plain), cost.peak_gib, extra, 1e3 * median(with_extra), median(with_extra) / median(plain),
        cost_with_extra.peak_gib);
    std::fflush(stdout);
  };
  compare("statistics", statistics, "exact total variation and KL", whole);
  compare("forward and backward", backward, "the 20 likeliest tokens", top_k);
  // Distinct tokens of each row.
  const Tensor listed = (at::arange(kCenteringTopK, targets.options()) * 1009 + targets.unsqueeze(1)) % kVocab;
  BehaviorRows exact = whole;
  exact.weights = token_weights(region);
  compare("forward and backward", centered_backward, "score centering over 128 tokens", {.topk_ids = listed});
  compare("forward and backward", centered_backward, "exact score centering", exact);
}

class Update {
 public:
  explicit Update(at::Device device, bool bitwise)
      : Update(ModelWeights::random(bench_shape("0.5B"), 0, {device}), device, bitwise) {}

  /// The cost for `count` sequences, `samples` per prompt; `shared` computes a prompt once. Completion lengths are
  /// equal, or from `shortest` to `completion`.
  Cost of(int64_t count, int64_t samples, int64_t prompt, int64_t completion, bool shared, int64_t tokens_per_batch,
          int64_t shortest = 0) {
    std::vector<std::vector<int32_t>> prompts(count), completions(count);
    std::vector<TrainingSequence> sequences;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t t = 0; t < prompt; ++t)
        prompts[i].push_back(static_cast<int32_t>((i / samples * 7919 + t * 31) % 50000));
      const int64_t length = shortest == 0 ? completion : shortest + i * 7919 % (completion - shortest + 1);
      for (int64_t t = 0; t < length; ++t) completions[i].push_back(static_cast<int32_t>((i * 101 + t * 37) % 50000));
      sequences.push_back({prompts[i], completions[i], shared ? i / samples : i});
    }
    batches_ = pack(sequences, tokens_per_batch, device_);
    return cost_of(device_, 3, [&] {
      for (const PackedBatch& batch : batches_) accumulate_gradients(model_, batch, {}, Scope::kToken, all_one);
      optimizer_.step(1e-6);
    });
  }

  /// The cost of only the layers, forward and backward, on the same tokens.
  Cost of_layers() {
    return cost_of(device_, 3, [&] {
      for (const PackedBatch& batch : batches_) {
        const Tensor states = packed_hidden_states(model_, batch.tokens, batch.positions, batch.segments);
        states.backward(at::ones_like(states));
      }
    });
  }

 private:
  Update(ModelWeights weights, at::Device device, bool bitwise)
      : optimizer_(weights.set_compute_type(at::kBFloat16), {}),
        model_(weights, {.bitwise = bitwise}),
        device_(device) {}

  Optimizer optimizer_;
  CausalLm model_;
  at::Device device_;
  std::vector<PackedBatch> batches_;
};

}  // namespace

int main(int argc, char** argv) {
  if (!at::hasCUDA()) {
    std::printf("no GPU: nothing was measured\n");
    return 0;
  }
  const std::string alone = argc > 1 ? argv[1] : "";
  const at::Device device = open_device("cuda");
  if (alone.empty() || alone == "head") measure_head(device, argc > 2 ? std::atol(argv[2]) : 0);
  if (alone == "head") return 0;
  const std::string mode = argc > 2 ? argv[2] : "";
  use_deterministic_reductions(mode == "deterministic");
  Update update(device, mode == "bitwise");
  if (alone.empty() || alone == "step") {
    const Cost cost = update.of(16, 1, 1, 1023, false, 16384);
    std::printf("update on 16 sequences of 1,024 tokens: %.1f ms, %.1f GiB besides weights, gradients and moments\n",
                1e3 * cost.seconds, cost.peak_gib);
  }
  if (alone.empty() || alone == "long") {
    const Cost cost = update.of(128, 8, 512, 8192, true, 32768, 512);
    std::printf(
        "update on 16 groups of 8 completions of 512 to 8,192 tokens: %.2f s, %.1f GiB besides weights, gradients "
        "and moments\n",
        cost.seconds, cost.peak_gib);
  }
  if (!alone.empty() && alone != "groups") return 0;
  const Cost shared = update.of(256, 16, 512, 512, true, 32768), shared_layers = update.of_layers(),
             apart = update.of(256, 16, 512, 512, false, 32768), apart_layers = update.of_layers();
  std::printf(
      "update on 16 groups of 16 completions, prompts and completions of 512: prompts once %.3f s (%.1f GiB), for "
      "each completion %.3f s (%.1f GiB), %.2f times as long; layers alone %.3f s and %.3f s, %.2f times\n",
      shared.seconds, shared.peak_gib, apart.seconds, apart.peak_gib, apart.seconds / shared.seconds,
      shared_layers.seconds, apart_layers.seconds, apart_layers.seconds / shared_layers.seconds);
}
