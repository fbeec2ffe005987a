// Compares the GPU kernels of sampling and training with float64, in every dtype.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "keel/core/str_cat.h"
#include "keel/core/tensor/device.h"
#include "keel/ops/dropout.h"
#include "keel/ops/layer_ops.h"
#include "keel/ops/lm_head.h"
#include "keel/ops/packed_flash_attention.h"
#include "tests/support/paged_attention_case.h"

namespace keel {
namespace {

/// The tolerance of one rounding plus a float32 sum.
double tolerance(at::ScalarType type) {
  return type == at::kFloat ? 3e-6 : type == at::kHalf ? 0x1p-11 * 1.1 : 0x1p-8 * 1.1;
}

class GpuKernels : public testing::TestWithParam<at::ScalarType> {
 protected:
  Tensor random(std::vector<int64_t> shape, uint64_t seed) const {
    return random_normal(shape, seed).to(cuda_, GetParam());
  }
  /// The maximum difference relative to the maximum magnitude.
  double error(const Tensor& got, const Tensor& want) const {
    return relative_difference(got.cpu().to(at::kDouble), want);
  }

  at::Device cuda_ = open_device("cuda");
  at::NoGradGuard no_grad_;
};

TEST_P(GpuKernels, PagedAttention) {
  for (const int64_t width : {8, 20, 64, 80, 128, 256})
    for (const auto& [prompt, own] : {std::pair<int64_t, int64_t>{1, 3}, {15, 20}, {17, 33}, {270, 40}})
      for (const AttentionConfig& attention : kAttentionConfigs) {
        const PagedAttentionCase given(prompt, own, width, at::TensorOptions(GetParam()).device(cuda_));
        EXPECT_LT(error(given.decoded(attention), given.expected(attention)), tolerance(GetParam()))
            << width << ", " << prompt << " + " << own << ", window " << attention.window;
      }
}

TEST_P(GpuKernels, RmsNorm) {
  for (const int64_t width : {1, 33, 64, 896}) {
    const Tensor x = random({37, width}, 1) * 3, weight = random({width}, 2);
    const Tensor wide = x.cpu().to(at::kDouble);
    const Tensor want = wide / (wide.square().mean(1, true) + 1e-5).sqrt() * weight.cpu().to(at::kDouble);
    EXPECT_LT(error(rms_norm(x, weight, 1e-5), want), tolerance(GetParam())) << width;
  }
}

TEST_P(GpuKernels, AddAndRmsNorm) {
  for (const int64_t width : {1, 33, 64, 896, 4864}) {
    const Tensor x = random({37, width}, 1) * 3, added = random({37, width}, 3), weight = random({width}, 2);
    const NormedSum got = add_and_norm(x, added, weight, 1e-5);
    EXPECT_TRUE(got.sum.equal(x + added)) << width;
    const Tensor wide = got.sum.cpu().to(at::kDouble);
    const Tensor want = wide / (wide.square().mean(1, true) + 1e-5).sqrt() * weight.cpu().to(at::kDouble);
    EXPECT_LT(error(got.normed, want), tolerance(GetParam())) << width;
  }
}

TEST_P(GpuKernels, DropoutMaskEqualsTheCpus) {
  for (const int64_t width : {1, 33, 896}) {
    const Tensor rows = at::arange(37, at::kLong), x = random({37, width}, 1);
    Dropout dropout{0.3, /*seed=*/5, /*update=*/9, /*layer=*/2, rows.div(4, "floor"), rows % 4};
    const Tensor want = apply_dropout(x.cpu(), dropout);
    dropout.sequences = dropout.sequences.to(cuda_);
    dropout.positions = dropout.positions.to(cuda_);
    EXPECT_TRUE(apply_dropout(x, dropout).cpu().equal(want)) << width;
  }
}

TEST_P(GpuKernels, GatedActivation) {
  const Tensor gate = random({37, 33}, 1) * 8, up = random({37, 33}, 2);
  const Tensor wide = gate.cpu().to(at::kDouble);
  EXPECT_LT(error(gated(Activation::kSilu, gate, up), wide * wide.sigmoid() * up.cpu().to(at::kDouble)),
            tolerance(GetParam()));
  // The two halves of the output of one GEMM.
  const Tensor both = random({37, 96}, 3) * 8;
  const Tensor wide_gate = both.narrow(1, 0, 48).cpu().to(at::kDouble),
               wide_up = both.narrow(1, 48, 48).cpu().to(at::kDouble);
  EXPECT_LT(error(gated(Activation::kSilu, both.narrow(1, 0, 48), both.narrow(1, 48, 48)),
                  wide_gate * wide_gate.sigmoid() * wide_up),
            2 * tolerance(GetParam()));
}

TEST_P(GpuKernels, SkinnyGemm) {
  for (const auto& [in, out] :
       {std::pair<int64_t, int64_t>{64, 8}, {128, 1152}, {896, 896}, {576, 200}, {4864, 896}, {256, 24576}})
    for (const int64_t rows : {1, 2, 7, 16, 33, 63, 64, 65, 100, 128, 150, 192, 193, 255, 256, 257}) {
      const Tensor x = random({rows, in + 8}, 1).narrow(1, 0, in), weight = random({out, in}, 2),
                   bias = random({out}, 3);
      const auto wide = [](const Tensor& of) { return of.cpu().to(at::kDouble); };
      const Tensor product = wide(x).matmul(wide(weight).t());
      EXPECT_LT(error(linear(x, weight, Tensor()), product), tolerance(GetParam()))
          << rows << ", " << in << " to " << out;
      EXPECT_LT(error(linear(x, weight, bias), product + wide(bias)), tolerance(GetParam())) << rows;
      // Equals two GEMMs followed by the gate.
      const std::vector<Tensor> both = (product + wide(bias)).to(at::kFloat).to(GetParam()).to(cuda_).chunk(2, 1);
      EXPECT_LT(
          error(gated_linear(Activation::kSilu, x, weight, bias), wide(gated(Activation::kSilu, both[0], both[1]))),
          3 * tolerance(GetParam()))
          << rows << ", " << in << " to " << out;
    }
}

// The kernel rounds u = x A^T, in one part or in several. Each u has a relative error of half an ulp, so the error of
// u B^T is at most that of the rounded sum, if the two products have the same magnitude (about 1).
TEST_P(GpuKernels, SkinnyGemmWithAnAdapter) {
  const auto wide = [](const Tensor& of) { return of.cpu().to(at::kDouble); };
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{64, 8},
                                {128, 1152},
                                {896, 896},
                                {576, 200},
                                {4864, 896},
                                {128, 9728},
                                {64, 11264},
                                {256, 24576}}) {
    const Tensor all = random({257, in + 8}, 1) * std::pow(in, -0.5), weight = random({out, in}, 2),
                 bias = random({out}, 3);
    const Tensor x64 = wide(all).narrow(1, 0, in), product = x64.matmul(wide(weight).t());
    for (const int64_t rank : {8, 16, 24, 48, 64, 192}) {
      const AdapterMatrices adapter{random({rank, in}, 4), random({out, rank}, 5) * std::pow(rank, -0.5)};
      const Tensor sum = product + x64.matmul(wide(adapter.a).t()).matmul(wide(adapter.b).t()),
                   biased = sum + wide(bias);
      for (const int64_t rows : {1, 7, 33, 64, 65, 100, 128, 129, 193, 256, 257}) {
        const Tensor x = all.narrow(0, 0, rows).narrow(1, 0, in);
        const auto name = str_cat(rows, " rows, ", in, " to ", out, ", rank ", rank);
        EXPECT_LT(error(linear(x, weight, {}, adapter), sum.narrow(0, 0, rows)), 2 * tolerance(GetParam())) << name;
        const Tensor want = biased.narrow(0, 0, rows);
        EXPECT_LT(error(linear(x, weight, bias, adapter), want), 2 * tolerance(GetParam())) << name;
        const std::vector<Tensor> both = want.to(at::kFloat).to(GetParam()).to(cuda_).chunk(2, 1);
        const double factor = out > 8 ? 4 : 8;  // the errors of few products do not average out
        EXPECT_LT(error(gated_linear(Activation::kSilu, x, weight, bias, adapter),
                        wide(gated(Activation::kSilu, both[0], both[1]))),
                  factor * tolerance(GetParam()))
            << name;
      }
    }
  }
}

TEST_P(GpuKernels, GemmRowDoesNotDependOnTheOtherRows) {
  const Tensor x = random({256, 896}, 1), weight = random({1152, 896}, 2);
  const AdapterMatrices adapter{random({48, 896}, 3), random({1152, 48}, 4)};
  if (GetParam() == at::kFloat) GTEST_SKIP() << "cuBLAS multiplies float32";
  for (const AdapterMatrices& added : {AdapterMatrices(), adapter})
    for (const int64_t most : {64, 128, 192, 256}) {
      const Tensor all = linear(x.narrow(0, 0, most), weight, Tensor(), added);
      for (const int64_t rows : {most - 63, most - 20, most - 1})
        EXPECT_TRUE(linear(x.narrow(0, 0, rows), weight, Tensor(), added).equal(all.narrow(0, 0, rows))) << rows;
    }
}

TEST_P(GpuKernels, TurnHeadsWhileTheyAttend) {
  for (const int64_t width : {32, 64, 128, 256}) {
    const int64_t rows = 5, heads = 6, kv_heads = 2, blocks = 7;
    const Tensor all = random({rows, heads + 2 * kv_heads, width}, 4);
    const Heads given{all.narrow(1, 0, heads), all.narrow(1, heads, kv_heads),
                      all.narrow(1, heads + kv_heads, kv_heads),
                      rotary_angles(at::arange(rows, at::TensorOptions(at::kLong).device(cuda_)) * 37 + 3,
                                    at::rand({width / 2}, at::TensorOptions(at::kFloat).device(cuda_)), 1.1)};
    std::vector<PagedRow> keys;
    for (int32_t i = 0; i < rows; ++i) keys.push_back({i, 0, i, 1});
    const Tensor tables = at::arange(blocks, at::TensorOptions(at::kInt).device(cuda_));
    const auto attend = [&](const Heads& from) {
      const KvCacheLayer layer{at::zeros({blocks, kv_heads, kBlockTokens * width}, all.options()),
                               at::zeros({blocks, kv_heads, kBlockTokens * width}, all.options())};
      const Tensor out = PagedAttention(to_tensor(keys).to(cuda_), tables).attend(layer, {.scale = 0.3}, from);
      return std::tuple(out, layer.keys, layer.values);
    };
    EXPECT_TRUE(std::get<0>(attend(given)).equal(std::get<0>(attend(given.rotated())))) << width;
    EXPECT_TRUE(std::get<1>(attend(given)).equal(std::get<1>(attend(given.rotated())))) << width;
    EXPECT_FALSE(std::get<1>(attend(given)).equal(std::get<1>(attend({given.query, given.key, given.value})))) << width;
  }
}

TEST_P(GpuKernels, TurnHeads) {
  for (const int64_t width : {4, 64, 128}) {
    const Tensor x = random({19, 3, width}, 1), angle = random_normal({19, width / 2}, 2);
    const Tensor wide = x.cpu().to(at::kDouble), c = angle.to(at::kDouble).cos().unsqueeze(1),
                 s = angle.to(at::kDouble).sin().unsqueeze(1);
    const Tensor first = wide.narrow(2, 0, width / 2), second = wide.narrow(2, width / 2, width / 2);
    const Tensor want = at::cat({first * c - second * s, second * c + first * s}, 2);
    EXPECT_LT(error(rotate(x, angle.cos().to(cuda_), angle.sin().to(cuda_)), want), tolerance(GetParam())) << width;
  }
}

/// A function of tensors, and its gradients for the `upstream` gradients of its results.
struct Gradients {
  std::vector<Tensor> of;
  Gradients(const std::vector<Tensor>& inputs, const std::vector<Tensor>& upstream,
            const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& function, at::ScalarType type,
            at::Device device) {
    const at::AutoGradMode learning(true);
    std::vector<Tensor> leaves;
    for (const Tensor& x : inputs) leaves.push_back(x.detach().to(device, type).clone().requires_grad_());
    const std::vector<Tensor> results = function(leaves);
    Tensor sum;
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor part = (results[i] * upstream[i].to(device, type)).sum();
      sum = sum.defined() ? sum + part : part;
    }
    sum.backward();
    for (const Tensor& leaf : leaves) of.push_back(leaf.grad().cpu().to(at::kDouble));
  }
};

TEST_P(GpuKernels, LayerGradients) {
  using Tensors = std::vector<Tensor>;
  const auto normed = [](const Tensor& x, const Tensor& weight) {
    return x / (x.square().mean(1, true) + 1e-5).sqrt() * weight;
  };
  const auto compare = [&](const char* name, const Tensors& inputs, const Tensors& upstream, const auto& ours,
                           const auto& plain) {
    const Gradients got(inputs, upstream, ours, GetParam(), cuda_),
        want(inputs, upstream, plain, at::kDouble, at::kCPU);
    for (size_t i = 0; i < inputs.size(); ++i)
      EXPECT_LT(relative_difference(got.of[i], want.of[i]), 3 * tolerance(GetParam())) << name << ", input " << i;
  };
  for (const int64_t width : {33, 64, 896, 4864}) {
    // More rows than one thread block.
    const Tensor x = random({1300, width}, 1) * 3, added = random({1300, width}, 2), weight = random({width}, 3);
    const Tensor first = random({1300, width}, 4), second = random({1300, width}, 5);
    compare(
        "norm", {x, weight}, {first}, [](const Tensors& t) { return Tensors{rms_norm(t[0], t[1], 1e-5)}; },
        [&](const Tensors& t) { return Tensors{normed(t[0], t[1])}; });
    compare(
        "norm of a sum", {x, added, weight}, {first, second},
        [](const Tensors& t) {
          const NormedSum both = add_and_norm(t[0], t[1], t[2], 1e-5);
          return Tensors{both.sum, both.normed};
        },
        [&](const Tensors& t) {
          // The norm's input is the rounded sum, which the gradients ignore.
          const Tensor sum = t[0] + t[1], seen = sum + (sum.detach().to(GetParam()).to(at::kDouble) - sum.detach());
          return Tensors{sum, normed(seen, t[2])};
        });
    compare(
        "SwiGLU", {x, added}, {first}, [](const Tensors& t) { return Tensors{gated(Activation::kSilu, t[0], t[1])}; },
        [](const Tensors& t) { return Tensors{t[0] * t[0].sigmoid() * t[1]}; });
  }
  const Tensor angle = random_normal({1300, 32}, 6), heads = random({1300, 3, 64}, 7);
  compare(
      "rotation", {heads}, {random({1300, 3, 64}, 8)},
      [&](const Tensors& t) { return Tensors{rotate(t[0], angle.cos().to(cuda_), angle.sin().to(cuda_))}; },
      [&](const Tensors& t) {
        const Tensor c = angle.to(at::kDouble).cos().unsqueeze(1), s = angle.to(at::kDouble).sin().unsqueeze(1);
        const Tensor a = t[0].narrow(2, 0, 32), b = t[0].narrow(2, 32, 32);
        return Tensors{at::cat({a * c - b * s, b * c + a * s}, 2)};
      });
}

TEST_P(GpuKernels, RowGradientsDoNotDependOnAFrozenNormWeight) {
  const Tensor x = random({300, 896}, 1), added = random({300, 896}, 2), weight = random({896}, 3),
               direction = random({300, 896}, 4);
  const at::AutoGradMode learning(true);
  const auto gradients = [&](bool learns) {
    const Tensor rows = x.clone().requires_grad_(), more = added.clone().requires_grad_(),
                 factor = weight.clone().requires_grad_(learns);
    rms_norm(add_and_norm(rows, more, factor, 1e-5).normed, factor, 1e-5).backward(direction);
    EXPECT_EQ(factor.grad().defined(), learns);
    return at::cat({rows.grad(), more.grad()});
  };
  EXPECT_TRUE(gradients(false).equal(gradients(true)));
}

TEST_P(GpuKernels, LmHeadGradients) {
  for (const int64_t vocab : {37, 500, 5000}) {
    const int64_t rows = 45, width = 64;
    const Tensor hidden = random({rows, width}, 1), weight = random({vocab, width}, 2);
    const Tensor targets = (at::arange(rows, at::kLong) * 31 + 7) % vocab, c = random_normal({rows}, 3),
                 e = random_normal({rows}, 4) * 0.1;
    const at::AutoGradMode learning(true);
    const Tensor h = hidden.cpu().to(at::kDouble).requires_grad_(), w = weight.cpu().to(at::kDouble).requires_grad_();
    const Tensor logp = at::log_softmax(h.matmul(w.t()) / 0.8, 1);
    const Tensor loss = -(logp.gather(1, targets.unsqueeze(1)).squeeze(1) * c.to(at::kDouble)).sum() +
                        ((logp.exp() * logp).sum(1) * e.to(at::kDouble)).sum();
    loss.backward();
    const Weight learned(weight);
    const GradientSinks gradients({{"weight", learned}});
    const Tensor got =
        LmHead(learned, {.temperature = 0.8, .chunk_rows = 16})
            .backward(hidden, targets.to(cuda_), Scope::kToken, [&](const TokenStats&, int64_t begin, int64_t end) {
              const auto part = [&](const Tensor& x) { return x.narrow(0, begin, end - begin).to(cuda_); };
              return HeadCoefficients{part(c), part(e)};
            });
    EXPECT_LT(error(got, h.grad()), tolerance(GetParam())) << vocab;
    EXPECT_LT(error(gradients.sums()[0], w.grad()), tolerance(GetParam())) << vocab;
  }
}

TEST_P(GpuKernels, PackedAttentionWithSharedPrompts) {
  if (GetParam() == at::kFloat) GTEST_SKIP() << "flash attention takes narrow numbers";
  const AttentionConfig attention{.scale = 0.2};
  // Two prompts with interleaved completions, a prompt without completions, a completion of one token, and one with
  // its own prompt.
  const std::vector<Segment> segments = {{0, 40, 0, 0},   {40, 33, 0, 40},  {73, 7, 0, 0},  {80, 90, 73, 7},
                                         {170, 1, 0, 40}, {171, 64, 0, 40}, {235, 5, 0, 0}, {240, 12, 73, 7},
                                         {252, 9, 0, 0},  {261, 30, 252, 9}};
  const int64_t tokens = 291, heads = 6, kv_heads = 2;
  for (const int64_t width : {64, 128, 24}) {
    ASSERT_TRUE(PackedFlashAttention::supports(attention, cuda_, GetParam(), width));
    const at::AutoGradMode with_gradients(true);
    std::vector<Tensor> mine, wide;
    for (const int64_t count : {heads, kv_heads, kv_heads}) {
      mine.push_back(random({tokens, count, width}, 5 + mine.size()).requires_grad_());
      wide.push_back(mine.back().detach().cpu().to(at::kDouble).requires_grad_());
    }
    const Tensor got = PackedFlashAttention(segments, cuda_)(attention, mine[0], mine[1], mine[2]);
    const Tensor want = PackedAttention(segments, tokens, 0, at::kCPU)(attention, wide[0], wide[1], wide[2]);
    const Tensor direction = random({tokens, heads, width}, 9);
    got.backward(direction);
    want.backward(direction.cpu().to(at::kDouble));
    const auto apart = [](const Tensor& a, const Tensor& b) {
      return ((a.cpu().to(at::kDouble) - b).norm() / b.norm()).item<double>();
    };
    EXPECT_LT(apart(got.detach(), want.detach()), 2 * tolerance(GetParam())) << width;
    for (size_t i = 0; i < mine.size(); ++i)
      EXPECT_LT(apart(mine[i].grad(), wide[i].grad()), 3 * tolerance(GetParam())) << width << ", " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuKernels, testing::Values(at::kFloat, at::kBFloat16, at::kHalf));

}  // namespace
}  // namespace keel
