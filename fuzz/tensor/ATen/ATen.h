#pragma once

// Takes the place of LibTorch in the fuzz targets, which only read numbers into memory: a build without it runs on any
// machine, and the sanitizers see every byte of a tensor.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace at {

enum class ScalarType { Float };
constexpr ScalarType kFloat = ScalarType::Float;

class Tensor {
 public:
  explicit Tensor(size_t numel) : numel_(numel), numbers_(new float[numel]) {}
  int64_t numel() const { return static_cast<int64_t>(numel_); }
  template <class Number>
  Number* mutable_data_ptr() const {
    return numbers_.get();
  }

 private:
  size_t numel_;
  std::shared_ptr<float[]> numbers_;
};

inline Tensor empty(const std::vector<int64_t>& shape, ScalarType) {
  size_t numel = 1;
  for (const int64_t size : shape) numel *= static_cast<size_t>(size);
  return Tensor(numel);
}

}  // namespace at
