// The LM head, forward and backward, in processor time of one thread: build/bench/bin/head [rows vocabulary
// width]

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "bench/median.h"
#include "keel/ops/lm_head.h"

namespace {

using namespace keel;

double processor_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Work>
double seconds(const Work& work) {
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    const double begin = processor_seconds();
    work();
    times.push_back(processor_seconds() - begin);
  }
  return median(times);
}

void measure(int64_t rows, int64_t vocab, int64_t width) {
  const Tensor hidden = at::randn({rows, width}), weight = at::randn({vocab, width}) * 0.1;
  const Tensor targets = at::randint(vocab, {rows}, at::kLong);
  const Weight learned(weight);
  const GradientSinks gradients({{"weight", learned}});
  const LmHead head(learned, {});
  const double statistics = seconds([&] { head.statistics(hidden, targets); });
  const double both = seconds([&] {
    head.backward(hidden, targets, Scope::kToken, [](const TokenStats& stats, int64_t, int64_t) {
      return HeadCoefficients{at::ones_like(stats.logp), {}};
    });
  });
  const double products = seconds([&] {
    const at::NoGradGuard no_grad;
    const Tensor logits = at::linear(hidden, weight);
    gradients.sums()[0].addmm_(logits.t(), hidden);
    at::matmul(logits, weight);
  });
  std::printf(
      "%ld rows, vocabulary %ld, width %ld: statistics %.2f ms, forward and backward %.2f ms, of which "
      "matrix products %.2f ms\n",
      static_cast<long>(rows), static_cast<long>(vocab), static_cast<long>(width), statistics * 1e3, both * 1e3,
      products * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  if (argc == 4) {
    measure(std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]));
    return 0;
  }
  measure(512, 26, 64);
  measure(64, 49152, 64);
  measure(32, 151936, 64);
}
