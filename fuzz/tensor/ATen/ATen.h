#pragma once

// Replaces LibTorch in the fuzz targets, which only fill tensors: builds run on any machine, and sanitizers check every
// byte of a tensor.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace at {

enum class ScalarType { Double, Float, Half, BFloat16, Long, Int, Short, Char, Byte, Bool, Float8_e4m3fn, Float8_e5m2 };
constexpr ScalarType kDouble = ScalarType::Double, kFloat = ScalarType::Float, kHalf = ScalarType::Half,
                     kBFloat16 = ScalarType::BFloat16, kLong = ScalarType::Long, kInt = ScalarType::Int,
                     kShort = ScalarType::Short, kChar = ScalarType::Char, kByte = ScalarType::Byte,
                     kBool = ScalarType::Bool, kFloat8_e4m3fn = ScalarType::Float8_e4m3fn,
                     kFloat8_e5m2 = ScalarType::Float8_e5m2;

inline size_t elementSize(ScalarType dtype) {
  if (dtype == kDouble || dtype == kLong) return 8;
  if (dtype == kFloat || dtype == kInt) return 4;
  return dtype == kHalf || dtype == kBFloat16 || dtype == kShort ? 2 : 1;
}

struct TensorOptions {
  ScalarType type = kFloat;
  TensorOptions dtype(ScalarType wanted) const { return {wanted}; }
};

/// Memory with a dtype and without a shape, which the code under test checks itself.
class Tensor {
 public:
  Tensor(size_t numel, ScalarType dtype, std::shared_ptr<std::byte[]> bytes)
      : numel_(numel), dtype_(dtype), bytes_(std::move(bytes)) {}
  int64_t numel() const { return static_cast<int64_t>(numel_); }
  size_t nbytes() const { return numel_ * elementSize(dtype_); }
  void* mutable_data_ptr() const { return bytes_.get(); }
  template <class Number>
  Number* mutable_data_ptr() const {
    return reinterpret_cast<Number*>(bytes_.get());
  }
  Tensor view(const std::vector<int64_t>&) const { return *this; }
  Tensor to(ScalarType dtype) const {
    Tensor other(numel_, dtype, std::make_unique<std::byte[]>(numel_ * elementSize(dtype)));
    return other.copy_(*this);
  }
  Tensor narrow(int64_t, int64_t start, int64_t count) const {
    if (start < 0 || count < 0 || start + count > numel()) std::abort();
    return {
        static_cast<size_t>(count), dtype_, {bytes_, bytes_.get() + start * static_cast<int64_t>(elementSize(dtype_))}};
  }
  /// Touches the memory of every element; converted values do not matter.
  const Tensor& copy_(const Tensor& from) const {
    if (from.numel_ != numel_) std::abort();
    const size_t width = std::min(elementSize(dtype_), elementSize(from.dtype_));
    for (size_t i = 0; i < numel_; ++i) {
      std::memcpy(&bytes_[i * elementSize(dtype_)], &from.bytes_[i * elementSize(from.dtype_)], width);
    }
    return *this;
  }

 private:
  size_t numel_;
  ScalarType dtype_;
  std::shared_ptr<std::byte[]> bytes_;
};

inline size_t product(const std::vector<int64_t>& shape) {
  size_t numel = 1;
  for (const int64_t size : shape) numel *= static_cast<size_t>(size);
  return numel;
}

inline Tensor empty(const std::vector<int64_t>& shape, TensorOptions options) {
  // Uninitialised, as in LibTorch.
  const size_t numel = product(shape);
  return {numel, options.type, std::shared_ptr<std::byte[]>(new std::byte[numel * elementSize(options.type)])};
}
inline Tensor empty(const std::vector<int64_t>& shape, ScalarType dtype) { return empty(shape, TensorOptions{dtype}); }

inline Tensor from_blob(void* memory, const std::vector<int64_t>& shape, const std::function<void(void*)>& release,
                        TensorOptions options) {
  return {product(shape), options.type, std::shared_ptr<std::byte[]>(static_cast<std::byte*>(memory), release)};
}

struct NoGradGuard {
  NoGradGuard() {}
};

}  // namespace at

namespace c10 {
using at::elementSize;
inline const char* toString(at::ScalarType) { return "a type"; }
}  // namespace c10
