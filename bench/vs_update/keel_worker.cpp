// Keel's side of bench/vs_update: repeats the same update.
//
//   vs_update_keel SHAPE SEQUENCES TOKENS FOLDER THREADS DEVICE
//
// writes its random weights to FOLDER for the other side, prints "ready", and makes one update for every line "step".

#include <ATen/ATen.h>

#include <cstdlib>
#include <iostream>

#include "bench/bench_shape.h"
#include "bench/machine_speed.h"
#include "keel/core/json.h"
#include "keel/core/tensor/device.h"
#include "keel/model/folder/model_folder.h"
#include "keel/train/update/gradients.h"
#include "keel/train/update/optimizer.h"

int main(int argc, char** argv) {
  using namespace keel;
  if (argc != 7) {
    std::cerr << "expected SHAPE SEQUENCES TOKENS FOLDER THREADS DEVICE\n";
    return 2;
  }
  use_threads(std::atoi(argv[5]));
  const ModelConfig config = bench_shape(argv[1]);
  const at::Device device = open_device(argv[6]);
  ModelWeights model = ModelWeights::random(config, 0, {device});
  write_model_folder(argv[4], model, bench_vocabulary(config.vocab_size), Json::object(), {});
  MasterWeights masters = model.set_compute_type(device.is_cuda() ? at::kBFloat16 : at::kFloat);
  const CausalLm network(model);
  const int64_t sequences = std::atol(argv[2]), tokens = std::atol(argv[3]);
  std::vector<std::vector<int32_t>> texts(sequences);
  std::vector<TrainingSequence> packed;
  for (int64_t i = 0; i < sequences; ++i) {
    for (int64_t t = 0; t < tokens; ++t)
      texts[i].push_back(static_cast<int32_t>(3 + (i * 7919 + t * 31) % (config.vocab_size - 3)));
    const std::span<const int32_t> text = texts[i];
    packed.push_back({text.first(1), text.subspan(1), i});
  }
  const std::vector<PackedBatch> batches = pack(packed, sequences * tokens, device);
  const double share = 1.0 / static_cast<double>(sequences * (tokens - 1));
  Optimizer optimizer(std::move(masters), {.lr = 1e-6});
  const auto update = [&] {
    double loss = 0;
    for (const PackedBatch& batch : batches)
      accumulate_gradients(network, batch, {}, Scope::kToken, [&](const TokenStats& stats, int64_t, int64_t) {
        loss -= share * stats.logp.sum().item<double>();
        return HeadCoefficients{at::full_like(stats.logp, share), {}};
      });
    optimizer.step(1e-6);
    synchronize(device);
    return loss;
  };
  update();
  std::cout << "ready {}" << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    double loss = 0;
    const double seconds = seconds_of([&] { loss = update(); });
    std::cout << Json{{"seconds", seconds}, {"loss", loss}, {"peak_bytes", peak_memory_bytes(device)}}.dump()
              << std::endl;
  }
}
