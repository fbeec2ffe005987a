// Keel's side of bench/vs_head: repeats the LM head on the same rows.
//
//   vs_head_keel SEQUENCES TOKENS WIDTH VOCABULARY FOLDER THREADS DEVICE
//
// writes its random inputs and results to FOLDER for the other side, prints "ready", and repeats the computation for
// every line "step".

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "bench/machine_speed.h"
#include "keel/core/json.h"
#include "keel/core/tensor/device.h"
#include "keel/model/formats/safetensors/safetensors.h"
#include "keel/ops/lm_head.h"

namespace {

using namespace keel;

struct Inputs {
  Weight weight;
  Tensor master;
  Tensor hidden, targets;
  Tensor advantages;  // [sequences]; a row's coefficient is that of its sequence, divided by the number of rows
};

struct Results {
  Tensor logp, other_logp, entropy, hidden_gradient, weight_gradient;
};

Inputs random_inputs(int64_t sequences, int64_t tokens, int64_t width, int64_t vocabulary, at::Device device) {
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  const int64_t rows = sequences * tokens;
  const at::ScalarType type = device.is_cuda() ? at::kBFloat16 : at::kFloat;
  const Tensor master = at::randn({vocabulary, width}, options).mul_(0.1),
               hidden = at::randn({rows, width}, options).to(type);
  return {Weight(master.to(type)), master, hidden, at::randint(vocabulary, {rows}, options.dtype(at::kLong)),
          at::randn({sequences}, options)};
}

Results compute(const Inputs& inputs) {
  const int64_t rows = inputs.hidden.size(0);
  const GradientSinks gradients({{"weight", inputs.weight}});
  const Tensor coefficient = (inputs.advantages / rows).repeat_interleave(rows / inputs.advantages.size(0));
  Results results{at::empty_like(coefficient), at::empty_like(coefficient), at::empty_like(coefficient), {}, {}};
  results.hidden_gradient = LmHead(inputs.weight, {})
                                .backward(inputs.hidden, inputs.targets, Scope::kToken,
                                          [&](const TokenStats& stats, int64_t begin, int64_t end) {
                                            results.logp.slice(0, begin, end).copy_(stats.logp);
                                            results.other_logp.slice(0, begin, end).copy_(stats.other_logp);
                                            results.entropy.slice(0, begin, end).copy_(stats.entropy);
                                            return HeadCoefficients{coefficient.slice(0, begin, end), {}};
                                          });
  results.weight_gradient = gradients.sums()[0];
  synchronize(inputs.hidden.device());
  return results;
}

int64_t held_bytes(at::Device device) {
  if (!device.is_cuda()) return resident_memory_bytes();
  return at::accelerator::getDeviceStats(device.index()).allocated_bytes[0].current;
}

void forget_peak(at::Device device) {
  if (device.is_cuda())
    at::accelerator::resetPeakStats(device.index());
  else
    std::ofstream("/proc/self/clear_refs") << 5;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::cerr << "expected SEQUENCES TOKENS WIDTH VOCABULARY FOLDER THREADS DEVICE\n";
    return 2;
  }
  const int64_t sequences = std::atol(argv[1]), tokens = std::atol(argv[2]), width = std::atol(argv[3]),
                vocabulary = std::atol(argv[4]);
  const std::filesystem::path folder = argv[5];
  use_threads(std::atoi(argv[6]));
  const at::Device device = open_device(argv[7]);
  compute(random_inputs(1, 64, width, 1024, device));  // loads code before the memory is measured
  const Inputs inputs = random_inputs(sequences, tokens, width, vocabulary, device);
  write_safetensors(folder / "inputs.safetensors",
                    {{"hidden", inputs.hidden},
                     {"weight", inputs.master},
                     {"targets", inputs.targets},
                     {"advantages", inputs.advantages}},
                    {{"format", "pt"}});
  const int64_t held = held_bytes(device);
  {
    const Results results = compute(inputs);
    write_safetensors(folder / "keel.safetensors",
                      {{"logp", results.logp},
                       {"other_logp", results.other_logp},
                       {"entropy", results.entropy},
                       {"hidden_gradient", results.hidden_gradient},
                       {"weight_gradient", results.weight_gradient}},
                      {{"format", "pt"}});
  }
  std::cout << "ready {}" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    forget_peak(device);
    const double seconds = seconds_of([&] { compute(inputs); });
    std::cout << Json{{"seconds", seconds}, {"peak_bytes", peak_memory_bytes(device) - held}}.dump() << std::endl;
  }
}
