#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <iostream>

/// Without a GPU, skips all tests with CTest's return code for "skipped".
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!at::hasCUDA()) {
    std::cout << "skipped: LibTorch sees no CUDA device here\n";
    return 77;
  }
  return RUN_ALL_TESTS();
}
