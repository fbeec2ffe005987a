# LibTorch as the target keel::torch, from the folders of the package.
#
# TorchConfig.cmake is not used, since it requires a CUDA toolkit for a CUDA build of torch. Without a toolkit, Keel builds
# for the CPU.

set(KEEL_TORCH "" CACHE PATH "Folder of a torch package or of an unpacked libtorch (with include/ and lib/)")
include(${CMAKE_CURRENT_LIST_DIR}/TorchFolder.cmake)
keel_find_torch()
if(NOT KEEL_TORCH_FOLDER)
  message(FATAL_ERROR "No LibTorch from 2.11 on was found (KEEL_TORCH, CMAKE_PREFIX_PATH, .deps/venv, python3).\n"
                      "Run scripts/bootstrap.sh, or set KEEL_TORCH to a torch package folder.")
endif()
set(KEEL_TORCH_FOLDER "${KEEL_TORCH_FOLDER}" CACHE INTERNAL "The LibTorch this build folder uses")

set(torch_lib "${KEEL_TORCH_FOLDER}/lib")
set(torch_libraries "${torch_lib}/libtorch.so" "${torch_lib}/libtorch_cpu.so" "${torch_lib}/libc10.so")
set(KEEL_TORCH_HAS_CUDA OFF)
if(EXISTS "${torch_lib}/libtorch_cuda.so")
  set(KEEL_TORCH_HAS_CUDA ON)
  list(APPEND torch_libraries "${torch_lib}/libtorch_cuda.so" "${torch_lib}/libc10_cuda.so")
endif()

add_library(keel_torch INTERFACE)
add_library(keel::torch ALIAS keel_torch)
target_include_directories(keel_torch SYSTEM INTERFACE "${KEEL_TORCH_FOLDER}/include"
                           "${KEEL_TORCH_FOLDER}/include/torch/csrc/api/include")
# --no-as-needed: libtorch_cuda registers the CUDA backend when loaded, although none of its symbols are used.
# --allow-shlib-undefined: its dependencies (cuBLAS, ...) are found by its run path, not by the linker.
target_link_options(keel_torch INTERFACE "LINKER:--allow-shlib-undefined")
target_link_libraries(keel_torch INTERFACE "-Wl,--push-state,--no-as-needed" ${torch_libraries} "-Wl,--pop-state"
                      "-Wl,-rpath,${torch_lib}")
message(STATUS "LibTorch ${KEEL_TORCH_VERSION} in ${KEEL_TORCH_FOLDER} (CUDA build: ${KEEL_TORCH_HAS_CUDA})")
