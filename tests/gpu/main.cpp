#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <iostream>

/// Skips everything, with the return code CTest takes for "skipped", where there is no GPU.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!at::hasCUDA()) {
    std::cout << "skipped: LibTorch sees no CUDA device here\n";
    return 77;
  }
  return RUN_ALL_TESTS();
}
