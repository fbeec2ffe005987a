// The time to load a model folder, compared with `cat FILES > /dev/null` in a warm cache, and the extra memory beyond
// the weights:
//
//   build/bench/bin/load [FOLDER...]
//
// Without arguments it writes three folders of a 254 M parameter model: float32 in one file (1 GB) and in four, and
// bfloat16, converted to float32 when loaded. Both sides alternate, each in its own process.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "bench/median.h"
#include "keel/core/error.h"
#include "keel/core/files/file.h"
#include "keel/core/tensor/device.h"
#include "keel/model/folder/model_folder.h"
#include "keel/model/formats/safetensors/safetensors.h"

namespace {

using namespace keel;
namespace fs = std::filesystem;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// A line of /proc/self/status in bytes: VmRSS (current memory) or VmHWM (peak).
double memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return 1024.0 * std::atof(line.c_str() + key.size() + 1);
  return 0;
}

/// Loads once in this process and prints the seconds, the bytes of the weights, and the memory before and at the peak.
int load_once(const fs::path& folder) {
  const at::Device device = open_device("cpu");
  const double before = memory("VmRSS"), start = now();
  const ModelWeights model = read_model_folder(folder, device);
  const double seconds = now() - start;
  double bytes = 0;
  for (const NamedTensor& weight : model.parameters()) bytes += static_cast<double>(weight.value.nbytes());
  std::printf("%f %f %f %f\n", seconds, bytes, before, memory("VmHWM"));
  return 0;
}

struct Load {
  double seconds = 0, bytes = 0, before = 0, peak = 0;
};

Load load_in_a_process(const fs::path& folder) {
  const std::string command = fs::read_symlink("/proc/self/exe").string() + " --once " + folder.string();
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  Load load;
  if (std::fscanf(output.get(), "%lf %lf %lf %lf", &load.seconds, &load.bytes, &load.before, &load.peak) != 4)
    fail(ExitCode::kInternal, command, " failed");
  return load;
}

double seconds_of_cat(const fs::path& folder) {
  const std::string command = "cat " + folder.string() + "/*.safetensors > /dev/null";
  const double start = now();
  if (std::system(command.c_str()) != 0) fail(ExitCode::kInternal, command, " failed");
  return now() - start;
}

void measure(const fs::path& folder) {
  constexpr int kPairs = 15;
  double file_bytes = 0;
  for (const std::string& name : list_directory(folder))
    if (name.ends_with(".safetensors")) file_bytes += static_cast<double>(fs::file_size(folder / name));
  std::vector<double> cat, load, ratios, peaks, growths;
  seconds_of_cat(folder);  // warms the cache
  for (int pair = 0; pair < kPairs; ++pair) {
    cat.push_back(seconds_of_cat(folder));
    const Load one = load_in_a_process(folder);
    load.push_back(one.seconds);
    ratios.push_back(cat.back() / load.back());
    peaks.push_back(one.peak / one.bytes);
    growths.push_back((one.peak - one.before) / one.bytes);
  }
  std::printf(
      "%s: %.2f GB; cat %.2f GB/s, load %.2f GB/s: %.0f %% of cat (median of %d pairs); peak memory %.3f x the "
      "weights as float32, %.3f x beyond what the process had before\n",
      folder.filename().c_str(), file_bytes / 1e9, file_bytes / 1e9 / median(cat), file_bytes / 1e9 / median(load),
      100 * median(ratios), kPairs, median(peaks), median(growths));
}

/// The weights of a folder spread over four files, with their index.
void spread_over_shards(const fs::path& from, const fs::path& to) {
  constexpr size_t kShards = 4;
  create_directories(to);
  fs::copy_file(from / "config.json", to / "config.json", fs::copy_options::overwrite_existing);
  const SafetensorsFile file = SafetensorsFile::open(from / "model.safetensors");
  std::vector<std::vector<std::pair<std::string, Tensor>>> shards(kShards);
  Json index = {{"weight_map", Json::object()}};
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const size_t shard = i * kShards / file.tensors().size();
    const std::string& name = file.tensors()[i].name;
    shards[shard].emplace_back(name, file.read(name));
    index["weight_map"][name] = "model-" + std::to_string(shard) + ".safetensors";
  }
  for (size_t i = 0; i < kShards; ++i)
    write_safetensors(to / ("model-" + std::to_string(i) + ".safetensors"), shards[i], {{"format", "pt"}});
  write_atomically(to / "model.safetensors.index.json", index.dump());
}

std::vector<fs::path> make_folders(const fs::path& root) {
  const ModelConfig config =
      model_config({.hidden_size = 1024, .layers = 16, .heads = 16, .kv_heads = 8, .intermediate_size = 2816},
                   /*vocab_size=*/32'000);
  const ModelWeights model = ModelWeights::random(config, /*seed=*/0, {at::kCPU});
  const Tokenizer tokenizer = Tokenizer::word_level({"a"}, {});
  const std::vector<fs::path> folders = {root / "float32", root / "float32-four-files", root / "bfloat16"};
  for (const fs::path& folder : folders) create_directories(folder);
  write_model_folder(folders[0], model, tokenizer, Json::object(), at::kFloat);
  spread_over_shards(folders[0], folders[1]);
  write_model_folder(folders[2], model, tokenizer, Json::object(), at::kBFloat16);
  return folders;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::string(argv[1]) == "--once") return load_once(argv[2]);
    std::vector<fs::path> folders(argv + 1, argv + argc);
    const fs::path own = fs::temp_directory_path() / "keel_bench_load";
    if (folders.empty()) folders = make_folders(own);
    for (const fs::path& folder : folders) measure(folder);
    if (argc == 1) remove_tree(own);
  } catch (const Error& error) {
    std::fprintf(stderr, "load: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
